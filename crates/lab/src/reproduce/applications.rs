//! Generated applications beside traces of the same, at their size.

use std::path::Path;

use tempfile::NamedTempFile;
use thermocline_types::Bytes;
use thermocline_workload::remap::Remap;
use thermocline_workload::synthetic::{self, Generator, Limit, Spec};
use thermocline_workload::{Source, profile::Profile, trace};

use super::{Figure, Options, part};
use crate::{Error, Input, Pacing, Prefill, Prepared, Settings, Stack, run};

/// A trace and the application that is to be like it.
struct Pair {
    trace: &'static str,
    what: &'static str,
    /// The generator. Options fitted to the trace are spelled out; other options have defaults.
    spec: &'static str,
}

/// The traces replayed, as they come with the program.
pub const TRACES: [&str; 7] = [
    "mariadb-tpcc",
    "wiredtiger-ycsb-a",
    "rocksdb-overwrite",
    "cassandra-ycsb-a",
    "memcached-extstore",
    "restic-backup",
    "rocksdb-tiers",
];

/// Options come from the trace: sizes of log and pages, data loaded, update rates of parts of the pages, log per page
/// written and per flush, share of adjacent pages, bytes of a write. Other options have the defaults of the manuals.
/// The options were tuned with the write amplification in view. Memory of the traced databases is not recorded. The
/// working set is the whole volume, including logs and files.
const PAIRS: [Pair; 7] = [
    Pair {
        trace: TRACES[0],
        what: "InnoDB (MariaDB), TPC-C",
        spec: "btree:page=16KiB,data=74%,log=25%,undo=0,pool=25%,load=on,neighbours=on,skew=hotcold:26%:67%,beside=0.2,\
               record=2KiB,clients=2",
    },
    Pair {
        trace: TRACES[1],
        what: "WiredTiger, YCSB A",
        spec: "btree:engine=wiredtiger,page=28KiB,data=30%,log=40%,checkpoint=0.4,pool=30%,dirty=0.7,skew=zipf:0.99,\
               record=1KiB,changes=1,sync=off,reads=0,load=on",
    },
    Pair {
        trace: TRACES[2],
        what: "RocksDB, overwrite",
        spec: "lsm:strategy=levels,keys=20%,memtable=64MiB,fs.extent=32MiB,fs.allocator=roam",
    },
    Pair { trace: TRACES[3], what: "Cassandra, YCSB A", spec: "lsm:memtable=32MiB,fs.extent=8MiB" },
    Pair {
        trace: TRACES[4],
        what: "memcached, extstore",
        spec: "kvcache:small=0,small.writes=0,region=16MiB",
    },
    Pair {
        trace: TRACES[5],
        what: "restic, backups",
        spec: "objects:size=16MiB,spread=0.3,fill=48%,writers=2",
    },
    Pair {
        trace: TRACES[6],
        what: "RocksDB, two tiers",
        spec: "hse:staging=22%,keys=24%,memtable=16MiB,mblock=16MiB,skew=zipf:0.99,tables=2",
    },
];

/// Stacks that both are replayed on.
const STACKS: [&str; 5] =
    ["raw:micron2300", "raw:p5316", "raw:pm9d3", "log:zn540", "tier:p5800x+p5316"];
/// How full the drives are.
const FILLED: f64 = 0.9;
/// Passes over the trace, and over as many bytes of the generator: what loads once, loads in every pass.
const PASSES: u32 = 3;

pub fn applications(
    options: &Options,
    progress: &mut dyn FnMut(f64),
) -> Result<Vec<Figure>, Error> {
    // No point of the table of truth: the traces are ours.
    if options.points {
        return Ok(Vec::new());
    }
    let mut figures = Vec::new();
    let pairs = if options.quick { &PAIRS[..3] } else { &PAIRS[..] };
    let steps = pairs.len() * 2 * STACKS.len();
    for (index, pair) in pairs.iter().enumerate() {
        let mut step = index * 2 * STACKS.len();
        let traced = options.trace(pair.trace);
        let theirs = shape(&mut trace::open(&traced, &trace::Options::default())?)?;
        let generated = generated(pair, &theirs, options.seed)?;
        let ours = shape(&mut trace::open(generated.path(), &trace::Options::default())?)?;
        for (what, value) in SHAPES {
            let what = format!("{}: {what}", pair.what);
            figures.push(Figure::beside(what, Some(value(&theirs)), value(&ours)));
        }
        for stack in STACKS {
            let mut waf = |path: &Path| {
                let mut progress = part(progress, step, steps);
                step += 1;
                waf(path, stack, options.seed, &mut progress)
            };
            let (theirs, ours) = (waf(&traced)?, waf(generated.path())?);
            figures.push(Figure::beside(
                format!("{}: WAF on {stack}", pair.what),
                Some(theirs),
                ours,
            ));
        }
    }
    Ok(figures)
}

/// A quantity of a workload.
type Shape = (&'static str, fn(&Profile) -> f64);

const SHAPES: [Shape; 6] = [
    ("written / distinct bytes", |profile| profile.writes_per_working_set),
    ("share of bytes written in sequence", |profile| profile.sequential_share),
    ("KiB of a write, in the mean", mean_write),
    ("share of bytes in writes above 128 KiB", |profile| large(profile, 128 << 10)),
    ("KiB between two writes of a block, half of them, by powers of two", median_interval),
    ("flushes for each MiB written", |profile| {
        let flushes = profile.operations.iter().find(|kind| kind.operation == "flush");
        flushes.map_or(0.0, |kind| kind.requests as f64)
            / (profile.bytes_written as f64 / 1_048_576.0)
    }),
];

fn mean_write(profile: &Profile) -> f64 {
    let writes = profile.operations.iter().find(|kind| kind.operation == "write");
    writes.map_or(0.0, |kind| kind.bytes as f64 / kind.requests.max(1) as f64 / 1024.0)
}

fn large(profile: &Profile, above: u64) -> f64 {
    let writes = profile.operations.iter().find(|kind| kind.operation == "write");
    let large = writes.map_or(0, |kind| {
        kind.sizes.iter().filter(|size| size.bytes_max > above).map(|size| size.bytes).sum()
    });
    large as f64 / profile.bytes_written.max(1) as f64
}

/// The class of intervals that half of the rewrites are below or in.
fn median_interval(profile: &Profile) -> f64 {
    let (mut sum, all) = (0, profile.rewrites.rewrites);
    let class = profile.rewrites.classes.iter().find(|class| {
        sum += class.blocks;
        2 * sum >= all
    });
    class.map_or(0.0, |class| class.bytes_min as f64 / 1024.0)
}

fn shape(source: &mut dyn Source) -> Result<Profile, Error> {
    Profile::of(source).map_err(Error::from)
}

/// The generator on a volume as large as the trace's working set, writing as much as one pass of it: as a trace, so
/// that both are replayed on equal terms.
fn generated(pair: &Pair, theirs: &Profile, seed: u64) -> Result<NamedTempFile, Error> {
    let span = Bytes(theirs.working_set_bytes >> 20 << 20);
    let limit = Limit::BytesWritten(Bytes(theirs.bytes_written));
    let options = synthetic::Options { seed, ..synthetic::Options::new(span, limit) };
    let mut generator = Generator::new(&pair.spec.parse::<Spec>()?, &options)?;
    let cannot = |error| Error::Settings(format!("no temporary file: {error}"));
    let file = NamedTempFile::with_suffix(".csv").map_err(cannot)?;
    trace::write_csv(&mut generator, &mut file.as_file())?;
    Ok(file)
}

fn waf(path: &Path, stack: &str, seed: u64, progress: &mut dyn FnMut(f64)) -> Result<f64, Error> {
    let stack = Stack::parse(stack, &[])?;
    let granule = stack.profile.mapping_unit.max(Bytes::BLOCK);
    let input = Input::Trace {
        path: path.to_owned(),
        options: trace::Options::default(),
        remap: Remap::Dense,
        loops: PASSES,
        ignore_trims: true,
    };
    let mut prepared = Prepared::new(input, Some(Prefill::FirstTouch), granule, None)?;
    let pacing = Some(Pacing::QueueDepth(32));
    let settings = Settings { utilisation: FILLED, pacing, seed, ..Settings::default() };
    let record = run(&mut prepared, &stack, &settings, progress)?;
    record.waf.ok_or_else(|| Error::Settings("nothing was written".into()))
}
