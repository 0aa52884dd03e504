//! The wrong member of a world.

use thermocline_types::Rng;

use super::World;
use crate::disk::Image;

/// At one step in so many it is kept what the wrong member holds.
const KEPT_ONE_IN: u64 = 200;

impl World {
    /// Makes wrong what the wrong member holds.
    pub fn spoil(&self, image: &mut Image, rng: &mut Rng) {
        if let Some(wrong) = self.settings.wrong {
            wrong.spoil(&self.arena, image, &self.kept, rng);
        }
    }

    /// Now and then keeps what the wrong member durably holds, to put it back to that later.
    pub(super) fn keep_member(&mut self) {
        if let Some(wrong) = self.settings.wrong
            && self.rng.below(KEPT_ONE_IN) == 0
            && let Some(kept) = wrong.keep(self.machine.disk.cache().stable())
        {
            self.kept = kept;
        }
    }
}
