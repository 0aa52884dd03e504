//! Files of a pool that are removed or cut off while it is open.

use std::time::{Duration, Instant};

use thermocline_engine::HostRequest;

use super::{Event, Service};
use crate::Buffer;

/// How often files are looked for. Chosen: soon enough for a person, and cheap.
const EVERY: Duration = Duration::from_secs(1);

/// Whether a file is lost, and when to look again.
#[derive(Debug, Default)]
pub(super) struct Lost {
    looked: Option<Instant>,
    is_lost: bool,
}

impl Lost {
    /// Whether a request is not carried out because its result could not be made durable.
    pub(super) fn refuses(&self, what: &HostRequest<Buffer>) -> bool {
        self.is_lost && !matches!(what, HostRequest::Read { .. } | HostRequest::Close)
    }

    /// How long nobody has to look again.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        let passed = self.looked.map(|looked| now.saturating_duration_since(looked));
        let left = EVERY.saturating_sub(passed.unwrap_or(EVERY));
        (!self.is_lost).then_some(left)
    }
}

impl Service {
    /// Takes no more changes when a file of the pool is lost.
    pub(super) fn look_for_files(&mut self) {
        let now = Instant::now();
        if self.lost.wait(now) != Some(Duration::ZERO) {
            return;
        }
        self.lost.looked = Some(now);
        if let Some(what) = self.driver.lost() {
            self.lost.is_lost = true;
            (self.listener)(Event::Lost(what));
        }
    }
}
