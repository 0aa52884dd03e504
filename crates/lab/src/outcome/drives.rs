//! Several drives side by side: what went through each.

use thermocline_nand::{BusyTimes, Counters, Drive, HostLimits};
use thermocline_record::DriveBytes;
use thermocline_types::Time;

use super::{Outcome, media};
use crate::Error;
use crate::stack::DriveArray;

/// What a drive had done when measurement began.
pub struct Before {
    /// How long its resources had been busy, where time is modelled.
    pub busy: Option<BusyTimes>,
    /// Bytes through each of several drives side by side.
    pub each: Vec<Counters>,
    /// How long heat had held it back.
    pub throttled: Time,
}

impl Before {
    /// What `drive` has done by now.
    pub fn of(drive: &Drive) -> Before {
        let each = drive.side_by_side().iter().map(Drive::counters).collect();
        let throttled = drive.warmth().map_or(Time::ZERO, |warmth| warmth.throttled);
        Before { busy: drive.busy(), each, throttled }
    }
}

/// Bytes through each of several drives while it was measured; empty for a single drive.
///
/// # Errors
/// [`Error::Accounting`] when the bytes of a drive do not add up.
pub fn each(outcome: &Outcome) -> Result<Vec<DriveBytes>, Error> {
    let drives = outcome.drive.side_by_side().iter().zip(&outcome.before.each);
    let bytes = |(drive, before): (&Drive, &Counters)| {
        let run = drive.counters().since(before);
        run.check().map_err(Error::Accounting)?;
        Ok(DriveBytes {
            device_bytes_written: run.host_written,
            device_bytes_read: run.host_read,
            media_bytes_written: media(&run),
        })
    };
    drives.map(bytes).collect()
}

/// Explains which figures are for all drives together and which for one drive.
pub fn note(outcome: &Outcome) -> Option<String> {
    if let Some(group) = outcome.stack.group() {
        return Some(format!(
            "the log has a {group} of {} drives as one device; sizes and bytes are those of all drives, life is that \
             of one, and bytes of each are in the record",
            group.members
        ));
    }
    let DriveArray { count, host } = outcome.stack.array?;
    let HostLimits { stripe, threads, cpu_us, link_mb_per_s } = host;
    let link = link_mb_per_s.map_or("without a limit".into(), |rate| format!("of {rate} MB/s"));
    Some(format!(
        "{count} drives side by side in stripes of {stripe}, threads of the host: {threads}, {cpu_us} us for each request \
         to a drive, a host link {link}; sizes and bytes are those of all drives, life is that of one, bytes of each are \
         in the record"
    ))
}
