//! The units that a superblock record lists: sorting keeps each unit to few bytes.

use thermocline_types::UnitId;

use crate::error::{ErrorKind, require};
use crate::geometry::Geometry;
use crate::id::{Generation, Location};

/// A listed unit: the unit holds, or may later hold, chunks from the checkpoint on. Unlisted units hold no such chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenUnit {
    /// Where its first chunk from the checkpoint on would begin: block 0 if the unit is reserved, to be opened later.
    pub next: Location,
    /// Its generation; for a reserved unit, its future generation.
    pub generation: Generation,
}

/// Bytes of one number at most.
const NUMBER_BYTES: usize = 10;

/// Bytes of a listed unit at least.
pub(super) const LEAST_BYTES: usize = 3;

/// Most bytes of `units` listed units: 5 for a block, 9 for a generation, and 2 for a unit. At most 1,023 units can lie
/// 2^14 or more behind their predecessor, and at most 7 units 2^21 or more: a pool has 2^24 units.
pub(super) const fn most_bytes(units: usize) -> usize {
    let far = if units < 1023 { units } else { 1023 };
    let farthest = if units < 7 { units } else { 7 };
    16 * units + far + farthest
}

/// Appends `units`, which rise, have places within units, and generations below `next`.
pub(super) fn encode(units: &[OpenUnit], next: Generation, out: &mut Vec<u8>) {
    let mut least = 0;
    for open in units {
        let unit = open.next.unit.0;
        put(u64::from(unit - least), out);
        put(u64::from(open.next.block), out);
        put(next.0 - open.generation.0, out);
        least = unit + 1;
    }
}

/// Takes `count` units off the front of `bytes`.
pub(super) fn decode(
    bytes: &mut &[u8],
    count: usize,
    next: Generation,
    geometry: &Geometry,
) -> Result<Vec<OpenUnit>, ErrorKind> {
    let mut units = Vec::with_capacity(count);
    let mut least = 0;
    for _ in 0..count {
        let unit = take(bytes)?.saturating_add(least);
        let inside = unit < u64::from(geometry.units());
        require(inside, "open unit", unit, "outside the pool")?;
        let block = take(bytes)?;
        let inside = block <= u64::from(geometry.blocks_per_unit());
        require(inside, "block of an open unit", block, "outside the pool")?;
        let age = take(bytes)?;
        let rule = "not 1 to below the next generation";
        require(age > 0 && age < next.0, "age of an open unit", age, rule)?;
        let next_place = Location { unit: UnitId(unit as u32), block: block as u32 };
        units.push(OpenUnit { next: next_place, generation: Generation(next.0 - age) });
        least = unit + 1;
    }
    Ok(units)
}

/// Appends seven bits in each byte, the lowest first; the highest bit says that more follow.
fn put(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number off the front of `bytes`, which has as few bytes as [`put`] would give it.
fn take(bytes: &mut &[u8]) -> Result<u64, ErrorKind> {
    let ends = bytes.iter().take(NUMBER_BYTES).position(|byte| byte & 0x80 == 0);
    let rule = "a number does not end";
    let Some(last) = ends else {
        return Err(ErrorKind::Impossible {
            field: "listed units",
            found: NUMBER_BYTES as u64,
            rule,
        });
    };
    let (number, rest) = bytes.split_at(last + 1);
    let top = number[last];
    require(last == 0 || top != 0, "listed units", 0, "a number has more bytes than it needs")?;
    require(
        last < NUMBER_BYTES - 1 || top == 1,
        "listed units",
        top.into(),
        "a number is 2^64 or more",
    )?;
    *bytes = rest;
    Ok(number.iter().rev().fold(0, |sum, byte| sum << 7 | u64::from(byte & 0x7F)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(number: u64) -> (usize, Result<u64, ErrorKind>) {
        let mut out = Vec::new();
        put(number, &mut out);
        let mut rest = &out[..];
        (out.len(), take(&mut rest))
    }

    #[test]
    fn numbers_come_back_from_as_few_bytes_as_they_need() {
        for bits in 0..64 {
            let bytes = bits / 7 + 1;
            assert_eq!(back(1 << bits), (bytes, Ok(1 << bits)));
            let most = u64::MAX >> (63 - bits);
            assert_eq!(back(most), (bytes, Ok(most)));
        }
        assert_eq!(back(0), (1, Ok(0)));
    }

    #[test]
    fn a_number_is_refused_that_goes_on_or_has_more_bytes_than_it_needs() {
        let refused = |bytes: &[u8]| take(&mut &*bytes).is_err();
        assert!(refused(&[]));
        assert!(refused(&[0x80]));
        assert!(refused(&[0x80, 0]));
        assert!(refused(&[0xFF; 10]));
        let beyond = [&[0xFF; 9][..], &[2]].concat();
        assert!(refused(&beyond));
    }

    #[test]
    fn units_take_no_more_bytes_than_is_promised() {
        let next = Generation(1 << 63);
        let unit =
            |unit| OpenUnit { next: Location::new(unit, u32::MAX), generation: Generation(1) };
        let far = (1..=7).map(|nth| nth * ((1 << 21) + 1));
        let nearer = (1..=120).map(|nth| 7 * ((1 << 21) + 1) + nth * ((1 << 14) + 1));
        let units: Vec<OpenUnit> = far.chain(nearer).map(unit).collect();
        let mut out = Vec::new();
        encode(&units, next, &mut out);
        assert_eq!(out.len(), 7 * 18 + 120 * 17);
        assert_eq!(out.len(), most_bytes(units.len()));
    }
}
