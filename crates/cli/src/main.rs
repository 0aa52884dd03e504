//! `thermocline`: the command line.
//!
//! Exit codes: 0 success; 1 a defect, a damaged pool or a failure of the machine (files that cannot be written); 2
//! wrong arguments or input, with the reason on standard error; 130 interrupted by Ctrl-C.

mod drive;
mod file;
mod fleet;
mod handles;
mod help;
mod interrupt;
mod lab;
mod manuals;
mod pool;
mod progress;
mod table;
mod tenants;
mod waterfall;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use thermocline_engine::OpenError;
use thermocline_format::VERSION as FORMAT;
use thermocline_runtime::DriverError;
use thermocline_serve::Build;
use thermocline_workload::trace::{self, BuiltIn};

/// With the system's allocator, chunks of a log cost a tenth of the run time: a chunk lives as long as its blocks are
/// valid, so chunks are freed in another order than allocated.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// This program.
const BUILD: Build =
    Build { version: env!("CARGO_PKG_VERSION"), commit: env!("THERMOCLINE_COMMIT") };

/// The answer to `--version`.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let Build { version, commit } = BUILD;
    format!("{version} (commit {commit}, pool format {FORMAT})")
});

/// Puts data on flash so that the NAND is written about once per host write, and tells what that will cost before you
/// buy a drive.
#[derive(Parser)]
#[command(
    name = "thermocline",
    version = VERSION.as_str(),
    about,
    max_term_width = 110,
    after_help = "\
Begin with one of these, and `thermocline lab run --help`:
  thermocline lab list devices
  thermocline lab analyze --trace postgres-tpcc
  thermocline format --example > pool.toml
  thermocline lab compare --trace postgres-tpcc \\
    --stack raw:p5316 --stack raw:pm9d3 --report compare.html"
)]
struct Cli {
    /// Tables as wide as their cells, on a terminal too
    #[arg(long, global = true, help_heading = "Output")]
    wide: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Simulate drives: write amplification, lifetime and speed of a workload, yours or a synthetic one
    #[command(subcommand)]
    Lab(Box<lab::Command>),
    /// Calibrate a simulated drive by the counters of a real one, and predict them
    #[command(subcommand)]
    Drive(Box<drive::Command>),
    /// Forecast which drives of a fleet wear out before their service ends, from their counters
    Fleet(fleet::FleetArgs),
    /// Write manual pages and completions of shells
    #[command(hide = true)]
    Manuals(manuals::ManualArgs),
    #[command(flatten)]
    Pool(pool::Command),
}

fn main() -> ExitCode {
    let arguments = help::flowing(Cli::command());
    let arguments = arguments.try_get_matches().unwrap_or_else(|error| misspelt(&error));
    let Cli { wide, command } =
        Cli::from_arg_matches(&arguments).unwrap_or_else(|error| error.exit());
    table::set_wide(wide);
    let done = match command {
        Command::Lab(command) => lab::execute(*command).map(|()| ExitCode::SUCCESS),
        Command::Drive(command) => drive::execute(&command).map(|()| ExitCode::SUCCESS),
        Command::Fleet(args) => fleet::fleet(&args).map(|()| ExitCode::SUCCESS),
        Command::Manuals(args) => {
            manuals::write(help::flowing(Cli::command()), &args).map(|()| ExitCode::SUCCESS)
        }
        Command::Pool(command) => pool::execute(&command),
    };
    match done {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Ignore a closed standard error: the exit code still reports the failure.
            let _ = writeln!(std::io::stderr(), "thermocline: {}", pool::advice::told(&error));
            ExitCode::from(exit_code(&error))
        }
    }
}

/// Ends the program at wrong arguments. A command of the lab without `lab`, a command on pools after `lab`, and a trace
/// without `--trace` are answered with the command that was meant.
fn misspelt(error: &clap::Error) -> ! {
    let typed: Vec<String> = std::env::args().skip(1).collect();
    let kind = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => ContextKind::InvalidSubcommand,
    };
    let name = match error.get(kind) {
        Some(ContextValue::String(name)) => name.as_str(),
        _ => error.exit(),
    };
    if typed.first().is_some_and(|first| first == "lab") && kind == ContextKind::InvalidArg {
        without_trace(error, &typed, name);
    }
    let all = Cli::command();
    let lab = all.find_subcommand("lab").expect("it is a command");
    let meant = match typed.split_first() {
        Some((first, _)) if first == name && lab.find_subcommand(name).is_some() => {
            format!("lab {}", typed.join(" "))
        }
        Some((first, rest)) if first == "lab" && all.find_subcommand(name).is_some() => {
            rest.join(" ")
        }
        _ => error.exit(),
    };
    let kind = if meant.starts_with("lab ") { "the lab" } else { "pools" };
    let _ = writeln!(
        std::io::stderr(),
        "thermocline: `{name}` is a command of {kind}. You meant: thermocline {meant}"
    );
    std::process::exit(2)
}

/// Ends the program at the word `name` of the command of the lab `typed`. If a trace has that name, prints the command
/// with `--trace`.
fn without_trace(error: &clap::Error, typed: &[String], name: &str) -> ! {
    if BuiltIn::named(name.as_ref()).is_none() && !std::path::Path::new(name).is_file() {
        error.exit();
    }
    let option =
        |word: &String| if word == name { format!("--trace {name}") } else { word.clone() };
    let meant: Vec<String> = typed.iter().map(option).collect();
    let _ = writeln!(
        std::io::stderr(),
        "thermocline: `{name}` is a trace, which --trace names. You meant: thermocline {}",
        meant.join(" ")
    );
    std::process::exit(2)
}

/// Whether the reader closed the pipe, as in `thermocline lab list devices | head`. A closed pipe is no failure.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    failed_write(error) == Some(std::io::ErrorKind::BrokenPipe)
}

fn exit_code(error: &anyhow::Error) -> u8 {
    let defect = matches!(error.downcast_ref(), Some(thermocline_lab::Error::Accounting(_)));
    let failed = |error: &DriverError| {
        !matches!(error, DriverError::Open(OpenError::NoRoom { .. } | OpenError::NoFreeUnit))
    };
    let broken = error.downcast_ref().is_some_and(failed) || error.is::<pool::Broken>();
    if error.is::<interrupt::Interrupted>() {
        return interrupt::CODE;
    }
    if defect || broken || failed_write(error).is_some() { 1 } else { 2 }
}

/// The kind of a failed write of output. Failed reads of input are typed errors of the libraries instead.
fn failed_write(error: &anyhow::Error) -> Option<std::io::ErrorKind> {
    if let Some(io) = error.downcast_ref::<std::io::Error>() {
        return Some(io.kind());
    }
    match error.downcast_ref::<trace::Error>()?.kind() {
        trace::ErrorKind::Write(kind) => Some(kind),
        _ => None,
    }
}
