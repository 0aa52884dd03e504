//! Data structures that a controller returns: Identify, log pages.

use std::net::SocketAddr;

use super::placement::ENDURANCE_GROUP;
use super::{IN_CAPSULE, QUEUE, TRANSFER_PAGES_LOG};

/// Bytes of an Identify data structure.
pub const IDENTIFY: usize = 4096;

/// Logarithm of the bytes in a logical block.
pub const BLOCK_LOG: u8 = 9;

/// Version of the NVMe base specification that controllers state: 1.4.
pub const VERSION: u32 = 0x0001_0400;

/// The highest number of a namespace.
pub const NAMESPACE_MAX: u32 = 0xFFFF;

/// Controller capabilities (Base 3.1.3.1): queues of [`QUEUE`] entries, contiguous; 7.5 s to become ready; the NVM
/// command set; pages of 4096 bytes.
#[must_use]
pub const fn capabilities() -> u64 {
    (QUEUE as u64 - 1) | 1 << 16 | 15 << 24 | 1 << 37
}

/// What a controller tells of itself.
#[derive(Clone, Copy, Debug)]
pub struct ControllerData<'a> {
    /// Its number.
    pub id: u16,
    /// Whether the subsystem is one of discovery.
    pub discovers: bool,
    /// Name of the subsystem.
    pub subsystem: &'a str,
    /// Serial number.
    pub serial: &'a str,
    /// Granularity of the keep-alive timer in units of 100 ms.
    pub keep_alive: u16,
    /// Asynchronous event requests held at once.
    pub events: u8,
    /// Whether writes can name placement handles.
    pub places: bool,
}

pub(super) struct Fields(pub(super) Vec<u8>);

impl Fields {
    pub(super) fn new(len: usize) -> Fields {
        Fields(vec![0; len])
    }

    pub(super) fn put(&mut self, at: usize, bytes: &[u8]) -> &mut Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    pub(super) fn byte(&mut self, at: usize, value: u8) -> &mut Self {
        self.put(at, &[value])
    }

    pub(super) fn word(&mut self, at: usize, value: u16) -> &mut Self {
        self.put(at, &value.to_le_bytes())
    }

    pub(super) fn dword(&mut self, at: usize, value: u32) -> &mut Self {
        self.put(at, &value.to_le_bytes())
    }

    pub(super) fn quad(&mut self, at: usize, value: u64) -> &mut Self {
        self.put(at, &value.to_le_bytes())
    }

    /// A text, cut off or filled up to `len` bytes.
    pub(super) fn text(&mut self, at: usize, len: usize, text: &str, fill: u8) -> &mut Self {
        self.0[at..at + len].fill(fill);
        let text = text.as_bytes();
        self.put(at, &text[..text.len().min(len)])
    }
}

/// Identify Controller (Base 5.17.2.1, figure 275).
#[must_use]
pub fn controller(of: &ControllerData<'_>) -> Vec<u8> {
    let mut fields = Fields::new(IDENTIFY);
    fields
        .text(4, 20, of.serial, b' ')
        .text(24, 40, "Thermocline", b' ')
        .text(64, 8, env!("CARGO_PKG_VERSION"), b' ')
        .byte(76, 1 << 1) // CMIC: several controllers, one for each host.
        .byte(77, TRANSFER_PAGES_LOG)
        .word(78, of.id)
        .dword(80, VERSION)
        .byte(111, if of.discovers { 2 } else { 1 })
        .byte(258, 3) // ACL: aborts at once, less one.
        .byte(259, of.events - 1)
        .byte(260, 0b11) // FRMW: one firmware slot, read-only.
        .byte(261, 0b110) // LPA: effects log, offsets in logs.
        .word(320, of.keep_alive)
        .byte(512, 0x66) // SQES: entries of 64 bytes.
        .byte(513, 0x44) // CQES: entries of 16 bytes.
        .word(514, QUEUE)
        .dword(536, 1 | 1 << 20) // SGLS: supported, with offsets in capsules.
        .text(768, 256, of.subsystem, 0)
        .dword(1792, (64 + IN_CAPSULE as u32) / 16) // IOCCSZ
        .dword(1796, 1) // IORCSZ
        .byte(1803, 1) // MSDBD: one descriptor.
        .word(1804, 1); // OFCS: Disconnect.
    if !of.discovers {
        fields
            .dword(92, 1 << 8) // OAES: changes of namespaces.
            .dword(516, NAMESPACE_MAX)
            .word(520, 1 << 2 | 1 << 3) // ONCS: Dataset Management, Write Zeroes.
            .byte(525, 0b101) // VWC: present; no flush of all namespaces.
            .dword(540, NAMESPACE_MAX);
    }
    if of.places {
        fields
            .dword(96, 1 << 4 | 1 << 19) // CTRATT: endurance groups, flexible data placement.
            .word(256, 1 << 5) // OACS: directives.
            .word(340, ENDURANCE_GROUP); // ENDGIDMAX
    }
    fields.0
}

/// Identify Namespace (NVM 4.1.5.1, figure 97) of `blocks` logical blocks. Namespaces are shared, and best written in
/// 4096 bytes. Deallocated blocks read as zeroes. `places`: whether writes can name placement handles.
#[must_use]
pub fn namespace(blocks: u64, read_only: bool, places: bool, id: &[u8; 16]) -> Vec<u8> {
    let mut fields = Fields::new(IDENTIFY);
    fields.quad(0, blocks).quad(8, blocks).quad(16, blocks);
    fields
        .byte(24, 1 << 4) // NSFEAT: the granularities below.
        .byte(30, 1) // NMIC
        .byte(33, 0b1001); // DLFEAT: zeroes; Write Zeroes can deallocate.
    for at in [64, 66, 68, 70, 72] {
        fields.word(at, (4096 >> BLOCK_LOG) - 1); // NPWG, NPWA, NPDG, NPDA, NOWS
    }
    fields.byte(99, read_only.into()).put(104, id).byte(130, BLOCK_LOG);
    if places {
        fields.word(102, ENDURANCE_GROUP);
    }
    fields.0
}

/// Active namespaces after `after` (Base 5.17.2.2). `all` is in order.
#[must_use]
pub fn active(all: impl Iterator<Item = u32>, after: u32) -> Vec<u8> {
    let mut list = Fields::new(IDENTIFY);
    for (index, id) in all.filter(|&id| id > after).take(IDENTIFY / 4).enumerate() {
        list.dword(4 * index, id);
    }
    list.0
}

/// Identification descriptors of a namespace (Base 5.17.2.3): NGUID, UUID, command set.
#[must_use]
pub fn descriptors(id: &[u8; 16]) -> Vec<u8> {
    let mut fields = Fields::new(IDENTIFY);
    fields.put(0, &[2, 16]).put(4, id).put(20, &[3, 16]).put(24, id).put(40, &[4, 1]);
    fields.0
}

/// Limits of the NVM command set (NVM 4.1.5.2): Write Zeroes of up to 32 MiB, the range of its length.
#[must_use]
pub fn limits() -> Vec<u8> {
    let mut fields = Fields::new(IDENTIFY);
    fields.byte(1, 13);
    fields.0
}

/// Requests since the server began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

/// SMART / Health Information (Base 5.16.1.3). Temperature, wear and hours are not known here and stay zero.
#[must_use]
pub fn health(usage: &Usage) -> Vec<u8> {
    let thousands = |bytes: u64| bytes.div_ceil(512 * 1000);
    let mut fields = Fields::new(512);
    fields.byte(3, 100); // Available spare, in per cent.
    fields.quad(32, thousands(usage.bytes_read)).quad(48, thousands(usage.bytes_written));
    fields.quad(64, usage.reads).quad(80, usage.writes);
    fields.0
}

/// Firmware Slot Information (Base 5.16.1.4): slot 1 is active.
#[must_use]
pub fn firmware() -> Vec<u8> {
    let mut fields = Fields::new(512);
    fields.byte(0, 1).text(8, 8, env!("CARGO_PKG_VERSION"), b' ');
    fields.0
}

/// Changed Namespace List (Base 5.16.1.5).
#[must_use]
pub fn changed(all: impl ExactSizeIterator<Item = u32>) -> Vec<u8> {
    let mut list = Fields::new(4096);
    if all.len() > 1024 {
        list.dword(0, u32::MAX);
    } else {
        all.enumerate().for_each(|(index, id)| _ = list.dword(4 * index, id));
    }
    list.0
}

/// Commands Supported and Effects (Base 5.16.1.6).
#[must_use]
pub fn effects(places: bool) -> Vec<u8> {
    use super::command::{admin, io};
    let mut fields = Fields::new(4096);
    let known = [
        admin::LOG_PAGE,
        admin::IDENTIFY,
        admin::ABORT,
        admin::SET_FEATURES,
        admin::GET_FEATURES,
        admin::EVENT,
        admin::KEEP_ALIVE,
    ];
    for opcode in known {
        fields.dword(4 * usize::from(opcode), 1);
    }
    if places {
        fields.dword(4 * usize::from(admin::DIRECTIVE), 1);
        fields.dword(1024 + 4 * usize::from(io::MANAGEMENT), 1);
    }
    for opcode in [io::FLUSH, io::READ] {
        fields.dword(1024 + 4 * usize::from(opcode), 1);
    }
    // These commands change logical blocks.
    for opcode in [io::WRITE, io::WRITE_ZEROES, io::DATASET] {
        fields.dword(1024 + 4 * usize::from(opcode), 0b11);
    }
    fields.0
}

/// Discovery Log Page (Base 5.16.1.23) with one subsystem at one address.
#[must_use]
pub fn discovery(subsystem: &str, at: SocketAddr) -> Vec<u8> {
    let host = at.ip().to_canonical();
    let mut fields = Fields::new(2048);
    fields.quad(0, 1).quad(8, 1); // Generation, and one record.
    fields
        .byte(1024, 3) // TCP
        .byte(1025, if host.is_ipv4() { 1 } else { 2 })
        .byte(1026, 2) // A subsystem of volumes.
        .byte(1027, 1 << 2) // TREQ: flow control of queues can be left out.
        .word(1028, 1)
        .word(1030, u16::MAX) // Controllers are made for hosts.
        .word(1032, QUEUE)
        .text(1056, 32, &at.port().to_string(), b' ')
        .text(1280, 256, subsystem, 0)
        .text(1536, 256, &host.to_string(), b' ');
    fields.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_go_on_where_the_host_asks() {
        let list = active([3, 5, 9].into_iter(), 3);
        assert_eq!(list[..12], [5, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn too_many_changes_are_one_entry() {
        assert_eq!(
            changed((1..2000_u32).collect::<Vec<_>>().into_iter())[..5],
            [255, 255, 255, 255, 0]
        );
    }

    #[test]
    fn a_record_tells_where_the_subsystem_is() {
        let page = discovery("nqn.x", "[::1]:4420".parse().unwrap());
        assert_eq!((page[1024], page[1025]), (3, 2));
        assert!(page[1056..].starts_with(b"4420 ") && page[1536..].starts_with(b"::1 "));
        assert!(page[1280..].starts_with(b"nqn.x\0"));
    }

    #[test]
    fn units_of_data_are_rounded_up() {
        let usage = Usage { reads: 2, bytes_read: 512_001, ..Usage::default() };
        let page = health(&usage);
        assert_eq!((page[32], page[48], page[64]), (2, 0, 2));
    }
}
