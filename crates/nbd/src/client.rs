//! A small blocking client: for tests, load and tools, not for speed.

use std::io::{self, Read, Write};

use crate::protocol::ProtocolError;
use crate::protocol::option::{ALLOCATION, Answer, info, number};
use crate::protocol::reply::{Front, Status, kind};
use crate::protocol::request::{Command, Framing, Header, flag};
use crate::protocol::wire::{OPTION_MAGIC, OPTION_REPLY_MAGIC, Put as _, Reader, SERVER_MAGIC};

/// The longest answer or chunk that is taken, in bytes.
const LONGEST: u64 = 33 << 20;

/// Why an operation of the client failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The connection failed or ended.
    #[error("the connection failed")]
    Io(#[from] io::Error),
    /// The server does not speak the protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The server refused an option.
    #[error("the server refused option {option} with {answer:#x}")]
    Option {
        /// Which.
        option: u32,
        /// `NBD_REP_ERR_*`.
        answer: u32,
    },
    /// A request failed.
    #[error("the request failed with error {0}")]
    Request(u32),
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The request.
    pub cookie: u64,
    /// 0 for success.
    pub error: u32,
    /// What was read.
    pub data: Vec<u8>,
    /// Extents of each metadata context, in the order in which they were asked for.
    pub extents: Vec<Vec<Status>>,
}

/// A connection that uses an export.
#[derive(Debug)]
pub struct Client<S> {
    stream: S,
    framing: Framing,
    /// Bytes of the export.
    size: u64,
    flags: u16,
    /// Offset multiple, preferred, and longest payload, in bytes.
    blocks: [u32; 3],
    cookie: u64,
    /// Pending reads: cookie and length. Simple replies do not state the length.
    reads: Vec<(u64, u64)>,
    /// Numbers of the metadata contexts that were asked for; `None` for a context that the export lacks.
    contexts: Vec<Option<u32>>,
}

impl<S: Read + Write> Client<S> {
    /// Shakes hands on `stream` and chooses `export`; block status can be asked for if `framing` is not simple. Its
    /// context is `base:allocation`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect(stream: S, export: &str, framing: Framing) -> Result<Self, ClientError> {
        Client::connect_for(stream, export, framing, &[ALLOCATION.0])
    }

    /// As [`Client::connect`], with these metadata contexts instead.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect_for(
        stream: S,
        export: &str,
        framing: Framing,
        contexts: &[&str],
    ) -> Result<Self, ClientError> {
        let blocks = [512, 4096, 32 << 20];
        let (size, flags, cookie) = (0, 0, 0);
        let (reads, ids) = (Vec::new(), Vec::new());
        let mut client =
            Client { stream, framing, size, flags, blocks, cookie, reads, contexts: ids };
        let greeting = client.take(18)?;
        let mut reader = Reader::new(&greeting);
        for expected in [SERVER_MAGIC, OPTION_MAGIC] {
            let found = reader.u64().expect("all of it was read");
            if found != expected {
                return Err(ProtocolError::Magic(found).into());
            }
        }
        client.stream.write_all(&[0, 0, 0, 3])?;
        match framing {
            Framing::Simple => {}
            Framing::Structured => drop(client.option(number::STRUCTURED_REPLY, &[])?),
            Framing::Extended => drop(client.option(number::EXTENDED_HEADERS, &[])?),
        }
        if framing != Framing::Simple {
            let mut data = Vec::new();
            data.put_text(export);
            data.put_u32(contexts.len() as u32);
            contexts.iter().for_each(|context| data.put_text(context));
            let answers = client.option(number::SET_META_CONTEXT, &data)?;
            let id = |name: &&str| {
                let of = |answer: &Vec<u8>| {
                    let mut reader = Reader::new(answer);
                    reader.u32().filter(|_| reader.rest() == name.as_bytes())
                };
                answers.iter().find_map(of)
            };
            client.contexts = contexts.iter().map(id).collect();
        }
        client.go(export)?;
        Ok(client)
    }

    fn go(&mut self, export: &str) -> Result<(), ClientError> {
        let mut data = Vec::new();
        data.put_text(export);
        data.put_u16(1);
        data.put_u16(info::BLOCK_SIZE);
        for answer in self.option(number::GO, &data)? {
            let mut reader = Reader::new(&answer);
            match reader.u16() {
                Some(info::EXPORT) => {
                    let facts = reader.u64().zip(reader.u16());
                    (self.size, self.flags) = facts.ok_or(CUT_OFF)?;
                }
                Some(info::BLOCK_SIZE) => {
                    for field in &mut self.blocks {
                        *field = reader.u32().ok_or(CUT_OFF)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Asks for an option; returns the data of all answers before the last.
    fn option(&mut self, option: u32, data: &[u8]) -> Result<Vec<Vec<u8>>, ClientError> {
        let mut bytes = Vec::new();
        bytes.put_u64(OPTION_MAGIC);
        bytes.put_u32(option);
        bytes.put_u32(data.len() as u32);
        bytes.extend_from_slice(data);
        self.stream.write_all(&bytes)?;
        let mut answers = Vec::new();
        loop {
            let head = self.take(20)?;
            let mut reader = Reader::new(&head);
            let magic = reader.u64().expect("all of it was read");
            if magic != OPTION_REPLY_MAGIC {
                return Err(ProtocolError::Magic(magic).into());
            }
            let fields = (reader.u32(), reader.u32(), reader.u32());
            let (Some(_), Some(answer), Some(length)) = fields else { return Err(CUT_OFF.into()) };
            let data = self.take(length.into())?;
            if answer == Answer::Ack.number() {
                return Ok(answers);
            }
            if answer & 1 << 31 != 0 {
                return Err(ClientError::Option { option, answer });
            }
            answers.push(data);
        }
    }

    /// Whether the export has all metadata contexts that were asked for.
    #[must_use]
    pub fn has_contexts(&self) -> bool {
        self.contexts.iter().all(Option::is_some)
    }

    /// Bytes of the export.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Flags of the export, see [`crate::protocol::handshake::export_flag`].
    #[must_use]
    pub fn flags(&self) -> u16 {
        self.flags
    }

    /// Multiple of offsets and lengths, best multiple, and longest payload, in bytes.
    #[must_use]
    pub fn blocks(&self) -> [u32; 3] {
        self.blocks
    }

    /// The stream, for tests that send malformed bytes.
    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Sends a request without waiting for its reply; returns its cookie. A `payload` that is not empty sets the
    /// length.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn send(
        &mut self,
        command: Command,
        flags: u16,
        offset: u64,
        length: u64,
        payload: &[u8],
    ) -> Result<u64, ClientError> {
        self.cookie += 1;
        let cookie = self.cookie;
        let stated = !payload.is_empty() && self.framing == Framing::Extended;
        let flags = flags | if stated { flag::PAYLOAD_LENGTH } else { 0 };
        let length = if payload.is_empty() { length } else { payload.len() as u64 };
        let mut bytes = Vec::with_capacity(32 + payload.len());
        Header { command, flags, cookie, offset, length }.encode(self.framing, &mut bytes);
        bytes.extend_from_slice(payload);
        self.stream.write_all(&bytes)?;
        if command == Command::Read {
            self.reads.push((cookie, length));
        }
        Ok(cookie)
    }

    /// Waits for the next reply, of whichever request.
    ///
    /// # Errors
    /// When the connection fails or the server does not keep to the protocol.
    pub fn receive(&mut self) -> Result<Reply, ClientError> {
        let mut front = self.front()?;
        let (cookie, error) = match front {
            Front::Simple { cookie, error } => (cookie, error),
            Front::Chunk { cookie, .. } => (cookie, 0),
        };
        let read = self.reads.iter().position(|&(one, _)| one == cookie);
        let read = read.map(|at| self.reads.swap_remove(at).1);
        let extents = vec![Vec::new(); self.contexts.len()];
        let mut reply = Reply { cookie, error, data: Vec::new(), extents };
        loop {
            match front {
                Front::Simple { error: 0, .. } => reply.data = self.take(read.unwrap_or(0))?,
                Front::Simple { .. } => {}
                Front::Chunk { cookie: other, .. } if other != cookie => {
                    return Err(ProtocolError::Malformed("chunks of two replies").into());
                }
                Front::Chunk { kind, length, .. } => {
                    let body = self.take(length)?;
                    fill(&mut reply, &self.contexts, kind, &body).ok_or(CUT_OFF)?;
                }
            }
            if !matches!(front, Front::Chunk { last: false, .. }) {
                return Ok(reply);
            }
            front = self.front()?;
        }
    }

    fn front(&mut self) -> Result<Front, ClientError> {
        let mut head = self.take(16)?;
        loop {
            if let Some((front, _)) = Front::parse(&head)? {
                return Ok(front);
            }
            head.extend(self.take(4)?);
        }
    }

    /// Sends a request and waits for its reply; no other may be under way.
    ///
    /// # Errors
    /// [`ClientError::Request`] if it failed.
    pub fn call(
        &mut self,
        command: Command,
        flags: u16,
        offset: u64,
        length: u64,
        payload: &[u8],
    ) -> Result<Reply, ClientError> {
        let cookie = self.send(command, flags, offset, length, payload)?;
        let reply = self.receive()?;
        if reply.cookie != cookie {
            return Err(ProtocolError::Malformed("the reply is to another request").into());
        }
        if reply.error == 0 { Ok(reply) } else { Err(ClientError::Request(reply.error)) }
    }

    fn take(&mut self, count: u64) -> Result<Vec<u8>, ClientError> {
        if count > LONGEST {
            return Err(ProtocolError::TooLong(count).into());
        }
        let mut bytes = vec![0; count as usize];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

const CUT_OFF: ProtocolError = ProtocolError::Malformed("a message without all of its fields");

/// Puts the body of a chunk into a reply.
fn fill(reply: &mut Reply, contexts: &[Option<u32>], kind: u16, body: &[u8]) -> Option<()> {
    let mut reader = Reader::new(body);
    let position = |id| contexts.iter().position(|context| *context == Some(id));
    match kind {
        kind::NONE => {}
        kind::OFFSET_DATA => {
            reader.u64()?;
            reply.data = reader.rest().to_vec();
        }
        kind::BLOCK_STATUS => {
            let context = position(reader.u32()?)?;
            while let Some((length, flags)) = reader.u32().zip(reader.u32()) {
                reply.extents[context].push(Status { length: length.into(), flags });
            }
        }
        kind::BLOCK_STATUS_EXT => {
            let context = position(reader.u32()?)?;
            reader.u32()?;
            while let Some((length, flags)) = reader.u64().zip(reader.u64()) {
                reply.extents[context].push(Status { length, flags: flags as u32 });
            }
        }
        _ => reply.error = reader.u32()?.max(1),
    }
    Some(())
}
