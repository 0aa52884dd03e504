//! Applications: workloads with a structure of their own, described by keys, as one list.

use std::fmt;

use thermocline_types::{Bytes, Request};

use super::btree::{BtreeSpec, Database};
use super::hse::{HseSpec, hse_store};
use super::keys::{Key, Keyed};
use super::kvcache::{Cache, KvCacheSpec};
use super::llm::{LlmCache, LlmSpec};
use super::lsm::{LsmFacts, LsmSpec, Store};
use super::objects::{ObjectStore, ObjectsSpec};
use super::{Error, Form, Options};

/// An application with its keys.
#[derive(Clone, Debug, PartialEq)]
pub enum AppSpec {
    /// A log-structured merge store.
    Lsm(Box<LsmSpec>),
    /// A database of pages.
    Btree(Box<BtreeSpec>),
    /// A cache of keys and values.
    KvCache(Box<KvCacheSpec>),
    /// A store of whole objects.
    Objects(Box<ObjectsSpec>),
    /// A tiered key-value store.
    Hse(Box<HseSpec>),
    /// A cache of a language model.
    Llm(Box<LlmSpec>),
}

/// Description of an application.
#[derive(Clone, Copy, Debug)]
pub struct AppInfo {
    /// How it is written.
    pub form: Form,
    /// Its keys, in the order of listings.
    pub keys: &'static [Key],
}

const fn info<K: Keyed>() -> AppInfo {
    AppInfo { form: K::FORM, keys: K::KEYS }
}

/// Every application, in the order of listings.
pub const APPLICATIONS: [AppInfo; 6] = [
    info::<LsmSpec>(),
    info::<BtreeSpec>(),
    info::<KvCacheSpec>(),
    info::<ObjectsSpec>(),
    info::<HseSpec>(),
    info::<LlmSpec>(),
];

/// The volume of an application where none is given (chosen: a drive of minutes, not hours).
pub(super) const APP_SPAN: Bytes = Bytes::gib(16);

impl AppInfo {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.form.syntax.split('[').next().unwrap_or_default()
    }

    /// The application called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static AppInfo> {
        APPLICATIONS.iter().find(|app| app.name().eq_ignore_ascii_case(name))
    }
}

/// Reads keys from one or the other kind of description.
trait From<'a> {
    fn read<K: Keyed>(&self) -> Result<K, Error>;
}

impl From<'_> for &str {
    fn read<K: Keyed>(&self) -> Result<K, Error> {
        K::read(self)
    }
}

impl From<'_> for &toml::Table {
    fn read<K: Keyed>(&self) -> Result<K, Error> {
        K::from_table(self)
    }
}

impl AppSpec {
    /// Reads `NAME` or `NAME:KEY=VALUE,...`; `None` if no application has the name.
    pub(super) fn parse(text: &str) -> Option<Result<AppSpec, Error>> {
        AppSpec::of(text.trim().split(':').next()?, &text)
    }

    /// Reads the keys of a TOML table; `None` if no application is called `name`.
    pub(super) fn from_table(name: &str, table: &toml::Table) -> Option<Result<AppSpec, Error>> {
        AppSpec::of(name, &table)
    }

    fn of<'a>(name: &str, from: &impl From<'a>) -> Option<Result<AppSpec, Error>> {
        Some(match AppInfo::named(name)?.name() {
            "lsm" => from.read().map(|spec| AppSpec::Lsm(Box::new(spec))),
            "btree" => from.read().map(|spec| AppSpec::Btree(Box::new(spec))),
            "kvcache" => from.read().map(|spec| AppSpec::KvCache(Box::new(spec))),
            "objects" => from.read().map(|spec| AppSpec::Objects(Box::new(spec))),
            "hse" => from.read().map(|spec| AppSpec::Hse(Box::new(spec))),
            "llm" => from.read().map(|spec| AppSpec::Llm(Box::new(spec))),
            other => unreachable!("{other} is listed and cannot be read"),
        })
    }

    /// The description of the application.
    #[must_use]
    pub fn info(&self) -> &'static AppInfo {
        let index = match self {
            AppSpec::Lsm(_) => 0,
            AppSpec::Btree(_) => 1,
            AppSpec::KvCache(_) => 2,
            AppSpec::Objects(_) => 3,
            AppSpec::Hse(_) => 4,
            AppSpec::Llm(_) => 5,
        };
        &APPLICATIONS[index]
    }

    /// The application at work on all of the span, from `seed`.
    ///
    /// # Errors
    /// If keys contradict each other or the span, or `options` ask for reads or trims that it has of its own.
    pub(super) fn start(
        &self,
        options: &Options,
        seed: u64,
    ) -> Result<Box<dyn Application>, Error> {
        let name = self.info().name();
        for (kind, share) in [("read", options.read_share), ("trim", options.trim_share)] {
            if share > 0.0 {
                let what = format!(
                    "the {kind} share is {share}, and {name} has reads and trims of its own: `lab list {name}` shows the \
                     keys, of lsm lsm:reads=on, lsm:fs.discard=on"
                );
                return Err(Error::Options(what));
            }
        }
        let (span, size) = (options.span, options.io_size);
        Ok(match self {
            AppSpec::Lsm(spec) => Box::new(Store::new(spec, span, size, seed)?),
            AppSpec::Btree(spec) => Box::new(Database::new(spec, span, size, seed)?),
            AppSpec::KvCache(spec) => Box::new(Cache::new(spec, span, size, seed)?),
            AppSpec::Objects(spec) => Box::new(ObjectStore::new(spec, span, size, seed)?),
            AppSpec::Hse(spec) => Box::new(hse_store(spec, span, size, seed)?),
            AppSpec::Llm(spec) => Box::new(LlmCache::new(spec, span)?),
        })
    }
}

/// The canonical text, which reads back as the same workload.
impl fmt::Display for AppSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AppSpec::Lsm(spec) => spec.fmt(f),
            AppSpec::Btree(spec) => spec.fmt(f),
            AppSpec::KvCache(spec) => spec.fmt(f),
            AppSpec::Objects(spec) => spec.fmt(f),
            AppSpec::Hse(spec) => spec.fmt(f),
            AppSpec::Llm(spec) => spec.fmt(f),
        }
    }
}

/// The volume is too small for an application's writes; the message names the keys to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct VolumeFull(pub(super) String);

/// What an application's file system takes of its volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppRoom {
    /// Bytes in use at most so far, what is set aside for metadata included.
    pub peak: Bytes,
    /// Whether what is left is discarded.
    pub discards: bool,
}

/// An application at work: its requests, without end, on a volume that begins at 0.
pub(super) trait Application: fmt::Debug {
    /// The next request.
    fn next(&mut self) -> Result<Request, VolumeFull>;

    /// The kinds of its files; the directory of a request's stream is an index into them, from 1.
    fn directories(&self) -> &'static [&'static str];

    /// Space taken by the application's file system; `None` without a file system.
    fn room(&self) -> Option<AppRoom> {
        None
    }

    /// Figures of an LSM store so far.
    fn lsm_facts(&self) -> Option<LsmFacts> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_application_is_read_by_its_name_and_says_it() {
        for app in &APPLICATIONS {
            let spec = AppSpec::parse(app.name()).expect("listed").expect("valid");
            assert_eq!(spec.info().name(), app.name());
            assert_eq!(spec.to_string(), app.name());
            assert!(app.form.description.contains(&format!("lab list {}", app.name())));
        }
        assert!(AppSpec::parse("zipf:1").is_none());
    }
}
