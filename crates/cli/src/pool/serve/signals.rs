//! Signals that stop a server.

use std::fs;
use std::thread;

use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use thermocline_serve::StopHandle;

/// Stops a server at SIGTERM, SIGINT and SIGHUP. A closed terminal sends SIGHUP. If SIGHUP was ignored at the start of
/// the program, it stays ignored, which keeps the effect of `nohup`.
///
/// # Errors
/// When no thread can be started, or signals cannot be handled.
pub fn stop_at_signals(server: StopHandle) -> anyhow::Result<()> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let all = [SIGTERM, SIGINT, SIGHUP];
    let wanted = all.into_iter().filter(|&signal| signal != SIGHUP || !ignores(&status, signal));
    let mut signals = Signals::new(wanted).context("signals cannot be handled")?;
    let forward = move || signals.forever().for_each(|_| server.stop());
    thread::Builder::new().name("thermocline-signals".to_owned()).spawn(forward)?;
    Ok(())
}

/// Whether a process ignores a signal, by its `/proc/PID/status` (`proc_pid_status(5)`).
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nohup_did_is_seen() {
        let status = "Name:\tthermocline\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert!(ignores(status, SIGHUP) && !ignores(status, SIGTERM));
        assert!(!ignores("", SIGHUP), "where nobody tells");
    }
}
