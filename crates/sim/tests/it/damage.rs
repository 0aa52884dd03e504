//! Damage at rest, faults in flight, and formatting over an earlier pool.

use std::ops::Range;

use thermocline_engine::{
    Config, DeviceError, Engine, HostRequest, OpenError, Reply, UnitCondition,
};
use thermocline_format::PoolId;
use thermocline_sim::damage::{Damage, Ending, Report, Structure, damage_at_rest, targets};
use thermocline_sim::data::{BlockId, SECTORS_PER_BLOCK};
use thermocline_sim::disk::{CrashState, Disk, Fate, Image, Latency};
use thermocline_sim::faults::{CommandKind, Fault, Rule};
use thermocline_sim::machine::{Machine, Trouble};
use thermocline_sim::model::{FoundVolume, Verdict};
use thermocline_sim::replay::{self, Place};
use thermocline_sim::settings::{Scale, Settings};
use thermocline_sim::world::World;
use thermocline_types::{Rng, Time};

/// Damages the pools of `seeds` and says what came of it.
fn campaign(seeds: Range<u64>, scale: Scale, rounds: u64) -> Report {
    let mut report = Report::default();
    for seed in seeds {
        let settings = Settings::draw(seed, scale);
        for ending in [Ending::Closed, Ending::Flushed] {
            damage_at_rest(seed, &settings, ending, rounds, &mut report);
        }
    }
    report
}

#[test]
fn damage_is_found_and_never_read_as_data() {
    let report = campaign(0..40, Scale::Small, 120);
    for (key, tally) in &report.tallies {
        println!("{key:?}: {tally:?}");
    }
    println!("{} structures were damaged", report.injected());
    assert!(report.wrong.is_empty(), "{}", report.wrong.join("\n"));
    assert!(report.injected() >= 10_000, "{} injections", report.injected());
    // What counts in a pool that was closed is found without exception.
    for structure in [Structure::Block, Structure::Page, Structure::Root, Structure::Header] {
        let tally = report.of(Ending::Closed, structure);
        assert!(tally.injected > 100, "{structure:?}: {tally:?}");
        assert_eq!(tally.found, tally.injected, "{structure:?}");
        for damage in Damage::ALL {
            assert!(report.tallies.contains_key(&(Ending::Closed, structure, damage)));
        }
    }
    // One copy of the superblock is enough.
    for ending in [Ending::Closed, Ending::Flushed] {
        for structure in [Structure::Newest, Structure::Older] {
            let tally = report.of(ending, structure);
            assert!(tally.injected > 50, "{structure:?}: {tally:?}");
            assert_eq!(tally.harmless, tally.injected, "{structure:?}");
        }
    }
    let tail = report.of(Ending::Flushed, Structure::TailHeader);
    assert!(tail.found > tail.injected / 2, "{tail:?}");
}

#[test]
fn damage_in_one_page_leaves_the_rest_of_a_larger_volume() {
    let report = campaign(0..3, Scale::Large, 60);
    assert!(report.wrong.is_empty(), "{}", report.wrong.join("\n"));
    assert!(report.of(Ending::Closed, Structure::Page).injected > 10);
}

/// Runs a small world in which commands go wrong as `rule` says. The world itself checks every answer of the pool.
fn faulty(seed: u64, rule: Rule, crash_one_in: u64) -> World {
    let first = Rng::new(seed ^ 0xFA17).below(400);
    let mut world =
        World::new(seed, Settings::draw(seed, Scale::Small), vec![Rule { first, ..rule }]);
    world.run(crash_one_in);
    let drawn = &world.settings;
    let wrong = world.wrong.join("\n");
    assert!(world.wrong.is_empty(), "{rule:?}, seed {seed}, {drawn}: {wrong}");
    world
}

pub const fn one_in(one_in: u64, kind: CommandKind, fault: Fault) -> Rule {
    Rule { kind: Some(kind), first: 0, end: u64::MAX, one_in, fault }
}

/// All that was asked for comes to media, and the pool is opened once more on a device that does what it is told.
/// Returns the blocks that cannot be read, or why the pool does not open. What is not right is wrong, unless `allowed`.
fn heal(world: &mut World, allowed: impl Fn(&Verdict) -> bool) -> Result<usize, OpenError> {
    world.machine.disk.injector_mut().heal();
    let image = kept(world);
    world.machine.restart(world.settings.config.clone(), &image, 1);
    match world.machine.wait_until_open() {
        Ok(_) => {}
        Err(Trouble::Refused(error)) => return Err(error),
        Err(trouble) => panic!("{trouble:?}"),
    }
    let (found, _) = world.machine.survey().expect("reads complete");
    let wrong = world.model.judge_found(&found).into_iter();
    let wrong: Vec<String> =
        wrong.filter(|wrong| !allowed(wrong)).map(|wrong| wrong.to_string()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(found.iter().flat_map(|volume| &volume.blocks).filter(|block| block.is_none()).count())
}

/// What is on media when all that was written has come there.
fn kept(world: &World) -> Image {
    let mut image = Image::new(world.settings.media);
    let cache = world.machine.disk.cache();
    cache.crash(&CrashState(vec![Fate::Kept; cache.pending().len()]), &mut image);
    image
}

/// Runs many seeds; afterwards nothing may be missing. Returns how many faults there were.
pub fn strike(seeds: Range<u64>, rule: Rule, crash_one_in: u64) -> usize {
    let mut faults = 0;
    for seed in seeds {
        let mut world = faulty(seed, rule, crash_one_in);
        faults += world.machine.disk.injector().log().len();
        assert_eq!(heal(&mut world, |_| false), Ok(0), "{rule:?}, seed {seed}");
    }
    faults
}

const READ_ERRORS: Rule = one_in(20, CommandKind::Read, Fault::Fail(DeviceError::Io));

const CHUNK_ERRORS: [Rule; 2] = [
    one_in(30, CommandKind::WriteChunk, Fault::Fail(DeviceError::Io)),
    one_in(30, CommandKind::WriteChunk, Fault::FailTorn(DeviceError::Io)),
];

const WRITE_ERRORS: [Rule; 4] = [
    one_in(10, CommandKind::WriteSuperblock, Fault::Fail(DeviceError::Io)),
    one_in(40, CommandKind::Flush, Fault::Fail(DeviceError::Io)),
    one_in(40, CommandKind::Flush, Fault::FailForgotten(DeviceError::Io)),
    one_in(2, CommandKind::Finish, Fault::Fail(DeviceError::Io)),
];

const READ_ONLY: Rule =
    one_in(200, CommandKind::WriteChunk, Fault::Degrade(UnitCondition::ReadOnly));

#[test]
fn read_errors_of_a_device_that_recovers_cost_nothing() {
    let faults = strike(0..100, READ_ERRORS, 0);
    assert!(faults > 100, "{faults}");
}

#[test]
fn write_errors_of_a_device_that_recovers_cost_nothing() {
    for rule in WRITE_ERRORS {
        let faults = strike(0..60, rule, 0);
        assert!(faults > 10 || rule.kind == Some(CommandKind::Finish), "{rule:?}: {faults}");
    }
}

#[test]
fn read_errors_and_power_cuts_together_cost_nothing() {
    assert!(strike(0..60, READ_ERRORS, 60) > 100);
}

#[test]
fn write_errors_and_power_cuts_together_cost_nothing() {
    for rule in WRITE_ERRORS {
        let faults = strike(0..60, rule, 60);
        assert!(faults > 10 || rule.kind == Some(CommandKind::Finish), "{rule:?}: {faults}");
    }
}

/// What a failed flush left in the host's cache alone is gone with the next power cut, though reads show it and the
/// next flush succeeds: a pool that goes by what reads show when it is opened again builds on it, and frees what it
/// needs.
#[test]
fn a_pool_that_believes_its_hosts_cache_loses_what_was_flushed() {
    let lost = |believes: bool| {
        let wrong = (0..120).filter(|&seed| {
            let rule = one_in(20, CommandKind::Flush, Fault::FailForgotten(DeviceError::Io));
            let mut world = World::new(seed, Settings::draw(seed, Scale::Small), vec![rule]);
            if believes {
                world.machine.disk.let_host_believe_its_cache();
            }
            world.run(40);
            !world.wrong.is_empty()
        });
        wrong.count()
    };
    assert_eq!(lost(false), 0);
    assert!(lost(true) > 5);
}

#[test]
fn failed_chunks_of_a_device_that_recovers_cost_nothing() {
    for rule in CHUNK_ERRORS.into_iter().chain([READ_ONLY]) {
        assert!(strike(0..60, rule, 0) + strike(0..60, rule, 60) > 20, "{rule:?}");
    }
}

#[test]
fn units_that_cannot_be_reset_are_done_without() {
    let rule = one_in(20, CommandKind::Reset, Fault::Fail(DeviceError::Io));
    assert!(strike(0..60, rule, 0) + strike(0..60, rule, 60) > 5);
}

#[test]
fn slow_commands_change_nothing_but_the_time() {
    for delay in [Time::micros(1000), Time::seconds(10), Time::seconds(86_400)] {
        for kind in [CommandKind::Read, CommandKind::WriteChunk, CommandKind::Flush] {
            strike(0..10, one_in(10, kind, Fault::Delay(delay)), 60);
        }
    }
}

#[test]
fn read_only_units_are_still_read() {
    assert!(strike(0..120, READ_ONLY, 0) > 20);
}

#[test]
fn what_rests_on_an_offline_unit_is_an_error_and_nothing_else_is_wrong() {
    let (mut faults, mut opened) = (0, 0);
    for seed in 0..120 {
        let fault = Fault::Degrade(UnitCondition::Offline);
        let mut world = faulty(seed, one_in(200, CommandKind::WriteChunk, fault), 0);
        faults += world.machine.disk.injector().log().len();
        // A pool with an offline unit in its tail does not open.
        opened += u32::from(heal(&mut world, |_| false).is_ok());
    }
    assert!(faults > 20 && opened > 10, "{faults} faults, {opened} pools open");
}

#[test]
fn writes_that_the_device_spoils_are_never_read_as_data() {
    for fault in [Fault::Lose, Fault::Misdirect, Fault::Flip(1), Fault::Flip(40)] {
        let mut faults = 0;
        for seed in 0..120 {
            let mut world = faulty(seed, one_in(30, CommandKind::WriteChunk, fault), 0);
            faults += world.machine.disk.injector().log().len();
            // What was flushed last is vouched for by nothing: there an older version may come back.
            let _ = heal(&mut world, Verdict::is_rollback);
        }
        assert!(faults > 100, "{fault:?}: {faults}");
    }
}

#[test]
fn writes_that_land_on_another_device_are_never_read_as_data() {
    let mut faults = 0;
    let rule = one_in(10, CommandKind::WriteChunk, Fault::OtherDevice);
    for seed in 0..160 {
        let mut world = faulty(seed, rule, 0);
        let geometry = world.settings.media.geometry;
        for injected in world.machine.disk.injector().log() {
            let (at, instead) = (injected.at.zip(injected.instead)).expect("it has two places");
            assert_eq!(at.block, instead.block);
            assert_ne!(geometry.device_of(at.unit), geometry.device_of(instead.unit));
            faults += 1;
        }
        let _ = heal(&mut world, Verdict::is_rollback);
    }
    assert!(faults > 50, "{faults}");
}

/// Alone, and with power cuts. What was read is checked, so nothing is lost by a wrong read.
#[test]
fn reads_that_are_wrong_once_cost_nothing() {
    let rule = one_in(20, CommandKind::Read, Fault::Misread);
    let faults = strike(0..60, rule, 0) + strike(0..60, rule, 60);
    assert!(faults > 200, "{faults}");
}

#[test]
fn a_device_whose_commands_do_not_return_costs_nothing() {
    let hangs = Rule { kind: None, ..one_in(150, CommandKind::Flush, Fault::Hang) };
    let faults = strike(0..60, hangs, 0) + strike(0..60, hangs, 60);
    assert!(faults > 50, "{faults}");
}

#[test]
fn sectors_that_power_cuts_tear_within_cost_nothing() {
    let mut faults = 0;
    for kind in [CommandKind::WriteChunk, CommandKind::WriteSuperblock] {
        faults += strike(0..60, one_in(1, kind, Fault::TearWithin), 40);
    }
    assert!(faults > 200, "{faults}");
}

#[test]
fn a_flush_that_lies_is_told_or_leaves_an_older_state() {
    let (mut lies, mut refused) = (0, 0);
    for seed in 0..150 {
        let mut world = faulty(seed, one_in(3, CommandKind::Flush, Fault::Lie), 50);
        lies += world.machine.disk.injector().log().len();
        // What one power cut undid may be there again after the next, as `World` judges.
        let older = |wrong: &Verdict| wrong.is_rollback() || wrong.is_return();
        refused += u32::from(heal(&mut world, older).is_err());
    }
    assert!(lies > 100 && refused > 0, "{lies} lies, {refused} pools refused");
}

/// How formatting over a pool was cut short, and what was found then: the new pool, the whole earlier one, or none.
#[derive(Debug, Default)]
struct Formatted {
    new: u32,
    earlier: u32,
    none: u32,
}

impl Formatted {
    /// Formats the pool of `before`, which holds `whole`, for some turns; then the power is cut.
    fn cut(&mut self, machine: &mut Machine, config: &Config, before: &Image, turns: u64) {
        machine.restart(config.clone(), before, 1);
        let whole = match machine.wait_until_open().and_then(|_| machine.survey()) {
            Ok((whole, _)) => whole,
            Err(trouble) => panic!("a sound pool: {trouble:?}"),
        };
        machine.restart(config.clone(), before, 1);
        let other = PoolId(*b"another new pool");
        machine.engine = Engine::format(config.clone(), other, turns).expect("it worked before");
        let done = machine.run_until_open(turns).is_ok();
        let state = machine.disk.cache().random_state(&mut Rng::new(turns));
        let mut after = before.clone();
        machine.disk.cache().crash(&state, &mut after);
        machine.restart(config.clone(), &after, 2);
        match machine.wait_until_open() {
            Ok(_) if machine.engine.volumes().is_empty() => self.new += 1,
            Ok(_) => {
                let (found, _) = machine.survey().expect("reads complete");
                let blocks = |found: Vec<FoundVolume>| -> Vec<_> {
                    found.into_iter().map(|volume| volume.blocks).collect()
                };
                assert!(blocks(whole) == blocks(found), "the earlier pool is there in part");
                assert!(!done, "the earlier pool is back");
                self.earlier += 1;
            }
            Err(Trouble::Refused(
                OpenError::NoPool | OpenError::TwoPools | OpenError::DeviceMissing(_),
            )) if !done => {
                self.none += 1;
            }
            Err(trouble) => panic!("{trouble:?}"),
        }
    }
}

#[test]
fn formatting_over_a_pool_leaves_the_new_one_or_none() {
    let mut seen = Formatted::default();
    for seed in 0..60 {
        let settings = Settings::draw_plain(seed, Scale::Small);
        let mut world = World::new(seed, settings.clone(), Vec::new());
        world.run(0);
        if world.model.volumes().next().is_none() {
            continue;
        }
        let before = kept(&world);
        let disk = Disk::new(&world.arena, before.clone(), Latency::NONE, seed);
        let mut machine = Machine::open(settings.config.clone(), &world.arena, disk, seed);
        for turns in 0..60 {
            replay::enter(Place { seed, point: turns, state: 0 });
            seen.cut(&mut machine, &settings.config, &before, turns);
        }
    }
    assert!(seen.new > 100 && seen.earlier > 20 && seen.none > 100, "{seen:?}");
}

/// A unit whose entry was lost is in use, and nobody knows its generation, after the next opening either.
#[test]
fn a_pool_that_lost_a_page_of_its_unit_table_is_sound_when_it_was_closed_again() {
    let mut lost = 0;
    for seed in 0..20 {
        let settings = Settings::draw(seed, Scale::Small);
        let mut world = World::new(seed, settings.clone(), Vec::new());
        world.run(0);
        let _ = world.machine.close();
        let mut image = kept(&world);
        let pages = targets(&world.arena, &image);
        for page in pages.iter().filter(|target| target.structure == Structure::UnitPage) {
            let sectors = [BlockId::garbage(1); SECTORS_PER_BLOCK];
            let sectors: Vec<_> =
                sectors.iter().zip(0..).map(|(block, part)| block.sector(part)).collect();
            let per_block = image.media().sectors_per_logical();
            image.put(page.at.unit, page.at.block * per_block, &sectors);
            lost += 1;
        }
        let disk = Disk::new(&world.arena, image.clone(), Latency::NONE, seed);
        let mut machine = Machine::open(settings.config.clone(), &world.arena, disk, seed);
        for opening in 0..2 {
            if opening > 0 {
                machine.kill(settings.config.clone(), seed);
            }
            machine.wait_until_open().expect("a table can be counted anew");
            machine.survey().expect("all can be read, and counts are right");
            let (scrubbed, hits) = machine.ask(HostRequest::Scrub).expect("a scrub ends");
            let sound = matches!(scrubbed, Ok(Reply::Scrubbed { damaged: 0, .. }));
            assert!(
                sound && hits.is_empty(),
                "seed {seed}, opening {opening}: {scrubbed:?} {hits:?}"
            );
            machine.close().expect("a sound device");
        }
    }
    assert!(lost > 10, "{lost} pages");
}
