//! Figures: the places where the scripts draw.

use crate::data::Run;
use crate::text::escape;

/// Which chart the scripts draw; the name is that of a builder in `report.js`.
#[derive(Clone, Copy)]
pub(crate) struct Chart {
    /// Builder name.
    pub name: &'static str,
    /// Record of the figure; `None` for all records.
    pub record: Option<usize>,
    /// Height in CSS pixels; maps set their own.
    pub height: u32,
}

/// A figure with a heading, a chart and a caption (HTML).
pub(crate) fn figure(chart: Chart, title: &str, caption: &str) -> String {
    let Chart { name, record, height } = chart;
    let record = record.map_or_else(String::new, |index| format!(" data-record=\"{index}\""));
    format!(
        "<figure><h3>{title}</h3><div class=\"chart\" data-chart=\"{name}\"{record} \
         data-title=\"{title}\" role=\"img\" \
         aria-label=\"{title}\" style=\"height:{height}px\"></div><figcaption>{caption} <a href=\"#provenance\">Source and command</a></figcaption></figure>"
    )
}

/// A figure that has nothing to show, and why.
pub(crate) fn absent(title: &str, reason: &str) -> String {
    format!("<figure><h3>{title}</h3><p class=\"absent\">{reason}</p></figure>")
}

/// The section of shared charts over the length of the run.
pub(crate) fn over_the_run(runs: &[Run<'_>]) -> String {
    let mut figures = String::new();
    if runs.iter().all(|run| run.record.series.is_empty()) {
        figures += &absent("Write amplification over the run", "These runs hold no time series.");
    } else {
        figures += &wide(&figure(
            all("waf", 340),
            "Write amplification over the run",
            "WAF between one point and the next. The bold line is the mean over the steady \
             window; a run without one never \
             became steady. A WAF of 1 means that every host byte is written to the media once.",
        ));
        figures += &rates(runs);
        figures += &device_rates(runs);
        figures += &latency_over_time(runs);
    }
    figures += &latency_percentiles(runs);
    format!(
        "<section id=\"over-the-run\"><h2>Over the run</h2><div \
         class=\"figures\">{figures}</div></section>"
    )
}

/// A chart about all records.
fn all(name: &'static str, height: u32) -> Chart {
    Chart { name, record: None, height }
}

/// A figure over the whole width.
pub(crate) fn wide(figure: &str) -> String {
    figure.replacen("<figure>", "<figure class=\"wide\">", 1)
}

/// Host and media write rate over time, where the points carry one; else the bytes written.
fn rates(runs: &[Run<'_>]) -> String {
    let has_clock = |run: &Run<'_>| run.record.series.iter().any(|point| point.seconds > 0.0);
    if !runs.iter().any(has_clock) {
        let caption = "Media bytes written since the start of the measured run; the slope is the \
            WAF. The thin line is the \
                       host's own bytes. These runs have no clock, so there is no rate per second.";
        return wide(&figure(all("cumulative", 300), "Host and media bytes written", caption));
    }
    let clock = if runs.iter().all(|run| run.record.device.timed) {
        "Simulated time."
    } else {
        "Simulated time where the drive's time is modelled, else the workload's own clock."
    };
    figure(
        all("host_rate", 280),
        "Host write rate",
        &format!("What the host wrote, in MB/s. {clock}"),
    ) + &figure(
        all("media_rate", 280),
        "Media (NAND) write rate",
        "What was programmed into the media, on the same scale.",
    )
}

/// What went through each device over time, of runs with several.
fn device_rates(runs: &[Run<'_>]) -> String {
    let tiered = runs.iter().filter(|run| run.record.device_series.len() > 1);
    let one = |run: &Run<'_>| {
        let chart = Chart { name: "device_rates", record: Some(run.index), height: 300 };
        let title = format!("Rates of each device over time, {}", escape(&run.label));
        let caption = "What the layer above read from and wrote to each, with what it moves from one to the other and what \
            it reads to collect garbage, in MB/s of simulated time; a command counts where it ended.";
        wide(&figure(chart, &title, caption))
    };
    tiered.map(one).collect()
}

/// Percentiles of latency over time, one panel per percentile so that stacks share an axis.
fn latency_over_time(runs: &[Run<'_>]) -> String {
    let points = || runs.iter().flat_map(|run| &run.record.series);
    let mut figures = String::new();
    if points().any(|point| point.write_latency_ns.is_some()) {
        let caption =
            "Between one point and the next; logarithmic. All panels have the same scale.";
        figures += &wide(&figure(all("write_latency", 300), "Write latency over time", caption));
    }
    if points().any(|point| point.read_latency_ns.is_some()) {
        let caption =
            "Between one point and the next; logarithmic. All panels have the same scale.";
        figures += &wide(&figure(all("read_latency", 300), "Read latency over time", caption));
    }
    figures
}

/// Latency by percentile over the whole run, for each kind of request measured.
fn latency_percentiles(runs: &[Run<'_>]) -> String {
    let measured = |kind: &str| {
        let has = |run: &Run<'_>| {
            run.record
                .latency_ns
                .as_ref()
                .is_some_and(|kinds| kinds.get(kind).is_some_and(|l| l.count > 0))
        };
        runs.iter().any(has)
    };
    let mut figures = String::new();
    let caption = "Over the whole measured run; logarithmic. A flat line is a predictable drive.";
    if measured("write") {
        figures += &figure(all("write_percentiles", 300), "Write latency by percentile", caption);
    }
    if measured("read") {
        figures += &figure(all("read_percentiles", 300), "Read latency by percentile", caption);
    }
    if figures.is_empty() {
        let reason = "Latency is not modelled in these runs: they count bytes without time.";
        figures += &wide(&absent("Latency", reason));
    }
    figures
}
