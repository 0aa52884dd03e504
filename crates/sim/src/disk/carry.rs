//! The immediate effect of a command on media, and the data that a read returns.

use thermocline_engine::wire::{Encoding as _, IoCmd};
use thermocline_engine::{Body, Chunk, DeviceError, UnitCondition, UnitReport};
use thermocline_format::Location;
use thermocline_types::{DeviceId, UnitId};

use super::image::{Effect, Fate, Image, Rest, Tear};
use super::unreliable::Instead;
use super::{Bytes, CrashState, Disk, Place, Struck, Work};
use crate::data::{Data, SECTOR_BYTES, Sector};
use crate::faults::{CommandKind, Fault};

impl Disk {
    /// The sectors of `blocks` logical blocks from `at` on.
    #[must_use]
    pub fn place(&self, at: Location, blocks: u32) -> Place {
        let sectors = self.cache.media().sectors_per_logical();
        Place { unit: at.unit, sectors: at.block * sectors..(at.block + blocks) * sectors }
    }

    /// The sectors that are read into `into` from `at` on.
    pub(super) fn place_of(&self, at: Location, into: &Data) -> Place {
        let from = at.block * self.cache.media().sectors_per_logical();
        Place { unit: at.unit, sectors: from..from + into.sectors().len() as u32 }
    }

    /// Carries out the immediate effect of a command; returns the remaining work. `chunk` is the written chunk, if any.
    pub(super) fn begin(
        &mut self,
        cmd: IoCmd<Bytes>,
        chunk: Option<&Chunk<Data>>,
        kind: CommandKind,
        fault: Option<Fault>,
    ) -> Work {
        match cmd {
            IoCmd::Write { at, parts, .. } => {
                let sectors = parts.iter().flat_map(Data::sectors).collect();
                if let Some(chunk) = chunk
                    && let Some(fault) = fault
                    && spoils(fault)
                {
                    self.atlas.spoil_entries(&chunk.header.entries);
                }
                self.begin_write(at, sectors, chunk, kind, fault)
            }
            IoCmd::Reset(unit) => self.begin_whole(unit, Effect::Reset, kind, fault),
            IoCmd::Zero(unit) => {
                let zeros = vec![Sector::ZEROS; self.cache.media().sectors_per_unit() as usize];
                self.begin_write(Location { unit, block: 0 }, zeros, None, kind, fault)
            }
            IoCmd::Finish(unit) => self.begin_whole(unit, Effect::Finish, kind, fault),
            IoCmd::Flush(device) if self.lies(device) => Work::Nothing,
            IoCmd::Flush(device) => match fault {
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
            // The disk has no second copy.
            IoCmd::Heal(_) | IoCmd::Distrust { .. } => Work::Nothing,
            IoCmd::Read { at, into, .. } => match fault {
                Some(fault @ Fault::Fail(error)) => {
                    self.injector.record(kind, fault, Some(at), None);
                    self.atlas.unread(self.place_of(at, &into));
                    Work::Fail(error)
                }
                _ => Work::Read(at, into),
            },
            IoCmd::Report => match fault {
                Some(fault @ Fault::Fail(error)) => {
                    self.injector.record(kind, fault, None, None);
                    Work::Fail(error)
                }
                _ => Work::Report,
            },
        }
    }

    /// Begins to write sectors, which are those of a `chunk`, if they are.
    fn begin_write(
        &mut self,
        at: Location,
        mut sectors: Vec<Sector>,
        chunk: Option<&Chunk<Data>>,
        kind: CommandKind,
        fault: Option<Fault>,
    ) -> Work {
        let media = *self.cache.media();
        let per_block = media.sectors_per_logical();
        let start_at = at.block * per_block;
        let length = sectors.len() as u32;
        assert!(media.geometry.contains(at, length / per_block), "a write at {at} leaves its unit");
        self.cache.assert_alone(at.unit);
        self.degrade(at.unit, kind, fault);
        if let Err(error) = self.takes_write(at) {
            return Work::Fail(error);
        }
        let instead = self.astray(at, length, fault);
        let fault = fault.filter(|fault| *fault != Fault::OtherDevice || instead.is_some());
        let (unit, start) =
            instead.map_or((at.unit, start_at), |place| (place.unit, place.block * per_block));
        let mut hit = 0;
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
            Some(Fault::Flip(bits)) => {
                hit = self.flip(&mut sectors, bits);
                (Fate::Kept, None)
            }
            _ => (Fate::Kept, None),
        };
        if let Some(fault) = fault.filter(strikes_at_once) {
            self.injector.record(kind, fault, Some(at), instead);
        }
        self.broken[at.unit.index()] |= error.is_some();
        let place = |unit, start, length| Place { unit, sectors: start..start + length };
        let (landed, meant) = (place(unit, start, length), place(at.unit, start_at, length));
        match fault {
            Some(Fault::Lose) => self.spoiled(&[meant], Struck::Anything),
            Some(_) if instead.is_some() => {
                self.atlas.stray();
                self.spoiled(&[meant, landed], Struck::Anything);
            }
            Some(Fault::Flip(_)) => {
                self.spoiled(&[place(unit, start + hit, 1)], self.held(chunk, hit));
            }
            _ => {}
        }
        let effect = Effect::Write { start, sectors: sectors.into() };
        let number = match instead {
            Some(_) => self.cache.submit_astray(unit, effect),
            None => self.cache.submit(unit, effect, fate),
        };
        if fault == Some(Fault::TearWithin) && !media.is_zoned() {
            self.within.insert(number);
        }
        error.map_or(Work::Change(number), |error| Work::FailChange(number, error))
    }

    /// Where a write lands in place of `at`, if that is its fault.
    fn astray(&mut self, at: Location, length: u32, fault: Option<Fault>) -> Option<Location> {
        match fault {
            _ if self.cache.media().is_zoned() => None,
            Some(Fault::Misdirect) => Some(self.elsewhere(at, length)),
            Some(Fault::OtherDevice) => self.on_other_device(at),
            _ => None,
        }
    }

    /// The same place of another device, if one is large enough.
    fn on_other_device(&mut self, at: Location) -> Option<Location> {
        let geometry = self.cache.media().geometry;
        let (all, own) = (geometry.device_units(), geometry.device_of(at.unit));
        let (own, others): (Vec<_>, Vec<_>) = all.partition(|(device, _)| *device == own);
        let nth = at.unit.0 - own[0].1.start;
        let there = others.into_iter().map(|(_, units)| (units.start + nth, units));
        let there = there.filter(|(unit, units)| units.contains(unit));
        let there: Vec<UnitId> = there.map(|(unit, _)| UnitId(unit)).collect();
        let pick = self.injector.rng().below(there.len().max(1) as u64) as usize;
        there.get(pick).map(|&unit| Location { unit, ..at })
    }

    /// What is on media after the power cut `state`, written to `out`. Of each write that [`Fault::TearWithin`] struck
    /// and that the cut takes, one sector has the first bytes.
    pub fn cut(&mut self, state: &CrashState, out: &mut Image) {
        self.lose(state);
        self.cache.crash(state, out);
        let media = *self.cache.media();
        let changes = self.cache.pending();
        for (index, (change, fate)) in changes.iter().zip(&state.0).enumerate() {
            let Effect::Write { start, sectors } = &change.effect else { continue };
            if *fate == Fate::Kept || !self.within.contains(&change.number) {
                continue;
            }
            let nth = match fate {
                Fate::Torn(tear) if tear.from < sectors.len() as u32 => tear.from,
                _ => self.injector.rng().below(sectors.len() as u64) as u32,
            };
            let place = Place { unit: change.unit, sectors: start + nth..start + nth + 1 };
            // Later writes of the sector stay.
            let mut later = changes[index + 1..].iter().zip(&state.0[index + 1..]);
            let is_over = later.any(|(later, fate)| {
                let (from, to) = later.range(&media);
                let later = Place { unit: later.unit, sectors: from..to };
                *fate != Fate::Lost && later.overlaps(&place)
            });
            if is_over {
                continue;
            }
            let at = place.sectors.start;
            let (mut bytes, cut) = (Vec::new(), 1 + self.injector.rng().below(511) as usize);
            let both = [sectors[nth as usize], out.unit(change.unit)[at as usize]];
            self.arena.copy_out(both, &mut bytes);
            bytes.copy_within(SECTOR_BYTES + cut.., cut);
            out.put(change.unit, at, &[self.arena.bytes(&bytes[..SECTOR_BYTES]).sector(0)]);
            let at = Location { unit: change.unit, block: at / media.sectors_per_logical() };
            let kind = CommandKind::WriteChunk;
            self.injector.record(kind, Fault::TearWithin, Some(at), None);
        }
        self.within.clear();
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

    /// What is in a sector of a chunk, counted from its first.
    fn held(&self, chunk: Option<&Chunk<Data>>, sector: u32) -> Struck {
        let Some(chunk) = chunk else { return Struck::Other };
        let header = chunk.header.header_bytes(&self.cache.media().geometry) / SECTOR_BYTES;
        match chunk.body {
            _ if (sector as usize) < header => Struck::Header,
            Body::Pages(_) => Struck::Page,
            Body::User(_) => Struck::Other,
        }
    }

    /// Records that the next change leaves wrong content in `places`.
    fn spoiled(&mut self, places: &[Place], held: Struck) {
        let change = self.cache.next_change();
        self.atlas.spoil(change);
        places.iter().for_each(|place| self.atlas.hit(place, held, change));
    }

    /// A reset or finish.
    fn begin_whole(
        &mut self,
        unit: UnitId,
        effect: Effect,
        kind: CommandKind,
        fault: Option<Fault>,
    ) -> Work {
        self.cache.assert_alone(unit);
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
        // Flip different bits: flipping a bit twice would change nothing.
        let first = rng.below(SECTOR_BYTES as u64 * 8);
        for step in 0..u64::from(bits) {
            let bit = ((first + step * 37) % (SECTOR_BYTES as u64 * 8)) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        sectors[hit] = self.arena.bytes(&bytes).sector(0);
        hit as u32
    }

    /// Fills the room of a read with what is at `at`.
    pub(super) fn read(&self, at: Location, into: &Data) -> Result<(), DeviceError> {
        self.readable(at.unit)?;
        let blocks = into.sectors().len() as u32 / self.cache.media().sectors_per_logical();
        into.fill(&self.cache.read(at, blocks));
        Ok(())
    }

    /// Whether flushes of a device of the medium do nothing.
    fn lies(&self, device: DeviceId) -> bool {
        self.unreliable.as_ref().is_some_and(|one| one.lies(device))
    }

    /// Fills the room of a read with other bytes than those at `at`.
    pub(super) fn misread(
        &mut self,
        at: Location,
        into: &Data,
        instead: Instead,
    ) -> Result<(), DeviceError> {
        let at = if let Instead::Elsewhere(other) = instead { other } else { at };
        self.read(at, into)?;
        let mut sectors: Vec<Sector> = into.sectors().collect();
        match instead {
            Instead::Flipped => _ = self.flip(&mut sectors, 1),
            Instead::Zeros => sectors.fill(Sector::ZEROS),
            Instead::Elsewhere(_) => {}
        }
        into.fill(&sectors);
        Ok(())
    }

    fn readable(&self, unit: UnitId) -> Result<(), DeviceError> {
        match self.conditions[unit.index()] {
            UnitCondition::Good | UnitCondition::ReadOnly => Ok(()),
            UnitCondition::Offline => Err(DeviceError::Offline),
        }
    }

    pub(super) fn report(&self) -> Vec<UnitReport> {
        let media = self.cache.media();
        let written = |unit| self.cache.current().pointer(unit) / media.sectors_per_logical();
        if !self.layer.is_none() {
            let report = UnitReport { condition: UnitCondition::Good, written: None };
            return vec![report; self.translator.encoding().geometry().units() as usize];
        }
        (0..media.geometry.units())
            .map(|unit| UnitReport {
                condition: self.conditions[unit as usize],
                written: media.is_zoned().then(|| written(UnitId(unit))),
            })
            .collect()
    }
}

/// Whether a fault leaves wrong content on media although the write is reported as done.
fn spoils(fault: Fault) -> bool {
    matches!(fault, Fault::Lose | Fault::Misdirect | Fault::OtherDevice | Fault::Flip(_))
}

/// Whether a fault strikes a write at its beginning and is recorded at once.
fn strikes_at_once(fault: &Fault) -> bool {
    !matches!(fault, Fault::Delay(_) | Fault::Degrade(_) | Fault::TearWithin)
}
