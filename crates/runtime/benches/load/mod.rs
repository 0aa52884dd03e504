//! What benches of whole pools share: a volume, requests in flight, and what they take.

use std::collections::VecDeque;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use thermocline_engine::{Extent, HostRequest, Rejected, Reply, RequestId};
use thermocline_format::{VolumeId, VolumeName};
use thermocline_runtime::storage::Storage;
use thermocline_runtime::{Buffer, Driver, Ended};
use thermocline_target::BufferPool;

/// What the `thermocline` program has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
        let (mut begun, mut complete, mut ready) = (0, 0, VecDeque::new());
        while complete < count {
            // As a pool's thread does: what arrived together is looked at before the first of it is begun.
            let mut arrived = begun + ready.len() as u64;
            while arrived < count && (arrived - complete) < self.depth as u64 {
                let extent = Extent { volume: self.volume, lba: place(arrived), blocks };
                let what = self.request(arrived, extent, reads(arrived));
                driver.prefetch(&what);
                ready.push_back(what);
                arrived += 1;
            }
            while let Some(what) = ready.front() {
                match driver.submit(RequestId(begun), what.clone()) {
                    Ok(()) => begun += 1,
                    Err(Rejected::Busy) => break,
                    Err(error) => panic!("{error}"),
                }
                ready.pop_front();
            }
            driver.poll(None, &mut self.ended);
            driver.clear_notices();
            for one in self.ended.drain(..) {
                assert!(one.result.is_ok(), "{:?}", one.result);
                complete += 1;
            }
        }
    }

    /// Request `number`. No two blocks that are written are alike, as far as checksums go.
    fn request(&self, number: u64, extent: Extent, reads: bool) -> HostRequest<Buffer> {
        let mut bytes = self.memory.take(extent.blocks as usize * BLOCK);
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        let data = Buffer::new(bytes);
        match reads {
            true => HostRequest::Read { extent, into: data },
            false => HostRequest::Write { extent, data, fua: false, handle: 0 },
        }
    }
}
