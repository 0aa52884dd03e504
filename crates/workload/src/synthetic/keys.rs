//! Keys of applications: what they have in common, and how their values are read.

use std::fmt;

use thermocline_types::{Bytes, Time};

use super::{Error, Form};
use crate::filesystem::{Allocator, FileSystemOptions};

/// A setting of an application.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// How it is written.
    pub name: &'static str,
    /// Default value.
    pub default: &'static str,
    /// Meaning of the key.
    pub about: &'static str,
}

pub(super) const fn key(name: &'static str, default: &'static str, about: &'static str) -> Key {
    Key { name, default, about }
}

/// The keys of the file system under an application, in the order of listings (chosen, not measured).
pub(super) const FS_KEYS: [Key; 7] = [
    key(
        "fs.allocator",
        "next",
        "where a file looks for room: first, next (where any file ended), or roam (where it ended itself)",
    ),
    key("fs.extent", "1MiB", "room that a file takes at a time"),
    key("fs.turn", "1MiB", "written by one file until another has its turn"),
    key("fs.block", "4KiB", "granule of files"),
    key(
        "fs.metadata",
        "0",
        "share of the bytes written that are nodes of metadata, copied on write, 0 to 0.5",
    ),
    key(
        "fs.node",
        "16KiB",
        "size of such a node; 1 % of the volume, and 64 nodes at least, is set aside for them",
    ),
    key("fs.discard", "on", "whether deleted files are discarded"),
];

/// Settings as given, in the order given.
pub(super) type Given = Vec<(String, String)>;

/// An application that is described by keys.
pub(super) trait Keyed: Sized {
    /// Syntax; the name is the part before the bracket.
    const FORM: Form;
    /// Its keys, in the order of listings.
    const KEYS: &'static [Key];

    /// Nothing set, not even the defaults.
    fn blank() -> Self;

    /// Sets a key to a value, or says what would be right.
    fn change(&mut self, name: &str, value: &str) -> Result<(), String>;

    /// Settings so far.
    fn given(&mut self) -> &mut Given;

    /// Its name.
    fn name() -> &'static str {
        Self::FORM.syntax.split('[').next().unwrap_or_default()
    }

    /// Every key at its default.
    fn new() -> Self {
        let mut spec = Self::blank();
        for key in Self::KEYS {
            spec.change(key.name, key.default).expect("the defaults are valid");
        }
        spec
    }

    /// Sets `name` to `value`.
    fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let (name, value) = (name.trim(), value.trim().trim_matches('"'));
        let known = Self::KEYS.iter().any(|key| key.name == name);
        let done = if known { self.change(name, value) } else { Err(unknown::<Self>(name)) };
        done.map_err(|what| wrong(Self::name(), name, value.to_owned(), what))?;
        let given = self.given();
        given.retain(|(other, _)| other != name);
        given.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// Reads the keys of a TOML table, in which `fs.extent` is `extent` of the table `fs`.
    fn from_table(table: &toml::Table) -> Result<Self, Error> {
        let mut spec = Self::new();
        set_all(&mut spec, "", table)?;
        Ok(spec)
    }

    /// Reads `NAME` or `NAME:KEY=VALUE,...`.
    fn read(text: &str) -> Result<Self, Error> {
        let mut spec = Self::new();
        let Some((_, settings)) = text.trim().split_once(':') else { return Ok(spec) };
        for setting in settings.split(',').filter(|setting| !setting.trim().is_empty()) {
            let Some((name, value)) = setting.split_once('=') else {
                let what = format!("`{setting}` is no KEY=VALUE");
                let syntax = Self::FORM.syntax;
                return Err(Error::Parameter { text: text.to_owned(), what, syntax });
            };
            spec.set(name, value)?;
        }
        Ok(spec)
    }
}

/// The error of a key of the application called `app`.
pub(super) fn wrong(app: &str, name: &str, value: String, what: String) -> Error {
    Error::Key { app: app.to_owned(), key: name.to_owned(), value, what }
}

fn unknown<K: Keyed>(given: &str) -> String {
    let names = K::KEYS.iter().map(|key| key.name);
    format!("there is no such key; {}", thermocline_types::choices(given, names))
}

fn set_all<K: Keyed>(spec: &mut K, prefix: &str, table: &toml::Table) -> Result<(), Error> {
    for (name, value) in table {
        let name = format!("{prefix}{name}");
        match value {
            toml::Value::Table(inner) => set_all(spec, &format!("{name}."), inner)?,
            toml::Value::String(text) => spec.set(&name, text)?,
            toml::Value::Boolean(is) => spec.set(&name, if *is { "on" } else { "off" })?,
            other => spec.set(&name, &other.to_string())?,
        }
    }
    Ok(())
}

/// The canonical text, which reads back as the same workload: the settings in the order given.
pub(super) fn show(name: &str, given: &Given, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(name)?;
    for (index, (name, value)) in given.iter().enumerate() {
        write!(f, "{}{name}={value}", if index == 0 { ':' } else { ',' })?;
    }
    Ok(())
}

/// A size in bytes, or per cent of the volume.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// So many bytes.
    Bytes(Bytes),
    /// Per cent of the volume.
    Percent(f64),
}

impl Default for Amount {
    fn default() -> Self {
        Amount::Bytes(Bytes::ZERO)
    }
}

impl Amount {
    /// In bytes on a `volume`, rounded to the nearest.
    #[must_use]
    pub fn of(self, volume: Bytes) -> Bytes {
        match self {
            Amount::Bytes(bytes) => bytes,
            Amount::Percent(percent) => Bytes((volume.as_f64() * percent / 100.0).round() as u64),
        }
    }
}

/// Share of the volume set aside for metadata, and the fewest nodes (chosen, not measured).
const METADATA_AREA: f64 = 0.01;
const METADATA_NODES: u64 = 64;

/// The largest request where none is given (chosen: of the order of what Linux sends to drives at most, 1280 KiB).
pub(super) const REQUEST: Bytes = Bytes::mib(1);

/// What [`FS_KEYS`] say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FsKeys {
    pub allocator: Allocator,
    pub extent: Bytes,
    pub turn: Bytes,
    pub block: Bytes,
    pub metadata: f64,
    pub node: Bytes,
    pub discard: bool,
}

impl FsKeys {
    /// Sets the key `name` of these, which [`Keyed::set`] knows to be there.
    pub fn change(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "fs.allocator" => self.allocator = value.parse()?,
            "fs.extent" => self.extent = size(value, 4096)?,
            "fs.turn" => self.turn = size(value, 4096)?,
            "fs.block" => self.block = size(value, 512)?,
            "fs.metadata" => {
                self.metadata = number(value, "0 to 0.5", |x| (0.0..=0.5).contains(&x))?;
            }
            "fs.node" => self.node = size(value, 512)?,
            "fs.discard" => self.discard = on(value)?,
            _ => return Err("there is no such key".to_owned()),
        }
        Ok(())
    }

    /// Checks what keys say of each other, for the application called `app`.
    pub fn check(&self, app: &str) -> Result<(), Error> {
        for (key, size, granule) in [
            ("fs.block", self.block, Bytes::SECTOR),
            ("fs.extent", self.extent, self.block),
            ("fs.node", self.node, Bytes::SECTOR),
        ] {
            if !size.0.is_multiple_of(granule.0) {
                let of = if granule == Bytes::SECTOR {
                    "512 B".to_owned()
                } else {
                    format!("fs.block, {granule}")
                };
                let what = format!("must be a multiple of {of}");
                return Err(wrong(app, key, size.to_string(), what));
            }
        }
        Ok(())
    }

    /// `bytes` in whole blocks, one at least.
    pub fn whole(&self, bytes: Bytes) -> u64 {
        bytes.0.next_multiple_of(self.block.0).max(self.block.0)
    }

    /// The file system on a `volume`, with requests of at most `request` bytes.
    pub fn options(&self, volume: Bytes, request: Option<Bytes>) -> FileSystemOptions {
        let nodes = (volume.as_f64() * METADATA_AREA / self.node.as_f64()) as u64;
        let request = request.unwrap_or(REQUEST).0 / self.block.0 * self.block.0;
        FileSystemOptions {
            allocator: self.allocator,
            extent: self.extent,
            block: self.block,
            metadata_share: self.metadata,
            metadata_area: Bytes(nodes.max(METADATA_NODES) * self.node.0),
            node: self.node,
            discard: self.discard,
            request: Bytes(request.max(self.block.0)),
        }
    }
}

pub(super) fn skew(text: &str) -> Result<f64, String> {
    match text.split_once(':') {
        None if text == "uniform" => Ok(0.0),
        Some(("zipf", theta)) => {
            number(theta, "uniform or zipf:THETA, THETA 0 or above", |x| x >= 0.0)
        }
        _ => Err("must be uniform or zipf:THETA".to_owned()),
    }
}

pub(super) fn amount(text: &str) -> Result<Amount, String> {
    match text.strip_suffix('%') {
        Some(percent) => number(percent, "0 % or above", |x| x >= 0.0).map(Amount::Percent),
        None => size(text, 0).map(Amount::Bytes),
    }
}

pub(super) fn size(text: &str, least: u64) -> Result<Bytes, String> {
    let bytes: Bytes =
        text.parse().map_err(|error: thermocline_types::ParseBytesError| error.to_string())?;
    if bytes.0 < least { Err(format!("must be at least {}", Bytes(least))) } else { Ok(bytes) }
}

pub(super) fn number(text: &str, range: &str, valid: impl Fn(f64) -> bool) -> Result<f64, String> {
    let found = text.trim().parse().ok().filter(|value: &f64| value.is_finite() && valid(*value));
    found.ok_or_else(|| format!("must be {range}"))
}

/// A share, 0 to 1.
pub(super) fn share(text: &str) -> Result<f64, String> {
    number(text, "0 to 1", |x| (0.0..=1.0).contains(&x))
}

pub(super) fn count(text: &str, least: usize) -> Result<usize, String> {
    let found = text.parse().ok().filter(|count| (least..=65_536).contains(count));
    found.ok_or_else(|| format!("must be a number from {least} to 65536"))
}

/// A time with its unit.
pub(super) fn time(text: &str) -> Result<Time, String> {
    text.parse().map_err(|error: thermocline_types::ParseTimeError| error.to_string())
}

pub(super) fn on(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("must be on or off".to_owned()),
    }
}

/// One of several named values.
pub(super) fn one_of<T: Copy>(text: &str, all: &[(&str, T)]) -> Result<T, String> {
    all.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        format!("must be one of {}", names.join(", "))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A value of `key` that is not its default.
    fn other(key: &Key) -> &'static str {
        match key.default {
            "on" => "off",
            "off" => "on",
            "tiers" => "levels",
            "innodb" => "wiredtiger",
            "fifo" => "lru",
            "random" => "oldest",
            "uniform" => "zipf:0.7",
            "next" => "roam",
            "70b" => "8b",
            "probation" => "all",
            text if text.starts_with("zipf") => "uniform",
            "0" if ["fs.metadata", "beside"].contains(&key.name) => "0.25",
            text if text.contains('.') => "0.125",
            _ if key.name == "think" => "5ms",
            text if text.bytes().all(|byte| byte.is_ascii_digit()) => "7",
            _ => "3MiB",
        }
    }

    /// Each key of an application changes something, and reads back from text and table.
    pub(in crate::synthetic) fn keys_are_taken_and_read_back<K>()
    where
        K: Keyed + Clone + PartialEq + fmt::Debug + fmt::Display,
    {
        let mut all = K::new();
        for key in K::KEYS {
            let before = all.clone();
            all.change(key.name, other(key)).expect(key.name);
            assert_ne!(all, before, "{}", key.name);
            let text = format!("{}:{}={}", K::name(), key.name, other(key));
            assert_eq!(K::read(&text).expect("valid").to_string(), text);
            let table = format!("{} = '{}'", key.name, other(key)).parse().expect("TOML");
            assert_eq!(K::from_table(&table).expect("valid").to_string(), text);
            assert!(!key.about.is_empty());
        }
        assert_eq!(K::read(K::name()).expect("valid"), K::new());
        let error = K::new().set("none", "1").unwrap_err().to_string();
        assert!(error.contains("there is no such key; there are"), "{error}");
    }
}
