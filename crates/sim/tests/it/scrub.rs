//! Scrubs of sound pools, which must find nothing: a false alarm makes the one tool for silent damage useless.

use std::rc::Rc;

use thermocline_engine::{Extent, HostRequest, Notice, Reply};
use thermocline_format::VolumeId;
use thermocline_sim::damage::{Structure, targets};
use thermocline_sim::data::{Arena, Data};
use thermocline_sim::disk::{CrashState, Disk, Fate, Image, Latency};
use thermocline_sim::machine::{Event, Machine};
use thermocline_sim::settings::{Scale, Settings};
use thermocline_sim::world::{Step, World};
use thermocline_types::{Rng, Time, UnitId};

use crate::asking::{ask, create, submit, write};

/// Opens what `image` holds, on a disk where nothing takes time.
fn open(world: &World, image: Image) -> Machine {
    let disk = Disk::new(&world.arena, image, Latency::NONE, 0);
    Machine::open(world.settings.config.clone(), &world.arena, disk, 0)
}

/// What scrub says of the pool on `image`.
fn scrub(world: &World, image: &Image) -> Result<(), String> {
    let mut machine = open(world, image.clone());
    machine.wait_until_open().expect("a sound pool opens");
    match ask(&mut machine, HostRequest::Scrub) {
        (Ok(Reply::Scrubbed { damaged: 0, .. }), hits) if hits.is_empty() => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn a_sound_pool_is_not_called_damaged_after_power_cuts() {
    let mut states = 0;
    for seed in 0..60 {
        let mut world = World::new(seed, Settings::draw(seed, Scale::Small), Vec::new());
        let mut rng = Rng::new(seed);
        loop {
            match world.step() {
                Step::Went => {}
                Step::Down => world.reopen(),
                Step::Over => break,
            }
            let cache = world.machine.disk.cache();
            if rng.below(60) != 0 || cache.pending().len() < 2 {
                continue;
            }
            let state = cache.random_state(&mut rng);
            let mut image = Image::new(world.settings.media);
            cache.crash(&state, &mut image);
            let mark = world.arena.mark();
            let said = scrub(&world, &image);
            assert_eq!(said, Ok(()), "seed {seed}, state {states}: {state:?}");
            world.arena.truncate(mark);
            states += 1;
        }
    }
    assert!(states > 300, "{states}");
}

/// A new pool with a volume of so many blocks.
fn new_pool(settings: &Settings, blocks: u64, seed: u64) -> (Rc<Arena>, Machine, VolumeId) {
    let arena = Arena::new();
    let disk = Disk::new(&arena, Image::new(settings.media), settings.latency, seed);
    let mut machine = Machine::format(settings.config.clone(), &arena, disk, seed);
    machine.wait_until_open().expect("a pool is made");
    let volume = create(&mut machine, blocks);
    (arena, machine, volume)
}

#[test]
fn a_scrub_while_the_host_writes_calls_nothing_damaged() {
    let mut scrubs = 0;
    for seed in 0..60 {
        let settings = Settings::draw(seed, Scale::Small);
        let blocks = (settings.config.capacity_blocks(0) / 3).min(400);
        let (arena, mut machine, volume) = new_pool(&settings, blocks, seed);
        let mut rng = Rng::new(seed);
        let (mut events, mut scrub, mut writes) = (Vec::new(), None, 0);
        for version in 1..4000 {
            machine.pump(&mut events);
            for event in events.drain(..) {
                match event {
                    Event::Complete(id, result) if Some(id) == scrub => {
                        let sound = matches!(result, Ok(Reply::Scrubbed { damaged: 0, .. }));
                        assert!(sound, "seed {seed}: {result:?}");
                        (scrub, scrubs) = (None, scrubs + 1);
                    }
                    Event::Complete(_, result) => {
                        result.expect("nothing fails here");
                        writes -= 1;
                    }
                    Event::Notice(Notice::Damaged { at, .. }) => panic!("seed {seed}: {at}"),
                    Event::Notice(_) => {}
                }
            }
            if writes < 4 {
                let fua = rng.below(4) == 0;
                submit(&mut machine, write(&arena, volume, rng.below(blocks), version, fua));
                writes += 1;
            }
            if scrub.is_none() && version > 1000 {
                scrub = Some(submit(&mut machine, HostRequest::Scrub));
            }
            machine.turn();
        }
    }
    assert!(scrubs > 300, "{scrubs}");
}

/// Nanoseconds for which a host is quiet before the disk counts as idle.
const QUIET: u64 = 10_000_000;

/// Lets time pass until a scrub in the background has ended, and the host do `more` each time. Returns how long the
/// scrub took, and what it compared.
fn in_background(machine: &mut Machine, mut more: impl FnMut(&mut Machine)) -> (u64, u64) {
    let (began, mut events) = (machine.now, Vec::new());
    assert!(machine.engine.scrub_in_background(machine.now, UnitId(0)));
    loop {
        machine.pump(&mut events);
        for event in events.drain(..) {
            match event {
                Event::Notice(Notice::Scrubbed { blocks, damaged, mended }) => {
                    assert_eq!((damaged, mended), (0, 0), "the pool is sound");
                    assert_eq!(machine.engine.background_scrub(), None);
                    return (machine.now.as_nanos() - began.as_nanos(), blocks);
                }
                Event::Notice(Notice::Damaged { at, .. }) => panic!("{at} is sound"),
                Event::Notice(_) => {}
                Event::Complete(_, result) => _ = result.expect("nothing fails here"),
            }
        }
        more(machine);
        assert!(machine.turn(), "a scrub in the background waits for time alone");
    }
}

#[test]
fn a_scrub_in_the_background_has_a_tenth_of_an_idle_disk_and_less_of_a_busy_one() {
    for seed in 0..20 {
        let latency = Latency { read: Time::nanos(100_000), ..Latency::NONE };
        let settings = Settings { latency, ..Settings::draw(seed, Scale::Small) };
        let blocks = (settings.config.capacity_blocks(0) / 3).min(400);
        let (arena, mut machine, volume) = new_pool(&settings, blocks, seed);
        for lba in 0..blocks {
            assert!(ask(&mut machine, write(&arena, volume, lba, lba + 1, true)).0.is_ok());
        }
        assert!(ask(&mut machine, HostRequest::Flush).0.is_ok());
        let began = machine.now;
        let (alone, _) = ask(&mut machine, HostRequest::Scrub);
        let Ok(Reply::Scrubbed { blocks: compared, .. }) = alone else { panic!("{alone:?}") };
        let alone = machine.now.as_nanos() - began.as_nanos();
        assert!(alone > 0, "reads take time");
        let (idle, all) = in_background(&mut machine, |_| {});
        assert_eq!(all, compared, "seed {seed}");
        // Latencies are drawn: a constant, and up to as much again. Before it begins it waits for hosts.
        let most = 16 * alone + QUIET;
        assert!((6 * alone..most).contains(&idle), "seed {seed}: {idle} ns, {alone} alone");
        let busy = |machine: &mut Machine| {
            if machine.disk.in_flight() == 0 {
                let extent = Extent { volume, lba: 0, blocks: 1 };
                submit(machine, HostRequest::Read { extent, into: Data::zeros(&arena, 1) });
            }
        };
        let (busy, all) = in_background(&mut machine, busy);
        assert!(
            all >= compared && busy > 4 * (idle - QUIET.min(idle)),
            "seed {seed}: {busy} ns, {idle} if idle"
        );
    }
}

#[test]
pub(crate) fn a_scrub_in_the_background_calls_nothing_damaged_and_holds_up_neither_writes_nor_the_end()
 {
    let (mut ended, mut given_up) = (0, 0);
    for seed in 0..60 {
        let settings = Settings::draw(seed, Scale::Small);
        let blocks = (settings.config.capacity_blocks(0) / 2).min(400);
        let (arena, mut machine, volume) = new_pool(&settings, blocks, seed);
        let mut rng = Rng::new(seed);
        let (mut events, mut writes) = (Vec::new(), 0);
        for version in 1..3000 {
            machine.pump(&mut events);
            for event in events.drain(..) {
                match event {
                    Event::Complete(_, result) => {
                        result.expect("nothing fails here");
                        writes -= 1;
                    }
                    Event::Notice(Notice::Scrubbed { damaged, .. }) => {
                        assert_eq!(damaged, 0, "seed {seed}");
                        ended += 1;
                    }
                    Event::Notice(Notice::Damaged { at, .. }) => panic!("seed {seed}: {at}"),
                    Event::Notice(_) => {}
                }
            }
            if machine.engine.background_scrub().is_none() {
                let from = UnitId(rng.below(3) as u32);
                assert!(machine.engine.scrub_in_background(machine.now, from));
            }
            if writes < 4 {
                let fua = rng.below(4) == 0;
                submit(&mut machine, write(&arena, volume, rng.below(blocks), version, fua));
                writes += 1;
            }
            machine.turn();
        }
        given_up += u32::from(machine.engine.background_scrub().is_some());
        let (closed, _) = ask(&mut machine, HostRequest::Close);
        assert!(closed.is_ok() && machine.engine.is_closed_clean(), "seed {seed}: {closed:?}");
    }
    assert!(ended > 100 && given_up > 20, "{ended} ended, {given_up} were given up");
}

#[test]
fn a_pool_is_scrubbed_after_a_volume_with_a_damaged_page_was_deleted() {
    let mut tried = 0;
    for seed in 0..40 {
        let mut world = World::new(seed, Settings::draw(seed, Scale::Small), Vec::new());
        world.run(0);
        if ask(&mut world.machine, HostRequest::Close).0.is_err() {
            continue;
        }
        let cache = world.machine.disk.cache();
        let mut image = Image::new(world.settings.media);
        cache.crash(&CrashState(vec![Fate::Kept; cache.pending().len()]), &mut image);
        let arena = Rc::clone(&world.arena);
        let all = targets(&arena, &image);
        let Some(page) = all.iter().find(|target| target.structure == Structure::Page) else {
            continue;
        };
        let start = page.at.block * image.media().sectors_per_logical();
        let garbage = arena.bytes(&[7; 4096]);
        let sectors: Vec<_> = (0..8).map(|part| garbage.sector(part)).collect();
        image.put(page.at.unit, start, &sectors);
        let mut machine = open(&world, image);
        if machine.wait_until_open().is_err() {
            continue;
        }
        let (first, _) = ask(&mut machine, HostRequest::Scrub);
        assert!(matches!(first, Ok(Reply::Scrubbed { damaged: 1.., .. })), "{first:?}");
        let volume = page.leads_to[0].0;
        // A full pool takes no writes when it cannot know what to collect.
        if ask(&mut machine, HostRequest::DeleteVolume { volume }).0.is_err() {
            continue;
        }
        let (second, _) = ask(&mut machine, HostRequest::Scrub);
        assert!(matches!(second, Ok(Reply::Scrubbed { damaged: 0, .. })), "{seed}: {second:?}");
        tried += 1;
    }
    assert!(tried >= 4, "{tried}");
}
