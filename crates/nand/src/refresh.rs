//! Refresh and patrol: a drive reads all of its media now and then, and rewrites units whose data is getting bad.
//!
//! Model:
//! * The patrol goes through the units, all of them once in `patrol_days`, and reads what is written there.
//! * A closed unit whose first block is older than a limit, or whose blocks were read more often than one, is
//!   relocated, which is a cause of its own, [`Cause::Refresh`]. Reads are taken as spread over its erase blocks.
//! * Days are those of the requests' own clock ([`Request::at`]), so that what is written does not depend on simulated
//!   time (ADR 0031). A workload without a clock never ages.
//! * The limits are those of `[integrity]` for one wear and temperature ([`Integrity::refresh_days`]), each taken
//!   alone, unless the profile gives its own.
//!
//! [`Cause::Refresh`]: thermocline_types::Cause::Refresh
//! [`Request::at`]: thermocline_types::Request::at
//! [`Integrity::refresh_days`]: crate::integrity::Integrity::refresh_days

use serde::Deserialize;
use thermocline_ftl::placement::Handles;
use thermocline_ftl::{Ftl, Media as _, OutOfUnits, UnitState};
use thermocline_types::{Time, UnitId};

use crate::integrity::Integrity;
use crate::media::NandArray;
use crate::profile::{Cut, Profile};

/// When a simulated drive refreshes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Refresh {
    /// Temperature of the flash, °C. Default: 40, at which JESD218 has data rest.
    pub celsius: f64,
    /// Share of the rated cycles used up. Default: a half, chosen.
    pub wear: f64,
    /// Days after which data is rewritten; default: from `[integrity]`, for `celsius` and `wear`.
    pub after_days: Option<f64>,
    /// Reads of an erase block after which data is rewritten; default likewise.
    pub after_reads: Option<f64>,
    /// Days of a patrol through all of the media; default: `integrity.upkeep.patrol_days`.
    pub patrol_days: Option<f64>,
}

impl Default for Refresh {
    fn default() -> Self {
        Refresh { celsius: 40.0, wear: 0.5, after_days: None, after_reads: None, patrol_days: None }
    }
}

/// Days and reads within which all is longer than anybody lives, and counts.
const MOST: f64 = 36_500.0;
const MOST_READS: f64 = 1e12;

/// At what a simulated drive refreshes, from its profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RefreshLimits {
    /// Days of age; `None` for no limit.
    pub days: Option<f64>,
    /// Reads of an erase block; `None` for no limit.
    pub reads: Option<f64>,
    /// Days of a patrol.
    pub patrol_days: f64,
}

impl RefreshLimits {
    /// The limits of `profile`; `None` if the profile sets no refresh or no patrol.
    #[must_use]
    pub fn of(profile: &Profile) -> Option<RefreshLimits> {
        let refresh = profile.refresh.as_ref()?;
        let integrity = profile.integrity.as_ref();
        let known = |of: &dyn Fn(&Integrity) -> Option<f64>| integrity.and_then(of);
        let days = known(&|i| i.refresh_days(refresh.wear, refresh.celsius, 0.0));
        let reads = known(&|i| i.refresh_reads(refresh.wear));
        let patrol = known(&|i| Some(i.upkeep.patrol_days).filter(|&days| days > 0.0));
        Some(RefreshLimits {
            days: refresh.after_days.or(days),
            reads: refresh.after_reads.or(reads),
            patrol_days: refresh.patrol_days.or(patrol)?,
        })
    }
}

impl Refresh {
    /// The rules for the values: key, whether the value is acceptable, requirement.
    pub(crate) fn rules(&self) -> Vec<(&'static str, bool, &'static str)> {
        let days = |value: Option<f64>| value.is_none_or(|days| days > 1e-3 && days <= MOST);
        vec![
            ("refresh.celsius", (-40.0..=125.0).contains(&self.celsius), "must be -40 to 125 °C"),
            ("refresh.wear", (0.0..=2.0).contains(&self.wear), "must be between 0 and 2"),
            ("refresh.after_days", days(self.after_days), "must be above 0.001, at most 36,500"),
            ("refresh.patrol_days", days(self.patrol_days), "must be above 0.001, at most 36,500"),
            (
                "refresh.after_reads",
                self.after_reads.is_none_or(|reads| (1.0..=MOST_READS).contains(&reads)),
                "must be 1 to 10^12",
            ),
        ]
    }
}

/// How old units are and how often they were read. Times are nanoseconds of the requests' own clock.
#[derive(Clone, Debug)]
pub(crate) struct Ages {
    clock: u64,
    born: Vec<u64>,
    reads: Vec<u64>,
}

impl Ages {
    pub(crate) fn new(units: u32) -> Ages {
        Ages { clock: 0, born: vec![0; units as usize], reads: vec![0; units as usize] }
    }

    pub(crate) fn set_clock(&mut self, now: u64) {
        self.clock = now;
    }

    /// The first block of `unit` is programmed.
    pub(crate) fn begin(&mut self, unit: UnitId) {
        self.born[unit.index()] = self.clock;
        self.reads[unit.index()] = 0;
    }

    pub(crate) fn read(&mut self, unit: UnitId) {
        self.reads[unit.index()] += 1;
    }

    /// Days since the first block of `unit` was programmed; what was before the clock began to move is `days` older.
    pub(crate) fn days(&self, unit: UnitId, days: f64) -> f64 {
        let born = self.born[unit.index()];
        let before = if born == 0 { days } else { 0.0 };
        before + self.clock.saturating_sub(born) as f64 / nanos(1.0) as f64
    }

    /// Reads of `unit` since then; what was before the clock began to move had been read `reads` times.
    pub(crate) fn reads(&self, unit: UnitId, reads: f64) -> f64 {
        let before = if self.born[unit.index()] == 0 { reads } else { 0.0 };
        before + self.reads[unit.index()] as f64
    }
}

/// The patrol of a drive.
#[derive(Clone, Debug)]
pub(crate) struct Patrol {
    age: u64,
    reads: u64,
    /// Nanoseconds of a pass, and units that it looks at.
    pass: u64,
    units: u32,
    /// Looks so far.
    looks: u64,
    /// Blocks that it read.
    blocks: u64,
}

/// Nanoseconds of so many days, in whole seconds, lest machines differ in the last bit of the limit.
fn nanos(days: f64) -> u64 {
    ((days * 86_400.0).round().max(1.0) * 1e9) as u64
}

impl Patrol {
    /// The patrol of a drive after `profile` cut to `cut`; `None` if the profile has no refresh.
    pub(crate) fn new(profile: &Profile, cut: &Cut) -> Option<Patrol> {
        let limits = RefreshLimits::of(profile)?;
        let block = profile.geometry.as_ref().map_or(cut.unit(), |geometry| geometry.block);
        // A unit of a drive that is cut is smaller than the product's: it gets as many reads for each byte.
        let blocks = cut.unit().as_f64() / block.as_f64();
        Some(Patrol {
            age: limits.days.map_or(u64::MAX, nanos),
            reads: limits.reads.map_or(u64::MAX, |reads| (reads * blocks).round().max(1.0) as u64),
            pass: nanos(limits.patrol_days),
            units: cut.shape.units(),
            looks: 0,
            blocks: 0,
        })
    }

    /// Blocks read so far.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// A request comes at `at` of its own clock: reads the blocks that became due since the previous request.
    ///
    /// # Errors
    /// [`OutOfUnits`] when too many units are worn out.
    pub(crate) fn until(
        &mut self,
        at: Time,
        ftl: &mut Ftl<Handles>,
        media: &mut NandArray,
    ) -> Result<(), OutOfUnits> {
        let (pass, units) = (u128::from(self.pass), u128::from(self.units));
        let each = |look: u64| (u128::from(look) * pass / units) as u64;
        let mut looks = self.looks;
        while each(looks + 1) <= at.as_nanos() {
            looks += 1;
            let unit = UnitId((looks % u64::from(self.units)) as u32);
            let now = each(looks);
            self.blocks += look(unit, now, (self.age, self.reads), ftl, media)?;
        }
        self.looks = looks;
        media.set_clock(at.as_nanos());
        Ok(())
    }
}

/// Reads what is written in `unit` at `now`, and has it relocated if it is too old or was read too often; returns the
/// blocks read.
fn look(
    unit: UnitId,
    now: u64,
    (age, reads): (u64, u64),
    ftl: &mut Ftl<Handles>,
    media: &mut NandArray,
) -> Result<u64, OutOfUnits> {
    let (state, written) = (ftl.units().state(unit), ftl.units().written(unit));
    if state != UnitState::Closed {
        return Ok(0);
    }
    for offset in 0..written {
        media.read(media.pba(unit, offset));
    }
    media.set_clock(now);
    let ages = media.ages().expect("a drive with a patrol knows ages");
    let (born, read) = (ages.born[unit.index()], ages.reads[unit.index()]);
    if now.saturating_sub(born) > age || read > reads {
        ftl.refresh(unit, media)?;
    }
    Ok(u64::from(written))
}
