//! The wrong member of a group. A world never changes its wrong member: the other members hold all data.
//!
//! The wrong member excuses no error. Flushed data must read back as written.

use std::ops::Range;
use std::rc::Rc;

use thermocline_types::{DeviceId, Rng, UnitId};

use crate::data::{Arena, SECTOR_BYTES, Sector};
use crate::disk::Image;

/// Sectors that are flipped at once, at most.
const FLIPS: u64 = 6;

/// How the member is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Bits are flipped at any time, anywhere: in data, parity, labels and logs.
    Flips,
    /// The member returns to an earlier durable state.
    RolledBack,
    /// The member's flushes do nothing.
    Lies,
}

/// A second fault of the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Also {
    /// Reads return wrong bytes once: flipped, zeros, or from a different place. The next read of the place is right.
    Misreads,
    /// Reads fail once. The next read of the place does not.
    ReadErrors,
    /// From some command in service on no command returns, until the host starts anew. Each counts as failed after a
    /// deadline.
    Hangs,
    /// Its superblock units are zeroed, swapped or flipped.
    Superblocks,
}

/// Which member of the medium is wrong, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The device of the medium.
    pub member: DeviceId,
    /// How.
    pub how: How,
    /// A second fault at the same time.
    pub also: Option<Also>,
}

/// An earlier content of the wrong member, for a rollback.
#[derive(Clone, Debug, Default)]
pub struct Earlier(Vec<Vec<Sector>>);

impl Wrong {
    fn units(self, image: &Image) -> Range<u32> {
        let mut units = image.media().geometry.device_units();
        let found = units.find(|(device, _)| *device == self.member);
        found.map(|(_, units)| units).expect("the medium has the member")
    }

    /// What the member holds now, if it may be put back to that.
    #[must_use]
    pub fn keep(self, image: &Image) -> Option<Earlier> {
        let units = self.units(image).map(|unit| image.unit(UnitId(unit)).to_vec());
        (self.how == How::RolledBack).then(|| Earlier(units.collect()))
    }

    /// Makes what the member holds wrong, as far as it is to be.
    pub fn spoil(self, arena: &Rc<Arena>, image: &mut Image, kept: &Earlier, rng: &mut Rng) {
        let units = self.units(image);
        match self.how {
            How::Flips => flip(arena, image, &units, rng),
            How::RolledBack if !kept.0.is_empty() => {
                for (unit, sectors) in units.zip(&kept.0) {
                    image.put(UnitId(unit), 0, sectors);
                }
            }
            How::RolledBack | How::Lies => {}
        }
        if self.also == Some(Also::Superblocks) {
            self.spoil_superblocks(arena, image, rng);
        }
    }

    /// Spoils the superblock units of the member, as far as they are on it.
    fn spoil_superblocks(self, arena: &Rc<Arena>, image: &mut Image, rng: &mut Rng) {
        let units = image.media().geometry.device(self.member).superblock_units;
        let held = units.map(|unit| image.unit(unit).to_vec());
        match rng.below(3) {
            0 => {
                let unit = units[rng.below(2) as usize];
                image.put(unit, 0, &vec![Sector::ZEROS; held[0].len()]);
            }
            1 => units.iter().zip(held.iter().rev()).for_each(|(unit, sectors)| {
                image.put(*unit, 0, sectors);
            }),
            _ => units.iter().for_each(|unit| flip(arena, image, &(unit.0..unit.0 + 1), rng)),
        }
    }
}

/// Flips bits in some non-zero sectors of the units.
fn flip(arena: &Rc<Arena>, image: &mut Image, units: &Range<u32>, rng: &mut Rng) {
    let held = |unit: u32| {
        let sectors = image.unit(UnitId(unit)).iter().zip(0..);
        let held = sectors.filter(|(sector, _)| **sector != Sector::ZEROS);
        held.map(move |(_, at)| (UnitId(unit), at)).collect::<Vec<_>>()
    };
    let held: Vec<(UnitId, u32)> = units.clone().flat_map(held).collect();
    if held.is_empty() {
        return;
    }
    for _ in 0..=rng.below(FLIPS) {
        let (unit, at) = held[rng.below(held.len() as u64) as usize];
        let (mut bytes, mut sectors) = (Vec::new(), Vec::new());
        arena.copy_out([image.unit(unit)[at as usize]], &mut bytes);
        bytes[rng.below(SECTOR_BYTES as u64) as usize] ^= 1 << rng.below(8);
        arena.sectors(&bytes, &mut sectors);
        image.put(unit, at, &sectors);
    }
}
