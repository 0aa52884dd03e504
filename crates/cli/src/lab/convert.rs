//! `lab convert`.

use std::cmp::Reverse;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::Args;
use thermocline_lab::Input;
use thermocline_types::Request;
use thermocline_workload::synthetic::Generator;
use thermocline_workload::{Source, trace};

use super::args::{ReplayArgs, SourceArgs};
use super::output::refuse_overwriting;
use crate::file;
use crate::interrupt::Interrupt;
use crate::tenants::SHOWN;

/// Arguments of `lab convert`.
#[derive(Args)]
#[command(after_help = "\
The columns are timestamp_us,op,offset_bytes,length_bytes,tenant, and stream
where files are known: DIRECTORY/FILE. Where the trace tells how many earlier
requests were outstanding, a further column has them (of a flush all, of others
the flushes). The op is R, W, D (trim), Z (write zeroes) or F (flush). Times begin at 0, and requests are widened to whole
sectors of 512 bytes.

Recordings need no file of their own: `blkparse -i sda | thermocline lab convert --trace - --out trace.csv`.

Examples:
  thermocline lab convert --trace postgres-tpcc --out trace.csv
  thermocline lab convert --trace trace.csv --split volumes
  thermocline lab convert --workload lsm:memtable=8MiB --span 1GiB --out lsm.csv
  gzip < trace.csv | thermocline lab convert --trace - | gzip > trace.csv.gz")]
pub struct ConvertArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Where to write the csv [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write every volume of a multi-volume trace to a csv file of its own in this folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "volume"])]
    split: Option<PathBuf>,
}

/// `lab convert`.
pub fn convert(args: &ConvertArgs) -> anyhow::Result<()> {
    match args.source.input(&ReplayArgs::default())? {
        Input::Trace { path, options, .. } => of_trace(&path, &options, args),
        Input::Synthetic { spec, options } => {
            ensure!(args.split.is_none(), "--split is for traces: a generator has one volume");
            let mut generator = Generator::new(&spec, &options)?;
            let count = write(&mut generator, args.out.as_deref())?;
            eprintln!("{count} requests of {spec}");
            Ok(())
        }
    }
}

fn of_trace(path: &Path, options: &trace::Options, args: &ConvertArgs) -> anyhow::Result<()> {
    let mut trace = trace::open(path, options)?;
    if let Some(folder) = &args.split {
        return split(&mut trace, folder);
    }
    args.out.as_deref().map_or(Ok(()), |out| refuse_overwriting(path, out))?;
    let count = write(&mut trace, args.out.as_deref())?;
    eprintln!("{count} requests of format {}", trace.format());
    tell(&trace);
    Ok(())
}

/// Prints the notes about reading the trace, one a line.
fn tell(trace: &trace::Trace) {
    trace.notes().iter().for_each(|note| eprintln!("note: {note}"));
}

/// Writes all requests of `source` to `out`, or to standard output. An incomplete file is removed.
fn write(source: &mut dyn Source, out: Option<&Path>) -> anyhow::Result<u64> {
    match out {
        Some(path) => {
            let interrupt = Interrupt::watch()?;
            interrupt.something_to_clear();
            let mut source = Until { source, interrupt: &interrupt };
            file::write_with(path, |mut out| {
                let count = trace::write_csv(&mut source, &mut out)?;
                interrupt.check()?;
                Ok(count)
            })
        }
        None => Ok(trace::write_csv(source, &mut BufWriter::new(std::io::stdout().lock()))?),
    }
}

/// A source that ends at an interrupt.
struct Until<'a> {
    source: &'a mut dyn Source,
    interrupt: &'a Interrupt,
}

impl Source for Until<'_> {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), trace::Error> {
        batch.clear();
        if self.interrupt.is_asked() { Ok(()) } else { self.source.fill(batch) }
    }

    fn fraction_done(&self) -> f64 {
        self.source.fraction_done()
    }

    fn directories(&self) -> Vec<String> {
        self.source.directories()
    }
}

fn split(trace: &mut trace::Trace, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let interrupt = Interrupt::watch()?;
    interrupt.something_to_clear();
    let parts = trace::split_csv(trace, folder, &|| interrupt.is_asked())?;
    let Some(parts) = parts else { return interrupt.check() };
    let files = parts.len();
    let mut largest = parts;
    if files > SHOWN {
        largest.sort_by_key(|part| Reverse(part.requests));
        largest.truncate(SHOWN);
    }
    for part in &largest {
        eprintln!("{}: {} requests of volume {}", part.path.display(), part.requests, part.volume);
    }
    if files > SHOWN {
        eprintln!("{} more files of volumes with fewer requests", files - SHOWN);
    }
    tell(trace);
    Ok(())
}
