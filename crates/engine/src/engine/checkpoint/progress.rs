//! How far a checkpoint is, and whether there is room for its next pages.

use thermocline_format::Location;

use super::{Checkpointer, PAGES_PER_CHUNK, Step};
use crate::engine::Parts;
use crate::payload::Payload;

/// Chunks of pages on their way at once. Chosen, not measured.
const PAGE_CHUNKS: u32 = 2;

impl Checkpointer {
    pub(super) fn set_step(&mut self, step: Step) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.step = step;
        }
    }

    pub(super) fn count_pages(&mut self, count: usize) {
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.pages += count as u64;
        }
    }

    /// Room for pages, and how many fit.
    pub(super) fn room_for_pages<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
    ) -> Option<(Location, usize)> {
        let class = p.config.metadata_class();
        if p.space.in_flight(class) >= PAGE_CHUNKS || !p.seal_control() {
            return None;
        }
        let block = p.config.geometry.logical_block();
        let (at, room) = p.room(class, block.per_block())?;
        Some((at, block.blocks_in_chunk(room).min(PAGES_PER_CHUNK)))
    }
}
