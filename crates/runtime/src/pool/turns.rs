//! Whose request the engine gets next: volumes take turns in proportion to their shares, and each keeps to its limits.
//!
//! Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995): in its turn a volume may bring as many bytes as its
//! share allows, and what it did not bring is added to its next turn. So a volume with many requests in flight does
//! not starve one with few, whatever their sizes. VolumeLimits are token buckets: what was not used is saved up for a
//! tenth of a second.
//!
//! A write completes in memory as long as there is room, so a volume of which few requests are in flight at once never
//! has many to bring in its turn. Hence the room is shared out as well, when little of it is left (`room`). The
//! requests that the engine takes at once are shared out likewise (`slots`).
//!
//! Invariants:
//! * Requests of one volume are handed on in the order in which they came.
//! * No volume waits while it has a request within its limits and no other has.

mod room;
mod slots;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use thermocline_engine::HostRequest;
use thermocline_target::bugs::{self, ShellBug};
use thermocline_types::Bytes;

use crate::Buffer;

use room::Room;
use slots::Slots;

/// Bytes that a share of 1 brings in a turn: a long request. Chosen, not measured.
const QUANTUM: u64 = 256 << 10;

/// Bytes charged for each request in addition to its length. Chosen, not measured.
const REQUEST: u64 = 4096;

/// Bytes charged for each trimmed block: the size of a map entry. Chosen, not measured.
const TRIMMED: u64 = 8;

/// Most bytes charged for a trim: the engine splits a long trim, and runs further requests in between. Chosen, not
/// measured.
const TRIM: u64 = 4 * QUANTUM;

/// Bytes charged for each block of a question for mapped blocks. Chosen: two pieces of a question take about as long as
/// a turn of small requests.
const LOOKED_AT: u64 = 64;

/// Largest share of a volume: even then the remaining volumes have a turn at least every 256 MiB. Chosen, not measured.
const MOST_SHARES: u32 = 1000;

/// Smallest bandwidth limit, bytes per second. A limit of a block, like a limit of a request, allows progress every
/// second. Chosen.
const LEAST_BANDWIDTH: u64 = Bytes::BLOCK.0;

/// Time without a held request after which a volume is no longer throttled. Chosen: a flood of requests causes few
/// reports.
const UNHELD: Duration = Duration::from_secs(60);

/// Time for which an unused allowance accumulates. Chosen: bursts are shorter than people notice.
const SAVED: Duration = Duration::from_millis(100);

/// Share and limits of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeLimits {
    /// Share of the pool's throughput under contention, in proportion to competing volumes' shares; at least 1.
    pub share: u32,
    /// Reads, writes, trims, zeroings and questions for mapped extents per second. Each piece of a long read or write
    /// counts; `None` is no limit.
    pub iops: Option<u64>,
    /// Bytes read, written or zeroed per second; `None` is no limit.
    pub bandwidth: Option<u64>,
}

/// Which limit no volume can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeLimitError {
    /// A share of nothing, or of more than there is sense in.
    #[error("is {0}, must be 1 to {MOST_SHARES}")]
    Share(u32),
    /// No request is ever carried out.
    #[error("is 0, must be at least 1")]
    Iops,
    /// A request of one block would take longer than a second.
    #[error("is {0}, must be at least {LEAST_BANDWIDTH} bytes per second, which is a block")]
    Bandwidth(u64),
}

impl VolumeLimitError {
    /// Name of the limit in settings.
    #[must_use]
    pub fn key(&self) -> &'static str {
        match self {
            VolumeLimitError::Share(_) => "share",
            VolumeLimitError::Iops => "iops",
            VolumeLimitError::Bandwidth(_) => "bandwidth",
        }
    }

    /// Whether there need not be any limit of the kind.
    #[must_use]
    pub fn may_be_absent(&self) -> bool {
        !matches!(self, VolumeLimitError::Share(_))
    }
}

impl VolumeLimits {
    /// Whether a volume can live with them.
    ///
    /// # Errors
    /// [`VolumeLimitError`].
    pub fn check(&self) -> Result<(), VolumeLimitError> {
        match *self {
            VolumeLimits { share, .. } if !(1..=MOST_SHARES).contains(&share) => {
                Err(VolumeLimitError::Share(share))
            }
            VolumeLimits { iops: Some(0), .. } => Err(VolumeLimitError::Iops),
            VolumeLimits { bandwidth: Some(rate), .. } if rate < LEAST_BANDWIDTH => {
                Err(VolumeLimitError::Bandwidth(rate))
            }
            VolumeLimits { .. } => Ok(()),
        }
    }
}

impl Default for VolumeLimits {
    /// One share, and no limits.
    fn default() -> VolumeLimits {
        VolumeLimits { share: 1, iops: None, bandwidth: None }
    }
}

/// Cost of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// Whether the limits apply: they do not to flushes and to what concerns no volume.
    pub(super) limited: bool,
    /// Bytes that it moves.
    pub(super) bytes: u64,
    /// Blocks that it writes.
    pub(super) written: u64,
    /// Blocks that it trims.
    pub(super) trimmed: u64,
    /// Blocks of which it asks whether they are mapped.
    pub(super) looked_at: u64,
    /// Whether the job is a request to the engine.
    pub(super) is_request: bool,
}

impl Cost {
    pub(super) fn of(what: &HostRequest<Buffer>) -> Cost {
        let other = Cost { is_request: true, ..Cost::default() };
        let limited = Cost { limited: true, ..other };
        match what {
            HostRequest::Read { extent, .. } => {
                Cost { bytes: extent.blocks * Bytes::BLOCK.0, ..limited }
            }
            HostRequest::Write { extent, .. } => {
                Cost { bytes: extent.blocks * Bytes::BLOCK.0, written: extent.blocks, ..limited }
            }
            HostRequest::Trim { extent, .. } => Cost { trimmed: extent.blocks, ..limited },
            _ => other,
        }
    }

    /// Cost charged to the volume's turn. Trimmed bytes are not moved, so they are charged less.
    fn of_turn(self) -> u64 {
        let looked_at = self.looked_at * LOOKED_AT;
        REQUEST + self.bytes + (self.trimmed * TRIMMED).min(TRIM) + looked_at
    }
}

/// Whose turn it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn<J> {
    /// This is handed on; [`Turns::put_back`] takes it back as if it had not been.
    Job(J, u32, Cost),
    /// No request may start before this time.
    Later(Instant),
    /// Nobody's before there is more room in the write cache.
    Full,
    /// No request waits.
    Nobody,
}

/// A limit, and what of it can be used now.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    per_second: u64,
    /// Allowance left; below zero after a request larger than the allowance.
    left: f64,
    since: Instant,
}

impl Bucket {
    fn new(per_second: u64, now: Instant) -> Bucket {
        Bucket { per_second, left: 0.0, since: now }
    }

    fn fill(&mut self, now: Instant) {
        let rate = self.per_second as f64;
        let passed = now.saturating_duration_since(self.since).as_secs_f64();
        self.left = (self.left + rate * passed).min(rate * SAVED.as_secs_f64());
        self.since = now;
    }

    /// When something can be used.
    fn ready(&self) -> Instant {
        let missing = (-self.left).max(0.0) / self.per_second as f64;
        self.since + Duration::from_secs_f64(missing)
    }
}

/// Queued requests of a volume.
#[derive(Debug)]
struct Line<J> {
    jobs: VecDeque<(J, Cost)>,
    share: u64,
    /// Bytes left for the volume in this turn.
    deficit: u64,
    /// Blocks of the volume's writes in the write cache.
    held: u64,
    /// Requests of the volume in the engine.
    slots: u64,
    requests: Option<Bucket>,
    bytes: Option<Bucket>,
    /// When a limit last held a request.
    held_at: Option<Instant>,
    /// Whether the volume is reported as throttled.
    is_throttled: bool,
}

impl<J> Line<J> {
    fn new() -> Line<J> {
        Line {
            jobs: VecDeque::new(),
            share: 1,
            deficit: 0,
            held: 0,
            slots: 0,
            requests: None,
            bytes: None,
            held_at: None,
            is_throttled: false,
        }
    }

    /// Time when the first request is within the limits, and the request's cost.
    fn first(&mut self, now: Instant) -> Option<(Instant, Cost)> {
        let &(_, cost) = self.jobs.front()?;
        let buckets = [&mut self.requests, &mut self.bytes].into_iter().flatten();
        let limited = buckets.filter(|_| cost.limited).map(|bucket| {
            bucket.fill(now);
            bucket.ready()
        });
        Some((limited.max().unwrap_or(now), cost))
    }

    fn pay(&mut self, cost: Cost, sign: f64) {
        if !cost.limited {
            return;
        }
        for (bucket, amount) in [(&mut self.requests, 1), (&mut self.bytes, cost.bytes)] {
            if let Some(bucket) = bucket {
                bucket.left -= sign * amount as f64;
            }
        }
    }
}

/// Queued requests by volume. Volume 0 holds requests without a volume.
#[derive(Debug)]
pub(super) struct Turns<J> {
    lines: BTreeMap<u32, Line<J>>,
    /// Volumes with requests, in the order of turns.
    round: VecDeque<u32>,
    /// Whether the first volume of the round has received its quantum.
    begun: bool,
    room: Room,
    slots: Slots,
}

impl<J> Default for Turns<J> {
    fn default() -> Turns<J> {
        Turns {
            lines: BTreeMap::new(),
            round: VecDeque::new(),
            begun: false,
            room: Room::default(),
            slots: Slots::default(),
        }
    }
}

impl<J> Turns<J> {
    /// Gives a volume other limits.
    pub(super) fn set_limits(&mut self, volume: u32, limits: VolumeLimits, now: Instant) {
        self.lines.entry(volume).or_insert_with(Line::new);
        self.change_share(volume, u64::from(limits.share.max(1)));
        let line = self.lines.get_mut(&volume).expect("it is there");
        line.requests = limits.iops.map(|rate| Bucket::new(rate, now));
        line.bytes = limits.bandwidth.map(|rate| Bucket::new(rate, now));
    }

    /// Lifts all limits: the pool is being closed.
    pub(super) fn lift_limits(&mut self) {
        self.lines.values_mut().for_each(|line| (line.requests, line.bytes) = (None, None));
    }

    /// Forgets a volume that was deleted, unless requests of it wait still.
    pub(super) fn forget(&mut self, volume: u32) {
        let idle = |line: &Line<J>| line.jobs.is_empty() && line.slots == 0;
        if self.lines.get(&volume).is_some_and(idle) {
            self.change_share(volume, 0);
            self.lines.remove(&volume);
        }
    }

    fn change_share(&mut self, volume: u32, share: u64) {
        if let Some(line) = self.lines.get_mut(&volume) {
            self.slots.share_changes(line, share);
            self.room.share_changes(line, share);
        }
    }

    /// The engine takes `most` requests at once.
    pub(super) fn slots_are(&mut self, most: u64) {
        self.slots.are(most);
    }

    /// A request that was handed on has ended.
    pub(super) fn ended(&mut self, volume: u32) {
        if let Some(line) = self.lines.get_mut(&volume) {
            self.slots.give_back(line);
        }
    }

    /// Of `most` blocks that the write cache has room for, `held` are taken up.
    pub(super) fn room_is(&mut self, held: u64, most: u64) {
        self.room.is(held, most, &mut self.lines);
    }

    /// A request of a volume waits.
    pub(super) fn push(&mut self, volume: u32, cost: Cost, job: J) {
        let line = self.lines.entry(volume).or_insert_with(Line::new);
        if line.jobs.is_empty() {
            self.round.push_back(volume);
        }
        line.jobs.push_back((job, cost));
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.round.is_empty()
    }

    /// Volumes whose limits began to hold requests, or ceased to, since the last call.
    pub(super) fn throttling(&mut self, now: Instant) -> Vec<(u32, bool)> {
        let mut changed = Vec::new();
        for (&volume, line) in &mut self.lines {
            let unheld = line.held_at.map(|at| now.saturating_duration_since(at));
            let is_throttled = unheld.is_some_and(|unheld| unheld < UNHELD);
            if is_throttled != line.is_throttled {
                line.is_throttled = is_throttled;
                changed.push((volume, is_throttled));
            }
        }
        changed
    }

    /// Takes the next request.
    pub(super) fn next(&mut self, now: Instant) -> Turn<J> {
        let (mut passed, mut soonest, mut full) = (0, None::<Instant>, false);
        while let Some(&volume) = self.round.front() {
            let line = self.lines.get_mut(&volume).expect("those in the round have a line");
            let (ready, cost) = line.first(now).expect("those in the round have a request");
            let over = cost.written > 0 && self.room.is_used_up_by(line)
                || cost.is_request && self.slots.are_used_up_by(line);
            if ready > now || over {
                // A volume held by a limit or by room accumulates no deficit.
                line.deficit = 0;
                if ready > now {
                    line.held_at = Some(now);
                    soonest = Some(soonest.map_or(ready, |soonest| soonest.min(ready)));
                } else {
                    full = true;
                }
                passed += 1;
                if passed == self.round.len() {
                    break;
                }
            } else {
                passed = 0;
                if !self.begun {
                    line.deficit += QUANTUM * line.share;
                    self.begun = true;
                }
                if line.deficit >= cost.of_turn() {
                    return self.take(volume);
                }
            }
            self.begun = false;
            self.round.rotate_left(1);
        }
        let nobody = if full { Turn::Full } else { Turn::Nobody };
        soonest.map_or(nobody, Turn::Later)
    }

    /// Takes the first request of the volume whose turn it is.
    fn take(&mut self, volume: u32) -> Turn<J> {
        let line = self.lines.get_mut(&volume).expect("it has its turn");
        let (job, cost) = line.jobs.pop_front().expect("it has a request");
        line.deficit -= cost.of_turn();
        let is_read = cost.written == 0 && cost.bytes > 0;
        if !(is_read && bugs::has(ShellBug::LimitNotCharged)) {
            line.pay(cost, 1.0);
        }
        self.room.take(volume, line, cost.written);
        if cost.is_request {
            self.slots.take(line);
        }
        if line.jobs.is_empty() {
            line.deficit = 0;
            self.round.pop_front();
            self.begun = false;
        }
        Turn::Job(job, volume, cost)
    }

    /// Takes back the request that was handed on last.
    pub(super) fn put_back(&mut self, volume: u32, cost: Cost, job: J) {
        let line = self.lines.entry(volume).or_insert_with(Line::new);
        line.pay(cost, -1.0);
        self.room.give_back(line, cost.written);
        if cost.is_request {
            self.slots.give_back(line);
        }
        if line.jobs.is_empty() {
            self.round.push_front(volume);
        }
        self.begun = true;
        line.deficit += cost.of_turn();
        line.jobs.push_front((job, cost));
    }
}

#[cfg(test)]
mod tests;
