//! Protocol data units of NVMe/TCP (TCP 3.6.2), without digests.

use super::command::Command;
use super::{IN_CAPSULE, TRANSFER};

/// Bytes of the common header (TCP 3.6.1).
const COMMON: usize = 8;
/// Bytes of the header of a data unit, of a response and of a request for data.
pub const HEAD: usize = 24;
/// Bytes of an initialization unit.
const INITIALIZE: usize = 128;
/// Bytes of the header of a command capsule.
const CAPSULE: usize = 72;

/// Types of units.
mod kind {
    pub(super) const INITIALIZE_REQUEST: u8 = 0x00;
    pub(super) const INITIALIZE_RESPONSE: u8 = 0x01;
    pub(super) const HOST_TERMINATES: u8 = 0x02;
    pub(super) const CONTROLLER_TERMINATES: u8 = 0x03;
    pub(super) const COMMAND: u8 = 0x04;
    pub(super) const RESPONSE: u8 = 0x05;
    pub(super) const DATA_TO_CONTROLLER: u8 = 0x06;
    pub(super) const DATA_TO_HOST: u8 = 0x07;
    pub(super) const READY: u8 = 0x09;
}

/// Flags of a data unit.
mod flag {
    /// The last unit of a command.
    pub(super) const LAST: u8 = 1 << 2;
    /// The command succeeded; no response follows.
    pub(super) const SUCCESS: u8 = 1 << 3;
}

/// A fatal transport error: its status (TCP 3.6.2.5, `FES`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// A field of a header has no valid value.
    Header = 0x01,
    /// A unit came out of order.
    Sequence = 0x02,
    /// Data lies outside of what was asked for.
    Range = 0x04,
    /// More data than allowed.
    Limit = 0x05,
    /// A parameter is not supported.
    Parameter = 0x06,
}

/// A received unit, without its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pdu {
    /// The host begins.
    Initialize {
        /// Wanted alignment of data, in dwords less one.
        alignment: u8,
    },
    /// A command capsule; in-capsule data follows.
    Command(Command),
    /// Data of a write follows.
    Data {
        /// The tag of the request for data.
        tag: u16,
        /// First byte, from the begin of the command's data on.
        offset: u32,
    },
    /// The host ends the connection for an error.
    Terminate,
}

/// The result of [`parse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The unit.
    pub pdu: Pdu,
    /// Bytes before the data.
    pub taken: usize,
    /// Bytes of data that follow.
    pub data: u32,
}

/// Parses the unit that begins with `bytes`. `None` if the bytes end before the data.
///
/// # Errors
/// The fatal error that ends the connection.
pub fn parse(bytes: &[u8]) -> Result<Option<Parsed>, Fault> {
    let Some(common) = bytes.get(..COMMON) else { return Ok(None) };
    let &[kind, flags, length, offset, ..] = common else { unreachable!("eight bytes") };
    let whole = u32_at(bytes, 4);
    let (header, most) = match kind {
        kind::INITIALIZE_REQUEST => (INITIALIZE, 0),
        kind::COMMAND => (CAPSULE, IN_CAPSULE as u32),
        kind::DATA_TO_CONTROLLER => (HEAD, TRANSFER),
        kind::HOST_TERMINATES => (HEAD, INITIALIZE as u32),
        _ => return Err(Fault::Header),
    };
    // Digests were not agreed on: their flags are wrong.
    if usize::from(length) != header || flags & 0b11 != 0 || (whole as usize) < header {
        return Err(Fault::Header);
    }
    let has_data = whole as usize > header;
    let before = if has_data && kind != kind::HOST_TERMINATES { offset.into() } else { header };
    let valid = before >= header && before.is_multiple_of(4) && before <= whole as usize;
    let data = if valid { whole - before as u32 } else { return Err(Fault::Header) };
    if data > most {
        return Err(Fault::Limit);
    }
    let Some(head) = bytes.get(..before) else { return Ok(None) };
    let pdu = match kind {
        kind::INITIALIZE_REQUEST if head[8..10] != [0; 2] => return Err(Fault::Parameter),
        kind::INITIALIZE_REQUEST if head[10] > 31 => return Err(Fault::Header),
        kind::INITIALIZE_REQUEST => Pdu::Initialize { alignment: head[10] },
        kind::COMMAND => Pdu::Command(Command::new(head[8..CAPSULE].try_into().expect("64 bytes"))),
        kind::DATA_TO_CONTROLLER if u32_at(head, 16) != data || data == 0 => {
            return Err(Fault::Header);
        }
        kind::DATA_TO_CONTROLLER => Pdu::Data { tag: u16_at(head, 10), offset: u32_at(head, 12) },
        _ => Pdu::Terminate,
    };
    Ok(Some(Parsed { pdu, taken: before, data }))
}

fn common(kind: u8, flags: u8, header: usize, offset: usize, whole: usize) -> [u8; COMMON] {
    let [a, b, c, d] = (whole as u32).to_le_bytes();
    [kind, flags, header as u8, offset as u8, a, b, c, d]
}

/// The answer to [`Pdu::Initialize`]: no digest, no alignment, and data units of up to [`TRANSFER`] bytes.
#[must_use]
pub fn initialized() -> Vec<u8> {
    let mut unit = vec![0; INITIALIZE];
    unit[..COMMON].copy_from_slice(&common(
        kind::INITIALIZE_RESPONSE,
        0,
        INITIALIZE,
        0,
        INITIALIZE,
    ));
    unit[12..16].copy_from_slice(&TRANSFER.to_le_bytes());
    unit
}

/// The last unit of a connection with a fatal error. `header` is the begin of the unit at fault.
#[must_use]
pub fn terminated(fault: Fault, header: &[u8]) -> Vec<u8> {
    let header = &header[..header.len().min(INITIALIZE)];
    let whole = HEAD + header.len();
    let mut unit = common(kind::CONTROLLER_TERMINATES, 0, HEAD, 0, whole).to_vec();
    unit.extend_from_slice(&[fault as u8, 0]);
    unit.resize(HEAD, 0);
    unit.extend_from_slice(header);
    unit
}

/// A response capsule around a completion queue entry.
#[must_use]
pub fn response(entry: &[u8; 16]) -> [u8; HEAD] {
    let mut unit = [0; HEAD];
    unit[..COMMON].copy_from_slice(&common(kind::RESPONSE, 0, HEAD, 0, HEAD));
    unit[COMMON..].copy_from_slice(entry);
    unit
}

/// A request for `length` bytes of the data of command `id`, from `offset` on.
#[must_use]
pub fn ready(id: u16, tag: u16, length: u32) -> [u8; HEAD] {
    let mut unit = [0; HEAD];
    unit[..COMMON].copy_from_slice(&common(kind::READY, 0, HEAD, 0, HEAD));
    unit[8..10].copy_from_slice(&id.to_le_bytes());
    unit[10..12].copy_from_slice(&tag.to_le_bytes());
    unit[16..20].copy_from_slice(&length.to_le_bytes());
    unit
}

/// The header before all `length` bytes of data of command `id`. With `success` no response follows. The host aligns
/// data as [`Pdu::Initialize`] says.
#[must_use]
pub fn before_data(id: u16, length: u32, success: bool, alignment: u8) -> Vec<u8> {
    let offset = HEAD.next_multiple_of(4 * (usize::from(alignment) + 1));
    let flags = flag::LAST | if success { flag::SUCCESS } else { 0 };
    let whole = offset + length as usize;
    let mut unit = common(kind::DATA_TO_HOST, flags, HEAD, offset, whole).to_vec();
    unit.extend_from_slice(&id.to_le_bytes());
    unit.resize(16, 0);
    unit.extend_from_slice(&length.to_le_bytes());
    unit.resize(offset, 0);
    unit
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unit(kind: u8, header: usize, offset: usize, whole: usize) -> Vec<u8> {
        let mut unit = common(kind, 0, header, offset, whole).to_vec();
        unit.resize(whole, 0);
        unit
    }

    #[test]
    fn a_capsule_is_known_when_its_header_is_there() {
        let bytes = unit(4, 72, 76, 76 + 512);
        assert_eq!(parse(&bytes[..75]), Ok(None));
        let parsed = parse(&bytes[..76]).unwrap().unwrap();
        assert_eq!((parsed.taken, parsed.data), (76, 512));
    }

    #[test]
    fn wrong_headers_are_faults() {
        let fault = |bytes: &[u8]| parse(bytes).unwrap_err();
        assert_eq!(fault(&unit(5, 24, 0, 24)), Fault::Header, "a response of a host");
        assert_eq!(fault(&unit(4, 64, 0, 72)), Fault::Header, "length of the header");
        assert_eq!(fault(&unit(4, 72, 73, 90)), Fault::Header, "alignment");
        assert_eq!(fault(&unit(4, 72, 72, 73 + IN_CAPSULE)), Fault::Limit);
        let mut digest = unit(4, 72, 0, 72);
        digest[1] = 1;
        assert_eq!(fault(&digest), Fault::Header);
        let mut version = unit(0, 128, 0, 128);
        version[8] = 1;
        assert_eq!(fault(&version), Fault::Parameter);
        assert_eq!(fault(&unit(6, 24, 24, 28)), Fault::Header, "lengths that differ");
    }

    #[test]
    fn data_is_aligned_as_the_host_asks() {
        assert_eq!(before_data(1, 512, false, 0).len(), 24);
        let unit = before_data(1, 512, true, 31);
        assert_eq!((unit.len(), unit[3], unit[1]), (128, 128, 0b1100));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0_u8..10) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            if let Ok(Some(parsed)) = parse(&bytes) {
                prop_assert!(parsed.taken <= bytes.len());
            }
        }
    }
}
