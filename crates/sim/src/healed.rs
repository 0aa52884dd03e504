//! A member that is wrong, a scrub, and then another member that is wrong: after the scrub the first one is right.
//!
//! A world runs to its end, and the pool is closed. Some sectors of one member are flipped, the pool is opened and
//! scrubbed, and closed again. Then everything behind the head of another member of the same group is garbage: all that
//! was flushed must be read all the same.

use thermocline_engine::{HostRequest, Reply};
use thermocline_types::{DeviceId, Rng, UnitId};

use crate::data::{BlockId, SECTORS_PER_BLOCK};
use crate::disk::{Disk, GroupSpec, Image, Latency};
use crate::machine::{Machine, Trouble};
use crate::settings::Settings;
use crate::world::World;
use crate::wrong::{Earlier, How, Wrong};

/// Times that sectors are flipped before the pool is opened. Chosen: enough to hit blocks, parity and headers.
const FLIPS: usize = 12;

/// Does that in a world of `seed`.
///
/// # Errors
/// What went wrong.
pub fn scrub_heals(seed: u64, mut settings: Settings) -> Result<(), String> {
    settings.wrong = None;
    let mut rng = Rng::new(seed ^ 0x4EA1);
    let group = settings.groups.0[rng.below(settings.groups.0.len() as u64) as usize];
    let members: Vec<DeviceId> = group.members().collect();
    let first = rng.below(members.len() as u64) as usize;
    let other = (first + 1 + rng.below(members.len() as u64 - 1) as usize) % members.len();
    let mut world = World::new(seed, settings, Vec::new());
    world.run(0);
    if let Some(wrong) = world.wrong.pop() {
        return Err(wrong);
    }
    if !world.goes_on() {
        return Ok(());
    }
    let stuck = |trouble| format!("{trouble:?}");
    world.machine.close().map_err(stuck)?;
    let mut image = world.machine.disk.cache().current().clone();
    let wrong = Wrong { member: members[first], how: How::Flips };
    for _ in 0..FLIPS {
        wrong.spoil(&world.arena, &mut image, &Earlier::default(), &mut rng);
    }
    let mut machine = open(&world, &image, seed)?;
    let (reply, damaged) = machine.ask(HostRequest::Scrub).map_err(stuck)?;
    let Ok(Reply::Scrubbed { damaged: places, .. }) = reply else {
        return Err(format!("a scrub was answered with {reply:?}"));
    };
    if places > 0 || !damaged.is_empty() {
        return Err(format!("{places} places are damaged with one wrong member: {damaged:?}"));
    }
    machine.close().map_err(stuck)?;
    let mut image = machine.disk.cache().current().clone();
    spoil_all(&mut image, &group, members[other]);
    let mut machine = open(&world, &image, seed)?;
    let (found, _) = machine.survey().map_err(stuck)?;
    let verdicts = world.model.judge_found(&found);
    let blocks = found.iter().flat_map(|volume| &volume.blocks);
    let unreadable = blocks.filter(|block| block.is_none()).count();
    if unreadable > 0 || !verdicts.is_empty() {
        let verdicts: Vec<String> = verdicts.iter().take(4).map(ToString::to_string).collect();
        return Err(format!(
            "after a scrub with member {first} wrong, member {other} became wrong: {unreadable} blocks cannot be \
             read; {}",
            verdicts.join("; ")
        ));
    }
    Ok(())
}

/// Runs a world of `seed` to its end, makes two members of a group garbage, and opens the pool: where that is refused,
/// no member may have been changed. Returns whether it was.
///
/// # Errors
/// What went wrong.
pub fn refused_unchanged(seed: u64, mut settings: Settings) -> Result<bool, String> {
    settings.wrong = None;
    let group = settings.groups.0[0];
    let mut world = World::new(seed, settings, Vec::new());
    world.run(0);
    if !world.goes_on() {
        return Ok(false);
    }
    let mut image = world.machine.disk.cache().current().clone();
    for member in group.members().take(2) {
        spoil_all(&mut image, &group, member);
    }
    let mut machine = opening(&world, &image, seed);
    let refused = matches!(machine.wait_until_open(), Err(Trouble::Refused(_)));
    if refused && machine.has_changed_media() {
        return Err("an opening that is refused changes what members hold".to_owned());
    }
    Ok(refused)
}

fn open(world: &World, image: &Image, seed: u64) -> Result<Machine, String> {
    let mut machine = opening(world, image, seed);
    machine.wait_until_open().map_err(|trouble| format!("no opening: {trouble:?}"))?;
    Ok(machine)
}

fn opening(world: &World, image: &Image, seed: u64) -> Machine {
    let disk = Disk::new(&world.arena, image.clone(), Latency::NONE, seed);
    let disk = disk.with_groups(&world.settings.groups);
    Machine::open(world.settings.config.clone(), &world.arena, disk, seed)
}

/// Everything behind the head of a member is garbage.
fn spoil_all(image: &mut Image, group: &GroupSpec, member: DeviceId) {
    let media = *image.media();
    let units = media.geometry.device_units().find(|(device, _)| *device == member);
    let (_, units) = units.expect("the medium has the member");
    let garbage: Vec<_> = (0..media.sectors_per_unit() as usize)
        .map(|at| BlockId::garbage(at as u64 / 8).sector(at % SECTORS_PER_BLOCK))
        .collect();
    for unit in units.skip(group.shape.head_units() as usize).map(UnitId) {
        image.put(unit, 0, &garbage);
    }
}
