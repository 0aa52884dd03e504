//! The end: rows that are not full get their parity, and labels say that nothing is in doubt.

use super::{MemberState, Raid};

impl Raid {
    /// Ends everything, and writes labels that say that all rows fit their parity, if they do.
    pub(super) fn close(&mut self) {
        self.closing = true;
        self.work_off(|raid| raid.changes.is_empty() && raid.held.is_empty());
        let units: Vec<u32> = self.fronts.keys().copied().collect();
        for unit in units {
            self.pad(None, unit);
        }
        self.work_off(|raid| raid.changes.is_empty() && raid.job.is_none() && !raid.has_job());
        self.wants_round = true;
        self.work_off(|raid| raid.round.is_none() && !raid.wants_round);
        // The rows of the log are full and flushed now. What could not be settled is left as it was.
        let settled = self.left.is_empty() && self.full.is_empty();
        if self.filling().is_some() {
            self.rebuild.save();
        }
        self.closed = settled && self.fronts.is_empty();
        self.stale = true;
        self.work_off(|raid| !raid.stale && raid.relabel.is_none());
    }

    /// Works until something is so, or nothing can be.
    fn work_off(&mut self, done: impl Fn(&mut Raid) -> bool) {
        self.act();
        while self.answers.broken().is_none() && self.is_usable() && !done(self) {
            self.turn(None);
        }
    }

    /// Whether enough members are there to write anything.
    fn is_usable(&self) -> bool {
        let out = self.members.iter().filter(|member| member.standing == MemberState::Out);
        out.count() <= self.shape.level.parity()
    }
}
