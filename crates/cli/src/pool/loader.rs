//! Sends requests to a volume, many at once, and keeps a ledger of the writes.

use std::time::Duration;

use anyhow::bail;
use rustc_hash::{FxHashMap, FxHashSet};
use thermocline_engine::{Extent, HostRequest, MAX_IO_BLOCKS, Rejected, RequestId};
use thermocline_format::VolumeId;
use thermocline_runtime::storage::Storage;
use thermocline_runtime::{Buffer, Driver, Ended};
use thermocline_types::{Bytes, Op, Request};

use super::Broken;
use super::ledger::Ledger;
use super::open::broken;
use super::stamp::{BLOCK, Stamp};

/// The state of a pending request.
enum Pending {
    /// Blocks and their versions.
    Change(Vec<(u64, u32)>),
    Read {
        lba: u64,
        into: Buffer,
    },
    /// Changes that the flush makes durable.
    Flush(Vec<(u64, u32)>),
}

/// Counts of completed work.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Blocks written, read and trimmed.
    pub written: u64,
    pub read: u64,
    pub trimmed: u64,
    /// Flushes.
    pub flushes: u64,
}

/// Requests under way on one volume.
pub struct Loader<'a, S> {
    driver: &'a mut Driver<S>,
    volume: VolumeId,
    memory: thermocline_target::BufferPool,
    /// Without a ledger, versions are not recorded, and reads are not verified.
    ledger: Option<Ledger>,
    depth: usize,
    /// Changed blocks after which a flush is sent; 0 never.
    flush_every: usize,
    pending: FxHashMap<RequestId, Pending>,
    /// Blocks with a change in flight. A second change of such a block waits, which keeps versions in order.
    busy: FxHashSet<u64>,
    /// Complete changes that no flush covers yet.
    complete: Vec<(u64, u32)>,
    flushing: bool,
    next: u64,
    ended: Vec<Ended>,
    done: Done,
}

impl<'a, S: Storage> Loader<'a, S> {
    /// A loader for requests to `volume`, at most `depth` at once.
    pub fn new(
        driver: &'a mut Driver<S>,
        volume: VolumeId,
        ledger: Option<Ledger>,
        depth: usize,
        flush_every: usize,
    ) -> Loader<'a, S> {
        Loader {
            driver,
            volume,
            memory: thermocline_target::BufferPool::new(64 << 20),
            ledger,
            depth,
            flush_every,
            pending: FxHashMap::default(),
            busy: FxHashSet::default(),
            complete: Vec::new(),
            flushing: false,
            next: 0,
            ended: Vec::new(),
            done: Done::default(),
        }
    }

    /// Begins a request. Addresses count from the start of the volume; the request is widened to whole blocks.
    pub fn serve(&mut self, request: &Request) -> anyhow::Result<()> {
        let block = BLOCK as u64;
        if request.op == Op::Flush {
            return self.barrier();
        }
        let (mut lba, end) = (request.offset.0 / block, request.end().0.div_ceil(block));
        while lba < end {
            let blocks = (end - lba).min(MAX_IO_BLOCKS);
            let extent = Extent { volume: self.volume, lba, blocks };
            match request.op {
                Op::Write => self.write(extent)?,
                Op::Read => self.read(extent)?,
                Op::Trim | Op::WriteZeroes => self.trim(extent)?,
                Op::Flush => unreachable!("served above"),
            }
            lba += blocks;
        }
        if self.flush_every > 0 && self.complete.len() >= self.flush_every && !self.flushing {
            self.flush()?;
        }
        Ok(())
    }

    /// Waits for all requests, and flushes their writes.
    pub fn finish(mut self) -> anyhow::Result<Done> {
        self.barrier()?;
        Ok(self.done)
    }

    /// A flush with the meaning of the lab's replay: it covers all earlier requests, and all later requests wait for
    /// its end.
    fn barrier(&mut self) -> anyhow::Result<()> {
        self.wait_for_all()?;
        self.flush()?;
        self.wait_for_all()
    }

    fn wait_for_all(&mut self) -> anyhow::Result<()> {
        while !self.pending.is_empty() {
            self.step()?;
        }
        Ok(())
    }

    fn write(&mut self, extent: Extent) -> anyhow::Result<()> {
        self.wait_for(extent)?;
        let mut bytes = self.memory.take(extent.blocks as usize * BLOCK);
        let mut changed = Vec::with_capacity(extent.blocks as usize);
        for (block, lba) in bytes.chunks_mut(BLOCK).zip(extent.lba..) {
            let stamp = match &mut self.ledger {
                Some(ledger) => ledger.note_write(lba)?,
                None => Stamp { ledger: 0, lba, volume: self.volume.0, version: 1 },
            };
            stamp.fill(block);
            changed.push((lba, stamp.version));
        }
        self.done.written += extent.blocks;
        self.busy.extend(changed.iter().map(|(lba, _)| lba));
        let data = Buffer::new(bytes);
        let what = HostRequest::Write { extent, data, fua: false, handle: 0 };
        self.submit(&what, Pending::Change(changed))
    }

    fn trim(&mut self, extent: Extent) -> anyhow::Result<()> {
        self.wait_for(extent)?;
        let mut changed = Vec::with_capacity(extent.blocks as usize);
        for lba in extent.lba..extent.lba + extent.blocks {
            let version = match &mut self.ledger {
                Some(ledger) => ledger.note_trim(lba)?,
                None => 1,
            };
            changed.push((lba, version));
        }
        self.done.trimmed += extent.blocks;
        self.busy.extend(changed.iter().map(|(lba, _)| lba));
        self.submit(&HostRequest::Trim { extent, fua: false }, Pending::Change(changed))
    }

    fn read(&mut self, extent: Extent) -> anyhow::Result<()> {
        self.wait_for(extent)?;
        self.done.read += extent.blocks;
        let into = Buffer::new(self.memory.take(extent.blocks as usize * BLOCK));
        let read = HostRequest::Read { extent, into: into.clone() };
        self.submit(&read, Pending::Read { lba: extent.lba, into })
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.flushing = true;
        self.done.flushes += 1;
        let covered = std::mem::take(&mut self.complete);
        self.submit(&HostRequest::Flush, Pending::Flush(covered))
    }

    /// Waits until one more request fits, and no block of `extent` has a change in flight.
    fn wait_for(&mut self, extent: Extent) -> anyhow::Result<()> {
        let blocks = extent.lba..extent.lba + extent.blocks;
        let busy = |loader: &Self| blocks.clone().any(|lba| loader.busy.contains(&lba));
        while self.pending.len() >= self.depth || busy(self) {
            self.step()?;
        }
        Ok(())
    }

    fn submit(&mut self, what: &HostRequest<Buffer>, pending: Pending) -> anyhow::Result<()> {
        let id = RequestId(self.next);
        self.next += 1;
        loop {
            match self.driver.submit(id, what.clone()) {
                Ok(()) => break,
                Err(Rejected::Busy) => self.step()?,
                Err(error) => bail!(Broken(error.to_string())),
            }
        }
        self.pending.insert(id, pending);
        Ok(())
    }

    /// Waits for the device, and settles ended requests.
    fn step(&mut self) -> anyhow::Result<()> {
        let mut ended = std::mem::take(&mut self.ended);
        self.driver.poll(Some(Duration::from_secs(1)), &mut ended);
        self.driver.clear_notices();
        for Ended { request, result } in ended.drain(..) {
            let pending = self.pending.remove(&request).expect("it was submitted");
            if let Err(error) = result {
                bail!(broken(self.driver, error));
            }
            self.settle(pending)?;
        }
        self.ended = ended;
        Ok(())
    }

    fn settle(&mut self, pending: Pending) -> anyhow::Result<()> {
        match pending {
            Pending::Change(changed) => {
                changed.iter().for_each(|(lba, _)| {
                    self.busy.remove(lba);
                });
                if self.ledger.is_some() {
                    self.complete.extend(changed);
                }
            }
            Pending::Flush(covered) => {
                self.flushing = false;
                if let Some(ledger) = &mut self.ledger {
                    covered
                        .iter()
                        .try_for_each(|&(lba, version)| ledger.note_flushed(lba, version))?;
                }
            }
            Pending::Read { lba, into } => {
                let Some(ledger) = &self.ledger else { return Ok(()) };
                for (block, lba) in into.read().chunks(BLOCK).zip(lba..) {
                    if let Some(wrong) = ledger.verdict(lba, block) {
                        bail!(Broken(format!("block {lba} {wrong}")));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Bytes of so many blocks.
pub fn bytes(blocks: u64) -> Bytes {
    Bytes(blocks * BLOCK as u64)
}
