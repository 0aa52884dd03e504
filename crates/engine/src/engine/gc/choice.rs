//! The choice of the next step of garbage collection, separate from its execution.

use std::fmt::Debug;

use thermocline_format::MediaClass;
use thermocline_types::UnitId;

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Nothing: units are enough, or about to be free.
    Enough,
    /// This unit is collected.
    Collect(UnitId),
    /// Units with blocks that could not be copied get another chance: what could not be read may be readable by now.
    Retry,
    /// No victim can be collected. No caller needs units, or other work will free some: the debt is forgiven.
    Wait,
    /// Nothing can be collected: a checkpoint may free metadata units.
    Checkpoint,
    /// Nothing can be collected, and no checkpoint would help: what is staged finds no room.
    Starved,
}

/// What decides whether a victim is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// The class of media of which units are to be freed.
    pub(crate) short: Option<MediaClass>,
    /// Whether units must be emptied: the device cannot write the units again, or their blocks have exceeded the
    /// maximum age.
    pub(crate) must_leave: bool,
    /// Whether a crash would be recovered from: copies free no units before recovery is settled.
    pub(crate) settled: bool,
    /// Whether the pool is being closed, and nothing waits for room.
    pub(crate) closing: bool,
    /// Whether the last units belong to blocks of a write that may fail, while others are about to be free.
    pub(crate) others_come: bool,
}

impl Need {
    /// Whether a victim is looked for.
    pub(crate) fn is_there(&self) -> bool {
        let wanted = self.short.is_some() || self.must_leave;
        wanted && self.settled && !self.closing && !self.others_come
    }
}

/// The inputs of the choice when units are short and no victim exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lack {
    /// Whether an unreadable block was not retried in this round.
    pub(crate) untried: bool,
    /// Whether the host can open no unit, regardless of its debt.
    pub(crate) holds_host_up: bool,
    /// Whether anything is on its way that may free units, or make some ready to be opened.
    pub(crate) others_come: bool,
    /// Whether a checkpoint was taken since units were missed first, and nothing was collected since.
    pub(crate) checkpointed: bool,
}

impl Lack {
    /// What is done.
    pub(crate) fn choose(&self) -> Choice {
        match *self {
            Lack { untried: true, .. } => Choice::Retry,
            Lack { holds_host_up: false, .. } | Lack { others_come: true, .. } => Choice::Wait,
            Lack { checkpointed: false, .. } => Choice::Checkpoint,
            Lack { .. } => Choice::Starved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEED: Need = Need {
        short: Some(MediaClass::Capacity),
        must_leave: false,
        settled: true,
        closing: false,
        others_come: false,
    };

    const LACK: Lack =
        Lack { untried: false, holds_host_up: true, others_come: false, checkpointed: true };

    #[test]
    fn a_victim_is_looked_for_when_units_are_short_or_must_be_emptied_and_it_helps() {
        assert!(NEED.is_there());
        assert!(Need { short: None, must_leave: true, ..NEED }.is_there());
        for not in [
            Need { short: None, ..NEED },
            Need { settled: false, ..NEED },
            Need { closing: true, ..NEED },
            Need { others_come: true, ..NEED },
        ] {
            assert!(!not.is_there(), "{not:?}");
        }
    }

    #[test]
    fn a_pool_is_full_only_when_everything_else_was_tried() {
        assert_eq!(LACK.choose(), Choice::Starved);
        for (lack, choice) in [
            (Lack { checkpointed: false, ..LACK }, Choice::Checkpoint),
            (Lack { others_come: true, ..LACK }, Choice::Wait),
            (Lack { holds_host_up: false, ..LACK }, Choice::Wait),
            (Lack { untried: true, ..LACK }, Choice::Retry),
            (Lack { untried: true, checkpointed: false, ..LACK }, Choice::Retry),
        ] {
            assert_eq!(lack.choose(), choice);
        }
    }
}
