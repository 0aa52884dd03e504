//! The members of a group: how large they are, and how the group is divided.

use thermocline_engine::{MAX_UNITS, default_unit};
use thermocline_format::{LogicalBlock, RaidShape, RaidShapeError};
use thermocline_nand::profile::Cut;
use thermocline_nand::{Drive, HostLimits, Kind, Profile, ProfileError, Striped};
use thermocline_types::Bytes;

use super::GroupOption;
use super::plan::is_bare;
use crate::run;

/// How a group is divided: its redundancy and members, the pool's logical blocks, and the size of its units if given.
#[derive(Clone, Copy)]
pub struct Division {
    pub spec: GroupOption,
    pub logical: LogicalBlock,
    pub unit: Option<Bytes>,
}

impl Division {
    /// The unit size of a group with `data` bytes of data capacity. `other` is the size of the smallest other device.
    pub fn unit(&self, data: Bytes, other: Option<Bytes>) -> Bytes {
        let smallest = other.map_or(data, |other| other.min(data));
        let unit = self.unit.unwrap_or_else(|| default_unit(data, Some(smallest))).0;
        let block = self.logical.bytes() as u64;
        Bytes((unit / block).max(1) * block)
    }

    /// The shape of a group in units of `unit` bytes, whose members have `member` bytes.
    ///
    /// # Errors
    /// [`RaidShapeError`].
    pub fn shape(&self, unit: Bytes, member: Bytes) -> Result<RaidShape, RaidShapeError> {
        let GroupOption { level, members, piece } = self.spec;
        let per_unit = u32::try_from(unit.0 / self.logical.bytes() as u64).unwrap_or(u32::MAX);
        let mut shape = RaidShape::new(level, members, self.logical, per_unit, 1)?;
        if let Some(piece) = piece {
            shape = shape.in_pieces(piece.0.min(u32::MAX.into()) as u32)?;
        }
        let units = u64::from(shape.units_on(member.0)).min(MAX_UNITS) as u32;
        Ok(RaidShape { units, ..shape })
    }

    /// The size of members of a group for the data that a drive after `cut` holds.
    ///
    /// # Errors
    /// [`RaidShapeError`].
    pub fn member_for(&self, profile: &Profile, cut: &Cut) -> Result<Bytes, RaidShapeError> {
        let data = bytes_of(profile, cut);
        let unit = self.unit(data, None);
        let shape = self.shape(unit, Bytes::ZERO)?;
        let units = u32::try_from(data.div_ceil(unit)).unwrap_or(u32::MAX - shape.head_units());
        let member = u64::from(RaidShape { units, ..shape }.member_units()) * shape.strip();
        Ok(Bytes(member.next_multiple_of(run::least_step(profile).0)))
    }

    /// The size of members that together are as large as a drive after `cut`.
    pub fn member_of(&self, profile: &Profile, cut: &Cut) -> Bytes {
        let (step, members) = (run::least_step(profile).0, self.spec.members as u64);
        Bytes(bytes_of(profile, cut).0 / members / step * step)
    }

    /// Fresh members of `member` bytes. Of a profile that knows of nothing but blocks and units, a member adds no write
    /// amplification.
    ///
    /// # Errors
    /// [`ProfileError`] when the profile cannot be cut to that size, or has zones.
    pub fn drives(
        &self,
        profile: &Profile,
        member: Bytes,
        seed: u64,
    ) -> Result<Drive, ProfileError> {
        let in_place = Profile { kind: Kind::Direct, op: 0.0, buffer: None, ..profile.clone() };
        let profile = if is_bare(profile) { &in_place } else { profile };
        let limits = HostLimits { stripe: run::least_step(profile), ..HostLimits::default() };
        let (members, all) = (self.spec.members, Bytes(member.0 * self.spec.members as u64));
        let drives = Striped::new(profile, members as u32, limits, Some(all), seed)?;
        Ok(Drive::Striped(Box::new(drives)))
    }
}

/// Bytes that the log has of a drive after `cut`: the spare ones, too, where it has the units of the media.
fn bytes_of(profile: &Profile, cut: &Cut) -> Bytes {
    if is_bare(profile) { cut.media().max(cut.capacity()) } else { cut.capacity() }
}
