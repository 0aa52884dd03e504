//! Worlds in which nothing may be wrong.

use thermocline_shell::world::{Report, ShellWorld};

/// Worlds that every run goes through. `WORLDS=100000` looks at more.
const WORLDS: u64 = 150;

fn run(seed: u64) -> Report {
    let world = ShellWorld::run(seed);
    world.unwrap_or_else(|what| panic!("cargo xtask shell --only {seed}: {what}"))
}

#[test]
fn in_no_world_is_anything_lost_or_left_waiting() {
    let worlds = std::env::var("WORLDS").ok().and_then(|text| text.parse().ok());
    let mut all = Report::default();
    (0..worlds.unwrap_or(WORLDS)).for_each(|seed| all.add(&run(seed)));
    // What is never drawn is never judged.
    let Report { answers, kills, stops, changes, refusals, faults, .. } = all;
    assert!(answers > 10_000, "{all:?}");
    for count in [kills, stops, changes, refusals, faults] {
        assert!(count > 20, "{all:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_world() {
    for seed in [3, 4, 5, 1000] {
        assert_eq!(run(seed), run(seed));
    }
}
