//! `thermocline`: the command line.
//!
//! Exit codes: 0 success; 1 a defect or a failure of the machine (files that cannot be written); 2 wrong arguments or
//! input, with the reason on standard error.

mod lab;
mod progress;
mod table;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Puts data on flash so that the NAND is written about once per host write, and tells what that will cost before you
/// buy a drive.
#[derive(Parser)]
#[command(name = "thermocline", version, about, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Simulate drives: write amplification, lifetime and speed of a workload, yours or a synthetic one
    #[command(subcommand)]
    Lab(lab::Command),
}

fn main() -> ExitCode {
    let Cli { command: Command::Lab(command) } = Cli::parse();
    match lab::execute(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("thermocline: {error:#}");
            ExitCode::from(exit_code(&error))
        }
    }
}

/// What the reader of our output does not want any more is no failure, as in `thermocline lab list | head`.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}

fn exit_code(error: &anyhow::Error) -> u8 {
    let ours = error.downcast_ref::<thermocline_lab::Error>();
    let defect = matches!(ours, Some(thermocline_lab::Error::Accounting(_)));
    let machine = ours.is_none() && error.chain().any(|cause| cause.is::<std::io::Error>());
    if defect || machine { 1 } else { 2 }
}
