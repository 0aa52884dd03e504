//! Refresh by age and by reads, simulated, beside the closed form.

use thermocline_nand::RefreshLimits;
use thermocline_record::RunRecord;
use thermocline_types::Bytes;
use thermocline_workload::synthetic::Limit;

use super::job::PatternJob;
use super::{Figure, Options, part};
use crate::theory::integrity::{Use, outlook};
use crate::{Error, Stack};

const STACK: &str = "raw:pm9d3";
/// Capacity of the drive; `--quick` uses a quarter.
const CAPACITY: Bytes = Bytes::mib(64);
/// Capacities written a day. Chosen high enough that only resting data grows old.
const DRIVE_WRITES: f64 = 2.0;
/// Days after which data is rewritten.
const DAYS: [f64; 3] = [2.5, 5.0, 10.0];
/// Shares of resting data.
const RESTING: [f64; 2] = [0.25, 0.5];
/// Length of a patrol as a share of [`DAYS`]: overdue data is found half a patrol late on average.
const PATROL: f64 = 0.05;
/// Length of a run, in intervals.
const INTERVALS: f64 = 20.0;
/// Overprovisioning: large enough that garbage collection never relocates resting data. The closed form has no such
/// relocation.
const OP: f64 = 1.0;
/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// A use of the drive.
#[derive(Clone, Copy)]
struct Case {
    capacity: Bytes,
    resting: f64,
    days: f64,
    seed: u64,
}

impl Case {
    fn overrides(self) -> Vec<String> {
        vec![
            format!("device.op={OP}"),
            "device.buffer.size=64KiB".to_owned(),
            format!("device.refresh.after_days={}", self.days),
            "device.refresh.after_reads=1e12".to_owned(),
            format!("device.refresh.patrol_days={}", PATROL * self.days),
        ]
    }

    fn run(self, progress: &mut dyn FnMut(f64)) -> Result<RunRecord, Error> {
        let span = Bytes((self.capacity.as_f64() * (1.0 - self.resting)) as u64 / 4096 * 4096);
        let daily = DRIVE_WRITES * self.capacity.as_f64() / 4096.0;
        let limit = Limit::Writes((daily * self.days * INTERVALS) as u64);
        PatternJob {
            overrides: &self.overrides(),
            span,
            at_rest: self.resting,
            rate: Some(daily / DAY),
            seed: self.seed,
            ..PatternJob::new(STACK, self.capacity, Bytes::kib(4), limit)
        }
        .run(progress)
    }

    /// What the closed form says refresh adds to the write amplification, with the mean delay of the patrol.
    fn closed_form(self) -> f64 {
        let late = self.days * (1.0 + 0.5 * PATROL);
        self.resting / late / DRIVE_WRITES
    }
}

/// What refresh adds to the write amplification.
fn simulated(record: &RunRecord) -> f64 {
    let refreshed = record.media_bytes_written.by_cause.get("refresh").copied().unwrap_or(0);
    refreshed as f64 / record.host_bytes_written as f64
}

/// Data at rest under refresh, and a small set that is read much.
pub fn refresh(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let capacity = Bytes(CAPACITY.0 / if options.quick { 4 } else { 1 });
    let mut figures = Vec::new();
    let steps = RESTING.len() * DAYS.len() + 1;
    for (index, resting) in RESTING.into_iter().enumerate() {
        for (step, days) in DAYS.into_iter().enumerate() {
            let case = Case { capacity, resting, days, seed: options.seed };
            let record = case.run(&mut part(progress, index * DAYS.len() + step, steps))?;
            let what = format!("{:.0} % at rest, {days} days: WAF of refresh", 100.0 * resting);
            figures.push(Figure::beside(what, Some(case.closed_form()), simulated(&record)));
        }
    }
    figures.extend(by_reads(capacity, options.seed, &mut part(progress, steps - 1, steps))?);
    figures.extend(of_the_product()?);
    Ok(figures)
}

/// A drive that is only read, all over, at a limit of so many reads.
fn by_reads(
    capacity: Bytes,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<Vec<Figure>, Error> {
    let overrides = vec![
        format!("device.op={OP}"),
        "device.refresh.after_days=36500".to_owned(),
        format!("device.refresh.after_reads={READS}"),
        "device.refresh.patrol_days=0.002".to_owned(),
    ];
    let stack = Stack::parse(STACK, &overrides)?;
    let block = stack.profile.geometry.as_ref().map_or(1.0, |geometry| geometry.block.as_f64());
    // 4.5 intervals: no interval ends together with the run.
    let reads = 4.5 * READS * capacity.as_f64() / block;
    let job = PatternJob {
        overrides: &overrides,
        read_share: 1.0,
        // A patrol of 173 s finds what is read too often within a fiftieth of the time that takes.
        rate: Some(READS * capacity.as_f64() / block / 8640.0),
        seed,
        ..PatternJob::new(STACK, capacity, Bytes::kib(4), Limit::Requests(reads as u64))
    };
    let record = job.run(progress)?;
    let refreshed = record.media_bytes_written.by_cause.get("refresh").copied().unwrap_or(0);
    let what = format!("reads alone, 4.5 times {READS} for each erase block: capacities rewritten");
    Ok(vec![Figure::beside(what, Some(4.0), refreshed as f64 / capacity.as_f64())])
}

/// Reads of an erase block at which it is rewritten in the run of reads alone. Chosen small to keep the run short.
const READS: f64 = 10_000.0;

/// What `[integrity]` makes of the profile at half of its rated cycles: days, reads, and the closed form in use.
fn of_the_product() -> Result<Vec<Figure>, Error> {
    let stack = Stack::parse("raw:p5316", &["device.refresh.celsius=55".to_owned()])?;
    let mut figures = Vec::new();
    if let Some(limits) = RefreshLimits::of(&stack.profile) {
        figures.extend(
            limits
                .days
                .map(|days| Figure::ours("p5316 at 55 °C, half worn: days until refresh", days)),
        );
        figures.extend(limits.reads.map(|reads| {
            Figure::ours("p5316, half worn: reads of an erase block until refresh", reads)
        }));
    }
    let usage = Use { drive_writes_per_day: 0.41, ..Use::default() };
    if let Some(outlook) = outlook(&stack.profile, &usage, 0.5) {
        let what = "p5316 at 55 °C, half worn, half at rest, 0.41 drive writes a day: WAF of refresh (closed form)";
        figures.push(Figure::ours(what, outlook.waf_of_refresh));
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_refresh_is_that_of_the_closed_form_where_only_what_rests_gets_old() {
        for (resting, days) in [(0.25, 5.0), (0.5, 2.5)] {
            let case = Case { capacity: Bytes::mib(16), resting, days, seed: 1 };
            let record = case.run(&mut |_| {}).unwrap();
            let off = simulated(&record) / case.closed_form() - 1.0;
            assert!(off.abs() < 0.06, "{resting} at rest, {days} days: {off:+.3}");
            assert!(record.media_bytes_patrolled.is_some_and(|bytes| bytes > 0));
            let sum: u64 = record.media_bytes_written.by_cause.values().sum();
            assert_eq!(sum, record.media_bytes_written.total);
        }
        let never = Case { capacity: Bytes::mib(16), resting: 0.25, days: 36_500.0, seed: 1 };
        let run = PatternJob {
            overrides: &never.overrides(),
            ..PatternJob::new(STACK, never.capacity, Bytes::kib(4), Limit::Writes(20_000))
        };
        assert!(
            simulated(&run.run(&mut |_| {}).unwrap()) < 1e-12,
            "nothing gets old without a clock"
        );
    }

    #[test]
    fn reads_are_rewritten_as_often_as_the_limit_says() {
        let figures = by_reads(Bytes::mib(16), 1, &mut |_| {}).unwrap();
        assert!((figures[0].ours / 4.0 - 1.0).abs() < 0.1, "{figures:?}");
    }
}
