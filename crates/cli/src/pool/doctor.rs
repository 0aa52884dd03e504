//! `thermocline doctor`.

mod device;
mod flash;
mod pool;
mod system;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use thermocline_runtime::Settings;

use super::print;

/// Arguments of `doctor`.
#[derive(Args)]
#[command(after_help = "\
Each line says what was looked at, whether it is well (ok, warn, fail), why, and what can be done about it. A file in the
folder for temporary files is made and removed; nothing else is written.

Example:
  thermocline doctor pool.toml

Exit code: 0 nothing failed, but for what is warned of, such as a group that goes on without a member; 1 something
failed, and the pool could not be made or served like this, or clients would refuse it; 2 wrong arguments.")]
pub struct DoctorArgs {
    /// Settings of the pool; without, only the machine is looked at
    #[arg(value_name = "POOL.toml")]
    settings: Option<PathBuf>,
    /// Print JSON, schema thermocline.doctor/1
    #[arg(long)]
    json: bool,
}

/// The state of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// No problem.
    Ok,
    /// A possible problem: a feature is missing, or one more failure would stop the pool.
    Warn,
    /// The pool or its clients cannot work.
    Fail,
}

/// The result of one check.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    state: State,
    reason: String,
    remedy: Option<String>,
}

impl Finding {
    fn ok(what: &'static str, reason: impl Into<String>) -> Finding {
        Finding { what, state: State::Ok, reason: reason.into(), remedy: None }
    }

    fn warn(what: &'static str, reason: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { what, state: State::Warn, reason: reason.into(), remedy: Some(remedy.into()) }
    }

    fn fail(what: &'static str, reason: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { what, state: State::Fail, reason: reason.into(), remedy: Some(remedy.into()) }
    }
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    /// No check failed.
    ok: bool,
    findings: Vec<Finding>,
}

/// `thermocline doctor`.
pub fn doctor(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let (mut findings, mut asks_for_ublk) = (Vec::new(), false);
    if let Some(path) = &args.settings {
        match Settings::load(path) {
            Ok(settings) => {
                findings.push(Finding::ok("settings", format!("{} is sound", path.display())));
                let moved = settings.notes().iter();
                findings.extend(moved.map(|note| Finding::ok("settings", note.clone())));
                findings.extend(device::examine(&settings));
                findings.extend(
                    settings.each_device().flat_map(|one| flash::examine(&one.device().path)),
                );
                findings.extend(pool::examine(&settings, path));
                findings.extend(system::for_pool(&settings, path));
                asks_for_ublk = settings.serve.ublk;
            }
            Err(error) => {
                let remedy = "`thermocline format --example` explains every key";
                findings.push(Finding::fail("settings", error.to_string(), remedy));
            }
        }
    }
    findings.extend(system::for_clients(asks_for_ublk));
    let ok = findings.iter().all(|finding| finding.state != State::Fail);
    let report = Report { schema: "thermocline.doctor/1", ok, findings };
    print(&match args.json {
        true => serde_json::to_string_pretty(&report)? + "\n",
        false => report.findings.iter().map(line).collect(),
    })?;
    Ok(ExitCode::from(u8::from(!ok)))
}

fn line(finding: &Finding) -> String {
    let state = match finding.state {
        State::Ok => "ok",
        State::Warn => "warn",
        State::Fail => "fail",
    };
    let Finding { what, reason, remedy, .. } = finding;
    let remedy = remedy.iter().map(|remedy| format!("\n{:17}-> {remedy}", "")).collect::<String>();
    format!("{state:<5} {what:<10} {reason}{remedy}\n")
}
