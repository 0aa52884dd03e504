//! Dies as the translation layer acts on them: pages fill, are programmed, read and erased; time passes, wear adds up.

use thermocline_ftl::{Erased, Shape};
use thermocline_types::{Bytes, Cause, Pba, Time, UnitId};

use crate::profile::{Cut, Profile};
use crate::timing::{Page, Timeline};
use crate::wear::Endurance;

/// The media of a drive.
#[derive(Clone, Debug)]
pub struct Media {
    shape: Shape,
    block: Bytes,
    blocks_per_page: u32,
    timeline: Option<Timeline>,
    endurance: Endurance,
    /// When the current host write got into the write buffer.
    admitted: Time,
}

impl Media {
    /// Fresh media for `profile` cut to `cut`.
    #[must_use]
    pub fn new(profile: &Profile, cut: &Cut, seed: u64) -> Self {
        let pages = cut.shape.blocks_per_unit() / cut.blocks_per_page;
        let buffer = profile.buffer.as_ref().map_or(Bytes::ZERO, |buffer| buffer.size);
        let timeline = profile.geometry.as_ref().zip(profile.timing.as_ref());
        Media {
            shape: cut.shape,
            block: cut.mapping_unit,
            blocks_per_page: cut.blocks_per_page,
            timeline: timeline
                .map(|(geometry, timing)| Timeline::new(geometry, timing, pages, buffer)),
            endurance: Endurance::new(&profile.wear, cut.shape.units(), seed),
            admitted: Time::ZERO,
        }
    }

    /// Whether time is modelled.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.timeline.is_some()
    }

    /// Endurance and spares.
    #[must_use]
    pub fn endurance(&self) -> &Endurance {
        &self.endurance
    }

    /// A request arrives.
    #[inline]
    pub fn arrive(&mut self, at: Time) {
        self.admitted = at;
        if let Some(timeline) = &mut self.timeline {
            timeline.arrive(at);
        }
    }

    /// `bytes` of a host write come over the link.
    #[inline]
    pub fn receive(&mut self, bytes: Bytes) {
        if let Some(timeline) = &mut self.timeline {
            self.admitted = timeline.receive(bytes);
        }
    }

    /// When the current host write is acknowledged: its data is in the write buffer.
    #[inline]
    #[must_use]
    pub fn acknowledged(&self) -> Time {
        self.admitted
    }

    /// When all host data is on the media.
    #[must_use]
    pub fn drained(&self) -> Time {
        self.timeline.as_ref().map_or(self.admitted, Timeline::drained)
    }

    /// Reads the blocks at `blocks` for the host, merging neighbours of one page; returns when the host has them.
    /// Blocks that lie nowhere cost no media read.
    pub fn read_for_host(
        &mut self,
        at: Time,
        length: Bytes,
        blocks: impl Iterator<Item = Option<Pba>>,
    ) -> Time {
        let ready = self.gather(blocks);
        match &mut self.timeline {
            Some(timeline) => timeline.send(ready, length),
            None => at,
        }
    }

    /// Reads the block at `pba` because the rest of it is being rewritten.
    #[inline]
    pub fn read_to_modify(&mut self, pba: Option<Pba>) {
        if self.timeline.is_some() {
            self.gather(std::iter::once(pba));
        }
    }

    fn gather(&mut self, blocks: impl Iterator<Item = Option<Pba>>) -> Time {
        let Some(timeline) = &mut self.timeline else { return Time::ZERO };
        let mut ready = timeline.now();
        let mut pending: Option<(Page, u64)> = None;
        for pba in blocks.flatten() {
            let page = Page {
                unit: self.shape.unit(pba),
                page: self.shape.offset(pba) / self.blocks_per_page,
            };
            match &mut pending {
                Some((last, blocks)) if *last == page => *blocks += 1,
                _ => {
                    if let Some((page, blocks)) = pending.replace((page, 1)) {
                        ready = ready.max(timeline.read(page, Bytes(blocks * self.block.0)));
                    }
                }
            }
        }
        if let Some((page, blocks)) = pending {
            ready = ready.max(timeline.read(page, Bytes(blocks * self.block.0)));
        }
        ready
    }

    fn page(&self, pba: Pba) -> Page {
        Page { unit: self.shape.unit(pba), page: self.shape.offset(pba) / self.blocks_per_page }
    }
}

impl thermocline_ftl::Media for Media {
    #[inline]
    fn read(&mut self, pba: Pba) {
        let page = self.page(pba);
        if let Some(timeline) = &mut self.timeline {
            timeline.read_to_relocate(page, self.block);
        }
    }

    #[inline]
    fn program(&mut self, pba: Pba, cause: Cause) {
        let page = self.page(pba);
        let Some(timeline) = &mut self.timeline else { return };
        if self.shape.offset(pba) % self.blocks_per_page + 1 != self.blocks_per_page {
            return;
        }
        match cause {
            Cause::Relocation | Cause::WearLevelling => timeline.program_relocated(page),
            Cause::Host | Cause::ReadModifyWrite | Cause::Padding => {
                self.admitted = self.admitted.max(timeline.admit());
                timeline.program_host(page);
            }
        }
    }

    #[inline]
    fn erase(&mut self, unit: UnitId, erases: u32) -> Erased {
        if let Some(timeline) = &mut self.timeline {
            timeline.erase(unit);
        }
        self.endurance.erase(unit, erases)
    }
}
