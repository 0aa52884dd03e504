//! LSM stores on a conventional drive without overprovisioning.

use std::path::Path;

use thermocline_types::Bytes;
use thermocline_workload::remap::Remap;
use thermocline_workload::trace;

use super::{Figure, Options, part};
use crate::{Error, Input, Prepared, Settings, Stack, run};

/// How full their zone map shows the drive.
const UTILISATION: f64 = 0.952;
/// Replays of each trace.
const LOOPS: u32 = 12;

/// Units of erasure tried. Their drive's superblock is some 300 MB, several SSTables; our traces are too small for
/// that, so what can be shown is how write amplification grows as the unit does.
const UNITS: [Bytes; 3] = [Bytes::mib(1), Bytes::mib(4), Bytes::mib(16)];
/// Units a drive with zero overprovisioning has beyond its capacity: open for host and relocation, reserve, one to
/// spare.
const EXTRA_UNITS: f64 = 5.0;

/// The traces replayed, as they ship with Thermocline.
pub const TRACES: [&str; 2] = ["cassandra-ycsb-a.csv.gz", "rocksdb-overwrite.csv.gz"];

pub fn zero_op(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let traces = [
        (TRACES[0], "Cassandra, YCSB A (theirs: YCSB)", 2.68),
        (TRACES[1], "RocksDB, overwrite (theirs: cassandra-stress)", 3.09),
    ];
    let cases = traces.iter().flat_map(|trace| UNITS.map(|unit| (trace, unit)));
    let mut figures = Vec::new();
    for (index, (&(file, what, theirs), unit)) in cases.enumerate() {
        let path = options.traces.join(file);
        let ours = waf(&path, unit, options.seed, &mut part(progress, index, 6))?;
        figures.push(Figure {
            what: format!("{what}, units of {unit}"),
            theirs: Some(theirs),
            ours,
        });
    }
    Ok(figures)
}

fn waf(path: &Path, unit: Bytes, seed: u64, progress: &mut dyn FnMut(f64)) -> Result<f64, Error> {
    let input = Input::Trace {
        path: path.to_owned(),
        options: trace::Options::default(),
        remap: Remap::Dense,
        loops: LOOPS,
        ignore_trims: true,
    };
    let mut prepared = Prepared::new(input, None, Bytes::BLOCK, None)?;
    let op = EXTRA_UNITS * unit.as_f64() * UTILISATION / prepared.footprint().as_f64();
    let overrides = [format!("device.op={op}"), format!("device.unit={}", unit.0)];
    let stack = Stack::parse("raw:micron2300", &overrides)?.untimed();
    let settings = Settings { utilisation: UTILISATION, seed, ..Settings::default() };
    let record = run(&mut prepared, &stack, &settings, progress)?;
    record.waf_steady.ok_or_else(|| Error::Settings("nothing was written".into()))
}
