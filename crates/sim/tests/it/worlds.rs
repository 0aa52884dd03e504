//! Whole runs: determinism, power cuts at any moment, commands that fail.

use thermocline_sim::fail::fail_every_action;
use thermocline_sim::settings::{Scale, Settings};
use thermocline_sim::world::World;

fn run(seed: u64, crash_one_in: u64) -> World {
    let mut world = World::new(seed, Settings::draw(seed, Scale::Small), Vec::new());
    world.run(crash_one_in);
    world
}

#[test]
fn the_same_seed_gives_the_same_commands_at_the_same_times() {
    for seed in 0..8 {
        let (one, other) = (run(seed, 50), run(seed, 50));
        assert_eq!((one.trace(), one.issued()), (other.trace(), other.issued()), "seed {seed}");
        assert_eq!(one.wrong, other.wrong, "seed {seed}");
        assert_ne!(one.trace(), run(seed + 100, 50).trace(), "seed {seed}");
    }
}

#[test]
fn nothing_is_wrong_when_nothing_fails() {
    for seed in 0..100 {
        let world = run(seed, 0);
        assert!(world.wrong.is_empty(), "seed {seed}: {}", world.wrong.join("\n"));
        assert!(world.issued() > 0, "seed {seed}");
    }
}

#[test]
fn power_cuts_and_kills_at_any_moment_lose_nothing_that_was_flushed() {
    for seed in 0..100 {
        let world = run(seed, 40);
        assert!(world.wrong.is_empty(), "seed {seed}: {}", world.wrong.join("\n"));
    }
}

#[test]
fn any_command_may_fail() {
    let mut runs = 0;
    for seed in 0..6 {
        let report = fail_every_action(seed, 40);
        assert!(report.wrong.is_empty(), "seed {seed}: {:#?}", report.wrong);
        runs += report.runs;
    }
    assert!(runs > 100, "{runs} runs had a fault");
}
