//! A store of whole objects: written once, from beginning to end, and deleted whole.
//!
//! Photos, backups, videos, the parts of an erasure code: each object is a file of the file system beneath
//! ([`crate::filesystem`]), several are written at once in turns, and when the volume is as full as is asked for,
//! objects are deleted to make room. A share of them dies young, as temporary and replaced ones do.
//!
//! Left out: an index of the objects (its writes are `fs.metadata`), objects that are appended to or changed, parts of
//! objects deleted, compaction of containers that hold many objects, and time.

use std::collections::VecDeque;
use std::fmt;

use thermocline_types::{Bytes, Request, Rng, StreamId};

use super::app::{AppRoom, Application, VolumeFull};
use super::keys::{
    Amount, FS_KEYS, FsKeys, Given, Key, Keyed, amount, count, key, number, one_of, share, show,
    size,
};
use super::{Error, Form};
use crate::filesystem::{DataFile, FileSystem, NoRoom};

/// How an object store is written.
const OBJECTS_FORM: Form = Form {
    syntax: "objects[:KEY=VALUE,...]",
    description: "whole objects, written once and deleted, on a file system; `lab list objects` shows the keys \
                  (objects:size=4MiB,fill=80%)",
};

/// Every setting, in the order of listings (chosen, not measured). Sizes in per cent are of the volume (`--span`).
const OBJECTS_KEYS: [Key; 14] = [
    key("size", "4MiB", "size of an object, the mean"),
    key("spread", "1.0", "how sizes differ: sigma of a log-normal law, 0 is one size"),
    key("fill", "80%", "bytes of objects at which others are deleted"),
    key("delete", "random", "which goes then: random (any as likely as any other), or oldest"),
    key("short", "0.0", "share of the objects that die young"),
    key("short.after", "1%", "written until such an object is deleted, the mean"),
    key("writers", "4", "objects that are written at once, in turns"),
    key("gets", "0.0", "objects read whole for each one written, any as likely as any other"),
    FS_KEYS[0],
    FS_KEYS[1],
    FS_KEYS[2],
    FS_KEYS[3],
    FS_KEYS[4],
    FS_KEYS[6],
];

/// The size of a node of metadata, which has no key here.
const NODE: &str = FS_KEYS[5].default;

/// Kinds of files.
const OBJECT: u16 = 1;
const SHORT: u16 = 2;
const METADATA: u16 = 3;
const DIRECTORIES: [&str; 3] = ["objects", "short", "metadata"];

/// Which object makes room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Delete {
    #[default]
    Random,
    Oldest,
}

/// A store of objects, as its keys say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectsSpec {
    size: Bytes,
    /// Sigma of the logarithm.
    spread: f64,
    fill: Amount,
    delete: Delete,
    short: f64,
    short_after: Amount,
    writers: usize,
    gets: f64,
    fs: FsKeys,
    given: Given,
}

impl Keyed for ObjectsSpec {
    const FORM: Form = OBJECTS_FORM;
    const KEYS: &'static [Key] = &OBJECTS_KEYS;

    fn blank() -> ObjectsSpec {
        let mut spec = ObjectsSpec::default();
        spec.fs.change("fs.node", NODE).expect("a default");
        spec
    }

    fn change(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "size" => self.size = size(value, 512)?,
            "spread" => self.spread = number(value, "0 to 4", |x| (0.0..=4.0).contains(&x))?,
            "fill" => self.fill = amount(value)?,
            "delete" => {
                self.delete =
                    one_of(value, &[("random", Delete::Random), ("oldest", Delete::Oldest)])?;
            }
            "short" => self.short = share(value)?,
            "short.after" => self.short_after = amount(value)?,
            "writers" => self.writers = count(value, 1)?,
            "gets" => self.gets = number(value, "0 or above", |x| x >= 0.0)?,
            _ => self.fs.change(name, value)?,
        }
        Ok(())
    }

    fn given(&mut self) -> &mut Given {
        &mut self.given
    }
}

impl fmt::Display for ObjectsSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(Self::name(), &self.given, f)
    }
}

/// An object that is being written.
#[derive(Debug)]
struct Put {
    file: DataFile,
    size: u64,
}

/// A store of objects at work.
#[derive(Debug)]
pub(super) struct ObjectStore {
    spec: ObjectsSpec,
    fs: FileSystem,
    rng: Rng,
    puts: VecDeque<Put>,
    /// Objects in the order in which they were written, but for places exchanged by deletions.
    live: VecDeque<DataFile>,
    /// Those that die young, with how much is written by then.
    young: VecDeque<(u64, DataFile)>,
    held: u64,
    written: u64,
    fill: u64,
    short_after: u64,
    gets_owed: f64,
    files: u16,
}

impl ObjectStore {
    /// An empty one on a volume of `span` bytes, whose requests have at most `request` bytes.
    ///
    /// # Errors
    /// [`Error::Key`] for keys that contradict each other.
    pub fn new(
        spec: &ObjectsSpec,
        span: Bytes,
        request: Option<Bytes>,
        seed: u64,
    ) -> Result<ObjectStore, Error> {
        spec.fs.check("objects")?;
        let metadata = StreamId { directory: METADATA, file: 0 };
        Ok(ObjectStore {
            fs: FileSystem::new(span, spec.fs.options(span, request), metadata, seed),
            rng: Rng::new(seed.wrapping_add(1)),
            puts: VecDeque::new(),
            live: VecDeque::new(),
            young: VecDeque::new(),
            held: 0,
            written: 0,
            fill: spec.fill.of(span).0,
            short_after: spec.short_after.of(span).0,
            gets_owed: 0.0,
            files: 0,
            spec: spec.clone(),
        })
    }

    /// A size by the log-normal law whose mean is `size`, in whole blocks.
    fn draw_size(&mut self) -> u64 {
        let sigma = self.spec.spread;
        // Box and Muller: a number of the normal law from two uniform ones.
        let (first, second) = (1.0 - self.rng.unit_f64(), self.rng.unit_f64());
        let normal = (-2.0 * first.ln()).sqrt() * (std::f64::consts::TAU * second).cos();
        let size = self.spec.size.as_f64() * (sigma * normal - sigma * sigma / 2.0).exp();
        self.spec.fs.whole(Bytes(size as u64))
    }

    /// A turn of one writer.
    fn round(&mut self) -> Result<(), NoRoom> {
        while self.puts.len() < self.spec.writers {
            let dies_young = self.rng.unit_f64() < self.spec.short;
            let stream =
                StreamId { directory: if dies_young { SHORT } else { OBJECT }, file: self.files };
            self.files = self.files.wrapping_add(1);
            let (file, size) = (self.fs.create(stream), self.draw_size());
            self.puts.push_back(Put { file, size });
        }
        self.make_room();
        let mut put = self.puts.pop_front().expect("there are writers");
        let now = (put.size - put.file.size().0).min(self.spec.fs.whole(self.spec.fs.turn));
        self.fs.append(&mut put.file, Bytes(now))?;
        self.held += now;
        self.written += now;
        if put.file.size().0 < put.size {
            self.puts.push_back(put);
            return Ok(());
        }
        self.fs.close(&mut put.file);
        if put.file.stream().directory == SHORT {
            // Between nothing and twice the mean.
            let after = (self.rng.unit_f64() * 2.0 * self.short_after as f64) as u64;
            self.young.push_back((self.written + after, put.file));
        } else {
            self.live.push_back(put.file);
        }
        self.get();
        Ok(())
    }

    /// Deletes young objects whose time has come, and others as long as there are too many bytes.
    fn make_room(&mut self) {
        for index in (0..self.young.len()).rev() {
            if self.young[index].0 <= self.written {
                let (_, file) = self.young.swap_remove_back(index).expect("it is there");
                self.drop(file);
            }
        }
        while self.held >= self.fill {
            let index = match self.spec.delete {
                _ if self.live.is_empty() => return,
                Delete::Oldest => 0,
                Delete::Random => self.rng.below(self.live.len() as u64) as usize,
            };
            let file = match self.spec.delete {
                Delete::Oldest => self.live.pop_front(),
                Delete::Random => self.live.swap_remove_back(index),
            };
            self.drop(file.expect("there are some"));
        }
    }

    fn drop(&mut self, file: DataFile) {
        self.held -= file.size().0;
        self.fs.delete(file);
    }

    /// Reads as many objects as go with one that was written.
    fn get(&mut self) {
        self.gets_owed += self.spec.gets;
        while self.gets_owed >= 1.0 && !self.live.is_empty() {
            self.gets_owed -= 1.0;
            let file = &self.live[self.rng.below(self.live.len() as u64) as usize];
            self.fs.read(file, Bytes::ZERO, file.size());
        }
    }
}

impl Application for ObjectStore {
    fn next(&mut self) -> Result<Request, VolumeFull> {
        loop {
            if let Some(request) = self.fs.next_request() {
                return Ok(request);
            }
            self.round().map_err(|NoRoom| {
                VolumeFull(format!(
                    "the file system is full after {} of objects, of which {} are there; give a larger --span, or other \
                     fill, size, writers or fs.metadata",
                    Bytes(self.written),
                    Bytes(self.held),
                ))
            })?;
        }
    }

    fn directories(&self) -> &'static [&'static str] {
        &DIRECTORIES
    }

    fn room(&self) -> Option<AppRoom> {
        Some(AppRoom { peak: self.fs.peak(), discards: self.spec.fs.discard })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::keys::tests::keys_are_taken_and_read_back;
    use thermocline_types::Op;

    fn store(text: &str) -> ObjectStore {
        let spec = ObjectsSpec::read(text).expect(text);
        ObjectStore::new(&spec, Bytes::gib(1), None, 3).expect(text)
    }

    fn take(store: &mut ObjectStore, written: Bytes) -> Vec<Request> {
        let mut all = Vec::new();
        while store.written < written.0 {
            all.push(store.next().expect("room"));
        }
        all
    }

    #[test]
    fn every_key_is_taken() {
        keys_are_taken_and_read_back::<ObjectsSpec>();
    }

    #[test]
    fn the_volume_stays_as_full_as_asked_and_sizes_have_their_mean() {
        for text in ["objects", "objects:delete=oldest,short=0.5", "objects:spread=0,fill=40%"] {
            let mut store = store(text);
            take(&mut store, Bytes::gib(8));
            let held = store.held as f64 / store.fill as f64;
            assert!((0.95..=1.05).contains(&held), "{text}: {held}");
            let files = f64::from(store.files) - 4.0;
            let mean = store.written as f64 / files / (4 << 20) as f64;
            assert!((0.9..1.1).contains(&mean), "{text}: {mean}");
        }
    }

    #[test]
    fn objects_are_written_once_and_the_oldest_dies_first() {
        let mut store = store("objects:delete=oldest,spread=0,writers=1,gets=1");
        let all = take(&mut store, Bytes::gib(4));
        let trims: Vec<u16> =
            all.iter().filter(|r| r.op == Op::Trim).map(|r| r.stream.file).collect();
        assert!(trims.is_sorted() && trims.len() > 500, "{}", trims.len());
        let bytes = |op| all.iter().filter(|r| r.op == op).map(|r| r.length.0).sum::<u64>();
        let share = bytes(Op::Read) as f64 / bytes(Op::Write) as f64;
        assert!((0.95..1.05).contains(&share), "{share}");
    }

    #[test]
    fn young_objects_die_when_about_as_much_is_written() {
        let mut store = store("objects:short=1,short.after=25%,fill=100%");
        take(&mut store, Bytes::gib(4));
        // As many bytes are there as are written in the mean life.
        let life = store.short_after as f64;
        assert!((0.8..1.3).contains(&(store.held as f64 / life)), "{}", store.held);
        assert!(store.live.is_empty());
    }
}
