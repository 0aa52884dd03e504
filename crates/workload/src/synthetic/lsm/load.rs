//! Loading: the first tables, in key order and without the log.

use super::Sizes;
use super::choose::LEVELS;
use super::keys::{LsmSpec, Strategy};
use super::keyspace::KeySpace;
use super::table::Content;

/// The tables that loading makes, and their level.
#[derive(Debug)]
pub(super) struct Loading {
    pub tables: std::vec::IntoIter<Content>,
    pub level: u32,
}

impl Loading {
    /// A single table of all loaded data; under levels, tables of the usual size on the first level with enough room.
    pub fn new(spec: &LsmSpec, sizes: &Sizes, space: &KeySpace) -> Loading {
        let share = sizes.load as f64 / sizes.keys as f64;
        if sizes.load == 0 {
            return Loading { tables: Vec::new().into_iter(), level: 0 };
        }
        if spec.strategy != Strategy::Levels {
            let all = Content::new(0.0..1.0, 0.0, share, space);
            return Loading { tables: vec![all].into_iter(), level: 1 };
        }
        let fits = |level: &u32| spec.level_target(*level) >= sizes.load as f64;
        let level = (1..LEVELS).find(fits).unwrap_or(LEVELS);
        let count = sizes.load.div_ceil(spec.level_table.0).max(1);
        let bound = |index: u64| index as f64 / count as f64;
        let table = |index| Content::new(bound(index)..bound(index + 1), 0.0, share, space);
        let tables: Vec<Content> = (0..count).map(table).collect();
        Loading { tables: tables.into_iter(), level }
    }
}
