//! ZNS drives: zones with states, limits and errors as in the NVM Express Zoned Namespace Command Set 1.1.

use thermocline_ftl::{Erased, Media as _};
use thermocline_types::{Bytes, Cause, Op, Request, Time, UnitId};

use crate::counters::Counters;
use crate::error::{DriveError, ZoneError};
use crate::media::NandArray;
use crate::profile::{Cut, Profile};

/// State of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneState {
    /// Nothing written.
    Empty,
    /// Opened by a write; the drive may close it when another zone needs the place.
    ImplicitlyOpen,
    /// Opened by command.
    ExplicitlyOpen,
    /// Partly written and not open; active all the same.
    Closed,
    /// Written to capacity, or finished.
    Full,
    /// Readable for good, writable no more.
    ReadOnly,
    /// Neither readable nor writable.
    Offline,
}

impl ZoneState {
    fn is_open(self) -> bool {
        matches!(self, ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen)
    }

    fn is_active(self) -> bool {
        self.is_open() || self == ZoneState::Closed
    }
}

/// A zone as reported to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// First byte.
    pub start: Bytes,
    /// Writable bytes.
    pub capacity: Bytes,
    /// Next byte to write, from the start of the device; meaningless when full, read-only or offline.
    pub write_pointer: Bytes,
    /// State.
    pub state: ZoneState,
    /// Resets so far.
    pub resets: u32,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    state: ZoneState,
    written: u32,
    resets: u32,
}

/// A drive of zones.
#[derive(Clone, Debug)]
pub struct Zoned {
    cut: Cut,
    zone_size: Bytes,
    max_open: u32,
    max_active: u32,
    zones: Vec<Cell>,
    /// Active zones, and the open zones among them.
    active: u32,
    open: u32,
    /// Implicitly open zones, longest open first: the drive closes the first when it needs the place.
    implicit: Vec<u32>,
    media: NandArray,
    counters: Counters,
    padded: u64,
}

impl Zoned {
    /// A fresh drive, all zones empty. The gap between zone capacity and zone size is scaled with the capacity.
    #[must_use]
    pub fn new(profile: &Profile, cut: Cut, seed: u64) -> Self {
        let zns = profile.zns.as_ref().expect("checked with the profile");
        let ratio = zns.zone_size.as_f64() / zns.zone_capacity.as_f64();
        let blocks = (f64::from(cut.shape.blocks_per_unit()) * ratio).round() as u64;
        let blocks = blocks.max(u64::from(cut.shape.blocks_per_unit()));
        let empty = Cell { state: ZoneState::Empty, written: 0, resets: 0 };
        Zoned {
            zone_size: Bytes(blocks * cut.mapping_unit.0),
            max_open: if zns.max_open == 0 { u32::MAX } else { zns.max_open },
            max_active: if zns.max_active == 0 { u32::MAX } else { zns.max_active },
            zones: vec![empty; cut.shape.units() as usize],
            active: 0,
            open: 0,
            implicit: Vec::new(),
            media: NandArray::new(profile, &cut, seed),
            counters: Counters::default(),
            padded: 0,
            cut,
        }
    }

    /// How the drive is cut; a unit is a zone's capacity.
    #[must_use]
    pub fn cut(&self) -> &Cut {
        &self.cut
    }

    /// The media.
    #[must_use]
    pub fn media(&self) -> &NandArray {
        &self.media
    }

    /// The media, to say whose the data is.
    pub(crate) fn media_mut(&mut self) -> &mut NandArray {
        &mut self.media
    }

    /// Number of zones.
    #[must_use]
    pub fn zones(&self) -> u32 {
        self.zones.len() as u32
    }

    /// Distance between the starts of neighbouring zones.
    #[must_use]
    pub fn zone_size(&self) -> Bytes {
        self.zone_size
    }

    /// Reports zone `zone`.
    ///
    /// # Panics
    /// If `zone` does not exist.
    #[must_use]
    pub fn zone(&self, zone: u32) -> Zone {
        let cell = self.zones[zone as usize];
        let start = u64::from(zone) * self.zone_size.0;
        Zone {
            start: Bytes(start),
            capacity: self.cut.unit(),
            write_pointer: Bytes(start + u64::from(cell.written) * self.cut.mapping_unit.0),
            state: cell.state,
            resets: cell.resets,
        }
    }

    /// Bytes through the drive so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = self.counters;
        counters.media[Cause::Padding.index()] = self.padded * self.cut.mapping_unit.0;
        counters.media_total += self.padded * self.cut.mapping_unit.0;
        counters
    }

    /// Zones that can be opened now.
    #[must_use]
    pub fn empty_zones(&self) -> u64 {
        self.zones.iter().filter(|cell| cell.state == ZoneState::Empty).count() as u64
    }

    /// Writes `length` bytes at `offset`, which must be the write pointer of its zone; returns when it is complete.
    ///
    /// # Errors
    /// [`DriveError::Zone`] as the specification says; nothing is written.
    pub fn write(&mut self, at: Time, offset: Bytes, length: Bytes) -> Result<Time, DriveError> {
        let zone = self.zone_of(offset, length)?;
        let blocks = self.blocks(zone, offset, length)?;
        let cell = self.zones[zone as usize];
        let refused = self.check_writable(cell, blocks);
        let pointer = u64::from(cell.written) * self.cut.mapping_unit.0;
        let misplaced = offset.0 - u64::from(zone) * self.zone_size.0 != pointer;
        match refused {
            Err(error) => return Err(fail(zone, error)),
            Ok(()) if misplaced => return Err(fail(zone, ZoneError::InvalidWrite)),
            Ok(()) => {}
        }
        self.accept(at, zone, blocks)
    }

    /// Appends `length` bytes to `zone`; returns where they were put and when the command is complete.
    ///
    /// # Errors
    /// [`DriveError::Zone`] as the specification says; nothing is written.
    pub fn append(
        &mut self,
        at: Time,
        zone: u32,
        length: Bytes,
    ) -> Result<(Bytes, Time), DriveError> {
        let start = Bytes(u64::from(zone) * self.zone_size.0);
        self.zone_of(start, Bytes::SECTOR)?;
        let blocks = self.blocks(zone, start, length)?;
        self.check_writable(self.zones[zone as usize], blocks).map_err(|e| fail(zone, e))?;
        let placed = self.zone(zone).write_pointer;
        Ok((placed, self.accept(at, zone, blocks)?))
    }

    /// Opens `zone` explicitly.
    ///
    /// # Errors
    /// [`DriveError::Zone`] when limits or state forbid it.
    pub fn open(&mut self, zone: u32) -> Result<(), DriveError> {
        match self.state(zone) {
            ZoneState::ExplicitlyOpen => Ok(()),
            ZoneState::Empty | ZoneState::Closed | ZoneState::ImplicitlyOpen => {
                self.take_place(zone)?;
                self.set_state(zone, ZoneState::ExplicitlyOpen);
                Ok(())
            }
            state => Err(fail(zone, refusal(state))),
        }
    }

    /// Closes the open `zone`; a zone without data becomes empty.
    ///
    /// # Errors
    /// [`DriveError::Zone`] when it is neither open nor closed.
    pub fn close(&mut self, zone: u32) -> Result<(), DriveError> {
        match self.state(zone) {
            ZoneState::Closed => Ok(()),
            state if state.is_open() => {
                let empty = self.zones[zone as usize].written == 0;
                self.set_state(zone, if empty { ZoneState::Empty } else { ZoneState::Closed });
                Ok(())
            }
            state => Err(fail(zone, refusal(state))),
        }
    }

    /// Makes `zone` full where it is; the page begun last is filled up on the media.
    ///
    /// # Errors
    /// [`DriveError::Zone`] when it is read-only or offline, or when an empty zone would exceed the active limit.
    pub fn finish(&mut self, zone: u32) -> Result<(), DriveError> {
        match self.state(zone) {
            ZoneState::Full => return Ok(()),
            ZoneState::Empty | ZoneState::Closed => self.take_place(zone)?,
            state if state.is_open() => {}
            state => return Err(fail(zone, refusal(state))),
        }
        let begun = self.zones[zone as usize].written % self.cut.blocks_per_page;
        if begun > 0 {
            let fill = self.cut.blocks_per_page - begun;
            self.padded += u64::from(fill);
            self.program(zone, fill, Cause::Padding);
        }
        self.set_state(zone, ZoneState::Full);
        Ok(())
    }

    /// Empties `zone`. A zone that wears out with this reset goes offline.
    ///
    /// # Errors
    /// [`DriveError::Zone`] when it is read-only or offline, or just wore out.
    pub fn reset(&mut self, at: Time, zone: u32) -> Result<Time, DriveError> {
        let state = self.state(zone);
        if matches!(state, ZoneState::ReadOnly | ZoneState::Offline) {
            return Err(fail(zone, refusal(state)));
        }
        self.media.arrive(at);
        self.media.handle();
        if self.zones[zone as usize].written > 0 {
            let cell = &mut self.zones[zone as usize];
            cell.written = 0;
            cell.resets += 1;
            let resets = cell.resets;
            self.counters.erased += self.cut.unit().0;
            if self.media.erase(UnitId(zone), resets) == Erased::WornOut {
                self.set_state(zone, ZoneState::Offline);
                return Err(fail(zone, ZoneError::Offline));
            }
        }
        self.set_state(zone, ZoneState::Empty);
        Ok(self.media.acknowledged())
    }

    /// Puts `zone` out of service for writing, or altogether, as a failing drive would.
    pub fn degrade(&mut self, zone: u32, state: ZoneState) {
        assert!(
            matches!(state, ZoneState::ReadOnly | ZoneState::Offline),
            "a zone degrades to read-only or offline"
        );
        self.set_state(zone, state);
    }

    /// Reads `length` bytes at `offset`; what was never written reads as zeroes without touching the media.
    ///
    /// # Errors
    /// [`DriveError`] for offline zones and addresses beyond the device.
    pub fn read(&mut self, at: Time, offset: Bytes, length: Bytes) -> Result<Time, DriveError> {
        let first = self.zone_of(offset, length)?;
        let last = ((offset + length).0.max(1) - 1) / self.zone_size.0;
        if let Some(zone) =
            (first..=last as u32).find(|&zone| self.state(zone) == ZoneState::Offline)
        {
            return Err(fail(zone, ZoneError::Offline));
        }
        self.media.arrive(at);
        self.counters.host_read += length.0;
        let unit = self.cut.mapping_unit.0;
        let (zones, shape, size) = (&self.zones, self.cut.shape, self.zone_size.0);
        let blocks = (offset.0 / unit..(offset + length).0.div_ceil(unit)).map(|block| {
            let (zone, within) = (block * unit / size, block * unit % size / unit);
            let written = u64::from(zones[zone as usize].written);
            (within < written).then(|| shape.pba(UnitId(zone as u32), within as u32))
        });
        Ok(self.media.read_for_host(at, offset, length, blocks))
    }

    /// Serves a block request as the `raw` stack does: the capacities of all zones lie end to end, a write to the first
    /// block of a zone that is not empty resets it first, and trims reset the zones they cover whole.
    ///
    /// # Errors
    /// [`DriveError`] as the zone commands give it; pieces of the request in earlier zones have been served.
    pub fn submit(&mut self, at: Time, request: &Request) -> Result<Time, DriveError> {
        let capacity = self.cut.capacity();
        if request.end() > capacity {
            return Err(DriveError::OutOfRange { end: request.end(), capacity });
        }
        if request.op == Op::Flush {
            return Ok(self.handle(at));
        }
        let unit = self.cut.unit().0;
        let (mut from, end) = (request.offset.0, request.end().0);
        let mut done = at;
        while from < end {
            let to = end.min((from / unit + 1) * unit);
            done = done.max(self.serve_piece(at, request.op, from, to)?);
            from = to;
        }
        Ok(done)
    }

    /// Serves the part of a block request from byte `from` to `to` of the zones laid end to end; it lies in one zone.
    fn serve_piece(&mut self, at: Time, op: Op, from: u64, to: u64) -> Result<Time, DriveError> {
        let unit = self.cut.unit().0;
        let zone = (from / unit) as u32;
        let offset = Bytes(u64::from(zone) * self.zone_size.0 + from % unit);
        let length = Bytes(to - from);
        match op {
            Op::Read => self.read(at, offset, length),
            Op::Write => {
                if from.is_multiple_of(unit) && self.state(zone) != ZoneState::Empty {
                    self.reset(at, zone)?;
                }
                self.write(at, offset, length)
            }
            Op::Trim | Op::WriteZeroes => {
                self.counters.host_trimmed += length.0;
                if length.0 == unit { self.reset(at, zone) } else { Ok(self.handle(at)) }
            }
            Op::Flush => Ok(self.handle(at)),
        }
    }

    /// Serves a command that changes nothing on the media.
    fn handle(&mut self, at: Time) -> Time {
        self.media.arrive(at);
        self.media.handle();
        self.media.acknowledged()
    }

    fn state(&self, zone: u32) -> ZoneState {
        self.zones[zone as usize].state
    }

    fn zone_of(&self, offset: Bytes, length: Bytes) -> Result<u32, DriveError> {
        let capacity = Bytes(self.zone_size.0 * u64::from(self.zones()));
        let end = Bytes(offset.0.saturating_add(length.0));
        if end > capacity {
            return Err(DriveError::OutOfRange { end, capacity });
        }
        Ok((offset.0 / self.zone_size.0) as u32)
    }

    fn blocks(&self, zone: u32, offset: Bytes, length: Bytes) -> Result<u32, DriveError> {
        let unit = self.cut.mapping_unit.0;
        if !offset.0.is_multiple_of(unit) || !length.0.is_multiple_of(unit) {
            return Err(DriveError::Misaligned { offset, length, unit: self.cut.mapping_unit });
        }
        u32::try_from(length.0 / unit).map_err(|_| fail(zone, ZoneError::Boundary))
    }

    fn check_writable(&self, cell: Cell, blocks: u32) -> Result<(), ZoneError> {
        if matches!(cell.state, ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline) {
            return Err(refusal(cell.state));
        }
        let room = self.cut.shape.blocks_per_unit() - cell.written;
        if blocks > room { Err(ZoneError::Boundary) } else { Ok(()) }
    }

    /// Writes `blocks` blocks at the write pointer of a zone that was found writable.
    fn accept(&mut self, at: Time, zone: u32, blocks: u32) -> Result<Time, DriveError> {
        if !self.state(zone).is_open() {
            self.take_place(zone)?;
            self.set_state(zone, ZoneState::ImplicitlyOpen);
        }
        let length = Bytes(u64::from(blocks) * self.cut.mapping_unit.0);
        self.media.arrive(at);
        self.media.receive(length);
        self.counters.host_written += length.0;
        self.counters.media[Cause::Host.index()] += length.0;
        self.counters.media_total += length.0;
        self.media.written(length.0);
        self.program(zone, blocks, Cause::Host);
        if self.zones[zone as usize].written == self.cut.shape.blocks_per_unit() {
            self.set_state(zone, ZoneState::Full);
        }
        Ok(self.media.acknowledged())
    }

    fn program(&mut self, zone: u32, blocks: u32, cause: Cause) {
        let cell = &mut self.zones[zone as usize];
        for _ in 0..blocks {
            self.media.program(self.cut.shape.pba(UnitId(zone), cell.written), None, cause);
            cell.written += 1;
        }
    }

    /// Checks that one more zone can be open (and active, if `zone` is not yet), closing an implicitly open one if that
    /// makes the place.
    fn take_place(&mut self, zone: u32) -> Result<(), DriveError> {
        let state = self.state(zone);
        if !state.is_active() && self.active >= self.max_active {
            return Err(fail(zone, ZoneError::TooManyActive));
        }
        if !state.is_open() && self.open >= self.max_open {
            let Some(&oldest) = self.implicit.first() else {
                return Err(fail(zone, ZoneError::TooManyOpen));
            };
            self.set_state(oldest, ZoneState::Closed);
        }
        Ok(())
    }

    fn set_state(&mut self, zone: u32, state: ZoneState) {
        self.implicit.retain(|&open| open != zone);
        if state == ZoneState::ImplicitlyOpen {
            self.implicit.push(zone);
        }
        let old = std::mem::replace(&mut self.zones[zone as usize].state, state);
        self.active = self.active + u32::from(state.is_active()) - u32::from(old.is_active());
        self.open = self.open + u32::from(state.is_open()) - u32::from(old.is_open());
    }
}

fn fail(zone: u32, error: ZoneError) -> DriveError {
    DriveError::Zone { zone, error }
}

fn refusal(state: ZoneState) -> ZoneError {
    match state {
        ZoneState::Full => ZoneError::Full,
        ZoneState::ReadOnly => ZoneError::ReadOnly,
        ZoneState::Offline => ZoneError::Offline,
        _ => ZoneError::InvalidTransition,
    }
}

#[cfg(test)]
mod tests;
