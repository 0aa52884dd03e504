//! LSM stores on a conventional drive without overprovisioning.

use std::path::Path;

use thermocline_workload::remap::Remap;
use thermocline_workload::trace;

use super::{Figure, Options, part};
use crate::{Error, Input, Prepared, Settings, Stack, run};

/// How full their zone map shows the drive.
const UTILISATION: f64 = 0.952;
/// Replays of each trace.
const LOOPS: u32 = 12;

pub fn zero_op(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let cases = [
        ("cassandra-ycsb-a.csv.gz", "Cassandra, YCSB A (theirs: YCSB)", Some(2.68)),
        ("rocksdb-overwrite.csv.gz", "RocksDB, overwrite (theirs: cassandra-stress)", Some(3.09)),
    ];
    let mut figures = Vec::new();
    for (index, (file, what, theirs)) in cases.into_iter().enumerate() {
        let ours = waf(&options.traces.join(file), options.seed, &mut part(progress, index, 2))?;
        figures.push(Figure { what: what.into(), theirs, ours });
    }
    Ok(figures)
}

fn waf(path: &Path, seed: u64, progress: &mut dyn FnMut(f64)) -> Result<f64, Error> {
    let input = Input::Trace {
        path: path.to_owned(),
        options: trace::Options::default(),
        remap: Remap::Dense,
        loops: LOOPS,
    };
    // One unit in a hundred is what the open and reserve units of a drive this small take.
    let stack = Stack::parse("raw:micron2300", &["device.op=0.01".into()])?.untimed();
    let mut prepared = Prepared::new(input, None, stack.profile.mapping_unit, None)?;
    let settings = Settings { utilisation: UTILISATION, seed, ..Settings::default() };
    let record = run(&mut prepared, &stack, &settings, progress)?;
    record.waf_steady.ok_or_else(|| Error::Settings("nothing was written".into()))
}
