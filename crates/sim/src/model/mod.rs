//! The reference model: what the volumes must hold.
//!
//! Invariants:
//! * A change that ended before the submission of a second change precedes the second. Concurrent changes may be done
//!   in any order.
//! * A read may return the change last acknowledged at its submission, or any possible later change.
//! * After a crash a block is the last flushed change, or any possible later change. The found content counts as
//!   flushed: the block never changes again by itself.
//! * No other content is right. Callers that know the injected faults judge errors.

mod found;
mod history;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use thermocline_engine::Extent;
use thermocline_format::{VolumeId, VolumeMedia, VolumeName};

use crate::data::Content;
pub use found::FoundVolume;
pub use history::{History, Progress, Step, WriteNumber};
pub use verdict::{Verdict, Why};

/// A read on its way.
#[derive(Clone, Debug)]
pub struct PendingRead {
    extent: Extent,
    floors: Vec<WriteNumber>,
}

impl PendingRead {
    /// What is read.
    #[must_use]
    pub const fn extent(&self) -> Extent {
        self.extent
    }

    /// Every block, and the newest change of it that was there for certain when the read was asked for.
    pub fn floors(&self) -> impl Iterator<Item = (u64, WriteNumber)> + '_ {
        (self.extent.lba..).zip(self.floors.iter().copied())
    }
}

/// A flush on its way.
#[derive(Clone, Copy, Debug)]
pub struct PendingFlush {
    submitted: u64,
    /// Of which volume; `None` of all.
    volume: Option<VolumeId>,
}

/// How a change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done, and durable with the next flush.
    Done,
    /// Done and durable.
    Durable,
    /// The request failed: its change may be done or not.
    Failed,
}

/// The size of a volume since some change; `None` while the volume does not exist.
#[derive(Clone, Copy, Debug)]
struct Size {
    version: WriteNumber,
    blocks: Option<u64>,
    open: bool,
}

#[derive(Clone, Debug)]
struct VolumeModel {
    /// Possible sizes of the volume: only the first belongs to a completed change.
    sizes: Vec<Size>,
    /// Possible names of the volume: only the first belongs to a completed change.
    names: Vec<(WriteNumber, VolumeName)>,
    /// Possible media of the volume: only the first belongs to a completed change.
    media: Vec<(WriteNumber, VolumeMedia)>,
    /// The volume of which it is a snapshot, if it is one.
    snapshot_of: Option<VolumeId>,
    /// The volumes whose blocks it may show, the oldest first: the volumes it was cloned from, and the volume itself.
    homes: Vec<VolumeId>,
    blocks: Vec<History>,
}

/// A volume that is to be made: of a clone, with the histories of the snapshot's blocks.
#[derive(Clone, Debug)]
struct PendingCreate {
    name: VolumeName,
    /// Volumes whose blocks it may show beside its own.
    homes: Vec<VolumeId>,
    blocks: Vec<History>,
}

/// A snapshot that is to be made, with the histories of its volume's blocks when it was asked for.
#[derive(Clone, Debug)]
struct PendingSnapshot {
    of: VolumeId,
    name: VolumeName,
    blocks: Vec<History>,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Blocks(Extent),
    /// A new size, and the blocks that were cut off by it.
    Size(VolumeId, Extent),
    Media(VolumeId),
    Name(VolumeId),
}

/// The possible contents of all volumes.
#[derive(Clone, Debug, Default)]
pub struct Model {
    volumes: BTreeMap<VolumeId, VolumeModel>,
    creates: BTreeMap<WriteNumber, PendingCreate>,
    snapshots: BTreeMap<WriteNumber, PendingSnapshot>,
    /// Sizes of deleted snapshots, whose maps may still be there.
    deleted: Vec<u64>,
    changes: BTreeMap<WriteNumber, Change>,
    /// Blocks changed by what was acknowledged and not flushed, with the tick of the acknowledgement.
    unflushed: Vec<(u64, WriteNumber, Extent)>,
    reads: u32,
    size_changes: u64,
    /// Counts submissions and completions.
    clock: u64,
}

impl VolumeModel {
    /// A volume with an empty list of homes.
    fn new(
        version: WriteNumber,
        name: VolumeName,
        media: VolumeMedia,
        blocks: Vec<History>,
    ) -> VolumeModel {
        let size = Size { version, blocks: Some(blocks.len() as u64), open: false };
        let (names, media) = (vec![(version, name)], vec![(version, media)]);
        let (snapshot_of, homes) = (None, Vec::new());
        VolumeModel { sizes: vec![size], names, media, snapshot_of, homes, blocks }
    }

    /// Blocks that may hold data of users.
    fn mapped_blocks(&self) -> u64 {
        let data = |history: &&History| history.steps().any(|step| !step.zeros);
        self.blocks.iter().filter(data).count() as u64
    }
}

impl Model {
    /// The volumes that exist for certain, with their sizes in blocks; none while a change of its size is open.
    pub fn volumes(&self) -> impl Iterator<Item = (VolumeId, u64)> {
        self.settled(false)
    }

    /// The snapshots that exist for certain, with their sizes in blocks.
    pub fn snapshots(&self) -> impl Iterator<Item = (VolumeId, u64)> {
        self.settled(true)
    }

    /// Whether a snapshot is to be made, or may have been.
    #[must_use]
    pub fn snapshots_open(&self) -> bool {
        !self.snapshots.is_empty()
    }

    /// Whether a volume has, or may have, snapshots.
    #[must_use]
    pub fn has_snapshots(&self, volume: VolumeId) -> bool {
        let of_it = |other: &VolumeModel| other.snapshot_of == Some(volume);
        self.snapshots_open() || self.volumes.values().any(of_it)
    }

    fn settled(&self, snapshots: bool) -> impl Iterator<Item = (VolumeId, u64)> {
        let settled = |volume: &VolumeModel| match volume.sizes[..] {
            [Size { blocks: Some(blocks), .. }] => Some(blocks),
            _ => None,
        };
        let kind = move |volume: &VolumeModel| volume.snapshot_of.is_some() == snapshots;
        let volumes = self.volumes.iter().filter(move |(_, volume)| kind(volume));
        volumes.filter_map(move |(&id, volume)| Some((id, settled(volume)?)))
    }

    /// Whether changes of sizes, creation and deletion among them, are on their way or undecided.
    #[must_use]
    pub fn sizes_open(&self) -> bool {
        !self.creates.is_empty() || self.volumes.values().any(|volume| volume.sizes.len() > 1)
    }

    /// How often a change of a size was submitted or ended: requests that cross one may find the volume smaller or
    /// gone.
    #[must_use]
    pub const fn size_changes(&self) -> u64 {
        self.size_changes
    }

    /// Blocks that may hold data of users.
    #[must_use]
    pub fn mapped_blocks(&self) -> u64 {
        let mut families: BTreeMap<VolumeId, Vec<&VolumeModel>> = BTreeMap::new();
        for volume in self.volumes.values() {
            families.entry(volume.homes[0]).or_default().push(volume);
        }
        let mapped = |(root, family): (&VolumeId, &Vec<&VolumeModel>)| match family[..] {
            [alone] if !self.has_snapshots(*root) => alone.mapped_blocks(),
            _ => self.mapped_together(family),
        };
        families.iter().map(mapped).sum()
    }

    /// Blocks of a volume, its snapshots and their clones that may hold data: different versions of a block are as many
    /// blocks.
    fn mapped_together(&self, family: &[&VolumeModel]) -> u64 {
        let pending = self.snapshots.values().map(|pending| (pending.of, &pending.blocks[..]));
        let root = |id: &VolumeId| self.volumes.get(id).map(|volume| volume.homes[0]);
        let of_it = |(of, _): &(VolumeId, _)| root(of) == Some(family[0].homes[0]);
        let pending = pending.filter(of_it).map(|(_, blocks)| blocks);
        let all = family.iter().map(|volume| &volume.blocks[..]).chain(pending);
        let all: Vec<&[History]> = all.collect();
        let longest = all.iter().map(|blocks| blocks.len()).max().unwrap_or(0);
        let versions = |lba: usize| {
            let histories = all.iter().filter_map(|blocks| blocks.get(lba));
            let data = histories.flat_map(History::steps).filter(|step| !step.zeros);
            data.map(|step| step.version).collect::<BTreeSet<_>>().len() as u64
        };
        (0..longest).map(versions).sum()
    }

    /// As [`Model::mapped_blocks`], of one volume.
    #[must_use]
    pub fn mapped_blocks_of(&self, volume: VolumeId) -> u64 {
        self.volumes.get(&volume).map_or(0, VolumeModel::mapped_blocks)
    }

    /// The blocks that a change is about, while it is in work.
    #[must_use]
    pub fn changed_by(&self, version: WriteNumber) -> Option<Extent> {
        match self.changes.get(&version)? {
            Change::Blocks(extent) => Some(*extent),
            _ => None,
        }
    }

    /// The blocks of each volume, at the largest size that it may have.
    pub fn volume_blocks(&self) -> impl Iterator<Item = u64> {
        let largest = |volume: &VolumeModel| volume.blocks.len() as u64;
        let created = self.creates.values().map(|create| create.blocks.len() as u64);
        let pending = self.snapshots.values().map(|snapshot| snapshot.blocks.len() as u64);
        let deleted = self.deleted.iter().copied();
        self.volumes.values().map(largest).chain(created).chain(pending).chain(deleted)
    }

    /// Later than all that has happened.
    #[must_use]
    pub fn now(&self) -> WriteNumber {
        self.clock
    }

    /// The newest change of a block that the host was told of, or that was found.
    #[must_use]
    pub fn acknowledged(&self, volume: VolumeId, lba: u64) -> WriteNumber {
        self.history(volume, lba).map_or(WriteNumber::MAX, History::acknowledged)
    }

    /// The newest change of a block that no crash takes back.
    #[must_use]
    pub fn flushed(&self, volume: VolumeId, lba: u64) -> WriteNumber {
        self.history(volume, lba).map_or(WriteNumber::MAX, History::flushed)
    }

    /// Later than all before. What every block began as was over at 1.
    fn tick(&mut self) -> u64 {
        self.clock = self.clock.max(1) + 1;
        self.clock
    }

    /// Blocks are to be written, or with `zeros` to become zeros.
    pub fn begin_change(&mut self, extent: Extent, zeros: bool) -> WriteNumber {
        let version = self.tick();
        self.histories(extent, |history| history.begin(version, zeros));
        self.changes.insert(version, Change::Blocks(extent));
        version
    }

    /// A volume is to be made.
    pub fn begin_create(&mut self, name: VolumeName, blocks: u64) -> WriteNumber {
        let version = self.tick();
        let blocks = vec![History::default(); blocks as usize];
        self.creates.insert(version, PendingCreate { name, homes: Vec::new(), blocks });
        version
    }

    /// A clone of a snapshot is to be made.
    pub fn begin_clone(&mut self, snapshot: VolumeId, name: VolumeName) -> WriteNumber {
        let version = self.tick();
        let of = self.volumes.get(&snapshot);
        let (homes, blocks) =
            of.map_or_else(Default::default, |of| (of.homes.clone(), of.blocks.clone()));
        self.creates.insert(version, PendingCreate { name, homes, blocks });
        version
    }

    /// A snapshot is to be made.
    pub fn begin_snapshot(&mut self, of: VolumeId, name: VolumeName) -> WriteNumber {
        let version = self.tick();
        let size = self.volumes().find(|(id, _)| *id == of).map_or(0, |(_, blocks)| blocks);
        let blocks = self.volumes.get(&of).map_or(&[][..], |volume| &volume.blocks[..]);
        let blocks = blocks[..(size as usize).min(blocks.len())].to_vec();
        self.snapshots.insert(version, PendingSnapshot { of, name, blocks });
        version
    }

    /// A snapshot was made, or, with `None`, it failed: it shows what was acknowledged before it was asked for, or
    /// anything later.
    pub fn end_snapshot(&mut self, version: WriteNumber, id: Option<VolumeId>) {
        let (Some(id), Some(pending)) = (id, self.snapshots.get(&version)) else { return };
        let (of, name) = (pending.of, pending.name.clone());
        let mut blocks = self.histories_of(pending);
        for (history, asked) in blocks.iter_mut().zip(&pending.blocks) {
            history.flush(asked.acknowledged());
        }
        let media = self.volumes.get(&of).and_then(|volume| volume.media.first());
        let media = media.map_or(VolumeMedia::Auto, |(_, media)| *media);
        let (homes, snapshot_of) = (self.homes_of(of), Some(of));
        self.snapshots.remove(&version);
        let made =
            VolumeModel { snapshot_of, homes, ..VolumeModel::new(version, name, media, blocks) };
        self.volumes.insert(id, made);
    }

    /// What the blocks of a pending snapshot may show: what those of its volume might when it was asked for, and all
    /// later changes.
    fn histories_of(&self, pending: &PendingSnapshot) -> Vec<History> {
        let now = self.volumes.get(&pending.of).map_or(&[][..], |volume| &volume.blocks[..]);
        let mut blocks = pending.blocks.clone();
        for (history, now) in blocks.iter_mut().zip(now) {
            history.add_later(now);
        }
        blocks
    }

    /// A volume is to be deleted, or with `Some` to get another size.
    pub fn begin_size(&mut self, id: VolumeId, blocks: Option<u64>) -> WriteNumber {
        let version = self.tick();
        self.size_changes += 1;
        let cut = Extent { volume: id, lba: blocks.unwrap_or(0), blocks: u64::MAX };
        self.histories(cut, |history| history.begin(version, true));
        if let Some(volume) = self.volumes.get_mut(&id) {
            volume.sizes.push(Size { version, blocks, open: true });
            let room = blocks.unwrap_or(0) as usize;
            if volume.blocks.len() < room {
                volume.blocks.resize_with(room, History::default);
            }
        }
        self.changes.insert(version, Change::Size(id, cut));
        version
    }

    /// A volume is to have another name.
    pub fn begin_rename(&mut self, id: VolumeId, name: VolumeName) -> WriteNumber {
        let version = self.tick();
        if let Some(volume) = self.volumes.get_mut(&id) {
            volume.names.push((version, name));
        }
        self.changes.insert(version, Change::Name(id));
        version
    }

    /// The blocks of a volume are to be elsewhere.
    pub fn begin_media(&mut self, id: VolumeId, media: VolumeMedia) -> WriteNumber {
        let version = self.tick();
        if let Some(volume) = self.volumes.get_mut(&id) {
            volume.media.push((version, media));
        }
        self.changes.insert(version, Change::Media(id));
        version
    }

    /// A change of blocks, of a size, of media or of a name has ended.
    pub fn end_change(&mut self, version: WriteNumber, outcome: Outcome) {
        let tick = self.tick();
        let change = self.changes.remove(&version);
        self.size_changes += u64::from(matches!(change, Some(Change::Size(..))));
        match change {
            Some(Change::Blocks(extent)) => self.end_blocks(version, extent, outcome, tick),
            Some(Change::Media(id)) => {
                if let Some(volume) = self.volumes.get_mut(&id)
                    && outcome != Outcome::Failed
                {
                    volume.media.retain(|(said, _)| *said >= version);
                }
            }
            Some(Change::Name(id)) => {
                if let Some(volume) = self.volumes.get_mut(&id)
                    && outcome != Outcome::Failed
                {
                    volume.names.retain(|(said, _)| *said >= version);
                }
            }
            Some(Change::Size(_, cut)) if outcome == Outcome::Failed => {
                self.end_blocks(version, cut, outcome, tick);
            }
            Some(Change::Size(id, cut)) => {
                self.end_blocks(version, cut, Outcome::Durable, tick);
                if let Some(volume) = self.volumes.get_mut(&id) {
                    volume.sizes.retain(|size| size.version >= version);
                    volume.sizes[0].open = false;
                    if matches!(volume.sizes[..], [Size { blocks: None, .. }]) {
                        let size = volume.blocks.len() as u64;
                        self.deleted.extend(volume.snapshot_of.map(|_| size));
                        self.volumes.remove(&id);
                    }
                }
            }
            None => {}
        }
    }

    fn end_blocks(&mut self, version: WriteNumber, extent: Extent, outcome: Outcome, tick: u64) {
        match outcome {
            Outcome::Failed => {
                self.histories(extent, |block| block.end(version, Progress::Open, tick));
            }
            Outcome::Done => {
                self.histories(extent, |block| block.end(version, Progress::Acknowledged, tick));
                self.unflushed.push((tick, version, extent));
            }
            Outcome::Durable => {
                self.histories(extent, |block| block.end(version, Progress::Acknowledged, tick));
                self.make_durable(version, extent);
            }
        }
    }

    fn make_durable(&mut self, version: WriteNumber, extent: Extent) {
        // A snapshot on its way may show any change since it was asked for.
        let quiet = self.reads == 0 && self.snapshots.is_empty();
        self.histories(extent, |history| {
            history.flush(version);
            if quiet {
                history.prune();
            }
        });
    }

    /// A change was not accepted: it never was.
    pub fn cancel(&mut self, version: WriteNumber) {
        self.creates.remove(&version);
        self.snapshots.remove(&version);
        match self.changes.remove(&version) {
            Some(Change::Blocks(extent)) => self.histories(extent, |block| block.cancel(version)),
            Some(Change::Media(id)) => {
                if let Some(volume) = self.volumes.get_mut(&id) {
                    volume.media.retain(|(said, _)| *said != version);
                }
            }
            Some(Change::Name(id)) => {
                if let Some(volume) = self.volumes.get_mut(&id) {
                    volume.names.retain(|(said, _)| *said != version);
                }
            }
            Some(Change::Size(id, cut)) => {
                self.histories(cut, |block| block.cancel(version));
                if let Some(volume) = self.volumes.get_mut(&id) {
                    volume.sizes.retain(|size| size.version != version);
                }
            }
            None => {}
        }
    }

    /// A volume was made, or, with `None`, it failed.
    pub fn end_create(&mut self, version: WriteNumber, id: Option<VolumeId>) {
        let Some(id) = id else { return };
        if let Some(create) = self.creates.remove(&version) {
            let PendingCreate { name, mut homes, blocks } = create;
            homes.push(id);
            let media = VolumeMedia::Auto;
            let made = VolumeModel { homes, ..VolumeModel::new(version, name, media, blocks) };
            self.volumes.insert(id, made);
        }
    }

    /// The volumes whose blocks `volume` may show.
    fn homes_of(&self, volume: VolumeId) -> Vec<VolumeId> {
        self.volumes.get(&volume).map_or_else(|| vec![volume], |known| known.homes.clone())
    }

    /// A flush of one volume, or of all, is submitted.
    pub fn begin_flush(&mut self, volume: Option<VolumeId>) -> PendingFlush {
        PendingFlush { submitted: self.tick(), volume }
    }

    /// A flush has ended well: all that was acknowledged before its submission is durable.
    pub fn end_flush(&mut self, flush: PendingFlush) {
        let unflushed = std::mem::take(&mut self.unflushed);
        for (tick, version, extent) in unflushed {
            let of_it = flush.volume.is_none_or(|volume| volume == extent.volume);
            if tick < flush.submitted && of_it {
                self.make_durable(version, extent);
            } else {
                self.unflushed.push((tick, version, extent));
            }
        }
    }

    /// A read is submitted.
    pub fn begin_read(&mut self, extent: Extent) -> PendingRead {
        self.reads += 1;
        let mut floors = Vec::with_capacity(extent.blocks as usize);
        self.histories(extent, |history| floors.push(history.acknowledged()));
        PendingRead { extent, floors }
    }

    /// A read has failed, or it was not accepted.
    pub fn drop_read(&mut self, _read: PendingRead) {
        self.reads -= 1;
    }

    /// Ends a read with the content of each block. Returns the wrong block, if any.
    pub fn end_read(
        &mut self,
        read: PendingRead,
        contents: impl Iterator<Item = Content>,
    ) -> Option<Verdict> {
        let Extent { volume, lba, .. } = read.extent;
        // Of a volume that was deleted meanwhile, its versions are not known any more.
        let gone = !self.volumes.contains_key(&volume);
        let wrong = contents.zip(&read.floors).zip(lba..).find_map(|((content, &floor), lba)| {
            // A snapshot showed what was written to its volume.
            let here = |content| matches!(content, Content::User(stamp) if stamp.lba.0 == lba);
            let excused = gone && (content == Content::Zeros || here(content));
            if excused { None } else { self.judge(volume, lba, content, floor).err() }
        });
        self.drop_read(read);
        wrong
    }

    fn judge_crashed(&self, id: VolumeId, lba: u64, content: Content) -> Result<Step, Verdict> {
        let floor = self.history(id, lba).map_or(0, History::flushed);
        self.judge(id, lba, content, floor)
    }

    fn judge(
        &self,
        volume: VolumeId,
        lba: u64,
        content: Content,
        floor: WriteNumber,
    ) -> Result<Step, Verdict> {
        let unwritten = History::default();
        let history = self.history(volume, lba).unwrap_or(&unwritten);
        let homes = self.homes_of(volume);
        judge(volume, &homes, lba, content, floor, history)
    }

    fn history(&self, id: VolumeId, lba: u64) -> Option<&History> {
        self.volumes.get(&id)?.blocks.get(lba as usize)
    }

    /// Calls `f` with the history of every block of `extent` that the model knows.
    fn histories(&mut self, extent: Extent, f: impl FnMut(&mut History)) {
        let Some(volume) = self.volumes.get_mut(&extent.volume) else { return };
        let end = extent.lba.saturating_add(extent.blocks).min(volume.blocks.len() as u64);
        let start = extent.lba.min(end);
        volume.blocks[start as usize..end as usize].iter_mut().for_each(f);
    }
}

/// Whether a block that shows blocks of `homes` may show `content` by its history.
fn judge(
    volume: VolumeId,
    homes: &[VolumeId],
    lba: u64,
    content: Content,
    floor: WriteNumber,
    history: &History,
) -> Result<Step, Verdict> {
    let at_home = match content {
        Content::User(stamp) => homes.contains(&stamp.volume) && stamp.lba.0 == lba,
        _ => true,
    };
    let step = if at_home { history.explain(content, floor) } else { None };
    step.ok_or_else(|| Verdict::block(volume, lba, content, floor, history))
}

#[cfg(test)]
mod tests;
