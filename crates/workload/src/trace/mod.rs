//! Block traces: opening, recognising, reading and writing them.
//!
//! [`open`] takes a file as people have it (plain, gzip or zstd; any [`Format`]), finds out what it is by looking
//! inside, and yields [`Request`](thermocline_types::Request)s in the order of the file.
//!
//! Invariants:
//! * Memory does not grow with the length of a trace, only with its number of volumes and of files that it names.
//! * No input makes a reader panic: an unreadable line is an [`Error`] with file, line and the expected text.
//! * Times are counted from the first request and never go back; requests stamped earlier than their predecessor
//!   keep their place and are counted in [`Trace::reordered`].
//! * Requests of no bytes are left out, as they touch no media, and counted in [`Trace::empty`].
//! * Events that a trace reports as lost are counted in [`Trace::lost`].

mod builtin;
mod clock;
mod detect;
mod error;
mod format;
mod formats;
mod input;
mod reader;
mod record;
mod streams;
mod text;
mod volumes;
mod write;

pub use builtin::{BUILT_IN, BuiltIn};
pub use error::{Error, ErrorKind};
pub use format::{Format, UnknownFormat};
pub use reader::{Options, Trace, Window, open};
pub use write::{Part, csv_header, csv_line, split_csv, write_csv};
