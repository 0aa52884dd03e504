//! Real drives under a pool: host and media bytes since the service began, by their log pages.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use thermocline_drive::{DriveFigure, DriveSampler, HealthReading, Wear, metrics};

use crate::state::ratio;

/// Time that a status waits for the drives. Later answers are for the next status.
const PATIENCE: Duration = Duration::from_millis(500);

/// A drive since the service began. It counts writes of all its users.
#[derive(Clone, Serialize, Deserialize)]
pub struct RealDriveStatus {
    /// Path of the device, as in the settings.
    pub device: String,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Bytes of all hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_bytes_written: Option<u64>,
    /// Bytes of the media.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_bytes_written: Option<u64>,
    /// Media bytes over host bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dlwa: Option<f64>,
    /// Log page of the media bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// The reason for unknown media bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl fmt::Display for RealDriveStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "drive {}: ", self.device)?;
        match (self.dlwa, &self.page, &self.reason) {
            (Some(dlwa), Some(page), _) => {
                write!(f, "DLWA {dlwa:.3} since the service began, by {page}")
            }
            (_, _, reason) => {
                write!(f, "DLWA unknown: {}", reason.as_deref().unwrap_or("no reading yet"))
            }
        }
    }
}

/// All drives under a pool.
#[derive(Clone, Default, Serialize)]
pub struct RealDrivesStatus {
    pub drives: Vec<RealDriveStatus>,
    /// Bytes of hosts and of the media, of all drives; absent if a drive is unknown. Partitions of a drive count once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_bytes_written: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_bytes_written: Option<u64>,
    pub dlwa: Option<f64>,
    /// Metrics of the drives, as Prometheus reads them.
    #[serde(skip)]
    pub metrics: String,
}

/// The drives under a pool. Clones share their readings.
#[derive(Clone, Default)]
pub struct RealDrives {
    watched: Arc<Mutex<Vec<Watched>>>,
    told: Arc<Mutex<RealDrivesStatus>>,
}

struct Watched {
    sampler: DriveSampler,
    first: Option<HealthReading>,
}

impl RealDrives {
    /// Status of the drives at `paths`; `None` without one. A thread looks at the drives: one that hangs holds up no
    /// client.
    pub fn status(
        &self,
        paths: impl FnOnce() -> Vec<PathBuf> + Send + 'static,
    ) -> Option<RealDrivesStatus> {
        let (done, ended) = mpsc::channel();
        let this = self.clone();
        let read = move || {
            // Another thread reads already.
            let Ok(mut watched) = this.watched.try_lock() else { return };
            let told = sample(&mut watched, &paths());
            *this.told.lock().unwrap_or_else(PoisonError::into_inner) = told;
            // Before the answer: the next status reads anew.
            drop(watched);
            // The status may have waited long enough.
            let _ = done.send(());
        };
        // Without a thread the last readings are told.
        let _ = thread::Builder::new().name("thermocline-drives".to_owned()).spawn(read);
        // A disconnect is as good: the other thread ends soon.
        let _ = ended.recv_timeout(PATIENCE);
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (!told.drives.is_empty()).then_some(told)
    }
}

fn sample(watched: &mut Vec<Watched>, paths: &[PathBuf]) -> RealDrivesStatus {
    watched.retain(|one| paths.iter().any(|path| path == one.sampler.path()));
    for path in paths {
        if !watched.iter().any(|one| one.sampler.path() == path) {
            watched.push(Watched { sampler: DriveSampler::new(path), first: None });
        }
    }
    let now = Instant::now();
    let readings: Vec<(PathBuf, Result<HealthReading, String>)> = watched
        .iter_mut()
        .map(|one| {
            let path = one.sampler.path().to_owned();
            (path, one.sampler.reading(now).cloned().map_err(str::to_owned))
        })
        .collect();
    let told = watched.iter_mut().zip(&readings).map(|(one, (path, reading))| match reading {
        Ok(last) => status(path, one.first.get_or_insert_with(|| last.clone()), last),
        Err(reason) => unknown(path, reason.clone()),
    });
    let drives: Vec<RealDriveStatus> = told.collect();
    let readings: Vec<(&Path, Option<&HealthReading>)> =
        readings.iter().map(|(path, reading)| (path.as_path(), reading.as_ref().ok())).collect();
    let (host, media) = sums(&drives).unzip();
    RealDrivesStatus {
        host_bytes_written: host,
        media_bytes_written: media,
        dlwa: host.zip(media).and_then(|(host, media)| ratio(media, host)),
        metrics: metrics(&readings),
        drives,
    }
}

fn unknown(path: &Path, reason: String) -> RealDriveStatus {
    RealDriveStatus {
        device: path.display().to_string(),
        serial: None,
        host_bytes_written: None,
        media_bytes_written: None,
        dlwa: None,
        page: None,
        reason: Some(reason),
    }
}

/// The drive between two readings.
fn status(path: &Path, first: &HealthReading, last: &HealthReading) -> RealDriveStatus {
    let serial = last.serial.clone();
    if let Some(waf) = Wear::of(Some(first), last).waf {
        return RealDriveStatus {
            serial,
            host_bytes_written: Some(waf.host_bytes),
            media_bytes_written: Some(waf.media_bytes),
            dlwa: Some(waf.value),
            page: Some(waf.media.to_string()),
            reason: None,
            ..unknown(path, String::new())
        };
    }
    if let Some(media) = last.counter(DriveFigure::MediaWritten) {
        return RealDriveStatus {
            serial,
            host_bytes_written: Some(0),
            media_bytes_written: Some(0),
            page: Some(media.page.to_string()),
            ..unknown(path, "hosts wrote nothing since the service began".to_owned())
        };
    }
    let refused = last.untold.iter().map(|one| format!("; {one}")).collect::<String>();
    RealDriveStatus { serial, ..unknown(path, format!("no page has media bytes{refused}")) }
}

/// Bytes of hosts and of the media, of all drives; `None` if a drive is unknown. Partitions of a drive count once.
fn sums(drives: &[RealDriveStatus]) -> Option<(u64, u64)> {
    let mut seen = BTreeSet::new();
    let (mut host, mut media) = (0, 0);
    for one in drives {
        if one.serial.is_some() && !seen.insert(&one.serial) {
            continue;
        }
        host += one.host_bytes_written?;
        media += one.media_bytes_written?;
    }
    Some((host, media))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(host: u64, media: u64) -> HealthReading {
        let text = format!("{{\"sn\": \"S1\", \"hbmw\": {host}, \"mbmw\": {media}}}");
        HealthReading::recorded(text.as_bytes()).expect("counters")
    }

    #[test]
    fn a_drive_tells_what_came_since_the_service_began_and_its_page() {
        let told = status(Path::new("/dev/x"), &reading(100, 1000), &reading(300, 1500));
        assert_eq!((told.host_bytes_written, told.media_bytes_written), (Some(200), Some(500)));
        assert_eq!((told.dlwa, told.reason.as_deref()), (Some(2.5), None));
        assert_eq!(told.page.as_deref(), Some("FDP statistics, page 22h"));
        let idle = status(Path::new("/dev/x"), &reading(100, 1000), &reading(100, 1000));
        assert_eq!((idle.dlwa, idle.host_bytes_written), (None, Some(0)));
        let line = "drive /dev/x: DLWA 2.500 since the service began, by FDP statistics, page 22h";
        assert_eq!(told.to_string(), line);
        assert!(
            idle.to_string().ends_with("DLWA unknown: hosts wrote nothing since the service began")
        );
        assert_eq!(sums(&[told.clone(), told.clone()]), Some((200, 500)), "one serial number");
        assert_eq!(sums(&[told, unknown(Path::new("/dev/y"), String::new())]), None);
    }

    #[test]
    fn a_drive_without_media_bytes_has_a_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let health = folder.path().join("health.txt");
        std::fs::write(&health, "Data Units Written: 5\n").expect("writable");
        let none = folder.path().join("none");
        let drives = RealDrives::default();
        let told = drives.status(move || vec![health, none]).expect("two paths");
        let reasons: Vec<_> = told.drives.iter().filter_map(|one| one.reason.as_deref()).collect();
        assert_eq!(reasons[0], "no page has media bytes");
        assert!(reasons[1].starts_with("cannot be read"));
        assert_eq!(told.dlwa, None);
        assert!(told.metrics.contains("thermocline_drive_host_written_bytes_total"));
        assert!(drives.status(Vec::new).is_none());
    }
}
