//! How a group is divided: rows of pieces, the member of each piece, and the place on the member.

use std::ops::RangeInclusive;

use thiserror::Error;

use super::{MAX_MEMBERS, RAID_PLACE_BYTES};
use crate::geometry::LogicalBlock;

/// Places at the start of a member: two for labels, two for heads of its log.
const PLACES: u64 = 4;

/// Bytes of a piece, at least and at most. Chosen, not measured. The least is a block of the engine. With larger pieces
/// than the most, few chunks would fill a row.
const PIECE: RangeInclusive<u32> = 4096..=65_536;

/// Rows of a unit, at least, unless pieces would be too small. So the space lost behind the last row is less than a
/// sixteenth of a unit. A mirror has one row per unit and loses no space. Chosen, not measured.
const ROWS: u64 = 16;

/// Slots of a member's log. Chosen, not measured: more than the open units of an engine with the usual placements.
const SLOTS: u32 = 32;

/// The redundancy of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaidLevel {
    /// No redundancy: no member may be lost.
    Striped,
    /// A copy: a mirror has two members with the same bytes, and one member may be lost.
    Mirrored,
    /// A piece of parity in each row: one member may be lost.
    Parity,
}

impl RaidLevel {
    /// Its name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RaidLevel::Striped => "raid0",
            RaidLevel::Mirrored => "mirror",
            RaidLevel::Parity => "raid5",
        }
    }

    /// Pieces of parity in a row. The parity of one piece is a copy of it.
    #[must_use]
    pub const fn parity(self) -> usize {
        match self {
            RaidLevel::Striped => 0,
            RaidLevel::Mirrored | RaidLevel::Parity => 1,
        }
    }

    /// Whether a log holds the partial rows. A copy is written with its data and needs no log.
    #[must_use]
    pub const fn has_log(self) -> bool {
        matches!(self, RaidLevel::Parity)
    }

    /// Whether every member holds a copy of each piece.
    #[must_use]
    pub const fn copies(self) -> bool {
        matches!(self, RaidLevel::Mirrored)
    }

    /// Whether any two complete sets of members share a member. The shared member then shows which set is newer.
    #[must_use]
    pub const fn overlaps(self) -> bool {
        !matches!(self, RaidLevel::Mirrored)
    }

    /// Number of members, at least and at most.
    #[must_use]
    pub const fn members(self) -> RangeInclusive<usize> {
        match self {
            RaidLevel::Striped => 2..=MAX_MEMBERS,
            RaidLevel::Mirrored => 2..=2,
            RaidLevel::Parity => 3..=MAX_MEMBERS,
        }
    }

    /// The code of the level in a label.
    pub(super) const fn code(self) -> u8 {
        match self {
            RaidLevel::Striped => 0,
            RaidLevel::Mirrored => 1,
            RaidLevel::Parity => 5,
        }
    }

    /// The level with this code in a label.
    pub(super) fn of_code(code: u8) -> Option<RaidLevel> {
        let all = [RaidLevel::Striped, RaidLevel::Mirrored, RaidLevel::Parity];
        all.into_iter().find(|level| level.code() == code)
    }
}

/// Why a group cannot be divided like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RaidShapeError {
    /// Too few or too many members.
    #[error("{members} members; a group has {least} to {most}")]
    Members {
        /// Number of members.
        members: usize,
        /// The least number of members.
        least: usize,
        /// The greatest number of members.
        most: usize,
    },
    /// Units are too large to be one piece.
    #[error("units of {unit} bytes are too large to be mirrored; they have less than 4 GiB")]
    LargeUnit {
        /// Bytes of a unit.
        unit: u64,
    },
    /// Pieces cannot have this size.
    #[error("pieces of {piece} bytes; they have 4096 to 65536, and a mirror has none")]
    Piece {
        /// Bytes of a piece.
        piece: u32,
    },
    /// Units are too small for the number of members.
    #[error("units of {unit} bytes are too small for {members} members")]
    SmallUnit {
        /// Bytes of a unit.
        unit: u64,
        /// Number of members.
        members: usize,
    },
}

/// How a group is divided. A unit of the group is a unit of each member, filled in rows. A row is a piece on each
/// member, and one piece is the parity of the rest. A unit of a mirror is one row of one piece and its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaidShape {
    /// The redundancy.
    pub level: RaidLevel,
    /// Number of members.
    pub members: u8,
    /// The smallest piece that can be read or written.
    pub logical_block: LogicalBlock,
    /// Logical blocks of a unit of the group.
    pub unit_blocks: u32,
    /// Units of the group.
    pub units: u32,
    /// Bytes of a piece.
    pub piece: u32,
    /// Rows that a member's log can hold.
    pub slots: u32,
}

/// Bytes of a unit that lie in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The row.
    pub row: u32,
    /// The number of the data piece in the row.
    pub piece: usize,
    /// The first byte in the piece.
    pub from: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Bytes of the range before the span.
    pub before: u64,
}

/// Whether a file can hold this number of units.
fn fits(units: u32, bytes: u64) -> bool {
    u64::from(units).checked_mul(bytes).is_some_and(|all| i64::try_from(all).is_ok())
}

impl RaidShape {
    /// The usual shape for units of this number of logical blocks. Pieces are as long as possible with at least 16 rows
    /// per unit.
    ///
    /// # Errors
    /// [`RaidShapeError`].
    pub fn new(
        level: RaidLevel,
        members: usize,
        logical_block: LogicalBlock,
        unit_blocks: u32,
        units: u32,
    ) -> Result<RaidShape, RaidShapeError> {
        let (least, most) = (*level.members().start(), *level.members().end());
        if !(least..=most).contains(&members) {
            return Err(RaidShapeError::Members { members, least, most });
        }
        let unit = u64::from(unit_blocks) * logical_block.bytes() as u64;
        let piece = if level == RaidLevel::Mirrored {
            u32::try_from(unit).map_err(|_| RaidShapeError::LargeUnit { unit })?
        } else {
            let data = (members - level.parity()) as u64;
            let most = (unit / (data * ROWS)).max(1);
            (1 << most.ilog2().min(31)).clamp(*PIECE.start(), *PIECE.end())
        };
        let slots = if level.has_log() { SLOTS } else { 0 };
        let members = members as u8;
        let shape = RaidShape { level, members, logical_block, unit_blocks, units, piece, slots };
        if shape.is_possible() {
            Ok(shape)
        } else {
            Err(RaidShapeError::SmallUnit { unit, members: members.into() })
        }
    }

    /// The same with pieces of another size, from 4 KiB to 64 KiB.
    ///
    /// # Errors
    /// [`RaidShapeError::Piece`].
    pub fn in_pieces(self, piece: u32) -> Result<RaidShape, RaidShapeError> {
        let shape = RaidShape { piece, ..self };
        shape.is_possible().then_some(shape).ok_or(RaidShapeError::Piece { piece })
    }

    /// Whether numbers read from a label are consistent.
    pub(super) fn is_possible(&self) -> bool {
        let block = self.logical_block.bytes() as u32;
        let divided = || match self.level {
            RaidLevel::Mirrored => u64::from(self.piece) == self.unit_bytes(),
            RaidLevel::Striped | RaidLevel::Parity => {
                PIECE.contains(&self.piece)
                    && self.piece.is_multiple_of(block)
                    && self.strip() >= PLACES * RAID_PLACE_BYTES as u64 + self.row_bytes()
            }
        };
        self.level.members().contains(&usize::from(self.members))
            && self.unit_blocks > 0
            && divided()
            && self.level.has_log() == (self.slots > 0)
            && self.slots <= SLOTS
            && fits(self.member_units(), self.strip())
            && fits(self.units, self.unit_bytes())
    }

    /// Pieces with data in a row.
    #[must_use]
    pub fn data(&self) -> usize {
        usize::from(self.members) - self.level.parity()
    }

    /// Bytes of data in a row, except the last row of a unit.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        self.data() as u64 * u64::from(self.piece)
    }

    /// Bytes of a unit of the group.
    #[must_use]
    pub fn unit_bytes(&self) -> u64 {
        u64::from(self.unit_blocks) * self.logical_block.bytes() as u64
    }

    /// Rows of a unit.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.unit_bytes().div_ceil(self.row_bytes()) as u32
    }

    /// Bytes of data in row `row` of a unit: the last row may be shorter.
    #[must_use]
    pub fn row_len(&self, row: u32) -> u64 {
        (self.unit_bytes() - u64::from(row) * self.row_bytes()).min(self.row_bytes())
    }

    /// Bytes of a unit on each member.
    #[must_use]
    pub fn strip(&self) -> u64 {
        u64::from(self.rows()) * u64::from(self.piece)
    }

    /// Units at the start of a member for labels and log.
    #[must_use]
    pub fn head_units(&self) -> u32 {
        match self.slots.checked_sub(1) {
            Some(last) => (self.slot(last) / self.strip()) as u32 + 1,
            None => (PLACES * RAID_PLACE_BYTES as u64).div_ceil(self.strip()) as u32,
        }
    }

    /// Units of a member.
    #[must_use]
    pub fn member_units(&self) -> u32 {
        self.head_units() + self.units
    }

    /// Units of a group of this shape whose smallest member has `bytes` bytes.
    #[must_use]
    pub fn units_on(&self, bytes: u64) -> u32 {
        let all = u32::try_from(bytes / self.strip()).unwrap_or(u32::MAX);
        all.saturating_sub(self.head_units())
    }

    /// The first byte on a member of place 0 or 1 of its labels.
    #[must_use]
    pub fn label_place(place: usize) -> u64 {
        (place * RAID_PLACE_BYTES) as u64
    }

    /// The first byte on a member of place 0 or 1 of the head of its log.
    #[must_use]
    pub fn log_place(place: usize) -> u64 {
        ((2 + place) * RAID_PLACE_BYTES) as u64
    }

    /// The first byte on a member of a slot of its log. Slots have the length of a row and lie within units.
    #[must_use]
    pub fn slot(&self, slot: u32) -> u64 {
        let (head, row) = (PLACES * RAID_PLACE_BYTES as u64, self.row_bytes());
        let (first, each) = ((self.strip() - head) / row, self.strip() / row);
        match u64::from(slot).checked_sub(first) {
            None => head + u64::from(slot) * row,
            Some(behind) => (1 + behind / each) * self.strip() + behind % each * row,
        }
    }

    /// The member with the parity of a row, if the level has parity. Parity rotates over the members, from row to row
    /// and from unit to unit. So reads of a mirror use both members.
    #[must_use]
    pub fn parity_of(&self, unit: u32, row: u32) -> Option<usize> {
        let members = u64::from(self.members);
        let turn = (u64::from(unit) + u64::from(row)) % members;
        (self.level.parity() > 0).then(|| (members - 1 - turn) as usize)
    }

    /// The member with a piece of a row. Pieces follow the parity and rotate with it.
    #[must_use]
    pub fn member_of(&self, unit: u32, row: u32, piece: usize) -> usize {
        let members = usize::from(self.members);
        match self.parity_of(unit, row) {
            Some(parity) => (parity + 1 + piece) % members,
            None => piece,
        }
    }

    /// The number of a member's piece in a row; `None` for the parity.
    #[must_use]
    pub fn piece_on(&self, unit: u32, row: u32, member: usize) -> Option<usize> {
        let members = usize::from(self.members);
        match self.parity_of(unit, row) {
            Some(parity) if parity == member => None,
            Some(parity) => Some((member + members - parity - 1) % members),
            None => Some(member),
        }
    }

    /// The first byte of a unit on a member.
    #[must_use]
    pub fn unit_start(&self, unit: u32) -> u64 {
        (u64::from(self.head_units()) + u64::from(unit)) * self.strip()
    }

    /// The first byte of a row's piece on its member.
    #[must_use]
    pub fn piece_start(&self, unit: u32, row: u32) -> u64 {
        self.unit_start(unit) + u64::from(row) * u64::from(self.piece)
    }

    /// Bytes of a piece, if the row has `filled` bytes.
    #[must_use]
    pub fn piece_len(&self, filled: u64, piece: usize) -> u64 {
        filled.saturating_sub(piece as u64 * u64::from(self.piece)).min(self.piece.into())
    }

    /// Bytes of a row on a member: data, or its parity.
    #[must_use]
    pub fn len_on(&self, unit: u32, row: u32, member: usize) -> u64 {
        let piece = self.piece_on(unit, row, member).unwrap_or(0);
        self.piece_len(self.row_len(row), piece)
    }

    /// The pieces that contain `bytes` bytes from byte `from` of a unit on, in order.
    pub fn spans(&self, from: u64, bytes: u64) -> impl Iterator<Item = Span> + use<> {
        let (row, piece) = (self.row_bytes(), u64::from(self.piece));
        let (mut at, end) = (from, from + bytes);
        std::iter::from_fn(move || {
            let inside = at % row;
            let length = (piece - inside % piece).min(end - at);
            let span = Span {
                row: (at / row) as u32,
                piece: (inside / piece) as usize,
                from: inside % piece,
                bytes: length,
                before: at - from,
            };
            at += length;
            (length > 0).then_some(span)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(level: RaidLevel, members: usize, unit_blocks: u32) -> RaidShape {
        RaidShape::new(level, members, LogicalBlock::B4096, unit_blocks, 10).expect("it can be")
    }

    #[test]
    fn each_byte_of_a_unit_has_a_place_of_its_own() {
        for (level, members, blocks) in [
            (RaidLevel::Parity, 3, 100),
            (RaidLevel::Parity, 4, 257),
            (RaidLevel::Parity, 5, 2048),
            (RaidLevel::Striped, 2, 100),
            (RaidLevel::Mirrored, 2, 100),
            (RaidLevel::Striped, 3, 129),
        ] {
            let shape = shape(level, members, blocks);
            let mut taken = std::collections::BTreeSet::new();
            for unit in 0..3 {
                for row in 0..shape.rows() {
                    let on = |member| shape.piece_on(unit, row, member);
                    let pieces =
                        (0..members).filter_map(on).collect::<std::collections::BTreeSet<_>>();
                    assert_eq!(pieces.len(), shape.data(), "{shape:?}");
                    if let Some(parity) = shape.parity_of(unit, row) {
                        assert_eq!(on(parity), None);
                    }
                }
                let mut next = 0;
                for span in shape.spans(0, shape.unit_bytes()) {
                    assert_eq!(span.before, next);
                    next += span.bytes;
                    let member = shape.member_of(unit, span.row, span.piece);
                    assert_eq!(shape.piece_on(unit, span.row, member), Some(span.piece));
                    assert_eq!(shape.len_on(unit, span.row, member), span.bytes);
                    let start = shape.piece_start(unit, span.row);
                    assert!(taken.insert((member, start)), "{span:?}");
                    let unit_end = shape.unit_start(unit + 1);
                    assert!(start + span.bytes <= unit_end, "{span:?}");
                }
                assert_eq!(next, shape.unit_bytes());
            }
        }
    }

    #[test]
    fn slots_lie_in_units_and_apart() {
        for (members, blocks) in [(3, 32), (3, 256), (4, 2048), (8, 512), (16, 4096)] {
            let shape = shape(RaidLevel::Parity, members, blocks);
            let mut end = RaidShape::log_place(1) + RAID_PLACE_BYTES as u64;
            for slot in 0..shape.slots {
                let (start, strip) = (shape.slot(slot), shape.strip());
                assert!(start >= end, "{slot} of {shape:?}");
                end = start + shape.row_bytes();
                assert_eq!(start / strip, (end - 1) / strip, "{slot} of {shape:?}");
            }
            assert!(end <= shape.unit_start(0), "{shape:?}");
            assert_eq!(shape.head_units(), ((end - 1) / shape.strip()) as u32 + 1);
        }
    }

    #[test]
    fn parity_goes_round_over_rows_and_units() {
        let shape = shape(RaidLevel::Parity, 3, 256);
        let parities: Vec<_> = (0..4).map(|row| shape.parity_of(0, row).expect("some")).collect();
        assert_eq!(parities, [2, 1, 0, 2]);
        assert_eq!(shape.parity_of(1, 0), Some(1));
        assert_eq!([0, 1].map(|piece| shape.member_of(0, 1, piece)), [2, 0]);
        assert_eq!(shape.member_of(0, 0, 0), 0, "a unit of the group begins on its first member");
    }

    #[test]
    fn a_unit_of_a_mirror_is_one_piece_and_its_copy_at_the_same_place() {
        for (blocks, head) in [(1, 4), (3, 2), (16, 1), ((1 << 20) - 1, 1)] {
            let shape = shape(RaidLevel::Mirrored, 2, blocks);
            let unit = shape.unit_bytes();
            assert_eq!((shape.rows(), shape.strip(), shape.head_units()), (1, unit, head));
            assert!(shape.unit_start(0) > RaidShape::log_place(1));
            assert_eq!([0, 1, 2].map(|unit| shape.parity_of(unit, 0)), [Some(1), Some(0), Some(1)]);
            assert_eq!([0, 1, 2].map(|unit| shape.member_of(unit, 0, 0)), [0, 1, 0]);
            let spans: Vec<Span> = shape.spans(0, unit).collect();
            assert_eq!(spans, [Span { row: 0, piece: 0, from: 0, bytes: unit, before: 0 }]);
        }
    }

    #[test]
    fn what_is_lost_behind_the_last_row_is_little() {
        for (members, blocks) in [(3, 256), (4, 256), (4, 2048), (7, 65_536)] {
            let shape = shape(RaidLevel::Parity, members, blocks);
            let whole = u64::from(shape.rows()) * shape.row_bytes();
            assert!((whole - shape.unit_bytes()) * ROWS < shape.unit_bytes(), "{shape:?}");
        }
        assert_eq!(shape(RaidLevel::Parity, 4, 65_536).piece, 65_536);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let new = |level, members, blocks| {
            RaidShape::new(level, members, LogicalBlock::B4096, blocks, 4).map(|_| ())
        };
        let few = RaidShapeError::Members { members: 2, least: 3, most: 16 };
        assert_eq!(new(RaidLevel::Parity, 2, 256), Err(few));
        let many = RaidShapeError::Members { members: 17, least: 2, most: 16 };
        assert_eq!(new(RaidLevel::Striped, 17, 256), Err(many));
        let pairs = RaidShapeError::Members { members: 3, least: 2, most: 2 };
        assert_eq!(new(RaidLevel::Mirrored, 3, 256), Err(pairs));
        let large = RaidShapeError::LargeUnit { unit: 1 << 32 };
        assert_eq!(new(RaidLevel::Mirrored, 2, 1 << 20), Err(large));
        let small = RaidShapeError::SmallUnit { unit: 65_536, members: 16 };
        assert_eq!(new(RaidLevel::Parity, 16, 16), Err(small));
        let shape = shape(RaidLevel::Parity, 3, 256);
        assert!(shape.is_possible());
        for level in [RaidLevel::Striped, RaidLevel::Mirrored, RaidLevel::Parity] {
            let (members, unit_blocks, piece) = (shape.members, shape.unit_blocks, shape.piece);
            for zero in [(0, unit_blocks, piece), (members, 0, piece), (members, unit_blocks, 0)] {
                let (members, unit_blocks, piece) = zero;
                let empty = RaidShape { level, members, unit_blocks, piece, ..shape };
                assert!(!empty.is_possible(), "{empty:?}");
            }
        }
        let beyond = RaidShape { units: 1 << 24, unit_blocks: u32::MAX, ..shape };
        assert!(!beyond.is_possible(), "no file has so many bytes");
    }
}
