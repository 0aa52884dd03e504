//! Devices that are pairs and groups, with one wrong member.

use std::collections::BTreeMap;

use thermocline_engine::{DeviceError, HostRequest, Reply};
use thermocline_sim::disk::{Disk, Latency};
use thermocline_sim::faults::{CommandKind, Fault, Injector, Rule};
use thermocline_sim::healed::{put_back_is_filled, refused_unchanged, scrub_heals};
use thermocline_sim::machine::Machine;
use thermocline_sim::settings::Settings;
use thermocline_sim::situations::Situation;
use thermocline_sim::world::World;

/// Crash states of one seed.
const STATES: u64 = 400;

#[test]
fn one_wrong_member_costs_nothing_that_was_flushed() {
    let (mut states, mut drawn) = (0, BTreeMap::<String, u64>::new());
    let once = (1..=16).chain([56, 76, 85, 137]).map(|seed| (Situation::Members, seed));
    let twice = [2].into_iter().chain(17..=26).map(|seed| (Situation::TwiceWrong, seed));
    for (situation, seed) in once.chain(twice) {
        let settings = situation.settings(seed);
        let how = settings.wrong.map_or("none".to_owned(), |wrong| format!("{:?}", wrong.how));
        let also = settings.wrong.and_then(|wrong| wrong.also).map(|also| format!("{also:?}"));
        let levels = settings.groups.0.iter().map(|group| format!("{:?}", group.shape.level));
        for word in levels.chain([how]).chain(also) {
            *drawn.entry(word).or_default() += 1;
        }
        let report = situation.look(seed, settings.clone(), STATES);
        let failures = report.failures.iter();
        let failures: Vec<String> =
            failures.map(|failure| format!("{}: {}", failure.place, failure.what)).collect();
        assert!(failures.is_empty(), "{settings}: {}", failures.join("\n"));
        states += report.states;
    }
    assert!(states > 4_000, "{states} states");
    for word in ["Flips", "RolledBack", "Lies", "none", "Parity", "Mirrored"] {
        assert!(drawn.get(word).is_some_and(|count| *count >= 1), "{word}: {drawn:?}");
    }
}

#[test]
fn a_scrub_heals_a_wrong_member_before_another_one_is_wrong() {
    for seed in 1..=40 {
        let settings = Situation::Members.settings(seed);
        assert_eq!(scrub_heals(seed, settings.clone()), Ok(()), "seed {seed}: {settings}");
    }
}

#[test]
fn a_member_that_was_put_back_is_filled_before_another_one_is_wrong() {
    for seed in 1..=40 {
        let settings = Situation::Members.settings(seed);
        assert_eq!(put_back_is_filled(seed, settings.clone()), Ok(()), "seed {seed}: {settings}");
    }
}

#[test]
fn read_errors_of_members_are_excused_only_where_two_members_were_hit() {
    let mut failed = 0;
    for seed in 20..60 {
        let settings = Settings { wrong: None, ..Situation::Members.settings(seed) };
        let reads = Rule::from_then_on(20, CommandKind::Read, Fault::Fail(DeviceError::Io));
        let rules = vec![Rule { one_in: 10, ..reads }];
        let mut world = World::new(seed, settings.clone(), rules);
        world.run(60);
        failed += world.machine.disk.injector().log().len();
        assert!(world.wrong.is_empty(), "seed {seed}: {:?} {settings}", world.wrong);
    }
    assert!(failed > 1_000, "{failed} reads failed");
}

#[test]
fn an_opening_that_is_refused_leaves_every_member_as_it_is() {
    let refused = |seed: u64| refused_unchanged(seed, Situation::Members.settings(seed));
    let refused: Result<Vec<bool>, String> = (1..=24).map(refused).collect();
    let refused = refused.unwrap().into_iter().filter(|refused| *refused).count();
    assert!(refused >= 8, "{refused} of 24 openings were refused");
}

/// The pool of a world on groups, closed, once for each of `first..` with another command that fails once.
fn scrubs_with_one_error(seed: u64, mut judge: impl FnMut(u64, u64, u64)) {
    let settings = Settings { wrong: None, ..Situation::Members.settings(seed) };
    let mut world = World::new(seed, settings.clone(), Vec::new());
    world.run(0);
    assert!(world.goes_on() && world.machine.close().is_ok(), "seed {seed}: {:?}", world.wrong);
    let image = world.machine.disk.cache().current().clone();
    for command in 0..120 {
        let disk = Disk::new(&world.arena, image.clone(), Latency::NONE, seed);
        let disk = disk.with_groups(&settings.groups);
        let mut machine = Machine::open(settings.config.clone(), &world.arena, disk, seed);
        machine.wait_until_open().expect("it was closed in order");
        let rules = vec![Rule::once(command, Fault::Fail(DeviceError::Io))];
        machine.disk.inject(Injector::new(rules, seed));
        let (reply, _) = machine.ask(HostRequest::Scrub).expect("a scrub ends");
        let Ok(Reply::Scrubbed { damaged, mended, .. }) = reply else { panic!("{reply:?}") };
        judge(command, damaged, mended);
    }
}

#[test]
fn an_error_that_passes_is_no_wrong_place_of_a_member() {
    for seed in [1, 2, 5, 9] {
        scrubs_with_one_error(seed, |command, damaged, mended| {
            assert!(damaged == 0 && mended <= 1, "seed {seed}, command {command}: {mended} places");
        });
    }
}

#[cfg(feature = "bugs")]
mod bugs {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use thermocline_array::bugs::{ArrayBug, set};
    use thermocline_engine::Bug;
    use thermocline_sim::hunt::{HuntBudget, Method, hunt};

    use super::*;

    /// The seed with which a bug of arrays is found, if one of the first ones is.
    fn found(bug: ArrayBug) -> Option<u64> {
        (1..=60).find(|&seed| {
            let settings = Situation::Members.settings(seed);
            set(Some(bug));
            let wrong = catch_unwind(AssertUnwindSafe(|| {
                let report = Situation::Members.look(seed, settings.clone(), STATES);
                !report.failures.is_empty() || scrub_heals(seed, settings.clone()).is_err()
            }));
            set(None);
            wrong.unwrap_or(true)
        })
    }

    #[test]
    fn bugs_of_healing_are_caught() {
        use Method::ScrubHeals;
        let wrong = Method::Situation(Situation::Members);
        // Each with the method that finds it soonest, and the first seed to be tried.
        let bugs = [
            (Bug::OtherVersionsNotAsked, ScrubHeals, 1),
            (Bug::OtherVersionUnverified, wrong, 1),
            (Bug::NothingHealed, wrong, 1),
            (Bug::LeftUnequal, wrong, 1),
            (Bug::FirstVersionTaken, ScrubHeals, 1),
            (Bug::OneVersionScrubbed, ScrubHeals, 1),
            (Bug::ParityNotScrubbed, ScrubHeals, 1),
            (Bug::HolesShownLater, wrong, 64),
            (Bug::ReleasedIsLacking, wrong, 31),
            (Bug::RolledBackBelieved, ScrubHeals, 1),
        ];
        let time = Duration::from_secs(300);
        let caught = |bug: Bug, method: Method, seed: u64| {
            let budget = HuntBudget { seed, states: 20_000, time, only: Some(method) };
            hunt(bug, &budget).caught.is_some()
        };
        let missed: Vec<_> =
            bugs.into_iter().filter(|&(bug, method, seed)| !caught(bug, method, seed)).collect();
        assert!(missed.is_empty(), "not caught: {missed:?}");
    }

    #[test]
    fn bugs_of_arrays_are_caught() {
        let bugs =
            [ArrayBug::VersionNotHeeded, ArrayBug::ParityNotHealed, ArrayBug::CopyNotWritten];
        let missed: Vec<ArrayBug> = bugs.into_iter().filter(|bug| found(*bug).is_none()).collect();
        assert!(missed.is_empty(), "not caught: {missed:?}");
        set(Some(ArrayBug::WritesBeforeChange));
        let refused = |seed: u64| refused_unchanged(seed, Situation::Members.settings(seed));
        let caught = (1..=24).any(|seed| refused(seed).is_err());
        set(None);
        assert!(caught, "members are written to before the opening has judged");
    }
}
