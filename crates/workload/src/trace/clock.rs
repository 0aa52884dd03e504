//! Putting the clocks of trace formats in order.

use thermocline_types::{Request, Time};

/// Counts time from the first request and never lets it go back.
#[derive(Debug, Default)]
pub(super) struct Clock {
    origin: Option<u64>,
    last: u64,
    /// How many requests were stamped earlier than their predecessor.
    pub reordered: u64,
}

impl Clock {
    /// What the first request was stamped.
    pub fn origin(&self) -> Option<u64> {
        self.origin
    }

    /// The time of the last request.
    pub fn last(&self) -> Time {
        Time::nanos(self.last)
    }

    /// The time of a request stamped `stamp` nanoseconds on the trace's own clock.
    #[inline]
    pub fn at(&mut self, stamp: u64) -> Time {
        let origin = *self.origin.get_or_insert(stamp);
        let at = stamp.saturating_sub(origin);
        if at < self.last || stamp < origin {
            self.reordered += 1;
        } else {
            self.last = at;
        }
        Time::nanos(self.last)
    }
}

/// How many requests of one second are held back at most: 2^17 of them take 5 MiB. Chosen, not measured.
const GROUP_MAX: usize = 1 << 17;

/// Spreads the requests of a trace whose clock ticks in whole seconds evenly over each second.
///
/// The n requests stamped with one second are put at its k/n-th parts, in order. For that they are held back until
/// the next second begins; if more than `GROUP_MAX` share one, each full group takes the first half of what is left
/// of it, so that memory stays bounded and time still goes forward.
#[derive(Debug, Default)]
pub(super) struct Spreader {
    group: Vec<Request>,
    given: usize,
    ready: bool,
    /// First nanosecond the group may use.
    from: u64,
}

impl Spreader {
    /// Takes the next request in. `false`: it does not belong to the group held, which is now ready to be given out;
    /// offer it again afterwards.
    pub fn offer(&mut self, request: Request) -> bool {
        let second = request.at.as_nanos();
        if let Some(first) = self.group.first()
            && first.at.as_nanos() != second
        {
            self.close(first.at.as_nanos() + NANOS);
            return false;
        }
        if self.group.len() == GROUP_MAX {
            let end = second + NANOS;
            self.close(self.from.max(second) + (end - self.from.max(second)) / 2);
            return false;
        }
        self.group.push(request);
        true
    }

    /// The input has ended: held requests become ready.
    pub fn finish(&mut self) {
        if !self.ready
            && let Some(first) = self.group.first()
        {
            self.close(first.at.as_nanos() + NANOS);
        }
    }

    /// The next request of a group that is ready.
    pub fn take(&mut self) -> Option<Request> {
        if !self.ready {
            return None;
        }
        let next = self.group.get(self.given).copied();
        self.given += 1;
        if next.is_none() {
            self.group.clear();
            (self.given, self.ready) = (0, false);
        }
        next
    }

    fn close(&mut self, end: u64) {
        let Some(first) = self.group.first() else { return };
        let start = first.at.as_nanos().max(self.from);
        let (room, count) = (u128::from(end - start), self.group.len() as u128);
        for (rank, request) in self.group.iter_mut().enumerate() {
            request.at = Time::nanos(start + (room * rank as u128 / count) as u64);
        }
        self.from = end;
        self.ready = true;
    }
}

const NANOS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_types::{Bytes, Op, StreamId, TenantId};

    #[test]
    fn earlier_stamps_are_held_at_the_latest_one_and_counted() {
        let mut clock = Clock::default();
        let times = [500, 700, 600, 400, 800].map(|stamp| clock.at(stamp).as_nanos());
        assert_eq!((times, clock.reordered), ([0, 200, 200, 200, 300], 2));
    }

    fn spread(seconds: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut spreader = Spreader::default();
        let mut times = Vec::new();
        for second in seconds {
            let at = Time::seconds(second);
            let request = Request {
                at,
                offset: Bytes(0),
                length: Bytes(512),
                tenant: TenantId(0),
                stream: StreamId::UNKNOWN,
                op: Op::Write,
                outstanding: None,
            };
            while !spreader.offer(request) {
                times.extend(std::iter::from_fn(|| spreader.take()).map(|r| r.at.as_nanos()));
            }
        }
        spreader.finish();
        times.extend(std::iter::from_fn(|| spreader.take()).map(|r| r.at.as_nanos()));
        times
    }

    #[test]
    fn a_second_is_shared_evenly() {
        let times = spread([0, 0, 0, 0, 2, 2, 3]);
        let quarter = 250_000_000;
        assert_eq!(
            times,
            [0, quarter, 2 * quarter, 3 * quarter, 2 * NANOS, 5 * NANOS / 2, 3 * NANOS]
        );
    }

    #[test]
    fn an_overfull_second_still_goes_forward_and_ends_in_time() {
        let times = spread(std::iter::repeat_n(5, 3 * GROUP_MAX + 10).chain([6]));
        assert_eq!(times.len(), 3 * GROUP_MAX + 11);
        assert!(times.is_sorted());
        assert!(times[..3 * GROUP_MAX + 10].iter().all(|&at| at / NANOS == 5));
        assert_eq!(times[3 * GROUP_MAX + 10], 6 * NANOS);
    }
}
