//! Blocks that count: their parent entries, and the check of their contents.

use std::fmt::Debug;

use thermocline_format::{PageId, VolumeId};
use thermocline_types::Lba;

use crate::engine::Parts;
use crate::map::Value;
use crate::payload::Payload;
use crate::request::Extent;

/// A user block or a map page, which counts if a parent entry points at the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(super) volume: VolumeId,
    pub(super) lba: Lba,
    pub(super) value: Value,
}

impl Counted {
    /// The location and the tag.
    pub(crate) fn value(&self) -> Value {
        self.value
    }

    /// Whether a map, or the parent entry of a page, points at the block.
    pub(super) fn counts<P: Payload>(self, p: &Parts<P>) -> bool {
        let Counted { volume, lba: Lba(lba), value } = self;
        if volume.is_user() {
            let index = p.volumes.layer(volume);
            return index.is_some_and(|index| {
                lba < p.volumes.map(index).blocks && p.on_media(index, lba) == Some(value)
            });
        }
        let page = PageId::from_lba(Lba(lba));
        if volume == VolumeId::UNITS {
            let at = p.unit_table.pages().get(page.index as usize);
            return at.is_some_and(|at| at.pack() == value.entry());
        }
        let Some(index) = p.volumes.layer(page.volume) else { return false };
        let map = p.volumes.map(index);
        let entry = match volume {
            VolumeId::MAP if u64::from(page.index) < map.pages() => map.page_at(page.index.into()),
            VolumeId::ROOT => match map.root_at(page.index as usize) {
                Some(at) => at,
                None => return false,
            },
            _ => return false,
        };
        entry.pack() == value.entry()
    }

    /// The blocks of a volume for which a block or a page of a map counts.
    pub(super) fn extent<P: Payload>(self, p: &Parts<P>) -> Option<Extent> {
        let Counted { volume, lba, .. } = self;
        if volume.is_user() {
            return Some(Extent { volume, lba: lba.0, blocks: 1 });
        }
        let page = PageId::from_lba(lba);
        let index = p.volumes.layer(page.volume).filter(|_| volume == VolumeId::MAP)?;
        Some(p.extent_of_page(index, page.index.into()))
    }

    /// Whether block `nth` of `data` is a block that counts.
    pub(crate) fn is_right<P: Payload>(self, p: &Parts<P>, data: &P, nth: u32) -> bool {
        let expected = match self.volume.is_user() {
            true => self.value.of_bytes(self.volume, self.lba.0),
            false => self.value,
        };
        let at = p.addresses.location(self.value.address());
        p.arrived(data, nth, at, |crc| expected.matches(crc))
    }
}
