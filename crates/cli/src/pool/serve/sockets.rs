//! Where clients come from: sockets that are made here, or were made by systemd.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};
use listenfd::ListenFd;
use thermocline_format::VolumeName;
use thermocline_nbd::{Listener, Tls};

/// What was asked for.
pub struct Addresses<'a> {
    /// A unix socket.
    pub socket: Option<&'a Path>,
    /// The unix socket if nothing else is said.
    pub default_socket: PathBuf,
    /// TCP addresses.
    pub tcp: &'a [String],
    /// Files for TLS: certificates, key, authorities of clients.
    pub tls: Option<[&'a Path; 3]>,
    /// Whether the network may be served without TLS.
    pub insecure_network: bool,
}

/// A name beside the settings file, of its own name and another ending.
pub fn beside(settings: &Path, ending: &str) -> PathBuf {
    settings.with_extension(ending)
}

/// How exports are reached.
#[derive(Clone, Default)]
pub struct Reach {
    /// What goes before and behind the name of any of them.
    addresses: Vec<(String, String)>,
    /// What goes before the name where they are files.
    folder: Option<String>,
}

impl Reach {
    /// This, and as files in `folder`, if there is one.
    pub fn and_files_in(self, folder: Option<&Path>) -> Reach {
        let folder = folder.map(|path| format!("file://{}/", escaped(&path.to_string_lossy())));
        Reach { folder, ..self }
    }

    /// Where each of `exports` is, and then where their files are.
    pub fn uris(&self, exports: &[VolumeName]) -> Vec<String> {
        let names: Vec<String> = exports.iter().map(|name| escaped(name.as_str())).collect();
        let exports = names.iter().flat_map(|name| {
            self.addresses.iter().map(move |(front, back)| format!("{front}{name}{back}"))
        });
        let files = self.folder.iter();
        let files =
            files.flat_map(|folder| names.iter().map(move |name| format!("{folder}{name}")));
        exports.chain(files).collect()
    }

    fn add(&mut self, front: String, back: String) {
        self.addresses.push((front, back));
    }
}

/// Sockets that listen.
#[derive(Default)]
pub struct Sockets {
    listeners: Vec<Listener>,
    reach: Reach,
    /// Sockets that were made here.
    files: Vec<PathBuf>,
}

impl Sockets {
    /// Opens what was asked for, and takes what systemd has opened.
    ///
    /// # Errors
    /// When an address cannot be had, or may not.
    pub fn open(addresses: &Addresses<'_>) -> anyhow::Result<Sockets> {
        let tls = addresses.tls.map(|[certificate, key, clients]| {
            Tls::from_files(certificate, key, clients).context("no TLS")
        });
        let tls = tls.transpose()?;
        let mut sockets = Sockets::default();
        sockets.inherit(addresses, tls.as_ref())?;
        let none = sockets.listeners.is_empty() && addresses.tcp.is_empty();
        let default = none.then_some(addresses.default_socket.as_path());
        if let Some(path) = addresses.socket.or(default) {
            let socket = listen(path)?;
            sockets.add_unix(socket, path);
        }
        for address in addresses.tcp {
            let socket = TcpListener::bind(address.as_str())
                .map_err(|error| anyhow!("cannot listen on {address}: {error}"))?;
            sockets.add_tcp(socket, addresses, tls.as_ref())?;
        }
        Ok(sockets)
    }

    /// Sockets that systemd has opened for this process (`sd_listen_fds(3)`).
    fn inherit(&mut self, addresses: &Addresses<'_>, tls: Option<&Tls>) -> anyhow::Result<()> {
        let mut inherited = ListenFd::from_env();
        for index in 0..inherited.len() {
            if let Ok(Some(socket)) = inherited.take_unix_listener(index) {
                let address = socket.local_addr()?;
                let path = address.as_pathname().unwrap_or(Path::new("")).to_owned();
                self.listeners.push(Listener::unix(socket));
                let back = format!("?socket={}", path.display());
                self.reach.add("nbd+unix:///".to_owned(), back);
            } else if let Ok(Some(socket)) = inherited.take_tcp_listener(index) {
                self.add_tcp(socket, addresses, tls)?;
            } else {
                bail!("the inherited descriptor {index} is no socket of a kind that is served");
            }
        }
        Ok(())
    }

    fn add_unix(&mut self, socket: UnixListener, path: &Path) {
        self.listeners.push(Listener::unix(socket));
        let shown = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let back = format!("?socket={}", shown.display());
        self.reach.add("nbd+unix:///".to_owned(), back);
        self.files.push(path.to_owned());
    }

    fn add_tcp(
        &mut self,
        socket: TcpListener,
        addresses: &Addresses<'_>,
        tls: Option<&Tls>,
    ) -> anyhow::Result<()> {
        let address = socket.local_addr()?;
        ensure!(
            tls.is_some() || address.ip().is_loopback() || addresses.insecure_network,
            "{address} can be reached by others: give --tls-certificate, --tls-key and --tls-clients, or say \
             --insecure-network"
        );
        self.reach.add(uri_of(address, tls.is_some()), String::new());
        self.listeners.push(Listener::tcp(socket, tls.cloned()));
        Ok(())
    }

    /// The sockets themselves, how they are reached, and files to be removed when nobody listens on them any more.
    pub fn into_listeners(self) -> (Vec<Listener>, Reach, Vec<PathBuf>) {
        (self.listeners, self.reach, self.files)
    }
}

fn uri_of(address: SocketAddr, tls: bool) -> String {
    format!("{}://{address}/", if tls { "nbds" } else { "nbd" })
}

/// A name as it stands in a URI (RFC 3986, section 2).
pub fn escaped(name: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(escape).collect()
}

/// The name that was [`escaped`]; `None` if that cannot be.
pub fn unescaped(text: &str) -> Option<String> {
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

/// Listens on a unix socket that only this user can open. A socket that somebody left there is replaced.
///
/// # Errors
/// When somebody listens there, or the path cannot be had.
pub fn listen(path: &Path) -> anyhow::Result<UnixListener> {
    let cannot = |error: io::Error| anyhow!("cannot listen on {}: {error}", path.display());
    let socket = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let is_socket = fs::symlink_metadata(path).map_err(cannot)?.file_type().is_socket();
            ensure!(is_socket, "{} is in the way, and is no socket", path.display());
            let left_over = UnixStream::connect(path)
                .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
            ensure!(left_over, "{} is in use: somebody serves there already", path.display());
            fs::remove_file(path).map_err(cannot)?;
            UnixListener::bind(path)
        }
        socket => socket,
    };
    let socket = socket.map_err(cannot)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(cannot)?;
    Ok(socket)
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
        let error = listen(&path).unwrap_err();
        assert!(error.to_string().contains("somebody serves there already"), "{error}");
        drop(first);
        listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "a file").unwrap();
        assert!(listen(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "a file");
    }
}
