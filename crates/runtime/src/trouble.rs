//! Failures of the device with details for the operator. The engine learns only the kind of failure.

use std::fmt;

use thermocline_engine::DeviceError;
use thermocline_types::{Bytes, UnitId, Version};

use crate::Buffer;
use crate::storage::{Command, Fault, Layout};

/// A command that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The failed command.
    pub asked: Asked,
    /// How it failed.
    pub fault: Fault,
}

/// A command to a device, without the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To write a range of bytes within a unit.
    Write(Range),
    /// To read this version of a range.
    Read(Range, Version),
    /// To make earlier writes durable.
    Flush,
    /// To make a unit empty.
    Reset(UnitId),
    /// To make a unit read as zeroes.
    Zero(UnitId),
    /// To let go of a unit.
    Finish(UnitId),
    /// To mend members of a device with redundancy.
    Mend,
    /// To tell the condition of its units.
    Report,
}

/// Bytes of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Unit of the range.
    pub unit: UnitId,
    /// First byte.
    pub at: Bytes,
    /// How many.
    pub length: Bytes,
}

impl Trouble {
    /// Whether the failure is expected: on a device with a missing member, a version that needs a further member cannot
    /// be read.
    pub(crate) fn is_expected(&self) -> bool {
        let version = match self.asked {
            Asked::Read(_, version) => version,
            _ => Version::AS_READ,
        };
        version != Version::AS_READ && self.fault.error == DeviceError::Gone
    }
}

impl Asked {
    pub(crate) fn of(command: &Command, layout: &Layout) -> Asked {
        let range = |at: Bytes, length: usize| Range {
            unit: layout.unit_of(at),
            at,
            length: Bytes(length as u64),
        };
        match command {
            Command::Write { at, parts, .. } => {
                Asked::Write(range(*at, parts.iter().map(Buffer::len).sum()))
            }
            Command::Read { at, into, version } => Asked::Read(range(*at, into.len()), *version),
            Command::Flush(_) => Asked::Flush,
            Command::Reset(unit) => Asked::Reset(*unit),
            Command::Zero(unit) => Asked::Zero(*unit),
            Command::Finish(unit) => Asked::Finish(*unit),
            Command::Heal(_) | Command::Distrust { .. } => Asked::Mend,
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at byte {} (unit {})", self.length.0, self.at.0, self.unit.0)
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Asked::Write(range) => write!(f, "writing {range}"),
            Asked::Read(range, Version::AS_READ) => write!(f, "reading {range}"),
            Asked::Read(range, version) => write!(f, "reading {range} {version}"),
            Asked::Flush => f.write_str("a flush"),
            Asked::Reset(unit) => write!(f, "resetting unit {}", unit.0),
            Asked::Zero(unit) => write!(f, "zeroing unit {}", unit.0),
            Asked::Finish(unit) => write!(f, "finishing unit {}", unit.0),
            Asked::Mend => f.write_str("writing again what a member holds wrong"),
            Asked::Report => f.write_str("asking for the state of the units"),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.asked, self.fault)
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_failure_names_operation_place_and_error() {
        let range = Range { unit: UnitId(3), at: Bytes(3 << 20), length: Bytes(8192) };
        let trouble = Trouble { asked: Asked::Write(range), fault: Errno::NOSPC.into() };
        assert_eq!(
            trouble.to_string(),
            "writing 8192 bytes at byte 3145728 (unit 3) failed: No space left on device (os error 28)"
        );
        let gone = DeviceError::Gone.into();
        let trouble = Trouble { asked: Asked::Flush, fault: gone };
        assert_eq!(trouble.to_string(), "a flush failed: the device is gone");
        assert!(!trouble.is_expected());
        let asked = Asked::Read(range, Version::without(1));
        assert!(Trouble { asked, fault: gone }.is_expected());
        let trouble = Trouble { asked, fault: Errno::IO.into() };
        assert!(!trouble.is_expected());
        assert!(
            trouble.to_string().starts_with(
                "reading 8192 bytes at byte 3145728 (unit 3) without member 1 failed: "
            )
        );
    }
}
