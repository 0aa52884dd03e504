//! Flexible data placement (TP4146): log pages and structures of a drive with one reclaim group.
//!
//! The placement identifier of a write is the number of its reclaim unit handle.

use thermocline_target::PlacementHandles;

use super::data::{BLOCK_LOG, Fields};

/// The only endurance group.
pub const ENDURANCE_GROUP: u16 = 1;

/// Bytes of the header of pages 20h, and of a configuration without its handles.
const HEADER: usize = 16;
const CONFIGURATION: usize = 64;
/// Bytes of a handle in page 20h, in page 21h, and in the structure of I/O Management Receive.
const HANDLE: usize = 4;
const USAGE: usize = 8;
const STATUS: usize = 32;

/// The log page of this number, if it is one of data placement.
#[must_use]
pub fn log_page(number: u32, of: &PlacementHandles) -> Option<Vec<u8>> {
    Some(match number {
        0x20 => configurations(of),
        0x21 => usage(of),
        0x22 => statistics(of),
        // No events.
        0x23 => vec![0; 64],
        _ => return None,
    })
}

/// FDP Configurations, page 20h: one, with one reclaim group.
fn configurations(of: &PlacementHandles) -> Vec<u8> {
    let handles = usize::from(of.handles);
    let length = CONFIGURATION + HANDLE * handles;
    let mut fields = Fields::new(HEADER + length);
    fields
        .dword(4, (HEADER + length) as u32)
        .word(HEADER, length as u16)
        .byte(HEADER + 2, 1 << 7) // FDPA: valid; no bits for the reclaim group.
        .dword(HEADER + 4, 1)
        .word(HEADER + 8, of.handles)
        .word(HEADER + 10, of.handles - 1) // MAXPIDS, less one.
        .dword(HEADER + 12, super::data::NAMESPACE_MAX)
        .quad(HEADER + 16, of.unit.0);
    let kind = if of.stay_apart { 2 } else { 1 };
    for handle in 0..handles {
        fields.byte(HEADER + CONFIGURATION + HANDLE * handle, kind);
    }
    fields.0
}

/// Reclaim Unit Handle Usage, page 21h: each handle is for hosts.
fn usage(of: &PlacementHandles) -> Vec<u8> {
    let handles = usize::from(of.handles);
    let mut fields = Fields::new(8 + USAGE * handles);
    fields.word(0, of.handles);
    (0..handles).for_each(|handle| _ = fields.byte(8 + USAGE * handle, 1));
    fields.0
}

/// FDP Statistics, page 22h: bytes of hosts, bytes to the media, bytes erased.
fn statistics(of: &PlacementHandles) -> Vec<u8> {
    let mut fields = Fields::new(64);
    fields.quad(0, of.host_written.0).quad(16, of.media_written.0).quad(32, of.erased.0);
    fields.0
}

/// Reclaim Unit Handle Status, of I/O Management Receive: which identifiers a namespace has. How much of a unit is free
/// is told as the whole unit: the drive keeps it to itself.
#[must_use]
pub fn handles(of: &PlacementHandles) -> Vec<u8> {
    let mut fields = Fields::new(HEADER + STATUS * usize::from(of.handles));
    fields.word(14, of.handles);
    for handle in 0..of.handles {
        let at = HEADER + STATUS * usize::from(handle);
        fields.word(at, handle).word(at + 2, handle).quad(at + 8, of.unit.0 >> BLOCK_LOG);
    }
    fields.0
}

/// Return Parameters of the Identify directive (Base 8.8.2): Identify and Data Placement, both always on.
#[must_use]
pub fn directives() -> Vec<u8> {
    let mut fields = Fields::new(4096);
    for list in [0, 32, 64] {
        fields.byte(list, 1 | 1 << 2);
    }
    fields.0
}

#[cfg(test)]
mod tests {
    use thermocline_types::Bytes;

    use super::*;

    const DRIVE: PlacementHandles = PlacementHandles {
        handles: 8,
        unit: Bytes(6 << 30),
        stay_apart: false,
        host_written: Bytes(1000),
        media_written: Bytes(1500),
        erased: Bytes(500),
    };

    #[test]
    fn pages_have_each_handle() {
        let page = log_page(0x20, &DRIVE).unwrap();
        assert_eq!((page.len(), page[4], page[16]), (112, 112, 96));
        assert_eq!((page[24], page[26], page[80], page[108]), (8, 7, 1, 1));
        assert_eq!(
            log_page(0x21, &DRIVE).unwrap()[8..].iter().filter(|&&byte| byte == 1).count(),
            8
        );
        let status = handles(&DRIVE);
        assert_eq!((status[14], status[16 + 32 * 7], status.len()), (8, 7, 272));
        assert_eq!(log_page(0x02, &DRIVE), None);
    }

    #[test]
    fn statistics_are_in_bytes() {
        let page = log_page(0x22, &DRIVE).unwrap();
        let number = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().unwrap());
        assert_eq!([0, 16, 32].map(number), [1000, 1500, 500]);
    }
}
