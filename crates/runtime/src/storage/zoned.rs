//! A host-managed zoned block device under Linux.
//!
//! A zone is written in order, one write at a time: before version 6.10 the kernel may reorder writes in flight, and
//! the drive refuses those out of order. Different zones are written side by side. The first write opens a zone: the
//! engine keeps to the device's limits, so that an explicit `BLKOPENZONE` would add a command and no safety. Append
//! is of no use here: the kernel does not offer it on a block device's file, and a chunk's checksum covers where it is.
//!
//! Tested without such a device: numbers and layout of the ioctls, the reading of reports, the order of writes. With
//! one: the test `a_real_zoned_device`, if the environment names it.

use std::fs;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thermocline_engine::wire::ZoneOrder;
use thermocline_engine::{UnitCondition, UnitReport};
use thermocline_format::LogicalBlock;
use thermocline_types::{Bytes, UnitId};

use super::Waker;
use super::file::is_storage;
use super::ioctl::{RawZone, finish_zone, report_zones, reset_zone};
use super::{
    Access, Command, Completion, Fault, File, Layout, OpenError, OpenErrorKind, Options, Storage,
    Token,
};

/// Zones of a Linux block device, each a unit.
#[derive(Debug)]
pub struct Zoned {
    file: File,
    device: Arc<fs::File>,
    order: ZoneOrder<Token, Command>,
    fresh: Vec<Completion>,
}

impl Zoned {
    /// Opens the device at `path`. All its zones but a shorter last one are units; all must be of one size, and be
    /// written in order.
    ///
    /// # Errors
    /// [`OpenError`], also when it is no zoned device, or its zones are not alike.
    pub fn open(path: &Path, options: &Options) -> Result<Zoned, OpenError> {
        let system = |error: std::io::Error| OpenError::system(path, error);
        is_storage(path)?;
        let device = fs::File::options()
            .read(true)
            .write(options.access == Access::ReadWrite)
            .open(path)
            .map_err(system)?;
        let errno = |error| OpenError::system(path, error);
        let zones = report_zones(&device).map_err(errno)?;
        let block = rustix::fs::ioctl_blksszget(&device).map_err(errno)?;
        let layout = layout_of(&zones, block);
        let layout = layout.map_err(|why| OpenError::new(path, OpenErrorKind::Zones(why)))?;
        let options = Options { direct: Some(true), ..*options };
        let file = File::open(path, false, layout, &options)?;
        let (order, fresh) = (ZoneOrder::default(), Vec::new());
        Ok(Zoned { file, device: Arc::new(device), order, fresh })
    }

    fn start(&mut self, unit: UnitId, token: Token, command: Command) {
        let layout = *self.file.layout();
        let (start, len) = (layout.start(unit).0, layout.unit_distance.0);
        let device = Arc::clone(&self.device);
        match command {
            Command::Reset(_) | Command::Zero(_) => {
                self.file.call(token, Box::new(move || reset_zone(&device, start, len)));
            }
            Command::Finish(_) => {
                self.file.call(token, Box::new(move || finish_zone(&device, start, len)));
            }
            other => self.file.submit(token, other),
        }
    }
}

impl Storage for Zoned {
    fn layout(&self) -> &Layout {
        self.file.layout()
    }

    fn submit(&mut self, token: Token, command: Command) {
        let unit = match &command {
            Command::Write { at, .. } => self.layout().unit_of(*at),
            Command::Reset(unit) | Command::Zero(unit) | Command::Finish(unit) => *unit,
            Command::Read { .. }
            | Command::Flush(_)
            | Command::Heal(_)
            | Command::Distrust { .. } => return self.file.submit(token, command),
        };
        if let Some(command) = self.order.enter(unit, token, command) {
            self.start(unit, token, command);
        }
    }

    fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        self.file.reap(wait, &mut self.fresh);
        for completion in std::mem::take(&mut self.fresh) {
            if let Some((unit, token, command)) = self.order.leave(completion.token) {
                self.start(unit, token, command);
            }
            done.push(completion);
        }
    }

    fn waker(&self) -> Waker {
        self.file.waker()
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        self.file.descriptors(into);
    }

    fn report(&mut self) -> Result<Vec<UnitReport>, Fault> {
        let layout = *self.file.layout();
        let zones = report_zones(&self.device)?;
        Ok(zones.iter().take(layout.units as usize).map(|zone| report_of(zone, &layout)).collect())
    }
}

/// The units that zones make.
fn layout_of(zones: &[RawZone], logical_block: u32) -> Result<Layout, &'static str> {
    let logical_block = LogicalBlock::from_bytes(logical_block)
        .ok_or("its logical blocks have neither 512 nor 4096 bytes")?;
    let first = zones.first().ok_or("it has no zones")?;
    let whole = zones.len() - usize::from(zones.last().is_some_and(|last| last.len != first.len));
    for zone in &zones[..whole] {
        if zone.kind != SEQUENTIAL {
            return Err("it has zones that need not be written in order; these are not supported");
        }
        if (zone.len, zone.capacity) != (first.len, first.capacity) {
            return Err("its zones are not of one size");
        }
    }
    let sectors = logical_block.bytes() as u64 / 512;
    let blocks_per_unit =
        u32::try_from(first.capacity / sectors).map_err(|_| "its zones are too large")?;
    let units = u32::try_from(whole).map_err(|_| "it has too many zones")?;
    Ok(Layout { logical_block, blocks_per_unit, units, unit_distance: Bytes(first.len * 512) })
}

/// `BLK_ZONE_TYPE_SEQWRITE_REQ`.
const SEQUENTIAL: u8 = 2;

/// Whether the device at `path` reports that nothing was ever written to any of its zones, or all was reset.
pub(crate) fn are_empty(path: &Path) -> bool {
    let zones = fs::File::open(path).ok().and_then(|device| report_zones(&device).ok());
    zones.is_some_and(|zones| !zones.is_empty() && zones.iter().all(is_empty))
}

/// Whether nothing was written to a zone. A conventional zone does not report that.
fn is_empty(zone: &RawZone) -> bool {
    /// `BLK_ZONE_COND_EMPTY` of `linux/blkzoned.h`.
    const EMPTY: u8 = 1;
    zone.condition == EMPTY
}

/// Maps the conditions of `enum blk_zone_cond`.
fn report_of(zone: &RawZone, layout: &Layout) -> UnitReport {
    let (condition, written) = match zone.condition {
        0xD => (UnitCondition::ReadOnly, None),
        0xF => (UnitCondition::Offline, None),
        0xE => (UnitCondition::Good, Some(zone.capacity)),
        1 => (UnitCondition::Good, Some(0)),
        _ => (UnitCondition::Good, Some(zone.write_pointer.saturating_sub(zone.start))),
    };
    let sectors = layout.logical_block.bytes() as u64 / 512;
    let most = u64::from(layout.blocks_per_unit);
    UnitReport { condition, written: written.map(|written| (written / sectors).min(most) as u32) }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::IoEngine;
    use super::super::tests::suite;
    use super::*;

    /// Names a device whose data may be lost: `/dev/nullb0` of `null_blk zoned=1`, for example.
    const DEVICE: &str = "THERMOCLINE_ZONED_DEVICE";

    #[test]
    fn a_real_zoned_device() {
        let Some(path) = std::env::var_os(DEVICE).map(PathBuf::from) else {
            println!("SKIPPED: {DEVICE} names no zoned device");
            return;
        };
        for engine in [IoEngine::Uring, IoEngine::Threads] {
            let options = Options { engine, ..Options::default() };
            let mut device = Zoned::open(&path, &options).unwrap();
            suite(&mut device);
        }
    }

    fn zone(start: u64, condition: u8, write_pointer: u64) -> RawZone {
        let (len, capacity, kind) = (1024, 800, SEQUENTIAL);
        RawZone { start, len, capacity, kind, condition, write_pointer, ..RawZone::default() }
    }

    #[test]
    fn zones_make_units_with_gaps() {
        let short = RawZone { len: 100, ..zone(2048, 1, 2048) };
        let layout = layout_of(&[zone(0, 1, 0), zone(1024, 1, 1024), short], 4096).unwrap();
        assert_eq!((layout.units, layout.blocks_per_unit), (2, 100));
        assert_eq!(layout.start(UnitId(1)), Bytes(512 << 10));
    }

    #[test]
    fn other_zones_are_refused() {
        let conventional = RawZone { kind: 1, ..zone(0, 0, 0) };
        assert!(layout_of(&[conventional, zone(1024, 1, 1024)], 512).is_err());
        let smaller = RawZone { capacity: 700, ..zone(1024, 1, 1024) };
        assert!(layout_of(&[zone(0, 1, 0), smaller], 512).is_err());
        assert!(layout_of(&[zone(0, 1, 0)], 8192).is_err());
        assert!(layout_of(&[], 512).is_err());
    }

    #[test]
    fn only_zones_that_report_to_be_empty_hold_nothing() {
        assert!(is_empty(&zone(1024, 1, 1024)));
        // Conventional, open, closed, full, read-only, offline.
        for condition in [0, 2, 3, 4, 14, 13, 15] {
            assert!(!is_empty(&zone(1024, condition, 1024)), "{condition}");
        }
        assert!(!are_empty(Path::new("/dev/null")), "it has no zones");
    }

    #[test]
    fn conditions_and_write_pointers_are_read() {
        let layout = layout_of(&[zone(0, 1, 0)], 4096).unwrap();
        let read = |condition, pointer| {
            let report = report_of(&zone(1024, condition, pointer), &layout);
            (report.condition, report.written)
        };
        assert_eq!(read(1, 1024), (UnitCondition::Good, Some(0)));
        assert_eq!(read(2, 1024 + 80), (UnitCondition::Good, Some(10)));
        assert_eq!(read(4, 1024 + 81), (UnitCondition::Good, Some(10)));
        assert_eq!(read(0xE, u64::MAX), (UnitCondition::Good, Some(100)));
        assert_eq!(read(0xD, 0), (UnitCondition::ReadOnly, None));
        assert_eq!(read(0xF, 0), (UnitCondition::Offline, None));
    }
}
