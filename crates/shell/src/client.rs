//! A scripted client: bytes of requests, and bytes of answers.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use thermocline_engine::Extent;
use thermocline_format::BLOCK_BYTES;
use thermocline_nbd::protocol::option::{ALLOCATION, Answer, info, number};
use thermocline_nbd::protocol::reply::{Front, HOLE, kind};
use thermocline_nbd::protocol::request::{Command, Framing, Header};
use thermocline_nbd::protocol::wire::{OPTION_MAGIC, Put as _, Reader};
use thermocline_sim::data::Content;
use thermocline_sim::model::{PendingFlush, PendingRead, WriteNumber};

use crate::wire::Wire;

/// How a client behaves.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Index of the client's volume.
    pub volume: usize,
    /// How messages are framed.
    pub framing: Framing,
    /// Most requests in flight.
    pub depth: usize,
    /// The longest pause between two actions of the client.
    pub pause: Duration,
    /// Most bytes sent, and most bytes taken, in one action.
    pub piece: usize,
    /// Bytes of replies that fit into the connection.
    pub room: usize,
    /// One call of the server in this number moves fewer bytes than asked; 0: none.
    pub short_one_in: u64,
    /// Most requests of one action.
    pub burst: u64,
    /// Kinds of requests.
    pub wants: Wants,
}

/// The kinds of requests of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// All kinds of requests.
    All,
    /// Only block status, over extents as long as possible.
    Status,
    /// Reads of one block, one at a time, in an unlimited volume of its own.
    Probe,
    /// Writes and flushes.
    Writes,
    /// Long reads.
    Reads,
}

/// The kind of an awaited reply.
#[derive(Debug)]
pub enum AwaitedReply {
    /// A read.
    Read(PendingRead),
    /// A write, a trim or a zeroing. With the flag, the change is durable when answered.
    Change(WriteNumber, bool),
    /// A flush.
    Flush(PendingFlush),
    /// Block status of an extent.
    Status(PendingRead, Extent),
    /// A request that the server must refuse.
    Wrong,
}

/// A request under way.
#[derive(Debug)]
pub struct Unanswered {
    /// The awaited reply.
    pub asked: AwaitedReply,
    /// Bytes of a read.
    reads: u64,
    /// The connection's count of sent bytes at the end of the request.
    last_byte: u64,
    /// The time when the last byte was sent.
    pub sent: Option<Duration>,
}

/// An answer.
#[derive(Debug)]
pub struct Answered {
    /// The request.
    pub pending: Unanswered,
    /// The error; 0: none.
    pub error: u32,
    /// Contents of the read blocks.
    pub contents: Vec<Content>,
    /// Bytes of the hole at the front.
    pub hole: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Greeting,
    Options,
    Serving,
}

/// A client.
#[derive(Debug)]
pub struct ScriptedClient {
    /// The client's behaviour.
    pub manner: Manner,
    /// The client's connection.
    pub wire: Wire,
    /// The time of the next action.
    pub acts: Duration,
    /// Actions in a row without any work.
    idle: u32,
    /// Whether the client has sent its disconnect request.
    pub leaves: bool,
    phase: Phase,
    unsent: VecDeque<u8>,
    received: Vec<u8>,
    /// Bytes queued, and bytes sent, since the client came.
    queued: u64,
    sent: u64,
    cookie: u64,
    /// Requests under way.
    pub pending: BTreeMap<u64, Unanswered>,
}

impl ScriptedClient {
    /// A client at the start of its handshake.
    #[must_use]
    pub fn new(manner: Manner, export: &str, wire: Wire, acts: Duration) -> ScriptedClient {
        let mut client = ScriptedClient {
            manner,
            wire,
            acts,
            idle: 0,
            leaves: false,
            phase: Phase::Greeting,
            unsent: VecDeque::new(),
            received: Vec::new(),
            queued: 0,
            sent: 0,
            cookie: 0,
            pending: BTreeMap::new(),
        };
        client.queue(&handshake(manner.framing, export));
        client
    }

    fn queue(&mut self, bytes: &[u8]) {
        self.unsent.extend(bytes);
        self.queued += bytes.len() as u64;
    }

    /// Most bytes to send and to take in this action. Every message ends within some dozen actions.
    #[must_use]
    pub fn piece(&self) -> usize {
        let waits = self.unsent.len().max(self.wire.untaken());
        self.manner.piece.max(waits / 16).max(1)
    }

    /// Most nanoseconds until the next action. A client without work acts less and less often. `asks`: the client
    /// has more requests to send.
    pub fn pause(&mut self, asks: bool) -> u64 {
        let takes = self.wire.untaken() > 0;
        let busy = !self.unsent.is_empty() || takes || asks && self.may_ask();
        self.idle = if busy { 0 } else { (self.idle + 1).min(12) };
        ((self.manner.pause.as_nanos() as u64) << self.idle).min(20_000_000)
    }

    /// Whether the client may send another request.
    #[must_use]
    pub fn may_ask(&self) -> bool {
        self.is_serving() && !self.leaves && self.pending.len() < self.manner.depth
    }

    /// Whether it has shaken hands.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.phase == Phase::Serving
    }

    /// Asks.
    pub fn ask(&mut self, header: Header, payload: &[u8], asked: AwaitedReply) {
        self.cookie += 1;
        let header = Header { cookie: self.cookie, ..header };
        let mut bytes = Vec::with_capacity(32 + payload.len());
        header.encode(self.manner.framing, &mut bytes);
        bytes.extend_from_slice(payload);
        self.queue(&bytes);
        let reads = if header.command == Command::Read { header.length } else { 0 };
        let pending = Unanswered { asked, reads, last_byte: self.queued, sent: None };
        self.pending.insert(self.cookie, pending);
    }

    /// Disconnects after all due answers.
    pub fn say_goodbye(&mut self) {
        let command = Command::Disconnect;
        let mut bytes = Vec::new();
        let header = Header { command, flags: 0, cookie: 0, offset: 0, length: 0 };
        header.encode(self.manner.framing, &mut bytes);
        self.queue(&bytes);
        self.leaves = true;
    }

    /// Sends at most `most` bytes.
    pub fn send(&mut self, most: usize, now: Duration) {
        let count = most.min(self.unsent.len());
        self.wire.send(self.unsent.drain(..count));
        self.sent += count as u64;
        let sent = self.sent;
        let all = self.pending.values_mut().filter(|one| one.sent.is_none());
        all.filter(|one| one.last_byte <= sent).for_each(|one| one.sent = Some(now));
    }

    /// Whether the client has no bytes to send or to take, and awaits no answer.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.unsent.is_empty() && self.pending.is_empty()
    }

    /// Takes at most `most` bytes of answers.
    ///
    /// # Errors
    /// The server's protocol error.
    pub fn take(&mut self, most: usize) -> Result<Vec<Answered>, String> {
        self.wire.take(most, &mut self.received);
        let mut answers = Vec::new();
        loop {
            let taken = match self.phase {
                Phase::Greeting => self.greeting(),
                Phase::Options => self.option()?,
                Phase::Serving => self.answer(&mut answers)?,
            };
            if taken == 0 {
                return Ok(answers);
            }
            self.received.drain(..taken);
        }
    }

    fn greeting(&mut self) -> usize {
        if self.received.len() < 18 {
            return 0;
        }
        self.phase = Phase::Options;
        18
    }

    fn option(&mut self) -> Result<usize, String> {
        let mut reader = Reader::new(&self.received);
        let (Some(_), Some(option), Some(answer), Some(length)) =
            (reader.u64(), reader.u32(), reader.u32(), reader.u32())
        else {
            return Ok(0);
        };
        if reader.bytes(length as usize).is_none() {
            return Ok(0);
        }
        if answer & 1 << 31 != 0 {
            return Err(format!("option {option} is refused with {answer:#x}"));
        }
        if (option, answer) == (number::GO, Answer::Ack.number()) {
            self.phase = Phase::Serving;
        }
        Ok(20 + length as usize)
    }

    fn answer(&mut self, answers: &mut Vec<Answered>) -> Result<usize, String> {
        let front = Front::parse(&self.received).map_err(|error| error.to_string())?;
        let Some((front, size)) = front else { return Ok(0) };
        let (Front::Simple { cookie, .. } | Front::Chunk { cookie, .. }) = front;
        let known = self.pending.get(&cookie);
        let pending =
            known.ok_or_else(|| format!("an answer to {cookie}, which waits for none"))?;
        let (length, what, mut error) = match front {
            Front::Simple { error: 0, .. } => (pending.reads, kind::NONE, 0),
            Front::Simple { error, .. } => (0, kind::NONE, error),
            Front::Chunk { kind, length, .. } => (length, kind, 0),
        };
        let whole = size + length as usize;
        if self.received.len() < whole {
            return Ok(0);
        }
        let body = &self.received[size..whole];
        let mut reader = Reader::new(body);
        let (mut data, mut hole) = (&body[..0], 0);
        match what {
            kind::NONE => data = body,
            kind::OFFSET_DATA => data = &body[8..],
            kind::BLOCK_STATUS => {
                reader.u32();
                let first = reader.u32().zip(reader.u32()).ok_or("a status without extents")?;
                hole = if first.1 & HOLE > 0 { first.0.into() } else { 0 };
            }
            kind::BLOCK_STATUS_EXT => {
                reader.u64();
                let first = reader.u64().zip(reader.u64()).ok_or("a status without extents")?;
                hole = if first.1 & u64::from(HOLE) > 0 { first.0 } else { 0 };
            }
            _ => error = reader.u32().unwrap_or(0).max(1),
        }
        if error == 0 && data.len() as u64 != pending.reads {
            return Err(format!("{} bytes answer a read of {}", data.len(), pending.reads));
        }
        let contents = data
            .chunks_exact(BLOCK_BYTES)
            .map(|block| Content::of(block.try_into().expect("a block")));
        let contents = contents.collect();
        let pending = self.pending.remove(&cookie).expect("it was found");
        answers.push(Answered { pending, error, contents, hole });
        Ok(whole)
    }
}

/// All messages of a client before its first request.
fn handshake(framing: Framing, export: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u32(3);
    let mut option = |number: u32, data: &[u8]| {
        bytes.put_u64(OPTION_MAGIC);
        bytes.put_u32(number);
        bytes.put_u32(data.len() as u32);
        bytes.extend_from_slice(data);
    };
    match framing {
        Framing::Simple => {}
        Framing::Structured => option(number::STRUCTURED_REPLY, &[]),
        Framing::Extended => option(number::EXTENDED_HEADERS, &[]),
    }
    if framing != Framing::Simple {
        let mut data = Vec::new();
        data.put_text(export);
        data.put_u32(1);
        data.put_text(ALLOCATION.0);
        option(number::SET_META_CONTEXT, &data);
    }
    let mut data = Vec::new();
    data.put_text(export);
    data.put_u16(1);
    data.put_u16(info::BLOCK_SIZE);
    option(number::GO, &data);
    bytes
}
