//! Rates of each drive over time, where the database asks by a clock and writes its pages at checkpoints: whether a hot
//! tier cuts the peaks of the capacity drive.

use thermocline_record::plot::{Plot, PlotAxis, PlotLine};
use thermocline_record::{DeviceSeries, RunRecord};
use thermocline_types::{Bytes, Time};
use thermocline_workload::synthetic::Checkpoints;

use super::sizes::{knob, tier};
use super::{Figure, Options, Run, SET_UPS, measure};
use crate::Error;
use crate::reproduce::part;
use crate::reproduce::point::{MICRON, Meant, Reference, Standing};

/// Clocked request rate, as a share of the capacity drive's highest rate. Chosen: all set-ups get the same load and
/// keep up. The published run's rate is unknown.
const PACE: f64 = 0.5;
/// Checkpoints for each volume written, and the part of a period in which one is written: chosen, not measured.
const CHECKPOINTS: f64 = 20.0;
const WITHIN: f64 = 0.2;

/// "All the peaks have been cut."
const PEAK: Reference =
    Reference::new(MICRON, "peak MB/s of the capacity drive against it alone", "times")
        .meant(Meant::AtMost);

/// When requests come.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    /// Requests each second.
    pub(super) per_second: f64,
    /// When pages are written.
    pub(super) checkpoints: Checkpoints,
}

impl Clock {
    /// [`PACE`] of what `alone` has, on a `volume`.
    pub(super) fn after(alone: &RunRecord, volume: Bytes) -> Clock {
        let rates = alone.bandwidth.as_ref().expect("every drive here has time");
        let volume_s = volume.as_f64() / (PACE * rates.host_write_bytes_per_second);
        let every_s = volume_s / CHECKPOINTS;
        let time = |seconds: f64| Time::nanos((seconds * 1e9) as u64);
        let checkpoints = Checkpoints { every: time(every_s), within: time(every_s * WITHIN) };
        Clock { per_second: PACE * rates.requests_per_second, checkpoints }
    }
}

/// Traffic through a drive in one direction.
struct Flow {
    /// Of which drive, and which way.
    name: String,
    /// MB/s over time: of windows of equal length, the same in all set-ups.
    mb_per_s: Vec<f64>,
}

impl Flow {
    fn mean(&self) -> f64 {
        self.mb_per_s.iter().sum::<f64>() / self.mb_per_s.len().max(1) as f64
    }

    /// Of the windows in order of their rates, that which so many are not above.
    fn at(&self, share: f64) -> f64 {
        let mut sorted = self.mb_per_s.clone();
        sorted.sort_by(f64::total_cmp);
        let place = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(place.saturating_sub(1)).copied().unwrap_or(0.0)
    }

    fn figures(&self, what: &str) -> Vec<Figure> {
        let (mean, peak) = (self.mean(), self.at(1.0));
        let all = [
            ("MB/s, mean", mean),
            ("MB/s, 99 % of the time at most", self.at(0.99)),
            ("MB/s, peak", peak),
            ("peak / mean", peak / mean),
        ];
        let figure = |(stat, ours)| Figure::ours(format!("{what}: {} {stat}", self.name), ours);
        all.map(figure).into()
    }
}

/// Rates of all drives in all set-ups, and peaks against the peaks of the capacity drive alone.
pub(super) fn rates(
    options: &Options,
    clock: Clock,
    progress: &mut dyn FnMut(f64),
) -> Result<(Vec<Figure>, Vec<Plot>), Error> {
    let mut records = Vec::new();
    for (step, set_up) in SET_UPS.iter().enumerate() {
        let run = Run { clock: Some(clock), ..Run::new(set_up.stack) };
        records.push(measure(options, run, &mut part(progress, step, SET_UPS.len()))?);
    }
    let window = window(&records);
    let over = |window| -> Vec<Vec<Flow>> {
        records.iter().map(|record| all_flows(record, window)).collect()
    };
    let period = clock.checkpoints.every.as_secs_f64();
    let (flows, slow) = (over(window), over(period));
    let mut figures = vec![
        Figure::ours("by the clock: milliseconds of a window", window * 1e3),
        Figure::ours("by the clock: milliseconds between checkpoints", period * 1e3),
    ];
    for (set_up, flows) in SET_UPS.iter().zip(&flows) {
        let what = format!("{}, by the clock", set_up.what);
        figures.extend(flows.iter().flat_map(|flow| flow.figures(&what)));
    }
    for (index, set_up) in SET_UPS.iter().enumerate().skip(1) {
        let behind = [&flows[index][..], &slow[index]];
        figures.extend(cut(set_up.what, behind, [&flows[0][..], &slow[0]]));
    }
    let plots = SET_UPS.iter().zip(&flows).map(|(set_up, flows)| plot(set_up.what, flows, window));
    Ok((figures, plots.collect()))
}

/// How long a rate is averaged over in theirs is not known.
const SLOW: &str = "rates averaged over the time between two checkpoints (a hundredth of the run, three minutes of five hours), not \
     over less than a 500th of the run,";

/// Peaks of the capacity drive behind a tier against those of it alone, and whether all of them are lower: over
/// windows, and over periods of checkpoints.
fn cut(what: &str, behind: [&[Flow]; 2], alone: [&[Flow]; 2]) -> Vec<Figure> {
    let zones = what.contains("zones");
    let mut figures = Vec::new();
    let mut all = [true; 2];
    for index in 0..alone[0].len() {
        let reads = alone[0][index].name.ends_with("reads");
        let against = |at: usize| behind[at][index].at(1.0) / alone[at][index].at(1.0);
        let [ours, slow] = [against(0), against(1)];
        all = [all[0] && ours < 1.0, all[1] && slow < 1.0];
        let part = match (zones, reads) {
            (false, true) => "tiered, reads",
            (false, false) => "tiered, writes",
            (true, true) => "tiered, on zones, reads",
            (true, false) => "tiered, on zones, writes",
        };
        let way = if reads { "reads" } else { "writes" };
        let name = format!(
            "{what}, by the clock: peak of the {way} of the capacity drive against it alone"
        );
        let standing = knob((1.0, ours.max(1.0)), SLOW, slow.max(1.0));
        let standing = match standing {
            Standing::Knob { what, .. } => Standing::Knob { what, ours: slow },
            other => other,
        };
        let beside = format!("{name}; between checkpoints");
        figures.push(Figure::new(name, 1.0, ours, PEAK.part(part).standing(standing)));
        figures.push(Figure::beside(beside, Some(1.0), slow));
    }
    for (all, over) in all.into_iter().zip(["", " between checkpoints"]) {
        let name =
            format!("{what}, by the clock: all the peaks{over} have been cut (1) or not (0)");
        figures.push(Figure::ours(name, f64::from(u8::from(all))));
    }
    figures
}

/// The longest step of any series, seconds; the others are so many times shorter, by powers of two.
fn window(records: &[RunRecord]) -> f64 {
    let steps = records.iter().flat_map(|record| &record.device_series);
    steps.map(|series| series.step_seconds).fold(0.0, f64::max)
}

/// What went through the drives while the workload went on: the rest is no load of it.
fn all_flows(record: &RunRecord, window: f64) -> Vec<Flow> {
    let seconds = record.bandwidth.as_ref().map_or(0.0, |rates| rates.seconds);
    let both = |series: &DeviceSeries| {
        let DeviceSeries { bytes_read, bytes_written, .. } = series;
        let flow = |way: &str, bytes: &[u64]| Flow {
            name: format!("{} drive, {way}", tier(series)),
            mb_per_s: mb_per_s(bytes, series.step_seconds, window, seconds),
        };
        [flow("reads", bytes_read), flow("writes", bytes_written)]
    };
    record.device_series.iter().flat_map(both).collect()
}

/// The rate in each whole window of so many `seconds`, of bytes in steps; a window is a whole number of steps.
fn mb_per_s(bytes: &[u64], step_seconds: f64, window: f64, seconds: f64) -> Vec<f64> {
    let steps = (window / step_seconds).round().max(1.0) as usize;
    let window = steps as f64 * step_seconds;
    let rate = |steps: &[u64]| steps.iter().sum::<u64>() as f64 / window / 1e6;
    let mut rates: Vec<f64> = bytes.chunks(steps).map(rate).collect();
    rates.resize((seconds / window) as usize, 0.0);
    rates
}

/// Rates over time.
fn plot(what: &str, flows: &[Flow], window: f64) -> Plot {
    let line = |flow: &Flow| {
        let points = flow.mb_per_s.iter().enumerate();
        PlotLine::ours(&flow.name, points.map(|(at, rate)| [at as f64 * window, *rate]).collect())
    };
    Plot {
        title: format!("Rates of each drive over time: {what}"),
        caption: "A database by the clock, the same in all charts, which writes its pages at checkpoints.".to_owned(),
        x: PlotAxis::linear("seconds"),
        y: PlotAxis::linear("MB/s"),
        lines: flows.iter().map(line).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_of_whole_windows_of_one_length() {
        let flow = |mb: &[u64], step_seconds, seconds| {
            let bytes: Vec<u64> = mb.iter().map(|mb| mb * 1_000_000).collect();
            let name = "capacity drive, writes".to_owned();
            Flow { name, mb_per_s: mb_per_s(&bytes, step_seconds, 2.0, seconds) }
        };
        let alone = flow(&[8, 0, 2, 2, 9], 1.0, 5.0);
        assert_eq!(alone.mb_per_s, [4.0, 2.0], "the last window is cut short");
        assert_eq!((alone.mean(), alone.at(1.0), alone.at(0.5)), (3.0, 4.0, 2.0));
        let idle = flow(&[6], 2.0, 6.0);
        assert_eq!(idle.mb_per_s, [3.0, 0.0, 0.0], "a drive that nothing comes to is at rest");
        let slow = flow(&[8, 0, 2, 2], 1.0, 4.0);
        let figures = cut("tiered", [&[idle], &[slow]], [&[alone], &[flow(&[8], 1.0, 2.0)]]);
        let ours: Vec<f64> = figures.iter().map(|figure| figure.ours).collect();
        assert_eq!(ours, [0.75, 1.0, 1.0, 0.0], "{figures:?}");
    }
}
