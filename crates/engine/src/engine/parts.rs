//! The parts of a pool, as the engine lends them to jobs, and methods that several jobs need.

use std::collections::VecDeque;
use std::fmt::Debug;

use slab::Slab;
use thermocline_format::{
    DeviceState, Epoch, Expected, Location, MapEntry, MediaClass, PoolId, Sequence, VolumeId,
};
use thermocline_ftl::placement::Classifier as _;
use thermocline_types::{Class, DeviceId, Rng, Time, UnitId, Version};

use crate::bugs::bug;
use crate::collection::Collection;
use crate::config::Config;
use crate::destage::Destage;
use crate::device::{DeviceCmd, OpId, PageBytes, ReadChunks};
use crate::due::Due;
use crate::durability::Durability;
use crate::engine::layers::Lifted;
use crate::engine::scrub::Counted;
use crate::engine::versions::Tried;
use crate::flights::Flights;
use crate::healing::Healing;
use crate::map::{Addresses, PAGE, Value, Wanted};
use crate::marks::mark;
use crate::moved::{Moved, Place};
use crate::pages::Pages;
use crate::payload::Payload;
use crate::request::{Action, Extent, HostError, Notice, OpenError};
use crate::requests::Requests;
use crate::space::Space;
use crate::stats::Stats;
use crate::superblocks::Superblocks;
use crate::unit_table::UnitTable;
use crate::volumes::{PageCursor, Volumes, Walk};
use crate::write_cache::WriteCache;

/// What the device was asked for.
#[derive(Debug)]
pub(crate) enum Op<P> {
    WriteChunk { sequence: Sequence, class: Class },
    HostRead { request: u32, volume: VolumeId, lba: u64, unit: UnitId, expected: Vec<Value> },
    LoadPage { volume: u16, page: u64, at: Location },
    MovePage { page: Place, unit: UnitId },
    MergePage { page: Place },
    GcChunks { request: ReadChunks },
    GcRead { segment: u32, first: usize },
    Lift { lifted: Lifted },
    Reset { unit: UnitId },
    Finish { unit: UnitId },
    Flush { device: DeviceId },
    Superblock,
    ScrubChunks,
    ScrubRead { block: Counted, missing: bool },
    ScrubVersion { blocks: Vec<Counted>, version: Version },
    Heal { at: Location, version: Version },
    Again(Box<Tried<P>>),
    Opening { index: usize },
}

/// Entries and units that the engine scans before it yields. Chosen so that the scan takes well under a millisecond.
const LOOKED_AT: u64 = 16 << 10;

/// Where the pool is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Being formatted or recovered.
    Opening,
    /// Requests are accepted.
    Open,
    /// A last checkpoint is being written.
    Closing,
    /// Nothing is accepted any more.
    Closed,
    /// The device failed: reads only.
    Failed,
}

/// The parts of a pool.
#[derive(Debug)]
pub(crate) struct Parts<P: Payload> {
    pub(crate) config: Config,
    pub(crate) addresses: Addresses,
    /// Blocks of users that fit into a unit written in chunks as large as possible.
    pub(crate) dense: u64,
    pub(crate) phase: Phase,
    pub(crate) pool: PoolId,
    pub(crate) epoch: Epoch,
    pub(crate) actions: VecDeque<Action<P>>,
    pub(crate) ops: Slab<Op<P>>,
    /// Empty vectors of ended reads.
    pub(crate) spare_values: Vec<Vec<Value>>,
    pub(crate) healing: Healing,
    pub(crate) requests: Requests,
    /// The request that waits for the pool to be closed.
    pub(crate) closing: Option<u32>,
    pub(crate) volumes: Volumes,
    pub(crate) pages: Pages<P>,
    /// Pages that a checkpoint writes elsewhere as they were read.
    pub(crate) moved: Moved,
    pub(crate) space: Space,
    pub(crate) unit_table: UnitTable,
    pub(crate) cache: WriteCache<P>,
    pub(crate) flights: Flights<P>,
    pub(crate) durability: Durability,
    pub(crate) superblocks: Superblocks,
    pub(crate) collection: Collection,
    pub(crate) destage: Destage,
    /// Why the next checkpoint is due.
    pub(crate) due: Due,
    /// Whether the pool has, had, or is about to have a snapshot.
    pub(crate) snapshots: bool,
    /// Whether what hosts write is kept from fast devices.
    pub(crate) spares_fast: bool,
    /// Blocks written by the host, the clock of placement and victim policies.
    pub(crate) host_writes: u64,
    pub(crate) rng: Rng,
    pub(crate) now: Time,
    /// When a host asked for something last.
    pub(crate) asked_at: Time,
    /// How much was looked through when others could last go.
    pub(crate) rested_at: u64,
    pub(crate) stats: Stats,
}

impl<P: Payload> Parts<P> {
    /// The parts of a pool in an unknown state.
    pub(crate) fn new(mut config: Config, seed: u64, pool: PoolId) -> Parts<P> {
        let geometry = config.geometry;
        let block = geometry.logical_block();
        let full = block.blocks_in_chunk(block.max_chunk());
        let dense = config.blocks_per_unit() as u32;
        let units = thermocline_ftl::Units::new(geometry.units(), geometry.blocks_per_unit())
            .with_most_valid(dense)
            .keeping_by_age();
        let capacity = config.capacity_blocks(0);
        let placed = geometry.active_units(MediaClass::Capacity);
        config.placement.begin(capacity, placed, dense, config.below);
        Parts {
            addresses: Addresses::new(&geometry),
            dense: dense.into(),
            phase: Phase::Opening,
            pool,
            epoch: Epoch(1),
            actions: VecDeque::new(),
            ops: Slab::new(),
            spare_values: Vec::new(),
            healing: Healing::default(),
            requests: Requests::default(),
            closing: None,
            volumes: Volumes::default(),
            pages: Pages::default(),
            moved: Moved::default(),
            space: Space::new(units, &config),
            unit_table: UnitTable::new(&geometry),
            cache: WriteCache::new(usize::from(config.user_classes()), full),
            flights: Flights::new(Sequence(1)),
            durability: Durability::new(geometry.devices().len()),
            superblocks: Superblocks::default(),
            collection: Collection::default(),
            destage: Destage::new(config.destage),
            due: Due::default(),
            snapshots: false,
            spares_fast: false,
            host_writes: 0,
            rng: Rng::new(seed),
            now: Time::ZERO,
            asked_at: Time::ZERO,
            rested_at: 0,
            stats: Stats::default(),
            config,
        }
    }

    /// Whether what a value means was on a device that is lost.
    pub(crate) fn is_on_lost(&self, value: Value) -> bool {
        let geometry = &self.config.geometry;
        !value.is_nowhere() && geometry.state_of(self.unit_of(value)) == DeviceState::Lost
    }

    /// An error if one of the pages is on a lost device.
    pub(crate) fn keeps_pages(&self, pages: &[MapEntry]) -> Result<(), OpenError> {
        let geometry = &self.config.geometry;
        let places = pages.iter().filter_map(|page| page.location(geometry));
        let mut lost = places.filter(|at| geometry.state_of(at.unit) == DeviceState::Lost);
        let error = lost.next().map(|at| OpenError::MapOn(geometry.device_of(at.unit)));
        mark!(MapOnLost if error.is_some());
        error.map_or(Ok(()), Err)
    }

    /// One more block is lost: extends `run`, or reports `run` and begins a new one.
    pub(crate) fn note_lost(&mut self, run: &mut Option<Extent>, volume: VolumeId, lba: u64) {
        match run {
            Some(run) if run.volume == volume && run.lba + run.blocks == lba => run.blocks += 1,
            _ => self.tell_lost(run.replace(Extent { volume, lba, blocks: 1 })),
        }
    }

    pub(crate) fn tell_lost(&mut self, run: Option<Extent>) {
        let notice = run.map(|extent| Action::Notice(Notice::Lost { extent }));
        self.actions.extend(notice);
    }

    /// The index of the volume if it has all the blocks.
    pub(crate) fn locate(&self, extent: Extent) -> Result<u16, HostError> {
        let volume = self.volumes.index(extent.volume).ok_or(HostError::NoVolume(extent.volume))?;
        let end = extent.lba.checked_add(extent.blocks).ok_or(HostError::OutOfRange)?;
        if end > self.volumes.map(volume).limit {
            return Err(HostError::OutOfRange);
        }
        Ok(volume)
    }

    /// As [`Parts::locate`]; an error for a snapshot.
    pub(crate) fn locate_for_writing(&self, extent: Extent) -> Result<u16, HostError> {
        let volume = self.locate(extent)?;
        let layer = &self.volumes.map(volume).layer;
        match layer.below {
            Some(below) if bug!(self.config, SnapshotSharesTop) => Ok(below),
            _ if layer.frozen => Err(HostError::ReadOnly),
            _ => Ok(volume),
        }
    }

    /// Whether block `index` of what was read from `at` on passes: as read or, for the header of a chunk, as the block
    /// packed in the header. The packed block then replaces the header.
    ///
    /// A header of this pool at its own location is not user data, so its packed block takes precedence: else a header
    /// could by chance have the checksum of the block in it. User data that imitates a header passes as user data, by
    /// its own checksum.
    pub(crate) fn arrived(
        &self,
        data: &P,
        index: u32,
        at: Location,
        passes: impl Fn(u32) -> bool,
    ) -> bool {
        let expected = Expected { pool: self.pool, location: at, generation: None };
        if let Some(packed) = data.unpack(index, &expected, &self.config.geometry) {
            let sound = passes(packed.crc(0)) || bug!(self.config, PackedUnverified);
            mark!(PackedRead if sound);
            mark!(PackedOther if !sound);
            if sound {
                data.slice(index, 1).copy_block(&packed);
                return true;
            }
        }
        passes(data.crc(index))
    }

    /// Whether a block with checksum `crc` is the one that `value` means.
    pub(crate) fn passes(&self, value: Value, crc: u32) -> bool {
        value.matches(crc) || bug!(self.config, TagNotChecked)
    }

    /// As [`UnitTable::begin`]. Touches the units that were ahead, because their next table entries differ.
    pub(crate) fn begin_unit_table(&mut self) {
        self.unit_table.begin().for_each(|unit| self.space.touch(unit));
    }

    /// Makes sure that a checkpoint is taken soon.
    pub(crate) fn want_checkpoint(&mut self) {
        self.due.want();
    }

    /// Members of the device that a unit is on.
    pub(crate) fn members_of(&self, unit: UnitId) -> u8 {
        self.config.members.of(self.config.geometry.device_of(unit))
    }

    /// A page that is not loaded, and was moved on media and may not be there yet.
    pub(crate) fn page_in_memory(&self, volume: u16, page: u64, at: Location) -> Option<PageBytes> {
        if bug!(self.config, MovedPageFromMedia) {
            return None;
        }
        let stands = self.volumes.map(volume).page_at(page);
        let waits = self.moved.find(volume, page, stands);
        let writers = self.space.has_writers(at.unit);
        let flies = || self.flights.page_in_flight(at, self.config.geometry.logical_block());
        waits.or_else(|| if writers { flies() } else { None }).cloned()
    }

    /// Whether no page is on its way.
    pub(crate) fn pages_idle(&self) -> bool {
        self.pages.on_their_way() == 0
    }

    /// The blocks of a volume that a page of its map covers.
    pub(crate) fn extent_of_page(&self, volume: u16, page: u64) -> Extent {
        let map = self.volumes.map(volume);
        let lba = page * PAGE;
        Extent { volume: map.user, lba, blocks: PAGE.min(map.blocks.saturating_sub(lba)) }
    }

    /// The error of a request for blocks of a damaged page.
    pub(crate) fn damaged_page(&self, volume: u16, page: u64) -> HostError {
        let at = self.volumes.map(volume).page_at(page).location(&self.config.geometry);
        HostError::Unreadable(at.expect("a page that is nowhere is not damaged"))
    }

    /// Where the pages stand that cannot be read, in order.
    pub(crate) fn damaged_pages(&self) -> Vec<Location> {
        let at = |&(volume, page): &(u16, u64)| {
            self.volumes.map(volume).page_at(page).location(&self.config.geometry)
        };
        self.pages.damaged().iter().filter_map(at).collect()
    }

    /// A page is about to be moved: a page that was unreadable becomes readable.
    pub(crate) fn damaged_page_moved(&mut self, volume: u16, page: u64) {
        let damaged = self.pages.retry((volume, page));
        mark!(DamagedMoved if damaged);
    }

    /// Takes the pages that could not be read, those of deleted volumes apart, in order: they are to be tried again.
    pub(crate) fn take_damaged(&mut self) -> Vec<(u16, VolumeId, u64)> {
        let alive = |&(volume, page): &(u16, u64)| {
            let map = self.volumes.map(volume);
            (!map.deleted).then_some((volume, map.id, page))
        };
        let taken: Vec<_> = self.pages.damaged().iter().filter_map(alive).collect();
        taken.iter().for_each(|&(volume, _, page)| _ = self.pages.retry((volume, page)));
        taken
    }

    /// A piece of a walk through the pages of all maps, see [`crate::volumes::Volumes::next_page`].
    pub(crate) fn next_page(
        &mut self,
        cursor: &mut PageCursor,
        wanted: Wanted,
        budget: &mut u32,
    ) -> Walk {
        let before = *budget;
        let walk = self.volumes.next_page(cursor, wanted, budget);
        self.stats.looked_at += u64::from(before - *budget);
        walk
    }

    pub(crate) fn unit_of(&self, value: Value) -> UnitId {
        self.addresses.location(value.address()).unit
    }

    /// Whether what the host writes has time.
    pub(crate) fn is_cached(&self) -> bool {
        self.config.write_cache && self.phase == Phase::Open
    }

    /// Whether a write of the host is complete as soon as it is in memory.
    pub(crate) fn completes_in_memory(&self, request: u32) -> bool {
        self.config.write_cache && !self.requests.is_durable(request)
    }

    /// Whether the engine has scanned enough entries and must yield.
    pub(crate) fn is_due_to_rest(&self) -> bool {
        self.stats.looked_at - self.rested_at > LOOKED_AT
    }

    /// Reports that `at` is damaged, and the blocks of a volume that cannot be read for it.
    pub(crate) fn report_damage(&mut self, at: Location, holds: Option<Extent>) {
        self.actions.push_back(Action::Notice(Notice::Damaged { at, holds }));
    }

    pub(crate) fn device(&mut self, op: usize, cmd: DeviceCmd<P>) {
        self.actions.push_back(Action::Device { op: OpId(op as u64), cmd });
    }

    /// Blocks of users that the pool holds at most when `more` pages of maps come into use: maps take space, too, and
    /// units that went out of service are missing.
    pub(crate) fn capacity_blocks(&self, more: u64) -> u64 {
        let pages = self.volumes.pages_in_use() + more;
        let roots = pages.min(self.volumes.total_roots() as u64);
        self.config.capacity_beside(pages, roots, self.space.retired())
    }

    pub(crate) fn phase_failed(&self) -> bool {
        self.phase == Phase::Failed
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
