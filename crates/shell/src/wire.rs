//! The connection of a scripted client: bytes that arrive in any division, and a bounded buffer for replies.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thermocline_nbd::{Readiness, Transport};
use thermocline_types::Rng;

#[derive(Debug)]
struct State {
    rng: Rng,
    to_server: VecDeque<u8>,
    to_client: VecDeque<u8>,
    /// Bytes of replies that fit into the connection.
    room: usize,
    /// One call in this number is cut short or interrupted; 0: none.
    short_one_in: u64,
    client_gone: bool,
    server_gone: bool,
    /// All bytes sent by the client, and all bytes written by the server.
    sent: u64,
    written: u64,
}

/// A connection. Clones share the same connection.
#[derive(Clone, Debug)]
pub struct Wire(Arc<Mutex<State>>);

impl Wire {
    /// A connection with room for `room` bytes of replies.
    #[must_use]
    pub fn new(seed: u64, room: usize, short_one_in: u64) -> Wire {
        Wire(Arc::new(Mutex::new(State {
            rng: Rng::new(seed),
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            room,
            short_one_in,
            client_gone: false,
            server_gone: false,
            sent: 0,
            written: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client sends bytes.
    pub fn send(&self, bytes: impl Iterator<Item = u8>) {
        let mut state = self.state();
        let before = state.to_server.len();
        state.to_server.extend(bytes);
        state.sent += (state.to_server.len() - before) as u64;
    }

    /// Bytes that the server has yet to read.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.state().to_server.len()
    }

    /// The client takes at most `most` bytes of replies.
    pub fn take(&self, most: usize, to: &mut Vec<u8>) {
        let mut state = self.state();
        let count = most.min(state.to_client.len());
        to.extend(state.to_client.drain(..count));
    }

    /// Bytes of replies that the client has yet to take.
    #[must_use]
    pub fn untaken(&self) -> usize {
        self.state().to_client.len()
    }

    /// All bytes written by the server.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.state().written
    }

    /// Closes the connection on the client's side.
    pub fn hang_up(&self) {
        self.state().client_gone = true;
    }

    /// Whether the server has closed the connection.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state().server_gone
    }

    /// The server's end.
    #[must_use]
    pub fn end(&self) -> Box<dyn Transport> {
        Box::new(End(self.clone()))
    }
}

impl State {
    /// The number of bytes, up to `count`, that a call moves.
    fn moves(&mut self, count: usize) -> io::Result<usize> {
        if self.short_one_in == 0 || count == 0 || self.rng.below(self.short_one_in) > 0 {
            return Ok(count);
        }
        if self.rng.below(4) == 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(1 + self.rng.below(count as u64) as usize)
    }
}

struct End(Wire);

impl Read for End {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut state = self.0.state();
        if state.to_server.is_empty() {
            return if state.client_gone { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        let most = to.len().min(state.to_server.len());
        let count = state.moves(most)?;
        state.to_server.read(&mut to[..count])
    }

    fn read_vectored(&mut self, to: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
        let mut all = 0;
        for part in to.iter_mut().filter(|part| !part.is_empty()) {
            match self.read(part) {
                Ok(count) if count == part.len() => all += count,
                Ok(count) => return Ok(all + count),
                Err(error) if all == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(all)
    }
}

impl Write for End {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let mut state = self.0.state();
        if state.client_gone {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let most = from.len().min(state.room - state.to_client.len());
        if most == 0 && !from.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = state.moves(most)?;
        state.to_client.extend(&from[..count]);
        state.written += count as u64;
        Ok(count)
    }

    fn write_vectored(&mut self, from: &[io::IoSlice<'_>]) -> io::Result<usize> {
        let mut all = 0;
        for part in from {
            match self.write(part) {
                Ok(count) if count == part.len() => all += count,
                Ok(count) => return Ok(all + count),
                Err(error) if all == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(all)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport for End {
    fn readiness(&self) -> Readiness {
        let state = self.0.state();
        Readiness {
            readable: !state.to_server.is_empty() || state.client_gone,
            writable: state.to_client.len() < state.room || state.client_gone,
            hung_up: state.client_gone,
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.0.state().server_gone = true;
    }
}
