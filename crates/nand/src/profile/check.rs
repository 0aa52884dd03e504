//! Which values make a drive.

use thermocline_types::Bytes;

use super::{Fdp, Kind, Profile, ProfileError, Zns};

impl Profile {
    /// Checks every value against the others.
    pub(super) fn check(&self, file: &str) -> Result<(), ProfileError> {
        let rules: [(&str, bool, &str); 13] = [
            ("capacity", self.capacity.0 > 0, "must be above zero"),
            ("op", (0.0..=16.0).contains(&self.op), "must be between 0 and 16"),
            (
                "garbage",
                self.garbage.is_none_or(|g| (0.0..0.95).contains(&g)),
                "must be at least 0 and below 0.95",
            ),
            (
                "mapping_unit",
                self.mapping_unit.0.is_power_of_two()
                    && (Bytes::SECTOR..=Bytes::kib(64)).contains(&self.mapping_unit),
                "must be a power of two between 512 B and 64 KiB",
            ),
            (
                "unit",
                self.unit
                    .is_none_or(|unit| unit.0 > 0 && unit.0.is_multiple_of(self.program_unit().0)),
                "must be a multiple of mapping_unit and of geometry.page times planes",
            ),
            (
                "gc.victim",
                self.gc.victim.parse::<thermocline_ftl::victim::Victim>().is_ok(),
                "is no victim policy; `thermocline lab list victims` shows them",
            ),
            (
                "wear.pe_cycles",
                self.wear.pe_cycles.is_none_or(|cycles| cycles >= 1.0),
                "must be at least 1",
            ),
            (
                "wear.pe_spread",
                (0.0..=0.5).contains(&self.wear.pe_spread),
                "must be between 0 and 0.5",
            ),
            (
                "wear.spare",
                (0.0..=1.0).contains(&self.wear.spare)
                    && (0.0..=self.wear.spare).contains(&self.wear.factory_bad),
                "must be between 0 and 1, and at least factory_bad",
            ),
            (
                "timing",
                self.timing.is_none() || self.geometry.is_some() || self.kind == Kind::Direct,
                "needs [geometry] beside it",
            ),
            (
                "streams",
                self.streams.as_ref().is_some_and(|s| s.count > 0)
                    || self.kind != Kind::MultiStream,
                "a multi-stream drive needs [streams] with count of at least 1",
            ),
            (
                "fdp",
                self.fdp.as_ref().is_some_and(Fdp::fits) || self.kind != Kind::Fdp,
                "an FDP drive needs [fdp] with at least 1 group and 1 handle, and at most 255 open units in all",
            ),
            (
                "zns",
                self.zns.as_ref().is_some_and(|zns| zns.fits(self.mapping_unit))
                    || self.kind != Kind::Zns,
                "a ZNS drive needs [zns] with zone_capacity of at most zone_size, both multiples of mapping_unit, and \
                 max_open of at most max_active",
            ),
        ];
        for (key, holds, reason) in rules {
            if !holds {
                return Err(ProfileError::new(file, key, reason));
            }
        }
        self.check_geometry(file)?;
        self.check_timing(file)
    }

    fn check_geometry(&self, file: &str) -> Result<(), ProfileError> {
        let Some(geometry) = &self.geometry else { return Ok(()) };
        let counts = [geometry.channels, geometry.dies, geometry.planes];
        let dies = geometry.dies_per_unit();
        let rules = [
            (
                "geometry",
                counts.iter().all(|&n| (1..=65_536).contains(&n)),
                "counts must be 1 to 65536",
            ),
            (
                "geometry.page",
                geometry.program_unit().0.is_multiple_of(self.mapping_unit.0)
                    && geometry.page.0 > 0,
                "times planes must be a multiple of mapping_unit",
            ),
            (
                "geometry.block",
                geometry.block.0 > 0 && geometry.block.0.is_multiple_of(geometry.page.0.max(1)),
                "must be a multiple of geometry.page",
            ),
            (
                "geometry.unit_dies",
                dies > 0 && dies <= geometry.dies && geometry.dies.is_multiple_of(dies.max(1)),
                "must divide geometry.dies",
            ),
        ];
        rules
            .iter()
            .find(|(_, holds, _)| !holds)
            .map_or(Ok(()), |(key, _, reason)| Err(ProfileError::new(file, key, reason)))
    }

    fn check_timing(&self, file: &str) -> Result<(), ProfileError> {
        let Some(t) = &self.timing else { return Ok(()) };
        let values = [
            ("timing.read_us", t.read_us, false),
            ("timing.program_us", t.program_us, false),
            ("timing.erase_us", t.erase_us, false),
            ("timing.command_us", t.command_us, false),
            ("timing.suspend_us", t.suspend_us.unwrap_or(0.0), false),
            ("timing.firmware_read_us", t.firmware_read_us, false),
            ("timing.firmware_write_us", t.firmware_write_us, false),
            ("timing.bus_mb_per_s", t.bus_mb_per_s, true),
            ("timing.link_read_mb_per_s", t.link_read_mb_per_s, true),
            ("timing.link_write_mb_per_s", t.link_write_mb_per_s, true),
            ("timing.controller_kiops", t.controller_kiops, true),
        ];
        for (key, value, positive) in values {
            if !(0.0..=1e9).contains(&value) || (positive && value <= 0.0) {
                return Err(ProfileError::new(
                    file,
                    key,
                    "must be a number above zero and below 10^9",
                ));
            }
        }
        Ok(())
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
