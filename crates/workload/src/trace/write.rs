//! Writing traces in our own csv.

use std::io::Write;

use thermocline_types::{Op, Request};

use crate::{BATCH, Source};

use super::error::{Error, ErrorKind};

/// Writes everything left in `source` as our own csv with a tenant column and returns the number of requests.
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
    let mut text = b"timestamp_us,op,offset_bytes,length_bytes,tenant\n".to_vec();
    loop {
        out.write_all(&text).map_err(failed)?;
        source.fill(&mut batch)?;
        if batch.is_empty() {
            out.flush().map_err(failed)?;
            return Ok(count);
        }
        text.clear();
        for request in &batch {
            line(request, &mut text).map_err(failed)?;
        }
        count += batch.len() as u64;
    }
}

fn line(request: &Request, text: &mut Vec<u8>) -> std::io::Result<()> {
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
    let (offset, length) = (request.offset.get(), request.length.get());
    writeln!(text, ",{op},{offset},{length},{}", request.tenant.0)
}
