//! The file or device of a pool.

use std::fs::{self, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, OFlags, access, major, minor, statvfs};
use thermocline_runtime::{Contents, DeviceKind, Settings};
use thermocline_types::Bytes;

use super::Finding;

/// Findings about the devices, without the pool.
pub fn examine(settings: &Settings) -> Vec<Finding> {
    let is_made = has_pool(settings);
    settings.each_device().flat_map(|one| examine_one(&one, is_made)).collect()
}

/// Whether any device has a pool.
pub fn has_pool(settings: &Settings) -> bool {
    settings.each_device().any(|one| matches!(one.contents(), Ok(Contents::Pool(_))))
}

/// Findings for one device. `is_made`: some device has a pool.
fn examine_one(settings: &Settings, is_made: bool) -> Vec<Finding> {
    let path = &settings.device().path;
    let shown = path.display();
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return missing(settings, is_made),
        Err(error) => {
            let reason = format!("{shown} cannot be looked at: {error}");
            return vec![Finding::fail("device", reason, "check device.path and its folders")];
        }
    };
    let is_block = found.file_type().is_block_device();
    if !found.is_file() && !is_block {
        let reason = format!("{shown} is no file and no block device");
        return vec![Finding::fail("device", reason, "set device.path to one that is")];
    }
    let wants_block = matches!(settings.kind(), DeviceKind::Block | DeviceKind::Zoned);
    if wants_block && !is_block {
        let reason = format!("{shown} is a file, and device.kind says otherwise");
        return vec![Finding::fail("device", reason, "remove device.kind, or correct device.path")];
    }
    let what = match settings.kind() {
        DeviceKind::File => "a file",
        DeviceKind::Block => "a block device",
        DeviceKind::Zoned => "a zoned block device",
        DeviceKind::Simulated => "the data of a simulated drive",
    };
    let size = settings.size_found();
    let has = size.map_or("unknown size".to_owned(), |size| size.to_string());
    let mut findings = vec![Finding::ok("device", format!("{shown} is {what} of {has}"))];
    if let (true, Some(has), Some(stated)) = (is_block, size, settings.device().size)
        && stated > has
    {
        let reason = format!("device.size is {stated}, and the device has {has}");
        findings.push(Finding::fail("size", reason, "lower device.size, or leave it out"));
    }
    findings.push(access_to(path));
    findings.push(used_by(path, &found));
    findings.push(direct(settings, is_block));
    if !is_block {
        findings.extend(readable_by_others(path, &found));
        let allocated = Bytes(found.blocks() * 512);
        findings.push(space(settings, size.unwrap_or_default(), allocated));
    }
    findings
}

/// Whether other users of the machine can read or write the bytes of all volumes.
fn readable_by_others(path: &Path, found: &Metadata) -> Option<Finding> {
    let shown = path.display();
    let reason = format!("other users can read {shown}, and with it all volumes");
    (found.mode() & 0o006 != 0)
        .then(|| Finding::warn("mode", reason, format!("`chmod 600 {shown}`")))
}

/// Findings for a missing path.
fn missing(settings: &Settings, is_made: bool) -> Vec<Finding> {
    let path = &settings.device().path;
    let shown = path.display();
    if matches!(settings.kind(), DeviceKind::Block | DeviceKind::Zoned) {
        let reason = format!("there is no {shown}");
        return vec![Finding::fail("device", reason, "check device.path and the cabling")];
    }
    if let Some((kind, name)) = settings.device().group() {
        let (kind, member) = (kind.name(), kind.member());
        let reason = format!("there is no {shown}, which is to be a {member} of {kind} `{name}`");
        let remedy = match is_made {
            true => {
                "bring it back; if it is lost, a new device in its place and `thermocline device replace`"
            }
            false => "`thermocline format` makes it",
        };
        return vec![Finding::warn("device", reason, remedy)];
    }
    if is_made {
        let reason = format!("there is no {shown}, and other devices have a pool");
        let remedy = "bring it back; if it is new, `thermocline device attach`; if it is lost, `thermocline check` tells more";
        return vec![Finding::fail("device", reason, remedy)];
    }
    let folder = folder_of(path);
    if access(&folder, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        let reason = format!("there is no {shown}, and none can be made in {}", folder.display());
        return vec![Finding::fail("device", reason, "make the folder, writable for this user")];
    }
    let made = format!("{shown} is not there yet; `thermocline format` makes it");
    let mut findings = vec![Finding::ok("device", made)];
    if settings.device().size.is_some() {
        findings.push(space(settings, Bytes(0), Bytes(0)));
    }
    findings
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn access_to(path: &Path) -> Finding {
    match OpenOptions::new().read(true).write(true).open(path) {
        Ok(_) => Finding::ok("access", "it can be read and written"),
        Err(error) => {
            let remedy = "run as a user who may, or change the owner or mode of the device";
            Finding::fail("access", format!("it cannot be opened to write: {error}"), remedy)
        }
    }
}

/// Whether another user than a pool has the device.
fn used_by(path: &Path, found: &Metadata) -> Finding {
    let user = match found.file_type().is_block_device() {
        true => user_of_device(path, found.rdev()),
        false => user_of_file(path),
    };
    match user {
        None => Finding::ok("use", "no file system, swap, loop or other device uses it"),
        Some(user) => {
            let remedy = "take another device, or unmount it if its content is not needed";
            Finding::fail("use", format!("it is in use: {user}"), remedy)
        }
    }
}

fn user_of_device(path: &Path, device: u64) -> Option<String> {
    let folder = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    let folder = Path::new(&folder);
    let mut numbers = vec![format!("{}:{}", major(device), minor(device))];
    // Partitions are subfolders with their own device numbers.
    for inside in fs::read_dir(folder).into_iter().flatten().flatten() {
        let number = fs::read_to_string(inside.path().join("dev"));
        numbers.extend(number.ok().map(|number| number.trim().to_owned()));
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if let Some(at) = mounted_at(&mounts, &numbers) {
        return Some(format!("mounted on {at}"));
    }
    let holders = fs::read_dir(folder.join("holders")).into_iter().flatten().flatten();
    if let Some(holder) = holders.map(|one| one.file_name()).next() {
        return Some(format!("part of {}", holder.to_string_lossy()));
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let path = path.canonicalize().ok()?;
    let is_swap = swaps.lines().any(|line| line.split(' ').next() == path.to_str());
    is_swap.then(|| "swap".to_owned())
}

/// The mount point of a device with one of these numbers, from the text of `proc_pid_mountinfo(5)`.
fn mounted_at<'a>(mounts: &'a str, numbers: &[String]) -> Option<&'a str> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let number = words.nth(2)?;
        let at = words.nth(1)?;
        numbers.iter().any(|one| one == number).then_some(at)
    })
}

/// The loop device backed by a file.
fn user_of_file(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    devices.into_iter().find_map(|device| {
        let behind = fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
        let same = Path::new(behind.trim_end()) == path;
        same.then(|| format!("behind {}", device.file_name().to_string_lossy()))
    })
}

/// Whether transfers can bypass the system's cache.
fn direct(settings: &Settings, is_block: bool) -> Finding {
    if !settings.device().direct.unwrap_or(is_block) {
        return Finding::ok("O_DIRECT", "not asked for: transfers go through the system's cache");
    }
    let mut how = OpenOptions::new();
    how.read(true).custom_flags(OFlags::DIRECT.bits() as i32);
    match how.open(&settings.device().path) {
        Ok(_) => Finding::ok("O_DIRECT", "transfers go past the system's cache"),
        Err(error) => Finding::fail(
            "O_DIRECT",
            format!("transfers cannot go past the system's cache: {error}"),
            "set device.direct = false, or take another file system",
        ),
    }
}

/// Whether the file system has room for the unallocated part of the file.
fn space(settings: &Settings, size: Bytes, allocated: Bytes) -> Finding {
    let folder = folder_of(&settings.device().path);
    let Ok(system) = statvfs(&folder) else {
        let reason = format!("the file system of {} does not say", folder.display());
        return Finding::warn("space", reason, "make sure that there is room for the whole file");
    };
    let free = Bytes(system.f_bavail * system.f_frsize);
    let size = settings.device().size.map_or(size, |stated| Bytes(stated.0.max(size.0)));
    let missing = Bytes(size.0.saturating_sub(allocated.0));
    let reason = format!("the file may grow by {missing}; its file system has {free} left");
    if missing <= free {
        Finding::ok("space", reason)
    } else {
        let remedy = "free space, or lower device.size: when it runs out, the pool takes no write";
        Finding::warn("space", reason, remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_number() {
        let mounts =
            "22 1 254:0 / / rw - ext4 /dev/vda rw\n30 22 8:1 / /mnt/a rw - xfs /dev/sda1 rw\n";
        let numbers = ["8:0".to_owned(), "8:1".to_owned()];
        assert_eq!(mounted_at(mounts, &numbers), Some("/mnt/a"));
        assert_eq!(mounted_at(mounts, &numbers[..1]), None);
    }
}
