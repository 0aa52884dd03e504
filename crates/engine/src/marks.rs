//! Coverage marks: branches that matter when something fails, and how often each was reached.
//!
//! A mark is placed where the engine does rare work. The simulation counts marks, and its tests fail when a mark was
//! not reached: the code behind an unreached mark is untested or needless. Marks exist only with the feature `marks`;
//! without the feature, no code of a mark remains. The crate `cov-mark` checks one mark around one test; here all marks
//! have names and are counted over whole campaigns.

/// Counts the mark as reached; with `if`, only when the condition holds.
#[cfg(feature = "marks")]
macro_rules! mark {
    ($mark:ident) => {
        $crate::marks::reach($crate::marks::Mark::$mark)
    };
    ($mark:ident if $condition:expr) => {
        if $condition {
            $crate::marks::reach($crate::marks::Mark::$mark)
        }
    };
}
#[cfg(not(feature = "marks"))]
macro_rules! mark {
    ($mark:ident) => {
        ()
    };
    ($mark:ident if $condition:expr) => {
        if false {
            let _: bool = $condition;
        }
    };
}
pub(crate) use mark;

#[cfg(feature = "marks")]
pub(crate) use counted::reach;
#[cfg(feature = "marks")]
pub use counted::{Mark, Marks, take};

#[cfg(feature = "marks")]
mod counted {
    use std::cell::RefCell;

    thread_local! {
        static REACHED: RefCell<Marks> = const { RefCell::new(Marks([0; Mark::ALL.len()])) };
    }

    /// How often each mark was reached.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Marks([u64; Mark::ALL.len()]);

    impl Default for Marks {
        fn default() -> Marks {
            Marks([0; Mark::ALL.len()])
        }
    }

    impl Marks {
        /// How often `mark` was reached.
        #[must_use]
        pub const fn count(&self, mark: Mark) -> u64 {
            self.0[mark as usize]
        }

        /// Adds the counts of another set.
        pub fn merge(&mut self, other: &Marks) {
            self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
        }

        /// Marks that were never reached.
        pub fn missed(&self) -> impl Iterator<Item = Mark> {
            Mark::ALL.iter().map(|(mark, _)| *mark).filter(|mark| self.count(*mark) == 0)
        }
    }

    pub(crate) fn reach(mark: Mark) {
        REACHED.with_borrow_mut(|marks| marks.0[mark as usize] += 1);
    }

    /// Takes the marks that this thread reached since the last call.
    #[must_use]
    pub fn take() -> Marks {
        REACHED.take()
    }

    /// Declares each mark once, with its description.
    macro_rules! marks {
        ($($name:ident: $what:literal,)*) => {
            /// A place in the engine.
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum Mark {
                $(#[doc = $what] $name,)*
            }

            impl Mark {
                /// Every mark, with its description.
                pub const ALL: &[(Mark, &'static str)] = &[$((Mark::$name, $what),)*];
            }
        };
    }

    // By the file in which they stand.
    marks! {
        // opening.rs
        NoPool: "no superblock record is found",
        TwoPools: "the superblock units hold records of two pools",
        OtherGeometry: "the record is of another geometry",
        NoMemory: "the maps of the volumes exceed the memory",
        RecordInOneUnit: "the newest record is in one of the two superblock units only",
        RestTooSmall: "the devices that remain are too small",
        DeviceAttached: "a device is new",
        DeviceGrown: "a device has more units",
        HomeMoves: "the records that count are on another device from now on",
        NotDrained: "a device that is to be detached holds something",
        HomeLost: "a device is given up that has the records of the pool",
        MapOnLost: "a device is given up that has pages of maps",
        TailLost: "a device is given up that may have chunks to be replayed",
        LifeLost: "a unit of the tail is on a device that is given up",
        LosingWaits: "the search for what is lost waits for a page",
        LabelMissing: "a device but the first has no record of the pool",
        LabelOlder: "a device has no record of the newest opening",
        HomeOlder: "a device says that the home had a newer record than it has",
        LabelAhead: "a device has the record of an opening that was broken off",
        RootDamaged: "a root page cannot be read, or is damaged",
        PageRecounted: "a page is counted that the tail does not touch",
        UnitPageDamaged: "a page of the unit table cannot be read, or is damaged",
        TailPageDamaged: "a page that the tail changes cannot be read",
        TailPageReadAgain: "a page that the tail changes is read once more because that failed",
        TailPageUnreadable: "a page of which the tail says so cannot be read still",
        OpeningFailed: "the device fails a command of an opening",
        // opening/known.rs
        HeaderReadAgain: "a header of the tail is read once more, because it was not kept",
        HeaderGone: "that cannot be done: its chunk is missing",
        // opening/tail.rs
        HoleSkipped: "a chunk is found behind a hole in its unit",
        OutOfReach: "a chunk is left out that is too far behind the last one taken",
        OtherEpoch: "a chunk is left out that an earlier opening did not find",
        BehindTailEnd: "a chunk is left out that is behind the end of a recorded tail",
        AbandonedFound: "a chunk is found that was called abandoned",
        AbandonedGone: "a chunk that was called abandoned is not found",
        SuperblockLost: "a chunk names a newer record than the newest found",
        ChunksLost: "flushed chunks are missing",
        LossOverlooked: "a pool is opened though something is lost, as was asked for",
        BlockTorn: "a block of the tail is torn, and does not count",
        DoubtReadAgain: "a block that may be torn cannot be read, and is read again",
        DoubtUnreadable: "a block that may be torn cannot be read at all, and counts",
        CutByTail: "a page that is on media goes as its volume shrinks in the tail",
        UnmappedTwice: "the tail unmaps a block of a page on media twice",
        UnmappedAndMapped: "what the tail unmaps of a page on media is mapped again",
        LifeReleasedWhole: "of a released life of a unit nothing is found",
        LifeReleasedInPart: "of a released life of a unit a part is found",
        LifeStillThere: "a released life of a unit is found whole",
        // opening/replay.rs
        CondemnedFound: "a listed unit takes no writes any more",
        TooManyLives: "more units were being written than may be open: one of them is closed",
        LifeGoesOn: "a unit is written on behind what was found in it",
        LifeEnds: "a unit is closed behind what was found in it",
        StaleLost: "after a loss a page leads to where another block stands",
        LifeEndsForLoss: "a unit is not written on, since a chunk is missing that may have been in it",
        TornHeaderOnly: "something was written to a unit, and no chunk is found in it",
        VolumeGone: "an entry of the tail is of a volume that was deleted",
        BeyondEnd: "a block of the tail is beyond the end of its volume",
        CreateReplayed: "the creation of a volume is replayed",
        CreateKnown: "the creation of a volume that the record knows, or that was deleted, is met again",
        DeleteReplayed: "the deletion of a volume is replayed",
        RenameReplayed: "the new name of a volume is replayed",
        MediaReplayed: "where the blocks of a volume are to be is replayed",
        ShrinkReplayed: "a smaller volume loses pages that are on media",
        UnlistedClosed: "a unit that is not listed holds something",
        UnlistedCondemned: "a unit that is not listed takes no writes any more",
        // checkpoint.rs
        SparseMoved: "pages are moved out of metadata units that are nearly empty",
        AbsentMoved: "a page that is not in memory is moved out of a metadata unit that is nearly empty",
        PatchedPageRead: "a checkpoint reads a page that is on media only, to write it with what changed",
        PatchedPageFlies: "such a page is on its way to media, and need not be read",
        PatchedPageReadAgain: "such a page is read once more because that failed",
        PatchSaid: "such a page cannot be read, and what changed in it is said in the log once more",
        PlacedReplayed: "what was said so is a part of the map after a crash",
        PlacedOfAnother: "what was said so belongs to a record that was never written, or to pages that were since",
        WriteAwaitsPage: "a write waits for a page, for only that knows whether it takes more of a full pool",
        WriteAwaitsCounts: "a write waits until it is known what counts, for the pool seems to be full",
        BaseSettled: "what a page leads to in place of a patched entry counts no more when it is known",
        BaseStaged: "the same, while what replaces it waits in memory",
        BaseMet: "collection meets a block that a patch has replaced",
        CopiesAwaitMemory: "collection waits for memory for what its copies change in pages that are on media only",
        MovedPageLoaded: "a page is loaded while it is being moved",
        MovedPagePatched: "an entry of a page changes while the page is moved unread",
        PatchOverUnknown: "a page is written while a staged block replaces an unknown block of the page",
        PatchFlies: "a page is written with the place of a block that is still on its way",
        DamagedMoved: "a page that could not be read is written elsewhere",
        MovedPageLost: "the write of a page that is not in memory fails",
        EmptyPageDropped: "a page in which nothing is mapped any more goes",
        PageLost: "the write of a page fails, and it is written again",
        RootLost: "the write of a root page fails, and it is written again",
        PagesWrittenAgain: "a checkpoint goes back to its pages, for one was lost",
        CheckpointAwaitsRelease: "a checkpoint is due while units are being released",
        TrimsWait: "trims leave the last units to a checkpoint",
        DropAwaitsCheckpoint: "pages that are needed no more go after the checkpoint that is in progress",
        UnitsListed: "a record is written for more units",
        CheckpointListsUnits: "units are listed while a checkpoint is in progress",
        SuperblockUnitReset: "a superblock unit is full, and is reset",
        CopyFlushedFirst: "the copy of a record is flushed before the other superblock unit is reset",
        RecordFailed: "the write of a record fails",
        Unsettled: "a recovery is recorded that is not itself safe from a crash",
        ClosedClean: "a pool is closed in order",
        ClosedUnclean: "a pool is closed although something is left to replay: a page could not be read",
        // log/failed.rs
        DeviceGivenUp: "too many writes failed in a row",
        CondemnedByWrite: "a write fails since its unit takes none any more",
        BehindFailed: "a chunk behind a failed one is written elsewhere",
        UnitAwaited: "a failed write waits for what stands before its replacement",
        SuccessorsAwaited: "a failed write waits for what was sealed behind it",
        TrimSaidAgain: "a trim of a failed chunk is logged again",
        CreateSaidAgain: "a creation of a failed chunk is logged again",
        NameSaidAgain: "the name of a volume, in a failed chunk, is logged again",
        MediaSaidAgain: "where blocks of a volume are to be, in a failed chunk, is logged again",
        ResizeSaidAgain: "a change of size of a failed chunk is logged again",
        KeptInMemory: "a chunk of a pool that has given up writing fails: what counts of it stays in memory",
        Restaged: "a block of a failed chunk is still the newest",
        RestagedBelow: "a block of a failed chunk was overwritten in memory meanwhile",
        RestageNeedless: "a block of a failed chunk does not count any more",
        CompleteButNoRoom: "what the host was told is complete finds no room",
        NoRoom: "staged writes fail for want of room",
        // log.rs
        OpenUnitFilled: "what is awaited goes to a unit that is open, since hosts may open none",
        ClassesShareUnit: "a block goes to the unit of another class",
        CopyOutdated: "a copy is not written, for its block was overwritten meanwhile",
        CopiedTwice: "a block is copied by collection and for a failed write at once",
        ReplacementOutlived: "a block of a failed write was replaced before it was written again",
        IdleUnitClosed: "a unit is closed whose class got nothing for long",
        QueuesJoined: "a small chunk is filled up with blocks of other classes",
        VictimsShareChunk: "the last copies of a victim wait for those of the next",
        ManyVictimsEnd: "of copies that wait, those of the victim that waits longest are sealed",
        AwaitedGoesFirst: "a block that somebody waits for goes before all others",
        AwaitedBeforeDebts: "what somebody waits for is sealed though the host owes copies",
        StagedBlockMoved: "the old place of a staged block is copied",
        WaitsForZone: "a unit is not opened, since others are not finished yet",
        NoUnitForHost: "no unit may be opened for blocks of users",
        BehindBroken: "a chunk is written behind one that failed meanwhile",
        CheckpointAwaitsRoom: "a checkpoint waits until there is room for its pages",
        // release.rs
        PinnedByControl: "dead units hold control entries that only a checkpoint makes needless",
        ReplayedInVain: "a unit holds nothing but pages of a checkpoint that was cut short",
        ReplayedReleased: "a unit with chunks to be replayed was released: a second crash does not need them",
        WrittenInVain: "a listed unit is freed before a recovery is safe: what is in it counts for nobody",
        ReleaseLogged: "the chunks of a unit are called released",
        NoUnitForRelease: "there is no unit to say in that others are released",
        DeadFlushed: "dead units wait for a flush before they are released",
        CondemnedReleased: "a condemned unit is empty",
        ResetFailed: "the reset of a unit fails, and it is retired",
        // gc.rs
        HeaderMissing: "a header of a victim is damaged",
        VictimUnreadable: "headers of a victim cannot be read",
        FoundByMap: "the blocks of a victim are looked for in the maps",
        NotFoundByHeader: "the map knows of a block that no header told of",
        VictimReadAgain: "a block of a victim cannot be read, and is read again",
        Destaged: "a block leaves the fast device",
        StaysFast: "a block of a fast volume goes from one fast unit to another",
        WaitsToStay: "a block of a fast volume waits for a fast unit",
        StaysPut: "a block of a fast volume stays in a unit that is to be emptied, for no fast unit is free",
        StaysEarly: "a block of a fast volume stays in a unit that is emptied early",
        DestagedEarly: "more fast units are in use than the watermarks allow",
        DestagedByAge: "a fast unit is emptied that was closed for too long",
        ClosedByAge: "a fast unit is closed since it was open for too long",
        FastOverflows: "a block of a fast volume leaves the fast device",
        StreamBypasses: "a stream of the host goes to the devices for capacity at once",
        CapacityFirst: "fast units run short, and units for capacity are freed first",
        SurvivorGone: "the volume of a survivor was deleted meanwhile",
        SurvivorDamaged: "a survivor is damaged, and stays where it is",
        NothingCopied: "nothing of a victim could be copied",
        // gc/lookup.rs
        CollectionLoads: "garbage collection loads a page",
        CollectionDrains: "garbage collection copies what it knows before it looks up more",
        SearchWaits: "the search for blocks of a victim waits for a page",
        // gc/victim.rs
        CondemnedChosen: "a condemned unit is evacuated",
        StuckRetried: "units with blocks that could not be copied get another chance",
        Starved: "nothing can be collected, and a checkpoint is to free metadata units",
        StarvedForGood: "nor is anything free after it",
        // pages.rs
        PageDamaged: "a page of a map cannot be read, or is damaged",
        RequestWaits: "a request waits for a page",
        WriteAwaitsDeletion: "a write finds no room while blocks of a deleted volume are being unmapped",
        RequestWaitsForMemory: "a request waits for memory for a page",
        PageOnItsWay: "a page is asked for that is on its way to another place on media",
        WaitingFailed: "a write that waits for a page fails with the pool",
        // memory.rs
        PageEvicted: "a page gives its memory back",
        StageSealedEarly: "what waits in memory is sealed, so that its pages can go",
        CheckpointForMemory: "a checkpoint is taken, so that pages can go",
        // unmap.rs
        UnmapWaitsForMemory: "a trim waits for memory for a page",
        UnmapWaits: "a trim waits for a page",
        DeletedPageLost: "a page of a deleted volume cannot be read: what it led to stays counted",
        TrimDamaged: "a trim meets a damaged page",
        StagedTrimmed: "a block is trimmed while it is staged",
        TrimFailed: "a trim fails with the pool",
        // durability.rs
        FlushFailed: "a flush of the device fails",
        FlushPassesCopies: "a flush of the host is done while copies or pages are on their way",
        VolumeFlushed: "a flush of a volume has its blocks go before those of others",
        FlushAwaitsUnit: "a flush of the host waits for what stands before the host's blocks in a unit",
        FlushAwaitsRecovery: "a flush of the host waits until the recovery is safe",
        // engine.rs
        WaitingGivenUp: "nothing can be done for what waits",
        NothingToFail: "and it is no write: the pool gives up",
        StageFailed: "what waits in memory fails with the pool",
        ControlFailed: "control entries fail with the pool",
        ClosingFailed: "the pool fails while it is closed",
        // scrub.rs
        ScrubYields: "a scrub in the background meets others",
        ScrubGivenUp: "a scrub in the background is given up amid a unit",
        ScrubLeavesUnit: "a unit is emptied while it is scrubbed",
        ScrubFailedPool: "a scrub goes on in a pool that failed",
        ScrubMapDamaged: "a scrub reports a damaged page",
        ScrubUnjudged: "a scrub compares a block of a page that cannot be read",
        ScrubMapRecovered: "a scrub can read a page that could not be read before",
        ScrubLoads: "a scrub waits for a page of a map",
        ScrubWaits: "a scrub waits for what is on its way to a unit",
        ScrubGoesFurther: "a unit was written on while it was scrubbed",
        ScrubReadsAgain: "a chunk ends beyond what was read",
        ScrubUnreadable: "a part of a unit cannot be read as a whole",
        ScrubBlockDamaged: "a scrub finds a damaged block in its chunk",
        ScrubSearches: "blocks of a unit are missing, and the maps are searched",
        ScrubHeaderDamaged: "a header should tell of a block, and does not",
        ScrubReadsBlock: "a block that no header tells of is read",
        ScrubBehindFailed: "a block behind a failed write is not looked for",
        BlockPacked: "a block is packed into the header of its chunk",
        BlockNotPacked: "the first block of a chunk does not pack, and a later one does",
        PackedRead: "what lies packed in a header is what was to be read",
        PackedOther: "what lies packed in a header is not what was to be read",
        PackedSurvivor: "a packed block is valid in a victim",
        PackedInFlight: "a block is read whose chunk, on its way, has a packed one",
        PackedTail: "a packed block is replayed",
        PackedReplaced: "the write of a chunk with a packed block failed",
        PackedScrubbed: "a scrub compares a packed block",
        // versions.rs
        VersionWrong: "a read of a device with redundancy fails its check",
        VersionRight: "another version of it passes",
        UnreadableHealed: "what a member could not read is written again from the others",
        MemberRolledBack: "a member lacks chunks that were flushed, and is filled anew",
        SingleHeaderHealed: "a header that one version alone has is written again in an opening",
        HolesClosed: "chunks or blocks are missing amid the tail of a pool with redundancy, so that hosts wait for a checkpoint",
        MadeEqual: "a chunk that was not flushed is made the same on all members",
        ScrubVersionCompared: "a scrub compares what the members but one give",
        ScrubVersionMissing: "the members but one cannot give what a scrub asks for",
        ScrubHeaderInOneVersion: "a scrub finds a header in one version alone",
        ScrubAgrees: "a scrub makes the rest agree with the blocks",
        // wire.rs
        OtherVersionTaken: "a chunk is found, or a newer one, in another version than the first",
        OlderVersionPassed: "a version has an older chunk at a place",
        HeaderCutOff: "a header goes on beyond what was read",
        HoleReplayed: "a trim above other layers is replayed",
        SnapshotReplayed: "a snapshot is replayed",
        SnapshotDeleteReplayed: "the deletion of a snapshot is replayed",
        CloneReplayed: "a clone is replayed",
        CloneSaidAgain: "a clone is said again because the write of its chunk failed",
        LayerIsShared: "a deletion leaves a layer that another volume reads",
        SnapshotSaidAgain: "a snapshot is said again because the write of its chunk failed",
        SnapshotAwaitsRecord: "a snapshot waits for a record that keeps earlier programs off",
        SnapshotAwaitsTrim: "a snapshot waits for a trim or a change of the size",
        HoleWaitsForMemory: "a trim above other layers waits for memory",
        WalkOver: "a walk through the layer of a deleted snapshot is over",
        CoveredUnmapped: "covered blocks of a deleted snapshot go",
        NamelessForgotten: "the layer of a deleted snapshot goes",
        LiftBegins: "blocks of a deleted snapshot begin to move into the layer above",
        BlockLifted: "a block of a deleted snapshot moves into the layer above",
        HoleLifted: "a hole of a deleted snapshot moves into the layer above",
        LiftOutrun: "a block was written or trimmed above while it was read to be moved there",
        SnapshotAwaitsLift: "a snapshot waits until a layer of a deleted one is gone",
        NamelessReplaced: "a write in a full pool replaces blocks of deleted snapshots",
        WriteAwaitsWalk: "a write finds no room before a walk through the layers of deleted snapshots",
        HeaderStale: "a sound prefix is of another life of the unit, or its entries are damaged",
    }
}
