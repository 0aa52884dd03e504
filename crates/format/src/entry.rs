//! Entries of a chunk: what happened to which blocks.

use thermocline_types::{Lba, UnitId};
use zerocopy::{FromBytes, IntoBytes};

use crate::error::{ErrorKind, require};
use crate::geometry::Geometry;
use crate::id::{Generation, PageId, Sequence, VolumeId};
use crate::layout::{BlockEntryRaw, ControlEntryRaw, PLAIN_VERSION, U40, VERSION};
use crate::map::{MapEntry, PAGE_ENTRIES};
use crate::units::MAX_UNIT_PAGES;
use crate::volume::{
    BLOCKS_PER_ROOT, MAX_NAME_BYTES, MAX_VOLUME_BLOCKS, VolumeMedia, check_volume,
};

/// Bytes of a name in one [`Entry::VolumeName`].
const PART_BYTES: usize = 16;

/// Entries of kind [`Entry::VolumeName`] that a name has.
pub const NAME_PARTS: usize = MAX_NAME_BYTES / PART_BYTES;

/// One thing that happened, in the order of a chunk's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A block was written or, in a chunk of cause [`crate::ChunkCause::Relocation`], copied; the chunk holds it.
    Data {
        /// The volume; reserved volumes are allowed.
        volume: VolumeId,
        /// The block; of a reserved volume as [`PageId::lba`].
        lba: Lba,
        /// CRC-32C of its 4 KiB.
        crc: u32,
    },
    /// Blocks are no longer mapped and read as zeros.
    Trim {
        /// The volume; not a reserved one.
        volume: VolumeId,
        /// The first block.
        lba: Lba,
        /// Blocks, at least one.
        blocks: u64,
    },
    /// A volume came into being, all of it unmapped.
    VolumeCreate {
        /// The volume; its identifier was never used before.
        volume: VolumeId,
        /// Its size in blocks of 4 KiB.
        blocks: u64,
    },
    /// A volume is gone with all its blocks.
    VolumeDelete {
        /// The volume.
        volume: VolumeId,
    },
    /// A volume has another size. Blocks beyond it are no longer mapped.
    VolumeResize {
        /// The volume.
        volume: VolumeId,
        /// Its size in blocks of 4 KiB.
        blocks: u64,
    },
    /// A quarter of a volume's name, as [`crate::VolumeName::to_bytes`] has it. All four stand in one chunk.
    VolumeName {
        /// The volume.
        volume: VolumeId,
        /// Which quarter, from 0.
        part: u8,
        /// Its bytes.
        text: [u8; PART_BYTES],
    },
    /// The blocks of a volume are to be elsewhere from now on.
    VolumeMedia {
        /// The volume.
        volume: VolumeId,
        /// Where they are to be.
        media: VolumeMedia,
    },
    /// The location of a block whose map page could not be read, so that the checkpoint could not rewrite the page. The
    /// entry counts if the record has the same number.
    Placed {
        /// The volume; not a reserved one.
        volume: VolumeId,
        /// The block.
        lba: Lba,
        /// The location of the block, or lost, or not mapped.
        entry: MapEntry,
        /// Whether the unit table no longer counts the block that the page on media still points at.
        settled: bool,
        /// As [`crate::Superblock::patches`].
        number: u32,
    },
    /// A volume was frozen: a new layer takes what is written to it from now on, and reads of blocks that the new layer
    /// does not have fall through to the frozen one. The names of the two stand beside in [`Entry::VolumeName`].
    VolumeSnapshot {
        /// The layer that is frozen. As a volume for users it gets the identifier of the new layer.
        volume: VolumeId,
        /// The new layer; its identifier was never used before. It takes over the identifier for users.
        layer: VolumeId,
        /// Its size in blocks of 4 KiB.
        blocks: u64,
    },
    /// A clone: a new layer that hosts write to, above a frozen one. Its name stands beside in [`Entry::VolumeName`].
    VolumeClone {
        /// The frozen layer.
        volume: VolumeId,
        /// The new layer; its identifier was never used before.
        layer: VolumeId,
        /// Its size in blocks of 4 KiB.
        blocks: u64,
    },
    /// As [`Entry::Trim`], in a layer above others: the blocks read as zeros whatever is below.
    LayerHole {
        /// The layer; not a reserved volume.
        volume: VolumeId,
        /// The first block.
        lba: Lba,
        /// Blocks, at least one.
        blocks: u64,
    },
    /// A frozen layer is no snapshot any more: only the layers above read its blocks.
    LayerDelete {
        /// The layer.
        volume: VolumeId,
    },
    /// A chunk whose write failed: it does not count even if it is found, and is not missed if it is not.
    Abandoned {
        /// Its number.
        sequence: Sequence,
    },
    /// A unit may be reset from when this entry is flushed on: its chunks do not count as lost if they are gone.
    Released {
        /// The unit.
        unit: UnitId,
        /// Its generation: of the chunks concerned, not of what is written into the unit later.
        generation: Generation,
        /// Number of chunks in the unit that must be replayed, at least one.
        chunks: u32,
        /// The sum of their sequences, modulo 2^64.
        sum: u64,
    },
}

/// Codes of the kinds on media. Those up to [`kind::UNIT_PAGE`] have a block and take one line, the others two.
pub(crate) mod kind {
    pub const DATA: u8 = 1;
    pub const MAP_PAGE: u8 = 2;
    pub const ROOT_PAGE: u8 = 3;
    pub const UNIT_PAGE: u8 = 4;
    pub const TRIM: u8 = 5;
    pub const VOLUME_CREATE: u8 = 6;
    pub const VOLUME_DELETE: u8 = 7;
    pub const VOLUME_RESIZE: u8 = 8;
    pub const VOLUME_NAME: u8 = 9;
    pub const ABANDONED: u8 = 10;
    pub const RELEASED: u8 = 11;
    pub const VOLUME_MEDIA: u8 = 12;
    pub const PLACED: u8 = 13;
    pub const VOLUME_SNAPSHOT: u8 = 14;
    pub const LAYER_HOLE: u8 = 15;
    pub const LAYER_DELETE: u8 = 16;
    pub const VOLUME_CLONE: u8 = 17;
}

impl Entry {
    /// The [`NAME_PARTS`] entries that name a volume.
    pub fn name_parts(
        volume: VolumeId,
        name: &crate::VolumeName,
    ) -> impl Iterator<Item = Entry> + use<> {
        let bytes = name.to_bytes();
        (0..NAME_PARTS).map(move |part| {
            let mut text = [0; PART_BYTES];
            text.copy_from_slice(&bytes[part * PART_BYTES..][..PART_BYTES]);
            Entry::VolumeName { volume, part: part as u8, text }
        })
    }

    /// Whether a block of 4 KiB in the chunk belongs to it.
    #[must_use]
    pub const fn has_block(&self) -> bool {
        matches!(self, Entry::Data { .. })
    }

    /// Number of lines that the entry takes in a chunk header.
    #[inline]
    #[must_use]
    pub const fn lines(&self) -> usize {
        if self.has_block() { 1 } else { 2 }
    }

    /// The oldest version of a chunk that can have the entry.
    pub(crate) const fn version(&self) -> u16 {
        match self {
            Entry::VolumeSnapshot { .. }
            | Entry::VolumeClone { .. }
            | Entry::LayerHole { .. }
            | Entry::LayerDelete { .. } => VERSION,
            _ => PLAIN_VERSION,
        }
    }

    /// Whether the entry can stand in a pool of this geometry.
    ///
    /// # Errors
    /// [`ErrorKind::Impossible`].
    pub(crate) fn check(&self, geometry: &Geometry) -> Result<(), ErrorKind> {
        match *self {
            Entry::Data { volume, lba, .. } => check_block_address(volume, lba),
            Entry::Trim { volume, lba, blocks } | Entry::LayerHole { volume, lba, blocks } => {
                check_volume(volume, 0)?;
                require(blocks != 0, "blocks of a trim", blocks, "at least 1")?;
                let end = lba.0.saturating_add(blocks);
                require(end <= MAX_VOLUME_BLOCKS, "end of a trim", end, "at most 2^36")
            }
            Entry::VolumeCreate { volume, blocks } | Entry::VolumeResize { volume, blocks } => {
                check_volume(volume, blocks)
            }
            Entry::VolumeDelete { volume }
            | Entry::VolumeMedia { volume, .. }
            | Entry::LayerDelete { volume } => check_volume(volume, 0),
            Entry::VolumeSnapshot { volume, layer, blocks }
            | Entry::VolumeClone { volume, layer, blocks } => {
                check_volume(volume, blocks)?;
                let rule = "above the layer that is frozen";
                require(layer > volume, "new layer", layer.0.into(), rule)?;
                check_volume(layer, blocks)
            }
            Entry::VolumeName { volume, part, .. } => {
                let holds = usize::from(part) < NAME_PARTS;
                require(holds, "part of a name", part.into(), "names have 4 parts")?;
                check_volume(volume, 0)
            }
            Entry::Placed { volume, lba, .. } => {
                check_volume(volume, 0)?;
                require(lba.0 < MAX_VOLUME_BLOCKS, "LBA", lba.0, "below 2^36")
            }
            Entry::Abandoned { .. } => Ok(()),
            Entry::Released { unit, chunks, .. } => {
                let holds = unit.0 < geometry.units() && !geometry.is_superblock_unit(unit);
                require(holds, "released unit", unit.0.into(), "it can hold no chunks")?;
                require(chunks != 0, "chunks of a released unit", chunks.into(), "at least 1")
            }
        }
    }

    /// Writes the entry as it stands on media to `lines`, as many as it takes.
    ///
    /// # Panics
    /// When [`Entry::check`] finds something.
    #[inline]
    pub(crate) fn encode(&self, lines: &mut [u8]) {
        match *self {
            Entry::Data { volume, lba, crc } => {
                lines.copy_from_slice(raw_block(volume, lba, crc).as_bytes());
            }
            control => lines.copy_from_slice(control.to_raw().as_bytes()),
        }
    }

    /// The entry that `bytes` begin with, whole lines and one at least; whether it can be, [`Entry::check`] says.
    #[inline]
    pub(crate) fn decode(bytes: &[u8], geometry: &Geometry) -> Result<Entry, ErrorKind> {
        let (block, _) = BlockEntryRaw::ref_from_prefix(bytes).expect("there is a line");
        match block.kind {
            kind::DATA..=kind::UNIT_PAGE => from_block(block),
            kind::TRIM..=kind::VOLUME_CLONE => {
                let Ok((raw, _)) = ControlEntryRaw::ref_from_prefix(bytes) else {
                    let (field, rule) = ("lines", "the last entry takes one more");
                    return Err(ErrorKind::Impossible { field, found: 1, rule });
                };
                Entry::from_raw(raw, geometry)
            }
            other => {
                let (field, rule) = ("kind of entry", "this version has kinds 1 to 16");
                Err(ErrorKind::Impossible { field, found: other.into(), rule })
            }
        }
    }

    /// An entry without a block as it stands on media.
    fn to_raw(self) -> ControlEntryRaw {
        let mut raw = ControlEntryRaw::default();
        match self {
            Entry::Data { .. } => unreachable!("it has a block"),
            Entry::Trim { volume, lba, blocks } => raw.set(kind::TRIM, volume, lba.0, blocks),
            Entry::VolumeCreate { volume, blocks } => {
                raw.set(kind::VOLUME_CREATE, volume, 0, blocks);
            }
            Entry::VolumeDelete { volume } => raw.set(kind::VOLUME_DELETE, volume, 0, 0),
            Entry::VolumeResize { volume, blocks } => {
                raw.set(kind::VOLUME_RESIZE, volume, 0, blocks);
            }
            Entry::VolumeName { volume, part, text } => {
                let [lba, argument] = halves(text);
                raw.set(kind::VOLUME_NAME, volume, lba, argument);
                raw.part = part;
            }
            Entry::VolumeMedia { volume, media } => {
                raw.set(kind::VOLUME_MEDIA, volume, 0, media as u64);
            }
            Entry::Placed { volume, lba, entry, settled, number } => {
                raw.set(kind::PLACED, volume, lba.0, entry.pack());
                raw.part = settled.into();
                raw.count = number.into();
            }
            Entry::VolumeSnapshot { volume, layer, blocks } => {
                raw.set(kind::VOLUME_SNAPSHOT, volume, layer.0.into(), blocks);
            }
            Entry::VolumeClone { volume, layer, blocks } => {
                raw.set(kind::VOLUME_CLONE, volume, layer.0.into(), blocks);
            }
            Entry::LayerHole { volume, lba, blocks } => {
                raw.set(kind::LAYER_HOLE, volume, lba.0, blocks);
            }
            Entry::LayerDelete { volume } => raw.set(kind::LAYER_DELETE, volume, 0, 0),
            Entry::Abandoned { sequence } => raw.set(kind::ABANDONED, VolumeId(0), 0, sequence.0),
            Entry::Released { unit, generation, chunks, sum } => {
                raw.set(kind::RELEASED, VolumeId(unit.0), sum, generation.0);
                raw.count = chunks.into();
            }
        }
        raw
    }

    /// The entry without a block that stands as `raw`. Every unused field of the kind must be zero: the check is that
    /// encoding the entry gives the same bytes.
    fn from_raw(raw: &ControlEntryRaw, geometry: &Geometry) -> Result<Entry, ErrorKind> {
        let volume = VolumeId(raw.volume.get());
        let (lba, argument) = (raw.lba.get(), raw.argument.get());
        let entry = match raw.kind {
            kind::TRIM => Entry::Trim { volume, lba: Lba(lba), blocks: argument },
            kind::VOLUME_CREATE => Entry::VolumeCreate { volume, blocks: argument },
            kind::VOLUME_DELETE => Entry::VolumeDelete { volume },
            kind::VOLUME_RESIZE => Entry::VolumeResize { volume, blocks: argument },
            kind::VOLUME_NAME => {
                Entry::VolumeName { volume, part: raw.part, text: joined([lba, argument]) }
            }
            kind::PLACED => {
                let entry = MapEntry::unpack_in_page(geometry, argument)?;
                let (settled, number) = (raw.part != 0, raw.count.get());
                Entry::Placed { volume, lba: Lba(lba), entry, settled, number }
            }
            kind::VOLUME_SNAPSHOT | kind::VOLUME_CLONE => {
                let layer = VolumeId(u32::try_from(lba).unwrap_or(u32::MAX));
                match raw.kind {
                    kind::VOLUME_CLONE => Entry::VolumeClone { volume, layer, blocks: argument },
                    _ => Entry::VolumeSnapshot { volume, layer, blocks: argument },
                }
            }
            kind::LAYER_HOLE => Entry::LayerHole { volume, lba: Lba(lba), blocks: argument },
            kind::LAYER_DELETE => Entry::LayerDelete { volume },
            kind::ABANDONED => Entry::Abandoned { sequence: Sequence(argument) },
            kind::RELEASED => Entry::Released {
                unit: UnitId(volume.0),
                generation: Generation(argument),
                chunks: raw.count.get(),
                sum: lba,
            },
            kind::VOLUME_MEDIA => {
                let media = VolumeMedia::numbered(argument);
                let (field, rule) = ("media of a volume", "0 to 2");
                let media = media.ok_or(ErrorKind::Impossible { field, found: argument, rule })?;
                Entry::VolumeMedia { volume, media }
            }
            _ => unreachable!("kinds with a block, and unknown ones, are told apart before"),
        };
        let exact = entry.to_raw() == *raw;
        require(exact, "unused field of an entry of kind", raw.kind.into(), "it must be zero")?;
        Ok(entry)
    }
}

/// The on-media form of an entry with a block. For a page, the entry names the volume of the page and the page number.
#[inline]
fn raw_block(volume: VolumeId, lba: Lba, crc: u32) -> BlockEntryRaw {
    let page = PageId::from_lba(lba);
    let (kind, volume, lba) = match volume {
        VolumeId::MAP => (kind::MAP_PAGE, page.volume, page.index.into()),
        VolumeId::ROOT => (kind::ROOT_PAGE, page.volume, page.index.into()),
        VolumeId::UNITS => (kind::UNIT_PAGE, page.volume, page.index.into()),
        user => (kind::DATA, user, lba.0),
    };
    BlockEntryRaw {
        kind,
        reserved: 0,
        volume: volume.0.into(),
        lba: U40::new(lba),
        crc: crc.into(),
    }
}

/// The entry with a block that stands as `raw`.
#[inline]
fn from_block(raw: &BlockEntryRaw) -> Result<Entry, ErrorKind> {
    let (volume, lba, crc) = (VolumeId(raw.volume.get()), raw.lba.get(), raw.crc.get());
    let kind = raw.kind;
    require(raw.reserved == 0, "unused field of an entry of kind", kind.into(), "it must be zero")?;
    let reserved = match kind {
        kind::DATA => {
            check_volume(volume, 0)?;
            return Ok(Entry::Data { volume, lba: Lba(lba), crc });
        }
        kind::MAP_PAGE => VolumeId::MAP,
        kind::ROOT_PAGE => VolumeId::ROOT,
        _ => VolumeId::UNITS,
    };
    let index = u32::try_from(lba).ok();
    let (field, rule) = ("index of a map page", "beyond the largest volume");
    let index = index.ok_or(ErrorKind::Impossible { field, found: lba, rule })?;
    Ok(Entry::Data { volume: reserved, lba: PageId { volume, index }.lba(), crc })
}

impl ControlEntryRaw {
    fn set(&mut self, kind: u8, volume: VolumeId, lba: u64, argument: u64) {
        self.kind = kind;
        self.volume = volume.0.into();
        self.lba = lba.into();
        self.argument = argument.into();
    }
}

/// Sixteen bytes as two little-endian numbers.
fn halves(text: [u8; PART_BYTES]) -> [u64; 2] {
    let number = u128::from_le_bytes(text);
    [number as u64, (number >> 64) as u64]
}

fn joined([low, high]: [u64; 2]) -> [u8; PART_BYTES] {
    (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
}

/// Checks the address of a block in a user's or a reserved volume.
fn check_block_address(volume: VolumeId, lba: Lba) -> Result<(), ErrorKind> {
    let pages = match volume {
        VolumeId::MAP => MAX_VOLUME_BLOCKS / PAGE_ENTRIES as u64,
        VolumeId::ROOT => MAX_VOLUME_BLOCKS / BLOCKS_PER_ROOT,
        VolumeId::UNITS => MAX_UNIT_PAGES as u64,
        _ => {
            check_volume(volume, 0)?;
            return require(lba.0 < MAX_VOLUME_BLOCKS, "LBA", lba.0, "below 2^36");
        }
    };
    let page = PageId::from_lba(lba);
    check_volume(page.volume, 0)?;
    let own = volume != VolumeId::UNITS || page.volume == VolumeId(0);
    require(own, "volume of a unit page", page.volume.0.into(), "it is of no volume")?;
    let index = u64::from(page.index);
    require(index < pages, "index of a map page", index, "beyond the largest volume")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LINE_BYTES, LogicalBlock, VolumeName};

    fn geometry() -> Geometry {
        Geometry::new(LogicalBlock::B512, 1000, 6, [UnitId(0), UnitId(1)]).unwrap()
    }

    fn decode(bytes: &[u8]) -> Result<Entry, ErrorKind> {
        let entry = Entry::decode(bytes, &geometry())?;
        entry.check(&geometry()).map(|()| entry)
    }

    fn encode(entry: Entry) -> Vec<u8> {
        let mut bytes = vec![0; entry.lines() * LINE_BYTES];
        entry.encode(&mut bytes);
        bytes
    }

    fn refused(entry: Entry) -> bool {
        matches!(decode(&encode(entry)), Err(ErrorKind::Impossible { .. }))
    }

    #[test]
    fn a_name_is_put_together_from_its_parts() {
        let name = VolumeName::new("a name that is longer than one part of it").unwrap();
        let mut bytes = [0; MAX_NAME_BYTES];
        for (expected, entry) in Entry::name_parts(VolumeId(4), &name).enumerate() {
            let Entry::VolumeName { volume: VolumeId(4), part, text } = entry else { panic!() };
            assert_eq!(usize::from(part), expected);
            assert_eq!(decode(&encode(entry)), Ok(entry));
            bytes[expected * PART_BYTES..][..PART_BYTES].copy_from_slice(&text);
        }
        assert_eq!(VolumeName::from_bytes(&bytes), Some(name));
    }

    #[test]
    fn what_cannot_have_happened_is_refused() {
        let lba = Lba(0);
        let volume = VolumeId(1);
        let released = |unit, chunks| {
            let (unit, generation) = (UnitId(unit), Generation(1 << 32));
            Entry::Released { unit, generation, chunks, sum: u64::MAX }
        };
        assert!(!refused(released(2, 1)) && !refused(released(5, u32::MAX)));
        assert!(refused(released(1, 1)), "a superblock unit");
        assert!(refused(released(6, 1)), "beyond the pool");
        assert!(refused(released(2, 0)));
        assert!(refused(Entry::Data { volume, lba: Lba(1 << 36), crc: 0 }));
        assert!(refused(Entry::Data { volume: VolumeId(0xFFFF_FF00), lba, crc: 0 }));
        assert!(refused(Entry::Trim { volume, lba, blocks: 0 }));
        assert!(refused(Entry::Trim { volume, lba: Lba(1), blocks: 1 << 36 }));
        assert!(refused(Entry::Trim { volume, lba: Lba(1), blocks: u64::MAX }));
        assert!(refused(Entry::Trim { volume: VolumeId::MAP, lba, blocks: 1 }));
        assert!(refused(Entry::VolumeCreate { volume: VolumeId::ROOT, blocks: 1 }));
        assert!(refused(Entry::VolumeResize { volume, blocks: (1 << 36) + 1 }));
        assert!(refused(Entry::VolumeName { volume, part: 4, text: [0; 16] }));
    }

    #[test]
    fn map_pages_are_blocks_of_the_reserved_volumes() {
        let page = |volume, index| PageId { volume: VolumeId(volume), index }.lba();
        let data = |volume, lba| Entry::Data { volume, lba, crc: 7 };
        assert!(!refused(data(VolumeId::MAP, page(9, (1 << 27) - 1))));
        assert!(refused(data(VolumeId::MAP, page(9, 1 << 27))));
        assert!(!refused(data(VolumeId::ROOT, page(9, (1 << 18) - 1))));
        assert!(refused(data(VolumeId::ROOT, page(9, 1 << 18))));
        assert!(refused(data(VolumeId::MAP, page(VolumeId::MAP.0, 0))), "maps of maps are roots");
        assert!(!refused(data(VolumeId::UNITS, page(0, MAX_UNIT_PAGES as u32 - 1))));
        assert!(refused(data(VolumeId::UNITS, page(0, MAX_UNIT_PAGES as u32))));
        assert!(refused(data(VolumeId::UNITS, page(9, 0))), "they are of no volume");
    }

    #[test]
    fn a_page_is_told_by_its_kind_and_has_32_bits() {
        let volume = VolumeId(9);
        let page =
            Entry::Data { volume: VolumeId::ROOT, lba: PageId { volume, index: 5 }.lba(), crc: 7 };
        let bytes = encode(page);
        assert_eq!(bytes, [3, 0, 9, 0, 0, 0, 5, 0, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(decode(&bytes), Ok(page));
        let with = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            decode(&bytes)
        };
        let data = Entry::Data { volume, lba: Lba(5), crc: 7 };
        assert_eq!(with(0, kind::DATA), Ok(data));
        for (at, byte) in [(1, 1), (10, 1), (0, 0), (0, kind::PLACED + 1), (0, kind::TRIM)] {
            let decoded = with(at, byte);
            assert!(matches!(decoded, Err(ErrorKind::Impossible { .. })), "{at}: {decoded:?}");
        }
        let mut reserved = encode(data);
        reserved[2..6].copy_from_slice(&VolumeId::ROOT.0.to_le_bytes());
        assert!(matches!(decode(&reserved), Err(ErrorKind::Impossible { field: "volume", .. })));
    }

    #[test]
    fn fields_that_a_kind_has_no_use_for_must_be_zero() {
        let trim = Entry::Trim { volume: VolumeId(1), lba: Lba(2), blocks: 3 }.to_raw();
        let changes: [fn(&mut ControlEntryRaw); 3] =
            [|raw| raw.part = 1, |raw| raw.reserved[3] = 1, |raw| raw.count = 1.into()];
        assert!(decode(trim.as_bytes()).is_ok());
        for change in changes {
            let mut raw = trim;
            change(&mut raw);
            let decoded = decode(raw.as_bytes());
            assert!(matches!(decoded, Err(ErrorKind::Impossible { .. })), "{decoded:?}");
        }
    }
}
