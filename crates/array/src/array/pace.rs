//! How fast a member is filled.

use thermocline_types::Time;

/// Leaves time to others between pieces.
#[derive(Debug)]
pub(super) struct Pace {
    /// Bytes per second; `None`: as fast as can be.
    rate: Option<u64>,
    not_before: Time,
}

impl Pace {
    /// At most `rate` bytes per second; `None`: as fast as can be.
    pub(super) fn new(rate: Option<u64>) -> Pace {
        Pace { rate, not_before: Time::default() }
    }

    /// Bytes are asked for at `now`; the next ones have to wait for their share of time.
    pub(super) fn spend(&mut self, bytes: u64, now: Time) {
        let Some(rate) = self.rate else { return };
        let pause = bytes.saturating_mul(1_000_000_000) / rate.max(1);
        self.not_before = Time(now.0.saturating_add(pause));
    }

    /// When the next bytes may be asked for.
    pub(super) fn not_before(&self) -> Time {
        self.not_before
    }
}
