//! Carrying out commands: from structures to sectors, and back.

use thermocline_engine::{
    Body, Chunk, DeviceCmd, DeviceError, Done, UnitCondition, UnitReport, wire,
};
use thermocline_format::{Location, Superblock};
use thermocline_types::UnitId;

use super::Place;
use super::image::{Effect, Fate, Rest, Tear};
use super::{Disk, Work};
use crate::data::{BlockId, Data, SECTOR_BYTES, SECTORS_PER_BLOCK, Sector};
use crate::faults::{CommandKind, Fault};

impl Disk {
    /// The sectors that a command is about, if it reads.
    pub(super) fn places(&self, cmd: &DeviceCmd<Data>) -> Vec<Place> {
        let geometry = &self.cache.media().geometry;
        let whole = |unit| Location { unit, block: 0 };
        let per_block = geometry.logical_block().per_block();
        let all = geometry.blocks_per_unit();
        let runs = match cmd {
            DeviceCmd::Read { at, blocks, .. } => vec![(*at, blocks * per_block)],
            DeviceCmd::ReadPage { at } => vec![(*at, per_block)],
            DeviceCmd::ReadChunks(read) => vec![(read.at, read.window)],
            DeviceCmd::ReadSuperblocks => {
                geometry.all_superblock_units().map(|unit| (whole(unit), all)).collect()
            }
            _ => Vec::new(),
        };
        runs.into_iter().map(|(at, blocks)| self.place(at, blocks)).collect()
    }

    /// The sectors of `blocks` logical blocks from `at` on.
    #[must_use]
    pub fn place(&self, at: Location, blocks: u32) -> Place {
        let sectors = self.cache.media().sectors_per_logical();
        Place { unit: at.unit, sectors: at.block * sectors..(at.block + blocks) * sectors }
    }

    /// Does at once what a command does when it is submitted, and says what remains.
    pub(super) fn begin(
        &mut self,
        cmd: DeviceCmd<Data>,
        kind: CommandKind,
        fault: Option<Fault>,
    ) -> Work {
        match cmd {
            DeviceCmd::WriteChunk(chunk) => {
                let sectors = self.chunk_sectors(&chunk);
                let header = chunk.header.header_bytes(&self.cache.media().geometry);
                let header = (header / SECTOR_BYTES) as u32;
                if matches!(fault, Some(Fault::Lose | Fault::Misdirect | Fault::Flip(_))) {
                    self.atlas.spoil_entries(&chunk.header.entries);
                }
                self.begin_write(chunk.header.origin.location, sectors, header, kind, fault)
            }
            DeviceCmd::WriteSuperblock(record) => {
                let sectors = self.record_sectors(&record);
                self.begin_write(record.location, sectors, 0, kind, fault)
            }
            DeviceCmd::Reset(unit) => self.begin_whole(unit, Effect::Reset, kind, fault),
            DeviceCmd::Zero(unit) => {
                let zeros = vec![Sector::ZEROS; self.cache.media().sectors_per_unit() as usize];
                self.begin_write(Location { unit, block: 0 }, zeros, 0, kind, fault)
            }
            DeviceCmd::Finish(unit) => self.begin_whole(unit, Effect::Finish, kind, fault),
            DeviceCmd::Flush(device) => match fault {
                Some(fault @ Fault::Fail(error)) => {
                    self.injector.record(kind, fault, None, None);
                    Work::Fail(error)
                }
                Some(fault @ Fault::FailForgotten(error)) => {
                    self.injector.record(kind, fault, None, None);
                    Work::Forget(device, self.tick, error)
                }
                Some(Fault::Lie) => {
                    self.injector.record(kind, Fault::Lie, None, None);
                    self.atlas.promise(self.cache.covered(device, self.tick));
                    Work::Nothing
                }
                _ => Work::Flush { device, submitted: self.tick },
            },
            cmd => match fault {
                Some(fault @ Fault::Fail(error)) => {
                    self.injector.record(kind, fault, place(&cmd), None);
                    Work::Fail(error)
                }
                _ => Work::Read(cmd),
            },
        }
    }

    /// Begins to write sectors, the first `header` of which are the header of a chunk.
    fn begin_write(
        &mut self,
        at: Location,
        mut sectors: Vec<Sector>,
        header: u32,
        kind: CommandKind,
        fault: Option<Fault>,
    ) -> Work {
        let media = *self.cache.media();
        let per_block = media.sectors_per_logical();
        let start_at = at.block * per_block;
        let mut start = start_at;
        let length = sectors.len() as u32;
        assert!(media.geometry.contains(at, length / per_block), "a write at {at} leaves its unit");
        self.degrade(at.unit, kind, fault);
        if let Err(error) = self.takes_write(at) {
            return Work::Fail(error);
        }
        let (mut instead, mut unit, mut hit) = (None, at.unit, 0);
        let (fate, error) = match fault {
            Some(Fault::Fail(error)) => (Fate::Lost, Some(error)),
            Some(Fault::FailTorn(error)) => {
                let from = self.injector.rng().below(u64::from(length) + 1) as u32;
                let tear = Tear { from, to: u32::MAX, rest: Rest::Old };
                (Fate::Torn(tear), Some(error))
            }
            // The write pointer moves all the same.
            Some(Fault::Lose) if media.is_zoned() => {
                (Fate::Torn(Tear { from: 0, to: u32::MAX, rest: Rest::Zeros }), None)
            }
            Some(Fault::Lose) => (Fate::Lost, None),
            Some(Fault::Misdirect) if !media.is_zoned() => {
                let place = self.elsewhere(at, length);
                (unit, start) = (place.unit, place.block * per_block);
                instead = Some(place);
                (Fate::Kept, None)
            }
            Some(Fault::Flip(bits)) => {
                hit = self.flip(&mut sectors, bits);
                (Fate::Kept, None)
            }
            _ => (Fate::Kept, None),
        };
        if let Some(fault) =
            fault.filter(|fault| !matches!(fault, Fault::Delay(_) | Fault::Degrade(_)))
        {
            self.injector.record(kind, fault, Some(at), instead);
        }
        self.broken[at.unit.index()] |= error.is_some();
        let place = |unit, start, length| Place { unit, sectors: start..start + length };
        let (landed, meant) = (place(unit, start, length), place(at.unit, start_at, length));
        match fault {
            Some(Fault::Lose) => self.spoiled(&[meant], true),
            Some(Fault::Misdirect) if instead.is_some() => {
                self.atlas.stray();
                self.spoiled(&[meant, landed], true);
            }
            Some(Fault::Flip(_)) => {
                self.spoiled(&[place(unit, start + hit, 1)], hit < header);
            }
            _ => {}
        }
        let effect = Effect::Write { start, sectors: sectors.into() };
        let number = match instead {
            Some(_) => self.cache.submit_astray(unit, effect),
            None => self.cache.submit(unit, effect, fate),
        };
        error.map_or(Work::Change(number), |error| Work::FailChange(number, error))
    }

    /// Whether the device takes a write at `at`: a zone does at its write pointer.
    fn takes_write(&self, at: Location) -> Result<(), DeviceError> {
        self.writable(at.unit)?;
        let media = self.cache.media();
        let pointer = self.cache.current().pointer(at.unit) / media.sectors_per_logical();
        if !media.is_zoned() || pointer == at.block {
            return Ok(());
        }
        let broken = self.broken[at.unit.index()];
        assert!(broken, "a write at {at}, the write pointer is at {pointer}");
        Err(DeviceError::Io)
    }

    /// The next change leaves something else in these places than what was written there; `header` if that of a chunk
    /// may be missing.
    fn spoiled(&mut self, places: &[Place], header: bool) {
        let change = self.cache.next_change();
        self.atlas.spoil(change);
        places.iter().for_each(|place| self.atlas.hit(place, header, change));
    }

    /// A reset or finish.
    fn begin_whole(
        &mut self,
        unit: UnitId,
        effect: Effect,
        kind: CommandKind,
        fault: Option<Fault>,
    ) -> Work {
        self.degrade(unit, kind, fault);
        if let Err(error) = self.writable(unit) {
            return Work::Fail(error);
        }
        if let Some(fault @ Fault::Fail(error)) = fault {
            self.injector.record(kind, fault, Some(Location { unit, block: 0 }), None);
            return Work::Fail(error);
        }
        let resets = matches!(effect, Effect::Reset);
        let changes = self.cache.media().is_zoned() || resets && self.cache.media().reset_clears();
        self.broken[unit.index()] &= !resets;
        if changes {
            Work::Change(self.cache.submit(unit, effect, Fate::Kept))
        } else {
            Work::Nothing
        }
    }

    fn degrade(&mut self, unit: UnitId, kind: CommandKind, fault: Option<Fault>) {
        if let Some(fault @ Fault::Degrade(condition)) = fault {
            self.conditions[unit.index()] = condition;
            self.atlas.degrade(unit, condition);
            self.injector.record(kind, fault, Some(Location { unit, block: 0 }), None);
        }
    }

    fn writable(&self, unit: UnitId) -> Result<(), DeviceError> {
        match self.conditions[unit.index()] {
            UnitCondition::Good => Ok(()),
            UnitCondition::ReadOnly => Err(DeviceError::ReadOnly),
            UnitCondition::Offline => Err(DeviceError::Offline),
        }
    }

    /// Another place where `length` sectors fit.
    fn elsewhere(&mut self, at: Location, length: u32) -> Location {
        let media = *self.cache.media();
        let blocks = length / media.sectors_per_logical();
        let rng = self.injector.rng();
        loop {
            let unit = UnitId(rng.below(u64::from(media.geometry.units())) as u32);
            let free = media.geometry.blocks_per_unit() - blocks;
            let block = rng.below(u64::from(free) + 1) as u32;
            let place = Location { unit, block };
            if place != at {
                return place;
            }
        }
    }

    /// Flips `bits` bits of one sector. Returns which.
    fn flip(&mut self, sectors: &mut [Sector], bits: u32) -> u32 {
        let rng = self.injector.rng();
        let hit = rng.below(sectors.len() as u64) as usize;
        let mut bytes = Vec::with_capacity(SECTOR_BYTES);
        self.arena.copy_out(&sectors[hit..=hit], &mut bytes);
        // Different bits: the same one twice would change nothing.
        let first = rng.below(SECTOR_BYTES as u64 * 8);
        for step in 0..u64::from(bits) {
            let bit = ((first + step * 37) % (SECTOR_BYTES as u64 * 8)) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        sectors[hit] = self.arena.bytes(&bytes).sector(0);
        hit as u32
    }

    fn chunk_sectors(&self, chunk: &Chunk<Data>) -> Vec<Sector> {
        let geometry = &self.cache.media().geometry;
        let total = (chunk.header.blocks * self.cache.media().sectors_per_logical()) as usize;
        let mut sectors = Vec::with_capacity(total);
        let mut header = Vec::with_capacity(chunk.header.header_bytes(geometry));
        let mut packed = Vec::new();
        if let (Some(said), Some(bytes)) = (chunk.header.packed, &chunk.packed) {
            bytes.blocks().for_each(|block| packed.extend_from_slice(&self.arena.read(block)[..]));
            packed.truncate(said.bytes.into());
        }
        wire::chunk_header(chunk, &packed, geometry, &mut header);
        self.arena.sectors(&header, &mut sectors);
        let mut whole = |block: BlockId| {
            sectors.extend((0..SECTORS_PER_BLOCK).map(|part| block.sector(part)));
        };
        match &chunk.body {
            Body::User(blocks) => {
                let behind = wire::behind_header(&chunk.header, blocks);
                behind.flat_map(Data::blocks).for_each(&mut whole);
            }
            Body::Pages(pages) => pages.iter().for_each(|page| whole(self.arena.bytes(&page[..]))),
        }
        assert!(sectors.len() <= total, "the blocks of a chunk fit into it");
        sectors.resize(total, Sector::ZEROS);
        sectors
    }

    fn record_sectors(&self, record: &Superblock) -> Vec<Sector> {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        let mut sectors = Vec::new();
        self.arena.sectors(&bytes, &mut sectors);
        sectors
    }

    /// Answers a command that only reads.
    pub(super) fn read(&self, cmd: &DeviceCmd<Data>) -> Result<Done<Data>, DeviceError> {
        match cmd {
            DeviceCmd::Read { at, blocks, into } => {
                self.readable(at.unit)?;
                let run = self.block_ids(*at, *blocks);
                let data = match into {
                    Some(into) => {
                        into.fill(run);
                        into.clone()
                    }
                    None => Data::new(&self.arena, run),
                };
                Ok(Done::Data(data))
            }
            DeviceCmd::ReadPage { at } => {
                self.readable(at.unit)?;
                let block = self.block_ids(*at, 1).next().expect("one block was asked for");
                Ok(Done::Page(self.arena.read(block)))
            }
            DeviceCmd::ReadChunks(read) => self.read_chunks(read),
            DeviceCmd::ReadSuperblocks => self.read_superblocks(),
            DeviceCmd::ReportUnits => Ok(Done::Units(self.report())),
            other => unreachable!("{other:?} is not answered by reading"),
        }
    }

    pub(super) fn readable(&self, unit: UnitId) -> Result<(), DeviceError> {
        match self.conditions[unit.index()] {
            UnitCondition::Good | UnitCondition::ReadOnly => Ok(()),
            UnitCondition::Offline => Err(DeviceError::Offline),
        }
    }

    fn report(&self) -> Vec<UnitReport> {
        let media = self.cache.media();
        let written = |unit| self.cache.current().pointer(unit) / media.sectors_per_logical();
        (0..media.geometry.units())
            .map(|unit| UnitReport {
                condition: self.conditions[unit as usize],
                written: media.is_zoned().then(|| written(UnitId(unit))),
            })
            .collect()
    }

    /// The blocks of 4096 bytes from `at` on.
    fn block_ids(&self, at: Location, blocks: u32) -> impl Iterator<Item = BlockId> {
        let per_block = self.cache.media().geometry.logical_block().per_block();
        let sectors = self.cache.read(at, blocks * per_block);
        let blocks: Vec<BlockId> =
            sectors.chunks_exact(SECTORS_PER_BLOCK).map(|block| self.arena.gather(block)).collect();
        blocks.into_iter()
    }
}

/// Where a command that reads does so.
fn place(cmd: &DeviceCmd<Data>) -> Option<Location> {
    match cmd {
        DeviceCmd::Read { at, .. } | DeviceCmd::ReadPage { at } => Some(*at),
        DeviceCmd::ReadChunks(read) => Some(read.at),
        _ => None,
    }
}
