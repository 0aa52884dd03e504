//! Pages elsewhere, by checkpoints.

use thermocline_types::Op;

use super::innodb::append;
use super::{Core, Layout, PAGES, PageEngine, SECOND};
use crate::filesystem::{Extent, FreeSpace};

/// Size of an interior page and pages below one (WiredTiger: `internal_page_max` 4 KiB; entries of some 32 bytes).
const INTERIOR: u64 = 4096;
const FANOUT: u32 = 128;
/// Granule of the journal where commits flush, the file system's block.
const BLOCK: u64 = 4096;

/// The engine's own state.
#[derive(Debug)]
pub(super) struct WiredTiger {
    /// Slot of each page.
    slots: Vec<u32>,
    free: FreeSpace,
    /// Slots that the next checkpoint frees.
    old: Vec<u32>,
    /// Journal bytes on media, and log bytes covered by the last checkpoint.
    written: u64,
    covered: u64,
    /// Where the next interior page goes.
    interior: u64,
    /// Interior pages above pages evicted since the last checkpoint.
    parents: Vec<u32>,
    /// Places of pages that wait in the page cache.
    cached: Vec<u64>,
}

impl WiredTiger {
    /// All pages in order, followed by the free space.
    pub fn new(layout: &Layout) -> WiredTiger {
        let mut free = FreeSpace::new(Extent { start: 0, length: layout.pages.length });
        let all = free.take(0, layout.count * layout.page);
        assert_eq!(all.map(|all| all.length), Some(layout.count * layout.page));
        WiredTiger {
            slots: (0..layout.count as u32).collect(),
            free,
            old: Vec::new(),
            written: 0,
            covered: 0,
            interior: 0,
            parents: Vec::new(),
            cached: Vec::new(),
        }
    }

    /// Writes `page` to the smallest free room that fits (WiredTiger's manual: `block_allocation` defaults to `best`).
    /// Returns `false` if no room fits before the next checkpoint.
    fn write(&mut self, core: &mut Core, page: u32) -> bool {
        let size = core.layout.page;
        let Some(place) = self.free.take_best(size) else { return false };
        core.pool.clean(page);
        let slot = (place.start / size) as u32;
        self.old.push(std::mem::replace(&mut self.slots[page as usize], slot));
        self.parents.push(page / FANOUT);
        self.cached.push(place.start);
        true
    }

    /// Writes what waits in the page cache, in order, what lies side by side together.
    fn write_back(&mut self, core: &mut Core) {
        let (base, size) = (core.layout.pages.start, core.layout.page);
        self.cached.sort_unstable();
        for run in self.cached.chunk_by(|one, next| one + size == *next) {
            let (start, length) = (base + run[0], run.len() as u64 * size);
            core.out.ask(Op::Write, Extent { start, length }, PAGES);
        }
        self.cached.clear();
    }

    /// Gives back what pages left, when what took their places is on media.
    fn release(&mut self, core: &Core) {
        let size = core.layout.page;
        for slot in self.old.drain(..) {
            self.free.give(Extent { start: u64::from(slot) * size, length: size });
        }
    }

    fn checkpoint(&mut self, core: &mut Core) {
        for page in core.pool.dirty() {
            if !self.write(core, page) {
                // A checkpoint of the pages written so far frees room.
                self.write_interior(core);
                self.release(core);
                assert!(self.write(core, page), "a tenth of the room is free after a checkpoint");
            }
        }
        self.write_interior(core);
        self.release(core);
        self.covered = core.lsn;
    }

    /// Writes what is above the pages written, and flushes.
    fn write_interior(&mut self, core: &mut Core) {
        self.write_back(core);
        self.parents.sort_unstable();
        self.parents.dedup();
        let area = core.layout.second;
        // The root and the file's own block go with them.
        for _ in 0..self.parents.len() + 2 {
            let start = area.start + self.interior % (area.length / INTERIOR) * INTERIOR;
            core.out.ask(Op::Write, Extent { start, length: INTERIOR }, SECOND);
            self.interior += 1;
        }
        self.parents.clear();
        core.out.flush();
    }
}

impl PageEngine for WiredTiger {
    fn place(&self, core: &Core, page: u32) -> Extent {
        let slot = u64::from(self.slots[page as usize]);
        Extent {
            start: core.layout.pages.start + slot * core.layout.page,
            length: core.layout.page,
        }
    }

    fn commit(&mut self, core: &mut Core) {
        let piece = if core.spec.sync { 1 } else { core.out.most };
        if core.lsn < self.written + piece {
            return;
        }
        let granule = if core.spec.sync { BLOCK } else { 512 };
        append(&mut core.out, core.layout.log, self.written, core.lsn, granule);
        self.written = core.lsn;
        if core.spec.sync {
            core.out.flush();
        }
    }

    fn maintain(&mut self, core: &mut Core) {
        // The journal must not reach what the last checkpoint does not cover.
        let most = (core.layout.log.length as f64 * core.spec.checkpoint) as u64;
        if core.lsn - self.covered >= most {
            self.checkpoint(core);
        }
        loop {
            let (dirty, frames) = core.pool.fill();
            if dirty as f64 <= core.spec.dirty * frames as f64 {
                return;
            }
            let Some((page, _)) = core.pool.oldest() else { return };
            self.evict(core, page);
        }
    }

    fn evict(&mut self, core: &mut Core, page: u32) {
        if !self.write(core, page) {
            self.checkpoint(core);
        }
    }
}
