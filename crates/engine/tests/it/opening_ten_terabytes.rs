//! Opening a pool with 10 TB of data: what must be read before the first block can be.
//!
//! The device is made up: its map pages are computed when they are read, so that nothing of the 18 GiB of map has to be
//! stored. Time is counted in commands and bytes, which is what a drive takes time for.

use std::collections::VecDeque;

use thermocline_engine::{
    Action, Config, DeviceCmd, Done, Engine, Extent, FoundChunks, HostRequest, Notice, OpId,
    PageBytes, RequestId, UnitCondition, UnitReport,
};
use thermocline_format::{
    Epoch, Generation, Geometry, Location, LogicalBlock, METADATA, MapEntry, MapPage, PAGE_ENTRIES,
    PAGE_UNITS, PoolId, Revision, Sequence, Superblock, UnitEntry, UnitPage, Volume, VolumeId,
    VolumeMedia, VolumeName, crc32c, home_mark,
};
use thermocline_types::{Class, Lba, Time, UnitId};

/// 10 TB.
const BLOCKS: u64 = 10_000_000_000_000 / 4096;
/// A zone of 1 GiB.
const PER_UNIT: u32 = 1 << 18;
const FIRST_ROOT_UNIT: u32 = 2;
const FIRST_PAGE_UNIT: u32 = 3;
const FIRST_DATA_UNIT: u32 = 64;

struct MadeUp {
    geometry: Geometry,
    /// Root pages, and behind them those of the unit table.
    roots: Vec<PageBytes>,
    commands: u64,
    bytes: u64,
}

fn place(first_unit: u32, index: u64) -> Location {
    Location::new(
        first_unit + (index / u64::from(PER_UNIT)) as u32,
        (index % u64::from(PER_UNIT)) as u32,
    )
}

fn index_of(first_unit: u32, at: Location) -> u64 {
    u64::from(at.unit.0 - first_unit) * u64::from(PER_UNIT) + u64::from(at.block)
}

impl MadeUp {
    fn new(geometry: Geometry) -> MadeUp {
        let mut device = MadeUp { geometry, roots: Vec::new(), commands: 0, bytes: 0 };
        for root in 0..Volume::roots_for(BLOCKS) as u64 {
            let mut page = MapPage::unmapped();
            let pages = BLOCKS.div_ceil(PAGE_ENTRIES as u64);
            let numbers = root * PAGE_ENTRIES as u64..pages;
            for (entry, number) in page.0.iter_mut().zip(numbers) {
                let crc = crc32c(device.map_page(number).as_slice());
                *entry = MapEntry::new(&geometry, place(FIRST_PAGE_UNIT, number), crc);
            }
            device.roots.push(Box::new(page.encode()));
        }
        for first in (0..geometry.units()).step_by(PAGE_UNITS) {
            let mut page = UnitPage::free();
            for (entry, unit) in page.0.iter_mut().zip(first..geometry.units()) {
                *entry = device.unit(unit);
            }
            device.roots.push(Box::new(page.encode()));
        }
        device
    }

    fn unit(&self, unit: u32) -> UnitEntry {
        let before = u64::from(unit.saturating_sub(FIRST_DATA_UNIT)) * u64::from(PER_UNIT);
        let held = BLOCKS.saturating_sub(before).min(PER_UNIT.into()) as u32;
        match unit {
            ..FIRST_ROOT_UNIT => UnitEntry::FREE,
            FIRST_ROOT_UNIT..FIRST_DATA_UNIT => {
                UnitEntry { generation: Generation(1), valid: 0, class: METADATA }
            }
            _ if held == 0 => UnitEntry::FREE,
            _ => UnitEntry { generation: Generation(1), valid: held, class: Class(0) },
        }
    }

    /// Block `i` of the volume is the `i`-th of the data units, and the checksum of its bytes is 0, as that of the
    /// unit type.
    fn map_page(&self, number: u64) -> PageBytes {
        let mut page = MapPage::unmapped();
        for (entry, lba) in page.0.iter_mut().zip(number * PAGE_ENTRIES as u64..BLOCKS) {
            let crc = home_mark(VolumeId(1), Lba(lba));
            *entry = MapEntry::new(&self.geometry, place(FIRST_DATA_UNIT, lba), crc);
        }
        Box::new(page.encode())
    }

    fn superblock(&self) -> Superblock {
        let pages = self.roots.iter().zip(0..).map(|(bytes, page)| {
            MapEntry::new(&self.geometry, place(FIRST_ROOT_UNIT, page), crc32c(bytes.as_slice()))
        });
        let mut roots: Vec<MapEntry> = pages.collect();
        let unit_pages = roots.split_off(Volume::roots_for(BLOCKS));
        Superblock {
            pool: PoolId([7; 16]),
            location: Location::new(0, 0),
            revision: Revision(9),
            epoch: Epoch(3),
            tail_epoch: Epoch(3),
            tail_end: None,
            patches: 0,
            vain: 0,
            flushed: 0,
            snapshots: false,
            checkpoint: Sequence(1_000_000),
            clean: true,
            confirmed: false,
            geometry: self.geometry,
            next_generation: Generation(4 << 32),
            next_volume: VolumeId(2),
            volumes: vec![Volume {
                id: VolumeId(1),
                name: VolumeName::new("ten").expect("a short name"),
                blocks: BLOCKS,
                deleted: false,
                media: VolumeMedia::Auto,
                layer: None,
                roots,
            }],
            open_units: Vec::new(),
            unit_pages,
        }
    }

    fn carry_out(&mut self, cmd: &DeviceCmd<()>) -> Done<()> {
        self.commands += 1;
        match *cmd {
            DeviceCmd::ReportUnits => {
                let report = UnitReport { condition: UnitCondition::Good, written: None };
                Done::Units(vec![report; self.geometry.units() as usize])
            }
            DeviceCmd::ReadSuperblocks(_) => Done::Superblocks(vec![self.superblock()]),
            DeviceCmd::ReadPage { at, .. } => {
                self.bytes += 4096;
                if at.unit.0 < FIRST_PAGE_UNIT {
                    Done::Page(self.roots[index_of(FIRST_ROOT_UNIT, at) as usize].clone())
                } else {
                    Done::Page(self.map_page(index_of(FIRST_PAGE_UNIT, at)))
                }
            }
            DeviceCmd::Read { blocks, .. } => {
                self.bytes += 4096 * u64::from(blocks);
                Done::Data(())
            }
            DeviceCmd::ReadChunks(ref read) => Done::Chunks(FoundChunks {
                chunks: Vec::new(),
                next: read.at.block + read.window,
                unsound: false,
                newest: None,
            }),
            _ => Done::Ok,
        }
    }
}

/// A read of 4 KiB, from submission to completion: tR of TLC NAND and the way there and back.
const LATENCY: Time = Time::micros(100);

/// How far apart reads complete if there are enough of them: 200,000 a second, a quarter of what a ZN540 is sold for.
const APART: Time = Time::micros(5);

/// Carries out what the engine wants, in order, until `done` says of an action that it is the one waited for. Returns
/// the virtual time it is then.
fn run(
    engine: &mut Engine<()>,
    device: &mut MadeUp,
    mut now: Time,
    mut done: impl FnMut(&Action<()>) -> bool,
) -> Time {
    let mut queue: VecDeque<(Time, OpId, DeviceCmd<()>)> = VecDeque::new();
    let mut last = now;
    loop {
        while let Some(action) = engine.poll_action() {
            if done(&action) {
                return now;
            }
            if let Action::Device { op, cmd } = action {
                last = (last + APART).max(now + LATENCY);
                queue.push_back((last, op, cmd));
            }
        }
        if engine.poll_timeout().is_some() {
            continue; // It has more to look through.
        }
        let (at, op, cmd) = queue.pop_front().expect("what is waited for comes before all is done");
        let answer = device.carry_out(&cmd);
        now = at;
        engine.handle_completion(now, op, Ok(answer));
    }
}

#[test]
fn the_first_read_of_ten_terabytes_waits_for_forty_megabytes() {
    let units = FIRST_DATA_UNIT + BLOCKS.div_ceil(u64::from(PER_UNIT)) as u32 + 1000;
    let superblocks = [UnitId(0), UnitId(1)];
    let geometry = Geometry::new(LogicalBlock::B4096, PER_UNIT, units, superblocks).unwrap();
    let mut device = MadeUp::new(geometry);
    let mut config = Config::new(geometry);
    config.map_memory_bytes = 1 << 36;
    let mut engine: Engine<()> = Engine::open(config, 1).unwrap();
    let opened = run(&mut engine, &mut device, Time::ZERO, |action| {
        matches!(action, Action::Notice(Notice::Open { chunks: 0, .. }))
    });
    let (commands, bytes) = (device.commands, device.bytes);
    assert_eq!(bytes, (9314 + 41) * 4096, "root pages and the unit table, nothing else of the map");
    assert!(commands < 9314 + 41 + 20, "{commands} commands");
    assert_eq!(engine.mapped_blocks(), BLOCKS, "known without the map");
    assert_eq!(engine.units().valid_count(UnitId(FIRST_DATA_UNIT)), PER_UNIT);
    assert_eq!(
        engine.free_units(),
        1042,
        "those behind the data, and metadata units without a page"
    );

    let extent = Extent { volume: VolumeId(1), lba: BLOCKS - 100, blocks: 100 };
    let read = HostRequest::Read { extent, into: () };
    engine.submit(opened, RequestId(1), read).unwrap();
    let read = run(&mut engine, &mut device, opened, |action| match action {
        Action::Complete { request: RequestId(1), result } => {
            assert!(result.is_ok(), "{result:?}");
            true
        }
        _ => false,
    });
    println!("open after {opened:?}, a read answered after {read:?}, of virtual time");
    assert!(read < Time::micros(200_000), "{read:?}");
    // The page of the block, those that the background asked for before it, and the blocks.
    assert!(device.commands - commands < 400, "{} commands", device.commands - commands);
    let per_block = engine.memory().total() as f64 / BLOCKS as f64;
    assert!(per_block <= 8.0, "{per_block} bytes of map and units per block");
}
