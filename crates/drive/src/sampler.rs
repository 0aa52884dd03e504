//! A drive that is read at most once in some seconds, however often it is asked for.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::live;
use crate::reading::HealthReading;

/// Time for which a reading is kept. Chosen: a drive takes milliseconds for its pages.
const KEPT: Duration = Duration::from_secs(5);

/// A drive, or a record of one in a file, and its latest reading.
#[derive(Debug)]
pub struct DriveSampler {
    path: PathBuf,
    latest: Option<(Instant, Result<HealthReading, String>)>,
}

impl DriveSampler {
    /// A sampler without a reading.
    #[must_use]
    pub fn new(path: &Path) -> DriveSampler {
        DriveSampler { path: path.to_owned(), latest: None }
    }

    /// The path of the drive.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The reading at `now`, or that of the last 5 seconds.
    ///
    /// # Errors
    /// The reason, as text, when the drive cannot be read.
    pub fn reading(&mut self, now: Instant) -> Result<&HealthReading, &str> {
        if self.latest.as_ref().is_none_or(|(at, _)| now.duration_since(*at) >= KEPT) {
            self.latest = Some((now, read(&self.path)));
        }
        let (_, latest) = self.latest.as_ref().expect("it was read above at the latest");
        latest.as_ref().map_err(String::as_str)
    }
}

fn read(path: &Path) -> Result<HealthReading, String> {
    let record = match live::is_device(path) {
        true => live::record(path).map_err(|error| error.to_string())?,
        false => std::fs::read(path).map_err(|error| format!("cannot be read: {error}"))?,
    };
    HealthReading::recorded(&record).map_err(|error| error.to_string())
}
