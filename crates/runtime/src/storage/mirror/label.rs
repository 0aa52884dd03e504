//! Where the labels of a pair are, and how they are read before it is one storage.

use thermocline_format::{MirrorLabel, PoolId};
use thermocline_types::{Bytes, Class, DeviceId, UnitId};

use super::super::{Command, Fault, Layout, Storage, Token};
use crate::Buffer;

/// Units behind those of the pool that labels take, on each side of a pair with `units` units of `unit` bytes.
pub(crate) fn label_units(units: u32, unit: Bytes) -> u32 {
    (2 * MirrorLabel::bytes(units) as u64).div_ceil(unit.0) as u32
}

/// The first byte of a label behind `units` units.
pub(super) fn place(layout: &Layout, units: u32, place: usize) -> Bytes {
    layout.start(UnitId(units)) + Bytes((place * MirrorLabel::bytes(units)) as u64)
}

/// The newest label on a side whose pair has `units` units, and in which place it is; of `pool`, where that is known.
/// `None` if there is none.
///
/// # Errors
/// [`Fault`] when it cannot be read.
pub(crate) fn read_label(
    storage: &mut dyn Storage,
    units: u32,
    pool: Option<PoolId>,
) -> Result<Option<(MirrorLabel, usize)>, Fault> {
    let mut newest: Option<(MirrorLabel, usize)> = None;
    for index in 0..2 {
        let into = Buffer::new(thermocline_target::Buffer::zeroed(MirrorLabel::bytes(units)));
        let at = place(storage.layout(), units, index);
        carry_out(storage, Command::read(at, into.clone()))?;
        let label = MirrorLabel::decode(&into.read(), pool).ok();
        let label = label.filter(|label| label.lacking.len() == units as usize);
        let newer =
            |label: &MirrorLabel| newest.as_ref().is_none_or(|(one, _)| one.event < label.event);
        newest = label.filter(newer).map(|label| (label, index)).or(newest);
    }
    Ok(newest)
}

/// Makes this the only label of a side, durably; it is in place 0.
///
/// # Errors
/// [`Fault`] when it cannot be written.
pub(crate) fn write_label(storage: &mut dyn Storage, label: &MirrorLabel) -> Result<(), Fault> {
    let bytes = label.encode();
    for (index, bytes) in [(1, &vec![0; bytes.len()]), (0, &bytes)] {
        let at = place(storage.layout(), label.lacking.len() as u32, index);
        let parts = vec![Buffer::new(thermocline_target::Buffer::from_bytes(bytes))];
        carry_out(storage, Command::Write { at, parts, class: Class(0) })?;
        carry_out(storage, Command::Flush(DeviceId(0)))?;
    }
    Ok(())
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
