//! Making a pool: units are emptied, and the first superblock record is written.

use std::sync::Arc;

use thermocline_format::{
    Epoch, Generation, Location, MapEntry, MediaClass, OpenUnit, Revision, Sequence, Superblock,
    VolumeId,
};
use thermocline_types::UnitId;

use crate::device::{DeviceCmd, UnitCondition, UnitReport};
use crate::engine::Parts;
use crate::engine::opening::Recovery;
use crate::payload::Payload;
use crate::request::OpenError;

impl<P: Payload> Recovery<P> {
    /// Makes the contents of the superblock units unreadable. A reset does so only in a zone. On other media an opening
    /// would find an earlier pool's records beside the new records.
    pub(super) fn empty_superblocks(&mut self, p: &mut Parts<P>) -> Result<(), OpenError> {
        let units: Vec<UnitId> = p.config.geometry.all_superblock_units().collect();
        for unit in units {
            let zone = self.reports[unit.index()].written.is_some();
            let empty = if zone { DeviceCmd::Reset(unit) } else { DeviceCmd::Zero(unit) };
            self.ask(p, 0, empty);
        }
        Ok(())
    }

    pub(super) fn empty_rest(&mut self, p: &mut Parts<P>) -> Result<(), OpenError> {
        let holds = |report: &UnitReport| {
            report.condition == UnitCondition::Good && report.written.is_some_and(|at| at > 0)
        };
        let geometry = p.config.geometry;
        let units: Vec<UnitId> = (0..geometry.units())
            .map(UnitId)
            .filter(|unit| {
                !geometry.is_superblock_unit(*unit) && holds(&self.reports[unit.index()])
            })
            .collect();
        for unit in units {
            self.ask(p, 0, DeviceCmd::Reset(unit));
        }
        Ok(())
    }

    pub(super) fn write_first_record(&mut self, p: &mut Parts<P>) -> Result<(), OpenError> {
        let geometry = p.config.geometry;
        for report in &mut self.reports {
            report.written = report.written.map(|_| 0);
        }
        let first = Generation(1 << 32);
        let good = |unit: &UnitId| {
            !geometry.is_superblock_unit(*unit)
                && self.reports[unit.index()].condition == UnitCondition::Good
        };
        let listed = |media| {
            let units = geometry.units_of(media).map(UnitId).filter(good);
            units.take(p.config.listed_ahead())
        };
        let units = listed(MediaClass::Capacity).chain(listed(MediaClass::Fast));
        let open_units: Vec<OpenUnit> = units
            .zip(first.0..)
            .map(|(unit, generation)| OpenUnit {
                next: Location { unit, block: 0 },
                generation: Generation(generation),
            })
            .collect();
        let [unit, _] = geometry.superblock_units();
        let units = geometry.devices().iter().map(|device| device.superblock_units[0]);
        let record = Superblock {
            pool: p.pool,
            location: Location { unit, block: 0 },
            revision: Revision(1),
            epoch: Epoch(1),
            tail_epoch: Epoch(1),
            tail_end: None,
            patches: 0,
            vain: 0,
            flushed: 0,
            snapshots: false,
            checkpoint: Sequence(1),
            clean: true,
            confirmed: false,
            geometry,
            next_generation: Generation(first.0 + open_units.len() as u64),
            next_volume: VolumeId(1),
            volumes: Vec::new(),
            open_units,
            unit_pages: vec![MapEntry::UNMAPPED; geometry.unit_pages()],
        };
        for unit in units {
            let record = Superblock { location: Location { unit, block: 0 }, ..record.clone() };
            p.stats.superblocks += 1;
            p.stats.superblock_bytes += record.record_bytes() as u64;
            self.ask(p, 0, DeviceCmd::WriteSuperblock(Arc::new(record)));
        }
        Ok(())
    }
}
