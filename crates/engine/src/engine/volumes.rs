//! How volumes come, change and go.

use thermocline_format::{MAX_VOLUME_BLOCKS, MAX_VOLUMES, Volume, VolumeName};

use crate::engine::Parts;
use crate::map::{FRAME_BYTES, VolumeMap};
use crate::payload::Payload;
use crate::request::HostError;

impl<P: Payload> Parts<P> {
    pub(crate) fn may_have(&mut self, name: &VolumeName, blocks: u64) -> Result<(), HostError> {
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
    pub(crate) fn may_grow(
        &mut self,
        old: u64,
        blocks: u64,
        volumes: usize,
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
}
