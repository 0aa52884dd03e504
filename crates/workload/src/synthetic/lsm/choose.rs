//! What is merged next: one pure function for each strategy.

use super::Sizes;
use super::keys::{LsmSpec, Strategy};
use super::table::SortedTable;

/// Tables between half and one and a half times the mean of a bucket belong to it (`bucket_low` and `bucket_high` of
/// Cassandra's `SizeTieredCompactionStrategyOptions`).
const BUCKET: [f64; 2] = [0.5, 1.5];

/// Levels below the first, as RocksDB's `num_levels` 7 less that of flushed tables.
pub(super) const LEVELS: u32 = 6;

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Merge these tables into tables of at most `most` bytes on `level`.
    Merge { inputs: Vec<u64>, level: u32, most: u64 },
    /// Nothing of the next level overlaps the table: the table moves down unchanged.
    Move { table: u64, level: u32 },
}

/// The input of a choice.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub spec: &'a LsmSpec,
    pub sizes: &'a Sizes,
    pub tables: &'a [SortedTable],
    /// Where in the keys each level was merged last.
    pub cursors: &'a [f64],
    /// Bytes written to the store.
    pub ingested: u64,
}

impl View<'_> {
    /// The next merge or move, if any.
    pub fn choose(&self) -> Option<Choice> {
        match self.spec.strategy {
            Strategy::Tiers => self.tier(&self.idle(|_| true)),
            Strategy::Levels => self.level(),
            Strategy::Windows => self.window(),
        }
    }

    /// Tables that match `are` and take part in no merge.
    fn idle(&self, are: impl Fn(&SortedTable) -> bool) -> Vec<&SortedTable> {
        self.tables.iter().filter(|table| !table.busy && are(table)).collect()
    }

    /// The bucket of the smallest tables that are enough to merge.
    fn tier(&self, tables: &[&SortedTable]) -> Option<Choice> {
        let mut tables = tables.to_vec();
        tables.sort_by_key(|table| (table.bytes(), table.id));
        let small = self.spec.tier_small.0;
        let mut bucket: Vec<&SortedTable> = Vec::new();
        for table in tables.into_iter().map(Some).chain([None]) {
            let sum: u64 = bucket.iter().map(|table| table.bytes()).sum();
            let mean = sum as f64 / bucket.len().max(1) as f64;
            let joins = table.filter(|table| {
                let bytes = table.bytes() as f64;
                let alike = (BUCKET[0] * mean..=BUCKET[1] * mean).contains(&bytes);
                bucket.is_empty() || alike || (table.bytes() < small && mean < small as f64)
            });
            if let Some(table) = joins {
                bucket.push(table);
                continue;
            }
            if bucket.len() >= self.spec.tier_tables {
                return Some(merge_all(&bucket, self.spec.tier_most));
            }
            bucket.clear();
            bucket.extend(table);
        }
        None
    }

    /// Flushed tables into the first level when there are enough; else of the level that is fullest for its size, the
    /// table after the one merged last.
    fn level(&self) -> Option<Choice> {
        let flushed = self.idle(|table| table.level == 0);
        let mut scores = vec![(flushed.len() as f64 / self.spec.level_tables as f64, 0)];
        for level in 1..LEVELS {
            let bytes: u64 =
                self.idle(|table| table.level == level).iter().map(|t| t.bytes()).sum();
            scores.push((bytes as f64 / self.spec.level_target(level), level));
        }
        scores.sort_by(|a, b| b.0.total_cmp(&a.0));
        let due = scores.into_iter().filter(
            |(score, level)| {
                if *level == 0 { *score >= 1.0 } else { *score > 1.0 }
            },
        );
        due.into_iter().find_map(|(_, level)| match level {
            0 => self.first_level(&flushed),
            _ => self.next_level(level),
        })
    }

    fn first_level(&self, flushed: &[&SortedTable]) -> Option<Choice> {
        let blocks = |table: &SortedTable| table.busy && table.level <= 1;
        if self.tables.iter().any(blocks) {
            return None;
        }
        let below = self.idle(|table| table.level == 1);
        let inputs = flushed.iter().chain(&below).map(|table| table.id).collect();
        Some(Choice::Merge { inputs, level: 1, most: self.spec.level_table.0 })
    }

    fn next_level(&self, level: u32) -> Option<Choice> {
        let mut candidates = self.idle(|table| table.level == level);
        let begins = |table: &SortedTable| table.content.keys.start;
        candidates.sort_by(|a, b| begins(a).total_cmp(&begins(b)));
        let cursor = self.cursors[level as usize];
        let first = candidates.partition_point(|table| begins(table) < cursor);
        candidates.rotate_left(first);
        candidates.into_iter().find_map(|table| {
            let overlaps = |other: &&SortedTable| {
                other.level == level + 1 && other.content.overlaps(&table.content)
            };
            let below: Vec<&SortedTable> = self.tables.iter().filter(overlaps).collect();
            if below.iter().any(|table| table.busy) {
                return None;
            }
            if below.is_empty() {
                return Some(Choice::Move { table: table.id, level: level + 1 });
            }
            let inputs = std::iter::once(table.id).chain(below.iter().map(|table| table.id));
            let most = self.spec.level_table.0;
            Some(Choice::Merge { inputs: inputs.collect(), level: level + 1, most })
        })
    }

    /// Tiers in the window that is written; all of one that is over, the youngest first.
    fn window(&self) -> Option<Choice> {
        let of = |table: &SortedTable| self.sizes.window_of(table.newest);
        let present = self.sizes.window_of(self.ingested);
        let mut windows: Vec<u64> = self.tables.iter().map(of).collect();
        windows.sort_unstable_by(|a, b| b.cmp(a));
        windows.dedup();
        windows.into_iter().find_map(|window| {
            let idle = self.idle(|table| of(table) == window);
            if window == present {
                return self.tier(&idle);
            }
            let busy = self.tables.iter().any(|table| table.busy && of(table) == window);
            (idle.len() > 1 && !busy).then(|| merge_all(&idle, self.spec.tier_most))
        })
    }
}

/// The first `most` of `tables` into one.
fn merge_all(tables: &[&SortedTable], most: usize) -> Choice {
    let tables = &tables[..tables.len().min(most)];
    let level = tables.iter().map(|table| table.level).max().unwrap_or(0) + 1;
    let inputs = tables.iter().map(|table| table.id).collect();
    Choice::Merge { inputs, level, most: u64::MAX }
}
