//! Drives of this machine.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;

use crate::admin;
use crate::pages::{DrivePages, PagesError};

/// Why a drive could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// It cannot be opened.
    #[error("cannot be opened: {0}")]
    Open(io::Error),
    /// Reading log pages needs CAP_SYS_ADMIN.
    #[error("log pages may not be read: permission denied")]
    Denied,
    /// It is no block device of a drive and no controller.
    #[error("is no drive")]
    NotDrive,
    /// The drive refused, or the kernel failed.
    #[error("{0}")]
    Nvme(PagesError),
    /// It is no NVMe drive, and there is no program `smartctl`.
    #[error("is no NVMe drive, and smartctl, which reads others, is not installed")]
    NoSmartctl,
    /// What smartctl says.
    #[error("smartctl: {0}")]
    Smartctl(String),
}

impl From<PagesError> for LiveError {
    fn from(error: PagesError) -> LiveError {
        match error {
            PagesError::Kernel(Errno::ACCESS | Errno::PERM) => LiveError::Denied,
            other => LiveError::Nvme(other),
        }
    }
}

/// Whether `path` is a device rather than a record in a file.
#[must_use]
pub fn is_device(path: &Path) -> bool {
    let kind = fs::metadata(path).map(|found| found.file_type());
    kind.is_ok_and(|kind| kind.is_block_device() || kind.is_char_device())
}

/// The pages of the NVMe drive at `path`: a controller, a namespace or a partition.
///
/// # Errors
/// [`LiveError`]; `ENOTTY` of other devices.
pub fn pages(path: &Path) -> Result<DrivePages, LiveError> {
    let device = open(path)?;
    let namespace = admin::namespace(&device).ok();
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let submit = |command: &_, data: &mut [u8]| admin::submit(&device, command, data);
    Ok(DrivePages::read(namespace, seconds, &submit)?)
}

/// A record of the drive at `path`, for [`crate::HealthReading::recorded`]: the pages of an NVMe drive, or what
/// smartctl prints of others as JSON.
///
/// # Errors
/// [`LiveError`].
pub fn record(path: &Path) -> Result<Vec<u8>, LiveError> {
    match pages(path) {
        Ok(pages) => Ok(pages.record().into_bytes()),
        Err(LiveError::Nvme(PagesError::Kernel(
            Errno::NOTTY | Errno::INVAL | Errno::OPNOTSUPP | Errno::NODEV,
        ))) => smartctl(path),
        Err(error) => Err(error),
    }
}

fn open(path: &Path) -> Result<File, LiveError> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| {
        match error.kind() {
            io::ErrorKind::PermissionDenied => LiveError::Denied,
            _ => LiveError::Open(error),
        }
    })
}

fn smartctl(path: &Path) -> Result<Vec<u8>, LiveError> {
    let found = fs::metadata(path).map_err(LiveError::Open)?;
    let number = found.rdev();
    let folder =
        format!("/sys/dev/block/{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    // Loop devices, device mapper and RAID are virtual, and have no counters.
    let is_real =
        fs::canonicalize(folder).is_ok_and(|real| !real.starts_with("/sys/devices/virtual"));
    if !found.file_type().is_block_device() || !is_real {
        return Err(LiveError::NotDrive);
    }
    let done = Command::new("smartctl").args(["-j", "-x"]).arg(path).output();
    let done = done.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => LiveError::NoSmartctl,
        _ => LiveError::Smartctl(error.to_string()),
    })?;
    // Bits 0 and 1 of the exit code: wrong arguments, and a device that cannot be opened.
    match done.status.code() {
        Some(code) if code & 3 == 0 => Ok(done.stdout),
        _ => Err(LiveError::Smartctl(message(&done.stdout))),
    }
}

/// The first message in the JSON of smartctl.
fn message(stdout: &[u8]) -> String {
    let json: serde_json::Value = serde_json::from_slice(stdout).unwrap_or_default();
    let text = json["smartctl"]["messages"][0]["string"].as_str();
    text.unwrap_or("it failed without a message").to_owned()
}

/// A drive that the system lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedDrive {
    /// Path of the controller, or of the disk.
    pub path: PathBuf,
    /// Model, where it is told.
    pub model: Option<String>,
    /// Serial number, where it is told.
    pub serial: Option<String>,
}

/// Every NVMe controller and SATA disk below `/sys`, by name.
#[must_use]
pub fn list() -> Vec<ListedDrive> {
    list_in(Path::new("/sys"))
}

fn list_in(sys: &Path) -> Vec<ListedDrive> {
    let names = |folder: &str| {
        let entries = fs::read_dir(sys.join(folder)).into_iter().flatten().flatten();
        let mut names: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        names.sort();
        names
    };
    let drive = |folder: &Path, facts: &Path| {
        let text = |name: &str| {
            let text = fs::read_to_string(facts.join(name)).ok()?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let path = Path::new("/dev").join(folder.file_name().unwrap_or_default());
        ListedDrive { path, model: text("model"), serial: text("serial") }
    };
    let nvme = names("class/nvme").into_iter().map(|folder| drive(&folder, &folder));
    let is_sata = |folder: &PathBuf| {
        let vendor = fs::read_to_string(folder.join("device/vendor"));
        vendor.is_ok_and(|vendor| vendor.trim() == "ATA")
    };
    let sata = names("block").into_iter().filter(is_sata);
    nvme.chain(sata.map(|folder| drive(&folder, &folder.join("device")))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_are_no_drives_are_told_from_drives() {
        assert!(is_device(Path::new("/dev/null")) && !is_device(Path::new("Cargo.toml")));
        assert!(matches!(record(Path::new("/dev/null")), Err(LiveError::NotDrive)));
        assert!(matches!(record(Path::new("/dev/none")), Err(LiveError::Open(_))));
        let text = br#"{"smartctl": {"messages": [{"string": "Unable to detect"}]}}"#;
        assert_eq!(message(text), "Unable to detect");
        let denied = LiveError::from(PagesError::Kernel(Errno::ACCESS));
        assert!(matches!(denied, LiveError::Denied));
    }

    #[test]
    fn controllers_and_sata_disks_are_listed() {
        let sys = std::env::temp_dir().join(format!("thermocline-sys-{}", std::process::id()));
        for (file, text) in [
            ("class/nvme/nvme1/model", "B\n"),
            ("class/nvme/nvme0/model", "A \n"),
            ("class/nvme/nvme0/serial", "S0\n"),
            ("block/sda/device/vendor", "ATA     \n"),
            ("block/sda/device/model", "C\n"),
            ("block/sdb/device/vendor", "USB\n"),
            ("block/nvme0n1/size", "1\n"),
        ] {
            let file = sys.join(file);
            fs::create_dir_all(file.parent().expect("a folder")).expect("writable");
            fs::write(file, text).expect("writable");
        }
        let found = list_in(&sys);
        fs::remove_dir_all(&sys).expect("it is ours");
        let shown: Vec<_> = found.iter().map(|one| one.path.to_str().expect("text")).collect();
        assert_eq!(shown, ["/dev/nvme0", "/dev/nvme1", "/dev/sda"]);
        assert_eq!(
            (found[0].model.as_deref(), found[0].serial.as_deref()),
            (Some("A"), Some("S0"))
        );
        assert_eq!(found[2].model.as_deref(), Some("C"));
    }
}
