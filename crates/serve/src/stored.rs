//! Small records of a pool beside its settings, each a file that is replaced as a whole.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thermocline_format::PoolId;
use thermocline_runtime::{ScrubRecord, Settings, Totals};

use crate::log::Log;
use crate::{Error, sockets};

/// A kind of record.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// End of the file's name.
    ending: &'static str,
    schema: &'static str,
    /// The record in an error text.
    what: &'static str,
    /// The consequence of a missing record.
    without: &'static str,
}

/// Scrubs: a [`ScrubRecord`].
pub(crate) const SCRUBS: Kind = Kind {
    ending: "scrub.json",
    schema: "thermocline.scrubs/1",
    what: "record of scrubs",
    without: "the pool counts as never scrubbed",
};

/// Bytes over all services: [`Totals`].
pub(crate) const TOTALS: Kind = Kind {
    ending: "totals.json",
    schema: "thermocline.totals/1",
    what: "record of totals",
    without: "totals begin with this service",
};

/// The file as it is.
#[derive(Serialize, Deserialize)]
struct Stored<T> {
    schema: String,
    pool: String,
    #[serde(flatten)]
    record: T,
}

impl Kind {
    /// Reads the record of `pool` beside the settings `file`. Without a record of `pool`, returns an empty one.
    ///
    /// # Errors
    /// When the file cannot be read, or is no such record.
    pub fn load<T: DeserializeOwned + Default>(
        self,
        file: &Path,
        pool: PoolId,
    ) -> Result<T, Error> {
        let path = sockets::beside(file, self.ending);
        let shown = path.display();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(T::default()),
            Err(error) => return Err(Error::Refused(format!("{shown} cannot be read: {error}"))),
        };
        let stored: Stored<T> = serde_json::from_str(&text)
            .map_err(|error| Error::Refused(format!("{shown} is no {}: {error}", self.what)))?;
        let own = stored.schema == self.schema && stored.pool == pool.to_string();
        Ok(if own { stored.record } else { T::default() })
    }

    /// As [`Kind::load`], for a service, which goes on without a record.
    fn load_or_warn<T: DeserializeOwned + Default>(
        self,
        file: &Path,
        pool: PoolId,
        log: &Log,
    ) -> T {
        self.load(file, pool).unwrap_or_else(|error| {
            log.warn(format_args!("{error}: {}", self.without));
            T::default()
        })
    }

    /// Replaces the file.
    fn store<T: Serialize>(self, file: &Path, pool: PoolId, record: T) -> io::Result<()> {
        let path = sockets::beside(file, self.ending);
        let stored = Stored { schema: self.schema.to_owned(), pool: pool.to_string(), record };
        let text = format!("{}\n", serde_json::to_string_pretty(&stored)?);
        let new = PathBuf::from(format!("{}.new", path.display()));
        let mut file = fs::File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    }
}

/// A record to store.
pub(crate) enum Record {
    Scrubs(ScrubRecord),
    Totals(Box<Totals>),
}

/// Stores records on a thread of its own, so that no client waits for the file.
pub(crate) struct Recorder {
    /// The queue for records.
    pub records: Sender<Record>,
    /// The thread ends when all senders of the queue are dropped.
    pub thread: JoinHandle<()>,
}

impl Recorder {
    /// Loads the records of `pool`, and starts a thread that stores newer ones.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(
        settings: &Settings,
        pool: PoolId,
        log: &Log,
    ) -> Result<(ScrubRecord, Totals, Recorder), Error> {
        let file = settings.file().to_owned();
        let scrubs = SCRUBS.load_or_warn(&file, pool, log);
        let totals = TOTALS.load_or_warn(&file, pool, log);
        let (records, receiver) = channel();
        let log = log.clone();
        let run = move || {
            let mut told: Vec<&str> = Vec::new();
            for record in receiver {
                let (kind, stored) = match record {
                    Record::Scrubs(record) => (SCRUBS, SCRUBS.store(&file, pool, record)),
                    Record::Totals(totals) => (TOTALS, TOTALS.store(&file, pool, totals)),
                };
                told.retain(|&ending| stored.is_err() || ending != kind.ending);
                if let Err(error) = stored.as_ref()
                    && !told.contains(&kind.ending)
                {
                    told.push(kind.ending);
                    let path = sockets::beside(&file, kind.ending);
                    let path = path.display();
                    log.warn(format_args!(
                        "{path} cannot be written: {error}: a restart goes on from the record before"
                    ));
                }
            }
        };
        let thread = thread::Builder::new().name("thermocline-records".to_owned()).spawn(run)?;
        Ok((scrubs, totals, Recorder { records, thread }))
    }
}

#[cfg(test)]
mod tests {
    use thermocline_runtime::{ScrubEnd, ScrubFindings, ScrubUnderWay};

    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_stored_and_is_of_its_pool_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("pool.toml");
        let (pool, other) = (PoolId([1; 16]), PoolId([2; 16]));
        let load = |pool| SCRUBS.load::<ScrubRecord>(&file, pool);
        assert_eq!(load(pool).expect("no file"), ScrubRecord::default());
        let found = ScrubFindings { blocks: 1000, damaged: 2, mended: 3 };
        let record = ScrubRecord {
            last: Some(ScrubEnd { began_unix_seconds: 5, ended_unix_seconds: 86_400, found }),
            current: Some(ScrubUnderWay { began_unix_seconds: 90_000, next_unit: 7, found }),
        };
        SCRUBS.store(&file, pool, record).expect("a file");
        assert_eq!(load(pool).expect("a record"), record);
        assert_eq!(load(other).expect("of another pool"), ScrubRecord::default());
        fs::write(folder.path().join("pool.scrub.json"), "{").expect("a file");
        let error = load(pool).expect_err("this is no record").to_string();
        assert!(error.contains("pool.scrub.json is no record of scrubs: "), "{error}");
        let totals = Totals {
            began_unix_seconds: 5,
            volumes: [("1".to_owned(), [("host".to_owned(), u64::MAX)].into())].into(),
            ..Totals::default()
        };
        TOTALS.store(&file, pool, &totals).expect("a file");
        assert_eq!(TOTALS.load::<Totals>(&file, pool).expect("a record"), totals);
    }
}
