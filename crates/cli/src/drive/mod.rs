//! `thermocline drive`: what the counters of a real drive show, and predictions of them.

mod calibrate;
mod export;
mod found;
mod list;
mod predict;
mod probe;
mod source;
mod stat;
mod watch;

use clap::Subcommand;
pub use source::{is_stdin, reading};

/// What can be done with the counters of a drive.
#[derive(Subcommand)]
pub enum Command {
    /// Derive spare, erase unit and placement of survivors from a drive's counters: a profile for the lab
    Calibrate(calibrate::CalibrateArgs),
    /// Serve wear and bytes of all drives to Prometheus
    Export(export::DriveExportArgs),
    /// List the NVMe and SATA drives of this machine, with wear and WAF
    List(list::DriveListArgs),
    /// Measure the indirection unit of a drive that does not tell it
    Probe(probe::ProbeArgs),
    /// Tell wear and WAF of a drive, read now or from what nvme-cli or smartctl printed of it
    Stat(stat::DriveStatArgs),
    /// Tell what a drive writes and wears, a line for each interval
    Watch(watch::WatchArgs),
    /// Predict the WAF of a drive's counters, tenth by tenth: a simulated drive under the same workload
    Predict(predict::PredictArgs),
}

/// How to get a log, below the help of `calibrate` and `predict`.
const LOG: &str = "\
The log has the drive's counters again and again, as text, as JSON (-o json), or as CSV with the columns host_bytes,
media_bytes and, if known, erased_bytes. Other lines are passed over. Begin it on an empty drive:
  blkdiscard /dev/nvme0n1
  while sleep 60; do date; nvme fdp stats /dev/nvme0 -e 1; done >> drive.log";

/// Executes `command`.
///
/// # Errors
/// Any failure, with a text for the user.
pub fn execute(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Calibrate(args) => calibrate::calibrate(args),
        Command::Predict(args) => predict::predict(args),
        Command::Export(args) => export::export(args),
        Command::Probe(args) => probe::probe(args),
        Command::List(args) => list::list(args),
        Command::Stat(args) => stat::stat(args),
        Command::Watch(args) => watch::watch(args),
    }
}
