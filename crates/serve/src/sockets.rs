//! Where clients come from: sockets that are made here, or were made by systemd.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use listenfd::ListenFd;
use thermocline_format::VolumeName;
use thermocline_nbd::{Listener, Tls};
use thermocline_runtime::{ServeSettings, Settings};

use crate::Error;
use crate::front_ends::Address;

/// The descriptor of the first socket that is handed over (`SD_LISTEN_FDS_START`, `sd_listen_fds(3)`).
const FIRST_INHERITED: usize = 3;

/// A name beside the settings file, of its own name and another ending.
#[must_use]
pub fn beside(settings: &Path, ending: &str) -> PathBuf {
    settings.with_extension(ending)
}

/// How exports are reached.
#[derive(Clone, Default)]
pub(crate) struct Reach {
    nbd: Vec<Address>,
    others: Vec<Address>,
}

impl Reach {
    /// Where clients of NBD find each of `volumes`, then where those of other front ends do.
    pub fn uris(&self, volumes: &[VolumeName]) -> Vec<String> {
        let nbd = volumes.iter().flat_map(|name| self.nbd.iter().filter_map(|at| at(name)));
        let others = self.others.iter().flat_map(|at| volumes.iter().filter_map(|name| at(name)));
        nbd.chain(others).collect()
    }

    /// Adds a way beside NBD.
    pub fn add(&mut self, address: Address) {
        self.others.push(address);
    }

    /// Adds the way of clients of NBD: the export's name stands between `front` and `back`.
    fn add_nbd(&mut self, front: String, back: String) {
        let at = move |name: &VolumeName| Some(format!("{front}{}{back}", escaped(name.as_str())));
        self.nbd.push(Arc::new(at));
    }
}

/// Sockets that listen.
#[derive(Default)]
pub(crate) struct Sockets {
    listeners: Vec<Listener>,
    reach: Reach,
    /// Whether a listener is on the network.
    has_tcp: bool,
    /// Unix sockets made by this process.
    files: Vec<SocketFile>,
}

impl Sockets {
    /// Opens the sockets of the settings, and takes over sockets opened by systemd.
    ///
    /// # Errors
    /// When an address cannot be had, or may not.
    pub fn open(settings: &Settings, systemd: bool) -> Result<Sockets, Error> {
        let serve = &settings.serve;
        let tls = serve.tls_certificate.as_ref().zip(serve.tls_key.as_ref());
        let tls = tls.zip(serve.tls_clients.as_ref());
        let tls =
            tls.map(|((certificate, key), clients)| Tls::from_files(certificate, key, clients));
        let tls = tls.transpose()?;
        let mut sockets = Sockets::default();
        if systemd {
            sockets.inherit(serve, tls.as_ref())?;
        }
        let none = sockets.listeners.is_empty() && serve.listen.is_empty();
        let default = none.then(|| beside(settings.file(), "sock"));
        if let Some(path) = serve.socket.as_ref().or(default.as_ref()) {
            let (socket, file) = listen(path)?;
            sockets.add_unix(socket, path);
            sockets.files.push(file);
        }
        for address in &serve.listen {
            let socket = TcpListener::bind(address.as_str())
                .map_err(|error| Error::Refused(format!("cannot listen on {address}: {error}")))?;
            sockets.add_tcp(socket, serve, tls.as_ref())?;
        }
        if tls.is_some() && !sockets.has_tcp { Err(Error::TlsWithoutTcp) } else { Ok(sockets) }
    }

    /// Sockets that systemd has opened for this process (`sd_listen_fds(3)`).
    fn inherit(&mut self, serve: &ServeSettings, tls: Option<&Tls>) -> Result<(), Error> {
        let mut inherited = ListenFd::from_env();
        for index in 0..inherited.len() {
            if let Ok(Some(socket)) = inherited.take_unix_listener(index) {
                let address = socket.local_addr()?;
                let path = address.as_pathname().unwrap_or(Path::new("")).to_owned();
                self.listeners.push(Listener::unix(socket));
                let back = format!("?socket={}", path.display());
                self.reach.add_nbd("nbd+unix:///".to_owned(), back);
            } else if let Ok(Some(socket)) = inherited.take_tcp_listener(index) {
                self.add_tcp(socket, serve, tls)?;
            } else {
                let descriptor = FIRST_INHERITED + index;
                return Err(Error::Refused(format!(
                    "the inherited descriptor {descriptor} is no socket of a kind that is served"
                )));
            }
        }
        Ok(())
    }

    fn add_unix(&mut self, socket: UnixListener, path: &Path) {
        self.listeners.push(Listener::unix(socket));
        let shown = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let back = format!("?socket={}", shown.display());
        self.reach.add_nbd("nbd+unix:///".to_owned(), back);
    }

    fn add_tcp(
        &mut self,
        socket: TcpListener,
        serve: &ServeSettings,
        tls: Option<&Tls>,
    ) -> Result<(), Error> {
        let address = socket.local_addr()?;
        if tls.is_none() && !address.ip().is_loopback() && !serve.insecure_network {
            return Err(Error::OpenNetwork(address));
        }
        self.reach.add_nbd(uri_of(address, tls.is_some()), String::new());
        self.listeners.push(Listener::tcp(socket, tls.cloned()));
        self.has_tcp = true;
        Ok(())
    }

    /// The sockets themselves, how they are reached, and their files, to be dropped when nobody is to find them.
    pub fn into_listeners(self) -> (Vec<Listener>, Reach, Vec<SocketFile>) {
        (self.listeners, self.reach, self.files)
    }
}

fn uri_of(address: SocketAddr, tls: bool) -> String {
    format!("{}://{address}/", if tls { "nbds" } else { "nbd" })
}

/// A name as it stands in a URI (RFC 3986, section 2).
pub(crate) fn escaped(name: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(escape).collect()
}

/// Reverses [`escaped`]; `None` for an invalid text.
pub(crate) fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push(match byte {
            b'%' => (digit(rest.next()?)? * 16 + digit(rest.next()?)?) as u8,
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// A unix socket in the file system. Dropping it removes the file.
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // If it cannot be removed, the next server replaces it.
        let _left = fs::remove_file(&self.0);
    }
}

/// Bytes of the path of a unix socket at most: `sun_path` without the zero at its end (`unix(7)`).
pub const LONGEST: usize = 107;

/// Listens on a unix socket that only this user can open. A stale socket file is replaced.
///
/// # Errors
/// If the socket has a listener already, or the path cannot be used.
pub(crate) fn listen(path: &Path) -> Result<(UnixListener, SocketFile), Error> {
    let shown = path.display();
    let cannot = |error: io::Error| Error::Refused(format!("cannot listen on {shown}: {error}"));
    if path.as_os_str().len() > LONGEST {
        return Err(Error::LongPath(path.to_owned()));
    }
    let socket = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let is_socket = fs::symlink_metadata(path).map_err(cannot)?.file_type().is_socket();
            if !is_socket {
                return Err(Error::Refused(format!("{shown} is in the way, and is no socket")));
            }
            match UnixStream::connect(path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                other => {
                    let who = other.ok().and_then(|stream| server_of(&stream));
                    let who = who.map_or("somebody".to_owned(), |id| format!("process {id}"));
                    return Err(Error::Refused(format!(
                        "{shown} is in use: {who} serves there already; stop that first, or choose another socket"
                    )));
                }
            }
            fs::remove_file(path).map_err(cannot)?;
            UnixListener::bind(path)
        }
        socket => socket,
    };
    let socket = socket.map_err(cannot)?;
    let file = SocketFile(path.to_owned());
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(cannot)?;
    Ok((socket, file))
}

/// Process id of the listener.
pub(crate) fn server_of(stream: &UnixStream) -> Option<i32> {
    let peer = rustix::net::sockopt::socket_peercred(stream).ok()?;
    Some(peer.pid.as_raw_nonzero().get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        assert_eq!(escaped("a b/ü?"), "a%20b/%C3%BC%3F");
        assert_eq!(unescaped("a%20b/%C3%bc%3F").as_deref(), Some("a b/ü?"));
        for wrong in ["%", "%1", "%x1", "%C3"] {
            assert_eq!(unescaped(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_socket_that_was_left_is_replaced_and_one_in_use_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = listen(&path).unwrap();
        let error = listen(&path).map(drop).unwrap_err().to_string();
        let who = format!("process {} serves there already", std::process::id());
        assert!(error.contains(&who), "{error}");
        let (socket, file) = first;
        drop(socket);
        std::mem::forget(file);
        let again = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(again);
        assert!(!path.exists(), "whoever made it removes it");
        fs::write(&path, "a file").unwrap();
        assert!(listen(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "a file");
    }

    #[test]
    fn a_path_that_is_too_long_names_the_limit() {
        let path = Path::new("/tmp").join("x".repeat(LONGEST));
        let error = listen(&path).map(drop).unwrap_err().to_string();
        assert!(error.contains("has 112 bytes, and that of a unix socket 107 at most"), "{error}");
    }
}
