//! The head of a member's log: the partial rows whose running parity is in its slots.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes as _, IntoBytes};

use super::{RAID_PLACE_BYTES, RaidShape};
use crate::crc32c;
use crate::error::{DecodeError, ErrorKind, Structure, require};
use crate::id::PoolId;
use crate::layout::{
    PLAIN_VERSION, RAID_LOG_BYTES, RAID_LOG_MAGIC, ROW_ENTRY_BYTES, RaidLogRaw, RowEntryRaw,
    check_crc, is_zero, prefix_crc, read_prefix,
};
use crate::superblock::MAX_NUMBER;

/// A row whose running parity is in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowEntry {
    /// The slot.
    pub slot: u32,
    /// The unit of the group.
    pub unit: u32,
    /// The row of the unit.
    pub row: u32,
    /// Bytes of data, from the start of the row on, that the slot protects.
    pub filled: u32,
    /// CRC-32C of each piece's part of these bytes.
    pub crcs: Vec<u32>,
}

/// The head of a member's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaidLog {
    /// The pool.
    pub pool: PoolId,
    /// The identity of the group, as in the label.
    pub group: u64,
    /// The number of the member.
    pub member: u8,
    /// The number of the head: the sound head with the higher number is newer.
    pub round: u64,
    /// The rows, each once.
    pub rows: Vec<RowEntry>,
}

fn entry_bytes(shape: &RaidShape) -> usize {
    ROW_ENTRY_BYTES + 4 * shape.data()
}

impl RaidLog {
    /// The head as stored on media, in whole logical blocks.
    ///
    /// # Panics
    /// If the head has more rows than slots, or an entry has another number of pieces than a row.
    #[must_use]
    pub fn encode(&self, shape: &RaidShape) -> Vec<u8> {
        assert!(self.rows.len() <= shape.slots as usize, "{} rows", self.rows.len());
        let rest = self.rows.len() * entry_bytes(shape);
        let mut bytes = Vec::with_capacity(RAID_PLACE_BYTES);
        bytes.resize(RAID_LOG_BYTES, 0);
        for entry in &self.rows {
            assert_eq!(entry.crcs.len(), shape.data(), "a checksum for each piece");
            let RowEntry { slot, unit, row, filled, .. } = *entry;
            let [slot, unit, row, filled] = [slot, unit, row, filled].map(U32::from);
            bytes.extend(RowEntryRaw { slot, unit, row, filled }.as_bytes());
            entry.crcs.iter().for_each(|crc| bytes.extend(crc.to_le_bytes()));
        }
        let mut raw = RaidLogRaw {
            magic: RAID_LOG_MAGIC,
            version: PLAIN_VERSION.into(),
            member: self.member,
            reserved: 0,
            rows: (self.rows.len() as u32).into(),
            pool: self.pool.0,
            group: self.group.into(),
            round: self.round.into(),
            unused: [0; 8],
            rest_crc: crc32c(&bytes[RAID_LOG_BYTES..RAID_LOG_BYTES + rest]).into(),
            prefix_crc: 0.into(),
        };
        raw.prefix_crc = prefix_crc(raw.as_bytes()).into();
        bytes[..RAID_LOG_BYTES].copy_from_slice(raw.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(shape.logical_block.bytes()), 0);
        bytes
    }

    /// The head at the start of `bytes`, of a group of this shape in `pool`.
    ///
    /// # Errors
    /// [`ErrorKind::NotOurs`] without a head of the pool, [`ErrorKind::Truncated`] and [`ErrorKind::Corrupt`] for a
    /// damaged head. [`ErrorKind::Impossible`] for a head that no group of this shape can have, and the errors of
    /// another version.
    pub fn decode(bytes: &[u8], pool: PoolId, shape: &RaidShape) -> Result<RaidLog, DecodeError> {
        let error = |kind| DecodeError { structure: Structure::RaidLog, at: None, kind };
        parse(bytes, pool, shape).map_err(error)
    }
}

fn parse(bytes: &[u8], pool: PoolId, shape: &RaidShape) -> Result<RaidLog, ErrorKind> {
    let raw: &RaidLogRaw = read_prefix(bytes, RAID_LOG_MAGIC, Some(pool))?;
    let rows = raw.rows.get();
    require(rows <= shape.slots, "rows", rows.into(), "at most the number of slots")?;
    let each = entry_bytes(shape);
    let needed = RAID_LOG_BYTES + rows as usize * each;
    if bytes.len() < needed {
        return Err(ErrorKind::Truncated { needed, found: bytes.len() });
    }
    let rest = &bytes[RAID_LOG_BYTES..needed];
    check_crc("rows of a log", raw.rest_crc.get(), crc32c(rest))?;
    let reserved = raw.reserved == 0 && is_zero(&raw.unused);
    require(reserved, "reserved field", 1, "it must be zero")?;
    let member = usize::from(raw.member);
    let known = member < usize::from(shape.members);
    require(known, "member", raw.member.into(), "below the number of members")?;
    let round = raw.round.get();
    require(round <= MAX_NUMBER, "round", round, "0 to 2^63")?;
    let rows = rest.chunks_exact(each).map(|entry| parse_entry(entry, member, shape));
    let rows = rows.collect::<Result<Vec<RowEntry>, ErrorKind>>()?;
    let once = |one: &RowEntry, other: &RowEntry| {
        one.slot != other.slot && (one.unit, one.row) != (other.unit, other.row)
    };
    for (index, entry) in rows.iter().enumerate() {
        let alone = rows[..index].iter().all(|other| once(entry, other));
        require(alone, "slot", entry.slot.into(), "each slot and each row appear once")?;
    }
    let (pool, group) = (PoolId(raw.pool), raw.group.get());
    Ok(RaidLog { pool, group, member: raw.member, round, rows })
}

fn parse_entry(bytes: &[u8], member: usize, shape: &RaidShape) -> Result<RowEntry, ErrorKind> {
    let (raw, crcs) = RowEntryRaw::ref_from_prefix(bytes).expect("entries have their length");
    let RowEntryRaw { slot, unit, row, filled } = raw;
    let [slot, unit, row, filled] = [slot, unit, row, filled].map(|number| number.get());
    require(slot < shape.slots, "slot", slot.into(), "below the number of slots")?;
    require(unit < shape.units, "unit", unit.into(), "below the number of units")?;
    require(row < shape.rows(), "row", row.into(), "below the number of rows")?;
    let block = shape.logical_block.bytes() as u32;
    let whole =
        filled > 0 && filled.is_multiple_of(block) && u64::from(filled) <= shape.row_len(row);
    require(whole, "filled", filled.into(), "whole logical blocks of the row")?;
    let own = shape.parity_of(unit, row) == Some(member);
    require(own, "row", row.into(), "a row with parity on this member")?;
    let crcs = crcs.chunks_exact(4).map(|crc| u32::from_le_bytes([crc[0], crc[1], crc[2], crc[3]]));
    Ok(RowEntry { slot, unit, row, filled, crcs: crcs.collect() })
}

#[cfg(test)]
mod tests {
    use super::super::RaidLevel;
    use super::*;
    use crate::geometry::LogicalBlock;

    fn shape(block: LogicalBlock) -> RaidShape {
        let blocks = (1 << 20) / block.bytes() as u32;
        RaidShape::new(RaidLevel::Parity, 3, block, blocks, 60).expect("it can be")
    }

    fn log(rows: u32) -> RaidLog {
        let entry = |row: u32| RowEntry {
            slot: 31 - row,
            unit: 3 * row + 2,
            row: 0,
            filled: 4096 * (row % 3 + 1),
            crcs: vec![row * 7, !row],
        };
        let rows = (0..rows).map(entry).collect();
        RaidLog { pool: PoolId([9; 16]), group: 5, member: 0, round: 9, rows }
    }

    #[test]
    fn a_head_comes_back_and_no_changed_one_does() {
        for block in [LogicalBlock::B512, LogicalBlock::B4096] {
            for rows in [0, 1, 8, 19] {
                let (shape, log) = (shape(block), log(rows));
                let bytes = log.encode(&shape);
                assert!(bytes.len() <= RAID_PLACE_BYTES);
                assert!(bytes.len().is_multiple_of(block.bytes()));
                assert_eq!(RaidLog::decode(&bytes, log.pool, &shape), Ok(log.clone()));
                let end = RAID_LOG_BYTES + rows as usize * entry_bytes(&shape);
                for byte in (0..end).step_by(3) {
                    let mut other = bytes.clone();
                    other[byte] ^= 0x10;
                    assert!(RaidLog::decode(&other, log.pool, &shape).is_err(), "{byte}");
                }
                for short in [0, 8, 63, end - 1] {
                    assert!(RaidLog::decode(&bytes[..short], log.pool, &shape).is_err(), "{short}");
                }
            }
        }
        let widest = RaidShape::new(RaidLevel::Parity, 16, LogicalBlock::B4096, 4096, 60);
        let widest = widest.expect("it can be");
        let most = RAID_LOG_BYTES + widest.slots as usize * entry_bytes(&widest);
        assert!(most <= RAID_PLACE_BYTES, "{most}");
    }

    #[test]
    fn what_no_log_can_have_is_refused_by_field() {
        let shape = shape(LogicalBlock::B4096);
        type Case = (fn(&mut RaidLog), &'static str);
        let cases: [Case; 8] = [
            (|log| log.member = 3, "member"),
            (|log| log.round = MAX_NUMBER + 1, "round"),
            (|log| log.rows[0].slot = 32, "slot"),
            (|log| log.rows[1].slot = log.rows[0].slot, "slot"),
            (|log| log.rows[1].unit = 60, "unit"),
            (|log| log.rows[1].row = 16, "row"),
            (|log| log.rows[1].row = 1, "row"),
            (|log| log.rows[1].filled = 100, "filled"),
        ];
        for (change, expected) in cases {
            let mut one = log(2);
            change(&mut one);
            let found = RaidLog::decode(&one.encode(&shape), one.pool, &shape);
            let found = found.map(|_| ()).expect_err("it is wrong").kind;
            assert!(
                matches!(found, ErrorKind::Impossible { field, .. } if field == expected),
                "{found}, not {expected}"
            );
        }
    }
}
