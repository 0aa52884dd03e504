//! Statistics of simulated drives, under a pool or without one.

use std::collections::BTreeMap;

use serde::Serialize;
use thermocline_format::{VolumeMedia, VolumeName};
use thermocline_nand::Counters;
use thermocline_record::waterfall::{CAPACITY, Level, Waterfall};
use thermocline_runtime::{BareDrive, BareVolume, Operation, ServedLayer};
use thermocline_target::BlockTarget as _;

use crate::FullnessReport;
use crate::state::{
    Causes, EngineStatus, LimitStatus, Status, VolumeStatus, ratio, request_status,
};

/// Bytes through all drives since the service began.
#[derive(Serialize)]
pub struct DriveStatus {
    /// Bytes written to the drives, including the groups' parity, parity log, labels and member filling.
    pub drive_bytes_written: u64,
    /// Bytes programmed to media: the sum over all causes.
    pub media_bytes_written: u64,
    pub media_by_cause: BTreeMap<&'static str, u64>,
    /// Bytes of erased units.
    pub media_bytes_erased: u64,
    /// Media bytes over bytes written to the drives.
    pub dlwa: Option<f64>,
}

impl DriveStatus {
    /// Status from `counters`.
    pub fn new(counters: &Counters) -> DriveStatus {
        DriveStatus {
            drive_bytes_written: counters.host_written,
            media_bytes_written: counters.media_total,
            media_by_cause: counters.by_cause().map(|(cause, n)| (cause.name(), n)).collect(),
            media_bytes_erased: counters.erased,
            dlwa: ratio(counters.media_total, counters.host_written),
        }
    }
}

/// The status of a drive without a pool; `None` when it has stopped. `service` has the part of server and clients.
///
/// The volumes fill the drive from the start. The bytes of hosts are those of the drive.
pub fn status(
    drive: &BareDrive,
    layer: ServedLayer,
    service: impl Fn(&[VolumeName]) -> Status,
) -> Option<Status> {
    let counters = drive.counters()?;
    let names: Vec<VolumeName> = drive.volumes().iter().map(BareVolume::name).collect();
    let of_drive = DriveStatus::new(&counters);
    let (host, size) = (counters.host_written, drive.capacity().0);
    let causes = of_drive.media_by_cause.iter().map(|(cause, n)| ((*cause).to_owned(), *n));
    let levels = vec![
        Level::devices(CAPACITY, &BTreeMap::from([("host".to_owned(), host)])),
        Level::media(CAPACITY, &causes.collect()),
    ];
    Some(Status {
        pool: layer.name().to_owned(),
        volumes: drive.volumes().iter().map(volume_status).collect(),
        engine: EngineStatus {
            host_bytes_written: host,
            host_bytes_read: counters.host_read,
            device_bytes_written: host,
            alwa: ratio(host, host),
            by_cause: Causes { host, ..Causes::default() },
            mapped_bytes: size,
            capacity_bytes: size,
            ..EngineStatus::default()
        },
        waf: ratio(counters.media_total, host),
        waterfall: Waterfall { host, absorbed: 0, levels },
        fullness: FullnessReport::of_drive(size),
        drive: Some(of_drive),
        ..service(&names)
    })
}

fn volume_status(volume: &BareVolume) -> VolumeStatus {
    let (size, requests) = (volume.info().size.0, volume.traffic());
    let written = requests.bytes[Operation::Write as usize];
    VolumeStatus {
        id: volume.id().0,
        name: volume.name().to_string(),
        size_bytes: size,
        mapped_bytes: size,
        reserve_bytes: size,
        media: VolumeMedia::Auto.name(),
        clone_of: None,
        limits: LimitStatus { share: 1, iops: None, bandwidth_bytes: None },
        waiting: 0,
        host_bytes_written: written,
        absorbed_bytes: 0,
        device_bytes_written: written,
        relocated_bytes: 0,
        destaged_bytes: 0,
        alwa: ratio(written, written),
        requests: request_status(&requests),
    }
}
