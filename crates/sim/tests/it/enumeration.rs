//! Crash states, one by one.

use thermocline_sim::enumerate::{Budget, enumerate};
use thermocline_sim::settings::{Scale, Settings};

#[test]
fn no_crash_state_of_some_seeds_loses_anything() {
    let mut states = 0;
    for seed in 1..=20 {
        let budget = Budget { states: 1000, failures: 1, per_point: None, only: None };
        let report = enumerate(seed, &budget);
        let failures: Vec<String> = report
            .failures
            .iter()
            .map(|failure| format!("{}: {}", failure.place, failure.what))
            .collect();
        let drawn = Settings::draw(seed, Scale::Small);
        assert!(failures.is_empty(), "{drawn}: {}", failures.join("\n"));
        states += report.states;
    }
    assert!(states > 10_000, "{states} states");
}

#[test]
fn a_state_can_be_looked_at_again_alone() {
    let all = enumerate(1, &Budget { states: 200, failures: 1, per_point: None, only: None });
    assert!(all.states >= 200 && all.points > 0);
    let only = "1:1:0".parse().expect("a place");
    let alone =
        enumerate(1, &Budget { states: 200, failures: 1, per_point: None, only: Some(only) });
    assert!((1..=5).contains(&alone.states), "{}", alone.states);
}
