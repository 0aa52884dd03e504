//! What a pool reports of how full it is.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use thermocline_engine::Occupancy;
use thermocline_runtime::{Fullness, FullnessLevel, FullnessMarks};
use thermocline_types::Bytes;

use crate::date;

/// How full a pool is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FullnessReport {
    /// normal, warning, critical or full.
    pub level: String,
    /// Mapped and reserved bytes over the capacity.
    pub share: f64,
    /// Bytes of volumes that are mapped.
    pub mapped_bytes: u64,
    /// Bytes reserved for volumes beyond mapped bytes.
    pub reserved_bytes: u64,
    /// Present capacity of the pool.
    pub capacity_bytes: u64,
    /// Bytes that any volume may still map.
    pub free_bytes: u64,
    /// Share at which the pool warns.
    pub warning_share: f64,
    /// Share at which the pool is critical.
    pub critical_share: f64,
    /// When this level began, in seconds since 1970; absent of a pool that is not served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_unix_seconds: Option<u64>,
    /// Writes that got "no space" since the service began.
    #[serde(default)]
    pub refused_writes: u64,
}

impl FullnessReport {
    /// Of a pool that is served.
    #[must_use]
    pub fn new(fullness: &Fullness) -> FullnessReport {
        let since = fullness.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        FullnessReport {
            since_unix_seconds: Some(since.as_secs()),
            refused_writes: fullness.refused_writes,
            ..FullnessReport::at(fullness.level, &fullness.occupancy, fullness.marks)
        }
    }

    /// Report on a pool without a server.
    #[must_use]
    pub fn of(occupancy: &Occupancy, marks: FullnessMarks) -> FullnessReport {
        FullnessReport::at(marks.level(occupancy), occupancy, marks)
    }

    /// Report on a drive without a pool: its volumes fill it from the start, which is no risk.
    #[must_use]
    pub fn of_drive(bytes: u64) -> FullnessReport {
        FullnessReport {
            level: FullnessLevel::Normal.name().to_owned(),
            share: 1.0,
            mapped_bytes: bytes,
            capacity_bytes: bytes,
            warning_share: 1.0,
            critical_share: 1.0,
            ..FullnessReport::default()
        }
    }

    fn at(level: FullnessLevel, occupancy: &Occupancy, marks: FullnessMarks) -> FullnessReport {
        let bytes = |blocks: u64| blocks * 4096;
        FullnessReport {
            level: level.name().to_owned(),
            share: occupancy.fullness(),
            mapped_bytes: bytes(occupancy.mapped),
            reserved_bytes: bytes(occupancy.held),
            capacity_bytes: bytes(occupancy.capacity),
            free_bytes: bytes(occupancy.free()),
            warning_share: marks.warning,
            critical_share: marks.critical,
            since_unix_seconds: None,
            refused_writes: 0,
        }
    }

    /// Whether the pool is below its marks.
    #[must_use]
    pub fn is_normal(&self) -> bool {
        self.level == FullnessLevel::Normal.name()
    }

    /// Whether writes are refused.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.level == FullnessLevel::Full.name()
    }

    /// Whether the pool is full, or above the critical mark.
    #[must_use]
    pub fn is_critical(&self) -> bool {
        self.is_full() || self.level == FullnessLevel::Critical.name()
    }
}

/// A sentence of it, without remedy.
impl fmt::Display for FullnessReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.level {
            "normal" => write!(f, "the pool has room")?,
            "full" => write!(f, "the pool is full")?,
            level => write!(f, "the pool is nearly full ({level})")?,
        }
        if let Some(since) = self.since_unix_seconds.filter(|_| !self.is_normal()) {
            write!(f, " since {}", date(SystemTime::UNIX_EPOCH + Duration::from_secs(since)))?;
        }
        let (mapped, capacity) = (Bytes(self.mapped_bytes), Bytes(self.capacity_bytes));
        write!(f, ": {mapped} of {capacity} hold data")?;
        if self.reserved_bytes > 0 {
            write!(f, ", {} are reserved", Bytes(self.reserved_bytes))?;
        }
        write!(f, " ({:.1} %), {} are free", self.share * 100.0, Bytes(self.free_bytes))?;
        match self.refused_writes {
            0 => Ok(()),
            count => write!(f, "; {count} writes got \"no space\""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_is_full_is_reported_with_its_time_and_what_was_refused() {
        let occupancy = Occupancy { mapped: 25_000, held: 600, capacity: 25_600 };
        let fullness = Fullness {
            occupancy,
            marks: FullnessMarks::default(),
            level: FullnessLevel::Full,
            since: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
            refused_writes: 17,
        };
        let report = FullnessReport::new(&fullness);
        assert!(report.is_full() && report.free_bytes == 0);
        assert_eq!(
            report.to_string(),
            "the pool is full since 2023-11-14 at 22:13 UTC: 97.66 MiB of 100 MiB hold data, 2.34 MiB are reserved \
             (100.0 %), 0 B are free; 17 writes got \"no space\""
        );
        let half = Occupancy { mapped: 12_800, held: 0, capacity: 25_600 };
        let report = FullnessReport::of(&half, FullnessMarks::default());
        let text = "the pool has room: 50 MiB of 100 MiB hold data (50.0 %), 50 MiB are free";
        assert_eq!(report.to_string(), text);
    }
}
