//! What benches of whole pools share: a volume, requests in flight, and what they take.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use thermocline_engine::{Extent, HostRequest, Rejected, Reply, RequestId};
use thermocline_format::{VolumeId, VolumeName};
use thermocline_runtime::storage::Storage;
use thermocline_runtime::{Buffer, Driver, Ended};
use thermocline_target::BufferPool;

/// Bytes of a block of a volume.
pub const BLOCK: usize = 4096;

/// CPU time of this process so far, all threads and the kernel.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A volume of `blocks` blocks.
pub fn create<S: Storage>(driver: &mut Driver<S>, blocks: u64) -> VolumeId {
    let name = VolumeName::new("bench").expect("a name");
    match driver.carry_out(HostRequest::CreateVolume { name, blocks }) {
        Ok(Reply::Created(volume)) => volume,
        other => panic!("no volume: {other:?}"),
    }
}

/// Requests under way.
pub struct Load {
    volume: VolumeId,
    depth: usize,
    memory: BufferPool,
    ended: Vec<Ended>,
}

impl Load {
    /// At most `depth` requests of `volume` at once.
    pub fn new(volume: VolumeId, depth: usize) -> Load {
        Load { volume, depth, memory: BufferPool::new(256 << 20), ended: Vec::new() }
    }

    /// Carries out `count` writes of `blocks` blocks, the places of which `place` tells.
    pub fn run<S: Storage>(
        &mut self,
        driver: &mut Driver<S>,
        count: u64,
        blocks: u64,
        place: impl FnMut(u64) -> u64,
    ) {
        self.run_mix(driver, count, blocks, |_| false, place);
    }

    /// Carries out `count` requests of `blocks` blocks, the places of which `place` tells, and `reads` which of them
    /// read.
    pub fn run_mix<S: Storage>(
        &mut self,
        driver: &mut Driver<S>,
        count: u64,
        blocks: u64,
        reads: impl Fn(u64) -> bool,
        mut place: impl FnMut(u64) -> u64,
    ) {
        let (mut begun, mut complete, mut next) = (0, 0, None);
        while complete < count {
            while begun < count && (begun - complete) < self.depth as u64 {
                let lba = *next.get_or_insert_with(|| place(begun));
                let extent = Extent { volume: self.volume, lba, blocks };
                let mut bytes = self.memory.take(blocks as usize * BLOCK);
                // No two blocks are alike, as far as checksums go.
                bytes[..8].copy_from_slice(&begun.to_le_bytes());
                let data = Buffer::new(bytes);
                let what = match reads(begun) {
                    true => HostRequest::Read { extent, into: data },
                    false => HostRequest::Write { extent, data, fua: false, handle: 0 },
                };
                match driver.submit(RequestId(begun), what) {
                    Ok(()) => (begun, next) = (begun + 1, None),
                    Err(Rejected::Busy) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            driver.poll(None, &mut self.ended);
            driver.clear_notices();
            for one in self.ended.drain(..) {
                assert!(one.result.is_ok(), "{:?}", one.result);
                complete += 1;
            }
        }
    }
}
