//! How long a product lasts under a load, with stated uncertainty, how full it is, and a verdict in words.
//!
//! Median years = P/E cycles × media × wear-levelling efficiency / (host bytes per day × WAF × 365). The uncertainty is
//! log-normal: relative deviations of the P/E rating, of the write amplification over the run and of the future load
//! add in quadrature. P10 and P90 are 1.2816 standard deviations away.
//!
//! The simulated drive is smaller than the product: its capacity is cut until the workload fills the drive. Years are
//! for a product as full as the simulated drive, at any load, so lives under one workload are comparable. A nearly
//! empty product relocates nothing and lasts longer. [`Life::range`] has both ends, and the verdict reports how full
//! the product is.
//!
//! If the maker's rating is below the endurance of the flash, the verdict uses the rating.

use thermocline_nand::Profile;
use thermocline_nand::profile::Wear;
use thermocline_record::{Life, LifeAt};
use thermocline_types::Bytes;

use crate::theory::lifetime::{Endurance, Warranty};

/// Share of the P/E cycles that wear levelling makes usable. Chosen, not measured.
pub const LEVELLING_EFFICIENCY: f64 = 0.95;
/// Relative standard deviation of P/E ratings between what makers state or we derive and what drives take. Chosen.
const RATING_DEVIATION: f64 = 0.2;
/// Relative standard deviation of next year's load against today's. Chosen.
pub const LOAD_DEVIATION: f64 = 0.2;
/// The 90th percentile of the standard normal distribution.
pub const Z90: f64 = 1.2816;
/// Beyond this many times the warranty, wear is no concern.
const PLENTY: f64 = 2.0;
/// Longest life told in years; the electronics go first.
const LONGEST_YEARS: f64 = 1000.0;
/// How full most people run a drive. Chosen.
const USUAL: f64 = 0.8;
/// Lives that differ by less than this share are the same.
const SAME: f64 = 0.05;

/// How much is written per day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Bytes per day to the product, as given.
    Daily(Bytes),
    /// Bytes per day to the product: the trace's own pace.
    Measured(Bytes),
    /// Capacities of the drive per day, because nothing else is known.
    Assumed(f64),
}

/// The write amplification that was measured, on the cells beside an SLC cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Media / host on the simulated drive.
    pub waf: f64,
    /// The same without what was relocated.
    pub without_relocation: f64,
    /// Bytes written to an SLC cache of its own units, over bytes of the host; none without one.
    pub cached: Option<f64>,
    /// Relative standard deviation of both.
    pub deviation: f64,
    /// Bytes of data that the workload has.
    pub data: Bytes,
    /// Capacity of the simulated drive.
    pub simulated: Bytes,
}

impl Measured {
    /// How full the simulated drive was.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        (self.data.as_f64() / self.simulated.as_f64()).min(1.0)
    }
}

/// What the flash of the product behind `profile` can take, where its P/E cycles are known.
#[must_use]
pub fn media_endurance(profile: &Profile) -> Option<Endurance> {
    let physical = profile.capacity.as_f64() * (1.0 + profile.overprovisioning());
    profile.wear.pe_cycles.map(|pe_cycles| Endurance {
        pe_cycles,
        physical: Bytes(physical as u64),
        wear_levelling_efficiency: LEVELLING_EFFICIENCY,
    })
}

/// Bytes of the host that its maker rates the product for, where stated.
#[must_use]
pub fn rated_bytes(profile: &Profile) -> Option<f64> {
    let (years, dwpd) = profile.wear.warranty_years.zip(profile.wear.rated_dwpd)?;
    Some(Warranty { capacity: profile.capacity, years }.host_bytes(dwpd))
}

/// Bytes of the host until the units of the SLC cache's own are worn out, where their cycles are known and they are
/// written to.
fn cache_bytes(profile: &Profile, measured: &Measured) -> Option<f64> {
    let slc = profile.slc.as_ref()?;
    let (pe_cycles, written) = slc.pe_cycles.zip(measured.cached.filter(|&share| share > 0.0))?;
    let endurance = Endurance {
        pe_cycles,
        physical: slc.capacity,
        wear_levelling_efficiency: LEVELLING_EFFICIENCY,
    };
    Some(endurance.host_bytes(written))
}

/// The life of the product behind `profile` at the write amplification `measured` under `load`. `None` if the endurance
/// of the media is unknown.
#[must_use]
pub fn life(profile: &Profile, measured: &Measured, load: Load) -> Option<Life> {
    let wear = &profile.wear;
    let capacity = profile.capacity;
    let rated = rated_bytes(profile);
    let media = media_endurance(profile);
    let dwpd = match load {
        Load::Daily(bytes) | Load::Measured(bytes) => bytes.as_f64() / capacity.as_f64(),
        Load::Assumed(dwpd) => dwpd,
    };
    let cached = cache_bytes(profile, measured);
    let tbw = |waf| {
        let cells = media.map(|media| media.host_bytes(waf)).or(rated);
        cells.map(|cells| cached.map_or(cells, |cached| cells.min(cached)))
    };
    let at = |(product_utilisation, waf)| {
        let median = (tbw(waf)? / (dwpd * capacity.as_f64() * 365.0)).min(LONGEST_YEARS);
        let deviations = [RATING_DEVIATION, LOAD_DEVIATION, measured.deviation];
        let spread = (Z90 * deviations.map(|share| share * share).iter().sum::<f64>().sqrt()).exp();
        Some(LifeAt {
            product_utilisation,
            waf,
            years_p10: median / spread,
            years_p50: median,
            years_p90: (median * spread).min(LONGEST_YEARS),
        })
    };
    let told = at((measured.utilisation(), measured.waf))?;
    let range = vec![at((0.0, measured.without_relocation))?, told.clone()];
    let life = Life {
        years_p10: told.years_p10,
        years_p50: told.years_p50,
        years_p90: told.years_p90,
        drive_writes_per_day: dwpd,
        product_utilisation: Some(told.product_utilisation),
        waf: Some(told.waf),
        range,
        tbw_bytes: tbw(told.waf)?,
        rated_tbw_bytes: rated,
        warranty_years: wear.warranty_years,
        verdict: String::new(),
        assumptions: assumptions(profile, measured, load),
    };
    let rated_years = rated.map(|rated| rated / (dwpd * capacity.as_f64() * 365.0));
    let own =
        matches!(load, Load::Measured(_)).then_some(measured.data.as_f64() / capacity.as_f64());
    let verdict = format!(
        "with the product {} full: {}; {}",
        percent(told.product_utilisation),
        verdict(&life, wear, rated_years),
        fullness(&life, own)
    );
    Some(Life { verdict, ..life })
}

fn assumptions(profile: &Profile, measured: &Measured, load: Load) -> Vec<String> {
    let endurance = match profile.wear.pe_cycles {
        Some(cycles) => {
            let source = profile.source.get("wear.pe_cycles").or(profile.source.get("wear"));
            let source = source.map_or(String::new(), |source| format!(" ({source})"));
            format!(
                "{cycles} program/erase cycles, deviation {:.0} %{source}",
                RATING_DEVIATION * 100.0
            )
        }
        None => {
            "the maker's rating in drive writes per day, because no P/E cycles are known".into()
        }
    };
    let load = match load {
        Load::Daily(bytes) => format!("{bytes} written per day, as given"),
        Load::Measured(bytes) => format!(
            "{bytes} written per day, the trace's own pace kept up day and night ({:.2} drive writes per day of a drive of {})",
            bytes.as_f64() / profile.capacity.as_f64(),
            profile.capacity
        ),
        Load::Assumed(dwpd) => {
            format!("{dwpd} drive writes per day assumed; give `daily_writes` for your own load")
        }
    };
    let simulated = format!(
        "on the simulated drive of {}, {} full of the workload's data",
        measured.simulated,
        percent(measured.utilisation())
    );
    let waf = format!("write amplification {:.3}, as measured {simulated}", measured.waf);
    let cells = cache_bytes(profile, measured).map(|bytes| {
        format!(
            "the SLC cache's own units take {:.0} TB of the host's (slc.pe_cycles)",
            bytes / 1e12
        )
    });
    let counted = profile.slc.as_ref().map(|_| {
        "write amplification here is that of the cells beside the SLC cache's own; a cycle in SLC mode wears as any".to_owned()
    });
    let all = vec![
        endurance,
        load,
        format!("the load stays as it is, deviation {:.0} % a year", LOAD_DEVIATION * 100.0),
        format!("{waf}; deviation {:.0} %", measured.deviation * 100.0),
        format!("wear levelling makes {:.0} % of the cycles usable", LEVELLING_EFFICIENCY * 100.0),
    ];
    all.into_iter().chain(counted).chain(cells).collect()
}

/// How long the product lasts nearly empty, as it is where the workload's `own` data is a small share of it.
fn fullness(life: &Life, own: Option<f64>) -> String {
    let [empty, full] = &life.range[..] else { unreachable!("both ends are known") };
    if empty.years_p50 <= full.years_p50 * (1.0 + SAME) {
        return "the same however full".to_owned();
    }
    let against = match life.warranty_years {
        Some(warranty) if empty.years_p50 >= warranty && full.years_p50 < warranty => {
            format!(", beyond its warranty of {warranty} years")
        }
        _ => String::new(),
    };
    let own = own.filter(|own| *own < full.product_utilisation).map_or(String::new(), |own| {
        format!(" (this workload alone makes it {} full)", percent(own))
    });
    let usual = match full.product_utilisation > USUAL {
        true => format!("; `utilisation` {USUAL} tells of one that is {} full", percent(USUAL)),
        false => String::new(),
    };
    format!("nearly empty{own} it would last {}{against}{usual}", in_years(empty.years_p50))
}

/// Formats a share with only the significant digits.
fn percent(share: f64) -> String {
    match 100.0 * share {
        percent if percent < 0.01 => "less than 0.01 %".into(),
        percent if percent < 1.0 => format!("{percent:.2} %"),
        percent if percent < 10.0 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// The finding in words; `rated_years` is how long the maker's rating lasts.
fn verdict(life: &Life, wear: &Wear, rated_years: Option<f64>) -> String {
    let Some(warranty) = wear.warranty_years else {
        return format!("wears out in {} (median)", in_years(life.years_p50));
    };
    let (p10, p50) = (in_years(life.years_p10), in_years(life.years_p50));
    if let Some(rated) = rated_years.filter(|&rated| rated < warranty && rated <= life.years_p50) {
        let tbw = life.rated_tbw_bytes.unwrap_or(0.0) / 1e12;
        let excess = warranty / rated;
        return format!(
            "beyond the rating: the maker's {tbw:.0} TBW are used up in {}, before the warranty of {warranty} years ends; it \
             takes {excess:.1} times fewer writes, or a drive of higher endurance; the flash itself lasts {p50}, {p10} at \
             the 10th percentile",
            in_years(rated)
        );
    }
    if life.years_p10 >= PLENTY * warranty {
        format!(
            "nothing needed: {p50} of wear left, {p10} at the 10th percentile, against a warranty of {warranty} years"
        )
    } else if life.years_p10 >= warranty {
        format!(
            "no action needed within the warranty of {warranty} years: it wears out in {p50}, {p10} at the 10th percentile"
        )
    } else if life.years_p50 >= warranty {
        format!(
            "at risk: {p50} in the median, but {p10} at the 10th percentile, short of the warranty of {warranty} years; lower \
             the write amplification or watch the wear"
        )
    } else {
        let excess = warranty / life.years_p50;
        format!(
            "not enough: worn out in {p50}, within the warranty of {warranty} years; it takes {excess:.1} times less wear \
             (lower write amplification, fewer writes or a drive of higher endurance)"
        )
    }
}

fn in_years(years: f64) -> String {
    if years >= LONGEST_YEARS {
        "over 1000 years".to_owned()
    } else if years >= 10.0 {
        format!("{years:.0} years")
    } else if years < 1.0 {
        format!("{years:.2} years")
    } else {
        format!("{years:.1} years")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_nand::profile::builtin;

    fn p5316() -> Profile {
        Profile::from_toml("p5316", builtin("p5316").unwrap()).unwrap()
    }

    /// As measured on a drive that the workload fills, a small part of the product; two thirds of the rest is
    /// relocation.
    fn measured(waf: f64) -> Measured {
        let (data, simulated) = (Bytes::gib(1), Bytes::gib(1));
        Measured {
            waf,
            without_relocation: 1.0 + (waf - 1.0) / 3.0,
            cached: None,
            deviation: 0.0,
            data,
            simulated,
        }
    }

    #[test]
    fn the_rating_comes_back_at_the_rated_workload() {
        // 0.41 DWPD at write amplification 4.1 (64 KiB random) for 5 years, times wear-levelling efficiency.
        let life = life(&p5316(), &measured(4.1), Load::Assumed(0.41)).unwrap();
        assert!((life.years_p50 / (5.0 * LEVELLING_EFFICIENCY) - 1.0).abs() < 0.02, "{life:?}");
        assert!(life.years_p10 < life.years_p50 && life.years_p50 < life.years_p90);
        assert!(life.verdict.contains("full: not enough"), "{}", life.verdict);
    }

    #[test]
    fn verdicts_follow_the_margin() {
        for (dwpd, start) in [
            (0.01, "nothing needed"),
            (0.22, "no action needed"),
            (0.35, "at risk"),
            (2.0, "not enough"),
        ] {
            let life = life(&p5316(), &measured(4.1), Load::Assumed(dwpd)).unwrap();
            assert!(
                life.verdict.contains(&format!("100 % full: {start}")),
                "{dwpd}: {}",
                life.verdict
            );
        }
    }

    #[test]
    fn a_rating_used_up_early_is_said_even_if_the_flash_lasts() {
        // Rated 0.41 drive writes per day for 5 years; at 0.5 a day and little write amplification the flash lasts.
        let life = life(&p5316(), &measured(1.0), Load::Assumed(0.5)).unwrap();
        assert!(
            life.years_p10 > 5.0 && life.verdict.contains("full: beyond the rating"),
            "{}",
            life.verdict
        );
        assert!(life.verdict.contains("used up in 4.1 years"), "{}", life.verdict);
    }

    #[test]
    fn years_fall_with_write_amplification_and_load() {
        let years = |waf, load| life(&p5316(), &measured(waf), load).unwrap().years_p50;
        let daily = Load::Daily(Bytes(1_536_000_000_000));
        assert!((years(2.0, daily) / years(1.0, daily) - 0.5).abs() < 1e-9);
        assert!((years(1.0, daily) / years(1.0, Load::Assumed(0.1)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn unknown_endurance_gives_no_life() {
        let ideal = Profile::from_toml("ideal", builtin("ideal").unwrap()).unwrap();
        assert_eq!(life(&ideal, &measured(1.0), Load::Assumed(1.0)), None);
    }

    #[test]
    fn a_trace_that_leaves_the_product_nearly_empty_is_judged_by_a_full_one_first() {
        // 1 GiB of data on 15.36 TB, written 24 times a second over: what a minute of fio on a fast drive looks like.
        let load = Load::Measured(Bytes((0.35 * 15.36e12) as u64));
        let found = life(&p5316(), &measured(4.1), load).unwrap();
        let [empty, full] = &found.range[..] else { panic!("{found:?}") };
        assert!((found.waf.unwrap() - full.waf).abs() < 1e-9 && empty.waf < full.waf, "{found:?}");
        assert!((found.years_p50 - full.years_p50).abs() < 1e-9);
        // As a load of the same bytes that is given.
        let given = life(&p5316(), &measured(4.1), Load::Assumed(0.35)).unwrap();
        assert!((given.years_p50 / found.years_p50 - 1.0).abs() < 1e-6);
        assert!(found.verdict.contains("full: at risk"), "{}", found.verdict);
        let told = "nearly empty (this workload alone makes it less than 0.01 % full) it would last 11 years; `utilisation` \
                    0.8 tells of one that is 80 % full";
        assert!(found.verdict.ends_with(told), "{}", found.verdict);
    }

    /// Micron rates its 2300 of 1 TB for 600 TBW in five years.
    #[test]
    fn the_makers_rating_goes_before_the_flash() {
        let micron = Profile::from_toml("micron2300", builtin("micron2300").unwrap()).unwrap();
        let rated = rated_bytes(&micron).unwrap() / 1e12;
        let daily = Bytes((rated * 1e12 / 365.0 / 0.67) as u64);
        let found = life(&micron, &measured(1.8), Load::Measured(daily)).unwrap();
        let told = format!(
            "full: beyond the rating: the maker's {rated:.0} TBW are used up in 0.67 years"
        );
        assert!(found.verdict.contains(&told), "{}", found.verdict);
        assert!(found.years_p50 < 5.0 && found.verdict.contains("7.5 times fewer writes"));
    }

    #[test]
    fn a_load_for_the_whole_product_is_for_one_as_full_as_the_simulated_drive() {
        for load in [Load::Daily(Bytes(5_400_000_000_000)), Load::Assumed(0.35)] {
            let half = Measured { simulated: Bytes::gib(2), ..measured(4.1) };
            let life = life(&p5316(), &half, load).unwrap();
            assert!((life.waf.unwrap() - 4.1).abs() < 1e-9, "{life:?}");
            assert!((life.product_utilisation.unwrap() - 0.5).abs() < 1e-9);
            assert!(life.verdict.starts_with("with the product 50 % full: "), "{}", life.verdict);
            assert!(life.verdict.contains("nearly empty it would last"), "{}", life.verdict);
            assert!(!life.verdict.contains("`utilisation`"), "it is given: {}", life.verdict);
        }
    }

    #[test]
    fn what_relocates_nothing_lasts_the_same_however_full() {
        let life = life(&p5316(), &measured(1.0), Load::Assumed(0.1)).unwrap();
        assert!(life.verdict.ends_with("the same however full"), "{}", life.verdict);
    }
}
