//! The yardstick of placement: every policy with every victim rule on every workload, on a full drive.
//!
//! A drive here is the bare translation layer without time, as the log engine and the simulated drives use it. It
//! exports exactly what the workload writes, `L`, of `P = L / (1 − GP)` blocks; open units and reserve are inside `P`,
//! and units are collected when free ones run out, not before. Age is counted in host blocks.
//!
//! Invariants:
//! * Equal plans give equal write amplification, however many threads there are.

mod candidate;
mod cell;
mod census;
mod generate;
mod own;
mod tape;
mod through;

use std::cell::Cell;
use std::num::{NonZeroU8, NonZeroU32};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde::Serialize;
use thermocline_ftl::Shape;
use thermocline_ftl::placement::VictimRule as _;
use thermocline_ftl::victim::Victim;
use thermocline_workload::trace;

pub use candidate::{Candidate, UnknownCandidate};
pub(crate) use candidate::{known_future, known_rates};
pub(crate) use cell::usual_reserve;
pub use generate::{LAWS, Law};
pub use own::{OwnPolicy, Yardstick};
pub use tape::{Event, Tape};
pub use through::{Cost, Through};

use self::cell::Step;
use self::through::Course;
use crate::Error;
use crate::theory::Overprovisioning;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Policies.
    pub candidates: Vec<Candidate>,
    /// Victim rules. [`Victim::Own`] is used with policies that have a rule of their own.
    pub victims: Vec<Victim>,
    /// Garbage proportions, `1 − L / P`, each in (0, 1).
    pub garbage: Vec<f64>,
    /// Blocks in a unit.
    pub blocks_per_unit: NonZeroU32,
    /// Generated workloads by name.
    pub laws: Vec<(String, Law)>,
    /// Blocks of generated workloads.
    pub blocks: u32,
    /// Writes per block of a generated workload; the second half of the writes is measured.
    pub turnovers: f64,
    /// Trace files.
    pub traces: Vec<PathBuf>,
    /// How they are read.
    pub reading: trace::Options,
    /// Whether discards of traces are honoured.
    pub discards: bool,
    /// Units kept in reserve; `None` for 2 and one for every two classes of a policy.
    pub reserve: Option<NonZeroU8>,
    /// Whether each policy goes through the log engine as well, with its best victim rule, and with these settings of
    /// the log (`log.KEY=VALUE`).
    pub through: Option<Vec<String>>,
    /// Seed of all randomness.
    pub seed: u64,
    /// Threads.
    pub jobs: usize,
}

/// Results for one workload and one amount of garbage.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// The workload.
    pub workload: String,
    /// Whether it was read from a trace.
    pub is_trace: bool,
    /// Garbage proportion, `1 − L / P`.
    pub garbage: f64,
    /// Distinct blocks of 4 KiB, which are what the drive exports.
    pub blocks: u32,
    /// Host blocks written while measuring.
    pub blocks_measured: u64,
    /// Blocks in a unit.
    pub blocks_per_unit: u32,
    /// WAF that a policy can reach which knows all rates and not the future, where there is a closed form.
    pub limit: Option<f64>,
    /// One line per policy.
    pub lines: Vec<Line>,
    /// The policies that went through the log engine and fit there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub through: Vec<Through>,
}

/// What one policy reached.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The policy.
    pub policy: String,
    /// Each victim rule with the WAF reached; `None` where the drive is too small for the open units of the policy or
    /// the policy has no rule of its own.
    pub wafs: Vec<(String, Option<f64>)>,
    /// Processor time per host block written, with the rule that gave the lowest WAF, copies included.
    pub nanoseconds_per_write: Option<f64>,
    /// Memory the policy holds per exported block, in bytes.
    pub state_bytes_per_block: Option<f64>,
}

impl Line {
    /// The lowest WAF and its victim rule.
    #[must_use]
    pub fn best(&self) -> Option<(f64, &str)> {
        let known = self.wafs.iter().filter_map(|(victim, waf)| Some(((*waf)?, victim.as_str())));
        known.min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// Is told what is being measured and the share of that workload that is done, from any thread, and says whether to go
/// on.
pub type Watch<'a> = &'a (dyn Fn(&str, f64) -> ControlFlow<()> + Sync);

/// Measures what `plan` says and hands out each table when it is done. When `progress` ends it early, the last table
/// has the figures that were measured by then, and `None` for the rest.
///
/// # Errors
/// When a trace cannot be read, a garbage proportion is out of range, or that of `table`.
pub fn bench(
    plan: &Plan,
    progress: Watch<'_>,
    mut table: impl FnMut(Table) -> Result<(), Error>,
) -> Result<(), Error> {
    for (name, law) in &plan.laws {
        if progress(name, 0.0).is_break() {
            return Ok(());
        }
        let writes = (f64::from(plan.blocks) * plan.turnovers) as u64;
        let tape = law.tape(name, plan.blocks, writes, plan.seed);
        for &garbage in &plan.garbage {
            let op = room(garbage)?;
            let limit = law.limit(plan.blocks, op, plan.blocks_per_unit)?;
            let measured = Study { plan, tape: &tape, garbage, progress }.table()?;
            let Some(measured) = measured else { return Ok(()) };
            table(Table { limit, ..measured })?;
        }
    }
    for path in &plan.traces {
        if progress(&path.to_string_lossy(), 0.0).is_break() {
            return Ok(());
        }
        let tape = Tape::of_trace(path, &plan.reading, plan.discards)?;
        for &garbage in &plan.garbage {
            room(garbage)?;
            let measured = Study { plan, tape: &tape, garbage, progress }.table()?;
            let Some(measured) = measured else { return Ok(()) };
            table(Table { is_trace: true, ..measured })?;
        }
    }
    Ok(())
}

/// Parts in which the progress of one simulation is counted.
const WHOLE: f64 = 1e6;

fn room(garbage: f64) -> Result<Overprovisioning, Error> {
    Overprovisioning::from_garbage(garbage).map_err(|error| Error::Settings(error.to_string()))
}

/// One workload and one amount of garbage.
struct Study<'a> {
    plan: &'a Plan,
    tape: &'a Tape,
    garbage: f64,
    progress: Watch<'a>,
}

impl Study<'_> {
    /// `None` if progress ended the study before the first measurement.
    fn table(&self) -> Result<Option<Table>, Error> {
        let per_unit = self.plan.blocks_per_unit.get();
        let physical = f64::from(self.tape.blocks) / (1.0 - self.garbage);
        let units = (physical / f64::from(per_unit)) as u32;
        let shape = Shape::new(u64::from(self.tape.blocks), units, per_unit)
            .map_err(|error| Error::Settings(format!("{}: {error}", self.tape.name)))?;
        let cells = self.cells(shape);
        let ended = || (self.progress)(&self.tape.name, 1.0).is_break();
        if cells.iter().all(Option::is_none) && ended() {
            return Ok(None);
        }
        let victims = &self.plan.victims;
        let lines =
            self.plan.candidates.iter().zip(cells.chunks(victims.len())).map(|(candidate, row)| {
                let best = row.iter().flatten().min_by(|a, b| a.waf.total_cmp(&b.waf));
                let waf = |cell: &Option<cell::Measured>| cell.map(|measured| measured.waf);
                Line {
                    policy: candidate.to_string(),
                    wafs: victims.iter().map(Victim::to_string).zip(row.iter().map(waf)).collect(),
                    nanoseconds_per_write: best.map(|cell| cell.nanoseconds_per_write),
                    state_bytes_per_block: best.map(|cell| cell.state_bytes_per_block),
                }
            });
        let lines: Vec<Line> = lines.collect();
        Ok(Some(Table {
            workload: self.tape.name.clone(),
            is_trace: false,
            garbage: self.garbage,
            blocks: self.tape.blocks,
            blocks_measured: self.tape.writes_measured(),
            blocks_per_unit: per_unit,
            limit: None,
            through: self.through(shape, &lines)?,
            lines,
        }))
    }

    /// Every policy with every victim rule, policy by policy.
    fn cells(&self, shape: Shape) -> Vec<Option<cell::Measured>> {
        let victims = &self.plan.victims;
        let cells = self.spread(self.plan.candidates.len() * victims.len(), |index, step| {
            let candidate = &self.plan.candidates[index / victims.len()];
            self.cell(shape, candidate, victims[index % victims.len()], step)
        });
        cells.into_iter().map(Option::flatten).collect()
    }

    /// Every policy of `lines` through the engine, if that is wanted and it fits.
    fn through(&self, shape: Shape, lines: &[Line]) -> Result<Vec<Through>, Error> {
        let Some(settings) = &self.plan.through else { return Ok(Vec::new()) };
        let one = |index: usize, step: Step<'_>| {
            let policy = self.plan.candidates[index].policy()?;
            let (_, victim) = lines[index].best()?;
            let victim: Victim = victim.parse().expect("it is the name of a victim rule");
            let drive = self.drive(shape, victim);
            Some(Course { tape: self.tape, policy, victim, drive, settings, step }.run())
        };
        let all = self.spread(lines.len(), one);
        let done = |one: &Result<Through, Error>| {
            !matches!(one, Err(Error::DoesNotFit(_) | Error::Interrupted))
        };
        all.into_iter().flatten().flatten().filter(done).collect()
    }

    /// Runs `work` for all numbers below `count`; each thread takes the next number. Numbers not run because progress
    /// ended the study give `None`.
    fn spread<T: Send>(
        &self,
        count: usize,
        work: impl Fn(usize, Step<'_>) -> T + Sync,
    ) -> Vec<Option<T>> {
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
        let advance = |more: u64| {
            let done = done.fetch_add(more, Ordering::Relaxed) + more;
            let goes_on = (self.progress)(&self.tape.name, done as f64 / (WHOLE * count as f64));
            if goes_on.is_break() {
                next.store(count, Ordering::Relaxed);
            }
            goes_on
        };
        let work = || {
            let mut mine = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return mine;
                }
                let told = Cell::new(0);
                let step = |share: f64| {
                    let now = ((share * WHOLE) as u64).max(told.get());
                    advance(now - told.replace(now))
                };
                mine.push((index, work(index, &step)));
                let _goes_on = step(1.0);
            }
        };
        let mut all: Vec<Option<T>> = (0..count).map(|_| None).collect();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.plan.jobs.max(1)).map(|_| scope.spawn(work)).collect();
            for thread in threads {
                let mine = thread.join().expect("a simulation does not panic");
                mine.into_iter().for_each(|(index, one)| all[index] = Some(one));
            }
        });
        all
    }

    fn cell(
        &self,
        shape: Shape,
        candidate: &Candidate,
        victim: Victim,
        step: Step<'_>,
    ) -> Option<cell::Measured> {
        let has_own = candidate.policy().is_some_and(|policy| policy.has_rule());
        if victim == Victim::Own && !has_own {
            return None;
        }
        cell::measure(self.tape, candidate, self.drive(shape, victim), step).ok()
    }

    fn drive(&self, shape: Shape, victim: Victim) -> cell::Drive {
        cell::Drive { shape, victim, reserve: self.plan.reserve, seed: self.plan.seed }
    }
}

#[cfg(test)]
mod tests;
