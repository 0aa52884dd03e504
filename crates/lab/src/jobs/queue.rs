//! A stack with requests of several jobs in work.

use thermocline_engine::HostError;
use thermocline_types::{Bytes, Op, Request, StreamId, TenantId, Time};

use crate::log::plan::Plan;
use crate::queue::Queue;
use crate::stack::{Layer, Stack};
use crate::tag::Tags;
use crate::target::{DriveTarget, Failure, Finished, Target};
use crate::{Error, Room, Settings, fitting, run};

/// Requests in work while a volume is filled.
const FILL_DEPTH: usize = 32;

/// A stack, and the requests in work on it. The number of a job is that of its tenant.
pub(crate) type JobQueue = Queue<dyn Target>;

impl JobQueue {
    /// The stack with a volume of so many bytes.
    ///
    /// # Errors
    /// [`Error`] when the stack cannot be made so.
    pub(crate) fn of(stack: &Stack, settings: &Settings, volume: Bytes) -> Result<JobQueue, Error> {
        if matches!(stack.layer, Layer::Log | Layer::Tier) {
            let machine = Plan::new(stack, settings, Room::all_of(volume))?.build()?;
            return Ok(Queue::new(Box::new(machine)));
        }
        let profile = &stack.profile;
        let drive = fitting::made(settings, run::least_step(profile), |settings| {
            run::holding(volume, profile, stack, settings)
        })?;
        Ok(Queue::new(Box::new(DriveTarget::new(drive, Tags::First))))
    }

    /// Writes all of the volume in order, in requests of `size`, and waits until that is on the media. `whose` says
    /// which job has the data at an offset.
    ///
    /// # Errors
    /// [`Error`] when the stack gives up.
    pub(crate) fn fill(
        &mut self,
        volume: Bytes,
        size: Bytes,
        whose: impl Fn(Bytes) -> TenantId,
    ) -> Result<(), Error> {
        for offset in (0..volume.0).step_by(size.0 as usize) {
            let request = Request {
                at: Time::ZERO,
                offset: Bytes(offset),
                length: Bytes(size.0.min(volume.0 - offset)),
                tenant: whose(Bytes(offset)),
                stream: StreamId::UNKNOWN,
                op: Op::Write,
            };
            self.submit(&[request], 0, true).map_err(gave_up)?;
            self.wait_below(FILL_DEPTH)?;
        }
        self.wait_below(1)?;
        self.target.end_fill().map(|_| ()).map_err(gave_up)
    }

    /// Waits until fewer than `depth` requests are in work.
    fn wait_below(&mut self, depth: usize) -> Result<(), Error> {
        while self.waited_for() >= depth {
            self.next_done()?;
        }
        Ok(())
    }

    /// The next request that is done, or nothing if only time has passed.
    fn next_done(&mut self) -> Result<Option<Finished>, Error> {
        if let Some((_, done)) = self.next_ended() {
            return Ok(Some(done));
        }
        self.step().and_then(|()| self.target.check()).map_err(gave_up)?;
        Ok(self.next_ended().map(|(_, done)| done))
    }

    /// Serves jobs, each with as many requests in flight as `depths` says: `next` gives the next request of a job, at
    /// first and whenever one of its requests is done, until there is none.
    ///
    /// # Errors
    /// Those of `next`, and [`Error`] when the stack gives up.
    pub(crate) fn serve_jobs(
        &mut self,
        depths: impl Iterator<Item = u32>,
        mut next: impl FnMut(&dyn Target, usize, Option<Finished>) -> Result<Option<Request>, Error>,
    ) -> Result<(), Error> {
        for (job, depth) in depths.enumerate() {
            for _ in 0..depth {
                let Some(request) = next(&*self.target, job, None)? else { break };
                self.submit_one(&request)?;
            }
        }
        while self.waited_for() > 0 {
            let Some(done) = self.next_done()? else { continue };
            if let Some(request) = next(&*self.target, done.tenant.0 as usize, Some(done))? {
                self.submit_one(&request)?;
            }
        }
        Ok(())
    }

    fn submit_one(&mut self, request: &Request) -> Result<(), Error> {
        let pieces = std::slice::from_ref(request);
        let handle = self.target.handle(pieces);
        self.submit(pieces, handle, true).map(|_| ()).map_err(gave_up)
    }
}

fn gave_up(failure: Failure) -> Error {
    match failure {
        Failure::Drive(error) => run::not_done(error, "a request of a job".to_owned()),
        Failure::Full(_) => Error::Engine(HostError::NoSpace.to_string()),
        Failure::Engine(error) => Error::Engine(error.to_string()),
        Failure::Other(error) => error,
    }
}
