//! CacheLib's two engines on one drive, with and without separate reclaim unit handles.

use thermocline_types::Bytes;
use thermocline_workload::synthetic::{self, Limit, Spec};

use super::point::{CACHELIB, Reference, Standing};
use super::{Figure, Options, part};
use crate::{Error, Input, Prepared, Settings, Stack, run};

/// Capacity the drive is cut to.
const CAPACITY: Bytes = Bytes::gib(8);
/// Share of bytes written that goes to small objects; see the notes of the experiment.
const SMALL_SHARE: f64 = 0.62;
/// How often the capacity is written over, first to settle and then to measure.
const DRIVE_WRITES: f64 = 8.0;
/// Size of a write to the large-object engine.
const LARGE_WRITE: Bytes = Bytes::kib(64);

pub fn fdp(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let cases = [
        ("raw:pm9d3", 0.5, "without FDP, 50 % utilisation", 1.3, Standing::Unexplained),
        ("raw:pm9d3", 1.0, "without FDP, 100 % utilisation", 3.5, Standing::Fitted),
        ("tag:pm9d3", 0.5, "with FDP, 50 % utilisation", 1.03, Standing::Unexplained),
        ("tag:pm9d3", 1.0, "with FDP, 100 % utilisation", 1.03, Standing::Unexplained),
    ];
    let mut figures = Vec::new();
    for (index, (stack, utilisation, what, theirs, standing)) in cases.into_iter().enumerate() {
        let ours =
            dlwa(stack, utilisation, SMALL_SHARE, options.seed, &mut part(progress, index, 4))?;
        let quantity = if stack.starts_with("tag") {
            "KV cache with FDP: DLWA"
        } else {
            "KV cache without FDP: DLWA"
        };
        let reference = Reference::new(CACHELIB, quantity, "ratio").standing(standing);
        figures.push(Figure::new(what, theirs, ours, reference));
    }
    Ok(figures)
}

/// DLWA over the second half of the run.
fn dlwa(
    stack: &str,
    utilisation: f64,
    small_share: f64,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<f64, Error> {
    // Write amplification does not depend on time; an untimed run is faster.
    let stack = Stack::parse(stack, &["device.buffer.merge=false".into()])?.untimed();
    let settings = Settings { capacity: Some(CAPACITY), seed, ..Settings::default() };
    let blocks = (CAPACITY.as_f64() * utilisation / LARGE_WRITE.as_f64()) as u64;
    let span = Bytes(blocks * LARGE_WRITE.0);
    let requests = |share: f64, size: Bytes| share / size.as_f64();
    let spec = Spec::from_toml(&format!(
        "[[tenant]]
         name = 'small objects'
         workload = 'uniform'
         span = '4%'
         io_size = '4KiB'
         share = {}
         [[tenant]]
         name = 'large objects'
         workload = 'seq'
         io_size = '64KiB'
         share = {}",
        requests(small_share, Bytes::BLOCK) * 1e6,
        requests(1.0 - small_share, LARGE_WRITE) * 1e6
    ))?;
    let limit = Limit::drive_writes(DRIVE_WRITES, CAPACITY)?;
    let workload = synthetic::Options { seed, ..synthetic::Options::new(span, limit) };
    let mut prepared =
        Prepared::new(Input::Synthetic { spec, options: workload }, None, Bytes::BLOCK, None)?;
    let record = run(&mut prepared, &stack, &settings, progress)?;
    record.dlwa_steady.ok_or_else(|| Error::Settings("nothing was written".into()))
}
