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

/// The traces replayed, as they come with the program.
pub const TRACES: [&str; 2] = ["cassandra-ycsb-a", "rocksdb-overwrite"];

pub fn zero_op(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let traces = [
        (TRACES[0], "Cassandra, YCSB A (theirs: YCSB)", 2.68),
        (TRACES[1], "RocksDB, overwrite (theirs: cassandra-stress)", 3.09),
    ];
    let cases = traces.iter().flat_map(|trace| UNITS.map(|unit| (trace, unit)));
    let mut figures = Vec::new();
    for (index, (&(trace, what, theirs), unit)) in cases.enumerate() {
        let path = options.trace(trace);
        let ours = waf_of(&path, unit, options.seed, &mut part(progress, index, 6))?;
        figures.push(Figure {
            what: format!("{what}, units of {unit}"),
            theirs: Some(theirs),
            ours,
        });
    }
    Ok(figures)
}

/// How full zones and the conventional drive are when compared: what the log can hold beside its reserve in as few
/// zones as the traces fill.
const ZONED_UTILISATION: f64 = 0.88;
/// Zones, and superblocks of the conventional drive.
const ZONE: Bytes = Bytes::mib(4);
/// WAF of theirs on zones, host mapping and collection included.
const THEIRS_ON_ZONES: f64 = 1.13;

/// The same drive twice: conventional with zero overprovisioning, and as zones under the log.
pub fn zones(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let traces =
        [(TRACES[0], "Cassandra, YCSB A", 2.68, 2.4), (TRACES[1], "RocksDB, overwrite", 3.09, 2.7)];
    let mut figures = Vec::new();
    for (index, (trace, name, conventional, life)) in traces.into_iter().enumerate() {
        let mut progress = part(progress, index, 2);
        let path = options.trace(trace);
        let raw = compare(&path, "raw", false, options.seed, &mut part(&mut progress, 0, 3))?;
        let log = compare(&path, "log", true, options.seed, &mut part(&mut progress, 1, 3))?;
        let blind = compare(&path, "log", false, options.seed, &mut part(&mut progress, 2, 3))?;
        let value = |ratio: Option<f64>| ratio.unwrap_or(f64::NAN);
        let waf = [&raw, &log, &blind].map(|record| value(record.waf_steady));
        let mut figure = |what: &str, theirs: Option<f64>, ours: f64| {
            figures.push(Figure { what: format!("{name}: {what}"), theirs, ours });
        };
        figure("conventional, WAF", Some(conventional), waf[0]);
        figure("zones, ALWA (host: log and its collection)", None, value(log.alwa_steady));
        figure("zones, DLWA (drive)", None, value(log.dlwa_steady));
        figure("zones, WAF", Some(THEIRS_ON_ZONES), waf[1]);
        figure("times the life", Some(life), waf[0] / waf[1]);
        let large = waf_of(&path, UNITS[2], options.seed, &mut |_| {})?;
        figure("conventional, superblocks of 16 MiB, 95.2 % full, WAF", Some(conventional), large);
        figure("times the life of that", Some(life), large / waf[1]);
        figure("zones without trims, WAF", None, waf[2]);
        figure("zones without trims, times the life", None, waf[0] / waf[2]);
        let full = log.units.fill.iter().filter(|fill| **fill > 0.99).count();
        let share = full as f64 / log.units.fill.len() as f64;
        figure("share of zones full at the end", None, share);
    }
    Ok(figures)
}

/// The record of a trace on one of the two drives.
fn compare(
    path: &Path,
    layer: &str,
    trims: bool,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<thermocline_record::RunRecord, Error> {
    let mut prepared = prepare(path, !trims)?;
    let mut overrides = vec![format!("device.unit={}", ZONE.0)];
    if layer == "log" {
        let zone = ["zone_size", "zone_capacity"].map(|key| format!("device.zns.{key}={}", ZONE.0));
        overrides.extend(zone);
        let unlimited = ["max_open", "max_active"].map(|key| format!("device.zns.{key}=0"));
        overrides.extend(unlimited);
        overrides.extend(["device.kind=zns", "device.op=0.0"].map(str::to_owned));
        // As the mapping layer of the document: nothing but host writes apart from survivors.
        overrides.extend(["log.placement=sepgc", "log.victim=cost-benefit"].map(str::to_owned));
    } else {
        overrides.push(format!("device.op={}", spare(&prepared, ZONE, ZONED_UTILISATION)));
    }
    let stack = Stack::parse(&format!("{layer}:micron2300"), &overrides)?.untimed();
    let settings = Settings { utilisation: ZONED_UTILISATION, seed, ..Settings::default() };
    run(&mut prepared, &stack, &settings, progress)
}

fn prepare(path: &Path, ignore_trims: bool) -> Result<Prepared, Error> {
    let input = Input::Trace {
        path: path.to_owned(),
        options: trace::Options::default(),
        remap: Remap::Dense,
        loops: LOOPS,
        ignore_trims,
    };
    Prepared::new(input, None, Bytes::BLOCK, None)
}

/// The overprovisioning that comes to [`EXTRA_UNITS`].
fn spare(prepared: &Prepared, unit: Bytes, utilisation: f64) -> f64 {
    EXTRA_UNITS * unit.as_f64() * utilisation / prepared.footprint().as_f64()
}

/// WAF on a conventional drive with zero overprovisioning.
fn waf_of(
    path: &Path,
    unit: Bytes,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<f64, Error> {
    let mut prepared = prepare(path, true)?;
    let op = spare(&prepared, unit, UTILISATION);
    let overrides = [format!("device.op={op}"), format!("device.unit={}", unit.0)];
    let stack = Stack::parse("raw:micron2300", &overrides)?.untimed();
    let settings = Settings { utilisation: UTILISATION, seed, ..Settings::default() };
    let record = run(&mut prepared, &stack, &settings, progress)?;
    record.waf_steady.ok_or_else(|| Error::Settings("nothing was written".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_under_a_log_write_less_than_a_drive_without_spare() {
        let options = Options { seed: 1, traces: None };
        let figures = zones(&options, &mut |_| {}).unwrap();
        let ours = |what: &str| {
            let found =
                figures.iter().find(|figure| figure.what == format!("RocksDB, overwrite: {what}"));
            found.unwrap_or_else(|| panic!("no {what} in {figures:?}")).ours
        };
        assert!(ours("zones, WAF") < 1.13, "theirs, with a file system on top");
        assert!((ours("zones, DLWA (drive)") - 1.0).abs() < 0.01);
        assert!(ours("conventional, WAF") > 1.05 * ours("zones, WAF"));
        assert!(ours("times the life of that") > 1.8);
    }
}
