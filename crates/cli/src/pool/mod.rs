//! Commands on pools: `format`, `check`, `scrub`, `status`, `map`, `inspect`, `volume`, `device`, `load`, `serve`,
//! `stop`, `record`, `stat`, `doctor`.

pub mod advice;
mod check;
mod device;
mod doctor;
mod export;
mod format;
mod give_up;
mod inspect;
mod lab_run;
mod ledger;
mod load;
mod loader;
mod map;
mod online;
mod open;
mod record;
mod scrub;
mod serve;
mod stamp;
mod stat;
mod status;
mod stop;
mod volume;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

pub use lab_run::LabRun;

/// Exit codes, below the help of every command on pools.
const CODES: &str = "\
Exit code: 0 done, nothing wrong; 1 the pool is damaged, or the device failed; 2 wrong arguments or settings, or no
pool.";

/// Arguments of `device list` and `volume list`.
#[derive(Args)]
pub struct ListArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// Print JSON; the key `schema` names the format
    #[arg(long)]
    json: bool,
}

/// What can be done with a pool.
#[derive(Subcommand)]
pub enum Command {
    /// Make a pool on a file or device
    Format(format::FormatArgs),
    /// Recover a pool on trial, read every written block and report damage; of a served pool, have the server scrub it
    Check(check::CheckArgs),
    /// Compare all data on the media with the checksums; a served pool is scrubbed by its server
    Scrub(scrub::ScrubArgs),
    /// Show data at risk, how full a pool is, and how long opening takes; nothing is written
    Status(status::StatusArgs),
    /// Draw the valid share of each unit of a pool; nothing is written
    Map(map::MapArgs),
    /// Print the structures on the media of a pool; nothing is written
    Inspect(inspect::InspectArgs),
    /// Create, list, resize or delete volumes
    #[command(subcommand)]
    Volume(volume::Command),
    /// List the devices of a pool, or replace a side of a mirrored pair
    #[command(subcommand)]
    Device(device::Command),
    /// Write a trace or a synthetic workload to a volume, in blocks that `check --ledger` recognises
    Load(Box<load::LoadArgs>),
    /// Serve the volumes of a pool as network block devices (NBD), until a signal comes
    Serve(Box<serve::ServeArgs>),
    /// Stop the server of a pool, and wait until it has closed the pool
    Stop(stop::StopArgs),
    /// Record the requests of clients of a served pool as a trace, or stop recording
    Record(record::RecordArgs),
    /// Show rates and write amplification of a served pool, a line per interval
    Stat(stat::StatArgs),
    /// Check the device, the settings and this machine before a pool is made or served, with remedies
    Doctor(doctor::DoctorArgs),
}

/// The pool or its device is broken; the reason is in the text.
#[derive(Debug)]
pub struct Broken(String);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}

/// Executes `command`.
///
/// # Errors
/// Any failure, with a text for the user.
pub fn execute(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Format(args) => format::format(args),
        Command::Check(args) => check::check(args),
        Command::Scrub(args) => scrub::scrub(args),
        Command::Status(args) => status::status(args),
        Command::Map(args) => map::map(args),
        Command::Inspect(args) => inspect::inspect(args),
        Command::Volume(command) => volume::volume(command),
        Command::Device(command) => device::device(command),
        Command::Load(args) => load::load(args),
        Command::Serve(args) => serve::serve(args),
        Command::Stop(args) => stop::stop(args),
        Command::Record(args) => record::record(args),
        Command::Stat(args) => stat::stat(args),
        Command::Doctor(args) => doctor::doctor(args),
    }
}

/// Prints a message on standard error. A closed standard error is ignored.
fn say(text: std::fmt::Arguments<'_>) {
    let _unheard = writeln!(std::io::stderr(), "thermocline: {text}");
}

/// Prints the findings. The exit code is right even if the reader, such as `head`, closes the pipe early.
fn verdict(text: &str, is_well: bool) -> anyhow::Result<ExitCode> {
    let code = ExitCode::from(u8::from(!is_well));
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(code),
    }
}

/// Prints all of `text`. A closed pipe is an error that ends the program quietly.
fn print(text: &str) -> anyhow::Result<ExitCode> {
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
