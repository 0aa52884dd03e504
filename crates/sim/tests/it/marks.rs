//! Marks of the engine: what no test reaches is not tested.

use thermocline_engine::{
    Config, DeviceError, Engine, Mark, Marks, OpenError, UnitCondition, take_marks,
};
use thermocline_format::{Geometry, PoolId};
use thermocline_sim::damage::{Ending, Report, Structure, damage_at_rest, targets};
use thermocline_sim::data::Sector;
use thermocline_sim::disk::{Disk, Image, Latency};
use thermocline_sim::enumerate::{Budget, enumerate};
use thermocline_sim::faults::{CommandKind, Fault, Rule};
use thermocline_sim::fuzz::Forge;
use thermocline_sim::healed::scrub_heals;
use thermocline_sim::lost_header::lost_header;
use thermocline_sim::machine::{Machine, Opened, Trouble};
use thermocline_sim::settings::{Scale, Settings};
use thermocline_sim::situations::Situation;
use thermocline_sim::torn_twice::torn_twice;
use thermocline_sim::world::World;

use crate::{devices, full_pool, scrub, unloaded};

/// One step in so many is a power cut or a kill, in worlds that have them.
const CRASH_ONE_IN: u64 = 40;

/// Runs of every kind, as few as reach every mark. They judge as ever, but whether anything is wrong the tests of each
/// kind tell, with more seeds.
#[test]
fn every_mark_is_reached() {
    let mut marks = Marks::default();
    crash_states(&mut marks);
    for situation in Situation::ALL.into_iter().filter(|one| *one != Situation::ManyUnits) {
        for seed in 0..4 {
            marks.merge(&situation.look(seed, situation.settings(seed), 600).marks);
        }
    }
    // Rare: `NoUnitForRelease`, `OutOfReach`, `WrittenInVain`, `LifeLost` and `LosingWaits`, `MapOnLost`,
    // `PlacedReplayed` and `PlacedOfAnother`, `MemberRolledBack` and `OlderVersionPassed`, `NamelessReplaced`,
    // `LiftOutrun` and `CloneSaidAgain`.
    use Situation::{Changing, Crowded, FailingSnapshots, LongHoles, Members, Paged};
    use Situation::{Snapshots, Sparse, TwiceWrong};
    let rare = [(Crowded, 26), (LongHoles, 20), (Sparse, 137), (Paged, 87), (Changing, 4)];
    let rare = rare.into_iter().chain([(Changing, 122), (Members, 14), (Members, 122)]);
    let rare = rare.chain([(TwiceWrong, 14), (TwiceWrong, 122), (Snapshots, 21), (Snapshots, 107)]);
    let rare = rare.chain([(FailingSnapshots, 5)]);
    marks.merge(&Members.look(101, Members.settings(101), 1500).marks);
    // `HoleWaitsForMemory` and `WriteAwaitsWalk`.
    marks.merge(&Snapshots.look(242, Snapshots.settings(242), 1500).marks);
    for (situation, seed) in rare {
        marks.merge(&situation.look(seed, situation.settings(seed), 600).marks);
    }
    // Rare: `CapacityFirst`, `FastOverflows` and `SurvivorGone`.
    for seed in [1188, 1268, 1314, 1395, 2531, 2883] {
        World::new(seed, Settings::draw(seed, Scale::Small), Vec::new()).run(0);
    }
    // Rare: `DamagedMoved` and `WaitingFailed`, by the last two.
    for seed in (0..60).chain([185, 291]) {
        let situation = Situation::Paged;
        World::new(seed, situation.settings(seed), situation.rules(seed)).run(CRASH_ONE_IN);
    }
    // Rare: `BaseMet`.
    for seed in [44, 108, 128, 167] {
        World::new(seed, Situation::Paged.settings(seed), Vec::new()).run(0);
    }
    crowded();
    // `VolumeGone` and `BeyondEnd`.
    for seed in [1, 3, 5, 7] {
        assert_eq!(Forge::new(seed).try_newer_volumes(), Ok(()), "seed {seed}");
    }
    members();
    failing_commands();
    damage();
    refusals();
    devices::older_copies_and_strangers_are_refused();
    devices::devices_that_cannot_leave_stay();
    devices::devices_that_are_needed_are_not_given_up();
    let _ = torn_twice(1, None);
    let _ = lost_header(19, Crowded.settings(19));
    full_pool::a_write_waits_for_what_a_deletion_gives_back();
    unloaded::a_trim_that_waits_for_a_page_fails_with_the_pool();
    unloaded::a_volume_is_deleted_while_a_damaged_page_of_it_is_being_read();
    scrub::a_scrub_in_the_background_calls_nothing_damaged_and_holds_up_neither_writes_nor_the_end(
    );
    marks.merge(&take_marks());
    let missed: Vec<Mark> = marks.missed().collect();
    assert!(missed.is_empty(), "not reached: {missed:?}");
}

/// Crowded pools of which commands fail, and pools that fail while requests wait.
fn crowded() {
    use Situation::Crowded;
    for seed in 0..60 {
        let (kind, one_in) = [(CommandKind::Flush, 20), (CommandKind::Read, 2)][seed as usize % 2];
        let fault = Fault::Fail(DeviceError::Io);
        let rules = vec![Rule { one_in, ..Rule::from_then_on(100, kind, fault) }];
        World::new(seed, Situation::Crowded.settings(seed), rules).run(CRASH_ONE_IN);
    }
    // Rare: requests that wait for a page that cannot be read while units are missing, or when the pool fails.
    let record = |seed| (Crowded.settings(seed), seed, CommandKind::WriteSuperblock, 4);
    // And `ScrubMapRecovered`, by the last.
    let read = |seed| (Settings::draw(seed, Scale::Small), seed, CommandKind::Read, 2);
    let rare = [record(189), record(1241), record(1354), read(743), read(83)];
    for (settings, seed, kind, one_in) in rare {
        let fault = Fault::Fail(DeviceError::Io);
        let rules = vec![Rule { one_in, ..Rule::from_then_on(20, kind, fault) }];
        World::new(seed, settings, rules).run(if seed % 2 == 0 { CRASH_ONE_IN } else { 0 });
    }
    // Rare: `KeptInMemory`.
    let fault = Fault::Fail(DeviceError::Io);
    for seed in 0..4 {
        let rules = vec![Rule::from_then_on(100, CommandKind::WriteChunk, fault)];
        World::new(seed, Crowded.settings(seed), rules).run(0);
    }
}

fn crash_states(marks: &mut Marks) {
    // Rare: `ScrubReadsAgain`, by the last.
    for seed in (1..=20).chain([25]) {
        let budget = Budget { states: 300, failures: 1, per_point: Some(1), only: None };
        marks.merge(&enumerate(seed, &budget).marks);
    }
    // Rare: `HeaderCutOff`.
    let budget = Budget { states: 3000, failures: 1, per_point: None, only: None };
    marks.merge(&enumerate(40, &budget).marks);
}

/// Rare: `ScrubHeaderInOneVersion`, `ScrubAgrees`, and by the last `UnreadableHealed` and
/// `ScrubVersionMissing`.
fn members() {
    let settings = |seed| Settings { wrong: None, ..Situation::Members.settings(seed) };
    for seed in 1..=40 {
        assert_eq!(scrub_heals(seed, settings(seed)), Ok(()), "seed {seed}");
    }
    let fault = Fault::Fail(DeviceError::Io);
    let rules = vec![Rule { one_in: 30, ..Rule::from_then_on(100, CommandKind::Read, fault) }];
    World::new(5, settings(5), rules).run(0);
}

fn failing_commands() {
    use CommandKind::{Flush, Read, Reset, WriteChunk, WriteSuperblock};
    let failing = [
        (WriteChunk, Fault::Fail(DeviceError::Io), 5),
        (WriteChunk, Fault::FailTorn(DeviceError::Io), 5),
        (WriteChunk, Fault::FailTorn(DeviceError::Io), 40),
        (WriteChunk, Fault::Degrade(UnitCondition::ReadOnly), 40),
        (WriteChunk, Fault::Degrade(UnitCondition::Offline), 40),
        (WriteChunk, Fault::Lose, 40),
        (WriteChunk, Fault::Flip(3), 3),
        (WriteSuperblock, Fault::Fail(DeviceError::Io), 10),
        (Read, Fault::Fail(DeviceError::Io), 20),
        (Read, Fault::Fail(DeviceError::Io), 2),
        (Reset, Fault::Fail(DeviceError::Io), 2),
        (Flush, Fault::Fail(DeviceError::Io), 20),
        (Flush, Fault::Lie, 3),
    ];
    for (kind, fault, one_in) in failing {
        let rule = Rule { one_in, ..Rule::from_then_on(20, kind, fault) };
        for seed in 0..60 {
            let mut world = World::new(seed, Settings::draw(seed, Scale::Small), vec![rule]);
            world.run(if seed % 2 == 0 { CRASH_ONE_IN } else { 0 });
        }
    }
}

fn damage() {
    let mut report = Report::default();
    for seed in 0..6 {
        for ending in [Ending::Closed, Ending::Flushed] {
            damage_at_rest(seed, &Settings::draw(seed, Scale::Small), ending, 120, &mut report);
        }
    }
}

/// Openings that are refused, or would be: another geometry, too little memory, no pool, a new pool half made, and a
/// pool of which the tail is gone.
fn refusals() {
    let settings = Settings::draw(1, Scale::Small);
    let mut world = World::new(1, settings.clone(), Vec::new());
    world.run(0);
    let image = world.machine.disk.cache().current().clone();
    let geometry = settings.config.geometry;
    let (block, units) = (geometry.logical_block(), geometry.superblock_units());
    let fewer = Geometry::new(block, geometry.blocks_per_unit(), geometry.units() - 1, units);
    let mut config = settings.config.clone();
    config.geometry = fewer.expect("a unit less is a geometry too");
    assert_eq!(open(&world, config, &image), Err(Trouble::Refused(OpenError::OtherGeometry)));
    let mut config = settings.config.clone();
    config.map_memory_bytes = 0;
    let refused = open(&world, config, &image);
    assert!(matches!(refused, Err(Trouble::Refused(OpenError::NoMemory { .. }))), "{refused:?}");
    let blank = open(&world, settings.config.clone(), &Image::new(settings.media));
    assert_eq!(blank, Err(Trouble::Refused(OpenError::NoPool)));
    let refused = open(&world, settings.config.clone(), &half_made(&world, &image));
    assert_eq!(refused, Err(Trouble::Refused(OpenError::TwoPools)));
    assert!((0..400).any(lost_and_overlooked), "no pool has lost a chunk of its tail");
}

fn open(world: &World, config: Config, image: &Image) -> Result<Opened, Trouble> {
    let disk = Disk::new(&world.arena, image.clone(), Latency::NONE, 1);
    Machine::open(config, &world.arena, disk, 1).wait_until_open()
}

/// `image` with a record of a new pool in one superblock unit, and those of its own in the other.
fn half_made(world: &World, image: &Image) -> Image {
    let disk = Disk::new(&world.arena, image.clone(), Latency::NONE, 1);
    let mut machine = Machine::open(world.settings.config.clone(), &world.arena, disk, 1);
    let other = PoolId([1; 16]);
    machine.engine = Engine::format(world.settings.config.clone(), other, 1).expect("it can be");
    machine.wait_until_open().expect("a pool is made");
    let new = machine.disk.cache().current();
    let [unit, _] = image.media().geometry.superblock_units();
    let mut both = image.clone();
    both.put(unit, 0, new.unit(unit));
    both
}

/// A flushed chunk of the tail is damaged, and the pool is opened all the same. Returns whether there was one.
fn lost_and_overlooked(seed: u64) -> bool {
    let settings = Settings::draw(seed, Scale::Small);
    let mut world = World::new(seed, settings.clone(), Vec::new());
    world.run(0);
    let mut image = world.machine.disk.cache().current().clone();
    let tail = targets(&world.arena, &image).into_iter();
    let Some(header) =
        tail.filter(|target| target.vouched).find(|one| one.structure == Structure::TailHeader)
    else {
        return false;
    };
    let start = header.at.block * image.media().sectors_per_logical();
    image.put(header.at.unit, start, &[Sector::ZEROS]);
    let mut config = settings.config;
    let refused = open(&world, config.clone(), &image);
    config.open_despite_loss = true;
    matches!(refused, Err(Trouble::Refused(OpenError::ChunksLost { .. })))
        && open(&world, config, &image).is_ok()
}
