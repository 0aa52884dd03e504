//! The handshake as a server has it: fixed newstyle, from the greeting until an export is used.

use super::ProtocolError;
use super::option::{
    Answer, Context, Contexts, NAME_MAX, OPTION_HEADER, Wanted, answer, info, number,
};
use super::request::Framing;
use super::wire::{OPTION_MAGIC, Put as _, Reader, SERVER_MAGIC};

/// Handshake flags: fixed newstyle, and no zeroes behind the answer to `EXPORT_NAME`. Both sides use the same bits.
const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;

/// Zeroes behind the answer to `EXPORT_NAME`, unless both sides do without.
const ZEROES: usize = 124;

/// The most data that an option may have, in bytes: two names and some contexts. Chosen, not measured.
pub const OPTION_MAX: u32 = 16 << 10;

/// Options after which a client that still has not chosen is sent away. Chosen, not measured; clients need about ten.
const OPTIONS_MAX: u32 = 256;

/// The most metadata contexts that a client may select: each adds its extents to every block status. Chosen, not
/// measured.
const CONTEXTS_MAX: usize = 8;

/// Flags of an export.
pub mod export_flag {
    /// The flags mean anything at all.
    pub const HAS_FLAGS: u16 = 1;
    /// Takes no writes.
    pub const READ_ONLY: u16 = 1 << 1;
    /// Takes flushes.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// Takes writes that are durable when complete.
    pub const SEND_FUA: u16 = 1 << 3;
    /// Takes trims.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// Takes commands to write zeroes.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// Sends a read in one chunk if asked to.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush covers completed writes of all connections.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// Takes commands to cache.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// Knows whether zeroes are faster than writing them.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Description of an export for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// See [`export_flag`]; without [`export_flag::SEND_DF`], which follows from the framing.
    pub flags: u16,
    /// Offsets and lengths are multiples of this many bytes.
    pub block_min: u32,
    /// And best multiples of this many.
    pub block_preferred: u32,
    /// Its metadata contexts.
    pub contexts: Vec<Context>,
}

/// The exports that a server has.
pub trait Catalogue {
    /// Their names.
    fn names(&self) -> Vec<String>;
    /// The one of this name; the empty name means the server's choice.
    fn facts(&self, name: &str) -> Option<Facts>;
}

/// Whether a client must encrypt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// It cannot.
    None,
    /// It must, and has not begun to.
    Required,
    /// It does.
    Active,
}

/// The result of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The export's name in the catalogue.
    pub export: String,
    /// How requests and replies look.
    pub framing: Framing,
    /// Numbers in replies of the metadata contexts that were asked for.
    pub contexts: Vec<u32>,
}

/// How far the handshake has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed.
    More,
    /// The next bytes on the wire, in both directions, are those of TLS. Then [`Handshake::encrypted`].
    StartTls,
    /// Requests follow.
    Serve(Agreement),
}

/// A handshake under way.
#[derive(Clone, Debug)]
pub struct Handshake {
    encryption: Encryption,
    /// Bytes of the longest payload.
    payload_max: u32,
    /// The client's flags, once received.
    client: Option<u16>,
    framing: Framing,
    /// The metadata contexts that the client selected, and the catalogue name of their export.
    contexts_of: Option<(Vec<u32>, String)>,
    options: u32,
}

impl Handshake {
    /// Begins: the greeting is appended to `out`. Payloads have at most `payload_max` bytes.
    #[must_use]
    pub fn begin(encryption: Encryption, payload_max: u32, out: &mut Vec<u8>) -> Self {
        out.put_u64(SERVER_MAGIC);
        out.put_u64(OPTION_MAGIC);
        out.put_u16(FIXED_NEWSTYLE | NO_ZEROES);
        let (framing, contexts_of) = (Framing::Simple, None);
        Handshake { encryption, payload_max, client: None, framing, contexts_of, options: 0 }
    }

    /// Records that the connection is encrypted. Forgets all earlier agreements.
    pub fn encrypted(&mut self) {
        self.encryption = Encryption::Active;
        self.framing = Framing::Simple;
        self.contexts_of = None;
    }

    /// Takes what it can from the front of `input`, and appends what is to be answered to `out`. Returns how many bytes
    /// were taken.
    ///
    /// # Errors
    /// [`ProtocolError`]: the connection is to be closed, after `out` was sent.
    pub fn advance(
        &mut self,
        input: &[u8],
        catalogue: &impl Catalogue,
        out: &mut Vec<u8>,
    ) -> Result<(usize, Step), ProtocolError> {
        let mut reader = Reader::new(input);
        if self.client.is_none() {
            let Some(flags) = reader.u32() else { return Ok((0, Step::More)) };
            if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
                return Err(ProtocolError::ClientFlags(flags));
            }
            self.client = Some(flags as u16);
        }
        loop {
            let taken = input.len() - reader.rest().len();
            let Some((number, data)) = next_option(&mut reader)? else {
                return Ok((taken, Step::More));
            };
            self.options += 1;
            if self.options > OPTIONS_MAX {
                return Err(ProtocolError::TooManyOptions);
            }
            match self.option(number, data, catalogue, out)? {
                Step::More => {}
                step => return Ok((input.len() - reader.rest().len(), step)),
            }
        }
    }

    fn option(
        &mut self,
        number: u32,
        data: &[u8],
        catalogue: &impl Catalogue,
        out: &mut Vec<u8>,
    ) -> Result<Step, ProtocolError> {
        let mut say = |result: Answer| {
            answer(out, number, result, &[]);
            Ok(Step::More)
        };
        match number {
            number::ABORT => {
                answer(out, number, Answer::Ack, &[]);
                Err(ProtocolError::Aborted)
            }
            number::STARTTLS => {
                if self.encryption == Encryption::None {
                    return say(Answer::Policy);
                }
                if self.encryption == Encryption::Active || !data.is_empty() {
                    return say(Answer::Invalid);
                }
                answer(out, number, Answer::Ack, &[]);
                Ok(Step::StartTls)
            }
            number::EXPORT_NAME => self.export_name(data, catalogue, out).map(Step::Serve),
            _ if self.encryption == Encryption::Required => say(Answer::TlsRequired),
            number::STRUCTURED_REPLY => say(self.reframe(data, Framing::Structured)),
            number::EXTENDED_HEADERS => say(self.reframe(data, Framing::Extended)),
            number::LIST if data.is_empty() => {
                for name in catalogue.names() {
                    let mut server = Vec::new();
                    server.put_text(&name);
                    answer(out, number, Answer::Server, &server);
                }
                answer(out, number, Answer::Ack, &[]);
                Ok(Step::More)
            }
            number::LIST => say(Answer::Invalid),
            number::INFO | number::GO => Ok(self.go(number, data, catalogue, out)),
            number::LIST_META_CONTEXT | number::SET_META_CONTEXT => {
                self.contexts(number, data, catalogue, out);
                Ok(Step::More)
            }
            _ => say(Answer::Unsupported),
        }
    }

    /// Agrees on a framing, unless there is a wider one.
    fn reframe(&mut self, data: &[u8], framing: Framing) -> Answer {
        if !data.is_empty() {
            return Answer::Invalid;
        }
        if self.framing == Framing::Extended {
            return Answer::ExtendedHeaders;
        }
        self.framing = framing;
        Answer::Ack
    }

    /// The old way to choose an export: there is no answer but success.
    fn export_name(
        &self,
        data: &[u8],
        catalogue: &impl Catalogue,
        out: &mut Vec<u8>,
    ) -> Result<Agreement, ProtocolError> {
        let allowed = self.encryption != Encryption::Required && self.framing != Framing::Extended;
        let name = std::str::from_utf8(data).ok().filter(|name| name.len() <= NAME_MAX && allowed);
        let facts = name.and_then(|name| catalogue.facts(name)).ok_or(ProtocolError::Refused)?;
        out.put_u64(facts.size);
        out.put_u16(self.flags(&facts));
        if self.client.is_some_and(|flags| flags & NO_ZEROES == 0) {
            out.resize(out.len() + ZEROES, 0);
        }
        Ok(self.agreement(facts))
    }

    /// Answers `INFO` and `GO`; `GO` also selects the export.
    fn go(&self, number: u32, data: &[u8], catalogue: &impl Catalogue, out: &mut Vec<u8>) -> Step {
        let Some(wanted) = Wanted::parse(data) else {
            answer(out, number, Answer::Invalid, &[]);
            return Step::More;
        };
        let Some(facts) = catalogue.facts(wanted.name) else {
            answer(out, number, Answer::Unknown, &[]);
            return Step::More;
        };
        let mut of_export = Vec::new();
        of_export.put_u16(info::EXPORT);
        of_export.put_u64(facts.size);
        of_export.put_u16(self.flags(&facts));
        answer(out, number, Answer::Info, &of_export);
        let mut of_blocks = Vec::new();
        of_blocks.put_u16(info::BLOCK_SIZE);
        of_blocks.put_u32(facts.block_min);
        of_blocks.put_u32(facts.block_preferred);
        of_blocks.put_u32(self.payload_max);
        answer(out, number, Answer::Info, &of_blocks);
        if wanted.kinds.contains(&info::NAME) {
            let mut of_name = Vec::new();
            of_name.put_u16(info::NAME);
            of_name.extend_from_slice(facts.name.as_bytes());
            answer(out, number, Answer::Info, &of_name);
        }
        answer(out, number, Answer::Ack, &[]);
        if number == number::GO { Step::Serve(self.agreement(facts)) } else { Step::More }
    }

    fn contexts(
        &mut self,
        number: u32,
        data: &[u8],
        catalogue: &impl Catalogue,
        out: &mut Vec<u8>,
    ) {
        let listing = number == number::LIST_META_CONTEXT;
        if !listing {
            self.contexts_of = None;
        }
        let wanted = Contexts::parse(data).filter(|_| self.framing != Framing::Simple);
        let Some(wanted) = wanted else { return answer(out, number, Answer::Invalid, &[]) };
        let Some(facts) = catalogue.facts(wanted.name) else {
            return answer(out, number, Answer::Unknown, &[]);
        };
        let most = if listing { usize::MAX } else { CONTEXTS_MAX };
        let meant = facts.contexts.iter().filter(|context| wanted.mean(context, listing));
        let mut chosen = Vec::new();
        for Context { id, name } in meant.take(most) {
            let mut context = Vec::new();
            context.put_u32(if listing { 0 } else { *id });
            context.extend_from_slice(name.as_bytes());
            answer(out, number, Answer::MetaContext, &context);
            chosen.push(*id);
        }
        if !listing {
            self.contexts_of = Some((chosen, facts.name));
        }
        answer(out, number, Answer::Ack, &[]);
    }

    fn flags(&self, facts: &Facts) -> u16 {
        let structured = self.framing != Framing::Simple;
        facts.flags | export_flag::HAS_FLAGS | if structured { export_flag::SEND_DF } else { 0 }
    }

    fn agreement(&self, facts: Facts) -> Agreement {
        let of_export = |(_, name): &&(Vec<u32>, String)| *name == facts.name;
        let contexts = self.contexts_of.as_ref().filter(of_export);
        let contexts = contexts.map_or(Vec::new(), |(contexts, _)| contexts.clone());
        Agreement { export: facts.name, framing: self.framing, contexts }
    }
}

/// The next option and its data; `None` until all bytes have arrived.
fn next_option<'a>(reader: &mut Reader<'a>) -> Result<Option<(u32, &'a [u8])>, ProtocolError> {
    let mut ahead = *reader;
    if let Some(magic) = ahead.u64()
        && magic != OPTION_MAGIC
    {
        return Err(ProtocolError::Magic(magic));
    }
    if reader.rest().len() < OPTION_HEADER {
        return Ok(None);
    }
    let (Some(number), Some(length)) = (ahead.u32(), ahead.u32()) else { return Ok(None) };
    if length > OPTION_MAX {
        return Err(ProtocolError::TooLong(length.into()));
    }
    let Some(data) = ahead.bytes(length as usize) else { return Ok(None) };
    *reader = ahead;
    Ok(Some((number, data)))
}

#[cfg(test)]
mod tests;
