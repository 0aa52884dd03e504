//! Chunks: a header with entries, and the blocks of the entries.

use thermocline_types::Class;
use zerocopy::{FromBytes, IntoBytes};

use crate::checksum::crc32c;
use crate::entry::Entry;
use crate::error::{DecodeError, ErrorKind, Structure, require};
use crate::geometry::Geometry;
use crate::id::{Epoch, Generation, Location, PoolId, Revision, Sequence};
use crate::layout::{
    CHUNK_MAGIC, CHUNK_PREFIX_BYTES, ChunkPrefixRaw, LINE_BYTES, MAX_LINES, PLAIN_VERSION,
    check_crc, is_zero, prefix_crc, read_prefix,
};
use crate::packed::{PackedBlock, Places};

/// Why a chunk was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ChunkCause {
    /// The host wrote, trimmed, or changed volumes.
    Host = 1,
    /// Garbage collection copied valid blocks.
    Relocation = 2,
    /// Map pages of a checkpoint.
    Checkpoint = 3,
    /// Blocks came from a fast tier.
    Destage = 4,
}

impl ChunkCause {
    /// Every cause.
    pub const ALL: [ChunkCause; 4] =
        [ChunkCause::Host, ChunkCause::Relocation, ChunkCause::Checkpoint, ChunkCause::Destage];

    fn from_code(code: u8) -> Option<ChunkCause> {
        ChunkCause::ALL.into_iter().find(|cause| *cause as u8 == code)
    }
}

/// The class of chunks of hosts' blocks that arrived on a fast device, whatever classes the writer's placement has.
pub const ARRIVALS: Class = Class(u8::MAX - 1);

/// The class of chunks with control entries or pages of maps, whatever classes the writer's placement has.
pub const METADATA: Class = Class(u8::MAX);

/// Whose a chunk is, where and when it was written, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkOrigin {
    /// The pool.
    pub pool: PoolId,
    /// Where its first byte is.
    pub location: Location,
    /// The unit's generation.
    pub generation: Generation,
    /// The opening of the pool in which it was written.
    pub epoch: Epoch,
    /// Its number.
    pub sequence: Sequence,
    /// Every chunk up to this sequence was flushed when the chunk was submitted.
    pub durable: Sequence,
    /// The newest flushed superblock when the chunk was submitted.
    pub revision: Revision,
    /// Why it was written.
    pub cause: ChunkCause,
    /// The lifetime class of its blocks, or [`METADATA`].
    pub class: Class,
}

/// The origin that a reader expects at a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The pool.
    pub pool: PoolId,
    /// Where the bytes were read.
    pub location: Location,
    /// The unit's generation, if it is known.
    pub generation: Option<Generation>,
}

/// The first part of a chunk's header: says how long header and chunk are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPrefix {
    /// Pool, location, order and cause.
    pub origin: ChunkOrigin,
    /// Lines that the entries of the header take, [`MAX_LINES`] at most.
    pub lines: u32,
    /// Bytes in the header: the length to read before decoding the header.
    pub header_bytes: u32,
    /// Logical blocks in the chunk, padding included: the distance to the next chunk.
    pub blocks: u32,
    packed: Option<PackedBlock>,
    rest_crc: u32,
}

impl ChunkPrefix {
    /// Decodes the prefix of the chunk whose first bytes are `bytes`, [`CHUNK_PREFIX_BYTES`] at least.
    ///
    /// # Errors
    /// [`DecodeError`] when there is no sound prefix of an expected chunk.
    pub fn decode(
        bytes: &[u8],
        expected: &Expected,
        geometry: &Geometry,
    ) -> Result<ChunkPrefix, DecodeError> {
        decode_prefix(bytes, expected, geometry).map_err(|kind| error(expected, kind))
    }
}

/// The header of a chunk. The blocks follow the header in the order of their entries. One block may be packed in the
/// header instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Pool, location, order and cause.
    pub origin: ChunkOrigin,
    /// Logical blocks in the chunk: header, blocks of data, and padding behind them.
    pub blocks: u32,
    /// The entries, in the order of the events.
    pub entries: Vec<Entry>,
    /// The block that lies packed in the header, if one does.
    pub packed: Option<PackedBlock>,
}

impl ChunkHeader {
    /// The header of a chunk without padding.
    #[must_use]
    pub fn new(origin: ChunkOrigin, entries: Vec<Entry>, geometry: &Geometry) -> ChunkHeader {
        ChunkHeader::with_packed(origin, entries, None, geometry)
    }

    /// The header of a chunk without padding, with the block of one of its entries packed in it.
    #[must_use]
    pub fn with_packed(
        origin: ChunkOrigin,
        entries: Vec<Entry>,
        packed: Option<PackedBlock>,
        geometry: &Geometry,
    ) -> ChunkHeader {
        let blocks = least_blocks(entries.len(), lines_of(&entries), packed, geometry);
        ChunkHeader { origin, blocks, entries, packed }
    }

    /// Lines that its entries take.
    #[must_use]
    pub fn lines(&self) -> usize {
        lines_of(&self.entries)
    }

    /// Bytes in the header.
    #[must_use]
    pub fn header_bytes(&self, geometry: &Geometry) -> usize {
        let block = geometry.logical_block();
        block.chunk_header(self.lines()) as usize * block.bytes()
    }

    /// Every entry with the location of its block, if the entry has a block.
    pub fn placed(&self, geometry: &Geometry) -> impl Iterator<Item = (&Entry, Option<Location>)> {
        let places = self.places(geometry);
        let mut number = 0;
        self.entries.iter().map(move |entry| {
            let place = entry.has_block().then(|| places.of(number));
            number += u32::from(entry.has_block());
            (entry, place)
        })
    }

    /// Where its blocks are, by their number.
    #[must_use]
    pub fn places(&self, geometry: &Geometry) -> Places {
        let block = geometry.logical_block();
        let header = block.chunk_header(self.lines());
        Places::new(self.origin.location, header, block.per_block(), self.packed_number())
    }

    /// Blocks that its entries have.
    #[must_use]
    pub fn data_blocks(&self) -> u32 {
        self.entries.iter().filter(|entry| entry.has_block()).count() as u32
    }

    /// The number of the block that lies packed in the header, among all blocks that the entries have.
    #[must_use]
    pub fn packed_number(&self) -> Option<u32> {
        let before = &self.entries[..usize::from(self.packed?.entry)];
        Some(before.iter().filter(|entry| entry.has_block()).count() as u32)
    }

    /// Whether the chunk can stand in a pool of this geometry: within one unit, no longer than allowed, all fields in
    /// range.
    ///
    /// # Errors
    /// [`ErrorKind::Impossible`].
    pub fn check(&self, geometry: &Geometry) -> Result<(), ErrorKind> {
        let lines = self.lines();
        require(lines <= MAX_LINES, "lines", lines as u64, "at most 255")?;
        check_shape(&self.origin, self.blocks, geometry)?;
        self.packed.map_or(Ok(()), |packed| check_packed(packed, &self.entries, geometry))?;
        let least = least_blocks(self.entries.len(), lines, self.packed, geometry);
        let rule = "fewer than header and blocks have";
        require(self.blocks >= least, "blocks of a chunk", self.blocks.into(), rule)?;
        self.entries.iter().try_for_each(|entry| entry.check(geometry))
    }

    /// Appends the header as it stands on media to `out`: [`ChunkHeader::header_bytes`] bytes. `packed` holds the bytes
    /// of the packed block; empty without a packed block.
    ///
    /// # Panics
    /// When [`ChunkHeader::check`] finds something: no reader would take it. And when `packed` has another length than
    /// the header says.
    pub fn encode(&self, packed: &[u8], geometry: &Geometry, out: &mut Vec<u8>) {
        let said = self.packed.map_or(0, |packed| usize::from(packed.bytes));
        assert_eq!(packed.len(), said, "the header says how long the packed block is");
        if let Err(kind) = self.check(geometry) {
            panic!("a chunk that cannot be is not written: {kind}");
        }
        let (lines, block) = (self.lines(), geometry.logical_block());
        let header_bytes = block.chunk_header(lines) as usize * block.bytes();
        let start = out.len();
        out.resize(start + header_bytes, 0);
        let header = &mut out[start..];
        let mut rest = &mut header[CHUNK_PREFIX_BYTES..];
        for entry in &self.entries {
            let (own, behind) = rest.split_at_mut(entry.lines() * LINE_BYTES);
            entry.encode(own);
            rest = behind;
        }
        rest[..packed.len()].copy_from_slice(packed);
        let mut raw = raw_prefix(&self.origin, self.version());
        raw.lines = (lines as u32).into();
        raw.header_bytes = (header_bytes as u32).into();
        raw.blocks = self.blocks.into();
        if let Some(packed) = self.packed {
            (raw.packed_entry, raw.packed_bytes) = (packed.entry.into(), packed.bytes.into());
        }
        raw.rest_crc = crc32c(&header[CHUNK_PREFIX_BYTES..]).into();
        raw.prefix_crc = prefix_crc(raw.as_bytes()).into();
        header[..CHUNK_PREFIX_BYTES].copy_from_slice(raw.as_bytes());
    }

    /// Decodes the header of the chunk whose first bytes are `bytes`. What is behind the header is not looked at.
    ///
    /// # Errors
    /// [`DecodeError`] when there is no sound header of an expected chunk; [`ErrorKind::Truncated`] says how many bytes
    /// are needed.
    pub fn decode(
        bytes: &[u8],
        expected: &Expected,
        geometry: &Geometry,
    ) -> Result<ChunkHeader, DecodeError> {
        decode_header(bytes, expected, geometry).map_err(|kind| error(expected, kind))
    }

    /// The version that its entries need.
    fn version(&self) -> u16 {
        self.entries.iter().map(Entry::version).max().unwrap_or(PLAIN_VERSION)
    }

    /// The bytes of the packed block in those that the header was decoded from.
    pub(crate) fn packed_bytes<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let start = CHUNK_PREFIX_BYTES + self.lines() * LINE_BYTES;
        bytes.get(start..start + usize::from(self.packed?.bytes))
    }
}

fn error(expected: &Expected, kind: ErrorKind) -> DecodeError {
    DecodeError { structure: Structure::Chunk, at: Some(expected.location), kind }
}

fn raw_prefix(origin: &ChunkOrigin, version: u16) -> ChunkPrefixRaw {
    ChunkPrefixRaw {
        magic: CHUNK_MAGIC,
        version: version.into(),
        cause: origin.cause as u8,
        class: origin.class.0,
        epoch: origin.epoch.0.into(),
        pool: origin.pool.0,
        unit: origin.location.unit.0.into(),
        block: origin.location.block.into(),
        generation: origin.generation.0.into(),
        sequence: origin.sequence.0.into(),
        durable: origin.durable.0.into(),
        revision: origin.revision.0.into(),
        lines: 0.into(),
        header_bytes: 0.into(),
        blocks: 0.into(),
        packed_entry: 0.into(),
        packed_bytes: 0.into(),
        rest_crc: 0.into(),
        prefix_crc: 0.into(),
    }
}

fn decode_prefix(
    bytes: &[u8],
    expected: &Expected,
    geometry: &Geometry,
) -> Result<ChunkPrefix, ErrorKind> {
    let raw: &ChunkPrefixRaw = read_prefix(bytes, CHUNK_MAGIC, Some(expected.pool))?;
    let found = Location::new(raw.unit.get(), raw.block.get());
    if found != expected.location {
        return Err(ErrorKind::Misplaced { found });
    }
    let generation = Generation(raw.generation.get());
    check_generation(expected.generation, generation)?;
    let code = raw.cause;
    let Some(cause) = ChunkCause::from_code(code) else {
        let (field, rule) = ("cause", "this version has causes 1 to 4");
        return Err(ErrorKind::Impossible { field, found: code.into(), rule });
    };
    let origin = ChunkOrigin {
        pool: expected.pool,
        location: found,
        generation,
        epoch: Epoch(raw.epoch.get()),
        sequence: Sequence(raw.sequence.get()),
        durable: Sequence(raw.durable.get()),
        revision: Revision(raw.revision.get()),
        cause,
        class: Class(raw.class),
    };
    let prefix = ChunkPrefix {
        origin,
        lines: raw.lines.get(),
        header_bytes: raw.header_bytes.get(),
        blocks: raw.blocks.get(),
        packed: packed_of(raw)?,
        rest_crc: raw.rest_crc.get(),
    };
    check_lengths(&prefix, geometry)?;
    Ok(prefix)
}

fn packed_of(raw: &ChunkPrefixRaw) -> Result<Option<PackedBlock>, ErrorKind> {
    let (entry, bytes) = (raw.packed_entry.get(), raw.packed_bytes.get());
    if bytes == 0 {
        require(entry == 0, "packed entry", entry.into(), "zero where no block is packed")?;
        return Ok(None);
    }
    Ok(Some(PackedBlock { entry, bytes }))
}

/// Checks the packed block against the entries and the geometry.
fn check_packed(
    packed: PackedBlock,
    entries: &[Entry],
    geometry: &Geometry,
) -> Result<(), ErrorKind> {
    let PackedBlock { entry, bytes } = packed;
    let room = PackedBlock::room(lines_of(entries), geometry);
    let rule = "at least 1, and no more than one logical block has beside the entries";
    require((1..=room).contains(&usize::from(bytes)), "packed bytes", bytes.into(), rule)?;
    let of_user = |entry: &Entry| matches!(entry, Entry::Data { volume, .. } if volume.is_user());
    let packs = entries.get(usize::from(entry)).is_some_and(of_user);
    require(packs, "packed entry", entry.into(), "it must be about a block of a user")
}

/// An older generation is a remainder; a newer one cannot be where the reader knows the unit.
fn check_generation(expected: Option<Generation>, found: Generation) -> Result<(), ErrorKind> {
    let Some(expected) = expected else { return Ok(()) };
    if found < expected {
        return Err(ErrorKind::Stale { expected, found });
    }
    require(found == expected, "generation", found.0, "beyond that of the unit")
}

/// Bounds every length of a prefix, so that readers may compute with them.
fn check_lengths(prefix: &ChunkPrefix, geometry: &Geometry) -> Result<(), ErrorKind> {
    let lines = prefix.lines;
    require(lines as usize <= MAX_LINES, "lines", lines.into(), "at most 255")?;
    let header_blocks = geometry.logical_block().chunk_header(lines as usize);
    let header_bytes = header_blocks as usize * geometry.logical_block().bytes();
    let found = prefix.header_bytes;
    require(
        found as usize == header_bytes,
        "header length",
        found.into(),
        "not that of its lines",
    )?;
    let rule = "fewer than its header has";
    require(prefix.blocks >= header_blocks, "blocks of a chunk", prefix.blocks.into(), rule)?;
    check_shape(&prefix.origin, prefix.blocks, geometry)
}

/// Checks that do not depend on the entries of a chunk.
fn check_shape(origin: &ChunkOrigin, blocks: u32, geometry: &Geometry) -> Result<(), ErrorKind> {
    let unit = u64::from(origin.location.unit.0);
    let own = !geometry.is_superblock_unit(origin.location.unit);
    require(own, "unit", unit, "superblock units hold no chunks")?;
    let most = geometry.logical_block().max_chunk();
    require(blocks <= most, "blocks of a chunk", blocks.into(), "a chunk has at most 1 MiB")?;
    let inside = geometry.contains(origin.location, blocks);
    require(inside, "blocks of a chunk", blocks.into(), "it must end within its unit")?;
    // The last number of each kind is never used, so that readers may add one without overflow.
    let numbers = [
        ("epoch", u64::from(origin.epoch.0), u64::from(u32::MAX)),
        ("sequence", origin.sequence.0, u64::MAX),
        ("generation", origin.generation.0, u64::MAX),
        ("revision", origin.revision.0, u64::MAX),
    ];
    for (field, found, last) in numbers {
        require(found < last, field, found, "the last number is never given")?;
    }
    let durable = origin.durable.0;
    let rule = "it must be below the chunk's own sequence";
    require(durable < origin.sequence.0, "durable sequence", durable, rule)
}

/// Logical blocks of header and blocks of data, where so many entries take so many lines: an entry with a block takes
/// one line, every other entry two.
fn least_blocks(
    entries: usize,
    lines: usize,
    packed: Option<PackedBlock>,
    geometry: &Geometry,
) -> u32 {
    let data = (2 * entries - lines) as u32;
    let behind = data.saturating_sub(u32::from(packed.is_some()));
    let block = geometry.logical_block();
    block.chunk_header(lines) + behind * block.per_block()
}

fn lines_of(entries: &[Entry]) -> usize {
    entries.iter().map(Entry::lines).sum()
}

/// Decodes `lines`, which must hold whole entries.
fn decode_entries(mut lines: &[u8], geometry: &Geometry) -> Result<Vec<Entry>, ErrorKind> {
    let mut entries = Vec::with_capacity(lines.len() / LINE_BYTES);
    while !lines.is_empty() {
        let entry = Entry::decode(lines, geometry)?;
        lines = &lines[entry.lines() * LINE_BYTES..];
        entries.push(entry);
    }
    // An opening keeps headers by their entries.
    entries.shrink_to_fit();
    Ok(entries)
}

fn decode_header(
    bytes: &[u8],
    expected: &Expected,
    geometry: &Geometry,
) -> Result<ChunkHeader, ErrorKind> {
    let prefix = decode_prefix(bytes, expected, geometry)?;
    let needed = prefix.header_bytes as usize;
    let Some(header) = bytes.get(..needed) else {
        return Err(ErrorKind::Truncated { needed, found: bytes.len() });
    };
    let rest = &header[CHUNK_PREFIX_BYTES..];
    check_crc("entries", prefix.rest_crc, crc32c(rest))?;
    let (lines, behind) = rest.split_at(prefix.lines as usize * LINE_BYTES);
    let packed_bytes = prefix.packed.map_or(0, |packed| usize::from(packed.bytes));
    let Some((_, padding)) = behind.split_at_checked(packed_bytes) else {
        let rule = "more than the header has room for";
        let found = packed_bytes as u64;
        return Err(ErrorKind::Impossible { field: "packed bytes", found, rule });
    };
    require(is_zero(padding), "padding of the header", 1, "it must be zero")?;
    let entries = decode_entries(lines, geometry)?;
    let ChunkPrefix { origin, blocks, packed, .. } = prefix;
    let header = ChunkHeader { origin, blocks, entries, packed };
    header.check(geometry)?;
    let (raw, _) = ChunkPrefixRaw::ref_from_prefix(bytes).expect("it was read before");
    let version = raw.version.get();
    let holds = version == header.version();
    require(holds, "version of a chunk", version.into(), "not that of its entries")?;
    Ok(header)
}
