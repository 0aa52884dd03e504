//! Rules beside the model: limits hold, clients have bounded waits for other clients, and the pool stays open.

use std::time::Duration;

use thermocline_runtime::VolumeLimits;

use super::ShellWorld;
use crate::watched::look;

/// The longest read of one block, without device time, in a volume with a single client.
const PROBE: Duration = Duration::from_millis(5);

/// Most bytes beyond a volume's limit before the volume waits: a piece of a long request.
const OVER: u64 = 1 << 20;

/// Commands of a device that a read of a block may wait for, one after the other.
const COMMANDS: u32 = 4;

/// A volume's limits, and its counts when they were set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limited {
    limits: VolumeLimits,
    since: Duration,
    /// Requests and bytes answered before the limits were set.
    before: (u64, u64),
    /// Requests in flight when the limits were set.
    under_way: u64,
}

impl ShellWorld {
    /// Gives a volume limits.
    pub(super) fn set_limits(&mut self, index: usize, limits: VolumeLimits) {
        let now = self.clock.passed();
        let Some(up) = &self.up else { return };
        let volume = &mut self.volumes[index];
        up.set_limits(&volume.name, limits);
        let seen = look(&volume.seen);
        volume.limited = Limited {
            limits,
            since: now,
            before: (seen.answered, seen.bytes),
            under_way: seen.under_way,
        };
    }

    /// Judges the pool after each of its steps.
    pub(super) fn judge_pool(&mut self) -> Result<(), String> {
        let Some(up) = &self.up else { return Ok(()) };
        let closing = self.stopping.as_ref().is_some_and(|stopping| stopping.asked);
        if !up.is_alive() && !closing {
            return self.judge_end();
        }
        if self.settings.probe {
            self.judge_probe()?;
        }
        self.judge_limits()
    }

    fn judge_probe(&mut self) -> Result<(), String> {
        let probed = self.volumes.last().expect("a world has volumes");
        let slowest = look(&probed.seen).slowest;
        self.report.probe = slowest;
        let bound = PROBE + COMMANDS * self.settings.habits.most;
        if slowest > bound {
            return Err(format!("a read of one block waited {slowest:?} for other volumes"));
        }
        Ok(())
    }

    /// Judges that no volume has exceeded its limits.
    pub(super) fn judge_limits(&self) -> Result<(), String> {
        let now = self.clock.passed();
        for volume in &self.volumes {
            let Limited { limits, since, before, under_way } = volume.limited;
            let seen = look(&volume.seen);
            let seconds = (now - since).as_secs_f64() + 0.1;
            let allowed = |rate: u64| rate as f64 * seconds;
            let requests = (seen.answered - before.0).saturating_sub(under_way);
            // A request may overdraw the saved-up allowance, and the next request waits.
            if let Some(rate) = limits.iops
                && requests as f64 > allowed(rate) + 4.0
            {
                let name = &volume.name;
                return Err(format!("{name} did {requests} requests of {rate} a second"));
            }
            let bytes = seen.bytes - before.1;
            // Requests in flight when the limits were set may be of any length.
            if let Some(rate) = limits.bandwidth
                && under_way == 0
                && bytes as f64 > allowed(rate) + OVER as f64
            {
                return Err(format!("{} moved {bytes} bytes of {rate} a second", volume.name));
            }
        }
        Ok(())
    }
}
