//! Text of the kernel's block tracepoints, by `perf script`, `perf trace`, `trace-cmd report` or ftrace itself.
//!
//! `... [cpu] seconds: block_rq_issue: maj,min rwbs bytes (cmd) sector + count [process]` (Linux
//! `include/trace/events/block.h`); newer kernels put the I/O priority before the process. `bytes` is 0 for file
//! system requests of old kernels, so the length is taken from the count of sectors. `perf trace` prints milliseconds
//! first and `block:block_rq_issue(dev: N, sector: N, nr_sector: N, bytes: N, rwbs: "WS", ...)`, without what is 0.
//! [`BlockLayer`] puts the events of a request together. Events that were lost for want of memory are counted where the
//! recorder says so. Other lines are ignored.

use memchr::memmem::{self, Finder};

use super::super::record::Expected;
use super::super::text::{Cursor, whole_clock, whole_uint};
use super::block_layer::{BlockLayer, Event, Stage};
use super::losses::lost;
use super::rwbs;

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;

/// What the names of the events begin with.
const PREFIX: &[u8] = b"block_";

/// Bits of a minor number in the kernel's `dev_t`.
const MINOR_BITS: u32 = 20;

/// The requests of a text.
#[derive(Debug)]
pub(in super::super) struct Ftrace {
    pub layer: BlockLayer,
    prefix: Finder<'static>,
    /// The name of the device of the last line of `perf trace`, which prints its number.
    device: Vec<u8>,
    /// Events that were lost, at least.
    pub lost: u64,
}

/// The subject of a line.
#[derive(Clone, Copy)]
enum Kind {
    At(Stage),
    PassedOn,
}

impl Ftrace {
    pub(super) fn new(volume: Option<&str>) -> Self {
        let prefix = Finder::new(PREFIX);
        Ftrace { layer: BlockLayer::new(volume), prefix, device: Vec::new(), lost: 0 }
    }

    pub(super) fn line(&mut self, bytes: &[u8]) -> Result<(), Expected> {
        let Some((kind, start, text)) = self.event(bytes) else {
            self.lost = self.lost.saturating_add(lost(bytes).unwrap_or(0));
            return Ok(());
        };
        if let Some(fields) = text.strip_prefix(b"(") {
            let at = first_token_ms(bytes)?;
            return self.fields(kind, at, fields);
        }
        let text = text.strip_prefix(b":").unwrap_or(text);
        // perf trace of older versions puts no blank before the device, and begins with milliseconds.
        let is_perf_trace = !text.starts_with(b" ");
        let mut rest = Cursor::new(text);
        let device = rest.token();
        if !rwbs::is_device(device) {
            return Err(Expected("a device `major,minor` after the event"));
        }
        let code = rest.token();
        let stage = match kind {
            Kind::At(stage) => stage,
            Kind::PassedOn => {
                let from = memmem::find(rest.rest(), b"<- (").map(|at| &rest.rest()[at + 4..]);
                let upper = from.and_then(|from| from.split(|&byte| byte == b')').next());
                if let Some(upper) = upper.filter(|upper| rwbs::is_device(upper)) {
                    self.layer.remap(device, upper);
                }
                return Ok(());
            }
        };
        let at = if is_perf_trace { first_token_ms(bytes)? } else { seconds(&bytes[..start])? };
        let action = rwbs::action(code)?;
        let extent = extent(rest).ok_or(Expected("`sector + count` after the command"))?;
        self.layer.event(&Event { at, device, stage, action, extent: Some(extent) })
    }

    /// The event of a line, where its name begins, and what follows the name.
    fn event<'a>(&self, bytes: &'a [u8]) -> Option<(Kind, usize, &'a [u8])> {
        let mut from = 0;
        loop {
            let start = from + self.prefix.find(&bytes[from..])?;
            let name = &bytes[start + PREFIX.len()..];
            let end =
                name.iter().take_while(|byte| byte.is_ascii_lowercase() || **byte == b'_').count();
            let (name, text) = name.split_at(end);
            let kind = match name {
                b"bio_queue" => Some(Kind::At(Stage::Queue)),
                b"rq_issue" => Some(Kind::At(Stage::Issue)),
                b"rq_requeue" => Some(Kind::At(Stage::Requeue)),
                b"rq_complete" | b"bio_complete" => Some(Kind::At(Stage::Complete)),
                b"bio_remap" | b"rq_remap" => Some(Kind::PassedOn),
                _ => None,
            };
            if let Some(kind) = kind
                && matches!(text.first(), Some(b':' | b'('))
            {
                return Some((kind, start, text));
            }
            from = start + PREFIX.len();
        }
    }

    /// The fields of `perf trace`.
    fn fields(&mut self, kind: Kind, at: u64, text: &[u8]) -> Result<(), Expected> {
        let number = |name: &str| field(text, name).map_or(Some(0), whole_uint);
        let wanted = Expected("`dev: N, sector: N, nr_sector: N, bytes: N, rwbs: \"WS\"`");
        let device = field(text, "dev").and_then(whole_uint).ok_or(wanted)?;
        self.device = device_name(device);
        let stage = match kind {
            Kind::At(stage) => stage,
            Kind::PassedOn => {
                let upper = field(text, "old_dev").and_then(whole_uint).ok_or(wanted)?;
                self.layer.remap(&self.device, &device_name(upper));
                return Ok(());
            }
        };
        let code = field(text, "rwbs").ok_or(wanted)?;
        let action = rwbs::action(code.strip_prefix(b"\"").unwrap_or(code))?;
        let (sector, count) = number("sector").zip(number("nr_sector")).ok_or(wanted)?;
        let device = &self.device;
        self.layer.event(&Event { at, device, stage, action, extent: Some((sector, count)) })
    }
}

/// Whether `line` is of an event, of the block layer or of another part of the kernel: `[cpu] ... seconds: name:
/// ...`, or milliseconds and an event of the block layer by perf trace.
pub fn is_event(line: &[u8]) -> bool {
    if memmem::find(line, b" block:block_").is_some() {
        return true;
    }
    let mut words = Cursor::new(line);
    let is_cpu = |word: &[u8]| {
        word.len() >= 5
            && word.starts_with(b"[")
            && word.ends_with(b"]")
            && word[1..word.len() - 1].iter().all(u8::is_ascii_digit)
    };
    loop {
        match words.token() {
            b"" => return false,
            word if is_cpu(word) => break,
            _ => {}
        }
    }
    // Flags may stand between the CPU and the time.
    let is_time =
        |word: &[u8]| word.strip_suffix(b":").and_then(|word| whole_clock(word, SECOND)).is_some();
    let is_found = is_time(words.token()) || is_time(words.token());
    is_found && words.token().ends_with(b":")
}

fn seconds(before: &[u8]) -> Result<u64, Expected> {
    let before = before.trim_ascii_end();
    // perf prints the event as `block:block_rq_issue`.
    let before = before.strip_suffix(b"block:").unwrap_or(before).trim_ascii_end();
    let time = before.rsplit(u8::is_ascii_whitespace).next().unwrap_or(b"");
    let time = time.strip_suffix(b":").unwrap_or(time);
    whole_clock(time, SECOND).ok_or(Expected("a time in seconds before the event"))
}

fn first_token_ms(line: &[u8]) -> Result<u64, Expected> {
    let time = whole_clock(Cursor::new(line).token(), MILLISECOND);
    time.ok_or(Expected("a time in milliseconds in column 1"))
}

/// The value of `name: value`.
fn field<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let is_field = |part: &&[u8]| {
        part.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b":"))
    };
    let part = text.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).find(is_field)?;
    let value = part[name.len() + 1..].trim_ascii();
    let end = value.iter().rposition(|byte| !b"\")".contains(byte)).map_or(0, |last| last + 1);
    Some(&value[..end])
}

fn device_name(number: u64) -> Vec<u8> {
    let minor = number & ((1 << MINOR_BITS) - 1);
    format!("{},{minor}", number >> MINOR_BITS).into_bytes()
}

/// The extent in `[bytes] [(cmd)] sector + count`.
fn extent(mut rest: Cursor<'_>) -> Option<(u64, u64)> {
    let text = rest.rest();
    let plus = memmem::find(text, b" + ")?;
    let command = memmem::rfind(&text[..plus], b")").map_or(0, |at| at + 1);
    rest = Cursor::new(&text[command..]);
    let first = rest.token_uint()?;
    (rest.token() == b"+").then_some(())?;
    Some((first, rest.token_uint()?))
}
