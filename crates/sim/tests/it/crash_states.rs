//! Crash states of small pools: of seeds that are the same in every run, and of seeds that follow from the commit.
//!
//! `cargo xtask test` sets how many and the second seed; without it they are few.

use std::str::FromStr;

use thermocline_sim::enumerate::{Budget, enumerate};
use thermocline_sim::settings::{Scale, Settings};

/// Crash states of each test, and those of one seed.
const STATES: u64 = 10_000;
const STATES_PER_SEED: u64 = 2000;

fn variable<T: FromStr>(name: &str) -> Option<T> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is no number: `{value}`")))
}

fn nothing_is_lost_from(first_seed: u64) {
    let wanted = variable("THERMOCLINE_CRASH_STATES").unwrap_or(STATES);
    let mut states = 0;
    for seed in first_seed.. {
        let budget = Budget { states: STATES_PER_SEED, failures: 3, per_point: None, only: None };
        let report = enumerate(seed, &budget);
        let failures = report.failures.iter();
        let failures: Vec<String> =
            failures.map(|failure| format!("{}: {}", failure.place, failure.what)).collect();
        let drawn = Settings::draw(seed, Scale::Small);
        assert!(failures.is_empty(), "{drawn}: {}", failures.join("\n"));
        states += report.states;
        if states >= wanted {
            break;
        }
    }
    println!("{states} crash states from seed {first_seed} on");
}

#[test]
fn no_crash_state_of_the_first_seeds_loses_anything() {
    nothing_is_lost_from(1);
}

#[test]
fn no_crash_state_of_the_seeds_of_this_commit_loses_anything() {
    nothing_is_lost_from(variable("THERMOCLINE_SEED").unwrap_or(1_000_000));
}
