//! Any drive, as the host sees it.

use thermocline_ftl::placement::Below;
use thermocline_ftl::{HandleAccount, HandleAccounts, UnitState};
use thermocline_types::{Bytes, Request, Time, UnitId};

use crate::aged::AgesAndLoss;
use crate::busy::BusyTimes;
use crate::counters::Counters;
use crate::direct::Direct;
use crate::disk::HardDisk;
use crate::error::DriveError;
use crate::mapped::Mapped;
use crate::media::NandArray;
use crate::owners::{ByCause, OwnerRun, Owners};
use crate::profile::{Cut, Kind, Profile, ProfileError};
use crate::rewriting::BlockMapped;
use crate::striped::Striped;
use crate::thermal::Warmth;
use crate::zoned::{ZoneState, Zoned};

/// A simulated drive.
#[derive(Clone, Debug)]
pub enum Drive {
    /// Conventional, multi-stream or FDP.
    Mapped(Box<Mapped>),
    /// ZNS.
    Zoned(Box<Zoned>),
    /// In-place media.
    Direct(Box<Direct>),
    /// Block-mapped.
    BlockMapped(Box<BlockMapped>),
    /// A hard disk.
    Disk(Box<HardDisk>),
    /// Several drives under one host.
    Striped(Box<Striped>),
}

/// Snapshot of a unit of a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitView {
    /// Free, open, closed or retired.
    pub state: UnitState,
    /// Written share of its blocks.
    pub fill: f32,
    /// Valid share of its blocks.
    pub valid: f32,
    /// How often it was erased.
    pub erases: u32,
}

impl Drive {
    /// A fresh drive after `profile`, cut to export `capacity` or what the product does.
    ///
    /// # Errors
    /// [`ProfileError`] when the profile cannot be cut to that capacity.
    pub fn new(
        profile: &Profile,
        capacity: Option<Bytes>,
        seed: u64,
    ) -> Result<Drive, ProfileError> {
        let cut = Cut::new(profile, capacity)?;
        Ok(match profile.kind {
            Kind::Zns => Drive::Zoned(Box::new(Zoned::new(profile, cut, seed))),
            Kind::Direct => Drive::Direct(Box::new(Direct::new(profile, cut, seed))),
            Kind::BlockMapped => {
                Drive::BlockMapped(Box::new(BlockMapped::new(profile, cut, seed)?))
            }
            Kind::Disk => Drive::Disk(Box::new(HardDisk::new(profile, cut, seed))),
            Kind::Conventional | Kind::MultiStream | Kind::Fdp => {
                Drive::Mapped(Box::new(Mapped::new(profile, cut, seed)?))
            }
        })
    }

    /// Serves `request`, which arrives at `at`, not before any earlier one, with placement handle `handle` (0 if none);
    /// returns when it is complete.
    ///
    /// # Errors
    /// [`DriveError`].
    #[inline]
    pub fn submit(&mut self, at: Time, request: &Request, handle: u16) -> Result<Time, DriveError> {
        match self {
            Drive::Mapped(drive) => drive.submit(at, request, handle),
            Drive::Zoned(drive) => drive.submit(at, request),
            Drive::Direct(drive) => drive.submit(at, request),
            Drive::BlockMapped(drive) => drive.submit(at, request),
            Drive::Disk(drive) => drive.submit(at, request),
            Drive::Striped(drives) => drives.submit(at, request, handle),
        }
    }

    /// Brings what serving `requests` will look at into the cache. Changes nothing.
    #[inline]
    pub fn prefetch(&self, requests: &[Request]) {
        if let Drive::Mapped(drive) = self {
            drive.prefetch(requests);
        }
    }

    /// Programs everything that waits in the write buffer, as an idle drive would.
    ///
    /// # Errors
    /// [`DriveError::EndOfLife`] when too many units are worn out.
    pub fn drain(&mut self) -> Result<(), DriveError> {
        match self {
            Drive::Mapped(drive) => drive.drain(),
            Drive::Striped(drives) => drives.drain(),
            Drive::Zoned(_) | Drive::Direct(_) | Drive::BlockMapped(_) | Drive::Disk(_) => Ok(()),
        }
    }

    /// How the drive is cut.
    #[must_use]
    pub fn cut(&self) -> &Cut {
        match self {
            Drive::Mapped(drive) => drive.cut(),
            Drive::Zoned(drive) => drive.cut(),
            Drive::Direct(drive) => drive.cut(),
            Drive::BlockMapped(drive) => drive.cut(),
            Drive::Disk(drive) => drive.cut(),
            Drive::Striped(drives) => drives.cut(),
        }
    }

    /// Bytes through the drive so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let counters = match self {
            Drive::Mapped(drive) => drive.counters(),
            Drive::Zoned(drive) => drive.counters(),
            Drive::Direct(drive) => drive.counters(),
            Drive::BlockMapped(drive) => drive.counters(),
            Drive::Disk(drive) => drive.counters(),
            Drive::Striped(drives) => return drives.counters(),
        };
        let media = self.media();
        Counters { attempts: media.attempts(), losses: media.losses(), ..counters }
    }

    /// How old the data is that it holds now, and what reading all of it once is expected to lose; nothing where units
    /// have no ages of their own, or of several drives.
    #[must_use]
    pub fn ages(&mut self) -> Option<AgesAndLoss> {
        match self {
            Drive::Mapped(drive) => drive.ages(),
            _ => None,
        }
    }

    /// Placement handles that writes can carry; 1 where they carry none.
    #[must_use]
    pub fn placement_handles(&self) -> u16 {
        match self {
            Drive::Mapped(drive) => drive.placement_handles(),
            Drive::Striped(drives) => drives.drives()[0].placement_handles(),
            Drive::Zoned(_) | Drive::Direct(_) | Drive::BlockMapped(_) | Drive::Disk(_) => 1,
        }
    }

    /// The layer that a log with units of `unit` has below.
    #[must_use]
    pub fn below(&self, unit: Bytes) -> Below {
        let cut = self.cut();
        match self {
            Drive::Mapped(drive) if drive.placement_handles() == 1 => Below::Mixed {
                spare: cut.overprovisioning() as f32,
                units: (cut.unit().as_f64() / unit.as_f64()) as f32,
            },
            _ => Below::Apart,
        }
    }

    /// Whether time is modelled.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        match self {
            Drive::Disk(_) => true,
            Drive::Striped(drives) => drives.drives()[0].is_timed(),
            _ => self.media().is_timed(),
        }
    }

    /// When all data of the host is on the media.
    #[must_use]
    pub fn drained(&self) -> Time {
        match self {
            Drive::Striped(drives) => drives.drained(),
            _ => self.media().drained(),
        }
    }

    /// The drives of a striped set, in order; empty for a single drive.
    #[must_use]
    pub fn side_by_side(&self) -> &[Drive] {
        match self {
            Drive::Striped(drives) => drives.drives(),
            _ => &[],
        }
    }

    /// How long each resource was busy since the start; `None` where time is not modelled.
    #[must_use]
    pub fn busy(&self) -> Option<BusyTimes> {
        match self {
            Drive::Striped(drives) => drives.busy(),
            _ => self.media().busy(),
        }
    }

    /// The temperature, if modelled. Of several drives, the reading of the drive throttled longest.
    #[must_use]
    pub fn warmth(&self) -> Option<Warmth> {
        match self {
            Drive::Striped(drives) => {
                let each = drives.drives().iter().filter_map(Drive::warmth);
                each.max_by_key(|warmth| warmth.throttled)
            }
            _ => self.media().warmth(),
        }
    }

    /// Units that left service, and spare units left.
    #[must_use]
    pub fn retired_and_spare(&self) -> (u64, u64) {
        match self {
            Drive::Striped(drives) => drives.retired_and_spare(),
            _ => (self.media().endurance().retired(), self.media().endurance().spare_left()),
        }
    }

    /// Bytes that the host had written when the first unit was worn out; `None` before, and for several drives.
    #[must_use]
    pub fn first_worn_out(&self) -> Option<Bytes> {
        self.side_by_side().is_empty().then(|| self.media().first_worn_out()).flatten()
    }

    /// Units that failed early; of several drives, of all of them.
    #[must_use]
    pub fn failed_early(&self) -> u64 {
        match self {
            Drive::Striped(drives) => drives.drives().iter().map(Drive::failed_early).sum(),
            _ => self.media().endurance().failed_early(),
        }
    }

    /// Units that went out of service because a program failed; of several drives, of all of them.
    #[must_use]
    pub fn failed_programs(&self) -> u64 {
        match self {
            Drive::Striped(drives) => drives.drives().iter().map(Drive::failed_programs).sum(),
            _ => self.media().endurance().failed_programs(),
        }
    }

    /// Media: endurance and spares; of several drives, those of the first.
    #[must_use]
    pub fn media(&self) -> &NandArray {
        match self {
            Drive::Mapped(drive) => drive.media(),
            Drive::Zoned(drive) => drive.media(),
            Drive::Direct(drive) => drive.media(),
            Drive::BlockMapped(drive) => drive.media(),
            Drive::Disk(drive) => drive.media(),
            Drive::Striped(drives) => drives.drives()[0].media(),
        }
    }

    /// From now on, follows whose of `count` owners the data is, which [`Drive::claim`] says before each write. Where a
    /// drive moves data, owners have pieces of `piece`, or of a mapping unit if that is less.
    pub fn follow_owners(&mut self, count: u16, piece: Bytes) {
        let owners = match self {
            Drive::Striped(drives) => return drives.follow_owners(count, piece),
            Drive::Mapped(drive) => {
                let cut = drive.cut();
                Owners::moving(count, cut.capacity(), cut.mapping_unit, piece)
            }
            _ => Owners::in_place(count),
        };
        self.media_mut().follow(owners);
    }

    /// The bytes that are written next, from `at` on, belong to the owners of `runs`, which follow each other; of
    /// drives side by side, to the first of them. Unclaimed bytes have no owner.
    #[inline]
    pub fn claim(&mut self, at: Bytes, runs: &[OwnerRun]) {
        match self {
            Drive::Striped(drives) => drives.claim(runs),
            _ => self.media_mut().claim(at, runs),
        }
    }

    /// Bytes programmed so far by owner, and for nobody last, where owners are followed. The sum equals the programmed
    /// bytes of [`Drive::counters`]. Data rewritten around a write counts for the owner of the write.
    #[must_use]
    pub fn programmed_by_owner(&self) -> Option<Vec<ByCause>> {
        match self {
            Drive::Striped(drives) => drives.programmed_by_owner(),
            _ => self.media().owners().map(|owners| owners.programmed().to_vec()),
        }
    }

    /// From now on, follows through which placement handles data is written and invalidated, where the drive has
    /// several.
    pub fn follow_handles(&mut self) {
        if let Drive::Mapped(drive) = self
            && let Ok(handles @ 2..) = u8::try_from(drive.placement_handles())
        {
            drive.media_mut().follow_handles(handles);
        }
    }

    /// Mapping units written and copied by placement handle so far; empty where handles are not followed.
    #[must_use]
    pub fn handle_accounts(&self) -> &[HandleAccount] {
        match self {
            Drive::Mapped(drive) => drive.media().handles().map_or(&[], HandleAccounts::accounts),
            _ => &[],
        }
    }

    fn media_mut(&mut self) -> &mut NandArray {
        match self {
            Drive::Mapped(drive) => drive.media_mut(),
            Drive::Zoned(drive) => drive.media_mut(),
            Drive::Direct(drive) => drive.media_mut(),
            Drive::BlockMapped(drive) => drive.media_mut(),
            Drive::Disk(drive) => drive.media_mut(),
            Drive::Striped(_) => unreachable!("each drive has media of its own"),
        }
    }

    /// Units or zones that are erased and can be opened.
    #[must_use]
    pub fn free_units(&self) -> u64 {
        match self {
            Drive::Mapped(drive) => drive.free_units(),
            Drive::Zoned(drive) => drive.empty_zones(),
            Drive::Direct(_) | Drive::Disk(_) => 0,
            Drive::BlockMapped(drive) => drive.free_units(),
            Drive::Striped(drives) => drives.free_units(),
        }
    }

    /// Every unit, in order; none where the media has no units of erasure.
    pub fn units(&mut self) -> Vec<UnitView> {
        match self {
            Drive::Mapped(drive) => {
                let units = drive.units();
                let blocks = units.blocks_per_unit() as f32;
                let view = |unit: UnitId| UnitView {
                    state: units.state(unit),
                    fill: units.written(unit) as f32 / blocks,
                    valid: units.valid_count(unit) as f32 / blocks,
                    erases: units.erases(unit),
                };
                units.ids().map(view).collect()
            }
            Drive::Zoned(drive) => (0..drive.zones()).map(|zone| zone_view(drive, zone)).collect(),
            Drive::Direct(_) | Drive::Disk(_) => Vec::new(),
            Drive::BlockMapped(drive) => drive.units(),
            Drive::Striped(drives) => drives.units(),
        }
    }
}

/// A zone as a unit: all that is written counts as valid, because only the host knows better.
fn zone_view(drive: &Zoned, zone: u32) -> UnitView {
    let zone = drive.zone(zone);
    let fill = ((zone.write_pointer - zone.start).as_f64() / zone.capacity.as_f64()) as f32;
    let state = match zone.state {
        ZoneState::Empty => UnitState::Free,
        ZoneState::Full | ZoneState::ReadOnly => UnitState::Closed,
        ZoneState::Offline => UnitState::Retired,
        ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen | ZoneState::Closed => {
            UnitState::Open
        }
    };
    UnitView { state, fill, valid: fill, erases: zone.resets }
}
