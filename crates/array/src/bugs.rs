//! Deliberate bugs, which tests have to catch. They exist in tests and with the feature `bugs` only.

/// What is done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayBug {
    /// A flush goes to one member of a mirror alone.
    FlushOfOne,
    /// A flush is answered before what the log has of rows is flushed.
    ParityNotFlushed,
    /// The parity of a row that is not full is written where that of the full row will be, over and over.
    PartialInPlace,
    /// A member that failed is done without before a label says so.
    AnswerBeforeLabel,
    /// What is written goes to one member of a mirror alone.
    CopyNotWritten,
    /// A member that missed something is taken for current.
    StaleIsCurrent,
    /// A member of a mirror is used alone although the other one may have gone on without it.
    AloneIsNewest,
    /// The member that filled a mirror is done without before its label names the filled member.
    FilledIsAlone,
    /// A member is called current before what it was filled with is flushed.
    LabelBeforeFlush,
    /// The rest of a row that is given up is not written, while its parity is that of the whole row.
    ParityWithoutPadding,
    /// A read without a member takes the parity of another row's member.
    WrongRotation,
    /// A row that is written on after an opening has its old parity overwritten, with nothing in the log.
    WrittenOnUnlogged,
    /// The log of an earlier life of a unit is believed.
    LogOutlivesReset,
    /// A row of the log is believed whatever its checksums.
    LogUnchecked,
    /// The log of a member that lacks something is believed.
    StaleLog,
    /// A slot of the log is used again before what frees it is flushed.
    SlotUsedAgain,
    /// What is being copied may be written meanwhile.
    CopyOverWrites,
    /// A member that is being filled is read as if it had everything.
    ReadWhatIsLacking,
    /// A flush does not wait for writes that were submitted before it.
    LogAheadOfData,
    /// A label is written as soon as the group is found.
    WritesBeforeChange,
    /// Whichever version is asked for, members give what they have.
    VersionNotHeeded,
    /// A heal is answered, and nothing is written again.
    NothingHealed,
    /// A row of which the data was verified keeps its parity.
    ParityNotHealed,
    /// A row that leaves the log is made to fit what members have of it, though the log has it.
    LogNotHeeded,
    /// Parity is made of bytes that nobody verified, where a heal is of others in their row.
    UnverifiedBelieved,
    /// The log of an earlier life of a row stays, although its data was verified.
    OldLogKept,
    /// A wrong piece on a member makes the log of its row count for nothing.
    WrongPieceEndsLog,
    /// A member that lacks something is done without before a label says so.
    DistrustBeforeLabel,
}

#[cfg(any(test, feature = "bugs"))]
thread_local! {
    static BUG: std::cell::Cell<Option<ArrayBug>> = const { std::cell::Cell::new(None) };
}

/// Has this thread do something wrong from now on.
#[cfg(any(test, feature = "bugs"))]
pub fn set(bug: Option<ArrayBug>) {
    BUG.set(bug);
}

/// Whether this thread is to do something wrong.
#[cfg(any(test, feature = "bugs"))]
#[must_use]
pub fn has(bug: ArrayBug) -> bool {
    BUG.get() == Some(bug)
}

/// Never.
#[cfg(not(any(test, feature = "bugs")))]
#[must_use]
pub const fn has(_: ArrayBug) -> bool {
    false
}
