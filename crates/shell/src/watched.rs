//! A watched volume: answers, waiting times, and time of the pool's thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thermocline_runtime::Volume;
use thermocline_target::{BlockTarget, Clock, Completion, Extent, Info, Property, Request};
use thermocline_types::Bytes;

/// Time of the pool's thread for each request, for each moved block, and for each block of a status request. Chosen:
/// near the times of a current core.
const REQUEST: Duration = Duration::from_micros(2);
const MOVED: Duration = Duration::from_nanos(200);
const LOOKED_AT: Duration = Duration::from_nanos(25);

/// The record of a volume's answers.
#[derive(Debug, Default)]
pub struct Seen {
    /// Time of the thread that the clock has not advanced yet.
    pub spent: Duration,
    /// Requests under way.
    pub under_way: u64,
    /// Answered requests to which limits apply.
    pub answered: u64,
    /// Bytes of these requests.
    pub bytes: u64,
    /// The longest time of a request.
    pub slowest: Duration,
}

/// A volume with a record of its answers.
pub struct Watched {
    volume: Volume,
    clock: Clock,
    seen: Arc<Mutex<Seen>>,
}

/// A handle of a record.
pub type SeenHandle = Arc<Mutex<Seen>>;

/// Locks a record.
pub fn look(seen: &SeenHandle) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watched {
    /// Watches `volume`.
    #[must_use]
    pub fn new(volume: Volume, clock: &Clock, seen: &SeenHandle) -> Watched {
        Watched { volume, clock: clock.clone(), seen: Arc::clone(seen) }
    }

    /// Wraps `done`: its call is also recorded.
    fn noted<T: 'static>(
        &self,
        limited: bool,
        (moved, looked_at): (u64, u64),
        done: Completion<T>,
    ) -> Completion<T> {
        let (seen, clock, began) =
            (Arc::clone(&self.seen), self.clock.clone(), self.clock.passed());
        look(&seen).under_way += 1;
        Completion::new(move |result: Result<T, _>| {
            let mut saw = look(&seen);
            saw.spent += REQUEST + MOVED * (moved / 4096) as u32 + LOOKED_AT * looked_at as u32;
            saw.under_way -= 1;
            let counts = limited && result.is_ok();
            saw.answered += u64::from(counts);
            saw.bytes += if counts { moved } else { 0 };
            saw.slowest = saw.slowest.max(clock.passed() - began);
            drop(saw);
            done.complete(result);
        })
    }
}

impl BlockTarget for Watched {
    fn info(&self) -> Info {
        self.volume.info()
    }

    fn submit(&self, request: Request) {
        let bytes = request.range().map_or(0, |(_, length)| length.0);
        let moved = (bytes, 0);
        let request = match request {
            Request::Read { offset, buffer, done } => {
                Request::Read { offset, buffer, done: self.noted(true, moved, done) }
            }
            Request::Write { offset, buffer, fua, handle, done } => {
                Request::Write { offset, buffer, fua, handle, done: self.noted(true, moved, done) }
            }
            Request::Flush { done } => Request::Flush { done: self.noted(false, (0, 0), done) },
            Request::Trim { offset, length, done } => {
                Request::Trim { offset, length, done: self.noted(true, (0, 0), done) }
            }
            Request::WriteZeroes { offset, length, no_hole, fua, done } => {
                let done = self.noted(true, (0, 0), done);
                Request::WriteZeroes { offset, length, no_hole, fua, done }
            }
        };
        self.volume.submit(request);
    }

    fn extents(&self, of: Property, offset: Bytes, length: Bytes, done: Completion<Vec<Extent>>) {
        let done = self.noted(true, (0, length.0 / 4096), done);
        self.volume.extents(of, offset, length, done);
    }
}
