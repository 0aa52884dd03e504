//! Flushes of hosts and of devices, and what goes on when something is durable.

use thermocline_format::{Sequence, VolumeId};
use thermocline_types::DeviceId;

use crate::bugs::bug;
use crate::device::{DeviceCmd, DeviceError};
use crate::durability::Then;
use crate::engine::{Engine, Op};
use crate::marks::mark;
use crate::payload::Payload;

impl<P: Payload> Engine<P> {
    /// Blocks of hosts that wait in memory or are on their way to media.
    #[must_use]
    pub fn staged_blocks(&self) -> u32 {
        self.cache.host_blocks()
    }

    /// The most that these may be before further writes are [`Rejected::Busy`].
    ///
    /// [`Rejected::Busy`]: crate::Rejected::Busy
    #[must_use]
    pub fn max_staged_blocks(&self) -> u32 {
        self.config.max_staged_blocks
    }

    /// Blocks that hosts wrote and that a power cut may take: they wait in memory, are on their way to media, or are
    /// there without a flush since. One that is overwritten in memory counts once, one that was trimmed there until its
    /// place is sealed.
    #[must_use]
    pub fn at_risk_blocks(&self) -> u64 {
        let waiting = u64::from(self.cache.waiting());
        waiting + self.stats.host_blocks_written - self.durability.host_blocks()
    }

    /// Answers a flush of the host when all that was complete before it is durable.
    pub(crate) fn flush(&mut self, request: u32) {
        if !self.config.write_cache {
            self.await_flush(self.flights.newest_done(), Then::Host { request });
        } else if bug!(self.config, FlushLeavesStage) || !self.cache.flush(request) {
            self.await_flush(self.flights.sealed(), Then::Host { request });
        }
    }

    /// Answers a flush of a volume when all of it that was complete before is durable.
    pub(crate) fn flush_volume(&mut self, request: u32, volume: VolumeId) {
        let Some(index) = self.volumes.index(volume).filter(|_| self.config.write_cache) else {
            return self.flush(request);
        };
        let leaves = bug!(self.config, VolumeFlushLeavesStage);
        if leaves || !self.cache.flush_volume(index, request) {
            self.await_flush(self.flights.sealed(), Then::Host { request });
        }
        mark!(VolumeFlushed if self.cache.express_class(|_| true).is_some());
    }

    /// Goes on with flushes for which everything has been sealed.
    pub(crate) fn flush_sealed(&mut self) {
        while let Some(request) = self.cache.next_flush().or_else(|| self.cache.next_volume_flush())
        {
            self.await_flush(self.flights.sealed(), Then::Host { request });
        }
    }

    /// Does `then` when every chunk up to `target` is durable.
    pub(crate) fn await_flush(&mut self, target: Sequence, then: Then) {
        let host = then.is_host();
        let release = matches!(then, Then::Release { .. });
        self.durability.wait(target, then);
        let of_host = bug!(self.config, OtherDevicesNotFlushed);
        let of_release = bug!(self.config, ReleaseAwaitsHomeAlone);
        if host && of_host || release && of_release {
            self.durability.forget_others(self.config.geometry.home());
        }
        self.resolve();
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

    /// Flushes devices if somebody waits for what a flush would make durable. Returns whether it did.
    pub(crate) fn flush_step(&mut self) -> bool {
        let wanted: Vec<DeviceId> = self.durability.may_flush().collect();
        let sent = wanted.into_iter().filter(|&device| self.flush_device(device)).count();
        sent > 0
    }

    fn flush_device(&mut self, device: DeviceId) -> bool {
        let mut on_media = self.flights.on_media(device, &self.config);
        if bug!(self.config, FlushTooEarly) {
            (on_media.all, on_media.for_hosts) = (self.flights.sealed(), self.flights.sealed());
        }
        if bug!(self.config, DurableOffByOne) {
            on_media.all.0 += 1;
            on_media.for_hosts.0 += 1;
        }
        if !self.durability.begin_flush(device, on_media) {
            return false;
        }
        mark!(FlushPassesCopies if on_media.for_hosts > on_media.all);
        self.stats.flushes += 1;
        let op = self.ops.insert(Op::Flush { device });
        self.device(op, DeviceCmd::Flush(device));
        true
    }

    pub(crate) fn flushed(&mut self, device: DeviceId, result: Result<(), DeviceError>) {
        self.durability.end_flush(device, result.is_ok());
        match result {
            Ok(()) => self.resolve(),
            Err(_) => {
                mark!(FlushFailed);
                self.fail();
            }
        }
    }

    /// Goes on with all whose wait is over. What the host waits for must also be recoverable: not before the recovery
    /// itself is, in a checkpoint.
    pub(crate) fn resolve(&mut self) {
        let settled =
            self.superblocks.are_settled() || bug!(self.config, FlushBeforeRecoveryIsSafe);
        mark!(FlushAwaitsRecovery if !settled && self.durability.is_due_for_hosts());
        for then in self.durability.due(settled, bug!(self.config, FlushNotSent)) {
            match then {
                Then::Host { request } => self.request_progress(request, 1, None),
                Then::Release { units } => self.reset_released(&units),
                Then::Scrub => self.scrub_goes_on(),
                Then::Dead => self.space.dead_flushed(),
                Then::Pages { target } => self.pages_durable(target),
                Then::Superblock => self.superblock_durable(),
            }
        }
    }
}
