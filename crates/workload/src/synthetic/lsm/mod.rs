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

pub use keys::{Amount, LSM_KEYS, LsmKey, LsmSpec, Strategy};
pub use store::{LsmFacts, Store, VolumeFull};

use thermocline_types::Bytes;

use super::{Error, Form};
use crate::filesystem::FileSystemOptions;

/// How an LSM workload is written.
pub(super) const LSM_FORM: Form = Form {
    syntax: "lsm[:KEY=VALUE,...]",
    description: "an LSM store on a file system, Cassandra- or RocksDB-like; `lab list lsm` shows the keys \
                  (lsm:strategy=levels,fs.extent=4MiB)",
};

/// The volume of an LSM workload where none is given (chosen: a drive of minutes, not hours).
pub(super) const LSM_SPAN: Bytes = Bytes::gib(16);

/// The largest request where none is given (chosen: of the order of what Linux sends to drives at most, 1280 KiB).
const REQUEST: Bytes = Bytes::mib(1);

/// Share of the volume set aside for metadata, and the fewest nodes (chosen, not measured).
const METADATA_AREA: f64 = 0.01;
const METADATA_NODES: u64 = 64;

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
        let refuse = |key: &str, value: Bytes, what: String| {
            Err(Error::Key { key: format!("lsm {key}"), value: value.to_string(), what })
        };
        let block = self.block.0;
        let whole = |bytes: Bytes| bytes.0.next_multiple_of(block).max(block);
        let sizes = Sizes {
            volume: volume.0,
            keys: self.keys.of(volume).0,
            load: self.load.of(volume).0,
            memtable: whole(self.memtable.of(volume)),
            window: self.window.of(volume).0,
            ttl: self.ttl.of(volume).0,
            turn: whole(self.turn),
        };
        if !block.is_multiple_of(512) {
            return refuse("fs.block", self.block, "must be a multiple of 512 B".to_owned());
        }
        for (key, size) in [("fs.extent", self.extent), ("log.segment", self.log_segment)] {
            if !size.0.is_multiple_of(block) {
                return refuse(
                    key,
                    size,
                    format!("must be a multiple of fs.block, {}", self.block),
                );
            }
        }
        if !self.node.0.is_multiple_of(512) {
            return refuse("fs.node", self.node, "must be a multiple of 512 B".to_owned());
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
            let most = Bytes(self.tier_most as u64).0.to_string();
            let what = format!("must be at least tier.tables, {}", self.tier_tables);
            return Err(Error::Key { key: "lsm tier.most".to_owned(), value: most, what });
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

    /// The file system on a `volume`, with requests of at most `request` bytes.
    fn filesystem(&self, volume: Bytes, request: Option<Bytes>) -> FileSystemOptions {
        let nodes = (volume.as_f64() * METADATA_AREA / self.node.as_f64()) as u64;
        let request = request.unwrap_or(REQUEST).0 / self.block.0 * self.block.0;
        FileSystemOptions {
            allocator: self.allocator,
            extent: self.extent,
            block: self.block,
            metadata_share: self.metadata,
            metadata_area: Bytes(nodes.max(METADATA_NODES) * self.node.0),
            node: self.node,
            discard: self.discard,
            request: Bytes(request.max(self.block.0)),
        }
    }
}

#[cfg(test)]
mod tests;
