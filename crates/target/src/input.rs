//! Received bytes that are not processed yet.

use std::io::{self, IoSliceMut};

/// Bytes of requests that are read at once. Large enough for 32 writes of 4 KiB in one system call.
const BYTES: usize = 256 << 10;

/// Buffer of a new connection: room for a handshake, or for a hundred requests without payloads. The small size keeps
/// thousands of idle connections cheap. Chosen, not measured.
const BYTES_AT_FIRST: usize = 4 << 10;

/// Bytes on their way from a socket to a parser.
///
/// Invariants:
/// * The buffer has 4 KiB until a read fills all of them, and 256 KiB from then on.
#[derive(Debug)]
pub struct StreamInput {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Default for StreamInput {
    fn default() -> StreamInput {
        StreamInput { bytes: vec![0; BYTES_AT_FIRST].into(), start: 0, end: 0 }
    }
}

impl StreamInput {
    /// The bytes not taken yet.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Takes `count` bytes off the front.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn take(&mut self, count: usize) {
        self.start += count;
        assert!(self.start <= self.end, "more was taken than is there");
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Moves as many buffered bytes as fit to the front of `to`; returns the number.
    pub fn move_to(&mut self, to: &mut [u8]) -> usize {
        let count = to.len().min(self.end - self.start);
        to[..count].copy_from_slice(&self.bytes()[..count]);
        self.take(count);
        count
    }

    /// Reads once, first into `before`, then into the buffer. The buffer must be empty if `before` is not. Returns the
    /// bytes read into `before`, the bytes read in all, and whether room was left.
    ///
    /// # Errors
    /// Those of `read`.
    ///
    /// # Panics
    /// If there are bytes that come before `before`.
    pub fn fill(
        &mut self,
        before: &mut [u8],
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<Filled> {
        assert!(before.is_empty() || self.start == self.end, "what is here comes first");
        // The rest is the beginning of a message, mostly of a few bytes.
        if self.end == self.bytes.len() && self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let room = before.len() + self.bytes.len() - self.end;
        let first = before.len();
        let count = if first == 0 {
            read(&mut [IoSliceMut::new(&mut self.bytes[self.end..])])?
        } else {
            read(&mut [IoSliceMut::new(before), IoSliceMut::new(&mut self.bytes[self.end..])])?
        };
        self.end += count.saturating_sub(first);
        if count == room {
            self.grow();
        }
        Ok(Filled { before: count.min(first), all: count, drained: count < room })
    }

    fn grow(&mut self) {
        if self.bytes.len() < BYTES {
            let mut bytes = vec![0; BYTES];
            bytes[..self.end].copy_from_slice(&self.bytes[..self.end]);
            self.bytes = bytes.into();
        }
    }
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Bytes that were read past the input.
    pub before: usize,
    /// Bytes in all; 0 at the end of the stream.
    pub all: usize,
    /// Whether room was left: the socket has no more bytes for now.
    pub drained: bool,
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn bytes_come_out_in_the_order_they_went_in() {
        let mut input = StreamInput::default();
        let mut source: &[u8] = b"headerPAYLOADnext";
        let mut payload = [0; 7];
        let filled = input.fill(&mut [], |to| source.read(&mut to[0][..8])).unwrap();
        assert_eq!(filled, Filled { before: 0, all: 8, drained: true });
        input.take(6);
        assert_eq!(input.move_to(&mut payload), 2);
        let filled = input.fill(&mut payload[2..], |to| source.read_vectored(to)).unwrap();
        assert_eq!((filled.before, filled.all), (5, 9));
        assert_eq!((&payload, input.bytes()), (b"PAYLOAD", &b"next"[..]));
    }

    #[test]
    fn a_message_that_is_cut_off_moves_to_the_front() {
        let mut input = StreamInput::default();
        input.grow();
        let filled = input.fill(&mut [], |to| Ok(to[0].len())).unwrap();
        assert_eq!(filled, Filled { before: 0, all: BYTES, drained: false });
        input.take(BYTES - 10);
        assert_eq!(input.bytes().len(), 10);
        let filled = input.fill(&mut [], |to| Ok(to[0].len())).unwrap();
        assert_eq!((filled.all, input.bytes().len()), (BYTES - 10, BYTES));
    }

    #[test]
    fn whoever_sends_much_gets_more_room() {
        let mut input = StreamInput::default();
        let filled = input.fill(&mut [0; 9], |to| Ok(to[0].len() + to[1].len() - 1)).unwrap();
        assert_eq!((filled.all, filled.drained), (BYTES_AT_FIRST + 8, true));
        assert_eq!(input.bytes.len(), BYTES_AT_FIRST);
        let mut last: &[u8] = &[7; 2];
        let filled = input.fill(&mut [], |to| last.read(&mut to[0])).unwrap();
        assert_eq!((filled.all, filled.drained), (1, false));
        input.take(BYTES_AT_FIRST - 1);
        assert_eq!((input.bytes(), input.bytes.len()), (&[7][..], BYTES));
        let filled = input.fill(&mut [], |to| last.read(&mut to[0])).unwrap();
        assert_eq!((filled.all, input.bytes()), (1, &[7; 2][..]));
    }
}
