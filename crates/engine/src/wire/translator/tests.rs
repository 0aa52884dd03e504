use std::cell::RefCell;
use std::rc::Rc;

use thermocline_format::{
    ChunkCause, ChunkHeader, ChunkOrigin, Entry, Epoch, Expected, Generation, LogicalBlock,
    MapEntry, OpenUnit, Packer, PoolId, Revision, Sequence, VolumeId,
};
use thermocline_types::Lba;

use super::super::{ByteRun, InBytes};
use super::*;
use crate::device::{Body, UnitCondition};

const POOL: PoolId = PoolId([3; 16]);

/// Bytes in shared memory.
#[derive(Clone, Debug)]
struct Run(Rc<RefCell<Vec<u8>>>, usize, usize);

impl Run {
    fn of(bytes: Vec<u8>) -> Run {
        let length = bytes.len();
        Run(Rc::new(RefCell::new(bytes)), 0, length)
    }

    fn fill(&self, bytes: &[u8]) {
        self.0.borrow_mut()[self.1..][..self.2].copy_from_slice(bytes);
    }
}

impl ByteRun for Run {
    type Memory = ();

    fn room((): &(), bytes: usize) -> Run {
        Run::of(vec![0xEE; bytes])
    }

    fn copied((): &(), pieces: &[&[u8]]) -> Run {
        Run::of(pieces.concat())
    }

    fn bytes(&self) -> usize {
        self.2
    }

    fn part(&self, from: usize, bytes: usize) -> Run {
        Run(Rc::clone(&self.0), self.1 + from, bytes)
    }

    fn look<R>(&self, with: impl FnOnce(&[u8]) -> R) -> R {
        with(&self.0.borrow()[self.1..][..self.2])
    }
}

impl Payload for Run {
    fn slice(&self, first: u32, blocks: u32) -> Run {
        self.part(first as usize * BLOCK_BYTES, blocks as usize * BLOCK_BYTES)
    }

    fn crc(&self, _index: u32) -> u32 {
        0
    }

    fn fill_zero(&self) {
        self.fill(&vec![0; self.2]);
    }

    fn copy_block(&self, _from: &Run) {}

    fn pack(&self, _packer: &mut Packer, _room: usize) -> Option<(Run, u16)> {
        None
    }

    fn unpack(&self, _index: u32, _expected: &Expected, _geometry: &Geometry) -> Option<Run> {
        None
    }
}

fn geometry() -> Geometry {
    let per_unit = (8 << 20) / LogicalBlock::B4096.bytes() as u32;
    let geometry = Geometry::new(LogicalBlock::B4096, per_unit, 40_000, [UnitId(0), UnitId(1)]);
    geometry.expect("units of 8 MiB")
}

fn translator() -> Translator<InBytes<Run>> {
    Translator::new(InBytes::new(geometry(), ()))
}

/// A record that lists so many units, of such ages, that ten of them are longer than the longest one may be.
fn record(at: Location, revision: u64) -> Superblock {
    let unit = |unit| OpenUnit { next: Location::new(unit, 0), generation: Generation(1 << 32) };
    Superblock {
        pool: POOL,
        location: at,
        revision: Revision(revision),
        epoch: Epoch(1),
        tail_epoch: Epoch(1),
        tail_end: None,
        patches: 0,
        vain: 0,
        flushed: 0,
        snapshots: false,
        checkpoint: Sequence(1),
        clean: false,
        confirmed: false,
        geometry: geometry(),
        next_generation: Generation(1 << 62),
        next_volume: VolumeId(1),
        volumes: Vec::new(),
        open_units: (2..39_000).map(unit).collect(),
        unit_pages: vec![MapEntry::UNMAPPED; geometry().unit_pages()],
    }
}

/// What was found, and which units were read, each with how many bytes.
type Searched = (Result<Vec<Superblock>, DeviceError>, Vec<(u32, usize)>);

/// Searches superblock units of which these are the bytes, or that cannot be read.
fn search(units: [Option<&[u8]>; 2], written: Option<u32>) -> Searched {
    let mut translator = translator();
    let (cmd, job) = translator.start(DeviceCmd::ReadSuperblocks(Members::NONE));
    assert!(matches!(cmd, IoCmd::Report) && job.is_report());
    let report = UnitReport { condition: UnitCondition::Good, written };
    // A device may have more units than the pool.
    let mut step = translator.reported(job, Ok(vec![report; 40_007]));
    let mut reads = Vec::new();
    loop {
        match step {
            IoStep::Io(IoCmd::Read { at, into, .. }, job) => {
                reads.push((at.unit.0, into.bytes()));
                let unit = units[at.unit.index()];
                let result = unit.map(|unit| into.fill(&unit[..into.bytes()]));
                step = translator.go_on(job, result.ok_or(DeviceError::Io));
            }
            IoStep::Answer(Ok(Done::Superblocks(found))) => return (Ok(found), reads),
            IoStep::Answer(Err(error)) => return (Err(error), reads),
            other => panic!("{other:?}"),
        }
    }
}

/// A superblock unit with `count` records behind each other, and the records.
fn unit_of(unit: u32, count: u64) -> (Vec<u8>, Vec<Superblock>) {
    let (mut bytes, mut records) = (Vec::new(), Vec::new());
    for revision in 1..=count {
        let at = Location::new(unit, (bytes.len() / BLOCK_BYTES) as u32);
        let record = record(at, revision);
        record.encode(&mut bytes);
        records.push(record);
    }
    bytes.resize(8 << 20, 0);
    (bytes, records)
}

#[test]
fn a_unit_is_read_on_behind_the_records_of_its_first_part() {
    let (first, records) = unit_of(0, 13);
    let (found, reads) = search([Some(&first), Some(&vec![0; 8 << 20])], None);
    assert_eq!(found, Ok(records));
    let sizes: Vec<u32> = reads.iter().map(|&(unit, _)| unit).collect();
    assert_eq!(sizes, [0, 0, 0, 1], "{reads:?}");
    assert!(reads[0].1 < reads[1].1 && reads[1].1 < reads[2].1);
}

#[test]
fn of_a_zone_no_more_is_read_than_was_written() {
    let (first, records) = unit_of(0, 2);
    let end = (2 * records[0].record_bytes() / BLOCK_BYTES) as u32;
    let (found, reads) = search([Some(&first), None], Some(end));
    assert_eq!(found, Ok(records));
    let bytes = end as usize * BLOCK_BYTES;
    assert_eq!(reads, [(0, bytes), (1, bytes)]);
    assert_eq!(search([None, None], Some(0)), (Ok(Vec::new()), Vec::new()));
}

#[test]
fn records_of_the_units_that_can_be_read_count() {
    let (second, records) = unit_of(1, 1);
    assert_eq!(search([None, Some(&second)], None).0, Ok(records));
    assert_eq!(search([None, None], None).0, Err(DeviceError::Io));
}

/// A chunk of three blocks at `at`, with two logical blocks of padding.
fn chunk_at(at: Location) -> Arc<Chunk<Run>> {
    let origin = ChunkOrigin {
        pool: POOL,
        location: at,
        generation: Generation(1 << 32),
        epoch: Epoch(1),
        sequence: Sequence(1),
        durable: Sequence(0),
        revision: Revision(1),
        cause: ChunkCause::Host,
        class: Class(4),
    };
    let entry = |lba| Entry::Data { volume: VolumeId(1), lba: Lba(lba), crc: 0 };
    let header = ChunkHeader::new(origin, (0..3).map(entry).collect(), &geometry());
    let header = ChunkHeader { blocks: header.blocks + 2, ..header };
    let body = Body::User((0..3).map(|fill| Run::of(vec![fill; BLOCK_BYTES])).collect());
    #[expect(clippy::arc_with_non_send_sync, reason = "the engine hands chunks over in an Arc")]
    Arc::new(Chunk { header: Arc::new(header), body, packed: None })
}

/// The bytes of a write.
fn bytes_of(parts: &[Run]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.look(<[u8]>::to_vec)).collect()
}

/// The version in which a chunk is found that member 1 lacks, and whether all versions that were read have the chunk.
/// With `fails`, the member reports errors.
fn found_without_a_member(fails: bool) -> (Option<Version>, bool) {
    let at = Location::new(2, 7);
    let mut translator = translator();
    let (write, _) = translator.start(DeviceCmd::WriteChunk(chunk_at(at)));
    let IoCmd::Write { parts, .. } = write else { panic!("{write:?}") };
    let bytes = bytes_of(&parts);
    let (window, generation, versions) = (6, Some(Generation(1 << 32)), Versions::All(3));
    let (search, data) = (false, false);
    let read = ReadChunks { at, window, pool: POOL, generation, search, data, versions };
    let (mut cmd, mut job) = translator.start(DeviceCmd::ReadChunks(read));
    loop {
        let IoCmd::Read { into, version, .. } = cmd else { panic!("{cmd:?}") };
        let has = version == Version::without(1);
        into.fill(&if has { bytes.clone() } else { vec![0; into.bytes()] });
        let result = if fails && !has { Err(DeviceError::Io) } else { Ok(()) };
        match translator.go_on(job, result) {
            IoStep::Io(next, of_next) => (cmd, job) = (next, of_next),
            IoStep::Answer(Ok(Done::Chunks(found))) => {
                let chunk = found.chunks.first().expect("one version has the chunk");
                return (chunk.only_in, chunk.everywhere);
            }
            other @ IoStep::Answer(_) => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_chunk_that_one_version_has_is_told_also_where_no_other_version_can_be_read() {
    let lacks = Some(Version::without(1));
    assert_eq!(found_without_a_member(false), (lacks, false));
    assert_eq!(found_without_a_member(true), (lacks, true));
}

#[test]
fn a_chunk_is_written_as_long_as_its_header_says() {
    let at = Location::new(2, 7);
    let chunk = chunk_at(at);
    let mut translator = translator();
    // The header of the one before is not in the way of the second.
    for _ in 0..2 {
        let (cmd, job) = translator.start(DeviceCmd::WriteChunk(Arc::clone(&chunk)));
        assert_eq!(cmd.changes(), Some(at.unit));
        let IoCmd::Write { at: place, parts, class } = cmd else { panic!("{cmd:?}") };
        assert_eq!((place, class), (at, Class(4)));
        let bytes = bytes_of(&parts);
        let firsts: Vec<u8> = bytes.chunks(BLOCK_BYTES).map(|block| block[9]).collect();
        assert_eq!((bytes.len(), &firsts[1..]), (6 * BLOCK_BYTES, &[0, 1, 2, 0, 0][..]));
        let step = translator.go_on(job, Err(DeviceError::ReadOnly));
        assert!(matches!(step, IoStep::Answer(Err(DeviceError::ReadOnly))));
    }
}
