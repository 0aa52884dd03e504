//! The simulated drive of a run.

use thermocline_ftl::placement::{Handles, Isolation};
use thermocline_ftl::victim::Victim;
use thermocline_ftl::{Ftl, NoMedia, Shape};
use thermocline_types::Cause;

use super::load::{Load, Writes};
use crate::Error;

/// Writes drawn ahead, so that their map entries come into the cache together.
const BATCH: usize = 256;

/// Collection ahead of need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ahead {
    /// It goes on while a smaller share of the units is free.
    pub free: f64,
    /// It takes units with no more valid blocks than this.
    pub most: u64,
}

/// A drive of units, each placement handle with an open unit, the survivors of collections apart.
#[derive(Clone, Debug)]
pub(super) struct Drive {
    pub shape: Shape,
    pub handles: u8,
    pub isolation: Isolation,
    pub ahead: Option<Ahead>,
}

/// A load on its way through a drive.
struct Course<'a> {
    ftl: Ftl<Handles>,
    writes: Writes<'a>,
    ahead: Option<Ahead>,
    /// Host blocks between two looks at what can be collected ahead.
    look: u64,
    looked: u64,
}

impl Drive {
    /// Plays `load` on the empty drive, `before` host blocks unmeasured and then to each of `marks` in host blocks.
    /// Returns the blocks programmed at each mark.
    ///
    /// # Errors
    /// [`Error::Settings`] when the drive has too few units.
    pub fn play(
        &self,
        load: &Load,
        before: u64,
        marks: &[u64],
        seed: u64,
    ) -> Result<Vec<u64>, Error> {
        let placement = Handles::new(1, self.handles, self.isolation);
        let ftl = Ftl::new(self.shape, placement, Victim::Greedy, seed);
        let ftl = ftl.map_err(|error| Error::Settings(error.to_string()))?;
        let mut course = Course {
            ftl,
            writes: Writes::new(load, self.shape.exported(), seed),
            ahead: self.ahead,
            look: (u64::from(self.shape.blocks_per_unit()) / 8).max(1),
            looked: 0,
        };
        course.write_to(before);
        let start = course.programmed();
        let mut programmed = Vec::new();
        for mark in marks {
            course.write_to(before + mark);
            programmed.push(course.programmed() - start);
        }
        Ok(programmed)
    }
}

impl Course<'_> {
    fn programmed(&self) -> u64 {
        self.ftl.programmed(Cause::Host) + self.ftl.programmed(Cause::Relocation)
    }

    /// Writes until the host has written `target` blocks.
    fn write_to(&mut self, target: u64) {
        let mut batch = Vec::with_capacity(BATCH);
        while self.ftl.host_writes() < target {
            let count = (target - self.ftl.host_writes()).min(BATCH as u64);
            batch.clear();
            batch.extend((0..count).map(|_| self.writes.next()));
            batch.iter().for_each(|(lba, _)| self.ftl.prefetch(*lba));
            for &(lba, handle) in &batch {
                self.ftl.write(lba, handle, &mut NoMedia).expect("nothing wears out");
                if let Some(ahead) = self.ahead
                    && self.ftl.host_writes() >= self.looked + self.look
                {
                    self.looked = self.ftl.host_writes();
                    self.ftl.collect_ahead(ahead.most, ahead.free, &mut NoMedia);
                }
            }
        }
    }
}
