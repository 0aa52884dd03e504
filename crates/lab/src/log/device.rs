//! A simulated drive as the engine's device: commands become the drive's own, with their real sizes and times.

use thermocline_engine::{DeviceCmd, DeviceError, Done, UnitCondition, UnitReport};
use thermocline_format::{ChunkCause, Geometry, Location, MAX_SUPERBLOCK_BYTES};
use thermocline_nand::{Drive, DriveError, Sliced, UnitStatus, ZoneError};
use thermocline_types::{Bytes, Class, Time, UnitId};

use super::contents::Contents;

/// How a command of the engine ends.
pub type Ended = Result<Done<()>, DeviceError>;

/// A drive with what the engine wrote to it.
#[derive(Debug)]
pub struct Device {
    drive: Sliced,
    geometry: Geometry,
    contents: Contents,
    /// Bytes of chunks and records that the drive was given.
    written: u64,
    /// When the chunks of relocated blocks submitted so far are written.
    relocated: Time,
    /// When garbage collection began to read each of its victims.
    victims: Vec<Time>,
}

impl Device {
    /// A fresh `drive` whose units are those of `geometry`.
    pub fn new(drive: Sliced, geometry: Geometry) -> Device {
        Device {
            drive,
            geometry,
            contents: Contents::new(geometry),
            written: 0,
            relocated: Time::ZERO,
            victims: Vec::new(),
        }
    }

    /// The drive.
    pub fn drive(&self) -> &Drive {
        self.drive.drive()
    }

    /// The drive, to look at its units.
    pub fn drive_mut(&mut self) -> &mut Drive {
        self.drive.drive_mut()
    }

    /// Bytes of chunks and records that the drive was given.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// When the copies submitted so far are on media.
    pub fn relocated(&self) -> Time {
        self.relocated
    }

    /// When garbage collection began to read each of its victims.
    pub fn victims(&self) -> &[Time] {
        &self.victims
    }

    /// Forgets the victims: what was read as if to collect it was read to open a pool.
    pub fn forget_victims(&mut self) {
        self.victims.clear();
    }

    /// Carries out a command that comes in at `now`; returns how it ends, and when.
    pub fn carry_out(&mut self, now: Time, cmd: DeviceCmd<()>) -> (Time, Ended) {
        let outcome = match cmd {
            DeviceCmd::WriteChunk(chunk) => {
                let origin = chunk.header.origin;
                let bytes = self.bytes(chunk.header.blocks);
                self.write(now, origin.location, bytes, origin.class).map(|at| {
                    if origin.cause == ChunkCause::Relocation {
                        self.relocated = self.relocated.max(at);
                    }
                    self.contents.put(chunk);
                    (at, Ok(Done::Ok))
                })
            }
            DeviceCmd::WriteSuperblock(record) => {
                let block = self.geometry.logical_block();
                let bytes = self.bytes(block.to_hold(record.record_bytes()));
                self.write(now, record.location, bytes, Class(0)).map(|at| {
                    self.contents.put_superblock(record);
                    (at, Ok(Done::Ok))
                })
            }
            DeviceCmd::Read { at, blocks, .. } => {
                let bytes = Bytes(u64::from(blocks) * Bytes::BLOCK.0);
                self.read(now, at, bytes).map(|done| (done, Ok(Done::Data(()))))
            }
            DeviceCmd::ReadPage { at } => self.read(now, at, Bytes::BLOCK).map(|done| {
                let page = self.contents.page(at);
                (done, page.map(Done::Page).ok_or(DeviceError::Io))
            }),
            DeviceCmd::ReadChunks(request) => {
                if request.at.block == 0 {
                    self.victims.push(now);
                }
                let found = self.contents.find(&request);
                self.read(now, request.at, self.bytes(request.window))
                    .map(|done| (done, Ok(Done::Chunks(found))))
            }
            DeviceCmd::ReadSuperblocks => self.read_superblocks(now),
            DeviceCmd::ReportUnits => Ok((now, Ok(Done::Units(self.report())))),
            DeviceCmd::Reset(unit) | DeviceCmd::Zero(unit) => {
                self.reset(now, unit).map(|at| (at, Ok(Done::Ok)))
            }
            DeviceCmd::Finish(unit) => self.drive.finish(now, unit).map(|at| (at, Ok(Done::Ok))),
            DeviceCmd::Flush => self.drive.flush(now).map(|at| (at, Ok(Done::Ok))),
        };
        outcome.unwrap_or_else(|error| (now, Err(device_error(&error))))
    }

    fn bytes(&self, blocks: u32) -> Bytes {
        Bytes(u64::from(blocks) * self.geometry.logical_block().bytes() as u64)
    }

    /// The first byte of `at` as the drive addresses it.
    fn offset(&self, at: Location) -> Bytes {
        self.drive.start(at.unit) + self.bytes(at.block)
    }

    fn write(
        &mut self,
        now: Time,
        at: Location,
        length: Bytes,
        class: Class,
    ) -> Result<Time, DriveError> {
        let done = self.drive.write(now, self.offset(at), length, class)?;
        self.written += length.0;
        Ok(done)
    }

    fn read(&mut self, now: Time, at: Location, length: Bytes) -> Result<Time, DriveError> {
        self.drive.read(now, self.offset(at), length)
    }

    fn read_superblocks(&mut self, now: Time) -> Result<(Time, Ended), DriveError> {
        let unit = self.bytes(self.geometry.blocks_per_unit());
        let length = unit.min(Bytes(MAX_SUPERBLOCK_BYTES as u64));
        let mut done = now;
        for unit in self.geometry.superblock_units() {
            done = done.max(self.read(now, Location { unit, block: 0 }, length)?);
        }
        Ok((done, Ok(Done::Superblocks(self.contents.superblocks()))))
    }

    fn reset(&mut self, now: Time, unit: UnitId) -> Result<Time, DriveError> {
        let done = self.drive.reset(now, unit)?;
        self.contents.clear(unit);
        Ok(done)
    }

    fn report(&self) -> Vec<UnitReport> {
        let block = self.geometry.logical_block().bytes() as u64;
        let report = |status| {
            let (condition, written) = match status {
                UnitStatus::Good { written } => (UnitCondition::Good, written),
                UnitStatus::ReadOnly => (UnitCondition::ReadOnly, None),
                UnitStatus::Offline => (UnitCondition::Offline, None),
            };
            UnitReport { condition, written: written.map(|bytes| (bytes.0 / block) as u32) }
        };
        self.drive.report().take(self.geometry.units() as usize).map(report).collect()
    }
}

fn device_error(error: &DriveError) -> DeviceError {
    match error {
        DriveError::Zone { error: ZoneError::ReadOnly, .. } => DeviceError::ReadOnly,
        DriveError::Zone { error: ZoneError::Offline, .. } => DeviceError::Offline,
        DriveError::EndOfLife => DeviceError::Gone,
        _ => DeviceError::Io,
    }
}
