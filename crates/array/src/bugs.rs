//! Deliberate bugs, which tests must catch. They exist in tests and with the feature `bugs` only.

/// A deliberate bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayBug {
    /// A flush goes to one member of a mirror alone.
    FlushOfOne,
    /// A flush is answered before the members with new log entries are flushed.
    ParityNotFlushed,
    /// The parity of a partial row overwrites the place of the full row's parity.
    PartialInPlace,
    /// A command is answered before a label shows that a member failed.
    AnswerBeforeLabel,
    /// Data goes to one member of a mirror alone.
    CopyNotWritten,
    /// A stale member is taken for current.
    StaleIsCurrent,
    /// A member of a mirror is used alone although the other member may be newer.
    AloneIsNewest,
    /// The source of a mirror's filled member is dropped before its label names the filled member.
    FilledIsAlone,
    /// A label calls a member current before its filled bytes are flushed.
    LabelBeforeFlush,
    /// The padding of a row is not written, but its parity covers the padding.
    ParityWithoutPadding,
    /// A read without a member computes with the parity rotation of another row.
    WrongRotation,
    /// A resumed row is overwritten before the log holds its earlier bytes.
    WrittenOnUnlogged,
    /// The log of an earlier life of a unit is believed.
    LogOutlivesReset,
    /// A logged row is believed despite wrong checksums.
    LogUnchecked,
    /// The log of a member that lacks data is believed.
    StaleLog,
    /// A slot of the log is reused before the head without its row is flushed.
    SlotUsedAgain,
    /// Bytes are written while they are copied.
    CopyOverWrites,
    /// A filled member counts as whole although some of its bytes could not be computed.
    HolesFilled,
    /// A member being filled is read as if it were complete.
    ReadWhatIsLacking,
    /// A flush does not wait for writes that were submitted before it.
    LogAheadOfData,
    /// A label is written as soon as the group is found.
    WritesBeforeChange,
    /// A read ignores its version: all members give their bytes.
    VersionNotHeeded,
    /// A heal is answered without a rewrite.
    NothingHealed,
    /// A job believes what it has read once.
    ReadOnce,
    /// A strip of a heal is computed from strips that the heal has written before.
    HealedOneByOne,
    /// The wrong parity of a verified row is not rewritten.
    ParityNotHealed,
    /// A row that leaves the log gets parity of the members' bytes instead of the logged bytes.
    LogNotHeeded,
    /// A heal of part of a row makes parity of unverified bytes.
    UnverifiedBelieved,
    /// The log of an earlier life of a row stays although the data was verified.
    OldLogKept,
    /// One wrong piece on a member voids the log entry of its row.
    WrongPieceEndsLog,
    /// A command is answered before a label shows that a member lacks data.
    DistrustBeforeLabel,
}

#[cfg(any(test, feature = "bugs"))]
thread_local! {
    static BUG: std::cell::Cell<Option<ArrayBug>> = const { std::cell::Cell::new(None) };
}

/// Sets the deliberate bug of this thread.
#[cfg(any(test, feature = "bugs"))]
pub fn set(bug: Option<ArrayBug>) {
    BUG.set(bug);
}

/// Whether this thread has the deliberate bug.
#[cfg(any(test, feature = "bugs"))]
#[must_use]
pub fn has(bug: ArrayBug) -> bool {
    BUG.get() == Some(bug)
}

/// Always false.
#[cfg(not(any(test, feature = "bugs")))]
#[must_use]
pub const fn has(_: ArrayBug) -> bool {
    false
}
