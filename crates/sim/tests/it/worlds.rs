//! Whole runs: determinism, power cuts at any moment, commands that fail.

use thermocline_engine::DeviceError;
use thermocline_sim::fail::fail_every_action;
use thermocline_sim::faults::{CommandKind, Fault, Rule};
use thermocline_sim::settings::{Scale, Settings};
use thermocline_sim::situations::Situation;
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

/// Each of these ended with a pool that did not open, that did not come to rest, or that refused writes for what could
/// not be read, when nobody expected it.
#[test]
fn a_pool_on_a_device_that_flips_bits_comes_to_rest() {
    let flips =
        Rule { one_in: 6, ..Rule::from_then_on(0, CommandKind::WriteChunk, Fault::Flip(3)) };
    for seed in [92, 841, 1150, 1446, 1589, 2212, 3061, 3435] {
        let mut world = World::new(seed, Settings::draw(seed, Scale::Small), vec![flips]);
        world.run(0);
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

#[test]
fn a_pool_of_which_all_writes_fail_from_some_moment_on_is_read_as_it_was_written() {
    for seed in 0..120 {
        let first = 20 + seed * 37 % 400;
        let fail = |kind| Rule::from_then_on(first, kind, Fault::Fail(DeviceError::Io));
        let records = vec![fail(CommandKind::WriteSuperblock)];
        let all = vec![fail(CommandKind::WriteSuperblock), fail(CommandKind::WriteChunk)];
        let paged = (Situation::Paged.settings(seed), all.clone());
        let small = Settings::draw(seed, Scale::Small);
        for (settings, rules) in [paged, (small.clone(), all), (small, records)] {
            let mut world = World::new(seed, settings, rules);
            world.run_requests(0);
            assert!(world.wrong.is_empty(), "seed {seed}: {}", world.wrong.join("\n"));
        }
    }
}

#[test]
fn a_pool_of_which_nothing_fails_goes_on_writing_in_every_situation() {
    let some = Situation::ALL.into_iter().filter(|one| one.is_tested());
    let some = some.flat_map(|situation| (0..6).map(move |seed| (situation, seed)));
    // A trim waits for memory, and nothing is on its way; volumes shrink and go during a checkpoint; a block
    // that is lost is written while it is read.
    use Situation::{Changing, Paged, Sparse};
    for (situation, seed) in some.chain([(Paged, 1117), (Sparse, 39), (Changing, 2435)]) {
        let mut world = World::new(seed, situation.settings(seed), Vec::new());
        world.run(0);
        assert!(world.wrong.is_empty(), "{situation:?} {seed}: {}", world.wrong.join("\n"));
    }
}
