//! Deliberate bugs: a handful that must be caught soon.

use std::time::Duration;

use thermocline_engine::Bug;
use thermocline_sim::faults::{CommandKind, Fault};
use thermocline_sim::hunt::{HuntBudget, Method, hunt};
use thermocline_sim::settings::{Scale, Settings};
use thermocline_sim::situations::Situation;
use thermocline_sim::world::World;

use crate::damage::one_in;

const BUDGET: HuntBudget =
    HuntBudget { seed: 1, states: 200_000, time: Duration::from_secs(300), only: None };

#[test]
fn bugs_of_all_kinds_are_caught() {
    let bugs = [
        Bug::FlushNotSent,
        Bug::FuaIgnored,
        Bug::CheckpointOneTooHigh,
        Bug::RecordBeforePages,
        Bug::ResetWithoutFlush,
        Bug::FailedWriteForgotten,
        Bug::TagNotChecked,
        Bug::MetadataResetTooEarly,
    ];
    for bug in bugs {
        let hunt = hunt(bug, &BUDGET);
        assert!(hunt.caught.is_some(), "{bug:?} was not caught: {hunt:?}");
    }
}

/// By one method each: all methods in turn are `cargo xtask sim --bugs`.
#[test]
fn rare_bugs_are_caught() {
    use Situation::{FailingCopies, LateFailures, Renaming, Reserved, Rewrites};
    let bugs = [
        (Bug::OtherDevicesNotFlushed, Method::Situation(Reserved), 1),
        (Bug::TrimNotReplayed, Method::Situation(Reserved), 1),
        (Bug::PageNotDirtyAfterCopy, Method::LostHeader, 1),
        (Bug::UnreadableMisnamed, Method::DamageAtRest, 1),
        (Bug::ResetUnderReaders, Method::Situation(Reserved), 1),
        (Bug::BehindFailedWriteKept, Method::Situation(LateFailures), 1),
        (Bug::SuccessorsNotAwaited, Method::Situation(Rewrites), 1),
        (Bug::FlushPassesUnit, Method::Situation(LateFailures), 1),
        (Bug::HomeNotConfirmed, Method::OlderHome, 1),
        (Bug::UnitNotAwaited, Method::Situation(FailingCopies), 35),
        (Bug::ReserveNotHeld, Method::Situation(Reserved), 1),
        (Bug::RenameNotReplayed, Method::Situation(Renaming), 1),
    ];
    for (bug, method, seed) in bugs {
        let hunt = hunt(bug, &HuntBudget { seed, only: Some(method), ..BUDGET });
        assert!(hunt.caught.is_some(), "{bug:?} was not caught: {hunt:?}");
    }
}

/// Blocks that no tag is compared for: a read that is wrong once, and a write to another device, show it.
#[test]
fn wrong_reads_and_writes_to_another_device_show_that_nothing_is_compared() {
    let faults =
        [(CommandKind::Read, Fault::Misread), (CommandKind::WriteChunk, Fault::OtherDevice)];
    for (kind, fault) in faults {
        let is_caught = |bug| {
            (0..20).any(|seed| {
                let mut settings = Settings::draw(seed, Scale::Small);
                settings.config.bug = bug;
                let mut world = World::new(seed, settings, vec![one_in(10, kind, fault)]);
                world.run(0);
                !world.wrong.is_empty()
            })
        };
        assert!(is_caught(Some(Bug::TagNotChecked)) && !is_caught(None), "{fault:?}");
    }
}
