//! Deliberate errors, which prove that the tests find errors of the same kind.
//!
//! Each bug sits at a place where a log engine easily goes wrong. Bugs exist only with the feature `bugs`; without the
//! feature, [`Bug`] has no value and every check for a bug is constant.

/// An error that the engine makes on purpose.
#[cfg(not(feature = "bugs"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {}

#[cfg(feature = "bugs")]
pub use with_bugs::Bug;

/// Whether the configuration asks for this bug.
macro_rules! bug {
    ($config:expr, $bug:ident) => {{
        #[cfg(feature = "bugs")]
        let made = $config.bug == Some($crate::bugs::Bug::$bug);
        #[cfg(not(feature = "bugs"))]
        let made = {
            let _ = &$config.bug;
            false
        };
        made
    }};
}
pub(crate) use bug;

#[cfg(feature = "bugs")]
mod with_bugs {
    /// Declares each bug once, with its description.
    macro_rules! bugs {
        ($($name:ident: $what:literal,)*) => {
            /// An error that the engine makes on purpose.
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum Bug {
                $(#[doc = $what] $name,)*
            }

            impl Bug {
                /// Every bug, with its description.
                pub const ALL: &[(Bug, &'static str)] = &[$((Bug::$name, $what),)*];
            }
        };
    }

    bugs! {
        FlushNotSent: "a flush of the host is answered without one to the device",
        FlushLeavesStage: "a flush does not wait for blocks that are in memory alone",
        VolumeFlushLeavesStage: "a flush of a volume does not wait for its blocks that are in memory alone",
        SupersededKeepsChecksum: "a block overwritten in memory is written with the checksum of what it had before",
        FlushTooEarly: "a flush covers chunks that are still on their way",
        DurableOffByOne: "one chunk more is called durable than was flushed",
        FlushBeforeRecoveryIsSafe: "a flush is answered while only chunks of an earlier opening would be replayed",
        FuaIgnored: "a FUA write completes without a flush",
        SupersededDoneEarly: "a write overwritten in memory completes before what replaced it is on media",
        OldBlockStaysValid: "an overwritten block is counted as valid for ever",
        PageNotDirtyAfterCopy: "the page of a staged block is not written after its old block was copied",
        CopyNotCheckedAgain: "a copy is sealed although the block was overwritten meanwhile",
        CopyUnverified: "garbage collection copies blocks without looking at their checksum",
        TagNotChecked: "a read does not compare a block with its tag",
        UnreadableMisnamed: "a read error names the first block of what was read, whichever is damaged",
        InFlightReadFromMedia: "a block whose chunk is on its way is read from the device",
        PackedUnverified: "a block that lies packed in a header is believed whatever its checksum",
        PackedShiftForgotten: "the blocks behind a packed one are looked for in memory one place too far",
        VictimOnItsWay: "a unit is collected while chunks are on their way to it",
        TrimNotLogged: "a trim is not logged",
        TrimNotReplayed: "a trim is not replayed",
        BlocksDieBeforeRecoveryIsSafe: "units are freed on the strength of chunks that would not be replayed",
        CheckpointOneTooHigh: "the checkpoint claims one chunk too many",
        StagedPageEntryLost: "a page is written without the old places of blocks that are staged",
        RootsNotWritten: "a checkpoint does not write root pages",
        RecordBeforePages: "the superblock is written before its pages are durable",
        DevicesNotLabelled: "devices but the home do not learn of an opening",
        HomeNotConfirmed: "devices but the home do not learn that the home has the record of an opening",
        OldHomeOverwritten: "the last record that counts is overwritten before one is durable on the new home",
        DrainedDeviceWritten: "a device that is to be drained is written to as before",
        LostReadsAsZeros: "what is lost reads as zeros",
        OtherDevicesNotFlushed: "a flush of the host goes to the home alone",
        ReleaseAwaitsHomeAlone: "units are freed while copies of what was in them are durable on the home alone",
        CleanTooEarly: "a superblock is called clean although chunks follow",
        NewUnitsNotListed: "units are opened that no superblock lists",
        UnitsOpenedBeforeListed: "units are opened before the superblock that lists them is durable",
        OnlyRecordReset: "a superblock unit is reset before the copy in the other is flushed",
        ReleaseNotLogged: "a unit with chunks to be replayed is reset without a Released entry",
        ReleasedBehindTorn: "a release counts after a crash though a chunk before it was torn",
        ReleaseMiscounted: "a Released entry counts one chunk too many",
        ResetWithoutFlush: "a unit is reset before what replaced its blocks is durable",
        ResetUnderReaders: "a unit is reset while it is being read",
        MetadataResetTooEarly: "a metadata unit is reset while its control entries are needed",
        FlushForgetsControl: "a flush does not wait for control entries",
        FailedWriteForgotten: "the blocks of a failed write are not written again",
        WrongChunkAbandoned: "the chunk before the failed one is called abandoned",
        BehindFailedWriteKept: "chunks behind a failed write are left where recovery may not find them",
        SuccessorsNotAwaited: "a failed write does not wait for what was sealed behind it",
        UnitNotAwaited: "a failed write does not wait for what stands before its replacement in a unit",
        FlushPassesUnit: "a flush does not wait for what stands before the host's blocks in their unit",
        DeleteNotLogged: "the deletion of a volume is not logged",
        StayedIsNoWork: "collection stops when all blocks of a step stay on fast devices",
        RenameNotReplayed: "the new name of a volume is not replayed",
        MediaNotReplayed: "where the blocks of a volume are to be is not replayed",
        SnapshotNotReplayed: "a snapshot is not replayed",
        CloneNotCounted: "a block counts as covered if one of two clones covers it",
        SnapshotSharesTop: "what is written to a volume changes its newest snapshot",
        SnapshotDeleteNotLogged: "the deletion of a snapshot is not logged",
        TrimWithoutHole: "a trim above a snapshot shows the blocks of the snapshot",
        HiddenTooEarly: "blocks of a deleted snapshot go before what covers them is durable",
        CoveredNotHidden: "blocks of a deleted snapshot stay though others cover them",
        LiftedOverNewer: "a block of a deleted snapshot moves over what was written above meanwhile",
        DeletedChangesMissed: "blocks of deleted snapshots are not said to have changed",
        ResizeNotReplayed: "a change of size is not replayed",
        EpochIgnored: "chunks that earlier recoveries left behind are replayed",
        EpochNotAdvanced: "a recovery is recorded without a new epoch and the end of its tail",
        TailEndNotWritten: "the record of a recovery does not say where the tail that it found ends",
        VainNotTold: "the record of a recovery does not say how many chunks of pages may be gone",
        FlushedNotTold: "the record of a checkpoint does not say which chunks from then on are durable",
        HoleEndsTail: "recovery stops at the first hole of a unit",
        HeaderNotReadAgain: "a chunk of the tail is not replayed of which the header was not kept",
        TornBlocksReplayed: "blocks of chunks that were not flushed are replayed unseen",
        TailOverwritten: "after a crash writing goes on before the end of what was found",
        LostWrittenOver: "a pool that was opened in spite of a loss is written on where the lost chunk may be",
        StaleKept: "a block counts after a loss though another was written over it",
        RecoveryNotCheckpointed: "recovery ends without a checkpoint",
        TouchedPageNotCounted: "the unit table is not set right for the pages that a recovery changes",
        ZonesNotCounted: "a zone is opened though others are not finished yet",
        MovedAheadCounted: "the unit table counts what the pages on media do not show yet",
        DirtyPageEvicted: "a page gives its memory back before it was written",
        StagedPageEvicted: "a page gives its memory back while an entry of it leads to a block in memory",
        MovedPageFromMedia: "a page that is on its way to another place is read from there",
        MovedPageForgotten: "the failed write of a page that is not in memory is forgotten",
        BasesForgotten: "what a page led to in place of what changed goes on counting when the page is written",
        BaseOfStagedDropped: "what is to be replaced counts no more as soon as the page that leads to it is known",
        PatchNotSaid: "what changed in a page that cannot be read is not said in the log once more",
        PatchesSaidStay: "what was said of pages that could not be read holds for those that are written after all",
        PlacedOfAnyNumber: "what was said of pages that could not be read is replayed whatever record it is about",
        SettledCountedAgain: "what counts no more in place of a block is taken for counted after a crash",
        DeletedVolumeLeftOut: "a record leaves out a deleted volume that is still being unmapped",
        HeaderNotCleared: "a chunk is written behind the header of the chunk before",
        PagesShifted: "the pages of a chunk are written each in the place of the next",
        PackedBlockWritten: "a block that lies packed in a header is written behind it, too",
        SearchEndsEarly: "the search for superblock records leaves out the last unit",
        EarlierUnitsForgotten: "the search for superblock records keeps those of the last unit alone",
        ZoneWrittenAtOnce: "a write to a zone does not wait for the one before",
        OtherVersionsNotAsked: "what fails its check on a device with redundancy is not asked of its other members",
        OtherVersionUnverified: "what other members give is taken without a check, and written over what they are asked for",
        NothingHealed: "what another member has right is not written over what is wrong",
        LeftUnequal: "what was not flushed and counts after a crash is left to the members that have it",
        HolesShownLater: "hosts are served before what is missing amid the tail of a group can be told from what a member shows later",
        ReleasedIsLacking: "a member whose unit was reset after a release counts as one that lacks flushed chunks",
        FirstVersionTaken: "an opening looks for chunks in one version alone",
        RolledBackBelieved: "a member that lacks flushed chunks is believed all the same",
        ReserveNotHeld: "volumes take the room that is reserved for others",
        OneVersionScrubbed: "a scrub compares one version of each block",
        ParityNotScrubbed: "a scrub leaves alone what members hold beside blocks",
        ZoneOrderReversed: "of the writes that wait for a zone the last one goes first",
    }
}
