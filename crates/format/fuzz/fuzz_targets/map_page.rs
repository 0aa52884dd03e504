//! A map page from arbitrary bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline_format::{
    BLOCK_BYTES, Geometry, Location, LogicalBlock, MapEntry, MapPage, PageId, VolumeId, crc32c,
};
use thermocline_types::UnitId;

fuzz_target!(|bytes: &[u8]| {
    let units = [UnitId(0), UnitId(1)];
    // The largest pool, so that most entries are possible, and a small one.
    for (per_unit, count) in [((1 << 18) - 1, 1 << 18), (2000, 20)] {
        let geometry = Geometry::new(LogicalBlock::B512, per_unit, count, units);
        let geometry = geometry.expect("a valid geometry");
        let page = PageId { volume: VolumeId(1), index: 0 };
        // Repeated to a whole page, under the tag that it then has.
        let full: Vec<u8> = bytes.iter().copied().cycle().take(BLOCK_BYTES).collect();
        for bytes in [bytes, &full] {
            let parent = MapEntry::new(&geometry, Location::new(2, 0), crc32c(bytes));
            if let Ok(decoded) = MapPage::decode(bytes, page, parent, &geometry) {
                assert_eq!(decoded.encode(), bytes);
                let places = decoded.0.iter().filter_map(|entry| entry.location(&geometry));
                places.for_each(|at| assert!(geometry.can_hold_block(at)));
            }
        }
    }
});
