//! Several drives side by side: what went through each.

use thermocline_ftl::HandleAccount;
use thermocline_nand::{BusyTimes, Counters, Drive, HostLimits};
use thermocline_record::{DriveBytes, HandleFigures};
use thermocline_types::Time;

use super::{Outcome, media};
use crate::Error;
use crate::meter::ratio;
use crate::stack::DriveArray;

/// What a drive had done when measurement began.
pub struct Before {
    /// How long its resources had been busy, where time is modelled.
    pub busy: Option<BusyTimes>,
    /// Bytes through each of several drives side by side.
    pub each: Vec<Counters>,
    /// How long heat had held it back.
    pub throttled: Time,
    /// What was written and copied by placement handle.
    pub handles: Vec<HandleAccount>,
}

impl Before {
    /// What `drive` has done by now.
    pub fn of(drive: &Drive) -> Before {
        let each = drive.side_by_side().iter().map(Drive::counters).collect();
        let throttled = drive.warmth().map_or(Time::ZERO, |warmth| warmth.throttled);
        let handles = drive.handle_accounts().to_vec();
        Before { busy: drive.busy(), each, throttled, handles }
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

/// Bytes by placement handle while the drive was measured, of handles that were written with or whose data was copied.
pub fn handles(outcome: &Outcome) -> Vec<HandleFigures> {
    let unit = outcome.drive.cut().mapping_unit;
    let accounts = outcome.drive.handle_accounts().iter().zip(&outcome.before.handles);
    let figures = accounts.zip(0..).map(|((now, before), handle)| {
        let [host, copied] = [now.host - before.host, now.copied - before.copied];
        let own = now.copied_by_own - before.copied_by_own;
        let of_others = now.copied_of_others - before.copied_of_others;
        let bytes = |blocks: f64| (blocks * unit.as_f64()).round() as u64;
        let (relocated, by_own) = (copied * unit.0, bytes(own).min(copied * unit.0));
        HandleFigures {
            handle,
            host_bytes_programmed: host * unit.0,
            bytes_relocated: relocated,
            bytes_relocated_by_own: by_own,
            bytes_relocated_by_others: relocated - by_own,
            bytes_relocated_of_others: bytes(of_others),
            waf: ratio(host + copied, host),
        }
    });
    figures.filter(|one| one.host_bytes_programmed + one.bytes_relocated > 0).collect()
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
