//! A header that is lost, and a host that writes on.
//!
//! A world runs. Now and then, just after a checkpoint or long after, power is cut and no change is lost. The test
//! destroys the header of a chunk on the image. The pool opens as if the chunk had never been written. If other
//! structures vouch for the chunk, the pool opens in spite of the loss. Unit counts must be right. Then the host
//! writes, and the pool is closed and opened again: all blocks readable before the writes must still be readable.

use std::collections::BTreeMap;

use thermocline_engine::{Extent, HostRequest, OpenError};
use thermocline_types::UnitId;

use crate::damage::{Structure, Target, targets};
use crate::data::{Content, Data, Sector};
use crate::disk::{Disk, Image, Latency};
use crate::machine::{Machine, Trouble};
use crate::model::FoundVolume;
use crate::settings::Settings;
use crate::world::{Step, World};

/// Checkpoints of one world after which headers are lost, at most.
const CHECKPOINTS: usize = 16;

/// Bytes between checkpoints: few bytes for many checkpoints, or enough bytes for units to be reset and rewritten.
const CHECKPOINT_BYTES: [u64; 2] = [256 << 10, 4 << 20];

/// Steps between lost headers far behind a checkpoint.
const STEPS: u64 = 400;

/// Requests that rewrite existing blocks.
const WRITES: usize = 16;

/// Runs the test in a world of `seed`.
///
/// # Errors
/// What went wrong.
pub fn lost_header(seed: u64, mut settings: Settings) -> Result<(), String> {
    let far = seed % 4 == 3;
    settings.config.checkpoint_bytes = CHECKPOINT_BYTES[usize::from(far)];
    let mut world = World::new(seed, settings, Vec::new());
    let (mut taken, mut tried, mut steps) = (0, 0, 0);
    while tried < CHECKPOINTS && world.goes_on() {
        match world.step() {
            Step::Went => {}
            Step::Down => world.reopen_if_down(),
            Step::Over => break,
        }
        steps += 1;
        let checkpoints = world.machine.engine.stats().checkpoints;
        let due = if far { steps % STEPS == 0 } else { checkpoints > taken };
        if due {
            tried += 1;
            lose_each(&world, seed)?;
        }
        taken = checkpoints;
    }
    world.wrong.pop().map_or(Ok(()), Err)
}

/// Loses the last header of each unit, one after the other.
fn lose_each(world: &World, seed: u64) -> Result<(), String> {
    let image = world.machine.disk.cache().current().clone();
    let tail = |target: &Target| target.structure == Structure::TailHeader;
    // The last of each unit, which nothing behind it shows.
    let last: BTreeMap<UnitId, Target> = targets(&world.arena, &image)
        .into_iter()
        .filter(tail)
        .map(|target| (target.at.unit, target))
        .collect();
    for header in last.into_values() {
        let mut damaged = image.clone();
        let start = header.at.block * image.media().sectors_per_logical();
        damaged.put(header.at.unit, start, &[Sector::ZEROS]);
        let mark = world.arena.mark();
        let result = write_on(world, &damaged, seed);
        world.arena.truncate(mark);
        result.map_err(|what| format!("without the header at {}: {what}", header.at))?;
    }
    Ok(())
}

/// Opens the pool on `image`, writes, and opens the pool again.
fn write_on(world: &World, image: &Image, seed: u64) -> Result<(), String> {
    let mut config = world.settings.config.clone();
    let disk = Disk::new(&world.arena, image.clone(), Latency::NONE, seed);
    let mut machine = Machine::open(config.clone(), &world.arena, disk, seed);
    let say = |when: &'static str| move |trouble: Trouble| format!("{when}: {trouble:?}");
    match machine.wait_until_open() {
        Err(Trouble::Refused(OpenError::ChunksLost { .. })) => {
            config.open_despite_loss = true;
            machine.restart(config.clone(), image, seed);
            machine.wait_until_open().map_err(say("in spite of the loss"))?;
        }
        opened => _ = opened.map_err(say("opening"))?,
    }
    let (before, _) = machine.survey().map_err(say("before the host wrote"))?;
    for (extent, data) in same_again(world, &before) {
        let write = HostRequest::Write { extent, data, fua: true, handle: 0 };
        if machine.ask(write).map_err(say("a write"))?.0.is_err() {
            break;
        }
    }
    machine.close().map_err(say("closing"))?;
    let after = machine.disk.cache().current().clone();
    machine.restart(config, &after, seed + 1);
    machine.wait_until_open().map_err(say("once more"))?;
    let (after, _) = machine.survey().map_err(say("after the host wrote"))?;
    for (was, is) in before.iter().zip(&after) {
        let blocks = was.blocks.iter().zip(&is.blocks).enumerate();
        for (lba, (was, is)) in blocks.filter(|(_, (was, _))| was.is_some()) {
            if was != is {
                return Err(format!("block {lba} was {was:?}, and is {is:?}"));
            }
        }
    }
    Ok(())
}

/// Some blocks of the volumes, with what they hold.
fn same_again(world: &World, found: &[FoundVolume]) -> Vec<(Extent, Data)> {
    let blocks = found.iter().flat_map(|volume| {
        let written = volume.blocks.iter().enumerate().filter_map(|(lba, content)| match content {
            Some(Content::User(stamp)) => Some((lba as u64, *stamp)),
            _ => None,
        });
        written.map(|(lba, stamp)| (Extent { volume: volume.volume, lba, blocks: 1 }, stamp))
    });
    let one = |(extent, stamp)| {
        (extent, Data::new(&world.arena, std::iter::once(world.arena.user(stamp))))
    };
    blocks.take(WRITES).map(one).collect()
}
