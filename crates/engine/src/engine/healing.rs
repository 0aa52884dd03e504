//! Places that are written again, since a member of a device with redundancy holds them wrong.

use crate::bugs::bug;
use crate::engine::{Op, Parts, Phase};
use crate::healing::Heal;
use crate::payload::Payload;

impl<P: Payload> Parts<P> {
    /// Has a place written again, now or, in an opening, at its end.
    pub(crate) fn heal(&mut self, heal: Heal) {
        if bug!(self.config, NothingHealed) {
            return;
        }
        match self.phase {
            Phase::Opening => self.healing.keep(heal),
            Phase::Open | Phase::Closing => {
                self.healing.begin();
                let op = self.ops.insert(Op::Heal { at: heal.at, version: heal.version });
                self.device(op, heal.command());
            }
            Phase::Closed | Phase::Failed => {}
        }
    }
}
