//! The run loop: a workload on a target, from the fill to the last completion.

use thermocline_nand::DriveError;
use thermocline_types::{Bytes, Request, TenantId, Time};

use crate::Error;
use crate::barriers::Barriers;
use crate::input::Prepared;
use crate::meter::Meter;
use crate::queue::{Ending, Queue};
use crate::run::not_done;
use crate::settings::{Pacing, Settings};
use crate::steady::Rounds;
use crate::target::{Failure, Finished, Target};
use crate::tenants::{OwnedCounts, TenantMeter, followed};
use crate::think::Think;

/// A target at work on a workload.
pub(crate) struct Bench<T: Target> {
    queue: Queue<T>,
    /// What was measured.
    pub meter: Meter,
    /// Rounds for the steady state.
    pub rounds: Rounds,
    /// When requests are issued.
    pub pacing: Pacing,
    /// When measurement began.
    pub start: Time,
    /// The latest completion.
    pub done: Time,
    /// Requests served.
    pub requests: u64,
    /// Whether the drive wore out before the workload ended.
    pub worn_out: bool,
    /// What each tenant asked for and got.
    pub tenants: TenantMeter,
    /// Bytes by owner when measurement began.
    pub owned: Option<OwnedCounts>,
    barriers: Barriers,
    think: Think,
    /// Where requests come in bursts, when the last of them came by their own clock.
    burst: Option<Time>,
    seed: u64,
    timed: bool,
    /// Whether requests are submitted as they come, because a drive without time does each at once.
    at_once: bool,
    /// What helps where a pool is too small.
    pub larger: &'static str,
}

impl<T: Target> Bench<T> {
    /// A target that is to be measured; `pass` is the bytes written by one pass of a trace.
    #[must_use]
    pub fn new(target: T, pass: Option<Bytes>, pacing: Pacing, seed: u64) -> Self {
        let timed = target.drive().is_timed();
        let capacity = target.drive().cut().capacity();
        let rounds = Rounds::new(capacity, pass);
        Bench {
            meter: Meter::new(target.byte_counts(), capacity, rounds, timed),
            rounds,
            pacing,
            start: Time::ZERO,
            done: Time::ZERO,
            requests: 0,
            worn_out: false,
            tenants: TenantMeter::default(),
            owned: None,
            barriers: Barriers::default(),
            think: Think::never(),
            burst: None,
            seed,
            timed,
            at_once: !timed && target.log().is_none(),
            larger: Settings::default().larger(),
            queue: Queue::new(Box::new(target)),
        }
    }

    /// What is measured.
    pub fn target(&self) -> &T {
        &self.queue.target
    }

    /// The same, to change it.
    pub fn target_mut(&mut self) -> &mut T {
        &mut self.queue.target
    }

    /// Fills the target as the workload asks, and waits until that is on the media; returns the bytes that the host
    /// wrote for it. Clients do not think meanwhile.
    ///
    /// # Errors
    /// [`Error`] when the target gives up.
    pub fn prefill(&mut self, workload: &Prepared) -> Result<u64, Error> {
        let tenants = followed(workload.tenants().len());
        self.target_mut().follow_tenants(tenants);
        workload.prefill(|request| {
            let owner = TenantId(workload.owner(&request).into());
            self.fill(&request, owner).map_err(|failure| self.ended_by(failure))
        })?;
        self.end_fill(tenants).map_err(|failure| self.ended_by(failure))
    }

    fn fill(&mut self, request: &Request, owner: TenantId) -> Result<(), Failure> {
        self.wait_below(self.target().fill_depth())?;
        let handle = self.target_mut().handle(std::slice::from_ref(request));
        self.queue.submit(&[Request { tenant: owner, ..*request }], handle, true)?;
        self.target().check()
    }

    fn end_fill(&mut self, tenants: u16) -> Result<u64, Failure> {
        self.wait_for_all()?;
        let on_media = self.target_mut().end_fill()?;
        self.start = self.target().now().max(on_media);
        while self.queue.step_until(self.start)? {}
        self.done = self.start;
        let counts = self.target().byte_counts();
        let capacity = self.target().drive().cut().capacity();
        self.meter = Meter::new(counts, capacity, self.rounds, self.timed);
        self.tenants = TenantMeter::new(tenants);
        self.owned = self.target().owned_counts();
        let start = self.start;
        self.target_mut().count_rates(start);
        Ok(counts.host_written)
    }

    /// Replays the workload and waits until all of it is done.
    ///
    /// # Errors
    /// [`Error`] when the workload cannot be read or the target gives up. The end of a drive's life is no error.
    pub fn measure(
        &mut self,
        workload: &mut Prepared,
        progress: &mut dyn FnMut(f64),
    ) -> Result<(), Error> {
        let flushes = workload.has_barriers(self.pacing);
        self.barriers = Barriers::new(flushes);
        self.think = Think::new(self.pacing, self.timed, flushes, self.seed);
        self.burst = workload.rests().then_some(Time::ZERO);
        let mut last = Time::ZERO;
        let replayed = workload.replay(|batch| {
            progress(batch.done);
            self.target().prefetch(batch.pieces());
            for request in batch.requests() {
                self.serve(request)?;
            }
            last = batch.pieces().last().map_or(last, |piece| piece.at);
            self.observe(last);
            Ok(())
        });
        let done = replayed.and_then(|()| self.settle().map_err(|failure| self.ended_by(failure)));
        if !self.worn_out {
            done?;
        }
        let (counts, free) = (self.target().byte_counts(), self.target().free_units());
        self.meter.finish(counts, self.seconds(last), free);
        progress(1.0);
        Ok(())
    }

    /// Serves a request, given as its pieces: waits for its turn, and issues it or holds it back behind a flush.
    ///
    /// # Errors
    /// [`Error`] when the target gives up.
    #[inline]
    pub fn serve(&mut self, pieces: &[Request]) -> Result<(), Error> {
        self.requests += 1;
        self.take(pieces).map_err(|failure| self.ended_by(failure))
    }

    #[inline]
    fn take(&mut self, pieces: &[Request]) -> Result<(), Failure> {
        if self.at_once {
            return self.submit(pieces).map(|_| ());
        }
        match self.pacing {
            Pacing::Clock { speed } => {
                let at = self.start + Time((pieces[0].at.0 as f64 / speed) as u64);
                self.go_on_until(at)?;
            }
            Pacing::QueueDepth(depth) | Pacing::Clients { count: depth, .. } => {
                self.rest_until(pieces[0].at)?;
                self.wait_below(depth as usize)?;
                while self.target().holds_up_host() {
                    self.queue.step()?;
                }
            }
        }
        if self.barriers.admit(pieces) {
            self.issue(pieces)?;
        }
        self.collect_ended()?;
        self.target().check()
    }

    /// Waits until the burst before is done, and then as long as nothing is asked for, if a burst begins.
    fn rest_until(&mut self, at: Time) -> Result<(), Failure> {
        let Some(before) = self.burst.filter(|before| *before < at) else { return Ok(()) };
        self.wait_for_all()?;
        self.burst = Some(at);
        self.go_on_until(self.target().now() + at.since(before))
    }

    /// Waits until fewer than `depth` requests are in work or held back. Where no time is modelled, until none is:
    /// those that are in work together are all done at once.
    #[inline]
    fn wait_below(&mut self, depth: usize) -> Result<(), Failure> {
        if self.waited_for() < depth {
            return Ok(());
        }
        let left = if self.timed { depth } else { 1 };
        while self.waited_for() >= left {
            self.queue.step()?;
            self.collect_ended()?;
        }
        Ok(())
    }

    /// Waits until nothing is in work, held back or thought about.
    fn wait_for_all(&mut self) -> Result<(), Failure> {
        self.wait_below(1)
    }

    #[inline]
    fn go_on_until(&mut self, at: Time) -> Result<(), Failure> {
        while self.queue.step_until(at)? {
            self.collect_ended()?;
        }
        Ok(())
    }

    /// Requests in work and held back, and clients that think.
    #[inline]
    fn waited_for(&self) -> usize {
        self.queue.waited_for() + self.barriers.held()
    }

    /// Waits until everything is done, also of the target's own.
    fn settle(&mut self) -> Result<(), Failure> {
        self.wait_for_all()?;
        self.target_mut().settle()?;
        self.target().check()
    }

    /// How long after the start all that the host wrote is on the media, once the drives have programmed what waits in
    /// their buffers; nothing where no time is modelled or a drive is worn out.
    pub fn on_media(&mut self) -> Option<Time> {
        if self.worn_out || !self.timed {
            return None;
        }
        let on_media = self.target_mut().on_media()?;
        Some(self.done.max(on_media).since(self.start))
    }

    /// Measures requests that ended, and issues the requests that waited for them or for a thought.
    #[inline]
    fn collect_ended(&mut self) -> Result<(), Failure> {
        while let Some((ending, ended)) = self.queue.next_ended() {
            if ending == Ending::Request {
                self.record(&ended);
            }
            let thinks = match ending {
                Ending::Request | Ending::Foretold => self.think.after(ended.op),
                Ending::Thought => None,
            };
            match thinks {
                Some(thinks) => self.queue.think(ended.at + thinks, ended),
                None => self.barriers.done(ended.tenant, ended.op),
            }
        }
        while let Some(pieces) = self.barriers.released() {
            self.issue(&pieces)?;
        }
        Ok(())
    }

    /// Hands a request to the target now, and measures it if its end is known.
    #[inline]
    fn issue(&mut self, pieces: &[Request]) -> Result<(), Failure> {
        if let Some(finished) = self.submit(pieces)? {
            self.record(&finished);
        }
        Ok(())
    }

    #[inline]
    fn submit(&mut self, pieces: &[Request]) -> Result<Option<Finished>, Failure> {
        self.tenants.issue(pieces);
        let handle = self.target_mut().handle(pieces);
        // By the clock, requests wait for others only behind flushes.
        let by_clock = matches!(self.pacing, Pacing::Clock { .. });
        let awaited = !self.at_once && (self.barriers.are_kept() || !by_clock);
        self.queue.submit(pieces, handle, awaited)
    }

    #[inline]
    fn record(&mut self, finished: &Finished) {
        let Finished { op, tenant, at, .. } = *finished;
        self.meter.record(op, finished.took());
        self.tenants.done(tenant, op, finished.took());
        self.done = self.done.max(at);
    }

    /// The error of a run that `failure` ends; the end of a drive's life is noted.
    #[cold]
    fn ended_by(&mut self, failure: Failure) -> Error {
        let when = |what: &str| match self.requests {
            0 => format!("while filling the {what} before the measurement"),
            request => format!("request {request} of the workload"),
        };
        self.worn_out |= match &failure {
            Failure::Drive(reason) => *reason == DriveError::EndOfLife,
            Failure::Full(_) | Failure::Engine(_) => {
                self.target().drive().retired_and_spare().0 > 0
            }
            Failure::Other(_) => false,
        };
        match failure {
            Failure::Drive(reason) => not_done(reason, when("drive")),
            Failure::Full(held) => Error::Settings(format!(
                "{}: the pool is full with {held} of data: give {}, or `prefill` none if the trace begins on an empty \
                 drive",
                when("pool"),
                self.larger
            )),
            Failure::Engine(error) => Error::Engine(error.to_string()),
            Failure::Other(error) => error,
        }
    }

    fn observe(&mut self, last: Time) {
        let counts = self.target().byte_counts();
        if self.meter.is_due(counts.host_written) {
            let (seconds, free) = (self.seconds(last), self.target().free_units());
            self.meter.observe(counts, seconds, free);
        }
    }

    /// Seconds into the run, to the latest completion: simulated where time is modelled, else by the workload's own
    /// clock.
    fn seconds(&self, last: Time) -> f64 {
        if self.timed { self.done.since(self.start).as_secs_f64() } else { last.as_secs_f64() }
    }
}
