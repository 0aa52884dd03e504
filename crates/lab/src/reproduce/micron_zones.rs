//! LSM stores on one drive twice: conventional without overprovisioning, and as zones under the log.

use std::path::Path;

use thermocline_record::RunRecord;
use thermocline_types::Bytes;
use thermocline_workload::remap::Remap;
use thermocline_workload::trace;

use super::micron_size::range;
use super::point::{MICRON, Reference};
use super::{Figure, Options, part};
use crate::{Error, Input, Prepared, Settings, Stack, run};

/// What the workload addresses, as a share of the media of either drive: what the log can hold beside its reserve in
/// as few zones as the traces fill.
const FILLED: f64 = 0.88;
/// Zones, and superblocks of the conventional drive.
const UNIT: Bytes = Bytes::mib(4);
/// Units of the conventional drive beyond the capacity that it exports: open for host and relocation, reserve, one to
/// spare.
const EXTRA_UNITS: u64 = 5;

/// The traces replayed, as they come with the program, and how often.
const TRACES: [&str; 2] = ["cassandra-ycsb-a", "rocksdb-overwrite"];
const LOOPS: u32 = 12;

/// Write amplification of the conventional drive.
const CONVENTIONAL: Reference =
    Reference::new(MICRON, "LSM store, conventional drive, no overprovisioning: WAF", "ratio");
/// The same of zones.
pub const ZONED: Reference =
    Reference::new(MICRON, "LSM store, the same drive zoned: WAF", "ratio");
const LIFE: Reference = Reference::new(MICRON, "zoned against conventional: life", "times");
const PACKED: Reference =
    Reference::new(MICRON, "zone map: written share of zones in use", "share");

/// Published values of a workload.
struct Theirs {
    conventional: f64,
    zones: f64,
    life: f64,
    /// How far the zones in use were written.
    packed: f64,
}

/// Traces, each with the published workload that the trace represents.
const CASES: [(&str, &str, Theirs); 2] = [
    (
        TRACES[0],
        "Cassandra, YCSB A",
        Theirs { conventional: 2.68, zones: 1.13, life: 2.4, packed: 0.952 },
    ),
    (
        TRACES[1],
        "RocksDB, overwrite",
        Theirs { conventional: 3.09, zones: 1.13, life: 2.7, packed: 0.952 },
    ),
];

/// Which of the two drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drive {
    Conventional,
    Zones,
}

/// Whether the drive learns what the file system deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trims {
    Obeyed,
    Ignored,
}

impl Trims {
    const BOTH: [Trims; 2] = [Trims::Obeyed, Trims::Ignored];

    fn name(self) -> &'static str {
        match self {
            Trims::Obeyed => "trims obeyed",
            Trims::Ignored => "trims ignored",
        }
    }
}

/// The same drive twice, each obeying trims and ignoring them; then an LSM store of the document's size.
pub fn zones(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    // What is of the document's size takes ten times as long as a trace.
    let steps = CASES.len() + 10;
    for (index, (trace, name, theirs)) in CASES.into_iter().enumerate() {
        let mut progress = part(progress, index, steps);
        let four = Four::measure(&options.trace(trace), options.seed, &mut progress)?;
        figures.extend(four.figures(name, &theirs)?);
    }
    let begun = CASES.len() as f64 / steps as f64;
    figures.extend(range(options, &mut |share| progress(begun + share * (1.0 - begun)))?);
    Ok(figures)
}

/// Records of one workload on both drives, by [`Trims::BOTH`].
struct Four {
    conventional: [RunRecord; 2],
    zones: [RunRecord; 2],
}

impl Four {
    fn measure(path: &Path, seed: u64, progress: &mut dyn FnMut(f64)) -> Result<Four, Error> {
        let mut step = 0;
        let mut measure = |drive, trims| {
            step += 1;
            record(path, drive, trims, seed, &mut part(progress, step - 1, 4))
        };
        let mut both = |drive| -> Result<[RunRecord; 2], Error> {
            Ok([measure(drive, Trims::Obeyed)?, measure(drive, Trims::Ignored)?])
        };
        Ok(Four { conventional: both(Drive::Conventional)?, zones: both(Drive::Zones)? })
    }

    fn figures(&self, name: &str, theirs: &Theirs) -> Result<Vec<Figure>, Error> {
        let mut figures = Vec::new();
        let named = |what: String| format!("{name}: {what}");
        let all = [
            ("conventional", &self.conventional, theirs.conventional, CONVENTIONAL),
            ("zones", &self.zones, theirs.zones, ZONED),
        ];
        for (drive, records, theirs, reference) in all {
            let what = named(format!("{drive}, overprovisioning in effect"));
            figures.push(Figure::ours(what, spare(&records[0])));
            for (record, trims) in records.iter().zip(Trims::BOTH) {
                let what = named(format!("{drive}, {}, WAF", trims.name()));
                figures.push(Figure::new(what, theirs, waf(record)?, reference));
            }
        }
        for (conventional, its) in self.conventional.iter().zip(Trims::BOTH) {
            for (zones, log) in self.zones.iter().zip(Trims::BOTH) {
                let ours = waf(conventional)? / waf(zones)?;
                figures.push(if its == log {
                    let what = named(format!("times the life, equal terms, {}", its.name()));
                    Figure::new(what, theirs.life, ours, LIFE)
                } else {
                    let terms = format!("conventional {}, zones {}", its.name(), log.name());
                    let what = named(format!("times the life, unequal terms, {terms}"));
                    Figure::beside(what, Some(theirs.life), ours)
                });
            }
        }
        for (record, trims) in self.zones.iter().zip(Trims::BOTH) {
            let what = named(format!("written share of zones in use, {}", trims.name()));
            figures.push(Figure::new(what, theirs.packed, packed(record), PACKED));
        }
        Ok(figures)
    }
}

/// The record of a trace on one of the two drives.
fn record(
    path: &Path,
    drive: Drive,
    trims: Trims,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<RunRecord, Error> {
    let input = Input::Trace {
        path: path.to_owned(),
        options: trace::Options::default(),
        remap: Remap::Dense,
        loops: LOOPS,
        ignore_trims: trims == Trims::Ignored,
    };
    let mut prepared = Prepared::new(input, None, Bytes::BLOCK, None)?;
    let units = (prepared.footprint().as_f64() / FILLED / UNIT.as_f64()).ceil() as u64;
    let (stack, exported) = match drive {
        Drive::Conventional => ("raw:micron2300", units - EXTRA_UNITS),
        Drive::Zones => ("log:micron2300", units),
    };
    let stack = Stack::parse(stack, &overrides(drive, units))?.untimed();
    let capacity = Some(Bytes(exported * UNIT.0));
    run(&mut prepared, &stack, &Settings { capacity, seed, ..Settings::default() }, progress)
}

/// Overrides that turn a Micron 2300 with `units` units of media into `drive`.
fn overrides(drive: Drive, units: u64) -> Vec<String> {
    let mut all = vec![format!("device.unit={}", UNIT.0)];
    match drive {
        Drive::Conventional => {
            let extra = EXTRA_UNITS as f64 / (units - EXTRA_UNITS) as f64;
            all.push(format!("device.op={extra}"));
        }
        Drive::Zones => {
            all.extend(["device.kind=zns", "device.op=0.0"].map(str::to_owned));
            let zone = ["zone_size", "zone_capacity"];
            all.extend(zone.map(|key| format!("device.zns.{key}={}", UNIT.0)));
            all.extend(["max_open", "max_active"].map(|key| format!("device.zns.{key}=0")));
            // As the mapping layer of the document: nothing but host writes apart from survivors.
            all.extend(["pool.placement=sepgc", "pool.victim=cost-benefit"].map(str::to_owned));
        }
    }
    all
}

fn waf(record: &RunRecord) -> Result<f64, Error> {
    record.lasting.waf.ok_or_else(|| Error::Settings("nothing was written".into()))
}

/// Media beyond what the workload addresses, as a share of that.
fn spare(record: &RunRecord) -> f64 {
    record.device.media_bytes as f64 / record.workload.span_bytes as f64 - 1.0
}

/// How far the zones in use are written, in the mean.
fn packed(record: &RunRecord) -> f64 {
    let zones = record.units.fill.iter().map(|&fill| f64::from(fill));
    let (count, sum) =
        zones.filter(|&fill| fill > 0.0).fold((0, 0.0), |(n, sum), x| (n + 1, sum + x));
    sum / f64::from(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The gain from trims is no gain from zones: compare only drives that both obey or both ignore trims.
    #[test]
    fn zones_and_a_conventional_drive_are_compared_on_equal_terms() {
        let four = Four::measure(Path::new(TRACES[1]), 1, &mut |_| {}).unwrap();
        for (conventional, zones) in four.conventional.iter().zip(&four.zones) {
            let terms = |record: &RunRecord| {
                let (device, workload) = (&record.device, &record.workload);
                (device.media_bytes, device.unit_bytes, workload.span_bytes)
            };
            assert_eq!(terms(conventional), terms(zones), "media, unit, volume");
            let load = |record: &RunRecord| (record.host_bytes_written, record.host_bytes_trimmed);
            assert_eq!(load(conventional), load(zones), "writes and trims");
        }
        assert!(four.conventional[0].host_bytes_trimmed > 0);
        assert_eq!(four.conventional[1].host_bytes_trimmed, 0);
        let life = |trims: usize| {
            waf(&four.conventional[trims]).unwrap() / waf(&four.zones[trims]).unwrap()
        };
        let (obeyed, ignored) = (life(0), life(1));
        assert!((0.95..1.05).contains(&obeyed), "zones alone gain nothing: {obeyed}");
        assert!(
            (0.8..1.0).contains(&ignored),
            "and cost where the log knows of no deletion: {ignored}"
        );
        assert!(packed(&four.zones[0]) > 0.952);
    }
}
