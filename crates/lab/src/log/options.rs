//! Settings of the log, as `log.KEY=VALUE` and `pool.KEY=VALUE` on the command line.

use std::fmt;
use std::str::FromStr;

use thermocline_engine::Tuning;
use thermocline_format::{LogicalBlock, RaidLevel, VolumeMedia};
use thermocline_types::{Bytes, choices};

use super::payload::PACKS;

/// A group of drives of one kind: redundancy and number of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupOption {
    /// The redundancy.
    pub level: RaidLevel,
    /// Number of members.
    pub members: usize,
    /// Bytes of a piece; by default chosen by the pool.
    pub piece: Option<Bytes>,
}

impl GroupOption {
    /// Number of data members in a row: the group has the capacity of this many members.
    #[must_use]
    pub fn shares(&self) -> usize {
        self.members - self.level.parity()
    }
}

impl fmt::Display for GroupOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level.name(), self.members)?;
        self.piece.map_or(Ok(()), |piece| write!(f, ":{}", piece.0))
    }
}

impl FromStr for GroupOption {
    type Err = String;

    fn from_str(text: &str) -> Result<GroupOption, String> {
        let mut parts = text.split(':');
        let (name, members) = (parts.next().unwrap_or_default(), parts.next());
        let (piece, rest) = (parts.next(), parts.next());
        let piece = piece.map(size).transpose()?;
        let levels = [RaidLevel::Parity, RaidLevel::Striped, RaidLevel::Mirrored];
        let level = levels.into_iter().find(|level| level.name() == name);
        let level = level.ok_or_else(|| {
            format!("`{text}` is no group; there are raid5:4, raid0:2, mirror: a level and its number of members")
        })?;
        let (least, most) = (*level.members().start(), *level.members().end());
        let members = match members {
            None if least == most => Some(least),
            None => None,
            Some(number) => number.parse().ok(),
        };
        let members = members.filter(|members| level.members().contains(members));
        let members = members.filter(|_| rest.is_none());
        members
            .map(|members| GroupOption { level, members, piece })
            .ok_or_else(|| format!("`{text}`: write {name}:N with {least} to {most} members"))
    }
}

/// Settings of the log; a missing setting has the pool's default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogOptions {
    /// Size of the units that a drive without zones is cut into.
    pub unit: Option<Bytes>,
    /// Size of the volume, which is thin; at least what the workload addresses.
    pub volume: Option<Bytes>,
    /// Smallest piece that the log reads or writes.
    pub logical_block: Option<LogicalBlock>,
    /// Share of the blocks of a workload that pack into the slack of a header.
    pub packs: Option<f64>,
    /// Where the volume's blocks are to be, under `tier`.
    pub media: Option<VolumeMedia>,
    /// The group that the device for capacity is.
    pub group: Option<GroupOption>,
    /// The group that the fast device is, under `tier`.
    pub fast_group: Option<GroupOption>,
    /// Settings of the engine.
    pub engine: Tuning,
}

impl LogOptions {
    /// Keys of the lab's own under `log.`, each with a line about it.
    const OWN: [(&'static str, &'static str); 7] = [
        ("unit", "size of the units that a drive without zones is cut into"),
        ("volume", "size of the volume, which is thin (default: what the workload addresses)"),
        ("logical_block", "smallest piece that is read or written: 512 or 4096 (default)"),
        ("packs", "share of blocks that pack into the slack of a chunk's header, 0 to 1"),
        (
            "media",
            "under tier, where the volume's blocks are to be: auto (default), fast, capacity",
        ),
        (
            "group",
            "a group of drives instead of one: mirror, raid0:N, raid5:N, raid5:N:PIECE; sizes are those of all N drives",
        ),
        ("fast_group", "under tier, the same of the fast drive"),
    ];

    /// Every key with a text about it: the lab's own as `log.KEY`, the engine's as `pool.KEY`, as settings files of
    /// pools call them.
    #[must_use]
    pub fn keys() -> Vec<(String, &'static str)> {
        let own = LogOptions::OWN.iter().map(|(key, about)| (format!("log.{key}"), *about));
        let engine = Tuning::KEYS.iter().map(|key| (format!("pool.{}", key.name), key.text));
        own.chain(engine).collect()
    }

    /// The present name of `key`: what the engine knows was `log.KEY` or `log.gc.KEY` before.
    #[must_use]
    pub(crate) fn canonical(text: &str) -> String {
        let engine = |rest: &str| {
            let key = rest.split('=').next().unwrap_or_default().trim();
            Tuning::KEYS.iter().any(|known| known.name == key)
        };
        let rest = text.strip_prefix("log.").map(|rest| rest.strip_prefix("gc.").unwrap_or(rest));
        match rest.filter(|rest| engine(rest)) {
            Some(rest) => format!("pool.{rest}"),
            None => text.to_owned(),
        }
    }

    /// The share of blocks that pack.
    #[must_use]
    pub fn packs(&self) -> f64 {
        self.packs.unwrap_or(PACKS)
    }

    /// Sets `log.KEY`, or `pool.KEY` of the engine, to `value`.
    ///
    /// # Errors
    /// A sentence that states the valid values.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "log.unit" => self.unit = Some(size(value)?),
            "log.volume" => self.volume = Some(size(value)?),
            "log.logical_block" => self.logical_block = Some(logical_block(value)?),
            "log.packs" => self.packs = Some(share(value)?),
            "log.media" => self.media = Some(read(value)?),
            "log.group" => self.group = Some(read(value)?),
            "log.fast_group" => self.fast_group = Some(read(value)?),
            _ => {
                let value = value.trim_matches('"');
                let set = key.strip_prefix("pool.").and_then(|key| self.engine.set(key, value));
                return set.unwrap_or_else(|| {
                    let keys = LogOptions::keys();
                    let keys = keys.iter().map(|(key, _)| key.as_str());
                    Err(format!("{key} is unknown; {}", choices(key, keys)))
                });
            }
        }
        Ok(())
    }
}

fn read<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn size(text: &str) -> Result<Bytes, String> {
    match read(text.trim_matches('"'))? {
        Bytes(0..4096) => Err(format!("{text} must be at least 4KiB")),
        bytes => Ok(bytes),
    }
}

fn logical_block(text: &str) -> Result<LogicalBlock, String> {
    let bytes: Bytes = read(text.trim_matches('"'))?;
    let found = bytes.0.try_into().ok().and_then(LogicalBlock::from_bytes);
    found.ok_or_else(|| format!("{text} must be 512 or 4096"))
}

fn share(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    found.ok_or_else(|| format!("`{text}` must be a share from 0 to 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_key_is_taken_and_others_are_not() {
        let value = |key: &str| match key {
            "log.logical_block" => "512",
            "log.packs" => "0.25",
            "log.media" => "fast",
            "log.group" => "raid5:4",
            "log.fast_group" => "mirror",
            key => Tuning::KEYS
                .iter()
                .find(|one| key[5..] == *one.name)
                .map_or("2MiB", |one| one.value),
        };
        let mut options = LogOptions::default();
        for (key, _) in LogOptions::keys() {
            let before = options.clone();
            options.set(&key, value(&key)).unwrap();
            assert_ne!(options, before, "{key}");
        }
        let stated = options.engine.stated();
        assert_eq!(stated.len(), Tuning::KEYS.len());
        let mut again = LogOptions::default();
        for (key, value) in stated {
            again.set(&format!("pool.{key}"), &value).unwrap();
        }
        assert_eq!(again.engine, options.engine, "what is shown is read as the same");
        for (key, value, complaint) in [
            ("log.units", "1", "pool.read_plan"),
            ("pool.read_plan", "all", "basic, segment, cost"),
            ("pool.placement", "sepgcc", "none, sepgc"),
            ("pool.victim", "oldest", "greedy"),
            ("pool.write_depth", "0", "1 to 1024"),
            ("pool.write_cache", "yes", "true or false"),
            ("log.packs", "1.5", "0 to 1"),
            ("pool.high_watermark", "high", "must be a number"),
            ("pool.high_watermark", "1.5", "must be 0 to 1"),
            ("pool.max_age", "0", "must be 1 to"),
            ("pool.max_age", "4294967296", "at most 4294967295"),
            ("log.unit", "512", "at least 4KiB"),
            ("log.logical_block", "520", "512 or 4096"),
            ("log.group", "raid6:5", "raid5:4, raid0:2, mirror"),
            ("log.group", "raid5", "raid5:N with 3 to 16"),
            ("log.group", "raid5:2", "raid5:N with 3 to 16"),
            ("log.fast_group", "mirror:3", "mirror:N with 2 to 2"),
        ] {
            let error = options.set(key, value).unwrap_err();
            assert!(error.contains(complaint), "{key}={value}: {error}");
            options = LogOptions::default();
        }
    }

    #[test]
    fn former_names_are_read() {
        let now = |text: &str| LogOptions::canonical(text);
        assert_eq!(now("log.gc.read_plan=basic"), "pool.read_plan=basic");
        assert_eq!(now("log.write_cache=off"), "pool.write_cache=off");
        assert_eq!(now("log.unit=1MiB"), "log.unit=1MiB");
    }
}
