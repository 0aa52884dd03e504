//! Integration tests of the public interface.

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail it")]

mod arbitrary;
mod compressed;
mod errors;
mod formats;
mod real;
mod recorders;
mod samples;

use thermocline_types::Request;
use thermocline_workload::Source;
use thermocline_workload::trace::{Error, Options, Trace};

/// Everything a source yields.
pub fn drain(source: &mut dyn Source) -> Result<Vec<Request>, Error> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        source.fill(&mut batch)?;
        if batch.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&batch);
    }
}

/// All requests of a trace held in memory.
pub fn read(bytes: &[u8], options: &Options) -> Result<Vec<Request>, Error> {
    drain(&mut Trace::from_reader("sample", std::io::Cursor::new(bytes.to_vec()), options)?)
}
