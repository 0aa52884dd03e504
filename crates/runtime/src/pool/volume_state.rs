//! A volume, as its handles, the pool and the thread of the pool share it.

use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use thermocline_engine::VolumeInfo;
use thermocline_format::{VolumeId, VolumeName};
use thermocline_target::Clock;

use super::VolumeLimits;
use super::traffic::TrafficCounters;

/// State shared by the handles of a volume.
pub(super) struct VolumeState {
    pub(super) id: VolumeId,
    name: RwLock<VolumeName>,
    /// The volume of which it is a snapshot, which nothing can change.
    pub(super) snapshot_of: Option<VolumeId>,
    /// Zero when it was deleted.
    pub(super) blocks: AtomicU64,
    /// Requests that wait for the engine.
    pub(super) waiting: AtomicUsize,
    pub(super) limits: Mutex<VolumeLimits>,
    pub(super) traffic: TrafficCounters,
    pub(super) clock: Clock,
}

impl VolumeState {
    pub(super) fn new(id: VolumeId, name: VolumeName, blocks: u64, clock: Clock) -> VolumeState {
        let (blocks, waiting) = (AtomicU64::new(blocks), AtomicUsize::new(0));
        let (limits, traffic) = (Mutex::default(), TrafficCounters::default());
        let (name, snapshot_of) = (RwLock::new(name), None);
        VolumeState { id, name, snapshot_of, blocks, waiting, limits, traffic, clock }
    }

    /// The state of a volume or snapshot of a pool.
    pub(super) fn of(info: VolumeInfo, clock: Clock) -> VolumeState {
        let snapshot_of = info.snapshot_of;
        let state = VolumeState::new(info.id, info.name, info.blocks, clock);
        VolumeState { snapshot_of, ..state }
    }

    pub(super) fn name(&self) -> VolumeName {
        // No panic under the lock can leave a half-made change.
        self.name.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn rename(&self, name: VolumeName) {
        // As above.
        *self.name.write().unwrap_or_else(PoisonError::into_inner) = name;
    }

    pub(super) fn limits(&self) -> MutexGuard<'_, VolumeLimits> {
        // No panic under the lock can leave a half-made change.
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
