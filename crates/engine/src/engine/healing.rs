//! Places that are written again, since a member of a device with redundancy holds them wrong.

use thermocline_format::Location;
use thermocline_types::Version;

use crate::bugs::bug;
use crate::device::{DeviceCmd, DeviceError, Heal};
use crate::engine::{Op, Parts, Phase};
use crate::payload::Payload;
use crate::request::{Action, Notice};

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
                self.device(op, DeviceCmd::Heal(vec![heal]));
            }
            Phase::Closed | Phase::Failed => {}
        }
    }

    /// A place was written again, or could not be.
    pub(crate) fn healed(
        &mut self,
        at: Location,
        version: Version,
        result: Result<(), DeviceError>,
    ) {
        self.healing.end();
        if result.is_ok() {
            self.stats.healed_places += 1;
            self.actions.push_back(Action::Notice(Notice::Healed { at, version }));
        }
    }
}
