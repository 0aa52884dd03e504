//! Where readings come from: drives of this machine, and records.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use thermocline_drive::{self as drive, HealthReading, LiveError};
use thermocline_types::Bytes;

/// Whether `path` stands for standard input.
pub fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// The record at `path`: of a drive, read now, or in a file.
///
/// # Errors
/// When it cannot be read, with a remedy.
pub fn record(path: &Path) -> anyhow::Result<Vec<u8>> {
    if is_stdin(path) {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
        return Ok(bytes);
    }
    if path.is_dir() {
        bail!(
            "{} is a folder: name a drive, such as /dev/nvme0, or a record of one",
            path.display()
        );
    }
    if !drive::is_device(path) {
        return std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    }
    drive::record(path)
        .map_err(|error| anyhow::anyhow!("{} {error}{}", path.display(), remedy(&error)))
}

/// What the user can do, as the end of a sentence; empty if nothing is known.
fn remedy(error: &LiveError) -> &'static str {
    match error {
        LiveError::Denied => ": run as root, or give the program CAP_SYS_ADMIN",
        LiveError::NotDrive => ": name a drive that `thermocline drive list` lists",
        LiveError::NoSmartctl => ": install smartmontools",
        LiveError::Open(_) | LiveError::Nvme(_) | LiveError::Smartctl(_) => "",
    }
}

/// The reading of the record at `path`.
///
/// # Errors
/// As [`record`], or when the record has no known counter.
pub fn reading(path: &Path) -> anyhow::Result<HealthReading> {
    let bytes = record(path)?;
    let name = if is_stdin(path) { "standard input".into() } else { path.display().to_string() };
    HealthReading::recorded(&bytes).map_err(|error| anyhow::anyhow!("{name} {error}"))
}

/// Bytes in the decimal units of data sheets.
pub fn decimal(bytes: f64) -> String {
    let units = [("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6)];
    let unit = units.into_iter().find(|(_, size)| bytes >= *size);
    unit.map_or_else(
        || Bytes(bytes as u64).to_string(),
        |(unit, size)| format!("{:.2} {unit}", bytes / size),
    )
}

/// Reads a time such as 500ms, 10s, 5m or 1h.
///
/// # Errors
/// For clap: when `text` has no unit, or is out of bounds.
pub fn interval(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];
    let part = |(unit, millis): &(&str, u64)| {
        text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(*millis)
    };
    let millis = units.iter().find_map(part).filter(|millis| (100..=86_400_000).contains(millis));
    let error = || format!("`{text}` is no time from 100ms to 24h, such as 10s");
    millis.map(Duration::from_millis).ok_or_else(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_a_unit_and_bounds() {
        assert_eq!(interval("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(interval("2m"), Ok(Duration::from_secs(120)));
        assert!(["10", "s", "0s", "25h", "-1s"].iter().all(|text| interval(text).is_err()));
    }

    #[test]
    fn what_is_no_drive_is_told_with_a_remedy() {
        let told = |path: &str| record(Path::new(path)).expect_err("no drive").to_string();
        assert!(told("/dev/null").ends_with("name a drive that `thermocline drive list` lists"));
        assert!(told("/").starts_with("/ is a folder"));
        assert_eq!(told("/none"), "cannot read /none");
    }
}
