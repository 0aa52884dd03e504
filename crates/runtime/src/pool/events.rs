//! Events of a pool for an operator.

use std::ops::Range;

use thermocline_engine::{Extent, Notice};
use thermocline_format::{BLOCK_BYTES, Location, VolumeName};

use thermocline_types::DeviceId;

use super::scrubbing::unix_seconds;
use super::{Fullness, ScrubFindings, ScrubRecord, Service, Shared, Stall, Totals, WearStatus};
use crate::Trouble;

/// News for the operator.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A command of the device failed. A notice reports the consequence for the pool.
    Trouble(Trouble),
    /// What the engine has to tell, but for damage.
    Notice(Notice),
    /// A block is damaged.
    Damaged(DamageFound),
    /// Devices of a class of media wear faster than they may, or slower again.
    Wear(WearStatus),
    /// The pool has crossed a mark of fullness.
    Fullness(Fullness),
    /// A file of the pool was removed or cut off, as [`crate::storage::Storage::lost`]: nothing but reads is carried
    /// out from now on.
    Lost(String),
    /// A device completes commands too late, as [`crate::storage::Storage::overdue`]; `None` when all devices are in
    /// time again.
    Overdue(Option<String>),
    /// The limits of a volume hold requests back; `false`: no longer. Each volume changes at most twice a minute.
    Throttled(VolumeName, bool),
    /// The pool took no requests for a while, and takes them again.
    Stalled(Stall),
    /// A drained device is empty and can be detached.
    Drained(DeviceId),
    /// A scrub has begun, progressed or ended: the record must be stored.
    Scrub(ScrubRecord),
    /// The totals must be stored.
    Totals(Box<Totals>),
}

/// A damaged block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamageFound {
    /// Its place on a device.
    pub at: Location,
    /// The bytes of a volume that cannot be read for it; `None` if it holds no bytes of a volume.
    pub holds: Option<(VolumeName, Range<u64>)>,
}

/// Takes events, on the thread of the pool.
pub type Listener = Box<dyn FnMut(Event) + Send>;

impl Service {
    /// Reports all events since the last call.
    pub(super) fn tell(&mut self) {
        for trouble in self.driver.take_troubles() {
            (self.listener)(Event::Trouble(trouble));
        }
        for &notice in self.driver.notices() {
            if let Notice::Scrubbed { blocks, damaged, mended } = notice {
                let found = ScrubFindings { blocks, damaged, mended };
                let record = self.scrubbing.ended(unix_seconds(), found);
                record.into_iter().for_each(|record| (self.listener)(Event::Scrub(record)));
            }
            (self.listener)(match notice {
                Notice::Damaged { at, holds } => {
                    let holds = holds.and_then(|extent| self.shared.bytes_of(extent));
                    Event::Damaged(DamageFound { at, holds })
                }
                notice => Event::Notice(notice),
            });
        }
        self.driver.clear_notices();
    }
}

impl Shared {
    /// Blocks of a volume by its name, in bytes.
    fn bytes_of(&self, extent: Extent) -> Option<(VolumeName, Range<u64>)> {
        let bytes = |blocks: u64| blocks * BLOCK_BYTES as u64;
        let state = self.volumes().get(&extent.volume.0).cloned()?;
        Some((state.name(), bytes(extent.lba)..bytes(extent.lba + extent.blocks)))
    }
}
