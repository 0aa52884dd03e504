//! Detects the contents of a file or device before overwriting.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use thermocline_engine::wire::{probe, refused};
use thermocline_format::{PoolId, SuperblockPrefix};
use thermocline_types::Bytes;

use super::MediaError;
use crate::storage::is_storage;

/// Contents of a file or device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Nothing that anybody could miss: no file, or zeros as far as it was looked at.
    Nothing,
    /// A pool.
    Pool(PoolId),
    /// Contents with a known signature, such as a file system.
    Known(&'static str),
    /// Bytes that are not zero.
    Unknown,
}

/// Bytes searched at both ends: every file system in use has data at an end.
const HEAD: u64 = 4 << 20;
const TAIL: u64 = 1 << 20;
/// Bytes read where a superblock may begin.
pub(super) const SUPERBLOCK: u64 = 4096;

/// A signature: offset, bytes, and name of the contents. Source: `libblkid` of util-linux.
const SIGNATURES: [(usize, &[u8], &str); 14] = [
    (0x438, &[0x53, 0xEF], "an ext2, ext3 or ext4 file system"),
    (0, b"XFSB", "an XFS file system"),
    (0x1_0040, b"_BHRfS_M", "a btrfs file system"),
    (0x400, &[0x10, 0x20, 0xF5, 0xF2], "an F2FS file system"),
    (3, b"NTFS    ", "an NTFS file system"),
    (512, b"EFI PART", "a GPT partition table"),
    (4096, b"EFI PART", "a GPT partition table"),
    (512, b"LABELONE", "an LVM physical volume"),
    (0, b"LUKS\xBA\xBE", "a LUKS encrypted volume"),
    (4086, b"SWAPSPACE2", "swap space"),
    (4096, &[0xFC, 0x4E, 0x2B, 0xA9], "a member of an md array"),
    (0x8001, b"CD001", "an ISO 9660 file system"),
    (0, b"QFI\xFB", "a qcow2 disk image"),
    (510, &[0x55, 0xAA], "a partition table or a FAT file system"),
];

/// Contents at `path`. Superblocks of a pool are searched at distances of powers of two and of `units`.
pub(super) fn look(path: &Path, units: &[Bytes]) -> Result<Contents, MediaError> {
    if !path.exists() {
        return Ok(Contents::Nothing);
    }
    if let Some(label) = super::raids::label_at(path) {
        return Ok(Contents::Pool(label.pool));
    }
    match find_pool(path, units) {
        Ok(Some(found)) => return Ok(Contents::Pool(found.pool)),
        Ok(None) => {}
        Err(MediaError::Superblock { .. }) => {
            return Ok(Contents::Known("a pool that this program cannot open"));
        }
        Err(error) => return Err(error),
    }
    let error = |source| MediaError::Read { path: path.to_owned(), source };
    let head = read(path, 0, HEAD).map_err(error)?;
    if let Some(name) = signature(&head) {
        return Ok(Contents::Known(name));
    }
    let size = size(path).map_err(error)?.0;
    let tail = read(path, size.saturating_sub(TAIL), TAIL).map_err(error)?;
    let empty = head.iter().chain(&tail).all(|&byte| byte == 0);
    Ok(if empty { Contents::Nothing } else { Contents::Unknown })
}

fn signature(head: &[u8]) -> Option<&'static str> {
    let has = |at: usize, bytes: &[u8]| head.get(at..at + bytes.len()) == Some(bytes);
    SIGNATURES.iter().find(|(at, bytes, _)| has(*at, bytes)).map(|(_, _, name)| *name)
}

/// The first part of a superblock record of the pool at `path`, the newest of those that are found.
pub(super) fn find_pool(
    path: &Path,
    units: &[Bytes],
) -> Result<Option<SuperblockPrefix>, MediaError> {
    let found = find_records(path, units)?;
    Ok(found.into_iter().max_by_key(|record| (record.epoch, record.revision)))
}

/// The first parts of the superblock records of one pool with which units at `path` begin. One of the first two units
/// begins with a record, except while the other is being reset; then that one does. Both are emptied in each opening,
/// so the newest of them has the devices that the pool has now, or that it was about to have.
pub(super) fn find_records(
    path: &Path,
    units: &[Bytes],
) -> Result<Vec<SuperblockPrefix>, MediaError> {
    let error = |source| MediaError::Read { path: path.to_owned(), source };
    let size = size(path).map_err(error)?.0;
    let powers = (16..=40).map(|bit| 1_u64 << bit);
    let offsets = std::iter::once(0).chain(units.iter().map(|unit| unit.0)).chain(powers);
    let (mut all, mut wrong) = (Vec::<SuperblockPrefix>::new(), None);
    let mut offsets: VecDeque<u64> = offsets.filter(|&offset| offset < size).collect();
    while let Some(offset) = offsets.pop_front() {
        let bytes = read(path, offset, SUPERBLOCK).map_err(error)?;
        let Some(found) = probe(&bytes, offset) else {
            wrong = wrong.or_else(|| refused(&bytes));
            continue;
        };
        if all.is_empty() {
            // The division is known now: only the other unit is still of interest.
            let unit = super::unit_bytes(&found.geometry).0;
            offsets = [0, unit].into_iter().chain(units.iter().map(|unit| unit.0)).collect();
            offsets.retain(|&other| other != offset && other < size);
        }
        if all.first().is_none_or(|first| first.pool == found.pool) {
            // Behind the first record of an opening another device has the confirmed one.
            let behind = offset + found.record_bytes as u64;
            let confirmed = probe(&read(path, behind, SUPERBLOCK).map_err(error)?, behind);
            all.push(found);
            all.extend(confirmed.filter(|next| next.pool == found.pool));
        }
    }
    match wrong.filter(|_| all.is_empty()) {
        Some(error) => Err(MediaError::Superblock { path: path.to_owned(), error }),
        None => Ok(all),
    }
}

/// The size of a file or device: of a device, its whole sectors. A loop device can end with a part of one, which cannot
/// be read.
pub(crate) fn size(path: &Path) -> io::Result<Bytes> {
    let mut file = open(path)?;
    let bytes = file.seek(SeekFrom::End(0))?;
    let sector = if file.metadata()?.is_file() { 1 } else { sector_of(&file) };
    Ok(Bytes(bytes - bytes % sector))
}

/// Bytes of a sector of a block device.
#[cfg(target_os = "linux")]
fn sector_of(file: &fs::File) -> u64 {
    rustix::fs::ioctl_blksszget(file).map_or(1, |bytes| u64::from(bytes.max(1)))
}

#[cfg(not(target_os = "linux"))]
fn sector_of(_: &fs::File) -> u64 {
    1
}

fn open(path: &Path) -> io::Result<fs::File> {
    is_storage(path).map_err(|error| io::Error::other(error.kind().to_string()))?;
    fs::File::open(path)
}

/// At most `bytes` bytes from `offset` on.
pub(super) fn read(path: &Path, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut found = Vec::new();
    file.take(bytes).read_to_end(&mut found)?;
    Ok(found)
}
