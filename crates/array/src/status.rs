//! How an array stands, and what its operator has to know.

use thermocline_types::Bytes;

use crate::Fault;

/// How a member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// The member holds all its data.
    Current,
    /// The member gets new data, and is being filled with the rest.
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

/// How an array stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayStatus {
    /// Its members, by their number.
    pub members: Vec<MemberState>,
    /// Bytes that the member which is being filled lacks.
    pub lacking: Bytes,
    /// Bytes that were computed to fill a member since the array was opened.
    pub filled: Bytes,
    /// Of each member, by its number, what was written again because it was wrong or could not be read, since then.
    pub healed: Vec<Healed>,
    /// Rows of which parity did not agree with the data that was right, and was written again, since then.
    pub rows_healed: u64,
}

/// What was written again on a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Healed {
    /// Places.
    pub places: u64,
    /// Bytes.
    pub bytes: u64,
}

/// News for an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayNotice {
    /// A member is being filled.
    Fills {
        /// Which.
        member: usize,
    },
    /// All members are current.
    AllCurrent,
    /// A member failed and is done without.
    Failed {
        /// Which.
        member: usize,
        /// How.
        fault: Fault,
    },
    /// A member failed that cannot be done without.
    CannotDoWithout {
        /// Which.
        member: usize,
        /// How.
        fault: Fault,
        /// A member that is needed as well, and is not current.
        other: Option<usize>,
    },
    /// A row cannot be compared with its parity.
    NotCompared {
        /// Why not.
        fault: Fault,
    },
    /// A member held wrong or unreadable bytes, and got the right bytes again from the others. Of many places some are
    /// told.
    Healed {
        /// Which member.
        member: usize,
        /// The unit.
        unit: u32,
        /// The first byte in that part.
        from: u64,
        /// Number of bytes.
        bytes: u64,
        /// Places of the member that were written again by now.
        places: u64,
    },
    /// A member lacks data that was flushed, and is filled anew.
    Distrusted {
        /// Which.
        member: usize,
    },
    /// Bytes cannot be computed to fill a member.
    NotFilled {
        /// Which member.
        member: usize,
        /// How many.
        bytes: u64,
        /// Why not.
        fault: Fault,
    },
    /// Members that are needed take no label.
    NoLabel {
        /// Why not.
        fault: Fault,
    },
}
