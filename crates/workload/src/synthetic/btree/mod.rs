//! A database of pages: InnoDB- or WiredTiger-like, of any size, in seconds.
//!
//! Transactions read and change pages by a skew; changes are logged, and pages stay in memory until a write is
//! necessary. The two engines differ in the way of writing:
//!
//! * *InnoDB*: the log is circular, written in sectors of 512 bytes when transactions commit, and flushed. Undo records
//!   fill pages of their own. Changed pages are written oldest first, when the log would overtake them, too many are
//!   dirty, or memory is needed: a batch goes to the double write buffer, is flushed, and then each page to its place.
//!   Loaded pages go to their place at once, as in MariaDB from 10.6 on (unverified; MySQL uses the double write
//!   buffer).
//! * *WiredTiger*: pages are never changed in place. A page is written to the smallest room that is free, by a
//!   checkpoint in the order of pages or by eviction; its old place is free after the next checkpoint. Interior pages
//!   above what a checkpoint wrote are written as well. All wait in the page cache for the flush of the checkpoint,
//!   which merges what lies side by side. The journal holds what is younger than the checkpoint.
//!
//! Pages are numbers here, with 12 bytes for each page and 16 for each in memory.
//!
//! Left out: growth, splits and merges of pages (tables have the same pages throughout), secondary indexes as trees
//! of their own, compression, purge, temporary tables, binary logs, the file system's journal, change buffering, what
//! is written at shutdown, and processor time. `clients` says how many commits share a write of the log, the depth of
//! the replay how much is in flight. With `think`, clients are a closed loop: the flush of a commit is waited for,
//! all of them think (as long as one would in the mean), and only then comes what follows.

mod innodb;
mod keys;
mod pool;
mod skew;
#[cfg(test)]
mod tests;
mod wiredtiger;

pub use keys::BtreeSpec;

use std::collections::VecDeque;

use thermocline_types::{Bytes, Op, Request, Rng, StreamId};

use super::app::{Application, VolumeFull};
use super::keys::{REQUEST, wrong};
use super::{Error, Form};
use crate::filesystem::{Extent, request};
use innodb::InnoDb;
use keys::Engine;
use pool::Pool;
use skew::Law;
use wiredtiger::WiredTiger;

/// How a database is written.
pub(super) const BTREE_FORM: Form = Form {
    syntax: "btree[:KEY=VALUE,...]",
    description: "a database of pages, InnoDB- or WiredTiger-like: log, double write or copy on write, checkpoints; `lab \
                  list btree` shows the keys (btree:engine=wiredtiger)",
};

/// The kinds of data, as directories of streams; the second is the double write buffer, or interior pages.
const LOG: u16 = 1;
const SECOND: u16 = 2;
const PAGES: u16 = 3;
const UNDO: u16 = 4;
const INNODB: [&str; 4] = ["redo", "double-write", "pages", "undo"];
const WIREDTIGER: [&str; 3] = ["journal", "interior", "pages"];

/// Where things are on the volume, in bytes.
#[derive(Clone, Copy, Debug)]
struct Layout {
    log: Extent,
    second: Extent,
    undo: Extent,
    /// Room for pages; under WiredTiger more than there are pages.
    pages: Extent,
    /// How many pages there are.
    count: u64,
    page: u64,
}

/// Waiting requests, and the greatest length of a request.
#[derive(Debug)]
struct Out {
    waiting: VecDeque<Request>,
    most: u64,
}

impl Out {
    fn ask(&mut self, op: Op, extent: Extent, directory: u16) {
        let stream = StreamId { directory, file: 0 };
        for start in (extent.start..extent.end()).step_by(self.most as usize) {
            let length = self.most.min(extent.end() - start);
            self.waiting.push_back(request(op, Extent { start, length }, stream));
        }
    }

    fn flush(&mut self) {
        let nothing = Extent { start: 0, length: 0 };
        self.waiting.push_back(request(Op::Flush, nothing, StreamId { directory: LOG, file: 0 }));
    }
}

/// What an engine has of the database.
#[derive(Debug)]
struct Core {
    spec: BtreeSpec,
    layout: Layout,
    pool: Pool,
    out: Out,
    /// Log bytes produced so far.
    lsn: u64,
}

/// Differences between engines.
trait PageEngine: std::fmt::Debug {
    /// Where page `page` is.
    fn place(&self, core: &Core, page: u32) -> Extent;
    /// The log is to be on media up to now.
    fn commit(&mut self, core: &mut Core);
    /// Some page was changed by a transaction.
    fn changed(&mut self, _core: &mut Core) {}
    /// A page was made by a load.
    fn loaded(&mut self, _page: u32) {}
    /// Writes so many pages as have to be.
    fn maintain(&mut self, core: &mut Core);
    /// Writes `page`, which is dirty and has to leave memory, and what goes with it.
    fn evict(&mut self, core: &mut Core, page: u32);
}

/// A database at work.
#[derive(Debug)]
pub(super) struct Database {
    core: Core,
    engine: Box<dyn PageEngine>,
    names: &'static [&'static str],
    law: Law,
    /// The page that was changed last.
    last: u32,
    rng: Rng,
    /// Pages that are still to be loaded.
    loading: std::ops::Range<u32>,
    commits: usize,
}

impl Database {
    /// One on a volume of `span` bytes, whose requests have at most `request` bytes.
    ///
    /// # Errors
    /// [`Error::Key`] for keys that contradict each other or the volume.
    pub fn new(
        spec: &BtreeSpec,
        span: Bytes,
        request: Option<Bytes>,
        seed: u64,
    ) -> Result<Database, Error> {
        let layout = spec.layout(span)?;
        let mut rng = Rng::new(seed);
        let frames = (spec.pool.of(span).0 / layout.page).max(BATCH as u64).min(layout.count);
        let most = (request.unwrap_or(REQUEST).0 / 512 * 512).max(512);
        let core = Core {
            spec: spec.clone(),
            layout,
            pool: Pool::new(layout.count, frames),
            out: Out { waiting: VecDeque::new(), most },
            lsn: 0,
        };
        let (engine, names): (Box<dyn PageEngine>, _) = match spec.engine {
            Engine::InnoDb => (Box::new(InnoDb::new(&layout)), &INNODB[..]),
            Engine::WiredTiger => (Box::new(WiredTiger::new(&layout)), &WIREDTIGER[..]),
        };
        Ok(Database {
            core,
            engine,
            names,
            law: Law::new(spec.skew, layout.count, &mut rng),
            last: 0,
            rng,
            loading: if spec.load { 0..layout.count as u32 } else { 0..0 },
            commits: 0,
        })
    }

    /// Has `page` in memory, changed or only read.
    fn touch(&mut self, page: u32, changes: bool, reads: bool) {
        let core = &mut self.core;
        if !core.pool.holds(page) {
            if let Some(victim) = core.pool.victim() {
                if core.pool.is_dirty(victim) {
                    self.engine.evict(core, victim);
                }
                core.pool.remove(victim);
            }
            if reads {
                let place = self.engine.place(core, page);
                core.out.ask(Op::Read, place, PAGES);
            }
            core.pool.insert(page);
        }
        core.pool.use_page(page, changes.then_some(core.lsn));
    }

    /// The page that is changed or read next.
    fn wanted(&mut self, changes: bool) -> u32 {
        let beside = self.core.spec.beside;
        if !changes {
            return self.law.draw(&mut self.rng);
        }
        // Without the key, draw no random number: the sequence of draws must not change.
        self.last = if beside > 0.0 && self.rng.unit_f64() < beside {
            (self.last + 1) % self.core.layout.count as u32
        } else {
            self.law.draw(&mut self.rng)
        };
        self.last
    }

    /// A transaction, or a load of pages as large as one.
    fn transaction(&mut self) {
        let (reads, record) = (self.core.spec.reads, self.core.spec.record.0);
        let is_loading = !self.loading.is_empty();
        for index in 0..self.core.spec.changes + if is_loading { 0 } else { reads } {
            let (page, changes) = match self.loading.next() {
                Some(page) => (page, true),
                None if is_loading => break,
                None => {
                    let changes = index < self.core.spec.changes;
                    (self.wanted(changes), changes)
                }
            };
            self.touch(page, changes, !is_loading);
            if is_loading {
                self.engine.loaded(page);
            }
            if changes {
                self.core.lsn += if is_loading { self.core.layout.page } else { record };
                self.engine.changed(&mut self.core);
            }
        }
        self.commits += 1;
        if self.commits >= self.core.spec.clients {
            self.commits = 0;
            self.engine.commit(&mut self.core);
            self.engine.maintain(&mut self.core);
        }
    }
}

/// Pages that are written together (InnoDB's double write batch: `innodb_doublewrite_pages` and MariaDB's 1 MiB of 64
/// pages).
const BATCH: usize = 64;

impl Application for Database {
    fn next(&mut self) -> Result<Request, VolumeFull> {
        loop {
            if let Some(request) = self.core.out.waiting.pop_front() {
                return Ok(request);
            }
            self.transaction();
        }
    }

    fn directories(&self) -> &'static [&'static str] {
        self.names
    }
}

impl BtreeSpec {
    /// Where things are on a volume of `span` bytes.
    fn layout(&self, span: Bytes) -> Result<Layout, Error> {
        let refuse = |key: &str, value: Bytes, what: &str| {
            Err(wrong("btree", key, value.to_string(), what.to_owned()))
        };
        let page = self.page.0;
        if !page.is_multiple_of(512) {
            return refuse("page", self.page, "must be a multiple of 512 B");
        }
        let whole = |bytes: u64| bytes / page * page;
        let log = whole(self.log.of(span).0);
        if log < LEAST_LOG * page {
            return refuse("log", self.log.of(span), "must hold 16 pages at least");
        }
        let (second, undo) = match self.engine {
            Engine::InnoDb => (2 * BATCH as u64 * page, whole(self.undo.of(span).0)),
            Engine::WiredTiger => (whole(span.0 / 64).max(page), 0),
        };
        let data = whole(self.data.of(span).0);
        let room = whole(span.0.saturating_sub(log + second + undo));
        let most = if self.engine == Engine::InnoDb { room } else { room / 10 * 9 };
        if data < LEAST_LOG * page || data > most {
            let what = format!(
                "must hold 16 pages, and leave what log and undo need of the volume: at most {}",
                Bytes(most)
            );
            return refuse("data", Bytes(data), &what);
        }
        if data / page > u64::from(u32::MAX - 1) {
            return refuse("data", Bytes(data), "must be below 2^32 pages");
        }
        let mut start = 0;
        let mut next = |length: u64| {
            start += length;
            Extent { start: start - length, length }
        };
        let (log, second, undo) = (next(log), next(second), next(undo));
        let pages = next(if self.engine == Engine::InnoDb { data } else { room });
        Ok(Layout { log, second, undo, pages, count: data / page, page })
    }
}

/// Pages that a log, and a database, hold at least (chosen: what makes a batch and a wrap).
const LEAST_LOG: u64 = 16;
