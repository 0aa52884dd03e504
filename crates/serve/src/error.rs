//! Errors of a server and of its clients.

use std::error::Error as _;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thermocline_engine::HostError;
use thermocline_fuse::MountError;
use thermocline_nbd::TlsError;
use thermocline_runtime::opening::OpeningError;
use thermocline_runtime::{MediaError, SettingsError};
use thermocline_types::Bytes;
use thermocline_ublk::UblkError;

use crate::sockets::LONGEST;

/// Why a pool is not served, or a change of a served pool is not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings are wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The pool does not open.
    #[error(transparent)]
    Opening(#[from] OpeningError),
    /// The pool refused a request.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The volumes cannot be files.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The volumes cannot be block devices.
    #[error(transparent)]
    Ublk(#[from] UblkError),
    /// Files for TLS cannot be used.
    #[error("no TLS")]
    Tls(#[from] TlsError),
    /// The system refused a step.
    #[error("{what}")]
    Io {
        /// The step that failed.
        what: String,
        /// Reason of the system.
        source: io::Error,
    },
    /// The system refused.
    #[error(transparent)]
    System(#[from] io::Error),
    /// Files for TLS are named, but no TCP address.
    #[error("TLS is for TCP, and no TCP address is served")]
    TlsWithoutTcp,
    /// The network would be served without encryption.
    #[error("{0} can be reached by others")]
    OpenNetwork(SocketAddr),
    /// Others could write to volumes.
    #[error("NVMe over TCP at {0} can be reached by others, and no host has to prove who it is")]
    OpenNvme(SocketAddr),
    /// The path of a unix socket is too long.
    #[error(
        "cannot listen on {}: the path has {} bytes, and that of a unix socket {LONGEST} at most",
        .0.display(), .0.as_os_str().len()
    )]
    LongPath(PathBuf),
    /// The status socket has no listener.
    #[error("{}: nothing is served there", path.display())]
    NotServed {
        /// The socket.
        path: PathBuf,
        /// Reason of the system.
        source: io::Error,
    },
    /// Clients use the volume that is to change.
    #[error("volume `{volume}` is in use ({clients} connections and open files)")]
    InUse {
        /// The volume.
        volume: String,
        /// Connections and open files.
        clients: usize,
    },
    /// A smaller size would destroy data.
    #[error(
        "volume `{volume}` has {} of data ({blocks} blocks) beyond {end}", Bytes(blocks * Bytes::BLOCK.0)
    )]
    DataBeyond {
        /// The volume.
        volume: String,
        /// Blocks with data beyond the new end.
        blocks: u64,
        /// The new end.
        end: Bytes,
        /// Another volume whose data was given up.
        named: Option<String>,
    },
    /// A device holds data that would be destroyed.
    #[error("{} holds {what}, which will be gone", path.display())]
    Occupied {
        /// The device.
        path: PathBuf,
        /// Its contents, in words.
        what: String,
    },
    /// A device is to be filled that is no member of a group.
    #[error("{} is no member of a pair or striped group, so no other device can fill it", path.display())]
    NoMember {
        /// The device.
        path: PathBuf,
        /// The settings file.
        file: PathBuf,
    },
    /// The pool or a device is broken; the text has the words of the operator.
    #[error("{0}")]
    Broken(String),
    /// Any other reason.
    #[error("{0}")]
    Refused(String),
}

impl From<MediaError> for Error {
    fn from(error: MediaError) -> Error {
        Error::Opening(error.into())
    }
}

impl Error {
    /// The error and all sources on a single line.
    #[must_use]
    pub fn chained(&self) -> String {
        let sources = std::iter::successors(self.source(), |&error| error.source());
        sources.fold(self.to_string(), |text, error| format!("{text}: {error}"))
    }

    /// The system refused `what`.
    pub(crate) fn io(what: &str) -> impl FnOnce(io::Error) -> Error {
        let what = what.to_owned();
        move |source| Error::Io { what, source }
    }

    #[expect(clippy::needless_pass_by_value, reason = "errors are handed over by `map_err`")]
    pub(crate) fn refused(why: impl ToString) -> Error {
        Error::Refused(why.to_string())
    }
}
