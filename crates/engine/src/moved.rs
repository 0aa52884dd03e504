//! Pages of maps that are not in memory and that a checkpoint writes elsewhere.

use std::collections::VecDeque;

use thermocline_format::{Geometry, Location, MapEntry, MapPage, PageId, Sequence, VolumeId};

use crate::device::PageBytes;

/// A page of a map that is not in memory, and where it is on media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) index: u16,
    pub(crate) volume: VolumeId,
    pub(crate) page: u64,
    pub(crate) at: MapEntry,
    /// The checkpoint that moves it.
    pub(crate) by: Sequence,
}

impl Place {
    /// Where it is.
    pub(crate) fn at(&self, geometry: &Geometry) -> Option<Location> {
        self.at.location(geometry)
    }

    /// Whether these bytes are the page.
    pub(crate) fn is_sound(&self, bytes: &PageBytes, geometry: &Geometry) -> bool {
        let id = PageId { volume: self.volume, index: self.page as u32 };
        MapPage::check(bytes.as_slice(), id, self.at, geometry).is_ok()
    }
}

/// Pages that wait to be rewritten elsewhere unchanged.
#[derive(Debug, Default)]
pub(crate) struct Moved(VecDeque<(Place, PageBytes)>);

impl Moved {
    /// A page waits to be written.
    pub(crate) fn push(&mut self, place: Place, bytes: PageBytes) {
        self.0.push_back((place, bytes));
    }

    /// The page that is written next.
    pub(crate) fn pop(&mut self) -> Option<(Place, PageBytes)> {
        self.0.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// A waiting page, as the page was read at `at`. A page that was written elsewhere since then was not read there.
    pub(crate) fn find(&self, index: u16, page: u64, at: MapEntry) -> Option<&PageBytes> {
        let same = |place: &Place| (place.index, place.page, place.at) == (index, page, at);
        self.0.iter().find(|(place, _)| same(place)).map(|(_, bytes)| bytes)
    }

    /// No page waits any more: the checkpoint is over.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use thermocline_format::{BLOCK_BYTES, LogicalBlock};
    use thermocline_types::UnitId;

    use super::*;

    #[test]
    fn what_was_read_of_a_page_that_stands_elsewhere_by_now_is_not_that_page() {
        let geometry = Geometry::new(LogicalBlock::B4096, 1 << 18, 1 << 14, [0, 1].map(UnitId));
        let geometry = geometry.expect("sound units");
        let entry = |block| MapEntry::new(&geometry, Location { unit: UnitId(9), block }, 1);
        let (was, is, by) = (entry(3), entry(7), Sequence(5));
        let mut moved = Moved::default();
        let place = Place { index: 2, volume: VolumeId(1), page: 4, at: was, by };
        let bytes: PageBytes = Box::new([7; BLOCK_BYTES]);
        moved.push(place, bytes.clone());
        assert_eq!(moved.find(2, 4, was), Some(&bytes));
        assert_eq!(moved.find(2, 4, is), None);
        moved.clear();
        assert_eq!((moved.find(2, 4, was), moved.len()), (None, 0));
    }
}
