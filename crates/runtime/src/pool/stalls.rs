//! Times in which the engine takes no requests.

use std::time::{Duration, Instant};

/// A shorter time is told to nobody. Chosen: an operator's alarms are about seconds.
const LEAST: Duration = Duration::from_secs(1);

/// A time in which requests waited because the engine took none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// How long.
    pub took: Duration,
    /// Whether a checkpoint was being written.
    pub checkpoint: bool,
}

/// Finds stalls.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    /// Since when the engine has taken nothing, and whether a checkpoint was under way since.
    busy: Option<(Instant, bool)>,
}

impl Stalls {
    /// The engine took no request `now`.
    pub(super) fn refused(&mut self, now: Instant, checkpoint: bool) {
        let (_, any) = self.busy.get_or_insert((now, checkpoint));
        *any |= checkpoint;
    }

    /// Whether the engine took nothing before.
    pub(super) fn are_possible(&self) -> bool {
        self.busy.is_some()
    }

    /// The engine took a request `now`. Returns the stall that is over, if it was long.
    pub(super) fn taken(&mut self, now: Instant) -> Option<Stall> {
        let (since, checkpoint) = self.busy.take()?;
        let took = now.saturating_duration_since(since);
        (took >= LEAST).then_some(Stall { took, checkpoint })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_a_second_in_which_no_request_is_taken() {
        let (mut stalls, began) = (Stalls::default(), Instant::now());
        let after = |millis| began + Duration::from_millis(millis);
        stalls.refused(began, false);
        stalls.refused(after(900), true);
        assert_eq!(stalls.taken(after(999)), None);
        stalls.refused(after(1000), false);
        stalls.refused(after(1500), true);
        let took = Duration::from_millis(1250);
        assert_eq!(stalls.taken(after(2250)), Some(Stall { took, checkpoint: true }));
        assert!(!stalls.are_possible() && stalls.taken(after(9000)).is_none());
    }
}
