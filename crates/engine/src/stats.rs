//! Counters since the engine was made.

use thermocline_format::MediaClass;

/// Counters of an engine. Blocks are of 4096 bytes.
///
/// Bytes written to the device are the sum of host, relocated, destaged and page blocks, chunk headers and superblocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Host blocks, counted at staging. A staged block is absorbed, written in a chunk later, or lost with a pool that
    /// fails.
    pub host_blocks_staged: u64,
    /// Blocks of the host that were written in chunks.
    pub host_blocks_written: u64,
    /// Host blocks that were written to devices for capacity although the pool has fast devices.
    pub bypassed_blocks: u64,
    /// Blocks of the host that were overwritten or trimmed in memory and never reached a chunk.
    pub absorbed_blocks: u64,
    /// Writes of hosts that were refused because the pool is full.
    pub refused_writes: u64,
    /// Blocks that the host read.
    pub host_blocks_read: u64,
    /// Blocks that the host trimmed and that were mapped.
    pub trimmed_blocks: u64,
    /// Blocks that garbage collection copied, except blocks that left a fast device.
    pub relocated_blocks: u64,
    /// Relocated blocks that went from one fast unit to another.
    pub carried_blocks: u64,
    /// Blocks that left a fast device for one with capacity.
    pub destaged_blocks: u64,
    /// Bytes that garbage collection read.
    pub gc_bytes_read: u64,
    /// Read commands of garbage collection.
    pub gc_reads: u64,
    /// Units that garbage collection emptied.
    pub gc_units: u64,
    /// Pages of maps and roots that were written.
    pub map_pages_written: u64,
    /// Bytes of chunk headers, including headers of control entries. Headers with a packed block are not included: the
    /// packed block counts as a block like any other.
    pub header_bytes: u64,
    /// Header bytes that were written to devices for capacity although the pool has fast devices.
    pub capacity_header_bytes: u64,
    /// Blocks that were packed into a header.
    pub packed_blocks: u64,
    /// Blocks that the engine tried to pack.
    pub pack_tried_blocks: u64,
    /// Pages of maps that could not be read when their volume was deleted: the mapped blocks still count as valid.
    pub lost_pages: u64,
    /// Bytes that were left unwritten at the ends of units.
    pub unused_bytes: u64,
    /// Bytes of superblock records.
    pub superblock_bytes: u64,
    /// Superblock records.
    pub superblocks: u64,
    /// Chunks.
    pub chunks: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Flushes sent to the device.
    pub flushes: u64,
    /// Resets sent to the device.
    pub resets: u64,
    /// Entries of maps, and units, that searches looked through: the bound of the work of a call.
    pub looked_at: u64,
    /// Pages of maps that were read because they were not in memory.
    pub pages_loaded: u64,
    /// Pages of maps that were evicted.
    pub pages_evicted: u64,
    /// Pages of maps that were read only to be written with their patch.
    pub pages_merged: u64,
    /// Damaged blocks found; a block counts each time.
    pub damaged_blocks: u64,
    /// Places of devices with redundancy that a member held wrong, and that were written again from the others.
    pub healed_places: u64,
}

/// Memory that an engine holds, in bytes, by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Maps of the volumes: pages with mapped blocks, and the roots and leaves above the pages.
    pub maps: u64,
    /// The table of units.
    pub units: u64,
    /// Memory of the placement policy.
    pub placement: u64,
    /// Blocks that wait to be written, with their payload.
    pub waiting: u64,
}

impl Memory {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.maps + self.units + self.placement + self.waiting
    }
}

/// Data written for one volume since the engine was made, in blocks of 4096 bytes.
///
/// The sums over all volumes, deleted ones included, are in [`Stats`]; headers, maps and superblocks are the pool's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VolumeTraffic {
    /// Host blocks, counted at staging.
    pub host_blocks_staged: u64,
    /// Blocks of the host that were written in chunks.
    pub host_blocks_written: u64,
    /// Blocks of the host that were overwritten or trimmed in memory and never reached a chunk.
    pub absorbed_blocks: u64,
    /// Blocks that garbage collection copied, except blocks that left a fast device.
    pub relocated_blocks: u64,
    /// Blocks that left a fast device for one with capacity.
    pub destaged_blocks: u64,
}

/// Sums of all fields.
macro_rules! sums {
    ($($type:ident { $($field:ident,)* })*) => {
        $(impl std::ops::AddAssign for $type {
            fn add_assign(&mut self, other: $type) {
                let $type { $($field,)* } = other;
                $(self.$field += $field;)*
            }
        })*
    };
}

sums! {
    Stats {
        host_blocks_staged, host_blocks_written, bypassed_blocks, absorbed_blocks, refused_writes,
        host_blocks_read, trimmed_blocks, relocated_blocks, carried_blocks, destaged_blocks,
        gc_bytes_read, gc_reads, gc_units, map_pages_written, header_bytes, capacity_header_bytes,
        packed_blocks, pack_tried_blocks, lost_pages, unused_bytes, superblock_bytes, superblocks,
        chunks, checkpoints, flushes, resets, looked_at, pages_loaded, pages_evicted, pages_merged,
        damaged_blocks, healed_places,
    }
    VolumeTraffic {
        host_blocks_staged, host_blocks_written, absorbed_blocks, relocated_blocks, destaged_blocks,
    }
    WrittenOn { host_blocks, destaged_blocks, relocated_blocks, metadata_bytes, }
}

impl Stats {
    /// Grows with each block that may cover a block of a layer below.
    pub(crate) fn covers(&self) -> u64 {
        self.host_blocks_written + self.trimmed_blocks
    }

    /// Bytes written to the device.
    #[must_use]
    pub fn device_bytes_written(&self) -> u64 {
        let copies = self.relocated_blocks + self.destaged_blocks;
        let blocks = self.host_blocks_written + copies + self.map_pages_written;
        blocks * 4096 + self.header_bytes + self.superblock_bytes
    }
}

/// Data written to the devices of a class of media since the engine was made, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenOn {
    /// Blocks of the host. On capacity media of a tiered pool: blocks that bypassed the fast devices.
    pub host_blocks: u64,
    /// Blocks that came from fast devices.
    pub destaged_blocks: u64,
    /// Blocks that garbage collection copied.
    pub relocated_blocks: u64,
    /// Bytes of headers, pages of maps and superblocks.
    pub metadata_bytes: u64,
}

impl WrittenOn {
    /// The part of `stats` that was written to `media`.
    pub(crate) fn new(stats: &Stats, media: MediaClass, tiered: bool) -> WrittenOn {
        let pages = stats.map_pages_written * 4096;
        let metadata = stats.header_bytes + pages + stats.superblock_bytes;
        let below = WrittenOn {
            host_blocks: stats.bypassed_blocks,
            destaged_blocks: stats.destaged_blocks,
            relocated_blocks: stats.relocated_blocks - stats.carried_blocks,
            // Maps and superblocks are on fast devices, where there are any.
            metadata_bytes: stats.capacity_header_bytes,
        };
        match (media, tiered) {
            (MediaClass::Capacity, true) => below,
            (MediaClass::Fast, true) => WrittenOn {
                host_blocks: stats.host_blocks_written - below.host_blocks,
                destaged_blocks: 0,
                relocated_blocks: stats.carried_blocks,
                metadata_bytes: metadata - below.metadata_bytes,
            },
            (MediaClass::Capacity, false) => WrittenOn {
                host_blocks: stats.host_blocks_written,
                destaged_blocks: 0,
                relocated_blocks: stats.relocated_blocks,
                metadata_bytes: metadata,
            },
            (MediaClass::Fast, false) => WrittenOn::default(),
        }
    }

    /// All of it, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let blocks = self.host_blocks + self.destaged_blocks + self.relocated_blocks;
        blocks * 4096 + self.metadata_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_to_classes_of_media_is_all_that_was_written() {
        let stats = Stats {
            host_blocks_written: 100,
            bypassed_blocks: 10,
            relocated_blocks: 50,
            carried_blocks: 5,
            destaged_blocks: 70,
            map_pages_written: 3,
            header_bytes: 8192,
            capacity_header_bytes: 4096,
            superblock_bytes: 512,
            ..Stats::default()
        };
        for tiered in [false, true] {
            let of = |media| WrittenOn::new(&stats, media, tiered).bytes();
            let untiered = Stats { destaged_blocks: 0, ..stats };
            let all = if tiered { &stats } else { &untiered }.device_bytes_written();
            assert_eq!(of(MediaClass::Capacity) + of(MediaClass::Fast), all);
        }
    }
}
