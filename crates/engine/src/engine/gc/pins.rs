//! Pages that must stay in memory for a victim, and the published state of the victim.

use thermocline_format::VolumeId;

use super::{Collector, Job, Step};
use crate::collection::Victim;
use crate::engine::Parts;
use crate::payload::Payload;

impl<P: Payload> Collector<P> {
    /// Publishes the state of the victim.
    pub(super) fn tell_victim(&mut self, p: &mut Parts<P>) {
        let victim = self.job.as_ref().map(|job| {
            let (over, placed) = (job.step == Step::Done, job.has_placed_all());
            let staged_all = (over || job.drains && job.valid.is_empty()) && placed;
            let is_over = over && placed && job.pins.is_empty();
            Victim { unit: job.victim, staged_all, is_over, pins: job.pins.len() }
        });
        p.collection.set_victim(victim);
    }

    /// Keeps a page in memory, if that is one more than may be kept only when it is kept already.
    #[inline]
    pub(super) fn may_pin(
        &mut self,
        p: &mut Parts<P>,
        job: &mut Job<P>,
        page: (u16, VolumeId, u64),
    ) -> bool {
        let (volume, _, number) = page;
        if p.volumes.map(volume).is_pinned(number) {
            return true;
        }
        if job.pins.len() >= p.most_pins() {
            return false;
        }
        p.volumes.map_mut(volume).pin(number);
        job.pins.push(page);
        true
    }

    /// No page is needed any more.
    pub(crate) fn unpin_all(&mut self, p: &mut Parts<P>) {
        let Some(job) = &mut self.job else { return };
        for (volume, id, page) in std::mem::take(&mut job.pins) {
            if p.volumes.is(volume, id) {
                p.volumes.map_mut(volume).unpin(page);
            }
        }
        self.tell_victim(p);
    }
}
