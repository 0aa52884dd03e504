//! Copies by placement handle: whose data is copied, and through which handle the invalidations came that caused it.
//!
//! A unit is collected since some of its blocks are no longer valid. Each copy of a valid block of it is on the account
//! of the handles through which the others were invalidated, in proportion. An overwrite invalidates through its own
//! handle, and a trim through the handle of the block.
//!
//! Invariants:
//! * Accounts influence no decision.
//! * The copies of a handle's blocks equal the copies on the accounts of all handles for it.

use thermocline_types::{Cause, Lba, Pba, UnitId};

use crate::{Erased, Media, Shape};

/// A block that lies nowhere.
const NOWHERE: u32 = u32::MAX;

/// Blocks of one placement handle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HandleAccount {
    /// Blocks programmed for writes of the host with this handle.
    pub host: u64,
    /// Copies of its blocks.
    pub copied: u64,
    /// Copies of its blocks that its own invalidations caused.
    pub copied_by_own: f64,
    /// Copies of blocks of other handles that its invalidations caused.
    pub copied_of_others: f64,
}

/// Copies by placement handle on a device.
#[derive(Clone, Debug)]
pub struct HandleAccounts {
    shape: Shape,
    /// The handle of the host's present write.
    writing: usize,
    /// By block: the handle of its latest write, and its unit.
    handles: Vec<u8>,
    units: Vec<u32>,
    /// By unit and handle: blocks that were invalidated since the unit was erased.
    dead: Vec<u32>,
    accounts: Vec<HandleAccount>,
}

impl HandleAccounts {
    /// Of `handles` on an erased device of `shape`.
    ///
    /// # Panics
    /// Without handles.
    #[must_use]
    pub fn new(shape: Shape, handles: u8) -> HandleAccounts {
        assert!(handles > 0, "a write has a handle");
        let (blocks, count) = (shape.exported() as usize, usize::from(handles));
        HandleAccounts {
            shape,
            writing: 0,
            handles: vec![0; blocks],
            units: vec![NOWHERE; blocks],
            dead: vec![0; shape.units() as usize * count],
            accounts: vec![HandleAccount::default(); count],
        }
    }

    /// The host writes with `handle` from now on. One beyond the last counts as the first, as on the device.
    #[inline]
    pub fn write_with(&mut self, handle: u16) {
        let handle = usize::from(handle);
        self.writing = if handle < self.accounts.len() { handle } else { 0 };
    }

    /// The host trimmed `lba`.
    pub fn trim(&mut self, lba: Lba) {
        self.invalidate(lba, self.handles[lba.index()].into());
        self.units[lba.index()] = NOWHERE;
    }

    /// The accounts, by handle.
    #[must_use]
    pub fn accounts(&self) -> &[HandleAccount] {
        &self.accounts
    }

    /// The copy of `lba` is no longer valid, by a request with `handle`.
    fn invalidate(&mut self, lba: Lba, handle: usize) {
        let unit = self.units[lba.index()];
        if unit != NOWHERE {
            self.dead[unit as usize * self.accounts.len() + handle] += 1;
        }
    }

    /// `lba` was copied out of its unit.
    fn copied(&mut self, lba: Lba) {
        let (handle, count) = (usize::from(self.handles[lba.index()]), self.accounts.len());
        self.accounts[handle].copied += 1;
        let first = self.units[lba.index()] as usize * count;
        let dead = &self.dead[first..first + count];
        let all: u32 = dead.iter().sum();
        if all == 0 {
            self.accounts[handle].copied_by_own += 1.0;
            return;
        }
        for (by, (account, dead)) in self.accounts.iter_mut().zip(dead).enumerate() {
            let share = f64::from(*dead) / f64::from(all);
            match by == handle {
                true => account.copied_by_own += share,
                false => account.copied_of_others += share,
            }
        }
    }
}

impl Media for HandleAccounts {
    #[inline]
    fn read(&mut self, _pba: Pba) {}

    fn program(&mut self, pba: Pba, lba: Option<Lba>, cause: Cause) {
        let Some(lba) = lba else { return };
        match cause {
            Cause::Host => {
                self.invalidate(lba, self.writing);
                self.handles[lba.index()] = self.writing as u8;
                self.accounts[self.writing].host += 1;
            }
            Cause::Relocation => self.copied(lba),
            _ => {}
        }
        self.units[lba.index()] = self.shape.unit(pba).0;
    }

    fn erase(&mut self, unit: UnitId, _erases: u32) -> Erased {
        let count = self.accounts.len();
        self.dead[unit.index() * count..][..count].fill(0);
        Erased::Usable
    }
}

#[cfg(test)]
mod tests {
    use thermocline_types::Rng;

    use super::*;
    use crate::Ftl;
    use crate::placement::{Handles, Isolation};
    use crate::victim::Victim;

    const BLOCKS: u64 = 8192;

    /// A drive with two handles under 20 times its capacity of writes: `write` chooses block and handle.
    fn played(
        isolation: Isolation,
        write: impl Fn(&mut Rng, u64) -> (u64, u16),
    ) -> Vec<HandleAccount> {
        let shape = Shape::new(BLOCKS, 160, 64).unwrap();
        let mut ftl = Ftl::new(shape, Handles::new(1, 2, isolation), Victim::Greedy, 1).unwrap();
        let (mut accounts, mut rng) = (HandleAccounts::new(shape, 2), Rng::new(3));
        for now in 0..20 * BLOCKS {
            let (lba, handle) = write(&mut rng, now);
            accounts.write_with(handle);
            ftl.write(Lba(lba), handle, &mut accounts).unwrap();
        }
        let all = accounts.accounts();
        let copied: u64 = all.iter().map(|account| account.copied).sum();
        assert_eq!(copied, ftl.programmed(Cause::Relocation));
        assert_eq!(all.iter().map(|account| account.host).sum::<u64>(), 20 * BLOCKS);
        let caused: f64 = all.iter().map(|a| a.copied_by_own + a.copied_of_others).sum();
        assert!((caused - copied as f64).abs() < 1e-3, "{caused} {copied}");
        all.to_vec()
    }

    /// Handles with addresses of their own and units of their own cause their own copies.
    #[test]
    fn isolated_handles_cause_their_own_copies() {
        let half = BLOCKS / 2;
        let all = played(Isolation::Persistently, |rng, now| match now % 2 {
            0 => (now / 2 % half, 0),
            _ => (half + rng.below(half), 1),
        });
        assert_eq!(all[0].copied, 0, "in order: {all:?}");
        assert!(all[1].copied > BLOCKS, "{all:?}");
        assert!((all[1].copied_by_own - all[1].copied as f64).abs() < 1e-6, "{all:?}");
        assert!(all.iter().all(|account| account.copied_of_others < 1e-9), "{all:?}");
    }

    /// A handle that overwrites the blocks of another one causes the other's copies: it is noisy.
    #[test]
    fn a_handle_that_overwrites_data_of_another_is_noisy() {
        let all = played(Isolation::Persistently, |rng, now| match now < BLOCKS {
            true => (now, 0),
            false => (rng.below(BLOCKS), 1),
        });
        let [quiet, noisy] = all[..] else { panic!("two handles") };
        assert!(quiet.copied > BLOCKS / 4 && quiet.copied_by_own < 1e-9, "{quiet:?}");
        assert!((noisy.copied_of_others - quiet.copied as f64).abs() < 1e-3, "{noisy:?}");
        assert!((noisy.copied_by_own - noisy.copied as f64).abs() < 1e-3, "{noisy:?}");
    }

    /// Survivors of both handles in one unit die by both.
    #[test]
    fn mixed_survivors_spread_the_cause() {
        let half = BLOCKS / 2;
        let write = |rng: &mut Rng, now: u64| {
            let handle = u64::from(now.is_multiple_of(4));
            (handle * half + rng.below(half), handle as u16)
        };
        let caused = |all: Vec<HandleAccount>| all[0].copied_of_others / all[1].copied as f64;
        assert!(caused(played(Isolation::Persistently, write)) < 1e-9);
        let mixed = caused(played(Isolation::Initially, write));
        assert!(mixed > 0.2, "{mixed}");
    }

    #[test]
    fn a_trim_is_on_the_account_of_the_block() {
        let shape = Shape::new(256, 16, 64).unwrap();
        let mut accounts = HandleAccounts::new(shape, 2);
        let at = |unit: u32, offset: u32| shape.pba(UnitId(unit), offset);
        accounts.write_with(1);
        accounts.program(at(0, 0), Some(Lba(7)), Cause::Host);
        accounts.write_with(9);
        accounts.program(at(0, 1), Some(Lba(8)), Cause::Host);
        accounts.program(at(0, 2), None, Cause::Padding);
        accounts.trim(Lba(7));
        accounts.program(at(1, 0), Some(Lba(8)), Cause::Relocation);
        let [first, second] = accounts.accounts() else { panic!("two handles") };
        assert_eq!((first.host, first.copied, second.host), (1, 1, 1));
        assert!((second.copied_of_others - 1.0).abs() < 1e-9 && first.copied_by_own < 1e-9);
        accounts.erase(UnitId(0), 1);
        accounts.program(at(2, 0), Some(Lba(8)), Cause::Relocation);
        assert!((accounts.accounts()[0].copied_by_own - 1.0).abs() < 1e-9, "no block was invalid");
    }
}
