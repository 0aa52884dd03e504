//! The label of a member of a group.

use zerocopy::IntoBytes;

use super::{MAX_MEMBERS, RAID_PLACE_BYTES, RaidLevel, RaidShape};
use crate::MAX_DEVICES;
use crate::error::{DecodeError, ErrorKind, Structure, require};
use crate::geometry::LogicalBlock;
use crate::id::PoolId;
use crate::layout::{
    PLAIN_VERSION, RAID_LABEL_BYTES, RAID_LABEL_MAGIC, RaidLabelRaw, is_zero, prefix_crc,
    read_prefix,
};
use crate::superblock::MAX_NUMBER;
use crate::units::MAX_UNITS;

/// Bit 0 of the flags: units may be written under this label.
const OPEN: u8 = 1;
/// Bit 1 of the flags: only labels are written under this label.
const ANNOUNCED: u8 = 2;
/// No member is being filled.
const NOBODY: u8 = u8::MAX;

/// The label on one member, which describes all members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaidLabel {
    /// The pool.
    pub pool: PoolId,
    /// The identity of the group, drawn when the group was made.
    pub group: u64,
    /// The number of the device in the pool.
    pub device: u8,
    /// The number of this member.
    pub member: u8,
    /// How the group is divided.
    pub shape: RaidShape,
    /// The number of the label; the first is 1. A new member has 0 until the group labels it.
    pub event: u64,
    /// The newest event that all members in use had when this label was written. A member whose own event is lower is
    /// an older copy.
    pub floor: u64,
    /// A bit for each member: whether the member holds all its data.
    pub current: u16,
    /// The member that is being filled.
    pub filling: Option<u8>,
    /// Units on the member being filled, from the first on.
    pub filled: u32,
    /// Whether writes may follow this label. After a crash, unflushed rows may then have wrong parity.
    pub open: bool,
    /// Whether this is the first label of an opening. Only labels were written under it. Of two labels with one event,
    /// the other takes precedence.
    pub announced: bool,
}

impl RaidLabel {
    /// The first label of a new group, for member 0. All members are current.
    #[must_use]
    pub fn of_new(pool: PoolId, group: u64, device: u8, shape: RaidShape) -> RaidLabel {
        let current = ((1_u32 << shape.members) - 1) as u16;
        let (member, event, floor, filling, filled) = (0, 1, 0, None, 0);
        let (open, announced) = (false, false);
        RaidLabel {
            pool,
            group,
            device,
            member,
            shape,
            event,
            floor,
            current,
            filling,
            filled,
            open,
            announced,
        }
    }

    /// Whether the label calls a member current.
    #[must_use]
    pub fn is_current(&self, member: usize) -> bool {
        member < MAX_MEMBERS && self.current >> member & 1 == 1
    }

    /// The label as stored on media, followed by zeros.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let shape = self.shape;
        let mut raw = RaidLabelRaw {
            magic: RAID_LABEL_MAGIC,
            version: PLAIN_VERSION.into(),
            level: shape.level.code(),
            flags: u8::from(self.open) * OPEN + u8::from(self.announced) * ANNOUNCED,
            members: shape.members,
            member: self.member,
            device: self.device,
            filling: self.filling.unwrap_or(NOBODY),
            pool: self.pool.0,
            group: self.group.into(),
            event: self.event.into(),
            floor: self.floor.into(),
            units: shape.units.into(),
            unit_blocks: shape.unit_blocks.into(),
            logical_block: (shape.logical_block.bytes() as u32).into(),
            piece: shape.piece.into(),
            slots: shape.slots.into(),
            filled: self.filled.into(),
            current: self.current.into(),
            unused: [0; 42],
            prefix_crc: 0.into(),
        };
        raw.prefix_crc = prefix_crc(raw.as_bytes()).into();
        let mut bytes = vec![0; RAID_PLACE_BYTES];
        bytes[..RAID_LABEL_BYTES].copy_from_slice(raw.as_bytes());
        bytes
    }

    /// The label at the start of `bytes`. With `pool`, a label of another pool is an error.
    ///
    /// # Errors
    /// [`ErrorKind::NotOurs`] without a label of the pool, [`ErrorKind::Truncated`] and [`ErrorKind::Corrupt`] for a
    /// damaged label. [`ErrorKind::Impossible`] for a label that no group can have, and the errors of another version.
    pub fn decode(bytes: &[u8], pool: Option<PoolId>) -> Result<RaidLabel, DecodeError> {
        let error = |kind| DecodeError { structure: Structure::RaidLabel, at: None, kind };
        parse(bytes, pool).map_err(error)
    }
}

fn parse(bytes: &[u8], pool: Option<PoolId>) -> Result<RaidLabel, ErrorKind> {
    let raw: &RaidLabelRaw = read_prefix(bytes, RAID_LABEL_MAGIC, pool)?;
    require(is_zero(&raw.unused), "reserved field", 1, "it must be zero")?;
    let known = raw.flags & !(OPEN | ANNOUNCED) == 0;
    require(known, "flags", raw.flags.into(), "only bits 0 and 1 are known")?;
    let shape = shape_of(raw)?;
    let members = usize::from(shape.members);
    let is_member = |member: u8| usize::from(member) < members;
    require(is_member(raw.member), "member", raw.member.into(), "below the number of members")?;
    let current = raw.current.get();
    let known = u32::from(current) >> members == 0;
    require(known && current != 0, "current members", current.into(), "bits of some members")?;
    let filling = Some(raw.filling).filter(|&member| member != NOBODY);
    let lacks = filling.is_none_or(|member| is_member(member) && current >> member & 1 == 0);
    require(lacks, "filling", raw.filling.into(), "a member that is not current, or 255")?;
    let filled = raw.filled.get();
    require(filled <= shape.units, "filled", filled.into(), "at most the number of units")?;
    let device = usize::from(raw.device);
    require(device < MAX_DEVICES, "device", raw.device.into(), "0 to 7")?;
    let (event, floor) = (raw.event.get(), raw.floor.get());
    require(event <= MAX_NUMBER, "event", event, "0 to 2^63")?;
    require(floor <= event, "floor", floor, "at most the event")?;
    Ok(RaidLabel {
        pool: PoolId(raw.pool),
        group: raw.group.get(),
        device: raw.device,
        member: raw.member,
        shape,
        event,
        floor,
        current,
        filling,
        filled,
        open: raw.flags & OPEN > 0,
        announced: raw.flags & ANNOUNCED > 0,
    })
}

fn shape_of(raw: &RaidLabelRaw) -> Result<RaidShape, ErrorKind> {
    let level = RaidLevel::of_code(raw.level);
    require(level.is_some(), "level", raw.level.into(), "0, 1 or 5")?;
    let block = LogicalBlock::from_bytes(raw.logical_block.get());
    let found = u64::from(raw.logical_block.get());
    require(block.is_some(), "logical_block", found, "512 or 4096")?;
    let units = raw.units.get();
    require((1..=MAX_UNITS).contains(&units), "units", units.into(), "1 to 2^24")?;
    let shape = RaidShape {
        level: level.expect("checked above"),
        members: raw.members,
        logical_block: block.expect("checked above"),
        unit_blocks: raw.unit_blocks.get(),
        units,
        piece: raw.piece.get(),
        slots: raw.slots.get(),
    };
    require(shape.is_possible(), "piece", raw.piece.get().into(), "to fit members and units")?;
    Ok(shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label() -> RaidLabel {
        let block = LogicalBlock::B4096;
        let shape = RaidShape::new(RaidLevel::Parity, 4, block, 512, 60).expect("it can be");
        let (pool, group, device, member) = (PoolId([9; 16]), 0x1234_5678_9ABC, 3, 2);
        let (event, floor, current, filling, filled) = (77, 76, 0b1101, Some(1), 17);
        let (open, announced) = (true, true);
        RaidLabel {
            pool,
            group,
            device,
            member,
            shape,
            event,
            floor,
            current,
            filling,
            filled,
            open,
            announced,
        }
    }

    #[test]
    fn a_label_comes_back_and_no_changed_one_does() {
        let label = label();
        let bytes = label.encode();
        assert_eq!(RaidLabel::decode(&bytes, Some(label.pool)), Ok(label.clone()));
        assert!(label.is_current(0) && !label.is_current(1) && !label.is_current(99));
        for byte in 0..RAID_LABEL_BYTES {
            let mut other = bytes.clone();
            other[byte] ^= 0x10;
            assert!(RaidLabel::decode(&other, None).is_err(), "{byte}");
        }
        for short in [0, 8, 63, RAID_LABEL_BYTES - 1] {
            assert!(RaidLabel::decode(&bytes[..short], None).is_err(), "{short}");
        }
        let other = RaidLabel::decode(&bytes, Some(PoolId([8; 16])));
        assert!(matches!(other.map_err(|error| error.kind), Err(ErrorKind::NotOurs { .. })));
    }

    #[test]
    fn labels_of_all_levels_come_back() {
        for (level, members) in
            [(RaidLevel::Striped, 2), (RaidLevel::Mirrored, 2), (RaidLevel::Parity, 3)]
        {
            let shape = RaidShape::new(level, members, LogicalBlock::B512, 4096, 60);
            let shape = shape.expect("it can be");
            let (member, current, filling) = (1, 0b01, Some(1));
            let label = RaidLabel { shape, member, current, filling, ..label() };
            assert_eq!(RaidLabel::decode(&label.encode(), None), Ok(label));
        }
    }

    #[test]
    fn what_no_group_can_be_is_refused_by_field() {
        let spoilt = |change: fn(&mut RaidLabel)| {
            let mut one = label();
            change(&mut one);
            RaidLabel::decode(&one.encode(), None).map(|_| ()).expect_err("it is wrong").kind
        };
        type Case = (fn(&mut RaidLabel), &'static str);
        let cases: [Case; 10] = [
            (|one| one.member = 4, "member"),
            (|one| one.current = 0, "current members"),
            (|one| one.current = 0b1_0001, "current members"),
            (|one| one.filling = Some(0), "filling"),
            (|one| one.filled = 61, "filled"),
            (|one| one.device = 8, "device"),
            (|one| one.event = MAX_NUMBER + 1, "event"),
            (|one| one.floor = 78, "floor"),
            (|one| one.shape.piece = 5000, "piece"),
            (|one| one.shape.units = 0, "units"),
        ];
        for (change, expected) in cases {
            let found = spoilt(change);
            assert!(
                matches!(found, ErrorKind::Impossible { field, .. } if field == expected),
                "{found}, not {expected}"
            );
        }
    }
}
