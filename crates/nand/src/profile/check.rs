//! Which values make a drive.

use thermocline_ftl::victim::Victim;
use thermocline_types::Bytes;

use super::{Fdp, Kind, Profile, ProfileError, Rated, Slc, Zns};
use crate::integrity::Integrity;
use crate::refresh::RefreshLimits;
use crate::thermal::Thermal;

const TIME: &str = "must be a time in microseconds, 0 to 10^9";

/// A key, whether the value is acceptable, and the requirement.
pub(super) type Rule = (&'static str, bool, &'static str);

impl Profile {
    /// Checks every value against the others.
    pub(super) fn check(&self, file: &str) -> Result<(), ProfileError> {
        let integrity = self.integrity.as_ref().map_or_else(Vec::new, Integrity::rules);
        let (kinds, dies, times) = (self.kinds(), self.dies(), self.times());
        let slc = self.slc.as_ref().map_or_else(Vec::new, |slc| self.cache(slc));
        let thermal = self.thermal.as_ref().map_or_else(Vec::new, Thermal::rules);
        let (sizes, wear, arm) = (self.sizes(), self.wear(), self.arm());
        let rated = self.rated.as_ref().map_or_else(Vec::new, Rated::rules);
        let age = [self.refreshing(), self.aging(), self.collecting(), rated].concat();
        let rules = [sizes, wear, slc, kinds, dies, times, arm, integrity, thermal, age].concat();
        rules
            .iter()
            .find(|(_, holds, _)| !holds)
            .map_or(Ok(()), |(key, _, reason)| Err(ProfileError::new(file, key, reason)))
    }

    fn sizes(&self) -> Vec<Rule> {
        let unit = self.mapping_unit;
        let granule = self.program_unit().0.max(1);
        vec![
            ("capacity", self.capacity.0 > 0, "must be above zero"),
            ("op", (0.0..=16.0).contains(&self.op), "must be between 0 and 16"),
            (
                "garbage",
                self.garbage.is_none_or(|garbage| (0.0..0.95).contains(&garbage)),
                "must be at least 0 and below 0.95",
            ),
            (
                "mapping_unit",
                unit.0.is_power_of_two() && (Bytes::SECTOR..=Bytes::kib(64)).contains(&unit),
                "must be a power of two between 512 B and 64 KiB",
            ),
            (
                "unit",
                self.unit.is_none_or(|unit| unit.0 > 0 && unit.0.is_multiple_of(granule)),
                "must be a multiple of mapping_unit and of geometry.page times planes",
            ),
            (
                "buffer.size",
                self.buffer.as_ref().is_none_or(|buffer| buffer.size <= Bytes::gib(64)),
                "must be at most 64 GiB",
            ),
            (
                "gc.victim",
                self.gc.victim.parse::<Victim>().is_ok(),
                "is no victim policy; `thermocline lab list victims` shows them",
            ),
        ]
    }

    fn collecting(&self) -> Vec<Rule> {
        let gc = &self.gc;
        let both = gc.idle_ms.is_some() == gc.idle_mb_per_s.is_some();
        let known = self.kind.relocates() && self.slc.is_none();
        let time = gc.idle_ms.is_none_or(|ms| (0.0..=1e9).contains(&ms));
        let rate = gc.idle_mb_per_s.is_none_or(|rate| rate > 0.0 && rate <= 1e9);
        vec![
            (
                "gc.idle_ms",
                time && both,
                "must be a time of 0 to 10^9 ms, with gc.idle_mb_per_s beside it",
            ),
            (
                "gc.idle_ms",
                gc.idle_ms.is_none() || known,
                "is only known of drives that map pages, without an SLC cache",
            ),
            ("gc.idle_mb_per_s", rate, "must be above 0 and at most 10^9"),
            ("gc.idle_free", (0.0..=1.0).contains(&gc.idle_free), "must be between 0 and 1"),
        ]
    }

    fn cache(&self, slc: &Slc) -> Vec<Rule> {
        let fits = |value: Option<f64>| value.is_none_or(|v| (0.0..=1e9).contains(&v));
        let share = |value: f64| (0.0..=1.0).contains(&value);
        let rate = slc.fold_mb_per_s.is_none_or(|rate| rate > 0.0 && rate <= 1e9);
        vec![
            ("slc", self.kind == Kind::Conventional, "is only known of conventional drives"),
            ("slc.bits", (2..=8).contains(&slc.bits), "must be 2 to 8"),
            (
                "slc.capacity",
                slc.capacity < self.capacity && (slc.capacity.0 > 0 || slc.dynamic > 0.0),
                "must be below the drive's, and above zero without a dynamic part",
            ),
            ("slc.dynamic", share(slc.dynamic), "must be between 0 and 1"),
            ("slc.dynamic_until", share(slc.dynamic_until), "must be between 0 and 1"),
            (
                "slc.fold_idle_ms",
                fits(slc.fold_idle_ms)
                    && (slc.fold_idle_ms.is_none() || slc.fold_mb_per_s.is_some()),
                "must be a time of 0 to 10^9 ms, with slc.fold_mb_per_s beside it",
            ),
            ("slc.fold_mb_per_s", rate, "must be above 0 and at most 10^9"),
            ("slc.read_us", fits(slc.read_us), TIME),
            ("slc.program_us", fits(slc.program_us), TIME),
            (
                "slc.pe_cycles",
                slc.pe_cycles.is_none_or(|cycles| (1.0..1e9).contains(&cycles)),
                "must be at least 1 and below 10^9",
            ),
        ]
    }

    fn refreshing(&self) -> Vec<Rule> {
        let Some(refresh) = &self.refresh else { return Vec::new() };
        let known = self.kind.relocates() && self.slc.is_none();
        let limits = RefreshLimits::of(self);
        let mut rules = refresh.rules();
        rules.extend([
            ("refresh", known, "is only known of drives that map pages, without an SLC cache"),
            (
                "refresh.patrol_days",
                limits.is_some(),
                "must be given where [integrity] has no patrol",
            ),
            (
                "refresh",
                limits.is_none_or(|limits| limits.days.or(limits.reads).is_some()),
                "needs after_days, after_reads, or [integrity] with refresh",
            ),
        ]);
        rules
    }

    fn aging(&self) -> Vec<Rule> {
        let Some(aged) = &self.aged else { return Vec::new() };
        let modelled = self.integrity.is_some() && self.timing.is_some();
        let mut rules = aged.rules();
        rules.push(("aged", modelled, "needs [integrity] and [timing]"));
        let known = !aged.own_ages || self.kind.relocates() && self.slc.is_none();
        let what = "is only known of drives that map pages, without an SLC cache";
        rules.push(("aged.own_ages", known, what));
        rules
    }

    fn wear(&self) -> Vec<Rule> {
        let wear = &self.wear;
        let positive = |value: Option<f64>| value.is_none_or(|v| v > 0.0 && v < 1e9);
        vec![
            (
                "wear.pe_cycles",
                wear.pe_cycles.is_none_or(|cycles| (1.0..1e9).contains(&cycles)),
                "must be at least 1 and below 10^9",
            ),
            ("wear.pe_spread", (0.0..=0.5).contains(&wear.pe_spread), "must be between 0 and 0.5"),
            (
                "wear.spare",
                (0.0..=1.0).contains(&wear.spare) && (0.0..=wear.spare).contains(&wear.factory_bad),
                "must be between 0 and 1, and at least factory_bad",
            ),
            (
                "wear.infant_share",
                (0.0..=0.5).contains(&wear.infant_share),
                "must be between 0 and 0.5",
            ),
            (
                "wear.program_failures",
                (0.0..=0.1).contains(&wear.program_failures),
                "must be between 0 and 0.1",
            ),
            (
                "wear.program_failures",
                wear.program_failures == 0.0 || self.kind.relocates() && self.slc.is_none(),
                "is only known of drives that map pages, without an SLC cache",
            ),
            ("wear.infant_cycles", (1.0..=1e9).contains(&wear.infant_cycles), "must be 1 to 10^9"),
            ("wear.rated_dwpd", positive(wear.rated_dwpd), "must be above zero"),
            ("wear.warranty_years", positive(wear.warranty_years), "must be above zero"),
        ]
    }

    fn kinds(&self) -> Vec<Rule> {
        let is = |kind| self.kind == kind;
        let streams = self.streams.as_ref().is_some_and(|s| s.count > 0 && s.count < u8::MAX);
        vec![
            (
                "streams",
                streams || !is(Kind::MultiStream),
                "a multi-stream drive needs [streams] with a count of 1 to 254",
            ),
            (
                "rewrite",
                self.rewrite.is_some() || !is(Kind::BlockMapped),
                "a block-mapped drive needs [rewrite] with the order in-place or elsewhere",
            ),
            (
                "fdp",
                self.fdp.as_ref().is_some_and(Fdp::fits) || !is(Kind::Fdp),
                "an FDP drive needs [fdp] with at least 1 group and 1 handle, and at most 255 open \
                 units in all",
            ),
            (
                "zns",
                self.zns.as_ref().is_some_and(|zns| zns.fits(self.mapping_unit)) || !is(Kind::Zns),
                "a ZNS drive needs [zns] with zone_capacity of at most zone_size, both multiples of \
                 mapping_unit, and max_open of at most max_active",
            ),
        ]
    }

    fn arm(&self) -> Vec<Rule> {
        let Some(disk) = &self.disk else {
            return vec![("disk", self.kind != Kind::Disk, "a disk needs [disk]")];
        };
        let turns = (1.0..=1e6).contains(&disk.rpm);
        let rate = disk.transfer_mb_per_s > 0.0 && disk.transfer_mb_per_s <= 1e9;
        let seeks = (0.0..=disk.seek_ms).contains(&disk.track_seek_ms) && disk.seek_ms <= 1e6;
        vec![
            (
                "disk.seek_ms",
                seeks,
                "must be at most 10^6 and at least track_seek_ms, which is 0 or more",
            ),
            ("disk.rpm", turns, "must be 1 to 10^6"),
            ("disk.transfer_mb_per_s", rate, "must be above 0 and at most 10^9"),
        ]
    }

    fn dies(&self) -> Vec<Rule> {
        let Some(geometry) = &self.geometry else {
            return vec![("timing", self.timing.is_none(), "needs [geometry] beside it")];
        };
        let counts = [geometry.channels, geometry.dies, geometry.planes];
        let counted = counts.iter().all(|&n| (1..=65_536).contains(&n));
        let dies = geometry.dies_per_unit();
        let sizes = [geometry.page, geometry.block, geometry.unit.unwrap_or(Bytes::SECTOR)];
        let sized = sizes.iter().all(|size| (1..1 << 50).contains(&size.0));
        let page = if counted && sized { geometry.program_unit().0 } else { 1 };
        vec![
            ("geometry", counted, "channels, dies and planes must be 1 to 65536"),
            ("geometry", sized, "page, block and unit must be above zero and below 1 PiB"),
            (
                "geometry.page",
                page.is_multiple_of(self.mapping_unit.0),
                "times planes must be a multiple of mapping_unit",
            ),
            (
                "geometry.block",
                geometry.block.0.is_multiple_of(geometry.page.0.max(1)),
                "must be a multiple of geometry.page",
            ),
            (
                "geometry.programs_per_page",
                (1..=64).contains(&geometry.programs_per_page),
                "must be 1 to 64",
            ),
            (
                "geometry.programs_per_page",
                geometry.programs_per_page == 1
                    || self.integrity.as_ref().is_none_or(|integrity| integrity.cells == "slc"),
                "must be 1 but for cells of one bit",
            ),
            (
                "geometry.unit_dies",
                dies > 0 && dies <= geometry.dies && geometry.dies.is_multiple_of(dies.max(1)),
                "must divide geometry.dies",
            ),
        ]
    }

    fn times(&self) -> Vec<Rule> {
        let Some(t) = &self.timing else { return Vec::new() };
        let time = |value: f64| (0.0..=1e9).contains(&value);
        let rate = |value: f64| value > 0.0 && value <= 1e9;
        const RATE: &str = "must be above 0 and at most 10^9";
        vec![
            ("timing.read_us", time(t.read_us), TIME),
            ("timing.program_us", time(t.program_us), TIME),
            ("timing.erase_us", time(t.erase_us), TIME),
            ("timing.command_us", time(t.command_us), TIME),
            ("timing.suspend_us", time(t.suspend_us.unwrap_or(0.0)), TIME),
            ("timing.firmware_read_us", time(t.firmware_read_us), TIME),
            ("timing.firmware_write_us", time(t.firmware_write_us), TIME),
            ("timing.bus_mb_per_s", rate(t.bus_mb_per_s), RATE),
            ("timing.program_mb_per_s", t.program_mb_per_s.is_none_or(rate), RATE),
            ("timing.collecting_mb_per_s", t.collecting_mb_per_s.is_none_or(rate), RATE),
            ("timing.link_read_mb_per_s", rate(t.link_read_mb_per_s), RATE),
            ("timing.link_write_mb_per_s", rate(t.link_write_mb_per_s), RATE),
            ("timing.controller_kiops", rate(t.controller_kiops), RATE),
            ("timing.controller_write_kiops", t.controller_write_kiops.is_none_or(rate), RATE),
            (
                "timing.modify_at_once",
                t.modify_at_once.is_none_or(|places| (1..=65_536).contains(&places)),
                "must be a number from 1 to 65536",
            ),
        ]
    }
}

impl Fdp {
    fn fits(&self) -> bool {
        let per_group =
            u32::from(self.handles) * if self.persistently_isolated { 2 } else { 1 } + 1;
        self.groups > 0 && self.handles > 0 && u32::from(self.groups) * per_group <= 255
    }
}

impl Zns {
    fn fits(&self, mapping_unit: Bytes) -> bool {
        let whole = |size: Bytes| size.0 > 0 && size.0.is_multiple_of(mapping_unit.0);
        whole(self.zone_size)
            && whole(self.zone_capacity)
            && self.zone_capacity <= self.zone_size
            && (self.max_active == 0 || (self.max_open > 0 && self.max_open <= self.max_active))
    }
}
