//! What the engine counted since it was made.

/// Counters of an engine. Blocks are of 4096 bytes.
///
/// Bytes written to the device are the sum of host, relocated, destaged and page blocks, chunk headers and superblocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Blocks of the host that were written in chunks.
    pub host_blocks_written: u64,
    /// Those of them that were written to devices for capacity although there are fast ones.
    pub bypassed_blocks: u64,
    /// Blocks of the host that were overwritten or trimmed in memory and never reached a chunk.
    pub absorbed_blocks: u64,
    /// Blocks that the host read.
    pub host_blocks_read: u64,
    /// Blocks that the host trimmed and that were mapped.
    pub trimmed_blocks: u64,
    /// Blocks that garbage collection copied, those apart that left a fast device by that.
    pub relocated_blocks: u64,
    /// Those of them that went from one fast unit to another.
    pub carried_blocks: u64,
    /// Blocks that left a fast device for one with capacity.
    pub destaged_blocks: u64,
    /// Bytes that garbage collection read.
    pub gc_bytes_read: u64,
    /// Commands by which it read them.
    pub gc_reads: u64,
    /// Units that garbage collection emptied.
    pub gc_units: u64,
    /// Pages of maps and roots that were written.
    pub map_pages_written: u64,
    /// Bytes of chunk headers, those of control entries included; but of those with a packed block, which counts as a
    /// block like any other.
    pub header_bytes: u64,
    /// Those of them that were written to devices for capacity although there are fast ones.
    pub capacity_header_bytes: u64,
    /// Blocks that were packed into a header.
    pub packed_blocks: u64,
    /// Blocks of which it was tried.
    pub pack_tried_blocks: u64,
    /// Pages of maps that could not be read when their volume was deleted: what they led to stays counted.
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
    /// Entries of maps, and units, that were looked through in search of something: what bounds the work of a call.
    pub looked_at: u64,
    /// Pages of maps that were read because they were not in memory.
    pub pages_loaded: u64,
    /// Pages of maps that gave their memory to others.
    pub pages_evicted: u64,
    /// Blocks found to be damaged, each time that they were.
    pub damaged_blocks: u64,
}

/// Memory that an engine holds, in bytes, by what it is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Maps of the volumes: pages in which something was mapped, and what leads to them.
    pub maps: u64,
    /// The table of units.
    pub units: u64,
    /// What the placement policy remembers.
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

/// What was written for one volume since the engine was made, in blocks of 4096 bytes.
///
/// The sums over all volumes, deleted ones included, are in [`Stats`]; headers, maps and superblocks are the pool's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VolumeTraffic {
    /// Blocks of the host that were written in chunks.
    pub host_blocks_written: u64,
    /// Blocks of the host that were overwritten or trimmed in memory and never reached a chunk.
    pub absorbed_blocks: u64,
    /// Blocks that garbage collection copied, those apart that left a fast device by that.
    pub relocated_blocks: u64,
    /// Blocks that left a fast device for one with capacity.
    pub destaged_blocks: u64,
}

impl Stats {
    /// Bytes written to the device.
    #[must_use]
    pub fn device_bytes_written(&self) -> u64 {
        let copies = self.relocated_blocks + self.destaged_blocks;
        let blocks = self.host_blocks_written + copies + self.map_pages_written;
        blocks * 4096 + self.header_bytes + self.superblock_bytes
    }
}
