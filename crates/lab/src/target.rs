//! What serves requests in virtual time: a drive, or a log over drives.

use thermocline_engine::HostError;
use thermocline_nand::{Drive, DriveError, UnitView};
use thermocline_types::{Bytes, Op, Request, TenantId, Time};

use crate::Error;
use crate::byte_counts::ByteCounts;
use crate::log::machine::Machine;
use crate::rates::DeviceRates;
use crate::tag::Tags;
use crate::tenants::{OwnedCounts, owner};

/// A request that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finished {
    /// When it was done.
    pub at: Time,
    /// When it arrived.
    pub arrival: Time,
    /// By whom.
    pub tenant: TenantId,
    /// What was asked.
    pub op: Op,
}

impl Finished {
    /// How long it took.
    #[must_use]
    pub fn took(&self) -> Time {
        self.at.since(self.arrival)
    }
}

/// Why a target serves no more.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The drive refused a request.
    Drive(DriveError),
    /// The engine gave up.
    Engine(HostError),
    /// The data that the engine holds, as much as this, fills its drives.
    Full(Bytes),
    /// Anything else.
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Other(error)
    }
}

/// What serves requests in virtual time.
///
/// A drive says when a request will be done as the request is submitted. A log says so when it is done.
pub(crate) trait Target {
    /// The present.
    fn now(&self) -> Time;

    /// Requests submitted that neither had an end foretold nor came out of [`Target::next_finished`].
    fn in_work(&self) -> usize;

    /// Requests in work at most while the target is filled before a run.
    fn fill_depth(&self) -> usize;

    /// The placement handle of the request that falls into `pieces`, in the order of requests.
    fn handle(&mut self, pieces: &[Request]) -> u16;

    /// Submits a request that arrives now, as its pieces; returns when it will be done, if that is known.
    ///
    /// # Errors
    /// [`Failure::Drive`].
    fn submit(&mut self, pieces: &[Request], handle: u16) -> Result<Option<Time>, Failure>;

    /// Goes on to the next instant at which something happens by itself.
    ///
    /// # Errors
    /// [`Failure::Other`] when nothing ever will.
    fn step(&mut self) -> Result<(), Failure>;

    /// Goes on as [`Target::step`] if something happens until `until`; else `until` is the present. Returns whether
    /// something did.
    ///
    /// # Errors
    /// As [`Target::step`].
    fn step_until(&mut self, until: Time) -> Result<bool, Failure>;

    /// The next request that is done and whose end was not foretold.
    fn next_finished(&mut self) -> Option<Finished>;

    /// Whether requests can still be served.
    ///
    /// # Errors
    /// Why not.
    fn check(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Whether the host has to wait before its next request.
    fn holds_up_host(&self) -> bool {
        false
    }

    /// Brings what `requests` will look at first into the cache. Changes nothing.
    fn prefetch(&self, requests: &[Request]);

    /// Waits until nothing is in work any more, also of its own.
    ///
    /// # Errors
    /// As [`Target::step`].
    fn settle(&mut self) -> Result<(), Failure>;

    /// After a fill, waits as [`Target::settle`] and writes out what the drive buffers; returns when that is on the
    /// media.
    ///
    /// # Errors
    /// As [`Target::step`], and [`Failure::Drive`].
    fn end_fill(&mut self) -> Result<Time, Failure>;

    /// When all that the host wrote is on the media, once the drives have programmed what waits in their buffers;
    /// `None` if a drive is worn out.
    fn on_media(&mut self) -> Option<Time>;

    /// From now on, follows whose of `tenants` all that is written is; 0 for not.
    fn follow_tenants(&mut self, tenants: u16);

    /// From `start` on, counts what goes through each drive over time, where time is modelled.
    fn count_rates(&mut self, start: Time);

    /// Bytes so far.
    fn byte_counts(&self) -> ByteCounts;

    /// Bytes by tenant so far; `None` if tenants are not followed.
    fn owned_counts(&self) -> Option<OwnedCounts>;

    /// Units that are free.
    fn free_units(&self) -> u64;

    /// Every unit of the drive, or of that for capacity.
    fn units(&mut self) -> Vec<UnitView>;

    /// What went through each drive since [`Target::count_rates`].
    fn rates(&self) -> Vec<&DeviceRates>;

    /// The drive, or that for capacity.
    fn drive(&self) -> &Drive;

    /// The same.
    fn drive_mut(&mut self) -> &mut Drive;

    /// The log, where there is one.
    fn log(&self) -> Option<&Machine> {
        None
    }
}

/// A drive with nothing above it but handles.
pub(crate) struct DriveTarget {
    drive: Drive,
    tags: Tags,
    now: Time,
    /// Whether tenants are followed.
    follows: bool,
    rates: Option<DeviceRates>,
}

impl DriveTarget {
    /// A drive whose writes carry the handles of `tags`.
    pub fn new(drive: Drive, tags: Tags) -> DriveTarget {
        DriveTarget { drive, tags, now: Time::ZERO, follows: false, rates: None }
    }
}

impl Target for DriveTarget {
    fn now(&self) -> Time {
        self.now
    }

    fn in_work(&self) -> usize {
        0
    }

    fn fill_depth(&self) -> usize {
        1
    }

    #[inline]
    fn handle(&mut self, pieces: &[Request]) -> u16 {
        self.tags.handle(pieces)
    }

    #[inline]
    fn submit(&mut self, pieces: &[Request], handle: u16) -> Result<Option<Time>, Failure> {
        let mut done = self.now;
        for piece in pieces {
            if self.follows && piece.op == Op::Write {
                self.drive.claim(piece.offset, &[(owner(piece.tenant), piece.length)]);
            }
            let end = self.drive.submit(self.now, piece, handle).map_err(Failure::Drive)?;
            if let Some(rates) = &mut self.rates {
                match piece.op {
                    Op::Read => rates.read(end, piece.length),
                    Op::Write => rates.written(end, piece.length),
                    Op::Flush | Op::Trim | Op::WriteZeroes => {}
                }
            }
            done = done.max(end);
        }
        Ok(Some(done))
    }

    fn step(&mut self) -> Result<(), Failure> {
        unreachable!("a drive foretells the end of every request")
    }

    #[inline]
    fn step_until(&mut self, until: Time) -> Result<bool, Failure> {
        self.now = self.now.max(until);
        Ok(false)
    }

    #[inline]
    fn next_finished(&mut self) -> Option<Finished> {
        None
    }

    fn prefetch(&self, requests: &[Request]) {
        self.drive.prefetch(requests);
    }

    fn settle(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn end_fill(&mut self) -> Result<Time, Failure> {
        self.drive.drain().map_err(Failure::Drive)?;
        self.now = self.now.max(self.drive.drained());
        Ok(self.now)
    }

    fn on_media(&mut self) -> Option<Time> {
        self.drive.drain().ok()?;
        Some(self.drive.drained())
    }

    fn follow_tenants(&mut self, tenants: u16) {
        self.follows = tenants > 0;
        if self.follows {
            self.drive.follow_owners(tenants, Bytes::BLOCK);
        }
    }

    fn count_rates(&mut self, start: Time) {
        self.rates = self.drive.is_timed().then(|| DeviceRates::new(start));
    }

    fn byte_counts(&self) -> ByteCounts {
        ByteCounts::direct(self.drive.counters())
    }

    fn owned_counts(&self) -> Option<OwnedCounts> {
        let drive = self.drive.programmed_by_owner()?;
        Some(OwnedCounts { drive, ..OwnedCounts::default() })
    }

    fn free_units(&self) -> u64 {
        self.drive.free_units()
    }

    fn units(&mut self) -> Vec<UnitView> {
        self.drive.units()
    }

    fn rates(&self) -> Vec<&DeviceRates> {
        self.rates.iter().collect()
    }

    fn drive(&self) -> &Drive {
        &self.drive
    }

    fn drive_mut(&mut self) -> &mut Drive {
        &mut self.drive
    }
}
