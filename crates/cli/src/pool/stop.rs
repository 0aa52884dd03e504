//! `thermocline stop`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use thermocline_runtime::Settings;
use thermocline_serve::Serving;

use super::{CODES, print};

/// Arguments of `stop`.
#[derive(Args)]
#[command(after_help = format!("\
The server gets SIGTERM: it answers the requests of its clients and closes the pool. The command returns when the server
has ended. A second `thermocline stop` ends the wait for clients.

Example:
  thermocline stop pool.toml

{CODES}"))]
pub struct StopArgs {
    /// Settings of the pool, which is served
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
}

/// `thermocline stop`.
pub fn stop(args: &StopArgs) -> anyhow::Result<ExitCode> {
    Settings::load(&args.settings)?;
    let shown = args.settings.display();
    let serving = Serving::of(&args.settings)
        .with_context(|| format!("{shown}: the pool is not served, so there is nothing to stop"))?;
    let id = serving.process().with_context(|| format!("{serving} has no process id"))?;
    let server = Pid::from_raw(id).context("a process id is positive")?;
    let signalled = pidfd_open(server, PidfdFlags::empty())
        .and_then(|server| pidfd_send_signal(&server, Signal::TERM).map(|()| server));
    let server = match signalled {
        // The server ended in between.
        Err(Errno::SRCH) => return print(&format!("stopped process {id}\n")),
        signalled => signalled.with_context(|| format!("process {id} cannot be stopped"))?,
    };
    // An open connection would delay the stop.
    drop(serving);
    retry_on_intr(|| poll(&mut [PollFd::new(&server, PollFlags::IN)], None))?;
    print(&format!("stopped process {id}\n"))
}
