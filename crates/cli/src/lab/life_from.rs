//! `lab run --life-from`: years left of a drive in use, from its own counters and the write amplification of a run.
//!
//! Endurance in media bytes = media bytes so far / used share. Years left = (endurance - media bytes so far) /
//! (write amplification x host bytes a day x 365.25). The used share is a whole percentage, so each end of the range
//! takes a percent more or less. The load of the future deviates by [`LOAD_DEVIATION`].

use std::path::Path;

use anyhow::Context as _;
use thermocline_drive::{DriveFigure, HealthReading, Wear};
use thermocline_lab::{LOAD_DEVIATION, Z90};
use thermocline_record::{DriveLife, RunRecord};

use crate::drive::reading;

/// The drive whose life a run tells.
pub struct LifeFrom {
    reading: HealthReading,
    wear: Wear,
}

impl LifeFrom {
    /// The drive at `path`: a record, or a drive of this machine.
    ///
    /// # Errors
    /// When it cannot be read, or lacks a counter that the years need.
    pub fn read(path: &Path) -> anyhow::Result<LifeFrom> {
        let this = LifeFrom::of(reading(path)?);
        this.years([1.0; 3], None).with_context(|| format!("--life-from {}", path.display()))?;
        Ok(this)
    }

    fn of(reading: HealthReading) -> LifeFrom {
        LifeFrom { wear: Wear::of(None, &reading), reading }
    }

    /// The drive's life under the write amplification of `record`, at `daily` host bytes a day or at its own pace.
    ///
    /// # Errors
    /// When the run has no write amplification.
    pub fn life(&self, record: &RunRecord, daily: Option<u64>) -> anyhow::Result<DriveLife> {
        let waf = record.waf_steady.or(record.waf).context("the run wrote nothing")?;
        let spread = (Z90 * LOAD_DEVIATION).exp();
        self.years([waf * spread, waf, waf / spread], daily)
    }

    /// Years at three write amplifications: the worst, the likely and the best.
    fn years(&self, wafs: [f64; 3], daily: Option<u64>) -> anyhow::Result<DriveLife> {
        let used =
            self.reading.counter(DriveFigure::Used).context("the drive tells no used share")?;
        let media = self.reading.counter(DriveFigure::MediaWritten);
        let media = media
            .context("the drive tells no media bytes; `thermocline drive stat` lists its pages")?
            .value;
        let daily = daily.map(|bytes| bytes as f64).or(self.wear.daily_bytes);
        let daily = daily.filter(|bytes| *bytes > 0.0);
        let daily =
            daily.context("the drive tells no hours or no host bytes; give --daily-writes")?;
        anyhow::ensure!(
            used.value > 0,
            "less than 1 % of the endurance is used: too little to tell the rest from"
        );
        let percent = used.value as f64;
        let left = |percent: f64, waf: f64| {
            let bytes = media as f64 * (100.0 / percent - 1.0).max(0.0);
            bytes / (waf * daily * 365.25)
        };
        let [worst, likely, best] = wafs;
        Ok(DriveLife {
            serial: self.reading.serial.clone(),
            used_share: percent / 100.0,
            media_bytes_written: media,
            waf_so_far: self.wear.waf.as_ref().map(|waf| waf.value),
            waf: likely,
            daily_bytes: daily,
            years_p10: left(percent + 1.0, worst),
            years_p50: left(percent, likely),
            years_p90: left((percent - 1.0).max(0.5), best),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(text: &str) -> LifeFrom {
        LifeFrom::of(HealthReading::recorded(text.as_bytes()).expect("counters"))
    }

    #[test]
    fn years_left_are_the_unused_endurance_over_the_runs_media_bytes() {
        // Half is used by 2 PB of media bytes, so 2 PB are left: at WAF 2 and 1 TB a day, 1000 days.
        let drive = drive(
            "{\"percent_used\": 50, \"power_on_hours\": 24000, \"hbmw\": 1000000000000000, \
             \"mbmw\": 2000000000000000}",
        );
        let life = drive.years([4.0, 2.0, 1.0], None).expect("all counters");
        assert!((life.years_p50 - 1000.0 / 365.25).abs() < 1e-9, "{life:?}");
        assert!(life.years_p10 < life.years_p50 / 2.0 && life.years_p90 > life.years_p50 * 2.0);
        let twice = drive.years([4.0, 2.0, 1.0], Some(2_000_000_000_000)).expect("all counters");
        assert!((twice.years_p50 * 2.0 - life.years_p50).abs() < 1e-9);
    }

    #[test]
    fn a_missing_counter_is_named() {
        let error =
            |text: &str| drive(text).years([1.0; 3], Some(1)).expect_err("lacks one").to_string();
        assert!(error("{\"percent_used\": 5}").contains("media bytes"));
        assert!(error("{\"hbmw\": 5, \"mbmw\": 6}").contains("used share"));
        assert!(error("{\"percent_used\": 0, \"hbmw\": 5, \"mbmw\": 6}").contains("less than 1 %"));
    }
}
