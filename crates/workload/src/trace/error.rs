//! What can go wrong with a trace.

use std::fmt;

use super::format::Format;

/// What kind of failure an [`Error`] is, for callers that act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file cannot be opened: missing, a directory, or not permitted.
    Open,
    /// Reading failed half-way.
    Read,
    /// The compressed data end too early or are corrupt.
    Damaged,
    /// There is no request in the trace.
    Empty,
    /// The content matches no known format.
    Unrecognised,
    /// The content fits several formats; the caller must say which.
    Ambiguous,
    /// The format is known, but does not say what write amplification depends on, or must be converted first.
    Unusable,
    /// A line or binary record violates the format. Skipped and counted with `skip_bad`.
    BadRecord,
    /// The volume asked for does not occur.
    NoSuchVolume,
    /// The application that is generated has no room left on its volume.
    VolumeFull,
    /// Writing a converted trace failed, for this reason.
    Write(std::io::ErrorKind),
}

/// Where in a trace the failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// The whole file.
    File,
    /// A line, counted from 1.
    Line(u64),
    /// A binary record, counted from 1, and its byte offset after decompression.
    Record(u64, u64),
}

/// Why a trace cannot be read, complete enough to be shown to the user as it is.
///
/// The text already contains the operating system's reason where there is one, so there is no
/// [`source`](std::error::Error::source).
#[derive(Debug, thiserror::Error)]
#[error("{file}{position}: {detail}")]
pub struct Error {
    kind: ErrorKind,
    file: String,
    position: Position,
    detail: String,
}

impl Error {
    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The line of the failure, counted from 1, when it has one.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        match self.position {
            Position::Line(line) => Some(line),
            Position::File | Position::Record(..) => None,
        }
    }

    /// A failure of the file as a whole.
    pub(crate) fn file(kind: ErrorKind, file: &str, detail: impl Into<String>) -> Error {
        Error { kind, file: file.to_owned(), position: Position::File, detail: detail.into() }
    }

    /// A line or record that violates the format.
    pub(super) fn bad_record(
        file: &str,
        position: Position,
        expected: &str,
        found: &[u8],
    ) -> Error {
        let detail = format!("expected {expected}, found {}", quote(found));
        Error { kind: ErrorKind::BadRecord, file: file.to_owned(), position, detail }
    }

    /// The error of a trace in which none of `count` records could be read, made from that of the first.
    pub(super) fn none_readable(self, count: u64, format: Format) -> Error {
        let detail =
            format!("none of {count} lines or records can be read as {format}; {}", self.detail);
        Error { detail, ..self }
    }

    /// Message for a file that ends within the last line or record.
    pub(super) fn of_cut(&self) -> String {
        let place = match self.position {
            Position::Line(line) => format!("line {line}"),
            Position::Record(record, _) => format!("record {record}"),
            Position::File => "a line".to_owned(),
        };
        format!("the file ends within {place}, which was left out: {}", self.detail)
    }

    /// A failed read, told apart from compressed data that end early or are corrupt.
    pub(super) fn reading(file: &str, compression: Option<&str>, error: &std::io::Error) -> Error {
        use std::io::ErrorKind as Io;
        let Some(compression) = compression else {
            let kind =
                if error.kind() == Io::IsADirectory { ErrorKind::Open } else { ErrorKind::Read };
            return Error::file(kind, file, format!("cannot read the trace: {error}"));
        };
        let detail = match error.kind() {
            Io::UnexpectedEof => {
                format!("the {compression} data end too early: the file is truncated")
            }
            Io::InvalidData | Io::InvalidInput | Io::Other => {
                format!("the {compression} data are corrupt: {error}")
            }
            _ => {
                let detail = format!("cannot read the trace: {error}");
                return Error::file(ErrorKind::Read, file, detail);
            }
        };
        Error::file(ErrorKind::Damaged, file, detail)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::File => Ok(()),
            Position::Line(line) => write!(f, ":{line}"),
            Position::Record(record, byte) => write!(f, ": record {record} at byte {byte}"),
        }
    }
}

/// The first bytes of `found` between backquotes, with everything unprintable escaped.
pub(super) fn quote(found: &[u8]) -> String {
    const SHOWN: usize = 160;
    let shown = &found[..found.len().min(SHOWN)];
    let text = match std::str::from_utf8(shown) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => shown.escape_ascii().to_string(),
    };
    let ellipsis = if found.len() > SHOWN { "..." } else { "" };
    if found.is_empty() { "nothing".to_owned() } else { format!("`{text}{ellipsis}`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_line_names_file_line_expectation_and_text() {
        let error = Error::bad_record("t.csv", Position::Line(7), "an operation", b"1,Q,\x002");
        assert_eq!(error.to_string(), "t.csv:7: expected an operation, found `1,Q,\\x002`");
        assert_eq!((error.kind(), error.line()), (ErrorKind::BadRecord, Some(7)));
    }

    #[test]
    fn long_text_is_shortened() {
        assert_eq!(quote(&[b'x'; 5000]).len(), 160 + 5);
        assert_eq!(quote(b""), "nothing");
    }
}
