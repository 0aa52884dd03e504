//! How long a drive lasts under a load, with stated uncertainty and a verdict in words.
//!
//! Median years = P/E cycles × media × wear-levelling efficiency / (host bytes per day × WAF × 365). The uncertainty is
//! log-normal: relative deviations of the P/E rating, of the write amplification over the run and of the future load
//! add in quadrature. P10 and P90 are 1.2816 standard deviations away.

use thermocline_nand::Profile;
use thermocline_nand::profile::Wear;
use thermocline_record::Life;
use thermocline_types::Bytes;

use crate::theory::lifetime::{Endurance, Warranty};

/// Share of the P/E cycles that wear levelling makes usable. Chosen, not measured.
const LEVELLING_EFFICIENCY: f64 = 0.95;
/// Relative standard deviation of P/E ratings between what makers state or we derive and what drives take. Chosen.
const RATING_DEVIATION: f64 = 0.2;
/// Relative standard deviation of next year's load against today's. Chosen.
const LOAD_DEVIATION: f64 = 0.2;
/// The 90th percentile of the standard normal distribution.
const Z90: f64 = 1.2816;
/// Beyond this many times the warranty, wear is no concern.
const PLENTY: f64 = 2.0;
/// Longest life told in years; the electronics go first.
const LONGEST_YEARS: f64 = 1000.0;

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

/// The life of the product behind `profile` at write amplification `waf`, known to a relative deviation
/// `waf_deviation`. Nothing for media whose endurance is unknown.
#[must_use]
pub fn life(profile: &Profile, waf: f64, waf_deviation: f64, load: Load) -> Option<Life> {
    let wear = &profile.wear;
    let capacity = profile.capacity;
    let warranty = wear.warranty_years.map(|years| Warranty { capacity, years });
    let rated = warranty.zip(wear.rated_dwpd).map(|(warranty, dwpd)| warranty.host_bytes(dwpd));
    let tbw = match wear.pe_cycles {
        Some(pe_cycles) => {
            let physical = Bytes((capacity.as_f64() * (1.0 + profile.overprovisioning())) as u64);
            let wear_levelling_efficiency = LEVELLING_EFFICIENCY;
            Endurance { pe_cycles, physical, wear_levelling_efficiency }.host_bytes(waf)
        }
        None => rated?,
    };
    let dwpd = match load {
        Load::Daily(bytes) | Load::Measured(bytes) => bytes.as_f64() / capacity.as_f64(),
        Load::Assumed(dwpd) => dwpd,
    };
    let median = (tbw / (dwpd * capacity.as_f64() * 365.0)).min(LONGEST_YEARS);
    let deviation =
        (RATING_DEVIATION.powi(2) + LOAD_DEVIATION.powi(2) + waf_deviation.powi(2)).sqrt();
    let spread = (Z90 * deviation).exp();
    let life = Life {
        years_p10: median / spread,
        years_p50: median,
        years_p90: (median * spread).min(LONGEST_YEARS),
        drive_writes_per_day: dwpd,
        tbw_bytes: tbw,
        rated_tbw_bytes: rated,
        warranty_years: wear.warranty_years,
        verdict: String::new(),
        assumptions: assumptions(profile, waf_deviation, load, dwpd),
    };
    let rated_years = rated.map(|rated| rated / (dwpd * capacity.as_f64() * 365.0));
    Some(Life { verdict: verdict(&life, wear, rated_years), ..life })
}

fn assumptions(profile: &Profile, waf_deviation: f64, load: Load, dwpd: f64) -> Vec<String> {
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
            "{bytes} written per day, the trace's own pace kept up day and night ({dwpd:.2} drive writes per day of a drive of {})",
            profile.capacity
        ),
        Load::Assumed(_) => {
            format!("{dwpd} drive writes per day assumed; give --daily-writes for your own load")
        }
    };
    vec![
        endurance,
        load,
        format!("the load stays as it is, deviation {:.0} % a year", LOAD_DEVIATION * 100.0),
        format!("write amplification as measured, deviation {:.0} %", waf_deviation * 100.0),
        format!("wear levelling makes {:.0} % of the cycles usable", LEVELLING_EFFICIENCY * 100.0),
    ]
}

/// The finding in words; `rated_years` is how long the maker's rating lasts.
fn verdict(life: &Life, wear: &Wear, rated_years: Option<f64>) -> String {
    let Some(warranty) = wear.warranty_years else {
        return format!("wears out in {} (median)", in_years(life.years_p50));
    };
    let (p10, p50) = (in_years(life.years_p10), in_years(life.years_p50));
    if let Some(rated) = rated_years.filter(|&rated| rated < warranty && life.years_p10 >= warranty)
    {
        let tbw = life.rated_tbw_bytes.unwrap_or(0.0) / 1e12;
        return format!(
            "beyond the rating: the flash lasts {p50}, {p10} at the 10th percentile, but the maker's {tbw:.0} TBW are used up \
             in {}, before the warranty of {warranty} years ends",
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

    #[test]
    fn the_rating_comes_back_at_the_rated_workload() {
        // 0.41 DWPD at write amplification 4.1 (64 KiB random) for 5 years, times wear-levelling efficiency.
        let life = life(&p5316(), 4.1, 0.0, Load::Assumed(0.41)).unwrap();
        assert!((life.years_p50 / (5.0 * LEVELLING_EFFICIENCY) - 1.0).abs() < 0.02, "{life:?}");
        assert!(life.years_p10 < life.years_p50 && life.years_p50 < life.years_p90);
        assert!(life.verdict.starts_with("not enough"), "{}", life.verdict);
    }

    #[test]
    fn verdicts_follow_the_margin() {
        for (dwpd, start) in [
            (0.01, "nothing needed"),
            (0.22, "no action needed"),
            (0.35, "at risk"),
            (2.0, "not enough"),
        ] {
            let life = life(&p5316(), 4.1, 0.0, Load::Assumed(dwpd)).unwrap();
            assert!(life.verdict.starts_with(start), "{dwpd}: {}", life.verdict);
        }
    }

    #[test]
    fn a_rating_used_up_early_is_said_even_if_the_flash_lasts() {
        // Rated 0.41 drive writes per day for 5 years; at 0.5 a day and little write amplification the flash lasts.
        let life = life(&p5316(), 1.0, 0.0, Load::Assumed(0.5)).unwrap();
        assert!(
            life.years_p10 > 5.0 && life.verdict.starts_with("beyond the rating"),
            "{}",
            life.verdict
        );
        assert!(life.verdict.contains("used up in 4.1 years"), "{}", life.verdict);
    }

    #[test]
    fn years_fall_with_write_amplification_and_load() {
        let years = |waf, load| life(&p5316(), waf, 0.0, load).unwrap().years_p50;
        let daily = Load::Daily(Bytes(1_536_000_000_000));
        assert!((years(2.0, daily) / years(1.0, daily) - 0.5).abs() < 1e-9);
        assert!((years(1.0, daily) / years(1.0, Load::Assumed(0.1)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn unknown_endurance_gives_no_life() {
        let ideal = Profile::from_toml("ideal", builtin("ideal").unwrap()).unwrap();
        assert_eq!(life(&ideal, 1.0, 0.0, Load::Assumed(1.0)), None);
    }
}
