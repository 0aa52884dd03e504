//! A workload on a simulated drive, from the start of a curve over as many fills.

use std::sync::Arc;

use thermocline_record::WorkloadSpec;
use thermocline_types::Bytes;

use super::{Curve, CurveComparison, Onset, Shown};
use crate::spec::{self, Planned};
use crate::{Error, Prefill, Settings, Stack};

/// Fills of its own load after which a drive starts that was written before its log began.
pub(crate) const AGED: f64 = 3.0;
/// Fills that are simulated at most. A longer curve goes on as the last quarter of these.
pub(crate) const FILLS: f64 = 40.0;

/// The drive and the workload of a prediction.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// The drive; its profile has the capacity of the product.
    pub stack: Stack,
    /// The workload: a generator over the whole drive.
    pub generator: String,
    /// Capacity of the simulated drive.
    pub span: Bytes,
    /// Seed of all randomness.
    pub seed: u64,
}

/// Predicts `curve`: the predicted curve, and the two compared. Media bytes of `curve` only show whether the drive was
/// written before. `progress` hears the share done, 0..=1.
///
/// # Errors
/// Those of the stack and the workload, and [`Error::Settings`] when the workload writes nothing.
pub fn predict(
    curve: &Curve,
    forecast: &Forecast,
    progress: &mut dyn FnMut(f64),
) -> Result<(Curve, CurveComparison), Error> {
    let product = forecast.stack.profile.capacity;
    let shown = Shown::of(curve, product);
    let before = if shown.onset == Onset::AtOnce { AGED } else { 0.0 };
    let fills = shown.fills.min(FILLS);
    let written = play(forecast, before + fills, progress)?;
    let predicted = stretched(&written, before, shown.fills, product);
    let predicted = predicted.ok_or_else(|| {
        let what = "writes nothing in the fills that the curve has";
        Error::Settings(format!("workload `{}` {what}", forecast.generator))
    })?;
    let comparison = CurveComparison::new(curve.tenths(), predicted.tenths());
    Ok((predicted, comparison))
}

/// Host and media bytes, by the capacity, after each step of a run of `fills` on the empty drive.
fn play(
    forecast: &Forecast,
    fills: f64,
    progress: &mut dyn FnMut(f64),
) -> Result<Vec<[f64; 2]>, Error> {
    let workload = WorkloadSpec::Generator {
        generator: forecast.generator.clone(),
        span_bytes: Some(forecast.span.0),
        drive_writes: Some(fills),
        writes: None,
        requests: None,
        io_size_bytes: None,
        read_share: 0.0,
        trim_share: 0.0,
        rate: None,
        burst_bytes: None,
        idle_us: None,
    };
    let planned = Planned {
        stack: forecast.stack.clone().untimed(),
        settings: Settings {
            capacity: Some(forecast.span),
            seed: forecast.seed,
            ..Settings::default()
        },
        input: spec::input(&workload, forecast.seed)?,
        prefill: Some(Prefill::None),
        at_rest: 0.0,
        granule: None,
    };
    let record = planned.run(&Arc::default(), progress)?;
    let capacity = record.device.capacity_bytes as f64;
    let (mut points, mut media) = (vec![[0.0, 0.0]], 0);
    for step in &record.series {
        media += step.media_bytes_written;
        points.push([step.host_bytes as f64 / capacity, media as f64 / capacity]);
    }
    Ok(points)
}

/// The points of a run from `before` on as a curve of a `product` over `fills`. Beyond its end it goes on as its last
/// quarter.
fn stretched(points: &[[f64; 2]], before: f64, fills: f64, product: Bytes) -> Option<Curve> {
    let whole = Curve::new(points.to_vec(), Vec::new())?;
    let end = whole.host_bytes();
    let at = |host: f64| [host - before, whole.media_at(host) - whole.media_at(before)];
    let mut curve = vec![at(before)];
    curve.extend(points.iter().filter(|point| point[0] > before).map(|point| at(point[0])));
    let [host, media] = at(end);
    if fills > host {
        let [earlier, below] = at(before + host * 0.75);
        let slope = (media - below) / (host - earlier);
        curve.push([fills, media + (fills - host) * slope]);
    }
    let bytes = curve.iter().map(|point| point.map(|fills| fills * product.as_f64()));
    Curve::new(bytes.collect(), Vec::new())
}
