//! Traces that come with the program, so an installed program has the traces in any folder.

use std::path::Path;

/// A trace of ours: writes, trims and flushes as they left the page cache, of some reads as well. `testdata/README.md`
/// says how each was made.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// What it is asked for by, in place of a path; `./NAME` is a file.
    pub name: &'static str,
    /// What was traced.
    pub about: &'static str,
    /// The file, as it is in `testdata`.
    pub(super) content: &'static [u8],
}

/// Every trace that comes with the program.
pub const BUILT_IN: [BuiltIn; 8] = [
    BuiltIn {
        name: "postgres-tpcc",
        about: "PostgreSQL under TPC-C",
        content: include_bytes!("../../testdata/postgres-tpcc.csv.gz"),
    },
    BuiltIn {
        name: "rocksdb-overwrite",
        about: "RocksDB under db_bench's overwrite",
        content: include_bytes!("../../testdata/rocksdb-overwrite.csv.gz"),
    },
    BuiltIn {
        name: "cassandra-ycsb-a",
        about: "Cassandra under YCSB A",
        content: include_bytes!("../../testdata/cassandra-ycsb-a.csv.gz"),
    },
    BuiltIn {
        name: "mariadb-tpcc",
        about: "MariaDB (InnoDB) under TPC-C",
        content: include_bytes!("../../testdata/mariadb-tpcc.csv.gz"),
    },
    BuiltIn {
        name: "wiredtiger-ycsb-a",
        about: "WiredTiger (wtperf) under a load like YCSB A",
        content: include_bytes!("../../testdata/wiredtiger-ycsb-a.csv.gz"),
    },
    BuiltIn {
        name: "memcached-extstore",
        about: "memcached with extstore, a cache of items on flash",
        content: include_bytes!("../../testdata/memcached-extstore.csv.gz"),
    },
    BuiltIn {
        name: "restic-backup",
        about: "restic's repository: daily backups, of which four are kept",
        content: include_bytes!("../../testdata/restic-backup.csv.gz"),
    },
    BuiltIn {
        name: "rocksdb-tiers",
        about: "RocksDB with its log and young files on one volume, old files on another",
        content: include_bytes!("../../testdata/rocksdb-tiers.csv.gz"),
    },
];

impl BuiltIn {
    /// The file itself, as it is in `testdata`.
    #[must_use]
    pub fn bytes(&self) -> &'static [u8] {
        self.content
    }

    /// The built-in trace named by `path`, if any.
    #[must_use]
    pub fn named(path: &Path) -> Option<&'static BuiltIn> {
        BUILT_IN.iter().find(|trace| path.as_os_str() == trace.name)
    }
}
