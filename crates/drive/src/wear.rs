//! Write amplification and life, from readings.

use serde::Serialize;

use crate::counter::{Counter, DriveFigure, LogPage};
use crate::reading::HealthReading;

/// Hours of a year.
const YEAR: f64 = 365.25 * 24.0;

/// Bytes written to the media over bytes that hosts wrote.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waf {
    /// The ratio.
    pub value: f64,
    /// Largest error of the ratio, from the steps in which the drive counts, as a share of it.
    pub error: f64,
    /// Bytes of hosts.
    pub host_bytes: u64,
    /// Bytes of the media.
    pub media_bytes: u64,
    /// LogPage of the bytes of hosts.
    pub host: LogPage,
    /// LogPage of the bytes of the media.
    pub media: LogPage,
}

/// Years until the endurance is used up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Years {
    /// If wear goes on as before.
    pub likely: f64,
    /// Lowest and highest, as the drive counts in whole percent.
    pub range: [f64; 2],
}

/// Write amplification, load and life of a drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wear {
    /// Hours with power, between the readings or of the whole life.
    pub hours: Option<u64>,
    /// Write amplification in that time. `None`: the drive tells no media bytes that are known.
    pub waf: Option<Waf>,
    /// Bytes a day that hosts wrote.
    pub daily_bytes: Option<f64>,
    /// The same in capacities of the drive.
    pub drive_writes_per_day: Option<f64>,
    /// Years that are left, at the wear of the whole life.
    pub years: Option<Years>,
}

impl Wear {
    /// Of the time between two readings of a drive, or of its whole life up to `last`.
    #[must_use]
    pub fn of(first: Option<&HealthReading>, last: &HealthReading) -> Wear {
        let hours = last.counter(DriveFigure::PowerOnHours);
        let hours = hours.and_then(|hours| since(first, hours)).map(|one| one.value);
        let waf = waf(first, last);
        let host = last.counter(DriveFigure::HostWritten).and_then(|host| since(first, host));
        let days = hours.filter(|hours| *hours > 0).map(|hours| hours as f64 / 24.0);
        let daily_bytes = host.zip(days).map(|(host, days)| host.value as f64 / days);
        let capacity = last.counter(DriveFigure::Capacity).filter(|capacity| capacity.value > 0);
        Wear {
            hours,
            waf,
            daily_bytes,
            drive_writes_per_day: daily_bytes
                .zip(capacity)
                .map(|(bytes, capacity)| bytes / capacity.value as f64),
            years: years(last),
        }
    }
}

/// The counter less what it was at `first`. `None` if it was not told then, or fell: the drive was formatted or
/// replaced.
fn since(first: Option<&HealthReading>, last: &Counter) -> Option<Counter> {
    let Some(first) = first else { return Some(last.clone()) };
    let same = |one: &&Counter| one.figure == last.figure && one.page == last.page;
    let before = first.counters.iter().find(same)?;
    let value = last.value.checked_sub(before.value)?;
    Some(Counter { value, ..last.clone() })
}

/// Of the page that counts media bytes most finely, with host bytes of the same page or, if it has none, of another.
fn waf(first: Option<&HealthReading>, last: &HealthReading) -> Option<Waf> {
    let all = |figure| {
        let of_figure = move |one: &&Counter| one.figure == figure;
        last.counters.iter().filter(of_figure).filter_map(move |one| since(first, one))
    };
    let hosts: Vec<Counter> = all(DriveFigure::HostWritten).collect();
    let pair = |media: Counter| {
        let is_own = |host: &&Counter| host.page == media.page;
        let host = hosts.iter().find(is_own).or_else(|| {
            hosts
                .iter()
                .filter(|host| host.page != LogPage::FdpStatistics)
                .min_by_key(|host| host.step)
        })?;
        let (host_bytes, media_bytes) = (host.value, media.value);
        if host_bytes == 0 {
            return None;
        }
        let error =
            host.step as f64 / host_bytes as f64 + media.step as f64 / media_bytes.max(1) as f64;
        let value = media_bytes as f64 / host_bytes as f64;
        let (host, media) = (host.page.clone(), media.page.clone());
        Some(Waf { value, error, host_bytes, media_bytes, host, media })
    };
    let pairs = all(DriveFigure::MediaWritten).filter_map(pair);
    pairs.min_by(|one, other| one.error.total_cmp(&other.error))
}

/// From the used share and the hours with power. `None` where less than a percent is used.
fn years(last: &HealthReading) -> Option<Years> {
    let (used, hours) =
        (last.counter(DriveFigure::Used)?, last.counter(DriveFigure::PowerOnHours)?);
    if used.value == 0 || hours.value == 0 {
        return None;
    }
    let (used, lived) = (used.value as f64, hours.value as f64 / YEAR);
    let left = |used: f64| (100.0 - used).max(0.0) / used * lived;
    Some(Years { likely: left(used), range: [left(used + 1.0), left((used - 1.0).max(0.5))] })
}
