//! How volumes come, change and go.

use thermocline_format::{
    Entry, MAX_VOLUME_BLOCKS, MAX_VOLUMES, Volume, VolumeId, VolumeMedia, VolumeName,
};

use crate::bugs::bug;
use crate::engine::Engine;
use crate::engine::trim::{Afterwards, Unmapping};
use crate::map::{FRAME_BYTES, VolumeMap};
use crate::payload::Payload;
use crate::request::{HostError, Reply};
use crate::volumes::VolumeInfo;
use crate::write_cache::Owner;

impl<P: Payload> Engine<P> {
    /// The volumes, by rising identifier.
    #[must_use]
    pub fn volumes(&self) -> Vec<VolumeInfo> {
        let info = |map: &VolumeMap| {
            let VolumeMap { id, blocks, media, reserve, traffic, .. } = *map;
            let mapped = self.volumes.index(id).map_or(0, |index| self.volumes.in_use(index));
            VolumeInfo { id, name: map.name.clone(), blocks, media, mapped, reserve, traffic }
        };
        self.volumes.alive().into_iter().map(info).collect()
    }

    /// Identity of the pool; all zeros before a superblock was found.
    #[must_use]
    pub fn pool_id(&self) -> thermocline_format::PoolId {
        self.pool
    }

    /// Blocks of all volumes that are mapped, those of deleted ones among them that are still to be unmapped. Too high
    /// by [`Engine::doubled_blocks`] at most.
    #[must_use]
    pub fn mapped_blocks(&self) -> u64 {
        self.volumes.mapped()
    }

    /// Blocks that the pool holds if its volumes are written all over, and no less than are mapped.
    #[must_use]
    pub fn holds_blocks(&self) -> u64 {
        let sizes = self.volumes.alive().into_iter().map(|map| map.blocks);
        self.config.capacity_among(sizes).max(self.mapped_blocks())
    }

    /// Blocks that count twice among those that are mapped if they were mapped when they were written: where only a
    /// page of the map on media says that. None do after an opening.
    #[must_use]
    pub fn doubled_blocks(&self) -> u64 {
        self.volumes.tally().doubled
    }

    pub(crate) fn create_volume(&mut self, request: u32, name: &VolumeName, blocks: u64) {
        if let Err(error) = self.may_have(name, blocks) {
            return self.request_progress(request, 1, Some(error));
        }
        let volume = self.volumes.next_id();
        self.volumes.add(volume, name.clone(), blocks, self.addresses);
        let mut entries = vec![Entry::VolumeCreate { volume, blocks }];
        entries.extend(Entry::name_parts(volume, name));
        self.requests.set_reply(request, Reply::Created(volume));
        self.cache.say(entries, vec![Owner::Request(request)]);
    }

    fn may_have(&mut self, name: &VolumeName, blocks: u64) -> Result<(), HostError> {
        let alive = self.volumes.alive();
        if alive.iter().any(|map| map.name == *name) {
            return Err(HostError::NameTaken);
        }
        let volumes = self.volumes.all().len() + 1;
        if volumes > MAX_VOLUMES || !self.volumes.next_id().is_user() {
            return Err(HostError::TooManyVolumes);
        }
        self.may_grow(0, blocks, volumes)
    }

    /// Whether a volume may have `blocks` blocks instead of `old`, one of `volumes` volumes.
    fn may_grow(&mut self, old: u64, blocks: u64, volumes: usize) -> Result<(), HostError> {
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
        let needed =
            self.volumes.fixed_after_crash() + more + self.config.least_pages() * FRAME_BYTES;
        let budget = self.config.map_memory_bytes;
        if needed > budget {
            // What went since the last checkpoint takes none after the next.
            self.want_checkpoint();
            return Err(HostError::NoMemory { needed, budget });
        }
        Ok(())
    }

    pub(crate) fn delete_volume(&mut self, request: u32, volume: VolumeId) {
        let Some(index) = self.volumes.index(volume) else {
            return self.request_progress(request, 1, Some(HostError::NoVolume(volume)));
        };
        self.volumes.hide(index);
        let mut entries = vec![Entry::VolumeDelete { volume }];
        if bug!(self.config, DeleteNotLogged) {
            entries.clear();
            entries.extend([Entry::Trim { volume, lba: thermocline_types::Lba(0), blocks: 1 }]);
        }
        self.cache.say(entries, vec![Owner::Request(request)]);
        self.unmap_deleted(index);
    }

    /// Unmaps the blocks of a deleted volume, and forgets it then.
    pub(crate) fn unmap_deleted(&mut self, index: u16) {
        let end = self.volumes.map(index).blocks;
        self.pages.forget_damage(index, 0, u64::MAX);
        let afterwards = Afterwards::Forget;
        self.unmapping.push_back(Unmapping {
            volume: index,
            next: 0,
            end,
            request: None,
            afterwards,
        });
    }

    pub(crate) fn set_media(&mut self, request: u32, volume: VolumeId, media: VolumeMedia) {
        let Some(index) = self.volumes.index(volume) else {
            return self.request_progress(request, 1, Some(HostError::NoVolume(volume)));
        };
        if !self.config.geometry.is_tiered() && media != VolumeMedia::Auto {
            return self.request_progress(request, 1, Some(HostError::NoFastDevice));
        }
        self.volumes.map_mut(index).media = media;
        self.gc_media_changed();
        let entries = vec![Entry::VolumeMedia { volume, media }];
        self.cache.say(entries, vec![Owner::Request(request)]);
    }

    pub(crate) fn resize_volume(&mut self, request: u32, volume: VolumeId, blocks: u64) {
        let Some(index) = self.volumes.index(volume) else {
            return self.request_progress(request, 1, Some(HostError::NoVolume(volume)));
        };
        let old = self.volumes.map(index).blocks;
        if let Err(error) = self.may_grow(old, blocks, self.volumes.all().len()) {
            return self.request_progress(request, 1, Some(error));
        }
        let map = self.volumes.map_mut(index);
        map.limit = map.limit.min(blocks);
        self.requests.set_resizes(request, volume);
        self.pages.forget_damage(index, 0, u64::MAX);
        self.unmapping.push_back(Unmapping {
            volume: index,
            next: blocks.min(old),
            end: old,
            request: Some(request),
            afterwards: Afterwards::Resize(blocks),
        });
    }
}
