//! A simulated drive with real bytes: rules, counters and optional latency.

mod refill;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use thermocline_engine::{DeviceError, UnitCondition, UnitReport};
use thermocline_format::LogicalBlock;
use thermocline_nand::{Counters, Drive, DriveError, Sliced, UnitStatus, ZoneError, ZoneState};
use thermocline_types::{Bytes, Class, Op, Request, StreamId, TenantId, Time};

use super::{
    Command, Completion, Fault, File, Layout, OpenError, OpenErrorKind, Options, Storage, Token,
    Waker,
};
use crate::Buffer;
use refill::refill;

/// Whether commands take as long as on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// As long as the file takes.
    None,
    /// As long as the file takes, but no shorter than on the drive.
    Modelled,
}

/// A drive of the simulator whose data is in a sparse file.
///
/// A drive with zones has its own; on any other, units are slices of what it exports, and a reset trims. The drive
/// decides whether a command is allowed, counts bytes and erases, and tells the time. When the file is opened again,
/// the drive is a new one that holds what the file does, written one after the other: counters and wear begin anew,
/// and so does how data lies on the media.
#[derive(Debug)]
pub struct Simulated {
    file: File,
    drive: Sliced,
    latency: Latency,
    /// Counters at the end of the refill from the file.
    filled: Counters,
    /// The drive's time at opening.
    ready_at: Time,
    began: Instant,
    /// When the drive will be done with commands that the file still works on.
    due: FxHashMap<Token, Time>,
    /// What the file has done and the drive has not.
    held: BinaryHeap<Reverse<(Time, Token)>>,
    ready: Vec<Completion>,
    fresh: Vec<Completion>,
}

impl Simulated {
    /// Puts `drive`, which must be fresh, before the file at `path`; `create` as for [`File::open`]. On drives
    /// without zones, a unit has `unit` bytes; with zones it is a zone.
    ///
    /// # Errors
    /// [`OpenError`], also when units of that size cannot be.
    pub fn open(
        path: &Path,
        create: bool,
        drive: Drive,
        logical_block: LogicalBlock,
        unit: Bytes,
        latency: Latency,
        options: &Options,
    ) -> Result<Simulated, OpenError> {
        let layout = Simulated::layout_of(&drive, logical_block, unit);
        let layout = layout.map_err(|why| OpenError::new(path, OpenErrorKind::Zones(why)))?;
        let file = File::open(path, create, layout, options)?;
        let mut drive = Sliced::new(drive, unit);
        refill(drive.drive_mut(), &file)
            .map_err(|error| OpenError::system(path, io::Error::other(error)))?;
        Ok(Simulated {
            file,
            filled: drive.drive().counters(),
            ready_at: drive.drive().media().drained(),
            drive,
            latency,
            began: Instant::now(),
            due: FxHashMap::default(),
            held: BinaryHeap::new(),
            ready: Vec::new(),
            fresh: Vec::new(),
        })
    }

    /// How `drive` is divided into units of `unit` bytes, or into its zones.
    pub(crate) fn layout_of(
        drive: &Drive,
        block: LogicalBlock,
        unit: Bytes,
    ) -> Result<Layout, &'static str> {
        let bytes = block.bytes() as u64;
        if let Drive::Zoned(zoned) = drive {
            let mapping_unit = zoned.cut().mapping_unit.0;
            if !bytes.is_multiple_of(mapping_unit) {
                return Err("the drive's logical blocks are larger than those asked for");
            }
            let blocks_per_unit = (zoned.zone(0).capacity.0 / bytes) as u32;
            let (units, unit_distance) = (zoned.zones(), zoned.zone_size());
            return Ok(Layout { logical_block: block, blocks_per_unit, units, unit_distance });
        }
        if unit.0 == 0 || !unit.0.is_multiple_of(bytes) || unit.0 / bytes > u64::from(u32::MAX) {
            return Err("a unit must be some number of logical blocks");
        }
        let units =
            u32::try_from(drive.cut().capacity().0 / unit.0).map_err(|_| "too many units")?;
        Ok(Layout::contiguous(block, (unit.0 / bytes) as u32, units))
    }

    /// The drive.
    #[must_use]
    pub fn drive(&self) -> &Drive {
        self.drive.drive()
    }

    fn now(&self) -> Time {
        self.ready_at + Time::nanos(self.began.elapsed().as_nanos() as u64)
    }

    /// Trims the bytes from `at` on; they read as zeros. Only for drives without zones.
    pub(crate) fn trim(&mut self, token: Token, at: Bytes, length: Bytes) {
        let now = self.now();
        match self.drive.drive_mut().submit(now, &trim(now, at, length), 0) {
            Err(error) => {
                self.ready.push(Completion::new(token, Err(device_error(&error).into())));
            }
            Ok(due) => {
                self.hold_until(token, due);
                self.file.zero(token, at, length);
            }
        }
    }

    /// The command completes no earlier than at `due`, if latency is modelled.
    fn hold_until(&mut self, token: Token, due: Time) {
        if self.latency == Latency::Modelled {
            self.due.insert(token, due);
        }
    }

    /// Whether a command ends a zone that is not full.
    fn ends_early(&self, command: &Command) -> bool {
        match (command, self.drive.drive()) {
            (Command::Finish(unit), Drive::Zoned(drive)) => {
                drive.zone(unit.0).state != ZoneState::Full
            }
            _ => false,
        }
    }

    /// Has the file carry out a command. So that this is known when the file is opened again, a reset leaves a hole in
    /// every file, and of a zone that ends early the last block is written.
    fn hand_over(&mut self, token: Token, command: Command, ends_early: bool) {
        match command {
            Command::Reset(unit) => self.file.empty(token, unit),
            Command::Finish(unit) if ends_early => {
                let layout = self.file.layout();
                let block = layout.logical_block.bytes();
                let at = layout.start(unit) + layout.unit_bytes() - Bytes(block as u64);
                let zeroes = Buffer::new(thermocline_target::Buffer::zeroed(block));
                self.file
                    .submit(token, Command::Write { at, parts: vec![zeroes], class: Class(0) });
            }
            command => self.file.submit(token, command),
        }
    }

    /// Has the drive carry out a command; returns when it will be done.
    fn decide(&mut self, command: &Command) -> Result<Time, DriveError> {
        let (now, drive) = (self.now(), &mut self.drive);
        match command {
            Command::Write { at, parts, class } => drive.write(now, *at, length(parts), *class),
            Command::Read { at, into, .. } => drive.read(now, *at, Bytes(into.len() as u64)),
            Command::Reset(unit) | Command::Zero(unit) => drive.reset(now, *unit),
            Command::Finish(unit) => drive.finish(now, *unit),
            Command::Flush(_) => drive.flush(now),
            Command::Heal(_) | Command::Distrust { .. } => Ok(now),
        }
    }

    /// Hands out what both the file and the drive have done.
    fn release(&mut self, done: &mut Vec<Completion>) {
        let now = self.now();
        for completion in self.fresh.drain(..) {
            let due = self.due.remove(&completion.token).unwrap_or(now);
            if due > now && completion.result.is_ok() {
                self.held.push(Reverse((due, completion.token)));
            } else {
                self.ready.push(completion);
            }
        }
        while let Some(&Reverse((due, token))) = self.held.peek() {
            if due > now {
                break;
            }
            self.held.pop();
            self.ready.push(Completion::new(token, Ok(())));
        }
        done.append(&mut self.ready);
    }
}

impl Storage for Simulated {
    fn layout(&self) -> &Layout {
        self.file.layout()
    }

    fn submit(&mut self, token: Token, command: Command) {
        let ends_early = self.ends_early(&command);
        match self.decide(&command) {
            Err(error) => {
                self.ready.push(Completion::new(token, Err(device_error(&error).into())));
            }
            Ok(due) => {
                self.hold_until(token, due);
                self.hand_over(token, command, ends_early);
            }
        }
    }

    fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        let wait = wait.into_iter().chain(self.timeout()).min();
        self.file.reap(wait, &mut self.fresh);
        self.release(done);
    }

    fn waker(&self) -> Waker {
        self.file.waker()
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.file.descriptors(into);
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let &Reverse((due, _)) = self.held.peek()?;
        Some(Duration::from_nanos(due.since(self.now()).as_nanos()))
    }

    fn report(&mut self) -> Result<Vec<UnitReport>, Fault> {
        let block = self.file.layout().logical_block.bytes() as u64;
        let report = |status| {
            let (condition, written) = match status {
                UnitStatus::Good { written } => (UnitCondition::Good, written),
                UnitStatus::ReadOnly => (UnitCondition::ReadOnly, None),
                UnitStatus::Offline => (UnitCondition::Offline, None),
            };
            UnitReport { condition, written: written.map(|bytes| (bytes.0 / block) as u32) }
        };
        Ok(self.drive.report().map(report).collect())
    }

    fn drive_counters(&self) -> Option<Counters> {
        Some(self.drive.drive().counters().since(&self.filled))
    }

    fn drive_media(&self) -> Bytes {
        self.drive.drive().cut().media()
    }
}

fn trim(at: Time, offset: Bytes, length: Bytes) -> Request {
    let (tenant, stream) = (TenantId(0), StreamId::UNKNOWN);
    Request { at, offset, length, tenant, stream, op: Op::Trim, outstanding: None }
}

fn length(parts: &[Buffer]) -> Bytes {
    Bytes(parts.iter().map(|part| part.len() as u64).sum())
}

fn device_error(error: &DriveError) -> DeviceError {
    match error {
        DriveError::Zone { error: ZoneError::ReadOnly, .. } => DeviceError::ReadOnly,
        DriveError::Zone { error: ZoneError::Offline, .. } => DeviceError::Offline,
        DriveError::EndOfLife => DeviceError::Gone,
        _ => DeviceError::Io,
    }
}
