//! A workload on a log: preconditioning, pacing, measuring.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thermocline_engine::HostError;
use thermocline_types::{Bytes, Op, Request, TenantId, Time};

use super::machine::Machine;
use crate::Error;
use crate::barriers::Barriers;
use crate::input::Prepared;
use crate::meter::Meter;
use crate::settings::{Pacing, Settings};
use crate::steady::Rounds;
use crate::tenants::{OwnedCounts, TenantMeter, followed, owner};
use crate::think::Think;

/// Requests in work while the drive is being filled.
const PREFILL_DEPTH: usize = 32;

/// A log at work.
pub struct LogBench {
    /// Engine and drive.
    pub machine: Machine,
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
    /// When all that the host wrote was on the drives.
    left_memory: Time,
    /// Requests served.
    pub requests: u64,
    /// Whether the drive wore out before the workload ended.
    pub worn_out: bool,
    /// Whether the host waits while garbage is collected.
    pub exclusive: bool,
    /// What each tenant asked for and got.
    pub tenants: TenantMeter,
    /// Bytes by owner when measurement began.
    pub owned: Option<OwnedCounts>,
    barriers: Barriers,
    think: Think,
    /// Tenants that think, ordered by the end of the think time; the kind is of the last request.
    thinking: BinaryHeap<Reverse<(Time, TenantId, Op)>>,
    /// Where requests come in bursts, when the last of them came by their own clock.
    burst: Option<Time>,
    seed: u64,
    timed: bool,
    /// What helps where the pool is too small.
    pub larger: &'static str,
}

impl LogBench {
    /// A log that is to be measured.
    #[must_use]
    pub fn new(machine: Machine, rounds: Rounds, pacing: Pacing, seed: u64) -> Self {
        let timed = machine.device().drive().is_timed();
        let capacity = machine.device().drive().cut().capacity();
        LogBench {
            meter: Meter::new(machine.byte_counts(), capacity, rounds, timed),
            machine,
            rounds,
            pacing,
            start: Time::ZERO,
            done: Time::ZERO,
            left_memory: Time::ZERO,
            requests: 0,
            worn_out: false,
            exclusive: false,
            tenants: TenantMeter::default(),
            owned: None,
            barriers: Barriers::default(),
            think: Think::new(pacing, timed, false, seed),
            thinking: BinaryHeap::new(),
            burst: None,
            seed,
            timed,
            larger: Settings::default().larger(),
        }
    }

    /// Fills the volume as the workload asks; returns the bytes the host wrote for that.
    ///
    /// # Errors
    /// [`Error`] when the engine fails.
    pub fn prefill(&mut self, workload: &Prepared) -> Result<u64, Error> {
        let tenants = followed(workload.tenants().len());
        self.machine.follow_tenants(tenants);
        workload.prefill(|request| {
            self.wait_below(PREFILL_DEPTH)?;
            let tenant = TenantId(workload.owner(&request).into());
            let owned = Request { tenant, ..request };
            self.machine.submit(self.machine.now(), &[owned], owner(request.tenant));
            self.check()
        })?;
        self.machine.settle()?;
        self.machine.take_finished(|_| {});
        let drained = self.machine.device().drive().drained();
        self.start = self.machine.now().max(drained);
        while self.machine.step_until(self.start)? {}
        self.done = self.start;
        let counts = self.machine.byte_counts();
        let capacity = self.machine.device().drive().cut().capacity();
        self.meter = Meter::new(counts, capacity, self.rounds, self.timed);
        self.tenants = TenantMeter::new(tenants);
        self.owned = self.machine.owned_counts();
        self.machine.device_mut().count_rates(self.start);
        Ok(counts.host_written)
    }

    /// Replays the workload and waits until all of it is done.
    ///
    /// # Errors
    /// [`Error`] when the workload cannot be read or the engine fails.
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
        let result = workload.replay(|batch| {
            progress(batch.done);
            self.machine.prefetch(batch.pieces());
            for request in batch.requests() {
                self.serve(request)?;
            }
            last = batch.pieces().last().map_or(last, |piece| piece.at);
            self.observe(last);
            Ok(())
        });
        if !self.worn_out {
            result?;
            self.settle()?;
            self.check()?;
        }
        let seconds = self.seconds(last);
        let free = u64::from(self.machine.engine().free_units());
        self.meter.finish(self.machine.byte_counts(), seconds, free);
        progress(1.0);
        Ok(())
    }

    /// Serves a request, given as its pieces: waits for its turn, and issues it or holds it back behind a flush.
    ///
    /// # Errors
    /// [`Error`] when the engine fails.
    pub fn serve(&mut self, pieces: &[Request]) -> Result<(), Error> {
        self.requests += 1;
        match self.pacing {
            Pacing::Clock { speed } => {
                let at = self.start + Time((pieces[0].at.0 as f64 / speed) as u64);
                while self.machine.step_until(at)? {
                    self.collect_finished();
                }
            }
            Pacing::QueueDepth(depth) | Pacing::Clients { count: depth, .. } => {
                self.rest_until(pieces[0].at)?;
                self.wait_below(depth as usize)?;
                while self.exclusive && self.machine.is_collecting() {
                    self.machine.step()?;
                }
            }
        }
        if self.barriers.admit(pieces) {
            self.issue(pieces);
        }
        self.collect_finished();
        self.check()
    }

    /// Waits until the burst before is done, and then as long as nothing is asked for, if a burst begins.
    fn rest_until(&mut self, at: Time) -> Result<(), Error> {
        let Some(before) = self.burst.filter(|before| *before < at) else { return Ok(()) };
        while self.waited_for() > 0 {
            self.go_on()?;
        }
        self.burst = Some(at);
        let end = self.machine.now() + at.since(before);
        while self.machine.step_until(end)? {
            self.collect_finished();
        }
        Ok(())
    }

    /// Waits until fewer than `depth` requests are in work or held back. Where no time is modelled, until none is:
    /// those that are in work together are all done at once.
    fn wait_below(&mut self, depth: usize) -> Result<(), Error> {
        if self.waited_for() < depth {
            return Ok(());
        }
        let left = if self.timed { depth } else { 1 };
        while self.waited_for() >= left {
            self.go_on()?;
        }
        Ok(())
    }

    /// Requests in work and held back, and clients that think.
    fn waited_for(&self) -> usize {
        self.machine.in_work() + self.barriers.held() + self.thinking.len()
    }

    /// Goes on to what happens next: of the machine, or the end of a thought.
    fn go_on(&mut self) -> Result<(), Error> {
        match self.thinking.peek() {
            None => self.machine.step()?,
            Some(&Reverse((at, tenant, op))) => {
                if !self.machine.step_until(at)? {
                    self.thinking.pop();
                    self.barriers.done(tenant, op);
                }
            }
        }
        self.collect_finished();
        Ok(())
    }

    /// Waits until everything is done, also of the engine.
    fn settle(&mut self) -> Result<(), Error> {
        while self.waited_for() > 0 {
            self.go_on()?;
        }
        self.left_memory = self.machine.settle_and_tell()?;
        Ok(())
    }

    /// How long after the start all that the host wrote is on the media, once the drives have programmed what waits in
    /// their buffers; nothing where no time is modelled or a drive is worn out.
    pub fn on_media(&mut self) -> Option<Time> {
        if self.worn_out || !self.timed {
            return None;
        }
        let longer = self.machine.device_mut().drain()?;
        Some(self.done.max(self.left_memory + longer).since(self.start))
    }

    /// Measures finished requests and issues the requests that waited for them.
    fn collect_finished(&mut self) {
        let LogBench { machine, meter, done, barriers, think, thinking, tenants, .. } = self;
        machine.take_finished(|finished| {
            let took = finished.at.since(finished.arrival);
            meter.record(finished.op, took);
            tenants.done(finished.tenant, finished.op, took);
            *done = (*done).max(finished.at);
            match think.after(finished.op) {
                Some(thinks) => {
                    thinking.push(Reverse((finished.at + thinks, finished.tenant, finished.op)));
                }
                None => barriers.done(finished.tenant, finished.op),
            }
        });
        while let Some(pieces) = self.barriers.released() {
            self.issue(&pieces);
        }
    }

    /// Hands a request to the log now, with the number of its tenant as placement handle.
    fn issue(&mut self, pieces: &[Request]) {
        self.tenants.issue(pieces);
        self.machine.submit(self.machine.now(), pieces, owner(pieces[0].tenant));
    }

    /// An error when the engine gave up; the end of the drive's life ends the run.
    fn check(&mut self) -> Result<(), Error> {
        let Some(error) = self.machine.failed() else { return Ok(()) };
        self.worn_out = self.machine.device().drive().retired_and_spare().0 > 0;
        Err(match error {
            HostError::NoSpace => self.no_space(),
            other => Error::Engine(other.to_string()),
        })
    }

    /// What is live does not fit, as only the run could show.
    fn no_space(&self) -> Error {
        let held = Bytes(self.machine.engine().mapped_blocks() * Bytes::BLOCK.0);
        let when = match self.requests {
            0 => "while filling the pool before the measurement".to_owned(),
            request => format!("request {request} of the workload"),
        };
        Error::Settings(format!(
            "{when}: the pool is full with {held} of data: give {}, or `prefill` none if the trace begins on an empty \
             drive",
            self.larger
        ))
    }

    fn observe(&mut self, last: Time) {
        let counts = self.machine.byte_counts();
        if self.meter.is_due(counts.host_written) {
            let free = u64::from(self.machine.engine().free_units());
            self.meter.observe(counts, self.seconds(last), free);
        }
    }

    fn seconds(&self, last: Time) -> f64 {
        if self.timed { self.done.since(self.start).as_secs_f64() } else { last.as_secs_f64() }
    }
}
