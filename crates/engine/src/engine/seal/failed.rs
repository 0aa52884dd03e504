//! Failed writes: their valid blocks and entries are written elsewhere, before all other data.

use thermocline_format::{Entry, Location, Sequence, VolumeId};
use thermocline_types::{Class, Lba};

use crate::bugs::bug;
use crate::device::{Body, Chunk};
use crate::engine::Parts;
use crate::map::{Mapping, Value};
use crate::marks::mark;
use crate::payload::Payload;
use crate::write_cache::{Owner, Staged};

impl<P: Payload> Parts<P> {
    /// Has a failed flight wait for all that was sealed behind it: newer versions of the failed blocks may be in any
    /// later chunk. Until the later chunks are on media, neither version is.
    pub(crate) fn await_successors(&mut self, sequence: Sequence) {
        if self.phase_failed() || bug!(self.config, SuccessorsNotAwaited) {
            return;
        }
        let control = self.cache.await_control(Owner::Failed(sequence));
        self.flights.need(sequence, control);
        let flights = self.flights.await_later(sequence, None);
        mark!(SuccessorsAwaited if flights + control > 0);
    }

    /// Stages again what still counts of a chunk that is, or may be, lost. Returns whether its pages are to be written
    /// again.
    pub(crate) fn replace_chunk(
        &mut self,
        sequence: Sequence,
        chunk: &Chunk<P>,
        class: Class,
    ) -> bool {
        if !self.flights.abandon(sequence) {
            return false;
        }
        if self.phase_failed() {
            self.keep_in_memory(chunk, class);
            return true;
        }
        self.space.uncount_chunk(chunk.header.origin.location.unit, sequence);
        let owner = Owner::Failed(sequence);
        if bug!(self.config, FailedWriteForgotten) {
            return false;
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
        pending += self.restage_chunk(chunk, class, Some(owner));
        self.flights.need(sequence, pending);
        true
    }

    /// Of a pool that has given up writing: what still counts of a lost chunk stays in memory, where reads find it.
    /// Nobody waits for it.
    pub(crate) fn keep_in_memory(&mut self, chunk: &Chunk<P>, class: Class) {
        let kept = self.restage_chunk(chunk, class, None);
        mark!(KeptInMemory if kept > 0);
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
    pub(crate) fn placed(&self, chunk: &Chunk<P>) -> Vec<(VolumeId, Lba, u32, Location)> {
        let placed = chunk.header.placed(&self.config.geometry);
        let blocks = placed.filter_map(|(entry, at)| match (*entry, at) {
            (Entry::Data { volume, lba, crc }, Some(at)) => Some((volume, lba, crc, at)),
            _ => None,
        });
        blocks.collect()
    }

    /// The part of a failed control entry that later entries have not overridden.
    fn still_true(&self, entry: Entry) -> Vec<Entry> {
        let index = |volume| self.volumes.layer(volume).map(|index| self.volumes.map(index));
        match entry {
            Entry::Trim { volume, lba, blocks } | Entry::LayerHole { volume, lba, blocks } => {
                let hole = matches!(entry, Entry::LayerHole { .. });
                // Of a deleted volume all of it is.
                let Some(number) = self.volumes.layer(volume) else { return vec![entry] };
                let map = self.volumes.map(number);
                let end = (lba.0 + blocks).min(map.blocks);
                // What waits in memory to be written again may have been sealed since, too. All that was sealed since
                // the trim is known, see `flying`.
                let now = |lba| self.on_media(number, lba);
                let written = |lba| now(lba).is_some_and(|value| !hole || value != Value::HOLE);
                let mut runs = Vec::new();
                let mut from = lba.0;
                for lba in lba.0..=end {
                    if lba == end || written(lba) {
                        let blocks = lba - from;
                        let first = Lba(from);
                        let run = match hole {
                            true => Entry::LayerHole { volume, lba: first, blocks },
                            false => Entry::Trim { volume, lba: first, blocks },
                        };
                        runs.extend((blocks > 0).then_some(run));
                        from = lba + 1;
                    }
                }
                mark!(TrimSaidAgain);
                runs
            }
            Entry::VolumeSnapshot { volume, layer, .. } => {
                mark!(SnapshotSaidAgain);
                let now = index(layer).map(|map| map.blocks);
                now.map(|blocks| Entry::VolumeSnapshot { volume, layer, blocks })
                    .into_iter()
                    .collect()
            }
            Entry::VolumeClone { volume, layer, .. } => {
                mark!(CloneSaidAgain);
                let now = index(layer).map(|map| map.blocks);
                now.map(|blocks| Entry::VolumeClone { volume, layer, blocks }).into_iter().collect()
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
                let now = self.volumes.index(volume).map(|index| self.volumes.map(index));
                let now = now.map(|map| Entry::VolumeMedia { volume, media: map.media });
                now.into_iter().collect()
            }
            Entry::VolumeName { volume, part, .. } => {
                mark!(NameSaidAgain);
                let now = self.volumes.index(volume).map(|index| self.volumes.map(index));
                let now = now.and_then(|map| Entry::name_parts(volume, &map.name).nth(part.into()));
                now.into_iter().collect()
            }
            _ => vec![entry],
        }
    }

    /// Stages a block of a failed write again if it is still the newest; returns how many that makes. If nobody waits,
    /// it will be read and not written.
    #[expect(clippy::too_many_arguments, reason = "the parts of an entry")]
    fn restage(
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
        let Some(volume) = self.volumes.layer(volume) else { return 0 };
        if lba >= self.volumes.map(volume).blocks {
            return 0;
        }
        let waits = owner.is_some();
        let failed = Value::new(self.config.geometry.address(at), crc);
        // The host wrote the block again while in flight. The replacement may wait for the host's turn; this block must
        // not wait.
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
            lifted: false,
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
}
