//! Writing traces in our own csv.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use thermocline_types::{Op, Request};

use crate::{BATCH, Source};

use super::error::{Error, ErrorKind};
use super::reader::Trace;

const HEADER: &[u8] = b"timestamp_us,op,offset_bytes,length_bytes,tenant";
/// What follows where the source knows files.
const STREAM: &[u8] = b",stream";
/// What follows where the source knows how many requests were outstanding.
const OUTSTANDING: &[u8] = b",stream,outstanding";
/// Text kept in memory per volume before it is appended to its file.
const SPLIT_BUFFER: usize = 64 << 10;

/// Writes everything left in `source` as our own csv with a tenant column, and a stream column if it knows files, a
/// column of outstanding requests if it knows these. Returns the number of requests.
///
/// Times that are not whole microseconds get three decimals, so that reading the result gives the same requests back.
/// `out` should be buffered only if its own writes are costly at batch size; it is flushed at the end.
///
/// # Errors
/// Those of the source, and [`ErrorKind::Write`] if `out` fails.
pub fn write_csv(source: &mut dyn Source, out: &mut dyn Write) -> Result<u64, Error> {
    let failed = |error: std::io::Error| {
        let kind = ErrorKind::Write(error.kind());
        Error::file(kind, "output", format!("cannot write the trace: {error}"))
    };
    let mut count = 0;
    let mut batch = Vec::with_capacity(BATCH);
    let (mut text, mut directories) = (Vec::new(), Vec::new());
    loop {
        source.fill(&mut batch)?;
        if batch.iter().any(|request| usize::from(request.stream.directory) > directories.len()) {
            directories = source.directories();
        }
        if count == 0 {
            text.extend(header(&directories, batch.first()));
        }
        for request in &batch {
            line(request, &directories, &mut text).map_err(failed)?;
        }
        out.write_all(&text).map_err(failed)?;
        text.clear();
        if batch.is_empty() {
            out.flush().map_err(failed)?;
            return Ok(count);
        }
        count += batch.len() as u64;
    }
}

/// The first line where the first requests are of files in `directories`, and begin with `first`.
fn header(directories: &[String], first: Option<&Request>) -> Vec<u8> {
    let more = match first.and_then(|first| first.outstanding) {
        Some(_) => OUTSTANDING,
        None if directories.is_empty() => b"",
        None => STREAM,
    };
    [HEADER, more, b"\n"].concat()
}

/// One volume's part of a split trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The volume's name.
    pub volume: String,
    /// Its file.
    pub path: PathBuf,
    /// How many requests it got.
    pub requests: u64,
}

/// Writes every volume of `trace` as our own csv to a file of its own in `folder`, named after the volume, in one pass.
///
/// Files are opened only while something is appended, so that a trace may have more volumes than a process may have
/// files. Memory is 64 KiB per volume. Ends early once `is_ended`, and gives nothing then.
///
/// # Errors
/// Those of the trace, and [`ErrorKind::Write`] if a file exists already or cannot be written. None of the new files is
/// there then, nor when it ends early.
pub fn split_csv(
    trace: &mut Trace,
    folder: &Path,
    is_ended: &dyn Fn() -> bool,
) -> Result<Option<Vec<Part>>, Error> {
    let mut parts = Vec::new();
    let is_whole = split_into(trace, folder, is_ended, &mut parts);
    if !matches!(is_whole, Ok(true)) {
        // Ignore failures of removal: the first error is reported.
        parts.iter().for_each(|part| drop(std::fs::remove_file(&part.path)));
    }
    is_whole.map(|is_whole| is_whole.then_some(parts))
}

/// Returns whether it was not ended early.
fn split_into(
    trace: &mut Trace,
    folder: &Path,
    is_ended: &dyn Fn() -> bool,
    parts: &mut Vec<Part>,
) -> Result<bool, Error> {
    let mut texts: Vec<Vec<u8>> = Vec::new();
    let mut directories = Vec::new();
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        if is_ended() {
            return Ok(false);
        }
        trace.fill(&mut batch)?;
        if batch.iter().any(|request| usize::from(request.stream.directory) > directories.len()) {
            directories = trace.directories();
        }
        for request in &batch {
            let tenant = request.tenant.0 as usize;
            while parts.len() <= tenant {
                let part = begin(&trace.volumes()[parts.len()], folder, parts)?;
                parts.push(part);
                texts.push(header(&directories, Some(request)));
            }
            line(request, &directories, &mut texts[tenant])
                .map_err(|error| unwritable(&parts[tenant].path, &error))?;
            parts[tenant].requests += 1;
            if texts[tenant].len() >= SPLIT_BUFFER {
                append(&parts[tenant].path, &mut texts[tenant])?;
            }
        }
        if batch.is_empty() {
            let mut all = parts.iter().zip(&mut texts);
            return all.try_for_each(|(part, text)| append(&part.path, text)).map(|()| true);
        }
    }
}

/// The file of `volume`, newly made; characters that are no letter, digit, dot or dash become underscores. A volume of
/// which the name is that of another by then gets a number behind it.
fn begin(volume: &str, folder: &Path, others: &[Part]) -> Result<Part, Error> {
    let plain = |c: char| if c.is_alphanumeric() || ".-".contains(c) { c } else { '_' };
    let name: String = volume.chars().map(plain).collect();
    let numbered = (2..).map(|number| format!("{name}_{number}.csv"));
    let mut names = std::iter::once(format!("{name}.csv")).chain(numbered);
    let is_new = |path: &PathBuf| others.iter().all(|other| other.path != *path);
    let path = names.find_map(|name| Some(folder.join(name)).filter(is_new));
    let path = path.expect("numbers do not run out");
    File::create_new(&path).map_err(|error| unwritable(&path, &error))?;
    Ok(Part { volume: volume.to_owned(), path, requests: 0 })
}

fn append(path: &Path, text: &mut Vec<u8>) -> Result<(), Error> {
    let file = OpenOptions::new().append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text));
    text.clear();
    written.map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Error {
    let kind = ErrorKind::Write(error.kind());
    Error::file(kind, &path.display().to_string(), format!("cannot write: {error}"))
}

/// The first line of our own csv with columns of tenants and outstanding requests, for those who write a trace line by
/// line.
#[must_use]
pub fn csv_header() -> Vec<u8> {
    [HEADER, OUTSTANDING, b"\n"].concat()
}

/// Adds a request as a line of our own csv to `text`, of a tenant with a name in place of its number: any without a
/// comma or a line's end.
pub fn csv_line(request: &Request, tenant: &dyn Display, text: &mut Vec<u8>) {
    columns(request, tenant, text).expect("memory takes all");
    end(request, text).expect("memory takes all");
}

/// The first five columns.
fn columns(request: &Request, tenant: &dyn Display, text: &mut Vec<u8>) -> std::io::Result<()> {
    let nanos = request.at.as_nanos();
    write!(text, "{}", nanos / 1_000)?;
    if !nanos.is_multiple_of(1_000) {
        write!(text, ".{:03}", nanos % 1_000)?;
    }
    let op = match request.op {
        Op::Read => 'R',
        Op::Write => 'W',
        Op::Trim => 'D',
        Op::Flush => 'F',
        Op::WriteZeroes => 'Z',
    };
    write!(text, ",{op},{},{},{tenant}", request.offset.get(), request.length.get())
}

/// A request; directory and number name the file.
fn line(request: &Request, directories: &[String], text: &mut Vec<u8>) -> std::io::Result<()> {
    columns(request, &request.tenant.0, text)?;
    let stream = request.stream;
    if let Some(index) = usize::from(stream.directory).checked_sub(1) {
        write!(text, ",{}/{}", directories[index], stream.file)?;
    }
    end(request, text)
}

/// The end of a line, after its stream.
fn end(request: &Request, text: &mut Vec<u8>) -> std::io::Result<()> {
    if let Some(outstanding) = request.outstanding {
        let no_stream = if request.stream.directory == 0 { "," } else { "" };
        write!(text, "{no_stream},{outstanding}")?;
    }
    writeln!(text)
}
