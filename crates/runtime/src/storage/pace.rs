//! How fast a member of a group is filled.

use std::time::{Duration, Instant};

/// Leaves time to others between pieces.
#[derive(Debug)]
pub(super) struct Pace {
    /// Bytes per second; `None`: as fast as can be.
    rate: Option<u64>,
    not_before: Option<Instant>,
}

impl Pace {
    /// At most `rate` bytes per second; `None`: as fast as can be.
    pub(super) fn new(rate: Option<u64>) -> Pace {
        Pace { rate, not_before: None }
    }

    /// Bytes were asked for; the next ones have to wait for their share of time.
    pub(super) fn spend(&mut self, bytes: u64) {
        let Some(rate) = self.rate else { return };
        let pause = Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate.max(1));
        self.not_before = Some(Instant::now() + pause);
    }

    /// How long to wait for that share.
    pub(super) fn pause(&self) -> Duration {
        self.not_before
            .map_or(Duration::ZERO, |when| when.saturating_duration_since(Instant::now()))
    }
}
