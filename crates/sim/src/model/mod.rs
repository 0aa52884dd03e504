//! The reference model: what the volumes must hold.
//!
//! Invariants:
//! * A change that ended before the submission of a second change precedes the second. Concurrent changes may be done
//!   in any order.
//! * A read may return the change last acknowledged at its submission, or any possible later change.
//! * After a crash a block is the last flushed change, or any possible later change. The found content counts as
//!   flushed: the block never changes again by itself.
//! * No other content is right. Callers that know the injected faults judge errors.

mod history;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use thermocline_engine::Extent;
use thermocline_format::{VolumeId, VolumeMedia, VolumeName};

use crate::data::Content;
pub use history::{History, Progress, Step, WriteNumber};
pub use verdict::{Verdict, Why};

/// A volume as it was found after a crash.
#[derive(Clone, Debug)]
pub struct FoundVolume {
    /// Its identifier.
    pub volume: VolumeId,
    /// Its name.
    pub name: VolumeName,
    /// Where its blocks are to be.
    pub media: VolumeMedia,
    /// The volume of which it is a snapshot, if it is one.
    pub snapshot_of: Option<VolumeId>,
    /// Content of each block; `None` for a read error.
    pub blocks: Vec<Option<Content>>,
}

impl FoundVolume {
    /// Its name, of a snapshot without that of the volume.
    fn own_name(&self) -> VolumeName {
        let own = self.name.as_str().rsplit('@').next().filter(|_| self.snapshot_of.is_some());
        own.and_then(VolumeName::new).unwrap_or_else(|| self.name.clone())
    }

    fn is_called(&self, name: &VolumeName) -> bool {
        self.own_name() == *name
    }
}

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
    blocks: Vec<History>,
}

#[derive(Clone, Debug)]
struct PendingCreate {
    name: VolumeName,
    blocks: u64,
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
        let alone = |id: &VolumeId| !self.has_snapshots(*id);
        let all = self.volumes.iter().filter(|(_, volume)| volume.snapshot_of.is_none());
        let mapped = |(id, volume): (&VolumeId, &VolumeModel)| match alone(id) {
            true => volume.mapped_blocks(),
            false => self.mapped_with_snapshots(*id, volume),
        };
        all.map(mapped).sum()
    }

    /// Blocks of a volume and its snapshots that may hold data: different versions of a block are as many blocks.
    fn mapped_with_snapshots(&self, id: VolumeId, volume: &VolumeModel) -> u64 {
        let snapshots = self.volumes.values().filter(|other| other.snapshot_of == Some(id));
        let snapshots: Vec<&[History]> = snapshots.map(|other| &other.blocks[..]).collect();
        let pending = self.snapshots.values().filter(|pending| pending.of == id);
        let pending: Vec<&[History]> = pending.map(|pending| &pending.blocks[..]).collect();
        let all = [&volume.blocks[..]].into_iter().chain(snapshots).chain(pending);
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
        let created = self.creates.values().map(|create| create.blocks);
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
        self.creates.insert(version, PendingCreate { name, blocks });
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
        self.snapshots.remove(&version);
        self.insert(id, version, name, media, Some(of), blocks);
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
            let blocks = vec![History::default(); create.blocks as usize];
            self.insert(id, version, create.name, VolumeMedia::Auto, None, blocks);
        }
    }

    fn insert(
        &mut self,
        id: VolumeId,
        version: WriteNumber,
        name: VolumeName,
        media: VolumeMedia,
        snapshot_of: Option<VolumeId>,
        blocks: Vec<History>,
    ) {
        let size = Size { version, blocks: Some(blocks.len() as u64), open: false };
        let (names, media) = (vec![(version, name)], vec![(version, media)]);
        let sizes = vec![size];
        self.volumes.insert(id, VolumeModel { sizes, names, media, snapshot_of, blocks });
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

    /// The wrong outcomes in a state that was found after a crash.
    #[must_use]
    pub fn judge_found(&self, found: &[FoundVolume]) -> Vec<Verdict> {
        let mut wrong = Vec::new();
        let mut seen = BTreeSet::new();
        for volume in found {
            seen.insert(volume.volume);
            let size = volume.blocks.len() as u64;
            if let Some(reason) = self.judge_size(volume, size) {
                wrong.push(reason);
                continue;
            }
            let of_snapshot = volume.snapshot_of.is_some();
            let media = self.volumes.get(&volume.volume).map(|volume| &volume.media);
            let media = media.filter(|_| !of_snapshot);
            if media.is_some_and(|some| some.iter().all(|(_, media)| *media != volume.media)) {
                wrong.push(Verdict::MediaWrong { volume: volume.volume, media: volume.media });
            }
            let names = self.volumes.get(&volume.volume).map(|volume| &volume.names);
            if names.is_some_and(|some| some.iter().all(|(_, name)| !volume.is_called(name))) {
                wrong.push(Verdict::NameWrong { volume: volume.volume, name: volume.name.clone() });
            }
            let pending = self.pending_blocks(volume);
            let judged = volume.blocks.iter().enumerate().filter_map(|(lba, content)| {
                let (content, lba) = ((*content)?, lba as u64);
                match &pending {
                    None => self.judge_crashed(volume.volume, lba, content).err(),
                    Some((of, blocks)) => judge(*of, lba, content, &blocks[lba as usize]).err(),
                }
            });
            wrong.extend(judged);
        }
        for (&id, volume) in &self.volumes {
            if !seen.contains(&id) && volume.sizes.iter().all(|size| size.blocks.is_some()) {
                wrong.push(Verdict::VolumeLost(id));
            }
        }
        wrong
    }

    fn judge_size(&self, found: &FoundVolume, size: u64) -> Option<Verdict> {
        let allowed = match self.volumes.get(&found.volume) {
            Some(volume) if volume.snapshot_of != found.snapshot_of => false,
            Some(volume) => volume.sizes.iter().any(|step| step.blocks == Some(size)),
            None if found.snapshot_of.is_some() => self.open_snapshot(found).is_some(),
            None => self.open_create(found).is_some(),
        };
        (!allowed).then(|| Verdict::VolumeWrong {
            volume: found.volume,
            blocks: size,
            known: self.volumes.contains_key(&found.volume),
        })
    }

    fn open_create(&self, found: &FoundVolume) -> Option<WriteNumber> {
        let size = found.blocks.len() as u64;
        let fits = |create: &PendingCreate| create.name == found.name && create.blocks == size;
        self.creates.iter().find(|(_, create)| fits(create)).map(|(&version, _)| version)
    }

    /// The snapshot on its way that was found.
    fn open_snapshot(&self, found: &FoundVolume) -> Option<&PendingSnapshot> {
        let fits = |pending: &&PendingSnapshot| {
            found.snapshot_of == Some(pending.of)
                && found.is_called(&pending.name)
                && pending.blocks.len() == found.blocks.len()
        };
        self.snapshots.values().find(fits)
    }

    /// What the blocks may be of a volume that was found and is a snapshot on its way, and its volume.
    fn pending_blocks(&self, found: &FoundVolume) -> Option<(VolumeId, Vec<History>)> {
        let unknown = !self.volumes.contains_key(&found.volume);
        let pending = self.open_snapshot(found).filter(|_| unknown)?;
        Some((pending.of, self.histories_of(pending)))
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
        let of = self.volumes.get(&volume).and_then(|volume| volume.snapshot_of);
        let home = of.unwrap_or(volume);
        let foreign = matches!(content, Content::User(_)) && !is_at_home(home, lba, content);
        let step = if foreign { None } else { history.explain(content, floor) };
        step.ok_or_else(|| Verdict::block(volume, lba, content, floor, history))
    }

    fn history(&self, id: VolumeId, lba: u64) -> Option<&History> {
        self.volumes.get(&id)?.blocks.get(lba as usize)
    }

    /// Goes on from a state that was found after a crash and judged right. No request is pending, and the found content
    /// is permanent. Unreadable blocks keep all possible contents.
    pub fn rebase(&mut self, found: &[FoundVolume]) {
        let now = self.tick();
        let pending: Vec<_> = found.iter().map(|found| self.pending_blocks(found)).collect();
        let mut before = std::mem::take(&mut self.volumes);
        for (volume, pending) in found.iter().zip(pending) {
            let snapshot_of = volume.snapshot_of;
            let old = before.remove(&volume.volume).map(|volume| volume.blocks);
            let blocks = old.or(pending.map(|(_, blocks)| blocks)).unwrap_or_default();
            let (sizes, names, media) = (Vec::new(), Vec::new(), Vec::new());
            self.volumes
                .insert(volume.volume, VolumeModel { sizes, names, media, snapshot_of, blocks });
            let settled = volume.blocks.iter().enumerate().map(|(lba, content)| {
                let mut kept = self.history(volume.volume, lba as u64).cloned().unwrap_or_default();
                kept.doubt();
                let Some(content) = *content else { return kept };
                let step = self.judge_crashed(volume.volume, lba as u64, content);
                step.map_or(kept, |step| {
                    History::of(Step { progress: Progress::Flushed, ended: Some(now), ..step })
                })
            });
            let settled = settled.collect();
            self.insert(volume.volume, now, volume.own_name(), volume.media, snapshot_of, settled);
        }
        let gone = before.values().filter(|volume| volume.snapshot_of.is_some());
        self.deleted.extend(gone.map(|volume| volume.blocks.len() as u64));
        self.creates.clear();
        self.snapshots.clear();
        self.changes.clear();
        self.unflushed.clear();
        self.reads = 0;
    }

    /// Calls `f` with the history of every block of `extent` that the model knows.
    fn histories(&mut self, extent: Extent, f: impl FnMut(&mut History)) {
        let Some(volume) = self.volumes.get_mut(&extent.volume) else { return };
        let end = extent.lba.saturating_add(extent.blocks).min(volume.blocks.len() as u64);
        let start = extent.lba.min(end);
        volume.blocks[start as usize..end as usize].iter_mut().for_each(f);
    }
}

/// Whether a block of a snapshot of `of` may show `content` by its history.
fn judge(of: VolumeId, lba: u64, content: Content, history: &History) -> Result<Step, Verdict> {
    let (floor, user) = (history.flushed(), matches!(content, Content::User(_)));
    let foreign = user && !is_at_home(of, lba, content);
    let step = if foreign { None } else { history.explain(content, floor) };
    step.ok_or_else(|| Verdict::block(of, lba, content, floor, history))
}

/// Whether `content` was once written to this block.
fn is_at_home(volume: VolumeId, lba: u64, content: Content) -> bool {
    matches!(content, Content::User(stamp) if stamp.volume == volume && stamp.lba.0 == lba)
}

#[cfg(test)]
mod tests;
