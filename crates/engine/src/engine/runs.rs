//! Runs of blocks of a volume that are mapped, or changed since a snapshot, for host queries.

use std::fmt::Debug;

use thermocline_format::VolumeId;

use crate::bugs::bug;
use crate::engine::Parts;
use crate::map::{Mapping, PAGE, Value, VolumeMap};
use crate::payload::Payload;
use crate::request::{Extent, HostError};

/// Blocks that a query scans at most. Chosen so that the scan takes well under a millisecond.
const LOOKED_AT: u64 = 64 * PAGE;

/// A run of blocks of a volume that have a property, or lack it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Blocks, at least one.
    pub blocks: u64,
    /// Of [`crate::Engine::runs`]: whether they are mapped. If not, they read as zeros. Of [`crate::Engine::changed`]:
    /// whether they changed.
    pub mapped: bool,
}

impl<P: Payload> Parts<P> {
    /// As [`crate::Engine::runs`].
    pub(crate) fn runs(&self, extent: Extent, count: usize) -> Result<Vec<Run>, HostError> {
        let volume = self.locate(extent)?;
        let blank = |page: u64| {
            self.volumes.map(volume).is_blank(page) && !self.volumes.is_below(volume, page)
        };
        Ok(collect(extent, count, |lba| match blank(lba / PAGE) {
            true => (false, end_of_page(lba)),
            false => {
                let (_, mapping) = self.volumes.find(volume, lba);
                let nothing = [Mapping::Unmapped, Mapping::At(Value::HOLE)];
                (mapping.is_none_or(|mapping| !nothing.contains(&mapping)), lba + 1)
            }
        }))
    }

    /// As [`crate::Engine::changed`].
    ///
    /// A block is unchanged if a read of the volume falls through to the layer of `since`: no layer above that has an
    /// entry, and the block is below the least size of each. The volume and the snapshot then read the same entry.
    /// This is the rule of [`crate::volumes::Volumes::find`], so no change is missed, whatever became of the layers
    /// between. A walk unmaps the entries of a nameless layer only where layers above have entries or a lesser size, up
    /// to the first layer with a name. The volume has a name: these layers are asked here as well. A lift moves entries
    /// of a nameless layer into the layer above. A layer that goes leaves its least size to the layer above.
    pub(crate) fn changed(
        &self,
        extent: Extent,
        since: VolumeId,
        count: usize,
    ) -> Result<Vec<Run>, HostError> {
        let volume = self.locate(extent)?;
        let known = self.volumes.index(since);
        let base = known.filter(|base| self.volumes.below(volume).any(|layer| layer == *base));
        let base = base.ok_or(HostError::NoVolume(since))?;
        let layers = std::iter::once(volume).chain(self.volumes.below(volume));
        let forgotten = bug!(self.config, DeletedChangesMissed);
        let above: Vec<&VolumeMap> = layers
            .take_while(|layer| *layer != base)
            .map(|layer| self.volumes.map(layer))
            .filter(|map| !(forgotten && map.layer.nameless))
            .collect();
        let sizes = above.iter().map(|map| map.layer.least.min(map.blocks));
        let through = sizes.min().unwrap_or(0).min(self.volumes.map(base).blocks);
        Ok(collect(extent, count, |lba| {
            if lba >= through {
                return (true, u64::MAX);
            }
            if above.iter().all(|map| map.is_blank(lba / PAGE)) {
                return (false, end_of_page(lba).min(through));
            }
            let falls = |map: &&VolumeMap| map.look_up(lba) == Some(Mapping::Unmapped);
            (!above.iter().all(falls), lba + 1)
        }))
    }
}

/// The first block of the page behind the page of `lba`.
fn end_of_page(lba: u64) -> u64 {
    (lba / PAGE + 1) * PAGE
}

/// Joins what `look` returns from block to block: whether the block has the property, and the end of the blocks that
/// are alike.
fn collect(extent: Extent, count: usize, look: impl Fn(u64) -> (bool, u64)) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let (mut lba, end) = (extent.lba, extent.lba + extent.blocks.min(LOOKED_AT));
    while lba < end {
        let (mapped, to) = look(lba);
        let blocks = to.min(end) - lba;
        match runs.last_mut() {
            Some(run) if run.mapped == mapped => run.blocks += blocks,
            _ => {
                if runs.len() == count {
                    break;
                }
                runs.push(Run { blocks, mapped });
            }
        }
        lba += blocks;
    }
    runs
}

#[cfg(test)]
mod tests {
    use thermocline_format::VolumeName;

    use super::*;
    use crate::engine::parts::testing::{blocks, parts};
    use crate::request::RequestId;

    #[test]
    fn runs_end_where_mapped_blocks_end_and_none_goes_beyond_the_number_that_was_asked_for() {
        let mut p = parts();
        let from = PAGE - 6;
        assert!(p.write_at_once(RequestId(1), blocks(from, 4), &(), 0));
        let runs = |lba, count, most| {
            let runs = p.runs(blocks(lba, count), most).expect("blocks of the volume");
            runs.into_iter().map(|run| (run.blocks, run.mapped)).collect::<Vec<_>>()
        };
        assert_eq!(runs(0, 1024, 9), [(from, false), (4, true), (1020 - from, false)]);
        assert_eq!(runs(3, 1000, 2), [(from - 3, false), (4, true)]);
        assert_eq!(runs(from + 1, 2, 9), [(2, true)]);
        // Of a page in which nothing is mapped.
        assert_eq!(runs(PAGE + 7, 5, 1), [(5, false)]);
    }

    /// The first block and the number of blocks of each changed run.
    fn changes(p: &Parts<()>, volume: u32, since: u32) -> Result<Vec<(u64, u64)>, HostError> {
        let (mut lba, mut changes) = (0, Vec::new());
        let of = |lba| Extent { volume: VolumeId(volume), ..blocks(lba, 1024 - lba) };
        while lba < 1024 {
            for run in p.changed(of(lba), VolumeId(since), 2)? {
                changes.extend(run.mapped.then_some((lba, run.blocks)));
                lba += run.blocks;
            }
        }
        Ok(changes)
    }

    fn snapshot(p: &mut Parts<()>, id: u32) -> u16 {
        let index = p.volumes.index(VolumeId(1)).expect("a volume");
        let name = VolumeName::new(&id.to_string()).expect("a name");
        p.volumes.freeze(index, VolumeId(id), name, 1024, p.addresses);
        index
    }

    fn write(p: &mut Parts<()>, lba: u64) {
        assert!(p.write_at_once(RequestId(1), blocks(lba, 2), &(), 0));
    }

    #[test]
    fn changed_blocks_have_an_entry_in_a_layer_above_the_snapshot_or_are_beyond_the_least_size() {
        let mut p = parts();
        write(&mut p, 2);
        snapshot(&mut p, 2);
        write(&mut p, 10);
        let between = snapshot(&mut p, 3);
        write(&mut p, PAGE - 1);
        let top = p.volumes.index(VolumeId(1)).expect("a volume");
        p.volumes.map_mut(top).set(2, Mapping::At(Value::HOLE));
        assert_eq!(changes(&p, 1, 3), Ok(vec![(2, 1), (PAGE - 1, 2)]));
        assert_eq!(changes(&p, 3, 2), Ok(vec![(10, 2)]));
        let all = Ok(vec![(2, 1), (10, 2), (PAGE - 1, 2)]);
        assert_eq!(changes(&p, 1, 2), all);
        for (volume, since) in [(2, 2), (2, 3), (1, 1), (1, 9)] {
            let none = Err(HostError::NoVolume(VolumeId(since)));
            assert_eq!(changes(&p, volume, since), none, "{since} is not below {volume}");
        }
        p.volumes.make_nameless(between);
        assert_eq!(changes(&p, 1, 2), all, "entries of a deleted snapshot count");
        assert_eq!(changes(&p, 1, 3), Err(HostError::NoVolume(VolumeId(3))));
        p.volumes.resize(between, 900);
        p.volumes.unlink(between);
        let without = vec![(2, 1), (PAGE - 1, 2), (900, 124)];
        assert_eq!(changes(&p, 1, 2), Ok(without), "the least size stays, and entries go");
    }
}
