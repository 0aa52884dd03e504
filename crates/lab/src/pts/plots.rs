//! The charts of the specification: rounds, steady window, figures.

use thermocline_record::plot::{Plot, PlotAxis, PlotLine};
use thermocline_types::Bytes;

use super::{PtsCell, PtsResult, PtsUnit};

/// The charts of what a test found.
#[must_use]
pub fn plots(result: &PtsResult) -> Vec<Plot> {
    if result.cells.len() == 1 {
        return vec![saturation(result), amplification(result)];
    }
    let mut all = vec![convergence(result), window(result)];
    match result.unit {
        PtsUnit::Iops => all.push(by_size(result, "IOPS by size and mix", |cell| cell.value)),
        PtsUnit::Microseconds => {
            all.push(by_size(result, "mean latency by size and mix", |cell| cell.mean_us));
            all.push(by_size(result, "longest latency by size and mix", |cell| cell.max_us));
        }
        PtsUnit::MbPerSecond => {}
    }
    all
}

/// A mix as the specification writes it: reads/writes in per cent.
#[must_use]
pub fn mix(read_share: f64) -> String {
    format!("{:.0}/{:.0}", 100.0 * read_share, 100.0 * (1.0 - read_share))
}

fn numbered(values: &[f64], from: usize) -> Vec<[f64; 2]> {
    values.iter().enumerate().map(|(index, &value)| [(from + index) as f64, value]).collect()
}

/// Each pattern of the mix that decides, and of throughput both, over the rounds.
fn convergence(result: &PtsResult) -> Plot {
    let decides = result.cells[result.tracked].read_share;
    let all = result.unit == PtsUnit::MbPerSecond;
    let drawn = result.cells.iter().filter(|cell| all || (cell.read_share - decides).abs() < 1e-9);
    let line = |cell: &PtsCell| {
        let name = format!("{}, {}", Bytes(cell.io_size), mix(cell.read_share));
        PlotLine::ours(&name, numbered(&cell.rounds, 1))
    };
    Plot {
        title: format!("{}: steady state convergence", result.name),
        caption: "Each round; lines are size and reads/writes.".into(),
        x: PlotAxis::linear("round"),
        y: match result.unit {
            PtsUnit::Iops => PlotAxis::logarithmic(result.unit.name()),
            PtsUnit::MbPerSecond | PtsUnit::Microseconds => PlotAxis::linear(result.unit.name()),
        },
        lines: drawn.map(line).collect(),
    }
}

/// What decides, in the window, with its mean, a tenth above and below, and the fitted line.
fn window(result: &PtsResult) -> Plot {
    let [first, last] = result.window.rounds;
    let values = &result.cells[result.tracked].rounds[first - 1..];
    let mean = result.window.mean;
    let ends = |from: f64, to: f64| vec![[first as f64, from], [last as f64, to]];
    let half = 0.5 * result.window.drift * mean;
    let cell = &result.cells[result.tracked];
    Plot {
        title: format!("{}: steady state window", result.name),
        caption: format!(
            "{} at {}: largest difference {:.1} % of the mean (20 % at most), the fitted line rises {:+.1} % (10 % at \
             most): {}.",
            Bytes(cell.io_size),
            mix(cell.read_share),
            100.0 * result.window.range,
            100.0 * result.window.drift,
            if result.window.steady { "steady" } else { "not steady" }
        ),
        x: PlotAxis::linear("round"),
        y: PlotAxis::linear(result.unit.name()),
        lines: vec![
            PlotLine::ours("measured", numbered(values, first)),
            PlotLine::ours("mean", ends(mean, mean)),
            PlotLine::ours("110 % of the mean", ends(1.1 * mean, 1.1 * mean)),
            PlotLine::ours("90 % of the mean", ends(0.9 * mean, 0.9 * mean)),
            PlotLine::ours("fitted", ends(mean - half, mean + half)),
        ],
    }
}

fn by_size(result: &PtsResult, what: &str, of: fn(&PtsCell) -> f64) -> Plot {
    let mut lines: Vec<PlotLine> = Vec::new();
    for cell in &result.cells {
        let (name, point) = (mix(cell.read_share), [cell.io_size as f64 / 1024.0, of(cell)]);
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(PlotLine::ours(&name, vec![point])),
        }
    }
    lines.iter_mut().for_each(|line| line.points.sort_by(|a, b| a[0].total_cmp(&b[0])));
    Plot {
        title: format!("{}: {what}", result.name),
        caption: "Over the steady state window; lines are reads/writes.".into(),
        x: PlotAxis::logarithmic("KiB of a request"),
        y: PlotAxis::logarithmic(result.unit.name()),
        lines,
    }
}

fn over_written(result: &PtsResult, values: impl Iterator<Item = Option<f64>>) -> Vec<[f64; 2]> {
    let points = result.written.iter().zip(values);
    points.filter_map(|(&written, value)| Some([written, value?])).collect()
}

fn saturation(result: &PtsResult) -> Plot {
    let values = result.cells[0].rounds.iter().copied().map(Some);
    Plot {
        title: format!("{}: IOPS over what was written", result.name),
        caption: "Random writes of 4 KiB on a purged drive.".into(),
        x: PlotAxis::linear("capacities written"),
        y: PlotAxis::linear(result.unit.name()),
        lines: vec![PlotLine::ours("random writes of 4 KiB", over_written(result, values))],
    }
}

fn amplification(result: &PtsResult) -> Plot {
    let lines = vec![PlotLine::ours("WAF", over_written(result, result.waf.iter().copied()))];
    Plot {
        title: format!("{}: write amplification over what was written", result.name),
        caption: "Media bytes over host bytes of each round.".into(),
        x: PlotAxis::linear("capacities written"),
        y: PlotAxis::linear("WAF"),
        lines,
    }
}
