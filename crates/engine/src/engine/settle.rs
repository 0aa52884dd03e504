//! Who waits for chunks to be on media or durable, and is told that they are.

use thermocline_format::Sequence;
use thermocline_types::DeviceId;

use crate::bugs::bug;
use crate::durability::Then;
use crate::engine::Parts;
use crate::marks::mark;
use crate::payload::Payload;
use crate::request::{Action, HostError};
use crate::requests::Progress;
use crate::write_cache::Owner;

impl<P: Payload> Parts<P> {
    /// Those whose wait is over. A host goes on waiting until a first checkpoint has made the recovery of the pool safe
    /// from a crash.
    pub(crate) fn due(&mut self) -> Vec<Then> {
        let settled =
            self.superblocks.are_settled() || bug!(self.config, FlushBeforeRecoveryIsSafe);
        mark!(FlushAwaitsRecovery if !settled && self.durability.is_due_for_hosts());
        self.durability.due(settled, bug!(self.config, FlushNotSent))
    }

    /// Waits until every chunk up to `target` is durable. Returns `then` if the chunks are durable already: the other
    /// waits on durable chunks have already ended.
    #[must_use]
    pub(crate) fn await_flush(&mut self, target: Sequence, then: Then) -> Option<Then> {
        let host = then.is_host();
        let release = matches!(then, Then::Release { .. });
        self.durability.wait(target, then);
        let of_host = bug!(self.config, OtherDevicesNotFlushed);
        let of_release = bug!(self.config, ReleaseAwaitsHomeAlone);
        if host && of_host || release && of_release {
            self.durability.forget_others(self.config.geometry.home());
        }
        let mut due = self.due();
        assert!(due.len() <= 1, "{due:?} was due before");
        due.pop()
    }

    /// A request goes on when every chunk up to `target` is durable.
    pub(crate) fn await_flush_for(&mut self, request: u32, target: Sequence) {
        if self.await_flush(target, Then::Host { request }).is_some() {
            self.request_progress(request, 1, None);
        }
    }

    /// Does `then` when flushes of all devices are done that are sent from now on.
    pub(crate) fn await_next_flush(&mut self, then: Then) {
        let all = self.config.geometry.present().map(|(device, _)| device);
        self.durability.wait_for_next(all, then);
    }

    /// Does `then` when a flush of `device` is done that is sent from now on.
    pub(crate) fn await_next_flush_of(&mut self, device: DeviceId, then: Then) {
        self.durability.wait_for_next(std::iter::once(device), then);
    }

    /// `count` of what chunk `sequence` waited for is on media.
    pub(crate) fn flight_progress(&mut self, sequence: Sequence, count: u32) {
        let Some(landed) = self.flights.progress(sequence, count) else { return };
        if let Some(unit) = landed.replaced {
            self.durability.replaced(self.config.geometry.device_of(unit));
        }
        self.cache.landed(landed.host_blocks);
        if !self.phase_failed() {
            self.flights.told(sequence);
        }
        self.settle_owners(&landed.owners);
        self.flights.retire(&self.config.geometry);
    }

    /// Tells owners that their blocks are on media.
    pub(crate) fn settle_owners(&mut self, owners: &[(Owner, u32)]) {
        for &(owner, count) in owners {
            match owner {
                Owner::Request(request) => self.request_progress(request, count, None),
                Owner::Failed(sequence) => self.flight_progress(sequence, count),
            }
        }
    }

    /// `parts` of what `request` waits for are done, or failed.
    pub(crate) fn request_progress(&mut self, request: u32, parts: u32, error: Option<HostError>) {
        match self.requests.progress(request, parts, error, self.phase_failed()) {
            Progress::Waits => {}
            Progress::MakeDurable => {
                let target = self.flights.sealed().min(self.flights.newest_done());
                self.await_flush_for(request, target);
            }
            Progress::Over { id, result, resized } => {
                if let Some(index) = resized.and_then(|volume| self.volumes.index(volume)) {
                    let map = self.volumes.map_mut(index);
                    map.limit = map.blocks;
                }
                self.actions.push_back(Action::Complete { request: id, result });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::parts::testing::{completed, parts, request};

    #[test]
    fn a_request_is_over_when_its_owners_were_told_of_each_of_its_blocks() {
        let mut p = parts();
        let (first, second) = (request(&mut p, 1), request(&mut p, 2));
        p.requests.need(first, 2);
        p.settle_owners(&[(Owner::Request(first), 2), (Owner::Request(second), 1)]);
        assert_eq!(completed(&mut p), [(2, true)]);
        p.settle_owners(&[(Owner::Request(first), 1)]);
        assert_eq!(completed(&mut p), [(1, true)]);
    }
}
