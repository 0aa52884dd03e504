//! What becomes of devices while their pool is open: files that are removed or cut off, and commands that do not end.

use std::time::{Duration, Instant};

use thermocline_engine::HostRequest;
use thermocline_format::DeviceState;
use thermocline_types::DeviceId;

use super::{Event, Service};
use crate::Buffer;

/// How often devices are looked at. Chosen: soon enough for a person, and cheap.
const EVERY: Duration = Duration::from_secs(1);

/// Whether a file is lost or a device late, and when to look again.
#[derive(Debug, Default)]
pub(super) struct Lost {
    looked: Option<Instant>,
    /// Drained devices that were reported as empty.
    empty: Vec<DeviceId>,
    is_lost: bool,
    is_late: bool,
}

impl Lost {
    /// Whether a request is not carried out because its result could not be made durable.
    pub(super) fn refuses(&self, what: &HostRequest<Buffer>) -> bool {
        self.is_lost && !matches!(what, HostRequest::Read { .. } | HostRequest::Close)
    }

    /// Time until the next check.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        let passed = self.looked.map(|looked| now.saturating_duration_since(looked));
        let left = EVERY.saturating_sub(passed.unwrap_or(EVERY));
        Some(left)
    }
}

impl Service {
    /// Takes no more changes when a file of the pool is lost, and reports devices that are late.
    pub(super) fn look_at_devices(&mut self) {
        let now = self.driver.clock().now();
        if self.lost.wait(now) != Some(Duration::ZERO) {
            return;
        }
        self.lost.looked = Some(now);
        if let Some(what) = self.driver.lost().filter(|_| !self.lost.is_lost) {
            self.lost.is_lost = true;
            (self.listener)(Event::Lost(what));
        }
        let late = self.driver.overdue();
        if late.is_some() != self.lost.is_late {
            self.lost.is_late = late.is_some();
            (self.listener)(Event::Overdue(late));
        }
        self.report_empty_devices();
        self.report_limits(now);
    }

    fn report_empty_devices(&mut self) {
        let engine = self.driver.engine();
        let geometry = engine.geometry();
        let drains = |device: &DeviceId| geometry.device(*device).state == DeviceState::Draining;
        let draining = geometry.present().map(|(device, _)| device).filter(drains);
        let empty = draining.filter(|&device| engine.units_in_use(device) == 0).collect();
        let before = std::mem::replace(&mut self.lost.empty, empty);
        for device in self.lost.empty.iter().filter(|device| !before.contains(device)) {
            (self.listener)(Event::Drained(*device));
        }
    }

    fn report_limits(&mut self, now: Instant) {
        for (volume, is_throttled) in self.waiting.throttling(now) {
            let state = self.shared.volumes().get(&volume).cloned();
            if let Some(state) = state {
                (self.listener)(Event::Throttled(state.name(), is_throttled));
            }
        }
    }
}
