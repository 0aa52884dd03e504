//! Deliberate bugs: a handful that must be caught soon.

use std::time::Duration;

use thermocline_engine::Bug;
use thermocline_sim::hunt::{HuntBudget, Method, hunt};
use thermocline_sim::situations::Situation;

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
    use Situation::{FailingCopies, LateFailures, Reserved, Rewrites};
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
    ];
    for (bug, method, seed) in bugs {
        let hunt = hunt(bug, &HuntBudget { seed, only: Some(method), ..BUDGET });
        assert!(hunt.caught.is_some(), "{bug:?} was not caught: {hunt:?}");
    }
}
