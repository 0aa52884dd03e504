//! A stack with requests of several jobs in work.

use std::collections::VecDeque;

use thermocline_engine::HostError;
use thermocline_types::{Bytes, Op, Request, StreamId, TenantId, Time};

use crate::log::plan::Plan;
use crate::queue::{Ending, Queue};
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
                outstanding: None,
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
            self.next_ending()?;
        }
        Ok(())
    }

    /// The next thing that ends, or nothing if only time has passed.
    fn next_ending(&mut self) -> Result<Option<(Ending, Finished)>, Error> {
        if let Some(ended) = self.next_ended() {
            return Ok(Some(ended));
        }
        self.step().and_then(|()| self.target.check()).map_err(gave_up)?;
        Ok(self.next_ended())
    }

    /// Serves jobs within `limits`: `next` gives the next request of a job, at first and whenever one of its requests
    /// is done, until there is none. `begun` hears of each request that goes to the stack.
    ///
    /// # Errors
    /// Those of `next`, and [`Error`] when the stack gives up.
    pub(crate) fn serve_jobs(
        &mut self,
        limits: &JobLimits,
        mut next: impl FnMut(&dyn Target, usize, Option<Finished>) -> Result<Option<Request>, Error>,
        mut begun: impl FnMut(&Request),
    ) -> Result<(), Error> {
        let mut door = Door::new(limits);
        let begun = &mut begun as &mut dyn FnMut(&Request);
        for (job, &(depth, _)) in limits.jobs.iter().enumerate() {
            for _ in 0..depth {
                let Some(request) = next(&*self.target, job, None)? else { break };
                self.arrive(&mut door, job, request, begun)?;
            }
        }
        while self.waited_for() > 0 {
            let Some((ending, ended)) = self.next_ending()? else { continue };
            let job = ended.tenant.0 as usize;
            if ending == Ending::Thought {
                let request = door.paces[job].held.pop_front().expect("one for each thought");
                door.waiting.push_back(request);
            } else {
                door.inside -= 1;
                if let Some(request) = next(&*self.target, job, Some(ended))? {
                    self.arrive(&mut door, job, request, begun)?;
                }
            }
            self.admit(&mut door, begun)?;
        }
        Ok(())
    }

    /// A request of `job` comes to the queue, or waits until the cap of the job lets it.
    fn arrive(
        &mut self,
        door: &mut Door,
        job: usize,
        request: Request,
        begun: &mut dyn FnMut(&Request),
    ) -> Result<(), Error> {
        let now = self.target.now();
        let pace = &mut door.paces[job];
        let release = pace.release(now, request.length);
        if release > now {
            let Request { op, tenant, .. } = request;
            pace.held.push_back(request);
            self.think(release, Finished { at: release, arrival: now, tenant, op });
            return Ok(());
        }
        door.waiting.push_back(request);
        self.admit(door, begun)
    }

    /// Submits requests of the queue in order, while there is room.
    fn admit(&mut self, door: &mut Door, begun: &mut dyn FnMut(&Request)) -> Result<(), Error> {
        while door.inside < door.room
            && let Some(request) = door.waiting.pop_front()
        {
            door.inside += 1;
            begun(&request);
            let handle = self.target.handle(std::slice::from_ref(&request));
            self.submit(&[request], handle, true).map_err(gave_up)?;
        }
        Ok(())
    }
}

/// What holds jobs back.
#[derive(Clone, Debug)]
pub(crate) struct JobLimits {
    /// Requests of all jobs that the stack has at once; without it, all.
    pub(crate) queue: Option<u32>,
    /// Requests in flight of each job, and its cap in 10^6 bytes a second.
    pub(crate) jobs: Vec<(u32, Option<f64>)>,
}

impl JobLimits {
    /// Jobs with so many requests in flight, and no other limit.
    pub(crate) fn depths(depths: impl Iterator<Item = u32>) -> JobLimits {
        JobLimits { queue: None, jobs: depths.map(|depth| (depth, None)).collect() }
    }
}

/// Requests that the stack does not have yet.
struct Door {
    room: usize,
    /// Requests of jobs that the stack has.
    inside: usize,
    waiting: VecDeque<Request>,
    paces: Vec<Pace>,
}

impl Door {
    fn new(limits: &JobLimits) -> Door {
        let pace = |&(_, cap): &(u32, Option<f64>)| Pace {
            ns_per_byte: cap.map_or(0.0, |mb_per_s| 1e3 / mb_per_s),
            free_at: Time::ZERO,
            held: VecDeque::new(),
        };
        Door {
            room: limits.queue.map_or(usize::MAX, |room| room as usize),
            inside: 0,
            waiting: VecDeque::new(),
            paces: limits.jobs.iter().map(pace).collect(),
        }
    }
}

/// The cap of a job.
struct Pace {
    ns_per_byte: f64,
    /// When the next request may go on.
    free_at: Time,
    /// Requests that wait for that, in order.
    held: VecDeque<Request>,
}

impl Pace {
    /// When a request of `bytes` that is ready at `now` may go on.
    fn release(&mut self, now: Time, bytes: Bytes) -> Time {
        let release = self.free_at.max(now);
        self.free_at = Time(release.0 + (bytes.as_f64() * self.ns_per_byte) as u64);
        release
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
