//! Patched pages whose base is only on media: the moment when the replaced values become known.

use thermocline_format::VolumeId;
use thermocline_types::UnitId;

use crate::bugs::bug;
use crate::engine::{Parts, Phase};
use crate::flights::Flights;
use crate::map::{Addresses, Base, Mapping, PAGE, Value};
use crate::marks::mark;
use crate::payload::Payload;
use crate::space::Space;
use crate::volumes::PageCursor;

/// Selects the replaced values that must be known of a page that no record points at yet. These are blocks in flight,
/// and blocks in the range of a trim in flight. After a failed write the replaced values decide which blocks are
/// rewritten.
pub(super) fn flying<P>(
    space: &Space,
    flights: &Flights<P>,
    addresses: Addresses,
) -> impl Fn(VolumeId, u64, Value) -> bool {
    let trims: Vec<_> = flights.trims().collect();
    move |volume, lba, value| {
        space.has_writers(addresses.location(value.address()).unit)
            || trims.iter().any(|(of, blocks)| *of == volume && blocks.contains(&lba))
    }
}

impl<P: Payload> Parts<P> {
    /// What a page leads to in place of patched entries is known from now on: it counts no more, but for what waits in
    /// the write cache to be replaced.
    pub(crate) fn settle_bases(&mut self, volume: u16, bases: Vec<Base>) {
        for Base { lba, value, slot } in bases {
            let Some(value) = value else { continue };
            // The block counted as new when it was written.
            self.volumes.map_less(u64::from(!value.is_nowhere()));
            let replaces = |slot: &u32| self.cache.block(*slot).old.is_none();
            match slot.filter(replaces).filter(|_| !bug!(self.config, BaseOfStagedDropped)) {
                Some(slot) => {
                    mark!(BaseStaged);
                    self.cache.replaces(slot, value);
                }
                None => {
                    mark!(BaseSettled);
                    self.drop_base(volume, lba, value);
                }
            }
        }
    }

    fn drop_base(&mut self, volume: u16, lba: u64, value: Value) {
        self.note_move(PageCursor::at(volume, lba / PAGE), Some(value), None);
        self.drop_value(value);
    }

    /// Whether the block at `value`, which counts as valid, is the newest of `lba`, whose page is patched: not if it is
    /// what the page leads to, and was replaced since.
    fn is_not_replaced(&mut self, volume: u16, lba: u64, value: Value) -> bool {
        let Some(said) = self.volumes.map(volume).said(lba) else { return true };
        let is_newest = self.leads_to(said.mapping) == Some(value);
        if is_newest || !said.counted {
            return is_newest;
        }
        mark!(BaseMet);
        let slot = match said.mapping {
            Mapping::Staged(slot) => Some(slot),
            Mapping::Unmapped | Mapping::At(_) => None,
        };
        self.volumes.map_mut(volume).settle_base(lba);
        self.settle_bases(volume, vec![Base { lba, value: Some(value), slot }]);
        self.on_media(volume, lba) == Some(value)
    }

    /// A block in `page` stands in unit `to` from now on, and not where `from` says: the unit table may have to know.
    #[inline]
    pub(crate) fn note_move(&mut self, page: PageCursor, from: Option<Value>, to: Option<UnitId>) {
        if self.unit_table.has_written(page) {
            let from = from.filter(|value| !value.is_nowhere()).map(|value| self.unit_of(value));
            self.unit_table.move_ahead(from, to);
        }
    }

    /// The block that `value` means is not valid any more. Until the recovery of an earlier crash is itself safe from a
    /// crash, it is: chunks of this opening would not be replayed.
    pub(crate) fn drop_value(&mut self, value: Value) {
        match self.phase {
            _ if value.is_nowhere() => return,
            Phase::Opening => return, // Counted when the replay is over.
            _ if self.superblocks.are_settled()
                || bug!(self.config, BlocksDieBeforeRecoveryIsSafe) => {}
            _ => {
                let unit = self.unit_of(value);
                if self.space.units().class(unit) != self.config.metadata_class() {
                    self.unit_table.keep(unit);
                    self.space.touch(unit);
                }
                return self.superblocks.keep(value);
            }
        }
        self.space.drop_block(value.address());
    }

    /// Where the block of `lba` is on media, or was before what is staged, as far as that is known.
    pub(crate) fn on_media(&self, volume: u16, lba: u64) -> Option<Value> {
        self.leads_to(self.volumes.map(volume).look_up(lba)?)
    }

    /// Where a block of which the map says this is on media, or was before what is staged, as far as that is known.
    fn leads_to(&self, mapping: Mapping) -> Option<Value> {
        match mapping {
            Mapping::Unmapped => None,
            Mapping::At(value) => Some(value),
            Mapping::Staged(slot) => self.cache.block(slot).old,
        }
    }

    /// Whether the block at `value` is the valid one of `lba`; `None` if the answer needs the page.
    #[inline]
    pub(crate) fn is_valid(&mut self, volume: u16, lba: u64, value: Value) -> Option<bool> {
        match self.space.counts(value.address()) {
            Some(true) if self.volumes.map(volume).is_patched(lba / PAGE) => {
                Some(self.is_not_replaced(volume, lba, value))
            }
            None if self.volumes.map(volume).is_loaded(lba / PAGE) => {
                Some(self.on_media(volume, lba) == Some(value))
            }
            counts => counts,
        }
    }

    /// Where the blocks of a page are on media, or those of its patch.
    pub(crate) fn values_in(&self, volume: u16, page: u64) -> Vec<(u64, Value)> {
        let map = self.volumes.map(volume);
        if !map.is_loaded(page) {
            let said = map.all_said(page);
            return said.filter_map(|said| Some((said.lba, said.mapping.value()?))).collect();
        }
        let blocks = page * PAGE..((page + 1) * PAGE).min(map.blocks);
        blocks.filter_map(|lba| Some((lba, map.get(lba).value()?))).collect()
    }
}
