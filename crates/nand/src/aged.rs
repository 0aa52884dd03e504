//! Reads that take several attempts: what wear, age, heat and reads of the flash cost in time.
//!
//! Model, after the closed form of [`crate::integrity`], from which every rate and time comes:
//! * A page of the media has a bit error rate: that of `[integrity]` for the wear of its unit and the age, temperature
//!   and reads that `[aged]` states, times the page's own quality, which is log-normal and stays with the page.
//! * A read asks for codewords. Each needs so many attempts with the chances of the binomial distribution; the worst of
//!   them decides. Attempts fail in order, so one draw decides the attempts of a codeword.
//! * Each further attempt keeps the die for `integrity.retry.us` and sends the bytes over the bus once more; soft
//!   information keeps it for `integrity.retry.soft_us`. A codeword that no attempt corrects is rebuilt from parity:
//!   after the attempts, the drive reads the rest of the page's stripe, the next pages of the unit. Without parity the
//!   codeword is lost, and counted.
//! * The wear of a unit is `aged.wear` and its own erases over the rated cycles. Pages in SLC mode have no errors, as
//!   `[integrity]` knows no rates of theirs.
//! * With `aged.own_ages` a unit is as old as its first block, by the requests' own clock, and was read as often as it
//!   was; bit error rates are rounded to a sixty-fourth of an octave then, and what is lost is interpolated between.
//! * What is lost is far too rare to be drawn. Each read of the host adds the chance that it is lost ([`Loss`]), so
//!   that lost codewords for each bit read are known as a mean over all drives that do the same.
//!
//! Invariants:
//! * Attempts take time and change nothing that is written (ADR 0003).
//! * Chances are rounded to 2^-40: a logarithm's last bit differs between machines and must not change a draw.

mod loss;

use std::collections::BTreeMap;

use serde::Deserialize;
use thermocline_types::{Rng, UnitId};

use crate::integrity::{Condition, Integrity};
use crate::profile::Profile;
use crate::refresh::Ages;

use loss::Losses;
pub use loss::{AgesAndLoss, Loss};

/// What the flash of a drive went through before the run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Aged {
    /// Share of the rated cycles that every unit had used up, 0 to 2; its erases in the run come on top. Default: 1,
    /// the end of the rated life.
    pub wear: f64,
    /// Days since what is read was written. Default: 90, the three months of JESD218 for drives of data centres.
    pub days: f64,
    /// Temperature meanwhile, °C. Default: 40, at which JESD218 has data rest.
    pub celsius: f64,
    /// Reads of pages of the erase block meanwhile. Default: 0.
    pub reads: f64,
    /// By what all bit error rates are multiplied: 1, or an end of `integrity.errors.uncertainty`. Default: 1.
    pub factor: f64,
    /// Whether each unit has an age and reads of its own, by the clock of the requests. `days` and `reads` are then
    /// those that data had before the clock began to move. Default: no.
    pub own_ages: bool,
}

impl Default for Aged {
    fn default() -> Self {
        Aged { wear: 1.0, days: 90.0, celsius: 40.0, reads: 0.0, factor: 1.0, own_ages: false }
    }
}

impl Aged {
    /// The rules for the values: key, whether the value is acceptable, requirement.
    pub(crate) fn rules(&self) -> Vec<(&'static str, bool, &'static str)> {
        vec![
            ("aged.wear", (0.0..=MOST_WEAR).contains(&self.wear), "must be between 0 and 2"),
            ("aged.days", (0.0..=36_500.0).contains(&self.days), "must be 0 to 36,500"),
            ("aged.celsius", (-40.0..=125.0).contains(&self.celsius), "must be -40 to 125 °C"),
            ("aged.reads", (0.0..=1e12).contains(&self.reads), "must be 0 to 10^12"),
            ("aged.factor", (0.01..=100.0).contains(&self.factor), "must be 0.01 to 100"),
        ]
    }
}

/// Reads of pages of the media since a drive was made, and what they took; all zero where that is not modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadAttempts {
    /// Reads of pages: for the host, to modify, to relocate, by a patrol.
    pub reads: u64,
    /// Page reads with more than one attempt.
    pub retried: u64,
    /// Attempts beyond the first, those for soft information among them.
    pub further: u64,
    /// Reads that needed soft information.
    pub soft: u64,
    /// Reads that parity brought back.
    pub rebuilt: u64,
    /// Reads that nothing brought back.
    pub lost: u64,
}

impl ReadAttempts {
    /// The same counted from `start`.
    #[must_use]
    pub fn since(&self, start: &ReadAttempts) -> ReadAttempts {
        self.with(start, |now, then| now - then)
    }

    /// Those of both.
    #[must_use]
    pub fn plus(&self, other: &ReadAttempts) -> ReadAttempts {
        self.with(other, |one, more| one + more)
    }

    fn with(&self, other: &ReadAttempts, of: impl Fn(u64, u64) -> u64) -> ReadAttempts {
        ReadAttempts {
            reads: of(self.reads, other.reads),
            retried: of(self.retried, other.retried),
            further: of(self.further, other.further),
            soft: of(self.soft, other.soft),
            rebuilt: of(self.rebuilt, other.rebuilt),
            lost: of(self.lost, other.lost),
        }
    }
}

/// The cost of a read beyond the first attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Further {
    /// Retries, which keep the die for as long each, nanoseconds.
    pub(crate) retries: u32,
    pub(crate) retry_ns: u64,
    /// Time to read soft information, nanoseconds; 0 if not needed.
    pub(crate) soft_ns: u64,
    /// Further pages of the stripe to read.
    pub(crate) stripe: u32,
}

impl Further {
    /// How long the die is kept beyond the first array read, nanoseconds.
    pub(crate) fn on_die(self) -> u64 {
        u64::from(self.retries) * self.retry_ns + self.soft_ns
    }

    /// How often the bytes cross the bus beyond the first time.
    pub(crate) fn attempts(self) -> u32 {
        self.retries + u32::from(self.soft_ns > 0)
    }
}

/// Largest distinguished wear, and steps of wear. Chosen: a thirty-second of the rated cycles.
const MOST_WEAR: f64 = 2.0;
const STEPS_OF_WEAR: f64 = 32.0;
/// Steps of the quality of pages, in standard deviations, and how many to either side: one page in 10^9 is beyond.
const STEP: f64 = 0.1;
const REACH: i32 = 60;
/// Bits of a chance.
const BITS: u32 = 40;

/// The pages of a drive by how well they can be read.
#[derive(Clone, Debug)]
pub(crate) struct Legibility {
    aged: Aged,
    integrity: Integrity,
    cycles: f64,
    seed: u64,
    rng: Rng,
    /// Erases by unit; units beyond the end were never erased.
    erases: Vec<u32>,
    /// How old units are, where each has an age of its own, and the erase blocks of a unit, which share its reads.
    ages: Option<Ages>,
    blocks: f64,
    /// Chances that a page is of one of the first qualities.
    qualities: Vec<u64>,
    /// By step of wear, or by that of the bit error rate, where it was asked for: by quality, the chance to get beyond
    /// each attempt.
    beyond: BTreeMap<i32, Box<[Vec<u64>]>>,
    losses: Losses,
    counts: ReadAttempts,
}

impl Legibility {
    /// The pages of a drive after `profile`; `None` if the profile has no `[aged]` table. Units are `units` in number
    /// and have `blocks` erase blocks each.
    pub(crate) fn new(
        profile: &Profile,
        (units, blocks): (u32, f64),
        seed: u64,
    ) -> Option<Legibility> {
        let (aged, integrity) = (profile.aged.clone()?, profile.integrity.clone()?);
        Some(Legibility {
            cycles: profile.wear.pe_cycles.unwrap_or(f64::INFINITY),
            // Its own sequence: draws for endurance are those of a drive that is not aged.
            rng: Rng::new(seed ^ 0x4c65_6769_6269_6c69),
            seed,
            erases: Vec::new(),
            ages: aged.own_ages.then(|| Ages::new(units)),
            blocks: blocks.max(1.0),
            qualities: qualities(),
            beyond: BTreeMap::new(),
            losses: Losses::new(integrity.clone()),
            counts: ReadAttempts::default(),
            aged,
            integrity,
        })
    }

    /// Reads so far.
    pub(crate) fn counts(&self) -> ReadAttempts {
        self.counts
    }

    /// `unit` is erased for the `erases`-th time.
    pub(crate) fn erased(&mut self, unit: UnitId, erases: u32) {
        if self.erases.len() <= unit.index() {
            self.erases.resize(unit.index() + 1, 0);
        }
        self.erases[unit.index()] = erases;
    }

    /// How old units are, where each has an age of its own.
    pub(crate) fn ages_mut(&mut self) -> Option<&mut Ages> {
        self.ages.as_mut()
    }

    /// How old `unit` is, days.
    pub(crate) fn age_days(&self, unit: UnitId) -> f64 {
        self.ages.as_ref().map_or(self.aged.days, |ages| ages.days(unit, self.aged.days))
    }

    /// What `unit` went through.
    fn condition(&self, unit: UnitId) -> Condition {
        let erases = self.erases.get(unit.index()).copied().unwrap_or(0);
        let wear = (self.aged.wear + f64::from(erases) / self.cycles).min(MOST_WEAR);
        let Aged { celsius, reads, .. } = self.aged;
        match &self.ages {
            None => {
                let wear = (wear * STEPS_OF_WEAR).round() / STEPS_OF_WEAR;
                Condition { wear, age_days: self.aged.days, celsius, reads }
            }
            Some(ages) => {
                let reads = ages.reads(unit, reads * self.blocks) / self.blocks;
                Condition { wear, age_days: self.age_days(unit), celsius, reads }
            }
        }
    }

    /// The mean bit error rate of a unit in `condition`.
    fn rate(&self, condition: &Condition) -> f64 {
        self.integrity.errors(condition).rate() * self.aged.factor
    }

    /// What losses are expected of `bytes` that are read of `unit`.
    pub(crate) fn loss(&mut self, unit: UnitId, bytes: u64) -> Loss {
        let rate = self.rate(&self.condition(unit));
        self.losses.of(rate, bytes)
    }

    /// What reading `bytes` of page `page` of `unit` takes beyond the first attempt.
    pub(crate) fn read(&mut self, unit: UnitId, page: u32, bytes: u64) -> Further {
        self.counts.reads += 1;
        let codewords = bytes.div_ceil(self.integrity.ecc.codeword.0).max(1);
        // The worst of them decides.
        let draw = (0..codewords).map(|_| self.rng.next_u64() >> (64 - BITS)).min().unwrap_or(0);
        let condition = self.condition(unit);
        let quality = self.quality(unit, page);
        let beyond = &self.at(&condition)[quality];
        let attempts = beyond.iter().filter(|&&chance| draw < chance).count();
        let most = beyond.len();
        if attempts == 0 {
            return Further::default();
        }
        self.take(attempts, most)
    }

    /// Counts a read that failed the first `failed` of `most` attempts, and returns the extra cost.
    fn take(&mut self, failed: usize, most: usize) -> Further {
        let ns = |us: f64| (us * 1e3).round() as u64;
        let (retry, parity) = (self.integrity.retry, self.integrity.parity.dies);
        let soft = failed > retry.steps as usize && self.integrity.ecc.soft_bits > 0;
        let retries = failed.min(retry.steps as usize) as u32;
        let corrected = failed < most;
        self.counts.retried += u64::from(retries > 0 || soft);
        self.counts.further += u64::from(retries) + u64::from(soft);
        self.counts.soft += u64::from(soft);
        self.counts.rebuilt += u64::from(!corrected && parity > 1);
        self.counts.lost += u64::from(!corrected && parity <= 1);
        Further {
            retries,
            retry_ns: ns(retry.us),
            soft_ns: if soft { ns(retry.soft_us) } else { 0 },
            stripe: if corrected { 0 } else { parity.saturating_sub(1) },
        }
    }

    /// The quality of a page, which it keeps: a number drawn from where it lies (SplitMix64, Steele et al., 2014).
    fn quality(&self, unit: UnitId, page: u32) -> usize {
        let place = u64::from(unit.0) << 32 | u64::from(page);
        let mut mixed = self.seed.wrapping_add(place.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let drawn = (mixed ^ (mixed >> 31)) >> (64 - BITS);
        self.qualities.partition_point(|&chance| chance <= drawn).min(self.qualities.len() - 1)
    }

    /// By quality, the chance to get beyond each attempt in `condition`.
    fn at(&mut self, condition: &Condition) -> &[Vec<u64>] {
        let (key, rate) = if self.ages.is_none() {
            ((condition.wear * STEPS_OF_WEAR) as i32, None)
        } else {
            let key = loss::step(self.rate(condition)).round();
            (key as i32, Some(loss::rate_of(key)))
        };
        if !self.beyond.contains_key(&key) {
            let rate = rate.unwrap_or_else(|| self.rate(condition));
            self.beyond.insert(key, by_quality(&self.integrity, rate));
        }
        &self.beyond[&key]
    }
}

/// By quality, the chance to get beyond each attempt at the mean bit error rate `rate`.
fn by_quality(integrity: &Integrity, rate: f64) -> Box<[Vec<u64>]> {
    let spread = integrity.errors.spread;
    let page = |index: i32| {
        let z = f64::from(index) * STEP;
        let rate = rate * (spread * z - 0.5 * spread * spread).exp();
        integrity.beyond_on_page(rate).into_iter().map(rounded).collect()
    };
    (-REACH..=REACH).map(page).collect()
}

/// A chance in steps of 2^-40.
fn rounded(chance: f64) -> u64 {
    (chance * (1_u64 << BITS) as f64).round() as u64
}

/// Chances that a page is of one of the first qualities: the normal distribution in steps.
fn qualities() -> Vec<u64> {
    let density = |index: i32| (-0.5 * (f64::from(index) * STEP).powi(2)).exp();
    let all: f64 = (-REACH..=REACH).map(density).sum();
    let mut sum = 0.0;
    let cumulated = (-REACH..=REACH).map(|index| {
        sum += density(index) / all;
        rounded(sum)
    });
    cumulated.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Drive;
    use crate::profile::builtin;
    use thermocline_types::{Bytes, Op, Request, StreamId, TenantId, Time};

    fn profile(name: &str, aged: &[(&str, &str)]) -> Profile {
        let overrides: Vec<(String, String)> =
            aged.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Profile::with_overrides(name, builtin(name).unwrap(), &overrides).unwrap()
    }

    /// Reads of one codeword, each of a page of its own.
    fn counts(profile: &Profile, reads: u32) -> ReadAttempts {
        let mut pages = Legibility::new(profile, (8, 1.0), 1).unwrap();
        let codeword = profile.integrity.as_ref().unwrap().ecc.codeword.0;
        for read in 0..reads {
            pages.read(UnitId(read / 1000), read % 1000, codeword);
        }
        pages.counts()
    }

    #[test]
    fn as_many_reads_are_retried_as_the_closed_form_says() {
        for (name, wear) in [("p5316", "1.0"), ("p5316", "0.5"), ("pm9d3", "1.5")] {
            let profile = profile(name, &[("aged.wear", wear)]);
            let wear = wear.parse().unwrap();
            let condition = Condition { wear, age_days: 90.0, celsius: 40.0, reads: 0.0 };
            let outcome = profile.integrity.as_ref().unwrap().outcome(&condition, 1.0);
            let counts = counts(&profile, 200_000);
            let (retried, expected) = (counts.retried as f64 / 2e5, outcome.retried());
            // Four standard deviations of a count, and 2 % for the steps of quality.
            let off = 4.0 * (expected / 2e5).sqrt() + 0.02 * expected;
            assert!((retried - expected).abs() < off, "{name} {wear}: {retried} and {expected}");
            let expected: f64 = outcome.beyond.iter().take(outcome.beyond.len() - 1).sum();
            let further = counts.further as f64 / 2e5;
            let off = 6.0 * (expected / 2e5).sqrt() + 0.02 * expected;
            assert!((further - expected).abs() < off, "{name} {wear}: {further} and {expected}");
        }
    }

    #[test]
    fn a_page_that_is_bad_stays_bad_and_several_codewords_are_worse_than_one() {
        let profile = profile("p5316", &[("aged.wear", "1.0")]);
        let mut pages = Legibility::new(&profile, (8, 1.0), 1).unwrap();
        let mut shares = Vec::new();
        for page in 0..200 {
            let before = pages.counts().retried;
            (0..200).for_each(|_| _ = pages.read(UnitId(0), page, 4096));
            shares.push((pages.counts().retried - before) as f64 / 200.0);
        }
        let sure = shares.iter().filter(|&&share| !(0.2..=0.8).contains(&share)).count();
        assert!(sure > 160, "{sure} of 200 pages are good or bad: {shares:?}");
        let one = pages.counts();
        (0..40_000).for_each(|read| _ = pages.read(UnitId(0), read % 200, 65_536));
        let sixteen = pages.counts().since(&one);
        assert!(sixteen.retried > one.retried, "{one:?} {sixteen:?}");
    }

    /// When a read of 4 KiB is done that comes to an idle drive, and the attempts it took.
    fn read_alone(profile: &Profile) -> (Time, ReadAttempts) {
        let mut drive = Drive::new(profile, Some(Bytes::mib(64)), 1).unwrap();
        let request = |op, at| Request {
            at,
            offset: Bytes::ZERO,
            length: Bytes::kib(64),
            tenant: TenantId(0),
            stream: StreamId::UNKNOWN,
            op,
            outstanding: None,
        };
        drive.submit(Time::ZERO, &request(Op::Write, Time::ZERO), 0).unwrap();
        let at = Time::micros(1_000_000);
        let done = drive.submit(at, &Request { length: Bytes::kib(4), ..request(Op::Read, at) }, 0);
        (done.unwrap().since(at), drive.counters().attempts)
    }

    #[test]
    fn an_attempt_takes_its_time_and_a_rebuilt_page_a_read_of_the_stripe() {
        // 369 wrong bits of 36,864, of which 165 are corrected; a quarter of them the second time.
        let errors = [
            (
                "integrity.errors",
                "{ fresh = 0.01, cycled = 0, cycle_exponent = 1, retained = 0, age_exponent = 1, \
              activation_ev = 1, per_read = 0, program_disturb = 0, spread = 0, uncertainty = 1 }",
            ),
            ("integrity.retry.factor", "0.25"),
        ];
        let plain = read_alone(&profile("p5316", &errors));
        assert_eq!(plain.1, ReadAttempts::default(), "nothing is aged");
        let aged = profile("p5316", &[&errors[..], &[("aged.days", "0")]].concat());
        let (took, attempts) = read_alone(&aged);
        assert_eq!(took.since(plain.0), Time::micros(110));
        assert_eq!(
            attempts,
            ReadAttempts { reads: 1, retried: 1, further: 1, ..Default::default() }
        );

        let mut hopeless = aged;
        let integrity = hopeless.integrity.as_mut().unwrap();
        (integrity.retry.factor, integrity.retry.steps, integrity.ecc.soft_bits) = (1.0, 2, 0);
        let (took, attempts) = read_alone(&hopeless);
        let rebuilt =
            ReadAttempts { retried: 1, further: 2, rebuilt: 1, reads: 1, ..Default::default() };
        assert_eq!(attempts, rebuilt);
        let stripe = took.since(plain.0).as_nanos() - 220_000;
        assert!(
            (85_000..200_000).contains(&stripe),
            "array read and transfers of others: {stripe}"
        );
    }

    #[test]
    fn erases_wear_a_unit_and_what_no_attempt_corrects_is_rebuilt_or_lost() {
        let mut young = profile("p5316", &[("aged.wear", "0")]);
        let mut pages = Legibility::new(&young, (8, 1.0), 1).unwrap();
        (0..10_000).for_each(|page| _ = pages.read(UnitId(1), page, 4096));
        let fresh = pages.counts();
        pages.erased(UnitId(1), 2 * 2700);
        (0..10_000).for_each(|page| _ = pages.read(UnitId(1), page, 4096));
        let worn = pages.counts().since(&fresh);
        assert!(worn.retried > 2 * fresh.retried + 1000, "{fresh:?} {worn:?}");
        assert_eq!(worn.reads, 10_000);

        young.aged.as_mut().unwrap().factor = 60.0;
        let rebuilt = counts(&young, 1000);
        assert!(rebuilt.rebuilt > 0 && rebuilt.lost == 0, "{rebuilt:?}");
        young.integrity.as_mut().unwrap().parity.dies = 0;
        let lost = counts(&young, 1000);
        assert_eq!((lost.lost, lost.rebuilt), (rebuilt.rebuilt, 0));
        assert!(Legibility::new(&Profile { aged: None, ..young }, (8, 1.0), 1).is_none());
    }
}
