//! Reads at the beginning and at the end of life: what wrong bits cost in time.

use thermocline_nand::integrity::{Condition, Integrity};
use thermocline_record::RunRecord;
use thermocline_record::plot::{Plot, PlotAxis, PlotLine};
use thermocline_types::Bytes;
use thermocline_workload::synthetic::Limit;

use super::super::{Figure, FiguresDrawn, Options, part};
use super::{PatternJob, mb_per_s};
use crate::theory::integrity::extra_us;
use crate::{Error, Stack};

/// One drive of each kind of cells: SLC, MLC, TLC, QLC.
const DRIVES: [&str; 4] = ["pci-c", "micron9100", "pm9d3", "p5316"];
/// Shares of the rated cycles used up: begin, middle and end of the rated life.
const WEAR: [f64; 3] = [0.0, 0.5, 1.0];
/// In flight.
const DEPTHS: [u32; 2] = [1, 64];
/// Capacity of the drives here, and number of reads; `--quick` reads an eighth.
const CAPACITY: Bytes = Bytes::mib(256);
const READS: u64 = 200_000;
/// Age of the data and temperature, those that JESD218 states for drives without power.
const DAYS: f64 = 90.0;
const CELSIUS: f64 = 40.0;

/// Random reads of 4 KiB.
#[derive(Clone, Copy)]
struct Case {
    drive: &'static str,
    wear: Option<f64>,
    factor: f64,
    depth: u32,
    reads: u64,
    seed: u64,
}

impl Case {
    fn run(self, progress: &mut dyn FnMut(f64)) -> Result<RunRecord, Error> {
        let overrides: Vec<String> = match self.wear {
            None => Vec::new(),
            Some(wear) => vec![
                format!("device.aged.wear={wear}"),
                format!("device.aged.days={DAYS}"),
                format!("device.aged.celsius={CELSIUS}"),
                format!("device.aged.factor={}", self.factor),
            ],
        };
        let stack = format!("raw:{}", self.drive);
        PatternJob {
            overrides: &overrides,
            read_share: 1.0,
            queue_depth: self.depth,
            seed: self.seed,
            ..PatternJob::new(&stack, CAPACITY, Bytes::kib(4), Limit::Requests(self.reads))
        }
        .run(progress)
    }
}

/// Mean time and 99th percentile of a read, microseconds.
fn read_us(record: &RunRecord) -> [f64; 2] {
    let latency = record.latency_ns.as_ref().and_then(|all| all.get("read"));
    let of = |ns: Option<f64>| ns.map_or(f64::NAN, |ns| ns / 1e3);
    let p99 = latency.and_then(|latency| latency.p99).map(|ns| ns as f64);
    [of(latency.and_then(|latency| latency.mean)), of(p99)]
}

/// Microseconds that a read takes longer in the mean by the closed form, when a share `wear` of the cycles is used up.
fn closed_form(integrity: &Integrity, wear: f64) -> f64 {
    let condition = Condition { wear, age_days: DAYS, celsius: CELSIUS, reads: 0.0 };
    extra_us(integrity, &integrity.outcome(&condition, 1.0))
}

/// Random reads at three points of the life of drives of four kinds of cells.
pub fn life(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<FiguresDrawn, Error> {
    let reads = READS / if options.quick { 8 } else { 1 };
    let (mut figures, mut lines) = (Vec::new(), Vec::new());
    for (index, drive) in DRIVES.into_iter().enumerate() {
        let mut progress = part(progress, index, DRIVES.len());
        let case = Case { drive, wear: None, factor: 1.0, depth: 1, reads, seed: options.seed };
        lines.push(of_drive(case, &mut figures, &mut progress)?);
    }
    let plot = Plot {
        title: "Random reads of 4 KiB over the life of the flash, 64 in flight".into(),
        caption: format!("Data of {DAYS} days at {CELSIUS} °C; bit error rates are assumed."),
        x: PlotAxis::linear("rated cycles used up, %"),
        y: PlotAxis::linear("MB/s over that of flash without wrong bits"),
        lines,
    };
    Ok((figures, vec![plot]))
}

/// One drive at each point of its life, alone and with much in flight, and at the ends of what is known.
fn of_drive(
    case: Case,
    figures: &mut Vec<Figure>,
    progress: &mut dyn FnMut(f64),
) -> Result<PlotLine, Error> {
    let steps = DEPTHS.len() * (WEAR.len() + 1) + 1;
    let mut step = 0;
    let mut run = |case: Case| {
        let record = case.run(&mut part(progress, step, steps));
        step += 1;
        record
    };
    let profile = Stack::parse(&format!("raw:{}", case.drive), &[])?.profile;
    let mut points = Vec::new();
    for depth in DEPTHS {
        let plain = run(Case { depth, ..case })?;
        for wear in WEAR {
            let record = run(Case { depth, wear: Some(wear), ..case })?;
            let what = |of: &str| {
                let used = 100.0 * wear;
                format!(
                    "{}, {used:.0} % of its cycles used up, {depth} in flight: {of}",
                    case.drive
                )
            };
            let [mean, p99] = read_us(&record);
            // With one read in flight no read queues, so the added time equals the closed form.
            let theirs = profile
                .integrity
                .as_ref()
                .map(|integrity| read_us(&plain)[0] + closed_form(integrity, wear));
            if depth == DEPTHS[0] {
                figures.push(Figure::beside(what("mean time of a read, us"), theirs, mean));
                figures.push(Figure::ours(what("share of page reads retried"), retried(&record)));
            } else {
                points.push([100.0 * wear, mb_per_s(&record) / mb_per_s(&plain)]);
            }
            figures.push(Figure::ours(what("99 % of the reads within, us"), p99));
            figures.push(Figure::ours(what("MB/s"), mb_per_s(&record)));
        }
    }
    let factor = profile.integrity.as_ref().map_or(1.0, |integrity| integrity.errors.uncertainty);
    let high = run(Case { depth: DEPTHS[1], wear: Some(1.0), factor, ..case })?;
    let what = format!(
        "{}, all cycles used up, bit error rates {factor} times as high, 64 in flight",
        case.drive
    );
    figures.push(Figure::ours(format!("{what}: MB/s"), mb_per_s(&high)));
    figures.push(Figure::ours(format!("{what}: share of page reads retried"), retried(&high)));
    Ok(PlotLine::ours(case.drive, points))
}

/// Share of the reads of pages that took more than one attempt.
fn retried(record: &RunRecord) -> f64 {
    record.read_attempts.map_or(0.0, |reads| reads.retried as f64 / reads.reads.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_get_slower_with_wear_as_the_closed_form_says() {
        let case =
            Case { drive: "p5316", wear: None, factor: 1.0, depth: 1, reads: 20_000, seed: 1 };
        let profile = Stack::parse("raw:p5316", &[]).unwrap().profile;
        let integrity = profile.integrity.as_ref().unwrap();
        let plain = case.run(&mut |_| {}).unwrap();
        assert!(plain.read_attempts.is_none());
        let worn = Case { wear: Some(1.0), ..case }.run(&mut |_| {}).unwrap();
        let added = read_us(&worn)[0] - read_us(&plain)[0];
        let theirs = closed_form(integrity, 1.0);
        assert!(theirs > 10.0 && (added / theirs - 1.0).abs() < 0.15, "{added} us and {theirs}");
        let many = Case { depth: 64, ..case };
        let plain = mb_per_s(&many.run(&mut |_| {}).unwrap());
        let worn = mb_per_s(&Case { wear: Some(1.0), ..many }.run(&mut |_| {}).unwrap());
        assert!(worn < 0.95 * plain, "{worn} and {plain} MB/s");
    }
}
