//! The scrubs of a served pool: a report for `status` and metrics, and damaged places.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use thermocline_format::PoolId;
use thermocline_runtime::{
    ScrubEnd, ScrubFindings, ScrubRecord, ScrubSchedule, ScrubUnderWay, Settings,
};

use crate::stored::SCRUBS;
use crate::{Error, date};

/// The report of the scrubs of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Seconds from the end of a scrub to the begin of the next one; absent without a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_seconds: Option<u64>,
    /// When the next scrub is due, in seconds since 1970; absent during a scrub and without a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_unix_seconds: Option<u64>,
    /// Share of the units that the scrub in progress has passed; absent without a scrub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// The last scrub, and the one in progress.
    #[serde(flatten)]
    pub record: ScrubRecord,
}

impl ScrubReport {
    /// Report on a pool of `units` units.
    #[must_use]
    pub fn new(schedule: &ScrubSchedule, units: u32) -> ScrubReport {
        let ScrubSchedule { every, record } = *schedule;
        let progress = |one: ScrubUnderWay| f64::from(one.next_unit) / f64::from(units.max(1));
        ScrubReport {
            every_seconds: every.map(|every| every.as_secs()),
            due_unix_seconds: every
                .filter(|_| record.current.is_none())
                .map(|every| record.due(every)),
            progress: record.current.map(progress),
            record,
        }
    }

    /// Whether the pool has a schedule or was scrubbed.
    #[must_use]
    pub fn tells_anything(&self) -> bool {
        self.every_seconds.is_some() || self.record != ScrubRecord::default()
    }

    /// Report on an unserved pool of `units` units, from the record beside the settings. `None` of a pool without a
    /// schedule that was never scrubbed.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn at_rest(
        settings: &Settings,
        pool: PoolId,
        units: u32,
    ) -> Result<Option<ScrubReport>, Error> {
        let every = settings.pool.scrub_every();
        let record = SCRUBS.load(settings.file(), pool)?;
        let report = ScrubReport::new(&ScrubSchedule { every, record }, units);
        Ok(Some(report).filter(ScrubReport::tells_anything))
    }

    /// Damaged places found by the scrub in progress, or else by the last one.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        let ScrubRecord { last, current } = self.record;
        let current = current.map_or(0, |one| one.found.damaged);
        if current > 0 { current } else { last.map_or(0, |one| one.found.damaged) }
    }
}

fn day(unix_seconds: u64) -> String {
    date(SystemTime::UNIX_EPOCH + Duration::from_secs(unix_seconds))
}

/// A damaged place, as it was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DamagedPlace {
    /// Number of the unit.
    pub unit: u32,
    /// Logical block of the unit.
    pub block: u32,
    /// Path of the device.
    pub device: String,
    /// The bytes of a volume that cannot be read for it, if there are any.
    #[serde(flatten)]
    pub holds: Option<DamagedBytes>,
}

/// Damaged bytes of a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DamagedBytes {
    /// Name of the volume.
    pub volume: String,
    /// Its first damaged byte.
    pub offset: u64,
    /// Number of damaged bytes.
    pub bytes: u64,
}

/// The page `/scrub`.
#[derive(Debug, Serialize, Deserialize)]
pub struct ScrubPage {
    /// `thermocline.scrubbing/1`.
    pub schema: String,
    /// Why the pool takes no writes, and is not scrubbed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The server writes nothing, so it scrubs nothing.
    pub read_only: bool,
    /// Last, current and next scrub.
    #[serde(flatten)]
    pub report: ScrubReport,
    /// Places that scrubs and reads found damaged since the last scrub began, at most 100.
    pub damage: Vec<DamagedPlace>,
}

/// Lines for the last, the current and the next scrub.
impl fmt::Display for ScrubReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(last) = &self.record.last {
            writeln!(f, "last scrub: {}", ended(last))?;
        }
        if let Some((one, progress)) = self.record.current.zip(self.progress) {
            let (began, share) = (day(one.began_unix_seconds), progress * 100.0);
            let found = findings(&one.found);
            writeln!(f, "scrub under way: began {began}, {share:.0} % of the units, {found}")?;
        }
        match self.due_unix_seconds {
            Some(0) => writeln!(f, "next scrub: is due"),
            Some(due) => writeln!(f, "next scrub: {}", day(due)),
            None => Ok(()),
        }
    }
}

/// The end and the findings of a scrub, in words.
#[must_use]
pub fn ended(end: &ScrubEnd) -> String {
    format!("ended {}, {}", day(end.ended_unix_seconds), findings(&end.found))
}

fn findings(found: &ScrubFindings) -> String {
    let ScrubFindings { blocks, damaged, mended } = found;
    format!(
        "{blocks} blocks compared, {damaged} places damaged, {mended} repaired from other members"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_the_current_and_the_next_scrub_have_a_line_each() {
        let found = ScrubFindings { blocks: 1000, damaged: 2, mended: 3 };
        let record = ScrubRecord {
            last: Some(ScrubEnd { began_unix_seconds: 5, ended_unix_seconds: 86_400, found }),
            current: Some(ScrubUnderWay { began_unix_seconds: 90_000, next_unit: 7, found }),
        };
        let report =
            ScrubReport::new(&ScrubSchedule { every: Some(Duration::from_secs(3600)), record }, 28);
        assert_eq!(
            report.to_string(),
            "last scrub: ended 1970-01-02 at 00:00 UTC, 1000 blocks compared, 2 places damaged, 3 repaired from other \
             members\nscrub under way: began 1970-01-02 at 01:00 UTC, 25 % of the units, 1000 blocks compared, 2 places \
             damaged, 3 repaired from other members\n"
        );
        let record = ScrubRecord { current: None, ..record };
        let report =
            ScrubReport::new(&ScrubSchedule { every: Some(Duration::from_secs(3600)), record }, 28);
        assert!(report.to_string().ends_with("next scrub: 1970-01-02 at 01:00 UTC\n"));
    }
}
