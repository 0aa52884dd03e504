//! Owners of programmed bytes: the last writer of a block owns the bytes of the block.
//!
//! Invariants:
//! * Each programmed byte counts for a single owner, or as unowned; the sum is [`Counters::media`].
//! * Owners influence no decision: a drive behaves the same with and without owners.
//!
//! [`Counters::media`]: crate::Counters::media

use thermocline_types::{Bytes, Cause, Lba};

use crate::buffer::Sectors;

/// Bytes that belong to an owner: its number, and how many. Numbers of no owner stand for nobody.
pub type OwnerRun = (u16, Bytes);

/// Bytes programmed, by [`Cause`].
pub type ByCause = [u64; Cause::ALL.len()];

/// Owners of what a drive holds, and what was programmed for each.
#[derive(Clone, Debug)]
pub(crate) struct Owners {
    /// By piece of the address space, where data moves on the media: its owner + 1, or 0 for nobody. Elsewhere data is
    /// programmed when it is written, and never again.
    map: Option<Map>,
    /// Without a map: owners of the bytes to be written next, in reverse order.
    claimed: Vec<OwnerRun>,
    /// The owner of the latest write.
    latest: u16,
    /// By owner; unowned bytes come last.
    programmed: Vec<ByCause>,
}

#[derive(Clone, Debug)]
struct Map {
    piece: u64,
    owners: Vec<u16>,
}

impl Owners {
    /// Of `count` owners, on a drive that programs what it is given at once and where it stays.
    pub(crate) fn in_place(count: u16) -> Owners {
        let programmed = vec![[0; Cause::ALL.len()]; usize::from(count) + 1];
        Owners { map: None, claimed: Vec::new(), latest: count, programmed }
    }

    /// Of `count` owners, on a drive of `capacity` that moves data in units of `unit`, of which owners have pieces of
    /// `piece` or multiples of it.
    ///
    /// # Panics
    /// If units are no multiple of pieces, or pieces no multiple of sectors.
    pub(crate) fn moving(count: u16, capacity: Bytes, unit: Bytes, piece: Bytes) -> Owners {
        let piece = piece.min(unit);
        assert!(
            unit.0.is_multiple_of(piece.0) && piece.0.is_multiple_of(Bytes::SECTOR.0),
            "units of {unit} in pieces of {piece}"
        );
        let owners = vec![0; capacity.div_ceil(piece) as usize];
        Owners { map: Some(Map { piece: piece.0, owners }), ..Owners::in_place(count) }
    }

    /// Bytes programmed so far by owner; unowned bytes come last.
    pub(crate) fn programmed(&self) -> &[ByCause] {
        &self.programmed
    }

    /// The bytes that are written next, from `at` on, belong to the owners of `runs`, which follow each other.
    pub(crate) fn claim(&mut self, at: Bytes, runs: &[OwnerRun]) {
        let nobody = (self.programmed.len() - 1) as u16;
        let Some(Map { piece, owners }) = &mut self.map else {
            self.claimed.clear();
            self.claimed.extend(runs.iter().rev());
            return;
        };
        let mut from = at.0;
        for &(owner, length) in runs {
            let to = from + length.0;
            let pieces = (from / *piece) as usize..to.div_ceil(*piece) as usize;
            // What lies beyond the capacity is refused when it is written.
            if let Some(pieces) = owners.get_mut(pieces) {
                pieces.fill(if owner < nobody { owner + 1 } else { 0 });
            }
            from = to;
        }
    }

    /// `bytes` of the claimed bytes were programmed in place.
    pub(crate) fn written(&mut self, mut bytes: u64) {
        let nobody = (self.programmed.len() - 1) as u16;
        while bytes > 0 {
            let (owner, length) = self.claimed.pop().unwrap_or((nobody, Bytes(bytes)));
            let now = length.0.min(bytes);
            if now < length.0 {
                self.claimed.push((owner, Bytes(length.0 - now)));
            }
            self.latest = owner.min(nobody);
            self.programmed[usize::from(self.latest)][Cause::Host.index()] += now;
            bytes -= now;
        }
    }

    /// The block at `lba`, of `unit` bytes, or fill was programmed. Host programs are reported separately.
    #[inline(never)]
    pub(crate) fn program(&mut self, lba: Option<Lba>, unit: Bytes, cause: Cause) {
        match (cause, lba) {
            (Cause::Host, _) => {}
            (_, None) => self.of_nobody()[cause.index()] += unit.0,
            (_, Some(lba)) => self.moved(lba, unit, cause),
        }
    }

    /// The block at `lba` was programmed for the host, who wrote these sectors of it: the others are on the account of
    /// who wrote the first of them.
    #[inline(never)]
    pub(crate) fn commit(&mut self, lba: Lba, unit: Bytes, sectors: Sectors) {
        let Some(Map { piece, owners }) = &self.map else { return };
        let (pieces, each) = (unit.0 / piece, piece / Bytes::SECTOR.0);
        let first = (lba.0 * pieces) as usize;
        let all = Sectors::MAX >> (128 - each);
        let mut left = unit.0;
        for (owner, number) in owners[first..].iter().zip(0..pieces) {
            let written = u64::from((sectors >> (number * each) & all).count_ones());
            let owner = account(*owner, self.programmed.len());
            self.programmed[owner][Cause::Host.index()] += written * Bytes::SECTOR.0;
            left -= written * Bytes::SECTOR.0;
        }
        let writer = owners[first + (u64::from(sectors.trailing_zeros()) / each) as usize];
        let writer = account(writer, self.programmed.len());
        self.programmed[writer][Cause::ReadModifyWrite.index()] += left;
    }

    /// Bytes were programmed because of what was written last; fill is nobody's.
    pub(crate) fn charge(&mut self, cause: Cause, bytes: u64) {
        let owner = usize::from(self.latest);
        match cause {
            Cause::Padding => self.of_nobody()[cause.index()] += bytes,
            _ => self.programmed[owner][cause.index()] += bytes,
        }
    }

    fn moved(&mut self, lba: Lba, unit: Bytes, cause: Cause) {
        let Some(Map { piece, owners }) = &self.map else { return };
        let pieces = (unit.0 / piece) as usize;
        let first = lba.index() * pieces;
        for owner in &owners[first..first + pieces] {
            let owner = account(*owner, self.programmed.len());
            self.programmed[owner][cause.index()] += piece;
        }
    }

    fn of_nobody(&mut self) -> &mut ByCause {
        self.programmed.last_mut().expect("nobody has an account")
    }
}

/// Where the map's `owner` is among so many accounts.
#[inline]
fn account(owner: u16, accounts: usize) -> usize {
    usize::from(owner).checked_sub(1).unwrap_or(accounts - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: Bytes = Bytes::kib(16);

    fn of(owners: &Owners, cause: Cause) -> Vec<u64> {
        owners.programmed().iter().map(|bytes| bytes[cause.index()] / 512).collect()
    }

    #[test]
    fn a_unit_that_moves_counts_for_each_who_has_a_piece_of_it() {
        let mut owners = Owners::moving(2, Bytes::mib(1), UNIT, Bytes::BLOCK);
        let runs = [(0, Bytes::kib(4)), (1, Bytes::kib(8)), (9, Bytes::kib(4))];
        owners.claim(UNIT, &runs);
        owners.commit(Lba(1), UNIT, 0xffff_ffff);
        owners.program(Some(Lba(1)), UNIT, Cause::Host);
        owners.program(Some(Lba(1)), UNIT, Cause::Relocation);
        owners.program(None, UNIT, Cause::Padding);
        assert_eq!(of(&owners, Cause::Host), [8, 16, 8]);
        assert_eq!(of(&owners, Cause::Relocation), [8, 16, 8]);
        assert_eq!(of(&owners, Cause::Padding), [0, 0, 32]);
        // A sector of the second owner's has all the rest rewritten, which is on its account.
        owners.claim(Bytes(16_384 + 4096), &[(1, Bytes::SECTOR)]);
        owners.commit(Lba(1), UNIT, 1 << 8);
        assert_eq!(of(&owners, Cause::Host), [8, 17, 8]);
        assert_eq!(of(&owners, Cause::ReadModifyWrite), [0, 31, 0]);
        owners.claim(Bytes::mib(1), &runs);
    }

    #[test]
    fn what_stays_counts_when_it_is_written_and_not_when_that_fails() {
        let mut owners = Owners::in_place(2);
        owners.claim(Bytes::ZERO, &[(0, Bytes(1024))]);
        owners.claim(Bytes::ZERO, &[(1, Bytes(1024)), (0, Bytes(512))]);
        owners.written(512);
        owners.charge(Cause::ReadModifyWrite, 2048);
        owners.charge(Cause::Padding, 512);
        owners.written(1024);
        owners.written(512);
        assert_eq!(of(&owners, Cause::Host), [1, 2, 1]);
        assert_eq!(of(&owners, Cause::ReadModifyWrite), [0, 4, 0]);
        assert_eq!(of(&owners, Cause::Padding), [0, 0, 1]);
    }
}
