//! The store at work.

use std::collections::VecDeque;

use thermocline_types::{Bytes, Request, StreamId};

use super::Sizes;
use super::choose::{Choice, LEVELS, View};
use super::keys::{LsmSpec, Strategy};
use super::keyspace::KeySpace;
use super::load::Loading;
use super::table::{Content, SortedTable, merge};
use crate::filesystem::{DataFile, FileSystem, NoRoom};
use crate::synthetic::Error;
use crate::synthetic::app::{AppRoom, Application, VolumeFull};

/// Kinds of files, as directories of streams. Merged tables follow, by level or by how often they were merged.
const LOG: u16 = 1;
const FLUSH: u16 = 2;
const METADATA: u16 = 3;
const LOAD: u16 = 4;
/// Names of all kinds; tables merged more often than the last name counts also have the last kind.
const DIRECTORIES: [&str; 10] = [
    "log", "flush", "metadata", "load", "merge-1", "merge-2", "merge-3", "merge-4", "merge-5",
    "merge-6",
];

/// Turns that a flush has for each of the log: a memtable is flushed before the next one is full.
const FLUSH_TURNS: u64 = 2;

/// What a store did, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LsmFacts {
    /// Written to the store by its users.
    pub ingested: u64,
    /// Written to files of each kind, in the order of [`Store::directories`]; metadata are not counted.
    pub written: Vec<u64>,
    /// In complete tables, including inputs of running merges.
    pub live: u64,
    /// Number of complete tables.
    pub tables: usize,
}

impl LsmFacts {
    /// Bytes written to files, less what was loaded, for each byte written to the store.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        let loaded = self.written.get(usize::from(LOAD) - 1).copied().unwrap_or(0);
        (self.written.iter().sum::<u64>() - loaded) as f64 / self.ingested.max(1) as f64
    }
}

/// A memtable on its way to a table.
#[derive(Debug)]
struct Flush {
    file: DataFile,
    content: Content,
    newest: u64,
    /// The files of the log that hold the same.
    log: Vec<DataFile>,
}

/// A merge in work.
#[derive(Debug)]
struct Merge {
    inputs: Vec<u64>,
    /// Tables to be written, the one in work first.
    outputs: VecDeque<Content>,
    file: Option<DataFile>,
    done: Vec<(DataFile, Content)>,
    level: u32,
    newest: u64,
    /// Bytes to read for each byte written; bytes owed; where reading is: input and offset.
    read_ratio: f64,
    read_owed: f64,
    reading: (usize, u64),
}

/// A part of the volume for what is young.
#[derive(Clone, Copy, Debug)]
pub struct Staging {
    /// Its size.
    pub bytes: Bytes,
    /// Most merges of a table in staging; tables merged more often are outside.
    pub level: u16,
}

/// The file systems that files are on: the capacity volume, after a staging volume if configured.
#[derive(Debug)]
struct Volumes {
    staging: Option<FileSystem>,
    /// Kinds of files up to `last` are in staging, except loaded tables.
    last: u16,
    capacity: FileSystem,
    base: u64,
    /// Which volume had the last request.
    turn: bool,
}

impl Volumes {
    fn new(
        spec: &LsmSpec,
        staging: Option<Staging>,
        span: Bytes,
        request: Option<Bytes>,
        seed: u64,
    ) -> Volumes {
        let metadata = StreamId { directory: METADATA, file: 0 };
        let base = staging.map_or(Bytes::ZERO, |staging| staging.bytes);
        let make = |volume: Bytes, seed| {
            FileSystem::new(volume, spec.fs.options(volume, request), metadata, seed)
        };
        Volumes {
            staging: staging.map(|staging| make(staging.bytes, seed.wrapping_add(1))),
            last: LOAD + staging.map_or(0, |staging| staging.level),
            capacity: make(Bytes(span.0 - base.0), seed),
            base: base.0,
            turn: false,
        }
    }

    /// Where files of a kind are.
    fn of(&mut self, directory: u16) -> &mut FileSystem {
        match &mut self.staging {
            Some(staging) if directory <= self.last && directory != LOAD => staging,
            _ => &mut self.capacity,
        }
    }

    fn close(&mut self, file: &mut DataFile) {
        self.of(file.stream().directory).close(file);
    }

    fn delete(&mut self, file: DataFile) {
        self.of(file.stream().directory).delete(file);
    }

    fn peak(&self) -> Bytes {
        let staging = self.staging.as_ref().map_or(Bytes::ZERO, FileSystem::peak);
        staging + self.capacity.peak()
    }

    /// The next request, of both in turns.
    fn next_request(&mut self) -> Option<Request> {
        self.turn = !self.turn;
        let base = self.base;
        let mut of_capacity = || {
            let request = self.capacity.next_request()?;
            Some(Request { offset: Bytes(request.offset.0 + base), ..request })
        };
        let Some(staging) = &mut self.staging else { return of_capacity() };
        if self.turn {
            staging.next_request().or_else(of_capacity)
        } else {
            of_capacity().or_else(|| staging.next_request())
        }
    }
}

/// An LSM store on its file system: its requests, without end.
#[derive(Debug)]
pub struct Store {
    spec: LsmSpec,
    sizes: Sizes,
    space: KeySpace,
    volumes: Volumes,
    loading: Loading,
    load_file: Option<(DataFile, Content)>,
    tables: Vec<SortedTable>,
    flushes: VecDeque<Flush>,
    merges: VecDeque<Merge>,
    cursors: Vec<f64>,
    /// The log of the memtable that is being filled, and bytes in that memtable.
    log: Vec<DataFile>,
    filled: u64,
    /// Bytes that merges may write and did not.
    credit: f64,
    /// Whether tables changed since nothing could be chosen.
    changed: bool,
    next_id: u64,
    files: [u16; DIRECTORIES.len()],
    facts: LsmFacts,
}

impl Store {
    /// An empty one on a volume of `span` bytes, whose requests have at most `request` bytes.
    ///
    /// # Errors
    /// [`Error::Key`] for keys that contradict each other or the volume.
    pub fn new(
        spec: &LsmSpec,
        span: Bytes,
        request: Option<Bytes>,
        seed: u64,
    ) -> Result<Store, Error> {
        Store::tiered(spec, None, span, request, seed)
    }

    /// The same with the front of the volume as staging.
    ///
    /// # Errors
    /// As [`Store::new`].
    pub fn tiered(
        spec: &LsmSpec,
        staging: Option<Staging>,
        span: Bytes,
        request: Option<Bytes>,
        seed: u64,
    ) -> Result<Store, Error> {
        let sizes = spec.sizes(span)?;
        let space = match spec.strategy {
            Strategy::Windows => KeySpace::endless(),
            _ => KeySpace::new(Bytes(sizes.keys), spec.record, spec.theta),
        };
        let volumes = Volumes::new(spec, staging, span, request, seed);
        Ok(Store {
            loading: Loading::new(spec, &sizes, &space),
            spec: spec.clone(),
            sizes,
            space,
            volumes,
            load_file: None,
            tables: Vec::new(),
            flushes: VecDeque::new(),
            merges: VecDeque::new(),
            cursors: vec![0.0; LEVELS as usize + 1],
            log: Vec::new(),
            filled: 0,
            credit: 0.0,
            changed: false,
            next_id: 0,
            files: [0; DIRECTORIES.len()],
            facts: LsmFacts { written: vec![0; DIRECTORIES.len()], ..LsmFacts::default() },
        })
    }

    /// The kinds of its files; the directory of a request's stream is an index into them, from 1.
    #[must_use]
    pub fn directories() -> &'static [&'static str] {
        &DIRECTORIES
    }

    /// Figures so far.
    #[must_use]
    pub fn facts(&self) -> LsmFacts {
        LsmFacts {
            live: self.tables.iter().map(SortedTable::bytes).sum(),
            tables: self.tables.len(),
            ..self.facts.clone()
        }
    }

    fn full(&self) -> VolumeFull {
        let facts = self.facts();
        let busy: u64 = self.tables.iter().filter(|table| table.busy).map(SortedTable::bytes).sum();
        let keys = match self.spec.strategy {
            Strategy::Windows => "ttl, window, compactors, pace or fs.metadata",
            _ => "keys, load, compactors, pace or fs.metadata",
        };
        VolumeFull(format!(
            "the file system of {} is full after {} were written to the store: {} tables hold {}, of which {} are being \
             merged and stay until that is done; give a larger --span, or other {keys}",
            Bytes(self.sizes.volume),
            Bytes(facts.ingested),
            facts.tables,
            Bytes(facts.live),
            Bytes(busy),
        ))
    }

    /// A turn of everything that writes.
    fn round(&mut self) -> Result<(), NoRoom> {
        if self.load()? {
            return Ok(());
        }
        if !self.is_stalled() {
            self.ingest()?;
        }
        self.flush(FLUSH_TURNS * self.sizes.turn)?;
        self.expire();
        self.choose();
        self.credit += self.spec.pace * self.sizes.turn as f64;
        while self.credit > 0.0 && !self.merges.is_empty() {
            let written = self.merge_turn()?;
            self.credit -= written as f64;
        }
        self.credit = self.credit.min(0.0);
        Ok(())
    }

    /// Whether too many flushed tables wait, and somebody merges.
    fn is_stalled(&self) -> bool {
        let waiting = self.tables.iter().filter(|table| table.level == 0).count();
        self.spec.strategy == Strategy::Levels
            && waiting >= self.spec.level_stop
            && !self.merges.is_empty()
    }

    /// A new file of a kind.
    fn create(&mut self, directory: u16) -> DataFile {
        let number = &mut self.files[usize::from(directory) - 1];
        let file = *number;
        *number = number.wrapping_add(1);
        self.volumes.of(directory).create(StreamId { directory, file })
    }

    fn append(&mut self, file: &mut DataFile, bytes: u64, directory: u16) -> Result<(), NoRoom> {
        let before = file.size().0;
        let done = self.volumes.of(directory).append(file, Bytes(bytes));
        self.facts.written[usize::from(directory) - 1] += file.size().0 - before;
        done
    }

    fn add(&mut self, file: DataFile, content: Content, level: u32, newest: u64) {
        let id = self.next_id;
        self.next_id += 1;
        self.tables.push(SortedTable { id, file, content, level, newest, busy: false });
        self.changed = true;
    }

    /// Loads for a turn; `false` if the load is complete.
    fn load(&mut self) -> Result<bool, NoRoom> {
        let begun = match self.load_file.take() {
            Some(begun) => Some(begun),
            None => self.loading.tables.next().map(|content| (self.create(LOAD), content)),
        };
        let Some((mut file, content)) = begun else { return Ok(false) };
        let left = content.bytes - file.size().0.min(content.bytes);
        self.append(&mut file, left.min(self.sizes.turn), LOAD)?;
        if file.size().0 < content.bytes {
            self.load_file = Some((file, content));
        } else {
            self.volumes.close(&mut file);
            self.add(file, content, self.loading.level, 0);
        }
        Ok(true)
    }

    /// Writes to log and memtable for a turn.
    fn ingest(&mut self) -> Result<(), NoRoom> {
        let mut left = self.sizes.turn;
        while left > 0 {
            let mut now = left.min(self.sizes.memtable - self.filled);
            if self.spec.log {
                now = self.log_some(now)?;
            }
            self.filled += now;
            self.facts.ingested += now;
            left -= now;
            if self.filled == self.sizes.memtable {
                self.rotate();
            }
        }
        Ok(())
    }

    /// Appends up to `most` bytes to a file of the log; returns how many.
    fn log_some(&mut self, most: u64) -> Result<u64, NoRoom> {
        let segment = self.spec.log_segment.0;
        let is_full = |file: &DataFile| file.size().0 >= segment;
        if self.log.last().is_none_or(is_full) {
            if let Some(last) = self.log.last_mut() {
                self.volumes.close(last);
            }
            let file = self.create(LOG);
            self.log.push(file);
        }
        let mut file = self.log.pop().expect("it was begun");
        let now = most.min(segment - file.size().0);
        let done = self.append(&mut file, now, LOG);
        self.log.push(file);
        done.map(|()| now)
    }

    /// Sends the memtable to be flushed, and begins another one with a log of its own.
    fn rotate(&mut self) {
        let content = Content::new(0.0..1.0, self.filled as f64, 0.0, &self.space);
        let mut log = std::mem::take(&mut self.log);
        if let Some(last) = log.last_mut() {
            self.volumes.close(last);
        }
        let (file, newest) = (self.create(FLUSH), self.facts.ingested);
        self.flushes.push_back(Flush { file, content, newest, log });
        self.filled = 0;
    }

    /// Flushes up to `most` bytes.
    fn flush(&mut self, mut most: u64) -> Result<(), NoRoom> {
        while let Some(mut flush) = self.flushes.pop_front() {
            let left = flush.content.bytes.saturating_sub(flush.file.size().0);
            let now = left.min(most).min(self.sizes.turn);
            self.append(&mut flush.file, now, FLUSH)?;
            most -= now;
            if flush.file.size().0 < flush.content.bytes {
                self.flushes.push_front(flush);
                if most == 0 {
                    return Ok(());
                }
                continue;
            }
            self.volumes.close(&mut flush.file);
            self.add(flush.file, flush.content, 0, flush.newest);
            flush.log.into_iter().for_each(|file| self.volumes.delete(file));
        }
        Ok(())
    }

    /// Deletes tables whose youngest record is too old.
    fn expire(&mut self) {
        if self.spec.strategy != Strategy::Windows {
            return;
        }
        let (ingested, ttl) = (self.facts.ingested, self.sizes.ttl);
        let old = |table: &mut SortedTable| !table.busy && table.newest + ttl <= ingested;
        for table in self.tables.extract_if(.., old) {
            self.volumes.delete(table.file);
        }
    }

    /// Begins as many merges as may be at once.
    fn choose(&mut self) {
        while self.changed && self.merges.len() < self.spec.compactors {
            let view = View {
                spec: &self.spec,
                sizes: &self.sizes,
                tables: &self.tables,
                cursors: &self.cursors,
                ingested: self.facts.ingested,
            };
            match view.choose() {
                None => self.changed = false,
                Some(Choice::Move { table, level }) => {
                    let moved = self.tables.iter_mut().find(|other| other.id == table);
                    let moved = moved.expect("it was chosen from these");
                    self.cursors[moved.level as usize] = moved.content.keys.end;
                    moved.level = level;
                }
                Some(Choice::Merge { inputs, level, most }) => self.begin(inputs, level, most),
            }
        }
    }

    fn begin(&mut self, inputs: Vec<u64>, level: u32, most: u64) {
        let mut newest = 0;
        for table in self.tables.iter_mut().filter(|table| inputs.contains(&table.id)) {
            table.busy = true;
            newest = newest.max(table.newest);
            if table.level + 1 == level && self.spec.strategy == Strategy::Levels {
                self.cursors[table.level as usize] = table.content.keys.end;
            }
        }
        let merged = self.tables.iter().filter(|table| inputs.contains(&table.id));
        let contents: Vec<&Content> = merged.map(|table| &table.content).collect();
        let outputs = merge(&contents, most, &self.space);
        let sum = |contents: &mut dyn Iterator<Item = u64>| contents.sum::<u64>() as f64;
        let read = sum(&mut contents.iter().map(|content| content.bytes));
        let written = sum(&mut outputs.iter().map(|content| content.bytes));
        self.merges.push_back(Merge {
            inputs,
            outputs: outputs.into(),
            file: None,
            done: Vec::new(),
            level,
            newest,
            read_ratio: if self.spec.reads { read / written.max(1.0) } else { 0.0 },
            read_owed: 0.0,
            reading: (0, 0),
        });
    }

    /// Gives the first merge a turn; returns the bytes written.
    fn merge_turn(&mut self) -> Result<u64, NoRoom> {
        let Some(mut merge) = self.merges.pop_front() else { return Ok(0) };
        let directory = (LOAD + merge.level.max(1) as u16).min(DIRECTORIES.len() as u16);
        let Some(content) = merge.outputs.pop_front() else {
            self.finish(merge);
            return Ok(0);
        };
        let mut file = merge.file.take().unwrap_or_else(|| self.create(directory));
        let left = content.bytes.saturating_sub(file.size().0);
        let before = file.size().0;
        self.read_inputs(&mut merge, left.min(self.sizes.turn));
        self.append(&mut file, left.min(self.sizes.turn), directory)?;
        let written = file.size().0 - before;
        if file.size().0 < content.bytes {
            merge.file = Some(file);
            merge.outputs.push_front(content);
        } else {
            self.volumes.close(&mut file);
            merge.done.push((file, content));
        }
        if merge.outputs.is_empty() {
            self.finish(merge);
        } else {
            self.merges.push_back(merge);
        }
        Ok(written)
    }

    /// Reads of the inputs what `bytes` of the output are made from.
    fn read_inputs(&mut self, merge: &mut Merge, bytes: u64) {
        merge.read_owed += bytes as f64 * merge.read_ratio;
        while merge.read_owed >= 1.0 {
            let (input, offset) = merge.reading;
            let Some(id) = merge.inputs.get(input) else { return };
            let table = self.tables.iter().find(|table| table.id == *id);
            let file = &table.expect("what is merged stays").file;
            let now = (merge.read_owed as u64).next_multiple_of(self.spec.fs.block.0);
            let now = now.min(file.size().0 - offset);
            self.volumes.of(file.stream().directory).read(file, Bytes(offset), Bytes(now));
            merge.read_owed -= now as f64;
            let is_read = offset + now >= file.size().0;
            merge.reading = if is_read { (input + 1, 0) } else { (input, offset + now) };
        }
    }

    /// Replaces the inputs of a merge by the outputs.
    fn finish(&mut self, merge: Merge) {
        for (file, content) in merge.done {
            self.add(file, content, merge.level, merge.newest);
        }
        let merged = |table: &mut SortedTable| merge.inputs.contains(&table.id);
        for table in self.tables.extract_if(.., merged) {
            self.volumes.delete(table.file);
        }
        self.changed = true;
    }
}

impl Application for Store {
    fn next(&mut self) -> Result<Request, VolumeFull> {
        loop {
            if let Some(request) = self.volumes.next_request() {
                return Ok(request);
            }
            if let Err(NoRoom) = self.round() {
                return Err(self.full());
            }
        }
    }

    fn directories(&self) -> &'static [&'static str] {
        Store::directories()
    }

    fn room(&self) -> Option<AppRoom> {
        Some(AppRoom { peak: self.volumes.peak(), discards: self.spec.fs.discard })
    }

    fn lsm_facts(&self) -> Option<LsmFacts> {
        Some(self.facts())
    }
}

#[cfg(test)]
impl Store {
    /// The next waiting request, if any.
    pub(super) fn pending(&mut self) -> Option<Request> {
        self.volumes.next_request()
    }

    /// Bytes written to all existing files.
    pub(super) fn held(&self) -> u64 {
        let merged = self
            .merges
            .iter()
            .flat_map(|merge| merge.done.iter().map(|(file, _)| file).chain(&merge.file));
        let flushed = self.flushes.iter().flat_map(|flush| flush.log.iter().chain([&flush.file]));
        let all = self.tables.iter().map(|table| &table.file).chain(merged).chain(flushed);
        all.chain(&self.log).map(|file| file.size().0).sum()
    }

    pub(super) fn level_target(&self, level: u32) -> f64 {
        self.spec.level_target(level)
    }
}
