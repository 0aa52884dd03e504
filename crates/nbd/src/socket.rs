//! Sockets that never block, plain or encrypted.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    /// Sees to it that nothing blocks, and that replies leave at once.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_nonblocking(true),
            Stream::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)
            }
        }
    }
}

impl io::Read for Stream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(to),
            Stream::Tcp(stream) => stream.read(to),
        }
    }

    fn read_vectored(&mut self, to: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read_vectored(to),
            Stream::Tcp(stream) => stream.read_vectored(to),
        }
    }
}

impl io::Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(from),
            Stream::Tcp(stream) => stream.write(from),
        }
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write_vectored(from),
            Stream::Tcp(stream) => stream.write_vectored(from),
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

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }

    /// From now on everything is encrypted.
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
            // Also the alert that tells the client what was wrong.
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

    /// Tells an encrypted peer that this is the end, and not an attack.
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
