//! `scrub` and `check` of a pool that is served: the server scrubs the pool.

use std::path::Path;
use std::time::Duration;
use std::{fmt, thread};

use anyhow::ensure;
use thermocline_runtime::ScrubEnd;
use thermocline_serve::{
    DamagedPlace, GroupsTold, ScrubPage, Serving, fetch, fetch_scrub, status_socket,
};

use super::{Broken, say};
use crate::interrupt::Interrupt;
use crate::progress::Progress;

/// How often progress is fetched. Chosen.
const TICK: Duration = Duration::from_millis(200);

/// The result of a scrub by a server.
pub struct Scrubbed {
    /// Time and counts of the scrub.
    pub end: ScrubEnd,
    /// Places that it found damaged, at most 100.
    pub damage: Vec<DamagedPlace>,
}

/// Has the server of the pool with the settings `file` scrub the pool. Shows progress, and waits for the end. Ctrl-C
/// stops the scrub, unless it was in progress before.
///
/// # Errors
/// When the server cannot scrub the pool, the scrub was stopped, or Ctrl-C came.
pub fn scrub(file: &Path) -> anyhow::Result<Scrubbed> {
    let socket = status_socket(file);
    let page = sound(fetch_scrub(&socket)?)?;
    ensure!(
        !page.read_only,
        "the pool is served with --read-only, and a scrub repairs; `thermocline stop {}` stops the server",
        file.display()
    );
    let before = page.report.record.last;
    let joined = page.report.record.current.is_some();
    let interrupt = Interrupt::watch()?;
    if joined {
        say(format_args!("a scrub is in progress already: this is its progress"));
    } else {
        interrupt.something_to_clear();
        Serving::connect(&socket)?.scrub()?;
    }
    let mut bar = Progress::default().aloud("scrub");
    loop {
        if interrupt.is_asked() && !joined {
            // The scrub may have ended in between.
            let _ended = Serving::connect(&socket)?.stop_scrub();
        }
        interrupt.check()?;
        let page = sound(fetch_scrub(&socket)?)?;
        let record = page.report.record;
        match record.last.filter(|_| record.current.is_none()) {
            Some(end) if Some(end) != before => return Ok(Scrubbed { end, damage: page.damage }),
            _ => ensure!(record.current.is_some(), "the scrub was stopped before its end"),
        }
        bar.set(page.report.progress.unwrap_or(0.0));
        thread::sleep(TICK);
    }
}

/// The page of a pool that has not failed.
fn sound(page: ScrubPage) -> Result<ScrubPage, Broken> {
    match page.failure {
        Some(failure) => Err(Broken(failure)),
        None => Ok(page),
    }
}

/// The process that serves the pool with the settings `file`.
pub fn server(file: &Path) -> Option<String> {
    let serving = Serving::of(file)?;
    Some(serving.process().map_or("a server".to_owned(), |id| format!("process {id}")))
}

/// The risks of the groups of a served pool.
///
/// # Errors
/// When the server does not answer.
pub fn risks(file: &Path) -> anyhow::Result<Vec<String>> {
    let groups: GroupsTold = serde_json::from_value(fetch(&status_socket(file))?)?;
    Ok(groups.all().filter_map(|(_, standing, _)| standing.risk.clone()).collect())
}

/// Refuses `what` while the pool with the settings `file` is served by `who`.
///
/// # Errors
/// Always, with the commands to use.
pub fn refuse<T>(file: &Path, who: &str, what: impl fmt::Display) -> anyhow::Result<T> {
    let file = file.display();
    anyhow::bail!(
        "{who} serves this pool, and {what} reads the devices themselves: stop the server first (`thermocline stop {file}`)"
    )
}
