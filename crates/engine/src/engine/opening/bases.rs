//! Bases: the old locations, in pages on media, of blocks that the tail has moved or trimmed. The old locations become
//! invalid.
//!
//! The opening reads the pages in turn and keeps only the changed entries. Memory therefore does not grow with the
//! tail. The valid counts must be right before the first write: units reset since the checkpoint still count the
//! replaced blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use thermocline_format::{MapEntry, MapPage, PAGE_ENTRIES, PageId};
use thermocline_types::Version;

use super::Recovery;
use super::asking::ASKED;
use super::unmapped::OfPage;
use crate::bugs::bug;
use crate::device::{DeviceCmd, Done};
use crate::engine::Parts;
use crate::map::{Value, Wanted};
use crate::marks::mark;
use crate::pages::WORDS;
use crate::payload::Payload;
use crate::request::OpenError;
use crate::volumes::{PageCursor, Walk};

/// How often a page is read before it counts as unreadable. Chosen, not measured.
const TRIES: u8 = 4;

/// A page on its way.
#[derive(Clone, Copy, Debug)]
struct Reading {
    volume: u16,
    page: u64,
    at: MapEntry,
    /// The blocks of the page that the tail unmaps.
    unmapped: Option<OfPage>,
    /// How often it may still be read.
    tries: u8,
}

/// How far the pages that the tail changes have been read.
#[derive(Debug)]
pub(super) struct Bases {
    /// Next position of the walk through the patched pages; `None` behind the last page.
    next: Option<PageCursor>,
    /// Pages being read, by number.
    reading: BTreeMap<usize, Reading>,
    asked: usize,
    /// How many of these are read for what the tail unmaps.
    unmapped: usize,
    /// Pages of which the tail says that they could not be read.
    unreadable: BTreeSet<(u16, u64)>,
}

impl Default for Bases {
    fn default() -> Bases {
        let (next, unreadable) = (Some(PageCursor::default()), BTreeSet::new());
        Bases { next, reading: BTreeMap::new(), asked: 0, unmapped: 0, unreadable }
    }
}

impl Bases {
    /// The page being read as number `index`, and its location.
    pub(super) fn page(&self, index: usize) -> Option<(u16, u64, MapEntry)> {
        let reading = self.reading.get(&index)?;
        Some((reading.volume, reading.page, reading.at))
    }

    /// Whether all have been read.
    pub(super) fn are_known(&self) -> bool {
        self.next.is_none() && self.reading.is_empty()
    }

    /// The tail says that the page could not be read when it was to be written anew.
    pub(super) fn may_be_unreadable(&mut self, volume: u16, page: u64) {
        self.unreadable.insert((volume, page));
    }
}

impl<P: Payload> Recovery<P> {
    /// Asks for some of the pages that the tail changes. Returns whether anything was done.
    pub(super) fn read_bases(&mut self, p: &mut Parts<P>) -> bool {
        self.read_unmapped(p) || self.read_patched(p)
    }

    /// Asks for some of the pages of which the tail unmaps blocks. The pages may be patched after the read.
    fn read_unmapped(&mut self, p: &mut Parts<P>) -> bool {
        let mut worked = false;
        while self.asked < ASKED
            && let Some(((volume, page), unmapped)) = self.unmapped.pop()
        {
            worked = true;
            let at = unmapped.cut.unwrap_or_else(|| p.volumes.map(volume).page_at(page));
            let unmapped = Some(unmapped);
            self.read_base(p, Reading { volume, page, at, unmapped, tries: TRIES });
        }
        worked
    }

    /// Asks for some of the pages that are patched, when those of which blocks were unmapped have been read.
    fn read_patched(&mut self, p: &mut Parts<P>) -> bool {
        let (mut budget, mut worked) = (WORDS, false);
        while self.asked < ASKED
            && self.bases.unmapped == 0
            && let Some(mut cursor) = self.bases.next
        {
            worked = true;
            let walk = p.next_page(&mut cursor, Wanted::Dirty, &mut budget);
            self.bases.next = (walk != Walk::End).then_some(cursor);
            match walk {
                Walk::Found(volume, page) if p.volumes.map(volume).has_bases(page) => {
                    let at = p.volumes.map(volume).page_at(page);
                    self.read_base(p, Reading { volume, page, at, unmapped: None, tries: TRIES });
                }
                Walk::Found(..) | Walk::End => {}
                Walk::Pause => break,
            }
        }
        worked
    }

    fn read_base(&mut self, p: &mut Parts<P>, reading: Reading) {
        let at = reading.at.location(&p.config.geometry).expect("the page is on media");
        let bases = &mut self.bases;
        let index = bases.asked;
        bases.asked += 1;
        bases.unmapped += usize::from(reading.unmapped.is_some());
        bases.reading.insert(index, Reading { tries: reading.tries - 1, ..reading });
        self.ask(p, index, DeviceCmd::ReadPage { at, version: Version::AS_READ });
    }

    /// A page that the tail changes was read, or could not be.
    pub(super) fn base_read(
        &mut self,
        p: &mut Parts<P>,
        index: usize,
        done: Option<Done<P>>,
    ) -> Result<(), OpenError> {
        let bases = &mut self.bases;
        let reading = bases.reading.remove(&index).expect("it was asked for");
        let Reading { volume, page, at, unmapped, tries } = reading;
        bases.unmapped -= usize::from(unmapped.is_some());
        let geometry = p.config.geometry;
        let id = PageId { volume: p.volumes.map(volume).id, index: page as u32 };
        let decoded = match done {
            Some(Done::Page(bytes)) => MapPage::decode(bytes.as_slice(), id, at, &geometry).ok(),
            _ => None,
        };
        let cut = unmapped.is_some_and(|unmapped| unmapped.cut.is_some());
        match decoded {
            Some(MapPage(entries)) => {
                self.base_known(p, &reading, &entries);
                Ok(())
            }
            None if tries > 0 => {
                mark!(TailPageReadAgain);
                self.read_base(p, reading);
                Ok(())
            }
            None if !cut && self.is_known_unreadable(volume, page) => {
                // The bases in an unreadable page keep counting until the page is readable.
                mark!(TailPageUnreadable);
                if let Some(unmapped) = unmapped {
                    p.volumes.map_mut(volume).unmap_unread(page, &unmapped.blocks);
                }
                Ok(())
            }
            None => {
                mark!(TailPageDamaged);
                Err(OpenError::MapDamaged(at.location(&geometry).expect("it was read there")))
            }
        }
    }

    /// What a page leads to in place of what the tail changes counts no more.
    fn base_known(&mut self, p: &mut Parts<P>, reading: &Reading, read: &[MapEntry; PAGE_ENTRIES]) {
        let map = p.volumes.map_mut(reading.volume);
        let known: Vec<Value> = match reading.unmapped {
            None => map.settle_bases(reading.page, read),
            Some(OfPage { blocks, cut: None }) => map.unmap_read(reading.page, &blocks, read),
            Some(OfPage { blocks, cut: Some(_) }) => {
                let counted = |(block, entry): (usize, &MapEntry)| {
                    (blocks[block / 64] >> (block % 64) & 1 == 1)
                        .then_some(Value::of_entry(entry.pack()))
                };
                read.iter().enumerate().filter_map(counted).flatten().collect()
            }
        };
        p.volumes.note_pages(reading.volume);
        for value in known.into_iter().filter(|value| !value.is_nowhere()) {
            let unit = p.unit_of(value);
            if !bug!(p.config, TouchedPageNotCounted) && p.space.uncount(unit) {
                p.volumes.map_less(1);
            }
        }
    }

    /// Whether the tail says that a page could not be read.
    fn is_known_unreadable(&self, volume: u16, page: u64) -> bool {
        let bases = &self.bases;
        bases.unreadable.contains(&(volume, page))
    }
}
