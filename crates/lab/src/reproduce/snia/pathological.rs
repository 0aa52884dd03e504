//! Pathological writes: how much of the drive is in use, how its data is related in time, how much reserve there is,
//! and whether the host ever rests.

use thermocline_record::plot::{Plot, PlotAxis, PlotLine};
use thermocline_record::{RunRecord, SeriesPoint};
use thermocline_types::{Bytes, Time};
use thermocline_workload::synthetic::{Bursts, Limit};

use super::super::{Figure, FiguresDrawn, Options, part};
use super::PatternJob;
use crate::{Error, Prefill};

/// In use, of 80 GiB, as the tutorial has it.
const USED: [u64; 4] = [30, 40, 60, 74];
const DRIVE: u64 = 80;
/// Media beyond what the drive exports, of which cleaning takes a few units at any time. Chosen as small as a drive
/// works with: the tutorial's reserve is the unused capacity.
const LITTLE: f64 = 0.03;
/// Reserve in the sweep at 74 GiB in use: pegs added.
const PEGS: [f64; 5] = [LITTLE, 0.07, 0.15, 0.28, 0.5];
/// By how much sizes are divided; `--quick` four times more. Bandwidth does not depend on it: time is as much shorter.
const DIVISOR: u64 = 32;
/// Host writes, as multiples of the capacity in use.
const FILLS: f64 = 4.0;
/// A burst, after which the host rests: a sixteenth of the drive. Chosen: the tutorial gives none.
const BURST: u64 = 5;
/// Seconds of rest in the sweep, and where nothing else is said. Chosen.
const RESTS: [u64; 5] = [0, 5, 10, 20, 80];
const REST: u64 = 20;
/// Copy rate of the drive while the host rests, MB/s. Chosen: the rate of the drive's dies. With 200, some copies are
/// left over at the next burst.
const COPIES: u64 = 150;

/// Share of the drive's units kept ready for a burst. Chosen: a little more than a burst fills.
const READY: f64 = 0.1;

/// Write patterns: name and generator.
const PATTERNS: [(&str, &str); 2] = [("random", "uniform"), ("in order", "seq")];

/// Bandwidth over time by capacity in use, by write pattern, by rest, and by reserve.
pub fn pathological(
    options: &Options,
    progress: &mut dyn FnMut(f64),
) -> Result<FiguresDrawn, Error> {
    let divisor = DIVISOR * if options.quick { 4 } else { 1 };
    let base = Case {
        used: 74,
        reserve: LITTLE,
        pattern: "uniform",
        rest: 0,
        divisor,
        seed: options.seed,
    };
    let over_time = PATTERNS.len() * 2 * USED.len();
    let steps = over_time + RESTS.len() * USED.len() + 2 * PEGS.len();
    let mut step = 0;
    let mut run = |case: Case| {
        step += 1;
        case.run(&mut part(progress, step - 1, steps))
    };
    let (mut figures, mut plots) = (Vec::new(), Vec::new());
    for (name, pattern) in PATTERNS {
        for rest in [0, REST] {
            plots.push(by_time(name, Case { pattern, rest, ..base }, &mut figures, &mut run)?);
        }
    }
    plots.push(by_rest(base, &mut figures, &mut run)?);
    plots.push(by_reserve(base, &mut figures, &mut run)?);
    Ok((figures, plots))
}

/// Runs a case.
type Run<'a> = dyn FnMut(Case) -> Result<RunRecord, Error> + 'a;

/// Bandwidth over time, a line for each share in use.
fn by_time(
    name: &str,
    case: Case,
    figures: &mut Vec<Figure>,
    run: &mut Run<'_>,
) -> Result<Plot, Error> {
    let rests = if case.rest > 0 { rests_of(case.rest) } else { "no idle time".to_owned() };
    let mut lines = Vec::new();
    for used in USED {
        let case = Case { used, ..case };
        let record = run(case)?;
        lines.push(PlotLine::ours(&format!("{used} GiB in use"), case.over_time(&record)));
        for (what, ours) in [
            ("MB/s at first", case.first(&record)),
            ("MB/s in the end", case.steady(&record)),
            ("WAF in the end", waf_in_the_end(&record)),
        ] {
            let what = format!("{name}, {rests}, {used} of {DRIVE} GiB in use: {what}");
            figures.push(Figure::beside(what, None, ours));
        }
    }
    Ok(Plot {
        title: format!("Writes of 4 KiB, {name}, {rests}: bandwidth over time"),
        caption: "A drive that was erased before; seconds of the product, of which a fraction was simulated, rests left \
                  out."
            .into(),
        x: PlotAxis::linear("seconds at work"),
        y: PlotAxis::linear("MB/s written by the host"),
        lines,
    })
}

/// How long the host has to rest for its bursts to find erased units.
fn by_rest(case: Case, figures: &mut Vec<Figure>, run: &mut Run<'_>) -> Result<Plot, Error> {
    let mut lines = Vec::new();
    for used in USED {
        let mut points = Vec::new();
        for rest in RESTS {
            let case = Case { used, rest, ..case };
            let record = run(case)?;
            points.push([rest as f64, case.steady(&record)]);
            let what = format!(
                "random, {rest} s idle after {BURST} GiB, {used} of {DRIVE} GiB in use: MB/s in the end"
            );
            figures.push(Figure::beside(what, None, case.steady(&record)));
        }
        lines.push(PlotLine::ours(&format!("{used} GiB in use"), points));
    }
    Ok(Plot {
        title: "Idle time against bandwidth".into(),
        caption: format!(
            "Random writes of 4 KiB in bursts of {BURST} GiB, in the end; while the host rests, the drive copies {COPIES} \
             MB/s ahead of need, until {:.0} % of its units are free.",
            READY * 100.0
        ),
        x: PlotAxis::linear("seconds of rest after each burst"),
        y: PlotAxis::linear("MB/s written by the host, rests left out"),
        lines,
    })
}

/// The sweep of the reserve, without rest and with it.
fn by_reserve(case: Case, figures: &mut Vec<Figure>, run: &mut Run<'_>) -> Result<Plot, Error> {
    let mut lines = Vec::new();
    for rest in [0, REST] {
        let mut points = Vec::new();
        let rests = if rest > 0 { rests_of(rest) } else { "no idle time".to_owned() };
        for reserve in PEGS {
            let case = Case { reserve, rest, ..case };
            let record = run(case)?;
            points.push([reserve * 100.0, case.steady(&record)]);
            let percent = reserve * 100.0;
            let what =
                format!("random, {rests}, 74 GiB in use, reserve of {percent:.0} % added: MB/s");
            figures.push(Figure::beside(what, None, case.steady(&record)));
        }
        lines.push(PlotLine::ours(&rests, points));
    }
    Ok(Plot {
        title: "More pegs: reserve against bandwidth".into(),
        caption: "74 of 80 GiB in use, random writes of 4 KiB, in the end, rests left out.".into(),
        x: PlotAxis::linear("media beyond 80 GiB, %"),
        y: PlotAxis::linear("MB/s written by the host"),
        lines,
    })
}

fn rests_of(seconds: u64) -> String {
    format!("{seconds} s idle after each {BURST} GiB")
}

/// What is written to which drive, and how much smaller than the product everything is.
#[derive(Clone, Copy)]
struct Case {
    /// GiB in use.
    used: u64,
    reserve: f64,
    pattern: &'static str,
    /// Idle seconds after each burst, on the product's scale; 0 without bursts.
    rest: u64,
    divisor: u64,
    seed: u64,
}

impl Case {
    fn run(self, progress: &mut dyn FnMut(f64)) -> Result<RunRecord, Error> {
        let mut overrides = vec![
            format!("device.op={}", self.reserve),
            // The profile's own would be the limit of a drive that is not full.
            "device.timing.controller_kiops=1000".to_owned(),
        ];
        if self.rest > 0 {
            overrides.push("device.gc.idle_ms=0".to_owned());
            overrides.push(format!("device.gc.idle_mb_per_s={COPIES}"));
            overrides.push(format!("device.gc.idle_free={READY}"));
        }
        let span = Bytes(Bytes::gib(self.used).0 / self.divisor / 4096 * 4096);
        let writes = (FILLS * span.as_f64() / 4096.0) as u64;
        let capacity = Bytes(Bytes::gib(DRIVE).0 / self.divisor);
        let job = PatternJob {
            overrides: &overrides,
            span,
            pattern: self.pattern,
            bursts: (self.rest > 0).then(|| self.bursts()),
            prefill: Prefill::None,
            seed: self.seed,
            ..PatternJob::new("raw:pci-c", capacity, Bytes::kib(4), Limit::Writes(writes))
        };
        job.run(progress)
    }

    /// Bursts and rests as they are simulated.
    fn bursts(self) -> Bursts {
        let idle = Time(Time::seconds(self.rest).0 / self.divisor);
        Bursts { bytes: Bytes(Bytes::gib(BURST).0 / self.divisor), idle }
    }

    /// Seconds until `point`, rests left out. The first request of a burst comes after the rest.
    fn at_work(self, point: &SeriesPoint) -> f64 {
        let Bursts { bytes, idle } = self.bursts();
        let rests = point.host_bytes.saturating_sub(1) / bytes.0;
        point.seconds - rests as f64 * idle.as_secs_f64()
    }

    /// MB/s between one point of the series and the next, over the product's time at work.
    fn over_time(self, record: &RunRecord) -> Vec<[f64; 2]> {
        let mut previous = 0.0;
        let mut points = Vec::new();
        for point in &record.series {
            let at = self.at_work(point);
            if at > previous {
                let rate = point.host_bytes_written as f64 / (at - previous) / 1e6;
                points.push([at * self.divisor as f64, rate]);
            }
            previous = at;
        }
        points
    }

    /// The first tenth of the run, while erased units are left.
    fn first(self, record: &RunRecord) -> f64 {
        let points = self.over_time(record);
        let tenth = points.len().div_ceil(10);
        points[..tenth].iter().map(|point| point[1]).sum::<f64>() / tenth.max(1) as f64
    }

    /// The last quarter of the run.
    fn steady(self, record: &RunRecord) -> f64 {
        let all = &record.series;
        let (Some(from), Some(to)) = (all.get(all.len() * 3 / 4), all.last()) else { return 0.0 };
        let seconds = self.at_work(to) - self.at_work(from);
        (to.host_bytes - from.host_bytes) as f64 / seconds / 1e6
    }
}

/// Media bytes over host bytes in the same part of the run.
fn waf_in_the_end(record: &RunRecord) -> f64 {
    let last = record.series.iter().skip(record.series.len() * 3 / 4 + 1);
    let (host, media) = last.fold((0, 0), |(host, media), point| {
        (host + point.host_bytes_written, media + point.media_bytes_written)
    });
    media as f64 / host as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: Case =
        Case { used: 74, reserve: LITTLE, pattern: "uniform", rest: 0, divisor: 256, seed: 1 };

    fn steady(case: Case) -> f64 {
        case.steady(&case.run(&mut |_| {}).unwrap())
    }

    #[test]
    fn the_fuller_the_slower_unless_writes_are_in_order_and_reserve_helps() {
        let random = USED.map(|used| steady(Case { used, ..CASE }));
        assert!(random.windows(2).all(|pair| pair[1] < 1.01 * pair[0]), "{random:?}");
        assert!(random[3] < 0.6 * random[0], "{random:?}");
        let ordered = steady(Case { pattern: "seq", ..CASE });
        assert!(ordered > 1.5 * random[3], "{ordered} in order, {random:?}");
        let pegs = steady(Case { reserve: 0.28, ..CASE });
        assert!(pegs > 1.3 * random[3], "{pegs} with reserve, {random:?}");
    }

    #[test]
    fn who_rests_long_enough_writes_as_fast_as_to_an_erased_drive_and_more() {
        let case = Case { used: 60, ..CASE };
        let busy = case.run(&mut |_| {}).unwrap();
        let rested = Case { rest: 80, ..case };
        let record = rested.run(&mut |_| {}).unwrap();
        let (first, slow, fast) = (case.first(&busy), case.steady(&busy), rested.steady(&record));
        assert!(slow < 0.7 * first && fast > 0.9 * first, "{slow}, {fast} of {first} MB/s");
        let (less, more) = (waf_in_the_end(&busy), waf_in_the_end(&record));
        assert!(more > 1.1 * less, "WAF {less} and {more}");
    }
}
