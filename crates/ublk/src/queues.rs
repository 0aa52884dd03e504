//! The thread that passes requests between the kernel and targets, of all devices on one ring.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use rustix::io::Errno;
use slab::Slab;
use thermocline_target::{Bell, BufferPool, Ended, Export, Mailbox};

use crate::abi::{COMMIT_AND_FETCH_REQ, FETCH_REQ, IoCommand, bytes_at};
use crate::uring::{Descriptors, Ring};
use crate::volume::{LONGEST, Payloads, Volume};

/// Bytes of requests under way: of all devices, as far as each has room for its longest request, and of one device.
/// Chosen: as of NBD.
const MEMORY: u64 = 128 << 20;
/// See [`MEMORY`].
const MEMORY_OF_ONE: u64 = 16 << 20;
/// Bytes of memory kept for later requests. Chosen, not measured.
const POOL_BYTES: usize = 16 << 20;

/// An open device: the side of its server.
pub struct Opened {
    file: File,
    descriptors: Descriptors,
    depth: u16,
}

impl Opened {
    /// Of device `number` with `depth` tags.
    ///
    /// # Errors
    /// When another process has the device, or the driver refuses.
    pub fn new(number: u32, depth: u16) -> io::Result<Opened> {
        let file = File::options().read(true).write(true).open(format!("/dev/ublkc{number}"))?;
        let descriptors = Descriptors::map(&file, depth)?;
        Ok(Opened { file, descriptors, depth })
    }
}

impl Payloads for Opened {
    fn take(&self, tag: u16, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, bytes_at(tag))
    }

    fn give(&self, tag: u16, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, bytes_at(tag))
    }
}

enum Order {
    Attach(Box<(Export, Opened)>, Sender<Attached>),
    End,
}

/// Told once by the thread: whether the kernel took the commands of all tags.
type Attached = (bool, Receiver<()>);

/// The running thread.
pub struct Queues {
    orders: Sender<Order>,
    bell: Bell,
    thread: JoinHandle<()>,
}

impl Queues {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread, or no ring that serves devices.
    pub fn start() -> io::Result<Queues> {
        let bell = Bell::new()?;
        let (orders, received) = channel();
        let (began, begun) = channel();
        let own = bell.clone();
        // The ring belongs to the thread that makes it.
        let run = move || {
            let ring = Ring::new(own.clone());
            let result = ring.map(|ring| Turns::new(ring, own, received));
            let (result, turns) = match result {
                Ok(turns) => (Ok(()), Some(turns)),
                Err(error) => (Err(error), None),
            };
            let _starter_waits = began.send(result);
            turns.into_iter().for_each(Turns::run);
        };
        let thread = thread::Builder::new().name("thermocline-ublk".to_owned()).spawn(run)?;
        begun.recv().map_err(|_| Errno::IO)??;
        Ok(Queues { orders, bell, thread })
    }

    /// Serves `export` as the device `opened`. The result disconnects when the device has no command left, and is
    /// closed.
    ///
    /// # Errors
    /// When the driver refuses commands.
    pub fn attach(&self, export: Export, opened: Opened) -> io::Result<Receiver<()>> {
        let (reply, attached) = channel();
        self.order(Order::Attach(Box::new((export, opened)), reply));
        let (is_taken, gone) = attached.recv().map_err(|_| Errno::IO)?;
        if is_taken { Ok(gone) } else { Err(Errno::IO.into()) }
    }

    /// Ends the thread when the targets have no request any more. Devices still there wait for the next server.
    pub fn end(self) {
        self.order(Order::End);
        // A panicked thread has printed its message.
        let _ended = self.thread.join();
    }

    fn order(&self, order: Order) {
        // Callers see the end of the thread by a missing answer.
        let _ended = self.orders.send(order);
        self.bell.ring();
    }
}

/// A device on the ring.
struct Slot {
    volume: Volume<Opened>,
    /// Commands that ended without a request.
    ended: u16,
    /// Dropped with the device.
    _gone: Sender<()>,
}

/// What the thread has.
struct Turns {
    ring: Ring,
    orders: Receiver<Order>,
    mailbox: Arc<Mailbox>,
    pool: BufferPool,
    slots: Slab<Slot>,
    is_ending: bool,
    /// Results of the tags of a slot, empty between uses.
    results: Vec<(u16, i32)>,
}

/// Bits of a tag in the number of a request.
const TAG_BITS: u32 = 16;

impl Turns {
    fn new(ring: Ring, bell: Bell, orders: Receiver<Order>) -> Turns {
        Turns {
            ring,
            orders,
            mailbox: Mailbox::new(bell),
            pool: BufferPool::new(POOL_BYTES),
            slots: Slab::new(),
            is_ending: false,
            results: Vec::new(),
        }
    }

    fn run(mut self) {
        let (mut completed, mut ended) = (Vec::new(), Vec::new());
        loop {
            self.ring.take(&mut completed);
            for (number, result) in completed.drain(..) {
                self.completed(number, result);
            }
            self.mailbox.take(&mut ended);
            ended.drain(..).for_each(|one| self.answered(one));
            while let Ok(order) = self.orders.try_recv() {
                match order {
                    Order::Attach(device, reply) => self.attach(*device, &reply),
                    Order::End => self.is_ending = true,
                }
            }
            if self.is_ending && self.slots.iter().all(|(_, slot)| slot.volume.is_idle()) {
                // The last answers reach the kernel.
                return self.ring.submit();
            }
            self.ring.wait();
        }
    }

    fn attach(&mut self, (export, opened): (Export, Opened), reply: &Sender<Attached>) {
        let depth = opened.depth;
        let (sender, gone) = channel();
        let entry = self.slots.vacant_entry();
        let slot = entry.key();
        let first = (slot as u64) << TAG_BITS;
        let mailbox = Arc::clone(&self.mailbox);
        let volume = Volume::new(&export, opened, mailbox, self.pool.clone(), first, depth);
        entry.insert(Slot { volume, ended: 0, _gone: sender });
        for tag in 0..depth {
            self.push(slot, FETCH_REQ, tag, 0);
        }
        self.ring.submit();
        let mut completed = Vec::new();
        self.ring.take(&mut completed);
        completed.into_iter().for_each(|(number, result)| self.completed(number, result));
        let is_taken = self.slots.get(slot).is_some_and(|slot| slot.ended == 0);
        // Whoever asked waits for the reply.
        let _waits = reply.send((is_taken, gone));
    }

    /// The kernel completed a command: with a request, or because the device ends.
    fn completed(&mut self, number: u64, result: i32) {
        let (slot, tag) = ((number >> TAG_BITS) as usize, number as u16);
        let share = self.share();
        let Some(one) = self.slots.get_mut(slot) else { return };
        if result < 0 {
            one.ended += 1;
            self.forget_if_over(slot);
        } else if !self.is_ending {
            // At the end the kernel keeps new requests for the next server.
            let request = one.volume.transport.descriptors.get(tag);
            one.volume.arrived(tag, request, share, &mut self.results);
            self.commit(slot);
        }
    }

    fn answered(&mut self, (number, answer): Ended) {
        let (slot, tag) = ((number >> TAG_BITS) as usize, number as u16);
        let share = self.share();
        let Some(one) = self.slots.get_mut(slot) else { return };
        one.volume.answered(tag, answer, share, &mut self.results);
        self.commit(slot);
        self.forget_if_over(slot);
    }

    /// Tells the kernel the results of requests of a slot.
    fn commit(&mut self, slot: usize) {
        let mut results = std::mem::take(&mut self.results);
        for (tag, result) in results.drain(..) {
            self.push(slot, COMMIT_AND_FETCH_REQ, tag, result);
        }
        self.results = results;
    }

    fn push(&mut self, slot: usize, operation: u32, tag: u16, result: i32) {
        let command = IoCommand { queue: 0, tag, result, address: 0 };
        let number = (slot as u64) << TAG_BITS | u64::from(tag);
        self.ring.push(&self.slots[slot].volume.transport.file, operation, &command, number);
    }

    /// Closes the device of a slot when neither kernel nor target has anything of it.
    fn forget_if_over(&mut self, slot: usize) {
        let one = &self.slots[slot];
        if one.ended == one.volume.transport.depth && one.volume.is_idle() {
            self.slots.remove(slot);
        }
    }

    /// Bytes of requests under way that a device may have.
    fn share(&self) -> u64 {
        (MEMORY / self.slots.len().max(1) as u64).clamp(LONGEST.into(), MEMORY_OF_ONE)
    }
}
