//! A pool with a thread of its own, for requests from any thread.
//!
//! Invariants:
//! * Each request that was taken is answered once, or its answer is dropped when the thread ends.
//! * The thread of the pool never waits for the room in its own queue.

mod counts;
mod endurance;
mod events;
mod fullness;
mod known;
mod latency;
mod lost;
mod overdue;
mod question;
mod reopen;
mod scrubbing;
mod traffic;
mod turns;
mod volume;

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, mpsc};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant, SystemTime};

use slab::Slab;
use thermocline_engine::{Engine, HostError, HostRequest, Rejected, Reply, RequestId};
use thermocline_format::{MediaClass, VolumeId, VolumeMedia, VolumeName};
use thermocline_nand::Counters;

pub use counts::Counts;
pub use endurance::{Endurance, Wear, WearStatus};
pub use events::{DamageFound, Event, Listener};
pub use fullness::{Fullness, FullnessLevel, FullnessMarks};
pub use latency::{LATENCY_BUCKETS_MICROS, Latencies};
pub use reopen::ReopenError;
pub use scrubbing::{ScrubEnd, ScrubFindings, ScrubRecord, ScrubSchedule, ScrubUnderWay};
pub use traffic::{Operation, Traffic};
pub use turns::{VolumeLimitError, VolumeLimits};
pub use volume::Volume;

use crate::storage::{Storage, Waker};
use crate::{AnyStorage, Buffer, Driver, Ended};
use endurance::Governor;
use fullness::Gauge;
use known::Known;
use lost::Lost;
use overdue::Overdue;
use question::Question;
use reopen::Reopening;
use scrubbing::Scrubbing;
use turns::{Cost, Turn, Turns};

/// Requests of a volume that may wait for the engine; whoever brings more waits. Chosen, not measured.
const QUEUE: usize = 1024;

/// How long a poller may wait while commands are under way whose end no descriptor tells, as [`Storage::reap`] of
/// several does. Chosen.
const BLIND: Duration = Duration::from_micros(100);

type Answer = Box<dyn FnOnce(Result<Reply, HostError>) + Send>;
type Look = Box<dyn FnOnce(&View<'_>) + Send>;

/// What can be seen of a pool between two of its steps.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The engine.
    pub engine: &'a Engine<Buffer>,
    /// Counts of the openings before this one.
    pub earlier: &'a Counts,
    /// Bytes through the drives and onto their media; `None` for all but simulated drives.
    pub drive: Option<Counters>,
    /// How devices wear of which the endurance is stated.
    pub wear: &'a [WearStatus],
    /// How full the pool is.
    pub fullness: Fullness,
    /// When the pool scrubs itself, and what that has found; `None`: never.
    pub scrubs: Option<&'a ScrubSchedule>,
}

/// What a pool does on its own while it runs.
#[derive(Clone, Debug, Default)]
pub struct PoolUpkeep {
    /// For how long something may be at risk before it is flushed; `None`: for ever.
    pub flush_after: Option<Duration>,
    /// What may be written to classes of media: fast ones are spared when they were written more.
    pub endurance: Vec<(MediaClass, Endurance)>,
    /// When the pool reports that it is nearly full.
    pub marks: FullnessMarks,
    /// When the pool scrubs itself; `None`: never.
    pub scrubs: Option<ScrubSchedule>,
}

enum Job {
    /// Of a volume, or of the pool.
    Request {
        what: HostRequest<Buffer>,
        answer: Answer,
        of: Option<Arc<Known>>,
    },
    /// Of a volume.
    Question(Question),
    Look(Look),
    Register {
        poller: Box<dyn Poller>,
        refused: mpsc::Sender<Box<dyn Poller>>,
    },
    Reopen(Reopening),
    Reserve {
        volume: VolumeId,
        blocks: u64,
        answer: Box<dyn FnOnce(Result<(), HostError>) + Send>,
    },
}

/// Somebody who works on the thread of a pool, between its steps, and does the waiting for both: so requests get from
/// one to the other without waking a thread.
pub trait Poller: Send {
    /// Does what there is to do. If there is nothing, waits for what it waits for itself, for its waker, and for `pool`
    /// to be readable if it is on the thread of the pool, at most for `wait`.
    fn turn(&mut self, wait: Option<Duration>, pool: Option<BorrowedFd<'_>>);

    /// What ends its waiting, from any thread.
    fn waker(&self) -> Waker;
}

/// An open pool on a thread of its own. Dropping it closes it in order.
pub struct Pool {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread, the pool and its volumes share.
struct Shared {
    queue: Mutex<Queue>,
    /// There is room in the queue again.
    room: Condvar,
    wake: RwLock<Waker>,
    /// What wakes the poller, once there is one.
    wake_poller: OnceLock<Waker>,
    volumes: Mutex<BTreeMap<u32, Arc<Known>>>,
    /// What was asked of volumes that were deleted.
    of_deleted: Mutex<Traffic>,
}

#[derive(Default)]
struct Queue {
    jobs: Vec<Job>,
    /// Volumes that get other limits: at once, so that a request to close that comes behind lifts them.
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
        let volumes = driver.engine().volumes().into_iter();
        let volumes =
            volumes.map(|info| (info.id.0, Arc::new(Known::new(info.id, info.name, info.blocks))));
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            room: Condvar::new(),
            wake: RwLock::new(driver.waker()),
            wake_poller: OnceLock::new(),
            volumes: Mutex::new(volumes.collect()),
            of_deleted: Mutex::default(),
        });
        let service = Service {
            driver,
            shared: Arc::clone(&shared),
            waiting: Turns::default(),
            last: None,
            reopening: None,
            answers: Slab::new(),
            listener,
            poller: None,
            overdue: Overdue::new(upkeep.flush_after),
            governor: Governor::new(&upkeep.endurance, Instant::now()),
            gauge: Gauge::new(upkeep.marks, SystemTime::now()),
            lost: Lost::default(),
            earlier: Counts::default(),
            scrubbing: Scrubbing::new(upkeep.scrubs),
        };
        let builder = thread::Builder::new().name("thermocline-pool".to_owned());
        let thread = builder.spawn(move || service.run())?;
        Ok(Pool { shared, thread: Some(thread) })
    }

    /// The volume of this name.
    #[must_use]
    pub fn volume(&self, name: &str) -> Option<Volume> {
        let volumes = self.shared.volumes();
        let known = volumes.values().find(|known| known.name.as_str() == name)?;
        Some(Volume::new(Arc::clone(&self.shared), Arc::clone(known)))
    }

    /// Names of all volumes, the oldest first.
    #[must_use]
    pub fn volume_names(&self) -> Vec<VolumeName> {
        self.shared.volumes().values().map(|known| known.name.clone()).collect()
    }

    /// Makes a volume of `blocks` blocks of 4096 bytes; durable when this returns.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn create_volume(&self, name: VolumeName, blocks: u64) -> Result<Volume, HostError> {
        let what = HostRequest::CreateVolume { name: name.clone(), blocks };
        let Reply::Created(id) = self.carry_out(what)? else {
            unreachable!("that is what creation replies")
        };
        let known = Arc::new(Known::new(id, name, blocks));
        self.shared.volumes().insert(id.0, Arc::clone(&known));
        Ok(Volume::new(Arc::clone(&self.shared), known))
    }

    /// Deletes a volume; durable when this returns. Its handles refuse everything from then on.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn delete_volume(&self, volume: VolumeId) -> Result<(), HostError> {
        self.carry_out(HostRequest::DeleteVolume { volume })?;
        if let Some(known) = self.shared.volumes().remove(&volume.0) {
            known.blocks.store(0, Ordering::Release);
            self.shared.of_deleted().add(&known.traffic());
        }
        Ok(())
    }

    /// Changes the size of a volume; durable when this returns.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn resize_volume(&self, volume: VolumeId, blocks: u64) -> Result<(), HostError> {
        self.carry_out(HostRequest::ResizeVolume { volume, blocks })?;
        if let Some(known) = self.shared.volumes().get(&volume.0) {
            known.blocks.store(blocks, Ordering::Release);
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

    /// Gives a volume other limits, until the pool is closed. Returns whether there is such a volume.
    pub fn set_limits(&self, volume: VolumeId, limits: VolumeLimits) -> bool {
        let known = self.shared.volumes().get(&volume.0).cloned();
        if let Some(known) = &known {
            *known.limits() = limits;
            self.shared.queue().limits.push((volume, limits));
            self.shared.wake();
        }
        known.is_some()
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
        volumes.get(&volume.0).map_or(0, |known| known.waiting.load(Ordering::Relaxed))
    }

    /// The limits of a volume.
    #[must_use]
    pub fn limits(&self, volume: VolumeId) -> Option<VolumeLimits> {
        self.shared.volumes().get(&volume.0).map(|known| *known.limits())
    }

    /// What was asked of the volumes since the pool was started, those included that were deleted.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let volumes = self.shared.volumes();
        let mut all = *self.shared.of_deleted();
        volumes.values().for_each(|known| all.add(&known.traffic()));
        all
    }

    /// What was asked of a volume since the pool was started.
    #[must_use]
    pub fn traffic_of(&self, volume: VolumeId) -> Option<Traffic> {
        self.shared.volumes().get(&volume.0).map(|known| *known.traffic())
    }

    /// What `look` sees; `None` when the pool is closed. It holds everything up, so it is to be short.
    pub fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = mpsc::channel();
        let look: Look = Box::new(move |view| {
            // Whoever asked waits below.
            let _ = sender.send(look(view));
        });
        self.shared.push(Job::Look(look), None);
        receiver.recv().ok()
    }

    /// Registers a poller on the thread of this pool, the only one that it will have.
    ///
    /// # Errors
    /// The poller, if the storage has no [`Storage::descriptor`] to wait for, or the pool is closed or has a poller. It
    /// has to live on a thread of its own then.
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
        let result = self.carry_out(HostRequest::Close);
        self.shared.close();
        // A thread that panicked has said so, and dropped every answer.
        drop(thread.join());
        result.map(|_| ())
    }

    fn carry_out(&self, what: HostRequest<Buffer>) -> Result<Reply, HostError> {
        let (sender, receiver) = mpsc::channel();
        let answer: Answer = Box::new(move |result| {
            // Whoever asked waits below.
            let _ = sender.send(result);
        });
        self.shared.push(Job::Request { what, answer, of: None }, None);
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
    fn push(&self, job: Job, of: Option<&Known>) {
        let mut queue = self.queue();
        let own = queue.thread == Some(thread::current().id());
        let full = |known: &Known| known.waiting.load(Ordering::Relaxed) >= QUEUE;
        while of.is_some_and(full) && !queue.closed && !own {
            queue = self.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.closed {
            return;
        }
        if let Some(known) = of {
            known.waiting.fetch_add(1, Ordering::Relaxed);
        }
        queue.jobs.push(job);
        let first = queue.jobs.len() == 1;
        drop(queue);
        if first && !own {
            self.wake();
        }
    }

    /// A request of a volume waits no more for the engine.
    fn begun(&self, known: &Known) {
        if known.waiting.fetch_sub(1, Ordering::Relaxed) == QUEUE {
            // Whoever looked before that holds the lock until it waits.
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

    fn volumes(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<Known>>> {
        // As above.
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What runs on the thread.
struct Service {
    driver: Driver<AnyStorage>,
    shared: Arc<Shared>,
    /// Taken from the queue, and not by the engine yet.
    waiting: Turns<Job>,
    /// The request to close, which waits until nothing else does.
    last: Option<Job>,
    /// Nothing is handed to the engine until the pool was opened again.
    reopening: Option<Reopening>,
    /// Of requests that the engine has, each with the volume that it counts for.
    answers: Slab<(Answer, Option<u32>)>,
    listener: Listener,
    /// Who works here as well, and what both wait for.
    poller: Option<(Box<dyn Poller>, Option<OwnedFd>)>,
    overdue: Overdue,
    governor: Governor,
    gauge: Gauge,
    lost: Lost,
    earlier: Counts,
    scrubbing: Scrubbing,
}

impl Service {
    fn run(mut self) {
        self.shared.queue().thread = Some(thread::current().id());
        let mut ended = Vec::new();
        loop {
            let closed = self.take_jobs();
            self.flush_what_is_overdue();
            self.govern();
            self.gauge();
            self.look_at_devices();
            if self.last.is_none() && self.reopening.is_none() {
                self.scrub_on_schedule();
            }
            let held = self.begin();
            if self.answers.is_empty()
                && let Some(reopening) = self.reopening.take()
            {
                if let Err(error) = self.close() {
                    reopening.refuse(error);
                    continue;
                }
                let reserves = self.driver.engine().volumes();
                // Its files are locked for as long as it is there.
                drop(self.driver);
                let Some(driver) = reopening.open() else { break };
                self.driver = driver;
                self.is_reopened(&reserves);
                continue;
            }
            let hurry = closed || self.poller.is_some() || self.has_news() && held != Held::Busy;
            let wait = self.wait(held);
            self.driver.poll(if hurry { Some(Duration::ZERO) } else { wait }, &mut ended);
            let any_ended = !ended.is_empty();
            for Ended { request, result } in ended.drain(..) {
                let (answer, volume) = self.answers.remove(request.0 as usize);
                volume.inspect(|&volume| self.waiting.ended(volume));
                answer(result);
            }
            self.tell();
            if closed {
                break;
            }
            self.give_turn(if any_ended { Held::No } else { held });
        }
        // The poller may have volumes, and those must find the pool closed.
        self.shared.close();
    }

    /// How long nothing needs to be done though nothing happens.
    fn wait(&self, held: Held) -> Option<Duration> {
        let now = Instant::now();
        let limits = match held {
            Held::Until(when) => Some(when.saturating_duration_since(now)),
            Held::No | Held::Busy => None,
        };
        [limits, self.overdue.wait(now), self.lost.wait(now)].into_iter().flatten().min()
    }

    /// The poller's turn, if there is one. What waits for the engine or for a limit is no reason to hurry.
    fn give_turn(&mut self, held: Held) {
        let news = match held {
            Held::No => self.has_news() || !self.waiting.is_empty(),
            Held::Busy => false,
            Held::Until(_) => self.has_news(),
        };
        let news = news || self.shared.queue().closed;
        let wait = [self.driver.timeout(), self.wait(held)].into_iter().flatten();
        let Some((poller, descriptor)) = &mut self.poller else { return };
        // What cannot be waited for is looked at again and again.
        let blind = descriptor.is_none() && !self.driver.device().is_idle();
        let wait = wait.chain(blind.then_some(BLIND)).min();
        let hurry = news || !self.driver.is_settled();
        let wait = if hurry { Some(Duration::ZERO) } else { wait };
        poller.turn(wait, descriptor.as_ref().map(OwnedFd::as_fd));
    }

    /// Flushes if hosts wrote something long ago and nobody has flushed it since.
    fn flush_what_is_overdue(&mut self) {
        let at_risk = self.driver.engine().at_risk_blocks() > 0;
        if self.overdue.is_due(Instant::now(), at_risk) {
            // If it fails, a notice says so.
            let answer: Answer = Box::new(|_| {});
            let what = HostRequest::Flush;
            self.waiting.push(OF_POOL, Cost::of(&what), Job::Request { what, answer, of: None });
        }
    }

    fn register(&mut self, poller: Box<dyn Poller>, refused: &mpsc::Sender<Box<dyn Poller>>) {
        let descriptor = self.driver.descriptor().filter(|_| self.poller.is_none());
        let Some(descriptor) = descriptor else {
            // Whoever asked waits.
            let _ = refused.send(poller);
            return;
        };
        // Whoever wakes from now on wakes the poller; the descriptor tells of those who were about to.
        let _first = self.shared.wake_poller.set(poller.waker());
        self.poller = Some((poller, Some(descriptor)));
    }

    /// Whether somebody, perhaps this thread in an answer, left a job in the queue.
    fn has_news(&self) -> bool {
        !self.shared.queue().jobs.is_empty()
    }

    /// Takes what is in the queue; returns whether it was closed. What waits is bounded as well: so many requests of
    /// each volume.
    fn take_jobs(&mut self) -> bool {
        let (jobs, limits, closed) = {
            let mut queue = self.shared.queue();
            (std::mem::take(&mut queue.jobs), std::mem::take(&mut queue.limits), queue.closed)
        };
        for (volume, limits) in limits {
            self.waiting.set_limits(volume.0, limits, Instant::now());
        }
        for job in jobs {
            match &job {
                Job::Request { what: HostRequest::Close, .. } => {
                    self.waiting.lift_limits();
                    self.last = Some(job);
                    self.scrub_is_interrupted();
                }
                Job::Request { what, of, .. } => {
                    self.driver.prefetch(what);
                    let volume = of.as_ref().map_or(OF_POOL, |known| known.id.0);
                    self.waiting.push(volume, Cost::of(what), job);
                }
                Job::Question(asked) => self.waiting.push(asked.known.id.0, asked.cost(), job),
                Job::Look(_) | Job::Register { .. } | Job::Reopen(_) | Job::Reserve { .. } => {
                    self.waiting.push(OF_POOL, Cost::default(), job);
                }
            }
        }
        closed
    }

    /// Hands what waits to the engine; returns what holds up the rest.
    fn begin(&mut self) -> Held {
        let (now, engine) = (Instant::now(), self.driver.engine());
        let (held, most) = (engine.staged_blocks(), engine.max_staged_blocks());
        self.waiting.room_is(held.into(), most.into());
        self.waiting.slots_are(self.driver.max_requests().into());
        while self.reopening.is_none() {
            let (job, volume, cost) = match self.waiting.next(now) {
                Turn::Job(job, volume, cost) => (job, volume, cost),
                Turn::Later(when) => return Held::Until(when),
                Turn::Full => return Held::Busy,
                Turn::Nobody => match self.last.take() {
                    Some(job) => (job, OF_POOL, Cost::default()),
                    None => return Held::No,
                },
            };
            match job {
                Job::Question(question) => self.look_at(question),
                Job::Look(look) => {
                    let earlier = &self.earlier;
                    let drive = earlier.drive(self.driver.device().storage().drive_counters());
                    let wear = &self.governor.status();
                    let fullness = self.gauge.seen();
                    let scrubs = self.scrubbing.schedule();
                    let engine = self.driver.engine();
                    look(&View { engine, earlier, drive, wear, fullness, scrubs });
                }
                Job::Register { poller, refused } => self.register(poller, &refused),
                Job::Reopen(reopening) => self.reopening = Some(reopening),
                Job::Reserve { volume, blocks, answer } => {
                    answer(self.driver.reserve_for(volume, blocks));
                }
                Job::Request { what, answer, of } if self.lost.refuses(&what) => {
                    of.inspect(|known| self.shared.begun(known));
                    answer(Err(HostError::Failed));
                }
                Job::Request { what, answer, of } => {
                    let id = RequestId(
                        self.answers.insert((answer, cost.is_request.then_some(volume))) as u64,
                    );
                    // The handles in it are cheap to clone; the engine keeps what it takes.
                    let taken = self.driver.submit(id, what.clone());
                    if taken == Err(Rejected::Busy) {
                        let (answer, _) = self.answers.remove(id.0 as usize);
                        self.waiting.put_back(volume, cost, Job::Request { what, answer, of });
                        return Held::Busy;
                    }
                    if let Some(known) = of {
                        self.shared.begun(&known);
                    }
                    match (taken, what) {
                        (Err(_), _) => {
                            let (answer, volume) = self.answers.remove(id.0 as usize);
                            volume.inspect(|&volume| self.waiting.ended(volume));
                            answer(Err(HostError::Failed));
                        }
                        (Ok(()), HostRequest::DeleteVolume { volume }) => {
                            self.waiting.forget(volume.0);
                        }
                        (Ok(()), _) => {}
                    }
                }
            }
        }
        Held::Busy
    }
}

/// Why what waits is not handed to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Nothing waits.
    No,
    /// The engine has enough for now.
    Busy,
    /// VolumeLimits allow nothing before.
    Until(Instant),
}

/// What concerns no volume waits as if it were of this one, which no volume has the identifier of.
const OF_POOL: u32 = 0;

#[cfg(test)]
mod tests;
