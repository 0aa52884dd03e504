//! Figures over the length of a run, and of latency.

use thermocline_record::{LatencyNs, RunRecord, SeriesPoint};

use crate::data::Run;
use crate::svg::{Axis, Histogram, Line, Lines, Window, histogram, legend};
use crate::text::{escape, latency, percent, significant};

const GIB: f64 = (1u64 << 30) as f64;
/// The caption of latency over time.
const OVER_TIME: &str =
    "Between one point and the next. The scale is logarithmic, and the same in all panels.";

/// A figure: heading and caption (HTML) around a drawing. The caption ends with the way to the command.
pub(crate) fn figure(title: &str, drawing: &str, caption: &str) -> String {
    format!(
        "<figure><h3>{title}</h3>{drawing}<figcaption>{caption} <a href=\"#provenance\">Source and command</a>\
         </figcaption></figure>"
    )
}

/// A figure that has nothing to show, and why.
pub(crate) fn absent(title: &str, reason: &str) -> String {
    format!("<figure><h3>{title}</h3><p class=\"absent\">{reason}</p></figure>")
}

/// A figure over the whole width.
pub(crate) fn wide(figure: &str) -> String {
    figure.replacen("<figure>", "<figure class=\"wide\">", 1)
}

/// The section of shared charts over the length of the run.
pub(crate) fn over_the_run(runs: &[Run<'_>]) -> String {
    let figures = if runs.iter().all(|run| run.record.series.is_empty()) {
        wide(&absent("Write amplification over the run", "These runs hold no time series."))
    } else {
        [waf(runs), rates(runs), device_rates(runs)].concat()
    };
    format!(
        "<section id=\"over-the-run\"><h2>Over the run</h2><div class=\"figures\">{figures}</div></section>"
    )
}

/// The section on latency.
pub(crate) fn latencies(runs: &[Run<'_>]) -> String {
    let kinds = [("write", "Write"), ("read", "Read")].map(|(kind, name)| {
        let over = |point: &SeriesPoint| match kind {
            "write" => point.write_latency_ns,
            _ => point.read_latency_ns,
        };
        distribution(runs, kind, name) + &over_time(runs, name, over)
    });
    let figures = match kinds.concat() {
        none if none.is_empty() => {
            let reason = "Latency is not modelled in these runs: they count bytes without time.";
            wide(&absent("Latency", reason))
        }
        figures => figures,
    };
    format!(
        "<section id=\"latency\"><h2>Latency</h2><div class=\"figures\">{figures}</div></section>"
    )
}

/// A chart with a line for each run that has points, on axes that `axes` makes of all points.
fn chart(
    title: &str,
    runs: &[Run<'_>],
    points: impl Fn(&RunRecord) -> Vec<[f64; 2]>,
    axes: impl Fn(&[[f64; 2]]) -> [Axis; 2],
    windows: Vec<Window>,
) -> String {
    let line = |run: &Run<'_>| (run.index, points(run.record));
    let lines: Vec<(usize, Vec<[f64; 2]>)> = runs.iter().map(line).collect();
    let all: Vec<[f64; 2]> = lines.iter().flat_map(|(_, points)| points).copied().collect();
    let [x, y] = axes(&all);
    let lines = lines.into_iter().filter(|(_, points)| !points.is_empty());
    let lines = lines.map(|(index, points)| Line {
        name: &runs[index].label,
        style: index,
        points,
        reference: false,
    });
    Lines { title, x, y, lines: lines.collect(), windows, bands: Vec::new() }.draw()
}

/// Values of one axis.
fn along(points: &[[f64; 2]], axis: usize) -> impl Iterator<Item = f64> {
    points.iter().map(move |point| point[axis])
}

fn waf(runs: &[Run<'_>]) -> String {
    let window = |run: &Run<'_>| {
        let record = run.record;
        let [from, to] = record.steady_state.window.filter(|_| run.is_steady())?;
        let value = record.waf_steady.filter(|waf| waf.is_finite())?;
        Some(Window { style: run.index, range: [from as f64 / GIB, to as f64 / GIB], value })
    };
    let points = |record: &RunRecord| {
        let point =
            |point: &SeriesPoint| [point.host_bytes as f64 / GIB, point.waf.unwrap_or(f64::NAN)];
        record.series.iter().map(point).collect()
    };
    let axes = |all: &[[f64; 2]]| {
        let end = along(all, 0).fold(0.0, f64::max);
        let x = Axis::linear("host bytes written, GiB", std::iter::once(end));
        [x.within((0.0, if end > 0.0 { end } else { 1.0 })), Axis::linear("WAF", along(all, 1))]
    };
    let title = "Write amplification over the run";
    let drawing = chart(title, runs, points, axes, runs.iter().filter_map(window).collect());
    let caption = "WAF between one point and the next. The bold line is the mean over the steady window; a run without \
        one never became steady. A WAF of 1 means that every host byte is written to the media once.";
    wide(&figure(title, &drawing, caption))
}

/// Seconds of a unit that suits the longest of the runs, with its name.
fn clock(runs: &[Run<'_>]) -> (&'static str, f64) {
    let points = runs.iter().flat_map(|run| &run.record.series);
    match points.map(|point| point.seconds).fold(0.0, f64::max) {
        end if end > 3.0 * 86_400.0 => ("time, days", 86_400.0),
        end if end > 3.0 * 3600.0 => ("time, hours", 3600.0),
        end if end > 600.0 => ("time, minutes", 60.0),
        _ => ("time, seconds", 1.0),
    }
}

/// The axis of time, which ends at the last point.
fn time(name: &str, all: &[[f64; 2]]) -> Axis {
    let end = along(all, 0).fold(0.0, f64::max);
    Axis::linear(name, std::iter::once(end)).within((0.0, if end > 0.0 { end } else { 1.0 }))
}

/// Host and media write rate over time, where the points carry one; else the bytes written.
fn rates(runs: &[Run<'_>]) -> String {
    let has_clock = |run: &Run<'_>| run.record.series.iter().any(|point| point.seconds > 0.0);
    if !runs.iter().any(has_clock) {
        return written(runs);
    }
    let (name, unit) = clock(runs);
    let rate = |record: &RunRecord, bytes: fn(&SeriesPoint) -> u64| {
        let mut before = 0.0;
        let point = |point: &SeriesPoint| {
            let seconds = point.seconds - std::mem::replace(&mut before, point.seconds);
            let rate = if seconds > 0.0 { bytes(point) as f64 / seconds / 1e6 } else { f64::NAN };
            [point.seconds / unit, rate]
        };
        record.series.iter().map(point).collect::<Vec<_>>()
    };
    let [host, media]: [fn(&SeriesPoint) -> u64; 2] =
        [|point| point.host_bytes_written, |point| point.media_bytes_written];
    let both = runs.iter().flat_map(|run| [rate(run.record, host), rate(run.record, media)]);
    let scale = Axis::linear("MB/s", both.flatten().map(|point| point[1]));
    let axes = |all: &[[f64; 2]]| [time(name, all), scale.clone()];
    let of = |title: &str, caption: &str, bytes| {
        figure(title, &chart(title, runs, |record| rate(record, bytes), axes, Vec::new()), caption)
    };
    let clock = if runs.iter().all(|run| run.record.device.timed) {
        "Simulated time."
    } else {
        "Simulated time where the drive's time is modelled, else the workload's own clock."
    };
    let caption = format!("What the host wrote, in MB/s. {clock}");
    of("Host write rate", &caption, host)
        + &of(
            "Media (NAND) write rate",
            "What was programmed into the media, on the same scale.",
            media,
        )
}

/// Media bytes over host bytes, of runs without a clock.
fn written(runs: &[Run<'_>]) -> String {
    let points = |record: &RunRecord| {
        let mut sum = 0.0;
        let point = |point: &SeriesPoint| {
            sum += point.media_bytes_written as f64;
            [point.host_bytes as f64 / GIB, sum / GIB]
        };
        record.series.iter().map(point).collect()
    };
    let axes = |all: &[[f64; 2]]| {
        let y = Axis::linear("media bytes written, GiB", along(all, 1));
        [time("host bytes written, GiB", all), y]
    };
    let title = "Host and media bytes written";
    let caption = "Media bytes written since the start of the measured run; the slope is the WAF. These runs have no \
        clock, so there is no rate per second.";
    wide(&figure(title, &chart(title, runs, points, axes, Vec::new()), caption))
}

/// What went through each device over time, of runs with several.
fn device_rates(runs: &[Run<'_>]) -> String {
    let one = |run: &Run<'_>| {
        let mut lines: Vec<(String, Vec<[f64; 2]>)> = Vec::new();
        for series in &run.record.device_series {
            let step = series.step_seconds;
            let rate = |bytes: &[u64]| {
                let at = |(i, bytes): (usize, &u64)| [i as f64 * step, *bytes as f64 / step / 1e6];
                bytes.iter().enumerate().map(at).collect()
            };
            lines.push((format!("{}, read", series.tier), rate(&series.bytes_read)));
            lines.push((format!("{}, written", series.tier), rate(&series.bytes_written)));
        }
        let all: Vec<[f64; 2]> = lines.iter().flat_map(|(_, points)| points).copied().collect();
        let title = format!("Rates of each device over time, {}", run.label);
        let drawn = lines.iter().enumerate().map(|(style, (name, points))| Line {
            name,
            style,
            points: points.clone(),
            reference: false,
        });
        let chart = Lines {
            title: &title,
            x: time("time, seconds", &all),
            y: Axis::linear("MB/s", along(&all, 1)),
            lines: drawn.collect(),
            windows: Vec::new(),
            bands: Vec::new(),
        };
        let caption = "What the layer above read from and wrote to each, with what it moves from one to the other and \
            what it reads to collect garbage, in MB/s of simulated time. A command counts where it ended.";
        wide(&figure(&escape(&title), &chart.draw(), caption))
    };
    runs.iter().filter(|run| run.record.device_series.len() > 1).map(one).collect()
}

/// Percentiles of latency over time, one panel per percentile so that stacks share an axis.
fn over_time(
    runs: &[Run<'_>],
    name: &str,
    of: impl Fn(&SeriesPoint) -> Option<[Option<u64>; 3]>,
) -> String {
    let points = || runs.iter().flat_map(|run| &run.record.series);
    if !points().any(|point| of(point).is_some()) {
        return String::new();
    }
    let every = points().filter_map(&of).flatten().flatten().map(|ns| ns as f64);
    let scale = Axis::logarithmic("", every).shown(latency_tick);
    let (clock, unit) = clock(runs);
    let panel = |(index, percentile): (usize, &str)| {
        let lines = runs.iter().map(|run| {
            let at = |point: &SeriesPoint| {
                let ns = of(point).and_then(|all| all[index]).map_or(f64::NAN, |ns| ns as f64);
                [point.seconds / unit, ns]
            };
            let points = run.record.series.iter().map(at).collect();
            Line { name: &run.label, style: run.index, points, reference: false }
        });
        let lines: Vec<Line<'_>> = lines.collect();
        let all: Vec<[f64; 2]> = lines.iter().flat_map(|line| &line.points).copied().collect();
        let title = format!("{name} latency over time, {percentile}");
        let (x, y) = (time(clock, &all), scale.clone());
        let drawing =
            Lines { title: &title, x, y, lines, windows: Vec::new(), bands: Vec::new() }.bare();
        format!("<div><h4>{percentile}</h4>{drawing}</div>")
    };
    let panels: String = ["p50", "p99", "p99.9"].into_iter().enumerate().map(panel).collect();
    let names = runs.iter().map(|run| (run.index, run.label.as_str()));
    let keys = if runs.len() > 1 { legend(names) } else { String::new() };
    let title = format!("{name} latency over time");
    wide(&figure(&title, &format!("{keys}<div class=\"panels\">{panels}</div>"), OVER_TIME))
}

fn latency_tick(ns: f64) -> String {
    let text = latency(ns);
    text.replace(".00", "").replace(".0 ", " ")
}

/// Latency over the whole run of one kind of request: as shares that took at most so long, and as a histogram.
fn distribution(runs: &[Run<'_>], kind: &str, name: &str) -> String {
    let of = |record: &RunRecord| {
        record.latency_ns.as_ref()?.get(kind).filter(|latency| latency.count > 0).cloned()
    };
    if !runs.iter().any(|run| of(run.record).is_some()) {
        return String::new();
    }
    let points =
        |record: &RunRecord| of(record).map_or_else(Vec::new, |latency| cumulative(&latency));
    let axes = |all: &[[f64; 2]]| {
        let x = Axis::logarithmic("latency", along(all, 0)).shown(latency_tick);
        let y = Axis::linear("share of requests, %", [0.0, 100.0].into_iter());
        [x, y]
    };
    let title = format!("{name}s that took at most so long");
    let memory = runs.iter().filter_map(|run| Some((&run.label, of(run.record)?)));
    let memory = memory.filter(|(_, latency)| latency.in_memory > 0).map(|(label, latency)| {
        let share = latency.in_memory as f64 / latency.count as f64;
        format!(" {}: {} completed in memory, left of all.", escape(label), percent(share))
    });
    let caption = format!(
        "Over the whole measured run; logarithmic. A steep line is a predictable drive.{}",
        memory.collect::<String>()
    );
    let lines = figure(&title, &chart(&title, runs, points, axes, Vec::new()), &caption);
    lines
        + &runs.iter().filter_map(|run| Some(bars(run, name, &of(run.record)?))).collect::<String>()
}

/// Shares of requests by latency, in percent: of each bin, or of the percentiles where there are no bins.
fn cumulative(latency: &LatencyNs) -> Vec<[f64; 2]> {
    let count = latency.count as f64;
    if !latency.bins.is_empty() {
        let mut sum = latency.in_memory;
        let point = |[ns, requests]: &[u64; 2]| {
            sum += requests;
            [*ns as f64, 100.0 * sum as f64 / count]
        };
        return latency.bins.iter().map(point).collect();
    }
    let LatencyNs { p50, p90, p99, p99_9, p99_99, max, .. } = latency;
    let shares =
        [(p50, 50.0), (p90, 90.0), (p99, 99.0), (p99_9, 99.9), (p99_99, 99.99), (max, 100.0)];
    let known = shares.into_iter().filter_map(|(ns, share)| Some([(*ns)? as f64, share]));
    known.collect()
}

/// The histogram of one run; memory is a bar of its own.
fn bars(run: &Run<'_>, name: &str, latency: &LatencyNs) -> String {
    if latency.bins.is_empty() {
        return String::new();
    }
    let share = |requests: u64| 100.0 * requests as f64 / latency.count as f64;
    let memory = (latency.in_memory > 0).then(|| ("memory".to_owned(), share(latency.in_memory)));
    let apart = usize::from(memory.is_some());
    let bins =
        latency.bins.iter().map(|[ns, requests]| (latency_tick(*ns as f64), share(*requests)));
    let title = format!("{name} latency, {}", run.label);
    let drawing = histogram(&Histogram {
        title: &title,
        names: ["latency, at most", "share of requests, %"],
        bins: memory.into_iter().chain(bins).collect(),
        colour: crate::palette::style(run.index).colour,
        apart,
    });
    let mean =
        latency.mean.map_or_else(String::new, |ns| format!(" Mean {}.", crate::text::latency(ns)));
    let caption = match apart {
        0 => format!("{} requests.{mean}", significant(latency.count as f64)),
        _ => format!(
            "{} requests. The grey bar completed in memory, which takes no time that is modelled.{mean}",
            significant(latency.count as f64)
        ),
    };
    figure(&escape(&title), &drawing, &caption)
}
