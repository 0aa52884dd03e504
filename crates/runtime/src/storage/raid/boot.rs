//! What is read of members before they are one storage: labels, and the rows that their logs have.

use std::collections::BTreeMap;

use thermocline_format::{
    PoolId, RAID_PLACE_BYTES, RaidLabel, RaidLog, RaidShape, RowEntry, crc32c,
};
use thermocline_types::{Bytes, Class, DeviceId};

use super::super::bugs::{self, Bug};
use super::super::group::LAST_EVENT;
use super::super::{Command, Fault, Layout, Storage, Token};
use super::image::exclusive_or;
use super::{Image, Journal};
use crate::Buffer;

/// A member as it is found.
pub struct FoundMember {
    /// Where its units are.
    pub storage: Box<dyn Storage>,
    /// In which of its places its newest label is.
    pub place: usize,
}

/// Reads bytes of a member, by its number, from a byte on; `None` if that cannot be.
pub(crate) type ReadMember<'a> = dyn FnMut(usize, u64, usize) -> Option<Vec<u8>> + 'a;

/// How a member of a group of this shape is divided.
pub(crate) fn layout_on(shape: &RaidShape) -> Layout {
    let block = shape.logical_block;
    let per_unit = (shape.strip() / block.bytes() as u64) as u32;
    Layout::contiguous(block, per_unit, shape.member_units())
}

/// The newer of the labels in the bytes of both places, and in which of them it is; of `pool`, where that is known.
pub(crate) fn newest_label(places: [&[u8]; 2], pool: Option<PoolId>) -> Option<(RaidLabel, usize)> {
    let labels = places.map(|bytes| RaidLabel::decode(bytes, pool).ok());
    let found = labels.into_iter().enumerate().filter_map(|(place, label)| Some((label?, place)));
    found.max_by_key(|(label, _)| label.event)
}

/// The newest label on a storage, and in which place it is; of `pool`, where that is known. `None` if there is none.
///
/// # Errors
/// [`Fault`] when it cannot be read.
pub(crate) fn find(
    storage: &mut dyn Storage,
    pool: Option<PoolId>,
) -> Result<Option<(RaidLabel, usize)>, Fault> {
    let one = read(storage, RaidShape::label_place(0), RAID_PLACE_BYTES)?;
    let other = read(storage, RaidShape::label_place(1), RAID_PLACE_BYTES)?;
    Ok(newest_label([&one, &other], pool))
}

/// Makes this the only label of a member, durably, and its log empty.
///
/// # Errors
/// [`Fault`] when it cannot be written.
pub(crate) fn write_label(storage: &mut dyn Storage, label: &RaidLabel) -> Result<(), Fault> {
    erase(storage)?;
    write(storage, RaidShape::label_place(0), &label.encode())
}

/// Makes this the newest label of a member, durably, and leaves its log alone.
///
/// # Errors
/// [`Fault`] when it cannot be written.
pub(crate) fn relabel(storage: &mut dyn Storage, label: &RaidLabel) -> Result<(), Fault> {
    let newest = find(storage, None)?.map_or(1, |(_, place)| place);
    write(storage, RaidShape::label_place(1 - newest), &label.encode())
}

/// Makes a storage no member of any group, durably.
///
/// # Errors
/// [`Fault`] when it cannot be written.
pub(crate) fn erase(storage: &mut dyn Storage) -> Result<(), Fault> {
    let zeros = [0; RAID_PLACE_BYTES];
    for place in [0, 1] {
        write(storage, RaidShape::log_place(place), &zeros)?;
    }
    // The newer label the last: until then, this is a member.
    let newest = find(storage, None)?.map_or(0, |(_, place)| place);
    for place in [1 - newest, newest] {
        write(storage, RaidShape::label_place(place), &zeros)?;
    }
    Ok(())
}

fn write(storage: &mut dyn Storage, at: u64, bytes: &[u8]) -> Result<(), Fault> {
    let parts = vec![Buffer::new(thermocline_target::Buffer::from_bytes(bytes))];
    carry_out(storage, Command::Write { at: Bytes(at), parts, class: Class(0) })?;
    carry_out(storage, Command::Flush(DeviceId(0)))
}

fn read(storage: &mut dyn Storage, at: u64, bytes: usize) -> Result<Vec<u8>, Fault> {
    let into = Buffer::new(thermocline_target::Buffer::zeroed(bytes));
    carry_out(storage, Command::Read { at: Bytes(at), into: into.clone() })?;
    Ok(into.read().to_vec())
}

/// Carries out a command on a storage that nobody else uses, and waits for its end.
fn carry_out(storage: &mut dyn Storage, command: Command) -> Result<(), Fault> {
    storage.submit(Token(0), command);
    let mut done = Vec::new();
    while done.is_empty() {
        storage.reap(None, &mut done);
    }
    done.remove(0).result
}

/// What the logs of members have.
pub(crate) struct Rows {
    pub(super) journals: Vec<Journal>,
    /// Rows that were not full, by unit and row.
    pub(super) left: BTreeMap<(u32, u32), Image>,
}

impl Rows {
    /// What storages have.
    pub(super) fn read(
        label: &RaidLabel,
        storages: &mut [Option<FoundMember>],
        holds: &dyn Fn(usize, u32) -> bool,
    ) -> Rows {
        let mut member = |member: usize, at: u64, bytes: usize| {
            let found = storages[member].as_mut()?;
            read(&mut *found.storage, at, bytes).ok()
        };
        find_rows(label, &mut member, holds)
    }
}

/// What the logs of members of a group with this label have, as far as it is true.
pub(crate) fn find_rows(
    label: &RaidLabel,
    read: &mut ReadMember<'_>,
    holds: &dyn Fn(usize, u32) -> bool,
) -> Rows {
    let shape = label.shape;
    let (mut journals, mut left) = (Vec::new(), BTreeMap::new());
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
        for entry in rows {
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

/// The row that a log has, if that is what the members have as well: if not, a crash came before its flush.
fn image(
    shape: &RaidShape,
    member: usize,
    entry: &RowEntry,
    read: &mut ReadMember<'_>,
    holds: &dyn Fn(usize, u32) -> bool,
) -> Option<Image> {
    let RowEntry { slot, unit, row, filled, ref crcs } = *entry;
    let running = read(member, shape.slot(slot), filled as usize)?;
    let mut image = Image::new(shape);
    for (piece, crc) in crcs.iter().enumerate() {
        let bytes = shape.piece_len(filled.into(), piece) as usize;
        let (own, at) = (shape.member_of(unit, row, piece), shape.piece_start(unit, row));
        let there = if holds(own, unit) && bytes > 0 { read(own, at, bytes) } else { None };
        let data =
            there.unwrap_or_else(|| from_running(&running, shape.piece as usize, piece, bytes));
        if crc32c(&data) != *crc && !bugs::has(Bug::LogUnchecked) {
            return None;
        }
        image.append(&data);
    }
    Some(image)
}

/// The first `bytes` of a piece of a row of which `running` is the running parity, as far as the row is filled: what it
/// has there, without what it has a piece before.
fn from_running(running: &[u8], piece_bytes: usize, piece: usize, bytes: usize) -> Vec<u8> {
    // Where the row has nothing of the piece, it may have nothing of the one before.
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
    pub(crate) fn look(
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
