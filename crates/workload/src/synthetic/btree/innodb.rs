//! Pages in place, by a double write buffer.

use std::ops::RangeInclusive;

use thermocline_types::Op;

use super::{BATCH, Core, LOG, Layout, Out, PAGES, PageEngine, SECOND, UNDO};
use crate::filesystem::Extent;

/// Share of the log that the oldest change may be behind (MySQL 8.0, `log_free_check`: 7/8 of the capacity).
const AGE: f64 = 0.875;
/// Granule of the log.
const SECTOR: u64 = 512;
/// Pages among which neighbours are looked for (an extent of 1 MiB in pages of 16 KiB, MySQL 8.0).
const EXTENT: u32 = 64;

/// The engine's own state.
#[derive(Debug)]
pub(super) struct InnoDb {
    /// What is on media of the log.
    written: u64,
    /// Bytes of undo so far, and undo pages written.
    undo: u64,
    undo_written: u64,
    /// The half of the double write buffer that is next.
    half: u64,
    /// Pages that were made by a load and are not written yet.
    fresh: Vec<bool>,
}

impl InnoDb {
    pub fn new(layout: &Layout) -> InnoDb {
        let fresh = vec![false; layout.count as usize];
        InnoDb { written: 0, undo: 0, undo_written: 0, half: 0, fresh }
    }

    /// Writes a batch of pages twice.
    fn write(&mut self, core: &mut Core, pages: &[u32]) {
        let (layout, mut places) = (core.layout, Vec::with_capacity(BATCH));
        let mut once = 0;
        for &page in pages {
            once += u64::from(std::mem::take(&mut self.fresh[page as usize]));
            core.pool.clean(page);
            places.push((self.place(core, page), PAGES));
        }
        // Undo pages that are complete go with the oldest others.
        let slots = layout.undo.length / layout.page;
        while slots > 0 && places.len() < BATCH && self.undo_written < self.undo / layout.page {
            let start = layout.undo.start + self.undo_written % slots * layout.page;
            places.push((Extent { start, length: layout.page }, UNDO));
            self.undo_written += 1;
        }
        if places.is_empty() {
            return;
        }
        // The log of what is in a page is on media before the page is.
        self.commit(core);
        let start = layout.second.start + self.half * BATCH as u64 * layout.page;
        let length = (places.len() as u64 - once) * layout.page;
        if length > 0 {
            self.half ^= 1;
            core.out.ask(Op::Write, Extent { start, length }, SECOND);
            core.out.flush();
        }
        places.sort_unstable_by_key(|(place, _)| place.start);
        places.iter().for_each(|&(place, directory)| core.out.ask(Op::Write, place, directory));
        core.out.flush();
    }

    /// The oldest dirty pages, which are to be written now, with their neighbours: `most` at most.
    fn oldest(core: &mut Core, most: usize) -> Vec<u32> {
        let mut pages = Vec::with_capacity(most);
        while pages.len() < most {
            let Some((page, _)) = core.pool.oldest() else { break };
            let around = if core.spec.neighbours { dirty_around(core, page) } else { page..=page };
            for page in around.take(most - pages.len()) {
                core.pool.clean(page);
                pages.push(page);
            }
        }
        pages
    }
}

/// The dirty pages that lie side by side with a dirty `page`, of the [`EXTENT`] that it is in.
pub(super) fn dirty_around(core: &Core, page: u32) -> RangeInclusive<u32> {
    let first = page / EXTENT * EXTENT;
    let end = (first + EXTENT).min(core.layout.count as u32);
    let is_dirty = |page: &u32| core.pool.is_dirty(*page);
    let start = (first..page).rev().take_while(is_dirty).last().unwrap_or(page);
    start..=(page + 1..end).take_while(is_dirty).last().unwrap_or(page)
}

/// Writes `from..to` of a circular log, in granules of `granule` bytes.
pub(super) fn append(out: &mut Out, log: Extent, from: u64, to: u64, granule: u64) {
    let (mut at, end) = (from / granule * granule, to.next_multiple_of(granule));
    let round = log.length / granule * granule;
    while at < end {
        let start = at % round;
        let length = (end - at).min(round - start);
        out.ask(Op::Write, Extent { start: log.start + start, length }, LOG);
        at += length;
    }
}

impl PageEngine for InnoDb {
    fn place(&self, core: &Core, page: u32) -> Extent {
        let page_size = core.layout.page;
        let start = core.layout.pages.start + u64::from(page) * page_size;
        Extent { start, length: page_size }
    }

    fn loaded(&mut self, page: u32) {
        self.fresh[page as usize] = true;
    }

    fn changed(&mut self, core: &mut Core) {
        self.undo += core.spec.undo_record.0;
    }

    fn commit(&mut self, core: &mut Core) {
        let piece = if core.spec.sync { 1 } else { core.out.most };
        if core.lsn < self.written + piece {
            return;
        }
        append(&mut core.out, core.layout.log, self.written, core.lsn, SECTOR);
        self.written = core.lsn;
        if core.spec.sync {
            core.out.flush();
        }
    }

    fn maintain(&mut self, core: &mut Core) {
        let age = (core.layout.log.length as f64 * AGE) as u64;
        loop {
            let (dirty, frames) = core.pool.fill();
            let too_old = core.pool.oldest().is_some_and(|(_, since)| since + age <= core.lsn);
            let too_many = dirty as f64 > core.spec.dirty * frames as f64;
            if !too_old && !too_many {
                break;
            }
            let pages = InnoDb::oldest(core, BATCH);
            self.write(core, &pages);
        }
        // Undo that waits for no page: its space is used round and round, in time with the log.
        if (self.undo / core.layout.page).saturating_sub(self.undo_written) >= BATCH as u64 {
            self.write(core, &[]);
        }
    }

    fn evict(&mut self, core: &mut Core, page: u32) {
        let mut pages = InnoDb::oldest(core, BATCH - 1);
        if !pages.contains(&page) {
            pages.push(page);
        }
        self.write(core, &pages);
    }
}
