//! Judges the engine's answers by the model and by the recorded faults.

use thermocline_engine::{Extent, HostError, OpenError};
use thermocline_format::{DeviceState, Location, MediaClass, PAGE_ENTRIES, VolumeId};

use super::{Pending, World};
use crate::disk::{Atlas, Place};
use crate::faults::CommandKind;
use crate::machine::{Opened, Trouble};
use crate::model::{FoundVolume, Model, Verdict, WriteNumber};

/// Units that the engine keeps for a checkpoint of small maps, beside one for each frontier.
const HELD: u32 = 2;

/// The newest change of a block that is there for certain.
pub(crate) type Known = fn(&Model, VolumeId, u64) -> WriteNumber;

impl World {
    fn atlas(&self) -> &Atlas {
        self.machine.disk.atlas()
    }

    /// Whether `at` is on a device that is lost.
    fn is_on_lost(&self, at: Location) -> bool {
        self.settings.config.geometry.state_of(at.unit) == DeviceState::Lost
    }

    /// Whether a block or page at `at` may be unreadable.
    fn may_be_unreadable(&self, at: Location) -> bool {
        self.is_on_lost(at) || self.machine.disk.is_explained(at, Atlas::explains)
    }

    pub(super) fn went_down(&mut self) {
        self.down = true;
        if !self.may_fail() {
            self.wrong.push("the pool stopped taking writes, though nothing failed".into());
        }
    }

    /// Whether the pool may stop taking writes. A command failed since the opening, damage keeps units from being
    /// freed, or the pool has no free unit.
    fn may_fail(&self) -> bool {
        self.atlas().has_failed() || self.atlas().is_damaged() || self.is_used_up()
    }

    /// Whether failed writes and power cuts have left the pool without a unit to write to. Then no unit can be freed:
    /// freeing a unit takes writes.
    pub(super) fn is_used_up(&self) -> bool {
        let failed = self.writes_failed();
        let (engine, most) = (&self.machine.engine, self.settings.config.frontiers() + HELD);
        let tiered = self.settings.config.geometry.is_tiered();
        let few = |media| engine.free_units_of(media) <= most;
        failed && (few(MediaClass::Capacity) || tiered && few(MediaClass::Fast))
    }

    /// Whether writes of chunks have failed, in this world or in the one that it goes on from.
    pub(super) fn writes_failed(&self) -> bool {
        let log = self.machine.disk.injector().log();
        let failed = log.iter().any(|injected| injected.kind == CommandKind::WriteChunk);
        failed || self.writes_failed_before
    }

    /// Judges the engine's report of a damaged place. A scrub reports a missing header at the header's first data
    /// block.
    pub(super) fn called_damaged(&mut self, at: Location) {
        self.damaged += 1;
        let explained = self.is_on_lost(at)
            || self.machine.disk.is_explained(at, Atlas::explains_header)
            || self.atlas().explains_anything_older();
        if !explained {
            self.wrong.push(format!("{at} is called damaged, and nothing has hit it"));
        }
    }

    pub(super) fn scrubbed(&mut self, damaged: u64) {
        if damaged > 0 && self.damaged == 0 {
            self.wrong.push(format!("a scrub finds damage in {damaged} places, and names none"));
        }
    }

    /// `known` gives the change since which a block's content is certain.
    pub(super) fn judge_unreadable(&mut self, extent: Extent, error: HostError, known: Known) {
        if !self.may_fail_to_read(extent, error, known) {
            self.wrong.push(format!("reading failed, and must not: {error}"));
        }
    }

    /// Whether a read of `extent` may fail with `error`. If recovery missed a chunk with one of the blocks, the map
    /// leads to the replaced block, which may be gone.
    fn may_fail_to_read(&self, extent: Extent, error: HostError, known: Known) -> bool {
        let Extent { volume, lba, blocks } = extent;
        if error == HostError::Lost {
            return (lba..lba + blocks).any(|lba| self.may_be_lost(volume, lba, known));
        }
        let HostError::Unreadable(at) = error else { return false };
        let older = |lba| self.atlas().explains_older(volume, lba);
        self.may_be_unreadable(at) || (lba..lba + blocks).any(older)
    }

    /// Whether a block was on a device that is lost, and for all that is known has not been changed since.
    pub(crate) fn may_be_lost(&self, volume: VolumeId, lba: u64, known: Known) -> bool {
        self.was_lost(volume, lba, known(&self.model, volume, lba))
    }

    /// Whether a block was on a device when that was lost, and `newest` was there by then.
    fn was_lost(&self, volume: VolumeId, lba: u64, newest: WriteNumber) -> bool {
        self.gone.get(&(volume, lba)).is_some_and(|since| newest <= *since)
    }

    /// Whether a request may fail like this.
    pub(super) fn judge_error(&mut self, pending: &Pending, error: HostError) {
        let allowed = match error {
            HostError::Unreadable(at) => match pending {
                Pending::Read { read, since, .. } => {
                    let explained = |atlas: &Atlas, place: &Place| atlas.explained(place, *since);
                    self.machine.disk.is_explained(at, explained)
                        || self.may_fail_to_read(read.extent(), error, Model::acknowledged)
                }
                _ => self.may_be_unreadable(at),
            },
            // It may have been written since the read was asked for.
            HostError::Lost => match pending {
                Pending::Read { read, .. } => {
                    let volume = read.extent().volume;
                    read.floors().any(|(lba, floor)| self.was_lost(volume, lba, floor))
                }
                _ => false,
            },
            HostError::Failed => self.may_fail(),
            HostError::NoVolume(_) | HostError::OutOfRange => match pending {
                Pending::Nonsense => true,
                Pending::Change { sizes, .. } | Pending::Read { sizes, .. } => {
                    *sizes != self.model.size_changes()
                }
                _ => false,
            },
            HostError::NoSpace => {
                let promised = matches!(pending, Pending::Change { version, .. } if self.is_reserved(*version));
                self.has_no_room();
                let is_full = self.may_be_full(self.kept_for(pending)) && !promised;
                is_full || self.writes_failed_before && self.is_used_up()
            }
            // As the pool is now.
            HostError::NoFastDevice => !self.settings.config.geometry.is_tiered(),
            HostError::TooManySnapshots => matches!(pending, Pending::Snapshot(_)),
            // Volumes that are still being deleted take memory, too.
            HostError::NoMemory { needed, budget } => {
                budget == self.settings.config.map_memory_bytes && needed > budget
            }
            _ => false,
        };
        if !allowed {
            self.wrong.push(format!("{pending:?} failed, and must not: {error}"));
        }
    }

    /// Blocks that a pool with snapshots may keep from a request: a unit, or what replaces blocks of deleted snapshots.
    fn kept_for(&self, pending: &Pending) -> u64 {
        if self.settings.mix.snapshots_one_in == 0 {
            return 0;
        }
        let extent = match pending {
            Pending::Change { version, .. } => self.model.changed_by(*version),
            _ => None,
        };
        let unit = self.settings.config.blocks_per_unit();
        extent.map_or(unit, |extent| unit.max(extent.blocks))
    }

    /// Whether there may be no room for a write. Pages of maps that could not be read count as full, and those that
    /// could not be read when their volume was deleted stay counted (ADR 0028).
    pub(super) fn may_be_full(&self, kept: u64) -> bool {
        if self.fast_are_spoiled() {
            return true;
        }
        let config = &self.settings.config;
        let capacity = config.capacity_of(self.model.volume_blocks());
        let missing = self.atlas().units_missing() * config.blocks_per_unit();
        let pages = self.atlas().pages_unread() + self.machine.pages_lost();
        let unknown = pages * PAGE_ENTRIES as u64;
        let taken = self.model.mapped_blocks() + self.reserved_blocks() + unknown + kept;
        taken > capacity.saturating_sub(missing)
    }

    /// Whether what cannot be copied leaves hosts no fast unit to write to.
    fn fast_are_spoiled(&self) -> bool {
        let config = &self.settings.config;
        let (geometry, fast) = (&config.geometry, MediaClass::Fast);
        // The atlas has units of the medium.
        let is_fast = |unit| {
            let unit = self.machine.disk.in_pool(unit);
            unit.is_some_and(|unit| geometry.media_of(unit) == fast)
        };
        let spoiled = self.atlas().units_spoiled(is_fast);
        let needed = u64::from(config.fast_units_needed(self.model.volume_blocks()));
        geometry.is_tiered() && u64::from(geometry.active_units(fast)) < spoiled + needed
    }

    pub(super) fn object(&mut self, verdict: &Verdict) {
        // If flushes lie, a change undone by a power cut may reappear after the next.
        let older = verdict.is_rollback() || verdict.is_return();
        let explained = match *verdict {
            Verdict::Block { volume, lba, .. } => self.atlas().explains_older(volume, lba),
            Verdict::VolumeWrong { volume, .. }
            | Verdict::VolumeLost(volume)
            | Verdict::NameWrong { volume, .. }
            | Verdict::MediaWrong { volume, .. } => self.atlas().explains_older(volume, 0),
        };
        if !(older && explained) {
            self.wrong.push(verdict.to_string());
        }
    }

    /// A pool that was closed clean has nothing to replay, unless the record that says so is gone.
    pub(super) fn judge_opened(&mut self, opened: Opened, clean: bool) {
        let geometry = self.settings.media.geometry;
        let units: Vec<_> = geometry.all_superblock_units().collect();
        if clean && opened.chunks > 0 && !self.atlas().explains_lost_records(&units) {
            self.wrong.push(format!("{} chunks were replayed after closing", opened.chunks));
        }
    }

    /// The pool was closed in order, and with that clean, unless a page could not be read to be written anew.
    pub(super) fn judge_closed(&mut self) {
        let unreadable = self.atlas().is_damaged() || self.atlas().reads_failed() > 0;
        if !self.machine.engine.is_closed_clean() && !unreadable {
            self.wrong.push("the pool was closed with a tail, though all can be read".into());
        }
    }

    pub(super) fn did_not_open(&mut self, trouble: &Trouble) {
        let has_no_room = matches!(
            trouble,
            Trouble::Refused(
                OpenError::NoRoom { .. } | OpenError::NoFreeUnit | OpenError::MapOn(_)
            )
        );
        if has_no_room && let Some(before) = self.before.take() {
            return self.open_as_before(before);
        }
        let geometry = self.settings.media.geometry;
        let units: Vec<_> = geometry.all_superblock_units().collect();
        let atlas = self.atlas();
        let excused = match trouble {
            Trouble::Refused(OpenError::Device) => atlas.has_failed() || atlas.is_damaged(),
            Trouble::Refused(OpenError::MapDamaged(at)) => self.may_be_unreadable(*at),
            Trouble::Refused(OpenError::ChunksLost { .. }) => atlas.explains_lost_chunks(),
            Trouble::Refused(
                OpenError::NoPool
                | OpenError::TwoPools
                | OpenError::DeviceMissing(_)
                | OpenError::DeviceOlder(_)
                | OpenError::SuperblockLost { .. },
            ) => atlas.explains_lost_records(&units),
            Trouble::Refused(_)
            | Trouble::Stuck(_)
            | Trouble::Stopped
            | Trouble::Miscounted(..)
            | Trouble::ChangeMissed(..) => false,
        };
        if !excused {
            self.wrong.push(format!("the pool does not open: {trouble:?}"));
        }
        // Where the device fails a command, others of the opening may have been carried out.
        let judged = matches!(trouble, Trouble::Refused(error) if *error != OpenError::Device);
        if judged && self.machine.has_changed_media() {
            self.wrong.push(format!("an opening changes media, and is refused: {trouble:?}"));
        }
        self.give_up();
    }

    pub(super) fn judge_found(&mut self, found: &[FoundVolume]) {
        for verdict in self.model.judge_found(found) {
            self.object(&verdict);
        }
        self.model.rebase(found);
    }
}
