//! Writes that fail: what still counts of them goes elsewhere, before all else.

use thermocline_format::{Entry, Location, PageId, Sequence, VolumeId};
use thermocline_types::{Class, Lba, UnitId};

use crate::bugs::bug;
use crate::device::{Body, Chunk, DeviceError};
use crate::engine::{Engine, Phase};
use crate::map::{Mapping, Value, VolumeMap};
use crate::marks::mark;
use crate::payload::Payload;
use crate::request::{Action, HostError, Notice, OpenError};
use crate::write_cache::{Owner, Staged};

/// Failed writes without a good one between them after which the device is given up. Chosen, not measured.
const FAILURES: u32 = 8;

impl<P: Payload> Engine<P> {
    /// The write of `chunk` failed. It and all behind it in its unit are written elsewhere: recovery might not find
    /// what is behind a hole.
    pub(super) fn write_failed(
        &mut self,
        sequence: Sequence,
        chunk: &Chunk<P>,
        class: Class,
        error: DeviceError,
    ) {
        let unit = chunk.header.origin.location.unit;
        let block = chunk.header.origin.location.block;
        self.space.break_at(chunk.header.origin.location);
        if self.flights.failed() > FAILURES || error == DeviceError::Gone {
            mark!(DeviceGivenUp);
            self.fail();
            self.keep_in_memory(chunk, class);
            return;
        }
        if self.space.next_of(class).is_some_and(|at| at.unit == unit) {
            self.close_frontier(class);
        }
        if matches!(error, DeviceError::ReadOnly | DeviceError::Offline) {
            mark!(CondemnedByWrite);
            self.condemn(unit);
        }
        self.replace_chunk(sequence, chunk, class);
        let mut lost = vec![sequence];
        // Those still on their way are dealt with when the device answers.
        let behind = self.flights.done_behind(Location { unit, block });
        for (sequence, chunk) in behind {
            if bug!(self.config, BehindFailedWriteKept) {
                break;
            }
            mark!(BehindFailed);
            self.replace_chunk(sequence, &chunk, class);
            lost.push(sequence);
        }
        for sequence in lost {
            self.await_successors(sequence);
        }
    }

    /// Has a failed flight wait for what stands before a chunk that replaces a part of it: if a write of those fails,
    /// that chunk is lost, too.
    pub(super) fn await_unit(&mut self, owners: &[(Owner, u32)], unit: UnitId) {
        if bug!(self.config, UnitNotAwaited) {
            return;
        }
        for &(owner, _) in owners {
            let Owner::Failed(sequence) = owner else { continue };
            let count = self.flights.await_later(sequence, Some(unit));
            mark!(UnitAwaited if count > 0);
        }
    }

    /// Has a failed flight wait for all that was sealed behind it: what superseded its blocks may be in any of that,
    /// and until it is on media, neither is there.
    pub(super) fn await_successors(&mut self, sequence: Sequence) {
        if self.phase_failed() || bug!(self.config, SuccessorsNotAwaited) {
            return;
        }
        let control = self.cache.await_control(Owner::Failed(sequence));
        self.flights.need(sequence, control);
        let flights = self.flights.await_later(sequence, None);
        mark!(SuccessorsAwaited if flights + control > 0);
    }

    /// Stages again what still counts of a chunk that is, or may be, lost.
    pub(super) fn replace_chunk(&mut self, sequence: Sequence, chunk: &Chunk<P>, class: Class) {
        if !self.flights.abandon(sequence) {
            return;
        }
        if self.phase_failed() {
            return self.keep_in_memory(chunk, class);
        }
        self.space.uncount_chunk(chunk.header.origin.location.unit, sequence);
        let owner = Owner::Failed(sequence);
        if bug!(self.config, FailedWriteForgotten) {
            return;
        }
        let mut pending = 1; // The entry that says so.
        let said = if bug!(self.config, WrongChunkAbandoned) { sequence.0 - 1 } else { sequence.0 };
        let entries = vec![Entry::Abandoned { sequence: Sequence(said) }];
        self.cache.say(entries, vec![owner]);
        // The four entries of a name must share a chunk, and did.
        let control = chunk.header.entries.iter().filter(|entry| !entry.has_block());
        let still: Vec<Entry> = control.flat_map(|&entry| self.still_true(entry)).collect();
        for group in still.chunk_by(|_, next| matches!(next, Entry::VolumeName { .. })) {
            self.cache.say(group.to_vec(), vec![owner]);
            pending += 1;
        }
        mark!(PackedReplaced if chunk.header.packed.is_some());
        self.pages_lost(chunk);
        pending += self.restage_chunk(chunk, class, Some(owner));
        self.flights.need(sequence, pending);
    }

    /// Of a pool that has given up writing: what still counts of a lost chunk stays in memory, where reads find it.
    /// Nobody waits for it.
    fn keep_in_memory(&mut self, chunk: &Chunk<P>, class: Class) {
        self.pages_lost(chunk);
        let kept = self.restage_chunk(chunk, class, None);
        mark!(KeptInMemory if kept > 0);
    }

    /// The pages of a lost chunk are written again, or at least read from memory.
    fn pages_lost(&mut self, chunk: &Chunk<P>) {
        let Body::Pages(pages) = &chunk.body else { return };
        for ((volume, lba, _, at), bytes) in self.placed(chunk).into_iter().zip(pages) {
            self.page_lost(volume, PageId::from_lba(lba), at, bytes);
        }
    }

    /// Stages the users' blocks of a chunk again that are still the newest; returns how many these are.
    fn restage_chunk(&mut self, chunk: &Chunk<P>, class: Class, owner: Option<Owner>) -> u32 {
        let Body::User(blocks) = &chunk.body else { return 0 };
        let mut count = 0;
        for ((volume, lba, crc, at), payload) in self.placed(chunk).into_iter().zip(blocks) {
            count += self.restage(volume, lba.0, crc, at, payload.clone(), class, owner);
        }
        count
    }

    /// The blocks of a chunk: volume, block, checksum and place of each.
    fn placed(&self, chunk: &Chunk<P>) -> Vec<(VolumeId, Lba, u32, Location)> {
        let placed = chunk.header.placed(&self.config.geometry);
        let blocks = placed.filter_map(|(entry, at)| match (*entry, at) {
            (Entry::Data { volume, lba, crc }, Some(at)) => Some((volume, lba, crc, at)),
            _ => None,
        });
        blocks.collect()
    }

    /// What is left to say of a control entry whose chunk failed, now that others came after it.
    pub(super) fn still_true(&self, entry: Entry) -> Vec<Entry> {
        let index = |volume| self.volumes.index(volume).map(|index| self.volumes.map(index));
        match entry {
            Entry::Trim { volume, lba, blocks } => {
                // Of a deleted volume all of it is.
                let Some(number) = self.volumes.index(volume) else { return vec![entry] };
                let map = self.volumes.map(number);
                let end = (lba.0 + blocks).min(map.blocks);
                // What waits in memory to be written again may have been sealed since, too. All that was sealed since
                // the trim is known, see `flying`.
                let written = |lba: u64| self.on_media(number, lba).is_some();
                let mut runs = Vec::new();
                let mut from = lba.0;
                for lba in lba.0..=end {
                    if lba == end || written(lba) {
                        let blocks = lba - from;
                        let run = Entry::Trim { volume, lba: Lba(from), blocks };
                        runs.extend((blocks > 0).then_some(run));
                        from = lba + 1;
                    }
                }
                mark!(TrimSaidAgain);
                runs
            }
            Entry::VolumeCreate { volume, .. } => {
                mark!(CreateSaidAgain);
                let now = index(volume);
                let now = now.map(|map| Entry::VolumeCreate { volume, blocks: map.blocks });
                now.into_iter().collect()
            }
            Entry::VolumeResize { volume, .. } => {
                mark!(ResizeSaidAgain);
                let now = index(volume);
                let now = now.map(|map| Entry::VolumeResize { volume, blocks: map.blocks });
                now.into_iter().collect()
            }
            Entry::VolumeMedia { volume, .. } => {
                mark!(MediaSaidAgain);
                let now = index(volume);
                let now = now.map(|map| Entry::VolumeMedia { volume, media: map.media });
                now.into_iter().collect()
            }
            _ => vec![entry],
        }
    }

    /// Stages a block of a failed write again if it is still the newest; returns how many that makes. If nobody waits,
    /// it will be read and not written.
    #[expect(clippy::too_many_arguments, reason = "the parts of an entry")]
    pub(super) fn restage(
        &mut self,
        volume: VolumeId,
        lba: u64,
        crc: u32,
        at: Location,
        payload: P,
        class: Class,
        owner: Option<Owner>,
    ) -> u32 {
        let id = volume;
        let Some(volume) = self.volumes.index(volume) else { return 0 };
        if lba >= self.volumes.map(volume).blocks {
            return 0;
        }
        let waits = owner.is_some();
        let failed = Value::new(self.config.geometry.address(at), crc);
        // Written again while it was on its way: what replaces it may wait for the host's turn, this must not.
        let below = match self.volumes.map(volume).look_up(lba) {
            Some(Mapping::At(value)) if value == failed => false,
            Some(Mapping::Staged(slot)) if waits && self.cache.block(slot).old == Some(failed) => {
                true
            }
            _ => {
                mark!(RestageNeedless);
                return 0;
            }
        };
        mark!(Restaged if !below);
        mark!(RestagedBelow if below);
        let staged = Staged {
            volume,
            id,
            copy: below,
            replaces: true,
            alive: true,
            acknowledged: false,
            crc,
            lba,
            class,
            ticket: 0,
            old: Some(failed),
            owners: owner.into(),
            payload,
        };
        let slot = if waits { self.cache.push_first(staged) } else { self.cache.hold(staged) };
        if !below {
            self.volumes.map_mut(volume).set(lba, Mapping::Staged(slot));
        }
        1
    }

    /// Fails all writes of the host that are staged: there is no space for them. Where the host was told that they are
    /// complete, all writing fails, and they can be read from memory.
    pub(crate) fn fail_staged(&mut self) -> bool {
        if self.cache.holds_acknowledged() {
            mark!(CompleteButNoRoom);
            self.fail();
            return true;
        }
        let hosts = self.cache.take_hosts();
        let any = !hosts.is_empty();
        mark!(NoRoom if any);
        for staged in hosts {
            if staged.alive {
                let map = self.volumes.map_mut(staged.volume);
                let unknown =
                    |map: &VolumeMap| map.said(staged.lba).is_some_and(|said| said.counted);
                match staged.old {
                    None if unknown(map) => map.unpatch(staged.lba),
                    None => map.set(staged.lba, Mapping::Unmapped),
                    Some(old) => map.set(staged.lba, Mapping::At(old)),
                }
                self.volumes.map_less(u64::from(staged.old.is_none_or(Value::is_lost)));
            }
            for owner in staged.owners.each() {
                match *owner {
                    Owner::Request(request) => {
                        self.request_progress(request, 1, Some(HostError::NoSpace));
                    }
                    // Blocks of a failed write, which the host may think are written.
                    Owner::Failed(_) => self.fail(),
                }
            }
        }
        any
    }

    /// Gives up writing: every request that writes fails from now on.
    pub(crate) fn fail(&mut self) {
        if self.phase == Phase::Opening {
            self.open_failed(OpenError::Device);
        } else if !matches!(self.phase, Phase::Failed | Phase::Closed) {
            self.set_failed();
            self.actions.push_back(Action::Notice(Notice::Failed));
        }
    }
}
