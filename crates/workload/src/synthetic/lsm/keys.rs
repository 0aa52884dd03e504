//! The keys of an LSM workload: one table for defaults, listings, help and errors.

use std::fmt;
use std::str::FromStr;

use thermocline_types::Bytes;

use crate::filesystem::Allocator;
use crate::synthetic::Error;

/// A setting of an LSM workload.
#[derive(Clone, Copy, Debug)]
pub struct LsmKey {
    /// How it is written.
    pub name: &'static str,
    /// Its value where none is given.
    pub default: &'static str,
    /// What it does.
    pub about: &'static str,
}

const fn key(name: &'static str, default: &'static str, about: &'static str) -> LsmKey {
    LsmKey { name, default, about }
}

/// Every setting, in the order of listings. Sizes in per cent are of the volume (`--span`).
///
/// Defaults of single strategies are those of the stores they come from: size tiers, time windows and the log of
/// Cassandra 5 (`SizeTieredCompactionStrategyOptions`, `TimeWindowCompactionStrategy`, cassandra.yaml), levels and
/// memtable of RocksDB (`include/rocksdb/options.h`, `advanced_options.h`). The others are chosen, not measured.
pub const LSM_KEYS: [LsmKey; 28] = [
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
    key(
        "fs.allocator",
        "next",
        "where a file looks for room: first, next (where any file ended), or roam (where it ended itself)",
    ),
    key("fs.extent", "1MiB", "room that a file takes at a time"),
    key("fs.turn", "1MiB", "written by one file until another has its turn"),
    key("fs.block", "4KiB", "granule of files"),
    key(
        "fs.metadata",
        "0",
        "share of the bytes written that are nodes of metadata, copied on write, 0 to 0.5",
    ),
    key(
        "fs.node",
        "16KiB",
        "size of such a node; 1 % of the volume, and 64 nodes at least, is set aside for them",
    ),
    key("fs.discard", "on", "whether deleted files are discarded"),
];

/// What is merged with what.
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

/// A size in bytes, or per cent of the volume.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// So many bytes.
    Bytes(Bytes),
    /// Per cent of the volume.
    Percent(f64),
}

impl Default for Amount {
    fn default() -> Self {
        Amount::Bytes(Bytes::ZERO)
    }
}

impl Amount {
    /// In bytes on a `volume`, rounded to the nearest.
    #[must_use]
    pub fn of(self, volume: Bytes) -> Bytes {
        match self {
            Amount::Bytes(bytes) => bytes,
            Amount::Percent(percent) => Bytes((volume.as_f64() * percent / 100.0).round() as u64),
        }
    }
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
    pub(super) allocator: Allocator,
    pub(super) extent: Bytes,
    pub(super) turn: Bytes,
    pub(super) block: Bytes,
    pub(super) metadata: f64,
    pub(super) node: Bytes,
    pub(super) discard: bool,
    /// What was set, as given.
    given: Vec<(String, String)>,
}

impl Default for LsmSpec {
    fn default() -> Self {
        let mut spec = LsmSpec {
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
            allocator: Allocator::default(),
            extent: Bytes::ZERO,
            turn: Bytes::ZERO,
            block: Bytes::ZERO,
            metadata: 0.0,
            node: Bytes::ZERO,
            discard: false,
            given: Vec::new(),
        };
        for key in LSM_KEYS {
            spec.change(key.name, key.default).expect("the defaults are valid");
        }
        spec
    }
}

impl LsmSpec {
    /// Sets `name`, one of [`LSM_KEYS`], to `value`.
    ///
    /// # Errors
    /// [`Error::Key`] that names the key and says what would be right.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let (name, value) = (name.trim(), value.trim().trim_matches('"'));
        self.change(name, value).map_err(|what| Error::Key {
            key: format!("lsm {name}"),
            value: value.to_owned(),
            what,
        })?;
        self.given.retain(|(other, _)| other != name);
        self.given.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    fn change(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "strategy" => self.strategy = strategy(value)?,
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
            "fs.allocator" => self.allocator = value.parse()?,
            "fs.extent" => self.extent = size(value, 4096)?,
            "fs.turn" => self.turn = size(value, 4096)?,
            "fs.block" => self.block = size(value, 512)?,
            "fs.metadata" => {
                self.metadata = number(value, "0 to 0.5", |x| (0.0..=0.5).contains(&x))?;
            }
            "fs.node" => self.node = size(value, 512)?,
            "fs.discard" => self.discard = on(value)?,
            _ => {
                let names: Vec<&str> = LSM_KEYS.iter().map(|key| key.name).collect();
                return Err(format!("there is no such key; there are {}", names.join(", ")));
            }
        }
        Ok(())
    }

    /// Reads the keys of a TOML table, in which `fs.extent` is `extent` of the table `fs`.
    ///
    /// # Errors
    /// As [`LsmSpec::set`].
    pub fn from_table(table: &toml::Table) -> Result<LsmSpec, Error> {
        let mut spec = LsmSpec::default();
        spec.set_all("", table)?;
        Ok(spec)
    }

    fn set_all(&mut self, prefix: &str, table: &toml::Table) -> Result<(), Error> {
        for (name, value) in table {
            match value {
                toml::Value::Table(inner) => self.set_all(&format!("{prefix}{name}."), inner)?,
                toml::Value::String(text) => self.set(&format!("{prefix}{name}"), text)?,
                toml::Value::Boolean(is) => {
                    self.set(&format!("{prefix}{name}"), if *is { "on" } else { "off" })?;
                }
                other => self.set(&format!("{prefix}{name}"), &other.to_string())?,
            }
        }
        Ok(())
    }
}

/// Reads `lsm` or `lsm:KEY=VALUE,...`.
impl FromStr for LsmSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut spec = LsmSpec::default();
        let Some((_, settings)) = text.trim().split_once(':') else { return Ok(spec) };
        for setting in settings.split(',').filter(|setting| !setting.trim().is_empty()) {
            let Some((name, value)) = setting.split_once('=') else {
                return Err(Error::Parameter {
                    text: text.to_owned(),
                    what: format!("`{setting}` is no KEY=VALUE"),
                    syntax: super::LSM_FORM.syntax,
                });
            };
            spec.set(name, value)?;
        }
        Ok(spec)
    }
}

/// The canonical text, which reads back as the same workload: what was set, in that order.
impl fmt::Display for LsmSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("lsm")?;
        for (index, (name, value)) in self.given.iter().enumerate() {
            write!(f, "{}{name}={value}", if index == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

fn strategy(text: &str) -> Result<Strategy, String> {
    match text {
        "tiers" => Ok(Strategy::Tiers),
        "levels" => Ok(Strategy::Levels),
        "windows" => Ok(Strategy::Windows),
        _ => Err("must be one of tiers, levels, windows".to_owned()),
    }
}

fn skew(text: &str) -> Result<f64, String> {
    match text.split_once(':') {
        None if text == "uniform" => Ok(0.0),
        Some(("zipf", theta)) => {
            number(theta, "uniform or zipf:THETA, THETA 0 or above", |x| x >= 0.0)
        }
        _ => Err("must be uniform or zipf:THETA".to_owned()),
    }
}

fn amount(text: &str) -> Result<Amount, String> {
    match text.strip_suffix('%') {
        Some(percent) => number(percent, "0 % or above", |x| x >= 0.0).map(Amount::Percent),
        None => size(text, 0).map(Amount::Bytes),
    }
}

fn size(text: &str, least: u64) -> Result<Bytes, String> {
    let bytes: Bytes =
        text.parse().map_err(|error: thermocline_types::ParseBytesError| error.to_string())?;
    if bytes.0 < least { Err(format!("must be at least {}", Bytes(least))) } else { Ok(bytes) }
}

fn number(text: &str, range: &str, valid: impl Fn(f64) -> bool) -> Result<f64, String> {
    let found = text.trim().parse().ok().filter(|value: &f64| value.is_finite() && valid(*value));
    found.ok_or_else(|| format!("must be {range}"))
}

fn count(text: &str, least: usize) -> Result<usize, String> {
    let found = text.parse().ok().filter(|count| (least..=65_536).contains(count));
    found.ok_or_else(|| format!("must be a number from {least} to 65536"))
}

fn on(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("must be on or off".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value of `key` that is not its default.
    fn other(key: &LsmKey) -> &'static str {
        match key.default {
            "on" => "off",
            "off" => "on",
            "tiers" => "levels",
            "uniform" => "zipf:0.9",
            "next" => "roam",
            "0" if key.name == "fs.metadata" => "0.25",
            text if text.bytes().all(|byte| byte.is_ascii_digit()) => "7",
            _ => "3MiB",
        }
    }

    #[test]
    fn every_key_is_taken_and_reads_back() {
        let mut all = LsmSpec::default();
        for key in &LSM_KEYS {
            let before = all.clone();
            all.change(key.name, other(key)).expect(key.name);
            assert_ne!(all, before, "{}", key.name);
            let text = format!("lsm:{}={}", key.name, other(key));
            let spec: LsmSpec = text.parse().expect("valid");
            assert_eq!(spec.to_string(), text);
            assert!(!key.about.is_empty());
        }
        assert_eq!("lsm".parse::<LsmSpec>().expect("valid"), LsmSpec::default());
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
            let error = text.parse::<LsmSpec>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
