use super::*;
use crate::tco::Device;
use crate::tco::prices::DEFAULT_PRICES;
use thermocline_types::Bytes;

/// A drive of 15.36 TB that holds 12 TB and takes 50 PB of its media.
fn measured(stack: &str, waf: f64, rate: f64) -> MeasuredStack {
    MeasuredStack {
        stack: stack.into(),
        data_bytes: 12e12,
        write_bytes_per_second: Some(rate),
        requests_per_second: Some(rate / 4096.0),
        devices: vec![Device {
            name: "p5316".into(),
            capacity_bytes: 15.36e12,
            media_bytes: 17.6e12,
            per_drive: 1.0,
            wear_per_host_byte: waf,
            endurance_bytes: Some(50e15),
        }],
    }
}

fn prices(overrides: &[(&str, &str)]) -> Prices {
    let overrides: Vec<_> =
        overrides.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Prices::from_toml("built-in", DEFAULT_PRICES, &overrides).unwrap()
}

const DEMAND: Demand = Demand {
    data_bytes: 100e12,
    daily_write_bytes: 40e12,
    peak_write_bytes_per_second: None,
    peak_requests_per_second: None,
};

/// Worked by hand: 9 drives hold 108 TB; 40 TB a day at a WAF of 4 is 58.4 PB of media a year on 450 PB: 7.7 years; at
/// 16 it is 1.93 years, and 9 · 5 / 1.927 = 23.4 drives wear out in five years, with 0.4 that fail besides.
#[test]
fn a_fleet_and_its_bill_are_as_worked_by_hand() {
    let prices = prices(&[]);
    let at = |waf| compare(&prices, &DEMAND, &[measured("a", waf, 4e9)], 100, 1).unwrap();
    let low = &at(4.0).costs[0];
    assert_eq!((low.fleet.limit, low.fleet.drives[0].count), ("capacity", 9.0));
    assert!((low.fleet.drives[0].life_years.unwrap() - 7.705).abs() < 0.001);
    let price = 15.36 * 80.0;
    assert!((low.bill.drives - 9.0 * price).abs() < 1e-6);
    assert!((low.bill.replacements - 9.0 * 0.045 * price).abs() < 1e-6);
    let high = &at(16.0).costs[0];
    let bought = 9.0 * (5.0 / (450.0 / (40.0 * 16.0 * 365.0 / 1000.0)) + 0.045);
    assert!((high.bill.replacements - (bought - 9.0) * price).abs() < 1e-6);
    // One server; duty 40 TB a day of 9 · 4 GB/s.
    let duty = 40e12 / 86_400.0 / (9.0 * 4e9);
    let watts = 250.0 + 9.0 * (5.0 * (1.0 - duty) + 25.0 * duty);
    assert!((low.fleet.watts - watts).abs() < 1e-9);
    assert!((low.bill.energy - watts * 8.76 * 5.0 * 1.58 * 0.12).abs() < 1e-6);
    assert_eq!((low.fleet.servers, low.fleet.racks), (1.0, 0.05));
    assert!((low.bill.racks - 1500.0).abs() < 1e-9);
    assert!((low.fleet.tb_per_rack_unit - 50.0).abs() < 1e-9);
}

#[test]
fn slow_drives_are_needed_for_their_rate() {
    // The peak is 4 · 40 TB a day: 1.85 GB/s.
    let slow = compare(&prices(&[]), &DEMAND, &[measured("slow", 1.0, 20e6)], 10, 1).unwrap();
    assert_eq!((slow.costs[0].fleet.limit, slow.costs[0].fleet.drives[0].count), ("writes", 93.0));
    let asked = Demand { peak_requests_per_second: Some(1e6), ..DEMAND };
    let fast = compare(&prices(&[]), &asked, &[measured("fast", 1.0, 400e6)], 10, 1).unwrap();
    assert_eq!(
        (fast.costs[0].fleet.limit, fast.costs[0].fleet.drives[0].count),
        ("requests", 11.0)
    );
    let mirrored = prices(&[("service.redundancy", "2")]);
    let two = compare(&mirrored, &DEMAND, &[measured("two", 1.0, 4e9)], 10, 1).unwrap();
    let fleet = &two.costs[0].fleet;
    assert_eq!((fleet.limit, fleet.drives[0].count), ("capacity", 17.0));
}

#[test]
fn bands_come_from_the_deviations_and_from_nothing_else() {
    let exact: Vec<(String, String)> = prices(&[])
        .deviation
        .named()
        .iter()
        .map(|(name, _)| (format!("deviation.{name}"), "0.0".to_owned()))
        .collect();
    let none = Prices::from_toml("built-in", DEFAULT_PRICES, &exact).unwrap();
    let stacks = [measured("a", 4.0, 4e9), measured("b", 16.0, 4e9)];
    let sure = compare(&none, &DEMAND, &stacks, 50, 1).unwrap();
    for cost in &sure.costs {
        let total = cost.bill.total();
        let Band { p10, p50, p90 } = cost.usd;
        assert!([p10, p50, p90].iter().all(|usd| (usd / total - 1.0).abs() < 1e-12), "{cost:?}");
        assert!(cost.sensitivity.is_empty());
    }
    assert_eq!((sure.costs[0].cheapest_share, sure.costs[1].cheapest_share), (1.0, 0.0));
    assert!(sure.verdict.starts_with("a costs least"), "{}", sure.verdict);
    assert!(sure.verdict.contains("most of that is replacements"), "{}", sure.verdict);
    // One input alone: its log-normal band to within the error of 20,000 trials, and that of the sum of twelve.
    let mut one = exact.clone();
    one.retain(|(name, _)| name != "deviation.embodied_carbon");
    let only = [one, vec![("energy.kg_co2e_per_kwh".to_owned(), "0".to_owned())]].concat();
    let only = Prices::from_toml("built-in", DEFAULT_PRICES, &only).unwrap();
    let kg = compare(&only, &DEMAND, &stacks[..1], 20_000, 7).unwrap().costs[0].kg_co2e;
    let width = (0.4 * Z90).exp();
    assert!((kg.p90 / kg.p50 / width - 1.0).abs() < 0.03, "{kg:?}");
    assert!((kg.p50 / kg.p10 / width - 1.0).abs() < 0.03, "{kg:?}");
}

#[test]
fn what_stacks_share_is_drawn_once_and_equal_seeds_give_equal_bands() {
    let prices = prices(&[]);
    let same = [measured("a", 4.0, 4e9), measured("b", 4.0, 4e9)];
    let both = compare(&prices, &DEMAND, &same, 500, 3).unwrap();
    assert!(both.verdict.starts_with("nothing to choose"), "{}", both.verdict);
    assert!(both.verdict.contains("wear does not decide"), "{}", both.verdict);
    assert_eq!(both, compare(&prices, &DEMAND, &same, 500, 3).unwrap());
    assert_ne!(both.costs[0].usd, compare(&prices, &DEMAND, &same, 500, 4).unwrap().costs[0].usd);
    // A stack that costs a little more of everything loses every trial, as wide as the bands are.
    let demand = Demand::new(Bytes(100_000_000_000_000), Bytes(1_000_000_000));
    let fuller = MeasuredStack { data_bytes: 11e12, ..measured("b", 4.0, 4e9) };
    let two = compare(&prices, &demand, &[same[0].clone(), fuller], 500, 3).unwrap();
    assert!(two.costs[1].cheapest_share < f64::MIN_POSITIVE);
}

/// At the price that flips the verdict both bills are equal.
#[test]
fn bills_are_equal_where_an_input_flips_the_verdict() {
    let mut stacks = [measured("a", 4.0, 4e9), measured("b", 4.0, 4e9)];
    stacks[1].devices[0].name = "pm9d3".into();
    let dear = ("drive.pm9d3.usd_per_tb", "100");
    let comparison = compare(&prices(&[dear]), &DEMAND, &stacks, 100, 1).unwrap();
    let total = |bills: &[Bill]| [bills[0].total(), bills[1].total()];
    let [a, b] = total(&bills(&prices(&[dear]), &DEMAND, &stacks).unwrap());
    assert!(a < b, "{a} {b}");
    let flip = comparison.flip.expect("the price of a drive is such an input");
    assert_eq!(flip.cheapest, "b", "{flip:?}");
    let value = (flip.input.as_str(), &*flip.value.to_string());
    let [a, b] = total(&bills(&prices(&[dear, value]), &DEMAND, &stacks).unwrap());
    assert!((a / b - 1.0).abs() < 1e-4, "{a} {b} {flip:?}");
}
