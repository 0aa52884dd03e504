//! Endurance of devices.

use thermocline_format::MediaClass;

use super::groups::level_of;
use super::{Settings, SettingsError};
use crate::Endurance;

/// Days of service, where nothing is stated: five years, for which makers of data centre drives give warranty.
const SERVICE_DAYS: u32 = 5 * 365;

impl Settings {
    /// Endurance of each class of media, where stated: the sum over all devices of the class. A mirrored pair counts
    /// the smaller endurance of both sides. A striped group sums the members that hold the data of a row.
    #[must_use]
    pub fn endurance(&self) -> Vec<(MediaClass, Endurance)> {
        let days = self.pool.upkeep.service_days.unwrap_or(SERVICE_DAYS);
        let of = |media: MediaClass| {
            let groups = self.groups().into_iter().filter(|group| group[0].device().class == media);
            let least = |group: Vec<Settings>| {
                let stated = group.iter().filter_map(|one| one.device().endurance);
                Some(
                    stated.map(|bytes| bytes.0).min()?.saturating_mul(group[0].shares(group.len())),
                )
            };
            let bytes: Vec<u64> = groups.filter_map(least).collect();
            let endurance = Endurance { bytes: bytes.iter().sum(), days };
            (!bytes.is_empty()).then_some((media, endurance))
        };
        MediaClass::ALL.into_iter().filter_map(of).collect()
    }

    /// Over how many of the members of its group, of which there are so many, data is spread.
    pub(crate) fn shares(&self, members: usize) -> u64 {
        let level = self.device().group().map(|(kind, _)| level_of(kind));
        level.map_or(1, |level| (members - level.parity()) as u64)
    }

    pub(super) fn check_endurance(&self) -> Result<(), SettingsError> {
        for one in self.each_device() {
            let device = one.device();
            if device.endurance.is_some_and(|bytes| bytes.0 == 0) {
                return Err(one
                    .error("device.endurance", "is 0; leave it out of a device that is worn out"));
            }
            let mut alike = self.devices.iter().filter(|other| other.class == device.class);
            if device.endurance.is_none() && alike.any(|other| other.endurance.is_some()) {
                let reason =
                    "is stated of another device of this class: state it of all, or of none";
                return Err(one.error("device.endurance", reason));
            }
        }
        Ok(())
    }
}
