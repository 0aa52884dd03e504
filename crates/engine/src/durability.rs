//! Tracks which chunks are durable on each device, the waiters for durability, and the flushes of each device.
//!
//! A host's flush waits for host data and for control entries, but not for copies and pages of maps that are in flight
//! elsewhere. Without them, recovery reads the older copy of a block and the older page. A host's flush flushes a
//! device only if awaited data was written to the device. Units are freed, and records are written, only when every
//! earlier chunk is durable.
//!
//! Invariants:
//! * At most one flush of a device is on its way.
//! * The durable sequence only grows. It never exceeds the chunks that were on media when a completed flush was sent.

use thermocline_format::{MAX_DEVICES, Sequence};
use thermocline_types::{DeviceId, UnitId};

/// The action that a waiter takes when its data is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// A request of the host goes on.
    Host { request: u32 },
    /// These units may be reset.
    Release { units: Vec<UnitId> },
    /// A scrub looks again at a unit to which chunks were on their way.
    Scrub,
    /// Blocks that cover those of a deleted snapshot are durable.
    Covered,
    /// The chunks of dead units are durable.
    Dead,
    /// All that the next checkpoint's superblock refers to is there, if it was all written up to `target`.
    Pages { target: Sequence },
    /// The superblock record that was written counts.
    Superblock,
}

impl Then {
    pub(crate) fn is_host(&self) -> bool {
        matches!(self, Then::Host { .. })
    }
}

/// Something of each device.
type PerDevice<T> = [T; MAX_DEVICES];

/// The chunks and flushes of one device that a waiter needs.
#[derive(Clone, Copy, Debug, Default)]
struct Needed {
    /// Every chunk of the device up to `target` must be durable; for a host, only the chunks that hosts wait for.
    target: Sequence,
    /// And this many flushes of it must have been sent and be done.
    flushes: u64,
}

#[derive(Debug)]
struct Waiter {
    needed: PerDevice<Needed>,
    then: Then,
}

/// How far the log is on media of a device, perhaps in a volatile cache there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OnMedia {
    /// Every chunk up to this sequence is on media.
    pub(crate) all: Sequence,
    /// Every host-awaited chunk up to this sequence is on media.
    pub(crate) for_hosts: Sequence,
    /// Blocks of hosts in these, since the pool was opened.
    pub(crate) host_blocks: u64,
}

/// The chunks and the flushes of one device.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    /// The newest chunk, and the newest that hosts wait for.
    newest: Sequence,
    newest_for_hosts: Sequence,
    durable: OnMedia,
    /// The chunks that the flush in flight makes durable.
    flushing: Option<OnMedia>,
    /// Flushes sent and done.
    sent: u64,
    done: u64,
    /// Flushes of this device that must be done before later chunks count as durable. The blocks of a failed write may
    /// have been rewritten on this device, whichever device failed.
    least: u64,
}

impl Written {
    fn has(&self, needed: Needed, host: bool) -> bool {
        self.done >= needed.flushes && self.durable.reaches(needed, host)
    }

    /// The chunks and flushes that a waiter for `target` needs.
    fn needed(&self, target: Sequence, host: bool) -> Needed {
        let newest = if host { self.newest_for_hosts } else { self.newest };
        Needed { target: target.min(newest), flushes: self.least }
    }
}

impl OnMedia {
    fn reaches(&self, needed: Needed, host: bool) -> bool {
        needed.target <= if host { self.for_hosts } else { self.all }
    }
}

/// Flushes, and the waiters for flushes.
#[derive(Debug)]
pub(crate) struct Durability {
    devices: Vec<Written>,
    /// Every chunk up to this sequence is durable.
    durable: Sequence,
    waiters: Vec<Waiter>,
}

impl Durability {
    /// For so many devices.
    pub(crate) fn new(devices: usize) -> Durability {
        let devices = vec![Written::default(); devices];
        Durability { devices, durable: Sequence(0), waiters: Vec::new() }
    }

    /// The sequence up to which every chunk is durable.
    pub(crate) fn durable(&self) -> Sequence {
        self.durable
    }

    /// Waiters for every chunk up to `target` were told that the chunks are durable. Each device alone knows less: the
    /// chunks that its flush covered were sealed before later chunks went to other devices.
    pub(crate) fn reached(&mut self, target: Sequence) {
        self.durable = self.durable.max(target);
    }

    /// Blocks that hosts wrote since the pool was opened and that are durable.
    pub(crate) fn host_blocks(&self) -> u64 {
        self.devices.iter().map(|device| device.durable.host_blocks).sum()
    }

    /// A recovery ends: everything found up to `sequence` is durable.
    pub(crate) fn recovered(&mut self, sequence: Sequence) {
        self.durable = sequence;
        for device in &mut self.devices {
            (device.newest, device.newest_for_hosts) = (sequence, sequence);
            device.durable = OnMedia { all: sequence, for_hosts: sequence, host_blocks: 0 };
        }
    }

    /// Chunk `sequence` goes to `device`; `awaited` if hosts wait for it.
    pub(crate) fn sealed(&mut self, device: DeviceId, sequence: Sequence, awaited: bool) {
        let written = &mut self.devices[device.index()];
        // Without a pending chunk on this device, every earlier chunk is durable here.
        let before = Sequence(sequence.0 - 1);
        if written.newest <= written.durable.all {
            written.durable.all = before;
        }
        written.newest = sequence;
        if awaited {
            if written.newest_for_hosts <= written.durable.for_hosts {
                written.durable.for_hosts = before;
            }
            written.newest_for_hosts = sequence;
        }
    }

    /// The blocks of a failed write to `failed` are on media again, on any device. No chunk counts as durable until the
    /// other devices are flushed, too.
    pub(crate) fn replaced(&mut self, failed: DeviceId) {
        let others = self.devices.iter_mut().enumerate();
        for (index, device) in others.filter(|(index, _)| *index != failed.index()) {
            device.least = device.sent + 1;
            for waiter in &mut self.waiters {
                waiter.needed[index].flushes = device.least;
            }
        }
    }

    /// `then` is due when every chunk up to `target` is durable.
    pub(crate) fn wait(&mut self, target: Sequence, then: Then) {
        let mut needed = [Needed::default(); MAX_DEVICES];
        for (needed, device) in needed.iter_mut().zip(&self.devices) {
            *needed = device.needed(target, then.is_host());
        }
        self.waiters.push(Waiter { needed, then });
    }

    /// The newest waiter waits for no device but `home`: a mistake, for tests of the tests.
    pub(crate) fn forget_others(&mut self, home: DeviceId) {
        if let Some(waiter) = self.waiters.last_mut() {
            let kept = waiter.needed[home.index()];
            waiter.needed = [Needed::default(); MAX_DEVICES];
            waiter.needed[home.index()] = kept;
        }
    }

    /// `then` is due when flushes of all these devices are done that are sent from now on.
    pub(crate) fn wait_for_next(&mut self, devices: impl Iterator<Item = DeviceId>, then: Then) {
        let mut needed = [Needed::default(); MAX_DEVICES];
        for device in devices {
            needed[device.index()].flushes = self.devices[device.index()].sent + 1;
        }
        self.waiters.push(Waiter { needed, then });
    }

    /// Whether all that some host waits for is durable.
    pub(crate) fn is_due_for_hosts(&self) -> bool {
        let due = |waiter: &Waiter| {
            let mut devices = self.devices.iter().zip(waiter.needed);
            waiter.then.is_host() && devices.all(|(device, needed)| device.has(needed, true))
        };
        self.waiters.iter().any(due)
    }

    /// Devices whose flush could satisfy a waiter.
    pub(crate) fn may_flush(&self) -> impl Iterator<Item = DeviceId> {
        let lacks = |waiter: &Waiter, index: usize, device: &Written| {
            !device.has(waiter.needed[index], waiter.then.is_host())
        };
        self.devices.iter().enumerate().filter_map(move |(index, device)| {
            let wanted = device.flushing.is_none()
                && self.waiters.iter().any(|waiter| lacks(waiter, index, device));
            wanted.then_some(DeviceId(index as u8))
        })
    }

    /// Whether to send a flush of `device` now that the chunks of `on_media` are on media: a waiter needs the flush.
    pub(crate) fn begin_flush(&mut self, device: DeviceId, on_media: OnMedia) -> bool {
        let written = &mut self.devices[device.index()];
        let helps = |waiter: &Waiter| {
            let (needed, host) = (waiter.needed[device.index()], waiter.then.is_host());
            !written.has(needed, host) && on_media.reaches(needed, host)
        };
        if written.flushing.is_some() || !self.waiters.iter().any(helps) {
            return false;
        }
        written.flushing = Some(on_media);
        written.sent += 1;
        true
    }

    /// The flush of `device` is done. The chunks covered are durable if the flush succeeded.
    pub(crate) fn end_flush(&mut self, device: DeviceId, sound: bool) {
        let written = &mut self.devices[device.index()];
        written.done = written.sent;
        if let Some(flushed) = written.flushing.take().filter(|_| sound) {
            // Use max: a chunk sealed while this flush was in flight may already have shown a higher sequence to be
            // durable.
            let durable = &mut written.durable;
            durable.all = durable.all.max(flushed.all);
            durable.for_hosts = durable.for_hosts.max(flushed.for_hosts);
            durable.host_blocks = flushed.host_blocks;
        }
        if self.devices.iter().all(|device| device.done >= device.least) {
            self.durable = self.durable.max(self.durable_everywhere());
        }
    }

    /// Up to where every chunk is durable on its device.
    fn durable_everywhere(&self) -> Sequence {
        let behind = self.devices.iter().filter(|device| device.newest > device.durable.all);
        let least = behind.map(|device| device.durable.all).min();
        let newest = self.devices.iter().map(|device| device.newest).max();
        least.or(newest).unwrap_or_default()
    }

    /// Returns the satisfied waiters in order of arrival. Hosts go on waiting unless `let_on`.
    pub(crate) fn due(&mut self, let_on: bool, at_once: bool) -> Vec<Then> {
        let devices = &self.devices;
        let due = |waiter: &mut Waiter| {
            let host = waiter.then.is_host();
            let mut each = devices.iter().zip(waiter.needed);
            let satisfied = each.all(|(device, needed)| device.has(needed, host));
            host && at_once || satisfied && (let_on || !host)
        };
        self.waiters.extract_if(.., due).map(|waiter| waiter.then).collect()
    }

    /// Removes and returns all waiters.
    pub(crate) fn abandon(&mut self) -> Vec<Then> {
        self.waiters.drain(..).map(|waiter| waiter.then).collect()
    }
}

#[cfg(test)]
mod tests;
