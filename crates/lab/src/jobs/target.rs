//! A stack at work on requests of several jobs.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use thermocline_nand::Drive;
use thermocline_types::{Bytes, Op, Request, TenantId, Time};

use crate::byte_counts::ByteCounts;
use crate::log::machine::Machine;
use crate::log::plan::Plan;
use crate::stack::{Layer, Stack};
use crate::tenants::{OwnedCounts, owner};
use crate::{Error, Room, Settings, fitting, run};

/// A request that is done.
pub(crate) struct Done {
    /// Whose it was.
    pub(crate) job: usize,
    /// What it did.
    pub(crate) op: Op,
    /// How long it took.
    pub(crate) took: Time,
}

/// A request in work on a drive.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InWork {
    end: Time,
    number: u64,
    arrival: Time,
    job: usize,
    op: Op,
}

/// What jobs run on.
pub(crate) enum Target {
    Drive {
        drive: Box<Drive>,
        now: Time,
        /// Requests in work by their end, in order of submission at one instant.
        due: BinaryHeap<Reverse<InWork>>,
        submitted: u64,
    },
    Log {
        machine: Box<Machine>,
        done: VecDeque<Done>,
    },
}

impl Target {
    pub(crate) fn new(stack: &Stack, settings: &Settings, volume: Bytes) -> Result<Target, Error> {
        if matches!(stack.layer, Layer::Log | Layer::Tier) {
            let machine = Plan::new(stack, settings, Room::all_of(volume))?.build()?;
            let machine = Box::new(machine);
            return Ok(Target::Log { machine, done: VecDeque::new() });
        }
        let profile = &stack.profile;
        let drive = fitting::made(settings, run::least_step(profile), |settings| {
            run::holding(volume, profile, stack, settings)
        });
        let drive = Box::new(drive?);
        Ok(Target::Drive { drive, now: Time::ZERO, due: BinaryHeap::new(), submitted: 0 })
    }

    /// From now on, follows whose of `count` jobs all data is.
    pub(crate) fn follow(&mut self, count: u16) {
        match self {
            Target::Drive { drive, .. } if count > 0 => drive.follow_owners(count, Bytes::BLOCK),
            Target::Drive { .. } => {}
            Target::Log { machine, .. } => machine.follow_tenants(count),
        }
    }

    /// Bytes by job so far; `None` if jobs are not followed.
    pub(crate) fn owned_counts(&self) -> Option<OwnedCounts> {
        match self {
            Target::Drive { drive, .. } => drive
                .programmed_by_owner()
                .map(|drive| OwnedCounts { drive, ..OwnedCounts::default() }),
            Target::Log { machine, .. } => machine.owned_counts(),
        }
    }

    /// Writes all of the volume in order, in requests of `size`, and waits until that is on the media. `whose` says
    /// which job has the data at an offset.
    pub(crate) fn fill(
        &mut self,
        volume: Bytes,
        size: Bytes,
        whose: impl Fn(Bytes) -> TenantId,
    ) -> Result<(), Error> {
        let piece = size.0;
        for offset in (0..volume.0).step_by(piece as usize) {
            let request = Request {
                at: Time::ZERO,
                offset: Bytes(offset),
                length: Bytes(piece.min(volume.0 - offset)),
                tenant: whose(Bytes(offset)),
                stream: thermocline_types::StreamId::UNKNOWN,
                op: Op::Write,
            };
            self.submit(0, &request)?;
            while self.in_work() >= 32 {
                self.next_done()?;
            }
        }
        self.settle()
    }

    /// Waits until nothing is in work and all data is on the media.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        while self.in_work() > 0 {
            self.next_done()?;
        }
        match self {
            Target::Drive { drive, now, .. } => {
                drive.drain().map_err(gave_up)?;
                *now = (*now).max(drive.drained());
                Ok(())
            }
            Target::Log { machine, .. } => machine.settle(),
        }
    }

    pub(crate) fn in_work(&self) -> usize {
        match self {
            Target::Drive { due, .. } => due.len(),
            Target::Log { machine, done, .. } => machine.in_work() + done.len(),
        }
    }

    pub(crate) fn submit(&mut self, job: usize, request: &Request) -> Result<(), Error> {
        match self {
            Target::Drive { drive, now, due, submitted } => {
                if request.op == Op::Write {
                    drive.claim(request.offset, &[(owner(request.tenant), request.length)]);
                }
                let end = drive.submit(*now, request, 0).map_err(gave_up)?;
                let (number, arrival, op) = (*submitted, *now, request.op);
                due.push(Reverse(InWork { end, number, arrival, job, op }));
                *submitted += 1;
            }
            Target::Log { machine, .. } => {
                machine.submit(machine.now(), std::slice::from_ref(request), job as u16);
            }
        }
        Ok(())
    }

    /// The next request that is done, or nothing if only time has passed.
    pub(crate) fn next_done(&mut self) -> Result<Option<Done>, Error> {
        match self {
            Target::Drive { now, due, .. } => {
                let Some(Reverse(InWork { end, arrival, job, op, .. })) = due.pop() else {
                    return Ok(None);
                };
                *now = (*now).max(end);
                Ok(Some(Done { job, op, took: end.since(arrival) }))
            }
            Target::Log { machine, done } => {
                if done.is_empty() {
                    machine.step()?;
                    machine.take_finished(|finished| {
                        let took = finished.at.since(finished.arrival);
                        let (job, op) = (finished.tenant.0 as usize, finished.op);
                        done.push_back(Done { job, op, took });
                    });
                    if let Some(error) = machine.failed() {
                        return Err(Error::Engine(error.to_string()));
                    }
                }
                Ok(done.pop_front())
            }
        }
    }

    pub(crate) fn now(&self) -> Time {
        match self {
            Target::Drive { now, .. } => *now,
            Target::Log { machine, .. } => machine.now(),
        }
    }

    pub(crate) fn counts(&self) -> ByteCounts {
        match self {
            Target::Drive { drive, .. } => ByteCounts::direct(drive.counters()),
            Target::Log { machine, .. } => machine.byte_counts(),
        }
    }
}

fn gave_up(error: thermocline_nand::DriveError) -> Error {
    run::not_done(error, "a request of a job".to_owned())
}
