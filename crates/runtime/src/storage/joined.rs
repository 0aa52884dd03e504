//! Several storages as one: the units of each follow those of the one before.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use thermocline_engine::{DeviceError, Members, UnitCondition, UnitReport};
use thermocline_nand::Counters;
use thermocline_types::{Bytes, DeviceId, UnitId};

use super::parts::Parts;
use super::{Command, Completion, Fault, Layout, Storage, Token, Waker};

/// A unit of a device that has left the pool, or is lost.
const GONE: UnitReport = UnitReport { condition: UnitCondition::Offline, written: None };

/// Joins several storages; units are numbered consecutively over all storages. Logical blocks and units have equal
/// sizes on all storages.
///
/// Offsets count units without gaps, even if the storages have gaps between units. Each storage is a device with
/// separate flushes.
pub struct Joined {
    parts: Parts,
    /// The units of each part in the whole.
    units: Vec<Range<u32>>,
    layout: Layout,
    completions: Vec<(usize, Completion)>,
}

impl Joined {
    /// Joins the first `units` units of each storage. Units of a missing storage are offline, and their commands fail.
    ///
    /// # Panics
    /// If all storages are missing, if a storage has fewer units, or if the layouts differ.
    #[must_use]
    pub fn new(storages: Vec<(Option<Box<dyn Storage>>, u32)>) -> Joined {
        let mut there = storages.iter().filter_map(|(storage, _)| storage.as_ref());
        let one = *there.next().expect("a pool has a device").layout();
        let mut first = 0;
        let mut counted = Vec::with_capacity(storages.len());
        for (storage, units) in &storages {
            let layout = storage.as_ref().map_or(&one, |storage| storage.layout());
            let alike = layout.logical_block == one.logical_block
                && layout.blocks_per_unit == one.blocks_per_unit;
            let enough = layout.units >= *units || storage.is_none();
            assert!(alike && enough, "{layout:?} is not divided like {one:?}");
            counted.push(first..first + units);
            first += units;
        }
        let layout = Layout::contiguous(one.logical_block, one.blocks_per_unit, first);
        let parts = Parts::new(storages.into_iter().map(|(storage, _)| storage));
        Joined { parts, units: counted, layout, completions: Vec::new() }
    }

    fn storage(&self, part: usize) -> &dyn Storage {
        self.parts.get(part).expect("it is there")
    }

    /// The part with byte `at`, and the offset within the part.
    fn place(&self, at: Bytes) -> (usize, Bytes) {
        let unit = self.layout.unit_of(at);
        let (part, own) = self.unit(unit);
        let inside = at.0 - self.layout.start(unit).0;
        if self.parts.get(part).is_none() {
            return (part, at);
        }
        (part, self.storage(part).layout().start(own) + Bytes(inside))
    }

    fn unit(&self, unit: UnitId) -> (usize, UnitId) {
        let behind = self.units.partition_point(|units| units.start <= unit.0);
        let part = behind.checked_sub(1).expect("the first part begins with unit 0");
        (part, UnitId(unit.0 - self.units[part].start))
    }

    /// The part that carries a command out, and the command as it is there.
    fn route(&self, command: Command) -> (usize, Command) {
        match command {
            Command::Write { at, parts, class } => {
                let (part, at) = self.place(at);
                (part, Command::Write { at, parts, class })
            }
            Command::Read { at, into, version } => {
                let (part, at) = self.place(at);
                (part, Command::Read { at, into, version })
            }
            Command::Heal(mut ranges) => {
                // All ranges are in one unit.
                let mut part = 0;
                for range in &mut ranges {
                    (part, range.at) = self.place(range.at);
                }
                (part, Command::Heal(ranges))
            }
            Command::Distrust { at, version } => {
                let (part, at) = self.place(at);
                (part, Command::Distrust { at, version })
            }
            Command::Flush(device) => (device.index(), Command::Flush(DeviceId(0))),
            Command::Reset(unit) => {
                let (part, unit) = self.unit(unit);
                (part, Command::Reset(unit))
            }
            Command::Zero(unit) => {
                let (part, unit) = self.unit(unit);
                (part, Command::Zero(unit))
            }
            Command::Finish(unit) => {
                let (part, unit) = self.unit(unit);
                (part, Command::Finish(unit))
            }
        }
    }
}

impl Storage for Joined {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn submit(&mut self, token: Token, command: Command) {
        let (part, command) = self.route(command);
        if self.parts.get(part).is_some() {
            self.parts.submit(part, token, command);
        } else {
            let result = Err(DeviceError::Io.into());
            self.completions.push((part, Completion::new(token, result)));
        }
    }

    fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        let wait = if self.completions.is_empty() { wait } else { Some(Duration::ZERO) };
        self.parts.reap(wait, &mut self.completions);
        done.extend(self.completions.drain(..).map(|(_, completion)| completion));
    }

    fn waker(&self) -> Waker {
        self.parts.waker()
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.parts.descriptors(into);
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.completions.is_empty() {
            return Some(Duration::ZERO);
        }
        self.parts.timeout()
    }

    fn report(&mut self) -> Result<Vec<UnitReport>, Fault> {
        let mut all = Vec::with_capacity(self.layout.units as usize);
        for (part, units) in self.units.iter().enumerate() {
            match self.parts.get_mut(part) {
                Some(storage) => all.extend(storage.report()?.into_iter().take(units.len())),
                None => all.extend(std::iter::repeat_n(GONE, units.len())),
            }
        }
        Ok(all)
    }

    fn lost(&mut self) -> Option<String> {
        (0..self.units.len()).find_map(|part| self.parts.get_mut(part)?.lost())
    }

    fn overdue(&self) -> Option<String> {
        (0..self.units.len()).find_map(|part| self.parts.get(part)?.overdue())
    }

    fn members(&self) -> Members {
        let mut all = Members::NONE;
        for part in 0..self.units.len() {
            if let Some(storage) = self.parts.get(part) {
                all.set(DeviceId(part as u8), storage.members().of(DeviceId(0)));
            }
        }
        all
    }

    fn drive_counters(&self) -> Option<Counters> {
        self.parts.drive_counters()
    }

    fn drive_media(&self) -> Bytes {
        self.parts.drive_media()
    }
}
