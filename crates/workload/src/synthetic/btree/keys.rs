//! The keys of a database.

use std::fmt;

use thermocline_types::{Bytes, Time};

use crate::synthetic::Form;
use crate::synthetic::keys::{
    Amount, Given, Key, Keyed, amount, count, key, number, on, one_of, share, show, size, time,
};

use super::skew::Skew;

/// Every setting, in the order of listings. Sizes in per cent are of the volume (`--span`).
///
/// Page, age of the log at which pages are written and dirty pages at most are those of InnoDB (MySQL 8.0 manual:
/// `innodb_page_size`, 7/8 of the log's capacity, `innodb_max_dirty_pages_pct`). WiredTiger has pages of 32 KiB
/// (`leaf_page_max`) and evicts from 20 % dirty on (`eviction_dirty_trigger`): give them by keys. Others are chosen.
pub(super) const BTREE_KEYS: [Key; 19] = [
    key("engine", "innodb", "how pages are written: innodb, or wiredtiger"),
    key("data", "80%", "size of all pages"),
    key("page", "16KiB", "size of a page"),
    key(
        "skew",
        "zipf:0.9",
        "which page a transaction wants: uniform; zipf:THETA; or hotcold:DATA%:WRITES%, a table of DATA % of the pages, \
         which lie side by side, takes WRITES % of what is wanted, and none of its pages more than another",
    ),
    key(
        "beside",
        "0",
        "share of the changes that are of the page behind the one changed before, as rows are that are appended or \
         belong together",
    ),
    key("pool", "10%", "pages that memory holds"),
    key("dirty", "0.9", "share of those that may be dirty, at most"),
    key("changes", "4", "pages that a transaction changes"),
    key(
        "reads",
        "4",
        "pages that it reads besides; only those that are not in memory are read from the drive",
    ),
    key("record", "512B", "log of one change"),
    key("undo.record", "256B", "innodb: undo of one change"),
    key("clients", "16", "transactions that commit together: their log is written at once"),
    key(
        "think",
        "0",
        "how long those clients think after a commit before their next one, such as 5ms, exponential with this mean: a \
         closed loop (--queue-depth still bounds what is in flight)",
    ),
    key(
        "sync",
        "on",
        "whether a commit flushes; if not, the log is written in pieces as large as a request",
    ),
    key(
        "log",
        "4%",
        "innodb: size of the circular log; wiredtiger: log between two checkpoints, at most",
    ),
    key(
        "checkpoint",
        "0.9",
        "wiredtiger: share of that log after which there is a checkpoint, at most 0.9; the rest is written later than \
         it would have to be",
    ),
    key(
        "neighbours",
        "off",
        "innodb: whether dirty pages that lie side by side with one that is written, within 64 pages, go with it \
         (innodb_flush_neighbors; on in MariaDB, off in MySQL 8.0)",
    ),
    key("undo", "4%", "innodb: size of the undo space, which is used round and round"),
    key("load", "off", "whether all pages are written once first, in order, as by a load"),
];

/// How pages are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Engine {
    /// In place, by a double write buffer.
    #[default]
    InnoDb,
    /// Elsewhere, by checkpoints.
    WiredTiger,
}

/// A database, as its keys say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BtreeSpec {
    pub(super) engine: Engine,
    pub(super) data: Amount,
    pub(super) page: Bytes,
    pub(super) skew: Skew,
    pub(super) beside: f64,
    pub(super) pool: Amount,
    pub(super) dirty: f64,
    pub(super) changes: usize,
    pub(super) reads: usize,
    pub(super) record: Bytes,
    pub(super) undo_record: Bytes,
    pub(super) clients: usize,
    pub(super) think: Time,
    pub(super) sync: bool,
    pub(super) log: Amount,
    pub(super) checkpoint: f64,
    pub(super) neighbours: bool,
    pub(super) undo: Amount,
    pub(super) load: bool,
    given: Given,
}

impl Keyed for BtreeSpec {
    const FORM: Form = super::BTREE_FORM;
    const KEYS: &'static [Key] = &BTREE_KEYS;

    fn blank() -> BtreeSpec {
        BtreeSpec::default()
    }

    fn change(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "engine" => {
                let all = [("innodb", Engine::InnoDb), ("wiredtiger", Engine::WiredTiger)];
                self.engine = one_of(value, &all)?;
            }
            "data" => self.data = amount(value)?,
            "page" => self.page = size(value, 4096)?,
            "skew" => self.skew = value.parse()?,
            "beside" => self.beside = share(value)?,
            "pool" => self.pool = amount(value)?,
            "dirty" => self.dirty = share(value)?,
            "changes" => self.changes = count(value, 1)?,
            "reads" => self.reads = count(value, 0)?,
            "record" => self.record = size(value, 1)?,
            "undo.record" => self.undo_record = size(value, 0)?,
            "clients" => self.clients = count(value, 1)?,
            "think" => self.think = time(value)?,
            "sync" => self.sync = on(value)?,
            "log" => self.log = amount(value)?,
            "checkpoint" => {
                self.checkpoint = number(value, "above 0, at most 0.9", |x| x > 0.0 && x <= 0.9)?;
            }
            "neighbours" => self.neighbours = on(value)?,
            "undo" => self.undo = amount(value)?,
            _ => self.load = on(value)?,
        }
        Ok(())
    }

    fn given(&mut self) -> &mut Given {
        &mut self.given
    }
}

impl BtreeSpec {
    /// How long clients think after a commit; `None` without think time, or if clients do not wait for commits.
    #[must_use]
    pub fn think(&self) -> Option<Time> {
        (self.sync && self.think > Time::ZERO).then_some(self.think)
    }

    /// Whether commits flush, and clients wait for the flush.
    #[must_use]
    pub fn commits(&self) -> bool {
        self.sync
    }
}

impl fmt::Display for BtreeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(Self::name(), &self.given, f)
    }
}
