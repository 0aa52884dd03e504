//! Several drives of one kind under one host, striped, with what the host itself can do.
//!
//! Model:
//! * Stripes go to the drives in turn. A request is cut at stripe ends. The last piece to end completes the request.
//! * Processor: each piece takes time of a thread that issues requests and takes their ends, the thread that is free
//!   first. Pieces on a single thread wait for each other; time for completions is charged at issue.
//! * Link: what all drives share between them and memory, each direction for itself, in order of arrival, without
//!   losing time to data that is not there yet. A write ends when its data has crossed it; the drive begins with it
//!   when it is issued.
//! * Each drive has its own link and controller, as its profile says.
//!
//! Invariant: what each drive does depends on the sequence of its requests alone, never on the host's time (ADR 0003).

use thermocline_ftl::Shape;
use thermocline_types::{Bytes, Op, Request, Time};

use crate::busy::BusyTimes;
use crate::counters::Counters;
use crate::drive::{Drive, UnitView};
use crate::error::DriveError;
use crate::owners::{ByCause, OwnerRun};
use crate::profile::{Cut, Profile, ProfileError};
use crate::server::Server;

/// A host over several drives. What is not given does not limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostLimits {
    /// Bytes on a drive before the next drive takes over.
    pub stripe: Bytes,
    /// Rate of all drives together in each direction, 10^6 bytes per second.
    pub link_mb_per_s: Option<f64>,
    /// Processor time of a request to one drive, microseconds.
    pub cpu_us: f64,
    /// Threads that issue requests.
    pub threads: u32,
}

impl Default for HostLimits {
    /// Stripes of 64 KiB (Linux `mdadm` had that before 512 KiB), and a host without limits.
    fn default() -> Self {
        HostLimits { stripe: Bytes::kib(64), link_mb_per_s: None, cpu_us: 0.0, threads: 1 }
    }
}

/// Drives side by side.
#[derive(Clone, Debug)]
pub struct Striped {
    drives: Vec<Drive>,
    limits: HostLimits,
    cut: Cut,
    threads: Vec<Server>,
    link_in: Server,
    link_out: Server,
    now: u64,
    /// The owner of the bytes written next, if tracked.
    owner: Option<u16>,
}

impl Striped {
    /// `count` drives after `profile`, which export `capacity` together, or what the products do.
    ///
    /// # Errors
    /// [`ProfileError`] when a drive cannot be cut to its part, and for drives that cannot be striped.
    pub fn new(
        profile: &Profile,
        count: u32,
        limits: HostLimits,
        capacity: Option<Bytes>,
        seed: u64,
    ) -> Result<Striped, ProfileError> {
        let refuse = |key: &str, reason: &str| ProfileError::new(&profile.name, key, reason);
        if profile.zns.is_some() {
            return Err(refuse("kind", "zones cannot be striped"));
        }
        let stripe = limits.stripe;
        if stripe.0 == 0 || !stripe.0.is_multiple_of(profile.mapping_unit.max(Bytes::BLOCK).0) {
            return Err(refuse("host.stripe", "must be a multiple of 4 KiB and of mapping_unit"));
        }
        let part = capacity.unwrap_or(Bytes(profile.capacity.0 * u64::from(count)));
        // Whole stripes, so that every address has a place.
        let part = Bytes(part.0.div_ceil(stripe.0 * u64::from(count)) * stripe.0);
        let drives = (0..u64::from(count))
            .map(|index| Drive::new(profile, Some(part), seed.wrapping_add(index)))
            .collect::<Result<Vec<Drive>, ProfileError>>()?;
        let one = *drives[0].cut();
        let (exported, units) = (one.shape.exported(), one.shape.units());
        let shape =
            Shape::new(exported * u64::from(count), units * count, one.shape.blocks_per_unit())
                .map_err(|error| refuse("capacity", &error.to_string()))?;
        Ok(Striped {
            drives,
            limits,
            cut: Cut { shape, ..one },
            threads: vec![Server::default(); limits.threads.max(1) as usize],
            link_in: Server::default(),
            link_out: Server::default(),
            now: 0,
            owner: None,
        })
    }

    /// Serves `request`, which arrives at `at`; returns when it is complete.
    ///
    /// # Errors
    /// [`DriveError`] of a drive.
    pub fn submit(&mut self, at: Time, request: &Request, handle: u16) -> Result<Time, DriveError> {
        let capacity = self.cut.capacity();
        if request.end() > capacity {
            return Err(DriveError::OutOfRange { end: request.end(), capacity });
        }
        self.now = self.now.max(at.as_nanos());
        if request.op == Op::Flush {
            let mut done = at;
            for drive in 0..self.drives.len() {
                done = done.max(self.piece(drive, *request, handle)?);
            }
            return Ok(done);
        }
        let (stripe, count) = (self.limits.stripe.0, self.drives.len() as u64);
        let (mut from, mut done) = (request.offset.0, at);
        while from < request.end().0 {
            let to = request.end().0.min((from / stripe + 1) * stripe);
            let number = from / stripe;
            let offset = Bytes(number / count * stripe + from % stripe);
            let piece = Request { offset, length: Bytes(to - from), ..*request };
            done = done.max(self.piece((number % count) as usize, piece, handle)?);
            from = to;
        }
        Ok(done)
    }

    /// Issues a piece of the request to `drive`.
    fn piece(&mut self, drive: usize, request: Request, handle: u16) -> Result<Time, DriveError> {
        let issued = self.issue();
        let transfer = self
            .limits
            .link_mb_per_s
            .map_or(0, |rate| (request.length.as_f64() * 1e3 / rate) as u64);
        let (now, drive) = (self.now, &mut self.drives[drive]);
        match request.op {
            Op::Write => {
                if let Some(owner) = self.owner {
                    drive.claim(request.offset, &[(owner, request.length)]);
                }
                let there = Time(self.link_in.serve(now, issued, transfer));
                Ok(drive.submit(Time(issued), &request, handle)?.max(there))
            }
            Op::Read => {
                let ready = drive.submit(Time(issued), &request, handle)?;
                Ok(Time(self.link_out.serve(now, ready.as_nanos(), transfer)))
            }
            _ => drive.submit(Time(issued), &request, handle),
        }
    }

    /// The thread that is free first issues a request; returns when it has.
    fn issue(&mut self) -> u64 {
        let cost = Time::micros_f64(self.limits.cpu_us).as_nanos();
        let free = self.threads.iter_mut().min_by_key(|thread| thread.free_at());
        free.expect("there is a thread").serve(self.now, self.now, cost)
    }

    /// Programs what waits in the write buffers.
    ///
    /// # Errors
    /// As [`Drive::drain`].
    pub fn drain(&mut self) -> Result<(), DriveError> {
        self.drives.iter_mut().try_for_each(Drive::drain)
    }

    /// As [`Drive::follow_owners`].
    pub(crate) fn follow_owners(&mut self, count: u16, piece: Bytes) {
        self.drives.iter_mut().for_each(|drive| drive.follow_owners(count, piece));
        self.owner = Some(count);
    }

    /// As [`Drive::claim`].
    pub(crate) fn claim(&mut self, runs: &[OwnerRun]) {
        if let (Some(owner), Some((first, _))) = (&mut self.owner, runs.first()) {
            *owner = *first;
        }
    }

    /// As [`Drive::programmed_by_owner`].
    pub(crate) fn programmed_by_owner(&self) -> Option<Vec<ByCause>> {
        let mut all = self.drives[0].programmed_by_owner()?;
        for drive in &self.drives[1..] {
            let more = drive.programmed_by_owner()?;
            let bytes = all.iter_mut().flatten().zip(more.into_iter().flatten());
            bytes.for_each(|(sum, more)| *sum += more);
        }
        Some(all)
    }

    /// All drives as one.
    #[must_use]
    pub fn cut(&self) -> &Cut {
        &self.cut
    }

    /// The drives.
    #[must_use]
    pub fn drives(&self) -> &[Drive] {
        &self.drives
    }

    /// One of the drives, past the host.
    pub fn drive_mut(&mut self, drive: usize) -> &mut Drive {
        &mut self.drives[drive]
    }

    /// Bytes through all drives so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.drives.iter().map(Drive::counters).fold(Counters::default(), |sum, one| sum.plus(&one))
    }

    /// When all data is on the media of all drives.
    #[must_use]
    pub fn drained(&self) -> Time {
        self.drives.iter().map(Drive::drained).max().unwrap_or_default()
    }

    /// How long the resources of all drives were busy since the start, and those of the host that limit anything:
    /// `host_cpu` by thread, `host_link_in`, `host_link_out`; `None` where time is not modelled.
    #[must_use]
    pub fn busy(&self) -> Option<BusyTimes> {
        let mut all = BusyTimes::default();
        for drive in &self.drives {
            all.join(drive.busy()?);
        }
        if self.limits.cpu_us > 0.0 {
            all.add("host_cpu", self.threads.iter().map(Server::busy));
        }
        if self.limits.link_mb_per_s.is_some() {
            all.add("host_link_in", [self.link_in.busy()]);
            all.add("host_link_out", [self.link_out.busy()]);
        }
        Some(all)
    }

    /// Units that left service, and spare units left, of all drives.
    #[must_use]
    pub fn retired_and_spare(&self) -> (u64, u64) {
        let each = self.drives.iter().map(|drive| drive.retired_and_spare());
        each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Units that can be opened now, of all drives.
    #[must_use]
    pub fn free_units(&self) -> u64 {
        self.drives.iter().map(Drive::free_units).sum()
    }

    /// The units of all drives, one drive after the other.
    pub fn units(&mut self) -> Vec<UnitView> {
        self.drives.iter_mut().flat_map(Drive::units).collect()
    }
}

#[cfg(test)]
mod tests {
    use thermocline_types::{StreamId, TenantId};

    use super::*;
    use crate::profile::builtin;

    fn request(op: Op, offset: u64, length: u64) -> Request {
        let (offset, length) = (Bytes(offset), Bytes(length));
        Request {
            at: Time::ZERO,
            op,
            offset,
            length,
            tenant: TenantId(0),
            stream: StreamId::UNKNOWN,
            outstanding: None,
        }
    }

    fn drives(count: u32, limits: HostLimits) -> Striped {
        let profile = Profile::from_toml("pci-c", builtin("pci-c").unwrap()).unwrap();
        Striped::new(&profile, count, limits, Some(Bytes::mib(256)), 1).unwrap()
    }

    /// Time for reads of 128 KiB all over what was written, so many at once.
    fn seconds(striped: &mut Striped, reads: u64) -> f64 {
        for at in 0..256 {
            striped.submit(Time::ZERO, &request(Op::Write, at << 20, 1 << 20), 0).unwrap();
        }
        let begun = striped.drained();
        let mut ends: std::collections::BinaryHeap<_> =
            (0..64).map(|_| std::cmp::Reverse(begun)).collect();
        for number in 0..reads {
            let std::cmp::Reverse(now) = ends.pop().unwrap();
            let read = request(Op::Read, number * 7 % 2048 * 131_072, 131_072);
            ends.push(std::cmp::Reverse(striped.submit(now, &read, 0).unwrap()));
        }
        ends.into_iter().map(|end| end.0).max().unwrap().since(begun).as_secs_f64()
    }

    #[test]
    fn every_byte_goes_to_one_drive_and_all_of_them_are_counted() {
        let mut striped = drives(4, HostLimits::default());
        let whole = request(Op::Write, 0, 256 << 20);
        striped.submit(Time::ZERO, &whole, 0).unwrap();
        for drive in striped.drives() {
            assert_eq!(drive.counters().host_written, 64 << 20);
        }
        let counters = striped.counters();
        counters.check().unwrap();
        assert_eq!(counters.host_written, 256 << 20);
        let beyond = request(Op::Write, 256 << 20, 512);
        assert!(matches!(
            striped.submit(Time::ZERO, &beyond, 0),
            Err(DriveError::OutOfRange { .. })
        ));
    }

    #[test]
    fn drives_add_up_until_the_host_is_the_limit() {
        let time = |count, limits| seconds(&mut drives(count, limits), 4000);
        let free = HostLimits::default();
        let (one, four) = (time(1, free), time(4, free));
        assert!((3.0..4.2).contains(&(one / four)), "{one} against {four}");
        // 4,000 reads of two stripes and 100 us each: 0.8 s of one thread, 0.2 s of four.
        let slow = HostLimits { cpu_us: 100.0, ..free };
        assert!((time(4, slow) / 0.8 - 1.0).abs() < 0.05, "{}", time(4, slow));
        let threads = HostLimits { threads: 4, ..slow };
        assert!((time(4, threads) / 0.2 - 1.0).abs() < 0.5, "{}", time(4, threads));
        // 500 MiB over a link of 1,000 MB/s.
        let link = HostLimits { link_mb_per_s: Some(1000.0), ..free };
        assert!((time(4, link) / 0.524 - 1.0).abs() < 0.05, "{}", time(4, link));
    }
}
