//! Ratings of a data sheet, and the values of a drive that follow from them.

use serde::Deserialize;
use thermocline_types::Bytes;

use super::check::Rule;
use super::{derived, size};

/// Ratings of the maker. Sequential requests have 128 KiB and random reads 4 KiB; many requests are in flight. Absent
/// ratings are unknown, or are those of a cache that the profile leaves out.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rated {
    /// Sequential reads, in 10^6 bytes per second.
    #[serde(default)]
    pub read_mb_per_s: Option<f64>,
    /// Sequential writes, in 10^6 bytes per second.
    #[serde(default)]
    pub write_mb_per_s: Option<f64>,
    /// Random reads of 4 KiB, in thousands per second.
    #[serde(default)]
    pub read_kiops: Option<f64>,
    /// Random writes of `write_size` to a full drive, in thousands per second; into the SLC cache if there is one.
    #[serde(default)]
    pub write_kiops: Option<f64>,
    /// Size of those random writes.
    #[serde(default = "four_kib", deserialize_with = "size")]
    pub write_size: Bytes,
    /// A random read of 4 KiB alone, in microseconds.
    #[serde(default)]
    pub read_us: Option<f64>,
    /// A random write of 4 KiB alone, in microseconds.
    #[serde(default)]
    pub write_us: Option<f64>,
}

fn four_kib() -> Bytes {
    Bytes::kib(4)
}

impl Rated {
    /// The rules for the values: key, whether the value is acceptable, requirement.
    pub(super) fn rules(&self) -> Vec<Rule> {
        let positive = |value: Option<f64>| value.is_none_or(|value| value > 0.0 && value <= 1e9);
        const POSITIVE: &str = "must be above 0 and at most 10^9";
        vec![
            ("rated.read_mb_per_s", positive(self.read_mb_per_s), POSITIVE),
            ("rated.write_mb_per_s", positive(self.write_mb_per_s), POSITIVE),
            ("rated.read_kiops", positive(self.read_kiops), POSITIVE),
            ("rated.write_kiops", positive(self.write_kiops), POSITIVE),
            (
                "rated.write_size",
                self.write_size.0 > 0 && self.write_size.0.is_multiple_of(Bytes::SECTOR.0),
                "must be a multiple of 512",
            ),
            ("rated.read_us", positive(self.read_us), POSITIVE),
            ("rated.write_us", positive(self.write_us), POSITIVE),
        ]
    }
}

/// Rate of media under collection over that of sequential writes, where the sheet does not rate random writes. Chosen:
/// the middle of 0.49 to 0.75 over the sheets of D5-P5316, D5-P5336, D5-P4320, D7-P5500, D7-P5600, PM9D3a, PM1725a.
const COLLECTING: f64 = 0.6;

/// Adds the values that follow from the ratings: those of [`derived`], and `timing.collecting_mb_per_s` to a profile
/// whose drive collects garbage. It is the rated random writes times the write amplification at the factory's spare, or
/// [`COLLECTING`] of the sequential writes. A rating of an SLC cache says nothing about collection.
pub(super) fn complete(profile: &mut toml::Table) {
    derived::complete(profile);
    let Some(rate) = collecting(profile) else { return };
    if let Some(timing) = profile.get_mut("timing").and_then(toml::Value::as_table_mut) {
        timing.entry("collecting_mb_per_s").or_insert(toml::Value::Float(rate.round()));
    }
}

fn collecting(profile: &toml::Table) -> Option<f64> {
    let collects = profile.get("kind")?.as_str().is_some_and(|kind| {
        ["conventional", "multi-stream", "fdp"].contains(&kind) && !profile.contains_key("slc")
    });
    if !collects {
        return None;
    }
    if let Some(kiops) = number(profile, "rated", "write_kiops") {
        let size = profile["rated"].get("write_size").and_then(toml::Value::as_str);
        let size: Bytes = size.map_or(Ok(four_kib()), str::parse).ok()?;
        return Some(kiops * size.as_f64() / 1e3 * uniform_waf(spare(profile)?));
    }
    Some(COLLECTING * number(profile, "timing", "program_mb_per_s")?)
}

/// Overprovisioning of the product.
pub(super) fn spare(profile: &toml::Table) -> Option<f64> {
    let number = |key| profile.get(key).and_then(as_number);
    number("garbage")
        .map(|garbage| garbage / (1.0 - garbage))
        .or(number("op"))
        .filter(|&op| op > 0.0)
}

/// The number at `table.key`.
pub(super) fn number(profile: &toml::Table, table: &str, key: &str) -> Option<f64> {
    profile.get(table)?.get(key).and_then(as_number)
}

fn as_number(value: &toml::Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|value| value as f64))
}

/// Write amplification of uniform random writes: 1/(1 - X), where the share X of a victim that is still valid solves
/// `X = e^(-(1 + op)(1 - X))` (Desnoyers, SYSTOR 2012; `lab theory` has this and other forms).
pub(super) fn uniform_waf(op: f64) -> f64 {
    // The iterates rise to the smallest root; they converge with the factor X (1 + op) < 1.
    let valid = (0..1_000_000).try_fold(0.0_f64, |valid, _| {
        let next = (-(1.0 + op) * (1.0 - valid)).exp();
        if next - valid < 1e-12 { Err(next) } else { Ok(next) }
    });
    1.0 / (1.0 - valid.unwrap_or_else(|converged| converged))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Profile, builtin};

    fn profile(name: &str, overrides: &[(&str, &str)]) -> Profile {
        let overrides: Vec<(String, String)> =
            overrides.iter().map(|&(key, value)| (key.into(), value.into())).collect();
        Profile::with_overrides(name, builtin(name).unwrap(), &overrides).unwrap()
    }

    fn collecting(name: &str, overrides: &[(&str, &str)]) -> Option<f64> {
        profile(name, overrides).timing.unwrap().collecting_mb_per_s
    }

    #[test]
    fn the_closed_form_has_its_published_points() {
        for (op, waf) in [(0.07, 7.82), (0.15, 4.02), (0.28, 2.48), (0.5, 1.72)] {
            assert!((uniform_waf(op) - waf).abs() < 0.006, "{op}: {}", uniform_waf(op));
        }
    }

    #[test]
    fn the_rate_while_collecting_is_that_of_the_rated_drive() {
        // 7,800 writes of 64 KiB a second, amplified 4.1 times.
        let rated = collecting("p5316", &[]).unwrap();
        assert!((2050.0..2120.0).contains(&rated), "{rated}");
        assert_eq!(
            collecting("p5316", &[("op", "0.5")]),
            Some(rated),
            "the spare is the factory's"
        );
        assert_eq!(collecting("p5316", &[("timing.collecting_mb_per_s", "900")]), Some(900.0));
        assert_eq!(collecting("sn640", &[]), Some(0.6 * 1800.0));
        assert_eq!(collecting("intel660p", &[]), None);
        assert_eq!(collecting("zn540-4tb", &[]), None);
    }
}
