//! Labels of members, read and written while no other command is under way.

use thermocline_array::newest_label;
use thermocline_format::{PoolId, RAID_PLACE_BYTES, RaidLabel, RaidShape};
use thermocline_types::{Bytes, Class, DeviceId};

use super::super::{Command, Fault, Storage, Token};
use crate::Buffer;

/// The newest label on a storage, and its place; `None` without a label. With `pool`, labels of other pools do not
/// count.
///
/// # Errors
/// [`Fault`] if the read fails.
pub(crate) fn find(
    storage: &mut dyn Storage,
    pool: Option<PoolId>,
) -> Result<Option<(RaidLabel, usize)>, Fault> {
    let one = read(storage, RaidShape::label_place(0), RAID_PLACE_BYTES)?;
    let other = read(storage, RaidShape::label_place(1), RAID_PLACE_BYTES)?;
    Ok(newest_label([&one, &other], pool))
}

/// Clears the labels and the log of a member, and writes this label, durably.
///
/// # Errors
/// [`Fault`] if a write fails.
pub(crate) fn write_label(storage: &mut dyn Storage, label: &RaidLabel) -> Result<(), Fault> {
    erase(storage)?;
    write(storage, RaidShape::label_place(0), &label.encode())
}

/// Writes this label as the newest label of a member, durably, and keeps the log.
///
/// # Errors
/// [`Fault`] if a write fails.
pub(crate) fn relabel(storage: &mut dyn Storage, label: &RaidLabel) -> Result<(), Fault> {
    let newest = find(storage, None)?.map_or(1, |(_, place)| place);
    write(storage, RaidShape::label_place(1 - newest), &label.encode())
}

/// Clears the labels and the log of a storage, durably.
///
/// # Errors
/// [`Fault`] if a write fails.
pub(crate) fn erase(storage: &mut dyn Storage) -> Result<(), Fault> {
    let zeros = [0; RAID_PLACE_BYTES];
    for place in [0, 1] {
        write(storage, RaidShape::log_place(place), &zeros)?;
    }
    // The newer label is cleared last: until then the storage is a member.
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
    carry_out(storage, Command::read(Bytes(at), into.clone()))?;
    Ok(into.read().to_vec())
}

/// Carries out a command on an otherwise unused storage, and waits for its end.
fn carry_out(storage: &mut dyn Storage, command: Command) -> Result<(), Fault> {
    storage.submit(Token(0), command);
    let mut done = Vec::new();
    while done.is_empty() {
        storage.reap(None, &mut done);
    }
    done.remove(0).result
}
