//! A log-structured merge store on a file system: Cassandra- or RocksDB-like, of any size, in seconds.
//!
//! What is written to the store goes to a log and into a memtable; full memtables are flushed to sorted tables; tables
//! are merged by one of three strategies, several at once, in turns with log and flushes; files that are not needed any
//! more are deleted. The file system beneath decides where each file lies ([`crate::filesystem`]).
//!
//! It does not keep records: a table is known by how much was written of its part of the keys, which says how many
//! different records there are in the mean. So memory is bounded by tables and extents.
//!
//! Left out: reads by users, deletions of records, record sizes that differ, compression, bloom filters and indexes as
//! files of their own, log files that are used again, flushes of part of the memtables, merges within one level,
//! RocksDB's level targets that follow the last level (`level_compaction_dynamic_level_bytes`) and its choice of the
//! table with the least overlap (here, as in LevelDB, the one after the table merged last), and everything about time:
//! merges go on as fast as `pace` says, not as fast as the drive is.

mod choose;
mod keys;
mod keyspace;
mod load;
mod store;
mod table;

pub use keys::{LSM_KEYS, LsmSpec, Strategy};
pub use store::{LsmFacts, Staging, Store};

use thermocline_types::Bytes;

use super::keys::wrong;
use super::{Error, Form};

/// How an LSM workload is written.
pub(super) const LSM_FORM: Form = Form {
    syntax: "lsm[:KEY=VALUE,...]",
    description: "an LSM store on a file system, Cassandra- or RocksDB-like; `lab list lsm` shows the keys \
                  (lsm:strategy=levels,fs.extent=4MiB)",
};

/// A workload's sizes on its volume, in bytes.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    volume: u64,
    keys: u64,
    load: u64,
    memtable: u64,
    window: u64,
    ttl: u64,
    turn: u64,
}

impl Sizes {
    /// The window in which the byte that is number `newest` was written, from 0.
    fn window_of(&self, newest: u64) -> u64 {
        newest.saturating_sub(1) / self.window.max(1)
    }
}

impl LsmSpec {
    /// The sizes on a `volume`.
    ///
    /// # Errors
    /// [`Error::Key`] for keys that contradict each other or the volume.
    fn sizes(&self, volume: Bytes) -> Result<Sizes, Error> {
        let refuse =
            |key: &str, value: Bytes, what: String| Err(wrong("lsm", key, value.to_string(), what));
        let sizes = Sizes {
            volume: volume.0,
            keys: self.keys.of(volume).0,
            load: self.load.of(volume).0,
            memtable: self.fs.whole(self.memtable.of(volume)),
            window: self.window.of(volume).0,
            ttl: self.ttl.of(volume).0,
            turn: self.fs.whole(self.fs.turn),
        };
        self.fs.check("lsm")?;
        if !self.log_segment.0.is_multiple_of(self.fs.block.0) {
            let what = format!("must be a multiple of fs.block, {}", self.fs.block);
            return refuse("log.segment", self.log_segment, what);
        }
        if sizes.keys < self.record.0 {
            let what = format!("must be at least a record, {}", self.record);
            return refuse("keys", Bytes(sizes.keys), what);
        }
        if sizes.load > sizes.keys {
            let what = format!("must be at most keys, {}", Bytes(sizes.keys));
            return refuse("load", Bytes(sizes.load), what);
        }
        if self.tier_most < self.tier_tables {
            let what = format!("must be at least tier.tables, {}", self.tier_tables);
            return Err(wrong("lsm", "tier.most", self.tier_most.to_string(), what));
        }
        if self.strategy == Strategy::Windows {
            if sizes.load > 0 {
                let what = "is for tiers and levels: windows begin with the first write".to_owned();
                return refuse("load", Bytes(sizes.load), what);
            }
            if sizes.window == 0 || sizes.ttl < sizes.window {
                let what = format!("must be at least a window, {}, above 0", Bytes(sizes.window));
                return refuse("ttl", Bytes(sizes.ttl), what);
            }
        }
        Ok(sizes)
    }

    /// Bytes that `level`, from 1, should have at most.
    fn level_target(&self, level: u32) -> f64 {
        self.level_base.as_f64() * self.level_factor.powi(level as i32 - 1)
    }
}

#[cfg(test)]
mod tests;
