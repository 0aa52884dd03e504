//! How the device is divided, checked before anything computes with it.

use std::ops::Range;

use thermocline_types::{DeviceId, UnitId};
use thiserror::Error;

use crate::id::Location;
use crate::layout::{CHUNK_PREFIX_BYTES, LINE_BYTES, MAX_CHUNK_BYTES, MAX_DEVICES, MAX_LINES};
use crate::units::{MAX_UNITS, PAGE_UNITS};

/// Bytes in a block of a volume, and in a page of a map.
pub const BLOCK_BYTES: usize = 4096;

/// Bits of a map entry that address a logical block of the device within the pool.
pub const ADDRESS_BITS: u32 = 36;

/// Fewest bytes in a unit. Chosen, not measured: room for a few chunks and superblocks, so that tests can be small.
pub const MIN_UNIT_BYTES: u64 = 64 << 10;

/// Size of the device's logical block: the smallest unit of a read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogicalBlock {
    /// 512 bytes.
    B512,
    /// 4096 bytes.
    B4096,
}

impl LogicalBlock {
    /// The logical block of `bytes` bytes, if the format knows it.
    #[must_use]
    pub const fn from_bytes(bytes: u32) -> Option<LogicalBlock> {
        match bytes {
            512 => Some(LogicalBlock::B512),
            4096 => Some(LogicalBlock::B4096),
            _ => None,
        }
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            LogicalBlock::B512 => 512,
            LogicalBlock::B4096 => 4096,
        }
    }

    /// Logical blocks in a [`BLOCK_BYTES`] block of a volume.
    #[must_use]
    pub const fn per_block(self) -> u32 {
        (BLOCK_BYTES / self.bytes()) as u32
    }

    /// Logical blocks that hold `bytes` bytes.
    #[must_use]
    pub const fn to_hold(self, bytes: usize) -> u32 {
        bytes.div_ceil(self.bytes()) as u32
    }

    /// Logical blocks of a chunk header with `lines` lines, [`MAX_LINES`] at most: as many as the chunk has blocks, if
    /// it has those only.
    #[must_use]
    pub const fn chunk_header(self, lines: usize) -> u32 {
        assert!(lines <= MAX_LINES, "a chunk has at most MAX_LINES lines");
        self.to_hold(CHUNK_PREFIX_BYTES + lines * LINE_BYTES)
    }

    /// Blocks of [`BLOCK_BYTES`] that fit, with the header of their chunk, into `room` logical blocks.
    #[must_use]
    pub const fn blocks_in_chunk(self, room: u32) -> usize {
        let most = room / self.per_block();
        let mut blocks = if most > MAX_LINES as u32 { MAX_LINES as u32 } else { most };
        while blocks > 0 && self.chunk_header(blocks as usize) + blocks * self.per_block() > room {
            blocks -= 1;
        }
        blocks as usize
    }

    /// Logical blocks in the longest chunk.
    #[must_use]
    pub const fn max_chunk(self) -> u32 {
        (MAX_CHUNK_BYTES / self.bytes()) as u32
    }
}

/// What devices of a pool are good at. Blocks of users are written to one class of media or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MediaClass {
    /// Large, and worn out by being written: where blocks stay.
    Capacity,
    /// Small, quick and enduring: where blocks arrive.
    Fast,
}

impl MediaClass {
    /// All of them, in the order of their numbers.
    pub const ALL: [MediaClass; 2] = [MediaClass::Capacity, MediaClass::Fast];
}

/// What becomes of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceState {
    /// It is written to.
    Active,
    /// The device is leaving the pool. The pool writes only superblock records to the device, and copies its data to
    /// other devices.
    Draining,
    /// The device has left the pool. Its units keep their numbers and are empty.
    Detached,
    /// The device and its data are lost. The engine sends no commands to the device. Map entries that point at the
    /// device become lost.
    Lost,
}

/// A device of a pool: a contiguous range of the pool's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolDevice {
    /// The class of the media.
    pub media: MediaClass,
    /// The state of the device.
    pub state: DeviceState,
    /// Number of units, superblock units included. The range begins behind the units of the preceding device.
    pub units: u32,
    /// The two units that hold only superblocks, as unit numbers of the pool.
    pub superblock_units: [UnitId; 2],
}

impl PoolDevice {
    /// An active device.
    #[must_use]
    pub fn new(media: MediaClass, units: u32, superblock_units: [UnitId; 2]) -> PoolDevice {
        PoolDevice { media, state: DeviceState::Active, units, superblock_units }
    }

    /// Whether the device accepts blocks for this class of media.
    #[must_use]
    pub fn takes(&self, media: MediaClass) -> bool {
        self.state == DeviceState::Active && self.media == media
    }
}

/// What is wrong with a geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// Less than [`MIN_UNIT_BYTES`].
    #[error("units of {0} bytes; at least {MIN_UNIT_BYTES} are needed")]
    SmallUnit(u64),
    /// None, or more than [`MAX_DEVICES`].
    #[error("{0} devices; 1 to {MAX_DEVICES} are possible")]
    Devices(usize),
    /// Two units of a device hold superblocks and at least one data.
    #[error("{0} units; at least 3 are needed")]
    FewUnits(u32),
    /// More than [`MAX_UNITS`].
    #[error("{0} units; at most {MAX_UNITS} can be listed: make them larger")]
    ManyUnits(u64),
    /// No device for capacity is active.
    #[error("no device for capacity is active, and one is needed")]
    NoCapacity,
    /// The superblock units are one, or not of their device.
    #[error("superblock units {0} and {1}; two units of the device are needed")]
    SuperblockUnits(u32, u32),
    /// More logical blocks than a map entry addresses.
    #[error("{0} logical blocks; fewer than 2^36 can be addressed")]
    TooLarge(u64),
}

/// Logical blocks of a unit, by which addresses are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerUnit {
    blocks: u32,
    /// 2^64 / `blocks`, rounded down: a multiplication is several times faster than a division.
    reciprocal: u64,
}

impl PerUnit {
    const fn new(blocks: u32) -> PerUnit {
        PerUnit { blocks, reciprocal: u64::MAX / blocks as u64 }
    }

    /// Unit and logical block of an address below 2^36.
    #[inline]
    #[must_use]
    pub const fn location(self, address: u64) -> Location {
        // The estimate is right or one too small.
        let blocks = self.blocks as u64;
        let mut unit = ((address as u128 * self.reciprocal as u128) >> 64) as u64;
        let mut block = address - unit * blocks;
        if block >= blocks {
            unit += 1;
            block -= blocks;
        }
        Location { unit: UnitId(unit as u32), block: block as u32 }
    }
}

/// The devices as the pool uses them: units of `blocks_per_unit` logical blocks each, counted through all devices.
/// Always valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    logical_block: LogicalBlock,
    per_unit: PerUnit,
    units: u32,
    count: u8,
    /// Whether a fast device is active.
    tiered: bool,
    /// Behind the first `count` copies of the first, which mean nothing.
    devices: [PoolDevice; MAX_DEVICES],
}

impl Geometry {
    /// A geometry of one device of `units` units of `blocks_per_unit` logical blocks that can be written. Two units
    /// hold superblocks.
    ///
    /// # Errors
    /// [`GeometryError`] when the format cannot describe it.
    pub fn new(
        logical_block: LogicalBlock,
        blocks_per_unit: u32,
        units: u32,
        superblock_units: [UnitId; 2],
    ) -> Result<Geometry, GeometryError> {
        let device = PoolDevice::new(MediaClass::Capacity, units, superblock_units);
        Geometry::of_devices(logical_block, blocks_per_unit, &[device])
    }

    /// A geometry of several devices, all of which have the same logical block and size of unit. The *home* of the pool
    /// is the first active fast device, or the first active device without a fast one. The superblock records on the
    /// home are authoritative.
    ///
    /// # Errors
    /// [`GeometryError`] when the format cannot describe it.
    pub fn of_devices(
        logical_block: LogicalBlock,
        blocks_per_unit: u32,
        devices: &[PoolDevice],
    ) -> Result<Geometry, GeometryError> {
        let unit_bytes = u64::from(blocks_per_unit) * logical_block.bytes() as u64;
        if unit_bytes < MIN_UNIT_BYTES {
            return Err(GeometryError::SmallUnit(unit_bytes));
        }
        let Some(&first_device) = devices.first().filter(|_| devices.len() <= MAX_DEVICES) else {
            return Err(GeometryError::Devices(devices.len()));
        };
        if !devices.iter().any(|device| device.takes(MediaClass::Capacity)) {
            return Err(GeometryError::NoCapacity);
        }
        let mut first = 0;
        for device in devices {
            if device.units < 3 {
                return Err(GeometryError::FewUnits(device.units));
            }
            let own = first..first + u64::from(device.units);
            let [one, two] = device.superblock_units.map(|unit| unit.0);
            if one == two || !own.contains(&one.into()) || !own.contains(&two.into()) {
                return Err(GeometryError::SuperblockUnits(one, two));
            }
            first = own.end;
        }
        if first > MAX_UNITS.into() {
            return Err(GeometryError::ManyUnits(first));
        }
        let blocks = u64::from(blocks_per_unit) * first;
        // The last address is left out: with a tag of all ones it would read as unmapped.
        if blocks >= 1 << ADDRESS_BITS {
            return Err(GeometryError::TooLarge(blocks));
        }
        let mut all = [first_device; MAX_DEVICES];
        all[..devices.len()].copy_from_slice(devices);
        let (units, count) = (first as u32, devices.len() as u8);
        let per_unit = PerUnit::new(blocks_per_unit);
        let tiered = devices.iter().any(|device| device.takes(MediaClass::Fast));
        Ok(Geometry { logical_block, per_unit, units, count, tiered, devices: all })
    }

    /// The devices' logical block.
    #[must_use]
    pub const fn logical_block(&self) -> LogicalBlock {
        self.logical_block
    }

    /// Logical blocks of a unit that can be written: of a zone, its capacity.
    #[must_use]
    pub const fn blocks_per_unit(&self) -> u32 {
        self.per_unit.blocks
    }

    /// Units of the pool, those of superblocks included.
    #[must_use]
    pub const fn units(&self) -> u32 {
        self.units
    }

    /// Pages of the unit table.
    #[must_use]
    pub const fn unit_pages(&self) -> usize {
        (self.units as usize).div_ceil(PAGE_UNITS)
    }

    /// The devices by number, those that have left the pool included.
    #[must_use]
    pub fn devices(&self) -> &[PoolDevice] {
        &self.devices[..usize::from(self.count)]
    }

    /// The devices by number, each with its units, detached devices included.
    pub fn device_units(&self) -> impl Iterator<Item = (DeviceId, Range<u32>)> + Clone {
        let mut first = 0;
        (0..).zip(self.devices()).map(move |(device, part)| {
            let units = first..first + part.units;
            first = units.end;
            (DeviceId(device), units)
        })
    }

    /// The devices that have not left the pool and are not lost, each with its units.
    pub fn present(&self) -> impl Iterator<Item = (DeviceId, Range<u32>)> + Clone {
        let there = |device: DeviceId| {
            matches!(self.device(device).state, DeviceState::Active | DeviceState::Draining)
        };
        self.device_units().filter(move |(device, _)| there(*device))
    }

    /// The device of this number.
    ///
    /// # Panics
    /// When the pool has none.
    #[must_use]
    pub fn device(&self, device: DeviceId) -> &PoolDevice {
        &self.devices()[device.index()]
    }

    /// The device that has `unit`.
    ///
    /// # Panics
    /// When `unit` is outside the pool.
    #[inline]
    #[must_use]
    pub fn device_of(&self, unit: UnitId) -> DeviceId {
        if self.count == 1 {
            return DeviceId(0);
        }
        let found = self.device_units().find(|(_, units)| units.contains(&unit.0));
        found.map(|(device, _)| device).expect("a unit of the pool")
    }

    /// A place of the pool, with its unit counted through its device alone.
    ///
    /// # Panics
    /// When `at` is outside the pool.
    #[must_use]
    pub fn on_device(&self, at: Location) -> Location {
        let found = self.device_units().find(|(_, units)| units.contains(&at.unit.0));
        let (_, units) = found.expect("a unit of the pool");
        Location { unit: UnitId(at.unit.0 - units.start), ..at }
    }

    /// The units of the devices of a class of media that have not left the pool.
    pub fn units_of(&self, media: MediaClass) -> impl Iterator<Item = u32> + Clone {
        let of_class = move |device: DeviceId| self.device(device).media == media;
        self.present().filter(move |(device, _)| of_class(*device)).flat_map(|(_, units)| units)
    }

    /// The units from the first to the last of a class of media, with those of other devices between them.
    #[must_use]
    pub fn span_of(&self, media: MediaClass) -> Range<u32> {
        let of_class = |(device, _): &(DeviceId, _)| self.device(*device).media == media;
        let spans = self.present().filter(of_class).map(|(_, units)| units);
        spans.reduce(|all, units| all.start..units.end).unwrap_or_default()
    }

    /// How many units the active devices of a class of media have, those of superblocks included.
    #[must_use]
    pub fn active_units(&self, media: MediaClass) -> u32 {
        let active = self.devices().iter().filter(|device| device.takes(media));
        active.map(|device| device.units).sum()
    }

    /// How many active devices of a class of media there are.
    #[must_use]
    pub fn active_devices(&self, media: MediaClass) -> u32 {
        self.devices().iter().filter(|device| device.takes(media)).count() as u32
    }

    /// The state of the device that has `unit`.
    ///
    /// # Panics
    /// When `unit` is outside the pool.
    #[must_use]
    pub fn state_of(&self, unit: UnitId) -> DeviceState {
        self.device(self.device_of(unit)).state
    }

    /// The class of the media that `unit` is on.
    ///
    /// # Panics
    /// When `unit` is outside the pool.
    #[inline]
    #[must_use]
    pub fn media_of(&self, unit: UnitId) -> MediaClass {
        self.device(self.device_of(unit)).media
    }

    /// Whether a fast device is active.
    #[inline]
    #[must_use]
    pub const fn is_tiered(&self) -> bool {
        self.tiered
    }

    /// The pool's home, where the superblock records that count are: the first active fast device, or else the first
    /// active one.
    #[must_use]
    pub fn home(&self) -> DeviceId {
        let first = |media| self.devices().iter().position(|device| device.takes(media));
        let home = first(MediaClass::Fast).or_else(|| first(MediaClass::Capacity));
        DeviceId(home.expect("a device for capacity is active") as u8)
    }

    /// Whether `device`, of this geometry, is new in a pool that had `before`.
    #[must_use]
    pub fn attaches(&self, before: &Geometry, device: DeviceId) -> bool {
        let had = before.devices().get(device.index());
        let gone = had.is_none_or(|had| had.state == DeviceState::Detached);
        gone && self.device(device).state == DeviceState::Active
    }

    /// Whether `device`, the last one of this geometry, has more units than in a pool that had `before`. Only the last
    /// device can grow: unit numbers of earlier devices must not shift.
    #[must_use]
    pub fn grows(&self, before: &Geometry, device: DeviceId) -> bool {
        let is_last = self.count == before.count && device.index() + 1 == self.devices().len();
        let (had, has) = (before.devices().get(device.index()), self.devices().get(device.index()));
        let active = |device: &&PoolDevice| device.state == DeviceState::Active;
        let units = |device: Option<&PoolDevice>| device.filter(active).map(|device| device.units);
        is_last && units(had).zip(units(has)).is_some_and(|(had, has)| has > had)
    }

    /// Whether the devices of both have the same logical block and size of unit, whatever devices there are.
    #[must_use]
    pub fn is_divided_like(&self, other: &Geometry) -> bool {
        self.logical_block == other.logical_block && self.per_unit == other.per_unit
    }

    /// Whether a pool of this geometry can be opened with `next`: the devices are the same, divided in the same way,
    /// but that active ones may begin to be drained, draining ones may be active again or detached, both may be lost,
    /// lost ones may be detached, the last one of both may have grown, and others may have been attached: behind them,
    /// or with the number of one that left the pool and had as many units.
    #[must_use]
    pub fn becomes(&self, next: &Geometry) -> bool {
        let goes = |(device, (from, to)): (u8, (&PoolDevice, &PoolDevice))| {
            let states = match (from.state, to.state) {
                (DeviceState::Detached, to) => {
                    matches!(to, DeviceState::Active | DeviceState::Detached)
                }
                (DeviceState::Active, to) => to != DeviceState::Detached,
                (DeviceState::Draining, _) => true,
                (DeviceState::Lost, to) => matches!(to, DeviceState::Lost | DeviceState::Detached),
            };
            let grows = next.grows(self, DeviceId(device));
            let units = if grows { to.units } else { from.units };
            states && PoolDevice { state: to.state, units, ..*from } == *to
        };
        let attached = next.devices().iter().skip(self.devices().len());
        self.is_divided_like(next)
            && self.count <= next.count
            && (0..).zip(self.devices().iter().zip(next.devices())).all(goes)
            && attached.into_iter().all(|device| device.state == DeviceState::Active)
    }

    /// The two units of the pool's home that hold superblocks and nothing else.
    #[must_use]
    pub fn superblock_units(&self) -> [UnitId; 2] {
        self.device(self.home()).superblock_units
    }

    /// The units that hold superblocks and nothing else, of all devices that have not left the pool, by device.
    pub fn all_superblock_units(&self) -> impl Iterator<Item = UnitId> {
        self.present().flat_map(|(device, _)| self.device(device).superblock_units)
    }

    /// Bytes of a unit.
    #[must_use]
    pub fn unit_bytes(&self) -> u64 {
        u64::from(self.per_unit.blocks) * self.logical_block.bytes() as u64
    }

    /// Whether `unit` holds superblocks.
    #[must_use]
    pub fn is_superblock_unit(&self, unit: UnitId) -> bool {
        self.devices().iter().any(|device| device.superblock_units.contains(&unit))
    }

    /// Whether `blocks` logical blocks from `at` lie within one unit of the pool.
    #[must_use]
    pub fn contains(&self, at: Location, blocks: u32) -> bool {
        let end = u64::from(at.block) + u64::from(blocks);
        at.unit.0 < self.units && end <= u64::from(self.per_unit.blocks)
    }

    /// Whether a block of a volume can be at `at`: within a unit that holds no superblocks.
    #[must_use]
    pub fn can_hold_block(&self, at: Location) -> bool {
        self.contains(at, self.logical_block.per_block()) && !self.is_superblock_unit(at.unit)
    }

    /// The address of `at` within the pool, in logical blocks, as map entries have it.
    ///
    /// # Panics
    /// When `at` is outside the pool.
    #[must_use]
    pub fn address(&self, at: Location) -> u64 {
        assert!(self.contains(at, 1), "{at} is outside the pool");
        u64::from(at.unit.0) * u64::from(self.per_unit.blocks) + u64::from(at.block)
    }

    /// The place of an address within the pool, if the pool has it.
    #[must_use]
    pub fn location(&self, address: u64) -> Option<Location> {
        let all = u64::from(self.units) * u64::from(self.per_unit.blocks);
        (address < all).then(|| self.per_unit.location(address))
    }

    /// What divides addresses into units.
    #[must_use]
    pub const fn per_unit(&self) -> PerUnit {
        self.per_unit
    }
}

#[cfg(test)]
mod tests;
