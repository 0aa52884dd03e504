//! Why a byte was written.

use std::fmt;

/// Why bytes were written to a device or to its media. The bytes of all causes of a tier sum exactly to the bytes
/// written to the tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Cause {
    /// Data a host write asked for.
    Host,
    /// The rest of a mapping unit that a smaller or misaligned host write had to rewrite with it.
    ReadModifyWrite,
    /// Fill written only to complete a program unit, for example at a flush.
    Padding,
    /// Valid data copied by garbage collection.
    Relocation,
    /// Valid data copied to even out wear.
    WearLevelling,
    /// Valid data moved from a drive's SLC cache to its other cells.
    Folding,
    /// Valid data rewritten before its bits got too bad.
    Refresh,
    /// Valid data moved from a unit that went out of service because a program of it failed.
    ProgramFailure,
}

impl Cause {
    /// Every cause, in the order reports show them.
    pub const ALL: [Cause; 8] = [
        Cause::Host,
        Cause::ReadModifyWrite,
        Cause::Padding,
        Cause::Relocation,
        Cause::WearLevelling,
        Cause::Folding,
        Cause::Refresh,
        Cause::ProgramFailure,
    ];

    /// The name used in run records and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Host => "host",
            Cause::ReadModifyWrite => "read_modify_write",
            Cause::Padding => "padding",
            Cause::Relocation => "relocation",
            Cause::WearLevelling => "wear_levelling",
            Cause::Folding => "folding",
            Cause::Refresh => "refresh",
            Cause::ProgramFailure => "program_failure",
        }
    }

    /// The cause as a vector index.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
