//! Occupancy for the blocks of hosts: how much there is, and what is kept for single volumes.
//!
//! A reservation is a promise to one volume. It holds room only for the blocks that the volume has not mapped yet, and
//! for the map pages of these blocks.

use std::fmt::Debug;

use thermocline_format::VolumeId;

use crate::engine::Parts;
use crate::payload::Payload;
use crate::request::HostError;

/// How much of a pool is taken, in blocks of 4096 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Blocks of all volumes that are mapped.
    pub mapped: u64,
    /// Reserved blocks that are not mapped.
    pub held: u64,
    /// Blocks that the pool can hold now.
    pub capacity: u64,
}

impl Occupancy {
    /// Blocks that any volume may still map.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.mapped + self.held)
    }

    /// The share of the capacity that is mapped or held.
    #[must_use]
    pub fn fullness(&self) -> f64 {
        (self.mapped + self.held) as f64 / (self.capacity as f64).max(1.0)
    }
}

impl<P: Payload> Parts<P> {
    /// How much of the pool is taken now.
    pub(crate) fn occupancy(&self) -> Occupancy {
        let held = self.volumes.held_beside(None);
        let capacity = self.room_blocks(held.pages);
        Occupancy { mapped: self.volumes.mapped(), held: held.blocks, capacity }
    }

    /// As [`crate::Engine::reserve_for`].
    pub(crate) fn reserve_for(&mut self, volume: VolumeId, blocks: u64) -> Result<(), HostError> {
        let index = self.volumes.index(volume).ok_or(HostError::NoVolume(volume))?;
        let before = self.volumes.map(index).reserve;
        self.volumes.set_reserve(index, blocks);
        let Occupancy { mapped, held, capacity } = self.occupancy();
        if blocks <= before || mapped + held <= capacity {
            return Ok(());
        }
        let (mut most, mut beyond) = (before, blocks);
        while beyond - most > 1 {
            let middle = u64::midpoint(most, beyond);
            self.volumes.set_reserve(index, middle);
            let Occupancy { mapped, held, capacity } = self.occupancy();
            *if mapped + held <= capacity { &mut most } else { &mut beyond } = middle;
        }
        self.volumes.set_reserve(index, before);
        Err(HostError::NothingToReserve { most })
    }
}
