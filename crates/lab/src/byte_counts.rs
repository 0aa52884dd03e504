//! What went through a stack, byte by byte: asked by the host, written by the log if there is one, done by the drive.

use thermocline_array::WrittenBytes;
use thermocline_nand::Counters;
use thermocline_types::Cause;

use crate::meter::ratio;

/// Bytes through a stack since it was made, or between two instants (see [`ByteCounts::since`]).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ByteCounts {
    /// Bytes the host wrote.
    pub host_written: u64,
    /// Bytes the host read.
    pub host_read: u64,
    /// Bytes the host trimmed or zeroed.
    pub host_trimmed: u64,
    /// The log's part; `None` where the host's requests go straight to the drive.
    pub log: Option<LogBytes>,
    /// The drive's part; the capacity drive's part in a tiered stack.
    pub drive: Counters,
    /// The fast drive's part, if there are two.
    pub fast: Option<Counters>,
    /// Bytes that members were given, by cause, where the drive for capacity is a group, and the fast one.
    pub groups: [Option<WrittenBytes>; 2],
}

/// Bytes through a log, which works in blocks of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogBytes {
    /// Bytes of blocks that the host's writes asked for, the rest of blocks that they cover in part included.
    pub asked: u64,
    /// That rest: bytes written only because a write did not cover whole blocks.
    pub filled: u64,
    /// Bytes read to fill it.
    pub filled_read: u64,
    /// Host blocks written.
    pub blocks: u64,
    /// Host blocks written directly to the capacity drive of a tiered stack.
    pub bypassed: u64,
    /// Host blocks overwritten or trimmed in memory and never written.
    pub absorbed: u64,
    /// Blocks copied by garbage collection, without destaged blocks.
    pub relocated: u64,
    /// Relocated blocks copied from one fast unit to another.
    pub carried: u64,
    /// Blocks moved from the fast drive to the capacity drive.
    pub destaged: u64,
    /// Headers of chunks, pages of maps, superblocks.
    pub metadata: u64,
    /// Bytes that garbage collection read.
    pub relocation_read: u64,
    /// Bytes at the ends of units that were never written.
    pub unused: u64,
}

impl LogBytes {
    /// Bytes written to the drive for capacity and to the fast one, by cause, metadata apart. What filled up blocks is
    /// shared out as hosts' blocks are.
    #[must_use]
    pub fn by_tier(&self) -> [Vec<(&'static str, u64)>; 2] {
        let [(_, host), (_, filled), (_, destage), (_, relocation), _] = self.causes();
        let share = |bytes: u64| {
            (u128::from(bytes) * u128::from(self.bypassed) / u128::from(self.blocks.max(1))) as u64
        };
        let filled_below = share(filled);
        let host_below = self.bypassed - filled_below;
        [
            vec![
                ("host", host_below),
                ("read_modify_write", filled_below),
                ("destage", destage),
                ("relocation", relocation - self.carried),
            ],
            vec![
                ("host", host - host_below),
                ("read_modify_write", filled - filled_below),
                ("relocation", self.carried),
            ],
        ]
    }

    /// Bytes written, by cause; the names are those of records. Blocks that the host covered in part count for
    /// `read_modify_write` by the share of all that was asked which they had to fill up.
    #[must_use]
    pub fn causes(&self) -> [(&'static str, u64); 5] {
        let filled =
            u128::from(self.blocks) * u128::from(self.filled) / u128::from(self.asked.max(1));
        let filled = filled as u64;
        [
            ("host", self.blocks - filled),
            ("read_modify_write", filled),
            ("destage", self.destaged),
            ("relocation", self.relocated),
            ("metadata", self.metadata),
        ]
    }

    /// Bytes written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.blocks + self.destaged + self.relocated + self.metadata
    }

    fn since(&self, start: &LogBytes) -> LogBytes {
        LogBytes {
            asked: self.asked - start.asked,
            filled: self.filled - start.filled,
            filled_read: self.filled_read - start.filled_read,
            blocks: self.blocks - start.blocks,
            bypassed: self.bypassed - start.bypassed,
            absorbed: self.absorbed - start.absorbed,
            relocated: self.relocated - start.relocated,
            carried: self.carried - start.carried,
            destaged: self.destaged - start.destaged,
            metadata: self.metadata - start.metadata,
            relocation_read: self.relocation_read - start.relocation_read,
            unused: self.unused - start.unused,
        }
    }

    /// Checks that no block is unaccounted for while none waits to be written, and that the drive received what was
    /// sent.
    fn check(&self, received: u64) -> Result<(), String> {
        if self.written() != received {
            return Err(format!(
                "causes in the log sum to {} bytes, the drive received {received}",
                self.written()
            ));
        }
        if self.blocks + self.absorbed != self.asked {
            return Err(format!(
                "the log was asked for {} bytes of blocks; {} were written and {} absorbed",
                self.asked, self.blocks, self.absorbed
            ));
        }
        Ok(())
    }
}

impl ByteCounts {
    /// The bytes of a drive that the host writes to directly.
    #[must_use]
    pub fn direct(drive: Counters) -> ByteCounts {
        ByteCounts {
            host_written: drive.host_written,
            host_read: drive.host_read,
            host_trimmed: drive.host_trimmed,
            log: None,
            drive,
            fast: None,
            groups: [None; 2],
        }
    }

    /// The same counted from `start`.
    #[must_use]
    pub fn since(&self, start: &ByteCounts) -> ByteCounts {
        ByteCounts {
            host_written: self.host_written - start.host_written,
            host_read: self.host_read - start.host_read,
            host_trimmed: self.host_trimmed - start.host_trimmed,
            log: self.log.map(|log| log.since(&start.log.unwrap_or_default())),
            drive: self.drive.since(&start.drive),
            fast: self.fast.map(|fast| fast.since(&start.fast.unwrap_or_default())),
            groups: std::array::from_fn(|tier| {
                Some(self.groups[tier]?.since(&start.groups[tier].unwrap_or_default()))
            }),
        }
    }

    /// Ratios of bytes: media / host, device / host and media / device; `None` without writes. In a tiered stack the
    /// ratios are of the capacity drive, which limits the life.
    #[must_use]
    pub fn amplification(&self) -> [Option<f64>; 3] {
        let (host, device) = (self.host_written, self.drive.host_written);
        let media = self.drive.media_total;
        [ratio(media, host), ratio(device, host), ratio(media, device)]
    }

    /// Media / host without relocation: each layer's ratio without the layer's relocated bytes.
    #[must_use]
    pub fn without_relocation(&self) -> Option<f64> {
        let (host, device) = (self.host_written, self.drive.host_written);
        // Relocated bytes include the bytes that a group adds.
        let share = ratio(device, device - self.added()[0])?;
        let moved_by_log = self.log.map_or(0.0, |log| log.relocated as f64 * share) as u64;
        let moved_by_drive = self.drive.media[Cause::Relocation.index()];
        let alwa = ratio(device.saturating_sub(moved_by_log), host)?;
        let dlwa = ratio(self.drive.media_total - moved_by_drive, device)?;
        Some(alwa * dlwa)
    }

    /// Bytes that wear the drive's cells outside its SLC cache, divided by host bytes: with and without relocation. A
    /// unit in SLC mode holds the `bits`-th part and wears as if it were full (assumed: no source says by how much less
    /// a cycle in that mode wears cells of several bits).
    #[must_use]
    pub fn wearing(&self, bits: u32) -> Option<[f64; 2]> {
        let (all, drive) = (self.amplification()[0]?, self.drive);
        if drive.slc == 0 {
            return Some([all, self.without_relocation()?]);
        }
        let worn = drive.media_total - drive.slc + drive.slc_lent * u64::from(bits);
        let share = |worn: u64| worn as f64 / drive.media_total as f64;
        let moved = drive.media[Cause::Relocation.index()];
        Some([all * share(worn), all * share(worn - moved)])
    }

    /// Bytes written beyond the log's bytes: by the capacity group, and by the fast group.
    #[must_use]
    pub fn added(&self) -> [u64; 2] {
        self.groups.map(|group| group.map_or(0, |written| written.added()))
    }

    /// Checks that the members of groups were given what has causes.
    fn check_groups(&self) -> Result<(), String> {
        for (group, counters) in self.groups.iter().zip([Some(self.drive), self.fast]) {
            let received = counters.map_or(0, |counters| counters.host_written);
            if let Some(group) = group.filter(|group| group.total() != received) {
                return Err(format!(
                    "causes in the group sum to {} bytes, its members received {received}",
                    group.total()
                ));
            }
        }
        Ok(())
    }

    /// Checks that all bytes add up. Those of a log only do while no request is in work.
    ///
    /// # Errors
    /// A sentence with the numbers that do not add up.
    pub fn check(&self) -> Result<(), String> {
        self.drive.check()?;
        let fast = self.fast.map_or(0, |fast| fast.host_written);
        self.fast.map_or(Ok(()), |fast| fast.check())?;
        self.check_groups()?;
        let added: u64 = self.added().iter().sum();
        self.log.map_or(Ok(()), |log| log.check(self.drive.host_written + fast - added))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: LogBytes = LogBytes {
        asked: 3 * 4096,
        filled: 3584,
        filled_read: 4096,
        blocks: 2 * 4096,
        bypassed: 4096,
        absorbed: 4096,
        relocated: 4096,
        carried: 4096,
        destaged: 0,
        metadata: 8192,
        relocation_read: 0,
        unused: 0,
    };

    #[test]
    fn causes_sum_to_what_was_written() {
        let sum: u64 = LOG.causes().iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(sum, LOG.written());
        assert_eq!(LOG.causes()[1], ("read_modify_write", 2 * 3584 / 3));
        let [below, fast] = LOG.by_tier();
        assert_eq!(below.iter().map(|(_, bytes)| bytes).sum::<u64>(), LOG.bypassed);
        let sum: u64 = below.iter().chain(&fast).map(|(_, bytes)| bytes).sum();
        assert_eq!(sum + LOG.metadata, LOG.written());
    }

    #[test]
    fn bytes_that_do_not_add_up_are_told() {
        assert_eq!(LOG.check(5 * 4096), Ok(()));
        assert!(LOG.check(4 * 4096).unwrap_err().contains("the drive received 16384"));
        let lost = LogBytes { absorbed: 0, ..LOG };
        assert!(lost.check(5 * 4096).unwrap_err().contains("absorbed"));
    }
}
