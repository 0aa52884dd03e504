//! Sources of the bytes on each level: application, devices, media. Divided by the application's bytes, all sources sum
//! to write amplification, media / host.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{MediaBytes, RunRecord};

/// Name of the class of devices of a pool with one class.
pub const CAPACITY: &str = "capacity";
/// Name of the class of fast devices.
pub const FAST: &str = "fast";

/// Kind of a level of the waterfall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LevelKind {
    /// Bytes written to the devices of a class, headers and maps included.
    Devices,
    /// Bytes programmed into the drive's media.
    Media,
}

/// Bytes of a level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// Kind of the level.
    pub kind: LevelKind,
    /// The class of devices, `fast` or `capacity`.
    pub class: String,
    /// All bytes that came here.
    pub bytes: u64,
    /// Bytes passed down unchanged from the level above. The remaining bytes are added on this level.
    pub passed: u64,
    /// Bytes added on this level by cause, the largest first. `added` and `passed` sum to `bytes`.
    pub added: Vec<(String, u64)>,
}

/// Bytes on their way down.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waterfall {
    /// Bytes that the application wrote.
    pub host: u64,
    /// Bytes of `host` overwritten or trimmed in memory, before any device write.
    pub absorbed: u64,
    /// The levels, from the top.
    pub levels: Vec<Level>,
}

/// Bytes added on a level for a single cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Addition {
    /// The level that added them.
    pub kind: LevelKind,
    /// Its class of devices.
    pub class: String,
    /// Why.
    pub cause: String,
    /// How many.
    pub bytes: u64,
    /// Advice to lower these bytes.
    pub remedy: &'static str,
}

impl Level {
    /// Level of the bytes written to the devices of a class. `host` in `by_cause` is the bytes passed from above.
    #[must_use]
    pub fn devices(class: &str, by_cause: &BTreeMap<String, u64>) -> Level {
        Level::new(LevelKind::Devices, class, by_cause)
    }

    /// Level of the bytes that a drive programmed. `host` in `by_cause` is the bytes written to the drive.
    #[must_use]
    pub fn media(class: &str, by_cause: &BTreeMap<String, u64>) -> Level {
        Level::new(LevelKind::Media, class, by_cause)
    }

    fn new(kind: LevelKind, class: &str, by_cause: &BTreeMap<String, u64>) -> Level {
        let passed = by_cause.get("host").copied().unwrap_or(0);
        let others = by_cause.iter().filter(|(cause, bytes)| *cause != "host" && **bytes > 0);
        let mut added: Vec<(String, u64)> = others.map(|(cause, b)| (cause.clone(), *b)).collect();
        added.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        Level { kind, class: class.to_owned(), bytes: by_cause.values().sum(), passed, added }
    }
}

impl Waterfall {
    /// Waterfall of a lab run.
    #[must_use]
    pub fn of(record: &RunRecord) -> Waterfall {
        let mut levels = Vec::new();
        for class in [FAST, CAPACITY] {
            let media: Option<&MediaBytes> = match class {
                FAST => record.fast.as_ref().map(|fast| &fast.media_bytes_written),
                _ => Some(&record.media_bytes_written),
            };
            levels.extend(
                record.engine_bytes_written.get(class).map(|bytes| Level::devices(class, bytes)),
            );
            levels.extend(media.map(|media| Level::media(class, &media.by_cause)));
        }
        let logged = record.engine_bytes_written.values().flat_map(BTreeMap::iter);
        let came: u64 = logged.filter(|(cause, _)| *cause == "host").map(|(_, bytes)| bytes).sum();
        let absorbed = match record.engine_bytes_written.is_empty() {
            true => record.media_bytes_written.absorbed_in_buffer,
            false => record.host_bytes_written.saturating_sub(came),
        };
        Waterfall { host: record.host_bytes_written, absorbed, levels }
    }

    /// Added bytes by level and cause, the largest first.
    #[must_use]
    pub fn additions(&self) -> Vec<Addition> {
        let of = |level: &Level| {
            let (kind, class) = (level.kind, level.class.clone());
            let addition = move |(cause, bytes): &(String, u64)| Addition {
                kind,
                class: class.clone(),
                cause: cause.clone(),
                bytes: *bytes,
                remedy: remedy(kind, cause),
            };
            level.added.iter().map(addition).collect::<Vec<_>>()
        };
        let mut all: Vec<Addition> = self.levels.iter().flat_map(of).collect();
        all.sort_by_key(|addition| std::cmp::Reverse(addition.bytes));
        all
    }
}

/// What lowers the bytes that are written for `cause`.
fn remedy(kind: LevelKind, cause: &str) -> &'static str {
    match (kind, cause) {
        (LevelKind::Devices, "destage") => {
            "a larger fast device, on which more is overwritten before it moves"
        }
        (LevelKind::Devices, "relocation") => {
            "room: discards, smaller volumes, more capacity; or another placement"
        }
        (LevelKind::Devices, "metadata") => {
            "larger requests and fewer flushes, for each chunk has a header; memory for all pages of the maps"
        }
        (LevelKind::Devices, "redundancy") => {
            "fewer flushes, for each goes to the log of a striped group; or more members for each with parity"
        }
        (LevelKind::Devices, "parity") => "more members for each with parity",
        (LevelKind::Devices, "parity_log" | "parity_log_heads") => {
            "fewer flushes, or more written between them: a flush puts rows that are not full into the log"
        }
        (LevelKind::Devices, "row_padding") => {
            "a placement with fewer classes, so that the log has room for the rows of all open units"
        }
        (LevelKind::Devices, "labels") => "nothing: members get labels at each opening and closing",
        (LevelKind::Devices, "superblocks") => "larger units, for each opened unit is listed once",
        (_, "read_modify_write") => {
            "requests of whole mapping units, or the log above the drive, which makes them so"
        }
        (LevelKind::Media, "relocation") => {
            "room on the drive, discards, or streams, FDP or zones under the log (`lab whatif` compares)"
        }
        (LevelKind::Media, "padding") => "fewer flushes, or larger writes between them",
        (LevelKind::Media, "folding") => {
            "a drive without an SLC cache, or one that is written past"
        }
        (LevelKind::Media, "refresh") => {
            "a cooler drive, fewer reads of the same, or data at rest elsewhere"
        }
        (LevelKind::Media, "program_failure") => "a drive of which fewer programs fail",
        (LevelKind::Media, "wear_levelling") => "nothing that a host can do",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes(causes: &[(&str, u64)]) -> BTreeMap<String, u64> {
        causes.iter().map(|(cause, bytes)| ((*cause).to_owned(), *bytes)).collect()
    }

    #[test]
    fn what_was_added_comes_with_the_most_first_and_sums_up() {
        let levels = vec![
            Level::devices(FAST, &causes(&[("host", 60), ("metadata", 2), ("relocation", 0)])),
            Level::devices(CAPACITY, &causes(&[("destage", 30), ("relocation", 9), ("host", 5)])),
            Level::media(CAPACITY, &causes(&[("host", 44), ("read_modify_write", 12)])),
        ];
        for level in &levels {
            let added: u64 = level.added.iter().map(|(_, bytes)| bytes).sum();
            assert_eq!(level.passed + added, level.bytes, "{level:?}");
        }
        let waterfall = Waterfall { host: 100, absorbed: 35, levels };
        let additions = waterfall.additions();
        let order: Vec<(&str, u64)> =
            additions.iter().map(|added| (added.cause.as_str(), added.bytes)).collect();
        let expected =
            [("destage", 30), ("read_modify_write", 12), ("relocation", 9), ("metadata", 2)];
        assert_eq!(order, expected);
        assert!(additions.iter().all(|added| !added.remedy.is_empty()));
    }
}
