//! A simulated drive served as it is, without a pool: `layer = "raw"` or `"tag"`.
//!
//! Invariants:
//! * Each volume is a fixed range of the drive, in the order of the settings. Blocks keep their addresses.
//! * A flush covers the writes, trims and zeroings that were answered before it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use rustc_hash::FxHashMap;
use thermocline_format::{VolumeId, VolumeName};
use thermocline_ftl::placement::Policy;
use thermocline_nand::{Counters, Drive, Tagger};
use thermocline_target::{
    BlockTarget, Clock, Features, Info, PlacementHandles, Request, TargetError,
};
use thermocline_types::{
    Bytes, Class, DeviceId, Op, Request as DriveRequest, StreamId, TenantId, Time, Version,
};

use super::answer::{Asked, Done, Tally};
use super::traffic::Traffic;
use super::volume_state::VolumeState;
use crate::Buffer;
use crate::media::{Contents, MediaError};
use crate::settings::{ServedLayer, Settings};
use crate::storage::{Access, Command, Completion, Simulated, Storage as _, Token, Waker};

/// A simulated drive on a separate thread. Dropping it makes all data durable and ends the thread.
pub struct BareDrive {
    shared: Arc<Shared>,
    volumes: Vec<BareVolume>,
    capacity: Bytes,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// `None` after the end of the thread.
    queue: Mutex<Option<Vec<Job>>>,
    closing: AtomicBool,
    wake: Waker,
}

enum Job {
    Ask(Ask),
    Look(mpsc::Sender<Counters>),
}

/// A range of the drive, with the name of a volume.
#[derive(Clone)]
pub struct BareVolume {
    shared: Arc<Shared>,
    state: Arc<VolumeState>,
    start: Bytes,
    /// Handles that hosts may name; `None` where the layer chooses the handle.
    handles: Option<DriveHandles>,
}

/// The placement handles of a drive.
#[derive(Clone, Copy)]
struct DriveHandles {
    count: u16,
    unit: Bytes,
    stay_apart: bool,
}

impl DriveHandles {
    /// Of the drive of `settings`, if writes go to it as hosts place them.
    fn of(settings: &Settings, drive: &Drive) -> Result<Option<DriveHandles>, MediaError> {
        let count = drive.placement_handles();
        let is_raw = matches!(settings.pool.layer(), ServedLayer::Log | ServedLayer::Raw);
        let stay_apart = settings.profile()?.fdp.is_some_and(|fdp| fdp.persistently_isolated);
        let handles = DriveHandles { count, unit: drive.cut().unit(), stay_apart };
        Ok((is_raw && count > 1).then_some(handles))
    }
}

/// A request on its way.
struct Ask {
    what: What,
    /// First byte on the drive, and bytes.
    at: Bytes,
    length: Bytes,
    fua: bool,
    /// The number of its volume.
    volume: u32,
    /// The placement handle that the host named, or 0.
    handle: u16,
    asked: Asked,
}

enum What {
    Read(Buffer),
    Write(Buffer),
    Zero,
    Flush,
}

/// Rule for the placement handles of writes.
enum Tags {
    Host,
    Volume,
    Policy(Box<Tagger>),
}

impl BareDrive {
    /// Opens the simulated drive of `settings`; a file that does not exist is made.
    ///
    /// # Errors
    /// [`MediaError`], also when the drive has zones, a pool is on it, or the volumes do not fit.
    pub fn open(settings: &Settings, read_only: bool) -> Result<BareDrive, MediaError> {
        let wrong = |reason: String| MediaError::Settings(settings.error("pool.layer", reason));
        let drive = settings.drive()?;
        if let Drive::Zoned(_) = drive {
            let reason = "a drive with zones takes no writes in any order: serve it with `log`";
            return Err(wrong(reason.to_owned()));
        }
        if let Contents::Pool(pool) = settings.contents_if_there()? {
            let path = settings.device().path.display();
            return Err(wrong(format!(
                "{path} holds the pool {pool}: give the drive another device.path"
            )));
        }
        let tags = match settings.pool.layer() {
            ServedLayer::Log | ServedLayer::Raw => Tags::Host,
            ServedLayer::Tag => Tags::Volume,
            ServedLayer::TagAuto => {
                let handles = drive.placement_handles().min(u8::MAX.into()) as u8;
                let policy: Policy = "auto".parse().expect("the name of a policy");
                Tags::Policy(Box::new(Tagger::new(policy, handles, drive.cut())))
            }
        };
        let handles = DriveHandles::of(settings, &drive)?;
        let access = if read_only { Access::ReadOnly } else { Access::ReadWrite };
        let storage = settings.simulated(drive, access)?;
        let capacity = storage.layout().size();
        let shared = Arc::new(Shared {
            queue: Mutex::new(Some(Vec::new())),
            closing: AtomicBool::new(false),
            wake: storage.waker(),
        });
        let volumes = ranges(settings, capacity)?;
        let volumes = volumes.into_iter().zip(1..).map(|((name, start, length), id)| {
            let blocks = length.0 / Bytes::BLOCK.0;
            let state = VolumeState::new(VolumeId(id), name, blocks, Clock::default());
            BareVolume { shared: Arc::clone(&shared), state: Arc::new(state), start, handles }
        });
        let volumes = volumes.collect();
        let worker = Worker::new(storage, tags, Arc::clone(&shared));
        let builder = thread::Builder::new().name("thermocline-drive".to_owned());
        let thread = builder.spawn(move || worker.run());
        let thread = thread.map_err(|error| wrong(format!("no thread for the drive: {error}")))?;
        Ok(BareDrive { shared, volumes, capacity, thread: Some(thread) })
    }

    /// The volumes, in the order of the settings.
    #[must_use]
    pub fn volumes(&self) -> &[BareVolume] {
        &self.volumes
    }

    /// Bytes of the drive.
    #[must_use]
    pub fn capacity(&self) -> Bytes {
        self.capacity
    }

    /// Bytes through the drive since it was opened; `None` when it has stopped.
    #[must_use]
    pub fn counters(&self) -> Option<Counters> {
        self.shared.counters()
    }

    /// Requests to all volumes since the drive was opened.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let mut all = Traffic::default();
        self.volumes.iter().for_each(|volume| all.add(&volume.traffic()));
        all
    }
}

impl Drop for BareDrive {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        (self.shared.wake)();
        // A panic of the thread has printed its message.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Name, first byte and bytes of each volume.
fn ranges(
    settings: &Settings,
    capacity: Bytes,
) -> Result<Vec<(VolumeName, Bytes, Bytes)>, MediaError> {
    let whole = |bytes: Bytes| Bytes(bytes.0 / Bytes::BLOCK.0 * Bytes::BLOCK.0);
    let given: u64 = settings.volumes.iter().filter_map(|one| one.size).map(|size| size.0).sum();
    let rest = whole(Bytes(capacity.0.saturating_sub(given)));
    let mut start = Bytes::ZERO;
    let mut ranges = Vec::new();
    for (index, volume) in settings.volumes.iter().enumerate() {
        let length = volume.size.map_or(rest, whole);
        if length == Bytes::ZERO || start + length > capacity {
            let reason = format!(
                "the drive has {capacity} without the log, and {start} are taken before this volume"
            );
            return Err(settings.error(&format!("volumes[{index}].size"), reason).into());
        }
        let name = VolumeName::new(&volume.name).expect("names were checked");
        ranges.push((name, start, length));
        start += length;
    }
    Ok(ranges)
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Option<Vec<Job>>> {
        // No panic under the lock can leave a half-made change.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes through the drive since it was opened; `None` when it has stopped.
    fn counters(&self) -> Option<Counters> {
        let (sender, receiver) = mpsc::channel();
        self.push(Job::Look(sender));
        receiver.recv().ok()
    }

    /// A job that comes after the end is dropped, which answers it.
    fn push(&self, job: Job) {
        if let Some(queue) = &mut *self.queue() {
            queue.push(job);
        }
        (self.wake)();
    }
}

impl BareVolume {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> VolumeName {
        self.state.name()
    }

    /// Its number, from 1 on.
    #[must_use]
    pub fn id(&self) -> VolumeId {
        self.state.id
    }

    /// Requests since the drive was opened.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.state.traffic.read()
    }
}

impl BlockTarget for BareVolume {
    fn info(&self) -> Info {
        Info {
            size: Bytes(self.state.blocks.load(Ordering::Acquire) * Bytes::BLOCK.0),
            logical_block: Bytes::BLOCK,
            features: Features { flush: true, fua: true, trim: true, zeroes: true },
        }
    }

    fn placement(&self) -> Option<PlacementHandles> {
        let DriveHandles { count: handles, unit, stay_apart } = self.handles?;
        let Counters { host_written, media_total, erased, .. } = self.shared.counters()?;
        let bytes = [host_written, media_total, erased].map(Bytes);
        let [host_written, media_written, erased] = bytes;
        Some(PlacementHandles { handles, unit, stay_apart, host_written, media_written, erased })
    }

    fn submit(&self, request: Request) {
        let handle = match request {
            Request::Write { handle, .. } => handle,
            _ => 0,
        };
        let tally = Tally::begin(&self.state, &request);
        if let Err(error) = request.check(&self.info()) {
            tally.end(false);
            return request.fail(error);
        }
        let (offset, length) = request.range().unwrap_or((Bytes::ZERO, Bytes::ZERO));
        let (what, fua, done) = match request {
            Request::Read { buffer, done, .. } => {
                let buffer = Buffer::new(buffer);
                (What::Read(buffer.clone()), false, Done::Data(done, buffer))
            }
            Request::Write { buffer, fua, done, .. } => {
                (What::Write(Buffer::new(buffer)), fua, Done::Nothing(done))
            }
            Request::Flush { done } => (What::Flush, false, Done::Nothing(done)),
            Request::Trim { done, .. } => (What::Zero, false, Done::Nothing(done)),
            Request::WriteZeroes { fua, done, .. } => (What::Zero, fua, Done::Nothing(done)),
        };
        let (at, volume) = (self.start + offset, self.state.id.0);
        let ask = Ask { what, at, length, fua, volume, handle, asked: Asked { tally, done } };
        self.shared.push(Job::Ask(ask));
    }
}

/// The thread of a drive.
struct Worker {
    storage: Simulated,
    tags: Tags,
    shared: Arc<Shared>,
    /// Requests under way, each with the number of its commands under way.
    asks: FxHashMap<u64, UnderWay>,
    /// The request of each command.
    commands: FxHashMap<Token, u64>,
    /// Numbers of requests and commands so far.
    numbers: u64,
}

struct UnderWay {
    left: u32,
    failed: bool,
    fua: bool,
    asked: Asked,
}

impl Worker {
    fn new(storage: Simulated, tags: Tags, shared: Arc<Shared>) -> Worker {
        let (asks, commands) = (FxHashMap::default(), FxHashMap::default());
        Worker { storage, tags, shared, asks, commands, numbers: 0 }
    }

    fn run(mut self) {
        let mut done: Vec<Completion> = Vec::new();
        loop {
            let closing = self.shared.closing.load(Ordering::SeqCst);
            let jobs = self.shared.queue().as_mut().map(std::mem::take);
            for job in jobs.into_iter().flatten() {
                match job {
                    Job::Ask(ask) => self.begin(ask),
                    // The caller may have gone.
                    Job::Look(sender) => _ = sender.send(self.counters()),
                }
            }
            if closing && self.asks.is_empty() {
                break;
            }
            self.storage.reap(None, &mut done);
            done.drain(..).for_each(|completion| self.ended(&completion));
        }
        *self.shared.queue() = None;
        self.numbers += 1;
        self.storage.submit(Token(self.numbers), Command::Flush(DeviceId(0)));
        while done.is_empty() {
            self.storage.reap(None, &mut done);
        }
    }

    fn counters(&self) -> Counters {
        self.storage.drive_counters().unwrap_or_default()
    }

    fn begin(&mut self, ask: Ask) {
        let Ask { what, at, length, fua, volume, handle, asked } = ask;
        self.numbers += 1;
        let number = self.numbers;
        let under_way = UnderWay { left: 0, failed: false, fua, asked };
        self.asks.insert(number, under_way);
        if let What::Flush = what {
            return self.flush(number);
        }
        let class = match what {
            What::Write(_) => self.class((volume, handle), at, length),
            _ => Class(0),
        };
        // The storage takes no command across the end of a unit.
        let unit = self.storage.layout().unit_bytes().0;
        let mut from = 0;
        while from < length.0 {
            let start = at.0 + from;
            let piece = (unit - start % unit).min(length.0 - from);
            let token = self.token(number);
            let part = |buffer: &Buffer| buffer.part(from as usize, piece as usize);
            let at = Bytes(start);
            match &what {
                What::Read(buffer) => {
                    let (into, version) = (part(buffer), Version::AS_READ);
                    self.storage.submit(token, Command::Read { at, into, version });
                }
                What::Write(buffer) => {
                    let parts = vec![part(buffer)];
                    self.storage.submit(token, Command::Write { at, parts, class });
                }
                What::Zero | What::Flush => self.storage.trim(token, at, Bytes(piece)),
            }
            from += piece;
        }
    }

    fn flush(&mut self, number: u64) {
        let token = self.token(number);
        self.storage.submit(token, Command::Flush(DeviceId(0)));
    }

    /// A token for another command of a request.
    fn token(&mut self, number: u64) -> Token {
        self.numbers += 1;
        let token = Token(self.numbers);
        self.commands.insert(token, number);
        if let Some(ask) = self.asks.get_mut(&number) {
            ask.left += 1;
        }
        token
    }

    /// The handle of a write.
    fn class(&mut self, (volume, handle): (u32, u16), at: Bytes, length: Bytes) -> Class {
        let of = |number: u32| Class(number.min(u8::MAX.into()) as u8);
        match &mut self.tags {
            Tags::Host => of(handle.into()),
            Tags::Volume => of(volume - 1),
            Tags::Policy(tagger) => {
                let request = DriveRequest {
                    at: Time::ZERO,
                    offset: at,
                    length,
                    tenant: TenantId(volume),
                    stream: StreamId::UNKNOWN,
                    op: Op::Write,
                    outstanding: None,
                };
                Class(tagger.handle(&[request]).min(u8::MAX.into()) as u8)
            }
        }
    }

    fn ended(&mut self, completion: &Completion) {
        let Some(number) = self.commands.remove(&completion.token) else { return };
        let Some(ask) = self.asks.get_mut(&number) else { return };
        ask.left -= 1;
        ask.failed |= completion.result.is_err();
        if ask.left > 0 {
            return;
        }
        if std::mem::take(&mut ask.fua) && !ask.failed {
            return self.flush(number);
        }
        if let Some(UnderWay { failed, asked, .. }) = self.asks.remove(&number) {
            asked.end(if failed { Err(TargetError::Io) } else { Ok(()) });
        }
    }
}
