//! Pools of as many units as large drives have: they fill, wear on, crash and open, and no call does unbounded work.

use thermocline_engine::{
    Config, ConfigError, Engine, Extent, HostError, HostRequest, MAX_IO_BLOCKS, Notice, Reply,
};
use thermocline_format::{Geometry, LogicalBlock, VolumeId};
use thermocline_types::{Rng, UnitId};

use crate::memory_device::Machine;

fn geometry(per_unit: u32, units: u32) -> Geometry {
    Geometry::new(LogicalBlock::B4096, per_unit, units, [0, 1].map(UnitId)).expect("sound units")
}

fn config(geometry: Geometry) -> Config {
    let mut config = Config::new(geometry);
    config.placement = "sepgc".parse().expect("it is listed");
    config.map_memory_bytes = 1 << 40;
    config
}

/// The engine is dropped, and another one opens what the device holds.
fn crash(machine: Machine, config: &Config) -> Machine {
    let engine = Engine::open(config.clone(), 2).expect("it can work");
    let mut machine = Machine::new(engine, machine.device);
    machine.open();
    machine
}

fn write(
    machine: &mut Machine,
    volume: VolumeId,
    lba: u64,
    blocks: u64,
) -> Result<Reply, HostError> {
    let extent = Extent { volume, lba, blocks };
    machine.ask(HostRequest::Write { extent, data: (), fua: false, handle: 0 })
}

fn fill(machine: &mut Machine, volume: VolumeId, blocks: u64) {
    for lba in (0..blocks).step_by(MAX_IO_BLOCKS as usize) {
        write(machine, volume, lba, MAX_IO_BLOCKS.min(blocks - lba)).expect("there is room");
    }
}

/// 40,000 units, or as many as the environment says.
fn units() -> u32 {
    let units = std::env::var("UNITS").ok();
    units.map_or(40_000, |units| units.parse().expect("UNITS is a number"))
}

#[test]
fn a_tail_of_many_thousand_units_is_written_and_replayed() {
    let units = units();
    // Superblocks in units of 64 KiB list too few for the maps of more.
    let per_unit = if units <= 400_000 { 16 } else { 32 };
    let mut config = config(geometry(per_unit, units));
    // Nothing but the table of the superblock bounds the tail.
    config.checkpoint_bytes = u64::MAX;
    let blocks = config.capacity_blocks(0) * 9 / 10;
    let mut machine = Machine::format(&config);
    let volume = machine.create("large", blocks);
    fill(&mut machine, volume, blocks);
    let mut rng = Rng::new(3);
    for _ in 0..blocks / 20 {
        write(&mut machine, volume, rng.below(blocks), 1).expect("there is room");
    }
    machine.ask(HostRequest::Flush).expect("it is flushed");
    let in_use = machine.device.units_in_use();
    assert!(in_use > units as usize * 7 / 8, "{in_use}");
    let stats = *machine.engine.stats();
    let of_superblocks = stats.superblock_bytes as f64 / stats.device_bytes_written() as f64;
    assert!(of_superblocks < 0.05, "{of_superblocks} of what was written is superblocks");

    let mut machine = crash(machine, &config);
    let Some(Notice::Open { chunks, .. }) = machine.opened else { panic!("it is open") };
    assert!(chunks > 100, "{chunks} chunks of the tail");
    let at_once = machine.most_page_reads;
    assert!((64..=256).contains(&at_once), "{at_once} pages were asked for at once");
    machine.settle();
    assert_eq!(machine.engine.mapped_blocks(), blocks);
    assert_eq!(machine.engine.miscounted(|_| None), None);
    fill(&mut machine, volume, blocks);
    println!("{units} units, {chunks} chunks replayed, {:?}", machine.engine.memory());
}

#[test]
fn units_too_small_for_the_maps_of_their_pool_are_refused() {
    let refused = config(geometry(16, 1_000_000)).check();
    assert!(matches!(refused, Err(ConfigError::SmallUnits { .. })), "{refused:?}");
    assert_eq!(config(geometry(32, 1_000_000)).check(), Ok(()));
}

/// A volume whose units die all at once is deleted in pools of this size, too, without a look at all of them each time.
#[test]
fn many_units_that_die_at_once_are_released_in_steps() {
    let config = config(geometry(16, 100_000));
    let blocks = config.capacity_blocks(0) * 9 / 10;
    let mut machine = Machine::format(&config);
    let volume = machine.create("large", blocks);
    fill(&mut machine, volume, blocks);
    machine.ask(HostRequest::DeleteVolume { volume }).expect("it can be deleted");
    machine.settle();
    machine.ask(HostRequest::Flush).expect("it is flushed");
    let free = machine.engine.free_units();
    let again = machine.create("again", blocks);
    fill(&mut machine, again, blocks);
    assert!(
        machine.engine.stats().resets > 80_000,
        "{free} were free: {:?}",
        machine.engine.stats()
    );
}

/// Only those pages of the unit table are compared in which something changed. Most checkpoints here are taken while
/// the host writes to a few units, and what they say of the others must hold.
#[test]
fn counts_hold_in_units_that_nothing_touched_since_their_page_was_compared() {
    let mut config = config(geometry(16, 4000));
    config.checkpoint_bytes = 8 << 20;
    let blocks = config.capacity_blocks(0) * 9 / 10;
    let mut machine = Machine::format(&config);
    let volume = machine.create("large", blocks);
    fill(&mut machine, volume, blocks);
    let mut rng = Rng::new(11);
    for round in 0..40 {
        let (first, width) = (rng.below(blocks - 4000), [4000, 200][round % 2]);
        for _ in 0..2000 {
            write(&mut machine, volume, first + rng.below(width), 1).expect("there is room");
        }
        if round % 2 == 0 {
            machine.ask(HostRequest::Flush).expect("it is flushed");
        } else {
            machine.ask(HostRequest::Close).expect("it can be closed");
        }
        machine = crash(machine, &config);
        machine.settle();
        assert_eq!(machine.engine.miscounted(|at| machine.device.page(at)), None, "round {round}");
    }
}

#[test]
fn a_zone_that_is_closed_before_it_is_full_is_finished() {
    // Chunks of one block take two: what is left of a unit of 17 is too little for another.
    let config = config(geometry(17, 64));
    let mut machine = Machine::format(&config);
    let volume = machine.create("small", 100);
    let mut finished = 0;
    for lba in 0..100 {
        let extent = Extent { volume, lba, blocks: 1 };
        let write = HostRequest::Write { extent, data: (), fua: true, handle: 0 };
        machine.ask(write).expect("there is room");
        finished = machine.device.finished;
    }
    let stats = machine.engine.stats();
    assert!(finished > 5 && stats.unused_bytes >= finished * 4096, "{finished}, {stats:?}");
}

fn scrub(machine: &mut Machine) -> u64 {
    match machine.ask(HostRequest::Scrub) {
        Ok(Reply::Scrubbed { damaged, .. }) => damaged,
        other => panic!("a scrub was answered with {other:?}"),
    }
}

/// What one call looks through at most, in map entries and units: some pages of each.
const BOUND: u64 = 64 * 512;

#[test]
fn no_call_looks_through_more_than_a_bounded_number_of_pages_or_units() {
    let config = config(geometry(64, 100_000));
    let blocks = config.capacity_blocks(0) * 8 / 10;
    let mut machine = Machine::format(&config);
    let volume = machine.create("large", blocks);
    // A volume as large as drives are, with little in it.
    let thin = machine.create("thin", 10_000_000_000_000 / 4096);
    fill(&mut machine, volume, blocks);
    for index in 0..2000 {
        write(&mut machine, thin, index * 1_000_000, 1).expect("there is room");
    }
    let mut rng = Rng::new(4);
    for _ in 0..100_000 {
        write(&mut machine, volume, rng.below(blocks), 1).expect("there is room");
    }
    machine.ask(HostRequest::Flush).expect("it is flushed");
    let writing = machine.most_looked_at;

    let mut machine = crash(machine, &config);
    machine.settle();
    let opening = machine.most_looked_at;
    assert!(machine.engine.stats().looked_at > 100_000, "units and pages were looked through");

    // A unit whose headers cannot be read: what counts in it is found by the map. Payloads here have no bytes, so that
    // pages of the map are never what their checksum says.
    let pages = scrub(&mut machine);
    assert_eq!(machine.engine.stats().damaged_blocks, pages, "each is counted once");
    let units = machine.engine.units();
    let of_users = |unit: &UnitId| units.class(*unit).0 < 2 && units.valid_count(*unit) > 10;
    machine.device.headerless = Some(units.ids().find(of_users).expect("some are used").0);
    let before = machine.engine.stats().looked_at;
    assert_eq!(scrub(&mut machine), pages + 1);
    let searched = machine.engine.stats().looked_at - before;
    assert!(searched > blocks, "the whole map was searched: {searched}");

    // The same with one that holds pages of maps.
    let units = machine.engine.units();
    let of_maps = |unit: &UnitId| units.class(*unit).0 == 2 && units.valid_count(*unit) > 10;
    machine.device.headerless = Some(units.ids().find(of_maps).expect("some are used").0);
    assert_eq!(scrub(&mut machine), pages + 1, "every page is found without its header");
    machine.device.headerless = None;

    machine.ask(HostRequest::DeleteVolume { volume: thin }).expect("it can be deleted");
    machine.settle();
    let before = machine.engine.stats().looked_at;
    machine.ask(HostRequest::Close).expect("it can be closed");
    let closing = machine.engine.stats().looked_at - before;
    assert!(closing < 100_000, "a checkpoint goes through what changed: {closing}");
    let all = machine.most_looked_at;
    println!("most looked at in a call: {writing} writing, {opening} opening, {all} of all");
    assert!(writing.max(all) <= BOUND, "{writing} writing, {opening} opening, {all} of all");
}

#[test]
fn a_write_waits_for_the_room_that_a_deletion_gives_back() {
    let config = config(geometry(64, 4000));
    let blocks = config.capacity_blocks(0) * 6 / 10;
    let mut machine = Machine::format(&config);
    let volume = machine.create("old", blocks);
    fill(&mut machine, volume, blocks);
    let new = machine.create("new", blocks);
    let deletion = machine.submit(HostRequest::DeleteVolume { volume });
    fill(&mut machine, new, blocks);
    assert_eq!(machine.answer(deletion), Some(Ok(Reply::Done)));
    // One that a crash interrupts, likewise.
    machine.submit(HostRequest::DeleteVolume { volume: new });
    machine.ask(HostRequest::Flush).expect("it is flushed");
    let mut machine = crash(machine, &config);
    let third = machine.create("third", blocks);
    fill(&mut machine, third, blocks);
}

#[test]
fn a_full_thin_pool_stays_within_its_capacity_after_a_restart() {
    let config = config(geometry(64, 400));
    let mut machine = Machine::format(&config);
    let volume = machine.create("thin", 1 << 20);
    let mut full = 0;
    while write(&mut machine, volume, full, 64).is_ok() {
        full += 64;
    }
    assert_eq!(write(&mut machine, volume, full, 64), Err(HostError::NoSpace));
    machine.ask(HostRequest::Close).expect("it can be closed");

    let mut machine = crash(machine, &config);
    // At once, while nothing of the map is loaded.
    let writes: Vec<u64> = (0..64)
        .map(|index| {
            let extent = Extent { volume, lba: (1 << 19) + index * 64, blocks: 64 };
            machine.submit(HostRequest::Write { extent, data: (), fua: false, handle: 0 })
        })
        .collect();
    machine.settle();
    let answers: Vec<_> =
        writes.into_iter().map(|id| machine.answer(id).expect("answered")).collect();
    assert!(answers.contains(&Err(HostError::NoSpace)), "{answers:?}");
    let mapped = machine.engine.mapped_blocks();
    assert!(mapped <= full, "{mapped} blocks are mapped, {full} is all there is room for");
    // What is there can still be overwritten, for good.
    for round in 0..20 {
        for lba in (0..full).step_by(64) {
            let done = write(&mut machine, volume, lba, 64);
            assert!(done.is_ok(), "round {round}, block {lba}: {done:?}");
        }
    }
}

#[test]
fn the_map_of_a_volume_that_was_never_written_takes_next_to_no_memory() {
    let config = config(geometry(1 << 14, 2000));
    let mut machine = Machine::format(&config);
    let before = machine.engine.memory().maps;
    machine.create("64 GiB", 64 << 30 >> 12);
    let after = machine.engine.memory().maps;
    assert!(after - before < 16 << 10, "{} bytes", after - before);
}

#[test]
fn long_trims_let_others_go_between_their_parts() {
    let config = config(geometry(64, 40_000));
    let blocks = config.capacity_blocks(0) * 8 / 10;
    let mut machine = Machine::format(&config);
    let (volume, other) = (machine.create("large", blocks), machine.create("other", 64));
    fill(&mut machine, volume, blocks);
    machine.settle();
    let extent = Extent { volume, lba: 0, blocks };
    let trims: Vec<u64> =
        (0..20).map(|_| machine.submit(HostRequest::Trim { extent, fua: false })).collect();
    let begun = machine.engine.mapped_blocks();
    assert!(begun > blocks * 9 / 10, "most of the first trim is still to be done: {begun}");
    write(&mut machine, other, 0, 1).expect("there is room");
    let left = machine.engine.mapped_blocks();
    assert!(left > blocks / 2, "a write waits for a part of a trim: {left} blocks are left");
    machine.settle();
    trims.into_iter().for_each(|trim| assert!(machine.answer(trim).is_some_and(|end| end.is_ok())));
    assert_eq!(machine.engine.mapped_blocks(), 1, "all else is trimmed");
}
