//! The log as a target of requests.

use thermocline_engine::HostError;
use thermocline_nand::{Drive, UnitView};
use thermocline_types::{Bytes, Op, Request, Time};

use super::machine::Machine;
use crate::byte_counts::ByteCounts;
use crate::rates::DeviceRates;
use crate::target::{Failure, Finished, Target};
use crate::tenants::OwnedCounts;

impl Target for Machine {
    fn now(&self) -> Time {
        self.now()
    }

    fn in_work(&self) -> usize {
        self.in_work() + self.finished.len()
    }

    fn fill_depth(&self) -> usize {
        32
    }

    fn handle(&mut self, pieces: &[Request]) -> u16 {
        self.tags.handle(pieces)
    }

    fn submit(&mut self, pieces: &[Request], handle: u16) -> Result<Option<Time>, Failure> {
        self.submit(pieces, handle);
        Ok(None)
    }

    fn step(&mut self) -> Result<(), Failure> {
        Ok(self.step()?)
    }

    fn step_until(&mut self, until: Time) -> Result<bool, Failure> {
        Ok(self.step_until(until)?)
    }

    fn next_finished(&mut self) -> Option<Finished> {
        self.finished.pop_front()
    }

    fn check(&self) -> Result<(), Failure> {
        match self.failed() {
            None => Ok(()),
            Some(HostError::NoSpace) => {
                Err(Failure::Full(Bytes(self.engine().mapped_blocks() * Bytes::BLOCK.0)))
            }
            Some(error) => Err(Failure::Engine(error)),
        }
    }

    fn holds_up_host(&self) -> bool {
        self.exclusive && self.device().victims().len() > self.collections().len()
    }

    fn prefetch(&self, requests: &[Request]) {
        for request in requests.iter().filter(|request| request.op == Op::Write) {
            self.engine().prefetch(self.volume, request.offset.0 / Bytes::BLOCK.0);
        }
    }

    fn settle(&mut self) -> Result<(), Failure> {
        Ok(self.settle()?)
    }

    fn end_fill(&mut self) -> Result<Time, Failure> {
        self.settle()?;
        Ok(self.device().drive().drained())
    }

    fn on_media(&mut self) -> Option<Time> {
        let longer = self.device_mut().drain()?;
        Some(self.left_memory + longer)
    }

    fn follow_tenants(&mut self, tenants: u16) {
        if tenants > 0 {
            let blocks = self.blocks;
            self.device_mut().follow_owners(tenants, blocks);
        }
    }

    fn count_rates(&mut self, start: Time) {
        self.device_mut().count_rates(start);
    }

    fn byte_counts(&self) -> ByteCounts {
        self.byte_counts()
    }

    fn owned_counts(&self) -> Option<OwnedCounts> {
        let (drive, fast) = (self.drive(), self.device().fast());
        Some(OwnedCounts {
            log: self.device().ledger()?.written().to_vec(),
            drive: drive.programmed_by_owner()?,
            fast: fast.and_then(Drive::programmed_by_owner).unwrap_or_default(),
        })
    }

    fn free_units(&self) -> u64 {
        u64::from(self.engine().free_units())
    }

    /// Of zones, the log knows what is valid.
    fn units(&mut self) -> Vec<UnitView> {
        let mut views = self.drive_mut().units();
        if !matches!(self.drive(), Drive::Zoned(_)) {
            return views;
        }
        let (units, geometry) = (self.engine().units(), self.device().geometry());
        let whole = units.blocks_per_unit() as f32 / geometry.logical_block().per_block() as f32;
        for (view, unit) in views.iter_mut().zip(units.ids()) {
            if !geometry.is_superblock_unit(unit) {
                view.valid = units.valid_count(unit) as f32 / whole;
            }
        }
        views
    }

    fn rates(&self) -> Vec<&DeviceRates> {
        self.device().rates()
    }

    fn drive(&self) -> &Drive {
        self.device().drive()
    }

    fn drive_mut(&mut self) -> &mut Drive {
        self.device_mut().drive_mut()
    }

    fn log(&self) -> Option<&Machine> {
        Some(self)
    }
}
