//! The connection of a queue: bytes from its socket to requests, results to bytes.
//!
//! Invariants:
//! * A host has at most as many unanswered commands as its queue has entries. Reads, and writes whose data is not in
//!   the capsule, begin when there is memory for their data. Data that was asked for is never kept waiting.
//! * A connection is forgotten only after the target has completed all its requests.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use slab::Slab;
use thermocline_target::{
    Buffer, BufferPool, Mailbox, ReplyBody, StreamInput, StreamOutput, TargetError,
};

use crate::controller::{Answer, Controllers, Origin, Queue};
use crate::io::{objection, submit};
use crate::protocol::QUEUE;
use crate::protocol::command::{Command, Outcome, Place, Reply, fabrics, io as opcode};
use crate::protocol::pdu::{self, Fault, Pdu};

/// Reads of a socket before the next connection's turn. Chosen, not measured.
const ROUNDS: usize = 4;

/// Bytes of data outside of capsules that all connections hold, at most, beside one transfer of each. Chosen, not
/// measured.
const MEMORY: u64 = 128 << 20;

/// As [`MEMORY`], of one connection.
const MEMORY_OF_ONE: u64 = 16 << 20;

/// Time that a client has to connect a queue. Chosen, not measured.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Time without progress after which a client is dropped, amid a unit, with data to send or with replies to take.
/// Chosen, not measured.
const STALL: Duration = Duration::from_secs(60);

/// A command that a target carries out.
struct UnderWay {
    connection: usize,
    id: u16,
    opcode: u8,
    /// Bytes of [`Context::held`].
    share: u64,
}

/// State shared by all connections.
pub(crate) struct Context {
    pub(crate) controllers: Controllers,
    mailbox: Arc<Mailbox>,
    under_way: Slab<UnderWay>,
    memory: BufferPool,
    /// Bytes of data outside of capsules.
    held: u64,
    /// Whether memory was returned.
    pub(crate) returned: bool,
    /// Connections that end with a controller.
    pub(crate) doomed: Vec<usize>,
    /// Begin of the turn.
    pub(crate) now: Instant,
}

impl Context {
    pub(crate) fn new(controllers: Controllers, mailbox: Arc<Mailbox>) -> Context {
        Context {
            controllers,
            mailbox,
            under_way: Slab::new(),
            memory: BufferPool::new(32 << 20),
            held: 0,
            returned: false,
            doomed: Vec::new(),
            now: Instant::now(),
        }
    }

    /// The connection of a request.
    pub(crate) fn connection(&self, number: u64) -> usize {
        self.under_way[number as usize].connection
    }
}

/// A command whose data arrives.
struct Transfer {
    command: Command,
    buffer: Buffer,
    filled: usize,
    share: u64,
}

/// Data of a unit that arrives.
struct Arriving {
    transfer: Transfer,
    /// Where the unit's data ends in the buffer.
    end: usize,
    /// The tag of a transfer that may go on with another unit.
    tag: Option<usize>,
}

/// Why a connection ends.
#[derive(Debug)]
pub(crate) enum End {
    /// The client went, or the socket failed.
    Over,
    /// The client broke the protocol.
    Fault(Fault),
}

impl From<Fault> for End {
    fn from(fault: Fault) -> End {
        End::Fault(fault)
    }
}

pub(crate) struct Connection {
    index: usize,
    /// `None` when it ended, and only waits for the target.
    socket: Option<TcpStream>,
    peer: SocketAddr,
    local: SocketAddr,
    /// Alignment of data that the client wants, once it has begun.
    alignment: Option<u8>,
    queue: Option<Queue>,
    /// Head of the submission queue.
    head: u16,
    input: StreamInput,
    output: StreamOutput,
    arriving: Option<Arriving>,
    /// Commands that wait for memory.
    waiting: VecDeque<Command>,
    /// Commands whose data was asked for, by tag; `None` while it arrives.
    transfers: Slab<Option<Transfer>>,
    unanswered: usize,
    /// Bytes of [`Context::held`].
    share: u64,
    /// Requests that the target has.
    in_target: usize,
    /// Takes no more commands, and ends when those that it has begun are answered.
    stopping: bool,
    began: Instant,
    /// Time of the last bytes sent or received.
    moved: Instant,
}

impl Connection {
    /// # Errors
    /// When the client is gone already.
    pub(crate) fn new(index: usize, socket: TcpStream, now: Instant) -> io::Result<Connection> {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let (peer, local) = (socket.peer_addr()?, socket.local_addr()?);
        Ok(Connection {
            index,
            socket: Some(socket),
            peer,
            local,
            alignment: None,
            queue: None,
            head: 0,
            input: StreamInput::default(),
            output: StreamOutput::default(),
            arriving: None,
            waiting: VecDeque::new(),
            transfers: Slab::new(),
            unanswered: 0,
            share: 0,
            in_target: 0,
            stopping: false,
            began: now,
            moved: now,
        })
    }

    pub(crate) fn socket(&self) -> Option<&TcpStream> {
        self.socket.as_ref()
    }

    pub(crate) fn wants_input(&self) -> bool {
        !self.stopping
    }

    pub(crate) fn wants_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Whether commands wait for memory.
    pub(crate) fn is_starved(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Since when it has been without a queue, if it is.
    pub(crate) fn shaking_hands_since(&self) -> Option<Instant> {
        (self.queue.is_none() && self.socket.is_some()).then_some(self.began)
    }

    /// Whether the socket is closed and no request is in a target.
    pub(crate) fn is_over(&self) -> bool {
        self.socket.is_none() && self.in_target == 0
    }

    /// Whether it is to be closed.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        if self.socket.is_none() {
            return false;
        }
        let has_passed = |since: Instant, time| now.saturating_duration_since(since) > time;
        let amid = self.arriving.is_some() || !self.input.bytes().is_empty();
        let waits = amid || self.wants_output() || !self.transfers.is_empty();
        self.shaking_hands_since().is_some_and(|since| has_passed(since, HANDSHAKE))
            || waits && has_passed(self.moved, STALL)
    }

    /// Takes no more commands. Those without data yet are not answered: the host sends them again when it has another
    /// connection.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
        self.waiting.clear();
        self.transfers.clear();
        self.arriving = None;
    }

    /// Ends at once. Returns the queue that ends.
    pub(crate) fn close(&mut self) -> Option<Queue> {
        self.socket = None;
        self.stop();
        self.output = StreamOutput::default();
        self.queue.take()
    }

    /// Returns the connection's memory.
    pub(crate) fn leave(self, context: &mut Context) {
        context.held -= self.share;
        context.returned = true;
    }

    /// Reads from the socket, and begins commands.
    pub(crate) fn receive(&mut self, context: &mut Context) -> Result<(), End> {
        for _ in 0..ROUNDS {
            let Some(socket) = self.socket.as_mut().filter(|_| !self.stopping) else { break };
            let data = match &mut self.arriving {
                Some(Arriving { transfer, end, .. }) => &mut transfer.buffer[transfer.filled..*end],
                None => &mut [],
            };
            let filled = match self.input.fill(data, |to| socket.read_vectored(to)) {
                Ok(filled) if filled.all == 0 => return Err(End::Over),
                Ok(filled) => filled,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return Err(End::Over),
            };
            if let Some(arriving) = &mut self.arriving {
                arriving.transfer.filled += filled.before;
            }
            self.moved = context.now;
            self.advance(context)?;
            if filled.drained {
                break;
            }
        }
        self.go_on(context)
    }

    /// Sends replies, and begins commands that wait for memory.
    pub(crate) fn go_on(&mut self, context: &mut Context) -> Result<(), End> {
        self.send(context)?;
        self.feed(context);
        self.send(context)?;
        let is_done = self.stopping && self.in_target == 0 && self.output.is_empty();
        if is_done { Err(End::Over) } else { Ok(()) }
    }

    fn send(&mut self, context: &mut Context) -> Result<(), End> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        let sent = self.output.send(|slices| socket.write_vectored(slices));
        let sent = sent.map_err(|_| End::Over)?;
        if sent.bytes > 0 {
            self.moved = context.now;
        }
        let share = sent.freed - sent.replies as u64;
        self.unanswered -= sent.replies;
        self.share -= share;
        context.held -= share;
        context.returned |= share > 0;
        Ok(())
    }

    /// Tells the client why the connection ends.
    pub(crate) fn say_fault(&mut self, fault: Fault, context: &mut Context) {
        self.output.push_bytes(pdu::terminated(fault, self.input.bytes()));
        // If it does not leave at once, it does not leave.
        let _unheard = self.send(context);
    }

    /// Processes the received bytes as far as possible.
    fn advance(&mut self, context: &mut Context) -> Result<(), End> {
        while !self.stopping && self.take_data(context) {
            let Some(parsed) = pdu::parse(self.input.bytes())? else { return Ok(()) };
            match (parsed.pdu, self.alignment) {
                (Pdu::Initialize { alignment }, None) => {
                    self.alignment = Some(alignment);
                    self.output.push_bytes(pdu::initialized());
                    self.input.take(parsed.taken);
                }
                (Pdu::Terminate, _) => return Err(End::Over),
                (Pdu::Command(command), Some(_)) => {
                    self.check(&command, parsed.data)?;
                    self.input.take(parsed.taken);
                    self.command(command, parsed.data, context);
                }
                (Pdu::Data { tag, offset }, Some(_)) => {
                    self.expect(tag, offset, parsed.data)?;
                    self.input.take(parsed.taken);
                }
                _ => return Err(Fault::Sequence.into()),
            }
        }
        Ok(())
    }

    /// Moves on with the data that is arriving; returns whether none is, any more.
    fn take_data(&mut self, context: &mut Context) -> bool {
        let Some(Arriving { transfer, end, .. }) = &mut self.arriving else { return true };
        transfer.filled += self.input.move_to(&mut transfer.buffer[transfer.filled..*end]);
        if transfer.filled < *end {
            return false;
        }
        let Some(Arriving { transfer, tag, .. }) = self.arriving.take() else { return true };
        if let Some(tag) = tag {
            if transfer.filled < transfer.buffer.len() {
                self.transfers[tag] = Some(transfer);
                return true;
            }
            self.transfers.remove(tag);
        }
        let Transfer { command, buffer, share, .. } = transfer;
        self.execute(&command, Some(buffer), share, context);
        true
    }

    /// Data of a transfer begins to arrive.
    fn expect(&mut self, tag: u16, offset: u32, data: u32) -> Result<(), Fault> {
        let tag = usize::from(tag);
        let transfer = self.transfers.get_mut(tag).and_then(Option::take).ok_or(Fault::Header)?;
        let end = transfer.filled + data as usize;
        if transfer.filled != offset as usize || end > transfer.buffer.len() {
            return Err(Fault::Range);
        }
        self.arriving = Some(Arriving { transfer, end, tag: Some(tag) });
        Ok(())
    }

    /// Checks what a host may not do at all.
    fn check(&self, command: &Command, data: u32) -> Result<(), Fault> {
        let entries = self.queue.map_or(1, |queue| queue.entries);
        let in_capsule = command.sends() && command.place() == Place::Capsule;
        let described = if in_capsule { command.length() } else { 0 };
        let is_connect = command.fabrics_type() == Some(fabrics::CONNECT);
        if self.unanswered >= entries.into() {
            Err(Fault::Limit)
        } else if self.queue.is_none() != is_connect {
            Err(Fault::Sequence)
        } else if described == data {
            Ok(())
        } else {
            Err(Fault::Header)
        }
    }

    /// Begins a command with `data` bytes in its capsule.
    fn command(&mut self, command: Command, data: u32, context: &mut Context) {
        self.unanswered += 1;
        if data > 0 {
            let (buffer, end) = (context.memory.take(data as usize), data as usize);
            let transfer = Transfer { command, buffer, filled: 0, share: 0 };
            self.arriving = Some(Arriving { transfer, end, tag: None });
            return;
        }
        let of_volume = self.queue.filter(|queue| queue.number > 0);
        let Some(queue) = of_volume.filter(|_| command.fabrics_type().is_none()) else {
            return self.execute(&command, None, 0, context);
        };
        let moves_data = command.sends() || command.opcode() == opcode::READ;
        if !moves_data || self.objection(&command, queue, context).is_some() {
            return self.execute(&command, None, 0, context);
        }
        self.waiting.push_back(command);
        self.feed(context);
    }

    fn objection(&self, command: &Command, queue: Queue, context: &Context) -> Option<Outcome> {
        let controller = context.controllers.all.get(&queue.controller)?;
        objection(command, controller.namespaces.get(&command.namespace()))
    }

    /// Begins commands that wait for memory: takes it for reads, and asks for the data of others.
    fn feed(&mut self, context: &mut Context) {
        while let Some(command) = self.waiting.front() {
            let bytes = u64::from(command.length());
            let fits = self.share + bytes <= MEMORY_OF_ONE && context.held + bytes <= MEMORY;
            if self.share > 0 && !fits {
                break;
            }
            let Some(command) = self.waiting.pop_front() else { break };
            self.share += bytes;
            context.held += bytes;
            let buffer = context.memory.take(bytes as usize);
            if command.sends() {
                let id = command.id();
                let transfer = Transfer { command, buffer, filled: 0, share: bytes };
                let tag = self.transfers.insert(Some(transfer)) as u16;
                self.output.push_reply(&pdu::ready(id, tag, bytes as u32), ReplyBody::None, 0);
            } else {
                self.execute(&command, Some(buffer), bytes, context);
            }
        }
    }

    /// Carries out a command after its data has arrived.
    fn execute(
        &mut self,
        command: &Command,
        buffer: Option<Buffer>,
        share: u64,
        context: &mut Context,
    ) {
        let Some(queue) = self.queue else {
            return self.connect(command, &buffer.unwrap_or(Buffer::zeroed(0)), context);
        };
        context.controllers.heard(queue.controller, context.now);
        if let Some(kind) = command.fabrics_type() {
            let reply = self.fabrics(kind, command, queue, context);
            self.reply(command.id(), reply, share);
        } else if queue.number == 0 {
            match context.controllers.admin(queue.controller, command, self.local) {
                Answer::Reply(reply) => self.reply(command.id(), reply, share),
                Answer::Data(mut data) if command.place() == Place::Units => {
                    data.truncate(command.length() as usize);
                    self.reply_with(command.id(), data.len(), ReplyBody::Bytes(data), share);
                }
                Answer::Data(_) => self.reply(command.id(), Outcome::DESCRIPTOR.into(), share),
                Answer::Held => {}
            }
        } else {
            self.submit(command, buffer, queue, share, context);
        }
    }

    fn connect(&mut self, command: &Command, data: &[u8], context: &mut Context) {
        let (connection, peer) = (self.index, self.peer.to_string());
        let origin = Origin { connection, peer, now: context.now };
        match context.controllers.connect(command, data, origin) {
            Ok(queue) => {
                self.queue = Some(queue);
                self.reply(command.id(), Reply::with(queue.controller.into()), 0);
            }
            Err(reply) => self.reply(command.id(), reply, 0),
        }
    }

    fn fabrics(
        &mut self,
        kind: u8,
        command: &Command,
        queue: Queue,
        context: &mut Context,
    ) -> Reply {
        let controller = context.controllers.all.get_mut(&queue.controller);
        match (kind, controller) {
            (fabrics::GET, Some(controller)) if queue.number == 0 => controller.property(command),
            (fabrics::SET, Some(controller)) if queue.number == 0 => {
                let (reply, ended) = controller.set_property(command);
                context.doomed.extend(ended);
                reply
            }
            (fabrics::DISCONNECT, _) if queue.number > 0 => {
                self.stop();
                Reply::DONE
            }
            _ => Outcome::OPCODE.into(),
        }
    }

    fn submit(
        &mut self,
        command: &Command,
        buffer: Option<Buffer>,
        queue: Queue,
        share: u64,
        context: &mut Context,
    ) {
        let objection = self.objection(command, queue, context);
        let controllers = &mut context.controllers;
        let controller = controllers.all.get(&queue.controller);
        let namespace = controller.and_then(|one| one.namespaces.get(&command.namespace()));
        let Some(namespace) = namespace.filter(|_| objection.is_none()) else {
            let outcome = objection.unwrap_or(Outcome::NAMESPACE);
            return self.reply(command.id(), outcome.into(), share);
        };
        let (id, opcode) = (command.id(), command.opcode());
        if opcode == opcode::MANAGEMENT {
            return match namespace.handles(command) {
                Ok(status) => self.reply_with(id, status.len(), ReplyBody::Bytes(status), share),
                Err(outcome) => self.reply(id, outcome.into(), share),
            };
        }
        self.in_target += 1;
        let under_way = UnderWay { connection: self.index, id, opcode, share };
        let number = context.under_way.insert(under_way) as u64;
        submit(command, namespace, buffer, number, &context.mailbox, &mut controllers.usage);
    }

    /// A target has completed a request of this connection.
    pub(crate) fn complete(
        &mut self,
        number: u64,
        result: Result<Option<Buffer>, TargetError>,
        context: &mut Context,
    ) {
        let UnderWay { id, opcode, share, .. } = context.under_way.remove(number as usize);
        self.in_target -= 1;
        if self.socket.is_none() {
            return;
        }
        match result {
            Ok(None) => self.reply(id, Reply::DONE, share),
            Ok(Some(buffer)) => self.reply_with(id, buffer.len(), ReplyBody::Data(buffer), share),
            Err(error) => self.reply(id, Outcome::of(error, opcode).into(), share),
        }
    }

    /// Answers a command.
    pub(crate) fn reply(&mut self, id: u16, reply: Reply, share: u64) {
        let queue = self.queue.map_or((0, QUEUE, true), |one| (one.number, one.entries, one.flow));
        let (number, entries, flow) = queue;
        self.head = if flow { (self.head + 1) % entries } else { u16::MAX };
        let unit = pdu::response(&reply.entry(id, self.head, number));
        self.output.push_reply(&unit, ReplyBody::None, share + 1);
    }

    /// Answers a command with data.
    fn reply_with(&mut self, id: u16, length: usize, data: ReplyBody, share: u64) {
        // Without flow control nobody asks for the head of the queue: the data alone is the answer (TCP 3.3.2.2).
        let alone = self.queue.is_some_and(|queue| !queue.flow);
        let head = pdu::before_data(id, length as u32, alone, self.alignment.unwrap_or(0));
        let (unit, padding) = head.split_at(pdu::HEAD);
        if padding.is_empty() {
            self.output.push_reply(unit, data, if alone { share + 1 } else { 0 });
        } else {
            self.output.push_bytes(head);
            self.output.push_reply(&[], data, if alone { share + 1 } else { 0 });
        }
        if !alone {
            self.reply(id, Reply::DONE, share);
        }
    }
}
