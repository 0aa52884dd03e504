//! `thermocline inspect`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use thermocline_engine::{DeviceCmd, DeviceError, Done, Members, ReadChunks, Versions};
use thermocline_format::{
    Entry, Geometry, Location, MapEntry, MapPage, PackedBlock, PageId, Superblock, VolumeId,
};
use thermocline_runtime::storage::Access;
use thermocline_runtime::{AnyStorage, Buffer, Device, Settings};
use thermocline_serve::{
    DeviceUnits, UnitsReport, fetch_superblock, fetch_units, letter, status_socket,
};
use thermocline_types::{UnitId, Version};

use super::device::{class_name, state_name};
use super::online;
use super::{Broken, CODES, print};

/// Arguments of `inspect`.
#[derive(Args)]
#[command(after_help = format!("\
The structures of docs/develop/FORMAT.md are printed as they are on the media. Writes since the last checkpoint are in the
chunks and not yet in the map. A unit and a map have thousands of lines, so the command counts them, and lists them only
with --all or --blocks.

If the pool is served, its server gives its newest superblock record, and with --unit its state of the unit.

Examples:
  thermocline inspect pool.toml
  thermocline inspect pool.toml --unit 2
  thermocline inspect pool.toml --unit 2 --blocks 0-15
  thermocline inspect pool.toml --map main --all

{CODES}"))]
pub struct InspectArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// Print every superblock record; the default
    #[arg(long)]
    superblocks: bool,
    /// Count the chunks and entries of this unit
    #[arg(long, value_name = "N", conflicts_with = "superblocks")]
    unit: Option<u32>,
    /// Count the mapped blocks of this volume, and their runs on the media
    #[arg(long, value_name = "VOLUME", conflicts_with_all = ["superblocks", "unit"])]
    map: Option<String>,
    /// List every chunk of the unit with its entries, or every run of the map
    #[arg(long, conflicts_with_all = ["superblocks", "blocks"])]
    all: bool,
    /// List the chunks that begin in these blocks of the unit, or the runs in these blocks of the volume
    #[arg(long, value_name = "FIRST-LAST", value_parser = blocks, conflicts_with = "superblocks")]
    blocks: Option<RangeInclusive<u64>>,
}

fn blocks(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => Err("a range of blocks is FIRST-LAST, such as 0-15".to_owned()),
    }
}

/// The media of a pool, without an engine.
struct Reader {
    device: Device<AnyStorage>,
    geometry: Geometry,
    text: String,
    /// The blocks of the unit or of the volume to list.
    listed: Option<RangeInclusive<u64>>,
    counts: Counts,
}

/// Totals of a unit or map.
#[derive(Default)]
struct Counts {
    /// Chunks by cause.
    chunks: BTreeMap<String, u64>,
    /// Entries by kind and volume.
    entries: BTreeMap<String, u64>,
    /// First and last sequence number of the chunks.
    sequences: Option<(u64, u64)>,
    /// Blocks of the map: on media, and lost.
    mapped: u64,
    lost: u64,
    runs: u64,
}

/// Bytes of a unit read at a time: the length of two chunks.
const WINDOW_BYTES: usize = 2 << 20;

/// `thermocline inspect`.
pub fn inspect(args: &InspectArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.settings)?;
    if let Some(who) = online::server(&args.settings) {
        return of_server(args, &who);
    }
    let media = settings.media(Access::ReadOnly)?;
    let geometry = media.geometry;
    let device = Device::new(media.storage, geometry);
    let listed = if args.all { Some(0..=u64::MAX) } else { args.blocks.clone() };
    let (text, counts) = (String::new(), Counts::default());
    let mut reader = Reader { device, geometry, text, listed, counts };
    let records = reader.superblocks()?;
    match (args.unit, &args.map) {
        (Some(unit), _) => reader.show_unit(unit, &records)?,
        (None, Some(volume)) => reader.show_map(volume, &records)?,
        (None, None) => {
            for record in &records {
                show_superblock(&mut reader.text, record)?;
            }
        }
    }
    print(&reader.text)
}

/// Prints what the server of the pool, `who`, has in memory.
fn of_server(args: &InspectArgs, who: &str) -> anyhow::Result<ExitCode> {
    let (file, socket) = (&args.settings, status_socket(&args.settings));
    let mut text = format!("{who} serves this pool; in its memory:\n");
    match (args.unit, &args.map) {
        (_, Some(_)) => return online::refuse(file, who, "`inspect --map`"),
        _ if args.all || args.blocks.is_some() => {
            return online::refuse(file, who, "`inspect` with --all or --blocks");
        }
        (Some(unit), None) => text += &unit_of_server(&fetch_units(&socket)?, unit)?,
        (None, None) => show_superblock(&mut text, &fetch_superblock(&socket)?.decode()?)?,
    }
    print(&text)
}

/// A line about a unit.
fn unit_of_server(report: &UnitsReport, unit: u32) -> anyhow::Result<String> {
    let of_unit = |device: &DeviceUnits| {
        let index = unit.checked_sub(device.first_unit)? as usize;
        let state = match device.states.chars().nth(index)? {
            letter::SUPERBLOCKS => "superblocks",
            letter::FREE => "free",
            letter::OPEN => "open",
            letter::CLOSED => "closed",
            letter::LEAVING => "emptied, on a device that is drained",
            _ => "out of service",
        };
        let (valid, class) = (device.valid_blocks[index], device.placement_classes[index]);
        let (media, all) = (&device.class, report.blocks_per_unit);
        Some(format!(
            "unit {unit}, {media}: {state}, {valid} of {all} blocks valid, placement class {class}\n"
        ))
    };
    report.devices.iter().find_map(of_unit).with_context(|| format!("the pool has no unit {unit}"))
}

fn failed(error: DeviceError) -> Broken {
    Broken(error.to_string())
}

fn newest(records: &[Superblock]) -> anyhow::Result<&Superblock> {
    let newest = records.iter().max_by_key(|record| (record.epoch, record.revision));
    newest.context("there is no sound superblock record")
}

impl Reader {
    fn ask(&mut self, command: DeviceCmd<Buffer>) -> Result<Done<Buffer>, Broken> {
        self.device.carry_out(command).map_err(failed)
    }

    /// All sound records, oldest first.
    fn superblocks(&mut self) -> anyhow::Result<Vec<Superblock>> {
        let Done::Superblocks(mut records) = self.ask(DeviceCmd::ReadSuperblocks(Members::NONE))?
        else {
            unreachable!("that is what the device answers")
        };
        records.sort_by_key(|record| (record.epoch, record.revision, record.location));
        Ok(records)
    }

    fn show_unit(&mut self, unit: u32, records: &[Superblock]) -> anyhow::Result<()> {
        if unit >= self.geometry.units() {
            bail!("the pool has units 0 to {}", self.geometry.units() - 1);
        }
        let pool = newest(records)?.pool;
        if self.geometry.is_superblock_unit(UnitId(unit)) {
            let inside = records.iter().filter(|record| record.location.unit.0 == unit);
            return Ok(inside
                .into_iter()
                .try_for_each(|record| show_superblock(&mut self.text, record))?);
        }
        let logical = self.geometry.logical_block().bytes();
        let (mut at, end) = (0, self.geometry.blocks_per_unit());
        while at < end {
            let window = ((WINDOW_BYTES / logical) as u32).min(end - at);
            let command = DeviceCmd::ReadChunks(ReadChunks {
                at: Location::new(unit, at),
                window,
                pool,
                generation: None,
                search: true,
                data: false,
                versions: Versions::AsRead,
            });
            let Done::Chunks(found) = self.ask(command)? else {
                unreachable!("that is what the device answers")
            };
            for chunk in &found.chunks {
                self.show_chunk(&chunk.header)?;
            }
            // If the window cuts off a chunk, the next window begins at that chunk's header.
            at = if found.next > at { found.next } else { at + window };
        }
        self.text.insert_str(0, &self.counts.of_unit(unit));
        Ok(())
    }

    fn show_chunk(&mut self, header: &thermocline_format::ChunkHeader) -> std::fmt::Result {
        let origin = &header.origin;
        self.counts.add_chunk(header);
        let first = u64::from(origin.location.block);
        if !self.listed.as_ref().is_some_and(|listed| listed.contains(&first)) {
            return Ok(());
        }
        writeln!(
            self.text,
            "chunk {} at {}: {} blocks, {:?}, class {}, epoch {}, generation {:#x}, durable {}, revision {}",
            origin.sequence.0,
            origin.location,
            header.blocks,
            origin.cause,
            origin.class.0,
            origin.epoch.0,
            origin.generation.0,
            origin.durable.0,
            origin.revision.0,
        )?;
        for (entry, at) in header.placed(&self.geometry) {
            show_entry(&mut self.text, entry, at)?;
        }
        if let Some(packed) = header.packed {
            let PackedBlock { entry, bytes } = packed;
            writeln!(
                self.text,
                "  the block of entry {entry} lies packed in the header, in {bytes} bytes"
            )?;
        }
        Ok(())
    }

    fn show_map(&mut self, name: &str, records: &[Superblock]) -> anyhow::Result<()> {
        let record = newest(records)?;
        let volume = record.volumes.iter().find(|volume| volume.name.as_str() == name);
        let volume = volume
            .with_context(|| format!("there is no volume `{name}` in the newest superblock"))?;
        let head = format!("volume {} `{}`, {} blocks", volume.id.0, volume.name, volume.blocks);
        let mut run: Option<MapRun> = None;
        for (root, &at) in volume.roots.iter().enumerate() {
            let Some(pages) = self.page(at, volume.id, root as u32)? else { continue };
            for (page, &at) in pages.0.iter().enumerate() {
                let page = root as u64 * 512 + page as u64;
                let Some(entries) = self.page(at, volume.id, page as u32)? else { continue };
                for (index, entry) in entries.0.iter().enumerate() {
                    let at = entry.location(&self.geometry);
                    if at.is_some() || entry.is_lost() {
                        run = self.extend(run, page * 512 + index as u64, at)?;
                    }
                }
            }
        }
        self.show_run(run)?;
        let Counts { mapped, lost, runs, .. } = self.counts;
        let lost = if lost > 0 { format!(", {lost} lost with a device") } else { String::new() };
        self.text.insert_str(0, &format!("{head}: {mapped} on the media{lost}, in {runs} runs\n"));
        Ok(())
    }

    /// The page that `at` refers to, if any.
    fn page(
        &mut self,
        at: MapEntry,
        volume: VolumeId,
        index: u32,
    ) -> anyhow::Result<Option<MapPage>> {
        let Some(place) = at.location(&self.geometry) else { return Ok(None) };
        let Done::Page(bytes) =
            self.ask(DeviceCmd::ReadPage { at: place, version: Version::AS_READ })?
        else {
            unreachable!("that is what the device answers")
        };
        let page = MapPage::decode(bytes.as_slice(), PageId { volume, index }, at, &self.geometry);
        Ok(Some(page.map_err(|error| Broken(format!("the page at {place}: {error}")))?))
    }

    fn extend(
        &mut self,
        run: Option<MapRun>,
        lba: u64,
        at: Option<Location>,
    ) -> Result<Option<MapRun>, std::fmt::Error> {
        if let Some(MapRun { first, blocks, start }) = run {
            let behind = blocks as u32 * self.geometry.logical_block().per_block();
            let next = start.map(|start| Location { block: start.block + behind, ..start });
            if lba == first + blocks && at == next {
                return Ok(Some(MapRun { first, blocks: blocks + 1, start }));
            }
        }
        self.show_run(run)?;
        Ok(Some(MapRun { first: lba, blocks: 1, start: at }))
    }

    fn show_run(&mut self, run: Option<MapRun>) -> std::fmt::Result {
        let Some(MapRun { first, blocks, start }) = run else { return Ok(()) };
        self.counts.runs += 1;
        *if start.is_some() { &mut self.counts.mapped } else { &mut self.counts.lost } += blocks;
        let is_listed = |listed: &RangeInclusive<u64>| {
            first <= *listed.end() && first + blocks > *listed.start()
        };
        if !self.listed.as_ref().is_some_and(is_listed) {
            return Ok(());
        }
        let at = start.map_or("lost with its device".to_owned(), |at| at.to_string());
        writeln!(self.text, "  {first} +{blocks}: {at}")
    }
}

impl Counts {
    fn add_chunk(&mut self, header: &thermocline_format::ChunkHeader) {
        let sequence = header.origin.sequence.0;
        let (first, last) = self.sequences.unwrap_or((sequence, sequence));
        self.sequences = Some((first.min(sequence), last.max(sequence)));
        *self.chunks.entry(format!("{:?}", header.origin.cause)).or_default() += 1;
        for entry in &header.entries {
            *self.entries.entry(kind(entry)).or_default() += 1;
        }
    }

    /// The counts of a unit, a line for chunks and a line for each kind of entry.
    fn of_unit(&self, unit: u32) -> String {
        let Some((first, last)) = self.sequences else {
            return format!("unit {unit}: no chunks\n");
        };
        let count = self.chunks.values().sum::<u64>();
        let causes = self.chunks.iter().map(|(cause, count)| format!("{count} {cause}"));
        let causes = causes.collect::<Vec<_>>().join(", ");
        let mut text =
            format!("unit {unit}: {count} chunks ({causes}), sequence {first} to {last}\n");
        for (kind, count) in &self.entries {
            text += &format!("{count:>9} {kind}\n");
        }
        text
    }
}

/// The kind of an entry, with the volume of a data block.
fn kind(entry: &Entry) -> String {
    match entry {
        Entry::Data { volume, .. } if volume.is_user() => format!("data volume {}", volume.0),
        Entry::Data { volume: VolumeId::UNITS, .. } => "pages of the unit table".to_owned(),
        Entry::Data { volume: VolumeId::MAP, .. } => "map pages".to_owned(),
        Entry::Data { .. } => "root pages".to_owned(),
        Entry::Trim { volume, .. } => format!("trim volume {}", volume.0),
        entry => {
            let shown = format!("{entry:?}");
            shown.split(' ').next().unwrap_or_default().to_owned()
        }
    }
}

/// Blocks of a volume that are adjacent on media, or are lost.
#[derive(Clone, Copy)]
struct MapRun {
    first: u64,
    blocks: u64,
    /// Place of the first block; `None` if the blocks are lost.
    start: Option<Location>,
}

fn show_superblock(text: &mut String, record: &Superblock) -> std::fmt::Result {
    let geometry = &record.geometry;
    writeln!(text, "superblock revision {} at {}", record.revision.0, record.location)?;
    writeln!(text, "  pool {}", record.pool)?;
    let end = record.tail_end.map_or(String::new(), |end| format!(", tail end {}", end.0));
    writeln!(
        text,
        "  epoch {}, tail epoch {}, checkpoint {}, {} flushed from there on{end}, {}",
        record.epoch.0,
        record.tail_epoch.0,
        record.checkpoint.0,
        record.flushed,
        if record.clean { "clean" } else { "not clean" },
    )?;
    writeln!(
        text,
        "  {} units of {} logical blocks of {} bytes, superblocks in {} and {}",
        geometry.units(),
        geometry.blocks_per_unit(),
        geometry.logical_block().bytes(),
        geometry.superblock_units()[0].0,
        geometry.superblock_units()[1].0,
    )?;
    for (device, units) in geometry.device_units() {
        let one = geometry.device(device);
        writeln!(
            text,
            "  device {}: units {} to {}, {}, {}",
            device.0,
            units.start,
            units.end - 1,
            class_name(one.media),
            state_name(one.state)
        )?;
    }
    writeln!(
        text,
        "  next generation {:#x}, next volume {}",
        record.next_generation.0, record.next_volume.0
    )?;
    for volume in &record.volumes {
        let deleted = if volume.deleted { ", deleted" } else { "" };
        let (id, name, blocks) = (volume.id.0, &volume.name, volume.blocks);
        writeln!(text, "  volume {id} `{name}`, {blocks} blocks{deleted}")?;
        for (index, root) in volume.roots.iter().enumerate() {
            match root.location(geometry) {
                Some(at) => writeln!(text, "    root {index}: {at}")?,
                None => writeln!(text, "    root {index}: none")?,
            }
        }
    }
    for unit in &record.open_units {
        writeln!(text, "  listed {}, generation {:#x}", unit.next, unit.generation.0)?;
    }
    for (index, page) in record.unit_pages.iter().enumerate() {
        if let Some(at) = page.location(geometry) {
            writeln!(text, "  page {index} of the unit table: {at}")?;
        }
    }
    Ok(())
}

fn show_entry(text: &mut String, entry: &Entry, at: Option<Location>) -> std::fmt::Result {
    match (entry, at) {
        (Entry::Data { volume, lba, crc }, Some(at)) if volume.is_user() => {
            writeln!(text, "  data volume {} block {} crc {crc:08x} in {at}", volume.0, lba.0)
        }
        (Entry::Data { volume, lba, crc }, Some(at)) => {
            let PageId { volume: of, index } = PageId::from_lba(*lba);
            let page = match *volume {
                VolumeId::UNITS => format!("page {index} of the unit table"),
                VolumeId::MAP => format!("map page {index} of volume {}", of.0),
                _ => format!("root page {index} of volume {}", of.0),
            };
            writeln!(text, "  {page} crc {crc:08x} in {at}")
        }
        (Entry::Trim { volume, lba, blocks }, _) => {
            writeln!(text, "  trim volume {} block {} +{blocks}", volume.0, lba.0)
        }
        (entry, _) => writeln!(text, "  {entry:?}"),
    }
}
