//! The collection of one zone on the timed drive, one command after the other, and a job beside it.
//!
//! Only the drive's commands are modelled: reads of a zone of 1 GiB with holes at random, writes of what is valid to
//! another zone. The drive has no write buffer: a write ends when its data is programmed. A write goes out as soon as
//! its data has been read. Maps and headers are left out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thermocline_nand::{Drive, Profile};
use thermocline_types::{Bytes, Op, Request, Rng, StreamId, TenantId, Time};

use crate::{Error, Stack};

/// A zone of the document, 1 GiB, rounded up so that its parts are whole programs of the drive (192 KiB) and [`LARGE`].
const ZONE: Bytes = Bytes::kib(PARTS * 683 * 384);
/// Parts of a zone, of which one is timed: a collection goes on evenly.
const PARTS: u64 = 4;
const PART: Bytes = Bytes(ZONE.0 / PARTS);
/// A large read or write: in the document, and in the job.
pub const LARGE: Bytes = Bytes::kib(128);
/// The victim zone, the zones for relocated blocks, and the zones of the job.
const VICTIM: u64 = 0;
const COPIES: Ring = Ring { first: 1, zones: 2 };
const JOB_DATA: Ring = Ring { first: 3, zones: 4 };
const JOB_WRITES: Ring = Ring { first: 7, zones: 2 };
const ZONES: u64 = 9;

/// A page of the prototype.
const PAGE: Bytes = Bytes::kib(64);
/// Time of a program, us.
const PROGRAM_US: f64 = 1913.64;
/// The zoned prototype as NVMeVirt (FAST 2023) fits it, with pages of 64 KiB, of which it programs three at once. A
/// zone has all dies of the ZN540, which makes no difference to one command at a time.
const PROTOTYPE: [&str; 6] = [
    "geometry.page=64KiB",
    "timing.read_us=40.95",
    "timing.bus_mb_per_s=800",
    "timing.firmware_read_us=32.15",
    "timing.link_read_mb_per_s=3200",
    "timing.link_write_mb_per_s=3200",
];

/// How a zone is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Whether all of the zone is read in large pieces, or each valid block by a command of its own.
    pub reads_all: bool,
    /// Size of a write.
    pub write: Bytes,
}

/// Zones written in rotation.
#[derive(Clone, Copy, Debug)]
struct Ring {
    first: u64,
    zones: u64,
}

impl Ring {
    fn bytes(self) -> u64 {
        self.zones * ZONE.0
    }

    /// Where byte number `at` of all that is written goes.
    fn offset(self, at: u64) -> Bytes {
        Bytes(self.first * ZONE.0 + at % self.bytes())
    }
}

/// A zoned drive with the zones of the document.
#[derive(Clone)]
pub struct Rig {
    drive: Drive,
    ready: Time,
}

impl Rig {
    /// [`PROTOTYPE`] with zones of 1 GiB, of which the victim and the job's data are written. A program takes the pages
    /// of a `write`, so that no write waits for another to fill its program.
    ///
    /// # Errors
    /// [`Error`] when the drive cannot be made.
    pub fn new(write: Bytes) -> Result<Rig, Error> {
        let size = ["device.unit", "device.zns.zone_size", "device.zns.zone_capacity"];
        let mut settings = size.map(|key| format!("{key}={}", ZONE.0)).to_vec();
        settings.push(format!("device.timing.program_us={PROGRAM_US}"));
        settings.push(format!("device.geometry.planes={}", write.0 / PAGE.0));
        settings.extend(PROTOTYPE.map(|setting| format!("device.{setting}")));
        let stack = Stack::parse("raw:zn540", &settings)?;
        let profile: &Profile = &stack.profile;
        let mut rig =
            Rig { drive: Drive::new(profile, Some(Bytes(ZONES * ZONE.0)), 1)?, ready: Time::ZERO };
        for zone in [VICTIM].into_iter().chain(JOB_DATA.first..JOB_DATA.first + JOB_DATA.zones) {
            for at in (0..ZONE.0).step_by(LARGE.0 as usize) {
                let offset = Bytes(zone * ZONE.0 + at);
                rig.ready = rig.submit(rig.ready, &Command::write(offset, LARGE));
            }
        }
        rig.ready = rig.ready.max(rig.drive.media().drained());
        Ok(rig)
    }

    /// How long the collection of a zone takes of which the share `used` is valid, by the time of a part.
    pub fn time(&self, used: f64, way: Way) -> Time {
        Time(self.time_of(used, way, PART).0 * PARTS)
    }

    /// How long the collection of the first `length` of a zone takes.
    fn time_of(&self, used: f64, way: Way, length: Bytes) -> Time {
        let mut rig = self.clone();
        let mut collection = Collection::new(used, way, length, Some(1));
        rig.serve(&mut [&mut collection]).since(self.ready)
    }

    /// How long it takes to read a part of a zone in pieces of `piece`, one after the other.
    pub fn reads(&self, piece: Bytes) -> Time {
        let mut rig = self.clone();
        rig.serve(&mut [&mut Reading { piece, next: 0 }]).since(self.ready)
    }

    /// How long `job` takes alone.
    pub fn alone(&self, job: Job) -> Time {
        let mut rig = self.clone();
        let ended = rig.serve(&mut [&mut job.begin()]);
        ended.since(self.ready)
    }

    /// How long `job` takes while zones are collected, and how many are meanwhile.
    pub fn beside(&self, job: Job, used: f64, way: Way) -> (Time, f64) {
        let mut rig = self.clone();
        let mut collection = Collection::new(used, way, ZONE, None);
        let ended = rig.serve(&mut [&mut job.begin(), &mut collection]);
        (ended.since(self.ready), collection.zones_done())
    }

    /// Submits `command`; returns when it is complete, for a write when the media have all data so far.
    fn submit(&mut self, at: Time, command: &Command) -> Time {
        let done = self.drive.submit(at, &command.request, 0);
        let done = done.expect("zones are written front to back, within the drive");
        match command.request.op {
            Op::Write => done.max(self.drive.media().drained()),
            _ => done,
        }
    }

    /// Serves the commands of all sources until the first source is exhausted. Returns the time of the first source's
    /// last completion.
    fn serve(&mut self, all: &mut [&mut dyn Commands]) -> Time {
        let mut now = self.ready;
        let mut due = BinaryHeap::new();
        let mut in_flight = vec![0; all.len()];
        let mut sent = 0u64;
        loop {
            for (who, commands) in all.iter_mut().enumerate() {
                while in_flight[who] < commands.depth()
                    && let Some(command) = commands.next()
                {
                    let done = self.submit(now, &command);
                    due.push(Reverse((done.max(now), sent, who, command.found)));
                    sent += 1;
                    in_flight[who] += 1;
                }
            }
            if in_flight[0] == 0 {
                return now;
            }
            let Reverse((at, _, who, found)) = due.pop().expect("the first has commands in flight");
            now = at;
            in_flight[who] -= 1;
            if let Some(found) = found {
                all[who].was_read(found);
            }
        }
    }
}

/// A command, and for a read how many valid blocks it brings.
struct Command {
    request: Request,
    found: Option<u64>,
}

impl Command {
    fn new(op: Op, offset: Bytes, length: Bytes, found: Option<u64>) -> Command {
        let request = Request {
            at: Time::ZERO,
            offset,
            length,
            tenant: TenantId(0),
            stream: StreamId::UNKNOWN,
            op,
            outstanding: None,
        };
        Command { request, found }
    }

    fn write(offset: Bytes, length: Bytes) -> Command {
        Command::new(Op::Write, offset, length, None)
    }

    fn read(offset: Bytes, length: Bytes, found: u64) -> Command {
        Command::new(Op::Read, offset, length, Some(found))
    }
}

/// Who has commands for the drive.
trait Commands {
    /// Commands in flight at most.
    fn depth(&self) -> u32;
    /// The next command; `None` if no command is ready.
    fn next(&mut self) -> Option<Command>;
    /// A read that returned `found` valid blocks is complete.
    fn was_read(&mut self, found: u64);
}

/// Repeated collection of the same victim zone.
struct Collection {
    way: Way,
    /// Which blocks are valid.
    valid: Vec<bool>,
    valid_count: u64,
    /// Collections left after the current collection; `None` without end.
    left: Option<u32>,
    /// Next block to look at.
    next: usize,
    /// Reads in flight.
    reading: u32,
    /// Blocks read and not yet written.
    held: u64,
    written: u64,
    copied: u64,
}

impl Collection {
    fn new(used: f64, way: Way, length: Bytes, zones: Option<u32>) -> Collection {
        let blocks = length.0 / Bytes::BLOCK.0;
        let valid_count = (blocks as f64 * used).round() as u64;
        let (mut rng, mut left) = (Rng::new(1), valid_count);
        let mut choose = |block: u64| {
            let chosen = rng.below(blocks - block) < left;
            left -= u64::from(chosen);
            chosen
        };
        let valid = (0..blocks).map(&mut choose).collect();
        Collection {
            way,
            valid,
            valid_count,
            left: zones.map(|zones| zones - 1),
            next: 0,
            reading: 0,
            held: 0,
            written: 0,
            copied: 0,
        }
    }

    /// Zones collected, the last one in part.
    fn zones_done(&self) -> f64 {
        self.copied as f64 / self.valid_count as f64
    }

    /// The next read of the victim, or of the victim after it.
    fn read(&mut self) -> Option<Command> {
        let piece = if self.way.reads_all { LARGE } else { Bytes::BLOCK };
        let blocks = (piece.0 / Bytes::BLOCK.0) as usize;
        if !self.way.reads_all {
            let rest = &self.valid[self.next..];
            self.next += rest.iter().position(|&valid| valid).unwrap_or(rest.len());
        }
        if self.next == self.valid.len() {
            if self.left == Some(0) {
                return None;
            }
            self.left = self.left.map(|left| left - 1);
            self.next = 0;
            return self.read();
        }
        let at = self.next;
        self.next += blocks;
        let found = self.valid[at..self.next].iter().filter(|&&valid| valid).count();
        self.reading += 1;
        let offset = Bytes(VICTIM * ZONE.0 + at as u64 * Bytes::BLOCK.0);
        Some(Command::read(offset, piece, found as u64))
    }

    /// The next write, if its data has been read or no more will be.
    fn write(&mut self) -> Option<Command> {
        let whole = self.way.write.0 / Bytes::BLOCK.0;
        let ended = self.reading == 0 && self.next == self.valid.len() && self.left == Some(0);
        if self.held == 0 || (self.held < whole && !ended) {
            return None;
        }
        let blocks = self.held.min(whole);
        let offset = COPIES.offset(self.written);
        let room = ZONE.0 - offset.0 % ZONE.0;
        let length = Bytes((blocks * Bytes::BLOCK.0).min(room));
        self.held -= length.0 / Bytes::BLOCK.0;
        self.copied += length.0 / Bytes::BLOCK.0;
        self.written += length.0;
        Some(Command::write(offset, length))
    }
}

impl Commands for Collection {
    fn depth(&self) -> u32 {
        1
    }

    fn next(&mut self) -> Option<Command> {
        // No further read means that what is held goes out.
        self.write().or_else(|| self.read()).or_else(|| self.write())
    }

    fn was_read(&mut self, found: u64) {
        self.reading -= 1;
        self.held += found;
    }
}

/// A part of a zone, read once.
struct Reading {
    piece: Bytes,
    next: u64,
}

impl Commands for Reading {
    fn depth(&self) -> u32 {
        1
    }

    fn next(&mut self) -> Option<Command> {
        let at = Bytes(self.next * self.piece.0);
        self.next += 1;
        (at < PART).then(|| Command::read(Bytes(VICTIM * ZONE.0) + at, self.piece, 0))
    }

    fn was_read(&mut self, _found: u64) {}
}

/// A job that reads and writes beside a collection.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Requests, [`LARGE`] each.
    pub requests: u32,
    /// Share of random reads among the requests.
    pub reads: f64,
    /// Requests in flight.
    pub depth: u32,
}

impl Job {
    fn begin(self) -> Working {
        Working { job: self, rng: Rng::new(2), left: self.requests, written: 0 }
    }
}

/// A job at work.
struct Working {
    job: Job,
    rng: Rng,
    left: u32,
    written: u64,
}

impl Commands for Working {
    fn depth(&self) -> u32 {
        self.job.depth
    }

    fn next(&mut self) -> Option<Command> {
        self.left = self.left.checked_sub(1)?;
        if self.rng.unit_f64() < self.job.reads {
            let at = self.rng.below(JOB_DATA.bytes() / LARGE.0) * LARGE.0;
            return Some(Command::read(JOB_DATA.offset(at), LARGE, 0));
        }
        let offset = JOB_WRITES.offset(self.written);
        self.written += LARGE.0;
        Some(Command::write(offset, LARGE))
    }

    fn was_read(&mut self, _found: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASIC: Way = Way { reads_all: false, write: LARGE };

    #[test]
    fn a_part_of_a_zone_takes_its_part_of_the_time() {
        let rig = Rig::new(LARGE).unwrap();
        let way = Way { reads_all: true, write: LARGE };
        let whole = rig.time_of(0.6, way, ZONE).as_secs_f64();
        let error = rig.time(0.6, way).as_secs_f64() / whole - 1.0;
        assert!(error.abs() < 0.02, "{error}");
    }

    #[test]
    fn one_command_after_the_other_takes_as_long_as_there_is_valid_data() {
        let rig = Rig::new(LARGE).unwrap();
        let time = |used| rig.time(used, BASIC).as_secs_f64();
        let ratio = time(0.25) / time(0.05);
        assert!((4.8..5.2).contains(&ratio), "{ratio}");
    }

    #[test]
    fn every_write_takes_a_program_and_no_block_is_lost() {
        let rig = Rig::new(LARGE).unwrap();
        let mut collection = Collection::new(0.1, BASIC, PART, Some(1));
        let time = rig.clone().serve(&mut [&mut collection]).since(rig.ready);
        assert_eq!(collection.copied, collection.valid_count);
        let writes = (collection.written / LARGE.0) as f64;
        assert!(time.as_secs_f64() > writes * PROGRAM_US * 1e-6, "{time:?}");
    }

    #[test]
    fn a_job_takes_longer_beside_a_collection() {
        let rig = Rig::new(LARGE).unwrap();
        let job = Job { requests: 2000, reads: 0.7, depth: 4 };
        let alone = rig.alone(job);
        let (with, zones) = rig.beside(job, 0.6, BASIC);
        assert!(with > alone && zones > 0.0, "{with:?}, {alone:?}, {zones}");
    }
}
