//! `[pool]` and `[expert]`: keys of the engine, of the upkeep of a served pool, and of devices and connections that
//! nearly nobody sets.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use thermocline_engine::Tuning;
use thermocline_types::{Bytes, Setting, SettingKey, Time, settings};

use crate::storage::IoEngine;

const FILL_RATE: RangeInclusive<Bytes> = Bytes::mib(1)..=Bytes(1 << 40);
const SHARE: RangeInclusive<f64> = 0.0..=1.0;
pub(super) const THREADS: RangeInclusive<u32> = 1..=1024;
/// Default maximum of open files per process on Linux (`fs.nr_open`).
pub(super) const CONNECTIONS: RangeInclusive<u32> = 1..=1 << 20;
/// Up to a day. Chosen, not measured.
pub(super) const PATIENCE: RangeInclusive<u32> = 0..=86_400;

settings! {
    /// Settings of an open pool beside those of its engine; `None` is the default.
    pub struct UpkeepSettings {
        fill_rate: Bytes => FILL_RATE, common, "200MiB",
            "Bytes per second that are copied to fill a side of a mirrored pair, or a member of a striped group, that \
             is new or lacks something.";
        io_timeout: Time, common, "30s",
            "How long a device may take for a command, up to 1000s; 0: any time. A longer one is reported, and a member \
             of a mirror or raid5 group that takes longer is given up as if it had failed.";
        scrub_every: Interval, common, "0",
            "How long after the end of a scrub the served pool scrubs itself again, such as 30d or 12h; 0: never. A \
             scrub is slow, leaves the devices to clients, and writes again data that a member of a mirror or raid5 \
             group holds wrong.";
        spare: f64 => 0.0..=0.9, common, "0.1",
            "Share of the capacity that a volume without size leaves free for garbage collection, 0 to 0.9.";
        full_warning: f64 => SHARE, common, "0.8",
            "Share of the capacity in use, 0 to 1, at which the pool is nearly full: `serve` prints a line, and \
             `status`, `doctor` and the metrics report it.";
        full_critical: f64 => SHARE, common, "0.95",
            "The share at which they report that little is left.";
        layer: ServedLayer, common, "log",
            "What serves the blocks of a simulated drive: log (the pool), raw (the drive itself, without a pool) or tag \
             (the drive itself; each volume writes to a placement handle of its own; tag:auto: the placement chooses \
             the handles). raw and tag show what the drive writes without the log.";
        service_days: u32 => 1..=u32::MAX, expert, "1825",
            "Days for which devices are to last whose endurance is stated.";
    }
}

settings! {
    /// Settings of devices and connections in `[expert]`; `None` is the default.
    pub struct TransferSettings {
        io: IoEngine, expert, "auto",
            "Transfers of devices that do not state their own: by io_uring (uring), by threads, or inline, each done \
             before anything else is; auto takes inline for files in memory (tmpfs), else io_uring where there is one.";
        threads: u32 => THREADS, expert, "16",
            "Transfers at once of io = \"threads\".";
        direct: bool, expert, "false" ("true for block devices"),
            "Whether to go past the system's cache.";
        discard: bool, expert, "false" ("true for block devices"),
            "Whether units that are emptied give their space back: a block device is told what it need not keep \
             (discard), a file gets a hole. With holes the file system has more to do, and flushes wait for it.";
        write_streams: u32 => 0..=255, expert, "0" ("all of the device"),
            "Write streams of a block device to use at most (queue/max_write_streams, Linux 6.16, with io_uring): placement \
             handles of an FDP drive. Each class of data goes to a stream, metadata to the last one. 0: none.";
        connections: u32 => CONNECTIONS, expert, "128",
            "Connections of clients at once.";
        patience: u32 => PATIENCE, expert, "10",
            "Seconds that clients have for the end of their requests at a stop, and the device for closing the pool.";
    }
}

/// What serves the blocks of a simulated drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServedLayer {
    /// The pool.
    #[default]
    Log,
    /// The drive itself.
    Raw,
    /// The drive itself; each volume has a placement handle.
    Tag,
    /// The drive itself; the placement of pools chooses the handles.
    TagAuto,
}

impl ServedLayer {
    const ALL: [ServedLayer; 4] =
        [ServedLayer::Log, ServedLayer::Raw, ServedLayer::Tag, ServedLayer::TagAuto];

    /// Its name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ServedLayer::Log => "log",
            ServedLayer::Raw => "raw",
            ServedLayer::Tag => "tag",
            ServedLayer::TagAuto => "tag:auto",
        }
    }
}

impl Setting for ServedLayer {
    fn read(text: &str) -> Result<ServedLayer, String> {
        let named = ServedLayer::ALL.into_iter().find(|one| one.name() == text);
        let names = || ServedLayer::ALL.map(ServedLayer::name).join(", ");
        named.ok_or_else(|| format!("`{text}` is none of {}", names()))
    }

    fn show(&self) -> String {
        self.name().to_owned()
    }
}

/// From the end of one scrub to the begin of the next: whole hours; zero is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval(Duration);

/// Seconds between two scrubs. Chosen.
const INTERVAL: RangeInclusive<u64> = 3600..=3650 * 86_400;

impl Setting for Interval {
    fn read(text: &str) -> Result<Interval, String> {
        let units = [("h", 3600), ("d", 86_400)];
        let part = |(unit, seconds): &(&str, u64)| {
            let number: u64 = text.trim().strip_suffix(unit)?.trim().parse().ok()?;
            number.checked_mul(*seconds)
        };
        let seconds = if text.trim() == "0" { Some(0) } else { units.iter().find_map(part) };
        let fits = seconds.filter(|seconds| *seconds == 0 || INTERVAL.contains(seconds));
        fits.map(|seconds| Interval(Duration::from_secs(seconds))).ok_or_else(|| {
            format!("`{text}` is none of 0, 1h to 87600h and 1d to 3650d, such as 30d")
        })
    }

    fn show(&self) -> String {
        match self.0.as_secs() {
            0 => "0".to_owned(),
            seconds => format!("{}h", seconds / 3600),
        }
    }
}

impl Setting for IoEngine {
    fn read(text: &str) -> Result<IoEngine, String> {
        let named = IoEngine::ALL.into_iter().find(|one| one.name() == text);
        let names = || IoEngine::ALL.map(IoEngine::name).join(", ");
        named.ok_or_else(|| format!("`{text}` is none of {}", names()))
    }

    fn show(&self) -> String {
        self.name().to_owned()
    }
}

/// How a pool works; `None` is the default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolSettings {
    /// Settings of the engine.
    pub engine: Tuning,
    /// Settings of its upkeep while it is open.
    pub upkeep: UpkeepSettings,
}

/// Chosen: as Linux gives block devices (`/sys/block/*/queue/io_timeout`).
const IO_TIMEOUT: Time = Time::seconds(30);

impl PoolSettings {
    /// How long a device may take for a command; `None`: any time.
    #[must_use]
    pub fn io_timeout(&self) -> Option<Duration> {
        let limit = self.upkeep.io_timeout.unwrap_or(IO_TIMEOUT);
        (limit > Time(0)).then(|| Duration::from_nanos(limit.as_nanos()))
    }

    /// What serves the blocks.
    #[must_use]
    pub fn layer(&self) -> ServedLayer {
        self.upkeep.layer.unwrap_or_default()
    }

    /// Every key that is stated, with its value as text.
    pub(super) fn stated(&self) -> Vec<(&'static str, String)> {
        [self.engine.stated(), self.upkeep.stated()].concat()
    }

    /// From the end of a scrub of the served pool to the begin of the next; `None`: it is never scrubbed.
    #[must_use]
    pub fn scrub_every(&self) -> Option<Duration> {
        self.upkeep.scrub_every.map(|every| every.0).filter(|every| !every.is_zero())
    }
}

/// Keys of `[expert]`.
#[derive(Clone, Debug, Default)]
pub(super) struct ExpertSettings {
    pub pool: PoolSettings,
    pub transfers: TransferSettings,
}

/// A section of the file whose keys are tables of settings.
pub(super) trait Section: Default {
    fn keys() -> Vec<SettingKey>;
    fn set(&mut self, key: &str, text: &str) -> Option<Result<(), String>>;
}

fn keys_of_pools() -> impl Iterator<Item = SettingKey> {
    Tuning::KEYS.iter().chain(UpkeepSettings::KEYS).copied()
}

impl Section for PoolSettings {
    fn keys() -> Vec<SettingKey> {
        keys_of_pools().filter(|key| !key.expert).collect()
    }

    fn set(&mut self, key: &str, text: &str) -> Option<Result<(), String>> {
        self.engine.set(key, text).or_else(|| self.upkeep.set(key, text))
    }
}

impl Section for ExpertSettings {
    fn keys() -> Vec<SettingKey> {
        keys_of_pools()
            .filter(|key| key.expert)
            .chain(TransferSettings::KEYS.iter().copied())
            .collect()
    }

    fn set(&mut self, key: &str, text: &str) -> Option<Result<(), String>> {
        if PoolSettings::keys().iter().any(|common| common.name == key) {
            return Some(Err("belongs in [pool]".to_owned()));
        }
        self.pool.set(key, text).or_else(|| self.transfers.set(key, text))
    }
}

/// Reads a section; errors name the key.
pub(super) fn section<'de, D: Deserializer<'de>, S: Section>(
    deserializer: D,
) -> Result<S, D::Error> {
    struct Keys<S>(PhantomData<S>);
    impl<'de, S: Section> Visitor<'de> for Keys<S> {
        type Value = S;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table of settings")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<S, A::Error> {
            let mut section = S::default();
            while let Some(key) = map.next_key::<String>()? {
                map.next_value_seed(Put { section: &mut section, key: &key })?;
            }
            Ok(section)
        }
    }
    deserializer.deserialize_map(Keys(PhantomData))
}

struct Put<'a, S> {
    section: &'a mut S,
    key: &'a str,
}

impl<'de, S: Section> DeserializeSeed<'de> for Put<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let text = match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => text,
            value @ (toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_)) => {
                value.to_string()
            }
            _ => return Err(D::Error::custom("must be a text, a number, or true or false")),
        };
        self.section
            .set(self.key, &text)
            .unwrap_or_else(|| {
                let names: Vec<_> = S::keys().iter().map(|key| format!("`{}`", key.name)).collect();
                Err(format!("unknown field `{}`, there are {}", self.key, names.join(", ")))
            })
            .map_err(D::Error::custom)
    }
}

/// Characters per line of the example, and column of the comment behind a value.
const WIDTH: usize = 120;
const COLUMN: usize = 32;

/// The keys of a section as a settings file has them, each behind a `#` with its text.
pub(super) fn example<S: Section>() -> String {
    S::keys().iter().map(explained).collect()
}

fn explained(key: &SettingKey) -> String {
    let mut text = String::new();
    let mut line = "#".to_owned();
    for word in key.text.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            text += &format!("{line}\n");
            line = "#".to_owned();
        }
        line += &format!(" {word}");
    }
    let SettingKey { name, value, default, .. } = key;
    let bare = value.parse::<f64>().is_ok() || value.parse::<bool>().is_ok();
    let quote = if bare { "" } else { "\"" };
    let assignment = format!("# {name} = {quote}{value}{quote}");
    let behind = if default.is_empty() { String::new() } else { format!(" # default: {default}") };
    format!("{text}{line}\n{assignment:<COLUMN$}{behind}").trim_end().to_owned() + "\n"
}
