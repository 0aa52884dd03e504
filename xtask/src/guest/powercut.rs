//! Power cuts of a logged drive: the log of QEMU's `blklogwrites`, and the disks that a cut at a point may leave.
//!
//! At a point, the scenario stops `load`, copies the ledger to `points/N` in the shared folder, and writes the text `N`
//! to the last 4 KiB of the drive, which no pool has: so the log has the point. A disk keeps the log up to the last
//! flush before the point. Of later writes it keeps none, all, a part, a prefix, or torn ones. `check --ledger` judges
//! each disk against the ledger of the point. The control is the disk against the ledger of a later point, as if the
//! flushes in between had been lost: the check must find it bad.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;

use anyhow::{Result, bail, ensure};

use super::boot::Machine;
use super::scenario::Drive;
use super::{output, sparse};

/// Bytes of a sector of the log: of its head, and of each entry before its data.
const SECTOR: u64 = 512;
/// Flags of entries (`drivers/md/dm-log-writes.c`).
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
/// Bytes at the end of the drive that name points.
const MARK: u64 = 4096;
/// Points between a disk and the ledger of the control. Chosen, not measured.
const LATER: usize = 5;
/// Kinds of disks at each point.
const KINDS: [Kind; 8] = [
    Kind::None,
    Kind::All,
    Kind::Some,
    Kind::Torn,
    Kind::First,
    Kind::Some,
    Kind::Torn,
    Kind::First,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    None,
    All,
    Some,
    First,
    Torn,
}

/// A write, flush or discard.
#[derive(Clone, Copy, Debug)]
struct Entry {
    offset: u64,
    length: u64,
    flags: u64,
    /// Place of the data in the log.
    data: u64,
}

/// The whole log.
struct Log {
    file: File,
    entries: Vec<Entry>,
}

impl Log {
    /// Reads the log up to the first head of zeros.
    fn read(file: File) -> Result<Log> {
        let (size, mut next, mut entries) = (file.metadata()?.len(), SECTOR, Vec::new());
        while next + SECTOR <= size {
            let mut head = [0; 32];
            file.read_exact_at(&mut head, next)?;
            if head == [0_u8; 32] {
                break;
            }
            let [offset, length, flags] = [0, 8, 16].map(|at| word(&head, at));
            let entry = Entry {
                offset: offset * SECTOR,
                length: length * SECTOR,
                flags,
                data: next + SECTOR,
            };
            let has_data = flags & (FLUSH | DISCARD) == 0;
            next = entry.data + if has_data { entry.length } else { 0 };
            entries.push(entry);
        }
        Ok(Log { file, entries })
    }

    /// Points by the marks of a drive of `size` bytes: the number of entries before each mark.
    fn points(&self, size: u64) -> Result<Vec<usize>> {
        let mut points = Vec::new();
        let marks =
            self.entries.iter().enumerate().filter(|(_, entry)| entry.offset == size - MARK);
        for (index, mark) in marks.filter(|(_, entry)| entry.length == MARK) {
            let mut name = [0; 8];
            self.file.read_exact_at(&mut name, mark.data)?;
            let name = String::from_utf8_lossy(&name).trim_end_matches(['\0', '\n']).to_owned();
            ensure!(name == points.len().to_string(), "point {} is called {name}", points.len());
            points.push(index);
        }
        Ok(points)
    }

    /// The last flush before entry `end`.
    fn flush_before(&self, end: usize) -> usize {
        let flush = self.entries[..end].iter().rposition(|entry| entry.flags & FLUSH != 0);
        flush.unwrap_or(0)
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// A disk with undo records.
struct Disk<'a> {
    log: &'a Log,
    file: File,
    undo: Option<Vec<(u64, Vec<u8>)>>,
}

impl Disk<'_> {
    /// Applies those 512-byte parts of `entry` for which `keep` answers true.
    fn put(&mut self, entry: &Entry, keep: &mut dyn FnMut() -> bool) -> Result<()> {
        if entry.flags & FLUSH != 0 || entry.length == 0 {
            return Ok(());
        }
        let mut new = vec![0; usize::try_from(entry.length)?];
        let mut old = new.clone();
        self.file.read_exact_at(&mut old, entry.offset)?;
        if entry.flags & DISCARD == 0 {
            self.log.file.read_exact_at(&mut new, entry.data)?;
        }
        for (new, old) in new.chunks_mut(512).zip(old.chunks(512)) {
            if !keep() {
                new.copy_from_slice(old);
            }
        }
        if let Some(undo) = &mut self.undo {
            undo.push((entry.offset, old));
        }
        Ok(self.file.write_all_at(&new, entry.offset)?)
    }

    fn all(&mut self, range: std::ops::Range<usize>) -> Result<()> {
        let log = self.log;
        log.entries[range].iter().try_for_each(|entry| self.put(entry, &mut || true))
    }

    /// Applies writes behind the last flush by `kind`.
    fn tail(&mut self, tail: &[Entry], kind: Kind, random: &mut Random) -> Result<()> {
        let percent = [10, 50, 90][random.below(3)];
        let first = random.below(tail.len() + 1);
        for (index, entry) in tail.iter().enumerate() {
            let kept = match kind {
                _ if entry.flags & FUA != 0 => true,
                Kind::None => false,
                Kind::All => true,
                Kind::First => index < first,
                Kind::Some => random.below(100) < percent,
                Kind::Torn => {
                    self.put(entry, &mut || random.below(100) < percent)?;
                    continue;
                }
            };
            if kept {
                self.put(entry, &mut || true)?;
            }
        }
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        for (offset, old) in self.undo.take().unwrap_or_default().into_iter().rev() {
            self.file.write_all_at(&old, offset)?;
        }
        Ok(())
    }
}

/// Xorshift of 64 bits (Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// Checks all disks of all points of `drive`.
///
/// # Errors
/// When a disk is bad, a disk of the control is good, or there are too few points.
pub fn judge(machine: &Machine, drive: &Drive) -> Result<()> {
    let folder = machine.folder();
    let log = Log::read(File::open(machine.log())?)?;
    let points = log.points(drive.mib << 20)?;
    let file = sparse(&folder.join("disk.img"), drive.mib)?;
    fs::write(folder.join("check.toml"), "[device]\npath = \"disk.img\"\n")?;
    let sound = |point: usize| {
        let mut check = Command::new(machine.program());
        check.args(["check", "check.toml", "--ledger", &format!("host/points/{point}")]);
        output(check.current_dir(folder))
    };
    let mut disk = Disk { log: &log, file, undo: None };
    let (mut done, mut bad, mut control, mut missed, mut tails) = (0, 0, 0, 0, Vec::new());
    for (point, end) in points.iter().copied().enumerate() {
        let flush = log.flush_before(end);
        disk.all(done..flush)?;
        done = flush;
        if point + LATER < points.len() {
            control += 1;
            missed += usize::from(sound(point + LATER).is_ok());
        }
        tails.push(end - flush);
        for (index, kind) in KINDS.into_iter().enumerate() {
            disk.undo = Some(Vec::new());
            let mut random =
                Random(0x9E37_79B9_7F4A_7C15 ^ ((point as u64 + 1) << 8 | index as u64));
            disk.tail(&log.entries[flush..end], kind, &mut random)?;
            if let Err(error) = sound(point) {
                bad += 1;
                println!("  point {point}, disk {index} ({kind:?}): {error:#}");
            }
            disk.undo()?;
        }
    }
    tails.sort_unstable();
    let Some(median) = tails.get(tails.len() / 2) else { bail!("no points") };
    let (cuts, disks) = (tails.len(), tails.len() * KINDS.len());
    println!(
        "  {disks} disks of {cuts} power cuts, {median} writes behind the last flush (median): {bad} bad"
    );
    println!("  control, with the ledger {LATER} points later: {missed} of {control} good");
    ensure!(bad == 0, "{bad} of {disks} disks are bad");
    ensure!(control > 0 && missed == 0, "the check misses writes that are lost");
    Ok(())
}
