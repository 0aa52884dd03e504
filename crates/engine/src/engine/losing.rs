//! A device that is lost: entries of maps that point at it are made lost, page by page.
//!
//! Blocks that an operator gives up become lost in the same way, one by one.
//!
//! Nothing of this is logged. The state of the device is in each record, so an opening begins anew; a checkpoint makes
//! the pages durable, and with them the counts by which the device is seen to hold nothing.

use thermocline_format::{DeviceState, MapEntry, VolumeId};

use crate::bugs::bug;
use crate::engine::{Engine, Phase};
use crate::map::{Mapping, PAGE, Value, Wanted};
use crate::marks::mark;
use crate::memory::Share;
use crate::pages::{Loaded, Needs, WORDS};
use crate::payload::Payload;
use crate::request::{Action, Extent, HostError, Notice, OpenError};
use crate::volumes::{PageCursor, Walk};

/// What looking at a page costs of the budget, in words of 64 pages. Chosen: so that a step looks at a few pages.
const LOOK: u32 = WORDS / 8;

impl<P: Payload> Engine<P> {
    /// Whether what a value means was on a device that is lost.
    fn is_on_lost(&self, value: Value) -> bool {
        let geometry = &self.config.geometry;
        !value.is_lost() && geometry.state_of(self.unit_of(value)) == DeviceState::Lost
    }

    /// An error if one of these pages is on a device that is lost.
    pub(super) fn keeps_pages(&self, pages: &[MapEntry]) -> Result<(), OpenError> {
        let geometry = &self.config.geometry;
        let places = pages.iter().filter_map(|page| page.location(geometry));
        let mut lost = places.filter(|at| geometry.state_of(at.unit) == DeviceState::Lost);
        let error = lost.next().map(|at| OpenError::MapOn(geometry.device_of(at.unit)));
        mark!(MapOnLost if error.is_some());
        error.map_or(Ok(()), Err)
    }

    /// Begins to look for what is lost, if a device is.
    pub(super) fn begin_losing(&mut self) {
        let devices = self.config.geometry.devices();
        if devices.iter().any(|device| device.state == DeviceState::Lost) {
            self.losing = Some(PageCursor::default());
        }
    }

    /// While what is lost is looked for, the share of all maps that was looked through.
    #[must_use]
    pub fn losing(&self) -> Option<f64> {
        self.losing.map(|cursor| self.volumes.share_before(cursor))
    }

    /// Looks at some pages. Returns whether anything was done.
    pub(crate) fn lose_step(&mut self) -> bool {
        let Some(mut cursor) = self.losing else { return false };
        let (mut budget, mut worked) = (WORDS, false);
        while budget > 0 {
            let before = cursor;
            match self.next_page(&mut cursor, Wanted::Held, &mut budget) {
                Walk::Found(volume, page) => {
                    self.pages.need(Needs::Losing, Some((volume, page)));
                    match self.loaded(volume, page * PAGE, page * PAGE + 1, Share::Upkeep) {
                        Loaded::Yes => self.lose_page(volume, page),
                        Loaded::No(_) => self.stats.lost_pages += 1,
                        Loaded::Wait(_) | Loaded::NoRoom => {
                            mark!(LosingWaits);
                            self.losing = Some(before);
                            return worked;
                        }
                    }
                    self.pages.need(Needs::Losing, None);
                    budget = budget.saturating_sub(LOOK);
                }
                Walk::Pause => {}
                Walk::End => {
                    self.losing = None;
                    self.want_checkpoint();
                    return true;
                }
            }
            worked = true;
        }
        self.losing = Some(cursor);
        worked
    }

    /// Makes lost what a page in memory says to be on a device that is. What was written again and waits in memory will
    /// be elsewhere soon.
    fn lose_page(&mut self, volume: u16, page: u64) {
        let map = self.volumes.map(volume);
        let (id, end) = (map.id, ((page + 1) * PAGE).min(map.blocks));
        let mut run: Option<Extent> = None;
        for lba in page * PAGE..end {
            let at = self.volumes.map(volume).get(lba);
            let Mapping::At(value) = at else { continue };
            if !self.is_on_lost(value) {
                continue;
            }
            self.lose_block(volume, lba, value);
            self.note_lost(&mut run, id, lba);
        }
        self.tell_lost(run);
        self.volumes.note_pages(volume);
        self.stats.looked_at += PAGE;
    }

    /// Gives up blocks that cannot be read: reading them is an error until they are written again or trimmed, and their
    /// units can be collected. Leaves out blocks of which the page of the map is not in memory: whoever has just read a
    /// block has it there. Returns how many blocks were given up, which a checkpoint makes durable.
    ///
    /// # Errors
    /// [`HostError`]: of a pool that is not open, and of blocks that are not in a volume.
    pub fn give_up(&mut self, extent: Extent) -> Result<u64, HostError> {
        if self.phase != Phase::Open {
            return Err(HostError::Failed);
        }
        let volume = self.locate(extent)?;
        let (mut run, mut count) = (None, 0);
        for lba in extent.lba..extent.lba + extent.blocks {
            let map = self.volumes.map(volume);
            let found = map.is_loaded(lba / PAGE).then(|| map.get(lba));
            let Some(value) = found.and_then(Mapping::value) else { continue };
            self.lose_block(volume, lba, value);
            self.note_lost(&mut run, extent.volume, lba);
            count += 1;
        }
        self.tell_lost(run);
        self.volumes.note_pages(volume);
        self.want_checkpoint();
        self.settled = false;
        Ok(count)
    }

    fn lose_block(&mut self, volume: u16, lba: u64, value: Value) {
        let zeros = bug!(self.config, LostReadsAsZeros);
        let now = if zeros { Mapping::Unmapped } else { Mapping::At(Value::LOST) };
        self.volumes.map_mut(volume).set(lba, now);
        self.volumes.map_less(1);
        self.note_move(PageCursor::at(volume, lba / PAGE), Some(value), None);
        self.drop_value(value);
    }

    /// One more block is lost: adds it to `run`, or tells that and begins another.
    pub(super) fn note_lost(&mut self, run: &mut Option<Extent>, volume: VolumeId, lba: u64) {
        match run {
            Some(run) if run.volume == volume && run.lba + run.blocks == lba => run.blocks += 1,
            _ => self.tell_lost(run.replace(Extent { volume, lba, blocks: 1 })),
        }
    }

    pub(super) fn tell_lost(&mut self, run: Option<Extent>) {
        let notice = run.map(|extent| Action::Notice(Notice::Lost { extent }));
        self.actions.extend(notice);
    }
}
