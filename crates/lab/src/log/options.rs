//! Settings of the log, as `log.KEY=VALUE` on the command line.

use std::fmt;
use std::str::FromStr;

use thermocline_engine::{ReadPlan, Tuning};
use thermocline_format::{LogicalBlock, RaidLevel, VolumeMedia};
use thermocline_types::{Bytes, Time};

use super::payload::PACKS;

/// A group of drives of one kind: its redundancy, and how many members it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupOption {
    /// The redundancy.
    pub level: RaidLevel,
    /// Number of members.
    pub members: usize,
    /// Bytes of a piece, if given; otherwise as pools choose them.
    pub piece: Option<Bytes>,
}

impl GroupOption {
    /// Members that the data of a row is on: the bytes of the group are those of so many.
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

/// Settings of the log; those not given are as a pool has them.
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
    /// Every key with a line about it.
    pub const KEYS: [(&'static str, &'static str); 25] = [
        ("log.unit", "size of the units that a drive without zones is cut into"),
        ("log.volume", "size of the volume, which is thin (default: what the workload addresses)"),
        ("log.logical_block", "smallest piece that is read or written: 512 or 4096 (default)"),
        ("log.packs", "share of blocks that pack into the slack of a chunk's header, 0 to 1"),
        ("log.placement", "class of each block, as `placement` of the run"),
        ("log.victim", "unit that garbage collection takes, as `victim` of the run"),
        ("log.gc.read_plan", "how a victim is read: basic, segment, cost or cost:SIZE"),
        ("log.gc.read_size", "what one command of garbage collection reads at most"),
        ("log.gc.segment", "what of a victim is looked at together"),
        ("log.gc.ahead_units", "free units at which garbage collection begins"),
        (
            "log.write_cache",
            "on: writes complete in memory, and wait there to fill chunks (default); off: on media",
        ),
        ("log.staged", "what of writes may wait in memory, from 1020KiB"),
        ("log.write_depth", "chunks of a class on their way before blocks wait for a larger one"),
        ("log.max_requests", "requests in work at once"),
        ("log.checkpoint", "bytes written between checkpoints"),
        ("log.reserved_units", "units listed in a superblock ahead of their use"),
        (
            "log.memory",
            "memory for pages of the map; all of it takes 8 bytes for each 4 KiB of the volume",
        ),
        (
            "log.bypass",
            "under tier, of a sequential stream before what follows bypasses the fast drive",
        ),
        (
            "log.high_watermark",
            "under tier, share of fast units in use beyond which they are emptied (default: they run short)",
        ),
        ("log.low_watermark", "share at which that ends (default: 0.05 below the other)"),
        ("log.max_age", "under tier, seconds that blocks stay on the fast drive at most"),
        ("log.at_risk", "under tier, bytes of the fast drive that may be in use (default: all)"),
        (
            "log.media",
            "under tier, where the volume's blocks are to be: auto (default), fast, capacity",
        ),
        (
            "log.group",
            "a group of drives instead of one: mirror, raid0:N, raid5:N, raid5:N:PIECE; sizes are those of all N drives",
        ),
        ("log.fast_group", "under tier, the same of the fast drive"),
    ];

    /// The share of blocks that pack.
    #[must_use]
    pub fn packs(&self) -> f64 {
        self.packs.unwrap_or(PACKS)
    }

    /// Sets `key`, without its `log.`, to `value`.
    ///
    /// # Errors
    /// A sentence that says what would be right.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let engine = &mut self.engine;
        match key {
            "unit" => self.unit = Some(size(value)?),
            "volume" => self.volume = Some(size(value)?),
            "logical_block" => self.logical_block = Some(logical_block(value)?),
            "packs" => self.packs = Some(share(value)?),
            "placement" => engine.placement = Some(read(value)?),
            "victim" => engine.victim = Some(read(value)?),
            "gc.read_plan" => engine.read_plan = Some(read_plan(value)?),
            "gc.read_size" => engine.read_size = Some(size(value)?),
            "gc.segment" => engine.segment = Some(size(value)?),
            "gc.ahead_units" => engine.ahead_units = Some(count(value)?),
            "write_cache" => engine.write_cache = Some(on(value)?),
            "staged" => engine.staged = Some(size_of(value)?),
            "write_depth" => engine.write_depth = Some(count(value)?),
            "max_requests" => engine.max_requests = Some(count(value)?),
            "checkpoint" => engine.checkpoint = Some(size_of(value)?),
            "reserved_units" => engine.reserved_units = Some(count(value)?),
            "memory" => engine.memory = Some(size_of(value)?),
            "bypass" => engine.bypass = Some(size_of(value)?),
            "high_watermark" => engine.high_watermark = Some(share(value)?),
            "low_watermark" => engine.low_watermark = Some(share(value)?),
            "max_age" => engine.max_age = Some(Time::seconds(count(value)?.into())),
            "at_risk" => engine.at_risk = Some(size_of(value)?),
            "media" => self.media = Some(read(value)?),
            "group" => self.group = Some(read(value)?),
            "fast_group" => self.fast_group = Some(read(value)?),
            _ => {
                let keys: Vec<&str> = LogOptions::KEYS.iter().map(|(key, _)| *key).collect();
                return Err(format!("log.{key} is unknown; there are {}", keys.join(", ")));
            }
        }
        engine.out_of_bounds().map_or(Ok(()), |(_, reason)| Err(format!("it {reason}")))
    }
}

/// The name of a read plan, as [`LogOptions::set`] reads it.
#[must_use]
pub fn read_plan_name(plan: ReadPlan) -> String {
    match plan {
        ReadPlan::Basic => "basic".into(),
        ReadPlan::Segment => "segment".into(),
        ReadPlan::Cost { command_bytes } => format!("cost:{}", u64::from(command_bytes)),
    }
}

fn read_plan(text: &str) -> Result<ReadPlan, String> {
    match text.split_once(':') {
        None if text == "basic" => Ok(ReadPlan::Basic),
        None if text == "segment" => Ok(ReadPlan::Segment),
        None if text == "cost" => Ok(ReadPlan::COST),
        Some(("cost", bytes)) => {
            Ok(ReadPlan::Cost { command_bytes: size(bytes)?.0.min(1 << 30) as u32 })
        }
        _ => Err(format!("`{text}` is no read plan; there are basic, segment, cost, cost:64KiB")),
    }
}

fn read<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn size_of(text: &str) -> Result<Bytes, String> {
    read(text.trim_matches('"'))
}

fn size(text: &str) -> Result<Bytes, String> {
    match size_of(text)? {
        Bytes(0..4096) => Err(format!("{text} must be at least 4KiB")),
        bytes => Ok(bytes),
    }
}

fn logical_block(text: &str) -> Result<LogicalBlock, String> {
    let found = size_of(text)?.0.try_into().ok().and_then(LogicalBlock::from_bytes);
    found.ok_or_else(|| format!("{text} must be 512 or 4096"))
}

fn on(text: &str) -> Result<bool, String> {
    match text {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err(format!("`{text}` must be on or off")),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    found.ok_or_else(|| format!("`{text}` must be a share from 0 to 1"))
}

fn count(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("`{text}` must be a number, at most {}", u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_key_is_taken_and_others_are_not() {
        let value = |key: &str| match key {
            "log.placement" => "sepgc",
            "log.victim" => "greedy",
            "log.gc.read_plan" => "cost:64KiB",
            "log.write_cache" => "on",
            "log.logical_block" => "512",
            "log.packs" | "log.high_watermark" | "log.low_watermark" => "0.25",
            "log.media" => "fast",
            "log.group" => "raid5:4",
            "log.fast_group" => "mirror",
            "log.gc.ahead_units" | "log.write_depth" | "log.reserved_units"
            | "log.max_requests" | "log.max_age" => "7",
            _ => "2MiB",
        };
        let mut options = LogOptions::default();
        for (key, _) in LogOptions::KEYS {
            let before = options.clone();
            options.set(&key[4..], value(key)).unwrap();
            assert_ne!(options, before, "{key}");
        }
        assert_eq!(read_plan_name(options.engine.read_plan.unwrap()), "cost:65536");
        for (key, value, complaint) in [
            ("units", "1", "log.gc.read_plan"),
            ("gc.read_plan", "all", "basic, segment, cost"),
            ("placement", "sepgcc", "none, sepgc"),
            ("victim", "oldest", "greedy"),
            ("write_depth", "0", "1 to 1024"),
            ("write_cache", "yes", "on or off"),
            ("packs", "1.5", "0 to 1"),
            ("high_watermark", "80%", "0 to 1"),
            ("max_age", "0", "must be 1 to"),
            ("max_age", "4294967296", "at most 4294967295"),
            ("unit", "512", "at least 4KiB"),
            ("logical_block", "520", "512 or 4096"),
            ("group", "raid6:5", "raid5:4, raid0:2, mirror"),
            ("group", "raid5", "raid5:N with 3 to 16"),
            ("group", "raid5:2", "raid5:N with 3 to 16"),
            ("fast_group", "mirror:3", "mirror:N with 2 to 2"),
        ] {
            let error = options.set(key, value).unwrap_err();
            assert!(error.contains(complaint), "{key}={value}: {error}");
            options = LogOptions::default();
        }
    }
}
