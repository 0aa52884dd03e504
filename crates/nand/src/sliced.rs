//! A drive as the log engine uses it: units that are written front to back and reset as a whole.

use thermocline_types::{Bytes, Class, Op, Request, StreamId, TenantId, Time, UnitId};

use crate::drive::Drive;
use crate::error::DriveError;
use crate::owners::OwnerRun;
use crate::zoned::ZoneState;

/// A drive in units: its zones, or slices of what it exports, of which a reset is a trim.
///
/// This is the only way from the engine's commands to a drive, in virtual time as in service, so that a drive does the
/// same under both. Writes carry the class as placement handle; classes beyond the last handle share the last handle.
#[derive(Clone, Debug)]
pub struct Sliced {
    drive: Drive,
    slices: Slices,
}

/// How a drive is cut into units, and how commands to units become those of the drive.
#[derive(Clone, Copy, Debug)]
pub struct Slices {
    /// Writable bytes of a unit, and how far it is to the next.
    unit: Bytes,
    distance: Bytes,
    units: u32,
    handles: u16,
}

/// What the drive says of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitStatus {
    /// It can be written: zones from so many bytes on, slices from anywhere.
    Good {
        /// Bytes that are written, where the drive knows.
        written: Option<Bytes>,
    },
    /// Readable for good, writable no more.
    ReadOnly,
    /// Neither readable nor writable.
    Offline,
}

impl Slices {
    /// Those of `drive`: its zones if it has any, else slices of `slice` bytes.
    ///
    /// # Panics
    /// If there would be more than 2^32 slices, or slices of nothing.
    #[must_use]
    pub fn new(drive: &Drive, slice: Bytes) -> Slices {
        let handles = drive.placement_handles();
        let (unit, distance, units) = match drive {
            Drive::Zoned(zoned) => (zoned.zone(0).capacity, zoned.zone_size(), zoned.zones()),
            _ => {
                let count = u32::try_from(drive.cut().capacity().0 / slice.0);
                (slice, slice, count.expect("fewer than 2^32 slices"))
            }
        };
        Slices { unit, distance, units, handles }
    }

    /// The first byte of `unit`.
    #[must_use]
    pub fn start(&self, unit: UnitId) -> Bytes {
        Bytes(u64::from(unit.0) * self.distance.0)
    }

    /// As [`Sliced::write`], on `drive`.
    ///
    /// # Errors
    /// [`DriveError`].
    pub fn write(
        &self,
        drive: &mut Drive,
        now: Time,
        at: Bytes,
        length: Bytes,
        class: Class,
    ) -> Result<Time, DriveError> {
        let handle = u16::from(class.0).min(self.handles - 1);
        match drive {
            Drive::Zoned(zoned) => zoned.write(now, at, length),
            drive => drive.submit(now, &request(now, Op::Write, at, length), handle),
        }
    }

    /// As [`Sliced::read`], on `drive`.
    ///
    /// # Errors
    /// [`DriveError`].
    pub fn read(
        &self,
        drive: &mut Drive,
        now: Time,
        at: Bytes,
        length: Bytes,
    ) -> Result<Time, DriveError> {
        match drive {
            Drive::Zoned(zoned) => zoned.read(now, at, length),
            drive => drive.submit(now, &request(now, Op::Read, at, length), 0),
        }
    }

    /// As [`Sliced::reset`], on `drive`.
    ///
    /// # Errors
    /// [`DriveError`].
    pub fn reset(&self, drive: &mut Drive, now: Time, unit: UnitId) -> Result<Time, DriveError> {
        let trim = request(now, Op::Trim, self.start(unit), self.unit);
        match drive {
            Drive::Zoned(zoned) => zoned.reset(now, unit.0),
            drive => drive.submit(now, &trim, 0),
        }
    }

    /// As [`Sliced::finish`], on `drive`.
    ///
    /// # Errors
    /// [`DriveError`].
    pub fn finish(&self, drive: &mut Drive, now: Time, unit: UnitId) -> Result<Time, DriveError> {
        match drive {
            Drive::Zoned(zoned) => zoned.finish(unit.0).map(|()| now),
            _ => Ok(now),
        }
    }

    /// As [`Sliced::flush`], on `drive`.
    ///
    /// # Errors
    /// [`DriveError`].
    pub fn flush(&self, drive: &mut Drive, now: Time) -> Result<Time, DriveError> {
        drive.submit(now, &request(now, Op::Flush, Bytes::ZERO, Bytes::ZERO), 0)
    }
}

impl Sliced {
    /// `drive` in zones if it has any, else in slices of `slice` bytes.
    ///
    /// # Panics
    /// As [`Slices::new`].
    #[must_use]
    pub fn new(drive: Drive, slice: Bytes) -> Sliced {
        let slices = Slices::new(&drive, slice);
        Sliced { drive, slices }
    }

    /// The drive.
    #[must_use]
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// The drive, past its units.
    pub fn drive_mut(&mut self) -> &mut Drive {
        &mut self.drive
    }

    /// Bytes of a unit that can be written.
    #[must_use]
    pub fn unit_bytes(&self) -> Bytes {
        self.slices.unit
    }

    /// Distance of the starts of neighbouring units.
    #[must_use]
    pub fn unit_distance(&self) -> Bytes {
        self.slices.distance
    }

    /// Number of units.
    #[must_use]
    pub fn units(&self) -> u32 {
        self.slices.units
    }

    /// The first byte of `unit`.
    #[must_use]
    pub fn start(&self, unit: UnitId) -> Bytes {
        self.slices.start(unit)
    }

    /// As [`Drive::claim`]: whose the bytes are that are written next from `at` on.
    #[inline]
    pub fn claim(&mut self, at: Bytes, runs: &[OwnerRun]) {
        self.drive.claim(at, runs);
    }

    /// Writes data of `class` that arrives at `now` to the bytes from `at` on; returns when that is done.
    ///
    /// # Errors
    /// [`DriveError`].
    pub fn write(
        &mut self,
        now: Time,
        at: Bytes,
        length: Bytes,
        class: Class,
    ) -> Result<Time, DriveError> {
        self.slices.write(&mut self.drive, now, at, length, class)
    }

    /// Reads the bytes from `at` on; returns when that is done.
    ///
    /// # Errors
    /// [`DriveError`].
    pub fn read(&mut self, now: Time, at: Bytes, length: Bytes) -> Result<Time, DriveError> {
        self.slices.read(&mut self.drive, now, at, length)
    }

    /// Resets `unit`; returns when that is done.
    ///
    /// # Errors
    /// [`DriveError`].
    pub fn reset(&mut self, now: Time, unit: UnitId) -> Result<Time, DriveError> {
        self.slices.reset(&mut self.drive, now, unit)
    }

    /// Lets go of `unit`, which will not be written until it is reset; returns when that is done.
    ///
    /// # Errors
    /// [`DriveError`].
    pub fn finish(&mut self, now: Time, unit: UnitId) -> Result<Time, DriveError> {
        self.slices.finish(&mut self.drive, now, unit)
    }

    /// Makes durable all that was written; returns when that is done.
    ///
    /// # Errors
    /// [`DriveError`].
    pub fn flush(&mut self, now: Time) -> Result<Time, DriveError> {
        self.slices.flush(&mut self.drive, now)
    }

    /// What the drive says of each unit, in order.
    pub fn report(&self) -> impl Iterator<Item = UnitStatus> + '_ {
        (0..self.slices.units).map(|unit| {
            let Drive::Zoned(zoned) = &self.drive else {
                return UnitStatus::Good { written: None };
            };
            let zone = zoned.zone(unit);
            match zone.state {
                ZoneState::ReadOnly => UnitStatus::ReadOnly,
                ZoneState::Offline => UnitStatus::Offline,
                ZoneState::Full => UnitStatus::Good { written: Some(zone.capacity) },
                _ => UnitStatus::Good { written: Some(zone.write_pointer - zone.start) },
            }
        })
    }
}

fn request(at: Time, op: Op, offset: Bytes, length: Bytes) -> Request {
    Request {
        at,
        offset,
        length,
        tenant: TenantId(0),
        stream: StreamId::UNKNOWN,
        op,
        outstanding: None,
    }
}
