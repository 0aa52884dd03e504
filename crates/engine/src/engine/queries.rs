//! Questions to an engine, and settings that are no requests.

use thermocline_format::{
    Geometry, Location, MediaClass, OLDEST_VERSION, Superblock, VERSION, VolumeId,
};
use thermocline_ftl::UnitState;
use thermocline_ftl::placement::Classifier as _;
use thermocline_types::{DeviceId, Lba, Time, UnitId, Version};

use crate::device::PageBytes;
use crate::engine::occupancy::Occupancy;
use crate::engine::runs::Run;
use crate::engine::scrub::{Asked, Pace, ScrubProgress};
use crate::engine::{Engine, Phase};
use crate::map::{FRAME_BYTES, PAGE, VolumeMap};
use crate::payload::Payload;
use crate::request::{Extent, HostError};
use crate::stats::{Memory, Stats, WrittenOn};
use crate::volumes::VolumeInfo;

impl<P: Payload> Engine<P> {
    /// While what is lost is looked for, the share of all maps that was looked through.
    #[must_use]
    pub fn losing(&self) -> Option<f64> {
        self.losing.share(&self.parts)
    }

    /// Blocks of hosts that wait in memory or are on their way to media.
    #[must_use]
    pub fn staged_blocks(&self) -> u32 {
        self.parts.cache.host_blocks()
    }

    /// The most that these may be before further writes are [`Rejected::Busy`].
    ///
    /// [`Rejected::Busy`]: crate::Rejected::Busy
    #[must_use]
    pub fn max_staged_blocks(&self) -> u32 {
        self.parts.config.max_staged_blocks
    }

    /// Blocks that hosts wrote and that a power cut may take: they wait in memory, are on their way to media, or are
    /// there without a flush since. A block overwritten in memory counts once. A block trimmed in memory counts until
    /// its slot is sealed.
    #[must_use]
    pub fn at_risk_blocks(&self) -> u64 {
        let waiting = u64::from(self.parts.cache.waiting());
        waiting + self.parts.flights.launched() - self.parts.durability.host_blocks()
    }

    /// The version of the format that the pool is written in: the newest only if it had a snapshot.
    #[must_use]
    pub fn format_version(&self) -> u16 {
        let newest = self.parts.superblocks.durable().is_some_and(|record| record.snapshots);
        if newest { VERSION } else { OLDEST_VERSION }
    }

    /// The volumes and their snapshots, by rising identifier.
    #[must_use]
    pub fn volumes(&self) -> Vec<VolumeInfo> {
        let volumes = &self.parts.volumes;
        let info = |index: u16| {
            let VolumeMap { user: id, blocks, media, reserve, traffic, .. } = *volumes.map(index);
            let (name, mapped) = (volumes.name(index), volumes.in_use(index));
            let snapshot_of = volumes.snapshot_of(index).map(|top| volumes.map(top).user);
            let clone_of = volumes.clone_of(index).map(|snapshot| volumes.map(snapshot).user);
            let clone_of = clone_of.filter(|_| snapshot_of.is_none());
            VolumeInfo { id, name, blocks, media, snapshot_of, clone_of, mapped, reserve, traffic }
        };
        volumes.users().map(info).collect()
    }

    /// Identity of the pool; all zeros before a superblock was found.
    #[must_use]
    pub fn pool_id(&self) -> thermocline_format::PoolId {
        self.parts.pool
    }

    /// Mapped blocks of all volumes, including blocks of deleted volumes until they are unmapped. Too high by
    /// [`Engine::doubled_blocks`] at most.
    #[must_use]
    pub fn mapped_blocks(&self) -> u64 {
        self.parts.volumes.mapped()
    }

    /// Blocks that the pool holds if its volumes are written all over, and no less than are mapped.
    #[must_use]
    pub fn holds_blocks(&self) -> u64 {
        let sizes = self.parts.volumes.alive().into_iter().map(|map| map.blocks);
        self.parts.config.capacity_among(sizes).max(self.mapped_blocks())
    }

    /// Blocks that may count twice as mapped: the old mapping is known only to a map page on media. The count is 0
    /// after an opening.
    #[must_use]
    pub fn doubled_blocks(&self) -> u64 {
        self.parts.volumes.tally().doubled
    }

    /// A unit of which more or fewer blocks count as valid than the maps lead to, or other ones, or that holds more or
    /// fewer pages of maps and of the unit table than it is counted for: how many count, and how many there are. Looks
    /// at every block, for tests; `read` gives what is on media of pages that are not in memory. `None`, too, if one
    /// of these cannot be read, or the pool is not open for writing.
    #[must_use]
    pub fn miscounted(
        &self,
        read: impl Fn(Location) -> Option<PageBytes>,
    ) -> Option<(UnitId, u32, u32)> {
        if !self.parts.superblocks.are_settled() || self.parts.phase != Phase::Open {
            return None;
        }
        let mut led_to = vec![0; self.parts.config.geometry.units() as usize];
        for index in self.parts.volumes.indices() {
            for page in 0..self.parts.volumes.map(index).pages() {
                for value in self.parts.values_on_media(index, page, &read)? {
                    let unit = self.parts.unit_of(value);
                    led_to[unit.index()] += 1;
                    if self.parts.space.counts(value.address()) == Some(false) {
                        return Some((unit, 0, 1));
                    }
                }
            }
        }
        let of_pages = self.parts.pages_by_unit();
        let metadata = self.parts.config.metadata_class();
        (0..self.parts.config.geometry.units()).map(UnitId).find_map(|unit| {
            let count = self.parts.space.units().valid_count(unit);
            let of_users = self.parts.space.units().class(unit) != metadata;
            let there = if of_users { led_to[unit.index()] } else { of_pages[unit.index()] };
            let same = || self.parts.space.known_valid(unit).is_none_or(|known| known == count);
            (count != there || of_users && !same()).then_some((unit, count, there))
        })
    }

    /// Whether the pool was closed, and nothing is left to replay. Something is where a page of a map could not be read
    /// to be written anew.
    #[must_use]
    pub fn is_closed_clean(&self) -> bool {
        self.parts.phase == Phase::Closed
            && self.parts.superblocks.durable().is_some_and(|last| last.clean)
    }

    /// Bytes of memory that maps take now, as in [`Engine::memory`], which looks through more.
    #[must_use]
    pub fn map_memory(&self) -> u64 {
        let unmapped = self.recovery.as_ref().map_or(0, |recovery| recovery.unmapped_bytes());
        self.parts.volumes.memory_bytes() + unmapped
    }

    /// Memory that maps take at most, now: what leads to pages, and the pages that the budget is for. From an opening
    /// until the first checkpoint after it these may be twice as many, each a patch of a whole page, and four more
    /// in a pool that failed. What an opening replays may have needed pages of the deepest stack.
    #[must_use]
    pub fn map_memory_bound(&self) -> u64 {
        let opens = self.parts.phase == Phase::Opening || self.parts.pages.has_excess();
        let deepest =
            if opens && self.parts.snapshots { self.parts.config.most_layers.into() } else { 0 };
        let all = self.parts.frame_limit().max(self.parts.least_pages(deepest));
        let pages =
            all + if opens { all } else { 0 } + if self.parts.phase_failed() { 4 } else { 0 };
        let each = if opens { VolumeMap::patch_bytes_for(1, PAGE) } else { FRAME_BYTES };
        self.parts.volumes.fixed_bytes() + pages * each
    }

    /// How much of the units the scrub in progress has looked at, 0 to 1; 1 when there is none.
    #[must_use]
    pub fn scrubbed(&self) -> f64 {
        let units = f64::from(self.parts.config.geometry.units());
        self.scrubber.unit().map_or(1.0, |unit| f64::from(unit.0) / units)
    }

    /// Valid blocks in units of `media`, less the blocks that staged writes will overwrite. Looks at each unit.
    #[must_use]
    pub fn valid_blocks_on(&self, media: MediaClass) -> u64 {
        let units = self.parts.config.geometry.units_of(media).map(UnitId);
        let metadata = self.parts.config.metadata_class();
        let data = units.filter(|unit| self.parts.space.units().class(*unit) != metadata);
        data.map(|unit| u64::from(self.parts.space.units().valid_count(unit))).sum()
    }

    /// From now on, or no longer, what hosts write goes to the devices for capacity at once, but for that of volumes
    /// which are to be on fast ones. The metadata goes there all the same.
    pub fn spare_fast(&mut self, spare: bool) {
        self.parts.spares_fast = spare;
    }

    /// What was written to the devices of a class of media, by cause.
    #[must_use]
    pub fn written_on(&self, media: MediaClass) -> WrittenOn {
        WrittenOn::new(&self.parts.stats, media, self.parts.config.geometry.is_tiered())
    }

    /// As [`Engine::reserve_for`], also if the pool has less room. Other volumes map no new blocks then.
    pub fn hold_for(&mut self, volume: VolumeId, blocks: u64) {
        if let Some(index) = self.parts.volumes.index(volume) {
            self.parts.volumes.set_reserve(index, blocks);
        }
    }

    /// The answer to a read of a device is that of this version, because a member that was asked first reported an
    /// error. To be said before [`Engine::handle_completion`].
    pub fn degraded(&mut self, op: crate::OpId, version: Version) {
        self.parts.healing.degraded(op.0 as usize, version);
    }

    /// Units for capacity that must be empty on the devices that remain when one is to be drained: what relocation and
    /// maps hold for themselves, and one for copies, which free others.
    #[must_use]
    pub fn least_empty(&self) -> u32 {
        self.parts.least_empty()
    }

    /// Scrubs the units from `from` on, slowly, beside everything else. [`crate::Notice::Scrubbed`] reports the end. A
    /// pool that fails or is closed gives the scrub up. Returns whether it has begun: another scrub, or a pool that is
    /// not open, prevents the start.
    pub fn scrub_in_background(&mut self, now: Time, from: UnitId) -> bool {
        self.handle_timeout(now);
        let begins = self.parts.phase == Phase::Open && self.scrubber.is_idle();
        if begins {
            let pace = Pace::new(self.parts.now);
            self.scrubber.begin(&mut self.parts, Asked::Background(pace), from);
            self.settled = false;
        }
        begins
    }

    /// Stops the scrub in the background. No notice reports its end.
    pub fn stop_scrub(&mut self, now: Time) {
        self.scrubber.stop_background();
        self.settled = false;
        self.handle_timeout(now);
    }

    /// The newest superblock record that is durable.
    #[must_use]
    pub fn superblock(&self) -> Option<&Superblock> {
        self.parts.superblocks.durable()
    }

    /// Memory held, by purpose. Payloads are counted as if each was 4096 bytes.
    #[must_use]
    pub fn memory(&self) -> Memory {
        Memory {
            maps: self.parts.volumes.memory_bytes(),
            units: self.parts.space.memory_bytes() + self.parts.unit_table.memory_bytes(),
            placement: self.parts.config.placement.memory_bytes() as u64,
            waiting: self.parts.cache.memory_bytes(),
        }
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.parts.stats
    }

    /// The units of the pool: what each is doing and how many of its blocks are valid.
    #[must_use]
    pub fn units(&self) -> &thermocline_ftl::Units {
        self.parts.space.units()
    }

    /// Brings the map's entry of a block towards the cache, ahead of a request for it. Changes nothing.
    #[inline]
    pub fn prefetch(&self, volume: thermocline_format::VolumeId, lba: u64) {
        if let Some(index) = self.parts.volumes.index(volume)
            && lba < self.parts.volumes.map(index).blocks
        {
            let map = self.parts.volumes.map(index);
            map.prefetch(lba);
            self.parts.config.placement.prefetch(Lba(map.base + lba));
        }
    }

    /// Whether a checkpoint is being written.
    #[must_use]
    pub fn is_checkpointing(&self) -> bool {
        self.parts.due.is_under_way()
    }

    /// Units that can be written now or after the next superblock record.
    #[must_use]
    pub fn free_units(&self) -> u32 {
        self.parts.space.free_units(MediaClass::Capacity)
            + self.parts.space.free_units(MediaClass::Fast)
    }

    /// The devices as the pool uses them.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.parts.config.geometry
    }

    /// Units of a device that hold something, or may be written: of one that is drained, none is left in the end, and
    /// once the pool was closed after that the device can be detached. Looks at each unit.
    #[must_use]
    pub fn units_in_use(&self, device: DeviceId) -> u32 {
        let geometry = &self.parts.config.geometry;
        let units = geometry.device_units().find(|(one, _)| *one == device).map(|(_, units)| units);
        let used = |unit: &UnitId| self.parts.space.units().state(*unit) != UnitState::Retired;
        let data = |unit: &UnitId| !geometry.is_superblock_unit(*unit);
        units.into_iter().flatten().map(UnitId).filter(data).filter(used).count() as u32
    }

    /// As [`Engine::free_units`], on a class of media.
    #[must_use]
    pub fn free_units_of(&self, media: MediaClass) -> u32 {
        self.parts.space.free_units(media)
    }

    /// Runs of blocks from the first of `extent` on, at least one and at most `count`: all of the extent, or as much of
    /// it as is looked at for one question. What is not in memory yet counts as mapped.
    ///
    /// # Errors
    /// [`HostError::NoVolume`] and [`HostError::OutOfRange`].
    pub fn runs(&self, extent: Extent, count: usize) -> Result<Vec<Run>, HostError> {
        self.parts.runs(extent, count)
    }

    /// As [`Engine::runs`], of blocks that changed since a snapshot below the volume or snapshot that `extent` names.
    /// Blocks that did not change read the same in both. What is not in memory yet counts as changed, but for pages of
    /// 512 blocks that no layer above the snapshot has.
    ///
    /// # Errors
    /// As [`Engine::runs`]; [`HostError::NoVolume`] also if `since` is no snapshot below.
    pub fn changed(
        &self,
        extent: Extent,
        since: VolumeId,
        count: usize,
    ) -> Result<Vec<Run>, HostError> {
        self.parts.changed(extent, since, count)
    }

    /// How much of the pool is taken now.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        self.parts.occupancy()
    }

    /// Keeps `blocks` blocks writable for a volume until the engine is dropped, the mapped ones included; 0 ends the
    /// reservation. Writes to other volumes that would need the reserved room get [`HostError::NoSpace`].
    ///
    /// # Errors
    /// [`HostError::NoVolume`], and [`HostError::NothingToReserve`] if the pool has less room. Nothing changed then.
    pub fn reserve_for(&mut self, volume: VolumeId, blocks: u64) -> Result<(), HostError> {
        self.parts.reserve_for(volume, blocks)
    }

    /// Gives up blocks that cannot be read: reading them is an error until they are written again or trimmed, and their
    /// units can be collected. Leaves out blocks of which the page of the map is not in memory: a block that was just
    /// read has its page in memory. Returns how many blocks were given up, which a checkpoint makes durable.
    ///
    /// # Errors
    /// [`HostError`]: of a pool that is not open, and of blocks that are not in a volume.
    pub fn give_up(&mut self, extent: Extent) -> Result<u64, HostError> {
        let count = self.parts.give_up(extent)?;
        self.settled = false;
        Ok(count)
    }

    /// The scrub in the background, while there is one.
    #[must_use]
    pub fn background_scrub(&self) -> Option<ScrubProgress> {
        self.scrubber.in_background()
    }
}

#[cfg(test)]
mod tests {
    use thermocline_ftl::UnitState;
    use thermocline_types::Class;

    use super::*;
    use crate::engine::parts::testing::{free, parts};
    use crate::map::{Mapping, Value};

    /// An engine of [`parts`], of which unit 9 is open.
    fn engine() -> Engine<()> {
        let mut parts = parts();
        free(&mut parts, 9, 1);
        parts.space.open(Class(0), MediaClass::Capacity).expect("a free unit");
        let mut engine = Engine::open(parts.config.clone(), 1).expect("a sound configuration");
        (engine.parts, engine.recovery) = (parts, None);
        engine
    }

    fn miscounted(engine: &Engine<()>) -> Option<(u32, u32, u32)> {
        let (unit, counted, there) = engine.miscounted(|_| None)?;
        Some((unit.0, counted, there))
    }

    /// Block `lba` of the volume is at `block` of `unit`. Returns the address.
    fn map(engine: &mut Engine<()>, lba: u64, unit: u32, block: u32) -> u64 {
        let at = Location { unit: UnitId(unit), block };
        let address = engine.parts.config.geometry.address(at);
        engine.parts.volumes.map_mut(0).set(lba, Mapping::At(Value::new(address, 0)));
        address
    }

    #[test]
    fn a_unit_is_miscounted_if_its_count_or_its_blocks_differ_from_what_the_map_leads_to() {
        let mut engine = engine();
        assert_eq!(miscounted(&engine), None);
        let first = map(&mut engine, 0, 9, 1);
        assert_eq!(miscounted(&engine), Some((9, 0, 1)));
        engine.parts.space.add_block(first);
        assert_eq!(miscounted(&engine), None);
        engine.parts.space.add_block(first + 1);
        assert_eq!(miscounted(&engine), Some((9, 2, 1)));
        map(&mut engine, 0, 9, 3);
        assert_eq!(miscounted(&engine), Some((9, 0, 1)), "another block");
        engine.parts.superblocks.set_settled(false);
        assert_eq!(miscounted(&engine), None, "counts are not final");
        engine.parts.superblocks.set_settled(true);
        engine.parts.phase = Phase::Closing;
        assert_eq!(miscounted(&engine), None);
    }

    #[test]
    fn a_unit_of_metadata_is_miscounted_if_other_pages_are_there() {
        let mut engine = engine();
        let metadata = engine.parts.config.metadata_class();
        engine.parts.space.adopt(UnitId(12), UnitState::Closed, metadata, 256);
        engine.parts.space.add_page(UnitId(12));
        assert_eq!(miscounted(&engine), Some((12, 1, 0)));
        let at = engine.parts.config.geometry.address(Location { unit: UnitId(12), block: 1 });
        let geometry = engine.parts.config.geometry;
        let entry = thermocline_format::MapEntry::unpack(&geometry, Value::new(at, 0).entry());
        engine.parts.volumes.map_mut(0).move_page(1, entry.expect("it is in the pool"));
        assert_eq!(miscounted(&engine), None);
    }
}
