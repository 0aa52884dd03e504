//! How volumes come, change and go.

use thermocline_format::{
    Entry, MAX_VOLUME_BLOCKS, MAX_VOLUMES, Volume, VolumeId, VolumeMedia, VolumeName,
};

use crate::engine::Parts;
use crate::map::{FRAME_BYTES, PAGE, VolumeMap, Wanted};
use crate::payload::Payload;
use crate::request::{HostError, Reply};
use crate::write_cache::Owner;

impl<P: Payload> Parts<P> {
    fn is_taken(&self, name: &VolumeName) -> bool {
        self.volumes.users().any(|index| self.volumes.name(index) == *name)
    }

    /// Whether there may be one more volume of this name and size, with `depth` layers below it.
    pub(crate) fn may_have(
        &mut self,
        name: &VolumeName,
        blocks: u64,
        depth: u64,
    ) -> Result<(), HostError> {
        if self.is_taken(name) {
            return Err(HostError::NameTaken);
        }
        let volumes = self.may_have_more()?;
        self.may_grow(0, blocks, volumes, depth)
    }

    /// How many volumes and layers there are with one more.
    pub(crate) fn may_have_more(&self) -> Result<usize, HostError> {
        let volumes = self.volumes.all().len() + 1;
        if volumes > MAX_VOLUMES || !self.volumes.next_id().is_user() {
            return Err(HostError::TooManyVolumes);
        }
        Ok(volumes)
    }

    /// Whether a volume may have `blocks` blocks instead of `old`, one of `volumes` volumes, with `depth` layers below
    /// it from now on.
    pub(crate) fn may_grow(
        &mut self,
        old: u64,
        blocks: u64,
        volumes: usize,
        depth: u64,
    ) -> Result<(), HostError> {
        if blocks > MAX_VOLUME_BLOCKS {
            return Err(HostError::VolumeTooLarge);
        }
        if blocks <= old {
            return Ok(());
        }
        let roots = self.volumes.total_roots() + Volume::roots_for(blocks) - Volume::roots_for(old);
        let most = self.config.most_roots(volumes);
        if roots > most {
            return Err(HostError::TooManyRoots { needed: roots as u64, most: most as u64 });
        }
        let more = VolumeMap::memory_for(blocks) - VolumeMap::memory_for(old);
        let pages = self.least_pages(depth.max(self.volumes.depth_after_crash()));
        let needed = self.volumes.fixed_after_crash() + more + pages * FRAME_BYTES;
        let budget = self.config.map_memory_bytes;
        if needed > budget {
            // What went since the last checkpoint takes none after the next.
            self.want_checkpoint();
            return Err(HostError::NoMemory { needed, budget });
        }
        Ok(())
    }

    /// The pages of a volume's map that are all beyond block `end`, and the roots above them, are needed no more, once
    /// no record refers to them.
    pub(crate) fn drop_pages_beyond(&mut self, volume: u16, end: u64) {
        let map = self.volumes.map_mut(volume);
        let (mut from, mut budget, mut cut) = (end.div_ceil(PAGE), u32::MAX, 0);
        while let Some(page) = map.next_page(&mut from, Wanted::Held, &mut budget) {
            let (old, differed) = map.cut_page(page);
            cut += u64::from(differed);
            self.pages.forget(volume, page);
            self.superblocks.drop_later(old);
        }
        for old in map.cut_roots(Volume::roots_for(end)) {
            self.superblocks.drop_later(old);
        }
        self.volumes.cut(cut);
    }

    pub(crate) fn create_volume(&mut self, request: u32, name: &VolumeName, blocks: u64) {
        if let Err(error) = self.may_have(name, blocks, 0) {
            return self.request_progress(request, 1, Some(error));
        }
        let volume = self.volumes.next_id();
        self.volumes.add(volume, name.clone(), blocks, self.addresses);
        let mut entries = vec![Entry::VolumeCreate { volume, blocks }];
        entries.extend(Entry::name_parts(volume, name));
        self.requests.set_reply(request, Reply::Created(volume));
        self.cache.say(entries, vec![Owner::Request(request)]);
    }

    fn may_be_called(&self, index: u16, name: &VolumeName) -> Result<(), HostError> {
        let map = self.volumes.map(index);
        let own = |below: u16| &self.volumes.map(below).name;
        let mut snapshots = self.volumes.own_layers(index).skip(1).map(own);
        if map.layer.frozen {
            return Err(HostError::ReadOnly);
        }
        if map.name != *name && self.is_taken(name) {
            return Err(HostError::NameTaken);
        }
        let fits = snapshots.all(|own| VolumeName::of_snapshot(name, own).is_some());
        if fits { Ok(()) } else { Err(HostError::LongName) }
    }

    pub(crate) fn rename_volume(&mut self, request: u32, volume: VolumeId, name: VolumeName) {
        let Some(index) = self.volumes.index(volume) else {
            return self.request_progress(request, 1, Some(HostError::NoVolume(volume)));
        };
        if let Err(error) = self.may_be_called(index, &name) {
            return self.request_progress(request, 1, Some(error));
        }
        let entries = Entry::name_parts(volume, &name).collect();
        self.volumes.map_mut(index).name = name;
        self.cache.say(entries, vec![Owner::Request(request)]);
    }

    /// A volume is on other media from now on. Returns whether it is.
    pub(crate) fn set_media(&mut self, request: u32, volume: VolumeId, media: VolumeMedia) -> bool {
        let Some(index) = self.volumes.index(volume) else {
            self.request_progress(request, 1, Some(HostError::NoVolume(volume)));
            return false;
        };
        if !self.config.geometry.is_tiered() && media != VolumeMedia::Auto {
            self.request_progress(request, 1, Some(HostError::NoFastDevice));
            return false;
        }
        if self.volumes.map(index).layer.frozen {
            self.request_progress(request, 1, Some(HostError::ReadOnly));
            return false;
        }
        self.volumes.map_mut(index).media = media;
        let entries = vec![Entry::VolumeMedia { volume, media }];
        self.cache.say(entries, vec![Owner::Request(request)]);
        true
    }
}
