//! The log of `serve` on standard error.

use std::env;
use std::io::{self, IsTerminal as _};

use clap::{Args, ValueEnum};
use tracing_subscriber::filter::LevelFilter;

/// How the log is written.
#[derive(Args)]
pub struct LogArgs {
    /// Format of the log on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    log_format: Format,
    /// Colors of the log; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Color::Auto)]
    color: Color,
    /// Log errors only
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// Log details as well, such as checkpoints
    #[arg(short, long)]
    verbose: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// One line of text for each entry
    Text,
    /// One JSON object on a line for each entry
    Json,
}

#[derive(Clone, Copy, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

impl LogArgs {
    /// Writes entries to standard error from now on.
    pub fn start(&self) {
        let level = match (self.quiet, self.verbose) {
            (true, _) => LevelFilter::ERROR,
            (_, true) => LevelFilter::DEBUG,
            _ => LevelFilter::INFO,
        };
        // A report of a failed write would panic on a closed standard error.
        let log = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_target(false)
            .with_ansi(self.color.is_on())
            .with_writer(io::stderr)
            .log_internal_errors(false);
        match self.log_format {
            Format::Text => log.init(),
            Format::Json => log.json().flatten_event(true).init(),
        }
    }
}

impl Color {
    fn is_on(self) -> bool {
        match self {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                io::stderr().is_terminal() && !refused
            }
        }
    }
}
