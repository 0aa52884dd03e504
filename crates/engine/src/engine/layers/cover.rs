//! Which blocks of a layer the layers above cover for everybody.
//!
//! A layer covers the blocks that it has entries for, and those beyond its least size. A nameless layer also covers
//! what all layers directly above it cover: nobody reads it for itself.

use thermocline_format::VolumeId;

use crate::bugs::bug;
use crate::engine::Parts;
use crate::map::{Bits, Mapping, PAGE};
use crate::memory::Share;
use crate::pages::{Loaded, Needs};
use crate::payload::Payload;

/// All blocks of a page.
const ALL: Bits = [u64::MAX; (PAGE / 64) as usize];

/// Finds the covered blocks of a page.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) page: u64,
    /// One behind the last block of the page.
    end: u64,
    /// From the layer itself to the one that is being asked, each directly above the one before.
    asked: Vec<Asked>,
    /// What was found.
    pub(super) bits: Bits,
}

/// A layer that is being asked what it covers.
#[derive(Debug)]
struct Asked {
    layer: u16,
    id: VolumeId,
    /// The layers directly above a nameless one that are still to be asked.
    above: Vec<(u16, VolumeId)>,
    /// What all of those asked cover; nothing of a layer with a name.
    bits: Bits,
}

impl Asked {
    fn new<P: Payload>(p: &Parts<P>, layer: u16) -> Asked {
        let map = p.volumes.map(layer);
        let (mut above, mut bits) = (Vec::new(), Bits::default());
        if map.layer.nameless {
            above.extend(p.volumes.children(layer).map(|above| (above, p.volumes.map(above).id)));
            bits = ALL;
        }
        Asked { layer, id: map.id, above, bits }
    }

    /// The next layer above that is to be asked: none when nothing can be covered.
    fn next(&mut self) -> Option<(u16, VolumeId)> {
        if self.bits == Bits::default() { None } else { self.above.pop() }
    }
}

impl Ask {
    /// Asks about `page` of `layer`, which is nameless.
    pub(super) fn new<P: Payload>(p: &Parts<P>, page: u64, layer: u16) -> Ask {
        let end = ((page + 1) * PAGE).min(p.volumes.map(layer).blocks);
        Ask { page, end, asked: vec![Asked::new(p, layer)], bits: Bits::default() }
    }

    /// Asks the layers above. Returns whether all were asked.
    pub(super) fn step<P: Payload>(&mut self, p: &mut Parts<P>) -> bool {
        while let Some(last) = self.asked.last_mut() {
            if let Some((layer, id)) = last.next() {
                // A layer that went reads nothing.
                if is_there(p, layer, id) {
                    self.asked.push(Asked::new(p, layer));
                }
                continue;
            }
            let (layer, id, mut bits) = (last.layer, last.id, last.bits);
            if self.asked.len() == 1 {
                self.bits = bits;
                break;
            }
            let there = is_there(p, layer, id);
            if there && !self.add_entries(p, layer, &mut bits) {
                return false;
            }
            self.asked.pop();
            if there && let Some(below) = self.asked.last_mut() {
                let any = bug!(p.config, CloneNotCounted) && below.bits != ALL;
                let both =
                    |(all, one): (&mut u64, u64)| *all = if any { *all | one } else { *all & one };
                below.bits.iter_mut().zip(bits).for_each(both);
            }
        }
        p.pages.need(Needs::Covering, None);
        true
    }

    /// Adds what entries and the least size of `layer` cover. Returns whether its page is known.
    fn add_entries<P: Payload>(&self, p: &mut Parts<P>, layer: u16, bits: &mut Bits) -> bool {
        let from = self.page * PAGE;
        let least = p.volumes.map(layer).layer.least;
        (from.max(least)..self.end).for_each(|lba| set(bits, lba));
        let end = self.end.min(p.volumes.map(layer).blocks);
        if from >= end || p.volumes.map(layer).is_blank(self.page) {
            return true;
        }
        p.pages.need(Needs::Covering, Some((layer, self.page)));
        match p.loaded(layer, from, end, Share::Upkeep) {
            Loaded::Yes => {
                p.stats.looked_at += PAGE;
                let covers = |lba: &u64| p.covers(layer, *lba);
                (from..end).filter(covers).for_each(|lba| set(bits, lba));
                true
            }
            Loaded::Wait(_) | Loaded::NoRoom => false,
            Loaded::No(_) => true,
        }
    }
}

fn is_there<P: Payload>(p: &Parts<P>, layer: u16, id: VolumeId) -> bool {
    p.volumes.is(layer, id) && !p.volumes.map(layer).deleted
}

fn set(bits: &mut Bits, lba: u64) {
    bits[(lba % PAGE) as usize / 64] |= 1 << (lba % 64);
}

/// Whether `lba` is among the blocks of its page in `bits`.
pub(super) fn has(bits: &Bits, lba: u64) -> bool {
    bits[(lba % PAGE) as usize / 64] >> (lba % 64) & 1 == 1
}

impl<P: Payload> Parts<P> {
    /// Whether `lba` has an entry on media, or as good as there, in the map of `layer`, where it is known.
    fn covers(&self, layer: u16, lba: u64) -> bool {
        match self.volumes.map(layer).look_up(lba) {
            None | Some(Mapping::Unmapped) => false,
            Some(Mapping::At(_)) => true,
            Some(Mapping::Staged(slot)) => self.cache.block(slot).old.is_some(),
        }
    }
}
