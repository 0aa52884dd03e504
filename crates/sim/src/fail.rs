//! Every command fails once: a script is repeated, and each run fails the next command.
//!
//! SQLite tests I/O errors in the same way: every error path of the code runs under test.

use thermocline_engine::DeviceError;

use crate::faults::{Fault, Rule};
use crate::replay::{self, Place};
use crate::settings::{Scale, Settings};
use crate::world::World;

/// How a command goes wrong, in turn.
const FAULTS: [Fault; 2] = [Fault::Fail(DeviceError::Io), Fault::FailTorn(DeviceError::Io)];

/// Results of the runs.
#[derive(Clone, Debug, Default)]
pub struct FailReport {
    /// Commands of the script without faults.
    pub commands: u64,
    /// Runs in which a command was made to fail.
    pub runs: u64,
    /// What was wrong, with the number of the command that failed.
    pub wrong: Vec<(u64, String)>,
}

/// Runs the small world of `seed` once for each of its commands, up to `most` runs. In each run one command fails: its
/// work is done in part or not at all. Then the pool is opened again and goes on.
#[must_use]
pub fn fail_every_action(seed: u64, most: u64) -> FailReport {
    fail_every_action_with(seed, &Settings::draw(seed, Scale::Small), most)
}

/// As [`fail_every_action`], with settings of one's own.
#[must_use]
pub fn fail_every_action_with(seed: u64, settings: &Settings, most: u64) -> FailReport {
    let mut report = FailReport::default();
    let mut sound = World::new(seed, settings.clone(), Vec::new());
    sound.run(0);
    report.commands = sound.machine.disk.injector().commands();
    report.wrong.extend(sound.wrong.drain(..).map(|what| (u64::MAX, what)));
    let stride = report.commands.div_ceil(most.max(1)).max(1);
    for number in (seed % stride..report.commands).step_by(stride as usize) {
        for fault in FAULTS {
            replay::enter(Place { seed, point: number, state: 0 });
            let rules = vec![Rule::once(number, fault)];
            let mut world = World::new(seed, settings.clone(), rules);
            world.run(0);
            report.runs += u64::from(!world.machine.disk.injector().log().is_empty());
            report.wrong.extend(world.wrong.drain(..).map(|what| (number, what)));
        }
    }
    report
}
