//! A device that is lost: entries of maps that point at it are made lost, page by page.
//!
//! Blocks that an operator gives up become lost in the same way, one by one.
//!
//! Nothing of this is logged. The state of the device is in each record, so an opening begins anew; a checkpoint makes
//! the pages durable, and with them the counts by which the device is seen to hold nothing.

use std::fmt::Debug;

use thermocline_format::DeviceState;

use crate::bugs::bug;
use crate::engine::{Parts, Phase};
use crate::map::{Mapping, PAGE, Value, Wanted};
use crate::marks::mark;
use crate::memory::Share;
use crate::pages::{Loaded, Needs, WORDS};
use crate::payload::Payload;
use crate::request::{Extent, HostError};
use crate::volumes::{PageCursor, Walk};

/// What looking at a page costs of the budget, in words of 64 pages. Chosen: so that a step looks at a few pages.
const LOOK: u32 = WORDS / 8;

/// The search for what is lost: where it goes on.
#[derive(Debug, Default)]
pub(crate) struct Losing(Option<PageCursor>);

impl Losing {
    /// Begins to look for what is lost, if a device is.
    pub(super) fn begin_losing<P: Payload>(&mut self, p: &mut Parts<P>) {
        let devices = p.config.geometry.devices();
        if devices.iter().any(|device| device.state == DeviceState::Lost) {
            self.0 = Some(PageCursor::default());
        }
    }

    /// Looks at some pages. Returns whether anything was done.
    pub(crate) fn lose_step<P: Payload>(&mut self, p: &mut Parts<P>) -> bool {
        let Some(mut cursor) = self.0 else { return false };
        let (mut budget, mut worked) = (WORDS, false);
        while budget > 0 {
            let before = cursor;
            match p.next_page(&mut cursor, Wanted::Held, &mut budget) {
                Walk::Found(volume, page) => {
                    p.pages.need(Needs::Losing, Some((volume, page)));
                    match p.loaded(volume, page * PAGE, page * PAGE + 1, Share::Upkeep) {
                        Loaded::Yes => self.lose_page(p, volume, page),
                        Loaded::No(_) => p.stats.lost_pages += 1,
                        Loaded::Wait(_) | Loaded::NoRoom => {
                            mark!(LosingWaits);
                            self.0 = Some(before);
                            return worked;
                        }
                    }
                    p.pages.need(Needs::Losing, None);
                    budget = budget.saturating_sub(LOOK);
                }
                Walk::Pause => {}
                Walk::End => {
                    self.0 = None;
                    p.want_checkpoint();
                    return true;
                }
            }
            worked = true;
        }
        self.0 = Some(cursor);
        worked
    }

    /// Makes lost what a page in memory says to be on a device that is. What was written again and waits in memory will
    /// be elsewhere soon.
    fn lose_page<P: Payload>(&mut self, p: &mut Parts<P>, volume: u16, page: u64) {
        let map = p.volumes.map(volume);
        let (id, end) = (map.user, ((page + 1) * PAGE).min(map.blocks));
        let mut run: Option<Extent> = None;
        for lba in page * PAGE..end {
            let at = p.volumes.map(volume).get(lba);
            let Mapping::At(value) = at else { continue };
            if !p.is_on_lost(value) {
                continue;
            }
            p.lose_block(volume, lba, value);
            p.note_lost(&mut run, id, lba);
        }
        p.tell_lost(run);
        p.volumes.note_pages(volume);
        p.stats.looked_at += PAGE;
    }

    /// The share of all maps that was looked through, while anything is looked for.
    pub(crate) fn share<P: Payload>(&self, p: &Parts<P>) -> Option<f64> {
        self.0.map(|cursor| p.volumes.share_before(cursor))
    }
}

impl<P: Payload> Parts<P> {
    /// As [`crate::Engine::give_up`].
    pub(crate) fn give_up(&mut self, extent: Extent) -> Result<u64, HostError> {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::parts::testing::{blocks, parts};

    #[test]
    fn nothing_is_looked_for_while_no_device_is_lost() {
        let mut p = parts();
        let mut losing = Losing::default();
        losing.begin_losing(&mut p);
        assert!(losing.share(&p).is_none() && !losing.lose_step(&mut p));
        assert!(!p.due.is_wanted());
    }

    #[test]
    fn the_search_ends_with_a_checkpoint() {
        let mut p = parts();
        let mut losing = Losing(Some(PageCursor::default()));
        assert_eq!(losing.share(&p), Some(0.0));
        assert!(losing.lose_step(&mut p) && losing.share(&p).is_none() && p.due.is_wanted());
    }

    #[test]
    fn what_was_never_written_cannot_be_given_up() {
        let mut p = parts();
        assert_eq!(p.give_up(blocks(0, 16)), Ok(0));
        assert_eq!(p.give_up(blocks(1020, 16)), Err(HostError::OutOfRange));
        p.phase = Phase::Failed;
        assert_eq!(p.give_up(blocks(0, 16)), Err(HostError::Failed));
    }
}
