//! Holders of a file or device, from Linux's `/proc` and `/sys`.

use std::fmt;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::{major, minor};

/// Holder of a file or device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A process locked it.
    Process {
        /// Its number.
        id: u32,
        /// Name of the process, if known.
        name: Option<String>,
    },
    /// The device is mounted on this folder.
    Mount(String),
    /// The device is part of this device of the kernel.
    Device(String),
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Process { id, name: Some(name) } => write!(f, "process {id} ({name}) has it"),
            Holder::Process { id, name: None } => write!(f, "process {id} has it"),
            Holder::Mount(folder) => write!(f, "it is mounted on {folder}"),
            Holder::Device(name) => write!(f, "it is part of the device {name}"),
        }
    }
}

/// Holder of the file at `path`; `None` if unknown.
pub(super) fn of(path: &Path) -> Option<Holder> {
    let found = fs::metadata(path).ok()?;
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let (device, inode) = (found.dev(), found.ino());
    if let Some(id) = locker(&locks, (major(device), minor(device)), inode) {
        let name = fs::read_to_string(format!("/proc/{id}/comm"));
        return Some(Holder::Process { id, name: name.ok().map(|name| name.trim().to_owned()) });
    }
    if !found.file_type().is_block_device() {
        return None;
    }
    let device = (major(found.rdev()), minor(found.rdev()));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let above = format!("/sys/dev/block/{}:{}/holders", device.0, device.1);
    let above = fs::read_dir(above).ok().and_then(|mut names| names.next()?.ok());
    let above = above.map(|name| Holder::Device(name.file_name().to_string_lossy().into_owned()));
    mount(&mounts, device).map(Holder::Mount).or(above)
}

/// The process that locked (`flock(2)`) a file, by the text of `/proc/locks` (`proc_locks(5)`).
fn locker(locks: &str, device: (u32, u32), inode: u64) -> Option<u32> {
    let id = format!("{:02x}:{:02x}:{inode}", device.0, device.1);
    locks.lines().find_map(|line| {
        // Whoever waits for a lock has an arrow before the kind.
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let (&kind, &process, &file) = (words.first()?, words.get(3)?, words.get(4)?);
        (kind == "FLOCK" && file == id).then(|| process.parse().ok()).flatten()
    })
}

/// Where a device is mounted, by the text of `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`).
fn mount(mounts: &str, device: (u32, u32)) -> Option<String> {
    let id = format!("{}:{}", device.0, device.1);
    mounts.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (*words.get(2)? == id).then(|| words.get(4).map(|&folder| folder.to_owned())).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_and_mounts_name_who_has_a_file() {
        let locks = "1: POSIX  ADVISORY  WRITE 3568 fd:00:2531452 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 4711 fe:01:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 4712 fe:01:77 0 EOF\n";
        assert_eq!(locker(locks, (0xFE, 1), 77), Some(4711));
        assert_eq!(locker(locks, (0xFD, 0), 2531452), None, "another kind of lock");
        assert_eq!(locker(locks, (0xFE, 1), 78), None);
        let mounts = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw\n";
        assert_eq!(mount(mounts, (98, 0)).as_deref(), Some("/mnt2"));
        assert_eq!(mount(mounts, (9, 0)), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_locked_file_names_this_process() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert_eq!(of(file.path()), None);
        let how = rustix::fs::FlockOperation::LockExclusive;
        rustix::fs::flock(file.as_file(), how).expect("nobody else has it");
        let found = of(file.path());
        let own = std::process::id();
        assert!(matches!(&found, Some(Holder::Process { id, .. }) if *id == own), "{found:?}");
    }
}
