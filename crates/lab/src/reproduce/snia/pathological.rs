//! Pathological writes: how much of the drive is in use, how its data is related in time, how much reserve there is.

use thermocline_record::RunRecord;
use thermocline_record::plot::{Plot, PlotAxis, PlotLine};
use thermocline_types::Bytes;
use thermocline_workload::synthetic::Limit;

use super::super::{Figure, FiguresDrawn, Options, part};
use super::{PatternJob, mb_per_s};
use crate::{Error, Prefill};

/// In use, of 80 GiB, as the tutorial has it.
const USED: [u64; 4] = [30, 40, 60, 74];
const DRIVE: u64 = 80;
/// Media beyond what the drive exports, of which cleaning takes a few units at any time. Chosen as small as a drive
/// works with: the tutorial's reserve is what is not in use.
const LITTLE: f64 = 0.03;
/// Reserve in the sweep at 74 GiB in use: pegs added.
const PEGS: [f64; 5] = [LITTLE, 0.07, 0.15, 0.28, 0.5];
/// By how much sizes are divided; `--quick` four times more. Bandwidth does not depend on it: time is as much shorter.
const DIVISOR: u64 = 32;
/// Writes of the host, as multiples of what is in use.
const FILLS: f64 = 4.0;

/// Bandwidth over time by what is in use, by how writes follow each other, and by reserve.
pub fn pathological(
    options: &Options,
    progress: &mut dyn FnMut(f64),
) -> Result<FiguresDrawn, Error> {
    let scale = Scale { divisor: DIVISOR * if options.quick { 4 } else { 1 }, seed: options.seed };
    let steps = 2 * USED.len() + PEGS.len();
    let (mut figures, mut plots) = (Vec::new(), Vec::new());
    let mut step = 0;
    for (name, pattern) in [("random", "uniform"), ("in order", "seq")] {
        let mut lines = Vec::new();
        for used in USED {
            let record = scale.run(used, LITTLE, pattern, &mut part(progress, step, steps))?;
            step += 1;
            lines.push(PlotLine::ours(&format!("{used} GiB in use"), over_time(&record, scale)));
            for (what, ours) in [
                ("MB/s at first", first(&record)),
                ("MB/s in the end", steady(&record)),
                ("WAF in the end", waf_in_the_end(&record)),
            ] {
                let what = format!("{name}, {used} of {DRIVE} GiB in use: {what}");
                figures.push(Figure::beside(what, None, ours));
            }
        }
        plots.push(Plot {
            title: format!("Writes of 4 KiB, {name}: bandwidth over time"),
            caption: "A drive that was erased before; seconds of the product, of which a fraction was simulated.".into(),
            x: PlotAxis::linear("seconds"),
            y: PlotAxis::linear("MB/s written by the host"),
            lines,
        });
    }
    let mut pegs = Vec::new();
    for reserve in PEGS {
        let record = scale.run(74, reserve, "uniform", &mut part(progress, step, steps))?;
        step += 1;
        pegs.push([reserve * 100.0, steady(&record)]);
        let what =
            format!("random, 74 GiB in use, reserve of {:.0} % added: MB/s", reserve * 100.0);
        figures.push(Figure::beside(what, None, steady(&record)));
    }
    plots.push(Plot {
        title: "More pegs: reserve against bandwidth".into(),
        caption: "74 of 80 GiB in use, random writes of 4 KiB, in the end.".into(),
        x: PlotAxis::linear("media beyond 80 GiB, %"),
        y: PlotAxis::linear("MB/s written by the host"),
        lines: vec![PlotLine::ours("steady", pegs)],
    });
    Ok((figures, plots))
}

/// How much smaller than the product everything is.
#[derive(Clone, Copy)]
struct Scale {
    divisor: u64,
    seed: u64,
}

impl Scale {
    fn run(
        self,
        used: u64,
        reserve: f64,
        pattern: &str,
        progress: &mut dyn FnMut(f64),
    ) -> Result<RunRecord, Error> {
        let overrides = [
            format!("device.op={reserve}"),
            // The profile's own would be the limit of a drive that is not full.
            "device.timing.controller_kiops=1000".to_owned(),
        ];
        let capacity = Bytes(Bytes::gib(DRIVE).0 / self.divisor);
        let span = Bytes(Bytes::gib(used).0 / self.divisor / 4096 * 4096);
        let writes = (FILLS * span.as_f64() / 4096.0) as u64;
        let job = PatternJob {
            overrides: &overrides,
            span,
            pattern,
            prefill: Prefill::None,
            seed: self.seed,
            ..PatternJob::new("raw:pci-c", capacity, Bytes::kib(4), Limit::Writes(writes))
        };
        job.run(progress)
    }
}

/// MB/s between one point of the series and the next, over the product's time.
fn over_time(record: &RunRecord, scale: Scale) -> Vec<[f64; 2]> {
    let mut previous = 0.0;
    let mut points = Vec::new();
    for point in &record.series {
        let seconds = point.seconds - previous;
        if seconds > 0.0 {
            let rate = point.host_bytes_written as f64 / seconds / 1e6;
            points.push([point.seconds * scale.divisor as f64, rate]);
        }
        previous = point.seconds;
    }
    points
}

/// The first tenth of the run, while erased units are left.
fn first(record: &RunRecord) -> f64 {
    let points = over_time(record, Scale { divisor: 1, seed: 0 });
    let tenth = points.len().div_ceil(10);
    points[..tenth].iter().map(|point| point[1]).sum::<f64>() / tenth.max(1) as f64
}

/// The last quarter of the run.
fn steady(record: &RunRecord) -> f64 {
    let all = &record.series;
    let (Some(from), Some(to)) = (all.get(all.len() * 3 / 4), all.last()) else {
        return mb_per_s(record);
    };
    (to.host_bytes - from.host_bytes) as f64 / (to.seconds - from.seconds) / 1e6
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

    #[test]
    fn the_fuller_the_slower_unless_writes_are_in_order_and_reserve_helps() {
        let scale = Scale { divisor: 256, seed: 1 };
        let run = |used, reserve, pattern| scale.run(used, reserve, pattern, &mut |_| {}).unwrap();
        let random = USED.map(|used| steady(&run(used, LITTLE, "uniform")));
        assert!(random.windows(2).all(|pair| pair[1] < 1.01 * pair[0]), "{random:?}");
        assert!(random[3] < 0.6 * random[0], "{random:?}");
        let ordered = steady(&run(74, LITTLE, "seq"));
        assert!(ordered > 1.5 * random[3], "{ordered} in order, {random:?}");
        let pegs = steady(&run(74, 0.28, "uniform"));
        assert!(pegs > 1.3 * random[3], "{pegs} with reserve, {random:?}");
    }
}
