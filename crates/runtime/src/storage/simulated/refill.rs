//! What a simulated drive holds when its file is opened again.
//!
//! The file is all that is kept. What was reset is a hole in it, and the rest was written: in zones up to the write
//! pointer, for the last block of a finished zone is written as well.

use std::ops::Range;

use rustix::io::Errno;
use thermocline_nand::{Drive, DriveError, ZoneError, Zoned};
use thermocline_types::{Bytes, Op, Request, StreamId, TenantId, Time};

use super::super::File;

/// Bytes that are handed to a drive at once. Chosen, not measured.
const PIECE: u64 = 1 << 20;

/// Why a drive does not hold what its file does.
#[derive(Debug, thiserror::Error)]
pub(super) enum RefillError {
    #[error(transparent)]
    File(#[from] Errno),
    #[error(transparent)]
    Drive(#[from] DriveError),
}

/// Writes to a fresh `drive` what is in `file`, one after the other.
pub(super) fn refill(drive: &mut Drive, file: &File) -> Result<(), RefillError> {
    if let Drive::Zoned(zones) = drive {
        return refill_zones(zones, file);
    }
    let end = drive.cut().capacity().0;
    let mut from = 0;
    while let Some(data) = file.next_data(from..end)? {
        for piece in data.clone().step_by(PIECE as usize) {
            let length = Bytes(PIECE.min(data.end - piece));
            drive.submit(Time::ZERO, &write(Bytes(piece), length), 0)?;
        }
        from = data.end;
    }
    // Finish background work, as on an idle drive.
    drive.drain()?;
    Ok(())
}

fn write(offset: Bytes, length: Bytes) -> Request {
    Request {
        at: Time::ZERO,
        offset,
        length,
        tenant: TenantId(0),
        stream: StreamId::UNKNOWN,
        op: Op::Write,
        outstanding: None,
    }
}

fn refill_zones(drive: &mut Zoned, file: &File) -> Result<(), RefillError> {
    let capacity = drive.zone(0).capacity;
    let mut partly = Vec::new();
    for zone in 0..drive.zones() {
        let start = drive.zone(zone).start;
        let written = Bytes(end_of_data(file, start.0..(start + capacity).0)? - start.0);
        if written == capacity {
            drive.write(Time::ZERO, start, written)?;
        } else if written > Bytes::ZERO {
            partly.push((zone, start, written));
        }
    }
    // The drive was killed before it could write the end of a zone that it had finished, if there are too many.
    let mut closed = Vec::new();
    for (zone, start, written) in partly {
        while let Err(error) = drive.write(Time::ZERO, start, written) {
            let too_many = ZoneError::TooManyActive;
            let is_that = matches!(error, DriveError::Zone { error, .. } if error == too_many);
            match closed.pop() {
                Some(other) if is_that => drive.finish(other)?,
                _ => return Err(error.into()),
            }
        }
        drive.close(zone)?;
        closed.push(zone);
    }
    Ok(())
}

/// End of the last data in `range`; the start of `range` without data.
fn end_of_data(file: &File, range: Range<u64>) -> Result<u64, Errno> {
    let mut end = range.start;
    while let Some(data) = file.next_data(end..range.end)? {
        end = data.end;
    }
    Ok(end)
}
