//! A trace as a [`Source`] of requests.

use std::io::Read;
use std::path::Path;

use thermocline_types::{Bytes, Request, StreamId, TenantId};

use crate::{BATCH, Source};

use super::clock::{Clock, Spreader};
use super::detect;
use super::error::{Error, ErrorKind, Position};
use super::format::Format;
use super::formats::{Framing, Parser};
use super::input::Input;
use super::record::{Expected, Record};
use super::streams::FileNames;
use super::volumes::Volumes;

/// How a trace is to be read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What the file is; `None` finds out from its content.
    pub format: Option<Format>,
    /// Leave out lines that cannot be read, and count them, instead of failing at the first. A trace in which nothing
    /// can be read fails all the same.
    pub skip_bad: bool,
    /// Keep only the requests of the volume with this name.
    pub volume: Option<String>,
}

/// A trace being read.
pub struct Trace {
    name: String,
    format: Format,
    input: Input,
    parser: Parser,
    framing: Framing,
    clock: Clock,
    spreader: Option<Spreader>,
    volumes: Volumes,
    files: FileNames,
    skip_bad: bool,
    skipped: u64,
    empty: u64,
    /// The first line that could not be read, for a trace in which none could.
    first_bad: Option<Error>,
    position: u64,
    requests: u64,
    ended: bool,
    /// Requests read and not yet given out.
    pending: Option<Request>,
}

/// Opens the trace that comes with the program under that name ([`BUILT_IN`](super::BUILT_IN)), or the one in a file,
/// or on standard input for `-`, plain or compressed by gzip or zstd.
///
/// # Errors
/// If the file cannot be opened, is empty, truncated, of no known format, of a format that cannot be told for sure, or
/// of one that does not carry what write amplification depends on.
pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Trace, Error> {
    let path = path.as_ref();
    let name = if path == Path::new("-") {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    };
    Trace::new(name, Input::open(path)?, options)
}

impl Trace {
    /// Reads a trace from anything that yields bytes; `name` stands for it in errors.
    ///
    /// # Errors
    /// As [`open`].
    pub fn from_reader(
        name: &str,
        reader: impl Read + Send + 'static,
        options: &Options,
    ) -> Result<Trace, Error> {
        let input = Input::new(name, Box::new(reader), None)?;
        Trace::new(name.to_owned(), input, options)
    }

    fn new(name: String, mut input: Input, options: &Options) -> Result<Trace, Error> {
        input.head(&name)?;
        input.skip_byte_order_mark();
        let (head, complete) = input.head(&name)?;
        let refused = |(kind, detail)| Error::file(kind, &name, detail);
        let format = match options.format {
            _ if head.is_empty() => {
                return Err(Error::file(ErrorKind::Empty, &name, "the trace is empty"));
            }
            Some(format) => format,
            None => detect::format(head, complete).map_err(refused)?,
        };
        let parser = Parser::new(format, head);
        let framing = parser.framing();
        let stem =
            Path::new(&name).file_name().map_or(name.as_str().into(), |n| n.to_string_lossy());
        Ok(Trace {
            volumes: Volumes::new(format, options.volume.clone(), &stem),
            files: FileNames::default(),
            format,
            input,
            parser,
            framing,
            clock: Clock::default(),
            spreader: format.ticks_in_seconds().then(Spreader::default),
            skip_bad: options.skip_bad,
            skipped: 0,
            empty: 0,
            first_bad: None,
            position: 0,
            requests: 0,
            ended: false,
            pending: None,
            name,
        })
    }

    /// What the trace turned out to be.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The names of the volumes met so far; a request's tenant is an index into them.
    #[must_use]
    pub fn volumes(&self) -> &[String] {
        self.volumes.names()
    }

    /// How many lines or records could not be read and were left out.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// How many requests were of no bytes and were left out.
    #[must_use]
    pub fn empty(&self) -> u64 {
        self.empty
    }

    /// How many events were lost while the trace was recorded, at least, as it says itself.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.parser.lost()
    }

    /// How many requests were stamped earlier than their predecessor. They keep their place and take its time.
    #[must_use]
    pub fn reordered(&self) -> u64 {
        self.clock.reordered
    }

    /// Adds requests in the order of the file, as long as there is room for two.
    fn fill_direct(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        // A record may yield a flush and a write.
        while batch.len() + 2 <= BATCH {
            if !self.read_one(batch)? {
                break;
            }
        }
        Ok(())
    }

    /// Adds requests with the times a [`Spreader`] gives them.
    fn fill_spread(
        &mut self,
        spreader: &mut Spreader,
        batch: &mut Vec<Request>,
    ) -> Result<(), Error> {
        let mut read = Vec::with_capacity(2);
        while batch.len() < BATCH {
            if let Some(request) = spreader.take() {
                batch.push(request);
                continue;
            }
            if let Some(request) = self.pending.take() {
                if !spreader.offer(request) {
                    self.pending = Some(request);
                }
                continue;
            }
            // Formats with whole seconds know no flush, so that one line is at most one request.
            read.clear();
            let more = self.read_one(&mut read)?;
            self.pending = read.pop();
            if !more {
                spreader.finish();
                let Some(request) = spreader.take() else { break };
                batch.push(request);
            }
        }
        Ok(())
    }

    /// Reads on until a line adds one or two requests to `batch`; `false` at the end.
    #[inline]
    fn read_one(&mut self, batch: &mut Vec<Request>) -> Result<bool, Error> {
        loop {
            let start = self.input.given;
            let Some(range) = self.input.next(self.framing, &self.name)? else {
                return self.end().map(|()| false);
            };
            self.position += 1;
            let bytes = self.input.bytes(range);
            match self.parser.parse(bytes) {
                Ok(None) => {}
                Ok(Some(record)) if record.is_empty() => self.empty += 1,
                Ok(Some(record)) => {
                    if let Some(tenant) = self.volumes.id(record.volume) {
                        self.requests += 1;
                        let stream = self.files.id(record.stream);
                        push(&record, (tenant, stream), &mut self.clock, batch);
                        return Ok(true);
                    }
                }
                Err(Expected(expected)) => {
                    let position = match self.framing {
                        Framing::Lines => Position::Line(self.position),
                        Framing::Records(_) => Position::Record(self.position, start),
                    };
                    let explain = || Error::bad_record(&self.name, position, expected, bytes);
                    if !self.skip_bad {
                        return Err(explain());
                    }
                    if self.first_bad.is_none() {
                        self.first_bad = Some(explain());
                    }
                    self.skipped += 1;
                }
            }
        }
    }

    /// The trace is over: was there anything in it?
    fn end(&mut self) -> Result<(), Error> {
        if self.ended || self.requests > 0 {
            self.ended = true;
            return Ok(());
        }
        self.ended = true;
        if let Some(complaint) = self.volumes.complaint() {
            return Err(Error::file(ErrorKind::NoSuchVolume, &self.name, complaint));
        }
        if let Some(first) = self.first_bad.take() {
            return Err(first.none_readable(self.skipped, self.format));
        }
        let detail = format!("there is no request in this {} trace", self.format);
        Err(Error::file(ErrorKind::Empty, &self.name, detail))
    }
}

impl Source for Trace {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        match self.spreader.take() {
            None => self.fill_direct(batch),
            Some(mut spreader) => {
                let result = self.fill_spread(&mut spreader, batch);
                self.spreader = Some(spreader);
                result
            }
        }
    }

    fn fraction_done(&self) -> f64 {
        if self.ended { 1.0 } else { self.input.fraction_done() }
    }

    fn directories(&self) -> Vec<String> {
        self.files.directories().to_vec()
    }
}

#[inline]
fn push(
    record: &Record<'_>,
    (tenant, stream): (TenantId, StreamId),
    clock: &mut Clock,
    batch: &mut Vec<Request>,
) {
    let request = Request {
        at: clock.at(record.at),
        offset: Bytes(record.offset),
        length: Bytes(record.length),
        tenant,
        stream,
        op: record.op,
    };
    if record.preflush {
        let op = thermocline_types::Op::Flush;
        batch.push(Request { op, offset: Bytes::ZERO, length: Bytes::ZERO, ..request });
    }
    batch.push(request);
}
