//! The scrubs of a served pool: a record beside the settings, and a report for `status` and metrics.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use thermocline_format::PoolId;
use thermocline_runtime::{
    ScrubEnd, ScrubFindings, ScrubRecord, ScrubSchedule, ScrubUnderWay, Settings,
};

use crate::log::Log;
use crate::{Error, date, sockets};

/// End of the name of the file that has the record.
const RECORD: &str = "scrub.json";
const SCHEMA: &str = "thermocline.scrubs/1";

/// The file as it is.
#[derive(Serialize, Deserialize)]
struct Stored {
    schema: String,
    pool: String,
    #[serde(flatten)]
    record: ScrubRecord,
}

/// Stores records on a thread of its own, so that no client waits for the file.
pub(crate) struct ScrubRecorder {
    records: Sender<ScrubRecord>,
    thread: JoinHandle<()>,
}

impl ScrubRecorder {
    /// The schedule in the settings, if any, and a thread that stores the records of `pool`.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(
        settings: &Settings,
        pool: PoolId,
        log: &Log,
    ) -> Result<Option<(ScrubSchedule, ScrubRecorder)>, Error> {
        let Some(every) = settings.pool.scrub_every() else { return Ok(None) };
        let path = sockets::beside(settings.file(), RECORD);
        let record = match load(&path, pool) {
            Ok(record) => record,
            Err(error) => {
                log.warn(format_args!("{error}: the pool counts as never scrubbed"));
                ScrubRecord::default()
            }
        };
        let (records, receiver) = channel();
        let log = log.clone();
        let run = move || {
            for record in receiver {
                if let Err(error) = store(&path, pool, record) {
                    let path = path.display();
                    log.warn(format_args!(
                        "{path} cannot be written: {error}: a restart will repeat the scrub"
                    ));
                }
            }
        };
        let thread = thread::Builder::new().name("thermocline-scrubs".to_owned()).spawn(run)?;
        Ok(Some((ScrubSchedule { every, record }, ScrubRecorder { records, thread })))
    }

    /// The queue for records, and the thread, which ends when all senders of the queue are dropped.
    pub fn into_parts(self) -> (Sender<ScrubRecord>, JoinHandle<()>) {
        (self.records, self.thread)
    }
}

/// Reads the record of `pool`. Without a file, or with a record of another pool, `pool` counts as never scrubbed.
fn load(path: &Path, pool: PoolId) -> Result<ScrubRecord, Error> {
    let shown = path.display();
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ScrubRecord::default()),
        Err(error) => return Err(Error::Refused(format!("{shown} cannot be read: {error}"))),
    };
    let stored: Stored = serde_json::from_str(&text)
        .map_err(|error| Error::Refused(format!("{shown} is no record of scrubs: {error}")))?;
    let own = stored.schema == SCHEMA && stored.pool == pool.to_string();
    Ok(if own { stored.record } else { ScrubRecord::default() })
}

/// Replaces the file as a whole.
fn store(path: &Path, pool: PoolId, record: ScrubRecord) -> io::Result<()> {
    let stored = Stored { schema: SCHEMA.to_owned(), pool: pool.to_string(), record };
    let text = format!("{}\n", serde_json::to_string_pretty(&stored)?);
    let new = PathBuf::from(format!("{}.new", path.display()));
    let write = || {
        let mut file = fs::File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write()
}

/// The report of the scrubs of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Seconds from the end of a scrub to the begin of the next one.
    pub every_seconds: u64,
    /// When the next scrub is due, in seconds since 1970; absent during a scrub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_unix_seconds: Option<u64>,
    /// Share of the units that the scrub in progress has passed; absent without a scrub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// The last scrub, and the one in progress.
    #[serde(flatten)]
    pub record: ScrubRecord,
}

impl ScrubReport {
    /// Report on a pool of `units` units.
    #[must_use]
    pub fn new(schedule: &ScrubSchedule, units: u32) -> ScrubReport {
        let ScrubSchedule { every, record } = *schedule;
        let progress = |one: ScrubUnderWay| f64::from(one.next_unit) / f64::from(units.max(1));
        ScrubReport {
            every_seconds: every.as_secs(),
            due_unix_seconds: record.current.is_none().then(|| record.due(every)),
            progress: record.current.map(progress),
            record,
        }
    }

    /// Report on an unserved pool of `units` units, from the record beside the settings. `None` without a schedule.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn at_rest(
        settings: &Settings,
        pool: PoolId,
        units: u32,
    ) -> Result<Option<ScrubReport>, Error> {
        let Some(every) = settings.pool.scrub_every() else { return Ok(None) };
        let record = load(&sockets::beside(settings.file(), RECORD), pool)?;
        Ok(Some(ScrubReport::new(&ScrubSchedule { every, record }, units)))
    }

    /// Damaged places found by the scrub in progress, or else by the last one.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        let ScrubRecord { last, current } = self.record;
        let current = current.map_or(0, |one| one.found.damaged);
        if current > 0 { current } else { last.map_or(0, |one| one.found.damaged) }
    }
}

fn day(unix_seconds: u64) -> String {
    date(SystemTime::UNIX_EPOCH + Duration::from_secs(unix_seconds))
}

/// Lines for the last, the current and the next scrub.
impl fmt::Display for ScrubReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(last) = &self.record.last {
            writeln!(f, "last scrub: {}", ended(last))?;
        }
        if let Some((one, progress)) = self.record.current.zip(self.progress) {
            let (began, share) = (day(one.began_unix_seconds), progress * 100.0);
            let found = findings(&one.found);
            writeln!(f, "scrub under way: began {began}, {share:.0} % of the units, {found}")?;
        }
        match self.due_unix_seconds {
            Some(0) => writeln!(f, "next scrub: is due"),
            Some(due) => writeln!(f, "next scrub: {}", day(due)),
            None => Ok(()),
        }
    }
}

/// The end and the findings of a scrub, in words.
#[must_use]
pub fn ended(end: &ScrubEnd) -> String {
    format!("ended {}, {}", day(end.ended_unix_seconds), findings(&end.found))
}

fn findings(found: &ScrubFindings) -> String {
    let ScrubFindings { blocks, damaged, mended } = found;
    format!(
        "{blocks} blocks compared, {damaged} places damaged, {mended} repaired from other members"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_stored_and_is_of_its_pool_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool.scrub.json");
        let (pool, other) = (PoolId([1; 16]), PoolId([2; 16]));
        assert_eq!(load(&path, pool).expect("no file"), ScrubRecord::default());
        let found = ScrubFindings { blocks: 1000, damaged: 2, mended: 3 };
        let record = ScrubRecord {
            last: Some(ScrubEnd { began_unix_seconds: 5, ended_unix_seconds: 86_400, found }),
            current: Some(ScrubUnderWay { began_unix_seconds: 90_000, next_unit: 7, found }),
        };
        store(&path, pool, record).expect("a file");
        assert_eq!(load(&path, pool).expect("a record"), record);
        assert_eq!(load(&path, other).expect("of another pool"), ScrubRecord::default());
        fs::write(&path, "{").expect("a file");
        let error = load(&path, pool).expect_err("this is no record").to_string();
        assert!(error.contains("pool.scrub.json is no record of scrubs: "), "{error}");
        let report =
            ScrubReport::new(&ScrubSchedule { every: Duration::from_secs(3600), record }, 28);
        assert_eq!(
            report.to_string(),
            "last scrub: ended 1970-01-02 at 00:00 UTC, 1000 blocks compared, 2 places damaged, 3 repaired from other \
             members\nscrub under way: began 1970-01-02 at 01:00 UTC, 25 % of the units, 1000 blocks compared, 2 places \
             damaged, 3 repaired from other members\n"
        );
        let record = ScrubRecord { current: None, ..record };
        let report =
            ScrubReport::new(&ScrubSchedule { every: Duration::from_secs(3600), record }, 28);
        assert!(report.to_string().ends_with("next scrub: 1970-01-02 at 01:00 UTC\n"));
    }
}
