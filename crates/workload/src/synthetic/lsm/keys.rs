//! The keys of an LSM workload: one table for defaults, listings, help and errors.

use std::fmt;

use thermocline_types::Bytes;

use crate::synthetic::Form;
use crate::synthetic::keys::{
    Amount, FS_KEYS, FsKeys, Given, Key, Keyed, amount, count, key, number, on, one_of, show, size,
    skew,
};

/// Every setting, in the order of listings. Sizes in per cent are of the volume (`--span`).
///
/// Defaults of single strategies are those of the stores they come from: size tiers, time windows and the log of
/// Cassandra 5 (`SizeTieredCompactionStrategyOptions`, `TimeWindowCompactionStrategy`, cassandra.yaml), levels and
/// memtable of RocksDB (`include/rocksdb/options.h`, `advanced_options.h`). The others are chosen, not measured.
pub const LSM_KEYS: [Key; 28] = [
    key("strategy", "tiers", "what is merged with what: tiers of size, levels, or windows of time"),
    key(
        "keys",
        "15%",
        "size of all records that can be, each once; tiers take up to five times as much",
    ),
    key(
        "skew",
        "uniform",
        "which record a write changes: uniform, or zipf:THETA (decides how much merging drops)",
    ),
    key("record", "1KiB", "size of a record, which with skew says how many there are"),
    key(
        "load",
        "0",
        "loaded before the first write, in key order and without the log; at most keys (not for windows)",
    ),
    key("memtable", "64MiB", "written between two flushes"),
    key("log", "on", "whether writes go to a commit log first"),
    key("log.segment", "32MiB", "size of a file of the log; deleted when what it holds is flushed"),
    key("compactors", "4", "merges at once, at most"),
    key("pace", "4", "bytes that merges write for each byte written to the store, at most"),
    key("reads", "off", "whether merges read what they merge"),
    key("tier.tables", "4", "tiers: tables of about one size that are merged, at least"),
    key("tier.most", "32", "tiers: the same, at most"),
    key("tier.small", "50MiB", "tiers: tables below are of one size"),
    key("level.tables", "4", "levels: flushed tables that are merged into the first level"),
    key("level.stop", "36", "levels: flushed tables at which writes wait for merges"),
    key("level.base", "256MiB", "levels: size of the first level"),
    key("level.factor", "10", "levels: how many times as large the next one is"),
    key("level.table", "64MiB", "levels: size of a table"),
    key("window", "2%", "windows: written to the store in one window"),
    key("ttl", "30%", "windows: written to the store until a table is deleted whole"),
    FS_KEYS[0],
    FS_KEYS[1],
    FS_KEYS[2],
    FS_KEYS[3],
    FS_KEYS[4],
    FS_KEYS[5],
    FS_KEYS[6],
];

/// Selection of the tables to merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Tables of about the same size (Cassandra's size-tiered compaction, RocksDB's universal).
    #[default]
    Tiers,
    /// A table with what overlaps it in the next level, which is several times as large (LevelDB, RocksDB's default).
    Levels,
    /// Tables of one window of time; old tables are deleted whole (Cassandra's time-window compaction).
    Windows,
}

/// An LSM store on a file system, as the keys of [`LSM_KEYS`] say.
#[derive(Clone, Debug, PartialEq)]
pub struct LsmSpec {
    pub(super) strategy: Strategy,
    pub(super) keys: Amount,
    /// Exponent of Zipf's law; 0 is uniform.
    pub(super) theta: f64,
    pub(super) record: Bytes,
    pub(super) load: Amount,
    pub(super) memtable: Amount,
    pub(super) log: bool,
    pub(super) log_segment: Bytes,
    pub(super) compactors: usize,
    pub(super) pace: f64,
    pub(super) reads: bool,
    pub(super) tier_tables: usize,
    pub(super) tier_most: usize,
    pub(super) tier_small: Bytes,
    pub(super) level_tables: usize,
    pub(super) level_stop: usize,
    pub(super) level_base: Bytes,
    pub(super) level_factor: f64,
    pub(super) level_table: Bytes,
    pub(super) window: Amount,
    pub(super) ttl: Amount,
    pub(super) fs: FsKeys,
    given: Given,
}

impl Default for LsmSpec {
    fn default() -> Self {
        LsmSpec::new()
    }
}

impl LsmSpec {
    /// The granule of its files.
    pub(in crate::synthetic) fn block(&self) -> Bytes {
        self.fs.block
    }
}

impl Keyed for LsmSpec {
    const FORM: Form = super::LSM_FORM;
    const KEYS: &'static [Key] = &LSM_KEYS;

    fn blank() -> LsmSpec {
        LsmSpec {
            strategy: Strategy::default(),
            keys: Amount::default(),
            theta: 0.0,
            record: Bytes::ZERO,
            load: Amount::default(),
            memtable: Amount::default(),
            log: false,
            log_segment: Bytes::ZERO,
            compactors: 0,
            pace: 0.0,
            reads: false,
            tier_tables: 0,
            tier_most: 0,
            tier_small: Bytes::ZERO,
            level_tables: 0,
            level_stop: 0,
            level_base: Bytes::ZERO,
            level_factor: 0.0,
            level_table: Bytes::ZERO,
            window: Amount::default(),
            ttl: Amount::default(),
            fs: FsKeys::default(),
            given: Given::new(),
        }
    }

    fn change(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "strategy" => self.strategy = one_of(value, &STRATEGIES)?,
            "keys" => self.keys = amount(value)?,
            "skew" => self.theta = skew(value)?,
            "record" => self.record = size(value, 1)?,
            "load" => self.load = amount(value)?,
            "memtable" => self.memtable = amount(value)?,
            "log" => self.log = on(value)?,
            "log.segment" => self.log_segment = size(value, 4096)?,
            "compactors" => self.compactors = count(value, 1)?,
            "pace" => self.pace = number(value, "above 0", |x| x > 0.0)?,
            "reads" => self.reads = on(value)?,
            "tier.tables" => self.tier_tables = count(value, 2)?,
            "tier.most" => self.tier_most = count(value, 2)?,
            "tier.small" => self.tier_small = size(value, 0)?,
            "level.tables" => self.level_tables = count(value, 1)?,
            "level.stop" => self.level_stop = count(value, 1)?,
            "level.base" => self.level_base = size(value, 4096)?,
            "level.factor" => self.level_factor = number(value, "above 1", |x| x > 1.0)?,
            "level.table" => self.level_table = size(value, 4096)?,
            "window" => self.window = amount(value)?,
            "ttl" => self.ttl = amount(value)?,
            _ => self.fs.change(name, value)?,
        }
        Ok(())
    }

    fn given(&mut self) -> &mut Given {
        &mut self.given
    }
}

impl fmt::Display for LsmSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(Self::name(), &self.given, f)
    }
}

/// Every strategy by its name.
const STRATEGIES: [(&str, Strategy); 3] =
    [("tiers", Strategy::Tiers), ("levels", Strategy::Levels), ("windows", Strategy::Windows)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_taken_and_reads_back() {
        crate::synthetic::keys::tests::keys_are_taken_and_read_back::<LsmSpec>();
    }

    #[test]
    fn a_table_says_the_same() {
        let table = "strategy = 'levels'\nkeys = '30%'\nlog.segment = '1MiB'\npace = 2.5\n[fs]\ndiscard = false";
        let spec = LsmSpec::from_table(&table.parse().expect("TOML")).expect("valid");
        let mut settings = spec.given.clone();
        settings.sort();
        let text = "fs.discard=off,keys=30%,log.segment=1MiB,pace=2.5,strategy=levels";
        let same: Vec<String> =
            settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(same.join(","), text);
    }

    #[test]
    fn errors_name_the_key_and_what_would_be_right() {
        for (text, part) in [
            (
                "lsm:fs.extnt=1MiB",
                "lsm fs.extnt is `1MiB`: there is no such key; there are strategy, keys",
            ),
            ("lsm:fs.extent=512", "lsm fs.extent is `512`: must be at least 4 KiB"),
            (
                "lsm:strategy=tired",
                "lsm strategy is `tired`: must be one of tiers, levels, windows",
            ),
            ("lsm:skew=zipf", "must be uniform or zipf:THETA"),
            ("lsm:skew=zipf:-1", "THETA 0 or above"),
            ("lsm:keys=many", "`many` is not a size"),
            ("lsm:pace=0", "lsm pace is `0`: must be above 0"),
            ("lsm:compactors=0", "from 1 to 65536"),
            ("lsm:fs.allocator=best", "must be one of first, next, roam"),
            ("lsm:fs.discard=yes", "must be on or off"),
            ("lsm:load", "`load` is no KEY=VALUE; write lsm[:KEY=VALUE"),
        ] {
            let error = LsmSpec::read(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
