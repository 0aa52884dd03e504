//! Linux's block-device commands without a safe library: discard and zone commands.
//!
//! Numbers and structures are those of the kernel's `include/uapi/linux/fs.h` and `include/uapi/linux/blkzoned.h`.
//! Sectors have 512 bytes here, whatever the device's logical block.

use std::ffi::c_void;
use std::fs::File;

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Setter, ioctl, opcode};

const GROUP: u8 = 0x12;

/// `BLKDISCARD`: start and length in bytes.
const DISCARD: Opcode = opcode::none(GROUP, 119);
/// `BLKZEROOUT`: start and length in bytes.
const ZERO_OUT: Opcode = opcode::none(GROUP, 127);
const REPORT_ZONES: Opcode = opcode::read_write::<ReportHead>(GROUP, 130);
const RESET_ZONE: Opcode = opcode::write::<ZoneRange>(GROUP, 131);
const FINISH_ZONE: Opcode = opcode::write::<ZoneRange>(GROUP, 136);

/// `struct blk_zone_range`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct ZoneRange {
    sector: u64,
    sectors: u64,
}

/// `struct blk_zone_report` without the zones.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct ReportHead {
    sector: u64,
    zones: u32,
    flags: u32,
}

/// The zones of a report carry their capacity; `BLK_ZONE_REP_CAPACITY`.
const HAS_CAPACITY: u32 = 1;

/// `struct blk_zone`: a zone as the kernel describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct RawZone {
    /// First sector.
    pub(super) start: u64,
    /// Sectors to the next zone.
    pub(super) len: u64,
    /// Next sector to write.
    pub(super) write_pointer: u64,
    /// 1 conventional, 2 to be written in order, 3 better written in order.
    pub(super) kind: u8,
    /// `enum blk_zone_cond`.
    pub(super) condition: u8,
    /// Whether resources for other than ordered writes are in use; of no use here, as is what follows.
    pub(super) non_sequential: u8,
    /// Whether the drive recommends a reset.
    pub(super) reset: u8,
    /// Zero.
    pub(super) reserved: [u8; 4],
    /// Sectors that can be written.
    pub(super) capacity: u64,
    /// Zero.
    pub(super) reserved_2: [u8; 24],
}

/// Zones per report request. Chosen, not measured.
const REPORTED: usize = 256;

#[derive(Debug)]
#[repr(C)]
struct Report {
    head: ReportHead,
    zones: [RawZone; REPORTED],
}

/// Tells the device that bytes are not needed any more.
pub(super) fn discard(device: &File, start: u64, len: u64) -> Result<(), Errno> {
    // SAFETY: BLKDISCARD reads two numbers of 64 bits.
    unsafe { ioctl(device, Setter::<DISCARD, [u64; 2]>::new([start, len])) }
}

/// Has the device read as zeros there; the kernel writes them if the device cannot do it by itself.
pub(super) fn zero_out(device: &File, start: u64, len: u64) -> Result<(), Errno> {
    // SAFETY: BLKZEROOUT reads two numbers of 64 bits.
    unsafe { ioctl(device, Setter::<ZERO_OUT, [u64; 2]>::new([start, len])) }
}

/// Makes the zone empty.
pub(super) fn reset_zone(device: &File, start: u64, len: u64) -> Result<(), Errno> {
    // SAFETY: BLKRESETZONE reads a range.
    unsafe { ioctl(device, Setter::<RESET_ZONE, ZoneRange>::new(range(start, len))) }
}

/// Makes the zone full.
pub(super) fn finish_zone(device: &File, start: u64, len: u64) -> Result<(), Errno> {
    // SAFETY: BLKFINISHZONE reads a range.
    unsafe { ioctl(device, Setter::<FINISH_ZONE, ZoneRange>::new(range(start, len))) }
}

/// A range of sectors from bytes.
fn range(start: u64, len: u64) -> ZoneRange {
    ZoneRange { sector: start / 512, sectors: len / 512 }
}

/// Every zone of the device.
pub(super) fn report_zones(device: &File) -> Result<Vec<RawZone>, Errno> {
    let mut zones: Vec<RawZone> = Vec::new();
    loop {
        let sector = zones.last().map_or(0, |last| last.start + last.len);
        let head = ReportHead { sector, zones: REPORTED as u32, flags: 0 };
        let mut report = Box::new(Report { head, zones: [RawZone::default(); REPORTED] });
        // SAFETY: BLKREPORTZONE writes at most `head.zones` zones behind the head, and there is room for as many.
        unsafe { ioctl(device, ReportZones(&mut report)) }?;
        let count = (report.head.zones as usize).min(REPORTED);
        zones.extend(report.zones[..count].iter().map(|zone| with_capacity(*zone, &report.head)));
        if count < REPORTED {
            return Ok(zones);
        }
    }
}

/// Kernels before 5.9 do not tell the capacity; then it is the whole zone.
fn with_capacity(zone: RawZone, head: &ReportHead) -> RawZone {
    let capacity = if head.flags & HAS_CAPACITY == 0 { zone.len } else { zone.capacity };
    RawZone { capacity, ..zone }
}

struct ReportZones<'a>(&'a mut Report);

// SAFETY: the opcode is BLKREPORTZONE and the pointer is to its argument, which it writes.
unsafe impl Ioctl for ReportZones<'_> {
    type Output = ();

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        REPORT_ZONES
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut::<Report>(self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> Result<(), Errno> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// The numbers as `linux/blkzoned.h` and `linux/fs.h` make them on x86-64 and AArch64: direction (1 write, 2 read)
    /// in the two upper bits, then 14 bits of size, the group, and the number.
    #[test]
    fn numbers_are_the_kernels() {
        let number = |direction: u32, size: u32, number: u32| {
            (direction << 30 | size << 16 | 0x12 << 8 | number) as Opcode
        };
        assert_eq!(DISCARD, number(0, 0, 119));
        assert_eq!(ZERO_OUT, number(0, 0, 127));
        assert_eq!(REPORT_ZONES, number(3, 16, 130));
        assert_eq!(RESET_ZONE, number(1, 16, 131));
        assert_eq!(FINISH_ZONE, number(1, 16, 136));
    }

    #[test]
    fn structures_are_the_kernels() {
        assert_eq!(size_of::<ZoneRange>(), 16);
        assert_eq!((size_of::<ReportHead>(), offset_of!(Report, zones)), (16, 16));
        assert_eq!(size_of::<RawZone>(), 64);
        assert_eq!(offset_of!(RawZone, write_pointer), 16);
        assert_eq!((offset_of!(RawZone, kind), offset_of!(RawZone, condition)), (24, 25));
        assert_eq!(offset_of!(RawZone, capacity), 32);
    }

    #[test]
    fn without_the_flag_the_capacity_is_the_zone() {
        let zone = RawZone { len: 8, capacity: 5, ..RawZone::default() };
        assert_eq!(with_capacity(zone, &ReportHead::default()).capacity, 8);
        let head = ReportHead { flags: HAS_CAPACITY, ..ReportHead::default() };
        assert_eq!(with_capacity(zone, &head).capacity, 5);
    }

    #[test]
    fn a_file_has_no_zones() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(report_zones(&file).unwrap_err(), Errno::NOTTY);
        assert_eq!(reset_zone(&file, 0, 512), Err(Errno::NOTTY));
    }
}
