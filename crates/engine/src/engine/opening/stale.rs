//! Stale map entries, found by an opening in spite of a loss: the location of the block now holds another block.
//!
//! A unit is reset when the log says that none of its blocks is valid any more. If the chunk with such a log entry is
//! lost, the page on media still points into the unit. If the tail wrote to the location again, old and new block would
//! share one count, and the unit could be emptied while the new block is valid. So the earlier block becomes lost. A
//! read is an error, as a wrong checksum would be, until the host writes or trims the block. Nor is anything left in a
//! unit that was reset and not written since: as long as blocks counted there, the pool might have no empty unit, and
//! never get to a checkpoint.

use std::collections::BTreeSet;
use std::fmt::Debug;

use rustc_hash::{FxHashMap, FxHashSet};
use thermocline_format::Entry;

use super::Recovery;
use super::known::TailChunk;
use crate::bugs::bug;
use crate::engine::Parts;
use crate::map::{Mapping, Value};
use crate::marks::mark;
use crate::payload::Payload;
use crate::request::Extent;

/// The blocks that the tail wrote, and the map entries on media that they made stale.
#[derive(Debug, Default)]
pub(super) struct Stale {
    /// The block at each address that the tail wrote to. Takes some 20 bytes for each block of the tail, in openings in
    /// spite of a loss alone.
    stands: FxHashMap<u64, Value>,
    /// Units with only pages and control entries of the tail, and units without writes since their reset.
    of_metadata: FxHashSet<u32>,
    empty: FxHashSet<u32>,
    /// Blocks of volumes that pages on media lead elsewhere than where they are.
    blocks: BTreeSet<(u16, u64)>,
}

impl<P: Payload> Recovery<P> {
    /// Notes what stands where the tail wrote, if a loss was overlooked. All headers are kept then.
    pub(super) fn note_what_stands(&mut self, p: &Parts<P>) {
        if !self.overlooked {
            return;
        }
        let geometry = p.config.geometry;
        let metadata = Some(p.config.metadata_class());
        let lives = self.lives.iter().filter(|life| life.class == metadata);
        self.stale.of_metadata = lives.map(|life| life.listed.next.unit.0).collect();
        let lives = self.lives.iter().filter(|life| self.is_untouched(life));
        self.stale.empty = lives.map(|life| life.listed.next.unit.0).collect();
        for header in self.tail.iter().filter_map(TailChunk::header) {
            for (entry, at) in header.placed(&geometry) {
                if let (Entry::Data { crc, .. }, Some(at)) = (entry, at) {
                    let address = geometry.address(at);
                    self.stale.stands.insert(address, Value::new(address, *crc));
                }
            }
        }
    }

    /// Whether another block stands where this one should, or may: where pages stand no block of a volume does.
    pub(super) fn is_stale(&self, p: &Parts<P>, value: Value) -> bool {
        if !self.overlooked {
            return false;
        }
        let Stale { stands, of_metadata, empty, .. } = &self.stale;
        let unit = p.unit_of(value);
        let holds_pages = p.space.held_pages(unit) || of_metadata.contains(&unit.0);
        holds_pages
            || empty.contains(&unit.0)
            || stands.get(&value.address()).is_some_and(|stands| *stands != value)
    }

    /// Finds the stale blocks of a page that was just read. They count no more.
    pub(super) fn find_stale(&mut self, p: &mut Parts<P>, volume: u16, page: u64) {
        if !self.overlooked || bug!(p.config, StaleKept) {
            return;
        }
        let mut values = p.values_in(volume, page);
        values.retain(|(_, value)| self.is_stale(p, *value));
        for (lba, value) in values {
            self.stale.blocks.insert((volume, lba));
            let counted = self.settled.insert((volume, lba)) && !self.recount;
            let unit = p.unit_of(value);
            if counted && p.space.uncount(unit) {
                p.volumes.map_less(1);
            }
        }
    }

    /// Makes stale blocks lost, before the replay.
    pub(super) fn apply_stale(&mut self, p: &mut Parts<P>) {
        let mut run: Option<Extent> = None;
        for (volume, lba) in std::mem::take(&mut self.stale.blocks) {
            mark!(StaleLost);
            let map = p.volumes.map_mut(volume);
            map.patch(lba, Mapping::At(Value::LOST), false);
            let id = map.user;
            p.note_lost(&mut run, id, lba);
        }
        p.tell_lost(run);
    }
}
