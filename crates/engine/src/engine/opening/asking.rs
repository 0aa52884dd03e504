//! What an opening asks of the devices: so many commands at once.

use super::Recovery;
use crate::device::DeviceCmd;
use crate::engine::{Op, Parts};
use crate::payload::Payload;

/// Commands of an opening that are on their way at once. Chosen, not measured.
pub(super) const ASKED: usize = 256;

impl<P: Payload> Recovery<P> {
    /// Asks the device for part `index` of what this step needs.
    pub(super) fn ask(&mut self, p: &mut Parts<P>, index: usize, cmd: DeviceCmd<P>) {
        self.wanted.push_back((index, cmd));
        self.ask_next(p);
    }

    pub(super) fn ask_next(&mut self, p: &mut Parts<P>) {
        while self.asked < ASKED
            && let Some((index, cmd)) = self.wanted.pop_front()
        {
            self.asked += 1;
            let op = p.ops.insert(Op::Opening { index });
            p.device(op, cmd);
        }
    }
}
