//! Simulated drives as the engine's devices: commands become the drive's own, with their real sizes and times.

use hdrhistogram::Histogram;
use thermocline_array::WrittenBytes;
use thermocline_engine::wire::{IoCmd, IoStep, Translator};
use thermocline_engine::{Chunk, DeviceCmd, DeviceError, Done, UnitCondition, UnitReport};
use thermocline_format::{ChunkCause, Entry, Geometry, Location, METADATA, MediaClass};
use thermocline_nand::{Drive, DriveError, UnitStatus, ZoneError};
use thermocline_record::LatencyNs;
use thermocline_types::{Bytes, Class, Time, UnitId};

use super::ledger::OwnerLedger;
use super::part::Part;
use super::payload::PackDraw;
use super::stored_chunks::{StoredChunks, Structure};
use crate::meter::{latency_histogram, summary};
use crate::rates::DeviceRates;

/// How a command of the engine ends.
pub type Ended = Result<Done<PackDraw>, DeviceError>;

/// Drives with the engine's chunks and metadata on media.
#[derive(Debug)]
pub struct Device {
    /// By device of the pool.
    drives: Vec<Part>,
    geometry: Geometry,
    /// With the chunks on media.
    translator: Translator<StoredChunks>,
    /// Bytes of chunks and records that the drive was given.
    written: u64,
    /// Chunks with what the host wrote that the drives were given.
    host_chunks: u64,
    /// When the chunks of relocated blocks submitted so far are written.
    relocated: Time,
    /// When garbage collection began to read each of its victims.
    victims: Vec<Time>,
    journal: Option<Journal>,
    ledger: Option<OwnerLedger>,
    /// What went through each of the drives since measurement began; empty before.
    rates: Vec<DeviceRates>,
    /// What flushes of the host wait for, since then.
    waits: Option<Waits>,
}

/// How long drives took for what a flush of the host waits for.
#[derive(Debug)]
pub struct Waits {
    /// Chunks with what the host wrote.
    chunks: Histogram<u64>,
    /// Flushes.
    flushes: Histogram<u64>,
}

impl Waits {
    /// The names of these in records, and how long they took.
    pub fn latencies(&self) -> [(&'static str, LatencyNs); 2] {
        [("log.chunk", summary(&self.chunks)), ("log.flush", summary(&self.flushes))]
    }
}

/// What chunks were written, in the order of the device.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    /// Blocks that the host wrote, copies apart.
    pub host: Vec<u32>,
    /// Bytes of the headers of chunks with blocks of the host or copies of these, of those without a packed block.
    pub headers: u64,
    /// Bytes of chunks of metadata, headers included.
    pub metadata: u64,
}

impl Journal {
    fn note(&mut self, chunk: &Chunk<PackDraw>, geometry: &Geometry) {
        let (header, origin) = (&chunk.header, chunk.header.origin);
        if origin.class == METADATA {
            self.metadata += u64::from(header.blocks) * geometry.logical_block().bytes() as u64;
            return;
        }
        if header.packed.is_none() {
            self.headers += header.header_bytes(geometry) as u64;
        }
        if origin.cause == ChunkCause::Host {
            let block = |entry: &Entry| match entry {
                Entry::Data { lba, .. } => Some(lba.0 as u32),
                _ => None,
            };
            self.host.extend(header.entries.iter().filter_map(block));
        }
    }
}

impl Device {
    /// Makes a device of fresh `drives`, divided into units by `geometry`.
    pub fn new(drives: Vec<Part>, geometry: Geometry) -> Device {
        Device {
            drives,
            geometry,
            translator: Translator::new(StoredChunks::new(geometry)),
            written: 0,
            host_chunks: 0,
            relocated: Time::ZERO,
            victims: Vec::new(),
            journal: None,
            ledger: None,
            rates: Vec::new(),
            waits: None,
        }
    }

    /// From now on, follows `count` owners of the blocks of a volume.
    pub fn follow_owners(&mut self, count: u16, blocks: u64) {
        let piece = Bytes(self.geometry.logical_block().bytes() as u64);
        self.drives.iter_mut().for_each(|drive| drive.follow_owners(count, piece));
        self.ledger = Some(OwnerLedger::new(count, blocks));
    }

    /// Owners of the blocks on media; `None` if owners are not followed.
    pub fn ledger(&self) -> Option<&OwnerLedger> {
        self.ledger.as_ref()
    }

    /// From now on, keeps a journal: 4 bytes for each block that the host writes.
    pub fn keep_journal(&mut self) {
        self.journal = Some(Journal::default());
    }

    /// The journal, if one is kept.
    pub fn journal(&self) -> Option<&Journal> {
        self.journal.as_ref()
    }

    /// How it is divided.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Logical blocks of `unit` that chunks were written to.
    pub fn written_in(&self, unit: UnitId) -> u32 {
        self.translator.encoding().end(unit)
    }

    /// When all that the drives have programmed by now is on the media.
    pub fn drained(&self) -> Time {
        self.drives.iter().map(|drive| drive.drive().drained()).max().unwrap_or_default()
    }

    /// Programs the data in the drives' buffers and returns the extra time; `None` if a drive is worn out.
    pub fn drain(&mut self) -> Option<Time> {
        let before = self.drained();
        for drive in &mut self.drives {
            drive.drive_mut().drain().ok()?;
        }
        Some(self.drained().since(before))
    }

    /// The drive, or that for capacity.
    pub fn drive(&self) -> &Drive {
        self.drives[0].drive()
    }

    /// The same, to look at its units.
    pub fn drive_mut(&mut self) -> &mut Drive {
        self.drives[0].drive_mut()
    }

    /// The fast drive of a tiered stack.
    pub fn fast(&self) -> Option<&Drive> {
        let fast = self.drives.get(self.geometry.home().index())?;
        self.geometry.is_tiered().then(|| fast.drive())
    }

    /// Bytes that the members of a group were given, by cause, where the drive for capacity is one, and the fast one.
    pub fn groups(&self) -> [Option<WrittenBytes>; 2] {
        let fast = self.geometry.is_tiered().then(|| self.geometry.home().index());
        [Some(0), fast].map(|device| self.drives.get(device?)?.written())
    }

    /// From `start` on, counts what goes through each drive over time, and how long they take for what flushes of the
    /// host wait for, where time is modelled.
    pub fn count_rates(&mut self, start: Time) {
        let timed = self.drive().is_timed();
        self.rates =
            if timed { vec![DeviceRates::new(start); self.drives.len()] } else { Vec::new() };
        let waits = || Waits { chunks: latency_histogram(), flushes: latency_histogram() };
        self.waits = timed.then(waits);
    }

    /// How long drives took for what a flush of the host waits for, since measurement began, where time is modelled.
    pub fn waits(&self) -> Option<&Waits> {
        self.waits.as_ref()
    }

    /// Rates of the capacity drive, then of the fast drive; empty if rates were not counted.
    pub fn rates(&self) -> Vec<&DeviceRates> {
        let fast = self.geometry.is_tiered().then(|| self.geometry.home().index());
        std::iter::once(0).chain(fast).filter_map(|device| self.rates.get(device)).collect()
    }

    /// The drive of `unit`, and the number of the unit on the drive.
    fn on(&mut self, unit: UnitId) -> (&mut Part, UnitId) {
        let there = self.geometry.on_device(Location { unit, block: 0 }).unit;
        (&mut self.drives[self.geometry.device_of(unit).index()], there)
    }

    /// Bytes of chunks and records that the drive was given.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Chunks with what the host wrote that the drives were given.
    pub fn host_chunks(&self) -> u64 {
        self.host_chunks
    }

    /// When the copies submitted so far are on media.
    pub fn relocated(&self) -> Time {
        self.relocated
    }

    /// When garbage collection began to read each of its victims.
    pub fn victims(&self) -> &[Time] {
        &self.victims
    }

    /// Forgets the victims: these reads were for opening a pool, not for garbage collection.
    pub fn forget_victims(&mut self) {
        self.victims.clear();
    }

    /// Carries out a command that comes in at `now`; returns how it ends, and when.
    pub fn carry_out(&mut self, now: Time, cmd: DeviceCmd<PackDraw>) -> (Time, Ended) {
        if matches!(&cmd, DeviceCmd::ReadChunks(request) if request.at.block == 0) {
            self.victims.push(now);
        }
        let (mut cmd, mut job) = self.translator.start(cmd);
        let mut at = now;
        loop {
            let step = if job.is_report() {
                self.translator.reported(job, Ok(self.report()))
            } else {
                let done = self.perform(at, cmd);
                at = *done.as_ref().unwrap_or(&at);
                let result = done.map(drop).map_err(|error| device_error(&error));
                self.translator.go_on(job, result)
            };
            match step {
                IoStep::Answer(ended) => return (at, ended),
                IoStep::Io(next, then) => (cmd, job) = (next, then),
            }
        }
    }

    /// Has the drives carry out a command that comes in at `now`; returns when it ends.
    fn perform(&mut self, now: Time, cmd: IoCmd<StoredChunks>) -> Result<Time, DriveError> {
        match cmd {
            IoCmd::Write { at, parts, class } => self.write(now, at, parts, class),
            IoCmd::Read { at, into, .. } => self.read(now, at, into),
            // Simulated drives keep their bytes once.
            IoCmd::Report | IoCmd::Heal(_) | IoCmd::Distrust { .. } => Ok(now),
            IoCmd::Reset(unit) | IoCmd::Zero(unit) => self.reset(now, unit),
            IoCmd::Finish(unit) => {
                let (drive, unit) = self.on(unit);
                drive.finish(now, unit)
            }
            IoCmd::Flush(device) => {
                let done = self.drives[device.index()].flush(now)?;
                if let Some(waits) = &mut self.waits {
                    waits.flushes.saturating_record(done.since(now).as_nanos());
                }
                Ok(done)
            }
        }
    }

    fn bytes(&self, blocks: u32) -> Bytes {
        Bytes(u64::from(blocks) * self.geometry.logical_block().bytes() as u64)
    }

    fn write(
        &mut self,
        now: Time,
        at: Location,
        structure: Structure,
        class: Class,
    ) -> Result<Time, DriveError> {
        let (within, length) =
            (self.bytes(at.block), self.translator.encoding().bytes_of(&structure));
        self.claim(at, &structure, length);
        let (drive, unit) = self.on(at.unit);
        let done = drive.write(now, drive.start(unit) + within, length, class)?;
        self.written += length.0;
        if let Some(rates) = self.rates_of(at.unit) {
            rates.written(done, length);
        }
        if let Structure::Chunk(chunk) = &structure {
            if chunk.header.origin.cause == ChunkCause::Host {
                self.host_chunks += 1;
                if let Some(waits) = &mut self.waits {
                    waits.chunks.saturating_record(done.since(now).as_nanos());
                }
            }
            if matches!(chunk.header.origin.cause, ChunkCause::Relocation | ChunkCause::Destage) {
                self.relocated = self.relocated.max(done);
            }
            if let Some(journal) = &mut self.journal {
                journal.note(chunk, &self.geometry);
            }
        }
        self.translator.encoding_mut().put(structure);
        Ok(done)
    }

    /// Says whose the bytes of `structure` are, before they are written.
    fn claim(&mut self, at: Location, structure: &Structure, length: Bytes) {
        let Some(mut ledger) = self.ledger.take() else { return };
        let fast = self.geometry.is_tiered() && self.geometry.media_of(at.unit) == MediaClass::Fast;
        let runs = match structure {
            Structure::Chunk(chunk) => ledger.chunk(chunk, fast, &self.geometry),
            Structure::Record(_) => &ledger.record(length),
        };
        let within = self.bytes(at.block);
        let (drive, unit) = self.on(at.unit);
        drive.claim(drive.start(unit) + within, runs);
        self.ledger = Some(ledger);
    }

    fn read(&mut self, now: Time, at: Location, length: Bytes) -> Result<Time, DriveError> {
        let within = self.bytes(at.block);
        let (drive, unit) = self.on(at.unit);
        let done = drive.read(now, drive.start(unit) + within, length)?;
        if let Some(rates) = self.rates_of(at.unit) {
            rates.read(done, length);
        }
        Ok(done)
    }

    fn rates_of(&mut self, unit: UnitId) -> Option<&mut DeviceRates> {
        self.rates.get_mut(self.geometry.device_of(unit).index())
    }

    fn reset(&mut self, now: Time, unit: UnitId) -> Result<Time, DriveError> {
        let (drive, there) = self.on(unit);
        let done = drive.reset(now, there)?;
        self.translator.encoding_mut().clear(unit);
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
        let drives = self.drives.iter().zip(self.geometry.devices());
        let each = drives.flat_map(|(drive, part)| drive.report().take(part.units as usize));
        each.map(report).collect()
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
