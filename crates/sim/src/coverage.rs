//! The marks of the engine that crash states alone must reach.
//!
//! All further marks need faults, damage or requests that enumeration does not have: `tests/it/marks.rs` reaches every
//! mark. Code whose mark a long run no longer reaches is not tested by any crash state.

use thermocline_engine::{Mark, Marks};

/// Marks that a hundred thousand crash states reach many times over.
const BY_POWER_CUTS: [Mark; 52] = [
    Mark::RecordInOneUnit,
    Mark::HoleSkipped,
    Mark::OtherEpoch,
    Mark::BlockTorn,
    Mark::UnmappedTwice,
    Mark::LifeReleasedWhole,
    Mark::LifeReleasedInPart,
    Mark::LifeStillThere,
    Mark::LifeGoesOn,
    Mark::LifeEnds,
    Mark::TornHeaderOnly,
    Mark::CreateReplayed,
    Mark::CreateKnown,
    Mark::DeleteReplayed,
    Mark::ShrinkReplayed,
    Mark::UnlistedClosed,
    Mark::SparseMoved,
    Mark::MovedPagePatched,
    Mark::PatchOverUnknown,
    Mark::PatchFlies,
    Mark::CheckpointAwaitsRelease,
    Mark::EmptyPageDropped,
    Mark::DropAwaitsCheckpoint,
    Mark::UnitsListed,
    Mark::CheckpointListsUnits,
    Mark::SuperblockUnitReset,
    Mark::CopyFlushedFirst,
    Mark::Unsettled,
    Mark::ClosedClean,
    Mark::ClassesShareUnit,
    Mark::CopyOutdated,
    Mark::QueuesJoined,
    Mark::StagedBlockMoved,
    Mark::NoUnitForHost,
    Mark::PinnedByControl,
    Mark::ReleaseLogged,
    Mark::NoUnitForRelease,
    Mark::DeadFlushed,
    Mark::HeaderMissing,
    Mark::FoundByMap,
    Mark::NotFoundByHeader,
    Mark::RequestWaits,
    Mark::UnmapWaits,
    Mark::StagedTrimmed,
    Mark::FlushPassesCopies,
    Mark::FlushAwaitsUnit,
    Mark::FlushAwaitsRecovery,
    Mark::ScrubWaits,
    Mark::ScrubGoesFurther,
    Mark::ScrubSearches,
    Mark::HeaderCutOff,
    Mark::HeaderStale,
];

/// The marks that power cuts must reach and did not.
#[must_use]
pub fn missed(marks: &Marks) -> Vec<Mark> {
    BY_POWER_CUTS.into_iter().filter(|mark| marks.count(*mark) == 0).collect()
}
