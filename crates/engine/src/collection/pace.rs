//! The pace of garbage collection: host writes earn copies, and collection spends the copies.

use crate::marks::mark;

/// Copies that may be owed before the host has to wait for them. Chosen, not measured.
const DEBT: f64 = 64.0;

/// Share of a unit's blocks that may be owed beside [`DEBT`] when collection begins. The share falls to 0 as the units
/// held ahead are used up. Without the share, flushes wait for copies (`docs/adr/0048-checkpoints-and-debts.md`). A
/// fifth of a unit gives the same result.
const SHARE: f64 = 1.0 / 32.0;

/// Copies that may be owed beyond [`DEBT`] and [`SHARE`] before an awaited flush is held back. A flush of a page and
/// its log precedes the many hundred copies that a chunk of other data earned
/// (`docs/adr/0048-checkpoints-and-debts.md`).
const BEYOND: f64 = 256.0;

/// Rate of collection when collection begins, as a share of the rate that keeps the number of free units constant. The
/// rate rises to 1.5 when the units held ahead are used up. Free units settle in the middle of the units held ahead. At
/// 3/4 WAF is 2 % higher and latency is the same.
const BEGINNING: f64 = 0.5;

/// Copies that were earned and not spent.
#[derive(Debug)]
pub(crate) struct Pace {
    credit: f64,
    /// Copies that the victim saved so far, compared with the mean. Saved copies are not owed yet.
    saved: f64,
    /// Copies per logical block written that keep the free units as they are.
    ratio: f64,
    /// Valid blocks of the victim for each logical block of it, in the mean.
    share: f64,
    /// Blocks that a unit holds.
    unit: f64,
    /// Copies that may be owed beside [`DEBT`].
    allowed: f64,
    /// Part of the debt: copies earned while the debt was at its limit. Every second copy pays for this part.
    beyond: f64,
}

impl Default for Pace {
    fn default() -> Self {
        let (credit, saved, ratio, share, unit) = (0.0, 0.0, 1.0, 0.0, 0.0);
        Pace { credit, saved, ratio, share, unit, allowed: 0.0, beyond: 0.0 }
    }
}

impl Pace {
    /// A victim was chosen: copying its `valid` blocks frees `unit` logical blocks. The copies take room in units that
    /// hold `dense` blocks each.
    pub(crate) fn set_ratio(&mut self, valid: u32, unit: u32, dense: u64) {
        let (valid, unit) = (f64::from(valid), f64::from(unit));
        let gain = (unit - valid * unit / dense as f64).max(1.0);
        self.ratio = valid / gain;
    }

    /// A victim was chosen with `written` logical blocks written and `valid` blocks valid. Copies saved by the previous
    /// victim are no longer owed.
    pub(crate) fn begin(&mut self, valid: u32, written: u32) {
        self.share = f64::from(valid) / f64::from(written.max(1));
        self.credit = (self.credit - self.saved).max(0.0);
        self.saved = 0.0;
    }

    /// `blocks` logical blocks of the victim were looked through, of which `valid` are to be copied. A part with fewer
    /// valid blocks than the mean pays with the copies saved, until a denser part follows. Otherwise hosts would wait
    /// while collection reads headers to find the next block to copy.
    pub(crate) fn look_through(&mut self, blocks: u32, valid: u32) {
        let fewer = self.share * f64::from(blocks) - f64::from(valid);
        self.saved = (self.saved + fewer).max(0.0);
    }

    /// Copies that are owed.
    fn owed(&self) -> f64 {
        self.credit - self.saved
    }

    /// Each unit holds `blocks` blocks.
    pub(crate) fn set_unit(&mut self, blocks: u64) {
        self.unit = blocks as f64;
    }

    /// `blocks` logical blocks were written that are no copies. `urgency` is 0 when collection begins, and 1 when the
    /// units held ahead are used up. Where less may be owed than before, that falls by as much as is earned, so that
    /// the host is held back bit by bit.
    pub(crate) fn earn(&mut self, blocks: u32, urgency: f64) {
        let earned = f64::from(blocks) * self.ratio * (BEGINNING + urgency);
        mark!(AwaitedBeforeDebts if self.is_behind());
        self.beyond = if self.is_behind() { self.beyond + earned } else { 0.0 };
        let allowed = SHARE * self.unit * (1.0 - urgency).max(0.0);
        self.allowed = allowed.max(self.allowed - earned);
        self.credit += earned;
    }

    /// Copies affordable now, at most `most` in one step.
    pub(crate) fn affords(&self, most: usize) -> usize {
        self.owed().clamp(0.0, most as f64) as usize
    }

    pub(crate) fn spend(&mut self, copies: usize) {
        self.credit = (self.credit - copies as f64).max(0.0);
        // Half of the copies pay for the other debt: other writes must not wait until no flush is awaited.
        self.beyond = (self.beyond - copies as f64 / 2.0).max(0.0);
    }

    /// Whether the debt is so large that the host waits.
    pub(crate) fn is_behind(&self) -> bool {
        self.owed() >= DEBT + self.allowed
    }

    /// Whether the debt is so large that awaited flushes of the host wait, too.
    pub(crate) fn is_far_behind(&self) -> bool {
        self.is_behind() && self.beyond >= BEYOND
    }

    /// Forgives the debt: units are plenty, or no block can be copied. Returns whether the host waited.
    pub(crate) fn forgive(&mut self) -> bool {
        let behind = self.is_behind();
        self.credit = 0.0;
        behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_earned_is_spent_and_never_more() {
        let mut pace = Pace::default();
        pace.set_ratio(80, 100, 100);
        pace.earn(3, 0.5);
        assert_eq!(pace.affords(64), 12, "80 copies free 20 blocks, and 3 were written");
        assert_eq!(pace.affords(5), 5);
        pace.spend(5);
        assert_eq!(pace.affords(64), 7);
        pace.spend(0);
        assert_eq!(pace.affords(64), 7);
        pace.spend(9);
        assert_eq!(pace.affords(64), 0);
        pace.earn(1, 0.5);
        assert_eq!(pace.affords(64), 4, "what was spent beyond is no debt");
    }

    #[test]
    fn where_a_victim_is_emptier_than_in_the_mean_less_is_owed_until_it_is_fuller() {
        let mut pace = Pace::default();
        pace.begin(500, 1000);
        pace.earn(64, 0.5);
        pace.look_through(100, 100);
        assert!(
            pace.is_behind(),
            "nothing is saved as yet, and what is fuller is not owed at once"
        );
        pace.look_through(200, 0);
        assert!(!pace.is_behind() && pace.affords(64) == 0, "100 copies are saved, 64 were owed");
        pace.look_through(100, 100);
        assert_eq!(pace.affords(64), 14, "50 of them are needed after all");
        pace.look_through(400, 400);
        assert_eq!(pace.affords(1000), 64, "no more are owed than were");
        pace.look_through(100, 0);
        pace.begin(1, 1000);
        assert_eq!(pace.affords(1000), 14, "what was saved is not owed by the next victim");
    }

    #[test]
    fn it_goes_slower_as_it_begins_and_faster_when_units_run_short() {
        let earned = |urgency| {
            let mut pace = Pace::default();
            pace.set_ratio(50, 100, 100);
            pace.earn(40, urgency);
            pace.affords(1000)
        };
        assert_eq!([0.0, 0.5, 1.0].map(earned), [20, 40, 60]);
    }

    #[test]
    fn a_victim_that_frees_nothing_counts_as_freeing_a_block() {
        let mut pace = Pace::default();
        pace.set_ratio(100, 100, 100);
        pace.earn(1, 0.5);
        assert_eq!(pace.affords(1000), 100);
    }

    #[test]
    fn the_host_waits_from_a_debt_of_64_copies_on() {
        let mut pace = Pace::default();
        pace.earn(63, 0.5);
        assert!(!pace.is_behind());
        pace.earn(1, 0.5);
        assert!(pace.is_behind());
        assert!(pace.forgive() && !pace.is_behind() && !pace.forgive());
    }

    #[test]
    fn what_is_awaited_goes_before_the_debts_of_others_until_it_has_its_own() {
        let mut pace = Pace::default();
        pace.earn(1_000, 0.5);
        assert!(pace.is_behind() && !pace.is_far_behind(), "a chunk of others: 1,000 are owed");
        pace.earn(255, 0.5);
        assert!(!pace.is_far_behind());
        pace.earn(1, 0.5);
        assert!(pace.is_far_behind(), "256 for what was awaited");
        pace.spend(1);
        assert!(!pace.is_far_behind(), "half of what is copied pays for it");
        pace.earn(1, 0.5);
        assert!(pace.is_far_behind());
        pace.spend(1_192);
        assert!(pace.is_behind() && !pace.is_far_behind());
        pace.spend(1);
        assert!(!pace.is_behind());
        pace.earn(300, 0.5);
        assert!(!pace.is_far_behind(), "what was owed before is forgotten");
    }

    #[test]
    fn more_may_be_owed_of_large_units_until_units_run_short() {
        let mut pace = Pace::default();
        pace.set_ratio(50_000, 100_000, 100_000);
        pace.set_unit(100_000);
        pace.earn(1_500, 0.5);
        assert!(!pace.is_behind(), "1,500 copies are owed, of 64 and half of a 32nd of a unit");
        pace.earn(10, 1.0);
        assert!(!pace.is_behind(), "no cliff: 1,515 are owed of 64 and 1,547");
        pace.earn(40, 1.0);
        assert!(pace.is_behind());
    }
}
