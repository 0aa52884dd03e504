//! The wrong member of a world.

use thermocline_types::Rng;

use super::World;
use crate::disk::Image;

/// Mean number of steps between copies of the wrong member's content.
const KEPT_ONE_IN: u64 = 200;

impl World {
    /// Spoils the content of the wrong member.
    pub fn spoil(&self, image: &mut Image, rng: &mut Rng) {
        if let Some(wrong) = self.settings.wrong {
            wrong.spoil(&self.arena, image, &self.kept, rng);
        }
    }

    /// Now and then copies the durable content of the wrong member, for a later rollback.
    pub(super) fn keep_member(&mut self) {
        if let Some(wrong) = self.settings.wrong
            && self.rng.below(KEPT_ONE_IN) == 0
            && let Some(kept) = wrong.keep(self.machine.disk.cache().stable())
        {
            self.kept = kept;
        }
    }
}
