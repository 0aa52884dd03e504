//! Changes of a pool that is being served, as requests on its status socket.

use std::path::PathBuf;
use std::time::Duration;

use hyper::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thermocline_engine::{Extent, HostError};
use thermocline_format::VolumeName;
use thermocline_runtime::{Pool, Volume, VolumeLimits};
use thermocline_target::{BlockTarget as _, EXTENTS_MAX, Exports};

use crate::backend::export;
use crate::sockets::{escaped, unescaped};
use crate::state::State;
use crate::{Error, lost};

/// In a query: change the volume even if clients use it.
const DESPITE_CLIENTS: &str = "despite=clients";

/// Error text for a different body of a change of a volume.
const OF_A_VOLUME: &str = "no change of a volume, which has `size_bytes`, and `yes_destroy` if data may be lost, or \
                           `name`, or `media`, or any of `share`, `iops`, \
                           `bandwidth_bytes` and `reserve_bytes`";

/// Longest time for writing queued trace lines. Chosen.
const TRACE_PATIENCE: Duration = Duration::from_secs(10);

/// A change of volumes or devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// `POST /volumes` with a [`NewVolume`].
    Create,
    /// `POST /volumes/NAME` with a [`NewCopy`].
    Copy(Subject),
    /// `PATCH /volumes/NAME` with a [`Size`], a [`Media`] or [`LimitChange`].
    Alter(Subject),
    /// `DELETE /volumes/NAME`.
    Delete(Subject),
    /// `POST /devices` with a [`crate::DeviceRequest`].
    Device,
    /// `POST /trace` with a [`NewTrace`]: requests are recorded from now on.
    Record,
    /// `DELETE /trace`: they are not any more.
    RecordNoMore,
    /// `POST /scrub`: a scrub begins, unless one is in progress.
    Scrub,
    /// `DELETE /scrub`: the scrub in progress stops.
    ScrubNoMore,
}

/// The volume to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Allows a change that disrupts connected clients.
    pub despite_clients: bool,
}

/// Body of a creation.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewVolume {
    pub name: String,
    pub size_bytes: u64,
    /// Bytes that the pool keeps writable for the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve_bytes: Option<u64>,
}

/// Body of a snapshot of a volume, or of a clone of a snapshot: the name of the new one.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NewCopy {
    Snapshot(String),
    Clone(String),
}

/// Body of a recording.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTrace {
    pub path: PathBuf,
}

/// Body of a change of size.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Size {
    pub size_bytes: u64,
    /// The name of the volume, if data beyond a smaller size may be lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yes_destroy: Option<String>,
}

/// Body of a change of media.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Media {
    pub media: String,
}

/// Body of a change of name.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Name {
    pub name: String,
}

/// Body of a change of limits. Absent limits stay unchanged; 0 lifts a limit.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitChange {
    /// Share of the pool's throughput under contention.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<u32>,
    /// Requests per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_bytes: Option<u64>,
    /// Bytes that the pool keeps writable for the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserve_bytes: Option<u64>,
}

/// Body of a change of a volume.
enum Alteration {
    Media(Media),
    Name(Name),
    Size(Size),
    Limits(LimitChange),
}

impl Alteration {
    /// Parses the change in `body`.
    fn parsed(body: &[u8]) -> Result<Alteration, String> {
        let fields: Map<String, Value> = parsed(body)?;
        let has = |name| fields.contains_key(name);
        if has("media") {
            parsed(body).map(Alteration::Media)
        } else if has("name") {
            parsed(body).map(Alteration::Name)
        } else if has("size_bytes") || has("yes_destroy") {
            parsed(body).map(Alteration::Size)
        } else {
            if fields.is_empty() {
                return Err("no field is there".to_owned());
            }
            parsed(body).map(Alteration::Limits)
        }
    }

    fn make(&self, subject: &Subject, pool: &Pool, exports: &Exports) -> Result<(), Error> {
        match self {
            Alteration::Size(size) => resize(subject, size, pool, exports),
            Alteration::Media(Media { media }) => {
                let volume = subject.find(pool)?.id();
                Ok(pool.set_media(volume, media.parse().map_err(Error::refused)?)?)
            }
            Alteration::Name(Name { name }) => rename(subject, name, pool, exports),
            Alteration::Limits(limits) => limit(subject, *limits, pool),
        }
    }
}

impl Change {
    /// The change that a request asks for, if it does.
    pub fn asked_for(method: &Method, url: &str) -> Option<Change> {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        match (method, path) {
            (&Method::POST, "/volumes") => return Some(Change::Create),
            (&Method::POST, "/devices") => return Some(Change::Device),
            (&Method::POST, "/scrub") => return Some(Change::Scrub),
            (&Method::DELETE, "/scrub") => return Some(Change::ScrubNoMore),
            (&Method::POST, "/trace") => return Some(Change::Record),
            (&Method::DELETE, "/trace") => return Some(Change::RecordNoMore),
            _ => {}
        }
        let name = unescaped(path.strip_prefix("/volumes/")?)?;
        let subject = Subject { name, despite_clients: query == DESPITE_CLIENTS };
        match *method {
            Method::POST => Some(Change::Copy(subject)),
            Method::PATCH => Some(Change::Alter(subject)),
            Method::DELETE => Some(Change::Delete(subject)),
            _ => None,
        }
    }

    /// Makes the change, durably, and lets clients see it.
    ///
    /// # Errors
    /// When it is not described well, clients are in the way, or the pool refuses.
    pub fn make(&self, body: &[u8], state: &State) -> Result<(), Error> {
        let (exports, tap) = (state.exports(), state.tap());
        let pool = || state.pool().ok_or_else(|| state.no_pool());
        match self {
            Change::Create => {
                let volume = create(&read(body, "no new volume")?, &*pool()?)?;
                exports.add(tap.on(export(volume.name().as_str(), volume, false)));
                Ok(())
            }
            Change::Copy(subject) => {
                let new: NewCopy = read(body, "no new snapshot or clone")?;
                let (NewCopy::Snapshot(name) | NewCopy::Clone(name)) = &new;
                let name = VolumeName::for_new(name).map_err(Error::refused)?;
                let pool = pool()?;
                let of = subject.find(&pool)?.id();
                let volume = match new {
                    NewCopy::Snapshot(_) => pool.snapshot_volume(of, name)?,
                    NewCopy::Clone(_) => pool.clone_volume(of, name)?,
                };
                let read_only = volume.is_snapshot();
                exports.add(tap.on(export(volume.name().as_str(), volume, read_only)));
                Ok(())
            }
            Change::Alter(subject) => {
                let alteration = Alteration::parsed(body).map_err(not(OF_A_VOLUME))?;
                alteration.make(subject, &*pool()?, exports)
            }
            Change::Delete(subject) => delete(subject, &*pool()?, exports),
            Change::Record => {
                let NewTrace { path } = read(body, "no new trace")?;
                if !path.is_absolute() {
                    let path = path.display();
                    let why = format!("{path}: the path of a trace begins with /");
                    return Err(Error::Refused(why));
                }
                tap.start(&path).map(|_| ())
            }
            Change::RecordNoMore => {
                let ended = tap.stop(TRACE_PATIENCE);
                ended.map(|_| ()).ok_or_else(|| Error::refused("no trace is being recorded"))
            }
            Change::Scrub if pool()?.scrub_now() => Ok(()),
            Change::Scrub => Err(Error::refused("no scrub can begin now")),
            Change::ScrubNoMore if pool()?.stop_scrub() => Ok(()),
            Change::ScrubNoMore => Err(Error::refused("no scrub is in progress")),
            Change::Device => {
                state.devices().make(&read(body, "no change of a device")?, &*pool()?)
            }
        }
    }
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    let value: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    serde_path_to_error::deserialize(value).map_err(|error| error.to_string())
}

/// A body, or the reason why it is `no` such thing.
fn read<T: DeserializeOwned>(body: &[u8], no: &'static str) -> Result<T, Error> {
    parsed(body).map_err(not(no))
}

fn not(no: &'static str) -> impl FnOnce(String) -> Error {
    move |why| Error::Refused(format!("{no}: {why}"))
}

fn blocks(size_bytes: u64) -> Result<u64, Error> {
    let whole = size_bytes > 0 && size_bytes.is_multiple_of(4096);
    let blocks = whole.then_some(size_bytes / 4096);
    blocks.ok_or_else(|| Error::refused("a volume has a multiple of 4 KiB, and not 0"))
}

fn create(new: &NewVolume, pool: &Pool) -> Result<Volume, Error> {
    let name = VolumeName::for_new(&new.name).map_err(Error::refused)?;
    let blocks = blocks(new.size_bytes)?;
    let volume = pool.create_volume(name, blocks)?;
    if let Some(bytes) = new.reserve_bytes
        && let Err(error) = pool.reserve_for(volume.id(), bytes.div_ceil(4096))
    {
        pool.delete_volume(volume.id())?;
        return Err(error.into());
    }
    Ok(volume)
}

/// Connected clients keep the volume. New clients find the volume by the new name only.
fn rename(subject: &Subject, to: &str, pool: &Pool, exports: &Exports) -> Result<(), Error> {
    let name = VolumeName::for_new(to).map_err(Error::refused)?;
    pool.rename_volume(subject.find(pool)?.id(), name)?;
    exports.rename(&subject.name, to);
    let of_snapshot = format!("{}@", subject.name);
    for offer in exports.shown() {
        let Some(own) = offer.name.strip_prefix(&of_snapshot) else { continue };
        let renamed = format!("{to}@{own}");
        if pool.volume(&offer.name).is_none() && pool.volume(&renamed).is_some() {
            exports.rename(&offer.name, &renamed);
        }
    }
    Ok(())
}

/// A volume can grow at any time. Clients see the new size when they next connect or open the volume.
fn resize(subject: &Subject, to: &Size, pool: &Pool, exports: &Exports) -> Result<(), Error> {
    let volume = subject.find(pool)?;
    let (id, blocks) = (volume.id(), blocks(to.size_bytes)?);
    let had = volume.info().size.0 / 4096;
    if blocks >= had {
        return Ok(pool.resize_volume(id, blocks)?);
    }
    let beyond = Extent { volume: id, lba: blocks, blocks: had - blocks };
    let runs = |extent| {
        let runs = pool.look(move |view| view.engine.runs(extent, EXTENTS_MAX));
        runs.unwrap_or(Err(HostError::Failed))
    };
    subject.without_clients(exports, || {
        lost::agree(&subject.name, beyond, to.yes_destroy.as_deref(), runs)?;
        Ok(pool.resize_volume(id, blocks)?)
    })
}

fn limit(subject: &Subject, change: LimitChange, pool: &Pool) -> Result<(), Error> {
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
        Error::Refused(format!("{} {error}{remedy}", error.key()))
    })?;
    if let Some(bytes) = change.reserve_bytes {
        pool.reserve_for(volume, bytes.div_ceil(4096))?;
    }
    pool.set_limits(volume, limits);
    Ok(())
}

fn delete(subject: &Subject, pool: &Pool, exports: &Exports) -> Result<(), Error> {
    let volume = subject.find(pool)?.id();
    subject.without_clients(exports, || {
        pool.delete_volume(volume)?;
        exports.remove(&subject.name);
        Ok(())
    })
}

impl Subject {
    fn find(&self, pool: &Pool) -> Result<Volume, Error> {
        let Subject { name, .. } = self;
        pool.volume(name).ok_or_else(|| Error::Refused(format!("there is no volume `{name}`")))
    }

    /// Makes a change that disrupts clients. With connected clients the change is refused unless `despite_clients` is
    /// set. New clients are refused during the change.
    fn without_clients(
        &self,
        exports: &Exports,
        change: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Subject { name, despite_clients } = self;
        let clients = exports.hide(name);
        let result = if clients == 0 || *despite_clients {
            change()
        } else {
            Err(Error::InUse { volume: name.clone(), clients })
        };
        exports.show(name);
        result
    }

    pub(crate) fn url(&self) -> String {
        let query =
            if self.despite_clients { format!("?{DESPITE_CLIENTS}") } else { String::new() };
        format!("/volumes/{}{query}", escaped(&self.name))
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
            let error = error(body);
            assert!(error.contains(expected), "{body}: {error}");
        }
        for body in [
            "{\"name\": \"a\"}",
            "{\"media\": \"fast\"}",
            "{\"size_bytes\": 1}",
            "{\"iops\": 0, \"share\": 2}",
        ] {
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
            (Method::PUT, "/volumes/main"),
            (Method::DELETE, "/status"),
            (Method::DELETE, "/volumes/%4"),
            (Method::DELETE, "/volumes/%FF"),
        ] {
            assert_eq!(Change::asked_for(&method, url), None, "{method} {url}");
        }
    }
}
