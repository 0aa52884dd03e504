//! What is durable, who waits for what to be, and the flushes that make it so, of each device for itself.
//!
//! A host's flush waits for what hosts wrote and for control entries, not for copies and pages of maps that are on
//! their way elsewhere: recovery reads the older place of a block whose copy is missing, and the older page. It has a
//! device flushed only if something that it waits for was written there. Units are freed, and records are written, only
//! when every chunk before is durable.
//!
//! Invariants:
//! * At most one flush of a device is on its way.
//! * What is durable only grows, and is never more than what was on media when a flush was sent that is done.

use thermocline_format::{MAX_DEVICES, Sequence};
use thermocline_types::{DeviceId, UnitId};

/// What happens when something is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// A request of the host goes on.
    Host { request: u32 },
    /// These units may be reset.
    Release { units: Vec<UnitId> },
    /// A scrub looks again at a unit to which chunks were on their way.
    Scrub,
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

/// What of a device somebody waits for.
#[derive(Clone, Copy, Debug, Default)]
struct Needed {
    /// Every chunk on it up to this one must be durable; for a host, every one that hosts wait for.
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
    /// Every chunk up to this one.
    pub(crate) all: Sequence,
    /// Every chunk up to this one that hosts wait for.
    pub(crate) for_hosts: Sequence,
    /// Blocks of hosts in these, since the pool was opened.
    pub(crate) host_blocks: u64,
}

/// One device: the chunks that went to it, and its flushes.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    /// The newest chunk, and the newest that hosts wait for.
    newest: Sequence,
    newest_for_hosts: Sequence,
    durable: OnMedia,
    /// What the flush on its way makes durable.
    flushing: Option<OnMedia>,
    /// Flushes sent and done.
    sent: u64,
    done: u64,
    /// Flushes that must be done before anything else counts as durable: what replaces the blocks of a failed write may
    /// be here, wherever that write went.
    least: u64,
}

impl Written {
    fn has(&self, needed: Needed, host: bool) -> bool {
        self.done >= needed.flushes && self.durable.reaches(needed, host)
    }

    /// What a waiter for `target` needs.
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

/// Flushes and those who wait for them.
#[derive(Debug)]
pub(crate) struct Durability {
    devices: Vec<Written>,
    /// Every chunk up to this one is durable.
    durable: Sequence,
    waiters: Vec<Waiter>,
}

impl Durability {
    /// For so many devices.
    pub(crate) fn new(devices: usize) -> Durability {
        let devices = vec![Written::default(); devices];
        Durability { devices, durable: Sequence(0), waiters: Vec::new() }
    }

    /// Every chunk up to this one is durable.
    pub(crate) fn durable(&self) -> Sequence {
        self.durable
    }

    /// Who waited for every chunk up to `target` was told that it is durable. Devices know less of themselves: what a
    /// flush covered that was sent before one of these was sealed elsewhere.
    pub(crate) fn reached(&mut self, target: Sequence) {
        self.durable = self.durable.max(target);
    }

    /// Blocks that hosts wrote since the pool was opened and that are durable.
    pub(crate) fn host_blocks(&self) -> u64 {
        self.devices.iter().map(|device| device.durable.host_blocks).sum()
    }

    /// A recovery ends: all that it found, up to `sequence`, is durable.
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
        // As far as nothing came to this device, all is durable here.
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

    /// What replaces a failed write to `failed` is on media, on whatever device: nothing counts as durable before the
    /// others are flushed, too.
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

    /// The newest who waits does not wait for devices but `home`: a mistake, for tests of the tests.
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

    /// Devices whose flush could help somebody.
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

    /// Whether a flush of `device` is to be sent now that this is on media: somebody waits for what it makes durable.
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

    /// The flush of `device` is done; what it covered is durable if it did not fail.
    pub(crate) fn end_flush(&mut self, device: DeviceId, sound: bool) {
        let written = &mut self.devices[device.index()];
        written.done = written.sent;
        if let Some(flushed) = written.flushing.take().filter(|_| sound) {
            // What came to it meanwhile may have shown that it had more than what was flushed.
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

    /// Who waits no more, in the order in which they came. Hosts go on waiting unless they are `let_on`.
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

    /// Nobody waits any more; returns who did.
    pub(crate) fn abandon(&mut self) -> Vec<Then> {
        self.waiters.drain(..).map(|waiter| waiter.then).collect()
    }
}

#[cfg(test)]
mod tests;
