//! Every request is answered once, whatever pieces its bytes arrive in and whatever pieces replies are taken in.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Mutex;

use proptest::prelude::*;
use thermocline_target::{BlockTarget, Export, Info, Memory, Request};
use thermocline_types::Bytes;

use super::*;
use crate::Client;
use crate::protocol::request::{Command, Framing, flag};

/// A target that keeps requests until they are released.
struct Held {
    memory: Memory,
    waiting: Mutex<Vec<Request>>,
    at_once: bool,
}

impl Held {
    /// Carries out one request that waits; returns whether there was one.
    fn release(&self, index: usize) -> bool {
        let mut waiting = self.waiting.lock().expect("no test panicked");
        if waiting.is_empty() {
            return false;
        }
        let index = index % waiting.len();
        let request = waiting.swap_remove(index);
        drop(waiting);
        self.memory.submit(request);
        true
    }
}

impl BlockTarget for Held {
    fn info(&self) -> Info {
        self.memory.info()
    }

    fn submit(&self, request: Request) {
        if self.at_once {
            return self.memory.submit(request);
        }
        self.waiting.lock().expect("no test panicked").push(request);
    }
}

/// One client's socket: bytes that are to be sent, and bytes that were received.
struct Wire {
    stream: UnixStream,
    unsent: VecDeque<u8>,
    received: VecDeque<u8>,
}

impl Wire {
    /// Sends at most `count` bytes; returns whether the socket took any.
    fn send(&mut self, count: usize) -> bool {
        let bytes = self.unsent.make_contiguous();
        let bytes = &bytes[..count.min(bytes.len())];
        let sent = if bytes.is_empty() { 0 } else { (&self.stream).write(bytes).unwrap_or(0) };
        self.unsent.drain(..sent);
        sent > 0
    }

    /// Takes at most `count` bytes of replies; returns whether there were any.
    fn take(&mut self, count: usize) -> bool {
        let mut bytes = vec![0; count];
        let taken = (&self.stream).read(&mut bytes).unwrap_or(0);
        self.received.extend(&bytes[..taken]);
        taken > 0
    }
}

/// A server on the thread of the test, and its clients.
struct Table {
    server: RefCell<Server>,
    target: Arc<Held>,
    wires: RefCell<Vec<Wire>>,
}

impl Table {
    /// One turn that does not wait. Returns `false` if the server would have waited, and nothing was there for it.
    fn turn(&self) -> bool {
        let mut server = self.server.borrow_mut();
        let busy = server.prepare();
        let found = server.poll(Found::default(), Some(Duration::ZERO), &[]);
        server.work_on(&found);
        busy || found.woken || found.incoming || !found.ready.is_empty()
    }

    /// Lets everybody do all that they can at once; returns whether anybody did anything.
    fn step(&self) -> bool {
        let mut moved = self.turn();
        for wire in &mut *self.wires.borrow_mut() {
            moved |= wire.send(usize::MAX);
            moved |= wire.take(1 << 20);
        }
        while self.target.release(0) {
            moved = true;
        }
        moved
    }
}

/// A client's end of its wire. Reading fails when nothing moves any more.
struct End {
    table: Rc<Table>,
    index: usize,
}

impl Read for End {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.table.wires.borrow_mut()[self.index].received.read(to)?;
            if count > 0 || to.is_empty() {
                return Ok(count);
            }
            if !self.table.step() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}

impl Write for End {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.table.wires.borrow_mut()[self.index].unsent.extend(from);
        Ok(from.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    Read(u64),
    Write(usize),
    Refused,
    RefusedWrite(usize),
    Status,
    Flush,
}

impl Ask {
    fn send(self, client: &mut Client<End>) -> u64 {
        let sent = match self {
            Ask::Read(sectors) => client.send(Command::Read, 0, 512, sectors * 512, &[]),
            Ask::Write(sectors) => client.send(Command::Write, 0, 512, 0, &vec![5; sectors * 512]),
            Ask::Refused => client.send(Command::Flush, 0, 512, 512, &[]),
            Ask::RefusedWrite(bytes) => {
                client.send(Command::Write, flag::DF, 512, 0, &vec![6; bytes])
            }
            Ask::Status => client.send(Command::BlockStatus, 0, 0, 1 << 16, &[]),
            Ask::Flush => client.send(Command::Flush, 0, 0, 0, &[]),
        };
        sent.expect("a wire takes all")
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Send(usize, usize),
    Take(usize, usize),
    Release(usize),
    Turn,
}

fn ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        4 => (1_u64..=128).prop_map(Ask::Read),
        2 => (1_usize..=128).prop_map(Ask::Write),
        1 => Just(Ask::Refused),
        1 => (1_usize..=9000).prop_map(Ask::RefusedWrite),
        1 => Just(Ask::Status),
        1 => Just(Ask::Flush),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0_usize..2, 1_usize..3000).prop_map(|(client, count)| Step::Send(client, count)),
        1 => (0_usize..2, 1_usize..100_000).prop_map(|(client, count)| Step::Take(client, count)),
        2 => any::<usize>().prop_map(Step::Release),
        3 => Just(Step::Turn),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    let sizes = (1_usize..6, 0_u64..200_000, 0_u64..600_000);
    sizes.prop_map(|(requests, bytes, memory)| {
        let (connections, payload) = (2, 64 << 10);
        Limits { connections, requests, bytes, memory, payload, ..Limits::default() }
    })
}

fn table(limits: Limits, at_once: bool) -> Rc<Table> {
    let memory = Memory::new(Bytes::mib(1), Bytes(512));
    let target = Arc::new(Held { memory, waiting: Mutex::default(), at_once });
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = folder.path().join("socket");
    let listener = Listener::unix(UnixListener::bind(&path).expect("a socket"));
    let export =
        Export { name: String::new(), target: Arc::<Held>::clone(&target), read_only: false };
    let exports = Exports::new(vec![export]);
    let server = Server::new(vec![listener], exports, limits).expect("a server");
    let wires = (0..2).map(|_| {
        let stream = UnixStream::connect(&path).expect("the server listens");
        stream.set_nonblocking(true).expect("a socket");
        Wire { stream, unsent: VecDeque::new(), received: VecDeque::new() }
    });
    let wires = RefCell::new(wires.collect());
    Rc::new(Table { server: RefCell::new(server), target, wires })
}

fn run(
    limits: Limits,
    framing: Framing,
    at_once: bool,
    asks: &[Vec<Ask>; 2],
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let table = table(limits, at_once);
    let client = |index| Client::connect(End { table: Rc::clone(&table), index }, "", framing);
    let mut clients = [0, 1].map(|index| client(index).expect("the server speaks NBD"));
    let mut expected = [BTreeSet::new(), BTreeSet::new()];
    for (index, asks) in asks.iter().enumerate() {
        expected[index] = asks.iter().map(|ask| ask.send(&mut clients[index])).collect();
    }
    for &step in steps {
        match step {
            Step::Send(client, count) => drop(table.wires.borrow_mut()[client].send(count)),
            Step::Take(client, count) => drop(table.wires.borrow_mut()[client].take(count)),
            Step::Release(index) => drop(table.target.release(index)),
            Step::Turn => drop(table.turn()),
        }
    }
    for (index, mut expected) in expected.into_iter().enumerate() {
        while !expected.is_empty() {
            let reply = clients[index].receive();
            prop_assert!(reply.is_ok(), "client {index} waits for {expected:?}: {reply:?}");
            let cookie = reply.expect("it is one").cookie;
            prop_assert!(expected.remove(&cookie), "client {index} has a reply to {cookie} twice");
        }
    }
    for client in &mut clients {
        prop_assert!(client.receive().is_err(), "a reply that nobody asked for");
    }
    prop_assert_eq!(table.server.borrow().context.budget.held(), 0);
    Ok(())
}

proptest! {
    /// Any division of the bytes of requests, over any taking of replies, within any limits.
    #[test]
    fn each_request_is_answered_once(
        limits in limits(),
        framing in prop::sample::select(vec![Framing::Simple, Framing::Structured, Framing::Extended]),
        at_once in any::<bool>(),
        first in prop::collection::vec(ask(), 0..40),
        second in prop::collection::vec(ask(), 0..40),
        steps in prop::collection::vec(step(), 0..200),
    ) {
        run(limits, framing, at_once, &[first, second], &steps)?;
    }
}

/// More requests than may begin arrive at once, and no reply is sent before all of them were looked at.
#[test]
fn a_request_that_waits_for_room_begins_when_there_is_room() {
    let limits = Limits { requests: 2, ..Limits::default() };
    let asks = [vec![Ask::Read(8), Ask::Refused, Ask::Refused, Ask::Flush, Ask::Status], vec![]];
    for at_once in [true, false] {
        run(limits, Framing::Structured, at_once, &asks, &[]).expect("each is answered");
    }
}

/// The last connection ends in the part of a turn that comes before the waiting.
#[test]
fn a_server_that_was_stopped_does_not_wait_once_all_connections_have_ended() {
    let table = table(Limits::default(), false);
    let end = End { table: Rc::clone(&table), index: 0 };
    let mut client = Client::connect(end, "", Framing::Structured).expect("the server speaks NBD");
    let other = End { table: Rc::clone(&table), index: 1 };
    let other = Client::connect(other, "", Framing::Structured).expect("the server speaks NBD");
    client.send(Command::Flush, 0, 0, 0, &[]).expect("a wire takes all");
    table.wires.borrow_mut()[0].send(usize::MAX);
    while table.turn() {}
    let mut server = table.server.borrow_mut();
    let stopper = server.stopper();
    stopper.stop();
    server.turn(Some(Duration::ZERO), &[]);
    assert!(!stopper.is_over(), "a request is under way");
    assert!(table.target.release(0));
    let wait = server.begin_turn(None);
    assert_eq!(wait, Some(Duration::ZERO), "nothing would end the waiting");
    server.end_turn(wait, &[]);
    assert!(stopper.is_over());
    // The call to stop was heard by itself, and its wake-up comes now.
    let woken = server.begin_turn(None);
    server.end_turn(woken, &[]);
    assert_eq!(server.begin_turn(None), None, "it is known");
    drop((client, other));
}
