//! Block traces in every common format, synthetic workloads, and what they are made of.
//!
//! A workload is a [`Source`]: something that yields [`Request`]s in batches, in order, at most once.

mod chunked;
pub mod filesystem;
mod granule;
pub mod llm;
pub mod profile;
pub mod remap;
pub mod synthetic;
#[cfg(test)]
mod testing;
pub mod trace;

use std::path::{Path, PathBuf};

use thermocline_types::Request;

/// How many requests one call of [`Source::fill`] yields at most. Sized so that a batch stays in the first-level cache.
pub const BATCH: usize = 256;

/// `path`, with a first component `~` replaced by the folder of the user.
#[must_use]
pub fn at_home(path: &Path) -> PathBuf {
    thermocline_types::at_home(path, std::env::var_os("HOME"))
}

/// A stream of requests in order of issue.
pub trait Source {
    /// Clears `batch` and fills it with the next requests, at most [`BATCH`]. An empty batch means the end.
    ///
    /// # Errors
    /// Traces report the first line that cannot be read; generators fail only where an application's volume is full.
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), trace::Error>;

    /// Share of the workload already yielded, 0..=1, for progress displays.
    fn fraction_done(&self) -> f64;

    /// Names of the directories of [`StreamId`](thermocline_types::StreamId)s that were yielded so far; number 1 is the
    /// first. None where files are not known.
    fn directories(&self) -> Vec<String> {
        Vec::new()
    }
}
