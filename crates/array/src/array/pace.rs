//! How fast a member is filled.

use thermocline_types::Time;

/// Leaves time for other commands between pieces.
#[derive(Debug)]
pub(super) struct Pace {
    /// Bytes per second; `None`: no limit.
    rate: Option<u64>,
    not_before: Time,
}

impl Pace {
    /// At most `rate` bytes per second; `None`: no limit.
    pub(super) fn new(rate: Option<u64>) -> Pace {
        Pace { rate, not_before: Time::default() }
    }

    /// Counts bytes requested at `now`. The next request waits for its share of time.
    pub(super) fn spend(&mut self, bytes: u64, now: Time) {
        let Some(rate) = self.rate else { return };
        let pause = bytes.saturating_mul(1_000_000_000) / rate.max(1);
        self.not_before = Time(now.0.saturating_add(pause));
    }

    /// Requests nothing for some nanoseconds.
    pub(super) fn rest(&mut self, nanoseconds: u64, now: Time) {
        self.not_before = self.not_before.max(Time(now.0.saturating_add(nanoseconds)));
    }

    /// When the next bytes may be requested.
    pub(super) fn not_before(&self) -> Time {
        self.not_before
    }
}
