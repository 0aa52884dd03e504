//! A trace as a [`Source`] of requests.

use std::io::Read;
use std::path::Path;

use thermocline_types::{Bytes, Op, Request, Time};

use crate::{BATCH, Source};

use super::clock::{Clock, Spreader};
use super::detect;
use super::error::{Error, ErrorKind, Position};
use super::format::Format;
use super::formats::{self, Framing, Parser};
use super::input::Input;
use super::record::{Expected, Record};
use super::streams::FileNames;
use super::volumes::Volumes;

/// How a trace is to be read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The format of the file; `None` detects the format from the content.
    pub format: Option<Format>,
    /// Leave out lines that cannot be read, and count them, instead of failing at the first. A trace in which nothing
    /// can be read fails all the same.
    pub skip_bad: bool,
    /// Keep only the requests of the volume with this name.
    pub volume: Option<String>,
    /// Keep only the requests of this time.
    pub window: Window,
}

/// A time of a trace, counted from its first request. The default is all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The begin. The times of requests count from here.
    pub from: Time,
    /// The end; `None`: the end of the trace.
    pub until: Option<Time>,
}

/// A trace being read.
pub struct Trace {
    name: String,
    format: Format,
    /// What the clock was taken to count, where that is not known for sure.
    assumed_clock: Option<&'static str>,
    input: Input,
    parser: Parser,
    framing: Framing,
    spreader: Option<Spreader>,
    found: Found,
    skip_bad: bool,
    skipped: u64,
    /// The line or record that the file ends within, if it could not be read.
    cut: Option<Error>,
    /// The first line that could not be read, for a trace in which none could.
    first_bad: Option<Error>,
    position: u64,
    ended: bool,
    /// The last line or record, which could be read, has no end.
    ends_openly: bool,
    /// Requests read and not yet given out.
    pending: Option<Request>,
}

/// What the records of a trace are put in order by.
struct Found {
    clock: Clock,
    window: Window,
    /// The window is over.
    over: bool,
    /// Requests before the window.
    early: u64,
    volumes: Volumes,
    files: FileNames,
    empty: u64,
    requests: u64,
    /// Requests that address data.
    transfers: u64,
}

impl Found {
    /// Adds the one or two requests of a record to `batch`; `false` if it is left out.
    #[inline]
    fn add(&mut self, record: &Record<'_>, batch: &mut Vec<Request>) -> bool {
        if record.is_empty() {
            self.empty += 1;
            return false;
        }
        let Some(tenant) = self.volumes.id(record.volume) else { return false };
        let at = self.clock.at(record.at);
        self.over = self.window.until.is_some_and(|until| at >= until);
        self.early += u64::from(at < self.window.from);
        if self.over || at < self.window.from {
            return false;
        }
        self.requests += 1;
        self.transfers += u64::from(record.op != Op::Flush);
        let request = Request {
            at: at.since(self.window.from),
            offset: Bytes(record.offset),
            length: Bytes(record.length),
            tenant,
            stream: self.files.id(record.stream),
            op: record.op,
            outstanding: record.outstanding,
        };
        if record.preflush {
            let (offset, length) = (Bytes::ZERO, Bytes::ZERO);
            batch.push(Request { op: Op::Flush, offset, length, ..request });
        }
        batch.push(request);
        true
    }
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
    /// Reads a trace from anything that yields bytes; `name` identifies the trace in errors.
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
        let has_header = head.starts_with(formats::THERMOCLINE_HEADER);
        let parser = Parser::new(format, head, options.volume.as_deref());
        let framing = parser.framing();
        let stem =
            Path::new(&name).file_name().map_or(name.as_str().into(), |n| n.to_string_lossy());
        Ok(Trace {
            found: Found {
                clock: Clock::default(),
                window: options.window,
                over: false,
                early: 0,
                volumes: Volumes::new(format, options.volume.clone(), &stem),
                files: FileNames::default(),
                empty: 0,
                requests: 0,
                transfers: 0,
            },
            assumed_clock: match format {
                Format::ThermoclineCsv if !has_header => Some("microseconds"),
                _ => format.assumed_clock(),
            },
            format,
            input,
            parser,
            framing,
            spreader: format.ticks_in_seconds().then(Spreader::default),
            skip_bad: options.skip_bad,
            skipped: 0,
            cut: None,
            first_bad: None,
            position: 0,
            ended: false,
            ends_openly: false,
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
        self.found.volumes.names()
    }

    /// How many lines or records could not be read and were left out.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// How many requests were of no bytes and were left out.
    #[must_use]
    pub fn empty(&self) -> u64 {
        self.found.empty
    }

    /// How many events were lost while the trace was recorded, at least, as it says itself.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.parser.lost()
    }

    /// How many requests were stamped earlier than their predecessor. Such requests keep their place and take the
    /// predecessor's time.
    #[must_use]
    pub fn reordered(&self) -> u64 {
        self.found.clock.reordered
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
            // Formats with whole seconds have no flush, so a line yields at most a single request.
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

    /// What a reader of results must know of how the trace was read, a sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let counts = [
            (self.skipped, "lines of the trace could not be read and were left out"),
            (self.found.empty, "requests of the trace are of no bytes and were left out"),
            (
                self.lost(),
                "events or more were lost when the trace was recorded, as it says itself: what it lacks is not \
                 counted; record it with larger buffers",
            ),
            (
                self.reordered(),
                "requests of the trace are stamped earlier than one before them, and were given the time of that: its \
                 pace, latencies and life are wrong if the clock was set back",
            ),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let mut notes: Vec<String> =
            counts.map(|(count, what)| format!("{count} {what}")).collect();
        notes.extend(self.cut.as_ref().map(Error::of_cut));
        notes.extend(self.parser.notes());
        let duration = self.found.clock.last().as_secs_f64();
        notes.extend(self.doubtful_clock().filter(|_| duration > 0.0).map(|unit| {
            format!(
                "the trace does not say what its clock counts: it was read as {unit}, so that it lasts {duration} s; \
                 if it counts something else, bytes a day and life are wrong by that factor"
            )
        }));
        if self.ends_openly && self.cut.is_none() {
            notes.push(
                "the last line has no end: if the file was cut there, its last request may be wrong".to_owned(),
            );
        }
        notes
    }

    /// What the clock was taken to count, where neither the file nor its stamps say that for sure.
    fn doubtful_clock(&self) -> Option<&'static str> {
        let is_outside = |first: u64, last: u64| {
            self.found.clock.origin().is_some_and(|origin| !(first..last).contains(&origin))
        };
        let calendar = self.format.calendar().filter(|(_, first, last)| is_outside(*first, *last));
        self.assumed_clock.or(calendar.map(|(unit, ..)| unit))
    }

    /// Reads on until one or two requests are added to `batch`; `false` at the end.
    #[inline]
    fn read_one(&mut self, batch: &mut Vec<Request>) -> Result<bool, Error> {
        loop {
            while let Some(record) = self.parser.take() {
                if self.found.add(&record, batch) {
                    return Ok(true);
                }
            }
            if self.found.over {
                return self.end().map(|()| false);
            }
            let start = self.input.given;
            let Some(range) = self.input.next(self.framing, &self.name)? else {
                if self.ended {
                    return self.end().map(|()| false);
                }
                self.ended = true;
                self.ends_openly = self.input.is_cut();
                self.parser.finish();
                continue;
            };
            self.position += 1;
            let bytes = self.input.bytes(range);
            match self.parser.parse(bytes) {
                Ok(None) => {}
                Ok(Some(record)) => {
                    if self.found.add(&record, batch) {
                        return Ok(true);
                    }
                }
                Err(Expected(expected)) => {
                    let position = match self.framing {
                        Framing::Lines => Position::Line(self.position),
                        Framing::Records(_) => Position::Record(self.position, start),
                    };
                    let explain = || Error::bad_record(&self.name, position, expected, bytes);
                    if self.input.is_cut() {
                        self.cut = Some(explain());
                        continue;
                    }
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
        let Found { empty, requests, transfers, volumes, over, early, .. } = &self.found;
        if *requests == 0
            && let Some(complaint) = volumes.complaint()
        {
            return Err(Error::file(ErrorKind::NoSuchVolume, &self.name, complaint));
        }
        if *transfers == 0 && *empty > 0 {
            let why = self.format.why_empty();
            let detail = format!("all {empty} reads and writes are of no bytes{why}");
            return Err(Error::file(ErrorKind::Unusable, &self.name, detail));
        }
        if *requests > 0 {
            return Ok(());
        }
        if *over || *early > 0 {
            let lasts = self.found.clock.last().as_secs_f64();
            let detail =
                format!("no request lies in the window; the last one read is at {lasts} s");
            return Err(Error::file(ErrorKind::Unusable, &self.name, detail));
        }
        if let Some(first) = self.first_bad.take() {
            return Err(first.none_readable(self.skipped, self.format));
        }
        if let Some(cut) = self.cut.take() {
            return Err(cut);
        }
        let why = self.parser.notes();
        if !why.is_empty() {
            return Err(Error::file(ErrorKind::Unusable, &self.name, why.join("; ")));
        }
        let detail = format!(
            "there is no request in this {} trace{}",
            self.format,
            self.format.what_to_record()
        );
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
        self.found.files.directories().to_vec()
    }
}
