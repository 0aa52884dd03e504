//! The device of one connection: what the frontend set up, and the requests under way.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use slab::Slab;
use thermocline_target::{
    Bell, Buffer, BufferPool, Completion, Ended, Join, Mailbox, Request, TargetError, User,
};
use thermocline_types::Bytes;
use vm_memory::{GuestMemoryMmap, MmapRegion};

use crate::config::{self, QUEUES, Wear, feature};
use crate::inflight::Inflight;
use crate::memory::Memory;
use crate::request::{Ask, Chain, Place, Status};
use crate::ring::Ring;

mod setup;

/// Bytes, and requests, under way at most; one more request may exceed the bytes. Chosen, not measured.
const BYTES_UNDER_WAY: usize = 64 << 20;
const REQUESTS_UNDER_WAY: usize = 1024;
/// Bytes of the memory of requests kept for later requests. Chosen, not measured.
const POOL_BYTES: usize = 16 << 20;
/// Bytes of the answer to a request for the name.
const NAME_BYTES: usize = 20;

/// How the devices of the volumes wear, at the time of a call.
pub(crate) type TellWear = Arc<dyn Fn() -> Wear + Send + Sync>;

/// A device.
pub(crate) struct Device {
    volume: User,
    wear: Option<TellWear>,
    /// The connection, to see its end.
    peer: UnixStream,
    /// Features that the guest takes.
    features: u64,
    memory: Option<Memory>,
    inflight: Option<(Arc<MmapRegion>, u16)>,
    rings: Vec<Ring>,
    requests: Slab<Taken>,
    bytes: usize,
    mailbox: Arc<Mailbox>,
    /// Memory for results, empty between uses.
    ended: Vec<Ended>,
    pool: BufferPool,
    /// The frontend is gone, and with it the right to touch its memory.
    is_lost: bool,
}

/// A request under way.
struct Taken {
    ring: usize,
    head: u16,
    chain: Chain,
    bytes: usize,
}

impl Device {
    pub(crate) fn new(
        volume: User,
        wear: Option<TellWear>,
        peer: UnixStream,
        bell: Bell,
    ) -> Device {
        Device {
            volume,
            wear,
            peer,
            features: 0,
            memory: None,
            inflight: None,
            rings: (0..QUEUES).map(|_| Ring::new()).collect(),
            requests: Slab::new(),
            bytes: 0,
            mailbox: Mailbox::new(bell),
            ended: Vec::new(),
            pool: BufferPool::new(POOL_BYTES),
            is_lost: false,
        }
    }

    /// Events of the guest, with their rings.
    pub(crate) fn kicks(&self) -> impl Iterator<Item = (usize, &File)> {
        self.rings.iter().enumerate().filter_map(|(index, ring)| Some((index, ring.kick()?)))
    }

    pub(crate) fn heard(&mut self, ring: usize) {
        self.rings[ring].heard();
    }

    /// Answers completed requests, and takes new ones. Returns whether there is more to do already.
    pub(crate) fn turn(&mut self) -> bool {
        self.answer_completed();
        let is_full = self.take_requests();
        let Some(memory) = &self.memory else { return false };
        let mut has_more = false;
        for ring in &mut self.rings {
            ring.tell(&memory.guest);
            has_more |= !is_full && ring.listen(&memory.guest);
        }
        has_more
    }

    /// Takes requests until there are none, or too many under way. Returns whether there are too many.
    fn take_requests(&mut self) -> bool {
        for index in 0..self.rings.len() {
            loop {
                if self.bytes >= BYTES_UNDER_WAY || self.requests.len() >= REQUESTS_UNDER_WAY {
                    return true;
                }
                let Some(memory) = &self.memory else { return false };
                let Some((head, chain)) = self.rings[index].take(&memory.guest) else { break };
                match chain {
                    Some(chain) => self.begin(index, head, chain),
                    None => self.rings[index].answer(&memory.guest, head, 0),
                }
            }
        }
        false
    }

    /// Begins a request, or answers it.
    fn begin(&mut self, ring: usize, head: u16, chain: Chain) {
        let Some(memory) = &self.memory else { return };
        let memory = &memory.guest;
        let answered = match Ask::read(memory, &chain) {
            Err(status) => status,
            Ok(Ask::Name) => {
                let mut name = [0; NAME_BYTES];
                name.iter_mut().zip(self.volume.name.bytes()).for_each(|(to, from)| *to = from);
                answer_at_once(memory, &chain, &name)
            }
            Ok(Ask::Lifetime) => match &self.wear {
                Some(wear) => answer_at_once(memory, &chain, &wear().encode()),
                None => Status::Unsupported,
            },
            Ok(Ask::Write(_) | Ask::Trim(_) | Ask::Zero(_)) if self.volume.read_only => {
                Status::Error
            }
            Ok(ask) => match self.data(memory, &ask, &chain) {
                None => Status::Error,
                Some(data) => {
                    return self.submit(
                        &ask,
                        data,
                        Taken { ring, head, bytes: ask.bytes(), chain },
                    );
                }
            },
        };
        let written = if answered == Status::Ok { chain.room() as u32 + 1 } else { 1 };
        self.finish(ring, head, &chain, answered, written);
    }

    /// Memory of a request, of a write with its data. `None` if an address is outside guest memory.
    fn data(&self, memory: &GuestMemoryMmap, ask: &Ask, chain: &Chain) -> Option<Buffer> {
        let mut buffer = self.pool.take(ask.bytes());
        if matches!(ask, Ask::Write(_)) {
            chain.copy_body(memory, &mut buffer)?;
        }
        Some(buffer)
    }

    fn submit(&mut self, ask: &Ask, buffer: Buffer, taken: Taken) {
        let target = &self.volume.target;
        let writes_through = self.features & feature::FLUSH == 0;
        let fua = writes_through && target.info().features.fua;
        self.bytes += taken.bytes;
        let number = self.requests.insert(taken) as u64;
        let mailbox = Arc::clone(&self.mailbox);
        let several = |count: usize| {
            let mailbox = Arc::clone(&self.mailbox);
            let all = Completion::new(move |result: Result<Vec<_>, TargetError>| {
                Completion::<()>::of(mailbox, number).complete(result.map(drop));
            });
            Join::new(count as u64, all)
        };
        match ask {
            Ask::Read(Place { offset, .. }) => {
                let done = Completion::of(mailbox, number);
                target.submit(Request::Read { offset: Bytes(*offset), buffer, done });
            }
            Ask::Write(Place { offset, .. }) => {
                let done = Completion::of(mailbox, number);
                target.submit(Request::Write {
                    offset: Bytes(*offset),
                    buffer,
                    fua,
                    handle: 0,
                    done,
                });
            }
            Ask::Flush => target.submit(Request::Flush { done: Completion::of(mailbox, number) }),
            Ask::Trim(places) => {
                let join = several(places.len());
                for (key, place) in (0..).zip(places) {
                    let (offset, length) = (Bytes(place.offset), Bytes(place.length));
                    target.submit(Request::Trim { offset, length, done: join.part(key) });
                }
            }
            Ask::Zero(places) => {
                let join = several(places.len());
                for (key, (place, may_free)) in (0..).zip(places) {
                    let (offset, length) = (Bytes(place.offset), Bytes(place.length));
                    let (no_hole, done) = (!may_free, join.part(key));
                    target.submit(Request::WriteZeroes { offset, length, no_hole, fua, done });
                }
            }
            Ask::Name | Ask::Lifetime => unreachable!("answered without the target"),
        }
    }

    /// Answers requests that the target completed.
    fn answer_completed(&mut self) {
        let mut ended = std::mem::take(&mut self.ended);
        self.mailbox.bell().silence();
        self.mailbox.take(&mut ended);
        ended.drain(..).for_each(|one| self.complete(one));
        self.ended = ended;
    }

    fn complete(&mut self, (number, result): Ended) {
        let Taken { ring, head, chain, bytes } = self.requests.remove(number as usize);
        self.bytes -= bytes;
        let memory = self.memory.as_ref().filter(|_| !self.is_lost);
        let Some(memory) = memory else { return self.rings[ring].forget(head) };
        let mut written = 1;
        let status = match result {
            Ok(None) => Status::Ok,
            Ok(Some(data)) => {
                written += data.len() as u32;
                answer_at_once(&memory.guest, &chain, &data)
            }
            Err(TargetError::Unsupported) => Status::Unsupported,
            Err(_) => Status::Error,
        };
        self.finish(ring, head, &chain, status, written);
    }

    fn finish(&mut self, ring: usize, head: u16, chain: &Chain, status: Status, written: u32) {
        let Some(memory) = &self.memory else { return };
        let told = chain.set_status(&memory.guest, status);
        self.rings[ring].answer(&memory.guest, head, told.map_or(0, |()| written));
    }

    /// Ends the connection when the target has completed all requests. They are answered unless the frontend is gone.
    pub(crate) fn end(&mut self, is_lost: bool) {
        self.is_lost = is_lost;
        self.rings.iter_mut().for_each(Ring::stop);
        self.wait_until(|device| device.requests.is_empty());
    }

    /// Answers requests until `done`, and tells the guest.
    fn wait_until(&mut self, done: impl Fn(&Device) -> bool) {
        loop {
            self.is_lost |= has_hung_up(&self.peer);
            self.answer_completed();
            if done(self) {
                break;
            }
            wait_for(self.mailbox.bell());
        }
        if let Some(memory) = self.memory.as_ref().filter(|_| !self.is_lost) {
            self.rings.iter_mut().for_each(|ring| ring.tell(&memory.guest));
        }
    }
}

/// Writes data that a request asked for.
fn answer_at_once(memory: &GuestMemoryMmap, chain: &Chain, data: &[u8]) -> Status {
    let fits = data.len() as u64 <= chain.room();
    let answered = fits.then(|| chain.answer(memory, data)).flatten();
    answered.map_or(Status::Error, |()| Status::Ok)
}

/// Whether the other side closed the connection.
fn has_hung_up(peer: &UnixStream) -> bool {
    let mut peer = [PollFd::new(peer, PollFlags::empty())];
    let looked = poll(&mut peer, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    looked.is_err() || peer[0].revents().contains(PollFlags::HUP)
}

fn wait_for(bell: &Bell) {
    // A signal only makes the caller look once more.
    let _signal = poll(&mut [PollFd::new(bell, PollFlags::IN)], None);
}
