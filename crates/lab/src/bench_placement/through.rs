//! The yardstick beside the log engine on equal media, and where the difference goes.
//!
//! The engine runs as in service, with as many units as the yardstick and of the same size. Superblocks, maps and
//! reserve take space from these units. Writes complete in memory, so chunks are full. Blocks overwritten in memory
//! never reach media. A host cannot prevent this absorption, because a chunk holds a block only once. Hence the
//! yardstick replays the engine's media writes: the same blocks in the same order. Both figures therefore exclude
//! absorption and cover the same writes.
//!
//! Each cause costs twice. The first cost is the bytes written for the cause, which are counted. The second cost is the
//! space taken from garbage. A yardstick run on a drive without this space measures the second cost.
//!
//! Invariants:
//! * The costs of all causes sum to the difference.

use serde::Serialize;
use thermocline_ftl::Shape;
use thermocline_ftl::placement::{Classifier as _, Policy};
use thermocline_ftl::victim::Victim;
use thermocline_types::{Bytes, Op, Request, StreamId, TenantId, Time};

use super::Candidate;
use super::cell::{self, Drive, Measured, Step, go_on, parts};
use super::census::{Census, Holds};
use super::tape::{Event, Tape};
use crate::log::device::Journal;
use crate::log::machine::Machine;
use crate::log::plan::Plan;
use crate::target::Target as _;
use crate::{Error, Room, Settings, Stack};

/// Requests submitted to the engine together. The number affects only the run time, because requests complete in
/// memory.
const TOGETHER: usize = 32;
/// Blocks by which units may be shorter so that a drive has just the room it is to have: 3 % of 512. Their number alone
/// would leave it wrong by half a unit.
const SHORTER: u32 = 16;
/// Runs of the yardstick: on the whole drive, and once for each cause.
const RUNS: u32 = 6;
/// The share of all work that the engine's own run is taken for, to show how far it is.
const SERVED: f64 = 0.5;

/// One policy on the yardstick and through the engine.
#[derive(Clone, Debug, Serialize)]
pub struct Through {
    /// The policy.
    pub policy: String,
    /// Its victim rule.
    pub victim: String,
    /// Share of the host's writes that were overwritten in memory and never reached media.
    pub absorbed: f64,
    /// WAF of the yardstick, for the blocks that reached media.
    pub yardstick: f64,
    /// WAF of the engine, for the same blocks.
    pub engine: f64,
    /// All causes of the difference.
    pub causes: Vec<Cost>,
}

/// Cost of one cause, in block writes for each host block that reached media.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// The cause.
    pub cause: &'static str,
    /// Units kept without data for the cause, on average.
    pub units: f64,
    /// Blocks written for the cause.
    pub written: f64,
    /// Extra copies, because garbage has less space.
    pub copied: f64,
}

impl Cost {
    /// Both costs together.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.written + self.copied
    }
}

/// What to put through the engine.
pub(super) struct Course<'a> {
    pub tape: &'a Tape,
    pub policy: &'a Policy,
    pub victim: Victim,
    pub drive: Drive,
    /// Settings of the log, `log.KEY=VALUE`.
    pub settings: &'a [String],
    /// Is told how far it is.
    pub step: Step<'a>,
}

/// Measurements of the engine's run.
struct Served {
    counts: Counts,
    /// Blocks that reached media since the beginning, and at which of them measurement began.
    host: Vec<u32>,
    measured: usize,
    units: Census,
}

/// Counters: of blocks, and of bytes.
#[derive(Clone, Copy, Debug)]
struct Counts {
    relocated: u64,
    absorbed: u64,
    written: u64,
    headers: u64,
    metadata: u64,
    superblocks: u64,
}

impl Counts {
    fn of(machine: &Machine) -> Counts {
        let (stats, journal) = (machine.engine().stats(), journal(machine));
        Counts {
            relocated: stats.relocated_blocks,
            absorbed: stats.absorbed_blocks,
            written: machine.device().written(),
            headers: journal.headers,
            metadata: journal.metadata,
            superblocks: stats.superblock_bytes,
        }
    }

    fn since(self, before: Counts) -> Counts {
        Counts {
            relocated: self.relocated - before.relocated,
            absorbed: self.absorbed - before.absorbed,
            written: self.written - before.written,
            headers: self.headers - before.headers,
            metadata: self.metadata - before.metadata,
            superblocks: self.superblocks - before.superblocks,
        }
    }
}

impl Course<'_> {
    /// Runs engine and yardstick.
    ///
    /// # Errors
    /// [`Error`] when the engine fails; [`Error::DoesNotFit`] when the blocks do not fit beside the space set aside by
    /// the engine; [`Error::Interrupted`] when `step` ended the run.
    pub(super) fn run(&self) -> Result<Through, Error> {
        let Served { counts, host, measured, units } = self.serve()?;
        let written = (host.len() - measured).max(1) as f64;
        let per_write = |bytes: u64| bytes as f64 / Bytes::BLOCK.0 as f64 / written;
        let copies = counts.relocated as f64 / written;
        let headers = per_write(counts.headers);
        let tape = Tape::of_blocks(&self.tape.name, self.tape.blocks, host, measured);
        let yardstick = self.yardstick(&tape, 0.0, 0)?;
        let users =
            f64::from(self.drive.shape.units()) - units.superblocks - units.metadata - units.empty;
        let causes = [
            ("headers", users * headers / (1.0 + copies + headers), headers),
            ("maps", units.metadata, per_write(counts.metadata)),
            ("superblocks", units.superblocks, per_write(counts.superblocks)),
            ("empty units", units.empty - yardstick.units.empty, 0.0),
            ("open units", units.unwritten - yardstick.units.unwritten, 0.0),
        ];
        let (mut taken, mut before) = (0.0, yardstick.waf);
        let mut costs = Vec::new();
        for (number, (cause, units, written)) in (1..).zip(causes) {
            taken += units;
            let waf = self.yardstick(&tape, taken, number)?.waf;
            costs.push(Cost { cause, units, written, copied: waf - before });
            before = waf;
        }
        let copied = copies - (before - 1.0);
        costs.push(Cost { cause: "unexplained", units: 0.0, written: 0.0, copied });
        Ok(Through {
            policy: self.policy.to_string(),
            victim: self.victim.to_string(),
            absorbed: counts.absorbed as f64 / self.tape.writes_measured() as f64,
            yardstick: yardstick.waf,
            engine: per_write(counts.written),
            causes: costs,
        })
    }

    /// The yardstick on a drive smaller by `taken` units, run `number` of [`RUNS`].
    fn yardstick(&self, tape: &Tape, taken: f64, number: u32) -> Result<Measured, Error> {
        let whole = self.drive.shape;
        let room = whole.physical() as f64 - taken * f64::from(whole.blocks_per_unit());
        let candidate = Candidate::Policy(Box::new(self.policy.clone()));
        let shape = with_room(whole, room)
            .map_err(|error| Error::DoesNotFit(format!("{}: {error}", tape.name)))?;
        let begun = SERVED + (1.0 - SERVED) * f64::from(number) / f64::from(RUNS);
        let step = |share: f64| (self.step)(begun + (1.0 - SERVED) * share / f64::from(RUNS));
        cell::measure(tape, &candidate, Drive { shape, ..self.drive }, &step)
    }

    /// Writes all of the tape through the engine.
    fn serve(&self) -> Result<Served, Error> {
        let mut machine = self.machine()?;
        machine.device_mut().keep_journal();
        let share = |done: usize| SERVED * done as f64 / self.tape.len().max(1) as f64;
        for part in parts(0..self.tape.measured) {
            go_on(self.step, share(part.start))?;
            self.write(&mut machine, part)?;
        }
        let (before, measured) = (Counts::of(&machine), journal(&machine).host.len());
        let mut units = Census::default();
        for part in parts(self.tape.measured..self.tape.len()) {
            go_on(self.step, share(part.start))?;
            self.write(&mut machine, part)?;
            look(&mut units, &machine, self.policy.topology().classes());
        }
        Ok(Served {
            counts: Counts::of(&machine).since(before),
            host: journal(&machine).host.clone(),
            measured,
            units: units.mean(),
        })
    }

    fn machine(&self) -> Result<Machine, Error> {
        let (shape, blocks) =
            (self.drive.shape, Bytes(u64::from(self.tape.blocks) * Bytes::BLOCK.0));
        let spare = shape.physical() as f64 / shape.exported() as f64 - 1.0;
        let unit = Bytes(u64::from(shape.blocks_per_unit()) * Bytes::BLOCK.0);
        let mut settings = self.settings.to_vec();
        settings.extend([format!("device.unit={}", unit.0), format!("device.op={spare}")]);
        let mut stack = Stack::parse("log:ideal", &settings)?;
        stack.place(&self.policy.to_string())?;
        let asked = Settings {
            capacity: Some(blocks),
            victim: Some(self.victim),
            seed: self.drive.seed,
            ..Settings::default()
        };
        let plan = Plan::new(&stack, &asked, Room::all_of(blocks))?;
        assert_eq!(plan.config.geometry.units(), shape.units(), "media are equal");
        plan.build()
    }

    /// Writes a part of the tape, block by block.
    fn write(&self, machine: &mut Machine, part: std::ops::Range<usize>) -> Result<(), Error> {
        let request = |index| match self.tape.event(index) {
            Event::Write(lba, _) => Request {
                at: Time::ZERO,
                offset: Bytes(u64::from(lba) * Bytes::BLOCK.0),
                length: Bytes::BLOCK,
                tenant: TenantId(0),
                stream: StreamId::UNKNOWN,
                op: Op::Write,
                outstanding: None,
            },
            Event::Discard(_) => unreachable!("discards are refused"),
        };
        for first in part.clone().step_by(TOGETHER) {
            let some: Vec<Request> =
                (first..(first + TOGETHER).min(part.end)).map(request).collect();
            machine.prefetch(&some);
            some.iter().for_each(|one| machine.submit(&[*one], 0));
            while machine.in_work() > 0 {
                machine.step()?;
            }
            while machine.next_finished().is_some() {}
            if let Some(error) = machine.failed() {
                return Err(Error::Engine(error.to_string()));
            }
        }
        Ok(())
    }
}

/// Looks at all units of the engine, whose classes from `users` on are metadata's.
fn look(census: &mut Census, machine: &Machine, users: u8) {
    let (units, device) = (machine.engine().units(), machine.device());
    census.look(units, |unit| {
        if device.geometry().is_superblock_unit(unit) {
            Holds::Superblocks
        } else if units.class(unit).0 >= users {
            Holds::Metadata
        } else {
            Holds::Blocks { written: device.written_in(unit) }
        }
    });
}

fn journal(machine: &Machine) -> &Journal {
    machine.device().journal().expect("one is kept")
}

/// A drive like `whole` that has `room` blocks, with units a little shorter if their number alone does not give it.
fn with_room(whole: Shape, room: f64) -> Result<Shape, thermocline_ftl::ShapeError> {
    let longest = whole.blocks_per_unit();
    let off = |per_unit: u32| {
        let units = (room / f64::from(per_unit)).round().max(1.0);
        (units as u32, (units * f64::from(per_unit) - room).abs())
    };
    let lengths = (longest.saturating_sub(SHORTER).max(1)..=longest).rev();
    let best = lengths.min_by(|a, b| off(*a).1.total_cmp(&off(*b).1)).unwrap_or(longest);
    Shape::new(whole.exported(), off(best).0, best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_has_just_the_room_it_is_to_have() {
        let whole = Shape::new(195_000, 450, 512).unwrap();
        for taken in [0.0, 3.4, 17.77] {
            let room = 512.0 * (450.0 - taken);
            let shape = with_room(whole, room).unwrap();
            let off = shape.physical() as f64 - room;
            assert!(off.abs() < 40.0, "{off} blocks, a unit has {}", shape.blocks_per_unit());
        }
        assert_eq!(with_room(whole, 512.0 * 450.0), Ok(whole));
    }
}
