//! Deliberate bugs that tests have to catch; outside of tests there are none.

/// What is done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// A flush goes to one of the current sides alone.
    FlushOfOne,
    /// A side that failed is done without before a label says so.
    AnswerBeforeLabel,
    /// An older side is taken for current.
    StaleIsCurrent,
    /// After a crash sides are taken for equal.
    NoDoubt,
    /// What is being copied may be written meanwhile.
    CopyOverWrites,
    /// A side that is being filled is read as if it had everything.
    ReadWhatIsLacking,
}

#[cfg(test)]
thread_local! {
    static BUG: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Has this thread do something wrong from now on.
#[cfg(test)]
pub(super) fn set(bug: Option<Bug>) {
    BUG.set(bug);
}

/// Whether this thread is to do something wrong.
#[cfg(test)]
pub(super) fn has(bug: Bug) -> bool {
    BUG.get() == Some(bug)
}

/// Never.
#[cfg(not(test))]
pub(super) const fn has(_: Bug) -> bool {
    false
}
