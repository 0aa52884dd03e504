//! Memory for pages of maps: the limits of each user, the eviction, and the way out when no page can be evicted.
//!
//! A hand goes around all pages in memory, as in the clock algorithm of Corbato (1968): a page used since the hand came
//! by stays for another round. An evicted page keeps its changes in a patch (ADR 0028), which takes memory of the same
//! budget.
//!
//! Invariants:
//! * A checkpoint reads the pages of patches into memory outside the budget, 64 at a time, and makes patches needless.
//!   A checkpoint is therefore always a way to get memory.
//! * Hosts leave pages to trims and scrubs. Trims and scrubs leave pages to garbage collection, without which staged
//!   blocks may find no room.
//! * A request that waits for memory keeps no page in memory.
//! * An emptied page needs no memory. The page still counts until a flushed record no longer leads to the page: an
//!   opening has to read the old page. An opening thus needs at most as many pages again, as long as trims of
//!   unmapped blocks touch few pages: an opening takes 120 bytes for each page in which the tail unmaps blocks. A page
//!   of which the tail says every entry takes 5.4 KB there.

use thermocline_format::Volume;

use crate::config::Config;
use crate::map::{FRAME_BYTES, VolumeMap};

/// Pages beside garbage collection's with which all work can go on. A trim, a scrub, a search and a lost device need
/// one page each, and hosts leave as many again. A request needs two, since its blocks may span two pages.
const BESIDE: u64 = 10;

/// Users of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// Reads of hosts.
    Read,
    /// Writes of hosts: they need memory also for pages without mapped blocks.
    Write,
    /// Trims and scrubs.
    Upkeep,
    /// Garbage collection.
    Collection,
}

/// Whether there is memory for pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Yes,
    /// The hand has not come around: ask again.
    Later,
    /// Not before something becomes durable, or goes.
    No,
}

impl Config {
    /// Least memory for maps that a pool with volumes of these sizes in blocks needs: roots and leaves, and a few
    /// pages.
    #[must_use]
    pub fn least_map_memory(&self, volumes: impl IntoIterator<Item = u64>) -> u64 {
        let fixed: u64 = volumes.into_iter().map(VolumeMap::memory_for).sum();
        fixed + self.least_pages() * FRAME_BYTES
    }

    /// Pages of maps with which everything goes on.
    pub(crate) fn least_pages(&self) -> u64 {
        u64::from(self.gc.pages) + BESIDE
    }

    /// Memory that the maps of volumes of these sizes in blocks take when every page of them is loaded.
    #[must_use]
    pub fn whole_map_memory(&self, volumes: impl IntoIterator<Item = u64>) -> u64 {
        let whole = |blocks: u64| {
            let pages = blocks.div_ceil(crate::map::PAGE).max(Volume::roots_for(blocks) as u64);
            VolumeMap::memory_for(blocks) + pages * FRAME_BYTES
        };
        volumes.into_iter().map(whole).sum()
    }
}

#[cfg(test)]
mod tests {
    use thermocline_format::{Geometry, LogicalBlock};
    use thermocline_types::UnitId;

    use super::*;
    use crate::map::PAGE;

    #[test]
    fn a_whole_map_takes_a_frame_for_each_page() {
        let units = [UnitId(0), UnitId(1)];
        let geometry = Geometry::new(LogicalBlock::B4096, 1 << 10, 1 << 10, units);
        let config = Config::new(geometry.expect("a geometry that works"));
        for pages in [1, 3, 400] {
            let blocks = pages * PAGE;
            let whole = config.whole_map_memory([blocks, blocks]);
            assert_eq!(whole, 2 * (VolumeMap::memory_for(blocks) + pages * FRAME_BYTES));
        }
    }
}
