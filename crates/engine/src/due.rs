//! When the next checkpoint is due, and whether one is being taken.

use thermocline_format::BLOCK_BYTES;

use crate::config::Config;

/// A checkpoint costs little if its pages are this many times less than the bytes written since the last checkpoint.
const CHEAP: u64 = 64;

/// Chunks after which a checkpoint begins however small they are: an opening keeps 24 bytes of each, at most 200 MB.
const CHUNKS: u64 = 4 << 20;

/// When the next checkpoint is due.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// Whether a checkpoint is wanted soon.
    wanted: bool,
    /// Bytes of chunks since the newest began, but for pages of maps, and chunks; on tiers of lives not released.
    bytes: u64,
    chunks: u64,
    /// Bytes of chunks with control entries since then. Nothing but a checkpoint frees their units.
    control: u64,
    /// Whether it was due and waits for room, and whether it begins without, since there is no other way.
    awaits_room: bool,
    forced: bool,
    /// Whether one is being taken.
    under_way: bool,
}

impl Due {
    /// Bytes went into a chunk.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.chunks += 1;
    }

    /// Whether so many bytes of chunks with control entries would be freed.
    pub(crate) fn has_control(&self, bytes: u64) -> bool {
        self.control >= bytes
    }

    /// Control entries went into a chunk.
    pub(crate) fn add_control(&mut self, bytes: u64) {
        self.control += bytes;
    }

    /// A unit's life was released: `bytes` and `chunks` will not be replayed.
    pub(crate) fn release(&mut self, bytes: u64, chunks: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.chunks = self.chunks.saturating_sub(chunks);
    }

    /// Has a checkpoint taken soon.
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    /// Whether a checkpoint is wanted soon.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Whether more would be replayed than should be, by as much again.
    pub(crate) fn is_late(&self, config: &Config) -> bool {
        self.bytes / 2 >= config.checkpoint_bytes || self.chunks / 2 >= CHUNKS
    }

    /// Whether a checkpoint is due when `pages` pages of maps differ.
    pub(crate) fn is_now(&self, config: &Config, pages: u64) -> bool {
        let cheap = pages.saturating_mul(BLOCK_BYTES as u64 * CHEAP) <= self.bytes;
        self.wanted
            || self.bytes >= config.checkpoint_bytes
            || self.control >= config.control_bytes()
            || self.bytes >= config.early_checkpoint_bytes && cheap
            || self.chunks >= CHUNKS
    }

    /// A checkpoint begins: no further checkpoint is due.
    pub(crate) fn begin(&mut self) {
        *self = Due { under_way: true, ..Due::default() };
    }

    /// The record of the checkpoint in progress counts.
    pub(crate) fn end(&mut self) {
        self.under_way = false;
    }

    /// Whether one is being taken.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// A checkpoint is due, but the pool has no room for the checkpoint.
    pub(crate) fn awaits_room(&mut self) {
        self.awaits_room = true;
    }

    /// Forces a checkpoint that waits for room to begin without room. Returns whether a checkpoint was forced now.
    pub(crate) fn force(&mut self) -> bool {
        self.awaits_room && !std::mem::replace(&mut self.forced, true)
    }

    /// Whether it begins without room.
    pub(crate) fn is_forced(&self) -> bool {
        self.forced
    }
}

#[cfg(test)]
mod tests {
    use thermocline_format::{Geometry, LogicalBlock};
    use thermocline_types::UnitId;

    use super::*;

    /// 16 TiB, in zones of a gibibyte.
    fn config() -> Config {
        let geometry = Geometry::new(LogicalBlock::B4096, 1 << 18, 1 << 14, [0, 1].map(UnitId));
        Config::new(geometry.expect("sound units"))
    }

    fn written(chunks: u64, bytes: u64) -> Due {
        let mut due = Due::default();
        (0..chunks).for_each(|_| due.add(bytes));
        due
    }

    #[test]
    fn a_checkpoint_comes_early_where_it_costs_little_and_late_where_every_page_differs() {
        let config = config();
        let (early, late) = (written(64 << 10, 1 << 20), written(512 << 10, 1 << 20));
        let cheap = (64 << 30) / (64 * 4096);
        assert!(early.is_now(&config, cheap));
        assert!(!early.is_now(&config, cheap + 1));
        assert!(!written((64 << 10) - 1, 1 << 20).is_now(&config, 0));
        assert!(late.is_now(&config, u64::MAX));
        assert!(!written((512 << 10) - 1, 1 << 20).is_now(&config, u64::MAX));
    }

    #[test]
    fn many_small_chunks_are_as_long_a_tail_as_it_may_be() {
        let config = config();
        assert!(!written(CHUNKS - 1, 8192).is_now(&config, u64::MAX));
        assert!(written(CHUNKS, 8192).is_now(&config, u64::MAX));
    }

    #[test]
    fn one_that_begins_is_due_no_more_and_goes_on_until_its_record_counts() {
        let mut due = written(CHUNKS, 8192);
        assert!(!due.force(), "none waits for room");
        due.awaits_room();
        assert!(due.force() && due.is_forced() && !due.force());
        due.want();
        due.begin();
        assert!(due.is_under_way() && !due.is_wanted() && !due.is_forced());
        assert!(!due.is_now(&config(), 0));
        due.want();
        due.end();
        assert!(!due.is_under_way() && due.is_wanted());
    }
}
