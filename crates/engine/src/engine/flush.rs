//! Flushes of hosts and of devices, and what goes on when something is durable.

use thermocline_format::VolumeId;
use thermocline_types::DeviceId;

use crate::bugs::bug;
use crate::device::DeviceCmd;
use crate::engine::{Op, Parts};
use crate::marks::mark;
use crate::payload::Payload;

impl<P: Payload> Parts<P> {
    /// Answers a flush of the host when all that was complete before it is durable.
    pub(crate) fn flush(&mut self, request: u32) {
        if !self.config.write_cache {
            self.await_flush_for(request, self.flights.newest_done());
        } else if bug!(self.config, FlushLeavesStage) || !self.cache.flush(request) {
            self.await_flush_for(request, self.flights.sealed());
        }
    }

    /// Answers a flush of a volume when all of it that was complete before is durable.
    pub(crate) fn flush_volume(&mut self, request: u32, volume: VolumeId) {
        // Blocks of a volume with snapshots may wait for a layer below.
        let alone = |index: &u16| self.volumes.map(*index).layer.below.is_none();
        let Some(index) =
            self.volumes.index(volume).filter(|_| self.config.write_cache).filter(alone)
        else {
            return self.flush(request);
        };
        let leaves = bug!(self.config, VolumeFlushLeavesStage);
        if leaves || !self.cache.flush_volume(index, request) {
            self.await_flush_for(request, self.flights.sealed());
        }
        mark!(VolumeFlushed if self.cache.express_class(|_| true).is_some());
    }

    /// Goes on with flushes for which everything has been sealed.
    pub(crate) fn flush_sealed(&mut self) {
        while let Some(request) = self.cache.next_flush().or_else(|| self.cache.next_volume_flush())
        {
            self.await_flush_for(request, self.flights.sealed());
        }
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
}
