//! A device of the pool: a drive, or a group of drives.

use thermocline_array::WrittenBytes;
use thermocline_format::RaidShape;
use thermocline_nand::{Drive, DriveError, OwnerRun, Sliced, UnitStatus};
use thermocline_types::{Bytes, Class, Time, UnitId};

use super::group::DriveGroup;

/// A device of the pool.
#[derive(Debug)]
pub enum Part {
    /// A drive.
    One(Sliced),
    /// A group of drives.
    Group(Box<DriveGroup>),
}

impl Part {
    /// `drive` in units of `unit` bytes. With a shape, `drive` is the members of a group side by side.
    pub fn new(drive: Drive, unit: Bytes, shape: Option<RaidShape>) -> Part {
        match shape {
            None => Part::One(Sliced::new(drive, unit)),
            Some(shape) => Part::Group(Box::new(DriveGroup::new(shape, drive))),
        }
    }

    /// The drive, or all of the group.
    pub fn drive(&self) -> &Drive {
        match self {
            Part::One(drive) => drive.drive(),
            Part::Group(group) => group.drives(),
        }
    }

    /// The same, to look at its units.
    pub fn drive_mut(&mut self) -> &mut Drive {
        match self {
            Part::One(drive) => drive.drive_mut(),
            Part::Group(group) => group.drives_mut(),
        }
    }

    /// Bytes that the members of a group were given, by cause; `None` of a drive.
    pub fn written(&self) -> Option<WrittenBytes> {
        match self {
            Part::One(_) => None,
            Part::Group(group) => Some(group.written()),
        }
    }

    /// From now on, follows whose of `count` owners the data is.
    pub fn follow_owners(&mut self, count: u16, piece: Bytes) {
        match self {
            Part::One(drive) => drive.drive_mut().follow_owners(count, piece),
            Part::Group(group) => group.follow_owners(count, piece),
        }
    }

    /// Says whose the bytes are that are written next, from `at` on.
    pub fn claim(&mut self, at: Bytes, runs: &[OwnerRun]) {
        match self {
            Part::One(drive) => drive.claim(at, runs),
            Part::Group(group) => group.claim(runs),
        }
    }

    /// The first byte of `unit`.
    pub fn start(&self, unit: UnitId) -> Bytes {
        match self {
            Part::One(drive) => drive.start(unit),
            Part::Group(group) => group.start(unit),
        }
    }

    /// Writes data of `class`; returns the completion time, as do the other commands.
    pub fn write(
        &mut self,
        now: Time,
        at: Bytes,
        length: Bytes,
        class: Class,
    ) -> Result<Time, DriveError> {
        match self {
            Part::One(drive) => drive.write(now, at, length, class),
            Part::Group(group) => group.write(now, at, length, class),
        }
    }

    pub fn read(&mut self, now: Time, at: Bytes, length: Bytes) -> Result<Time, DriveError> {
        match self {
            Part::One(drive) => drive.read(now, at, length),
            Part::Group(group) => group.read(now, at, length),
        }
    }

    pub fn reset(&mut self, now: Time, unit: UnitId) -> Result<Time, DriveError> {
        match self {
            Part::One(drive) => drive.reset(now, unit),
            Part::Group(group) => group.reset(now, unit),
        }
    }

    pub fn finish(&mut self, now: Time, unit: UnitId) -> Result<Time, DriveError> {
        match self {
            Part::One(drive) => drive.finish(now, unit),
            Part::Group(group) => group.finish(now, unit),
        }
    }

    pub fn flush(&mut self, now: Time) -> Result<Time, DriveError> {
        match self {
            Part::One(drive) => drive.flush(now),
            Part::Group(group) => group.flush(now),
        }
    }

    /// The condition of each unit, in order.
    pub fn report(&self) -> Box<dyn Iterator<Item = UnitStatus> + '_> {
        match self {
            Part::One(drive) => Box::new(drive.report()),
            Part::Group(group) => {
                Box::new((0..group.units()).map(|_| UnitStatus::Good { written: None }))
            }
        }
    }
}
