//! Settings of the log, as `log.KEY=VALUE` on the command line.

use thermocline_engine::{Config, ReadPlan};
use thermocline_ftl::placement::Policy;
use thermocline_ftl::victim::Victim;
use thermocline_types::Bytes;

/// Settings of the log; those not given are the engine's defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogOptions {
    /// Size of the units that a drive without zones is cut into.
    pub unit: Option<Bytes>,
    /// Which class a block is written to.
    pub placement: Option<Policy>,
    /// Which unit garbage collection takes.
    pub victim: Option<Victim>,
    /// How garbage collection reads a victim.
    pub read_plan: Option<ReadPlan>,
    /// What one of its commands reads at most.
    pub read_bytes: Option<Bytes>,
    /// What of a victim is looked at together.
    pub segment: Option<Bytes>,
    /// Free units below which it begins, beyond those kept for itself.
    pub ahead_units: Option<u32>,
    /// Chunks of a class on their way before blocks wait for a larger one.
    pub write_depth: Option<u32>,
    /// Whether writes complete in memory.
    pub write_cache: Option<bool>,
    /// Bytes between checkpoints.
    pub checkpoint: Option<Bytes>,
    /// Units listed ahead of their use.
    pub reserved_units: Option<u32>,
}

/// What a command costs under `cost`, as bytes read in the same time, if nothing else is said: the engine's default.
const COMMAND: Bytes = Bytes::kib(128);

impl LogOptions {
    /// Every key with a line about it.
    pub const KEYS: [(&'static str, &'static str); 11] = [
        ("log.unit", "size of the units that a drive without zones is cut into"),
        ("log.placement", "class of each block, as --placement"),
        ("log.victim", "unit that garbage collection takes, as --victim"),
        ("log.gc.read_plan", "how a victim is read: basic, segment, cost or cost:SIZE"),
        ("log.gc.read_size", "what one command of garbage collection reads at most"),
        ("log.gc.segment", "what of a victim is looked at together"),
        ("log.gc.ahead_units", "free units at which garbage collection begins"),
        ("log.write_depth", "chunks of a class on their way before blocks wait for a larger one"),
        (
            "log.write_cache",
            "on: writes complete in memory, and wait there to fill chunks; off, on media (default)",
        ),
        ("log.checkpoint", "bytes written between checkpoints"),
        ("log.reserved_units", "units listed in a superblock ahead of their use"),
    ];

    /// Sets `key`, without its `log.`, to `value`.
    ///
    /// # Errors
    /// A sentence that says what would be right.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "unit" => self.unit = Some(size(value)?),
            "placement" => self.placement = Some(read(value)?),
            "victim" => self.victim = Some(read(value)?),
            "gc.read_plan" => self.read_plan = Some(read_plan(value)?),
            "gc.read_size" => self.read_bytes = Some(size(value)?),
            "gc.segment" => self.segment = Some(size(value)?),
            "gc.ahead_units" => self.ahead_units = Some(count(value)?),
            "write_depth" => self.write_depth = Some(count(value)?),
            "write_cache" => self.write_cache = Some(on(value)?),
            "checkpoint" => self.checkpoint = Some(size(value)?),
            "reserved_units" => self.reserved_units = Some(count(value)?),
            _ => {
                let keys: Vec<&str> = LogOptions::KEYS.iter().map(|(key, _)| *key).collect();
                return Err(format!("log.{key} is unknown; there are {}", keys.join(", ")));
            }
        }
        Ok(())
    }

    /// Puts these settings into `config`.
    pub(super) fn apply(&self, config: &mut Config) {
        fn put<T: Clone>(place: &mut T, value: Option<&T>) {
            if let Some(value) = value {
                place.clone_from(value);
            }
        }
        let bytes = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.0);
        let short = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.0.min(1 << 30) as u32);
        put(&mut config.placement, self.placement.as_ref());
        put(&mut config.gc.victim, self.victim.as_ref());
        put(&mut config.gc.read_plan, self.read_plan.as_ref());
        put(&mut config.gc.read_bytes, short(self.read_bytes).as_ref());
        put(&mut config.gc.segment_bytes, bytes(self.segment).as_ref());
        put(&mut config.gc.ahead_units, self.ahead_units.as_ref());
        put(&mut config.write_depth, self.write_depth.as_ref());
        // What is absorbed in memory would count for the placement that is compared.
        config.write_cache = self.write_cache.unwrap_or(false);
        put(&mut config.checkpoint_bytes, bytes(self.checkpoint).as_ref());
        put(&mut config.reserved_units, self.reserved_units.as_ref());
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
        None if text == "cost" => Ok(ReadPlan::Cost { command_bytes: COMMAND.0 as u32 }),
        Some(("cost", bytes)) => {
            Ok(ReadPlan::Cost { command_bytes: size(bytes)?.0.min(1 << 30) as u32 })
        }
        _ => Err(format!("`{text}` is no read plan; there are basic, segment, cost, cost:64KiB")),
    }
}

fn read<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn size(text: &str) -> Result<Bytes, String> {
    match read(text.trim_matches('"'))? {
        Bytes(0..4096) => Err(format!("{text} must be at least 4KiB")),
        bytes => Ok(bytes),
    }
}

fn on(text: &str) -> Result<bool, String> {
    match text {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err(format!("`{text}` must be on or off")),
    }
}

fn count(text: &str) -> Result<u32, String> {
    let wrong = || format!("`{text}` must be a number from 1 to 65536");
    text.parse().ok().filter(|count| (1..=65_536).contains(count)).ok_or_else(wrong)
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
            "log.gc.ahead_units" | "log.write_depth" | "log.reserved_units" => "7",
            _ => "2MiB",
        };
        let mut options = LogOptions::default();
        for (key, _) in LogOptions::KEYS {
            let before = options.clone();
            options.set(&key[4..], value(key)).unwrap();
            assert_ne!(options, before, "{key}");
        }
        assert_eq!(read_plan_name(options.read_plan.unwrap()), "cost:65536");
        for (key, value, complaint) in [
            ("units", "1", "log.gc.read_plan"),
            ("gc.read_plan", "all", "basic, segment, cost"),
            ("placement", "sepgcc", "none, sepgc"),
            ("victim", "oldest", "greedy"),
            ("write_depth", "0", "from 1"),
            ("write_cache", "yes", "on or off"),
            ("unit", "512", "at least 4KiB"),
        ] {
            let error = options.set(key, value).unwrap_err();
            assert!(error.contains(complaint), "{key}={value}: {error}");
        }
    }
}
