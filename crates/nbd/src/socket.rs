//! Sockets that never block, plain or encrypted.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::net::sockopt::socket_peercred;
use rustls::{ServerConfig, ServerConnection};

/// A connection without a system socket, for example in a simulation. A transport never blocks.
pub trait Transport: io::Read + io::Write + Send {
    /// The transport's readiness.
    fn readiness(&self) -> Readiness;
}

/// Readiness of a [`Transport`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// A read returns bytes or the end.
    pub readable: bool,
    /// A write takes bytes or fails.
    pub writable: bool,
    /// The peer is gone.
    pub hung_up: bool,
}

/// A connected socket.
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Other(Box<dyn Transport>),
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stream::Unix(stream) => stream.fmt(f),
            Stream::Tcp(stream) => stream.fmt(f),
            Stream::Other(_) => f.write_str("Other"),
        }
    }
}

impl Stream {
    /// Makes the socket non-blocking, and TCP send replies without delay.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_nonblocking(true),
            Stream::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)
            }
            Stream::Other(_) => Ok(()),
        }
    }
}

impl io::Read for Stream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(to),
            Stream::Tcp(stream) => stream.read(to),
            Stream::Other(stream) => stream.read(to),
        }
    }

    fn read_vectored(&mut self, to: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read_vectored(to),
            Stream::Tcp(stream) => stream.read_vectored(to),
            Stream::Other(stream) => stream.read_vectored(to),
        }
    }
}

impl io::Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(from),
            Stream::Tcp(stream) => stream.write(from),
            Stream::Other(stream) => stream.write(from),
        }
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write_vectored(from),
            Stream::Tcp(stream) => stream.write_vectored(from),
            Stream::Other(stream) => stream.write_vectored(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket, with TLS on top once that was agreed on.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Stream,
    tls: Option<Box<ServerConnection>>,
}

impl Socket {
    pub(crate) fn new(stream: Stream) -> Socket {
        Socket { stream, tls: None }
    }

    /// Address of the peer, or the peer's process on this machine.
    pub(crate) fn peer(&self) -> String {
        match &self.stream {
            Stream::Unix(stream) => socket_peercred(stream).map_or_else(
                |_| "unix socket".to_owned(),
                |peer| format!("process {}", peer.pid.as_raw_nonzero()),
            ),
            Stream::Tcp(stream) => {
                let peer = stream.peer_addr();
                peer.map_or_else(|_| "TCP".to_owned(), |address| address.to_string())
            }
            Stream::Other(_) => "transport".to_owned(),
        }
    }

    /// The descriptor to poll, or the readiness of a transport without descriptor.
    pub(crate) fn ready(&self) -> Result<BorrowedFd<'_>, Readiness> {
        match &self.stream {
            Stream::Unix(stream) => Ok(stream.as_fd()),
            Stream::Tcp(stream) => Ok(stream.as_fd()),
            Stream::Other(stream) => Err(stream.readiness()),
        }
    }

    /// Encrypts all traffic from now on.
    pub(crate) fn encrypt(&mut self, config: &Arc<ServerConfig>) -> io::Result<()> {
        let session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        self.tls = Some(Box::new(session));
        Ok(())
    }

    /// Reads what is there.
    pub(crate) fn read(&mut self, to: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.stream.read_vectored(to) };
        loop {
            match tls.reader().read_vectored(to) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
            let count = tls.read_tls(&mut self.stream)?;
            let processed = tls.process_new_packets();
            // Also send the alert with the reason.
            send_encrypted(tls, &mut self.stream)?;
            processed.map_err(io::Error::other)?;
            if count == 0 {
                return Ok(0);
            }
        }
    }

    /// Writes what is taken.
    pub(crate) fn write(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.stream.write_vectored(from) };
        send_encrypted(tls, &mut self.stream)?;
        let count = tls.writer().write_vectored(from)?;
        send_encrypted(tls, &mut self.stream)?;
        if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }

    /// Whether bytes wait here that can only be sent when the socket takes them.
    pub(crate) fn holds_back(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Sends what is held back.
    pub(crate) fn push_on(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        send_encrypted(tls, &mut self.stream)
    }

    /// Whether reads may find more than the socket says: decrypted bytes that wait here.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Sends an encrypted peer the closing alert, as proof against truncation.
    pub(crate) fn say_goodbye(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // The peer may be gone, which is no matter.
            let _gone = send_encrypted(tls, &mut self.stream);
        }
    }
}

fn send_encrypted(tls: &mut ServerConnection, stream: &mut Stream) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(stream) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
