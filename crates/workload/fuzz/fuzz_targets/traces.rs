//! A trace from arbitrary bytes.
#![no_main]

use std::io::{Cursor, Read, Result};

use libfuzzer_sys::fuzz_target;
use thermocline_workload::Source;
use thermocline_workload::trace::{Error, Format, Options, Trace};

/// Gives one byte at a time, as a slow pipe does.
struct Drops(Cursor<Vec<u8>>);

impl Read for Drops {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let most = buffer.len().min(1);
        self.0.read(&mut buffer[..most])
    }
}

/// The requests, and the error that ended them, as text.
fn requests(reader: impl Read + Send + 'static, options: &Options) -> Vec<String> {
    let mut texts = Vec::new();
    let read = || {
        let mut trace = Trace::from_reader("fuzz", reader, options)?;
        let mut batch = Vec::new();
        loop {
            trace.fill(&mut batch)?;
            if batch.is_empty() {
                return Ok::<(), Error>(());
            }
            texts.extend(batch.iter().map(|request| format!("{request:?}")));
        }
    };
    let end = read().err().map(|error| error.to_string());
    texts.extend(end);
    texts
}

fuzz_target!(|bytes: &[u8]| {
    // The last byte of a text leaves the format to its content.
    let Some((choice, rest)) = bytes.split_last() else { return };
    let format =
        choice.checked_sub(128).and_then(|choice| Format::ALL.get(usize::from(choice >> 1)));
    let format = format.copied();
    let options = Options { format, skip_bad: choice & 1 == 1, ..Options::default() };
    let file = requests(Cursor::new(rest.to_vec()), &options);
    let pipe = requests(Drops(Cursor::new(rest.to_vec())), &options);
    // Damage of packed data shows sooner in larger pieces.
    let is_packed =
        [&[0x28, 0xb5, 0x2f, 0xfd][..], &[0x1f, 0x8b]].iter().any(|magic| rest.starts_with(magic));
    assert!(is_packed || file == pipe, "{file:?}\n{pipe:?}");
});
