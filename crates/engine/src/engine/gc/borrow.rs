//! Units that are held for metadata, where nothing but copies could free another one.

use thermocline_format::MediaClass;

use crate::engine::Engine;
use crate::payload::Payload;

impl<P: Payload> Engine<P> {
    /// Lets copies that wait for a unit take one that is held for metadata: a crash may have come when only those were
    /// left, and closed the unit that copies went to. Returns whether that helps.
    pub(crate) fn gc_borrow(&mut self) -> bool {
        let media = self.config.host_media();
        let same = media == MediaClass::Capacity;
        let waits = same && self.host_has_no_unit() && self.cache.copies() > 0;
        let helps = waits && self.space.free_units(media) > self.held_from_borrowers();
        helps && !std::mem::replace(&mut self.gc.borrows, true)
    }

    /// Units that copies leave to metadata when they [borrow](Engine::gc_borrow).
    pub(crate) fn held_from_borrowers(&self) -> u32 {
        u32::from(!self.is_freed_by_copies())
    }
}
