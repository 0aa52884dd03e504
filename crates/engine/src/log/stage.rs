//! What waits in memory to be sealed into a chunk.

use std::collections::VecDeque;

use slab::Slab;
use thermocline_format::{BLOCK_BYTES, Entry, Sequence, VolumeId};
use thermocline_types::{Class, Time};

use crate::config::{Config, LINGER};
use crate::map::Value;

/// Who waits for a block or control entry to be on media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Nobody.
    Nobody,
    /// A request of the host.
    Request(u32),
    /// A flight whose write failed.
    Failed(Sequence),
}

/// A block that waits to be sealed.
#[derive(Debug)]
pub(crate) struct Staged<P> {
    /// Index of the volume, and its identifier: a copy may outlive it.
    pub(crate) volume: u16,
    pub(crate) id: VolumeId,
    /// Whether garbage collection copies it: then the map still points at `old`. Else the map points here.
    pub(crate) copy: bool,
    /// Whether it replaces a block whose write failed.
    pub(crate) replaces: bool,
    /// Not trimmed meanwhile. Of a copy, that is found out when it is sealed.
    pub(crate) alive: bool,
    /// Whether the host was told that a write of it, this one or one that this one superseded, is complete.
    pub(crate) acknowledged: bool,
    pub(crate) crc: u32,
    pub(crate) lba: u64,
    /// The class in whose queue it waits.
    pub(crate) class: Class,
    /// Among blocks of the host, the higher the later it was staged.
    pub(crate) ticket: u64,
    /// The valid block on media that this one replaces.
    pub(crate) old: Option<Value>,
    /// Who waits for it: whoever wrote it, and whoever wrote what it superseded before that was on media.
    pub(crate) owner: Owner,
    pub(crate) also: Vec<Owner>,
    pub(crate) payload: P,
}

impl<P> Staged<P> {
    /// It will not be written; returns what it would have replaced on media. Who waited for it, waits for what comes
    /// in its place.
    pub(crate) fn supersede(&mut self, heirs: &mut Vec<Owner>) -> Option<Value> {
        self.alive = false;
        heirs.append(&mut self.also);
        let owner = std::mem::replace(&mut self.owner, Owner::Nobody);
        heirs.extend((owner != Owner::Nobody).then_some(owner));
        self.old.take()
    }
}

/// Control entries that stand in one chunk.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) entries: Vec<Entry>,
    pub(crate) owners: Vec<Owner>,
}

/// What waits to be sealed.
#[derive(Debug)]
pub(crate) struct Stage<P> {
    /// Blocks that fill a chunk.
    pub(crate) full: usize,
    pub(crate) slots: Slab<Staged<P>>,
    /// Slots of each class, in the order in which they came: first those of the host, then copies.
    pub(crate) queues: Vec<VecDeque<u32>>,
    pub(crate) control: VecDeque<Control>,
    /// Blocks of the host that are staged or on their way.
    pub(crate) host_blocks: u32,
    /// Those of them that are on their way.
    pub(crate) flying: u32,
    /// The newest ticket that was given out.
    ticket: u64,
    /// For each class, the newest ticket whose block is to be sealed without waiting for a full chunk.
    hurried: Vec<u64>,
    /// Flushes of the host that wait for all blocks up to a ticket to be sealed.
    pub(crate) flushes: VecDeque<(u64, u32)>,
    /// When whatever is staged is to be sealed; `None` while nothing waits.
    pub(crate) due: Option<Time>,
    /// Whether a queue of the host may be full, or in a hurry.
    pub(crate) ripe: bool,
    /// Blocks of copies, and of failed writes, that wait to be sealed.
    pub(crate) copies: usize,
    /// Staged blocks of failed writes.
    pub(crate) replacements: u32,
}

impl<P> Stage<P> {
    /// `full` blocks fill a chunk.
    pub(crate) fn new(classes: usize, full: usize) -> Stage<P> {
        Stage {
            full,
            slots: Slab::new(),
            queues: (0..2 * classes).map(|_| VecDeque::new()).collect(),
            control: VecDeque::new(),
            host_blocks: 0,
            flying: 0,
            ticket: 0,
            hurried: vec![0; classes],
            flushes: VecDeque::new(),
            due: None,
            ripe: false,
            copies: 0,
            replacements: 0,
        }
    }

    /// Stages a block of the host, whose ticket it gets.
    pub(crate) fn push(&mut self, mut staged: Staged<P>, now: Time) -> u32 {
        self.ticket += 1;
        staged.ticket = self.ticket;
        let queue = 2 * staged.class.index();
        let slot = self.slots.insert(staged) as u32;
        self.queues[queue].push_back(slot);
        self.ripe |= self.queues[queue].len() >= self.full;
        self.host_blocks += 1;
        if self.due.is_none() {
            self.due = Some(Time::nanos(now.as_nanos() + LINGER.as_nanos()));
        }
        slot
    }

    /// Stages a block of a failed write, before all others: until it is on media, nothing behind it can be durable, and
    /// no unit be freed.
    pub(super) fn push_first(&mut self, staged: Staged<P>) -> u32 {
        let queue = 2 * staged.class.index() + 1;
        let slot = self.slots.insert(staged) as u32;
        self.queues[queue].push_front(slot);
        self.copies += 1;
        self.replacements += 1;
        slot
    }

    /// Whether one of `slots` is of the same block.
    pub(super) fn holds(&self, slots: &[u32], staged: &Staged<P>) -> bool {
        let same = |other: &Staged<P>| (other.id, other.lba) == (staged.id, staged.lba);
        slots.iter().any(|&slot| same(&self.slots[slot as usize]))
    }

    /// Stages a copy.
    pub(crate) fn push_copy(&mut self, staged: Staged<P>) {
        let queue = 2 * staged.class.index() + 1;
        let slot = self.slots.insert(staged) as u32;
        self.queues[queue].push_back(slot);
        self.copies += 1;
    }

    /// Takes the first block of a queue.
    pub(crate) fn pop(&mut self, queue: usize) -> Option<u32> {
        let slot = self.queues[queue].pop_front()?;
        self.copies -= queue % 2;
        Some(slot)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.control.is_empty() && self.queues.iter().all(VecDeque::is_empty)
    }

    /// Whether blocks of the host wait that bypass fast devices.
    pub(crate) fn hosts_wait_below(&self, config: &Config) -> bool {
        let classes = usize::from(config.placement_classes());
        self.queues.iter().step_by(2).take(classes).any(|queue| !queue.is_empty())
    }

    /// Bytes of memory held, with the payload of what is staged or on its way.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let slots = self.slots.capacity() * size_of::<Staged<P>>();
        let payloads = self.slots.len() as u64 + u64::from(self.flying);
        slots as u64 + payloads * BLOCK_BYTES as u64
    }

    /// Blocks of the host that wait to be sealed.
    pub(crate) fn waiting(&self) -> u32 {
        self.host_blocks - self.flying
    }

    /// Has a block of the host sealed without waiting for a full chunk, and with it what came before it in its class.
    pub(crate) fn hurry(&mut self, slot: u32) {
        let Staged { class, ticket, .. } = self.slots[slot as usize];
        let hurried = &mut self.hurried[class.index()];
        *hurried = ticket.max(*hurried);
        self.ripe = true;
    }

    /// Has everything that waits sealed without waiting for full chunks.
    pub(crate) fn hurry_all(&mut self) {
        self.hurried.fill(self.ticket);
        self.due = None;
        self.ripe = true;
    }

    /// Looks again at whether a queue of the host is full or in a hurry.
    pub(crate) fn ripen(&mut self) {
        let ripe = |queue: usize| self.queues[queue].len() >= self.full || self.is_hurried(queue);
        self.ripe = (0..self.queues.len()).step_by(2).any(ripe);
    }

    /// Whether the first block of a queue is in a hurry.
    pub(crate) fn is_hurried(&self, queue: usize) -> bool {
        let first = self.queues[queue].front();
        first.is_some_and(|&slot| self.slots[slot as usize].ticket <= self.hurried[queue / 2])
    }

    /// The queues of the host in which anything waits, in the order in which their first blocks came.
    pub(super) fn oldest_first(&self, order: &mut Vec<usize>) {
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

    /// Has a flush of the host wait for all that waits to be sealed; `false` if nothing does.
    pub(crate) fn flush(&mut self, request: u32) -> bool {
        if self.oldest().is_none() {
            return false;
        }
        self.hurry_all();
        self.flushes.push_back((self.ticket, request));
        true
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
        let first = self.queues.iter().step_by(2).filter_map(VecDeque::front);
        first.map(|&slot| self.slots[slot as usize].ticket).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn staged(class: u8) -> Staged<()> {
        Staged {
            volume: 0,
            id: VolumeId(0),
            copy: false,
            replaces: false,
            alive: true,
            acknowledged: true,
            crc: 0,
            lba: 0,
            class: Class(class),
            ticket: 0,
            old: None,
            owner: Owner::Nobody,
            also: Vec::new(),
            payload: (),
        }
    }

    #[test]
    fn queues_come_in_the_order_in_which_their_first_blocks_came() {
        let mut stage = Stage::new(4, 253);
        for class in [2, 0, 2, 3] {
            stage.push(staged(class), Time::ZERO);
        }
        stage.push_copy(staged(1));
        let mut order = vec![7];
        stage.oldest_first(&mut order);
        assert_eq!(order, [4, 0, 6], "classes 2, 0 and 3; copies are apart");
        stage.pop(4);
        stage.oldest_first(&mut order);
        assert_eq!(order, [0, 4, 6]);
    }

    #[test]
    fn memory_is_that_of_slots_and_of_every_payload_that_is_held() {
        let mut stage = Stage::new(1, 253);
        let slots = |stage: &Stage<()>| (stage.slots.capacity() * size_of::<Staged<()>>()) as u64;
        (0..3).for_each(|_| _ = stage.push(staged(0), Time::ZERO));
        assert_eq!(stage.memory_bytes(), slots(&stage) + 3 * 4096);
        stage.flying = 2;
        assert_eq!(stage.memory_bytes(), slots(&stage) + 5 * 4096);
    }
}
