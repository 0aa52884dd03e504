//! Hard disks: one arm over turning platters. A stated model, for tables in which disks stand beside flash.
//!
//! A request that goes on where the one before ended costs its transfer alone. Any other costs a seek, half a turn, and
//! its transfer. A seek over the share `d` of the disk takes `a + b √d` (Ruemmler and Wilkes, An Introduction to Disk
//! Drive Modeling, IEEE Computer 27 (3), 1994, for all but the longest seeks), where `a` is the seek to the next track
//! and `b` is such that a seek between two places drawn at random takes the average of the data sheet: the mean of `√d`
//! is then 8/15. With `n` requests waiting the arm takes them in the order of their addresses, which makes `d` about
//! `1 / (n + 1)` of the disk.
//!
//! Left out: tracks of different length, the choice of a request by the angle of the platters, a cache that holds more
//! writes than the host has in flight.

use std::collections::VecDeque;

use thermocline_types::{Bytes, Cause, Op, Request, Time};

use crate::counters::Counters;
use crate::error::DriveError;
use crate::media::NandArray;
use crate::profile::{Cut, DiskTiming, Profile};

/// A disk drive: written in place, nothing to erase, nothing to collect.
#[derive(Clone, Debug)]
pub struct HardDisk {
    cut: Cut,
    timing: DiskTiming,
    /// Has no time; a disk has no flash that wears.
    media: NandArray,
    counters: Counters,
    /// When the arm is free, and where it is then.
    free_at: u64,
    place: Bytes,
    /// When requests in work end, in order.
    ends: VecDeque<u64>,
}

/// The mean of `√|x − y|` of two places drawn at random: ∫∫ √|x − y| = 8/15.
const MEAN_ROOT: f64 = 8.0 / 15.0;

impl HardDisk {
    /// A disk at rest.
    ///
    /// # Panics
    /// If the profile has no disk, which its check rules out.
    #[must_use]
    pub fn new(profile: &Profile, cut: Cut, seed: u64) -> Self {
        HardDisk {
            timing: profile.disk.clone().expect("checked with the profile"),
            media: NandArray::new(profile, &cut, seed),
            cut,
            counters: Counters::default(),
            free_at: 0,
            place: Bytes::ZERO,
            ends: VecDeque::new(),
        }
    }

    /// How the drive is cut.
    #[must_use]
    pub fn cut(&self) -> &Cut {
        &self.cut
    }

    /// Nothing that wears.
    #[must_use]
    pub fn media(&self) -> &NandArray {
        &self.media
    }

    /// The media, to say whose the data is.
    pub(crate) fn media_mut(&mut self) -> &mut NandArray {
        &mut self.media
    }

    /// Bytes through the drive so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Serves `request`, which arrives at `at`; returns when it is complete.
    ///
    /// # Errors
    /// [`DriveError::OutOfRange`] for addresses beyond the capacity.
    pub fn submit(&mut self, at: Time, request: &Request) -> Result<Time, DriveError> {
        let capacity = self.cut.capacity();
        if request.end() > capacity {
            return Err(DriveError::OutOfRange { end: request.end(), capacity });
        }
        let now = at.as_nanos();
        while self.ends.front().is_some_and(|&end| end <= now) {
            self.ends.pop_front();
        }
        match request.op {
            Op::Read => self.counters.host_read += request.length.0,
            Op::Write => {
                self.counters.host_written += request.length.0;
                self.counters.media[Cause::Host.index()] += request.length.0;
                self.counters.media_total += request.length.0;
                self.media.written(request.length.0);
            }
            Op::Trim | Op::WriteZeroes => {
                self.counters.host_trimmed += request.length.0;
                return Ok(at);
            }
            Op::Flush => return Ok(Time(self.free_at.max(now))),
        }
        let took = self.positioning(request.offset) + self.transfer(request.length);
        self.free_at = self.free_at.max(now) + took;
        self.place = request.end();
        self.ends.push_back(self.free_at);
        Ok(Time(self.free_at))
    }

    fn transfer(&self, length: Bytes) -> u64 {
        (length.as_f64() * 1e3 / self.timing.transfer_mb_per_s) as u64
    }

    /// Nanoseconds until the head is over `offset`.
    fn positioning(&self, offset: Bytes) -> u64 {
        if offset == self.place {
            return 0;
        }
        let alone = offset.0.abs_diff(self.place.0) as f64 / self.cut.capacity().as_f64();
        let waiting = self.ends.len() as f64;
        let distance = alone.min(if waiting > 0.0 { 1.0 / (waiting + 2.0) } else { 1.0 });
        let slope = (self.timing.seek_ms - self.timing.track_seek_ms) / MEAN_ROOT;
        let seek = self.timing.track_seek_ms + slope * distance.sqrt();
        let half_turn = 30_000.0 / self.timing.rpm;
        ((seek + half_turn) * 1e6) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::builtin;
    use thermocline_types::{Rng, StreamId, TenantId};

    fn disk() -> HardDisk {
        let profile = Profile::from_toml("hdd", builtin("hdd").unwrap()).unwrap();
        let cut = Cut::new(&profile, Some(Bytes::gib(16))).unwrap();
        HardDisk::new(&profile, cut, 1)
    }

    fn write(offset: u64, length: u64) -> Request {
        Request {
            at: Time::ZERO,
            offset: Bytes(offset),
            length: Bytes(length),
            tenant: TenantId(0),
            stream: StreamId::UNKNOWN,
            op: Op::Write,
            outstanding: None,
        }
    }

    /// Requests per second of 4 KiB anywhere, with so many in flight.
    fn rate(depth: usize) -> f64 {
        let (mut disk, mut rng, mut ends) = (disk(), Rng::new(1), VecDeque::new());
        let mut now = Time::ZERO;
        for _ in 0..20_000 {
            if ends.len() == depth {
                now = ends.pop_front().expect("some are in flight");
            }
            let block = rng.next_u64() % (Bytes::gib(16).0 / 4096);
            ends.push_back(disk.submit(now, &write(block * 4096, 4096)).unwrap());
        }
        20_000.0 / now.as_secs_f64()
    }

    #[test]
    fn one_request_after_the_other_takes_a_mean_seek_and_half_a_turn() {
        let expected = 1e3 / (8.2 + 4.167 + 4096.0 * 1e3 / 270e6);
        assert!((rate(1) / expected - 1.0).abs() < 0.01, "{} and {expected}", rate(1));
    }

    #[test]
    fn many_in_flight_make_seeks_short_but_not_turns() {
        assert!(rate(32) > 1.5 * rate(1));
        assert!(rate(128) < 1e3 / 4.167);
    }

    #[test]
    fn what_goes_on_where_the_last_ended_is_transfer_alone() {
        let mut disk = disk();
        let mut end = Time::ZERO;
        for n in 0..10_000 {
            end = disk.submit(end, &write(n * 65_536, 65_536)).unwrap();
        }
        let rate = 10_000.0 * 65_536.0 / end.as_secs_f64() / 1e6;
        assert!((rate / 270.0 - 1.0).abs() < 0.01, "{rate}");
        let counters = disk.counters();
        assert_eq!(counters.media_total, counters.host_written);
        counters.check().unwrap();
        assert!(disk.submit(end, &write(Bytes::gib(16).0, 4096)).is_err());
    }
}
