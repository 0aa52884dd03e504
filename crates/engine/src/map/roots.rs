//! Root pages, which lead to the pages of a map.

use thermocline_format::{MapEntry, MapPage};

use super::VolumeMap;

impl VolumeMap {
    /// How many roots there are.
    pub(crate) fn roots(&self) -> usize {
        self.roots.len()
    }

    /// The place of a root page on media; `None` if the map has no root of this number.
    pub(crate) fn root_at(&self, root: usize) -> Option<MapEntry> {
        self.roots.get(root).map(|root| root.at)
    }

    /// Where all root pages are on media.
    pub(crate) fn roots_at(&self) -> impl Iterator<Item = MapEntry> {
        self.roots.iter().map(|root| root.at)
    }

    /// Whether a root differs from its page on media.
    pub(crate) fn has_root_changed(&self, root: usize) -> bool {
        self.roots[root].changed
    }

    /// The new content of a root page.
    pub(crate) fn root_page(&self, root: usize) -> MapPage {
        MapPage(self.roots[root].pages())
    }

    /// A root page is written to `at`, as it is now. Returns where it was.
    pub(crate) fn move_root(&mut self, root: usize, at: MapEntry) -> MapEntry {
        let root = &mut self.roots[root];
        root.changed = false;
        std::mem::replace(&mut root.at, at)
    }

    /// A root page must be written again.
    pub(crate) fn change_root(&mut self, root: usize) {
        self.roots[root].changed = true;
    }

    /// Takes the places of the root pages from a record.
    pub(crate) fn adopt_roots(&mut self, at: &[MapEntry]) {
        for (root, at) in self.roots.iter_mut().zip(at) {
            root.at = *at;
        }
    }

    /// Roots from `first` on lead nowhere any more. Returns where their pages were.
    pub(crate) fn cut_roots(&mut self, first: usize) -> Vec<MapEntry> {
        let cut = self.roots.iter_mut().skip(first);
        cut.map(|root| std::mem::replace(&mut root.at, MapEntry::UNMAPPED)).collect()
    }
}

#[cfg(test)]
mod tests {
    use thermocline_format::{Geometry, Location, LogicalBlock, VolumeId, VolumeName};
    use thermocline_types::UnitId;

    use super::*;
    use crate::map::{Addresses, PAGE};

    #[test]
    fn a_root_changes_with_its_pages_until_it_is_written() {
        let geometry = Geometry::new(LogicalBlock::B4096, 512, 300, [UnitId(0), UnitId(1)]);
        let geometry = geometry.expect("a geometry");
        let entry = |block| MapEntry::new(&geometry, Location { unit: UnitId(9), block }, 7);
        let (name, addresses) = (VolumeName::new("v").expect("a name"), Addresses::new(&geometry));
        let mut map = VolumeMap::new(VolumeId(1), name, 2 * PAGE * PAGE, 0, addresses);
        map.adopt_roots(&[entry(1), entry(2)]);
        assert_eq!((map.roots(), map.root_at(1), map.root_at(2)), (2, Some(entry(2)), None));
        map.move_page(PAGE + 3, entry(8));
        assert!(map.has_root_changed(1) && !map.has_root_changed(0));
        assert_eq!(map.root_page(1).0[3], entry(8));
        assert_eq!((map.move_root(1, entry(5)), map.has_root_changed(1)), (entry(2), false));
        map.change_root(1);
        assert!(map.has_root_changed(1), "its write failed");
        assert_eq!(map.cut_roots(1), [entry(5)]);
        assert_eq!(map.roots_at().collect::<Vec<_>>(), [entry(1), MapEntry::UNMAPPED]);
    }
}
