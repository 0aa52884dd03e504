//! Deliberate bugs: a handful that must be caught soon.

use std::time::Duration;

use thermocline_engine::Bug;
use thermocline_sim::hunt::{HuntBudget, Method, hunt};
use thermocline_sim::situations::Situation;

#[test]
fn bugs_of_all_kinds_are_caught() {
    let bugs = [
        Bug::FlushNotSent,
        Bug::FuaIgnored,
        Bug::OtherDevicesNotFlushed,
        Bug::TrimNotReplayed,
        Bug::CheckpointOneTooHigh,
        Bug::RecordBeforePages,
        Bug::ResetWithoutFlush,
        Bug::FailedWriteForgotten,
        Bug::TagNotChecked,
        Bug::PageNotDirtyAfterCopy,
        Bug::MetadataResetTooEarly,
        Bug::UnreadableMisnamed,
        Bug::ResetUnderReaders,
        Bug::BehindFailedWriteKept,
        Bug::SuccessorsNotAwaited,
        Bug::FlushPassesUnit,
        Bug::HomeNotConfirmed,
    ];
    let budget =
        HuntBudget { seed: 1, states: 200_000, time: Duration::from_secs(300), only: None };
    for bug in bugs {
        let hunt = hunt(bug, &budget);
        assert!(hunt.caught.is_some(), "{bug:?} was not caught: {hunt:?}");
    }
    // Rare: found in the 43rd seed, by one method.
    let only = Some(Method::Situation(Situation::FailingCopies));
    let hunt = hunt(Bug::UnitNotAwaited, &HuntBudget { seed: 35, only, ..budget });
    assert!(hunt.caught.is_some(), "{hunt:?}");
    let only = Some(Method::Situation(Situation::Reserved));
    let hunt = self::hunt(Bug::ReserveNotHeld, &HuntBudget { only, ..budget });
    assert!(hunt.caught.is_some(), "{hunt:?}");
}
