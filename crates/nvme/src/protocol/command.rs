//! Commands and completion queue entries.

use thermocline_target::TargetError;

/// Opcodes of admin commands (Base 5, figure 138).
pub mod admin {
    /// Get Log Page.
    pub const LOG_PAGE: u8 = 0x02;
    /// Identify.
    pub const IDENTIFY: u8 = 0x06;
    /// Abort.
    pub const ABORT: u8 = 0x08;
    /// Set Features.
    pub const SET_FEATURES: u8 = 0x09;
    /// Get Features.
    pub const GET_FEATURES: u8 = 0x0A;
    /// Asynchronous Event Request.
    pub const EVENT: u8 = 0x0C;
    /// Keep Alive.
    pub const KEEP_ALIVE: u8 = 0x18;
    /// Directive Receive.
    pub const DIRECTIVE: u8 = 0x1A;
}

/// Opcodes of I/O commands (NVM 3, figure 12).
pub mod io {
    /// Flush.
    pub const FLUSH: u8 = 0x00;
    /// Write.
    pub const WRITE: u8 = 0x01;
    /// Read.
    pub const READ: u8 = 0x02;
    /// Write Zeroes.
    pub const WRITE_ZEROES: u8 = 0x08;
    /// Dataset Management.
    pub const DATASET: u8 = 0x09;
    /// I/O Management Receive (TP4146).
    pub const MANAGEMENT: u8 = 0x12;
}

/// Types of the fabrics command (Base 6, figure 383).
pub mod fabrics {
    /// Opcode of all types.
    pub const OPCODE: u8 = 0x7F;
    /// Property Set.
    pub const SET: u8 = 0x00;
    /// Connect.
    pub const CONNECT: u8 = 0x01;
    /// Property Get.
    pub const GET: u8 = 0x04;
    /// Disconnect.
    pub const DISCONNECT: u8 = 0x08;
}

/// A submission queue entry of 64 bytes (Base 3.3.3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command([u8; 64]);

/// Where the data of a command is (TCP 3.4, Base 4.1.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Behind the command, in its capsule.
    Capsule,
    /// In data units.
    Units,
    /// Elsewhere, which this transport does not know.
    Unknown,
}

impl Command {
    /// A command of these bytes.
    #[must_use]
    pub fn new(bytes: [u8; 64]) -> Command {
        Command(bytes)
    }

    /// The opcode.
    #[must_use]
    pub fn opcode(&self) -> u8 {
        self.0[0]
    }

    /// The type of a fabrics command.
    #[must_use]
    pub fn fabrics_type(&self) -> Option<u8> {
        (self.opcode() == fabrics::OPCODE).then_some(self.0[4])
    }

    /// The command identifier of the host.
    #[must_use]
    pub fn id(&self) -> u16 {
        u16::from_le_bytes([self.0[2], self.0[3]])
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> u32 {
        self.dword(1)
    }

    /// One of the sixteen dwords.
    #[must_use]
    pub fn dword(&self, number: usize) -> u32 {
        let at = 4 * number;
        u32::from_le_bytes(self.0[at..at + 4].try_into().expect("four bytes"))
    }

    /// Two dwords as one number.
    #[must_use]
    pub fn quad(&self, number: usize) -> u64 {
        u64::from(self.dword(number)) | u64::from(self.dword(number + 1)) << 32
    }

    /// Where its data is.
    #[must_use]
    pub fn place(&self) -> Place {
        match self.0[39] {
            0x01 if self.quad(6) == 0 => Place::Capsule,
            0x5A => Place::Units,
            _ => Place::Unknown,
        }
    }

    /// Bytes of data by the data descriptor.
    #[must_use]
    pub fn length(&self) -> u32 {
        self.dword(8)
    }

    /// The placement identifier of a write (TP4146): directive type 2 in dword 12, its value in dword 13.
    #[must_use]
    pub fn placement(&self) -> Option<u16> {
        (self.dword(12) >> 20 & 0xF == 2).then_some((self.dword(13) >> 16) as u16)
    }

    /// Whether it sends data to the controller (Base 3.3.3.1, the lowest bits of an opcode).
    #[must_use]
    pub fn sends(&self) -> bool {
        self.fabrics_type().unwrap_or(self.opcode()) & 0b11 == 0b01
    }
}

/// How a command ended: type of status, code, and whether a retry is of no use (Base 3.3.3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome(u16);

impl Outcome {
    /// Success.
    pub const SUCCESS: Outcome = Outcome(0);
    /// Invalid Command Opcode.
    pub const OPCODE: Outcome = Outcome::last(0, 0x01);
    /// Invalid Field in Command.
    pub const FIELD: Outcome = Outcome::last(0, 0x02);
    /// Invalid Namespace or Format.
    pub const NAMESPACE: Outcome = Outcome::last(0, 0x0B);
    /// Command Sequence Error.
    pub const SEQUENCE: Outcome = Outcome::last(0, 0x0C);
    /// Data SGL Length Invalid.
    pub const LENGTH: Outcome = Outcome::last(0, 0x0F);
    /// SGL Descriptor Type Invalid.
    pub const DESCRIPTOR: Outcome = Outcome::last(0, 0x11);
    /// Namespace is Write Protected.
    pub const PROTECTED: Outcome = Outcome::last(0, 0x20);
    /// LBA Out of Range.
    pub const RANGE: Outcome = Outcome::last(0, 0x80);
    /// Capacity Exceeded.
    pub const CAPACITY: Outcome = Outcome::last(0, 0x81);
    /// Namespace Not Ready; a retry may succeed.
    pub const NOT_READY: Outcome = Outcome(0x82);
    /// Asynchronous Event Request Limit Exceeded.
    pub const EVENTS: Outcome = Outcome::last(1, 0x05);
    /// Invalid Log Page.
    pub const LOG: Outcome = Outcome::last(1, 0x09);
    /// Feature Not Changeable.
    pub const UNCHANGEABLE: Outcome = Outcome::last(1, 0x0E);
    /// Connect: Incompatible Format.
    pub const FORMAT: Outcome = Outcome::last(1, 0x80);
    /// Connect: Controller Busy; a retry may succeed.
    pub const BUSY: Outcome = Outcome(1 << 8 | 0x81);
    /// Connect: Invalid Parameters.
    pub const PARAMETERS: Outcome = Outcome::last(1, 0x82);
    /// Connect: Invalid Host.
    pub const HOST: Outcome = Outcome::last(1, 0x84);
    /// Write Fault.
    pub const WRITE_FAULT: Outcome = Outcome(2 << 8 | 0x80);
    /// Unrecovered Read Error.
    pub const READ_ERROR: Outcome = Outcome::last(2, 0x81);

    /// A status after which the host must not retry.
    const fn last(kind: u16, code: u16) -> Outcome {
        Outcome(1 << 14 | kind << 8 | code)
    }

    /// The status of a request that a target failed.
    #[must_use]
    pub fn of(error: TargetError, opcode: u8) -> Outcome {
        match error {
            TargetError::OutOfBounds => Outcome::RANGE,
            TargetError::Misaligned | TargetError::Unsupported => Outcome::FIELD,
            TargetError::NoSpace => Outcome::CAPACITY,
            TargetError::ReadOnly => Outcome::PROTECTED,
            TargetError::Gone => Outcome::NOT_READY,
            _ if opcode == io::READ => Outcome::READ_ERROR,
            _ => Outcome::WRITE_FAULT,
        }
    }
}

/// The answer to a command, without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The first two dwords.
    pub result: u64,
    /// How the command ended.
    pub outcome: Outcome,
}

impl Reply {
    /// Success.
    pub const DONE: Reply = Reply::with(0);

    /// Success with a result.
    #[must_use]
    pub const fn with(result: u64) -> Reply {
        Reply { result, outcome: Outcome::SUCCESS }
    }

    /// The completion queue entry (Base 3.3.3.2) of command `id`. `head` and `queue` are those of the submission queue.
    #[must_use]
    pub fn entry(self, id: u16, head: u16, queue: u16) -> [u8; 16] {
        let mut entry = [0; 16];
        entry[..8].copy_from_slice(&self.result.to_le_bytes());
        let status = self.outcome.0 << 1;
        for (at, field) in [head, queue, id, status].into_iter().enumerate() {
            entry[8 + 2 * at..10 + 2 * at].copy_from_slice(&field.to_le_bytes());
        }
        entry
    }
}

impl From<Outcome> for Reply {
    fn from(outcome: Outcome) -> Reply {
        Reply { result: 0, outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_its_fields_where_the_host_looks() {
        let entry = Reply::from(Outcome::RANGE).entry(0x1234, 5, 2);
        assert_eq!(entry[8..14], [5, 0, 2, 0, 0x34, 0x12]);
        assert_eq!(u16::from_le_bytes([entry[14], entry[15]]), 0x8100, "no retry, code 80h");
    }

    #[test]
    fn a_host_may_retry_what_can_get_better() {
        for (error, retry) in [(TargetError::Gone, true), (TargetError::OutOfBounds, false)] {
            assert_eq!(Outcome::of(error, io::WRITE).0 >> 14 == 0, retry, "{error}");
        }
        assert_eq!(Outcome::of(TargetError::Io, io::READ), Outcome::READ_ERROR);
        assert_eq!(Outcome::of(TargetError::Io, io::FLUSH), Outcome::WRITE_FAULT);
    }
}
