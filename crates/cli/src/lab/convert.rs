//! `lab convert`.

use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use thermocline_workload::trace;

/// Arguments of `lab convert`.
#[derive(Args)]
pub struct ConvertArgs {
    /// Block trace of any format `lab list formats` shows; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Where to write `timestamp_us,op,offset_bytes,length_bytes,tenant`; standard output if absent
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
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
    let count = match &args.out {
        Some(path) => {
            let file = std::fs::File::create(path)
                .with_context(|| format!("cannot write {}", path.display()))?;
            let mut out = BufWriter::new(file);
            let count = trace::write_csv(&mut trace, &mut out)?;
            out.flush().with_context(|| format!("cannot write {}", path.display()))?;
            count
        }
        None => trace::write_csv(&mut trace, &mut BufWriter::new(std::io::stdout().lock()))?,
    };
    eprintln!("{count} requests of format {}, {} lines left out", trace.format(), trace.skipped());
    Ok(())
}
