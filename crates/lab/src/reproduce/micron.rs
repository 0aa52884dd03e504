//! LSM stores on a conventional drive without overprovisioning.

use std::path::Path;

use thermocline_types::Bytes;
use thermocline_workload::remap::Remap;
use thermocline_workload::trace;

use super::{Figure, Options, part};
use crate::{Error, Input, Prepared, Settings, Stack, run};

/// How full the drive is; how full theirs was is not published.
const FILLED: [f64; 3] = [0.9, 0.95, 1.0];
/// Replays of each trace.
const LOOPS: u32 = 12;

/// Units of erasure tried. Superblocks of their drive have some 300 MB, several SSTables; our traces are too small.
const UNITS: [Bytes; 2] = [Bytes::mib(4), Bytes::mib(16)];
/// Units a drive with zero overprovisioning has beyond its capacity: open for host and relocation, reserve, one to
/// spare.
const EXTRA_UNITS: f64 = 5.0;

/// The traces replayed, as they come with the program.
pub const TRACES: [&str; 2] = ["cassandra-ycsb-a", "rocksdb-overwrite"];

pub fn zero_op(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let traces = [
        (TRACES[0], "Cassandra, YCSB A (theirs: YCSB)", 2.68),
        (TRACES[1], "RocksDB, overwrite (theirs: cassandra-stress)", 3.09),
    ];
    // Where trims are obeyed, what the file system deleted is spare, and the drive is never full.
    let terms = FILLED.map(|filled| ("ignored", filled)).into_iter().chain([("obeyed", 1.0)]);
    let cases: Vec<_> = traces
        .iter()
        .flat_map(|trace| terms.clone().map(move |terms| (trace, terms)))
        .flat_map(|(trace, terms)| UNITS.map(|unit| (trace, terms, unit)))
        .collect();
    // Its published values are points of `micron-zones`.
    let cases = if options.points { Vec::new() } else { cases };
    let mut figures = Vec::new();
    for (index, &(&(trace, what, theirs), (trims, filled), unit)) in cases.iter().enumerate() {
        let mut progress = part(progress, index, cases.len());
        let mut prepared = prepare(&options.trace(trace), trims == "ignored")?;
        let ours = waf_of(&mut prepared, filled, unit, options.seed, &mut progress)?;
        let percent = filled * 100.0;
        let what = format!("{what}, {percent} % full, trims {trims}, units of {unit}");
        figures.push(Figure::beside(what, Some(theirs), ours));
    }
    Ok(figures)
}

/// A trace, [`LOOPS`] times over.
pub fn prepare(path: &Path, ignore_trims: bool) -> Result<Prepared, Error> {
    let input = Input::Trace {
        path: path.to_owned(),
        options: trace::Options::default(),
        remap: Remap::Dense,
        loops: LOOPS,
        ignore_trims,
    };
    Prepared::new(input, None, Bytes::BLOCK, None)
}

/// WAF on a conventional drive with [`EXTRA_UNITS`] beyond its capacity, of which the share `filled` is addressed.
fn waf_of(
    prepared: &mut Prepared,
    filled: f64,
    unit: Bytes,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<f64, Error> {
    let op = EXTRA_UNITS * unit.as_f64() * filled / prepared.footprint().as_f64();
    let overrides = [format!("device.op={op}"), format!("device.unit={}", unit.0)];
    let stack = Stack::parse("raw:micron2300", &overrides)?.untimed();
    let settings = Settings { utilisation: filled, seed, ..Settings::default() };
    let record = run(prepared, &stack, &settings, progress)?;
    record.waf_steady.ok_or_else(|| Error::Settings("nothing was written".into()))
}
