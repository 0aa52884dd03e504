//! The write cache: blocks and control entries that wait in memory to be sealed into a chunk.
//!
//! Blocks wait in queues, two for each class: one of the host's blocks, and one of copies and of blocks of failed
//! writes. Control entries wait in a queue of their own.

mod urgent;

use std::collections::VecDeque;

use slab::Slab;
use thermocline_format::{BLOCK_BYTES, Entry, Sequence, VolumeId};
use thermocline_types::{Class, Time};

use crate::config::{Config, MAX_STAGED_TIME};
use crate::map::Value;
use crate::marks::mark;

use urgent::UrgentLane;

/// Waiter for a block or control entry to be on media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A request of the host.
    Request(u32),
    /// A flight whose write failed.
    Failed(Sequence),
}

/// Waiters for a block: writers of the block, and writers of superseded versions that were not on media yet.
#[derive(Debug, Default)]
pub(crate) enum Owners {
    /// Nobody.
    #[default]
    Nobody,
    /// One alone.
    One(Owner),
    /// Several, in the order in which they came.
    Several(Vec<Owner>),
}

impl Owners {
    /// `owner` waits as well.
    fn add(&mut self, owner: Owner) {
        *self = match std::mem::take(self) {
            Owners::Nobody => Owners::One(owner),
            Owners::One(first) => Owners::Several(vec![first, owner]),
            Owners::Several(mut owners) => {
                owners.push(owner);
                Owners::Several(owners)
            }
        };
    }

    /// All waiters.
    pub(crate) fn each(&self) -> &[Owner] {
        match self {
            Owners::Nobody => &[],
            Owners::One(owner) => std::slice::from_ref(owner),
            Owners::Several(owners) => owners,
        }
    }
}

impl From<Option<Owner>> for Owners {
    fn from(owner: Option<Owner>) -> Owners {
        owner.map_or(Owners::Nobody, Owners::One)
    }
}

/// A block that waits to be sealed.
#[derive(Debug)]
pub(crate) struct Staged<P> {
    /// Index of the volume, and its identifier: a copy may outlive it.
    pub(crate) volume: u16,
    pub(crate) id: VolumeId,
    /// Whether garbage collection copies it: then the map still points at `old`. Else the map points here.
    pub(crate) copy: bool,
    /// Whether the block comes from a layer below, and no host wrote it.
    pub(crate) lifted: bool,
    /// Whether the block replaces a block whose write failed.
    pub(crate) replaces: bool,
    /// Not trimmed meanwhile. For a copy, the check is made at sealing.
    pub(crate) alive: bool,
    /// Whether a write of the block, superseded writes included, was acknowledged to the host.
    pub(crate) acknowledged: bool,
    pub(crate) crc: u32,
    pub(crate) lba: u64,
    /// The class in whose queue the block waits.
    pub(crate) class: Class,
    /// Among blocks of the host, the higher the later it was staged.
    pub(crate) ticket: u64,
    /// The valid on-media block that the staged block replaces.
    pub(crate) old: Option<Value>,
    pub(crate) owners: Owners,
    pub(crate) payload: P,
}

/// Cancels a staged block. Returns the on-media block it would have replaced. Its waiters move to `waiting`; the caller
/// attaches them to the replacement.
fn drop_out<P>(staged: &mut Staged<P>, waiting: &mut Vec<Owner>) -> Option<Value> {
    staged.alive = false;
    waiting.extend(std::mem::take(&mut staged.owners).each());
    staged.old.take()
}

/// Control entries for one chunk.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) entries: Vec<Entry>,
    pub(crate) owners: Vec<Owner>,
}

impl Control {
    /// Lines that the entries take.
    pub(crate) fn lines(&self) -> usize {
        self.entries.iter().map(Entry::lines).sum()
    }
}

/// Blocks and control entries that wait to be sealed.
#[derive(Debug)]
pub(crate) struct WriteCache<P> {
    /// Blocks that fill a chunk.
    full: usize,
    slots: Slab<Staged<P>>,
    /// Slots of each class, in the order in which they came: first those of the host, then copies.
    queues: Vec<VecDeque<u32>>,
    /// Slots of the host that left their queues because a flush or a request waits for the blocks.
    urgent: UrgentLane,
    /// Blocks in the queues of the host, by the index of their volume.
    queued: Vec<u32>,
    control: VecDeque<Control>,
    /// Blocks of the host that are staged or on their way.
    host_blocks: u32,
    /// Blocks that come from layers below and are staged.
    lifted: u32,
    /// Host blocks that are in flight.
    flying: u32,
    /// The newest ticket that was given out.
    ticket: u64,
    /// For each class, the newest ticket whose block must be sealed without waiting for a full chunk.
    awaited_until: Vec<u64>,
    /// Flushes of the host that wait for all blocks up to a ticket to be sealed.
    flushes: VecDeque<(u64, u32)>,
    /// When all staged blocks must be sealed; `None` while no block waits.
    due: Option<Time>,
    /// Whether a queue of the host may be full, or awaited.
    may_seal: bool,
    /// Blocks of copies, and of failed writes, that wait to be sealed.
    copies: usize,
    /// Staged blocks of failed writes.
    replacements: u32,
}

/// The queue of a class for blocks of the host.
pub(crate) fn host_queue(class: Class) -> usize {
    2 * class.index()
}

/// The queue of a class for copies and blocks of failed writes.
pub(crate) fn copy_queue(class: Class) -> usize {
    2 * class.index() + 1
}

/// The class whose blocks wait in `queue`.
pub(crate) fn class_of(queue: usize) -> Class {
    Class((queue / 2) as u8)
}

/// Whether `queue` is one of copies.
pub(crate) fn is_of_copies(queue: usize) -> bool {
    queue % 2 == 1
}

impl<P> WriteCache<P> {
    /// `full` blocks fill a chunk.
    pub(crate) fn new(classes: usize, full: usize) -> WriteCache<P> {
        WriteCache {
            full,
            slots: Slab::new(),
            queues: (0..2 * classes).map(|_| VecDeque::new()).collect(),
            urgent: UrgentLane::default(),
            queued: Vec::new(),
            control: VecDeque::new(),
            host_blocks: 0,
            lifted: 0,
            flying: 0,
            ticket: 0,
            awaited_until: vec![0; classes],
            flushes: VecDeque::new(),
            due: None,
            may_seal: false,
            copies: 0,
            replacements: 0,
        }
    }

    /// Stages a block of the host, whose ticket it gets.
    pub(crate) fn push(&mut self, mut staged: Staged<P>, now: Time) -> u32 {
        self.ticket += 1;
        self.lifted += u32::from(staged.lifted);
        staged.ticket = self.ticket;
        let (queue, volume) = (host_queue(staged.class), usize::from(staged.volume));
        let slot = self.slots.insert(staged) as u32;
        if self.queued.len() <= volume {
            self.queued.resize(volume + 1, 0);
        }
        self.queued[volume] += 1;
        self.queues[queue].push_back(slot);
        self.may_seal |= self.queues[queue].len() >= self.full;
        self.host_blocks += 1;
        if self.due.is_none() {
            self.due = Some(Time::nanos(now.as_nanos() + MAX_STAGED_TIME.as_nanos()));
        }
        slot
    }

    /// Stages a block of a failed write ahead of all other blocks. Until the block is on media, no later block can be
    /// durable and no unit can be freed.
    pub(crate) fn push_first(&mut self, staged: Staged<P>) -> u32 {
        let queue = copy_queue(staged.class);
        let slot = self.slots.insert(staged) as u32;
        self.queues[queue].push_front(slot);
        self.copies += 1;
        self.replacements += 1;
        self.host_blocks += u32::from(!self.slots[slot as usize].copy);
        slot
    }

    /// Holds a block that is read from here and goes nowhere any more.
    pub(crate) fn hold(&mut self, staged: Staged<P>) -> u32 {
        self.slots.insert(staged) as u32
    }

    /// Whether one of `slots` is of the same block.
    pub(crate) fn holds(&self, slots: &[u32], staged: &Staged<P>) -> bool {
        let same = |other: &Staged<P>| (other.id, other.lba) == (staged.id, staged.lba);
        slots.iter().any(|&slot| same(&self.slots[slot as usize]))
    }

    /// Stages a copy.
    pub(crate) fn push_copy(&mut self, staged: Staged<P>) {
        let queue = copy_queue(staged.class);
        let slot = self.slots.insert(staged) as u32;
        self.queues[queue].push_back(slot);
        self.copies += 1;
    }

    /// Takes the first block of a queue.
    pub(crate) fn pop(&mut self, queue: usize) -> Option<u32> {
        let slot = self.queues[queue].pop_front()?;
        self.copies -= queue % 2;
        if !is_of_copies(queue) {
            self.queued[usize::from(self.slots[slot as usize].volume)] -= 1;
        }
        self.replacements -= u32::from(self.slots[slot as usize].replaces);
        Some(slot)
    }

    /// The block in a slot.
    #[inline]
    pub(crate) fn block(&self, slot: u32) -> &Staged<P> {
        &self.slots[slot as usize]
    }

    /// The block that `slot` will replace moved to `old`.
    pub(crate) fn replaces(&mut self, slot: u32, old: Value) {
        self.slots[slot as usize].old = Some(old);
    }

    /// The host has written the block in `slot` once more: `owner` joins the waiters.
    pub(crate) fn write_again(&mut self, slot: u32, crc: u32, payload: P, owner: Option<Owner>) {
        let staged = &mut self.slots[slot as usize];
        staged.payload = payload;
        staged.crc = crc;
        self.lifted -= u32::from(std::mem::take(&mut staged.lifted));
        staged.acknowledged |= owner.is_none();
        if let Some(owner) = owner {
            staged.owners.add(owner);
        }
    }

    /// Removes and returns the waiters for the block in `slot`.
    pub(crate) fn forget_owners(&mut self, slot: u32) -> Owners {
        std::mem::take(&mut self.slots[slot as usize].owners)
    }

    /// Cancels the block in `slot`; its waiters move to `waiting`. Returns the on-media block that would have been
    /// replaced.
    pub(crate) fn trim(&mut self, slot: u32, waiting: &mut Vec<Owner>) -> Option<Value> {
        drop_out(&mut self.slots[slot as usize], waiting)
    }

    /// Writes the block in `slot`, of a failed write, although the host wrote the block again. The block becomes a
    /// copy: its waiters must not wait for the host's turn.
    pub(crate) fn becomes_copy(&mut self, slot: u32) {
        self.slots[slot as usize].copy = true;
        self.host_blocks -= 1;
    }

    fn take_out(&mut self, slot: u32) -> Staged<P> {
        let staged = self.slots.remove(slot as usize);
        self.lifted -= u32::from(staged.lifted);
        staged
    }

    /// Blocks that come from layers below and wait to be sealed.
    pub(crate) fn lifted(&self) -> u32 {
        self.lifted
    }

    /// Takes out a block that was popped and is on its way now.
    pub(crate) fn launch(&mut self, slot: u32) -> Staged<P> {
        let staged = self.take_out(slot);
        self.flying += u32::from(!staged.copy);
        staged
    }

    /// Takes out a block that was popped and is not to be written.
    pub(crate) fn discard(&mut self, slot: u32) {
        let staged = self.take_out(slot);
        self.host_blocks -= u32::from(!staged.copy);
    }

    /// So many blocks of the host that were on their way have arrived.
    pub(crate) fn landed(&mut self, host_blocks: u32) {
        self.host_blocks -= host_blocks;
        self.flying -= host_blocks;
    }

    /// Queues entries to be written in one chunk; `owners` wait for the entries.
    pub(crate) fn say(&mut self, entries: Vec<Entry>, owners: Vec<Owner>) {
        self.control.push_back(Control { entries, owners });
    }

    /// Takes back the last `count` groups of control entries.
    pub(crate) fn unsay(&mut self, count: usize) {
        let left = self.control.len();
        self.control.truncate(left - left.min(count));
    }

    /// The next control entries that belong in one chunk, if the entries take at most `room` lines.
    pub(crate) fn next_control(&mut self, room: usize) -> Option<Control> {
        self.control.pop_front_if(|control| control.lines() <= room)
    }

    /// Lines of the next control entries that belong in one chunk.
    pub(crate) fn control_lines(&self) -> Option<usize> {
        self.control.front().map(Control::lines)
    }

    /// Whether control entries wait.
    pub(crate) fn has_control(&self) -> bool {
        !self.control.is_empty()
    }

    /// `owner` waits for all queued control entries. Returns the number of queued groups.
    pub(crate) fn await_control(&mut self, owner: Owner) -> u32 {
        self.control.iter_mut().for_each(|control| control.owners.push(owner));
        self.control.len() as u32
    }

    /// Queues in which blocks wait.
    pub(crate) fn queues(&self) -> usize {
        self.queues.len()
    }

    /// How many blocks wait in a queue.
    pub(crate) fn length(&self, queue: usize) -> usize {
        self.queues[queue].len()
    }

    /// The slot of the first block of a queue.
    pub(crate) fn first(&self, queue: usize) -> Option<u32> {
        self.queues[queue].front().copied()
    }

    /// Whether the blocks in a queue fill a chunk.
    pub(crate) fn is_full(&self, queue: usize) -> bool {
        self.queues[queue].len() >= self.full
    }

    /// Blocks of the host that are staged or on their way.
    pub(crate) fn host_blocks(&self) -> u32 {
        self.host_blocks
    }

    /// Host blocks that are in flight.
    pub(crate) fn flying(&self) -> u32 {
        self.flying
    }

    /// Blocks of copies, and of failed writes, that wait to be sealed.
    pub(crate) fn copies(&self) -> usize {
        self.copies
    }

    /// Whether blocks of failed writes wait to be sealed.
    pub(crate) fn has_replacements(&self) -> bool {
        self.replacements > 0
    }

    /// Where the blocks stand of which copies wait to be sealed.
    pub(crate) fn copied(&self) -> impl Iterator<Item = Value> {
        let slots = self.queues.iter().skip(1).step_by(2).flatten();
        let staged = slots.map(|&slot| &self.slots[slot as usize]);
        staged.filter(|staged| staged.copy).filter_map(|staged| staged.old)
    }

    /// When all staged blocks must be sealed.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Whether a queue of the host may be full, or awaited.
    pub(crate) fn may_seal(&self) -> bool {
        self.may_seal
    }

    /// Whether a block waits whose write was acknowledged to the host.
    pub(crate) fn holds_acknowledged(&self) -> bool {
        let slots = self.queues.iter().step_by(2).flatten().copied().chain(self.urgent.slots());
        let mut staged = slots.map(|slot| &self.slots[slot as usize]);
        staged.any(|staged| staged.alive && staged.acknowledged)
    }

    /// Puts blocks that were picked in the order of their addresses.
    pub(crate) fn sort_by_address(&self, picked: &mut [u32]) {
        picked.sort_by_key(|&slot| {
            let staged = &self.slots[slot as usize];
            (staged.volume, staged.lba)
        });
    }

    /// Takes out all blocks of the host that wait.
    pub(crate) fn take_hosts(&mut self) -> Vec<Staged<P>> {
        let queues = self.queues.iter_mut().step_by(2).flat_map(|queue| queue.drain(..));
        let slots: Vec<u32> = queues.chain(self.urgent.drain()).collect();
        self.queued.fill(0);
        self.host_blocks -= slots.len() as u32;
        slots.into_iter().map(|slot| self.take_out(slot)).collect()
    }

    /// Sealing ends for good. Staged blocks can still be read. Returns the waiters, and separately the waiting flush
    /// requests.
    pub(crate) fn give_up(&mut self) -> (Vec<Owner>, Vec<u32>) {
        let mut owners = Vec::new();
        let queues = self.queues.iter_mut().flat_map(|queue| queue.drain(..));
        for slot in queues.chain(self.urgent.drain()) {
            mark!(StageFailed);
            drop_out(&mut self.slots[slot as usize], &mut owners);
        }
        self.copies = 0;
        self.queued.fill(0);
        mark!(ControlFailed if !self.control.is_empty());
        owners.extend(self.control.drain(..).flat_map(|control| control.owners));
        let flushes = self.flushes.drain(..).map(|(_, request)| request);
        (owners, flushes.chain(self.urgent.drain_flushes()).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        let blocks = !self.urgent.is_empty() || !self.queues.iter().all(VecDeque::is_empty);
        self.control.is_empty() && !blocks
    }

    /// Whether blocks of the host wait that bypass fast devices.
    pub(crate) fn hosts_wait_below(&self, config: &Config) -> bool {
        let classes = usize::from(config.placement_classes());
        let below = |class: Class| class.index() < classes;
        self.express_class(below).is_some()
            || self.queues.iter().step_by(2).take(classes).any(|queue| !queue.is_empty())
    }

    /// Bytes of memory held, with the payload of blocks that are staged or in flight.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let slots = self.slots.capacity() * size_of::<Staged<P>>();
        let payloads = self.slots.len() as u64 + u64::from(self.flying);
        slots as u64 + payloads * BLOCK_BYTES as u64
    }

    /// Blocks of the host that wait to be sealed.
    pub(crate) fn waiting(&self) -> u32 {
        self.host_blocks - self.flying
    }

    /// Has a block of the host sealed without waiting for a full chunk, together with earlier blocks of its class.
    pub(crate) fn seal_soon(&mut self, slot: u32) {
        let Staged { class, ticket, .. } = self.slots[slot as usize];
        let awaited_until = &mut self.awaited_until[class.index()];
        *awaited_until = ticket.max(*awaited_until);
        self.may_seal = true;
    }

    /// Has a block of the host sealed before all else.
    pub(crate) fn hasten_block(&mut self, slot: u32) {
        let Staged { class, volume, .. } = self.slots[slot as usize];
        let queue = &mut self.queues[host_queue(class)];
        // A block that is not in the queue is in the urgent lane already.
        if let Some(at) = queue.iter().rposition(|&other| other == slot) {
            queue.remove(at);
            self.queued[usize::from(volume)] -= 1;
            mark!(AwaitedGoesFirst if !queue.is_empty());
            self.urgent.push(slot);
            self.may_seal = true;
        }
    }

    /// Has all waiting blocks sealed without waiting for full chunks. Returns whether a block was not awaited
    /// before.
    pub(crate) fn seal_all_soon(&mut self) -> bool {
        let new =
            self.waiting() > 0 && self.awaited_until.iter().any(|ticket| *ticket != self.ticket);
        self.awaited_until.fill(self.ticket);
        self.due = None;
        self.may_seal = true;
        new
    }

    /// Updates whether a queue of the host is full or awaited.
    pub(crate) fn update_may_seal(&mut self) {
        let may_seal =
            |queue: usize| self.queues[queue].len() >= self.full || self.is_awaited(queue);
        self.may_seal = !self.urgent.is_empty() || (0..self.queues.len()).step_by(2).any(may_seal);
    }

    /// Whether the first block of a queue is awaited.
    pub(crate) fn is_awaited(&self, queue: usize) -> bool {
        let first = self.queues[queue].front();
        first.is_some_and(|&slot| self.slots[slot as usize].ticket <= self.awaited_until[queue / 2])
    }

    /// The queues of the host in which anything waits, in the order in which their first blocks came.
    pub(crate) fn oldest_first(&self, order: &mut Vec<usize>) {
        order.clear();
        let hosts = (0..self.queues.len()).step_by(2);
        order.extend(hosts.filter(|&queue| !self.queues[queue].is_empty()));
        order.sort_unstable_by_key(|&queue| self.slots[self.queues[queue][0] as usize].ticket);
    }

    /// Whether no queue of its kind is longer.
    pub(crate) fn is_longest(&self, queue: usize) -> bool {
        let longest = self.queues.iter().skip(queue % 2).step_by(2).map(VecDeque::len).max();
        longest == Some(self.queues[queue].len())
    }

    /// Has a flush of the host wait until all waiting blocks are sealed; `false` if no block waits.
    pub(crate) fn flush(&mut self, request: u32) -> bool {
        if self.oldest().is_none() {
            return false;
        }
        self.seal_all_soon();
        self.flushes.push_back((self.ticket, request));
        true
    }

    /// Has a flush wait for the waiting blocks of a volume. At most a chunk of blocks precedes all queues. If the
    /// volume has more waiting blocks, or if all waiting blocks are the volume's, the flush waits for all queues.
    /// `false` if the flush has no block to wait for.
    pub(crate) fn flush_volume(&mut self, volume: u16, request: u32) -> bool {
        let queued = self.queued.get(usize::from(volume)).copied().unwrap_or(0);
        if queued == self.waiting() || queued as usize > self.full {
            return self.flush(request);
        }
        self.hasten(volume, queued as usize);
        if self.urgent.is_empty() {
            return false;
        }
        self.may_seal = true;
        self.urgent.flush(request);
        true
    }

    /// Takes the `left` blocks of a volume out of the queues of the host. As a rule they came last.
    fn hasten(&mut self, volume: u16, mut left: usize) {
        let mut found = Vec::with_capacity(left);
        for queue in self.queues.iter_mut().step_by(2) {
            let mut at = queue.len();
            while at > 0 && left > 0 {
                at -= 1;
                if self.slots[queue[at] as usize].volume == volume {
                    found.extend(queue.remove(at));
                    left -= 1;
                }
            }
        }
        if let Some(queued) = self.queued.get_mut(usize::from(volume)) {
            *queued = 0;
        }
        found.sort_unstable_by_key(|&slot| self.slots[slot as usize].ticket);
        found.into_iter().for_each(|slot| self.urgent.push(slot));
    }

    /// The class of the first urgent block whose class `is_apt`.
    pub(crate) fn express_class(&self, is_apt: impl Fn(Class) -> bool) -> Option<Class> {
        let mut classes = self.urgent.slots().map(|slot| self.slots[slot as usize].class);
        classes.find(|class| is_apt(*class))
    }

    /// Takes the first urgent block whose class `is_apt`.
    pub(crate) fn pop_urgent(&mut self, is_apt: impl Fn(Class) -> bool) -> Option<u32> {
        self.urgent.pop(|slot| is_apt(self.slots[slot as usize].class))
    }

    /// The blocks that precede all queues.
    pub(crate) fn urgent(&mut self) -> &mut UrgentLane {
        &mut self.urgent
    }

    /// The next flush of a volume for which everything was sealed.
    pub(crate) fn next_volume_flush(&mut self) -> Option<u32> {
        self.urgent.next_flush()
    }

    /// The next flush for which everything was sealed.
    pub(crate) fn next_flush(&mut self) -> Option<u32> {
        let &(ticket, request) = self.flushes.front()?;
        if self.oldest().is_some_and(|oldest| oldest <= ticket) {
            return None;
        }
        self.flushes.pop_front();
        Some(request)
    }

    /// The lowest ticket among the blocks of the host that wait.
    fn oldest(&self) -> Option<u64> {
        let first = self.queues.iter().step_by(2).filter_map(|queue| queue.front().copied());
        first.chain(self.urgent.slots()).map(|slot| self.slots[slot as usize].ticket).min()
    }
}

#[cfg(test)]
impl<P> Staged<P> {
    /// A new block of volume 1 that waits to be written.
    pub(crate) fn of_class(class: u8, payload: P) -> Staged<P> {
        Staged {
            volume: 0,
            id: VolumeId(1),
            copy: false,
            lifted: false,
            replaces: false,
            alive: true,
            acknowledged: true,
            crc: 0,
            lba: 0,
            class: Class(class),
            ticket: 0,
            old: None,
            owners: Owners::Nobody,
            payload,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_come_in_the_order_in_which_their_first_blocks_came() {
        let mut cache = WriteCache::new(4, 255);
        for class in [2, 0, 2, 3] {
            cache.push(Staged::of_class(class, ()), Time::ZERO);
        }
        cache.push_copy(Staged::of_class(1, ()));
        let mut order = vec![7];
        cache.oldest_first(&mut order);
        assert_eq!(order, [4, 0, 6], "classes 2, 0 and 3; copies are apart");
        cache.pop(4);
        cache.oldest_first(&mut order);
        assert_eq!(order, [0, 4, 6]);
    }

    #[test]
    fn memory_is_that_of_slots_and_of_every_payload_that_is_held() {
        let mut cache = WriteCache::new(1, 255);
        let slots =
            |cache: &WriteCache<()>| (cache.slots.capacity() * size_of::<Staged<()>>()) as u64;
        (0..3).for_each(|_| _ = cache.push(Staged::of_class(0, ()), Time::ZERO));
        assert_eq!(cache.memory_bytes(), slots(&cache) + 3 * 4096);
        cache.flying = 2;
        assert_eq!(cache.memory_bytes(), slots(&cache) + 5 * 4096);
    }
}
