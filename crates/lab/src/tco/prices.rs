//! What drives, energy, servers, racks and carbon cost: a TOML file with a source for every number.

use std::collections::BTreeMap;

use serde::Deserialize;
use thermocline_nand::profile::read;

use crate::Error;

/// The price file that comes with the program.
pub const DEFAULT_PRICES: &str = include_str!("../../tco/prices.toml");

/// A price file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// How long and how.
    pub service: Service,
    /// Electricity.
    pub energy: Energy,
    /// Embodied carbon.
    pub carbon: Carbon,
    /// A server.
    pub server: ServerPrice,
    /// A rack.
    pub rack: RackPrice,
    /// How uncertain all of this is.
    pub deviation: Deviations,
    /// Drives by the name of their profile.
    pub drive: BTreeMap<String, DrivePrice>,
    /// Drives that cost as much as another of `drive`, by name.
    #[serde(default)]
    pub like: BTreeMap<String, String>,
    /// Where each number comes from, by key; the longest matching prefix of a key counts.
    #[serde(default)]
    pub source: BTreeMap<String, String>,
}

/// How long the drives serve, and how much more than the data and the mean there is to be.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Years.
    pub years: f64,
    /// The highest rate of writes over the mean of the day.
    pub peak_over_mean: f64,
    /// Bytes stored and written for each byte of the user: 2 for mirrors.
    pub redundancy: f64,
}

/// Electricity.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Energy {
    /// US dollars per kilowatt-hour.
    pub usd_per_kwh: f64,
    /// Power of the building over power of the computers.
    pub pue: f64,
    /// Carbon of the grid, kg CO2e per kilowatt-hour.
    pub kg_co2e_per_kwh: f64,
}

/// Carbon of making things.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Carbon {
    /// Flash, kg CO2e per GB of media.
    pub flash_kg_per_gb: f64,
    /// Disks, kg CO2e per GB.
    pub disk_kg_per_gb: f64,
    /// A server without drives, kg CO2e.
    pub server_kg: f64,
}

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerPrice {
    /// US dollars, without drives.
    pub usd: f64,
    /// Watts, without drives.
    pub watts: f64,
    /// Drives that fit.
    pub slots: u32,
    /// Slots of the fast drives of a tier beside them; with 0 they share `slots`.
    pub fast_slots: u32,
    /// RackPrice units.
    pub rack_units: f64,
}

/// A rack.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RackPrice {
    /// RackPrice units for servers.
    pub units: f64,
    /// Kilowatts that it feeds.
    pub kw: f64,
    /// US dollars a year, without energy.
    pub usd_per_year: f64,
}

/// Relative standard deviations of the inputs, of their logarithms.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviations {
    /// Endurance of a drive relative to the profile.
    pub endurance: f64,
    /// Bytes written a day.
    pub load: f64,
    /// Write amplification over years relative to the run.
    pub write_amplification: f64,
    /// Price of a drive.
    pub drive_price: f64,
    /// Share of drives that fail a year.
    pub failures: f64,
    /// Watts of drives and servers.
    pub power: f64,
    /// Price of electricity.
    pub energy_price: f64,
    /// Carbon of the grid.
    pub grid: f64,
    /// Carbon of making things.
    pub embodied_carbon: f64,
    /// Price of a server.
    pub server_price: f64,
    /// Price of a rack.
    pub rack_price: f64,
}

/// A drive.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrivePrice {
    /// US dollars per TB of capacity.
    pub usd_per_tb: f64,
    /// Watts when idle.
    pub idle_w: f64,
    /// Watts at its limit.
    pub active_w: f64,
    /// Share of drives that fail a year, for other reasons than wear.
    pub failures_per_year: f64,
    /// Whether it is a disk and no flash.
    #[serde(default)]
    pub disk: bool,
}

impl Prices {
    /// Reads a price file called `file` after replacing values by dotted keys, as in `energy.usd_per_kwh`.
    ///
    /// # Errors
    /// [`Error::Settings`] with file, key and reason.
    pub fn from_toml(
        file: &str,
        text: &str,
        overrides: &[(String, String)],
    ) -> Result<Prices, Error> {
        let refuse = |key: &str, reason: &str| {
            let key = if key.is_empty() { String::new() } else { format!("`{key}`: ") };
            Error::Settings(format!("price file {file}: {key}{reason}"))
        };
        let prices: Prices =
            read(text, overrides).map_err(|wrong| refuse(&wrong.key, &wrong.reason))?;
        match prices.wrong() {
            Some((key, reason)) => Err(refuse(&key, reason)),
            None => Ok(prices),
        }
    }

    /// Key of the first invalid value, and the allowed range.
    fn wrong(&self) -> Option<(String, &'static str)> {
        const POSITIVE: &str = "must be above 0 and below 10^12";
        const AMOUNT: &str = "must be 0 or more and below 10^12";
        const DEVIATION: &str = "must be between 0 and 1";
        let positive = |value: f64| value > 0.0 && value < 1e12;
        let amount = |value: f64| (0.0..1e12).contains(&value);
        let Prices { service, energy, carbon, server, rack, .. } = self;
        let named = [
            ("service.years", positive(service.years), POSITIVE),
            ("service.peak_over_mean", service.peak_over_mean >= 1.0, "must be at least 1"),
            ("service.redundancy", service.redundancy >= 1.0, "must be at least 1"),
            ("energy.usd_per_kwh", amount(energy.usd_per_kwh), AMOUNT),
            ("energy.pue", energy.pue >= 1.0, "must be at least 1"),
            ("energy.kg_co2e_per_kwh", amount(energy.kg_co2e_per_kwh), AMOUNT),
            ("carbon.flash_kg_per_gb", amount(carbon.flash_kg_per_gb), AMOUNT),
            ("carbon.disk_kg_per_gb", amount(carbon.disk_kg_per_gb), AMOUNT),
            ("carbon.server_kg", amount(carbon.server_kg), AMOUNT),
            ("server.usd", amount(server.usd), AMOUNT),
            ("server.watts", amount(server.watts), AMOUNT),
            ("server.slots", server.slots > 0, "must be at least 1"),
            ("server.rack_units", amount(server.rack_units), AMOUNT),
            ("rack.units", positive(rack.units), POSITIVE),
            ("rack.kw", positive(rack.kw), POSITIVE),
            ("rack.usd_per_year", amount(rack.usd_per_year), AMOUNT),
        ];
        let deviations = self.deviation.named();
        let deviations = deviations
            .map(|(name, value)| (format!("deviation.{name}"), (0.0..=1.0).contains(&value)));
        let drives = self.drive.iter().map(|(name, drive)| {
            let values = [drive.usd_per_tb, drive.idle_w, drive.active_w, drive.failures_per_year];
            (format!("drive.{name}"), values.into_iter().all(amount))
        });
        let named = named.map(|(key, holds, reason)| (key.to_owned(), holds, reason)).into_iter();
        named
            .chain(deviations.into_iter().map(|(key, holds)| (key, holds, DEVIATION)))
            .chain(drives.map(|(key, holds)| (key, holds, AMOUNT)))
            .find(|(_, holds, _)| !holds)
            .map(|(key, _, reason)| (key, reason))
    }

    /// What the drive of profile `name` costs.
    ///
    /// # Errors
    /// [`Error::Settings`] when the file has no such drive.
    pub fn drive(&self, name: &str) -> Result<DrivePrice, Error> {
        let like = || self.drive.get(self.like.get(name)?);
        self.drive.get(name).or_else(like).copied().ok_or_else(|| {
            Error::Settings(format!(
                "there is no price of the drive `{name}`: add [drive.{name}] to the price file, \
                 or give `price` drive.{name}.usd_per_tb=80 and the like for idle_w, active_w and failures_per_year"
            ))
        })
    }
}

impl Deviations {
    /// All of them by name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, f64); 11] {
        [
            ("endurance", self.endurance),
            ("load", self.load),
            ("write_amplification", self.write_amplification),
            ("drive_price", self.drive_price),
            ("failures", self.failures),
            ("power", self.power),
            ("energy_price", self.energy_price),
            ("grid", self.grid),
            ("embodied_carbon", self.embodied_carbon),
            ("server_price", self.server_price),
            ("rack_price", self.rack_price),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_nand::profile::names;

    #[test]
    fn every_number_has_a_source_and_every_drive_but_the_ideal_one_a_price() {
        let prices = Prices::from_toml("built-in", DEFAULT_PRICES, &[]).unwrap();
        for name in names().filter(|name| *name != "ideal") {
            prices.drive(name).unwrap();
        }
        let known: Vec<&str> = names().collect();
        assert!(prices.like.keys().all(|name| known.contains(&name.as_str())));
        let text = DEFAULT_PRICES.split("[source]").next().unwrap();
        let mut table = String::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                table = name.to_owned();
            } else if let Some((key, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#'))
            {
                let key = format!("{table}.{key}");
                let sourced =
                    |source: &String| key == *source || key.starts_with(&format!("{source}."));
                assert!(prices.source.keys().any(sourced), "{key} has no source");
            }
        }
    }

    #[test]
    fn values_are_replaced_and_what_is_wrong_is_named() {
        let with = |key: &str, value: &str| {
            Prices::from_toml("mine.toml", DEFAULT_PRICES, &[(key.into(), value.into())])
        };
        let dear = with("energy.usd_per_kwh", "0.3").unwrap().energy.usd_per_kwh;
        assert!((dear - 0.3).abs() < 1e-12);
        for (key, value, reason) in [
            ("service.years", "0", "above 0"),
            ("deviation.load", "2", "between 0 and 1"),
            ("drive.p5316.usd_per_tb", "-1", "0 or more"),
            ("energy.colour", "1", "unknown field"),
        ] {
            let text = with(key, value).unwrap_err().to_string();
            assert!(text.contains("mine.toml") && text.contains(reason), "{key}: {text}");
        }
        assert!(with("service.years", "5").unwrap().drive("mine").is_err());
    }
}
