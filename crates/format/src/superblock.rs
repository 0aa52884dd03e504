//! Superblock records: where everything begins.

mod listed;

use thermocline_types::UnitId;
use zerocopy::{FromBytes, IntoBytes};

use crate::checksum::crc32c;
use crate::error::{DecodeError, ErrorKind, Structure, require};
use crate::geometry::{DeviceState, Geometry, GeometryError, LogicalBlock, MediaClass, PoolDevice};
use crate::id::{Epoch, Generation, Location, PoolId, Revision, Sequence, VolumeId};
use crate::layout::{
    DeviceRaw, LayerRaw, MAX_DEVICES, PLAIN_VERSION, SUPERBLOCK_MAGIC, SUPERBLOCK_PREFIX_BYTES,
    SuperblockPrefixRaw, VERSION, VolumeRaw, check_crc, is_zero, prefix_crc, read_prefix,
};
use crate::map::{MapEntry, unpack_all};
use crate::units::MAX_UNIT_PAGES;
use crate::volume::{StackLayer, Volume, VolumeMedia, VolumeName, check_volume};

pub use listed::OpenUnit;

/// Most volumes in a pool. Chosen, not measured.
pub const MAX_VOLUMES: usize = 4096;
/// Most units that a record can list. Chosen, not measured: so many units can be opened from one checkpoint to the
/// next, in a table of 1 MiB.
pub const MAX_OPEN_UNITS: usize = 1 << 16;
/// Most entries in the root maps of all volumes: 256 TiB of volumes in whole gibibytes, and a started one for each.
pub const MAX_ROOTS: usize = (1 << 18) + MAX_VOLUMES;
/// Most bytes in a superblock record: what the limits above add up to, in whole blocks of 4096.
pub const MAX_SUPERBLOCK_BYTES: usize = (SUPERBLOCK_PREFIX_BYTES
    + MAX_VOLUMES * (VOLUME_BYTES + LAYER_BYTES)
    + listed::most_bytes(MAX_OPEN_UNITS)
    + (MAX_ROOTS + MAX_UNIT_PAGES) * ROOT_BYTES)
    .next_multiple_of(4096);

/// The highest epoch of a record: an opening every second for 68 years. Chosen, not measured.
pub const MAX_EPOCH: u32 = 1 << 31;
/// The highest revision, sequence and generation in a record. As many numbers remain above the limit, so an open pool
/// cannot run out of numbers. Chosen, not measured.
pub const MAX_NUMBER: u64 = 1 << 63;

const VOLUME_BYTES: usize = size_of::<VolumeRaw>();
const LAYER_BYTES: usize = size_of::<LayerRaw>();
const ROOT_BYTES: usize = 8;

/// Flag: nothing was written after the checkpoint.
pub(crate) const FLAG_CLEAN: u16 = 1;

/// Flag: the home has a flushed record of the same epoch.
const FLAG_CONFIRMED: u16 = 2;

/// Flag of a volume: it was deleted.
const FLAG_DELETED: u8 = 1;

/// Where its blocks are to be, as a number in two of the flags of a volume.
const FLAGS_MEDIA: u8 = 6;

/// Flags of a volume: it is a layer of a stack, frozen, nameless, a clone.
const FLAG_LAYER: u8 = 8;
const FLAG_FROZEN: u8 = 16;
const FLAG_NAMELESS: u8 = 32;
const FLAG_CLONE: u8 = 64;
const LAYER_FLAGS: u8 = FLAG_LAYER | FLAG_FROZEN | FLAG_NAMELESS | FLAG_CLONE;

/// A superblock record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The pool.
    pub pool: PoolId,
    /// Where the record begins.
    pub location: Location,
    /// Its number; of those of the highest epoch the highest counts.
    pub revision: Revision,
    /// The opening of the pool in which it was written.
    pub epoch: Epoch,
    /// The opening whose chunks are to be replayed.
    pub tail_epoch: Epoch,
    /// Chunks of [`Superblock::tail_epoch`] from this one on are to be replayed.
    pub checkpoint: Sequence,
    /// End of the chunks to be replayed, if a recovery found the end and no checkpoint completed since. The recovery
    /// did not find the chunk behind the end: that chunk is torn. A torn write over the torn chunk may make the chunk
    /// whole again.
    pub tail_end: Option<Sequence>,
    /// Whether no chunks are to be replayed: the pool was closed cleanly.
    pub clean: bool,
    /// Set only in copies on other devices: whether the home had a flushed record of this epoch when the copy was
    /// written.
    pub confirmed: bool,
    /// Entries [`crate::Entry::Placed`] of this number in the chunks to be replayed are part of the maps. They hold
    /// changes of pages that the checkpoint could not read and rewrite. Entries with another number are ignored.
    pub patches: u32,
    /// Number of chunks to be replayed that hold only pages of an incomplete checkpoint, in unit lives without other
    /// chunks. An opening that found these chunks may have reset their units.
    pub vain: u32,
    /// Number of sequences from the checkpoint on that were durable when the record was written. The maps may point at
    /// these chunks, so recovery must find every chunk.
    pub flushed: u32,
    /// Whether the pool has, had, or is about to have a snapshot: the record is of version 8.
    pub snapshots: bool,
    /// The devices as the pool uses them.
    pub geometry: Geometry,
    /// Lower bound of unused generations: every unit, listed or not, has an earlier generation.
    pub next_generation: Generation,
    /// The next unused identifier of a volume.
    pub next_volume: VolumeId,
    /// The volumes, by rising identifier.
    pub volumes: Vec<Volume>,
    /// Every unit in which chunks from the checkpoint on can stand, by rising unit.
    pub open_units: Vec<OpenUnit>,
    /// Where the pages of the unit table are, [`Geometry::unit_pages`] of them; all units of an unmapped page are free.
    pub unit_pages: Vec<MapEntry>,
}

/// The first part of a superblock record: says how long it is, and how the devices are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuperblockPrefix {
    /// The pool.
    pub pool: PoolId,
    /// The location for which the record was written. Compare with the location of the read.
    pub location: Location,
    /// Its number.
    pub revision: Revision,
    /// The opening of the pool in which it was written.
    pub epoch: Epoch,
    /// [`Superblock::confirmed`].
    pub confirmed: bool,
    /// The devices as the pool uses them.
    pub geometry: Geometry,
    /// Bytes in the record, at most [`MAX_SUPERBLOCK_BYTES`]: the length to read before decoding.
    pub record_bytes: usize,
}

impl SuperblockPrefix {
    /// Decodes the prefix of a record of any pool, read from anywhere: for a reader that does not yet know either.
    ///
    /// # Errors
    /// [`DecodeError`] when there is no sound prefix.
    pub fn probe(bytes: &[u8]) -> Result<SuperblockPrefix, DecodeError> {
        match parse_prefix(bytes, None) {
            Ok((_, prefix)) => Ok(prefix),
            Err(kind) => Err(error(None, kind)),
        }
    }

    /// [`Superblock::home_had`].
    #[must_use]
    pub fn home_had(&self) -> Epoch {
        home_had(self.epoch, self.confirmed)
    }
}

impl Superblock {
    /// The opening of which the home had a flushed record when this one was written: a home with a lower one is an
    /// older copy.
    #[must_use]
    pub fn home_had(&self) -> Epoch {
        home_had(self.epoch, self.confirmed)
    }

    /// Every chunk up to this one was durable when the record was written.
    #[must_use]
    pub fn durable(&self) -> Sequence {
        Sequence(self.checkpoint.0 - 1 + u64::from(self.flushed))
    }

    /// Bytes in the record.
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        let mut listed = Vec::new();
        listed::encode(&self.open_units, self.next_generation, &mut listed);
        let entries = self.roots() + self.geometry.unit_pages();
        let layers = self.layers().count() * LAYER_BYTES;
        whole(&self.geometry, rest_bytes(self.volumes.len(), entries) + layers + listed.len())
    }

    /// Most bytes in a record with the given limits. A record lies within one unit.
    #[must_use]
    pub fn most_bytes(
        geometry: &Geometry,
        volumes: usize,
        open_units: usize,
        roots: usize,
    ) -> usize {
        let rest = rest_bytes(volumes, roots + geometry.unit_pages()) + volumes * LAYER_BYTES;
        whole(geometry, rest + listed::most_bytes(open_units))
    }

    fn layers(&self) -> impl Iterator<Item = &StackLayer> {
        self.volumes.iter().filter_map(|volume| volume.layer.as_ref())
    }

    fn roots(&self) -> usize {
        self.volumes.iter().map(|volume| volume.roots.len()).sum()
    }

    /// Whether a reader would take the record.
    ///
    /// # Errors
    /// [`ErrorKind::Impossible`].
    pub fn check(&self) -> Result<(), ErrorKind> {
        check_counts(self.volumes.len(), self.open_units.len(), self.roots())?;
        let pages = self.unit_pages.len();
        let holds = pages == self.geometry.unit_pages();
        require(holds, "pages of the unit table", pages as u64, "not those of so many units")?;
        check_confirmed(self.confirmed, self.location, &self.geometry)?;
        let tail = u64::from(self.tail_epoch.0);
        require(self.tail_epoch <= self.epoch, "tail epoch", tail, "beyond the record's own")?;
        let next = u64::from(self.next_volume.0);
        let rule = "beyond the identifiers of volumes";
        require(self.next_volume <= VolumeId::RESERVED, "next volume", next, rule)?;
        self.check_volumes()?;
        self.check_open_units()?;
        check_place(self.location, self.record_bytes(), &self.geometry)
    }

    fn check_volumes(&self) -> Result<(), ErrorKind> {
        let mut least = 0;
        for volume in &self.volumes {
            let id = volume.id.0;
            check_volume(volume.id, volume.blocks)?;
            require(id >= least, "volume", id.into(), "volumes must rise")?;
            require(volume.id < self.next_volume, "volume", id.into(), "beyond the next volume")?;
            let roots = volume.roots.len();
            let holds = roots == Volume::roots_for(volume.blocks);
            require(holds, "roots of a volume", roots as u64, "not those of its size")?;
            if let Some(layer) = &volume.layer {
                self.check_layer(volume, layer)?;
            }
            least = id + 1;
        }
        Ok(())
    }

    fn check_layer(&self, volume: &Volume, layer: &StackLayer) -> Result<(), ErrorKind> {
        let user = layer.user.0.into();
        require(self.snapshots, "layer", user, "the record is of a pool without snapshots")?;
        require(layer.user < self.next_volume, "user of a layer", user, "beyond the next volume")?;
        let below = layer.below.unwrap_or_default();
        let rule = "above the layer that is over it";
        require(below < volume.id, "layer below", below.0.into(), rule)?;
        let holds = layer.frozen || !layer.nameless;
        require(holds, "flags of a volume", FLAG_NAMELESS.into(), "nameless and not frozen")?;
        require(layer.least <= volume.blocks, "least size", layer.least, "above the size")
    }

    fn check_open_units(&self) -> Result<(), ErrorKind> {
        let mut last = None;
        for open in &self.open_units {
            let unit = open.next.unit;
            require(Some(unit) > last, "open unit", unit.0.into(), "open units must rise")?;
            let own = !self.geometry.is_superblock_unit(unit);
            require(own, "open unit", unit.0.into(), "it holds superblocks")?;
            let inside = self.geometry.contains(open.next, 0);
            require(inside, "block of an open unit", open.next.block.into(), "outside the pool")?;
            let holds = (1..self.next_generation.0).contains(&open.generation.0);
            let rule = "not 1 to below the next generation";
            require(holds, "generation of an open unit", open.generation.0, rule)?;
            last = Some(unit);
        }
        Ok(())
    }

    /// Appends the record as it stands on media to `out`: [`Superblock::record_bytes`] bytes.
    ///
    /// # Panics
    /// When [`Superblock::check`] finds something: no reader would take it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if let Err(kind) = self.check() {
            panic!("a superblock that cannot be is not written: {kind}");
        }
        let start = out.len();
        out.extend_from_slice(&[0; SUPERBLOCK_PREFIX_BYTES]);
        for volume in &self.volumes {
            out.extend_from_slice(volume_to_raw(volume).as_bytes());
        }
        for layer in self.layers() {
            out.extend_from_slice(layer_to_raw(layer).as_bytes());
        }
        for page in self.volumes.iter().flat_map(|volume| &volume.roots).chain(&self.unit_pages) {
            out.extend_from_slice(&page.pack().to_le_bytes());
        }
        listed::encode(&self.open_units, self.next_generation, out);
        let bytes = (out.len() - start).next_multiple_of(self.geometry.logical_block().bytes());
        out.resize(start + bytes, 0);
        let record = &mut out[start..];
        let mut raw = self.to_raw_prefix(bytes);
        raw.rest_crc = crc32c(&record[SUPERBLOCK_PREFIX_BYTES..]).into();
        raw.prefix_crc = prefix_crc(raw.as_bytes()).into();
        record[..SUPERBLOCK_PREFIX_BYTES].copy_from_slice(raw.as_bytes());
    }

    fn to_raw_prefix(&self, record_bytes: usize) -> SuperblockPrefixRaw {
        let mut devices = [DeviceRaw::default(); MAX_DEVICES];
        for (raw, device) in devices.iter_mut().zip(self.geometry.devices()) {
            *raw = device_to_raw(device);
        }
        SuperblockPrefixRaw {
            magic: SUPERBLOCK_MAGIC,
            version: if self.snapshots { VERSION } else { PLAIN_VERSION }.into(),
            flags: ((u16::from(self.clean) * FLAG_CLEAN)
                | (u16::from(self.confirmed) * FLAG_CONFIRMED))
                .into(),
            epoch: self.epoch.0.into(),
            pool: self.pool.0,
            unit: self.location.unit.0.into(),
            block: self.location.block.into(),
            revision: self.revision.0.into(),
            checkpoint: self.checkpoint.0.into(),
            next_generation: self.next_generation.0.into(),
            tail_epoch: self.tail_epoch.0.into(),
            record_bytes: (record_bytes as u32).into(),
            logical_block: (self.geometry.logical_block().bytes() as u32).into(),
            blocks_per_unit: self.geometry.blocks_per_unit().into(),
            next_volume: self.next_volume.0.into(),
            volumes: (self.volumes.len() as u32).into(),
            open_units: (self.open_units.len() as u32).into(),
            roots: (self.roots() as u32).into(),
            tail_end: self.tail_end.map_or(0, |end| end.0).into(),
            device_count: (self.geometry.devices().len() as u32).into(),
            patches: self.patches.into(),
            vain: self.vain.into(),
            flushed: self.flushed.into(),
            devices,
            rest_crc: 0.into(),
            prefix_crc: 0.into(),
        }
    }

    /// Decodes the record of `pool`, or of any pool, whose first bytes were read at `at`. What is behind the record is
    /// not looked at.
    ///
    /// # Errors
    /// [`DecodeError`] when there is no sound record; [`ErrorKind::Truncated`] says how many bytes are needed.
    pub fn decode(
        bytes: &[u8],
        at: Location,
        pool: Option<PoolId>,
    ) -> Result<Superblock, DecodeError> {
        decode_record(bytes, at, pool).map_err(|kind| error(Some(at), kind))
    }
}

fn error(at: Option<Location>, kind: ErrorKind) -> DecodeError {
    DecodeError { structure: Structure::Superblock, at, kind }
}

/// Bytes between prefix and listed units; `entries` are roots and pages of the unit table.
const fn rest_bytes(volumes: usize, entries: usize) -> usize {
    volumes * VOLUME_BYTES + entries * ROOT_BYTES
}

/// Bytes of a record with `rest` bytes behind the prefix.
fn whole(geometry: &Geometry, rest: usize) -> usize {
    (SUPERBLOCK_PREFIX_BYTES + rest).next_multiple_of(geometry.logical_block().bytes())
}

fn check_counts(volumes: usize, open_units: usize, roots: usize) -> Result<(), ErrorKind> {
    require(volumes <= MAX_VOLUMES, "volumes", volumes as u64, "at most 4096")?;
    require(open_units <= MAX_OPEN_UNITS, "open units", open_units as u64, "at most 65536")?;
    require(roots <= MAX_ROOTS, "roots", roots as u64, "more than 256 TiB of volumes have")
}

/// Checks that a record of this length lies within a superblock unit.
fn check_place(at: Location, bytes: usize, geometry: &Geometry) -> Result<(), ErrorKind> {
    let unit = u64::from(at.unit.0);
    let own = geometry.is_superblock_unit(at.unit);
    require(own, "unit", unit, "it is none of the superblock units")?;
    let inside = geometry.contains(at, geometry.logical_block().to_hold(bytes));
    require(inside, "record length", bytes as u64, "the record must end within its unit")
}

/// Checks that the flag "confirmed" is set only on devices other than the home.
fn check_confirmed(confirmed: bool, at: Location, geometry: &Geometry) -> Result<(), ErrorKind> {
    let beside = geometry.device_of(at.unit) != geometry.home();
    require(!confirmed || beside, "flags", FLAG_CONFIRMED.into(), "confirmed on the home itself")
}

/// The record of an opening is on other devices first; then on the home; then confirmed on the others.
fn home_had(epoch: Epoch, confirmed: bool) -> Epoch {
    Epoch(epoch.0 - u32::from(!confirmed))
}

fn parse_prefix(
    bytes: &[u8],
    pool: Option<PoolId>,
) -> Result<(&SuperblockPrefixRaw, SuperblockPrefix), ErrorKind> {
    let raw: &SuperblockPrefixRaw = read_prefix(bytes, SUPERBLOCK_MAGIC, pool)?;
    let flags = raw.flags.get();
    require(flags & !(FLAG_CLEAN | FLAG_CONFIRMED) == 0, "flags", flags.into(), "unknown flags")?;
    check_numbers(raw)?;
    let geometry = parse_geometry(raw)?;
    let (volumes, open_units, roots) = counts(raw);
    check_counts(volumes, open_units, roots)?;
    let rest = rest_bytes(volumes, roots + geometry.unit_pages());
    let record_bytes = raw.record_bytes.get() as usize;
    let least = whole(&geometry, rest + listed::LEAST_BYTES * open_units);
    let layers = if raw.version.get() == VERSION { volumes * LAYER_BYTES } else { 0 };
    let most = whole(&geometry, rest + layers + listed::most_bytes(open_units));
    let whole = record_bytes.is_multiple_of(geometry.logical_block().bytes());
    let holds = whole && (least..=most).contains(&record_bytes);
    require(holds, "record length", record_bytes as u64, "not that of its contents")?;
    let location = Location::new(raw.unit.get(), raw.block.get());
    check_place(location, record_bytes, &geometry)?;
    let confirmed = flags & FLAG_CONFIRMED != 0;
    check_confirmed(confirmed, location, &geometry)?;
    let prefix = SuperblockPrefix {
        pool: PoolId(raw.pool),
        location,
        revision: Revision(raw.revision.get()),
        epoch: Epoch(raw.epoch.get()),
        confirmed,
        geometry,
        record_bytes,
    };
    Ok((raw, prefix))
}

/// Checks that a writer could have got to these numbers, and could go on from them.
fn check_numbers(raw: &SuperblockPrefixRaw) -> Result<(), ErrorKind> {
    const NUMBER: &str = "it is 1 to 2^63";
    let epochs = [("epoch", raw.epoch.get()), ("tail epoch", raw.tail_epoch.get())];
    for (field, found) in epochs {
        require((1..=MAX_EPOCH).contains(&found), field, found.into(), "it is 1 to 2^31")?;
    }
    let checkpoint = raw.checkpoint.get();
    let numbers = [
        ("revision", raw.revision.get()),
        ("checkpoint", checkpoint),
        ("next generation", raw.next_generation.get()),
    ];
    for (field, found) in numbers {
        require((1..=MAX_NUMBER).contains(&found), field, found, NUMBER)?;
    }
    let next = raw.next_volume.get();
    let rule = "it is 1 to 0xFFFFFF00";
    require((1..=VolumeId::RESERVED.0).contains(&next), "next volume", next.into(), rule)?;
    let end = raw.tail_end.get();
    let rule = "it is 0, or from the checkpoint to 2^63";
    require(end == 0 || (checkpoint..=MAX_NUMBER).contains(&end), "tail end", end, rule)
}

fn parse_geometry(raw: &SuperblockPrefixRaw) -> Result<Geometry, ErrorKind> {
    let bytes = raw.logical_block.get();
    let Some(logical_block) = LogicalBlock::from_bytes(bytes) else {
        let (field, rule) = ("logical block", "512 or 4096");
        return Err(ErrorKind::Impossible { field, found: bytes.into(), rule });
    };
    let count = raw.device_count.get() as usize;
    require((1..=MAX_DEVICES).contains(&count), "devices", count as u64, "1 to 8")?;
    let (used, unused) = raw.devices.split_at(count);
    let none = unused.iter().all(|device| *device == DeviceRaw::default());
    require(none, "devices", count as u64, "there are more behind them")?;
    let devices =
        used.iter().map(device_from_raw).collect::<Result<Vec<PoolDevice>, ErrorKind>>()?;
    let geometry = Geometry::of_devices(logical_block, raw.blocks_per_unit.get(), &devices);
    geometry.map_err(|error| match error {
        GeometryError::SmallUnit(found)
        | GeometryError::TooLarge(found)
        | GeometryError::ManyUnits(found) => impossible_geometry(found),
        GeometryError::FewUnits(found) | GeometryError::SuperblockUnits(found, _) => {
            impossible_geometry(found.into())
        }
        GeometryError::Devices(found) => impossible_geometry(found as u64),
        GeometryError::NoCapacity => impossible_geometry(count as u64),
    })
}

fn device_to_raw(device: &PoolDevice) -> DeviceRaw {
    DeviceRaw {
        units: device.units.into(),
        superblock_units: device.superblock_units.map(|unit| unit.0.into()),
        media: match device.media {
            MediaClass::Capacity => 1,
            MediaClass::Fast => 2,
        },
        state: match device.state {
            DeviceState::Active => 0,
            DeviceState::Draining => 1,
            DeviceState::Detached => 2,
            DeviceState::Lost => 3,
        },
        reserved: [0; 2],
    }
}

fn device_from_raw(raw: &DeviceRaw) -> Result<PoolDevice, ErrorKind> {
    require(raw.reserved == [0; 2], "reserved field", 1, "it must be zero")?;
    let state = match raw.state {
        0 => DeviceState::Active,
        1 => DeviceState::Draining,
        2 => DeviceState::Detached,
        3 => DeviceState::Lost,
        found => {
            let (field, rule) = ("device state", "0 to 3");
            return Err(ErrorKind::Impossible { field, found: found.into(), rule });
        }
    };
    let media = match raw.media {
        1 => MediaClass::Capacity,
        2 => MediaClass::Fast,
        found => {
            let (field, rule) = ("media class", "1 or 2");
            return Err(ErrorKind::Impossible { field, found: found.into(), rule });
        }
    };
    let superblock_units = raw.superblock_units.map(|unit| UnitId(unit.get()));
    Ok(PoolDevice { media, state, units: raw.units.get(), superblock_units })
}

fn impossible_geometry(found: u64) -> ErrorKind {
    ErrorKind::Impossible { field: "geometry", found, rule: "no pool has it" }
}

fn counts(raw: &SuperblockPrefixRaw) -> (usize, usize, usize) {
    let count = |field: zerocopy::little_endian::U32| field.get() as usize;
    (count(raw.volumes), count(raw.open_units), count(raw.roots))
}

fn decode_record(
    bytes: &[u8],
    at: Location,
    pool: Option<PoolId>,
) -> Result<Superblock, ErrorKind> {
    let (raw, prefix) = parse_prefix(bytes, pool)?;
    if prefix.location != at {
        return Err(ErrorKind::Misplaced { found: prefix.location });
    }
    let needed = prefix.record_bytes;
    let Some(record) = bytes.get(..needed) else {
        return Err(ErrorKind::Truncated { needed, found: bytes.len() });
    };
    let rest = &record[SUPERBLOCK_PREFIX_BYTES..];
    check_crc("volumes, units and roots", raw.rest_crc.get(), crc32c(rest))?;
    let (volumes, open_units, roots) = counts(raw);
    let snapshots = raw.version.get() == VERSION;
    let (volumes, rest) = rest.split_at(volumes * VOLUME_BYTES);
    let volumes = <[VolumeRaw]>::ref_from_bytes(volumes).expect("cut to whole volumes");
    let layers = volumes.iter().filter(|raw| snapshots && raw.flags & FLAG_LAYER != 0).count();
    let Some((layers, rest)) = rest.split_at_checked(layers * LAYER_BYTES) else {
        let (field, rule) = ("layers", "more than the record holds");
        return Err(ErrorKind::Impossible { field, found: layers as u64, rule });
    };
    let entries = (roots + prefix.geometry.unit_pages()) * ROOT_BYTES;
    require(entries <= rest.len(), "roots", roots as u64, "more than the record holds")?;
    let (roots, rest) = rest.split_at(roots * ROOT_BYTES);
    let (unit_pages, mut rest) = rest.split_at(prefix.geometry.unit_pages() * ROOT_BYTES);
    let next_generation = Generation(raw.next_generation.get());
    let open_units = listed::decode(&mut rest, open_units, next_generation, &prefix.geometry)?;
    let padding = rest;
    let short = padding.len() < prefix.geometry.logical_block().bytes();
    require(
        short && is_zero(padding),
        "padding",
        padding.len() as u64,
        "it must be short and zero",
    )?;
    let record = Superblock {
        pool: prefix.pool,
        location: at,
        revision: prefix.revision,
        epoch: Epoch(raw.epoch.get()),
        tail_epoch: Epoch(raw.tail_epoch.get()),
        checkpoint: Sequence(raw.checkpoint.get()),
        tail_end: Some(Sequence(raw.tail_end.get())).filter(|end| end.0 > 0),
        clean: raw.flags.get() & FLAG_CLEAN != 0,
        confirmed: prefix.confirmed,
        patches: raw.patches.get(),
        vain: raw.vain.get(),
        flushed: raw.flushed.get(),
        snapshots,
        geometry: prefix.geometry,
        next_generation,
        next_volume: VolumeId(raw.next_volume.get()),
        volumes: volumes_from_raw(
            volumes,
            snapshots,
            layers,
            unpack_all(roots, &prefix.geometry)?,
        )?,
        open_units,
        unit_pages: unpack_all(unit_pages, &prefix.geometry)?,
    };
    record.check()?;
    Ok(record)
}

fn volume_to_raw(volume: &Volume) -> VolumeRaw {
    VolumeRaw {
        volume: volume.id.0.into(),
        name_bytes: volume.name.as_str().len() as u8,
        flags: (u8::from(volume.deleted) * FLAG_DELETED)
            | ((volume.media as u8) << FLAGS_MEDIA.trailing_zeros())
            | volume.layer.map_or(0, |layer| {
                FLAG_LAYER
                    | (u8::from(layer.frozen) * FLAG_FROZEN)
                    | (u8::from(layer.nameless) * FLAG_NAMELESS)
                    | (u8::from(layer.clone) * FLAG_CLONE)
            }),
        reserved: [0; 2],
        blocks: volume.blocks.into(),
        name: volume.name.to_bytes(),
    }
}

fn layer_to_raw(layer: &StackLayer) -> LayerRaw {
    let below = layer.below.unwrap_or_default();
    LayerRaw { user: layer.user.0.into(), below: below.0.into(), least: layer.least.into() }
}

/// The layer with these flags of its volume that `raw` begins with; `None` if the volume is its only layer.
fn layer_from_raw(flags: u8, raw: &mut &[u8]) -> Result<Option<StackLayer>, ErrorKind> {
    if flags & FLAG_LAYER == 0 {
        let holds = flags & (LAYER_FLAGS & !FLAG_LAYER) == 0;
        require(holds, "flags of a volume", flags.into(), "frozen, and no layer")?;
        return Ok(None);
    }
    let Ok((layer, rest)) = LayerRaw::ref_from_prefix(raw) else {
        return Err(ErrorKind::Truncated { needed: LAYER_BYTES, found: raw.len() });
    };
    *raw = rest;
    let below = VolumeId(layer.below.get());
    Ok(Some(StackLayer {
        user: VolumeId(layer.user.get()),
        below: (below != VolumeId(0)).then_some(below),
        least: layer.least.get(),
        frozen: flags & FLAG_FROZEN != 0,
        nameless: flags & FLAG_NAMELESS != 0,
        clone: flags & FLAG_CLONE != 0,
    }))
}

/// The volumes that `raws` are, each with its share of `layers` and `roots`.
fn volumes_from_raw(
    raws: &[VolumeRaw],
    snapshots: bool,
    mut layers: &[u8],
    roots: Vec<MapEntry>,
) -> Result<Vec<Volume>, ErrorKind> {
    let mut left = roots.into_iter();
    let mut volumes = Vec::with_capacity(raws.len());
    for raw in raws {
        let (id, blocks) = (VolumeId(raw.volume.get()), raw.blocks.get());
        check_volume(id, blocks)?;
        require(raw.reserved == [0; 2], "reserved field", 1, "it must be zero")?;
        let flags = raw.flags;
        let layer_flags = if snapshots { LAYER_FLAGS } else { 0 };
        let media = (flags & FLAGS_MEDIA) >> FLAGS_MEDIA.trailing_zeros();
        let known = VolumeMedia::numbered(media.into())
            .filter(|_| flags & !(FLAG_DELETED | FLAGS_MEDIA | layer_flags) == 0);
        let (field, rule) = ("flags of a volume", "unknown flags");
        let impossible = ErrorKind::Impossible { field, found: flags.into(), rule };
        let media = known.ok_or(impossible)?;
        let length = usize::from(raw.name_bytes);
        let name = VolumeName::from_bytes(&raw.name).filter(|name| name.as_str().len() == length);
        let Some(name) = name else {
            let (field, rule) = ("name of volume", "not UTF-8, or not of the length stated");
            return Err(ErrorKind::Impossible { field, found: id.0.into(), rule });
        };
        let roots = left.by_ref().take(Volume::roots_for(blocks)).collect();
        let deleted = flags & FLAG_DELETED != 0;
        let layer = layer_from_raw(flags, &mut layers)?;
        volumes.push(Volume { id, name, blocks, deleted, media, layer, roots });
    }
    let over = left.len() as u64;
    require(over == 0, "roots beyond those of the volumes", over, "there must be none")?;
    Ok(volumes)
}
