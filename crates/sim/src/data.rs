//! Blocks of real bytes, and the handles of them that go through the engine.
//!
//! Invariants:
//! * A block in an [`Arena`] never changes. Its checksum and content are computed once. A simulated medium is an array
//!   of block numbers, cheap to copy and to restore.
//! * All 4096 bytes of a block decide its content, never the place of the block.

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use thermocline_engine::Payload;
use thermocline_engine::wire::ByteRun;
use thermocline_format::{BLOCK_BYTES, Expected, Geometry, Packer, VolumeId, crc32c, packed_block};
use thermocline_types::{Lba, Rng};

/// Bytes of the smallest piece that any device writes as a whole.
pub const SECTOR_BYTES: usize = 512;

/// Sectors of a block of 4096 bytes.
pub const SECTORS_PER_BLOCK: usize = BLOCK_BYTES / SECTOR_BYTES;

/// Bytes of the pattern that a user's block repeats.
const STAMP_BYTES: usize = 32;
const STAMP_MAGIC: u64 = u64::from_le_bytes(*b"SIMBLOCK");
/// Blocks of arbitrary bytes that every arena has, for torn writes to end in.
const GARBAGE_BLOCKS: u32 = 4;

/// Identifies a block of an [`Arena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(u32);

impl BlockId {
    /// The block of zeros.
    pub const ZEROS: BlockId = BlockId(0);

    /// One of the blocks of arbitrary bytes.
    #[must_use]
    pub const fn garbage(pick: u64) -> BlockId {
        BlockId(1 + (pick % GARBAGE_BLOCKS as u64) as u32)
    }

    /// The block's sector `part` of [`SECTORS_PER_BLOCK`].
    #[must_use]
    pub const fn sector(self, part: usize) -> Sector {
        Sector(self.0 * SECTORS_PER_BLOCK as u32 + part as u32)
    }

    /// All sectors of the block.
    pub fn sectors(self) -> impl Iterator<Item = Sector> {
        (0..SECTORS_PER_BLOCK).map(move |part| self.sector(part))
    }

    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// 512 bytes of a block of an [`Arena`]: the content of one sector of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sector(u32);

impl Sector {
    /// Zeros.
    pub const ZEROS: Sector = BlockId::ZEROS.sector(0);

    /// The sector's block.
    #[must_use]
    pub const fn block(self) -> BlockId {
        BlockId(self.0 / SECTORS_PER_BLOCK as u32)
    }

    /// The sector's number in its block.
    #[must_use]
    pub const fn part(self) -> usize {
        self.0 as usize % SECTORS_PER_BLOCK
    }
}

/// Identity of a user block: volume, block number and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// The volume.
    pub volume: VolumeId,
    /// The block of the volume.
    pub lba: Lba,
    /// The number of the write.
    pub version: u64,
}

impl Stamp {
    /// The bytes of the block.
    #[must_use]
    pub fn block(self) -> [u8; BLOCK_BYTES] {
        let mut bytes = [0; BLOCK_BYTES];
        let pattern = self.to_bytes();
        for piece in bytes.chunks_exact_mut(STAMP_BYTES) {
            piece.copy_from_slice(&pattern);
        }
        bytes
    }

    fn to_bytes(self) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        bytes[..8].copy_from_slice(&STAMP_MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.volume.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.lba.0.to_le_bytes());
        bytes[24..].copy_from_slice(&self.version.to_le_bytes());
        bytes
    }

    /// The stamp that a block of `bytes` repeats throughout, if it does.
    fn read(bytes: &[u8; BLOCK_BYTES]) -> Option<Stamp> {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let stamp =
            Stamp { volume: VolumeId(word(8) as u32), lba: Lba(word(16)), version: word(24) };
        let pattern = stamp.to_bytes();
        let sound = bytes.chunks_exact(STAMP_BYTES).all(|piece| piece == pattern);
        (word(0) == STAMP_MAGIC && sound).then_some(stamp)
    }
}

/// What a block shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Content {
    /// Zeros throughout.
    Zeros,
    /// Data that the host once wrote.
    User(Stamp),
    /// Neither: a structure, a mixture, or damage.
    Other,
}

impl Content {
    /// The content of a block with the given bytes.
    #[must_use]
    pub fn of(bytes: &[u8; BLOCK_BYTES]) -> Content {
        if *bytes == [0; BLOCK_BYTES] {
            return Content::Zeros;
        }
        Stamp::read(bytes).map_or(Content::Other, Content::User)
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Content::Zeros => f.write_str("zeros"),
            Content::User(stamp) => {
                let Stamp { volume, lba, version } = stamp;
                write!(f, "version {version} of block {} of volume {}", lba.0, volume.0)
            }
            Content::Other => f.write_str("bytes that nobody wrote there"),
        }
    }
}

struct Block {
    bytes: [u8; BLOCK_BYTES],
    crc: Option<u32>,
    content: Option<Content>,
}

/// All blocks of one simulation. Blocks are added and never change; [`Arena::truncate`] forgets the newest.
pub struct Arena {
    blocks: RefCell<Vec<Block>>,
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Arena({} blocks)", self.blocks.borrow().len())
    }
}

impl Arena {
    /// An arena with the blocks of zeros and of arbitrary bytes, always the same ones.
    #[must_use]
    pub fn new() -> Rc<Arena> {
        let zeros = Block {
            bytes: [0; BLOCK_BYTES],
            crc: Some(crc32c(&[0; BLOCK_BYTES])),
            content: Some(Content::Zeros),
        };
        let arena = Arena { blocks: RefCell::new(vec![zeros]) };
        let mut rng = Rng::new(STAMP_MAGIC);
        for _ in 0..GARBAGE_BLOCKS {
            let mut bytes = [0; BLOCK_BYTES];
            for word in bytes.chunks_exact_mut(8) {
                word.copy_from_slice(&rng.next_u64().to_le_bytes());
            }
            arena.add(bytes, Some(Content::Other));
        }
        Rc::new(arena)
    }

    fn add(&self, bytes: [u8; BLOCK_BYTES], content: Option<Content>) -> BlockId {
        let mut blocks = self.blocks.borrow_mut();
        let index = u32::try_from(blocks.len()).expect("a simulation has fewer than 2^32 blocks");
        assert!(index < u32::MAX / SECTORS_PER_BLOCK as u32, "sectors are numbered in 32 bits");
        blocks.push(Block { bytes, crc: None, content });
        BlockId(index)
    }

    /// The block that the host writes as `stamp`.
    pub fn user(&self, stamp: Stamp) -> BlockId {
        self.add(stamp.block(), Some(Content::User(stamp)))
    }

    /// A block of `bytes`, zeros behind them.
    ///
    /// # Panics
    /// When there are more than 4096.
    pub fn bytes(&self, bytes: &[u8]) -> BlockId {
        let mut block = [0; BLOCK_BYTES];
        block[..bytes.len()].copy_from_slice(bytes);
        self.add(block, None)
    }

    /// As many sectors as `bytes` take, zeros behind them.
    pub fn sectors(&self, bytes: &[u8], out: &mut Vec<Sector>) {
        for piece in bytes.chunks(BLOCK_BYTES) {
            let block = self.bytes(piece);
            out.extend((0..piece.len().div_ceil(SECTOR_BYTES)).map(|part| block.sector(part)));
        }
    }

    /// The block that consists of `sectors`.
    ///
    /// # Panics
    /// When they are not [`SECTORS_PER_BLOCK`].
    pub fn gather(&self, sectors: &[Sector]) -> BlockId {
        assert_eq!(sectors.len(), SECTORS_PER_BLOCK, "a block has eight sectors");
        let block = sectors[0].block();
        if (0..SECTORS_PER_BLOCK).all(|part| sectors[part] == block.sector(part)) {
            return block;
        }
        if sectors.iter().all(|sector| sector.block() == BlockId::ZEROS) {
            return BlockId::ZEROS;
        }
        let mut bytes = Vec::with_capacity(BLOCK_BYTES);
        self.copy_out(sectors, &mut bytes);
        self.bytes(&bytes)
    }

    /// Appends the bytes of `sectors` to `out`.
    pub fn copy_out(
        &self,
        sectors: impl IntoIterator<Item = impl Borrow<Sector>>,
        out: &mut Vec<u8>,
    ) {
        let blocks = self.blocks.borrow();
        for sector in sectors {
            let sector: &Sector = sector.borrow();
            let start = sector.part() * SECTOR_BYTES;
            let bytes = &blocks[sector.block().index()].bytes;
            out.extend_from_slice(&bytes[start..start + SECTOR_BYTES]);
        }
    }

    /// The bytes of a block.
    #[must_use]
    pub fn read(&self, block: BlockId) -> Box<[u8; BLOCK_BYTES]> {
        Box::new(self.blocks.borrow()[block.index()].bytes)
    }

    /// CRC-32C of a block.
    #[must_use]
    pub fn crc(&self, block: BlockId) -> u32 {
        let block = &mut self.blocks.borrow_mut()[block.index()];
        *block.crc.get_or_insert_with(|| crc32c(&block.bytes))
    }

    /// A user block packed into at most `room` bytes; half of all versions can be packed.
    fn packed<'a>(&self, block: BlockId, packer: &'a mut Packer, room: usize) -> Option<&'a [u8]> {
        match self.content(block) {
            Content::User(stamp) if stamp.version % 2 == 0 => {
                packer.pack(&self.read(block)[..], room)
            }
            _ => None,
        }
    }

    /// The block that lies packed in another, if that is the sound header of an expected chunk.
    fn unpacked(
        &self,
        header: BlockId,
        expected: &Expected,
        geometry: &Geometry,
    ) -> Option<BlockId> {
        let block = {
            let blocks = self.blocks.borrow();
            packed_block(&blocks[header.index()].bytes, expected, geometry)?
        };
        Some(self.bytes(&block[..]))
    }

    /// What a block shows.
    #[must_use]
    pub fn content(&self, block: BlockId) -> Content {
        let block = &mut self.blocks.borrow_mut()[block.index()];
        *block.content.get_or_insert_with(|| Content::of(&block.bytes))
    }

    /// How many blocks there are, for [`Arena::truncate`].
    #[must_use]
    pub fn mark(&self) -> usize {
        self.blocks.borrow().len()
    }

    /// Forgets all blocks that were added since [`Arena::mark`] gave `mark`. No handle to a forgotten block may remain.
    pub fn truncate(&self, mark: usize) {
        self.blocks.borrow_mut().truncate(mark);
    }
}

/// Handle of a run of sectors: the payload between host and engine, and between engine and device.
#[derive(Clone)]
pub struct Data {
    arena: Rc<Arena>,
    sectors: Rc<[Cell<Sector>]>,
    first: u32,
    length: u32,
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.blocks().map(|block| self.arena.content(block))).finish()
    }
}

impl Data {
    /// The handle of `blocks`.
    pub fn new(arena: &Rc<Arena>, blocks: impl Iterator<Item = BlockId>) -> Data {
        Data::of(arena, blocks.flat_map(BlockId::sectors))
    }

    /// The handle of `sectors`.
    fn of(arena: &Rc<Arena>, sectors: impl Iterator<Item = Sector>) -> Data {
        let sectors: Rc<[Cell<Sector>]> = sectors.map(Cell::new).collect();
        let length = u32::try_from(sectors.len()).expect("runs are short");
        Data { arena: Rc::clone(arena), sectors, first: 0, length }
    }

    /// A run of `length` blocks of zeros, to be read into.
    #[must_use]
    pub fn zeros(arena: &Rc<Arena>, length: u32) -> Data {
        Data::new(arena, (0..length).map(|_| BlockId::ZEROS))
    }

    /// The blocks of the run, as far as they are whole.
    pub fn blocks(&self) -> impl Iterator<Item = BlockId> {
        self.cells().chunks_exact(SECTORS_PER_BLOCK).map(|block| self.gather(block))
    }

    /// The sectors of the run.
    pub fn sectors(&self) -> impl ExactSizeIterator<Item = Sector> {
        self.cells().iter().map(Cell::get)
    }

    /// Replaces the sectors of the run, as a device does that reads into it.
    ///
    /// # Panics
    /// When there are not as many as the run has.
    pub fn fill(&self, sectors: &[Sector]) {
        assert_eq!(sectors.len(), self.cells().len(), "a read fills its room");
        self.cells().iter().zip(sectors).for_each(|(cell, &sector)| cell.set(sector));
    }

    /// Lends `with` the bytes of the run, to be changed.
    pub fn rewrite<R>(&self, with: impl FnOnce(&mut [u8]) -> R) -> R {
        let (mut bytes, mut sectors) = (Vec::new(), Vec::new());
        self.arena.copy_out(self.sectors(), &mut bytes);
        let result = with(&mut bytes);
        self.arena.sectors(&bytes, &mut sectors);
        self.fill(&sectors);
        result
    }

    fn cells(&self) -> &[Cell<Sector>] {
        &self.sectors[self.first as usize..(self.first + self.length) as usize]
    }

    fn gather(&self, cells: &[Cell<Sector>]) -> BlockId {
        let mut sectors = [Sector::ZEROS; SECTORS_PER_BLOCK];
        sectors.iter_mut().zip(cells).for_each(|(sector, cell)| *sector = cell.get());
        self.arena.gather(&sectors)
    }

    fn block(&self, index: u32) -> BlockId {
        self.gather(&self.cells()[index as usize * SECTORS_PER_BLOCK..][..SECTORS_PER_BLOCK])
    }

    fn run(&self, first: usize, length: usize) -> Data {
        assert!(first + length <= self.length as usize, "a part lies within its run");
        Data { first: self.first + first as u32, length: length as u32, ..self.clone() }
    }
}

impl ByteRun for Data {
    type Memory = Rc<Arena>;

    fn room(arena: &Rc<Arena>, bytes: usize) -> Data {
        Data::of(arena, std::iter::repeat_n(Sector::ZEROS, bytes / SECTOR_BYTES))
    }

    fn copied(arena: &Rc<Arena>, pieces: &[&[u8]]) -> Data {
        let mut sectors = Vec::new();
        pieces.iter().for_each(|piece| arena.sectors(piece, &mut sectors));
        Data::of(arena, sectors.into_iter())
    }

    fn bytes(&self) -> usize {
        self.length as usize * SECTOR_BYTES
    }

    fn part(&self, from: usize, bytes: usize) -> Data {
        self.run(from / SECTOR_BYTES, bytes / SECTOR_BYTES)
    }

    fn look<R>(&self, with: impl FnOnce(&[u8]) -> R) -> R {
        let mut bytes = Vec::with_capacity(ByteRun::bytes(self));
        self.arena.copy_out(self.sectors(), &mut bytes);
        with(&bytes)
    }
}

impl Payload for Data {
    fn slice(&self, first: u32, blocks: u32) -> Data {
        self.run(first as usize * SECTORS_PER_BLOCK, blocks as usize * SECTORS_PER_BLOCK)
    }

    fn crc(&self, index: u32) -> u32 {
        self.arena.crc(self.block(index))
    }

    fn fill_zero(&self) {
        self.cells().iter().for_each(|cell| cell.set(Sector::ZEROS));
    }

    fn copy_block(&self, from: &Data) {
        let pairs = self.cells().iter().zip(from.cells());
        pairs.take(SECTORS_PER_BLOCK).for_each(|(to, from)| to.set(from.get()));
    }

    fn pack(&self, packer: &mut Packer, room: usize) -> Option<(Data, u16)> {
        let packed = self.arena.packed(self.block(0), packer, room)?;
        Some((Data::copied(&self.arena, &[packed]), packed.len() as u16))
    }

    fn unpack(&self, index: u32, expected: &Expected, geometry: &Geometry) -> Option<Data> {
        let unpacked = self.arena.unpacked(self.block(index), expected, geometry)?;
        Some(Data::new(&self.arena, [unpacked].into_iter()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(version: u64) -> Stamp {
        Stamp { volume: VolumeId(3), lba: Lba(77), version }
    }

    #[test]
    fn a_block_shows_what_was_written_and_has_the_checksum_of_its_bytes() {
        let arena = Arena::new();
        let user = arena.user(stamp(5));
        let copy = arena.bytes(&arena.read(user)[..]);
        assert_ne!(user, copy);
        assert_eq!(arena.content(copy), Content::User(stamp(5)));
        assert_eq!(arena.crc(user), crc32c(&arena.read(user)[..]));
        assert_eq!(arena.content(arena.bytes(&[0; 100])), Content::Zeros);
        assert_eq!(arena.content(BlockId::garbage(6)), Content::Other);
    }

    #[test]
    fn every_mixture_of_two_versions_is_neither() {
        let arena = Arena::new();
        let (old, new) = (arena.user(stamp(5)), arena.user(stamp(6)));
        for mask in 0..=255_u32 {
            let pick = |part| if mask >> part & 1 == 1 { new } else { old };
            let sectors: Vec<Sector> = (0..8).map(|part| pick(part).sector(part)).collect();
            let expected = match mask {
                0 => Content::User(stamp(5)),
                255 => Content::User(stamp(6)),
                _ => Content::Other,
            };
            assert_eq!(arena.content(arena.gather(&sectors)), expected, "{mask}");
        }
    }

    #[test]
    fn one_flipped_bit_is_seen() {
        let arena = Arena::new();
        let user = arena.user(stamp(5));
        for bit in (0..BLOCK_BYTES * 8).step_by(509) {
            let mut bytes = arena.read(user);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let block = arena.bytes(&bytes[..]);
            assert_ne!(arena.content(block), Content::User(stamp(5)), "bit {bit}");
            assert_ne!(arena.crc(block), arena.crc(user), "bit {bit}");
        }
    }

    #[test]
    fn handles_share_their_blocks() {
        let arena = Arena::new();
        let run = Data::new(&arena, (1..=4).map(|version| arena.user(stamp(version))));
        let tail = run.slice(2, 2);
        assert_eq!(tail.crc(0), run.crc(2));
        tail.copy_block(&run);
        assert_eq!(run.crc(2), run.crc(0));
        run.slice(1, 1).fill_zero();
        let shown: Vec<Content> = run.blocks().map(|block| arena.content(block)).collect();
        let user = |version| Content::User(stamp(version));
        assert_eq!(shown, [user(1), Content::Zeros, user(1), user(4)]);
    }
}
