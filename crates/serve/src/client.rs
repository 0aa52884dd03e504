//! Clients of a server: pool changes and status.

use std::fmt;
use std::io::{self, Read as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thermocline_format::VolumeMedia;

use crate::control::{LimitChange, Media, Name, NewCopy, NewTrace, NewVolume, Size, Subject};
use crate::sockets::{beside, escaped, server_of};
use crate::{DeviceRequest, Error, ScrubPage, SuperblockReport, UnitsReport};

/// How long an answer may take: a pool with large maps may have to be closed and opened for it. Chosen.
const PATIENCE: Duration = Duration::from_secs(300);

/// The socket for status and changes of the pool with these settings.
#[must_use]
pub fn status_socket(settings: &Path) -> PathBuf {
    beside(settings, "status.sock")
}

/// A connection to the server of a pool.
pub struct Serving {
    stream: UnixStream,
    /// Its status socket.
    path: PathBuf,
}

impl fmt::Display for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server at {}", self.path.display())?;
        match self.process() {
            Some(id) => write!(f, " (process {id})"),
            None => Ok(()),
        }
    }
}

impl Serving {
    /// Connects to the server of the pool with these settings; `None` without a server.
    #[must_use]
    pub fn of(settings: &Path) -> Option<Serving> {
        Serving::connect(&status_socket(settings)).ok()
    }

    /// The server that listens on the status socket `path`.
    ///
    /// # Errors
    /// [`Error::NotServed`].
    pub fn connect(path: &Path) -> Result<Serving, Error> {
        let path = path.to_owned();
        match UnixStream::connect(&path) {
            Ok(stream) => Ok(Serving { stream, path }),
            Err(source) => Err(Error::NotServed { path, source }),
        }
    }

    /// The process that serves.
    #[must_use]
    pub fn process(&self) -> Option<i32> {
        server_of(&self.stream)
    }

    /// Asks to make a volume.
    ///
    /// # Errors
    /// When there is no answer, or it is no.
    pub fn create(
        self,
        name: &str,
        size_bytes: u64,
        reserve_bytes: Option<u64>,
    ) -> Result<(), Error> {
        let new = NewVolume { name: name.to_owned(), size_bytes, reserve_bytes };
        let body = json(&new);
        self.ask("POST /volumes", &body)
    }

    /// Asks for a snapshot of a volume.
    ///
    /// # Errors
    /// As [`Serving::create`].
    pub fn snapshot(self, volume: &str, name: &str) -> Result<(), Error> {
        self.copy(volume, &NewCopy::Snapshot(name.to_owned()))
    }

    /// Asks for a clone of a snapshot `VOLUME@NAME`.
    ///
    /// # Errors
    /// As [`Serving::create`].
    pub fn clone_volume(self, snapshot: &str, name: &str) -> Result<(), Error> {
        self.copy(snapshot, &NewCopy::Clone(name.to_owned()))
    }

    fn copy(self, of: &str, new: &NewCopy) -> Result<(), Error> {
        self.ask(&format!("POST /volumes/{}", escaped(of)), &json(new))
    }

    /// Asks for another size of a volume.
    ///
    /// # Errors
    /// As [`Serving::create`].
    pub fn resize(
        self,
        volume: &Subject,
        size_bytes: u64,
        yes_destroy: Option<String>,
    ) -> Result<(), Error> {
        let body = json(&Size { size_bytes, yes_destroy });
        self.ask(&format!("PATCH {}", volume.url()), &body)
    }

    /// Asks for the blocks of a volume to be elsewhere.
    ///
    /// # Errors
    /// As [`Serving::create`].
    pub fn set_media(self, name: &str, media: VolumeMedia) -> Result<(), Error> {
        let body = json(&Media { media: media.to_string() });
        self.ask(&format!("PATCH /volumes/{}", escaped(name)), &body)
    }

    /// Asks for another name of a volume.
    ///
    /// # Errors
    /// As [`Serving::create`].
    pub fn rename(self, name: &str, to: &str) -> Result<(), Error> {
        let body = json(&Name { name: to.to_owned() });
        self.ask(&format!("PATCH /volumes/{}", escaped(name)), &body)
    }

    /// Asks for other limits of a volume.
    ///
    /// # Errors
    /// As [`Serving::create`].
    pub fn limit(self, name: &str, limits: LimitChange) -> Result<(), Error> {
        let body = json(&limits);
        self.ask(&format!("PATCH /volumes/{}", escaped(name)), &body)
    }

    /// Asks for a change of a device. The pool is opened anew for that, which may take a while.
    ///
    /// # Errors
    /// As [`Serving::create`].
    pub fn change_device(self, change: &DeviceRequest) -> Result<(), Error> {
        self.ask("POST /devices", &json(change))
    }

    /// Asks to record requests into a new file.
    ///
    /// # Errors
    /// As [`Serving::create`].
    pub fn record(self, path: &Path) -> Result<(), Error> {
        self.ask("POST /trace", &json(&NewTrace { path: path.to_owned() }))
    }

    /// Asks to record requests no more.
    ///
    /// # Errors
    /// As [`Serving::create`].
    pub fn record_no_more(self) -> Result<(), Error> {
        self.ask("DELETE /trace", "")
    }

    /// Asks to delete a volume.
    ///
    /// # Errors
    /// As [`Serving::create`].
    pub fn delete(self, volume: &Subject) -> Result<(), Error> {
        self.ask(&format!("DELETE {}", volume.url()), "")
    }

    /// Asks to begin a scrub. A scrub in progress goes on instead.
    ///
    /// # Errors
    /// As [`Serving::create`].
    pub fn scrub(self) -> Result<(), Error> {
        self.ask("POST /scrub", "")
    }

    /// Asks to stop the scrub in progress.
    ///
    /// # Errors
    /// As [`Serving::create`].
    pub fn stop_scrub(self) -> Result<(), Error> {
        self.ask("DELETE /scrub", "")
    }

    /// What is answered to `request`, of `longest` bytes at most.
    ///
    /// # Errors
    /// Also when the server says nothing for as long as `patience`.
    pub fn answer(self, request: &str, longest: u64, patience: Duration) -> Result<String, Error> {
        let server = self.to_string();
        self.stream.set_read_timeout(Some(patience))?;
        self.stream.set_write_timeout(Some(patience))?;
        exchange(self.stream, &server, request, longest, patience)
    }

    fn ask(self, what: &str, body: &str) -> Result<(), Error> {
        let request = format!("{what} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let answer = self.answer(&request, 1 << 20, PATIENCE)?;
        let no_answer = "the server ended before it answered: what was asked may be done or not";
        let (head, body) =
            answer.split_once("\r\n\r\n").ok_or_else(|| Error::refused(no_answer))?;
        if !head.lines().next().unwrap_or_default().contains(" 20") {
            let body = body.trim_end();
            return Err(Error::Refused(format!("the server of the pool says: {body}")));
        }
        Ok(())
    }
}

fn json(body: &impl Serialize) -> String {
    serde_json::to_string(body).expect("bodies have no keys but texts")
}

/// Sends `request` and returns the answer of `server`, of `longest` bytes at most. `stream` has the timeout `patience`.
fn exchange(
    mut stream: impl io::Read + io::Write,
    server: &str,
    request: &str,
    longest: u64,
    patience: Duration,
) -> Result<String, Error> {
    let silent = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let seconds = patience.as_secs();
            Error::Refused(format!(
                "{server} has not answered for {seconds} s: it is stopped, stuck or busy"
            ))
        }
        _ => Error::Refused(format!("{server}: {error}")),
    };
    stream.write_all(request.as_bytes()).map_err(silent)?;
    let mut answer = String::new();
    stream.take(longest).read_to_string(&mut answer).map_err(silent)?;
    Ok(answer)
}

/// More bytes than a page ever has: 4096 volumes with five histograms each take 8 to 16 MiB, a million units 20 MiB.
const LONGEST_PAGE: u64 = 64 << 20;

/// How long a page may take. A server that is well answers at once. Chosen.
const PAGE_PATIENCE: Duration = Duration::from_secs(10);

/// Request for a page.
fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.0\r\n\r\n")
}

/// Fetches the status from the server at this status socket, schema `thermocline.serve/1`.
///
/// # Errors
/// If the socket has no listener, or the listener is not a server of this schema.
pub fn fetch(socket: &Path) -> Result<Value, Error> {
    page(socket, "/status")
}

/// Fetches the units of the pool from the server at this status socket.
///
/// # Errors
/// As [`fetch`].
pub fn fetch_units(socket: &Path) -> Result<UnitsReport, Error> {
    page(socket, "/units")
}

/// Fetches scrubs and damaged places from the server at this status socket.
///
/// # Errors
/// As [`fetch`].
pub fn fetch_scrub(socket: &Path) -> Result<ScrubPage, Error> {
    page(socket, "/scrub")
}

/// Fetches the newest superblock record from the server at this status socket.
///
/// # Errors
/// As [`fetch`].
pub fn fetch_superblock(socket: &Path) -> Result<SuperblockReport, Error> {
    page(socket, "/superblock")
}

fn page<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T, Error> {
    let answer = Serving::connect(socket)?.answer(&get(path), LONGEST_PAGE, PAGE_PATIENCE)?;
    parsed(&answer, &socket.display())
}

/// As [`fetch`], from the HTTP address of a server, such as `http://host:9400`.
///
/// # Errors
/// If the URL has no host and port, no server listens there, or it is not a server of this schema.
pub fn fetch_remote(url: &str) -> Result<Value, Error> {
    let refused = |error: io::Error| Error::Refused(format!("{url}: {error}"));
    let address = url.strip_prefix("http://").unwrap_or(url);
    let address = address.split_once('/').map_or(address, |(address, _)| address);
    let mut found = address
        .to_socket_addrs()
        .map_err(|error| Error::Refused(format!("{url}: {error}; the form is http://HOST:PORT")))?;
    let address = found.next().ok_or_else(|| Error::Refused(format!("{url} has no address")))?;
    let stream = TcpStream::connect_timeout(&address, PAGE_PATIENCE).map_err(refused)?;
    stream.set_read_timeout(Some(PAGE_PATIENCE))?;
    stream.set_write_timeout(Some(PAGE_PATIENCE))?;
    let answer = exchange(stream, url, &get("/status"), LONGEST_PAGE, PAGE_PATIENCE)?;
    parsed(&answer, &url)
}

/// The page in an answer of the server `shown`.
fn parsed<T: DeserializeOwned>(answer: &str, shown: &dyn fmt::Display) -> Result<T, Error> {
    let wrong = |what: &str| Error::Refused(format!("{shown} {what}"));
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| wrong("does not speak HTTP"))?;
    let first = head.lines().next().unwrap_or_default();
    if !first.contains(" 200 ") {
        return Err(wrong(&format!("answers: {first}")));
    }
    serde_json::from_str(body).map_err(Error::refused)
}
