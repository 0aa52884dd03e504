//! A queue of the device: its ring in guest memory, and the events of both sides.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use virtio_queue::{Queue, QueueOwnedT as _, QueueT as _};
use vm_memory::{GuestAddress, GuestMemoryMmap};

use crate::config::QUEUE_SIZE;
use crate::inflight::Inflight;
use crate::request::{Chain, Table};

/// A queue.
pub(crate) struct Ring {
    queue: Queue,
    /// Requests are taken.
    pub(crate) is_enabled: bool,
    /// Index of the next request, if no inflight region shows it.
    pub(crate) base: u16,
    kick: Option<File>,
    call: Option<File>,
    inflight: Option<Inflight>,
    /// Requests that an earlier process took and did not answer.
    again: VecDeque<u16>,
    /// By first descriptor, whether the request is under way.
    under_way: Vec<bool>,
    count: usize,
    /// Requests taken so far.
    taken: u64,
    /// Answers since the guest was told last.
    has_news: bool,
    /// The guest must be told in any case: an earlier process, or another event, may not have.
    must_tell: bool,
    /// The guest broke the rules of the ring.
    is_broken: bool,
}

impl Ring {
    pub(crate) fn new() -> Ring {
        let queue = Queue::new(QUEUE_SIZE).expect("a power of two");
        Ring {
            queue,
            is_enabled: false,
            base: 0,
            kick: None,
            call: None,
            inflight: None,
            again: VecDeque::new(),
            under_way: Vec::new(),
            count: 0,
            taken: 0,
            has_news: false,
            must_tell: false,
            is_broken: false,
        }
    }

    /// Sets the number of entries. `None` if the number is no power of two up to the maximum.
    pub(crate) fn set_size(&mut self, size: u32) -> Option<()> {
        self.queue.try_set_size(u16::try_from(size).ok()?).ok()
    }

    /// Sets guest addresses of descriptors, of the ring of requests and of the ring of answers. `None` if one is
    /// misaligned.
    pub(crate) fn set_addresses(&mut self, table: u64, asked: u64, used: u64) -> Option<()> {
        self.queue.try_set_desc_table_address(GuestAddress(table)).ok()?;
        self.queue.try_set_avail_ring_address(GuestAddress(asked)).ok()?;
        self.queue.try_set_used_ring_address(GuestAddress(used)).ok()
    }

    pub(crate) fn set_event_idx(&mut self, on: bool) {
        self.queue.set_event_idx(on);
    }

    /// Sets the event that the frontend waits for.
    pub(crate) fn set_call(&mut self, call: Option<File>) {
        call.iter().for_each(never_block);
        self.call = call;
        self.must_tell = self.queue.ready();
    }

    /// Sets the event of the guest, and starts the queue if it was stopped. `None` if requests of an earlier start are
    /// under way, or the ring is not in guest memory.
    pub(crate) fn start(
        &mut self,
        memory: &GuestMemoryMmap,
        kick: File,
        inflight: Option<Inflight>,
    ) -> Option<()> {
        never_block(&kick);
        self.kick = Some(kick);
        if self.queue.ready() {
            return Some(());
        }
        if self.count > 0 {
            return None;
        }
        let size = self.queue.size();
        self.queue.set_ready(true);
        let valid = self.queue.is_valid(memory);
        let used = valid.then(|| self.queue.used_idx(memory, Ordering::Acquire).ok()).flatten();
        let Some(used) = used else {
            self.queue.set_ready(false);
            return None;
        };
        (self.is_broken, self.under_way) = (false, vec![false; usize::from(size)]);
        self.must_tell = true;
        self.inflight = inflight.filter(|one| one.size() >= size);
        self.queue.set_next_used(used.0);
        self.queue.set_next_avail(self.base);
        if let Some(inflight) = &self.inflight {
            self.again = inflight.recover(used.0).into_iter().filter(|&head| head < size).collect();
            self.queue.set_next_avail(used.0.wrapping_add(self.again.len() as u16));
        }
        Some(())
    }

    /// Takes no more requests.
    pub(crate) fn stop(&mut self) {
        self.queue.set_ready(false);
        self.kick = None;
    }

    /// Index of the next request.
    pub(crate) fn position(&self) -> u16 {
        self.queue.next_avail()
    }

    /// Requests under way.
    pub(crate) fn under_way(&self) -> usize {
        self.count
    }

    fn is_running(&self) -> bool {
        self.queue.ready() && self.is_enabled && !self.is_broken
    }

    /// The event of the guest, while the queue runs.
    pub(crate) fn kick(&self) -> Option<&File> {
        self.kick.as_ref().filter(|_| self.is_running())
    }

    /// Resets the event of the guest.
    pub(crate) fn heard(&mut self) {
        let read = self.kick.as_ref().map(|kick| rustix::io::read(kick, &mut [0; 8]));
        self.is_broken |= !matches!(read, None | Some(Ok(8) | Err(Errno::AGAIN)));
    }

    /// Takes a request: the first descriptor, and the chain if valid.
    pub(crate) fn take(&mut self, memory: &GuestMemoryMmap) -> Option<(u16, Option<Chain>)> {
        if !self.is_running() {
            return None;
        }
        let head = self.again.pop_front();
        let head = head.map_or_else(|| self.next_asked(memory), Some)?;
        let entries = self.queue.size();
        if head >= entries || self.under_way[usize::from(head)] {
            self.is_broken = true;
            return None;
        }
        self.under_way[usize::from(head)] = true;
        self.count += 1;
        if let Some(inflight) = &self.inflight {
            inflight.begin(head, self.taken);
        }
        self.taken += 1;
        let table = Table { at: GuestAddress(self.queue.desc_table()), entries };
        Some((head, Chain::read(memory, table, head)))
    }

    fn next_asked(&mut self, memory: &GuestMemoryMmap) -> Option<u16> {
        let asked =
            self.queue.iter(memory).map(|mut asked| asked.next().map(|one| one.head_index()));
        self.is_broken |= asked.is_err();
        asked.ok().flatten()
    }

    /// Asks the guest for events. Returns whether there are requests already.
    pub(crate) fn listen(&mut self, memory: &GuestMemoryMmap) -> bool {
        self.is_running() && self.queue.enable_notification(memory).unwrap_or(false)
    }

    /// A request that was taken ended without an answer.
    pub(crate) fn forget(&mut self, head: u16) {
        self.under_way[usize::from(head)] = false;
        self.count -= 1;
    }

    /// Answers a request that was taken; the device wrote `written` bytes.
    pub(crate) fn answer(&mut self, memory: &GuestMemoryMmap, head: u16, written: u32) {
        self.forget(head);
        if let Some(inflight) = &self.inflight {
            inflight.ending(head);
        }
        self.is_broken |= self.queue.add_used(memory, head, written).is_err();
        if let Some(inflight) = &self.inflight {
            inflight.ended(head, self.queue.next_used());
        }
        self.has_news = true;
    }

    /// Tells the guest of answers.
    pub(crate) fn tell(&mut self, memory: &GuestMemoryMmap) {
        let Some(call) = self.call.as_ref().filter(|_| self.has_news || self.must_tell) else {
            return;
        };
        let wants = self.queue.needs_notification(memory).unwrap_or(true);
        let must_tell = std::mem::take(&mut self.must_tell);
        self.has_news = false;
        if wants || must_tell {
            // A full counter is an event that the frontend has not heard yet.
            let _full = rustix::io::write(call, &1_u64.to_le_bytes());
        }
    }
}

/// Calls on this file fail where they would wait.
fn never_block(file: &File) {
    let set =
        fcntl_getfl(file.as_fd()).and_then(|flags| fcntl_setfl(file, flags | OFlags::NONBLOCK));
    // A file of which that cannot be said is none that could be waited for.
    let _no_event = set;
}
