//! The label of a side of a mirrored pair: which of the two sides are current, and what the other one lacks.
//!
//! It stands behind the units of the pool, which know nothing of it. `docs/GROUPS.md` says where.

use zerocopy::IntoBytes;

use crate::error::{DecodeError, ErrorKind, Structure, require};
use crate::geometry::BLOCK_BYTES;
use crate::id::PoolId;
use crate::layout::{
    MIRROR_LABEL_BYTES, MIRROR_MAGIC, MirrorLabelRaw, VERSION, check_crc, is_zero, prefix_crc,
    read_prefix,
};
use crate::superblock::MAX_NUMBER;
use crate::units::MAX_UNITS;
use crate::{MAX_DEVICES, crc32c};

/// Sides of a pair.
pub const SIDES: usize = 2;

/// Bit 0 of the flags: something may be written after this label.
const OPEN: u8 = 1;

/// What a side of a mirrored pair says of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorLabel {
    /// The pool.
    pub pool: PoolId,
    /// Which device of the pool the pair is.
    pub device: u8,
    /// Which side this one is.
    pub side: u8,
    /// Counts the labels of the pair; the first is 1. A side that was to be filled before it was ever labelled has 0.
    pub event: u64,
    /// Which sides hold all that the pair does.
    pub current: [bool; SIDES],
    /// Whether anything may have been written since. If so, what was not flushed may differ between current sides.
    pub open: bool,
    /// Of each unit, whether a side that is not current lacks it. All false where both are current.
    pub lacking: Vec<bool>,
}

impl MirrorLabel {
    /// Bytes of a label of a pair with `units` units: whole blocks.
    #[must_use]
    pub fn bytes(units: u32) -> usize {
        (MIRROR_LABEL_BYTES + (units as usize).div_ceil(8)).next_multiple_of(BLOCK_BYTES)
    }

    /// The label as it stands on media.
    ///
    /// # Panics
    /// When it has no units, or more than a pool can have.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let units = u32::try_from(self.lacking.len()).expect("a pool has fewer units");
        assert!((1..=MAX_UNITS).contains(&units), "{units} units");
        let mut bytes = vec![0; MirrorLabel::bytes(units)];
        for (unit, _) in self.lacking.iter().enumerate().filter(|(_, lacking)| **lacking) {
            bytes[MIRROR_LABEL_BYTES + unit / 8] |= 1 << (unit % 8);
        }
        let [first, second] = self.current;
        let mut raw = MirrorLabelRaw {
            magic: MIRROR_MAGIC,
            version: VERSION.into(),
            side: self.side,
            flags: if self.open { OPEN } else { 0 },
            current: u8::from(first) | u8::from(second) << 1,
            device: self.device,
            reserved: [0; 2],
            pool: self.pool.0,
            units: units.into(),
            event: self.event.into(),
            unused: [0; 12],
            rest_crc: crc32c(&bytes[MIRROR_LABEL_BYTES..]).into(),
            prefix_crc: 0.into(),
        };
        raw.prefix_crc = prefix_crc(raw.as_bytes()).into();
        bytes[..MIRROR_LABEL_BYTES].copy_from_slice(raw.as_bytes());
        bytes
    }

    /// The label at the start of `bytes`, of `pool` where that is known.
    ///
    /// # Errors
    /// [`ErrorKind::NotOurs`] when there is none of that pool, [`ErrorKind::Truncated`] and [`ErrorKind::Corrupt`] when
    /// it is not whole, [`ErrorKind::Impossible`] when no pair can be as it says, and those of another version.
    pub fn decode(bytes: &[u8], pool: Option<PoolId>) -> Result<MirrorLabel, DecodeError> {
        let error = |kind| DecodeError { structure: Structure::MirrorLabel, at: None, kind };
        parse(bytes, pool).map_err(error)
    }
}

fn parse(bytes: &[u8], pool: Option<PoolId>) -> Result<MirrorLabel, ErrorKind> {
    let raw: &MirrorLabelRaw = read_prefix(bytes, MIRROR_MAGIC, pool)?;
    let units = raw.units.get();
    require((1..=MAX_UNITS).contains(&units), "units", units.into(), "1 to 2^24")?;
    let needed = MirrorLabel::bytes(units);
    if bytes.len() < needed {
        return Err(ErrorKind::Truncated { needed, found: bytes.len() });
    }
    let rest = &bytes[MIRROR_LABEL_BYTES..needed];
    check_crc("units of a mirror's label", raw.rest_crc.get(), crc32c(rest))?;
    let reserved = is_zero(&raw.reserved) && is_zero(&raw.unused);
    require(reserved, "reserved field", 1, "it must be zero")?;
    require(raw.flags & !OPEN == 0, "flags", raw.flags.into(), "only bit 0 is known")?;
    require(usize::from(raw.side) < SIDES, "side", raw.side.into(), "0 or 1")?;
    require((1..4).contains(&raw.current), "current sides", raw.current.into(), "1 to 3")?;
    let device = usize::from(raw.device);
    require(device < MAX_DEVICES, "device", raw.device.into(), "0 to 7")?;
    let event = raw.event.get();
    require(event <= MAX_NUMBER, "event", event, "0 to 2^63")?;
    let bit = |unit: usize| rest[unit / 8] >> (unit % 8) & 1 == 1;
    let beyond = (units as usize..rest.len() * 8).find(|&unit| bit(unit));
    let found = beyond.unwrap_or_default() as u64;
    require(beyond.is_none(), "unit that is lacking", found, "there is none of that number")?;
    let lacking: Vec<bool> = (0..units as usize).map(bit).collect();
    let whole = raw.current == 3;
    let first = lacking.iter().position(|&lacking| lacking).filter(|_| whole);
    let found = first.unwrap_or_default() as u64;
    require(first.is_none(), "unit that is lacking", found, "both sides are current")?;
    Ok(MirrorLabel {
        pool: PoolId(raw.pool),
        device: raw.device,
        side: raw.side,
        event,
        current: [raw.current & 1 > 0, raw.current & 2 > 0],
        open: raw.flags & OPEN > 0,
        lacking,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(units: usize) -> MirrorLabel {
        let lacking = (0..units).map(|unit| unit % 3 == 1).collect();
        let (device, side, event) = (3, 1, 77);
        let (current, open) = ([true, false], true);
        MirrorLabel { pool: PoolId([9; 16]), device, side, event, current, open, lacking }
    }

    #[test]
    fn a_label_comes_back_and_no_changed_one_does() {
        for units in [1, 8, 40_000] {
            let label = label(units);
            let bytes = label.encode();
            assert_eq!(MirrorLabel::decode(&bytes, Some(label.pool)), Ok(label));
            for byte in (0..bytes.len()).step_by(7) {
                let mut other = bytes.clone();
                other[byte] ^= 0x10;
                assert!(MirrorLabel::decode(&other, None).is_err(), "{byte} of {units} units");
            }
            for short in [0, 8, 63, 64, bytes.len() - 1] {
                assert!(MirrorLabel::decode(&bytes[..short], None).is_err(), "{short}");
            }
        }
    }

    #[test]
    fn what_no_pair_can_be_is_refused_by_field() {
        let spoilt = |change: fn(&mut MirrorLabel)| {
            let mut one = label(10);
            change(&mut one);
            MirrorLabel::decode(&one.encode(), None).map(|_| ()).expect_err("it is wrong").kind
        };
        type Case = (fn(&mut MirrorLabel), &'static str);
        let cases: [Case; 5] = [
            (|one| one.side = 2, "side"),
            (|one| one.current = [false; 2], "current sides"),
            (|one| one.current = [true; 2], "unit that is lacking"),
            (|one| one.device = 8, "device"),
            (|one| one.event = MAX_NUMBER + 1, "event"),
        ];
        for (change, expected) in cases {
            let found = spoilt(change);
            assert!(
                matches!(found, ErrorKind::Impossible { field, .. } if field == expected),
                "{found}"
            );
        }
        let other = MirrorLabel::decode(&label(10).encode(), Some(PoolId([8; 16])));
        assert!(matches!(other.map_err(|error| error.kind), Err(ErrorKind::NotOurs { .. })));
    }
}
