//! Settings of a run that are neither stack nor workload.

use thermocline_ftl::victim::Victim;
use thermocline_types::{Bytes, Time};

/// When requests are issued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pacing {
    /// So many are kept in flight; the workload's own times are ignored.
    QueueDepth(u32),
    /// So many clients ask for one thing at a time, and think in between.
    Clients {
        /// How many.
        count: u32,
        /// How long they think in the mean.
        think: Time,
    },
    /// At the workload's own times, so many times as fast.
    Clock {
        /// 1 is the original pace.
        speed: f64,
    },
}

/// Settings of a run that are not the stack or the workload.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Capacity exported by the drive; by default the workload's addressed bytes divided by `utilisation`.
    pub capacity: Option<Bytes>,
    /// Capacity of the fast drive of a tiered stack; by default in the same proportion to the capacity drive as the
    /// products.
    pub fast_capacity: Option<Bytes>,
    /// Share of the capacity that the workload addresses, in (0, 1]. 1 is full; under a log, space set aside by the log
    /// is excluded.
    pub utilisation: f64,
    /// Replaces the device's victim policy.
    pub victim: Option<Victim>,
    /// When requests are issued; by default by the workload's clock, or at queue depth 32 if the workload has no clock.
    pub pacing: Option<Pacing>,
    /// Host bytes per day to the product, for estimates of life; by default the trace's own pace.
    pub daily_writes: Option<Bytes>,
    /// Seed of all randomness.
    pub seed: u64,
    /// Capacities are of a pool: errors name the pool instead of `capacity`.
    pub of_pool: bool,
}

impl Settings {
    /// What helps where the drive is too small.
    pub(crate) fn larger(&self) -> &'static str {
        if self.of_pool { "a pool on a larger device" } else { "a larger `capacity`" }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            capacity: None,
            fast_capacity: None,
            utilisation: 1.0,
            victim: None,
            pacing: None,
            daily_writes: None,
            seed: 1,
            of_pool: false,
        }
    }
}
