//! `lab convert`.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use thermocline_workload::trace;

use super::output::refuse_overwriting;
use crate::file;

/// Arguments of `lab convert`.
#[derive(Args)]
#[command(after_help = "\
The columns are timestamp_us,op,offset_bytes,length_bytes,tenant. The op is R,
W, D (trim), Z (write zeroes) or F (flush). Times begin at 0, and requests are
widened to whole sectors of 512 bytes.

Recordings need no file of their own: `blkparse -i sda | thermocline lab convert --trace - --out trace.csv`.

Examples:
  thermocline lab convert --trace postgres-tpcc --out trace.csv
  thermocline lab convert --trace trace.csv --split volumes
  gzip < trace.csv | thermocline lab convert --trace - | gzip > trace.csv.gz")]
pub struct ConvertArgs {
    /// Block trace of any format `lab list formats` shows, or one that comes with the program (`lab list traces`); `-`
    /// reads standard input
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Where to write the csv [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write every volume of a multi-volume trace to a csv file of its own in this folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "volume"])]
    split: Option<PathBuf>,
    /// Trace format, where detection does not settle it
    #[arg(long, value_name = "NAME")]
    format: Option<trace::Format>,
    /// Leave out lines that cannot be read
    #[arg(long)]
    skip_bad: bool,
    /// Only the requests of this volume
    #[arg(long, value_name = "NAME")]
    volume: Option<String>,
}

/// `lab convert`.
pub fn convert(args: &ConvertArgs) -> anyhow::Result<()> {
    let options = trace::Options {
        format: args.format,
        skip_bad: args.skip_bad,
        volume: args.volume.clone(),
    };
    let mut trace = trace::open(&args.trace, &options)?;
    if let Some(folder) = &args.split {
        return split(&mut trace, folder);
    }
    let count = match &args.out {
        Some(path) => {
            refuse_overwriting(&args.trace, path)?;
            file::write_with(path, |mut out| Ok(trace::write_csv(&mut trace, &mut out)?))?
        }
        None => trace::write_csv(&mut trace, &mut BufWriter::new(std::io::stdout().lock()))?,
    };
    let skipped = trace.skipped();
    let bad = if skipped > 0 { format!(", {skipped} lines left out") } else { String::new() };
    eprintln!("{count} requests of format {}{bad}", trace.format());
    Ok(())
}

fn split(trace: &mut trace::Trace, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for part in trace::split_csv(trace, folder)? {
        eprintln!("{}: {} requests of volume {}", part.path.display(), part.requests, part.volume);
    }
    Ok(())
}
