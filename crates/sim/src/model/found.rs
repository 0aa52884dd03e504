//! What was found after a crash: judged, and gone on from.

use std::collections::BTreeSet;

use thermocline_format::{VolumeId, VolumeMedia, VolumeName};

use super::{
    History, Model, PendingCreate, PendingSnapshot, Progress, Step, Verdict, VolumeModel, judge,
};
use crate::data::Content;

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

impl Model {
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
                    Some((homes, blocks)) => {
                        let history = &blocks[lba as usize];
                        judge(volume.volume, homes, lba, content, history.flushed(), history).err()
                    }
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
            None => self.pending_blocks(found).is_some(),
        };
        (!allowed).then(|| Verdict::VolumeWrong {
            volume: found.volume,
            blocks: size,
            known: self.volumes.contains_key(&found.volume),
        })
    }

    /// The volume on its way that was found.
    fn open_create(&self, found: &FoundVolume) -> Option<&PendingCreate> {
        let fits = |create: &&PendingCreate| {
            create.name == found.name && create.blocks.len() == found.blocks.len()
        };
        self.creates.values().find(fits)
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

    /// What the blocks may be of a volume or snapshot that was found and was on its way, and whose they are.
    fn pending_blocks(&self, found: &FoundVolume) -> Option<(Vec<VolumeId>, Vec<History>)> {
        if self.volumes.contains_key(&found.volume) {
            return None;
        }
        if found.snapshot_of.is_some() {
            let pending = self.open_snapshot(found)?;
            return Some((self.homes_of(pending.of), self.histories_of(pending)));
        }
        let create = self.open_create(found)?;
        let mut homes = create.homes.clone();
        homes.push(found.volume);
        Some((homes, create.blocks.clone()))
    }

    /// Goes on from a state that was found after a crash and judged right. No request is pending, and the found content
    /// is permanent. Unreadable blocks keep all possible contents.
    pub fn rebase(&mut self, found: &[FoundVolume]) {
        let now = self.tick();
        let pending: Vec<_> = found.iter().map(|found| self.pending_blocks(found)).collect();
        let mut before = std::mem::take(&mut self.volumes);
        for (volume, pending) in found.iter().zip(pending) {
            let snapshot_of = volume.snapshot_of;
            let old = before.remove(&volume.volume).map(|volume| (volume.homes, volume.blocks));
            let (homes, blocks) = old.or(pending).unwrap_or_default();
            let (name, media) = (volume.own_name(), volume.media);
            let known = VolumeModel::new(now, name, media, blocks);
            self.volumes.insert(volume.volume, VolumeModel { snapshot_of, homes, ..known });
            let settled = volume.blocks.iter().enumerate().map(|(lba, content)| {
                let mut kept = self.history(volume.volume, lba as u64).cloned().unwrap_or_default();
                kept.doubt();
                let Some(content) = *content else { return kept };
                let step = self.judge_crashed(volume.volume, lba as u64, content);
                step.map_or(kept, |step| {
                    History::of(Step { progress: Progress::Flushed, ended: Some(now), ..step })
                })
            });
            let settled: Vec<History> = settled.collect();
            if let Some(known) = self.volumes.get_mut(&volume.volume) {
                known.sizes[0].blocks = Some(settled.len() as u64);
                known.blocks = settled;
            }
        }
        let gone = before.values().filter(|volume| volume.snapshot_of.is_some());
        self.deleted.extend(gone.map(|volume| volume.blocks.len() as u64));
        self.creates.clear();
        self.snapshots.clear();
        self.changes.clear();
        self.unflushed.clear();
        self.reads = 0;
    }
}
