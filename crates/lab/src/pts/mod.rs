//! The tests of the SNIA Solid State Storage Performance Test Specification, on a simulated stack.
//!
//! Each test purges the stack (a fresh stack is made) and preconditions the stack. The test then repeats rounds until
//! five rounds are steady, at most 25 times. A round runs every access pattern of the test for a fixed time. Figures
//! are means over the steady window, or over the last five rounds if no window was steady.
//!
//! From the specification (version 2.0.x): purge; preconditioning that does not depend on the workload, twice the
//! capacity in writes of 128 KiB in order; the steady state, five rounds in which the largest difference is at most 20
//! % of the mean and the fitted line rises or falls by at most 10 % of it; 25 rounds at most; the 56 combinations of
//! the IOPS test. Public summaries confirm the tests and the matrix. We do not have the text, so the rest is from
//! memory and marked at [`TESTS`]: the pattern that decides on the steady state, the three sizes and mixes of the
//! latency test, the sizes of the throughput test, four capacities for write saturation.
//!
//! Two deviations from the specification: each pattern of a round runs for milliseconds instead of a minute, because
//! the capacity is scaled down. Latency is of the simulated stack, without a host.

pub(crate) mod bed;
mod plots;

use serde::Serialize;
use thermocline_types::{Bytes, Time};
use thermocline_workload::synthetic::Pattern;

use crate::stack::{Layer, Stack};
use crate::steady::{Fit, ROUNDS};
use crate::{Error, Settings};

use bed::{Bed, RAMP, Spell};
pub use bed::{PtsAccess, Sample};
pub use plots::{mix, plots};

/// Rounds at most.
const MOST_ROUNDS: usize = 25;
/// Capacities written by workload-independent preconditioning.
const PRECONDITIONING: u32 = 2;
/// Simulated time of a pattern in each round; the specification has a minute. Chosen: many times the time to program a
/// drive's full buffers, and long enough for some rounds to rewrite the volume.
const SPELL: Time = Time::micros(50_000);
const QUICK_SPELL: Time = Time::micros(12_000);
/// Spells of a pattern of the throughput test: sequential writes over a link faster than the flash have then filled the
/// buffers.
const THROUGHPUT_SPELLS: u64 = 8;
/// Capacities written by write saturation, and the number of rounds. From memory: four, or six hours. The number of
/// rounds is chosen.
const SATURATION: u64 = 4;
const SATURATION_ROUNDS: u64 = 64;

/// How a test is carried out.
#[derive(Clone, Copy, Debug)]
pub struct PtsOptions {
    /// Bytes of the volume, all of which are accessed: about the capacity that is simulated.
    pub volume: Bytes,
    /// Share of the drive that the volume takes; 1 but under a log, which has its reserve in the rest.
    pub utilisation: f64,
    /// Requests in flight; the specification leaves threads and outstanding requests to the tester.
    pub depth: u32,
    /// Seed of all randomness.
    pub seed: u64,
    /// Shorter rounds.
    pub quick: bool,
}

/// The quantity of a test's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PtsUnit {
    /// Requests a second.
    Iops,
    /// 10^6 bytes a second.
    MbPerSecond,
    /// Mean latency, microseconds.
    Microseconds,
}

impl PtsUnit {
    /// The quantity in `sample`.
    #[must_use]
    pub fn of(self, sample: &Sample) -> f64 {
        match self {
            PtsUnit::Iops => sample.requests as f64 / sample.seconds,
            PtsUnit::MbPerSecond => sample.bytes as f64 / sample.seconds / 1e6,
            PtsUnit::Microseconds => sample.mean_us,
        }
    }

    /// Name of the quantity, with the unit.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PtsUnit::Iops => "IOPS",
            PtsUnit::MbPerSecond => "MB/s",
            PtsUnit::Microseconds => "mean latency, us",
        }
    }
}

/// A test: its patterns in the order in which a round has them.
#[derive(Clone, Copy, Debug)]
pub struct PtsTest {
    /// Name.
    pub name: &'static str,
    /// The quantity of the figures.
    pub unit: PtsUnit,
    /// Addresses of the requests.
    pub pattern: Pattern,
    /// Sizes, and read shares.
    sizes: &'static [u64],
    read_shares: &'static [f64],
    /// The pattern that decides on the steady state: size and read share.
    tracked: (u64, f64),
    /// Requests in flight; by default the depth of the options.
    depth: Option<u32>,
    /// Size of the sequential writes of preconditioning; `None` without preconditioning.
    precondition: Option<u64>,
}

/// The tests in the order of the specification. From memory: that the IOPS test decides by random writes of 4 KiB,
/// throughput by writes, latency by writes of 4 KiB; that throughput preconditions with its own size, and the sizes and
/// mixes of the latency test.
pub const TESTS: [PtsTest; 5] = [
    PtsTest {
        name: "IOPS",
        unit: PtsUnit::Iops,
        pattern: Pattern::Uniform,
        sizes: &[1 << 20, 131_072, 65_536, 32_768, 16_384, 8192, 4096, 512],
        read_shares: &[1.0, 0.95, 0.65, 0.5, 0.35, 0.05, 0.0],
        tracked: (4096, 0.0),
        depth: None,
        precondition: Some(131_072),
    },
    throughput("throughput, 1 MiB", &[1 << 20]),
    throughput("throughput, 128 KiB", &[131_072]),
    PtsTest {
        name: "latency",
        unit: PtsUnit::Microseconds,
        pattern: Pattern::Uniform,
        sizes: &[8192, 4096, 512],
        read_shares: &[1.0, 0.65, 0.0],
        tracked: (4096, 0.0),
        depth: Some(1),
        precondition: Some(131_072),
    },
    PtsTest {
        name: "write saturation",
        unit: PtsUnit::Iops,
        pattern: Pattern::Uniform,
        sizes: &[4096],
        read_shares: &[0.0],
        tracked: (4096, 0.0),
        depth: None,
        precondition: None,
    },
];

const fn throughput(name: &'static str, sizes: &'static [u64; 1]) -> PtsTest {
    PtsTest {
        name,
        unit: PtsUnit::MbPerSecond,
        pattern: Pattern::Sequential,
        sizes,
        read_shares: &[1.0, 0.0],
        tracked: (sizes[0], 0.0),
        depth: None,
        precondition: Some(sizes[0]),
    }
}

/// How steady a test became.
#[derive(Clone, Debug, Serialize)]
pub struct PtsWindow {
    /// First and last round of the window, counted from 1.
    pub rounds: [usize; 2],
    /// Whether the window is steady by the specification. If not, the window covers the last rounds.
    pub steady: bool,
    /// Mean of the tracked quantity.
    pub mean: f64,
    /// Largest difference, as a share of the mean; at most 0.2 when steady.
    pub range: f64,
    /// What the fitted line rises over the window, as a share of the mean; at most 0.1 either way when steady.
    pub drift: f64,
}

/// A pattern of a test with its figures.
#[derive(Clone, Debug, Serialize)]
pub struct PtsCell {
    /// Bytes of a request.
    pub io_size: u64,
    /// Share of the requests that read.
    pub read_share: f64,
    /// Value of each round, in the unit of the test.
    pub rounds: Vec<f64>,
    /// Mean over the window.
    pub value: f64,
    /// Mean latency over the window, microseconds.
    pub mean_us: f64,
    /// 99 % of the requests of the window took no longer, microseconds.
    pub p99_us: f64,
    /// 99.999 % of the requests of the window, microseconds: of fewer than 100,000, the longest.
    pub p99_999_us: f64,
    /// The longest of the window, microseconds.
    pub max_us: f64,
}

/// What a test found.
#[derive(Clone, Debug, Serialize)]
pub struct PtsResult {
    /// Its name.
    pub name: &'static str,
    /// The quantity of the figures.
    pub unit: PtsUnit,
    /// The window of the figures.
    pub window: PtsWindow,
    /// Every pattern, in the order of a round.
    pub cells: Vec<PtsCell>,
    /// Which of them decides on the steady state.
    pub tracked: usize,
    /// Capacities that the host had written by the end of each round, preconditioning left out.
    pub written: Vec<f64>,
    /// Media bytes over host bytes of each round that wrote.
    pub waf: Vec<Option<f64>>,
}

impl PtsTest {
    fn accesses(&self, options: &PtsOptions) -> Vec<PtsAccess> {
        let depth = self.depth.unwrap_or(options.depth);
        let pattern = self.pattern;
        let mixes = self.read_shares.iter();
        let one = |&read_share: &f64| {
            self.sizes.iter().map(move |&io_size| PtsAccess {
                pattern,
                io_size: Bytes(io_size),
                read_share,
                depth,
            })
        };
        mixes.flat_map(one).collect()
    }

    /// Rounds at most.
    fn most_rounds(&self) -> usize {
        if self.precondition.is_some() { MOST_ROUNDS } else { SATURATION_ROUNDS as usize }
    }

    /// How long a pattern with requests of `size` runs in each round.
    fn spell(&self, size: u64, options: &PtsOptions) -> Spell {
        if self.precondition.is_none() {
            let round = SATURATION * options.volume.0 / SATURATION_ROUNDS / size;
            return Spell { requests: (round * RAMP / (RAMP + 1)).max(1), time: Time::ZERO };
        }
        let depth = u64::from(self.depth.unwrap_or(options.depth));
        let time = if options.quick { QUICK_SPELL } else { SPELL };
        // Two patterns have the time of many.
        let times = if self.unit == PtsUnit::MbPerSecond { THROUGHPUT_SPELLS } else { 1 };
        Spell { requests: 4 * depth.max(8), time: Time(times * time.0) }
    }

    /// Runs the test on `stack`; `progress` is told the share done.
    ///
    /// # Errors
    /// [`Error`] when the stack cannot be made so, takes no time, or refuses a request.
    pub fn run(
        &self,
        stack: &Stack,
        options: &PtsOptions,
        progress: &mut dyn FnMut(f64),
    ) -> Result<PtsResult, Error> {
        let settings = Settings {
            utilisation: options.utilisation,
            seed: options.seed,
            ..Settings::default()
        };
        let accesses = self.accesses(options);
        let mut bed = Bed::purged(stack, &settings, options.volume, &accesses)?;
        if let Some(size) = self.precondition {
            for _ in 0..PRECONDITIONING {
                bed.fill(Bytes(size))?;
            }
        }
        let tracked = accesses.iter().position(|access| {
            (access.io_size.0, access.read_share.to_bits())
                == (self.tracked.0, self.tracked.1.to_bits())
        });
        let tracked = tracked.expect("a pattern of the test decides");
        let mut rounds: Vec<Vec<Sample>> = Vec::new();
        let (mut written, mut waf) = (Vec::new(), Vec::new());
        let start = bed.counts();
        while rounds.len() < self.most_rounds()
            && !(self.stops() && self.is_steady(&rounds, tracked))
        {
            let before = bed.counts();
            let mut round = Vec::with_capacity(accesses.len());
            for (index, access) in accesses.iter().enumerate() {
                round.push(bed.run(index, self.spell(access.io_size.0, options))?);
                let share = (index + 1) as f64 / accesses.len() as f64;
                progress((rounds.len() as f64 + share) / self.most_rounds() as f64);
            }
            rounds.push(round);
            if let Some(old) = rounds.len().checked_sub(ROUNDS + 1) {
                rounds[old].iter_mut().for_each(Sample::forget_latencies);
            }
            let now = bed.counts();
            written.push(now.since(&start).host_written as f64 / options.volume.as_f64());
            waf.push(now.since(&before).amplification()[0]);
        }
        progress(1.0);
        Ok(self.result(&accesses, &rounds, tracked, (written, waf)))
    }

    /// Whether the test ends at steady state; write saturation continues.
    fn stops(&self) -> bool {
        self.precondition.is_some()
    }

    fn is_steady(&self, rounds: &[Vec<Sample>], tracked: usize) -> bool {
        let values = self.values(rounds, tracked);
        values.len() >= ROUNDS && Fit::of(&values[values.len() - ROUNDS..]).is_steady()
    }

    fn values(&self, rounds: &[Vec<Sample>], cell: usize) -> Vec<f64> {
        rounds.iter().map(|round| self.unit.of(&round[cell])).collect()
    }

    fn result(
        &self,
        accesses: &[PtsAccess],
        rounds: &[Vec<Sample>],
        tracked: usize,
        (written, waf): (Vec<f64>, Vec<Option<f64>>),
    ) -> PtsResult {
        let first = rounds.len().saturating_sub(ROUNDS);
        let fit = Fit::of(&self.values(rounds, tracked)[first..]);
        let window = PtsWindow {
            rounds: [first + 1, rounds.len()],
            steady: fit.is_steady(),
            mean: fit.mean,
            range: fit.range / fit.mean,
            drift: fit.drift / fit.mean,
        };
        let cell = |(index, access): (usize, &PtsAccess)| {
            let values = self.values(rounds, index);
            let of = || rounds[first..].iter().map(|round| &round[index]);
            let latencies = Sample::latencies_us(of());
            PtsCell {
                io_size: access.io_size.0,
                read_share: access.read_share,
                value: Fit::of(&values[first..]).mean,
                rounds: values,
                mean_us: of().map(|sample| sample.mean_us).sum::<f64>() / of().count() as f64,
                p99_us: latencies[0],
                p99_999_us: latencies[1],
                max_us: latencies[2],
            }
        };
        PtsResult {
            name: self.name,
            unit: self.unit,
            window,
            cells: accesses.iter().enumerate().map(cell).collect(),
            tracked,
            written,
            waf,
        }
    }
}

/// The stack called `text` as the specification has drives of servers tested: without a volatile cache above the drive,
/// unless the stack says otherwise.
///
/// # Errors
/// As [`Stack::parse`], and [`Error::Settings`] for stacks without time.
pub fn stack_under_test(text: &str, overrides: &[String]) -> Result<Stack, Error> {
    let asked = Stack::parse(text, overrides)?;
    let logged = matches!(asked.layer, Layer::Log | Layer::Tier);
    let said = asked.overrides.iter().any(|given| given.starts_with("pool.write_cache"));
    let stack = if logged && !said {
        let durable = std::iter::once("pool.write_cache=off".to_owned());
        Stack::parse(text, &durable.chain(overrides.iter().cloned()).collect::<Vec<_>>())?
    } else {
        asked
    };
    if stack.profile.timing.is_none() && stack.profile.disk.is_none() {
        return Err(Error::Settings(format!(
            "{text} models no time: there is nothing to be measured of its speed"
        )));
    }
    Ok(stack)
}

#[cfg(test)]
mod tests;
