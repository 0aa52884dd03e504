//! Bytes of a trace: counted, decompressed and cut into lines or records.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::builtin::{BUILT_IN, BuiltIn};
use super::error::{Error, ErrorKind};
use super::formats::Framing;

/// How much of a trace the detection sees.
pub(super) const HEAD: usize = 64 << 10;

/// Longer lines are cut: no text format has longer lines, so the data is binary.
const LINE_MAX: usize = 64 << 10;

/// Bytes asked of the source at a time.
const CHUNK: usize = 256 << 10;

/// Archives and compressions that are recognised only to say how to go on.
const FOREIGN: [(&[u8], &str, &str); 5] = [
    (b"BZh", "bzip2", "bzip2 -dc"),
    (b"\xfd7zXZ\0", "xz", "xz -dc"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -dc"),
    (b"PK\x03\x04", "zip", "unzip -p"),
    (b"7z\xbc\xaf\x27\x1c", "7-zip", "7z e -so"),
];

/// The decompressed bytes of a trace.
pub(super) struct Input {
    source: Box<dyn Read + Send>,
    compression: Option<&'static str>,
    data: Vec<u8>,
    unread: Range<usize>,
    /// Bytes handed out before `unread`.
    pub given: u64,
    ended: bool,
    in_long_line: bool,
    /// The last line or record lacks its end.
    is_cut: bool,
    /// A failure met while looking ahead, reported when reading gets there.
    failure: Option<io::Error>,
    taken: Arc<AtomicU64>,
    total: Option<u64>,
}

impl Input {
    /// Opens a trace that comes with the program, by its name, or a file, or standard input for `-`.
    pub fn open(path: &Path) -> Result<Input, Error> {
        if path == Path::new("-") {
            return Input::new("standard input", Box::new(io::stdin()), None);
        }
        let name = path.display().to_string();
        if let Some(BuiltIn { content, .. }) = BuiltIn::named(path) {
            return Input::new(&name, Box::new(*content), Some(content.len() as u64));
        }
        let failed = |detail: String| Error::file(ErrorKind::Open, &name, detail);
        let cannot =
            |e: io::Error| failed(format!("cannot open the trace: {e}{}", advice(path, &e)));
        let file = File::open(crate::at_home(path)).map_err(cannot)?;
        let meta = file.metadata().map_err(cannot)?;
        if meta.is_dir() {
            return Err(failed("is a directory, not a trace".to_owned()));
        }
        let size = meta.is_file().then_some(meta.len());
        Input::new(&name, Box::new(file), size)
    }

    /// Wraps a reader of `total` bytes, if that is known, and looks whether they are compressed.
    pub fn new(
        name: &str,
        source: Box<dyn Read + Send>,
        total: Option<u64>,
    ) -> Result<Input, Error> {
        let taken = Arc::new(AtomicU64::new(0));
        let mut source = Counted { source, taken: Arc::clone(&taken) };
        let mut magic = [0; 8];
        let length =
            read_full(&mut source, &mut magic).map_err(|e| Error::reading(name, None, &e))?;
        let magic = &magic[..length];
        for (prefix, what, command) in FOREIGN {
            if magic.starts_with(prefix) {
                let advice = format!(
                    "is {what} data; unpack it first, for example `{command} FILE` piped into `--trace -`"
                );
                return Err(Error::file(ErrorKind::Unusable, name, advice));
            }
        }
        let whole = io::Cursor::new(magic.to_vec()).chain(source);
        let (source, compression): (Box<dyn Read + Send>, _) = if magic.starts_with(b"\x1f\x8b") {
            let buffered = BufReader::with_capacity(CHUNK, whole);
            (Box::new(flate2::bufread::MultiGzDecoder::new(buffered)), Some("gzip"))
        } else if magic.starts_with(b"\x28\xb5\x2f\xfd") {
            let decoder =
                zstd_decoder(whole).map_err(|e| Error::reading(name, Some("zstd"), &e))?;
            (Box::new(decoder), Some("zstd"))
        } else {
            (Box::new(whole), None)
        };
        Ok(Input {
            source,
            compression,
            data: Vec::new(),
            unread: 0..0,
            given: 0,
            ended: false,
            in_long_line: false,
            is_cut: false,
            failure: None,
            taken,
            total,
        })
    }

    /// The first `HEAD` bytes, or all if there are fewer, and whether they are all there is. It is the same bytes
    /// however many each read brings.
    pub fn head(&mut self, name: &str) -> Result<(&[u8], bool), Error> {
        while self.unread.len() < HEAD && !self.ended && self.failure.is_none() {
            if let Err(error) = self.refill() {
                if self.unread.is_empty() {
                    return Err(Error::reading(name, self.compression, &error));
                }
                // What came before the damage may still show what the file is.
                self.failure = Some(error);
            }
        }
        let head = self.unread.len().min(HEAD);
        let is_all = self.ended && head == self.unread.len();
        Ok((&self.data[self.unread.start..self.unread.start + head], is_all))
    }

    /// Whether the file ends within the line or record given last.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Drops a byte-order mark.
    pub fn skip_byte_order_mark(&mut self) {
        if self.data[self.unread.clone()].starts_with(b"\xef\xbb\xbf") {
            self.take(3, 0);
        }
    }

    /// The next line or record as a range for [`Input::bytes`]; `None` at the end. The last record may be short.
    #[inline]
    pub fn next(&mut self, framing: Framing, name: &str) -> Result<Option<Range<usize>>, Error> {
        let found = match framing {
            Framing::Lines => self.next_line(),
            Framing::Records(size) => self.next_record(size),
        };
        found.map_err(|error| Error::reading(name, self.compression, &error))
    }

    /// The bytes of a range that the last call of [`Input::next`] gave.
    #[inline]
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.data[range]
    }

    /// Share of the file read so far, 0 where its size is unknown.
    pub fn fraction_done(&self) -> f64 {
        match self.total {
            Some(total) if total > 0 => {
                let ahead = if self.compression.is_none() { self.unread.len() as u64 } else { 0 };
                let taken = self.taken.load(Ordering::Relaxed).saturating_sub(ahead);
                (taken as f64 / total as f64).min(1.0)
            }
            _ => 0.0,
        }
    }

    #[inline]
    fn next_line(&mut self) -> io::Result<Option<Range<usize>>> {
        let mut searched = 0;
        loop {
            let unread = &self.data[self.unread.clone()];
            let newline = memchr::memchr(b'\n', &unread[searched..]).map(|at| at + searched);
            let (length, skip) = match newline {
                Some(length) => (length, 1),
                None if unread.len() >= LINE_MAX => (unread.len(), 0),
                None if self.ended && unread.is_empty() => return Ok(None),
                None if self.ended => (unread.len(), 0),
                None => {
                    searched = unread.len();
                    self.refill()?;
                    continue;
                }
            };
            let cut = newline.is_none() && !self.ended;
            self.is_cut = newline.is_none() && self.ended;
            let range = self.take(length, skip);
            searched = 0;
            if std::mem::replace(&mut self.in_long_line, cut) {
                continue;
            }
            let has_return = self.data[range.clone()].ends_with(b"\r");
            return Ok(Some(range.start..range.end - usize::from(has_return)));
        }
    }

    fn next_record(&mut self, size: usize) -> io::Result<Option<Range<usize>>> {
        while self.unread.len() < size && !self.ended {
            self.refill()?;
        }
        let length = self.unread.len().min(size);
        self.is_cut = length < size;
        Ok((length > 0).then(|| self.take(length, 0)))
    }

    #[inline]
    fn take(&mut self, length: usize, skip: usize) -> Range<usize> {
        let range = self.unread.start..self.unread.start + length;
        self.unread.start += length + skip;
        self.given += (length + skip) as u64;
        range
    }

    /// Reads more behind what is unread, which moves to the front.
    fn refill(&mut self) -> io::Result<()> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        self.data.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        if self.data.len() < self.unread.end + CHUNK {
            self.data.resize(self.unread.end + CHUNK, 0);
        }
        loop {
            match self.source.read(&mut self.data[self.unread.end..]) {
                Ok(0) => self.ended = true,
                Ok(length) => self.unread.end += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}

/// What else a name may be that no file has.
fn advice(path: &Path, error: &io::Error) -> String {
    if error.kind() != io::ErrorKind::NotFound {
        return String::new();
    }
    let names = BUILT_IN.map(|trace| trace.name);
    let given = path.to_string_lossy();
    format!("; of traces that come with the program {}", thermocline_types::choices(&given, names))
}

/// Counts what is taken from the file, before decompression.
struct Counted<R> {
    source: R,
    taken: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.source.read(buffer)?;
        self.taken.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

/// A decoder that also takes files written with `zstd --long=31`.
fn zstd_decoder<R: Read>(
    source: R,
) -> io::Result<zstd::stream::read::Decoder<'static, BufReader<R>>> {
    const WINDOW_LOG_MAX: u32 = 31;
    let mut decoder = zstd::stream::read::Decoder::new(source)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    Ok(decoder)
}

fn read_full(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match source.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}
