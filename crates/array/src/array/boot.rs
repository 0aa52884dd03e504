//! Labels and logs, read from members before they are one device.

use std::collections::BTreeMap;

use thermocline_format::{
    PoolId, RAID_PLACE_BYTES, RaidLabel, RaidLog, RaidShape, RowEntry, crc32c,
};
use thermocline_types::{Bytes, Version};

use super::image::exclusive_or;
use super::{Array, Image, Journal, LAST_EVENT, Phase, What};
use crate::bugs::{self, ArrayBug};
use crate::{Command, Fault, Layout, Memory};

/// Reads bytes of a member: its number, the first byte, the number of bytes. `None` if the read fails.
pub type ReadMember<'a> = dyn FnMut(usize, u64, usize) -> Option<Vec<u8>> + 'a;

/// How a member of a group of this shape is divided.
pub fn layout_on(shape: &RaidShape) -> Layout {
    let block = shape.logical_block;
    let per_unit = (shape.strip() / block.bytes() as u64) as u32;
    Layout::contiguous(block, per_unit, shape.member_units())
}

/// The newer label of both places, and its place. With `pool`, a label of another pool does not count.
pub fn newest_label(places: [&[u8]; 2], pool: Option<PoolId>) -> Option<(RaidLabel, usize)> {
    let labels = places.map(|bytes| RaidLabel::decode(bytes, pool).ok());
    let found = labels.into_iter().enumerate().filter_map(|(place, label)| Some((label?, place)));
    found.max_by_key(|(label, _)| label.event)
}

/// Partial rows in the logs of all members.
#[derive(Debug)]
pub struct Rows {
    pub(super) journals: Vec<Journal>,
    /// Partial rows, by unit and row.
    pub(super) left: BTreeMap<(u32, u32), Image>,
}

/// Reads the logs of a group with this label, and keeps the entries that are true.
pub fn find_rows(
    label: &RaidLabel,
    read: &mut ReadMember<'_>,
    holds: &dyn Fn(usize, u32) -> bool,
) -> Rows {
    let shape = label.shape;
    let (mut journals, mut left) = (Vec::new(), BTreeMap::new());
    if !shape.level.has_log() {
        journals.extend((0..shape.members).map(|_| Journal::new(shape.slots)));
        return Rows { journals, left };
    }
    for member in 0..usize::from(shape.members) {
        let heads = [0, 1].map(|place| {
            let bytes = read(member, RaidShape::log_place(place), RAID_PLACE_BYTES)?;
            let head = RaidLog::decode(&bytes, label.pool, &shape).ok();
            head.filter(|head| (head.group, usize::from(head.member)) == (label.group, member))
                .filter(|head| head.round <= LAST_EVENT)
        });
        let newest = usize::from(round(&heads[1]) > round(&heads[0]));
        let counts = label.open && label.is_current(member);
        let rows = heads[newest].as_ref().filter(|_| counts).map_or(&[][..], |head| &head.rows);
        let mut found = Vec::new();
        // A member that lacks the unit has an outdated log.
        let held = |entry: &&RowEntry| holds(member, entry.unit) || bugs::has(ArrayBug::StaleLog);
        for entry in rows.iter().filter(held) {
            let older = heads[1 - newest].iter().flat_map(|head| &head.rows);
            let older = older.filter(|one| (one.unit, one.row) == (entry.unit, entry.row));
            let all = std::iter::once(entry).chain(older);
            let true_one = all.into_iter().find_map(|entry| {
                let image = image(&shape, member, entry, read, holds)?;
                Some((entry, image))
            });
            if let Some((entry, image)) = true_one {
                left.insert((entry.unit, entry.row), image);
                found.push(entry.clone());
            }
        }
        journals.push(Journal::found(shape.slots, newest, round(&heads[newest]), found));
    }
    Rows { journals, left }
}

fn round(head: &Option<RaidLog>) -> u64 {
    head.as_ref().map_or(0, |head| head.round)
}

/// The row of a log entry, if the data of the members agrees with the checksums. One member may be wrong: the log then
/// gives its piece. Otherwise the entry is void: the crash came before the flush of the log.
fn image(
    shape: &RaidShape,
    member: usize,
    entry: &RowEntry,
    read: &mut ReadMember<'_>,
    holds: &dyn Fn(usize, u32) -> bool,
) -> Option<Image> {
    let RowEntry { slot, unit, row, filled, ref crcs } = *entry;
    let running = read(member, shape.slot(slot), filled as usize);
    let mut pieces = Vec::new();
    for piece in 0..crcs.len() {
        let bytes = shape.piece_len(filled.into(), piece) as usize;
        let (own, at) = (shape.member_of(unit, row, piece), shape.piece_start(unit, row));
        let there = if holds(own, unit) && bytes > 0 { read(own, at, bytes) } else { None };
        pieces.push((bytes, there));
    }
    let (running, mut image) = (running?, Image::new(shape));
    let is_right = |data: &[u8], crc| crc32c(data) == crc || bugs::has(ArrayBug::LogUnchecked);
    let mut wrong = 0;
    for (piece, ((bytes, there), crc)) in pieces.into_iter().zip(crcs).enumerate() {
        let logged = || from_running(&running, shape.piece as usize, piece, bytes);
        wrong += usize::from(there.as_ref().is_some_and(|data| !is_right(data, *crc)));
        let data = there.filter(|data| is_right(data, *crc)).unwrap_or_else(logged);
        let mended = wrong == 0 || !bugs::has(ArrayBug::WrongPieceEndsLog);
        if wrong > 1 || !mended || !is_right(&data, *crc) {
            return None;
        }
        image.append(&data);
    }
    Some(image)
}

/// Computes the first `bytes` bytes of a piece from the running parity of its row. A byte of data is the exclusive or
/// of two bytes of running parity, a piece apart.
fn from_running(running: &[u8], piece_bytes: usize, piece: usize, bytes: usize) -> Vec<u8> {
    // Without bytes of this piece, `running` may end before `start`.
    if bytes == 0 {
        return Vec::new();
    }
    let start = piece * piece_bytes;
    let mut data = running[start..][..bytes].to_vec();
    if let Some(before) = start.checked_sub(piece_bytes) {
        exclusive_or(&mut data, &running[before..]);
    }
    data
}

impl Rows {
    /// Bytes of one piece of a unit, from byte `from` on, as the group would read them.
    pub fn look(
        &self,
        label: &RaidLabel,
        unit: u32,
        from: u64,
        bytes: usize,
        read: &mut ReadMember<'_>,
        holds: &dyn Fn(usize, u32) -> bool,
    ) -> Option<Vec<u8>> {
        let shape = label.shape;
        let span = shape.spans(from, bytes as u64).next()?;
        let member = shape.member_of(unit, span.row, span.piece);
        let at = shape.piece_start(unit, span.row) + span.from;
        let there = if holds(member, unit) { read(member, at, bytes) } else { None };
        there.or_else(|| {
            let inside = span.piece as u64 * u64::from(shape.piece) + span.from;
            let image = self.left.get(&(unit, span.row));
            if let Some(image) = image.filter(|image| image.filled() >= inside + bytes as u64) {
                let mut all = vec![0; bytes];
                image.read(inside, &mut all);
                return Some(all);
            }
            let mut all = vec![0; bytes];
            for other in (0..usize::from(shape.members)).filter(|&other| other != member) {
                let counts = shape.len_on(unit, span.row, other).saturating_sub(span.from);
                let others = read(other, at, bytes).filter(|_| holds(other, unit))?;
                exclusive_or(&mut all, &others[..bytes.min(counts as usize)]);
            }
            (shape.level.parity() > 0).then_some(all)
        })
    }
}

/// Bytes of a member: its number, the first byte, the number of bytes.
type Place = (usize, u64, usize);

/// Bytes of the logs, read before an array begins. The logs name further places to read. So the search starts again
/// with all bytes so far, until no place is missing.
#[derive(Debug)]
pub(super) struct Looking<B> {
    found: BTreeMap<Place, Option<Vec<u8>>>,
    /// Reads under way.
    under_way: Vec<(Place, B)>,
    waits: usize,
}

impl<B> Default for Looking<B> {
    fn default() -> Self {
        Looking { found: BTreeMap::new(), under_way: Vec::new(), waits: 0 }
    }
}

impl<M: Memory> Array<M> {
    /// Reads the places that the search misses, or starts the array if the search is complete.
    pub(super) fn look(&mut self) {
        let Phase::Looking(looking) = &mut self.phase else { return };
        let mut missed = Vec::new();
        let mut read = |member: usize, at: u64, bytes: usize| {
            let place = (member, at, bytes);
            if !self.members[member].there {
                return None;
            }
            looking.found.get(&place).cloned().unwrap_or_else(|| {
                missed.push(place);
                None
            })
        };
        let (members, rebuild) = (&self.members, &self.rebuild);
        let holds = |member: usize, unit| super::holds(&members[member], rebuild, unit);
        let rows = find_rows(&self.label, &mut read, &holds);
        if missed.is_empty() {
            return self.begin_with(rows);
        }
        looking.waits = missed.len();
        looking.under_way =
            missed.into_iter().map(|place| (place, self.memory.room(place.2))).collect();
        let all: Vec<_> = looking.under_way.clone();
        for (number, ((member, at, _), into)) in all.into_iter().enumerate() {
            let command = Command::Read { at: Bytes(at), into, version: Version::AS_READ };
            self.hand(member, What::Looking(number), command);
        }
    }

    pub(super) fn looked(&mut self, number: usize, result: Result<(), Fault>) {
        let Phase::Looking(looking) = &mut self.phase else { return };
        let (place, buffer) = &looking.under_way[number];
        let bytes = result.ok().map(|()| M::read(buffer, <[u8]>::to_vec));
        looking.found.insert(*place, bytes);
        looking.waits -= 1;
        if looking.waits == 0 {
            self.look();
        }
    }
}
