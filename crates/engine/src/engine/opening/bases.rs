//! What pages on media lead to in place of the blocks that the tail says are elsewhere: it counts no more.
//!
//! The pages are read one after the other, and nothing of them is kept: so an opening needs no memory for all that the
//! tail touches. What units hold must be right before any is written: those that were reset since the checkpoint count
//! as full of what was replaced.

use std::collections::{BTreeMap, BTreeSet};

use thermocline_format::{MapPage, PageId};

use super::{ASKED, Opening};
use crate::bugs::bug;
use crate::device::{DeviceCmd, Done};
use crate::engine::Engine;
use crate::map::Wanted;
use crate::marks::mark;
use crate::pages::WORDS;
use crate::payload::Payload;
use crate::request::OpenError;
use crate::volumes::{PageCursor, Walk};

/// How often a page is read before it counts as unreadable. Chosen, not measured.
const TRIES: u8 = 4;

/// How far the pages that are patched have been read.
#[derive(Debug)]
pub(super) struct Bases {
    /// Where the walk through them goes on; `None` behind the last.
    next: Option<PageCursor>,
    /// Those on their way, by number, and how often each may still be read.
    reading: BTreeMap<usize, (u16, u64, u8)>,
    asked: usize,
    /// Pages of which the tail says that they could not be read.
    unreadable: BTreeSet<(u16, u64)>,
}

impl Default for Bases {
    fn default() -> Bases {
        let (next, unreadable) = (Some(PageCursor::default()), BTreeSet::new());
        Bases { next, reading: BTreeMap::new(), asked: 0, unreadable }
    }
}

impl Bases {
    /// Whether all have been read.
    pub(super) fn are_known(&self) -> bool {
        self.next.is_none() && self.reading.is_empty()
    }

    /// The tail says that the page could not be read when it was to be written anew.
    pub(super) fn may_be_unreadable(&mut self, volume: u16, page: u64) {
        self.unreadable.insert((volume, page));
    }
}

impl<P: Payload> Engine<P> {
    /// Asks for some of the pages that are patched. Returns whether anything was done.
    pub(super) fn read_bases(&mut self) -> bool {
        let mut worked = false;
        let mut budget = WORDS;
        while let Some(Opening { bases, asked, .. }) = self.opening.as_deref_mut()
            && *asked < ASKED
            && let Some(mut cursor) = bases.next
        {
            worked = true;
            let walk = self.next_page(&mut cursor, Wanted::Dirty, &mut budget);
            let opening = self.opening.as_mut().expect("the pool is being opened");
            opening.bases.next = (walk != Walk::End).then_some(cursor);
            match walk {
                Walk::Found(volume, page) if self.volumes.map(volume).is_patched(page) => {
                    self.read_base(volume, page, TRIES);
                }
                Walk::Found(..) | Walk::End => {}
                Walk::Pause => break,
            }
        }
        worked
    }

    fn read_base(&mut self, volume: u16, page: u64, tries: u8) {
        let at = self.volumes.map(volume).page_at(page).location(&self.config.geometry);
        let at = at.expect("a patched page is on media");
        let bases = &mut self.opening.as_mut().expect("the pool is being opened").bases;
        let index = bases.asked;
        bases.asked += 1;
        bases.reading.insert(index, (volume, page, tries - 1));
        self.ask(index, DeviceCmd::ReadPage { at });
    }

    /// A patched page was read, or could not be.
    pub(super) fn base_read(
        &mut self,
        index: usize,
        done: Option<Done<P>>,
    ) -> Result<(), OpenError> {
        let bases = &mut self.opening.as_mut().expect("the pool is being opened").bases;
        let (volume, page, tries) = bases.reading.remove(&index).expect("it was asked for");
        let geometry = self.config.geometry;
        let map = self.volumes.map(volume);
        let (id, parent) = (PageId { volume: map.id, index: page as u32 }, map.page_at(page));
        let decoded = match done {
            Some(Done::Page(bytes)) => {
                MapPage::decode(bytes.as_slice(), id, parent, &geometry).ok()
            }
            _ => None,
        };
        match decoded {
            Some(MapPage(entries)) => {
                let known = self.volumes.map_mut(volume).settle_bases(page, &entries);
                for value in known.into_iter().filter(|value| !value.is_lost()) {
                    let unit = self.unit_of(value);
                    if !bug!(self.config, TouchedPageNotCounted) && self.space.uncount(unit) {
                        self.volumes.map_less(1);
                    }
                }
                Ok(())
            }
            None if tries > 0 => {
                mark!(TailPageReadAgain);
                self.read_base(volume, page, tries);
                Ok(())
            }
            None if self.is_known_unreadable(volume, page) => {
                // What it leads to in their place goes on counting until it can be read.
                mark!(TailPageUnreadable);
                Ok(())
            }
            None => {
                mark!(TailPageDamaged);
                let at = parent.location(&geometry).expect("a patched page is on media");
                Err(OpenError::MapDamaged(at))
            }
        }
    }

    /// Whether the tail says that a page could not be read.
    fn is_known_unreadable(&self, volume: u16, page: u64) -> bool {
        let bases = &self.opening.as_ref().expect("the pool is being opened").bases;
        bases.unreadable.contains(&(volume, page))
    }
}
