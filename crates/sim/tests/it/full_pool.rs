//! What happens when there is no room left.

use thermocline_engine::{DeviceError, Extent, HostError, HostRequest, Reply};
use thermocline_format::VolumeName;
use thermocline_sim::data::{Arena, Content};
use thermocline_sim::disk::{Disk, Image, Latency};
use thermocline_sim::faults::{CommandKind, Fault, Injector, Rule};
use thermocline_sim::machine::{Event, Machine};
use thermocline_sim::settings::{Scale, Settings};
use thermocline_sim::situations::Situation;
use thermocline_sim::world::World;
use thermocline_types::Rng;

use crate::asking::{ask, create, submit, write};

/// A block is written without FUA, which completes in memory, and at once again with FUA, while units go out of
/// service. Whatever becomes of the second write, the block does not go back to what it was before the first.
#[test]
fn an_acknowledged_write_does_not_vanish_when_what_overwrote_it_finds_no_room() {
    let mut ran_out = 0;
    for seed in 0..60 {
        let mut settings = Settings::draw(seed, Scale::Small);
        settings.config.write_cache = true;
        let arena = Arena::new();
        let disk = Disk::new(&arena, Image::new(settings.media), Latency::NONE, seed);
        let mut machine = Machine::format(settings.config.clone(), &arena, disk, seed);
        machine.wait_until_open().expect("a pool is made");
        let blocks = settings.config.capacity_blocks(0) * [2, 3, 4][seed as usize % 3] / 5;
        let volume = create(&mut machine, blocks);
        let fault = Fault::Fail(DeviceError::Io);
        let one_in = [1, 2, 3, 6][seed as usize % 4];
        let rule = Rule { one_in, ..Rule::from_then_on(0, CommandKind::Reset, fault) };
        machine.disk.inject(Injector::new(vec![rule], seed));
        let mut rng = Rng::new(seed);
        for step in 0..6000 {
            let lba = if step < blocks { step } else { rng.below(blocks) };
            let version = 2 * step + 1;
            let first = submit(&mut machine, write(&arena, volume, lba, version, false));
            let second = submit(&mut machine, write(&arena, volume, lba, version + 1, true));
            let (mut told, mut events) = ([None, None], Vec::new());
            while told.iter().any(Option::is_none) {
                machine.pump(&mut events);
                for event in events.drain(..) {
                    match event {
                        Event::Complete(id, result) if id == first => told[0] = Some(result),
                        Event::Complete(id, result) if id == second => told[1] = Some(result),
                        _ => {}
                    }
                }
                assert!(told.iter().all(Option::is_some) || machine.turn(), "both complete");
            }
            match told {
                [Some(Ok(_)), Some(Ok(_))] => continue,
                [Some(Ok(_)), Some(Err(error))] => {
                    let read = machine.read(Extent { volume, lba, blocks: 1 }).expect("it ends");
                    let content =
                        read.map(|data| arena.content(data.blocks().next().expect("one")));
                    let Some(Content::User(stamp)) = content else { panic!("{content:?}") };
                    assert!(stamp.version >= version, "seed {seed}: {stamp:?} after {error:?}");
                    ran_out += 1;
                }
                other => {
                    assert!(matches!(other[1], Some(Err(HostError::NoSpace | HostError::Failed))));
                }
            }
            break;
        }
    }
    assert!(ran_out > 20, "{ran_out}");
}

#[test]
fn volumes_get_their_reserved_room_though_others_fill_the_pool() {
    let mut kept = 0;
    for seed in 0..150 {
        let settings = Situation::Reserved.settings(seed);
        let mut world = World::new(seed, settings, Vec::new());
        world.run(if seed % 3 == 0 { 100 } else { 0 });
        assert!(world.wrong.is_empty(), "seed {seed}: {}", world.wrong.join("\n"));
        kept += world.kept_by_reserves();
    }
    assert!(kept > 500, "{kept} writes found reserved room in a full pool");
}

/// A write finds the pool full in the moment in which a volume is deleted: it waits for the room.
#[test]
pub fn a_write_waits_for_what_a_deletion_gives_back() {
    let settings = Settings::draw(1, Scale::Small);
    let arena = Arena::new();
    let disk = Disk::new(&arena, Image::new(settings.media), Latency::NONE, 1);
    let mut machine = Machine::format(settings.config.clone(), &arena, disk, 1);
    machine.wait_until_open().expect("a pool is made");
    let blocks = settings.config.capacity_blocks(0) + 1;
    let volume = create(&mut machine, blocks);
    let full = (0..blocks).find(|&lba| {
        let (told, _) = ask(&mut machine, write(&arena, volume, lba, lba + 1, false));
        told == Err(HostError::NoSpace)
    });
    let full = full.expect("that is more than there is room for");
    assert!(full > blocks / 2, "{full} of {blocks}");
    let name = VolumeName::new("b").expect("a name");
    let (made, _) = ask(&mut machine, HostRequest::CreateVolume { name, blocks });
    let Ok(Reply::Created(other)) = made else { panic!("{made:?}") };
    submit(&mut machine, HostRequest::DeleteVolume { volume });
    let (told, _) = ask(&mut machine, write(&arena, other, 0, 1, false));
    assert_eq!(told, Ok(Reply::Done));
}
