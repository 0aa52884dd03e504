//! Bytes in use on each tier against bytes written to the tier, and other sizes of the hot tier.

use thermocline_record::{DeviceSeries, RunRecord};
use thermocline_types::Bytes;

use super::{Figure, Options, Run, measure, of};
use crate::Error;
use crate::reproduce::part;
use crate::reproduce::point::Standing;

/// Capacity of the document's hot drive; the hot tier had a part of the drive.
const DRIVE_GB: f64 = 800.0;
/// Sizes of the hot tier on a drive of [`DRIVE_GB`]; those of the document have its share of writes.
const SIZES: [(f64, Option<f64>); 5] =
    [(50.0, None), (100.0, None), (150.0, Some(0.8)), (200.0, Some(0.8)), (400.0, None)];
/// What the sizes are varied on.
const SIDES: [(&str, &str); 2] =
    [("tiered", "tier:micron9100+micron2300"), ("tiered, on zones", "tier:micron9100+zn540")];

/// Bytes valid on each drive at the end against bytes written to it over the run, as multiples of the volume.
pub(super) fn used(what: &str, record: &RunRecord, volume: Bytes) -> Vec<Figure> {
    let mut figures = Vec::new();
    let valid = record.device_series.iter().filter_map(|series| series.valid_bytes);
    let all: u64 = valid.sum();
    for series in &record.device_series {
        let named = |name: &str| format!("{what}: {name} the {} drive", tier(series));
        let written: u64 = series.bytes_written.iter().sum();
        let volumes = |bytes: u64| bytes as f64 / volume.as_f64();
        figures.push(Figure::ours(named("volumes written to"), volumes(written)));
        let Some(valid) = series.valid_bytes else { continue };
        figures.push(Figure::ours(named("volumes in use on"), volumes(valid)));
        if series.tier == "fast" {
            let share = valid as f64 / all.max(1) as f64;
            let name = named("share of all bytes in use that are on");
            let occupied = share_occupied(record);
            figures.push(Figure::beside(name, Some(super::HOT), share));
            let name = named("share of all bytes written and not reset that are on");
            figures.push(Figure::beside(name, Some(super::HOT), occupied));
        }
    }
    figures
}

/// The hot drive's share of all bytes that the log wrote and has not reset. HSE likewise counts whole files as in use.
fn share_occupied(record: &RunRecord) -> f64 {
    let of = |series: &DeviceSeries| series.occupied_bytes.unwrap_or(0) as f64;
    let all: f64 = record.device_series.iter().map(of).sum();
    let hot = record.device_series.iter().filter(|series| series.tier == "fast").map(of);
    hot.sum::<f64>() / all.max(1.0)
}

/// The knob as an explanation, if the knob at least halves a difference above 5 %.
pub(super) fn knob((theirs, ours): (f64, f64), what: &'static str, with: f64) -> Standing {
    let off = |ours: f64| (ours / theirs - 1.0).abs();
    match off(ours) > 0.05 && off(with) <= off(ours) / 2.0 {
        true => Standing::Knob { what, ours: with },
        false => Standing::Unexplained,
    }
}

/// A drive as figures name it.
pub(super) fn tier(series: &DeviceSeries) -> &'static str {
    if series.tier == "fast" { "hot" } else { "capacity" }
}

/// The share of all writes that hot tiers of other sizes take.
pub(super) fn sweep(
    options: &Options,
    progress: &mut dyn FnMut(f64),
) -> Result<Vec<Figure>, Error> {
    // No point is among them.
    let sizes = SIZES.iter().filter(|_| !options.points);
    let runs: Vec<_> =
        SIDES.iter().flat_map(|side| sizes.clone().map(move |size| (side, size))).collect();
    let mut figures = Vec::new();
    for (step, ((what, stack), (gb, theirs))) in runs.iter().enumerate() {
        let run = Run { hot: gb / DRIVE_GB, ..Run::new(stack) };
        let record = measure(options, run, &mut part(progress, step, runs.len()))?;
        let what = format!("{what}, hot tier of {gb:.0} of 800 GB");
        for figure in of(&what, &record) {
            let theirs = theirs.filter(|_| figure.what.ends_with(super::TAKES));
            figures.push(Figure { theirs, ..figure });
        }
    }
    Ok(figures)
}
