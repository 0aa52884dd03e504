use super::*;
use crate::profile::{Profile, builtin, names};

fn of(name: &str) -> Integrity {
    Profile::from_toml(name, builtin(name).unwrap()).unwrap().integrity.unwrap()
}

/// At the rated wear, 90 days at 40 °C, as JESD218 asks of drives for data centres.
const RATED: Condition = Condition { wear: 1.0, age_days: 90.0, celsius: 40.0, reads: 0.0 };

#[test]
fn every_value_of_a_class_is_known_has_a_source_and_can_be_replaced() {
    for (name, text) in CLASSES {
        let table: toml::Table = text.parse().unwrap();
        let sources = table["source"].as_table().unwrap();
        for (part, values) in table.iter().filter(|(part, _)| *part != "source") {
            for key in values.as_table().into_iter().flatten().map(|(key, _)| key) {
                let key = format!("{part}.{key}");
                let sourced =
                    |source: &String| key == *source || key.starts_with(&format!("{source}."));
                assert!(sources.keys().any(sourced), "{name}: {key}");
                let explained = include_str!("../../../../docs/use/PROFILES.md");
                assert!(explained.contains(&format!("| `integrity.{key}` |")), "{key}");
            }
        }
    }
    let with = |key: &str, value: &str| {
        let key = format!("integrity.{key}");
        Profile::with_overrides("p5316", builtin("p5316").unwrap(), &[(key, value.into())])
    };
    let changed = with("ecc.soft_bits", "300").unwrap().integrity.unwrap();
    assert_eq!((changed.ecc.soft_bits, changed.ecc.hard_bits), (300, of("p5316").ecc.hard_bits));
    assert_eq!(with("cells", "plc").unwrap_err().key(), "integrity.cells");
    assert_eq!(with("parity.dies", "1").unwrap_err().key(), "integrity.parity.dies");
    assert_eq!(with("ecc.colour", "1").unwrap_err().key(), "integrity.ecc.colour");
}

#[test]
fn every_drive_of_flash_has_models_and_meets_the_error_rate_that_jedec_asks_for() {
    for name in names() {
        let profile = Profile::from_toml(name, builtin(name).unwrap()).unwrap();
        let is_flash = !["ideal", "hdd", "p5800x"].contains(&name);
        assert_eq!(profile.integrity.is_some(), is_flash, "{name}");
        // 10^-16 for drives of data centres (JESD218): the values were assumed so that this holds.
        if let Some(integrity) = profile.integrity {
            let uber = integrity.outcome(&RATED, 1.0).uber;
            assert!(uber < 1e-16, "{name}: {uber:e}");
        }
    }
}

#[test]
fn errors_grow_with_wear_age_heat_and_reads() {
    let tlc = of("pm9d3");
    let rate = |wear, age_days, celsius, reads| {
        tlc.errors(&Condition { wear, age_days, celsius, reads }).rate()
    };
    let errors = &tlc.errors;
    let rated = errors.fresh + errors.cycled + errors.retained + errors.program_disturb;
    assert!((rate(1.0, 90.0, 40.0, 0.0) / rated - 1.0).abs() < 1e-12);
    assert!(rate(0.5, 90.0, 40.0, 0.0) < rated && rate(1.0, 30.0, 40.0, 0.0) < rated);
    assert!(rate(1.0, 90.0, 55.0, 0.0) > rated && rate(1.0, 90.0, 40.0, 1e5) > rated + 0.9e-4);
    // JESD22-A117: 1.1 eV between 40 and 55 degrees is 6.4 times.
    assert!((acceleration(1.1, 55.0) - 6.44).abs() < 0.02, "{}", acceleration(1.1, 55.0));
    assert!((acceleration(1.1, 40.0) - 1.0).abs() < 1e-12);
}

#[test]
fn each_protection_takes_part_of_what_is_left() {
    let qlc = of("p5316");
    let worn = Condition { wear: 1.5, age_days: 365.0, celsius: 55.0, reads: 0.0 };
    let all = qlc.outcome(&worn, 1.0);
    assert!(all.beyond.windows(2).all(|pair| pair[1] <= pair[0]), "{all:?}");
    assert!((all.rebuilt + all.lost - all.uncorrectable).abs() < 1e-15);
    let mut without = qlc.clone();
    without.parity.dies = 0;
    let bare = without.outcome(&worn, 1.0);
    assert_eq!((bare.rebuilt, bare.lost), (0.0, bare.uncorrectable));
    without.ecc.soft_bits = 0;
    without.retry.steps = 0;
    let hard = without.outcome(&worn, 1.0);
    assert!(hard.lost > bare.lost && bare.lost > all.lost, "{hard:?} {bare:?} {all:?}");
    assert!(qlc.outcome(&worn, 2.0).lost > all.lost);
}

#[test]
fn refresh_comes_sooner_with_wear_heat_and_reads_and_never_sooner_than_the_patrol() {
    let qlc = of("p5316");
    assert_eq!(qlc.refresh_days(0.0, 40.0, 0.0), None);
    let days = |wear, celsius, reads| qlc.refresh_days(wear, celsius, reads).unwrap();
    let rated = days(1.0, 40.0, 0.0);
    assert!(days(1.0, 30.0, 0.0) > rated && days(0.8, 40.0, 0.0) > rated);
    assert!(days(1.0, 40.0, 1e5) < rated);
    assert!((days(1.2, 70.0, 0.0) - qlc.upkeep.patrol_days).abs() < 1e-9);
    let mut off = qlc.clone();
    off.upkeep.refresh_at = 0.0;
    assert_eq!(off.refresh_days(1.0, 40.0, 0.0), None);
}

#[test]
fn drives_fail_most_when_they_are_new() {
    let failures = Failures { per_year: 0.01, infant_factor: 2.0, infant_days: 100.0 };
    let first = failures.between(0.0, 365.0);
    // 1 % a year, and 2 % a year for 100 days (less what is left after a year).
    let expected = 0.01 + 0.02 * 100.0 / 365.0 * (1.0 - (-3.65_f64).exp());
    assert!((first / (1.0 - (-expected).exp()) - 1.0).abs() < 1e-9);
    assert!(failures.between(365.0, 730.0) < 0.0102);
}
