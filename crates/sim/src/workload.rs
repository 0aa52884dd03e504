//! Random requests of a host, drawn from a mix that each seed draws for itself.

use thermocline_engine::{Extent, MAX_IO_BLOCKS};
use thermocline_format::{VolumeId, VolumeMedia};
use thermocline_types::Rng;

/// A request, before it has a version or a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Write blocks.
    Write {
        /// Which.
        extent: Extent,
        /// Whether durable at completion.
        fua: bool,
        /// The placement handle.
        handle: u16,
    },
    /// Trim blocks.
    Trim {
        /// Which.
        extent: Extent,
        /// Whether durable at completion.
        fua: bool,
    },
    /// Read blocks.
    Read(Extent),
    /// Flush.
    Flush,
    /// Flush a volume.
    FlushVolume(VolumeId),
    /// Create a volume with the given number of blocks.
    Create(u64),
    /// Delete a volume or a snapshot.
    Delete(VolumeId),
    /// Make a snapshot of a volume.
    Snapshot(VolumeId),
    /// Make a clone of a snapshot.
    Clone(VolumeId),
    /// Give a volume another size in blocks.
    Resize(VolumeId, u64),
    /// Give a volume another name.
    Rename(VolumeId),
    /// Set the media of a volume.
    Media(VolumeId, VolumeMedia),
    /// Close the pool in order, and open it again.
    Close,
    /// Scrub.
    Scrub,
}

/// Volumes beyond [`Mix::most_volumes`] that clones may be.
const MOST_CLONES: usize = 2;

/// Frequencies, sizes and places of requests.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Weights of writes, trims, reads, flushes, creations, deletions, resizes, closings and scrubs.
    pub(crate) weights: [u64; 9],
    /// Blocks of the smallest write, if the volume has room.
    pub(crate) least_blocks: u64,
    /// Blocks of the largest write.
    pub(crate) most_blocks: u64,
    /// Mean number of changes per change with FUA; 0 for no FUA.
    pub(crate) fua_one_in: u64,
    /// Blocks at the start of each volume that get nine requests of ten.
    pub(crate) hot_blocks: u64,
    /// How far they are apart.
    pub(crate) hot_stride: u64,
    /// Blocks of all volumes together.
    pub(crate) total_blocks: u64,
    /// Volumes at once.
    pub(crate) most_volumes: usize,
    /// Mean number of requests per change of a volume's media; 0 for no changes.
    pub(crate) media_one_in: u64,
    /// Mean number of requests per new name of a volume; 0 for no new names.
    pub(crate) rename_one_in: u64,
    /// Mean number of requests per request about snapshots; 0 for none.
    pub(crate) snapshots_one_in: u64,
}

impl Mix {
    /// A mix for a pool that holds `capacity` blocks.
    #[must_use]
    pub fn draw(rng: &mut Rng, capacity: u64) -> Mix {
        let mut weight = |most: u64| if rng.below(4) == 0 { 0 } else { 1 + rng.below(most) };
        let (trims, reads, flushes) = (weight(30), weight(40), weight(60));
        let (creates, deletes, resizes) = (weight(4), weight(3), weight(4));
        let (closes, scrubs) = (weight(3), weight(3));
        let weights = [100, trims, reads, flushes, creates, deletes, resizes, closes, scrubs];
        // From a nearly empty pool to an overcommitted pool.
        let total_blocks = (capacity * (20 + rng.below(120)) / 100).max(16);
        Mix {
            weights,
            least_blocks: 1,
            most_blocks: [1, 4, 32, MAX_IO_BLOCKS][rng.below(4) as usize].min(total_blocks),
            fua_one_in: [0, 2, 10][rng.below(3) as usize],
            hot_blocks: 1 + rng.below(total_blocks),
            hot_stride: 1,
            total_blocks,
            most_volumes: 1 + rng.below(3) as usize,
            media_one_in: 0,
            rename_one_in: 0,
            snapshots_one_in: 0,
        }
    }

    /// The next request if it is about snapshots: of one of `volumes`, or about one of `snapshots`.
    pub fn of_snapshots(
        &self,
        rng: &mut Rng,
        volumes: &[(VolumeId, u64)],
        snapshots: &[(VolumeId, u64)],
    ) -> Option<Wish> {
        if volumes.is_empty() || self.snapshots_one_in == 0 || rng.below(self.snapshots_one_in) > 0
        {
            return None;
        }
        let (volume, _) = volumes[rng.below(volumes.len() as u64) as usize];
        let kind = rng.below(5);
        if snapshots.is_empty() || kind == 0 {
            return Some(Wish::Snapshot(volume));
        }
        let (snapshot, blocks) = snapshots[rng.below(snapshots.len() as u64) as usize];
        match kind {
            1 => Some(Wish::Delete(snapshot)),
            2 if volumes.len() < self.most_volumes + MOST_CLONES => Some(Wish::Clone(snapshot)),
            _ if blocks == 0 => None,
            _ => Some(Wish::Read(self.extent(rng, snapshot, blocks))),
        }
    }

    /// The next request on `volumes`, each with its size in blocks.
    pub fn next(&self, rng: &mut Rng, volumes: &[(VolumeId, u64)]) -> Wish {
        let used: u64 = volumes.iter().map(|(_, blocks)| blocks).sum();
        let left = self.total_blocks.saturating_sub(used);
        if volumes.iter().all(|(_, blocks)| *blocks == 0) && left > 0 {
            return Wish::Create(left.div_ceil(self.most_volumes as u64));
        }
        let (volume, blocks) = volumes[rng.below(volumes.len() as u64) as usize];
        if self.media_one_in > 0 && rng.below(self.media_one_in) == 0 {
            return Wish::Media(volume, VolumeMedia::ALL[rng.below(3) as usize]);
        }
        if self.rename_one_in > 0 && rng.below(self.rename_one_in) == 0 {
            return Wish::Rename(volume);
        }
        match self.draw_kind(rng) {
            4 if volumes.len() < self.most_volumes && left > 0 => Wish::Create(1 + rng.below(left)),
            5 if volumes.len() > 1 => Wish::Delete(volume),
            6 => Wish::Resize(volume, 1 + rng.below((blocks + left).max(1))),
            7 => Wish::Close,
            8 => Wish::Scrub,
            // Two of three, without another draw.
            3 if !(volume.0 as u64 + blocks).is_multiple_of(3) => Wish::FlushVolume(volume),
            3 => Wish::Flush,
            _ if blocks == 0 => Wish::Flush,
            2 => Wish::Read(self.extent(rng, volume, blocks)),
            1 => {
                let extent = match rng.below(4) {
                    // Trims of any length, across pages of the map.
                    0 => span(rng, volume, blocks),
                    _ => self.extent(rng, volume, blocks),
                };
                Wish::Trim { extent, fua: self.fua(rng) }
            }
            _ => Wish::Write {
                extent: self.extent(rng, volume, blocks),
                fua: self.fua(rng),
                handle: rng.below(3) as u16,
            },
        }
    }

    fn draw_kind(&self, rng: &mut Rng) -> usize {
        let mut left = rng.below(self.weights.iter().sum());
        for (kind, &weight) in self.weights.iter().enumerate() {
            if left < weight {
                return kind;
            }
            left -= weight;
        }
        unreachable!("the draw is below the sum of the weights")
    }

    fn fua(&self, rng: &mut Rng) -> bool {
        self.fua_one_in > 0 && rng.below(self.fua_one_in) == 0
    }

    fn extent(&self, rng: &mut Rng, volume: VolumeId, size: u64) -> Extent {
        let hot = self.hot_blocks.min(size.div_ceil(self.hot_stride));
        let cold = rng.below(10) == 0;
        let lba = if cold { rng.below(size) } else { rng.below(hot) * self.hot_stride };
        let most = self.most_blocks.min(size - lba);
        let least = self.least_blocks.min(most);
        let blocks = least + rng.below(most - least + 1);
        Extent { volume, lba, blocks }
    }
}

fn span(rng: &mut Rng, volume: VolumeId, size: u64) -> Extent {
    let lba = rng.below(size);
    Extent { volume, lba, blocks: 1 + rng.below(size - lba) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_lies_within_its_volume() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let mix = Mix::draw(&mut rng, 400);
            let volumes = [(VolumeId(1), 7), (VolumeId(4), 300)];
            for _ in 0..500 {
                let extent = match mix.next(&mut rng, &volumes) {
                    Wish::Read(extent) => extent,
                    Wish::Write { extent, .. } => {
                        assert!(extent.blocks <= MAX_IO_BLOCKS);
                        extent
                    }
                    Wish::Trim { extent, .. } => extent,
                    _ => continue,
                };
                let size =
                    volumes.iter().find(|(id, _)| *id == extent.volume).expect("one of them").1;
                assert!(extent.blocks > 0 && extent.lba + extent.blocks <= size, "{extent:?}");
            }
        }
    }

    #[test]
    fn without_volumes_one_is_made_first() {
        let mut rng = Rng::new(1);
        let mix = Mix::draw(&mut rng, 400);
        assert!(matches!(mix.next(&mut rng, &[]), Wish::Create(_)));
    }
}
