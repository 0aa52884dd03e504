//! The state of an array, and notices for its operator.

use thermocline_types::Bytes;

use crate::Fault;

/// The state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// The member holds all its data.
    Current,
    /// The member gets new data, and is being filled with older data.
    Filling,
    /// The member is missing, failed, or was not named.
    Out,
}

impl MemberState {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MemberState::Current => "current",
            MemberState::Filling => "filling",
            MemberState::Out => "out",
        }
    }
}

/// The state of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayStatus {
    /// Its members, by their number.
    pub members: Vec<MemberState>,
    /// Bytes that the member being filled lacks.
    pub lacking: Bytes,
    /// The lacking bytes that the other members could not give. They are tried again.
    pub holes: Bytes,
    /// Bytes that were computed to fill a member since the array was opened.
    pub filled: Bytes,
    /// For each member by number: wrong or unreadable places rewritten since the opening.
    pub healed: Vec<Healed>,
    /// Rows whose parity disagreed with verified data and was rewritten since the opening.
    pub rows_healed: u64,
}

/// Rewritten places of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Healed {
    /// Places.
    pub places: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A notice for an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayNotice {
    /// A member is being filled.
    Fills {
        /// The member.
        member: usize,
    },
    /// All members are current.
    AllCurrent,
    /// A member failed, and the array goes on without it.
    Failed {
        /// The member.
        member: usize,
        /// The error.
        fault: Fault,
    },
    /// A needed member failed.
    CannotDoWithout {
        /// The member.
        member: usize,
        /// The error.
        fault: Fault,
        /// Another member that is needed and not current.
        other: Option<usize>,
    },
    /// A row cannot be compared with its parity.
    NotCompared {
        /// The error.
        fault: Fault,
    },
    /// A member held wrong or unreadable bytes, and the other members restored them. Only some of many places are
    /// reported.
    Healed {
        /// Which member.
        member: usize,
        /// The unit.
        unit: u32,
        /// The first byte in the member's part of the unit.
        from: u64,
        /// Number of bytes.
        bytes: u64,
        /// Places of the member that were rewritten so far.
        places: u64,
    },
    /// A member lacks data that was flushed, and is filled anew.
    Distrusted {
        /// The member.
        member: usize,
    },
    /// Bytes cannot be computed to fill a member, and are tried again. Only some of many places are reported.
    NotFilled {
        /// The member.
        member: usize,
        /// Number of bytes.
        bytes: u64,
        /// The error.
        fault: Fault,
        /// Attempts to fill places that failed so far.
        places: u64,
    },
    /// Needed members take no label.
    NoLabel {
        /// The error.
        fault: Fault,
    },
}
