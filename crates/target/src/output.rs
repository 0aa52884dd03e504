//! Replies on their way to a socket.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use crate::{Buffer, emptied};

/// Pieces of memory that one system call sends. Chosen, not measured; the kernel takes up to 1024.
const SLICES: usize = 256;

/// Bytes of a reply before its data, at most: an extended chunk with its offset.
const HEAD: usize = 48;

/// The part of a reply behind its head.
#[derive(Debug)]
pub enum ReplyBody {
    /// Nothing.
    None,
    /// Memory of a request.
    Data(Buffer),
    /// Other bytes.
    Bytes(Vec<u8>),
}

#[derive(Debug)]
struct Piece {
    head: [u8; HEAD],
    head_len: u8,
    body: ReplyBody,
    /// Bytes of the connection's share that are freed when the piece is sent.
    bytes: u64,
}

impl Piece {
    fn parts(&self) -> [&[u8]; 2] {
        let body: &[u8] = match &self.body {
            ReplyBody::None => &[],
            ReplyBody::Data(buffer) => buffer,
            ReplyBody::Bytes(bytes) => bytes,
        };
        [&self.head[..usize::from(self.head_len)], body]
    }
}

/// Unsent replies, in order.
#[derive(Debug, Default)]
pub struct StreamOutput {
    pieces: VecDeque<Piece>,
    /// Sent bytes of the first piece.
    sent: usize,
    /// The memory of the slices of one system call.
    slices: Vec<IoSlice<'static>>,
}

impl StreamOutput {
    /// Whether all is sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Appends bytes that are no reply.
    pub fn push_bytes(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            let (head, body) = ([0; HEAD], ReplyBody::Bytes(bytes));
            self.pieces.push_back(Piece { head, head_len: 0, body, bytes: 0 });
        }
    }

    /// Appends a reply that holds `bytes` of its connection's share until it is sent.
    ///
    /// # Panics
    /// If the head is longer than 48 bytes.
    pub fn push_reply(&mut self, head: &[u8], body: ReplyBody, bytes: u64) {
        let mut piece = Piece { head: [0; HEAD], head_len: head.len() as u8, body, bytes };
        piece.head[..head.len()].copy_from_slice(head);
        self.pieces.push_back(piece);
    }

    /// Sends replies until `write` takes no more.
    ///
    /// # Errors
    /// Those of `write`, but for an interruption.
    pub fn send(
        &mut self,
        mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<Sent> {
        let mut sent = Sent::default();
        while !self.pieces.is_empty() {
            let (count, all) = {
                let mut slices = emptied(std::mem::take(&mut self.slices));
                self.gather(&mut slices);
                let all: usize = slices.iter().map(|slice| slice.len()).sum();
                let wrote = write(&slices);
                self.slices = emptied(slices);
                match wrote {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(count) => (count, all),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            };
            sent.bytes += count as u64;
            self.advance(count, &mut sent);
            if count < all {
                break;
            }
        }
        Ok(sent)
    }

    /// Adds the first slices of the unsent bytes.
    fn gather<'a>(&'a self, slices: &mut Vec<IoSlice<'a>>) {
        let mut skip = self.sent;
        for part in self.pieces.iter().flat_map(Piece::parts) {
            let left = part.get(skip..).unwrap_or(&[]);
            skip -= part.len() - left.len();
            if !left.is_empty() {
                slices.push(IoSlice::new(left));
                if slices.len() == SLICES {
                    break;
                }
            }
        }
    }

    fn advance(&mut self, count: usize, sent: &mut Sent) {
        self.sent += count;
        while let Some(first) = self.pieces.front() {
            let length: usize = first.parts().iter().map(|part| part.len()).sum();
            if self.sent < length {
                return;
            }
            self.sent -= length;
            if let Some(Piece { bytes: freed @ 1.., .. }) = self.pieces.pop_front() {
                sent.replies += 1;
                sent.freed += freed;
            }
        }
    }
}

/// The result of [`StreamOutput::send`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Bytes.
    pub bytes: u64,
    /// Replies that are sent as a whole.
    pub replies: usize,
    /// Bytes of the connection's share that the sent replies held.
    pub freed: u64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever a socket takes at a time, all of it arrives in order, and is freed when it did.
        #[test]
        fn all_is_sent_in_order(takes in prop::collection::vec(1_usize..3000, 1..200)) {
            let mut output = StreamOutput::default();
            let mut expected = Vec::new();
            output.push_bytes(b"greeting".to_vec());
            expected.extend_from_slice(b"greeting");
            for number in 0..20_u8 {
                let data = Buffer::from_bytes(&vec![number; 100 * usize::from(number)]);
                expected.extend_from_slice(&[number; 16]);
                expected.extend_from_slice(&data);
                output.push_reply(&[number; 16], ReplyBody::Data(data), 1);
            }
            let (mut wire, mut freed, mut replies) = (Vec::new(), 0, 0);
            let mut takes = takes.into_iter().cycle();
            while !output.is_empty() {
                let mut take = takes.next().expect("endless");
                let sent = output.send(|slices| {
                    let before = wire.len();
                    for slice in slices {
                        let part = take.min(slice.len());
                        wire.extend_from_slice(&slice[..part]);
                        take -= part;
                    }
                    Ok(wire.len() - before).and_then(|count| match count {
                        0 => Err(io::ErrorKind::WouldBlock.into()),
                        count => Ok(count),
                    })
                });
                let sent = sent.expect("no error");
                freed += sent.freed;
                replies += sent.replies;
            }
            prop_assert_eq!(wire, expected);
            prop_assert_eq!((freed, replies), (20, 20));
        }
    }
}
