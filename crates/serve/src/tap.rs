//! What clients ask of served volumes, recorded as a trace.
//!
//! Invariants:
//! * No request waits for the trace: what finds the queue full is left out, and counted.
//! * The file grows by whole lines, or whole compressed pieces of them, so that it can be read at any time.
//! * Nothing that goes wrong with the file reaches a client: it is told, recording ends, and the pool is served on.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use thermocline_target::{
    BlockTarget, Completion, Export, Extent, Info, PlacementHandles, Property, Request, Snapshot,
    UnderWay,
};
use thermocline_types::{self as types, Bytes, Op, StreamId, TenantId, Time};
use thermocline_workload::trace;

use crate::Error;
use crate::log::Log;

/// Requests that may wait to be written: 3 MiB. Chosen, not measured.
const QUEUE: usize = 1 << 16;
/// Text that is written at a time, and for how long it may wait. Chosen, not measured.
const PIECE: usize = 256 << 10;
const EVERY: Duration = Duration::from_secs(1);
/// How often the queue is looked into when it is empty: a wake-up for each request would cost callers more than the
/// trace line. Chosen, not measured: the queue holds 20 ms of 3 million requests a second.
const LOOK: Duration = Duration::from_millis(20);

/// A request of a volume, as it is recorded.
struct Line {
    request: types::Request,
    volume: Arc<str>,
}

enum Message {
    Line(Line),
    End,
}

/// The queue of recorded requests between targets and the writing thread.
#[derive(Clone)]
struct LineQueue {
    began: Instant,
    sender: SyncSender<Message>,
    left_out: Arc<AtomicU64>,
}

/// A trace that is being recorded.
pub struct Recorder {
    queue: LineQueue,
    path: PathBuf,
    end: Receiver<io::Result<u64>>,
}

/// Records the requests to each export's target, including exports added while the pool is served. Recording can begin
/// and end at any time. Clones share the recorder.
#[derive(Clone)]
pub struct Tap(Arc<Slot>);

struct Slot {
    log: Log,
    /// Whether a queue exists; checked by each request.
    is_on: AtomicBool,
    queue: RwLock<Option<LineQueue>>,
    recorder: Mutex<Option<Recorder>>,
}

/// A new file like `path`, which has a number before its first dot where that is taken: no trace is written over, and a
/// service that is started again records again.
///
/// # Errors
/// If the file cannot be created.
fn new_file(path: &Path) -> Result<(File, PathBuf), Error> {
    /// More are kept by nobody.
    const MOST: u32 = 10_000;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (stem, end) = name.split_at(name.find('.').unwrap_or(name.len()));
    for number in 0..MOST {
        let path = match number {
            0 => path.to_owned(),
            number => path.with_file_name(format!("{stem}-{number}{end}")),
        };
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot(&path, &error)),
        }
    }
    Err(cannot(path, &"it exists already, and so do those with numbers"))
}

fn cannot(path: &Path, why: &dyn Display) -> Error {
    Error::Refused(format!("{}: no trace can be recorded there: {why}", path.display()))
}

impl Recorder {
    /// Records into a new file at `path`, compressed if its name ends in `.gz` or `.zst`.
    ///
    /// # Errors
    /// If the file cannot be created.
    fn start(path: &Path, log: &Log) -> Result<Recorder, Error> {
        let (file, path) = new_file(path)?;
        Ok(Recorder::to(file, &path, log)?)
    }

    /// Records into `file`, which is at `path`.
    fn to(file: File, path: &Path, log: &Log) -> io::Result<Recorder> {
        let (sender, lines) = mpsc::sync_channel(QUEUE);
        let (told, end) = mpsc::sync_channel(1);
        let queue = LineQueue { began: Instant::now(), sender, left_out: Arc::default() };
        let log = log.clone();
        let mut output = Output { file, packing: Packing::of(path), log: log.clone() };
        let (left_out, path) = (Arc::clone(&queue.left_out), path.to_owned());
        let named = path.clone();
        let write = move || {
            let written = output.write(&lines, &left_out, &named);
            if let Err(error) = &written {
                log.warn(format_args!(
                    "{}: the trace cannot be written: {error}; nothing more is recorded, the pool is served on",
                    named.display()
                ));
            }
            // The receiver may be gone.
            let _unheard = told.send(written);
        };
        thread::Builder::new().name("thermocline-trace".to_owned()).spawn(write)?;
        Ok(Recorder { queue, path, end })
    }

    /// Writes queued lines and reports the contents of the trace, within `patience`.
    fn finish(self, patience: Duration, log: &Log) {
        let Recorder { queue, path, end } = self;
        let began = Instant::now();
        // A queue that is full of lines empties, unless the file's device hangs.
        while let Err(TrySendError::Full(_)) = queue.sender.try_send(Message::End)
            && began.elapsed() < patience
        {
            thread::sleep(LOOK);
        }
        let left_out = queue.left_out.load(Ordering::Relaxed);
        let path = path.display();
        match end.recv_timeout(patience.saturating_sub(began.elapsed())) {
            Ok(Ok(count)) if left_out == 0 => {
                log.note(format_args!("{count} requests are recorded in {path}"));
            }
            Ok(Ok(count)) => log.note(format_args!(
                "{count} requests are recorded in {path}; {left_out} are left out, for writing it took too long"
            )),
            Ok(Err(_)) => {}
            Err(_) => {
                log.warn(format_args!("{path}: the end of the trace was not written in time"));
            }
        }
    }
}

impl Tap {
    /// Records nothing yet.
    pub fn new(log: Log) -> Tap {
        let (is_on, queue, recorder) =
            (AtomicBool::new(false), RwLock::default(), Mutex::default());
        Tap(Arc::new(Slot { log, is_on, queue, recorder }))
    }

    /// Begins to record into a new file at `path`. Returns the file, which has a number where that is taken.
    ///
    /// # Errors
    /// When a trace is being recorded, or no file can be made.
    pub fn start(&self, path: &Path) -> Result<PathBuf, Error> {
        let mut recorder = self.recorder();
        if let Some(other) = &*recorder {
            let other = other.path.display();
            return Err(Error::Refused(format!(
                "a trace is being recorded already, in {other}: end that first"
            )));
        }
        let new = Recorder::start(path, &self.0.log)?;
        let path = new.path.clone();
        self.hand(Some(new.queue.clone()));
        *recorder = Some(new);
        Ok(path)
    }

    /// Ends the recording, and waits up to `patience` for queued lines to be written. Returns the file; `None` if no
    /// recording was running.
    pub fn stop(&self, patience: Duration) -> Option<PathBuf> {
        let recorder = self.recorder().take()?;
        self.hand(None);
        let path = recorder.path.clone();
        recorder.finish(patience, &self.0.log);
        Some(path)
    }

    /// The file that is being recorded into.
    pub fn path(&self) -> Option<PathBuf> {
        self.recorder().as_ref().map(|recorder| recorder.path.clone())
    }

    fn hand(&self, queue: Option<LineQueue>) {
        let is_on = queue.is_some();
        // No panic under the lock can leave a half-made change.
        *self.0.queue.write().unwrap_or_else(PoisonError::into_inner) = queue;
        self.0.is_on.store(is_on, Ordering::Release);
    }

    fn recorder(&self) -> MutexGuard<'_, Option<Recorder>> {
        // As above.
        self.0.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a line, if a trace is being recorded. The request is one of those `under_way` until it is complete.
    fn note(&self, request: &mut Request, volume: &Arc<str>, under_way: &Arc<UnderWay>) {
        if !self.0.is_on.load(Ordering::Acquire) {
            return;
        }
        if let Some(queue) = &*self.0.queue.read().unwrap_or_else(PoisonError::into_inner) {
            let outstanding = request.count(under_way);
            queue.note(request, volume, outstanding);
        }
    }

    /// The export, with what goes to its target recorded.
    pub fn on(&self, export: Export) -> Export {
        let plain = |c: char| if c == ',' || c.is_control() { '_' } else { c };
        let volume = export.name.chars().map(plain).collect::<String>().into();
        let under_way = Arc::default();
        let tapped = Tapped { target: export.target, tap: self.clone(), volume, under_way };
        Export { target: Arc::new(tapped), ..export }
    }
}

impl LineQueue {
    fn note(&self, request: &Request, volume: &Arc<str>, outstanding: u32) {
        let op = match request {
            Request::Read { .. } => Op::Read,
            Request::Write { .. } => Op::Write,
            Request::Flush { .. } => Op::Flush,
            Request::Trim { .. } => Op::Trim,
            Request::WriteZeroes { .. } => Op::WriteZeroes,
        };
        let (offset, length) = in_sectors(request);
        let line = Line {
            request: types::Request {
                at: Time(self.began.elapsed().as_micros() as u64 * 1_000),
                offset,
                length,
                tenant: TenantId(0),
                stream: StreamId::UNKNOWN,
                op,
                outstanding: Some(outstanding.min(u16::MAX.into()) as u16),
            },
            volume: Arc::clone(volume),
        };
        if let Err(TrySendError::Full(_)) = self.sender.try_send(Message::Line(line)) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A target whose requests are recorded.
struct Tapped {
    target: Arc<dyn BlockTarget>,
    tap: Tap,
    volume: Arc<str>,
    /// Recorded requests that are not complete.
    under_way: Arc<UnderWay>,
}

impl BlockTarget for Tapped {
    fn info(&self) -> Info {
        self.target.info()
    }

    fn submit(&self, mut request: Request) {
        self.tap.note(&mut request, &self.volume, &self.under_way);
        self.target.submit(request);
    }

    fn extents(&self, of: Property, offset: Bytes, length: Bytes, done: Completion<Vec<Extent>>) {
        self.target.extents(of, offset, length, done);
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        self.target.snapshots()
    }

    fn placement(&self) -> Option<PlacementHandles> {
        self.target.placement()
    }

    fn at_any_byte(&self) -> Option<Arc<dyn BlockTarget>> {
        let target = self.target.at_any_byte()?;
        let (tap, volume) = (self.tap.clone(), Arc::clone(&self.volume));
        Some(Arc::new(Tapped { target, tap, volume, under_way: Arc::clone(&self.under_way) }))
    }
}

/// The sectors that a request touches: traces have no bytes.
fn in_sectors(request: &Request) -> (Bytes, Bytes) {
    let (offset, length) = request.range().unwrap_or_default();
    let start = offset.0 / 512 * 512;
    let end = (offset.0 + length.0).next_multiple_of(512);
    (Bytes(start), Bytes(end - start))
}

/// How the file is packed.
#[derive(Clone, Copy)]
enum Packing {
    Plain,
    Gzip,
    Zstd,
}

impl Packing {
    /// By the end of a name.
    fn of(path: &Path) -> Packing {
        match path.extension().and_then(|end| end.to_str()) {
            Some("gz") => Packing::Gzip,
            Some("zst") => Packing::Zstd,
            _ => Packing::Plain,
        }
    }

    /// A piece that can be unpacked by itself, and behind others.
    fn pack(self, text: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Packing::Plain => Ok(text.to_vec()),
            Packing::Gzip => {
                let mut packer =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                packer.write_all(text)?;
                packer.finish()
            }
            Packing::Zstd => zstd::encode_all(text, 0),
        }
    }
}

struct Output {
    file: File,
    packing: Packing,
    log: Log,
}

impl Output {
    /// Writes lines until the end, and counts them.
    fn write(
        &mut self,
        lines: &Receiver<Message>,
        left_out: &AtomicU64,
        path: &Path,
    ) -> io::Result<u64> {
        let (mut text, mut count) = (trace::csv_header(), 0);
        let (mut since, mut is_said, mut last) = (Instant::now(), false, Time::ZERO);
        self.put(&mut text)?;
        loop {
            let is_over = match lines.try_recv() {
                Ok(Message::Line(mut line)) => {
                    // Threads may come to the queue in another order than to the clock.
                    last = line.request.at.max(last);
                    line.request.at = last;
                    trace::csv_line(&line.request, &line.volume, &mut text);
                    count += 1;
                    false
                }
                Err(TryRecvError::Empty) => {
                    thread::sleep(LOOK);
                    false
                }
                Ok(Message::End) | Err(TryRecvError::Disconnected) => true,
            };
            if is_over || text.len() >= PIECE || since.elapsed() >= EVERY {
                self.put(&mut text)?;
                since = Instant::now();
            }
            if !is_said && left_out.load(Ordering::Relaxed) > 0 {
                is_said = true;
                self.log.warn(format_args!(
                    "{}: requests come faster than they can be recorded; some are left out",
                    path.display()
                ));
            }
            if is_over {
                return Ok(count);
            }
        }
    }

    fn put(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        if !text.is_empty() {
            self.file.write_all(&self.packing.pack(text)?)?;
            text.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use thermocline_target::Memory;

    use super::*;
    use crate::news::Unattended;

    fn log() -> Log {
        Log::new(Arc::new(Unattended), Path::new("pool.toml"))
    }

    fn tap() -> Tap {
        Tap::new(log())
    }

    fn queue(room: usize) -> (LineQueue, Receiver<Message>) {
        let (sender, lines) = sync_channel(room);
        (LineQueue { began: Instant::now(), sender, left_out: Arc::default() }, lines)
    }

    fn flush(export: &Export) {
        let (told, heard) = sync_channel(1);
        let done = Completion::new(move |result| told.send(result).expect("it is waited for"));
        export.target.submit(Request::Flush { done });
        assert_eq!(heard.recv().expect("it completes"), Ok(()));
    }

    #[test]
    fn what_finds_the_queue_full_or_closed_is_served_all_the_same() {
        let (queue, lines) = queue(2);
        let target = Arc::new(Memory::new(Bytes::mib(1), Bytes::BLOCK));
        let export = Export { name: "a,b".into(), target, read_only: false };
        let tap = tap();
        let export = tap.on(export);
        flush(&export);
        tap.hand(Some(queue.clone()));
        (0..5).for_each(|_| flush(&export));
        assert_eq!(queue.left_out.load(Ordering::Relaxed), 3);
        let Ok(Message::Line(line)) = lines.recv() else { panic!("a line") };
        assert_eq!(&*line.volume, "a_b", "no comma in a column");
        drop(lines);
        flush(&export);
        assert_eq!(queue.left_out.load(Ordering::Relaxed), 3, "nobody records any more");
    }

    #[test]
    fn a_device_that_is_full_ends_the_recording_and_nothing_else() {
        let file = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let recorder = Recorder::to(file, Path::new("t.csv"), &log()).expect("a thread");
        let target = Arc::new(Memory::new(Bytes::mib(1), Bytes::BLOCK));
        let tap = tap();
        tap.hand(Some(recorder.queue.clone()));
        let export = tap.on(Export { name: "m".into(), target, read_only: false });
        (0..3).for_each(|_| flush(&export));
        let written = recorder.end.recv().expect("it was told");
        assert_eq!(written.expect_err("full").kind(), io::ErrorKind::StorageFull);
        (0..3).for_each(|_| flush(&export));
    }

    #[test]
    fn a_file_that_hangs_does_not_keep_the_server_from_ending() {
        let (queue, _lines) = queue(1);
        queue.sender.send(Message::End).expect("room for one");
        let (_told, end) = sync_channel(1);
        let path = PathBuf::from("t.csv");
        Recorder { queue, path, end }.finish(Duration::from_millis(50), &log());
    }

    #[test]
    fn a_file_that_is_there_is_kept_and_the_next_has_a_number() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.csv.zst");
        let tap = tap();
        for expected in ["t.csv.zst", "t-1.csv.zst", "t-2.csv.zst"] {
            let made = tap.start(&path).expect("a file can be made");
            assert_eq!(made, folder.path().join(expected));
            assert_eq!(tap.path(), Some(made.clone()));
            let error = tap.start(&path).expect_err("one at a time").to_string();
            assert!(error.contains(expected), "{error}");
            assert_eq!(tap.stop(Duration::from_secs(10)), Some(made));
        }
        assert_eq!(tap.stop(Duration::ZERO), None);
    }

    #[test]
    fn pieces_unpack_one_behind_the_other() {
        for packing in [Packing::Plain, Packing::Gzip, Packing::Zstd] {
            let mut all = packing.pack(b"one\n").expect("packed");
            all.extend(packing.pack(b"two\n").expect("packed"));
            let mut text = Vec::new();
            let unpacked = match packing {
                Packing::Plain => io::copy(&mut &all[..], &mut text),
                Packing::Gzip => {
                    io::copy(&mut flate2::read::MultiGzDecoder::new(&all[..]), &mut text)
                }
                Packing::Zstd => {
                    io::copy(&mut zstd::Decoder::new(&all[..]).expect("zstd"), &mut text)
                }
            };
            unpacked.expect("whole");
            assert_eq!(text, b"one\ntwo\n");
        }
    }
}
