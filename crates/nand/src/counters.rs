//! What went through a drive, byte by byte.

use thermocline_types::Cause;

use crate::aged::{Loss, ReadAttempts};

/// Bytes through a drive since it was made, or between two instants (see [`Counters::since`]).
///
/// Every byte has a cause: `media[cause]` sums to what was programmed, and
/// `host_written = media[Host] + absorbed + buffered`; [`Counters::check`] holds both.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Bytes the host wrote.
    pub host_written: u64,
    /// Bytes the host read.
    pub host_read: u64,
    /// Bytes the host trimmed or zeroed.
    pub host_trimmed: u64,
    /// Bytes programmed, by [`Cause`].
    pub media: [u64; Cause::ALL.len()],
    /// Bytes programmed, counted as whole mapping units where they were programmed.
    pub media_total: u64,
    /// Bytes of `media_total` programmed in SLC mode, at one bit a cell.
    pub slc: u64,
    /// Bytes of `slc` programmed to units lent to the cache.
    pub slc_lent: u64,
    /// Bytes that the patrol read.
    pub patrolled: u64,
    /// Host bytes overwritten or trimmed while in the write buffer.
    pub absorbed: u64,
    /// Host bytes in the write buffer now.
    pub buffered: u64,
    /// Bytes of units erased.
    pub erased: u64,
    /// Units chosen for relocation that still held valid data.
    pub media_reallocated: u64,
    /// Reclaim units closed by the host before they were full.
    pub units_not_full: u64,
    /// Host writes with a placement handle that does not exist.
    pub invalid_handles: u64,
    /// Host writes sent to another reclaim group because theirs was full.
    pub redirected: u64,
    /// Reads of pages, and the attempts that they took.
    pub attempts: ReadAttempts,
    /// What reads of the host were expected to lose.
    pub losses: Loss,
}

impl Counters {
    /// The same counted from `start`. What was in the write buffer then is taken as still to be programmed, so the
    /// equation holds for the difference as well, with `buffered` as the change (wrapping when it shrank).
    #[must_use]
    pub fn since(&self, start: &Counters) -> Counters {
        let mut media = self.media;
        media.iter_mut().zip(start.media).for_each(|(now, then)| *now -= then);
        Counters {
            host_written: self.host_written - start.host_written,
            host_read: self.host_read - start.host_read,
            host_trimmed: self.host_trimmed - start.host_trimmed,
            media,
            media_total: self.media_total - start.media_total,
            slc: self.slc - start.slc,
            slc_lent: self.slc_lent - start.slc_lent,
            patrolled: self.patrolled - start.patrolled,
            absorbed: self.absorbed - start.absorbed,
            buffered: self.buffered.wrapping_sub(start.buffered),
            erased: self.erased - start.erased,
            media_reallocated: self.media_reallocated - start.media_reallocated,
            units_not_full: self.units_not_full - start.units_not_full,
            invalid_handles: self.invalid_handles - start.invalid_handles,
            redirected: self.redirected - start.redirected,
            attempts: self.attempts.since(&start.attempts),
            losses: self.losses.since(&start.losses),
        }
    }

    /// The bytes of both.
    #[must_use]
    pub fn plus(&self, other: &Counters) -> Counters {
        let mut media = self.media;
        media.iter_mut().zip(other.media).for_each(|(sum, more)| *sum += more);
        Counters {
            host_written: self.host_written + other.host_written,
            host_read: self.host_read + other.host_read,
            host_trimmed: self.host_trimmed + other.host_trimmed,
            media,
            media_total: self.media_total + other.media_total,
            slc: self.slc + other.slc,
            slc_lent: self.slc_lent + other.slc_lent,
            patrolled: self.patrolled + other.patrolled,
            absorbed: self.absorbed + other.absorbed,
            buffered: self.buffered + other.buffered,
            erased: self.erased + other.erased,
            media_reallocated: self.media_reallocated + other.media_reallocated,
            units_not_full: self.units_not_full + other.units_not_full,
            invalid_handles: self.invalid_handles + other.invalid_handles,
            redirected: self.redirected + other.redirected,
            attempts: self.attempts.plus(&other.attempts),
            losses: self.losses.plus(&other.losses),
        }
    }

    /// Bytes programmed, by cause; folding only where there is an SLC cache, refresh where there is a patrol, what
    /// failed programs cost where one failed.
    pub fn by_cause(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        let modelled = |cause: &Cause| match cause {
            Cause::Folding => self.slc > 0,
            Cause::Refresh => self.patrolled > 0 || self.media[cause.index()] > 0,
            Cause::ProgramFailure => self.media[cause.index()] > 0,
            _ => true,
        };
        Cause::ALL.into_iter().filter(modelled).map(|cause| (cause, self.media[cause.index()]))
    }

    /// Checks that causes sum to the bytes programmed and that no host byte is unaccounted for.
    ///
    /// # Errors
    /// A sentence with the numbers that do not add up.
    pub fn check(&self) -> Result<(), String> {
        let causes: u64 = self.media.iter().sum();
        if causes != self.media_total {
            return Err(format!(
                "causes sum to {causes} bytes, {} were programmed",
                self.media_total
            ));
        }
        let host = self.media[Cause::Host.index()].wrapping_add(self.absorbed);
        if host.wrapping_add(self.buffered) != self.host_written {
            return Err(format!(
                "host wrote {} bytes; {host} programmed or absorbed and {} in the buffer",
                self.host_written, self.buffered as i64
            ));
        }
        Ok(())
    }
}
