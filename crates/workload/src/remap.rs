//! Fitting the addresses of a workload into a simulated device.
//!
//! Traces come from devices far larger than what is worth simulating, and several volumes share one trace. An
//! [`AddressMap`] puts both right in one of three ways, see [`Remap`].
//!
//! Invariants of the dense map:
//! * Two bytes map to the same place only if they are the same byte of the same tenant (reads outside the working set
//!   excepted).
//! * Offsets within a granule are kept.
//! * The mapped addresses of writes are exactly `0..granules × granule size`, in order of first touch.

mod first_touch;

use std::fmt;
use std::str::FromStr;

use thermocline_types::{Bytes, Op, Request, Time};

use crate::granule::{Full, GranuleMap, mix};
use crate::{BATCH, Source, trace};

use first_touch::{FirstTouch, Seen};

/// How addresses are fitted into the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Remap {
    /// Granules are numbered in order of first write, volumes apart: the device is as large as the working set.
    #[default]
    Dense,
    /// Addresses are taken modulo the capacity. Volumes overlap.
    Fold,
    /// Addresses stay as they are and must lie within the capacity. Volumes overlap.
    None,
}

impl fmt::Display for Remap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Remap::Dense => "dense",
            Remap::Fold => "fold",
            Remap::None => "none",
        })
    }
}

impl FromStr for Remap {
    type Err = MapError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = [Remap::Dense, Remap::Fold, Remap::None].into_iter();
        let mut found = found.filter(|remap| remap.to_string() == name);
        found.next().ok_or_else(|| MapError::UnknownRemap { name: name.to_owned() })
    }
}

/// Why addresses cannot be mapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The workload itself cannot be read.
    #[error(transparent)]
    Trace(#[from] trace::Error),
    /// The name of a [`Remap`] that does not exist.
    #[error("`{name}` is not a way to remap addresses; known are dense, fold, none")]
    UnknownRemap {
        /// What was written.
        name: String,
    },
    /// The granule is not a power of two of at least 4 KiB.
    #[error("a granule must be a power of two of at least 4 KiB, not {granule}")]
    Granule {
        /// What was asked for.
        granule: Bytes,
    },
    /// The capacity is not a positive multiple of 4 KiB.
    #[error("the capacity must be a positive multiple of 4 KiB, not {capacity}")]
    Capacity {
        /// What was asked for.
        capacity: Bytes,
    },
    /// An address lies beyond the device and may not be changed.
    #[error(
        "the workload reaches up to {} bytes ({end}), the device ends at {} ({capacity}): give it more \
         capacity, or remap addresses (dense or fold)",
        end.get(),
        capacity.get()
    )]
    BeyondCapacity {
        /// One past the last byte addressed.
        end: Bytes,
        /// Size of the device.
        capacity: Bytes,
    },
    /// More than 2^32 granules are written.
    #[error("the workload writes more than 2^32 granules of {granule}: choose larger ones")]
    TooManyGranules {
        /// Size of a granule.
        granule: Bytes,
    },
}

/// What a workload touches, found by [`AddressMap::scan`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkingSet {
    /// Size of the mapped address space that is written: whole granules for the dense map, whole 4 KiB blocks
    /// otherwise.
    pub size: Bytes,
    /// How many different 4 KiB blocks are written, wholly or in part.
    pub distinct_blocks: u64,
    /// The most of them that held data at once: that were written, and not trimmed or zeroed since.
    pub most_live_blocks: u64,
    /// Bytes written.
    pub bytes_written: Bytes,
    /// One past the last byte any request addresses, before mapping.
    pub span: Bytes,
    /// How many requests there are.
    pub requests: u64,
    /// How many of them are flushes.
    pub flushes: u64,
    /// From the first request to the last.
    pub duration: Time,
}

/// Maps the requests of a workload into a device.
#[derive(Debug)]
pub struct AddressMap {
    mode: Mode,
    first_touch: FirstTouch,
    reads_outside: u64,
    trims_dropped: u64,
}

#[derive(Debug)]
enum Mode {
    Dense { granule: u64, slots: GranuleMap },
    Fold { capacity: u64 },
    None { capacity: u64 },
}

const BLOCK: u64 = Bytes::BLOCK.get();

impl AddressMap {
    /// A dense map with granules of `granule` bytes; each new granule written extends the map.
    ///
    /// # Errors
    /// If `granule` is not a power of two of at least 4 KiB.
    pub fn dense(granule: Bytes) -> Result<Self, MapError> {
        if granule < Bytes::BLOCK || !granule.get().is_power_of_two() {
            return Err(MapError::Granule { granule });
        }
        Ok(Self::new(Mode::Dense { granule: granule.get(), slots: GranuleMap::default() }))
    }

    /// A map that takes addresses modulo `capacity`.
    ///
    /// # Errors
    /// If `capacity` is not a positive multiple of 4 KiB.
    pub fn fold(capacity: Bytes) -> Result<Self, MapError> {
        if capacity == Bytes::ZERO || !capacity.get().is_multiple_of(BLOCK) {
            return Err(MapError::Capacity { capacity });
        }
        Ok(Self::new(Mode::Fold { capacity: capacity.get() }))
    }

    /// A map that keeps all addresses and rejects requests beyond `capacity`.
    #[must_use]
    pub fn none(capacity: Bytes) -> Self {
        Self::new(Mode::None { capacity: capacity.get() })
    }

    fn new(mode: Mode) -> Self {
        AddressMap { mode, first_touch: FirstTouch::default(), reads_outside: 0, trims_dropped: 0 }
    }

    /// How many reads addressed granules that are never written. They are spread over the working set, keeping runs
    /// of neighbours together, so that they still cost the device a read; without a working set they are dropped.
    #[must_use]
    pub fn reads_outside(&self) -> u64 {
        self.reads_outside
    }

    /// How many trims and write-zeroes addressed nothing that is ever written, and were dropped.
    #[must_use]
    pub fn trims_dropped(&self) -> u64 {
        self.trims_dropped
    }

    /// Reads a whole workload and returns the working set of its writes. Afterwards the map gives every request of the
    /// same workload its final place, and [`AddressMap::prefill`] its working set.
    ///
    /// # Errors
    /// Those of the source; [`MapError::BeyondCapacity`] with the furthest address if it may not be changed;
    /// [`MapError::TooManyGranules`].
    pub fn scan(&mut self, source: &mut dyn Source) -> Result<WorkingSet, MapError> {
        let mut set = WorkingSet::default();
        let mut seen = match &self.mode {
            Mode::Dense { granule: BLOCK, .. } => Seen::Numbered,
            _ => Seen::Any(GranuleMap::default()),
        };
        let (mut batch, mut mapped) = (Vec::with_capacity(BATCH), Vec::new());
        // The furthest address is wanted, not the first that is too far.
        let limit = self.lift_limit();
        loop {
            source.fill(&mut batch)?;
            if batch.is_empty() {
                break;
            }
            for request in &batch {
                set.count(request);
                mapped.clear();
                match request.op {
                    // Only writes shape the working set.
                    Op::Write => {
                        self.map(request, &mut mapped)?;
                        mapped.iter().try_for_each(|w| self.first_touch.touch(w, &mut seen))?;
                    }
                    Op::Trim | Op::WriteZeroes => {
                        self.map(request, &mut mapped)?;
                        mapped.iter().for_each(|trim| self.first_touch.trim(trim, &seen));
                    }
                    Op::Read | Op::Flush => {}
                }
            }
        }
        if let (Mode::None { capacity }, Some(limit)) = (&mut self.mode, limit) {
            *capacity = limit;
            if set.span.get() > limit {
                return Err(MapError::BeyondCapacity { end: set.span, capacity: Bytes(limit) });
            }
        }
        set.distinct_blocks = self.first_touch.blocks();
        set.most_live_blocks = self.first_touch.most_live();
        self.trims_dropped = 0; // Those of the replay count.
        set.size = match &self.mode {
            Mode::Dense { granule, slots } => Bytes(granule * u64::from(slots.len())),
            _ => Bytes(BLOCK * set.distinct_blocks),
        };
        Ok(set)
    }

    fn lift_limit(&mut self) -> Option<u64> {
        match &mut self.mode {
            Mode::None { capacity } => Some(std::mem::replace(capacity, u64::MAX)),
            _ => None,
        }
    }

    /// Writes that put the scanned working set in place, in whole 4 KiB blocks, in order of first touch, each block
    /// once. With a dense map of 4 KiB granules these are exactly the addresses from 0 up.
    pub fn prefill(&self) -> impl Iterator<Item = Request> + '_ {
        self.first_touch.writes()
    }

    /// Appends to `out` what becomes of `request`: nothing, itself at another place, or the pieces it falls into.
    ///
    /// # Errors
    /// [`MapError::BeyondCapacity`] if addresses may not be changed; [`MapError::TooManyGranules`].
    pub fn map(&mut self, request: &Request, out: &mut Vec<Request>) -> Result<(), MapError> {
        if request.op == Op::Flush {
            out.push(*request);
            return Ok(());
        }
        let mut pieces = Pieces { request, first: out.len(), out };
        match &mut self.mode {
            Mode::None { capacity } => {
                let end = request.end();
                if end.get() > *capacity {
                    return Err(MapError::BeyondCapacity { end, capacity: Bytes(*capacity) });
                }
                pieces.push(request.offset.get(), request.length.get());
            }
            Mode::Fold { capacity } => fold(*capacity, &mut pieces),
            Mode::Dense { granule, slots } => match request.op {
                Op::Write => write(*granule, slots, &mut pieces)?,
                Op::Read => self.reads_outside += u64::from(read(*granule, slots, &mut pieces)),
                Op::Trim | Op::WriteZeroes | Op::Flush => {
                    trim(*granule, slots, &mut pieces);
                    self.trims_dropped += u64::from(pieces.is_empty());
                }
            },
        }
        Ok(())
    }
}

impl WorkingSet {
    fn count(&mut self, request: &Request) {
        self.requests += 1;
        self.duration = request.at;
        self.span = self.span.max(request.end());
        self.flushes += u64::from(request.op == Op::Flush);
        if request.op == Op::Write {
            self.bytes_written += request.length;
        }
    }
}

fn fold(capacity: u64, pieces: &mut Pieces<'_>) {
    let mut start = pieces.request.offset.get() % capacity;
    // A request longer than the device covers it once.
    let mut left = pieces.request.length.get().min(capacity);
    while left > 0 {
        let length = left.min(capacity - start);
        pieces.push(start, length);
        left -= length;
        start = 0;
    }
}

fn write(granule: u64, slots: &mut GranuleMap, pieces: &mut Pieces<'_>) -> Result<(), MapError> {
    let tenant = pieces.request.tenant;
    for index in pieces.granules(granule) {
        let full = |Full| MapError::TooManyGranules { granule: Bytes(granule) };
        let (slot, _) = slots.insert(tenant, index).map_err(full)?;
        pieces.push_within(granule, index, u64::from(slot));
    }
    Ok(())
}

/// Returns whether any granule is outside the working set.
fn read(granule: u64, slots: &GranuleMap, pieces: &mut Pieces<'_>) -> bool {
    /// Granules outside that stay neighbours.
    const TOGETHER: u64 = 64;
    let (tenant, count) = (pieces.request.tenant, u64::from(slots.len()));
    let mut outside = false;
    for index in pieces.granules(granule) {
        let slot = slots.get(tenant, index).map(u64::from);
        outside |= slot.is_none();
        if count > 0 {
            let seed = mix((u64::from(tenant.0) << 32) ^ (index / TOGETHER));
            let elsewhere = (seed % count + index % TOGETHER) % count;
            pieces.push_within(granule, index, slot.unwrap_or(elsewhere));
        }
    }
    outside
}

fn trim(granule: u64, slots: &GranuleMap, pieces: &mut Pieces<'_>) {
    let tenant = pieces.request.tenant;
    let range = pieces.granules(granule);
    for index in slots.present(tenant, *range.start(), *range.end()) {
        if let Some(slot) = slots.get(tenant, index) {
            pieces.push_within(granule, index, u64::from(slot));
        }
    }
}

/// The parts of one request, neighbours joined.
struct Pieces<'a> {
    request: &'a Request,
    out: &'a mut Vec<Request>,
    first: usize,
}

impl Pieces<'_> {
    fn is_empty(&self) -> bool {
        self.out.len() == self.first
    }

    /// The granules the request touches.
    fn granules(&self, granule: u64) -> std::ops::RangeInclusive<u64> {
        let last = self.request.end().get().max(1) - 1;
        self.request.offset.get() / granule..=last / granule
    }

    /// Adds the part of the request that lies in granule `index`, moved to `slot`.
    fn push_within(&mut self, granule: u64, index: u64, slot: u64) {
        let start = self.request.offset.get().max(index * granule);
        let end = self.request.end().get().min((index + 1) * granule);
        self.push(slot * granule + start % granule, end - start);
    }

    fn push(&mut self, offset: u64, length: u64) {
        if self.out.len() > self.first
            && let Some(last) = self.out.last_mut()
            && last.end().get() == offset
        {
            last.length += Bytes(length);
            return;
        }
        self.out.push(Request { offset: Bytes(offset), length: Bytes(length), ..*self.request });
    }
}

#[cfg(test)]
mod tests;
