//! Ledger of a volume: a file that records the written and the flushed version of each block.
//!
//! A version is noted before the pool gets the block, and noted as flushed after the answer of a covering flush. When
//! the process dies at any moment, each block must have a version between the flushed and the noted version. The ledger
//! itself is not flushed: it survives the end of the process, not of the machine.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use thermocline_format::crc32c;

use super::stamp::Stamp;

const MAGIC: &[u8; 8] = b"THERMOLG";
const HEADER: usize = 64;
const ENTRY: usize = 16;

/// The known versions of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The newest version that the pool received.
    pub noted: u32,
    /// The newest version that a flush covered.
    pub flushed: u32,
    /// The newest version that is a trim.
    pub trimmed: u32,
}

/// A ledger of one volume.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: File,
    id: u64,
    volume: u32,
    blocks: Vec<Known>,
}

impl Ledger {
    /// Makes a ledger at `path` for an unwritten volume of `blocks` blocks, or continues the ledger that exists at
    /// `path`.
    ///
    /// # Errors
    /// When the file cannot be written, or is of another volume.
    pub fn create(path: &Path, volume: u32, blocks: u64) -> anyhow::Result<Ledger> {
        if path.exists() {
            let ledger = Ledger::open(path, true)?;
            let same = ledger.volume == volume && ledger.blocks.len() as u64 == blocks;
            ensure!(same, "{} is the ledger of another volume", path.display());
            return Ok(ledger);
        }
        let cannot = || format!("cannot write {}", path.display());
        let file = File::options().read(true).write(true).create_new(true).open(path);
        let file = file.with_context(cannot)?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let id = now.context("a clock before 1970")?.as_nanos() as u64;
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(MAGIC);
        header[8..16].copy_from_slice(&id.to_le_bytes());
        header[16..24].copy_from_slice(&blocks.to_le_bytes());
        header[24..28].copy_from_slice(&volume.to_le_bytes());
        let crc = crc32c(&header[..60]);
        header[60..].copy_from_slice(&crc.to_le_bytes());
        // Set the length before the header, so a ledger with a header is complete.
        file.set_len(HEADER as u64 + blocks * ENTRY as u64).with_context(cannot)?;
        file.write_all_at(&header, 0).with_context(cannot)?;
        let blocks = vec![Known::default(); blocks as usize];
        Ok(Ledger { path: path.to_owned(), file, id, volume, blocks })
    }

    /// Opens the ledger at `path`. `write`: the caller continues the ledger.
    ///
    /// # Errors
    /// When `path` has no ledger.
    pub fn open(path: &Path, write: bool) -> anyhow::Result<Ledger> {
        let cannot = || format!("cannot read {}", path.display());
        let file = File::options().read(true).write(write).open(path).with_context(cannot)?;
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0).with_context(cannot)?;
        let long = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight"));
        let short = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four"));
        if header[..8] != *MAGIC || short(60) != crc32c(&header[..60]) {
            bail!("{} is no ledger", path.display());
        }
        let (id, count, volume) = (long(8), long(16), short(24));
        let size = file.metadata().with_context(cannot)?.len();
        let whole =
            count.checked_mul(ENTRY as u64).map(|bytes| bytes + HEADER as u64) == Some(size);
        ensure!(whole, "{} is a ledger of another length", path.display());
        let mut bytes = vec![0; count as usize * ENTRY];
        file.read_exact_at(&mut bytes, HEADER as u64).with_context(cannot)?;
        let word = |entry: &[u8], at: usize| {
            u32::from_le_bytes(entry[at..at + 4].try_into().expect("four bytes"))
        };
        let known = |entry: &[u8]| Known {
            noted: word(entry, 0),
            flushed: word(entry, 4),
            trimmed: word(entry, 8),
        };
        let blocks = bytes.chunks(ENTRY).map(known).collect();
        Ok(Ledger { path: path.to_owned(), file, id, volume, blocks })
    }

    /// The ledger's volume.
    pub fn volume(&self) -> u32 {
        self.volume
    }

    /// Blocks of the volume.
    pub fn blocks(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Blocks with a flushed version.
    pub fn flushed_blocks(&self) -> u64 {
        self.blocks.iter().filter(|known| known.flushed > 0).count() as u64
    }

    /// Notes that a block is about to be written. Returns the stamp of the new version.
    pub fn note_write(&mut self, lba: u64) -> anyhow::Result<Stamp> {
        let known = &mut self.blocks[lba as usize];
        known.noted += 1;
        let version = known.noted;
        self.save(lba)?;
        Ok(Stamp { ledger: self.id, lba, volume: self.volume, version })
    }

    /// Notes that a block is about to be trimmed. Returns the version of the trim.
    pub fn note_trim(&mut self, lba: u64) -> anyhow::Result<u32> {
        let known = &mut self.blocks[lba as usize];
        known.noted += 1;
        known.trimmed = known.noted;
        let version = known.noted;
        self.save(lba)?;
        Ok(version)
    }

    /// Notes that a version of a block was flushed.
    pub fn note_flushed(&mut self, lba: u64, version: u32) -> anyhow::Result<()> {
        let known = &mut self.blocks[lba as usize];
        known.flushed = known.flushed.max(version);
        self.save(lba)
    }

    fn save(&self, lba: u64) -> anyhow::Result<()> {
        let known = self.blocks[lba as usize];
        let mut entry = [0; ENTRY];
        entry[..4].copy_from_slice(&known.noted.to_le_bytes());
        entry[4..8].copy_from_slice(&known.flushed.to_le_bytes());
        entry[8..12].copy_from_slice(&known.trimmed.to_le_bytes());
        let at = HEADER as u64 + lba * ENTRY as u64;
        let cannot = || format!("cannot write {}", self.path.display());
        self.file.write_all_at(&entry, at).with_context(cannot)
    }

    /// Checks the bytes of a block. Returns the error as text, or `None` if the block may have these bytes.
    pub fn verdict(&self, lba: u64, block: &[u8]) -> Option<String> {
        let known = self.blocks[lba as usize];
        let Known { noted, flushed, trimmed } = known;
        if block.iter().all(|&byte| byte == 0) {
            let lost = flushed > 0 && trimmed < flushed;
            return lost.then(|| format!("is zero; version {flushed} was flushed"));
        }
        let Some(stamp) = Stamp::read(block) else {
            return Some("holds bytes that were never written there".to_owned());
        };
        let expected = Stamp { ledger: self.id, lba, volume: self.volume, ..stamp };
        if stamp != expected {
            let Stamp { lba, volume, version, .. } = stamp;
            return Some(format!("holds version {version} of block {lba} of volume {volume}"));
        }
        let version = stamp.version;
        if (flushed.max(1)..=noted).contains(&version) {
            return None;
        }
        Some(format!("holds version {version}; flushed was {flushed}, written at most {noted}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::stamp::BLOCK;
    use super::*;

    fn block(stamp: Stamp) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        stamp.fill(&mut block);
        block
    }

    #[test]
    fn what_was_flushed_must_be_there_and_what_was_not_may_be() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("ledger");
        let mut ledger = Ledger::create(&path, 3, 10)?;
        let one = ledger.note_write(4)?;
        let two = ledger.note_write(4)?;
        assert_eq!(ledger.verdict(4, &[0; BLOCK]), None, "nothing was flushed");
        ledger.note_flushed(4, 2)?;
        let three = ledger.note_write(4)?;
        drop(ledger);
        let mut ledger = Ledger::create(&path, 3, 10)?;
        assert_eq!((ledger.flushed_blocks(), ledger.blocks(), ledger.volume()), (1, 10, 3));
        assert!(ledger.verdict(4, &[0; BLOCK]).is_some());
        assert!(ledger.verdict(4, &[1; BLOCK]).is_some());
        assert!(ledger.verdict(4, &block(one)).is_some());
        assert_eq!(ledger.verdict(4, &block(two)), None);
        assert_eq!(ledger.verdict(4, &block(three)), None);
        assert!(ledger.verdict(5, &block(three)).is_some(), "a block of another place");
        let four = Stamp { version: 4, ..three };
        assert!(ledger.verdict(4, &block(four)).is_some(), "never written");
        assert_eq!(ledger.note_trim(4)?, 4);
        assert_eq!(ledger.verdict(4, &[0; BLOCK]), None);
        assert!(Ledger::create(&path, 4, 10).is_err(), "of another volume");
        Ok(())
    }
}
