//! `thermocline record`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use thermocline_runtime::Settings;
use thermocline_serve::{Serving, fetch, status_socket};

use super::{CODES, print};

/// Arguments of `record`.
#[derive(Args)]
#[command(after_help = format!("\
The trace is as that of `serve --record-trace`: no data, packed if its name ends in .gz or .zst. A file that exists stays
as it is, and the new one has a number. The user of the server writes it.

Examples:
  thermocline record pool.toml today.csv.zst
  thermocline record pool.toml --stop

{CODES}"))]
pub struct RecordArgs {
    /// Settings of the pool, which is served
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// The trace to be written
    #[arg(value_name = "FILE", required_unless_present = "stop", conflicts_with = "stop")]
    file: Option<PathBuf>,
    /// End the recording
    #[arg(long)]
    stop: bool,
}

/// `thermocline record`.
pub fn record(args: &RecordArgs) -> anyhow::Result<ExitCode> {
    Settings::load(&args.settings)?;
    let serving =
        || Serving::of(&args.settings).context("the pool is not served (`thermocline serve`)");
    let Some(file) = &args.file else {
        serving()?.record_no_more()?;
        return print("nothing is recorded any more\n");
    };
    serving()?.record(&std::path::absolute(file)?)?;
    let recording = fetch(&status_socket(&args.settings))?["recording"].as_str().map(str::to_owned);
    let path = recording.unwrap_or_else(|| file.display().to_string());
    print(&format!("requests are recorded in {path}\n"))
}
