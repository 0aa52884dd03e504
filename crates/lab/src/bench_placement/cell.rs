//! One simulation of the yardstick: a policy and a victim rule on a workload.

use std::num::NonZeroU8;
use std::ops::{ControlFlow, Range};

use thermocline_ftl::placement::{Placement, Policy, Topology};
use thermocline_ftl::victim::Victim;
use thermocline_ftl::{Ftl, NoMedia, Shape};
use thermocline_types::{Cause, Lba};

use super::Candidate;
use super::census::{Census, Holds, LOOKS};
use super::tape::{Event, Tape};
use crate::Error;
use crate::cost::thread_cpu_seconds;

/// Entries whose map entries are brought into the cache together.
const AHEAD: usize = 16;

/// What one simulation gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    pub waf: f64,
    pub nanoseconds_per_write: f64,
    pub state_bytes_per_block: f64,
    pub units: Census,
}

/// What a policy is measured on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drive {
    pub shape: Shape,
    pub victim: Victim,
    /// Units in reserve; `None` for the default.
    pub reserve: Option<NonZeroU8>,
    pub seed: u64,
}

/// Units kept in reserve under a policy with such classes: room for the survivors of a victim and for the classes that
/// a burst of writes opens. Chosen, not measured; [`Ftl::with_reserve`] takes at most one per class of survivors.
pub(crate) fn usual_reserve(topology: Topology) -> u8 {
    (2 + topology.classes() / 2).min(topology.reserve())
}

/// Is told the share of one simulation that is done, and says whether to go on.
pub(super) type Step<'a> = &'a dyn Fn(f64) -> ControlFlow<()>;

/// An error if the work is to end here.
pub(super) fn go_on(step: Step<'_>, share: f64) -> Result<(), Error> {
    if step(share).is_break() { Err(Error::Interrupted) } else { Ok(()) }
}

/// Parts of `range`, as many as [`LOOKS`] at most.
pub(super) fn parts(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let (end, part) = (range.end, range.len().div_ceil(LOOKS).max(1));
    range.step_by(part).map(move |first| first..(first + part).min(end))
}

/// Runs `tape` on `drive`.
///
/// # Errors
/// [`Error::DoesNotFit`] when the drive has no room for it, [`Error::Interrupted`] when `step` ended it.
pub(super) fn measure(
    tape: &Tape,
    candidate: &Candidate,
    drive: Drive,
    step: Step<'_>,
) -> Result<Measured, Error> {
    match candidate.oracle(tape, drive.shape) {
        Some(oracle) => run(tape, oracle, drive, step),
        None => {
            let policy: Policy = candidate.policy().expect("what is no oracle is a policy").clone();
            run(tape, policy, drive, step)
        }
    }
}

/// [`measure`] with `placement`.
///
/// # Errors
/// As [`measure`].
pub(super) fn run<P: Placement>(
    tape: &Tape,
    placement: P,
    drive: Drive,
    step: Step<'_>,
) -> Result<Measured, Error> {
    let Drive { shape, victim, seed, .. } = drive;
    let usual = usual_reserve(placement.topology());
    let reserve = drive.reserve.map_or(usual, NonZeroU8::get);
    let ftl = Ftl::with_reserve(shape, placement, victim, seed, reserve);
    let mut ftl = ftl.map_err(|error| Error::DoesNotFit(format!("{}: {error}", tape.name)))?;
    let share = |done: usize| done as f64 / tape.len().max(1) as f64;
    for part in parts(0..tape.measured) {
        go_on(step, share(part.start))?;
        replay(&mut ftl, tape, part);
    }
    let (copied, written) = (ftl.programmed(Cause::Relocation), ftl.host_writes());
    let begun = thread_cpu_seconds();
    let mut units = Census::default();
    for part in parts(tape.measured..tape.len()) {
        go_on(step, share(part.start))?;
        replay(&mut ftl, tape, part);
        let seen = ftl.units();
        units.look(seen, |unit| Holds::Blocks { written: seen.written(unit) });
    }
    let took = thread_cpu_seconds() - begun;
    let written = (ftl.host_writes() - written).max(1) as f64;
    let copied = (ftl.programmed(Cause::Relocation) - copied) as f64;
    Ok(Measured {
        waf: 1.0 + copied / written,
        nanoseconds_per_write: took * 1e9 / written,
        state_bytes_per_block: ftl.placement().memory_bytes() as f64 / shape.exported() as f64,
        units: units.mean(),
    })
}

fn replay<P: Placement>(ftl: &mut Ftl<P>, tape: &Tape, range: Range<usize>) {
    for first in range.clone().step_by(AHEAD) {
        let some = first..(first + AHEAD).min(range.end);
        for index in some.clone() {
            if let Event::Write(lba, _) = tape.event(index) {
                ftl.prefetch(Lba(u64::from(lba)));
            }
        }
        for index in some {
            match tape.event(index) {
                Event::Write(lba, part) => ftl
                    .write_part(Lba(u64::from(lba)), 0, part, &mut NoMedia)
                    .expect("nothing wears out"),
                Event::Discard(lba) => {
                    ftl.trim(Lba(u64::from(lba)));
                }
            }
        }
    }
}
