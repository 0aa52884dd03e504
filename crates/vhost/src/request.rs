//! Descriptor chains and the requests in them (virtio 1.2, 2.7.5 and 5.2.6).

use virtio_queue::desc::split::Descriptor;
use vm_memory::{Address, Bytes, GuestAddress, GuestMemoryMmap};

use crate::config::{RANGES_MAX, REQUEST_BYTES_MAX, SECTOR};

/// Descriptors of a chain at most. A request of the most segments has 128.
const DESCRIPTORS_MAX: usize = 1024;
/// Bytes of a descriptor.
const DESCRIPTOR: u32 = 16;
/// Bytes of the header of a request: type, reserved, first sector.
const HEADER: usize = 16;

/// A piece of guest memory, as a descriptor told it.
type Segment = (GuestAddress, u32);

/// The memory of a request: bytes that the device reads, then bytes that the device writes.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    readable: Vec<Segment>,
    writable: Vec<Segment>,
}

/// Where descriptors are.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    pub(crate) at: GuestAddress,
    pub(crate) entries: u16,
}

impl Chain {
    /// The chain that begins at `head`. `None` if a descriptor is invalid or unreadable, or there are too many.
    pub(crate) fn read(memory: &GuestMemoryMmap, table: Table, head: u16) -> Option<Chain> {
        let (Table { mut at, entries }, mut next) = (table, head);
        let (mut entries, mut indirect) = (u32::from(entries), false);
        let mut chain = Chain::default();
        for _ in 0..=DESCRIPTORS_MAX {
            if u32::from(next) >= entries {
                return None;
            }
            let place = at.checked_add(u64::from(next) * u64::from(DESCRIPTOR))?;
            let descriptor: Descriptor = memory.read_obj(place).ok()?;
            if descriptor.refers_to_indirect_table() {
                if indirect || descriptor.has_next() || !descriptor.len().is_multiple_of(DESCRIPTOR)
                {
                    return None;
                }
                (at, entries) = (descriptor.addr(), descriptor.len() / DESCRIPTOR);
                (next, indirect) = (0, true);
                continue;
            }
            let segment = (descriptor.addr(), descriptor.len());
            match descriptor.is_write_only() {
                true => chain.writable.push(segment),
                false if chain.writable.is_empty() => chain.readable.push(segment),
                false => return None,
            }
            if !descriptor.has_next() {
                return Some(chain);
            }
            next = descriptor.next();
        }
        None
    }

    /// Bytes that the device writes, without the status.
    pub(crate) fn room(&self) -> u64 {
        length(&self.writable).saturating_sub(1)
    }

    /// Bytes that the device reads, without the header.
    fn body(&self) -> u64 {
        length(&self.readable).saturating_sub(HEADER as u64)
    }

    /// Fills `data` with the body of the request. `None` if an address is outside guest memory.
    pub(crate) fn copy_body(&self, memory: &GuestMemoryMmap, data: &mut [u8]) -> Option<()> {
        let pieces = pieces(&self.readable, HEADER as u64, data.len());
        let mut from = 0;
        for (at, length) in pieces {
            memory.read_slice(&mut data[from..from + length], at).ok()?;
            from += length;
        }
        (from == data.len()).then_some(())
    }

    /// Writes data for the guest. `None` if an address is outside guest memory.
    pub(crate) fn answer(&self, memory: &GuestMemoryMmap, data: &[u8]) -> Option<()> {
        let mut from = 0;
        for (at, length) in pieces(&self.writable, 0, data.len()) {
            memory.write_slice(&data[from..from + length], at).ok()?;
            from += length;
        }
        (from == data.len()).then_some(())
    }

    /// Writes the status, the last byte. `None` if an address is outside guest memory.
    pub(crate) fn set_status(&self, memory: &GuestMemoryMmap, status: Status) -> Option<()> {
        let &(at, length) = self.writable.iter().rev().find(|segment| segment.1 > 0)?;
        let last = at.checked_add(u64::from(length) - 1)?;
        memory.write_obj(status as u8, last).ok()
    }
}

fn length(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| u64::from(segment.1)).sum()
}

/// The pieces of `segments` that have `count` bytes from byte `skip` on.
fn pieces(
    segments: &[Segment],
    mut skip: u64,
    mut count: usize,
) -> impl Iterator<Item = (GuestAddress, usize)> {
    segments.iter().filter_map(move |&(at, length)| {
        let skipped = skip.min(u64::from(length));
        skip -= skipped;
        let length = count.min((u64::from(length) - skipped) as usize);
        count -= length;
        (length > 0).then(|| Some((at.checked_add(skipped)?, length))).flatten()
    })
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ok = 0,
    Error = 1,
    Unsupported = 2,
}

/// A range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// What a guest asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Read(Place),
    Write(Place),
    Flush,
    Trim(Vec<Place>),
    /// Each with whether its space may be freed.
    Zero(Vec<(Place, bool)>),
    Name,
    Lifetime,
}

impl Ask {
    /// The request of a chain.
    ///
    /// # Errors
    /// The status to answer at once.
    pub(crate) fn read(memory: &GuestMemoryMmap, chain: &Chain) -> Result<Ask, Status> {
        let (kind, sector) = header(memory, chain).ok_or(Status::Error)?;
        match kind {
            0 => place(sector, chain.room()).map(Ask::Read),
            1 => place(sector, chain.body()).map(Ask::Write),
            4 => Ok(Ask::Flush),
            8 => Ok(Ask::Name),
            10 => Ok(Ask::Lifetime),
            11 => {
                let ranges = ranges(memory, chain)?;
                // Discards have no flags.
                let places = ranges.iter().map(|&(place, flags)| (flags == 0).then_some(place));
                places.collect::<Option<_>>().map(Ask::Trim).ok_or(Status::Unsupported)
            }
            13 => {
                let ranges = ranges(memory, chain)?;
                let places = ranges.iter().map(|&(place, flags)| Some((place, flag(flags)?)));
                places.collect::<Option<_>>().map(Ask::Zero).ok_or(Status::Unsupported)
            }
            _ => Err(Status::Unsupported),
        }
    }

    /// Bytes of memory that the request takes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Ask::Read(place) | Ask::Write(place) => place.length as usize,
            _ => 0,
        }
    }
}

/// Whether space may be freed; `None` of unknown flags.
fn flag(flags: u32) -> Option<bool> {
    (flags <= 1).then_some(flags == 1)
}

/// Type and first sector.
fn header(memory: &GuestMemoryMmap, chain: &Chain) -> Option<(u32, u64)> {
    let mut bytes = [0; HEADER];
    let mut from = 0;
    for (at, length) in pieces(&chain.readable, 0, HEADER) {
        memory.read_slice(&mut bytes[from..from + length], at).ok()?;
        from += length;
    }
    let [a, b, c, d, _, _, _, _, sector @ ..] = bytes;
    (from == HEADER).then(|| (u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(sector)))
}

fn place(sector: u64, length: u64) -> Result<Place, Status> {
    let offset = sector.checked_mul(SECTOR).ok_or(Status::Error)?;
    let fits = length <= u64::from(REQUEST_BYTES_MAX);
    fits.then_some(Place { offset, length }).ok_or(Status::Error)
}

/// Ranges of a discard or of zeroing, with their flags.
fn ranges(memory: &GuestMemoryMmap, chain: &Chain) -> Result<Vec<(Place, u32)>, Status> {
    const RANGE: usize = 16;
    let length = usize::try_from(chain.body()).map_err(|_| Status::Error)?;
    if length == 0 || !length.is_multiple_of(RANGE) || length > RANGES_MAX * RANGE {
        return Err(Status::Error);
    }
    let mut bytes = [0; RANGES_MAX * RANGE];
    let bytes = &mut bytes[..length];
    chain.copy_body(memory, bytes).ok_or(Status::Error)?;
    let (ranges, _) = bytes.as_chunks::<RANGE>();
    let range = |&[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]: &[u8; RANGE]| {
        let sector = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let [count, flags] = [[i, j, k, l], [m, n, o, p]].map(u32::from_le_bytes);
        let offset = sector.checked_mul(SECTOR).ok_or(Status::Error)?;
        Ok((Place { offset, length: u64::from(count) * SECTOR }, flags))
    };
    ranges.iter().map(range).collect()
}
