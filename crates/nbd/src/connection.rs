//! One connection: bytes from its socket to requests, outcomes to bytes.
//!
//! Invariants:
//! * `requests` and `bytes` count requests from their beginning until their reply is sent. A request begins only within
//!   the limits and with memory from the common budget.
//! * A connection is forgotten only after the target has completed all its requests: short connections cannot pile up
//!   work.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use slab::Slab;
use thermocline_target::bugs::{self, ShellBug};
use thermocline_target::{
    Buffer, BufferPool, ClientEvent, Clock, Exports, ReplyBody, StreamInput, StreamOutput,
    TargetError,
};

use crate::outbox::{Given, Outbox};
use crate::protocol::ProtocolError;
use crate::protocol::handshake::{Encryption, Handshake, Step};
use crate::protocol::reply::Code;
use crate::protocol::request::{Command, Header};
use crate::server::Watcher;
use crate::session::Session;
use crate::socket::Socket;
use crate::{Limits, Tls, Traffic, budget::Budget};

/// Reads of a socket before the next connection's turn. Chosen, not measured.
const ROUNDS: usize = 4;

/// Time without progress after which a client with unread replies is stuck. Longer than a program's pause between two
/// reads; short for connections that wait for memory. Chosen, not measured.
const STUCK: Duration = Duration::from_millis(100);

/// State shared by all connections of a server.
pub(crate) struct Context {
    pub(crate) exports: Exports,
    pub(crate) limits: Limits,
    pub(crate) outbox: Arc<Outbox>,
    /// Requests that targets carry out, each with the key of its connection.
    pub(crate) requests: Slab<(usize, Header)>,
    /// Memory of payloads and of what is read.
    pub(crate) memory: BufferPool,
    /// How much of it connections may have.
    pub(crate) budget: Budget,
    pub(crate) traffic: Traffic,
    /// Requests submitted to targets.
    pub(crate) submitted: u64,
    pub(crate) clock: Clock,
    /// Start of the current turn.
    pub(crate) now: Instant,
    pub(crate) watcher: Watcher,
}

enum Phase {
    Handshake(Handshake),
    Serving(Session),
}

/// A payload that is arriving.
enum Payload {
    Wanted {
        request: Header,
        buffer: Buffer,
        filled: usize,
    },
    /// The request was refused; its payload has to be read all the same.
    Unwanted {
        request: Header,
        code: Code,
        left: u64,
    },
}

/// Why a connection ends.
#[derive(Debug)]
pub(crate) enum End {
    /// The client went, as it may.
    Over,
    /// The client does not keep to the protocol, or its socket failed.
    Fault,
}

impl From<ProtocolError> for End {
    fn from(error: ProtocolError) -> End {
        match error {
            ProtocolError::Aborted => End::Over,
            _ => End::Fault,
        }
    }
}

pub(crate) struct Connection {
    /// The key of the connection in the server.
    index: usize,
    /// `None` when it ended, and only waits for the target.
    socket: Option<Socket>,
    tls: Option<Tls>,
    /// The client of a serving connection, and its export.
    client: Option<(String, String)>,
    phase: Phase,
    input: StreamInput,
    payload: Option<Payload>,
    output: StreamOutput,
    /// Requests and bytes that were begun and are not answered.
    requests: usize,
    bytes: u64,
    /// Requests that the target has.
    in_target: usize,
    /// Its next request waits for memory, since [`Connection::go_on`] last tried to begin it.
    starved: bool,
    /// Takes no more requests, and ends when those that it has are answered.
    stopping: bool,
    /// Input may be left, although the socket will not report readiness again.
    more: bool,
    /// When it began.
    began: Instant,
    /// Time of the last bytes sent or received.
    moved: Instant,
    /// The head of a reply that is being made.
    head: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(
        index: usize,
        socket: Socket,
        tls: Option<Tls>,
        context: &Context,
    ) -> Connection {
        let now = context.now;
        let encryption = if tls.is_some() { Encryption::Required } else { Encryption::None };
        let mut greeting = Vec::new();
        let phase =
            Phase::Handshake(Handshake::begin(encryption, context.limits.payload, &mut greeting));
        let mut output = StreamOutput::default();
        output.push_bytes(greeting);
        Connection {
            index,
            socket: Some(socket),
            tls,
            client: None,
            phase,
            input: StreamInput::default(),
            payload: None,
            output,
            requests: 0,
            bytes: 0,
            in_target: 0,
            starved: false,
            stopping: false,
            more: false,
            began: now,
            moved: now,
            head: Vec::new(),
        }
    }

    pub(crate) fn socket(&self) -> Option<&Socket> {
        self.socket.as_ref()
    }

    /// Since when a handshake is under way, if one is.
    pub(crate) fn shaking_hands_since(&self) -> Option<Instant> {
        matches!(self.phase, Phase::Handshake(_)).then_some(self.began)
    }

    /// Whether unread bytes may be there that the socket does not announce, and may be read now.
    pub(crate) fn has_more(&self, limits: &Limits) -> bool {
        self.more && self.wants_input(limits)
    }

    /// Whether the connection reads arriving bytes.
    pub(crate) fn wants_input(&self, limits: &Limits) -> bool {
        !self.stopping && !self.starved && (self.payload.is_some() || !self.is_full(limits))
    }

    /// Whether the next request waits for memory.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved
    }

    /// Whether the connection waits for memory while its client takes replies.
    pub(crate) fn waits_for_memory(&self, now: Instant) -> bool {
        self.starved && !self.is_stuck(now)
    }

    /// Whether the client has left replies unread for longer than [`STUCK`].
    fn is_stuck(&self, now: Instant) -> bool {
        self.wants_output() && now.saturating_duration_since(self.moved) > STUCK
    }

    /// Whether the connection has bytes to send.
    pub(crate) fn wants_output(&self) -> bool {
        !self.output.is_empty() || self.socket.as_ref().is_some_and(Socket::holds_back)
    }

    /// Whether the socket is closed and no request is in a target.
    pub(crate) fn is_over(&self) -> bool {
        self.socket.is_none() && self.in_target == 0
    }

    /// Time at which the connection is closed if no bytes move. Earlier for a connection beyond its part of the memory,
    /// if other connections are `short` of memory.
    pub(crate) fn deadline(&self, context: &Context, short: bool) -> Option<Instant> {
        let limits = &context.limits;
        let patience = |since: Instant, patience: Duration| since.checked_add(patience);
        self.socket.as_ref()?;
        match self.phase {
            Phase::Handshake(_) => patience(self.began, limits.handshake),
            Phase::Serving(_) => {
                let amid = self.payload.is_some() || !self.input.bytes().is_empty();
                let waits = amid && self.wants_input(limits) || self.wants_output();
                let pressed = short && context.budget.borrowed(self.bytes) > 0;
                let stall = if pressed { limits.pressed } else { limits.stall };
                waits.then(|| patience(self.moved, stall)).flatten()
            }
        }
    }

    /// Takes no more requests. The connection ends when all accepted requests are answered. A request with an
    /// incomplete payload is dropped without an answer.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
        self.requests -= usize::from(self.payload.take().is_some());
        if matches!(self.phase, Phase::Handshake(_)) {
            self.close();
        }
    }

    /// Returns the connection's memory to the budget.
    pub(crate) fn leave(self, context: &mut Context) {
        context.budget.give_back(self.bytes, self.bytes);
        if let Some((client, export)) = self.client {
            (context.watcher)(ClientEvent { client, export, is_over: true });
        }
    }

    /// Ends at once.
    pub(crate) fn close(&mut self) {
        if let Some(mut socket) = self.socket.take() {
            socket.say_goodbye();
        }
        self.payload = None;
        self.starved = false;
        self.output = StreamOutput::default();
    }

    /// Sends replies and begins buffered requests until neither is possible. Call this after every event that may make
    /// room: a completion, a writable socket, received bytes, memory given back. The socket does not announce buffered
    /// requests again.
    ///
    /// The loop ends: each round takes bytes from the input, and no round reads.
    pub(crate) fn go_on(&mut self, context: &mut Context) -> Result<(), End> {
        self.starved = false;
        while self.socket.is_some() {
            self.send(context)?;
            if bugs::has(ShellBug::NoLookAgain) {
                break;
            }
            let before = self.input.bytes().len();
            self.advance(context)?;
            if self.input.bytes().len() == before {
                break;
            }
        }
        Ok(())
    }

    /// Reads from the socket and begins requests. [`Connection::go_on`] must follow.
    pub(crate) fn receive(&mut self, context: &mut Context) -> Result<(), End> {
        self.more = false;
        for _ in 0..ROUNDS {
            if !self.wants_input(&context.limits) {
                break;
            }
            let Some(socket) = &mut self.socket else { return Ok(()) };
            let payload: &mut [u8] = match &mut self.payload {
                Some(Payload::Wanted { buffer, filled, .. }) => &mut buffer[*filled..],
                _ => &mut [],
            };
            let filled = match self.input.fill(payload, |to| socket.read(to)) {
                Ok(filled) => filled,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(End::Fault),
            };
            if filled.all == 0 {
                return Err(self.hung_up());
            }
            let drained = filled.drained && !socket.is_encrypted();
            if let Some(Payload::Wanted { filled: so_far, .. }) = &mut self.payload {
                *so_far += filled.before;
            }
            self.moved = context.now;
            self.advance(context)?;
            if drained {
                return Ok(());
            }
        }
        self.more = true;
        Ok(())
    }

    /// A client may go without a word between requests, and while it only negotiates.
    fn hung_up(&self) -> End {
        let idle = self.requests == 0 && self.payload.is_none() && self.input.bytes().is_empty();
        if idle { End::Over } else { End::Fault }
    }

    /// Processes the buffered input as far as possible.
    fn advance(&mut self, context: &mut Context) -> Result<(), End> {
        if matches!(self.phase, Phase::Handshake(_)) {
            self.shake_hands(context)?;
        }
        while !self.stopping {
            if !self.take_payload(context) || self.is_full(&context.limits) {
                return Ok(());
            }
            let Phase::Serving(session) = &self.phase else { return Ok(()) };
            let framing = session.framing();
            let Some(request) = Header::parse(self.input.bytes(), framing)? else { return Ok(()) };
            let objection = session.objection(&request);
            if !self.take_memory(&request, objection, context) {
                self.starved = true;
                return Ok(());
            }
            self.input.take(Header::size(framing));
            self.begin(request, objection, context)?;
        }
        Ok(())
    }

    fn shake_hands(&mut self, context: &mut Context) -> Result<(), End> {
        while let Phase::Handshake(handshake) = &mut self.phase {
            let mut out = Vec::new();
            let advanced = handshake.advance(self.input.bytes(), &context.exports, &mut out);
            self.output.push_bytes(out);
            let (taken, step) = match advanced {
                Ok(advanced) => advanced,
                Err(error) => {
                    // The last words; if they do not leave at once, they do not leave.
                    let _unheard = self.send(context);
                    return Err(error.into());
                }
            };
            self.input.take(taken);
            match step {
                Step::More => break,
                Step::StartTls => {
                    handshake.encrypted();
                    self.encrypt(context)?;
                }
                Step::Serve(agreement) => {
                    // It may have gone just now.
                    let entered = context.exports.enter(|offer| offer.name == agreement.export);
                    let entered = entered.ok_or(End::Over)?;
                    let session = Session::new(entered, &agreement, context.limits.payload);
                    self.phase = Phase::Serving(session);
                    let client = self.socket.as_ref().map(Socket::peer).unwrap_or_default();
                    self.client = Some((client.clone(), agreement.export.clone()));
                    let event = ClientEvent { client, export: agreement.export, is_over: false };
                    (context.watcher)(event);
                }
            }
        }
        self.send(context)
    }

    /// Begins encryption, after the answer has been sent. Plain bytes received ahead of the answer end the connection:
    /// an attacker may have injected them.
    fn encrypt(&mut self, context: &mut Context) -> Result<(), End> {
        self.send(context)?;
        let ready = self.output.is_empty() && self.input.bytes().is_empty();
        let (Some(socket), Some(tls), true) = (&mut self.socket, &self.tls, ready) else {
            return Err(End::Fault);
        };
        socket.encrypt(tls.config()).map_err(|_| End::Fault)
    }

    /// Moves on with the payload that is arriving; returns whether none is, any more.
    fn take_payload(&mut self, context: &mut Context) -> bool {
        match &mut self.payload {
            None => return true,
            Some(Payload::Wanted { buffer, filled, .. }) => {
                *filled += self.input.move_to(&mut buffer[*filled..]);
                if *filled < buffer.len() {
                    return false;
                }
            }
            Some(Payload::Unwanted { left, .. }) => {
                let count =
                    self.input.bytes().len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                self.input.take(count);
                *left -= count as u64;
                if *left > 0 {
                    return false;
                }
            }
        }
        match self.payload.take() {
            Some(Payload::Wanted { request, buffer, .. }) => {
                self.submit(request, Some(buffer), context);
            }
            Some(Payload::Unwanted { request, code, .. }) => self.refuse(&request, code, context),
            None => {}
        }
        true
    }

    /// Takes memory for a request; `false` if the request must wait.
    fn take_memory(
        &mut self,
        request: &Header,
        objection: Option<Code>,
        context: &mut Context,
    ) -> bool {
        let needed = share_of(request, objection);
        let took = context.budget.take(self.bytes, needed, !self.is_stuck(context.now));
        self.bytes += if took { needed } else { 0 };
        took
    }

    fn begin(
        &mut self,
        request: Header,
        objection: Option<Code>,
        context: &mut Context,
    ) -> Result<(), End> {
        let Phase::Serving(session) = &self.phase else { return Ok(()) };
        if request.command == Command::Disconnect {
            self.stopping = true;
            return Ok(());
        }
        let payload = request.payload(session.framing());
        if payload > u64::from(u32::MAX) {
            return Err(ProtocolError::TooLong(payload).into());
        }
        self.requests += 1;
        match objection {
            Some(code) if payload > 0 => {
                self.payload = Some(Payload::Unwanted { request, code, left: payload });
            }
            Some(code) => self.refuse(&request, code, context),
            None if payload > 0 => {
                let buffer = context.memory.take(payload as usize);
                self.payload = Some(Payload::Wanted { request, buffer, filled: 0 });
            }
            None => {
                let reads = request.command == Command::Read;
                let buffer = reads.then(|| context.memory.take(request.length as usize));
                self.submit(request, buffer, context);
            }
        }
        Ok(())
    }

    fn submit(&mut self, request: Header, buffer: Option<Buffer>, context: &mut Context) {
        let Phase::Serving(session) = &self.phase else { return };
        self.in_target += 1;
        context.submitted += 1;
        let number = context.requests.insert((self.index, request));
        session.submit(&request, buffer, number as u64, &context.outbox);
    }

    fn refuse(&mut self, request: &Header, code: Code, context: &mut Context) {
        let Phase::Serving(session) = &self.phase else { return };
        self.head.clear();
        let body = session.plain(request, Some(code), &mut self.head);
        context.traffic.refused += 1;
        self.answer(body, share_of(request, Some(code)), true, context);
    }

    /// The target has completed a request.
    pub(crate) fn complete(
        &mut self,
        request: &Header,
        result: Result<Given, TargetError>,
        context: &mut Context,
    ) {
        self.in_target -= 1;
        let Phase::Serving(session) = &self.phase else { return };
        if self.socket.is_none() {
            return;
        }
        let failed = result.is_err();
        self.head.clear();
        let body = session.reply(request, result, &mut self.head);
        self.answer(body, share_of(request, None), failed, context);
    }

    fn answer(&mut self, body: ReplyBody, share: u64, failed: bool, context: &mut Context) {
        context.traffic.requests += 1;
        context.traffic.errors += u64::from(failed);
        if bugs::has(ShellBug::ReplyTwice) && !self.output.is_empty() {
            self.output.push_reply(&self.head, ReplyBody::None, 0);
        }
        self.output.push_reply(&self.head, body, share);
    }

    /// Sends what the socket takes.
    fn send(&mut self, context: &mut Context) -> Result<(), End> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        socket.push_on().map_err(|_| End::Fault)?;
        let sent = self.output.send(|slices| socket.write(slices)).map_err(|_| End::Fault)?;
        if sent.bytes > 0 {
            self.moved = context.now;
        }
        self.requests -= sent.replies;
        context.budget.give_back(self.bytes, sent.freed);
        self.bytes -= sent.freed;
        let answered = self.requests == 0 && !self.wants_output();
        if self.stopping && answered { Err(End::Over) } else { Ok(()) }
    }

    /// Whether no more requests may begin.
    fn is_full(&self, limits: &Limits) -> bool {
        self.requests >= limits.requests || self.bytes > limits.bytes
    }
}

/// Bytes that track a request. Chosen, not measured; a block status reply takes about the same.
const TRACKING: u64 = 256;

/// Memory for a request: tracking, plus a buffer for its payload or the data it reads.
fn share_of(request: &Header, objection: Option<Code>) -> u64 {
    match objection {
        None => share(request.command, request.length),
        Some(_) => TRACKING,
    }
}

/// Memory for a request without objection. Buffers are powers of two of blocks, as in [`BufferPool::take`].
pub(crate) fn share(command: Command, length: u64) -> u64 {
    let memory = |length: u64| length.div_ceil(4096).next_power_of_two() * 4096;
    match command {
        Command::Read | Command::Write => memory(length) + TRACKING,
        _ => TRACKING,
    }
}
