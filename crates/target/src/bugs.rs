//! Deliberate bugs of the shell: of pools, turns and the NBD server. The simulation of the shell must catch each.
//!
//! They exist only with the feature `bugs`.

/// Declares the bugs once, with what each does.
macro_rules! bugs {
    ($($name:ident: $what:literal,)*) => {
        /// A deliberate bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ShellBug {
            $(#[doc = $what] $name,)*
        }

        impl ShellBug {
            /// Every bug, with a description.
            pub const ALL: &[(ShellBug, &'static str)] = &[$((ShellBug::$name, $what),)*];
        }
    };
}

bugs! {
    StatusOutOfTurn: "block status is answered at once, outside turns and limits",
    ClosesBeforeAllIsOpen: "a device change closes the pool before the new files are open",
    NoLookAgain: "a connection with room again does not look at the requests that it has buffered",
    PoolNotWoken: "a job wakes no pool that sleeps",
    ServerNotWoken: "an outcome wakes no server that sleeps",
    ReplyTwice: "a reply is sent twice if another one is waiting to be sent",
    LimitNotCharged: "reads count for no limit of their volume",
    ReopenForgetsWaker: "jobs wake the storage of the pool that was closed",
    FirstPieceAnswers: "a long request is answered when its first piece is done",
    FlushPasses: "a flush of a volume is answered as soon as it is handed to the pool",
}

#[cfg(feature = "bugs")]
thread_local! {
    static BUG: std::cell::Cell<Option<ShellBug>> = const { std::cell::Cell::new(None) };
}

/// Sets the deliberate bug of this thread.
#[cfg(feature = "bugs")]
pub fn set(bug: Option<ShellBug>) {
    BUG.set(bug);
}

/// Whether this thread has the deliberate bug.
#[cfg(feature = "bugs")]
#[must_use]
pub fn has(bug: ShellBug) -> bool {
    BUG.get() == Some(bug)
}

/// Always false.
#[cfg(not(feature = "bugs"))]
#[must_use]
#[inline]
pub const fn has(_: ShellBug) -> bool {
    false
}
