//! A wrong member, a scrub, then a second wrong member: the scrub must have repaired the first member.
//!
//! A world runs to its end, and the pool is closed. Some sectors of one member are flipped. The pool is opened,
//! scrubbed and closed. Then a second member of the same group becomes garbage behind its head. All flushed data must
//! still be readable.

use thermocline_engine::{Extent, HostRequest, Reply};
use thermocline_format::VolumeName;
use thermocline_types::{DeviceId, Lba, Rng, UnitId};

use crate::data::{BlockId, Content, Data, SECTORS_PER_BLOCK, Stamp};
use crate::disk::{Disk, GroupSpec, Image, Latency};
use crate::machine::{Machine, Trouble};
use crate::settings::Settings;
use crate::world::World;
use crate::wrong::{Earlier, How, Wrong};

/// Times that sectors are flipped before the pool is opened. Chosen: enough to hit blocks, parity and headers.
const FLIPS: usize = 12;

/// Blocks of the volume that is written while a member is put back. Chosen: enough chunks for each member.
const LBAS: u64 = 16;

/// Steps until a member that was put back is filled. Chosen, not measured.
const FILLED_WITHIN: u64 = 200_000;

/// Runs the test in a world of `seed`.
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
    let wrong = Wrong { member: members[first], how: How::Flips, also: None };
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

/// Puts a member of a new pool back to an earlier state, after power failed. The opening must distrust the member and
/// have it filled, so that another member may be garbage later.
///
/// # Errors
/// What went wrong.
pub fn put_back_is_filled(seed: u64, mut settings: Settings) -> Result<(), String> {
    settings.wrong = None;
    // All chunks are in the tail, each flushed, and all of them on the group.
    settings.config.checkpoint_bytes = 64 << 20;
    let (group, mut rng) = (settings.groups.0[0], Rng::new(seed ^ 0x9B_ACC));
    if settings.config.geometry.devices().len() > 1 {
        return Ok(());
    }
    let members: Vec<DeviceId> = group.members().collect();
    let first = rng.below(members.len() as u64) as usize;
    let other = (first + 1 + rng.below(members.len() as u64 - 1) as usize) % members.len();
    let stuck = |trouble| format!("{trouble:?}");
    let mut world = World::new(seed, settings, Vec::new());
    let (machine, arena) = (&mut world.machine, &world.arena);
    let name = VolumeName::new("a").expect("a name");
    let made = machine.ask(HostRequest::CreateVolume { name, blocks: LBAS }).map_err(stuck)?.0;
    let Ok(Reply::Created(volume)) = made else { return Ok(()) };
    let wrong = Wrong { member: members[first], how: How::RolledBack, also: None };
    let mut kept = Earlier::default();
    for version in 1..=3 * LBAS {
        if version == LBAS {
            kept = wrong.keep(machine.disk.cache().stable()).unwrap_or_default();
        }
        let lba = version % LBAS;
        let stamp = Stamp { volume, lba: Lba(lba), version };
        let data = Data::new(arena, std::iter::once(arena.user(stamp)));
        let extent = Extent { volume, lba, blocks: 1 };
        let write = HostRequest::Write { extent, data, fua: true, handle: 0 };
        if machine.ask(write).map_err(stuck)?.0.is_err() {
            return Ok(());
        }
    }
    let mut image = machine.disk.cache().stable().clone();
    wrong.spoil(arena, &mut image, &kept, &mut rng);
    let mut machine = open(&world, &image, seed)?;
    let mut events = Vec::new();
    for _ in 0..FILLED_WITHIN {
        machine.pump(&mut events);
        if machine.disk.is_whole() || !machine.turn() {
            break;
        }
    }
    machine.close().map_err(stuck)?;
    let mut image = machine.disk.cache().current().clone();
    spoil_all(&mut image, &group, members[other]);
    let (found, errors) = open(&world, &image, seed)?.survey().map_err(stuck)?;
    let newest = |block: &Option<Content>| matches!(block, Some(Content::User(_)));
    let whole = found.iter().flat_map(|volume| &volume.blocks).all(newest);
    match errors.first() {
        None if whole => Ok(()),
        None => Err("a block reads as zeros".to_owned()),
        Some((extent, error)) => Err(format!(
            "after member {first} was put back and the pool opened, member {other} became wrong: {error} at {extent:?}"
        )),
    }
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

/// Turns all sectors behind the head of a member into garbage.
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
