//! A device that now and then answers wrongly, although its media may be right.
//!
//! The atlas records none of the device's faults: the device is a redundant member of a group, and its faults excuse no
//! error.

use std::ops::Range;

use thermocline_engine::DeviceError;
use thermocline_engine::wire::IoCmd;
use thermocline_format::Location;
use thermocline_types::{DeviceId, Rng, Time, UnitId};

use super::{Bytes, Disk, Place, Work};
use crate::faults::{CommandKind, Fault};
use crate::wrong::{Also, How, Wrong};

/// Mean number of reads per wrong or failed read.
const ONE_IN: u64 = 16;

/// A device that hangs does so at one of its first commands since the pool was opened.
const HANGS_WITHIN: u64 = 600;

/// After so long a command that does not return counts as failed, and the device as gone.
pub(super) const DEADLINE: Time = Time::nanos(30_000_000_000);

/// Wrong bytes that a read returns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Instead {
    /// The same bytes with a flipped bit.
    Flipped,
    /// Zeros.
    Zeros,
    /// The bytes of another place of the device.
    Elsewhere(Location),
}

/// How a command to the device goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Conduct {
    Right,
    Misread(Instead),
    Fail(DeviceError),
    /// The command never returns. Its change may be done.
    Hang,
}

/// The device.
#[derive(Clone, Debug)]
pub(super) struct Unreliable {
    device: DeviceId,
    units: Range<u32>,
    blocks_per_unit: u32,
    lies: bool,
    also: Option<Also>,
    rng: Rng,
    /// Commands in service until the device hangs; `None` if it does not.
    left: Option<u64>,
    /// Places that were read wrong. The next read of each is right.
    misread: Vec<Place>,
}

impl Unreliable {
    pub(super) fn new(wrong: Wrong, units: Range<u32>, blocks_per_unit: u32, seed: u64) -> Self {
        let Wrong { member: device, how, also } = wrong;
        let (lies, misread) = (how == How::Lies, Vec::new());
        let (rng, left) = (Rng::new(seed ^ 0x3A9_0FF), None);
        let mut new = Unreliable { device, units, blocks_per_unit, lies, also, rng, left, misread };
        new.host_starts();
        new
    }

    /// A host that starts anew finds the device again.
    pub(super) fn host_starts(&mut self) {
        let hangs = self.also == Some(Also::Hangs) && self.rng.below(2) == 0;
        self.left = hangs.then(|| self.rng.below(HANGS_WITHIN));
        self.misread.clear();
    }

    /// From now on all follows from this seed.
    pub(super) fn reseed(&mut self, seed: u64) {
        self.rng = Rng::new(seed ^ 0x3A9_0FF);
        self.host_starts();
    }

    /// Whether flushes of a device do nothing.
    pub(super) fn lies(&self, device: DeviceId) -> bool {
        self.lies && self.device == device
    }

    /// How a command to the device goes, which reads `place` if it reads.
    fn answer(&mut self, place: Option<Place>, in_service: bool) -> Conduct {
        match (self.also, place) {
            (Some(Also::Hangs), _) => match &mut self.left {
                Some(0) => Conduct::Hang,
                Some(left) => {
                    *left -= u64::from(in_service);
                    Conduct::Right
                }
                None => Conduct::Right,
            },
            (Some(Also::ReadErrors), Some(place)) => self.strikes(place, Conduct::Fail),
            (Some(Also::Misreads), Some(place)) => {
                let instead = instead(&mut self.rng, &self.units, self.blocks_per_unit, &place);
                self.strikes(place, |_| Conduct::Misread(instead))
            }
            _ => Conduct::Right,
        }
    }

    /// Whether a read goes wrong now: where the last read did, this one does not.
    fn strikes(&mut self, place: Place, answer: impl FnOnce(DeviceError) -> Conduct) -> Conduct {
        let before = self.misread.len();
        self.misread.retain(|one| !one.overlaps(&place));
        if self.misread.len() < before || self.rng.below(ONE_IN) > 0 {
            return Conduct::Right;
        }
        self.misread.push(place);
        answer(DeviceError::Io)
    }
}

/// What a read of `place` gives in place of it, on a device with these units.
fn instead(rng: &mut Rng, units: &Range<u32>, blocks_per_unit: u32, place: &Place) -> Instead {
    let sectors = blocks_per_unit.max(1);
    match rng.below(3) {
        0 => Instead::Flipped,
        1 => Instead::Zeros,
        _ => {
            let unit = UnitId(units.start + rng.below(u64::from(units.end - units.start)) as u32);
            let length = place.sectors.end - place.sectors.start;
            let block = rng.below(u64::from(sectors.saturating_sub(length)) + 1) as u32;
            Instead::Elsewhere(Location { unit, block })
        }
    }
}

impl Disk {
    /// How a command is answered: by a device that is wrong now and then, or as a fault says. The atlas learns of
    /// faults.
    pub(super) fn answer(
        &mut self,
        cmd: &IoCmd<Bytes>,
        kind: CommandKind,
        fault: Option<Fault>,
    ) -> Conduct {
        let geometry = self.cache.media().geometry;
        let (device, place) = match cmd {
            IoCmd::Flush(device) => (*device, None),
            IoCmd::Read { at, into, .. } => {
                (geometry.device_of(at.unit), Some(self.place_of(*at, into)))
            }
            IoCmd::Write { at, .. } => (geometry.device_of(at.unit), None),
            IoCmd::Reset(unit) | IoCmd::Zero(unit) | IoCmd::Finish(unit) => {
                (geometry.device_of(*unit), None)
            }
            IoCmd::Heal(_) | IoCmd::Distrust { .. } | IoCmd::Report => return Conduct::Right,
        };
        let fault = fault.filter(|_| self.in_service);
        if fault == Some(Fault::Hang) && self.hangs.is_none() {
            self.injector.record(kind, Fault::Hang, None, None);
            self.hangs = Some(device);
        }
        match place {
            Some(place) if self.hangs == Some(device) => self.atlas.unread(place),
            None if self.hangs == Some(device) => self.atlas.failed(kind),
            Some(place) if fault == Some(Fault::Misread) => {
                let at = Location { unit: place.unit, block: 0 };
                self.injector.record(kind, Fault::Misread, Some(at), None);
                self.atlas.unread(place.clone());
                let mut units = geometry.device_units().filter(|(one, _)| *one == device);
                let (_, units) = units.next().expect("the device is there");
                let (rng, most) = (self.injector.rng(), geometry.blocks_per_unit());
                return Conduct::Misread(instead(rng, &units, most, &place));
            }
            place => {
                let unreliable = self.unreliable.as_mut().filter(|one| one.device == device);
                let answer = unreliable.map(|one| one.answer(place, self.in_service));
                return answer.unwrap_or(Conduct::Right);
            }
        }
        Conduct::Hang
    }
}

/// What becomes of a command of a device that hangs: it counts as failed, and its change may be done.
pub(super) fn hung(work: &Work) -> Work {
    match *work {
        Work::Change(number) => Work::FailChange(number, DeviceError::Gone),
        _ => Work::Fail(DeviceError::Gone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_read_after_a_wrong_one_is_right() {
        let wrong = Wrong { member: DeviceId(0), how: How::Flips, also: Some(Also::Misreads) };
        let mut device = Unreliable::new(wrong, 0..4, 64, 1);
        let (mut before, mut wrong) = (false, 0);
        for _ in 0..1000 {
            let place = Place { unit: UnitId(1), sectors: 0..8 };
            let now = !matches!(device.strikes(place, Conduct::Fail), Conduct::Right);
            assert!(!(before && now), "two reads in a row");
            wrong += u32::from(now);
            before = now;
        }
        assert!(wrong > 20, "{wrong} wrong reads");
    }
}
