//! Static wear levelling: what rests on little-worn units goes to worn ones, so that the former take part again.
//!
//! A unit that holds data at rest is not erased while the others are. Its blocks are copied, as they lie, into the most
//! worn of the free units, which then rests in its place (after the dual-pool algorithm of Chang, SAC 2007). What rests
//! stays together: among the survivors of garbage collection it would lie beside blocks that die, and be copied again
//! and again with what remains of them.

use std::cmp::Reverse;
use std::ops::Range;

use thermocline_types::{Cause, UnitId};

use super::collect::PREFETCHED;
use super::{Ftl, Media};
use crate::UnitState;
use crate::placement::Placement;

/// Erases between two looks for uneven wear, so that levelling adds at most a sixteenth to the erases. Chosen, not
/// measured.
pub(super) const LEVELLING_PERIOD: u64 = 16;
/// Units looked at each time. Chosen to cost nothing beside the copying of a unit.
const LEVELLING_WINDOW: u32 = 256;
/// Data rests if its unit was not erased for as many writes of the host as it takes to erase every unit so often in the
/// mean. Without this rule a little-worn unit that came into use again, and holds what is being overwritten, would be
/// the next to be moved. Chosen: uniform writes, of which nothing rests, cost 0.097 blocks of levelling for each of the
/// host's with 1, and 0.009 with 2 (pci-c cut to 16 MiB, 300 cycles, a spread of 6).
const RESTING_ROUNDS: u32 = 2;

impl<P: Placement> Ftl<P> {
    /// Once per [`LEVELLING_PERIOD`] erases, and only while the reserve is whole, looks at the next
    /// [`LEVELLING_WINDOW`] units of the pool, and has the least erased one of those that hold data at rest change
    /// places with the most erased free one if they are too far apart.
    pub(super) fn level_wear(&mut self, pool: usize, media: &mut impl Media) {
        let Some(spread) = self.levelling else { return };
        if self.erased < self.levelled_at + LEVELLING_PERIOD || self.pools[pool].is_short() {
            return;
        }
        self.levelled_at = self.erased;
        let most_worn = self.pools[pool].free.iter().map(|&Reverse(key)| key).max();
        let resting = self.least_worn_at_rest(pool);
        if let (Some(unit), Some((erases, worn))) = (resting, most_worn)
            && erases.saturating_sub(self.units.erases(unit)) > spread
        {
            self.pools[pool].free.retain(|&Reverse((_, free))| free != worn);
            self.change_places(unit, UnitId(worn), Cause::WearLevelling, media);
        }
    }

    /// Whether `unit` is closed and most of it is valid.
    pub(super) fn rests(&self, unit: UnitId) -> bool {
        let closed = self.units.state(unit) == UnitState::Closed;
        closed && 2 * self.units.valid_count(unit) >= self.units.blocks_per_unit()
    }

    /// Copies what is valid in the closed `unit` into the most worn free unit of its pool, and erases it. Returns
    /// whether it did: only while the reserve is whole.
    pub(super) fn refresh_as_it_lies(&mut self, unit: UnitId, media: &mut impl Media) -> bool {
        let pool = usize::from(self.topology.pool(self.units.class(unit)));
        let most_worn = self.pools[pool].free.iter().map(|&Reverse(key)| key).max();
        let Some((_, worn)) = most_worn.filter(|_| !self.pools[pool].is_short()) else {
            return false;
        };
        self.pools[pool].free.retain(|&Reverse((_, free))| free != worn);
        self.change_places(unit, UnitId(worn), Cause::Refresh, media);
        true
    }

    /// The least erased of the next units of the pool that hold data at rest.
    fn least_worn_at_rest(&mut self, pool: usize) -> Option<UnitId> {
        let Range { start, end } = self.pools[pool].units;
        let window = (end - start).min(LEVELLING_WINDOW);
        let hand = self.pools[pool].levelled;
        self.pools[pool].levelled = (hand + window) % (end - start);
        let writes = u128::from(self.host_writes) * u128::from(RESTING_ROUNDS);
        let resting = (writes * u128::from(end - start) / u128::from(self.erased.max(1))) as u64;
        let before = self.host_writes.saturating_sub(resting);
        (0..window)
            .map(|step| UnitId(start + (hand + step) % (end - start)))
            .filter(|&unit| self.units.state(unit) == UnitState::Closed)
            .filter(|&unit| self.units.closed_at(unit) < before)
            .min_by_key(|&unit| self.units.erases(unit))
    }

    /// Copies the valid blocks of the closed unit `from` into the free unit `to`, which was taken from its pool, and
    /// erases `from`. As many units are free after it as before `to` was taken, unless `from` is worn out.
    fn change_places(&mut self, from: UnitId, to: UnitId, cause: Cause, media: &mut impl Media) {
        let shape = self.reverse_map.shape();
        let (class, closed_at) = (self.units.class(from), self.units.closed_at(from));
        let pool = self.topology.pool(class);
        let mut blocks = std::mem::take(&mut self.scratch);
        blocks.clear();
        self.reverse_map.valid_blocks(from, &mut blocks);
        let updated = self.units.mean_update(from);
        self.units.begin_relocation(from);
        self.units.open(to, class);
        let mut written = 0;
        for some in blocks.chunks(PREFETCHED) {
            some.iter().for_each(|&(_, lba)| _ = std::hint::black_box(self.map.get(lba)));
            for &(offset, lba) in some {
                media.read(shape.pba(from, offset));
                let pba = shape.pba(to, written);
                written += 1;
                self.reverse_map.program(pba, lba);
                self.units.add_valid(to);
                self.placement.stored(lba, to, self.host_writes);
                self.programmed[cause.index()] += 1;
                media.program(pba, Some(lba), cause);
                if self.units.tracks_updates() {
                    self.units.note_update(to, updated);
                }
                self.map.relocate(lba, pba);
            }
        }
        // The copy keeps the age of the data: an age-based victim policy must see data at rest.
        self.units.close(to, written, closed_at);
        self.copied_from += u64::from(!blocks.is_empty());
        self.scratch = blocks;
        self.reverse_map.erase(from);
        self.erase(from, pool, media);
    }
}
