//! What a block that was read counts as: itself, or what lies packed in it.

use std::cell::RefCell;
use std::rc::Rc;

use thermocline_format::{
    BLOCK_BYTES, ChunkCause, ChunkHeader, ChunkOrigin, Entry, Epoch, Generation, Geometry,
    LogicalBlock, PackedBlock, Packer, PoolId, Revision, Sequence, VolumeId, crc32c, packed_block,
};
use thermocline_types::{Class, Lba};

use super::*;
use crate::config::Config;

const POOL: PoolId = PoolId([0xA5; 16]);
const AT: Location = Location::new(4, 17);

/// One block of bytes.
#[derive(Clone, Debug)]
struct Block(Rc<RefCell<Vec<u8>>>);

impl Block {
    fn new(bytes: &[u8]) -> Block {
        Block(Rc::new(RefCell::new(bytes.to_vec())))
    }
}

impl Payload for Block {
    fn slice(&self, _first: u32, _blocks: u32) -> Block {
        self.clone()
    }

    fn crc(&self, _index: u32) -> u32 {
        crc32c(&self.0.borrow())
    }

    fn fill_zero(&self) {
        self.0.borrow_mut().fill(0);
    }

    fn copy_block(&self, from: &Block) {
        let from = from.0.borrow().clone();
        self.0.replace(from);
    }

    fn pack(&self, packer: &mut Packer, room: usize) -> Option<(Block, u16)> {
        let block = self.0.borrow();
        let packed = packer.pack(&block, room)?;
        Some((Block::new(packed), packed.len() as u16))
    }

    fn unpack(&self, _index: u32, expected: &Expected, geometry: &Geometry) -> Option<Block> {
        let block = packed_block(&self.0.borrow(), expected, geometry)?;
        Some(Block::new(&block[..]))
    }
}

fn parts() -> Parts<Block> {
    let geometry = Geometry::new(LogicalBlock::B4096, 256, 64, [0, 1].map(UnitId));
    let config = Config::new(geometry.expect("sound units"));
    Parts::new(config, 1, POOL)
}

/// The header of a chunk of `pool` at `at` with `block` packed in it, as it stands on media: 4096 bytes.
fn header(pool: PoolId, at: Location, block: &[u8]) -> Vec<u8> {
    let geometry = parts().config.geometry;
    let origin = ChunkOrigin {
        pool,
        location: at,
        generation: Generation(9),
        epoch: Epoch(1),
        sequence: Sequence(5),
        durable: Sequence(0),
        revision: Revision(1),
        cause: ChunkCause::Host,
        class: Class(0),
    };
    let mut packer = Packer::default();
    let packed = packer.pack(block, PackedBlock::room(1, &geometry)).expect("it repeats");
    let said = PackedBlock { entry: 0, bytes: packed.len() as u16 };
    let entries = vec![Entry::Data { volume: VolumeId(1), lba: Lba(7), crc: crc32c(block) }];
    let mut bytes = Vec::new();
    let header = ChunkHeader::with_packed(origin, entries, Some(said), &geometry);
    header.encode(packed, &geometry, &mut bytes);
    assert_eq!(bytes.len(), BLOCK_BYTES);
    bytes
}

/// What arrives where `bytes` were read at [`AT`] and a block with checksum `crc` is expected.
fn arrives(bytes: &[u8], passes: impl Fn(u32) -> bool) -> Option<Vec<u8>> {
    let read = Block::new(bytes);
    let arrived = parts().arrived(&read, 0, AT, passes);
    let bytes = read.0.borrow().clone();
    arrived.then_some(bytes)
}

#[test]
fn a_packed_block_arrives_unpacked() {
    let block = [0x11; BLOCK_BYTES];
    let expected = |crc| crc == crc32c(&block);
    assert_eq!(arrives(&header(POOL, AT, &block), expected).as_deref(), Some(&block[..]));
    assert_eq!(arrives(&block, expected).as_deref(), Some(&block[..]), "as it is");
}

#[test]
fn a_header_that_has_the_checksum_of_the_block_in_it_is_not_taken_for_it() {
    // With 28 bits of checksum that happens once in 2^28 headers; here everything passes.
    let block = [0x11; BLOCK_BYTES];
    assert_eq!(arrives(&header(POOL, AT, &block), |_| true).as_deref(), Some(&block[..]));
}

#[test]
fn a_block_of_a_user_that_looks_like_a_header_is_itself() {
    let forged = header(POOL, AT, &[0x22; BLOCK_BYTES]);
    let itself = |crc| crc == crc32c(&forged);
    assert_eq!(arrives(&forged, itself).as_ref(), Some(&forged));
}

#[test]
fn what_lies_packed_elsewhere_in_another_pool_or_under_another_checksum_does_not_arrive() {
    let block = [0x33; BLOCK_BYTES];
    let expected = |crc| crc == crc32c(&block);
    let elsewhere = Location { block: AT.block + 1, ..AT };
    assert_eq!(arrives(&header(POOL, elsewhere, &block), expected), None);
    assert_eq!(arrives(&header(PoolId([7; 16]), AT, &block), expected), None);
    let other = [0x34; BLOCK_BYTES];
    assert_eq!(arrives(&header(POOL, AT, &other), expected), None);
    let mut damaged = header(POOL, AT, &block);
    damaged[200] ^= 4;
    assert_eq!(arrives(&damaged, expected), None);
}
