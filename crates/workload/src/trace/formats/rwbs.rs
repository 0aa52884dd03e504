//! The kernel's short code for what a block request does, as blktrace, ftrace and biosnoop print it.
//!
//! From `blk_fill_rwbs` in Linux `kernel/trace/blktrace.c`: an `F` in front is a flush before the request, then `W`
//! write, `R` read, `D` trim (`DE` secure), `F` flush, `WZ` write zeroes, `N` anything else, then flags: `F` forced
//! unit access, `A` read-ahead, `S` synchronous, `M` metadata, `U` untorn. Newer kernels may add flags: any capital
//! letter is one. Zoned devices add `ZA` append, which is a write, and `ZR`, `ZO`, `ZC`, `ZF`, which move no data.
//!
//! Kernels without `WZ` print write zeroes as `N`, with the extent that they zero; whatever else is an `N` has no
//! extent (commands past the file system, resets of zones), but for zone appends: those kernels do not tell them apart,
//! and a zoned device that is written by appends cannot be traced on them.

use thermocline_types::Op;

use super::super::record::{Expected, Record, sectors};

/// What a code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Action {
    /// The operation, if data is concerned.
    pub op: Option<Op>,
    /// Whether a flush comes first.
    pub preflush: bool,
    /// Whether it is a zone append: only the completion reports the address.
    pub append: bool,
}

/// The value for "no sector".
pub(super) const NO_SECTOR: u64 = u64::MAX;

/// Reads a code.
pub(super) fn action(code: &[u8]) -> Result<Action, Expected> {
    let flags = |rest: &[u8]| rest.iter().all(u8::is_ascii_uppercase);
    let (preflush, rest) = match code.strip_prefix(b"F") {
        Some(rest) => (true, rest),
        None => (false, code),
    };
    let op = match rest {
        [b'W', b'Z', rest @ ..] if flags(rest) => Some(Op::WriteZeroes),
        [b'W', rest @ ..] if flags(rest) => Some(Op::Write),
        [b'R', rest @ ..] if flags(rest) => Some(Op::Read),
        [b'D', rest @ ..] if flags(rest) => Some(Op::Trim),
        [b'Z', b'A', rest @ ..] if flags(rest) => Some(Op::Write),
        [b'Z'] => Some(Op::WriteZeroes),
        [b'Z', b'R' | b'O' | b'C' | b'F', ..] => None,
        [b'N', rest @ ..] if flags(rest) && !preflush => Some(Op::WriteZeroes),
        [b'N', rest @ ..] if flags(rest) => Some(Op::Flush),
        [] if preflush => Some(Op::Flush),
        [flag, rest @ ..] if preflush && b"FASMU".contains(flag) && flags(rest) => Some(Op::Flush),
        _ => return Err(Expected("an operation code such as R, W, WS, FWFS, D, FN")),
    };
    let append = rest.starts_with(b"ZA");
    Ok(Action { op, preflush: preflush && op != Some(Op::Flush), append })
}

/// The record of a code and an extent in sectors; `None` if the extent is missing.
pub(super) fn record(
    at: u64,
    action: Action,
    extent: Option<(u64, u64)>,
) -> Result<Option<Record<'static>>, Expected> {
    let Some(op) = action.op else { return Ok(None) };
    let flush = Record::new(at, Op::Flush, 0, 0);
    let (first, count) = match extent.filter(|(first, count)| *first != NO_SECTOR || *count == 0) {
        _ if op == Op::Flush => return flush.checked(),
        // Flushes made of writes without data carry sector 0 or -1 and no length.
        None | Some((_, 0)) if action.preflush => return flush.checked(),
        // Kernels without `WZ` print whatever else they know no code for like this.
        Some((_, 0)) if op != Op::WriteZeroes => (0, 0),
        None | Some((_, 0)) => return Ok(None),
        Some(extent) => extent,
    };
    let record = Record::new(at, op, sectors(first)?, sectors(count)?);
    Record { preflush: action.preflush, ..record }.checked()
}

/// Whether `token` looks like `major,minor`.
pub(super) fn is_device(token: &[u8]) -> bool {
    let Some(comma) = memchr::memchr(b',', token) else { return false };
    let digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    digits(&token[..comma]) && digits(&token[comma + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_all_kernels() {
        let cases: [(&str, Option<Op>, bool); 20] = [
            ("R", Some(Op::Read), false),
            ("RAM", Some(Op::Read), false),
            ("W", Some(Op::Write), false),
            ("WS", Some(Op::Write), false),
            ("WFS", Some(Op::Write), false),
            ("FWFSM", Some(Op::Write), true),
            ("FW", Some(Op::Write), true),
            ("D", Some(Op::Trim), false),
            ("DE", Some(Op::Trim), false),
            ("WZS", Some(Op::WriteZeroes), false),
            ("Z", Some(Op::WriteZeroes), false),
            ("FN", Some(Op::Flush), false),
            ("F", Some(Op::Flush), false),
            ("FF", Some(Op::Flush), false),
            ("N", Some(Op::WriteZeroes), false),
            ("NS", Some(Op::WriteZeroes), false),
            ("ZR", None, false),
            ("WFSU", Some(Op::Write), false),
            ("FWFSU", Some(Op::Write), true),
            ("RAMX", Some(Op::Read), false),
        ];
        for (code, op, preflush) in cases {
            let expected = Action { op, preflush, append: false };
            assert_eq!(action(code.as_bytes()), Ok(expected), "{code}");
        }
        assert!(action(b"ZAS").is_ok_and(|action| action.append && action.op == Some(Op::Write)));
        for code in ["", "Q", "W4", "8,0", "write"] {
            assert!(action(code.as_bytes()).is_err(), "{code}");
        }
    }
}
