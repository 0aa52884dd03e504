//! Wear report of a served pool.

use std::fmt;

use serde::{Deserialize, Serialize};
use thermocline_format::MediaClass;
use thermocline_record::waterfall::{self, FAST};
use thermocline_runtime::{Totals, View, Wear, WearStatus};
use thermocline_types::Bytes;

/// How the devices of a class of media wear, of which the endurance is stated.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WearReport {
    /// capacity or fast.
    pub class: String,
    /// green, yellow or red.
    pub state: String,
    /// Endurance of the devices: total bytes that may be written.
    pub endurance_bytes: u64,
    /// Days that the endurance must last.
    pub service_days: u32,
    /// Written since the service began.
    pub written_bytes: u64,
    /// Days by which writing is ahead of the budget.
    pub ahead_days: f64,
    /// Years that are left at the rate since the service began.
    pub years_left: Option<f64>,
}

impl WearReport {
    /// Of a class of devices.
    #[must_use]
    pub fn new(status: &WearStatus) -> WearReport {
        WearReport {
            class: class_name(status.media).to_owned(),
            state: status.wear.name().to_owned(),
            endurance_bytes: status.endurance.bytes,
            service_days: status.endurance.days,
            written_bytes: status.written,
            ahead_days: status.ahead_days,
            years_left: status.years_left(),
        }
    }

    /// Consequence of the wear state; empty if not red.
    fn consequence(&self) -> &'static str {
        match (self.state == Wear::Red.name(), self.class == FAST) {
            (false, _) => "",
            (true, true) => "; until they are spared, what hosts write goes past them",
            (true, false) => "; nothing spares them but writing less",
        }
    }
}

/// Shares of the stated endurance that all services of a pool have used up.
pub fn used(view: &View<'_>) -> thermocline_vhost::Wear {
    let of = |media| view.wear.iter().find(|status| status.media == media);
    let share = |status: &WearStatus| share_used(status, view.totals);
    let [fast, capacity] =
        [MediaClass::Fast, MediaClass::Capacity].map(|media| of(media).map(share));
    thermocline_vhost::Wear { fast, capacity }
}

fn share_used(status: &WearStatus, totals: &Totals) -> f64 {
    let class = totals.classes.get(class_name(status.media));
    let written: u64 = class.map_or(0, |causes| causes.values().sum());
    written as f64 / status.endurance.bytes.max(1) as f64
}

fn class_name(media: MediaClass) -> &'static str {
    match media {
        MediaClass::Capacity => waterfall::CAPACITY,
        MediaClass::Fast => FAST,
    }
}

/// A sentence of it.
impl fmt::Display for WearReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WearReport { class, state, service_days, written_bytes, ahead_days, .. } = self;
        let (may, written) = (Bytes(self.endurance_bytes), Bytes(*written_bytes));
        write!(
            f,
            "wear of {class} devices: {state}; {written} of {may} for {service_days} days, {ahead_days:.2} days ahead"
        )?;
        if let Some(years) = self.years_left {
            let days = years * 365.25;
            let left = match days < 100.0 {
                true => format!("{days:.1} days"),
                false => format!("{years:.1} years"),
            };
            write!(f, ", worn out in {left} at this rate")?;
        }
        write!(f, "{}", self.consequence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told_once_in_days_or_years() {
        let of = |years_left| WearReport {
            class: "capacity".to_owned(),
            state: Wear::Red.name().to_owned(),
            endurance_bytes: 1 << 40,
            service_days: 100,
            written_bytes: 1 << 30,
            ahead_days: 1.5,
            years_left,
        };
        let begin = "wear of capacity devices: red; 1 GiB of 1 TiB for 100 days, 1.50 days ahead";
        let end = "; nothing spares them but writing less";
        for (years_left, expected) in [
            (None, ""),
            (Some(0.2), ", worn out in 73.0 days at this rate"),
            (Some(2.0), ", worn out in 2.0 years at this rate"),
        ] {
            assert_eq!(of(years_left).to_string(), format!("{begin}{expected}{end}"));
        }
    }
}
