//! What an opening in spite of a loss finds in the maps: blocks whose place holds another one by now.
//!
//! A unit is reset when the log says that none of its blocks is valid any more. If a chunk that said so of one is lost,
//! the page on media leads there still. Where the tail has written to that place again, both would count as one, and
//! the unit be emptied while the other is valid. So the earlier one is lost: reading it is an error, as it would be for
//! its checksum, until it is written again or trimmed. Nor is anything left in a unit that was reset and not written
//! since: as long as blocks counted there, the pool might have no empty unit, and never get to a checkpoint.

use std::collections::BTreeSet;
use std::fmt::Debug;

use rustc_hash::{FxHashMap, FxHashSet};
use thermocline_format::Entry;

use super::Opening;
use super::known::TailChunk;
use crate::bugs::bug;
use crate::engine::Engine;
use crate::map::{Mapping, Value};
use crate::marks::mark;
use crate::payload::Payload;
use crate::request::Extent;

/// What stands where the tail wrote, and what the pages on media say that it wrote over.
#[derive(Debug, Default)]
pub(super) struct Stale {
    /// What stands at each address that the tail wrote to. Takes some 20 bytes for each block of the tail, in openings
    /// in spite of a loss alone.
    stands: FxHashMap<u64, Value>,
    /// Units to which the tail wrote nothing but pages and control entries, and those that nothing was written to since
    /// they were reset.
    of_metadata: FxHashSet<u32>,
    empty: FxHashSet<u32>,
    /// Blocks of volumes that pages on media lead elsewhere than where they are.
    blocks: BTreeSet<(u16, u64)>,
}

impl<P: Payload> Engine<P> {
    /// Notes what stands where the tail wrote, if a loss was overlooked. All headers are kept then.
    pub(super) fn note_what_stands(&self, opening: &mut Opening<P>) {
        if !opening.overlooked {
            return;
        }
        let geometry = self.parts.config.geometry;
        let metadata = Some(self.parts.config.metadata_class());
        let lives = opening.lives.iter().filter(|life| life.class == metadata);
        opening.stale.of_metadata = lives.map(|life| life.listed.next.unit.0).collect();
        let lives = opening.lives.iter().filter(|life| opening.is_untouched(life));
        opening.stale.empty = lives.map(|life| life.listed.next.unit.0).collect();
        for header in opening.tail.iter().filter_map(TailChunk::header) {
            for (entry, at) in header.placed(&geometry) {
                if let (Entry::Data { crc, .. }, Some(at)) = (entry, at) {
                    let address = geometry.address(at);
                    opening.stale.stands.insert(address, Value::new(address, *crc));
                }
            }
        }
    }

    /// Whether another block stands where this one should, or may: where pages stand no block of a volume does.
    pub(super) fn is_stale(&self, opening: &Opening<P>, value: Value) -> bool {
        if !opening.overlooked {
            return false;
        }
        let Stale { stands, of_metadata, empty, .. } = &opening.stale;
        let unit = self.parts.unit_of(value);
        let holds_pages = self.parts.space.held_pages(unit) || of_metadata.contains(&unit.0);
        holds_pages
            || empty.contains(&unit.0)
            || stands.get(&value.address()).is_some_and(|stands| *stands != value)
    }

    /// Finds the stale blocks of a page that was just read. They count no more.
    pub(super) fn find_stale(&mut self, volume: u16, page: u64) {
        let opening = self.opening.as_ref().expect("the pool is being opened");
        if !opening.overlooked || bug!(self.parts.config, StaleKept) {
            return;
        }
        let mut values = self.values_of(volume, page);
        values.retain(|(_, value)| self.is_stale(opening, *value));
        for (lba, value) in values {
            let opening = self.opening.as_mut().expect("the pool is being opened");
            opening.stale.blocks.insert((volume, lba));
            let counted = opening.settled.insert((volume, lba)) && !opening.recount;
            let unit = self.parts.unit_of(value);
            if counted && self.parts.space.uncount(unit) {
                self.parts.volumes.map_less(1);
            }
        }
    }

    /// Makes lost what is stale, before anything is replayed.
    pub(super) fn apply_stale(&mut self, opening: &mut Opening<P>) {
        let mut run: Option<Extent> = None;
        for (volume, lba) in std::mem::take(&mut opening.stale.blocks) {
            mark!(StaleLost);
            let map = self.parts.volumes.map_mut(volume);
            map.patch(lba, Mapping::At(Value::LOST), false);
            let id = map.id;
            self.parts.note_lost(&mut run, id, lba);
        }
        self.parts.tell_lost(run);
    }
}
