//! A pool with a thread of its own, for requests from any thread.
//!
//! Invariants:
//! * Each request that was taken is answered once, or its answer is dropped when the thread ends.
//! * The thread of the pool never waits for the room in its own queue.

mod answer;
mod bare;
mod counts;
mod endurance;
mod events;
mod fullness;
mod latency;
mod lost;
mod overdue;
mod question;
mod reopen;
mod scrubbing;
mod service;
mod stalls;
mod stepper;
mod totals;
mod traffic;
mod turns;
mod volume;
mod volume_state;

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, mpsc};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use thermocline_engine::{Engine, HostError, HostRequest, Reply};
use thermocline_format::{MediaClass, VolumeId, VolumeMedia, VolumeName};
use thermocline_nand::Counters;
use thermocline_target::Clock;
use thermocline_target::bugs::{self, ShellBug};

pub use bare::{BareDrive, BareVolume};
pub use counts::Counts;
pub use endurance::{Endurance, Wear, WearStatus};
pub use events::{DamageFound, Event, Listener};
pub use fullness::{Fullness, FullnessLevel, FullnessMarks};
pub use latency::{LATENCY_BUCKETS_MICROS, Latencies};
pub use reopen::ReopenError;
pub use scrubbing::{ScrubEnd, ScrubFindings, ScrubRecord, ScrubSchedule, ScrubUnderWay};
pub use stalls::Stall;
pub use stepper::Stepper;
pub use totals::{Named, Totals};
pub use traffic::{Operation, Traffic};
pub use turns::{VolumeLimitError, VolumeLimits};
pub use volume::Volume;

#[cfg(doc)]
use crate::storage::Storage;
use crate::storage::Waker;
use crate::{AnyStorage, Buffer, Driver};
use answer::Answer;
use question::Question;
use reopen::Reopening;
use service::Service;
use volume_state::VolumeState;

/// Maximum queued requests per volume; further callers block. Chosen, not measured.
const QUEUE: usize = 1024;

type Look = Box<dyn FnOnce(&View<'_>) + Send>;

/// State of a pool between two steps.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The engine.
    pub engine: &'a Engine<Buffer>,
    /// Counts of earlier openings.
    pub earlier: &'a Counts,
    /// Bytes written to the drives and programmed to media; `None` unless the drives are simulated.
    pub drive: Option<Counters>,
    /// Wear of the classes with a stated endurance.
    pub wear: &'a [WearStatus],
    /// How full the pool is.
    pub fullness: Fullness,
    /// Schedule and findings of scrubs; `None` of a pool that is never scrubbed.
    pub scrubs: Option<&'a ScrubSchedule>,
    /// Bytes over all services.
    pub totals: &'a Totals,
}

/// Background upkeep of a running pool.
#[derive(Clone, Debug, Default)]
pub struct PoolUpkeep {
    /// Longest time that written data stays unflushed; `None`: for ever.
    pub flush_after: Option<Duration>,
    /// Endurance by class of media. Fast devices are spared when writes exceed their budget.
    pub endurance: Vec<(MediaClass, Endurance)>,
    /// When the pool reports that it is nearly full.
    pub marks: FullnessMarks,
    /// When the pool scrubs itself; `None`: never, not even on request.
    pub scrubs: Option<ScrubSchedule>,
    /// Bytes of earlier services.
    pub totals: Totals,
}

enum Job {
    /// Of a volume, or of the pool.
    Request {
        what: HostRequest<Buffer>,
        answer: Answer,
    },
    /// Of a volume.
    Question(Question),
    Look(Look),
    Register {
        poller: Box<dyn Poller>,
        refused: mpsc::Sender<Box<dyn Poller>>,
    },
    Reopen(Reopening),
    /// Begin a scrub, or stop the one in progress.
    Scrub {
        begin: bool,
        answer: mpsc::Sender<bool>,
    },
    Reserve {
        volume: VolumeId,
        blocks: u64,
        answer: Box<dyn FnOnce(Result<(), HostError>) + Send>,
    },
}

/// A front end on the thread of a pool, run between the pool's steps. The poller waits for both sides, so requests pass
/// between front end and pool without waking a thread.
pub trait Poller: Send {
    /// Does pending work. If idle, waits up to `wait` for the poller's own events, for the waker, and for a descriptor
    /// of `devices` to be readable.
    fn turn(&mut self, wait: Option<Duration>, devices: &[BorrowedFd<'_>]);

    /// Ends the poller's wait, from any thread.
    fn waker(&self) -> Waker;
}

/// An open pool on a separate thread. Dropping the pool closes it in order.
pub struct Pool {
    shared: Arc<Shared>,
    /// Locked while names change: a name is free when its loss is durable.
    naming: Mutex<()>,
    thread: Option<JoinHandle<()>>,
}

/// State shared by the thread, the pool and the volumes.
struct Shared {
    queue: Mutex<Queue>,
    /// The queue changed since the thread of the pool last took from the queue. Set under the lock of the queue.
    news: AtomicBool,
    /// There is room in the queue again.
    room: Condvar,
    wake: RwLock<Waker>,
    /// Waker of the registered poller.
    wake_poller: OnceLock<Waker>,
    volumes: Mutex<BTreeMap<u32, Arc<VolumeState>>>,
    /// Traffic of deleted volumes.
    of_deleted: Mutex<Traffic>,
    clock: Clock,
}

#[derive(Default)]
struct Queue {
    jobs: Vec<Job>,
    /// New limits of volumes. They take effect at once, so a later request to close still lifts them.
    limits: Vec<(VolumeId, VolumeLimits)>,
    /// The thread of the pool, once it runs.
    thread: Option<ThreadId>,
    /// Nothing is taken any more.
    closed: bool,
}

impl Pool {
    /// Gives `driver` a thread. `listener` hears of everything that the engine has to tell.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(driver: Driver<AnyStorage>, listener: Listener) -> std::io::Result<Pool> {
        Pool::start_with(driver, listener, &PoolUpkeep::default())
    }

    /// As [`Pool::start`]; and the pool does what `upkeep` says on its own.
    ///
    /// # Errors
    /// As [`Pool::start`].
    pub fn start_with(
        driver: Driver<AnyStorage>,
        listener: Listener,
        upkeep: &PoolUpkeep,
    ) -> std::io::Result<Pool> {
        let service = Service::new(driver, listener, upkeep);
        let shared = Arc::clone(&service.shared);
        let builder = thread::Builder::new().name("thermocline-pool".to_owned());
        let thread = builder.spawn(move || Stepper::new(service).run())?;
        Ok(Pool { shared, naming: Mutex::new(()), thread: Some(thread) })
    }

    fn naming(&self) -> MutexGuard<'_, ()> {
        // The lock guards no data.
        self.naming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The volume of this name.
    #[must_use]
    pub fn volume(&self, name: &str) -> Option<Volume> {
        let volumes = self.shared.volumes();
        let state = volumes.values().find(|state| state.name().as_str() == name)?;
        Some(Volume::new(Arc::clone(&self.shared), Arc::clone(state)))
    }

    /// Whether the pool is closed, or its thread has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.queue().closed
    }

    /// Names of all volumes, the oldest first.
    #[must_use]
    pub fn volume_names(&self) -> Vec<VolumeName> {
        self.shared.volumes().values().map(|state| state.name()).collect()
    }

    /// Makes a volume of `blocks` blocks of 4096 bytes; durable when this returns.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn create_volume(&self, name: VolumeName, blocks: u64) -> Result<Volume, HostError> {
        self.make(HostRequest::CreateVolume { name, blocks })
    }

    /// Makes a snapshot of a volume: a volume `VOLUME@NAME` that shows what the volume has now, and takes no writes.
    /// Durable when this returns.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn snapshot_volume(&self, of: VolumeId, name: VolumeName) -> Result<Volume, HostError> {
        self.make(HostRequest::SnapshotVolume { volume: of, name })
    }

    /// Makes a clone of a snapshot: a volume that shows the blocks of the snapshot until they are written or trimmed.
    /// Durable when this returns.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn clone_volume(&self, snapshot: VolumeId, name: VolumeName) -> Result<Volume, HostError> {
        self.make(HostRequest::CloneVolume { snapshot, name })
    }

    fn make(&self, what: HostRequest<Buffer>) -> Result<Volume, HostError> {
        let _one = self.naming();
        let Reply::Created(id) = self.carry_out(what)? else {
            unreachable!("that is what creation replies")
        };
        let made =
            self.look(move |view| view.engine.volumes().into_iter().find(|one| one.id == id));
        let info = made.flatten().ok_or(HostError::Failed)?;
        let state = Arc::new(VolumeState::of(info, self.shared.clock.clone()));
        self.shared.volumes().insert(id.0, Arc::clone(&state));
        Ok(Volume::new(Arc::clone(&self.shared), state))
    }

    /// Deletes a volume; durable when this returns. Its handles refuse everything from then on.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn delete_volume(&self, volume: VolumeId) -> Result<(), HostError> {
        let _one = self.naming();
        self.carry_out(HostRequest::DeleteVolume { volume })?;
        if let Some(state) = self.shared.volumes().remove(&volume.0) {
            state.blocks.store(0, Ordering::Release);
            self.shared.of_deleted().add(&state.traffic.read());
        }
        Ok(())
    }

    /// Changes the size of a volume; durable when this returns.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn resize_volume(&self, volume: VolumeId, blocks: u64) -> Result<(), HostError> {
        self.carry_out(HostRequest::ResizeVolume { volume, blocks })?;
        if let Some(state) = self.shared.volumes().get(&volume.0) {
            state.blocks.store(blocks, Ordering::Release);
        }
        Ok(())
    }

    /// Gives a volume another name; durable when this returns.
    ///
    /// # Errors
    /// [`HostError`]; [`HostError::NameTaken`] if another volume has the name.
    pub fn rename_volume(&self, volume: VolumeId, name: VolumeName) -> Result<(), HostError> {
        let _one = self.naming();
        self.carry_out(HostRequest::RenameVolume { volume, name })?;
        // Snapshots have the name of their volume in theirs.
        let infos = self.look(|view| view.engine.volumes()).ok_or(HostError::Failed)?;
        let volumes = self.shared.volumes();
        for info in infos {
            if let Some(state) = volumes.get(&info.id.0) {
                state.rename(info.name);
            }
        }
        Ok(())
    }

    /// Says where the blocks of a volume are to be; durable when this returns.
    ///
    /// # Errors
    /// [`HostError`], of a pool without fast devices too.
    pub fn set_media(&self, volume: VolumeId, media: VolumeMedia) -> Result<(), HostError> {
        self.carry_out(HostRequest::SetMedia { volume, media }).map(|_| ())
    }

    /// Sets the limits of a volume until the pool is closed. Returns whether the volume exists.
    pub fn set_limits(&self, volume: VolumeId, limits: VolumeLimits) -> bool {
        let state = self.shared.volumes().get(&volume.0).cloned();
        if let Some(state) = &state {
            *state.limits() = limits;
            let mut queue = self.shared.queue();
            queue.limits.push((volume, limits));
            self.shared.news.store(true, Ordering::Release);
            drop(queue);
            self.shared.wake();
        }
        state.is_some()
    }

    /// Lifts the limits of all volumes: what waits for them is carried out as soon as can be.
    pub fn lift_limits(&self) {
        let volumes: Vec<u32> = self.shared.volumes().keys().copied().collect();
        volumes
            .into_iter()
            .for_each(|id| _ = self.set_limits(VolumeId(id), VolumeLimits::default()));
    }

    /// Requests of a volume that wait for its turn or for a limit.
    #[must_use]
    pub fn waiting(&self, volume: VolumeId) -> usize {
        let volumes = self.shared.volumes();
        volumes.get(&volume.0).map_or(0, |state| state.waiting.load(Ordering::Relaxed))
    }

    /// The limits of a volume.
    #[must_use]
    pub fn limits(&self, volume: VolumeId) -> Option<VolumeLimits> {
        self.shared.volumes().get(&volume.0).map(|state| *state.limits())
    }

    /// Traffic of all volumes since the pool was started, deleted volumes included.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let volumes = self.shared.volumes();
        let mut all = *self.shared.of_deleted();
        volumes.values().for_each(|state| all.add(&state.traffic.read()));
        all
    }

    /// What was asked of a volume since the pool was started.
    #[must_use]
    pub fn traffic_of(&self, volume: VolumeId) -> Option<Traffic> {
        self.shared.volumes().get(&volume.0).map(|state| state.traffic.read())
    }

    /// Runs `look` on the thread of the pool; `None` when the pool is closed. `look` must be short: the pool stops
    /// meanwhile.
    pub fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = mpsc::channel();
        let look: Look = Box::new(move |view| {
            // The caller waits below, so the receiver exists.
            let _ = sender.send(look(view));
        });
        self.shared.push(Job::Look(look), None);
        receiver.recv().ok()
    }

    /// Registers the poller of this pool's thread. A pool accepts a single poller.
    ///
    /// # Errors
    /// The poller, if the pool is closed or has a poller.
    pub fn register(&self, poller: Box<dyn Poller>) -> Result<(), Box<dyn Poller>> {
        let (refused, answer) = mpsc::channel();
        self.shared.push(Job::Register { poller, refused }, None);
        answer.recv().map_or(Ok(()), Err)
    }

    /// Closes the pool in order: what was written is durable, and opening it again has nothing to recover.
    ///
    /// # Errors
    /// [`HostError::Failed`] if the device failed.
    pub fn close(mut self) -> Result<(), HostError> {
        self.stop()
    }

    fn stop(&mut self) -> Result<(), HostError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let (sender, receiver) = mpsc::channel();
        // The caller waits below, so the receiver exists.
        self.begin_close(move |result| _ = sender.send(result));
        let result = receiver.recv().unwrap_or(Err(HostError::Failed));
        // A thread that panicked has said so, and dropped every answer.
        drop(thread.join());
        result
    }

    /// As [`Pool::close`], but calls `done` with the result, on the thread of the pool. `done` is dropped if the pool
    /// is closed.
    pub fn begin_close(&self, done: impl FnOnce(Result<(), HostError>) + Send + 'static) {
        let shared = Arc::clone(&self.shared);
        let answer = Answer::call(move |result| {
            shared.close();
            done(result.map(|_| ()));
        });
        self.shared.push(Job::Request { what: HostRequest::Close, answer }, None);
    }

    fn carry_out(&self, what: HostRequest<Buffer>) -> Result<Reply, HostError> {
        let (sender, receiver) = mpsc::channel();
        let answer = Answer::call(move |result| {
            // The caller waits below, so the receiver exists.
            let _ = sender.send(result);
        });
        self.shared.push(Job::Request { what, answer }, None);
        receiver.recv().unwrap_or(Err(HostError::Failed))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Whoever wants to know whether that went well calls `close`.
        let _ = self.stop();
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({:?})", self.volume_names())
    }
}

impl Shared {
    /// Hands a job to the thread. Waits for room if it is `of` a volume, unless called by that thread itself.
    fn push(&self, job: Job, of: Option<&VolumeState>) {
        let mut queue = self.queue();
        let own = queue.thread == Some(thread::current().id());
        let full = |state: &VolumeState| state.waiting.load(Ordering::Relaxed) >= QUEUE;
        while of.is_some_and(full) && !queue.closed && !own {
            queue = self.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.closed {
            return;
        }
        if let Some(state) = of {
            state.waiting.fetch_add(1, Ordering::Relaxed);
        }
        queue.jobs.push(job);
        let first = queue.jobs.len() == 1;
        self.news.store(true, Ordering::Release);
        drop(queue);
        if first && !own && !bugs::has(ShellBug::PoolNotWoken) {
            self.wake();
        }
    }

    /// A request of a volume left the queue.
    fn begun(&self, state: &VolumeState) {
        if state.waiting.fetch_sub(1, Ordering::Relaxed) == QUEUE {
            // A caller that saw a full queue holds the lock until its wait begins.
            drop(self.queue());
            self.room.notify_all();
        }
    }

    fn wake(&self) {
        match self.wake_poller.get() {
            Some(wake) => wake(),
            None => self.wake.read().unwrap_or_else(PoisonError::into_inner)(),
        }
    }

    fn close(&self) {
        let mut queue = self.queue();
        queue.closed = true;
        self.news.store(true, Ordering::Release);
        let jobs = std::mem::take(&mut queue.jobs);
        drop(queue);
        self.room.notify_all();
        self.wake();
        drop(jobs);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // No foreign code runs under the lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of_deleted(&self) -> MutexGuard<'_, Traffic> {
        // As above.
        self.of_deleted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn volumes(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<VolumeState>>> {
        // As above.
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
