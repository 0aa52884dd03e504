//! The end of a world: faults are over, and the pool must come to rest and serve.
//!
//! Compare the liveness mode of TigerBeetle's simulator. Faults may cost units and leave unreadable blocks. Faults must
//! not leave unanswered requests, units that are never freed, or a pool that cannot be closed.

use thermocline_engine::{Extent, MAX_IO_BLOCKS};
use thermocline_format::{DeviceState, VolumeId};

use super::World;
use crate::workload::Wish;

/// Completions within which all pending requests must be answered. Hundreds are usual; the collection of a full pool of
/// many units takes some ten thousand. Chosen, not measured.
const SOON: u64 = 1 << 16;

/// Blocks of the volume that is created if no volume can be written.
const BLOCKS: u64 = 16;

/// Units that are overwritten, at most: overwriting a larger pool takes too long.
const UNITS: u32 = 1024;

impl World {
    /// Heals the device, and checks that the pool comes to rest. All requests are answered. Blocks are overwritten
    /// until units must be freed. Flushed data reads back. The pool closes in order and opens clean.
    pub fn live_on(&mut self) {
        if !self.goes_on() {
            return;
        }
        self.machine.disk.injector_mut().heal();
        self.answer_all();
        if self.goes_on() {
            self.start_again();
            self.machine.disk.atlas_mut().heal();
        }
        if self.is_used_up() {
            return;
        }
        if self.goes_on() && self.serve().is_some() {
            self.ask(Wish::Flush);
            self.drain();
            self.close_and_open();
        }
    }

    /// Opens the pool again, and reads all blocks.
    fn start_again(&mut self) {
        let clean = self.closed && self.machine.engine.is_closed_clean();
        let seed = self.begin_anew();
        self.machine.kill(self.settings.config.clone(), seed);
        match self.machine.wait_until_open() {
            Ok(opened) => {
                self.judge_opened(opened, clean);
                self.look_around(false);
            }
            Err(trouble) => self.did_not_open(&trouble),
        }
    }

    /// Goes on until every request is answered.
    pub(crate) fn answer_all(&mut self) {
        let begin = self.machine.turns;
        self.settle();
        while !self.pending.is_empty() {
            if self.machine.turns - begin > SOON || !self.machine.turn() {
                let waiting: Vec<_> = self.pending.values().collect();
                self.wrong.push(format!("the device is well, and these wait: {waiting:?}"));
                self.pending.clear();
                return;
            }
            self.settle();
        }
    }

    /// Carries out a request. Returns whether it succeeded.
    fn ask(&mut self, wish: Wish) -> bool {
        let (before, begin) = (self.errors, self.machine.turns);
        // What waits in memory may leave no room at first.
        while !self.submit_wish(wish) {
            if self.machine.turns - begin > SOON || !self.machine.turn() || !self.goes_on() {
                let what = "is not accepted, though nothing else is asked for";
                self.wrong.push(format!("{wish:?} {what}"));
                return false;
            }
            self.settle();
        }
        self.answer_all();
        self.errors == before && self.goes_on()
    }

    /// Overwrites the same blocks until all free units, or [`UNITS`], have been filled, then reads them. `None` if the
    /// pool is full, or if damage stops writes.
    fn serve(&mut self) -> Option<()> {
        let (volume, blocks) = self.volume()?;
        let blocks = blocks.min(MAX_IO_BLOCKS);
        let extent = Extent { volume, lba: 0, blocks };
        let per_unit = self.settings.config.blocks_per_unit();
        let most = (u64::from(self.machine.engine.free_units().min(UNITS)) + 2) * per_unit;
        for _ in 0..=most / blocks {
            if !self.ask(Wish::Write { extent, fua: false, handle: 0 }) {
                return None;
            }
        }
        self.ask(Wish::Flush);
        self.ask(Wish::Read(extent)).then_some(())
    }

    /// Lets the pool finish its background work. A draining device must be empty afterwards.
    fn drain(&mut self) {
        let begin = self.machine.turns;
        while self.goes_on() && self.machine.turns - begin < SOON && self.machine.turn() {
            self.settle();
        }
        let geometry = *self.machine.engine.geometry();
        let draining = geometry.devices().iter().map(|device| device.state);
        let draining = draining.zip(geometry.device_units());
        let left = draining
            .filter(|(state, _)| *state == DeviceState::Draining)
            .map(|(_, (device, _))| self.machine.engine.units_in_use(device))
            .sum::<u32>();
        if left > 0 && self.goes_on() && !self.atlas_is_damaged() {
            self.wrong.push(format!("{left} units of a device that is drained are not empty"));
        }
    }

    /// A volume to write to.
    fn volume(&mut self) -> Option<(VolumeId, u64)> {
        let written = |world: &World| world.model.volumes().find(|(_, blocks)| *blocks > 0);
        if let Some(found) = written(self) {
            return Some(found);
        }
        self.ask(Wish::Create(BLOCKS));
        written(self)
    }

    fn close_and_open(&mut self) {
        if !self.goes_on() || self.down {
            return;
        }
        self.ask(Wish::Close);
        if self.goes_on() && self.closed {
            self.start_again();
        } else if self.goes_on() && !self.atlas_is_damaged() {
            self.wrong.push("the pool cannot be closed".into());
        }
    }

    pub(super) fn atlas_is_damaged(&self) -> bool {
        self.machine.disk.atlas().is_damaged()
    }
}
