//! Tests of the command line: each runs the program, and reads its output and files.

mod advice;
mod analysis;
mod backups;
mod datasheet;
mod device_changes;
mod doctor;
mod drives;
mod errors;
mod forgetful;
mod formats;
mod help;
mod interrupt;
mod jobs;
mod listings;
mod log_layer;
mod outputs;
mod placement;
mod pool;
mod power;
mod power_cuts;
mod programs;
mod readme;
mod records;
mod script;
mod serve;
mod serve_bare;
mod serve_bounds;
mod serve_clients;
mod serve_daemon;
mod serve_damage;
mod serve_files;
mod serve_filesystem;
mod serve_full;
mod serve_fuse;
mod serve_health;
mod serve_hostile;
mod serve_kill;
mod serve_live_page;
mod serve_log;
mod serve_metrics;
mod serve_mirror;
mod serve_mistakes;
mod serve_postgres;
mod serve_raid;
mod serve_record;
mod serve_scrubs;
mod serve_settings;
mod serve_snapshots;
mod serve_totals;
mod serve_volumes;
mod specs;
mod tco;
mod upgrades;
mod whatif;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The output of a finished command.
struct Done {
    code: i32,
    out: String,
    err: String,
}

impl Done {
    /// Standard output of a command that must have succeeded.
    #[track_caller]
    fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}", self.err);
        self.out
    }

    /// Standard output of a successful command, as JSON.
    #[track_caller]
    fn json(self) -> Value {
        serde_json::from_str(&self.ok()).expect("JSON on standard output")
    }

    /// The error text of a command that must have failed with `code`.
    #[track_caller]
    fn refused(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        assert_eq!(self.out, "", "nothing is given out beside an error");
        self.err
    }
}

/// `thermocline lab ARGUMENTS`, words separated by blanks, in `folder`.
fn lab_in(folder: &Path, arguments: &str) -> Done {
    let done = command(folder, arguments).output().expect("the program starts");
    Done {
        code: done.status.code().expect("no signal ends the program"),
        out: String::from_utf8(done.stdout).expect("UTF-8"),
        err: String::from_utf8(done.stderr).expect("UTF-8"),
    }
}

fn command(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thermocline"));
    command.arg("lab").args(arguments.split_whitespace()).current_dir(folder).stdin(Stdio::null());
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// The same beside the traces that ship with the repository, in `crates/workload/testdata`.
fn lab(arguments: &str) -> Done {
    lab_in(&repository(), arguments)
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for the test")
}

fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    std::fs::write(folder.join(name), content).expect("writable");
}

/// Pseudo-random numbers from 0 to below `below`, the same at every call.
fn numbers(below: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(1_u64), |x| {
        Some(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1))
    })
    .map(move |x| (x >> 33) % below)
}
