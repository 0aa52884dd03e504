//! The configuration of an engine, and the space and memory that a configuration needs.

use thermocline_format::{
    ARRIVALS, Entry, Geometry, MAX_LINES, MAX_OPEN_UNITS, MAX_ROOTS, METADATA, MediaClass,
    Superblock,
};
use thermocline_ftl::placement::{Auto, Below, Classifier as _, Policy};
use thermocline_ftl::set_aside;
use thermocline_ftl::victim::Victim;
use thermocline_types::{Class, Time};

use crate::bugs::Bug;
use crate::device::Members;
use crate::map::Addresses;
use crate::request::MAX_LAYERS;

/// Most blocks of one read or write: the capacity of a chunk.
pub const MAX_IO_BLOCKS: u64 = MAX_LINES as u64;

/// Longest time that a completed write waits in memory before it is sent to media. Chosen: short beside the seconds for
/// which systems keep writes to themselves, long enough to fill chunks at 1000 writes per second.
pub const MAX_STAGED_TIME: Time = Time::seconds(1);

/// Most bytes between checkpoints: an amount that replays in minutes.
const CHECKPOINT: u64 = 1 << 40;

/// Bytes after which a checkpoint begins where it costs little (`checkpoint::CHEAP`).
const EARLY_CHECKPOINT: u64 = 64 << 30;

/// Units from which on three held ahead are enough.
const LARGE_UNIT: u64 = 64 << 20;

/// Entries of 32 bytes: 256 MiB.
const TAIL_ENTRIES: u64 = 8 << 20;
const _: () = assert!(size_of::<Entry>() == 32);

/// Least number of map pages that garbage collection has in memory at once. A chunk of copies from so many pages has
/// 1.6 % of header, half of the room held back for collection to gain room.
const PAGES_AT_ONCE: u32 = 64;

/// How garbage collection reads the valid blocks of a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPlan {
    /// Each valid block by a command of its own, as the basic scheme of Choi et al., HotStorage 2020.
    Basic,
    /// The victim as a whole, valid or not, as LSM_ZGC of the same paper.
    Segment,
    /// Valid blocks, and the gaps between them where reading the gap costs less than another command.
    Cost {
        /// Fixed cost of a command, as the bytes that the device reads in the same time.
        command_bytes: u32,
    },
}

impl ReadPlan {
    /// Gaps of up to 128 KiB, as read in the time of a command: 10 us at 12.8 GB/s, or 40 us at 3.2 GB/s. Chosen, not
    /// measured.
    pub const COST: ReadPlan = ReadPlan::Cost { command_bytes: 128 << 10 };
}

/// Garbage collection.
#[derive(Clone, Copy, Debug)]
pub struct GcConfig {
    /// Which unit to collect.
    pub victim: Victim,
    /// How to read it.
    pub read_plan: ReadPlan,
    /// Most bytes of a read command.
    pub read_bytes: u32,
    /// Bytes of a victim that are looked at together. The utilisation of these bytes decides the placement of copies.
    pub segment_bytes: u64,
    /// Free units, beyond those kept for garbage collection itself, below which it begins.
    pub ahead_units: u32,
    /// Map pages that garbage collection can hold in memory at once, however little memory there is. A chunk copies
    /// blocks of at most so many pages: with fewer than 64, more of the pool is held back for the headers.
    pub pages: u32,
}

/// When blocks leave fast devices though units there do not run short, and how many units may be in use there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DestageConfig {
    /// Fast units in use, including superblock units, beyond which fast units are emptied.
    pub high_units: u32,
    /// Units in use at which that ends.
    pub low_units: u32,
    /// Age at which blocks leave a fast unit, except blocks of fast volumes.
    pub max_age: Option<Time>,
    /// Most fast units in use, as if the pool had no more. The limit bounds the data at risk.
    pub most_units: u32,
}

impl Default for DestageConfig {
    fn default() -> DestageConfig {
        let never = u32::MAX;
        DestageConfig { high_units: never, low_units: never, max_age: None, most_units: never }
    }
}

/// How an engine is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// The device as the pool uses it.
    pub geometry: Geometry,
    /// Where blocks go.
    pub placement: Policy,
    /// What is below the units for capacity.
    pub below: Below,
    /// Garbage collection.
    pub gc: GcConfig,
    /// Layers below a volume, deleted snapshots included, at most.
    pub most_layers: u32,
    /// Layers below a volume from which on blocks of deleted snapshots move up into the layers above, so that their
    /// layers go.
    pub lift_beyond: u32,
    /// Requests that may be in work at once.
    pub max_requests: u32,
    /// Blocks written by the host that may wait in memory at once; at least [`MAX_IO_BLOCKS`].
    pub max_staged_blocks: u32,
    /// Whether writes complete in memory, as in the volatile cache of a drive, and wait there until they fill a chunk,
    /// a flush or a write with FUA asks for them, or [`MAX_STAGED_TIME`] is over. Else they complete on media.
    pub write_cache: bool,
    /// Chunks of a class that may be on their way before further blocks wait for a larger chunk.
    pub write_depth: u32,
    /// Bytes to be replayed, except pages of maps, at which a checkpoint begins at the latest. Recovery replays at most
    /// about twice as much.
    pub checkpoint_bytes: u64,
    /// Bytes after which it begins if few pages of maps differ.
    pub early_checkpoint_bytes: u64,
    /// Entries of the chunks to be replayed that an opening keeps in memory, at 32 bytes each. Recovery reads the
    /// chunks beyond this number a second time when it replays them.
    pub tail_entries: u64,
    /// Units listed ahead of their use in each superblock record; at least one for each that can be open.
    pub reserved_units: u32,
    /// Units that a superblock record lists at most: a checkpoint begins when half as many are listed, so that any
    /// number of units can be written.
    pub max_listed_units: u32,
    /// Open units that the devices allow at once in each class of media, by its number. Placements whose classes share
    /// open units keep to the limit; with other placements, [`Config::frontiers_on`] must not exceed the limit.
    pub max_open_units: [u32; MediaClass::ALL.len()],
    /// Memory for the maps of all volumes; at least [`Config::least_map_memory`].
    pub map_memory_bytes: u64,
    /// Whether a pool is opened although chunks that had been flushed are missing.
    pub open_despite_loss: bool,
    /// Members of the devices that have redundancy: versions of their bytes that can be asked for.
    pub members: Members,
    /// Sequential bytes of a volume's requests after which further blocks go directly to the devices for capacity, if
    /// the pool has fast devices.
    pub bypass_bytes: u64,
    /// When blocks leave fast devices.
    pub destage: DestageConfig,
    /// A deliberate error, for tests of the tests.
    pub bug: Option<Bug>,
}

impl Config {
    /// Defaults for a device: fit for most.
    #[must_use]
    pub fn new(geometry: Geometry) -> Config {
        Config {
            geometry,
            placement: Policy::Auto(Auto::default()),
            below: Below::default(),
            gc: GcConfig {
                victim: Victim::Own,
                read_plan: ReadPlan::COST,
                read_bytes: 128 << 10,
                segment_bytes: 256 << 10,
                ahead_units: ahead_units(&geometry),
                pages: PAGES_AT_ONCE,
            },
            most_layers: MAX_LAYERS,
            lift_beyond: MAX_LAYERS / 4 * 3,
            max_requests: 1024,
            max_staged_blocks: 4096,
            write_cache: true,
            write_depth: 4,
            checkpoint_bytes: checkpoint_bytes(&geometry),
            early_checkpoint_bytes: EARLY_CHECKPOINT,
            tail_entries: TAIL_ENTRIES,
            reserved_units: (active_units(&geometry) / 16).clamp(8, 64),
            max_listed_units: most_listed(&geometry),
            max_open_units: [u32::MAX; MediaClass::ALL.len()],
            map_memory_bytes: 4 << 30,
            open_despite_loss: false,
            members: Members::NONE,
            bypass_bytes: u64::MAX,
            destage: DestageConfig::default(),
            bug: None,
        }
    }

    /// Whether the pool can work at all.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn check(&self) -> Result<(), ConfigError> {
        let (units, needed) = (self.units_of(MediaClass::Capacity), self.units_set_aside() + 2);
        if units < needed {
            return Err(ConfigError::FewUnits { units, needed });
        }
        let (units, needed) = (self.units_of(MediaClass::Fast), self.fast_units_set_aside() + 4);
        if self.geometry.is_tiered() && units < needed {
            return Err(ConfigError::FewFastUnits { units, needed });
        }
        self.check_destage(needed)?;
        if u64::from(self.max_staged_blocks) < MAX_IO_BLOCKS || self.max_staged_blocks > 1 << 20 {
            return Err(ConfigError::Stage(self.max_staged_blocks));
        }
        if self.max_requests == 0 || self.write_depth == 0 || self.gc.pages == 0 {
            return Err(ConfigError::Depth);
        }
        if !Addresses::fits(&self.geometry, self.stage_slots()) {
            return Err(ConfigError::Addresses);
        }
        let most = self.most_ahead();
        if self.gc.ahead_units > most {
            return Err(ConfigError::Ahead { ahead: self.gc.ahead_units, most });
        }
        let least = 4 * self.listed_ahead() as u32;
        let most = most_listed(&self.geometry);
        if !(least..=most).contains(&self.max_listed_units) {
            let listed = self.max_listed_units;
            return Err(ConfigError::Listed { listed, least, most });
        }
        let (listed, needed) = (self.max_listed_units, least + self.units_of_all_maps());
        if listed < needed {
            return Err(ConfigError::SmallUnits { listed, needed });
        }
        Ok(())
    }

    /// Units that a checkpoint may need that writes every page of the map of a full pool, and of the unit table.
    fn units_of_all_maps(&self) -> u32 {
        let per_unit = self.blocks_per_unit();
        let mapped = u64::from(self.units_of(MediaClass::Capacity)) * per_unit;
        let pages = mapped.div_ceil(crate::map::PAGE) + self.geometry.unit_pages() as u64;
        2 + (pages / per_unit.max(1)) as u32
    }

    /// Units that can be open at once: one for each class or group of classes that share a unit, one for metadata, and
    /// one for arrivals.
    #[must_use]
    pub fn frontiers(&self) -> u32 {
        self.most_open() + 1 + u32::from(self.geometry.is_tiered())
    }

    /// As [`Config::frontiers`], counting only units on one class of media.
    #[must_use]
    pub fn frontiers_on(&self, media: MediaClass) -> u32 {
        match (media, self.geometry.is_tiered()) {
            (MediaClass::Capacity, true) => self.most_open(),
            (MediaClass::Capacity, false) => self.most_open() + 1,
            (MediaClass::Fast, true) => 2,
            (MediaClass::Fast, false) => 0,
        }
    }

    /// Units that can be open for users' blocks. Classes share open units if the policy allows sharing and otherwise
    /// more than one of 24 units would be open. Chosen, not measured.
    pub(crate) fn most_open(&self) -> u32 {
        let topology = self.placement.topology();
        let classes = u32::from(topology.classes());
        let shares = usize::from(topology.reserve()) < topology.relocation_classes(0).len();
        let units = self.units_of(MediaClass::Capacity);
        let metadata = u32::from(self.host_media() == MediaClass::Capacity);
        let open = self.max_open_units[MediaClass::Capacity as usize].saturating_sub(metadata);
        let most = (units / 24).min(open).max(2);
        if shares { classes.min(most) } else { classes }
    }

    pub(crate) fn placement_classes(&self) -> u8 {
        self.placement.topology().classes()
    }

    /// Classes of users' blocks: the classes of the placement, and the class of arrivals if the pool has a fast device.
    pub(crate) fn user_classes(&self) -> u8 {
        self.placement_classes() + u8::from(self.geometry.is_tiered())
    }

    /// The class that hosts' blocks arrive in, where there is a fast device. Placement chooses a class when they leave.
    pub(crate) fn arrivals(&self) -> Option<Class> {
        self.geometry.is_tiered().then(|| Class(self.placement_classes()))
    }

    /// The media that units of `class` are on.
    pub(crate) fn media_of(&self, class: Class) -> MediaClass {
        if class.0 < self.placement_classes() { MediaClass::Capacity } else { self.host_media() }
    }

    /// The media that hosts' blocks and all metadata are written to.
    pub(crate) fn host_media(&self) -> MediaClass {
        if self.geometry.is_tiered() { MediaClass::Fast } else { MediaClass::Capacity }
    }

    /// Units of a class of media, including superblock units.
    fn units_of(&self, media: MediaClass) -> u32 {
        self.geometry.active_units(media)
    }

    /// Slots of the write cache: host blocks, including blocks of failed writes, and copies.
    pub(crate) fn stage_slots(&self) -> u32 {
        let copies = 4 * MAX_LINES as u32 + (self.gc.segment_bytes / 4096) as u32;
        2 * self.max_staged_blocks + copies
    }

    /// The most that [`GcConfig::ahead_units`] can be: half of the units for capacity.
    #[must_use]
    pub fn most_ahead(&self) -> u32 {
        self.units_of(MediaClass::Capacity) / 2
    }

    /// Units to be listed ahead, of each class of media.
    pub(crate) fn listed_ahead(&self) -> usize {
        self.reserved_units.max(self.frontiers() + 1) as usize
    }

    /// Roots that a superblock record has room for beside so many volumes and as many units as it may list.
    pub(crate) fn most_roots(&self, volumes: usize) -> usize {
        let listed = self.most_listed_ever() as usize;
        let holds = |roots: usize| {
            let bytes = Superblock::most_bytes(&self.geometry, volumes, listed, roots);
            bytes as u64 <= self.geometry.unit_bytes()
        };
        let (mut most, mut beyond) = (0, MAX_ROOTS + 1);
        while beyond - most > 1 {
            let middle = usize::midpoint(most, beyond);
            *if holds(middle) { &mut most } else { &mut beyond } = middle;
        }
        most
    }

    /// Units that a superblock record can list.
    pub(crate) fn most_listed_ever(&self) -> u32 {
        most_listed(&self.geometry)
    }

    /// The class of maps and control entries, behind those of the placement.
    pub(crate) fn metadata_class(&self) -> Class {
        Class(self.user_classes())
    }

    /// How a chunk header names `class`.
    pub(crate) fn named(&self, class: Class) -> Class {
        match class {
            class if class == self.metadata_class() => METADATA,
            class if Some(class) == self.arrivals() => ARRIVALS,
            class => class,
        }
    }

    /// The class that a chunk header names; `None` if a placement with more classes wrote the header.
    pub(crate) fn class_named(&self, class: Class) -> Option<Class> {
        match class {
            METADATA => Some(self.metadata_class()),
            ARRIVALS => self.arrivals(),
            class => Some(class).filter(|class| class.0 < self.placement_classes()),
        }
    }

    /// Bytes of chunks with control entries at which a checkpoint begins: only a checkpoint frees their units. The
    /// limit is a 16th of the devices of the chunks, which is less than their spare. Chosen, not measured.
    pub(crate) fn control_bytes(&self) -> u64 {
        u64::from(self.units_of(self.host_media()) / 16).max(1) * self.geometry.unit_bytes()
    }

    /// Free units that relocation needs at least. The host may not use them. Units for metadata are not included.
    pub(crate) fn relocation_reserve(&self) -> u32 {
        self.placement.topology().units_held(0) + 1
    }

    /// Units for capacity that hold no blocks of users at the worst moment, those for maps apart: superblocks, open
    /// units, the reserve, and one that garbage collection works on.
    fn units_set_aside(&self) -> u32 {
        let devices = self.geometry.active_devices(MediaClass::Capacity);
        let held = self.placement.topology().units_held(0);
        2 * devices + set_aside(self.frontiers(), held) + 3
    }

    /// Fast units that are not for maps: superblocks, open units of arrivals and metadata, two for blocks of failed
    /// writes, two for blocks that stay, two to destage from while hosts go on, and two that are being freed.
    fn fast_units_set_aside(&self) -> u32 {
        let fast = self.geometry.active_devices(MediaClass::Fast);
        2 * fast + 2 + 2 + 2 + 2 + 2
    }

    /// Whether the destage settings leave `needed` fast units.
    fn check_destage(&self, needed: u32) -> Result<(), ConfigError> {
        let DestageConfig { high_units, low_units, most_units, max_age } = self.destage;
        if max_age == Some(Time::ZERO) {
            return Err(ConfigError::Age);
        }
        if self.geometry.is_tiered() && most_units < needed {
            return Err(ConfigError::FewAtRisk { units: most_units, needed });
        }
        if low_units > high_units {
            return Err(ConfigError::Watermarks { low: low_units, high: high_units });
        }
        Ok(())
    }

    /// Fast units that are never used, for less may be at risk.
    pub(crate) fn unused_fast_units(&self) -> u32 {
        self.units_of(MediaClass::Fast).saturating_sub(self.destage.most_units)
    }

    /// Blocks of users that fit into one unit when it is written in chunks as large as possible.
    #[must_use]
    pub fn blocks_per_unit(&self) -> u64 {
        let block = self.geometry.logical_block();
        let most = block.blocks_in_chunk(block.max_chunk());
        let long = |fit: usize| block.chunk_header(fit) + fit as u32 * block.per_block();
        let mut left = self.geometry.blocks_per_unit();
        // Of the longest chunks as many as leave less than one may be long: units of a gibibyte have a thousand.
        let whole = left.saturating_sub(block.max_chunk() - long(most)) / long(most);
        left -= whole * long(most);
        let mut held = u64::from(whole) * most as u64;
        loop {
            let fit = block.blocks_in_chunk(left.min(block.max_chunk()));
            if fit == 0 {
                return held;
            }
            held += fit as u64;
            left -= long(fit);
        }
    }

    /// Blocks of users that the pool can hold in one volume of `volume_blocks` blocks, as [`Config::capacity_among`].
    ///
    /// One 32nd of the data units is held back beyond the units set aside: garbage collection must always gain room.
    /// Chosen, not measured.
    #[must_use]
    pub fn capacity_blocks(&self, volume_blocks: u64) -> u64 {
        self.capacity_among([volume_blocks])
    }

    /// Blocks of users that the pool can hold in volumes of these sizes in blocks: each volume has its own pages and
    /// roots. A volume larger than the pool counts as many pages as the blocks of the pool need in sequence.
    #[must_use]
    pub fn capacity_among(&self, volumes: impl IntoIterator<Item = u64>) -> u64 {
        let data = self.units_of(MediaClass::Capacity).saturating_sub(self.units_set_aside());
        let most = u64::from(data) * self.blocks_per_unit() * 2;
        let mut count = 0_u64;
        let (pages, roots) = maps_of(volumes.into_iter().inspect(|_| count += 1));
        let begun = count.saturating_sub(1);
        let pages = pages.min(begun + most.div_ceil(crate::map::PAGE));
        let roots = roots.min(begun + most.div_ceil(crate::map::PAGE * 512));
        self.capacity_beside(pages, roots, 0)
    }

    /// Blocks of users that the pool can hold when its volumes have these sizes in blocks and are mapped all over: each
    /// has pages and roots of its own.
    #[must_use]
    pub fn capacity_of(&self, volumes: impl Iterator<Item = u64>) -> u64 {
        let (pages, roots) = maps_of(volumes);
        self.capacity_beside(pages, roots, 0)
    }

    /// The number of fast units and the number needed, if the fast devices are too small for the maps of fully written
    /// volumes of these sizes in blocks. Such a pool is full too early.
    #[must_use]
    pub fn short_of_fast(&self, volumes: impl IntoIterator<Item = u64>) -> Option<(u32, u32)> {
        let fast = self.units_of(MediaClass::Fast);
        let needed = self.fast_units_needed(volumes);
        let short = self.geometry.is_tiered() && fast < needed;
        short.then_some((fast, needed))
    }

    /// Fast units that it takes for the maps of volumes that have these sizes in blocks and are written all over, and
    /// for hosts to go on, including superblock units.
    #[must_use]
    pub fn fast_units_needed(&self, volumes: impl IntoIterator<Item = u64>) -> u32 {
        let (pages, roots) = maps_of(volumes);
        let needed = u64::from(self.fast_units_set_aside()) + self.metadata_units(pages, roots);
        u32::try_from(needed).unwrap_or(u32::MAX)
    }

    /// Units that metadata takes beside so many pages and roots of maps. During a checkpoint old and new pages coexist,
    /// and control entries take room as well.
    fn metadata_units(&self, pages: u64, roots: u64) -> u64 {
        let pages = pages + self.geometry.unit_pages() as u64;
        (2 * pages + roots).div_ceil(self.blocks_per_unit()) + 2
    }

    /// Bytes of memory that the placement remembers at most in this pool.
    #[must_use]
    pub fn most_placement_memory(&self) -> u64 {
        self.placement.most_memory_bytes(self.capacity_blocks(0))
    }

    /// Bytes of memory that blocks which wait to be written take at most.
    #[must_use]
    pub fn most_waiting_memory(&self) -> u64 {
        u64::from(self.max_staged_blocks) * 4096
    }

    /// Blocks of users that the pool can hold beside so many pages and roots of maps, when `retired` units are missing.
    pub(crate) fn capacity_beside(&self, pages: u64, roots: u64, retired: u32) -> u64 {
        let per_unit = self.blocks_per_unit();
        let data = self.units_of(MediaClass::Capacity);
        let data = u64::from(data.saturating_sub(self.units_set_aside() + retired));
        let metadata = self.metadata_units(pages, roots);
        let data = if self.geometry.is_tiered() {
            let fast = self.units_of(MediaClass::Fast).saturating_sub(self.fast_units_set_aside());
            if metadata > fast.into() { 0 } else { data }
        } else {
            data.saturating_sub(metadata)
        };
        // Pages of many checkpoints stand in units that are full of them for a half at least, and a checkpoint that a
        // crash cuts short writes all of them in vain. Where pages are full as well, a 32nd is far more than that.
        let back = data.div_ceil(32).max((2 * pages).div_ceil(per_unit));
        let held = data.saturating_sub(back) * per_unit;
        let pages = u64::from(self.gc.pages);
        // Copies in chunks of few blocks take more room than the 32nd that is held back.
        if pages < PAGES_AT_ONCE.into() { held * pages / (pages + 1) } else { held }
    }
}

/// Pages and roots of the maps of volumes of these sizes in blocks.
fn maps_of(volumes: impl IntoIterator<Item = u64>) -> (u64, u64) {
    let (page, root) = (crate::map::PAGE, crate::map::PAGE * crate::map::PAGE);
    let add = |(pages, roots): (u64, u64), blocks: u64| {
        (pages + blocks.div_ceil(page), roots + blocks.div_ceil(root))
    };
    volumes.into_iter().fold((0, 0), add)
}

/// Units that a superblock record can list, at 16 bytes each. The list takes half of a superblock unit, after the pages
/// of the unit table. The other half is for volumes.
fn most_listed(geometry: &Geometry) -> u32 {
    let room = geometry.unit_bytes().saturating_sub(8 * geometry.unit_pages() as u64);
    (room / 32).min(MAX_OPEN_UNITS as u64) as u32
}

/// Units of all devices that are written to.
fn active_units(geometry: &Geometry) -> u32 {
    MediaClass::ALL.iter().map(|media| geometry.active_units(*media)).sum()
}

/// Units held ahead: few enough not to cost spare, enough to flush and reset some before the next are needed. Large
/// units need three. A pool with fast devices needs four: fast units also receive the blocks that stay when their unit
/// is emptied, and a destage takes time. Measured: `docs/adr/0048-checkpoints-and-debts.md`.
fn ahead_units(geometry: &Geometry) -> u32 {
    let large = geometry.unit_bytes() >= LARGE_UNIT && !geometry.is_tiered();
    let least = if large { 3 } else { 4 };
    let units = active_units(geometry);
    (units / 256).max(least.min(units / 16)).clamp(1, 32)
}

/// Most bytes that are replayed after a crash. A map is 1/512 of the data mapped: with half of the pool between
/// checkpoints, writing the whole map costs a 256th of the data written; with a 32nd, a 16th. A replay takes seconds
/// for 64 GiB. Before a single device for capacity most of the tail is in the few headers of long chunks there, while
/// pages go to the fast device (`docs/adr/0048-checkpoints-and-debts.md`).
fn checkpoint_bytes(geometry: &Geometry) -> u64 {
    let pool = geometry.unit_bytes() * u64::from(active_units(geometry));
    let alone = geometry.active_devices(MediaClass::Capacity) == 1;
    let small = if geometry.is_tiered() && alone { pool / 8 * 7 } else { pool / 2 };
    let bytes = small.min((pool / 32).max(EARLY_CHECKPOINT)).min(CHECKPOINT);
    bytes.max(geometry.unit_bytes() * 4)
}

/// Why a configuration cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Too few units for the open and reserved ones.
    #[error("the pool has {units} units, the classes of its placement need {needed}")]
    FewUnits {
        /// Units of the geometry.
        units: u32,
        /// Least number.
        needed: u32,
    },
    /// Too few fast units for what must be on them.
    #[error("the fast devices have {units} units, {needed} are needed")]
    FewFastUnits {
        /// Units of fast devices.
        units: u32,
        /// Least number.
        needed: u32,
    },
    /// Too few fast units may be in use.
    #[error("{units} fast units may be in use with what may be at risk, {needed} are needed")]
    FewAtRisk {
        /// Units that may be in use.
        units: u32,
        /// Least number.
        needed: u32,
    },
    /// The low watermark is above the high one.
    #[error(
        "destaging would end at {low} fast units in use and begin at {high}: low_watermark is above high_watermark"
    )]
    Watermarks {
        /// Where it would end.
        low: u32,
        /// Where it would begin.
        high: u32,
    },
    /// Blocks on fast devices would exceed the age limit at once.
    #[error("max_age is 0, must be longer")]
    Age,
    /// The write cache is too small for one request, or absurdly large.
    #[error("max_staged_blocks is {0}, must be 255 to 1048576")]
    Stage(u32),
    /// No depth at all.
    #[error("max_requests, write_depth and gc.pages must be at least 1")]
    Depth,
    /// Blocks on media and in memory need more addresses than the map has.
    #[error("the device is as large as can be, and leaves no addresses for so many staged blocks")]
    Addresses,
    /// Garbage collection would begin before anything is written.
    #[error("gc.ahead_units is {ahead}, must be at most {most}")]
    Ahead {
        /// As configured.
        ahead: u32,
        /// Half of the units.
        most: u32,
    },
    /// The superblock's table is too small for the units listed ahead, or too large for a superblock unit.
    #[error("max_listed_units is {listed}, must be {least} to {most}")]
    Listed {
        /// As configured.
        listed: u32,
        /// Four times the units listed ahead: the listed units, as many open units, and as much again until a
        /// checkpoint is over.
        least: u32,
        /// The capacity of half a superblock unit, and 65536 at most.
        most: u32,
    },
    /// The table of the superblock is too short for the units that a checkpoint of all maps may have to write.
    #[error(
        "units are too small for so large a pool: its superblock lists {listed} of them at most, and a checkpoint may \
         need {needed}; choose larger units"
    )]
    SmallUnits {
        /// As configured, or as a superblock unit holds.
        listed: u32,
        /// Least number.
        needed: u32,
    },
    /// More zones would be written at once than the device lets.
    #[error(
        "the placement writes up to {needed} zones at once, and the device lets {active} be active: choose one with \
         fewer classes"
    )]
    ActiveZones {
        /// Zones that the placement needs.
        needed: u32,
        /// Zones that the device allows.
        active: u32,
    },
}

#[cfg(test)]
mod tests {
    use thermocline_format::LogicalBlock;
    use thermocline_types::UnitId;

    use super::*;

    #[test]
    fn there_are_slots_for_all_that_is_staged_and_for_a_segment_of_copies() {
        let geometry = Geometry::new(LogicalBlock::B4096, 1024, 64, [0, 1].map(UnitId));
        let mut config = Config::new(geometry.expect("sound units"));
        config.max_staged_blocks = 1000;
        config.gc.segment_bytes = 259 * 4096;
        assert_eq!(config.stage_slots(), 2 * 1000 + 4 * MAX_LINES as u32 + 259);
    }

    /// One chunk after the other.
    fn one_by_one(geometry: &Geometry) -> u64 {
        let (block, mut left, mut held) = (geometry.logical_block(), geometry.blocks_per_unit(), 0);
        while let fit @ 1.. = block.blocks_in_chunk(left.min(block.max_chunk())) {
            held += fit as u64;
            left -= block.chunk_header(fit) + fit as u32 * block.per_block();
        }
        held
    }

    #[test]
    fn a_unit_holds_what_chunks_of_it_hold_one_by_one() {
        for block in [LogicalBlock::B512, LogicalBlock::B4096] {
            let chunk = block.max_chunk();
            let few = (16..8 * chunk).step_by(if chunk > 1000 { 7 } else { 1 });
            for units in few.chain([1 << 18, (1 << 18) + 3, 1_102_848]) {
                let geometry = Geometry::new(block, units, 64, [0, 1].map(UnitId));
                let Ok(geometry) = geometry else { continue };
                let config = Config::new(geometry);
                assert_eq!(config.blocks_per_unit(), one_by_one(&geometry), "{block:?} {units}");
            }
        }
    }
}
