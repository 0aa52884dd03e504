//! Judges the outcome of damage.

use std::collections::{BTreeMap, BTreeSet};

use thermocline_engine::OpenError;
use thermocline_format::{Location, VolumeId};

use super::{Ending, Structure, Target};
use crate::data::Content;
use crate::model::{FoundVolume, Model};

/// What reading a damaged pool showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Everything as before.
    Same,
    /// Some blocks are errors, each of them hit or below what was hit; all others are as before.
    Missing,
    /// An older state where nothing on media vouches for the newer one.
    Older,
}

/// Whether the pool may refuse to open.
pub(super) fn refused(hit: &[Target], ending: Ending, error: OpenError) -> Result<(), String> {
    let structure = hit[0].structure;
    let right = match (structure, error) {
        (Structure::Root, OpenError::MapDamaged(at)) => at == hit[0].at,
        // Replay needs some pages.
        (Structure::Page, OpenError::MapDamaged(at)) => {
            at == hit[0].at && ending == Ending::Flushed
        }
        (Structure::TailHeader, OpenError::ChunksLost { .. }) => true,
        // Where another device has a record of the newest opening, that of the home is told to be missing or older.
        (
            Structure::AllNewest,
            OpenError::NoPool
            | OpenError::DeviceMissing(_)
            | OpenError::DeviceOlder(_)
            | OpenError::SuperblockLost { .. },
        ) => true,
        (Structure::AllNewest, OpenError::ChunksLost { .. } | OpenError::MapDamaged(_)) => true,
        _ => false,
    };
    if right { Ok(()) } else { Err(format!("the pool does not open: {error}")) }
}

/// Judges the blocks that were read after the damage. An outcome that the damage cannot explain is an error.
pub(super) fn read(
    hit: &[Target],
    expected: &[FoundVolume],
    found: &[FoundVolume],
    model: &Model,
) -> Result<Seen, String> {
    let concerned = |volume, lba| hit.iter().any(|target| target.concerns(volume, lba));
    let older_may_be = hit[0].structure == Structure::AllNewest;
    if let Some(wrong) = model.judge_found(found).iter().find(|wrong| !wrong.is_rollback()) {
        return Err(wrong.to_string());
    }
    let (before, after) = (contents(expected), contents(found));
    let (mut missing, mut older) = (0_u64, false);
    let keys: BTreeSet<&(VolumeId, u64)> = before.keys().chain(after.keys()).collect();
    for key @ &(volume, lba) in keys {
        let (old, new) = (before.get(key), after.get(key));
        if old == new {
            continue;
        }
        let vouched = !hit.iter().any(|target| !target.vouched && target.concerns(volume, lba));
        match new {
            Some(None) if concerned(volume, lba) => missing += 1,
            _ if older_may_be => older = true,
            _ if !vouched => older = true,
            Some(None) => return Err(format!("block {lba} of volume {volume:?} cannot be read")),
            other => {
                return Err(format!("block {lba} of volume {volume:?} is {other:?}, not {old:?}"));
            }
        }
    }
    // A block that no structure vouches for counts as torn. If the block was a relocated copy, the original is read.
    let due = |volume, lba| hit.iter().any(|hit| hit.vouched && hit.concerns(volume, lba));
    let counted = before.keys().filter(|&&(volume, lba)| due(volume, lba)).count() as u64;
    let all = matches!(hit[0].structure, Structure::Block | Structure::Page);
    if all && !older && missing < counted {
        return Err(format!("{missing} blocks are errors, {counted} must be"));
    }
    Ok(if older {
        Seen::Older
    } else if missing > 0 {
        Seen::Missing
    } else {
        Seen::Same
    })
}

fn contents(volumes: &[FoundVolume]) -> BTreeMap<(VolumeId, u64), Option<Content>> {
    let blocks = volumes.iter().flat_map(|volume| {
        (0..).zip(&volume.blocks).map(|(lba, content)| ((volume.volume, lba), *content))
    });
    blocks.collect()
}

/// How many of the damaged structures scrub found. It must not find anything else, unless an older
/// state came back.
pub(super) fn scrubbed(hit: &[Target], found: &BTreeSet<Location>) -> Result<u64, String> {
    let within = |target: &Target, at: &Location| {
        // A sound header from before the unit's last reset leads to more old headers: blocks behind it may seem
        // damaged.
        let leads = matches!(target.structure, Structure::Header | Structure::DeadHeader);
        let end = if leads { u32::MAX } else { target.end };
        at.unit == target.at.unit && (target.at.block..end).contains(&at.block)
    };
    // Without an unvouched chunk the map leads to the replaced blocks, whose unit may have been reset since.
    let vouched = hit.iter().all(|target| target.vouched);
    let elsewhere = |at: &&Location| !hit.iter().any(|target| within(target, at));
    if let Some(at) = found.iter().find(elsewhere).filter(|_| vouched) {
        return Err(format!("scrub finds something at {at}, where nothing is damaged"));
    }
    let found = |target: &&Target| found.iter().any(|at| within(target, at));
    Ok(hit.iter().filter(found).count() as u64)
}

/// Checks that scrub found enough of the damage.
pub(super) fn must_be_found(
    hit: &[Target],
    ending: Ending,
    seen: Seen,
    reported: u64,
) -> Result<(), String> {
    let all = hit.len() as u64;
    let due = match hit[0].structure {
        Structure::Block if seen == Seen::Older => 0,
        // Replay shrinks the volume below the page.
        Structure::Page if seen == Seen::Same => 0,
        // A block that no structure vouches for counts as torn.
        Structure::Block => hit.iter().filter(|target| target.vouched).count() as u64,
        Structure::Page => all,
        // In an unclosed pool, recovery rewrites blocks: the chunk may be dead before the scrub.
        Structure::Header if ending == Ending::Closed => all,
        Structure::Root => return Err("the pool opens without a root page".into()),
        Structure::TailHeader if hit[0].vouched && seen != Seen::Same => {
            return Err("a flushed chunk is missing, and the pool opens".into());
        }
        _ => 0,
    };
    if reported < due { Err(format!("scrub finds {reported} of {due}")) } else { Ok(()) }
}
