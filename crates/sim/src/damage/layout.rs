//! Where things stand on media: read from the bytes alone, as a program would that knows `docs/develop/FORMAT.md` and
//! nothing of the engine. So damage can be aimed, and the engine is not asked what is worth hitting.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use thermocline_engine::{ReadChunks, Versions, wire};
use thermocline_format::{
    BLOCK_BYTES, CHUNK_PREFIX_BYTES, ChunkHeader, Entry, Generation, Geometry, LINE_BYTES,
    Location, MAX_VOLUME_BLOCKS, MapEntry, MapPage, PAGE_ENTRIES, PageId, Sequence, Superblock,
    VolumeId,
};
use thermocline_types::UnitId;

use crate::data::{Arena, SECTOR_BYTES};
use crate::disk::Image;
use crate::machine::POOL;

/// A kind of structure on media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Structure {
    /// A block of a user.
    Block,
    /// A page of a map.
    Page,
    /// A page that leads to pages.
    Root,
    /// A page of the unit table.
    UnitPage,
    /// The header of a chunk in which a block counts, and which recovery does not need.
    Header,
    /// The header of a chunk in which none does, in a unit where some do.
    DeadHeader,
    /// The header of a chunk that is to be replayed.
    TailHeader,
    /// One copy of the newest superblock record.
    Newest,
    /// All copies of the newest superblock record.
    AllNewest,
    /// Another superblock record.
    Older,
}

/// A structure on media that can be damaged.
#[derive(Clone, Debug)]
pub struct Target {
    /// Kind of the structure.
    pub structure: Structure,
    /// Where it begins.
    pub at: Location,
    /// Bytes in use; the rest is padding.
    pub bytes: usize,
    /// Volume blocks that the structure holds or describes: volume, first block, and number.
    pub leads_to: Vec<(VolumeId, u64, u64)>,
    /// Whether a later flushed structure proves that the target was flushed.
    pub vouched: bool,
    /// The logical block behind the structure; for a header, behind its whole chunk.
    pub end: u32,
}

impl Target {
    /// Whether block `lba` of `volume` depends on it.
    #[must_use]
    pub fn concerns(&self, volume: VolumeId, lba: u64) -> bool {
        let holds = |&(id, from, blocks): &(VolumeId, u64, u64)| {
            id == volume && (from..from + blocks).contains(&lba)
        };
        self.leads_to.iter().any(holds)
    }

    /// Sectors that it takes.
    #[must_use]
    pub const fn sectors(&self) -> u32 {
        self.bytes.div_ceil(SECTOR_BYTES) as u32
    }
}

/// A block of a user: where, with what tag, and whether it is vouched for as in [`Target`].
type Placed = (MapEntry, bool);

struct Walk<'a> {
    arena: &'a Arena,
    image: &'a Image,
    geometry: Geometry,
    targets: Vec<Target>,
    blocks: BTreeMap<(VolumeId, u64), Placed>,
    /// Places of headers with a packed block: damage to the block is damage to the header.
    packed: BTreeSet<(u32, u32)>,
}

/// All live structures on `image`, found from the newest superblock record.
///
/// # Panics
/// When a structure is not sound: nothing may be damaged yet.
#[must_use]
pub fn targets(arena: &Arena, image: &Image) -> Vec<Target> {
    let geometry = image.media().geometry;
    let (targets, blocks) = (Vec::new(), BTreeMap::new());
    let mut walk = Walk { arena, image, geometry, targets, blocks, packed: BTreeSet::new() };
    let record = walk.superblocks();
    walk.maps(&record);
    walk.unit_pages(&record);
    walk.chunks(&record);
    let per_block = geometry.logical_block().per_block();
    for (&(volume, lba), &(entry, vouched)) in &walk.blocks {
        // A block on a lost device has no place.
        let Some(at) = entry.location(&geometry) else { continue };
        if walk.packed.contains(&(at.unit.0, at.block)) {
            continue;
        }
        walk.targets.push(Target {
            structure: Structure::Block,
            at,
            bytes: BLOCK_BYTES,
            leads_to: vec![(volume, lba, 1)],
            vouched,
            end: at.block + per_block,
        });
    }
    walk.targets
}

/// User blocks on the device with `units` of a closed pool: volume and number. `None` if the device has the first
/// superblock unit, or map pages.
///
/// # Panics
/// As [`targets`].
#[must_use]
pub fn blocks_on(
    arena: &Arena,
    image: &Image,
    units: &Range<u32>,
) -> Option<BTreeSet<(VolumeId, u64)>> {
    let geometry = image.media().geometry;
    let (targets, blocks) = (Vec::new(), BTreeMap::new());
    let mut walk = Walk { arena, image, geometry, targets, blocks, packed: BTreeSet::new() };
    let record = walk.superblocks();
    walk.maps(&record);
    let needed = [Structure::Root, Structure::Page];
    let on = |target: &Target| units.contains(&target.at.unit.0);
    let needs = walk.targets.iter().any(|one| needed.contains(&one.structure) && on(one));
    if needs || units.contains(&record.geometry.superblock_units()[0].0) {
        return None;
    }
    let place = |entry: MapEntry| entry.location(&geometry);
    let there = |entry| place(entry).is_some_and(|at| units.contains(&at.unit.0));
    let found = walk.blocks.into_iter().filter(|(_, (entry, _))| there(*entry));
    Some(found.map(|(block, _)| block).collect())
}

impl Walk<'_> {
    fn bytes(&self, at: Location, blocks: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.arena.copy_out(self.image.logical(at, blocks), &mut bytes);
        bytes
    }

    /// Adds the superblock records, and returns the newest.
    fn superblocks(&mut self) -> Superblock {
        let mut records = Vec::new();
        for unit in self.geometry.all_superblock_units() {
            let bytes = self.bytes(Location { unit, block: 0 }, self.geometry.blocks_per_unit());
            records.extend(wire::find_superblocks(&bytes, unit, Some(POOL), &self.geometry));
        }
        let number = |record: &Superblock| (record.epoch, record.revision);
        let newest = records.iter().map(number).max().expect("there is a pool");
        for record in &records {
            let is_newest = number(record) == newest;
            let bytes = record.record_bytes();
            self.targets.push(Target {
                structure: if is_newest { Structure::Newest } else { Structure::Older },
                at: record.location,
                bytes,
                leads_to: Vec::new(),
                vouched: true,
                end: record.location.block + self.geometry.logical_block().to_hold(bytes),
            });
        }
        let newest = records.into_iter().find(|record| number(record) == newest);
        newest.expect("it was just seen")
    }

    /// Adds the pages that `record` leads to, and notes the blocks that they map.
    fn maps(&mut self, record: &Superblock) {
        for volume in record.volumes.iter().filter(|volume| !volume.deleted) {
            for (index, &root) in (0..).zip(&volume.roots) {
                let span = (PAGE_ENTRIES * PAGE_ENTRIES) as u64;
                let id = PageId { volume: volume.id, index };
                let Some(pages) = self.page(Structure::Root, root, id, span) else { continue };
                for (number, page) in (index * PAGE_ENTRIES as u32..).zip(pages.0.iter()) {
                    let id = PageId { volume: volume.id, index: number };
                    let span = PAGE_ENTRIES as u64;
                    let Some(blocks) = self.page(Structure::Page, *page, id, span) else {
                        continue;
                    };
                    let first = u64::from(number) * span;
                    for (lba, &entry) in (first..volume.blocks).zip(blocks.0.iter()) {
                        if !entry.is_unmapped() {
                            self.blocks.insert((volume.id, lba), (entry, true));
                        }
                    }
                }
            }
        }
    }

    fn unit_pages(&mut self, record: &Superblock) {
        let places = record.unit_pages.iter().filter_map(|page| page.location(&self.geometry));
        let per_block = self.geometry.logical_block().per_block();
        self.targets.extend(places.map(|at| Target {
            structure: Structure::UnitPage,
            at,
            bytes: BLOCK_BYTES,
            leads_to: Vec::new(),
            vouched: true,
            end: at.block + per_block,
        }));
    }

    fn page(
        &mut self,
        structure: Structure,
        parent: MapEntry,
        id: PageId,
        span: u64,
    ) -> Option<MapPage> {
        let at = parent.location(&self.geometry)?;
        let per_block = self.geometry.logical_block().per_block();
        self.targets.push(Target {
            structure,
            at,
            bytes: BLOCK_BYTES,
            leads_to: vec![(id.volume, u64::from(id.index) * span, span)],
            vouched: true,
            end: at.block + per_block,
        });
        let bytes = self.bytes(at, per_block);
        let page = MapPage::decode(&bytes, id, parent, &self.geometry);
        Some(page.expect("nothing is damaged yet"))
    }

    /// Adds the headers of chunks in units where something counts, and follows those that are to be replayed.
    fn chunks(&mut self, record: &Superblock) {
        let mut tail: Vec<ChunkHeader> = Vec::new();
        let mut others: Vec<ChunkHeader> = Vec::new();
        for unit in (0..self.geometry.units()).map(UnitId) {
            if self.geometry.is_superblock_unit(unit) {
                continue;
            }
            for header in self.unit_chunks(unit) {
                if header.packed.is_some() {
                    self.packed.insert((unit.0, header.origin.location.block));
                }
                if is_tail(record, unit, &header) { tail.push(header) } else { others.push(header) }
            }
        }
        tail.sort_by_key(|header| header.origin.sequence);
        let told = tail.iter().map(|header| header.origin.durable);
        let durable = told.fold(record.durable(), Sequence::max);
        for header in &tail {
            self.follow(header, header.origin.sequence <= durable);
        }
        for header in &tail {
            self.header(Structure::TailHeader, header, header.origin.sequence <= durable);
        }
        for header in &others {
            let Location { unit, block } = header.origin.location;
            if self.counts(unit, block..block + header.blocks) {
                self.header(Structure::Header, header, true);
            } else if self.counts(unit, 0..u32::MAX) {
                self.header(Structure::DeadHeader, header, true);
            }
        }
    }

    fn unit_chunks(&self, unit: UnitId) -> Vec<ChunkHeader> {
        let at = Location { unit, block: 0 };
        let window = self.geometry.blocks_per_unit();
        let bytes = self.bytes(at, window);
        let (pool, generation) = (POOL, None);
        let read = ReadChunks {
            at,
            window,
            pool,
            generation,
            search: false,
            data: false,
            versions: Versions::AsRead,
        };
        let found = wire::find_chunks(&bytes, &read, &self.geometry);
        found.chunks.into_iter().map(|found| found.header).collect()
    }

    /// Does what a chunk of the tail says, as far as it is about blocks.
    fn follow(&mut self, header: &ChunkHeader, vouched: bool) {
        for (entry, at) in header.placed(&self.geometry) {
            match (*entry, at) {
                (Entry::Data { volume, lba, crc }, Some(at)) if volume.is_user() => {
                    let entry = MapEntry::new(&self.geometry, at, crc);
                    self.blocks.insert((volume, lba.0), (entry, vouched));
                }
                (Entry::Trim { volume, lba, blocks }, _) => {
                    self.blocks.retain(|&(id, at), _| {
                        id != volume || !(lba.0..lba.0 + blocks).contains(&at)
                    });
                }
                (Entry::VolumeResize { volume, blocks }, _) => {
                    self.blocks.retain(|&(id, at), _| id != volume || at < blocks);
                }
                (Entry::VolumeDelete { volume }, _) => {
                    self.blocks.retain(|&(id, _), _| id != volume);
                }
                _ => {}
            }
        }
    }

    /// Whether a block of a user or a page that counts begins in this part of `unit`.
    fn counts(&self, unit: UnitId, range: Range<u32>) -> bool {
        let within = |at: Location| at.unit == unit && range.contains(&at.block);
        let page = |target: &Target| {
            matches!(target.structure, Structure::Page | Structure::Root) && within(target.at)
        };
        let block = |(entry, _): &Placed| entry.location(&self.geometry).is_some_and(within);
        self.blocks.values().any(block) || self.targets.iter().any(page)
    }

    fn header(&mut self, structure: Structure, header: &ChunkHeader, vouched: bool) {
        let leads_to = |entry: &Entry| match *entry {
            Entry::Data { volume, lba, .. } if volume.is_user() => Some((volume, lba.0, 1)),
            Entry::Trim { volume, lba, blocks } => Some((volume, lba.0, blocks)),
            Entry::VolumeCreate { volume, .. }
            | Entry::VolumeDelete { volume }
            | Entry::VolumeResize { volume, .. } => Some((volume, 0, MAX_VOLUME_BLOCKS)),
            _ => None,
        };
        let packed = header.packed.map_or(0, |packed| usize::from(packed.bytes));
        self.targets.push(Target {
            structure,
            at: header.origin.location,
            bytes: CHUNK_PREFIX_BYTES + header.lines() * LINE_BYTES + packed,
            leads_to: header.entries.iter().filter_map(leads_to).collect(),
            vouched,
            end: header.origin.location.block + header.blocks,
        });
    }
}

/// Whether a chunk is to be replayed.
fn is_tail(record: &Superblock, unit: UnitId, header: &ChunkHeader) -> bool {
    let listed = |generation: Generation| {
        let mut open = record.open_units.iter();
        open.any(|open| open.next.unit == unit && open.generation == generation)
    };
    let sequence: Sequence = header.origin.sequence;
    !record.clean
        && header.origin.epoch == record.tail_epoch
        && sequence >= record.checkpoint
        && record.tail_end.is_none_or(|end| sequence < end)
        && listed(header.origin.generation)
}
