//! Measurements during a run: time series, rounds for steady state, latencies.

use hdrhistogram::{Counter, Histogram};
use thermocline_record::{LatencyNs, SeriesPoint};
use thermocline_types::{Bytes, Op, Time};

use crate::byte_counts::ByteCounts;
use crate::steady::Rounds;

/// Points of a series are merged in pairs when there would be more than this many.
const POINTS: usize = 400;
/// Longest latency told apart, one hour; three significant digits.
pub const LONGEST_NS: u64 = 3_600_000_000_000;

/// Latency distributions of one kind of request, over the run and since the last point.
struct Latency {
    total: Histogram<u64>,
    recent: Histogram<u64>,
}

/// Collects the measurements of a run.
pub struct Meter {
    start: ByteCounts,
    last: ByteCounts,
    interval: u64,
    points: Vec<Point>,
    round: u64,
    rounds: Vec<ByteCounts>,
    latencies: Option<[Latency; 4]>,
}

struct Point {
    counts: ByteCounts,
    seconds: f64,
    write: Option<[Option<u64>; 3]>,
    read: Option<[Option<u64>; 3]>,
    free_units: u64,
}

impl Meter {
    /// Starts measuring at `start` on a drive of `capacity`, with rounds of that length; latencies are
    /// collected if `timed`.
    #[must_use]
    pub fn new(start: ByteCounts, capacity: Bytes, rounds: Rounds, timed: bool) -> Self {
        let latency = || Latency { total: latency_histogram(), recent: latency_histogram() };
        Meter {
            start,
            last: start,
            interval: (capacity.0 / 64).max(1),
            points: Vec::new(),
            round: rounds.length.0,
            rounds: Vec::new(),
            latencies: timed.then(|| std::array::from_fn(|_| latency())),
        }
    }

    /// A request of kind `op` took `latency`.
    #[inline]
    pub fn record(&mut self, op: Op, latency: Time) {
        if let Some(latencies) = &mut self.latencies {
            let kind = &mut latencies[kind(op)];
            kind.total.saturating_record(latency.as_nanos());
            kind.recent.saturating_record(latency.as_nanos());
        }
    }

    /// Whether enough was written since the last point or round that [`Meter::observe`] has something to note.
    #[inline]
    #[must_use]
    pub fn is_due(&self, host_written: u64) -> bool {
        let since_start = host_written - self.start.host_written;
        host_written - self.last.host_written >= self.interval
            || since_start >= (self.rounds.len() as u64 + 1) * self.round
    }

    /// Notes where the run is: `counts`, `seconds` into the run.
    pub fn observe(&mut self, counts: ByteCounts, seconds: f64, free_units: u64) {
        let written = counts.since(&self.start).host_written;
        while written >= (self.rounds.len() as u64 + 1) * self.round {
            self.rounds.push(counts);
        }
        if counts.host_written - self.last.host_written >= self.interval {
            self.point(counts, seconds, free_units);
        }
    }

    /// Notes the end of the run, with which a round may have ended.
    pub fn finish(&mut self, counts: ByteCounts, seconds: f64, free_units: u64) {
        self.observe(counts, seconds, free_units);
        if counts.host_written > self.last.host_written || self.points.is_empty() {
            self.point(counts, seconds, free_units);
        }
    }

    fn point(&mut self, counts: ByteCounts, seconds: f64, free_units: u64) {
        let (mut write, mut read) = (None, None);
        if let Some(latencies) = &mut self.latencies {
            write = drain(&mut latencies[kind(Op::Write)].recent);
            read = drain(&mut latencies[kind(Op::Read)].recent);
        }
        self.points.push(Point { counts, seconds, write, read, free_units });
        self.last = counts;
        if self.points.len() > POINTS {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            self.interval *= 2;
        }
    }

    /// Counts at the start of the run and at the end of each round.
    #[must_use]
    pub fn rounds(&self) -> (&ByteCounts, &[ByteCounts]) {
        (&self.start, &self.rounds)
    }

    /// Counts at the latest point at which at most the last `part`-th of what was written up to `end` was to come.
    #[must_use]
    pub fn before_last(&self, part: u64, end: &ByteCounts) -> ByteCounts {
        let written = end.since(&self.start).host_written;
        let until = self.start.host_written + written - written / part;
        let before = self.points.iter().take_while(|point| point.counts.host_written <= until);
        before.last().map_or(self.start, |point| point.counts)
    }

    /// The time series. Percentiles of a merged point cover only the later half of the point's interval.
    #[must_use]
    pub fn series(&self) -> Vec<SeriesPoint> {
        let mut previous = self.start;
        self.points
            .iter()
            .map(|point| {
                let step = point.counts.since(&previous);
                previous = point.counts;
                SeriesPoint {
                    host_bytes: point.counts.since(&self.start).host_written,
                    seconds: point.seconds,
                    host_bytes_written: step.host_written,
                    media_bytes_written: step.drive.media_total,
                    waf: ratio(step.drive.media_total, step.host_written),
                    write_latency_ns: point.write,
                    read_latency_ns: point.read,
                    free_units: point.free_units,
                }
            })
            .collect()
    }

    /// Latency distributions of the kinds of request that occurred; `None` if time is not modelled.
    #[must_use]
    pub fn latencies(&self) -> Option<Vec<(&'static str, LatencyNs)>> {
        let latencies = self.latencies.as_ref()?;
        let named = KINDS.into_iter().zip(latencies).filter(|(_, l)| !l.total.is_empty());
        Some(named.map(|(name, latency)| (name, summary(&latency.total))).collect())
    }
}

/// An empty distribution of latencies in nanoseconds.
#[must_use]
pub fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("bounds and digits are valid")
}

/// `part / whole`; `None` if `whole` is 0.
#[must_use]
pub fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Kinds of requests, as records name them.
pub const KINDS: [&str; 4] = ["read", "write", "flush", "trim"];

/// The index of the kind of `op` in [`KINDS`].
#[must_use]
pub fn kind(op: Op) -> usize {
    match op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Flush => 2,
        Op::Trim | Op::WriteZeroes => 3,
    }
}

/// What of a latency was modelled: requests that complete in memory take no simulated time.
fn modelled(ns: u64) -> Option<u64> {
    (ns > 0).then_some(ns)
}

fn drain(histogram: &mut Histogram<u64>) -> Option<[Option<u64>; 3]> {
    let at = |quantile| modelled(histogram.value_at_quantile(quantile));
    let percentiles = [0.5, 0.99, 0.999].map(at);
    histogram.reset();
    percentiles.iter().any(Option::is_some).then_some(percentiles)
}

/// A distribution as records have it.
#[must_use]
pub fn summary<C: Counter>(histogram: &Histogram<C>) -> LatencyNs {
    let at = |quantile| modelled(histogram.value_at_quantile(quantile));
    let (count, in_memory) = (histogram.len(), histogram.count_at(0).as_u64());
    let timed = count - in_memory;
    LatencyNs {
        count,
        in_memory,
        mean: (timed > 0).then(|| histogram.mean() * count as f64 / timed as f64),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p99_9: at(0.999),
        p99_99: at(0.9999),
        max: modelled(histogram.max()),
        bins: bins(histogram),
    }
}

/// Requests by latency, in bins whose ends are powers of two in microseconds: few enough for a record.
fn bins<C: Counter>(histogram: &Histogram<C>) -> Vec<[u64; 2]> {
    const FIRST_NS: u64 = 1000;
    let mut bins: Vec<[u64; 2]> = Vec::new();
    for step in histogram.iter_recorded().filter(|step| step.value_iterated_to() > 0) {
        let end = (step.value_iterated_to().div_ceil(FIRST_NS)).next_power_of_two() * FIRST_NS;
        while bins.last().is_some_and(|[last, _]| *last < end) {
            let next = bins[bins.len() - 1][0] * 2;
            bins.push([next, 0]);
        }
        if bins.is_empty() {
            bins.push([end, 0]);
        }
        let last = bins.len() - 1;
        bins[last][1] += step.count_since_last_iteration();
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter() -> Meter {
        let capacity = Bytes::gib(1);
        Meter::new(ByteCounts::default(), capacity, Rounds::new(capacity, None), true)
    }

    #[test]
    fn what_completes_in_memory_has_no_latency() {
        let mut meter = meter();
        (0..90).for_each(|_| meter.record(Op::Write, Time::ZERO));
        (0..10).for_each(|_| meter.record(Op::Write, Time::micros(50)));
        meter.record(Op::Flush, Time::ZERO);
        meter.finish(ByteCounts::default(), 1.0, 0);
        let latencies = meter.latencies().expect("time is modelled");
        let of =
            |kind| latencies.iter().find(|(name, _)| *name == kind).expect("it occurred").1.clone();
        let write = of("write");
        assert_eq!((write.count, write.in_memory, write.p50), (100, 90, None));
        assert!(write.p99.is_some_and(|ns| ns.abs_diff(50_000) < 100), "{write:?}");
        assert!(write.mean.is_some_and(|ns| (ns / 5e4 - 1.0).abs() < 0.01), "{write:?}");
        let flush = of("flush");
        assert_eq!((flush.in_memory, flush.mean, flush.p50, flush.max), (1, None, None, None));
        let point = &meter.series()[0];
        assert!(point.write_latency_ns.is_some_and(|[p50, p99, _]| p50.is_none() && p99.is_some()));
    }
}
