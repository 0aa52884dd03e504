//! Changes of a pool that is being served, as requests on its status socket.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use hyper::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thermocline_engine::{Extent, HostError};
use thermocline_format::{VolumeMedia, VolumeName};
use thermocline_runtime::{Pool, VolumeLimits};
use thermocline_target::{BlockTarget as _, EXTENTS_MAX};

use super::super::{lost, refusal};
use super::devices::{DeviceRequest, Devices};
use super::fronts::Fronts;
use super::sockets::{escaped, server_of, unescaped};

/// In a query: the change is to be made though clients use the volume.
const DESPITE_CLIENTS: &str = "despite=clients";

/// What else the body of a change of a volume is told to be.
const OF_A_VOLUME: &str = "no change of a volume, which has `size_bytes`, and `yes_destroy` if data may be lost, or \
                           `media`, or any of `share`, `iops`, \
                           `bandwidth_bytes` and `reserve_bytes`";

/// How long an answer may take: a pool with large maps may have to be closed and opened for it. Chosen.
const PATIENCE: Duration = Duration::from_secs(300);

/// How long what waits to be recorded may take. Chosen.
const TRACE_PATIENCE: Duration = Duration::from_secs(10);

/// What may happen to volumes and devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// `POST /volumes` with a [`NewVolume`].
    Create,
    /// `PATCH /volumes/NAME` with a [`Size`], a [`Media`] or [`LimitChange`].
    Alter(Subject),
    /// `DELETE /volumes/NAME`.
    Delete(Subject),
    /// `POST /devices` with a [`DeviceRequest`].
    Device,
    /// `POST /trace` with a [`NewTrace`]: requests are recorded from now on.
    Record,
    /// `DELETE /trace`: they are not any more.
    RecordNoMore,
}

/// The volume that is to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Whether something may be taken from clients that use it.
    pub despite_clients: bool,
}

/// Body of a creation.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewVolume {
    name: String,
    size_bytes: u64,
    /// What the pool keeps writable for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reserve_bytes: Option<u64>,
}

/// Body of a recording.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewTrace {
    path: PathBuf,
}

/// Body of a change of size.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Size {
    size_bytes: u64,
    /// The name of the volume, if data beyond a smaller size may be lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    yes_destroy: Option<String>,
}

/// Body of a change of media.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Media {
    media: String,
}

/// Body of a change of limits: those that are named change, and 0 lifts one.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitChange {
    /// Its part of what the pool can do when others want it as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<u32>,
    /// Requests per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_bytes: Option<u64>,
    /// Bytes that the pool keeps writable for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserve_bytes: Option<u64>,
}

/// Body of a change of a volume.
enum Alteration {
    Media(Media),
    Size(Size),
    Limits(LimitChange),
}

impl Alteration {
    /// What the fields of `body` change.
    fn parsed(body: &[u8]) -> anyhow::Result<Alteration> {
        let fields: Map<String, Value> = parsed(body)?;
        let has = |name| fields.contains_key(name);
        if has("media") {
            parsed(body).map(Alteration::Media)
        } else if has("size_bytes") || has("yes_destroy") {
            parsed(body).map(Alteration::Size)
        } else {
            ensure!(!fields.is_empty(), "no field is there");
            parsed(body).map(Alteration::Limits)
        }
    }
}

impl Change {
    /// The change that a request asks for, if it does.
    pub fn asked_for(method: &Method, url: &str) -> Option<Change> {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        if (method, path) == (&Method::POST, "/volumes") {
            return Some(Change::Create);
        }
        if (method, path) == (&Method::POST, "/devices") {
            return Some(Change::Device);
        }
        match (method, path) {
            (&Method::POST, "/trace") => return Some(Change::Record),
            (&Method::DELETE, "/trace") => return Some(Change::RecordNoMore),
            _ => {}
        }
        let name = unescaped(path.strip_prefix("/volumes/")?)?;
        let subject = Subject { name, despite_clients: query == DESPITE_CLIENTS };
        match *method {
            Method::PATCH => Some(Change::Alter(subject)),
            Method::DELETE => Some(Change::Delete(subject)),
            _ => None,
        }
    }

    /// Makes the change, durably, and lets clients see it.
    ///
    /// # Errors
    /// When it is not described well, clients are in the way, or the pool refuses.
    pub fn make(
        &self,
        body: &[u8],
        pool: &Pool,
        fronts: &Fronts,
        devices: &Devices,
    ) -> anyhow::Result<()> {
        match self {
            Change::Create => create(&parsed(body).context("no new volume")?, pool, fronts),
            Change::Alter(subject) => match Alteration::parsed(body).context(OF_A_VOLUME)? {
                Alteration::Size(size) => resize(subject, &size, pool, fronts),
                Alteration::Media(Media { media }) => {
                    let volume = subject.find(pool)?.id();
                    pool.set_media(volume, media.parse()?).map_err(refusal)
                }
                Alteration::Limits(limits) => limit(subject, limits, pool),
            },
            Change::Delete(subject) => delete(subject, pool, fronts),
            Change::Record => {
                let NewTrace { path } = parsed(body).context("no new trace")?;
                ensure!(
                    path.is_absolute(),
                    "{}: the path of a trace begins with /",
                    path.display()
                );
                fronts.tap().start(&path).map(|_| ())
            }
            Change::RecordNoMore => {
                let ended = fronts.tap().stop(TRACE_PATIENCE);
                ended.map(|_| ()).context("no trace is being recorded")
            }
            Change::Device => devices.make(&parsed(body).context("no change of a device")?, pool),
        }
    }
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> anyhow::Result<T> {
    let value: Value = serde_json::from_slice(body)?;
    Ok(serde_path_to_error::deserialize(value)?)
}

fn blocks(size_bytes: u64) -> anyhow::Result<u64> {
    let whole = size_bytes > 0 && size_bytes.is_multiple_of(4096);
    ensure!(whole, "a volume has a multiple of 4 KiB, and not 0");
    Ok(size_bytes / 4096)
}

fn create(new: &NewVolume, pool: &Pool, fronts: &Fronts) -> anyhow::Result<()> {
    let name = VolumeName::for_new(&new.name)?;
    let blocks = blocks(new.size_bytes)?;
    let volume = pool.create_volume(name, blocks).map_err(refusal)?;
    if let Some(bytes) = new.reserve_bytes
        && let Err(error) = pool.reserve_for(volume.id(), bytes.div_ceil(4096))
    {
        pool.delete_volume(volume.id())?;
        return Err(error.into());
    }
    Ok(fronts.add(super::export(volume, false))?)
}

/// More may be given to a volume at any time; its clients learn of it when they connect or open it next.
fn resize(subject: &Subject, to: &Size, pool: &Pool, fronts: &Fronts) -> anyhow::Result<()> {
    let volume = subject.find(pool)?;
    let (id, blocks) = (volume.id(), blocks(to.size_bytes)?);
    let had = volume.info().size.0 / 4096;
    if blocks >= had {
        return pool.resize_volume(id, blocks).map_err(refusal);
    }
    let beyond = Extent { volume: id, lba: blocks, blocks: had - blocks };
    let runs = |extent| {
        let runs = pool.look(move |view| view.engine.runs(extent, EXTENTS_MAX));
        runs.unwrap_or(Err(HostError::Failed))
    };
    subject.without_clients(fronts, || {
        lost::agree(&subject.name, beyond, to.yes_destroy.as_deref(), runs)?;
        Ok(pool.resize_volume(id, blocks)?)
    })
}

fn limit(subject: &Subject, change: LimitChange, pool: &Pool) -> anyhow::Result<()> {
    let volume = subject.find(pool)?.id();
    let now = pool.limits(volume).unwrap_or_default();
    let changed = |to: Option<u64>, now| to.map_or(now, |to| Some(to).filter(|to| *to > 0));
    let limits = VolumeLimits {
        share: change.share.unwrap_or(now.share),
        iops: changed(change.iops, now.iops),
        bandwidth: changed(change.bandwidth_bytes, now.bandwidth),
    };
    limits.check().map_err(|error| {
        let remedy = if error.may_be_absent() { "; 0 lifts the limit" } else { "" };
        anyhow!("{} {error}{remedy}", error.key())
    })?;
    if let Some(bytes) = change.reserve_bytes {
        pool.reserve_for(volume, bytes.div_ceil(4096)).map_err(refusal)?;
    }
    pool.set_limits(volume, limits);
    Ok(())
}

fn delete(subject: &Subject, pool: &Pool, fronts: &Fronts) -> anyhow::Result<()> {
    let volume = subject.find(pool)?.id();
    subject.without_clients(fronts, || {
        pool.delete_volume(volume)?;
        fronts.remove(&subject.name);
        Ok(())
    })
}

impl Subject {
    fn find(&self, pool: &Pool) -> anyhow::Result<thermocline_runtime::Volume> {
        let Subject { name, .. } = self;
        pool.volume(name).with_context(|| format!("there is no volume `{name}`"))
    }

    /// Makes a change that takes something from clients: not if there are any, unless that was asked for. Nobody is let
    /// in meanwhile.
    fn without_clients(
        &self,
        fronts: &Fronts,
        change: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Subject { name, despite_clients } = self;
        let clients = fronts.hide(name);
        let result = if clients == 0 || *despite_clients {
            change()
        } else {
            Err(anyhow!(
                "volume `{name}` is in use ({clients} connections and open files): end that first, or say \
                 --despite-clients (?{DESPITE_CLIENTS})"
            ))
        };
        fronts.show(name);
        result
    }
}

impl Subject {
    fn url(&self) -> String {
        let query =
            if self.despite_clients { format!("?{DESPITE_CLIENTS}") } else { String::new() };
        format!("/volumes/{}{query}", escaped(&self.name))
    }
}

/// Whoever serves a pool.
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
    /// Who listens on the status socket `path`, if anybody does.
    pub fn at(path: &Path) -> Option<Serving> {
        Serving::connect(path).ok()
    }

    /// Who listens on the status socket `path`.
    ///
    /// # Errors
    /// When nobody does.
    pub fn connect(path: &Path) -> io::Result<Serving> {
        UnixStream::connect(path).map(|stream| Serving { stream, path: path.to_owned() })
    }

    /// The process that serves.
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
    ) -> anyhow::Result<()> {
        let new = NewVolume { name: name.to_owned(), size_bytes, reserve_bytes };
        let body = serde_json::to_string(&new)?;
        self.ask("POST /volumes", &body)
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
    ) -> anyhow::Result<()> {
        let body = serde_json::to_string(&Size { size_bytes, yes_destroy })?;
        self.ask(&format!("PATCH {}", volume.url()), &body)
    }

    /// Asks for the blocks of a volume to be elsewhere.
    ///
    /// # Errors
    /// As [`Serving::create`].
    pub fn set_media(self, name: &str, media: VolumeMedia) -> anyhow::Result<()> {
        let body = serde_json::to_string(&Media { media: media.to_string() })?;
        self.ask(&format!("PATCH /volumes/{}", escaped(name)), &body)
    }

    /// Asks for other limits of a volume.
    ///
    /// # Errors
    /// As [`Serving::create`].
    pub fn limit(self, name: &str, limits: LimitChange) -> anyhow::Result<()> {
        let body = serde_json::to_string(&limits)?;
        self.ask(&format!("PATCH /volumes/{}", escaped(name)), &body)
    }

    /// Asks for a change of a device. The pool is opened anew for that, which may take a while.
    ///
    /// # Errors
    /// As [`Serving::create`].
    pub fn change_device(self, change: &DeviceRequest) -> anyhow::Result<()> {
        self.ask("POST /devices", &serde_json::to_string(change)?)
    }

    /// Asks to record requests into a new file.
    ///
    /// # Errors
    /// As [`Serving::create`].
    pub fn record(self, path: &Path) -> anyhow::Result<()> {
        self.ask("POST /trace", &serde_json::to_string(&NewTrace { path: path.to_owned() })?)
    }

    /// Asks to record requests no more.
    ///
    /// # Errors
    /// As [`Serving::create`].
    pub fn record_no_more(self) -> anyhow::Result<()> {
        self.ask("DELETE /trace", "")
    }

    /// Asks to delete a volume.
    ///
    /// # Errors
    /// As [`Serving::create`].
    pub fn delete(self, volume: &Subject) -> anyhow::Result<()> {
        self.ask(&format!("DELETE {}", volume.url()), "")
    }

    /// What is answered to `request`, of `longest` bytes at most.
    ///
    /// # Errors
    /// Also when the server says nothing for as long as `patience`.
    pub fn answer(self, request: &str, longest: u64, patience: Duration) -> anyhow::Result<String> {
        let server = self.to_string();
        let silent = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                let seconds = patience.as_secs();
                anyhow!("{server} has not answered for {seconds} s: it is stopped, stuck or busy")
            }
            _ => anyhow!("{server}: {error}"),
        };
        let Serving { mut stream, .. } = self;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        stream.write_all(request.as_bytes()).map_err(silent)?;
        let mut answer = String::new();
        stream.take(longest).read_to_string(&mut answer).map_err(silent)?;
        Ok(answer)
    }

    fn ask(self, what: &str, body: &str) -> anyhow::Result<()> {
        let request = format!("{what} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let answer = self.answer(&request, 1 << 20, PATIENCE)?;
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .context("the server ended before it answered: what was asked may be done or not")?;
        if !head.lines().next().unwrap_or_default().contains(" 20") {
            bail!("the server of the pool says: {}", body.trim_end());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_is_none_is_told_what_is_wrong_with_it() {
        let error = |body: &str| Alteration::parsed(body.as_bytes()).map(|_| ()).unwrap_err();
        for (body, expected) in [
            ("", "EOF while parsing"),
            ("[1]", "expected a map"),
            ("{}", "no field is there"),
            ("{\"size\": 4096}", "unknown field `size`, expected one of `share`, `iops`"),
            (
                "{\"size_bytes\": \"4KiB\"}",
                "size_bytes: invalid type: string \"4KiB\", expected u64",
            ),
            (
                "{\"size_bytes\": 4096, \"share\": 1}",
                "unknown field `share`, expected `size_bytes`",
            ),
            ("{\"yes_destroy\": \"v\"}", "missing field `size_bytes`"),
            ("{\"media\": 1}", "media: invalid type: integer `1`, expected a string"),
            ("{\"iops\": -1}", "iops: invalid value: integer `-1`, expected u64"),
        ] {
            let error = format!("{:#}", error(body));
            assert!(error.contains(expected), "{body}: {error}");
        }
        for body in ["{\"media\": \"fast\"}", "{\"size_bytes\": 1}", "{\"iops\": 0, \"share\": 2}"]
        {
            assert!(Alteration::parsed(body.as_bytes()).is_ok(), "{body}");
        }
    }

    #[test]
    fn what_is_asked_for_is_understood() {
        assert_eq!(Change::asked_for(&Method::POST, "/volumes"), Some(Change::Create));
        for (name, despite_clients) in [("main", false), ("a b/ü?", true)] {
            let subject = Subject { name: name.to_owned(), despite_clients };
            let deletion = Change::asked_for(&Method::DELETE, &subject.url());
            assert_eq!(deletion, Some(Change::Delete(subject)));
        }
        for (method, url) in [
            (Method::GET, "/volumes/main"),
            (Method::PUT, "/volumes"),
            (Method::DELETE, "/status"),
            (Method::DELETE, "/volumes/%4"),
            (Method::DELETE, "/volumes/%FF"),
        ] {
            assert_eq!(Change::asked_for(&method, url), None, "{method} {url}");
        }
    }
}
