//! What the thread of a pool does, step by step.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, RwLock};
use std::time::{Duration, Instant, SystemTime};

use slab::Slab;
use thermocline_engine::{HostError, HostRequest, Rejected, RequestId};
use thermocline_target::bugs::{self, ShellBug};
use thermocline_target::emptied;

use super::answer::Answer;
use super::endurance::Governor;
use super::fullness::Gauge;
use super::lost::Lost;
use super::overdue::Overdue;
use super::reopen::Reopening;
use super::scrubbing::Scrubbing;
use super::stalls::Stalls;
use super::totals::Totalling;
use super::turns::{Cost, Turn, Turns};
use super::{Counts, Job, Listener, Poller, PoolUpkeep, Shared, View, VolumeState};
use crate::{AnyStorage, Buffer, Driver, Ended};

/// Pieces of questions in a step. Chosen, not measured: they take about as long as two turns of small requests.
const PIECES: u32 = 4;

/// State of the pool's thread.
pub(super) struct Service {
    pub(super) driver: Driver<AnyStorage>,
    pub(super) shared: Arc<Shared>,
    /// Taken from the queue, and not by the engine yet.
    pub(super) waiting: Turns<Job>,
    /// The request to close, which waits until nothing else does.
    last: Option<Job>,
    /// Nothing is handed to the engine until the pool was opened again.
    reopening: Option<Reopening>,
    /// Of requests that the engine has, each with the volume that it counts for.
    answers: Slab<(Answer, Option<u32>)>,
    /// Empty between steps.
    jobs: Vec<Job>,
    /// Empty between steps.
    ended: Vec<Ended>,
    pub(super) listener: Listener,
    /// The poller on this thread.
    poller: Option<Box<dyn Poller>>,
    /// Empty between turns of the poller.
    devices: Vec<BorrowedFd<'static>>,
    overdue: Overdue,
    pub(super) governor: Governor,
    pub(super) gauge: Gauge,
    pub(super) lost: Lost,
    stalls: Stalls,
    pub(super) earlier: Counts,
    pub(super) scrubbing: Scrubbing,
    pub(super) totalling: Totalling,
}

impl Service {
    pub(super) fn new(
        driver: Driver<AnyStorage>,
        listener: Listener,
        upkeep: &PoolUpkeep,
    ) -> Service {
        let clock = driver.clock().clone();
        let volumes = driver.engine().volumes().into_iter();
        let volumes =
            volumes.map(|info| (info.id.0, Arc::new(VolumeState::of(info, clock.clone()))));
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            news: AtomicBool::new(false),
            room: Condvar::new(),
            wake: RwLock::new(driver.waker()),
            wake_poller: OnceLock::new(),
            volumes: Mutex::new(volumes.collect()),
            of_deleted: Mutex::default(),
            clock: clock.clone(),
        });
        let governor = Governor::new(&upkeep.endurance, clock.now());
        Service {
            driver,
            shared,
            waiting: Turns::default(),
            last: None,
            reopening: None,
            answers: Slab::new(),
            jobs: Vec::new(),
            ended: Vec::new(),
            listener,
            poller: None,
            devices: Vec::new(),
            overdue: Overdue::new(upkeep.flush_after),
            governor,
            gauge: Gauge::new(upkeep.marks, SystemTime::now()),
            lost: Lost::default(),
            stalls: Stalls::default(),
            earlier: Counts::default(),
            scrubbing: Scrubbing::new(upkeep.scrubs),
            totalling: Totalling::new(upkeep.totals.clone(), clock.now()),
        }
    }

    /// Does what there is to do, then waits for the device or gives the poller its turn.
    pub(super) fn step(&mut self) -> Next {
        let closed = self.take_jobs();
        self.flush_what_is_overdue();
        self.govern();
        self.gauge();
        self.keep_totals();
        self.look_at_devices();
        if self.last.is_none() && self.reopening.is_none() {
            self.scrub_on_schedule();
        }
        let held = self.begin();
        if self.answers.is_empty()
            && let Some(reopening) = self.reopening.take()
        {
            return Next::Reopen(reopening);
        }
        let more = self.has_news() || held == Held::No && !self.waiting.is_empty();
        let at_once = closed || self.poller.is_some() || more && held != Held::Busy;
        let wait = self.wait(held);
        let mut ended = std::mem::take(&mut self.ended);
        self.driver.poll(if at_once { Some(Duration::ZERO) } else { wait }, &mut ended);
        let any_ended = !ended.is_empty();
        for Ended { request, result } in ended.drain(..) {
            let (answer, volume) = self.answers.remove(request.0 as usize);
            volume.inspect(|&volume| self.waiting.ended(volume));
            answer.tell(result);
        }
        self.ended = ended;
        self.tell();
        if closed {
            return Next::Over;
        }
        self.give_turn(if any_ended { Held::No } else { held });
        Next::Step
    }

    /// Closes the pool and opens the pool again; `None` after a failed opening. A pool that cannot be closed stays
    /// open.
    pub(super) fn reopen(mut self, reopening: Reopening) -> Option<Service> {
        if let Err(error) = self.close() {
            reopening.refuse(error);
            return Some(self);
        }
        let reserves = self.driver.engine().volumes();
        // The driver holds locks on the files until dropped.
        drop(self.driver);
        let Some(driver) = reopening.open() else {
            // The poller may hold volumes; their requests must fail as on a closed pool.
            self.shared.close();
            return None;
        };
        self.driver = driver;
        self.is_reopened(&reserves);
        Some(self)
    }

    /// Time until the next work without outside events.
    fn wait(&self, held: Held) -> Option<Duration> {
        let now = self.driver.clock().now();
        let limits = match held {
            Held::Until(when) => Some(when.saturating_duration_since(now)),
            Held::No | Held::Busy => None,
        };
        let own = [self.overdue.wait(now), self.lost.wait(now), self.totals_wait(now)];
        own.into_iter().chain([limits]).flatten().min()
    }

    /// Gives the poller a turn, if registered. Requests that the engine or a limit holds do not shorten its wait.
    fn give_turn(&mut self, held: Held) {
        let news = self.has_news() || held == Held::No && !self.waiting.is_empty();
        let wait = [self.driver.timeout(), self.wait(held)].into_iter().flatten();
        let Some(poller) = &mut self.poller else { return };
        let at_once = news || !self.driver.is_settled();
        let wait = if at_once { Some(Duration::ZERO) } else { wait.min() };
        let mut devices = std::mem::take(&mut self.devices);
        self.driver.descriptors(&mut devices);
        poller.turn(wait, &devices);
        self.devices = emptied(devices);
    }

    /// Flushes if host data has been unflushed for too long.
    fn flush_what_is_overdue(&mut self) {
        let at_risk = self.driver.engine().at_risk_blocks() > 0;
        if self.overdue.is_due(self.driver.clock().now(), at_risk) {
            // A notice reports a failed flush.
            let answer = Answer::call(|_| {});
            let what = HostRequest::Flush;
            self.waiting.push(OF_POOL, Cost::of(&what), Job::Request { what, answer });
        }
    }

    /// As [`super::Pool::register`].
    pub(super) fn register(&mut self, poller: Box<dyn Poller>) -> Result<(), Box<dyn Poller>> {
        // From now on, wake-ups go to the poller. Wake-ups in progress show on a descriptor of the storage.
        if self.shared.wake_poller.set(poller.waker()).is_err() {
            return Err(poller);
        }
        self.poller = Some(poller);
        Ok(())
    }

    /// Whether the queue changed since [`Service::take_jobs`]: another thread, or an answer on this thread, left a job
    /// or limits, or closed the queue.
    fn has_news(&self) -> bool {
        self.shared.news.load(Ordering::Acquire)
    }

    /// Takes all jobs of the queue. Returns whether the queue was closed. Waiting requests are bounded as well, per
    /// volume.
    fn take_jobs(&mut self) -> bool {
        if !self.has_news() {
            return false;
        }
        let mut jobs = std::mem::take(&mut self.jobs);
        let (limits, closed) = {
            let mut queue = self.shared.queue();
            // A closed queue stays news.
            self.shared.news.store(queue.closed, Ordering::Relaxed);
            std::mem::swap(&mut queue.jobs, &mut jobs);
            (std::mem::take(&mut queue.limits), queue.closed)
        };
        for (volume, limits) in limits {
            self.waiting.set_limits(volume.0, limits, self.driver.clock().now());
        }
        for job in jobs.drain(..) {
            if bugs::has(ShellBug::StatusOutOfTurn)
                && let Job::Question(asked) = job
            {
                self.look_at_all(asked);
                continue;
            }
            match &job {
                Job::Request { what: HostRequest::Close, .. } => {
                    self.waiting.lift_limits();
                    self.last = Some(job);
                    self.scrub_is_interrupted();
                }
                Job::Request { what, answer } => {
                    self.driver.prefetch(what);
                    let volume = answer.state().map_or(OF_POOL, |state| state.id.0);
                    self.waiting.push(volume, Cost::of(what), job);
                }
                Job::Question(asked) => self.waiting.push(asked.state.id.0, asked.cost(), job),
                Job::Look(_)
                | Job::Register { .. }
                | Job::Reopen(_)
                | Job::Scrub { .. }
                | Job::Reserve { .. } => self.waiting.push(OF_POOL, Cost::default(), job),
            }
        }
        self.jobs = jobs;
        closed
    }

    /// Hands waiting jobs to the engine; returns the reason why the rest waits. A step looks at a bounded number of
    /// pieces of questions: ended requests and the poller get their turn before the next pieces.
    fn begin(&mut self) -> Held {
        let (now, engine) = (self.driver.clock().now(), self.driver.engine());
        let (held, most) = (engine.staged_blocks(), engine.max_staged_blocks());
        self.waiting.room_is(held.into(), most.into());
        self.waiting.slots_are(self.driver.max_requests().into());
        let mut pieces = 0;
        while self.reopening.is_none() {
            if pieces == PIECES {
                return Held::No;
            }
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
                Job::Question(question) => {
                    pieces += 1;
                    self.look_at(question);
                }
                Job::Look(look) => {
                    let earlier = &self.earlier;
                    let drive = earlier.drive(self.driver.device().storage().drive_counters());
                    let wear = &self.governor.status();
                    let fullness = self.gauge.seen();
                    let scrubs = self.scrubbing.schedule();
                    let (engine, totals) = (self.driver.engine(), &self.totals());
                    look(&View { engine, earlier, drive, wear, fullness, scrubs, totals });
                }
                Job::Register { poller, refused } => {
                    // The caller waits for a refusal.
                    _ = self.register(poller).map_err(|poller| refused.send(poller));
                }
                Job::Reopen(reopening) => self.reopening = Some(reopening),
                // The caller waits for the answer.
                Job::Scrub { begin, answer } => _ = answer.send(self.scrub_on_request(begin)),
                Job::Reserve { volume, blocks, answer } => {
                    answer(self.driver.reserve_for(volume, blocks));
                }
                Job::Request { what, answer } if self.lost.refuses(&what) => {
                    answer.state().inspect(|state| self.shared.begun(state));
                    answer.tell(Err(HostError::Failed));
                }
                Job::Request { what, answer } => {
                    if let Err(busy) = self.submit(what, answer, volume, cost) {
                        self.waiting.put_back(volume, cost, busy);
                        return Held::Busy;
                    }
                }
            }
        }
        Held::Busy
    }

    /// Hands a request to the engine; returns the request if the engine is busy.
    #[expect(
        clippy::result_large_err,
        reason = "it goes back to the queue as it is, without a box"
    )]
    fn submit(
        &mut self,
        what: HostRequest<Buffer>,
        answer: Answer,
        volume: u32,
        cost: Cost,
    ) -> Result<(), Job> {
        let id = RequestId(self.answers.insert((answer, cost.is_request.then_some(volume))) as u64);
        // Cloning is cheap: requests hold handles of buffers. The engine keeps an accepted request.
        let taken = self.driver.submit(id, what.clone());
        if taken == Err(Rejected::Busy) {
            let checkpoint = self.driver.engine().is_checkpointing();
            self.stalls.refused(self.driver.clock().now(), checkpoint);
            let (answer, _) = self.answers.remove(id.0 as usize);
            return Err(Job::Request { what, answer });
        }
        if self.stalls.are_possible()
            && let Some(stall) = self.stalls.taken(self.driver.clock().now())
        {
            (self.listener)(super::Event::Stalled(stall));
        }
        if let Some(state) = self.answers[id.0 as usize].0.state() {
            self.shared.begun(state);
        }
        match (taken, what) {
            (Err(_), _) => {
                let (answer, volume) = self.answers.remove(id.0 as usize);
                volume.inspect(|&volume| self.waiting.ended(volume));
                answer.tell(Err(HostError::Failed));
            }
            (Ok(()), HostRequest::DeleteVolume { volume }) => self.waiting.forget(volume.0),
            (Ok(()), _) => {}
        }
        Ok(())
    }
}

/// The next move after a step.
pub(super) enum Next {
    /// Another one.
    Step,
    /// The pool is closed and opened again.
    Reopen(Reopening),
    /// Nothing: the pool is closed.
    Over,
}

/// Why what waits is not handed to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// No job waits, or the rest can begin in the next step.
    No,
    /// The engine has enough for now.
    Busy,
    /// VolumeLimits allow nothing before.
    Until(Instant),
}

/// What concerns no volume waits as if it were of this one, which no volume has the identifier of.
pub(super) const OF_POOL: u32 = 0;
