//! Which superblock record an opening believes, and whether the pool can be opened with the devices that are asked for.
//!
//! `docs/develop/FORMAT.md`, sections 5.10 and 6, has the rules.

use thermocline_format::{DeviceState, Epoch, Geometry, MediaClass, Superblock};
use thermocline_types::{DeviceId, UnitId};

use super::Recovery;
use crate::bugs::bug;
use crate::engine::Parts;
use crate::marks::mark;
use crate::payload::Payload;
use crate::request::OpenError;

impl<P: Payload> Recovery<P> {
    pub(super) fn choose_superblock(
        &mut self,
        p: &mut Parts<P>,
        records: Vec<Superblock>,
    ) -> Result<(), OpenError> {
        let newest = self.newest_record(p, records)?;
        if !newest.geometry.becomes(&p.config.geometry) {
            mark!(OtherGeometry);
            return Err(OpenError::OtherGeometry);
        }
        p.pool = newest.pool;
        p.epoch = Epoch(newest.epoch.0 + 1);
        p.volumes.set_next_id(newest.next_volume);
        let sizes = newest.volumes.iter().map(|volume| volume.blocks);
        let total = p.config.least_map_memory(sizes);
        if total > p.config.map_memory_bytes {
            let budget = p.config.map_memory_bytes;
            mark!(NoMemory);
            return Err(OpenError::NoMemory { needed: total, budget });
        }
        for volume in &newest.volumes {
            let name = volume.name.clone();
            let index = p.volumes.add(volume.id, name, volume.blocks, p.addresses);
            p.volumes.map_mut(index).adopt_roots(&volume.roots);
            p.volumes.map_mut(index).media = volume.media;
            if volume.deleted {
                p.volumes.hide(index);
            }
        }
        p.volumes.adopt_layers(&newest.volumes);
        p.snapshots |= newest.snapshots;
        self.record = Some(newest);
        Ok(())
    }

    /// The newest record that counts: the device of the record must be the home of the record's geometry. Every other
    /// device must have a record of the same opening, or of an interrupted opening; devices being attached are exempt.
    /// No record may confirm a newer record on the home.
    fn newest_record(
        &mut self,
        p: &mut Parts<P>,
        records: Vec<Superblock>,
    ) -> Result<Superblock, OpenError> {
        if records.is_empty() {
            mark!(NoPool);
            return Err(OpenError::NoPool);
        }
        let geometry = p.config.geometry;
        self.keeps_home(p, &records)?;
        let mut by_device = vec![Vec::new(); geometry.devices().len()];
        for record in records {
            by_device[geometry.device_of(record.location.unit).index()].push(record);
        }
        let newest = at_home(&by_device).max_by_key(|record| (record.epoch, record.revision));
        let newest = newest.ok_or(OpenError::DeviceMissing(geometry.home()))?.clone();
        let home = newest.geometry.home();
        let beside = &by_device[home.index()];
        mark!(RecordInOneUnit if is_newest_alone(beside));
        let pool = self.format.unwrap_or(newest.pool);
        if at_home(&by_device).chain(beside).any(|record| record.pool != pool) {
            mark!(TwoPools);
            return Err(OpenError::TwoPools);
        }
        let of_pool = by_device.iter().flatten().filter(|record| record.pool == pool);
        let last = of_pool.max_by_key(|record| record.home_had()).expect("the newest is of it");
        if last.home_had() > newest.epoch {
            mark!(HomeOlder);
            self.named = (last.revision, last.home_had());
            self.refuse_older(p, last.geometry.home())?;
        }
        mark!(HomeMoves if home != geometry.home());
        for (device, _) in geometry.present() {
            let of_pool = by_device[device.index()].iter().filter(|record| record.pool == pool);
            let label = of_pool.max_by_key(|record| (record.epoch, record.revision));
            let attached = geometry.attaches(&newest.geometry, device);
            mark!(DeviceAttached if attached);
            mark!(DeviceGrown if geometry.grows(&newest.geometry, device));
            if device != home {
                self.check_label(p, device, label, newest.epoch, attached)?;
            }
            if device == geometry.home() {
                continue;
            }
            // The unit with its newest goes last, in case both must be reset.
            let mut units = geometry.devices()[device.index()].superblock_units;
            units.sort_by_key(|unit| label.is_none_or(|label| *unit != label.location.unit));
            // The record that counts stays where it is until its heir is at the new home.
            let stays = device == home && !bug!(p.config, OldHomeOverwritten);
            p.superblocks.label(units, stays);
        }
        Ok(newest)
    }

    /// An error if the pool was last opened with its home on a device that is to be given up. The records on other
    /// devices name the home, although they are older than the home's records.
    fn keeps_home(&self, p: &Parts<P>, records: &[Superblock]) -> Result<(), OpenError> {
        let newest = records.iter().max_by_key(|record| (record.epoch, record.revision));
        let home = newest.map(|record| record.geometry.home());
        let lost = |home: &DeviceId| {
            let device = p.config.geometry.devices().get(home.index());
            device.is_some_and(|device| device.state == DeviceState::Lost)
        };
        let lost = home.filter(lost);
        mark!(HomeLost if lost.is_some());
        lost.map_or(Ok(()), |home| Err(OpenError::MapOn(home)))
    }

    /// Whether a device that is not the home was there at the opening `newest`, or is attached now; `label` is the
    /// newest record on it.
    fn check_label(
        &self,
        p: &Parts<P>,
        device: DeviceId,
        label: Option<&Superblock>,
        newest: Epoch,
        attached: bool,
    ) -> Result<(), OpenError> {
        let Some(label) = label else {
            mark!(LabelMissing if !attached);
            return if attached { Ok(()) } else { Err(OpenError::DeviceMissing(device)) };
        };
        mark!(LabelAhead if label.epoch > newest);
        let older = label.epoch < newest && !attached;
        mark!(LabelOlder if older);
        if older { self.refuse_older(p, device) } else { Ok(()) }
    }

    /// An error, unless the pool is to be opened in spite of that.
    fn refuse_older(&self, p: &Parts<P>, device: DeviceId) -> Result<(), OpenError> {
        if p.config.open_despite_loss { Ok(()) } else { Err(OpenError::DeviceOlder(device)) }
    }
}

/// The records that are on the home of their own geometry.
fn at_home(by_device: &[Vec<Superblock>]) -> impl Iterator<Item = &Superblock> {
    let all = by_device.iter().enumerate();
    let all = all.flat_map(|(device, records)| records.iter().map(move |record| (device, record)));
    all.filter(|(device, record)| record.geometry.home().index() == *device)
        .map(|(_, record)| record)
}

/// Whether only one superblock unit has the newest of these records.
fn is_newest_alone(records: &[Superblock]) -> bool {
    let number = |record: &Superblock| (record.epoch, record.revision);
    let newest = records.iter().map(number).max();
    records.iter().filter(|record| Some(number(record)) == newest).count() == 1
}

/// An error if the remaining devices cannot hold the pool's data.
pub(super) fn holds_all_of<P: Payload>(p: &Parts<P>, record: &Superblock) -> Result<(), OpenError> {
    let devices = p.config.geometry.devices();
    if devices.iter().any(|device| device.state == DeviceState::Lost) {
        // What is lost takes no room, and the pool is not to be lost for it.
        return Ok(());
    }
    let active = |geometry: &Geometry| geometry.active_units(MediaClass::Capacity);
    if active(&p.config.geometry) >= active(&record.geometry) {
        return Ok(());
    }
    let (needed, holds) = (p.volumes.mapped(), p.capacity_blocks(0));
    if holds < needed {
        mark!(RestTooSmall);
        return Err(OpenError::NoRoom { needed, holds });
    }
    if !has_units_to_move_to(p) {
        return Err(OpenError::NoFreeUnit);
    }
    Ok(())
}

/// Whether so many units of the devices that remain are empty, or will be without copies. Looks through all units
/// if they are not, in openings from which on a device is drained.
fn has_units_to_move_to<P: Payload>(p: &Parts<P>) -> bool {
    let geometry = &p.config.geometry;
    let units = geometry.units_of(MediaClass::Capacity).map(UnitId);
    let empty = units.filter(|&unit| {
        geometry.state_of(unit) == DeviceState::Active
            && !geometry.is_superblock_unit(unit)
            && p.space.units().valid_count(unit) == 0
    });
    let least = p.least_empty() as usize;
    empty.take(least).count() == least
}
