//! Volumes with a reservation, in pools that other volumes fill.
//!
//! The promise: a write never gets "no space" while its volume has at most as many blocks as its reservation. The model
//! counts the blocks. Blocks of writes in work count, and so do blocks with an unanswered trim. After an opening the
//! engine estimates until it has read each page of the maps. The promise is judged after that.

use std::collections::BTreeMap;

use thermocline_engine::HostError;
use thermocline_format::VolumeId;

use super::World;
use crate::model::WriteNumber;

/// Reservations of volumes.
#[derive(Debug, Default)]
pub(super) struct Reserves {
    blocks: BTreeMap<VolumeId, u64>,
    /// Whether the engine only estimates how many blocks are mapped.
    estimated: bool,
    /// Whether a write without a reservation was refused.
    tight: bool,
    /// Writes that succeeded by their reservation in a pool without room for others.
    kept: u64,
}

impl World {
    /// Every second new volume gets a reservation of half of its size, if the pool has the room.
    pub(super) fn reserve(&mut self, volume: VolumeId) {
        let size = self.model.volumes().find(|(id, _)| *id == volume);
        let Some((_, blocks)) = size.filter(|_| self.settings.reserves) else { return };
        if volume.0.is_multiple_of(2) {
            return;
        }
        let wanted = blocks.div_ceil(2);
        match self.machine.engine.reserve_for(volume, wanted) {
            Ok(()) => _ = self.reserves.blocks.insert(volume, wanted),
            Err(HostError::NothingToReserve { most }) if most < wanted => {}
            Err(error) => self.wrong.push(format!("reserving {wanted} blocks failed: {error}")),
        }
    }

    /// Tells a new engine of the reservations. It estimates, unless all maps were read.
    pub(super) fn reserve_again(&mut self, all_read: bool) {
        self.reserves.estimated = !all_read;
        let there: BTreeMap<VolumeId, u64> = self.model.volumes().collect();
        self.reserves.blocks.retain(|volume, _| there.contains_key(volume));
        for (volume, blocks) in &self.reserves.blocks {
            self.machine.engine.hold_for(*volume, *blocks);
        }
    }

    /// Whether a change must find room because of the reservation of its volume.
    pub(super) fn is_reserved(&self, version: WriteNumber) -> bool {
        let Some(extent) = self.model.changed_by(version) else { return false };
        let reserved = self.reserves.blocks.get(&extent.volume);
        let mapped = self.model.mapped_blocks_of(extent.volume);
        reserved.is_some_and(|blocks| mapped <= *blocks) && !self.reserves.estimated
    }

    /// A change has succeeded.
    pub(super) fn has_found_room(&mut self, version: WriteNumber) {
        if self.reserves.tight && self.is_reserved(version) {
            self.reserves.kept += 1;
        }
    }

    /// The pool has refused a change.
    pub(super) fn has_no_room(&mut self) {
        self.reserves.tight = true;
    }

    /// Blocks of all reservations.
    pub(super) fn reserved_blocks(&self) -> u64 {
        self.reserves.blocks.values().sum()
    }

    /// Writes that succeeded by their reservation in a pool without room for others.
    #[must_use]
    pub fn kept_by_reserves(&self) -> u64 {
        self.reserves.kept
    }
}
