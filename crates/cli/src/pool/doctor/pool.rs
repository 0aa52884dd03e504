//! Checks of the pool on a device, or of the pool that `format` would make.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use thermocline_engine::Config;
use thermocline_format::PoolId;
use thermocline_runtime::opening::{short_of_fast, unused};
use thermocline_runtime::storage::IoEngine;
use thermocline_runtime::{Contents, DeviceKind, GroupKind, GroupStatus, MediaError, Settings};
use thermocline_serve::{FullnessReport, GroupsTold, fetch, status_socket};
use thermocline_types::Bytes;

use super::super::advice::{MORE_FAST, ROOM, risk, told, unused_device, with};
use super::super::open::{Opened, is_in_use, on_trial};
use super::{Finding, device};

/// Findings for the pool in the settings at `path`.
pub fn examine(settings: &Settings, path: &Path) -> Vec<Finding> {
    let there = |group: &Vec<Settings>| group.iter().any(|one| one.device().path.exists());
    // If some device has a pool, an absent device is missing from the pool.
    if !settings.groups().iter().all(there) && !device::has_pool(settings) {
        return planned(settings);
    }
    let error = match on_trial(settings) {
        Ok(pool) => {
            let engine = pool.driver.engine();
            let volumes = engine.volumes();
            let reason = format!(
                "pool {} of format {} opens, with {} volumes, replaying {} chunks",
                engine.pool_id(),
                engine.format_version(),
                volumes.len(),
                pool.replayed.0
            );
            let mut findings = vec![Finding::ok("pool", reason)];
            let aside = unused(settings, &settings.of_pool()).into_iter();
            let remedy = "as it says; the pool does without it";
            findings.extend(aside.map(|path| {
                Finding::warn("devices", unused_device(settings.file(), &path), remedy)
            }));
            findings.extend(sizes(&pool.config, &pool.sizes()));
            let marks = settings.fullness_marks();
            findings.push(room(&FullnessReport::of(&engine.occupancy(), marks)));
            findings.extend(groups(&pool));
            return findings;
        }
        Err(error) => error,
    };
    if is_in_use(&error) {
        return in_use(&status_socket(path));
    }
    match error.downcast_ref() {
        Some(MediaError::NoPool { .. }) => planned(settings),
        _ => {
            let remedy = "as it says";
            vec![Finding::fail("pool", format!("it does not open: {}", told(&error)), remedy)]
        }
    }
}

/// Findings for a locked pool: asks its server by the socket, if a server holds the lock.
fn in_use(socket: &Path) -> Vec<Finding> {
    if UnixStream::connect(socket).is_err() {
        let remedy = "end that process; `fuser` or `lslocks` finds it";
        return vec![Finding::fail("pool", "another process has it locked", remedy)];
    }
    let status = match fetch(socket) {
        Ok(status) => status,
        Err(error) => {
            let remedy = "look at the server, and stop it if it does nothing";
            return vec![Finding::warn(
                "pool",
                format!("it is being served, but {}", told(&error.into())),
                remedy,
            )];
        }
    };
    let mut findings = vec![match status["failure"].as_str() {
        None => {
            let format = &status["format"];
            let reason =
                format!("it is being served, in format {format}; `thermocline stat` tells more");
            Finding::ok("pool", reason)
        }
        Some(failure) => Finding::fail("pool", failure, "see to that, and serve it again"),
    }];
    findings.extend(FullnessReport::deserialize(&status["fullness"]).map(|full| room(&full)));
    let groups = GroupsTold::deserialize(&status).unwrap_or_default();
    findings.extend(groups.all().filter_map(|(kind, standing, _)| {
        let kinds = [GroupKind::Mirror, GroupKind::Striped, GroupKind::Parity];
        let kind = kinds.into_iter().find(|one| one.name() == kind)?;
        Some(group(kind, &standing.name, standing.risk.clone()))
    }));
    findings
}

/// Whether the pool has room for new data.
fn room(fullness: &FullnessReport) -> Finding {
    let reason = fullness.to_string();
    match fullness {
        full if full.is_full() => Finding::fail("room", reason, ROOM),
        full if full.is_normal() => Finding::ok("room", reason),
        _ => Finding::warn("room", reason, ROOM),
    }
}

/// Whether all members of each mirrored pair and striped group are current.
fn groups<S>(pool: &Opened<S>) -> Vec<Finding> {
    let status = pool.groups.iter().map(|(_, group)| group.status());
    let finding = |status: GroupStatus| match status.refusal {
        None => group(status.kind, &status.name, risk(&status)),
        Some(refusal) => {
            let reason = with(&refusal, status.refusal_remedy.as_ref());
            Finding::fail(status.kind.name(), reason, "without that it is not served")
        }
    };
    status.map(finding).collect()
}

/// The finding for a mirrored pair or striped group with this `risk`.
fn group(kind: GroupKind, name: &str, risk: Option<String>) -> Finding {
    let all = if kind == GroupKind::Mirror { "both sides" } else { "all members" };
    match risk {
        None => Finding::ok(kind.name(), format!("{all} of `{name}` are current")),
        Some(risk) => Finding::warn(kind.name(), risk, "`thermocline device list` tells more"),
    }
}

/// Findings for the pool that `format` would make.
fn planned(settings: &Settings) -> Vec<Finding> {
    let mut findings: Vec<Finding> = settings.each_device().map(|one| contents(&one)).collect();
    let config = match plan(settings) {
        Ok(config) => config,
        Err(error) => {
            let reason = format!("none can be made: {}", told(&error));
            findings.push(Finding::fail("volumes", reason, "change the settings as it says"));
            return findings;
        }
    };
    match settings.volume_sizes(&config) {
        Ok(volumes) => {
            let volumes: Vec<u64> = volumes.into_iter().map(|(_, blocks)| blocks).collect();
            findings.extend(sizes(&config, &volumes));
        }
        Err(error) => {
            let remedy = "make the other volumes smaller, or the device larger";
            findings.push(Finding::fail("volumes", error.to_string(), remedy));
        }
    }
    findings
}

/// The finding for a device without a pool that opens.
fn contents(settings: &Settings) -> Finding {
    let contents = match settings.device().path.exists() {
        true => settings.contents(),
        false => Ok(Contents::Nothing),
    };
    let make = "make a pool with `thermocline format`";
    match contents {
        Ok(Contents::Nothing) => Finding::warn("pool", "there is none yet", make),
        Ok(Contents::Pool(pool)) => {
            let reason = format!("there is the pool {pool}, which does not open");
            Finding::fail("pool", reason, "`thermocline check` tells more")
        }
        Ok(Contents::Known(what)) => {
            let reason = format!("there is none, but {what}");
            Finding::warn("pool", reason, "if that is not needed, `thermocline format` replaces it")
        }
        Ok(Contents::Unknown) => {
            let remedy = "if that is not needed, `thermocline format` replaces it";
            Finding::warn("pool", "there is none, but other data", remedy)
        }
        Err(error) => {
            let reason = format!("it cannot be read: {}", told(&error.into()));
            Finding::fail("pool", reason, "check the device")
        }
    }
}

/// The configuration of the pool that `format` would make. Temporary sparse files of the same size take the place of
/// files and conventional devices.
fn plan(settings: &Settings) -> anyhow::Result<Config> {
    let mut trial = settings.clone();
    let mut files = Vec::new();
    for (number, one) in settings.each_device().enumerate() {
        let kind = one.kind();
        if kind == DeviceKind::Zoned {
            continue;
        }
        let device = &mut trial.devices[number];
        if kind != DeviceKind::Simulated {
            device.kind = Some(DeviceKind::File);
            device.size = device.size.or(one.size_found().filter(|size| size.0 > 0));
        }
        device.io = Some(IoEngine::Threads);
        device.direct = Some(false);
        let name = format!("thermocline-doctor-{}-{number}", std::process::id());
        let file = Removed(std::env::temp_dir().join(name));
        device.path.clone_from(&file.0);
        files.push(file);
    }
    Ok(trial.config(trial.new_media(PoolId([1; 16]))?.geometry)?)
}

/// A file that is removed on drop.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // The file may not exist.
        let _none = fs::remove_file(&self.0);
    }
}

/// Compares volume sizes, in blocks, with the pool's capacity, and the maps with available memory.
fn sizes(config: &Config, each: &[u64]) -> [Finding; 2] {
    let all = || each.iter().copied();
    let volumes = Bytes(all().sum::<u64>() * 4096);
    let capacity = Bytes(config.capacity_among(all()) * 4096);
    let reason = format!("volumes have {volumes}, and the pool holds {capacity}");
    let size = match short_of_fast(config, each) {
        Some(short) => Finding::warn("volumes", short, MORE_FAST),
        None if volumes <= capacity => Finding::ok("volumes", reason),
        None => {
            let remedy = "trim what is not needed (`mount -o discard`); when the pool is full, writes get \"no space\"";
            Finding::warn("volumes", reason, remedy)
        }
    };
    let (whole, least) = (config.whole_map_memory(all()), config.least_map_memory(all()));
    let (map, budget) = (Bytes(whole), Bytes(config.map_memory_bytes));
    let beside = beside_maps(config);
    let all = Bytes(map.0.min(budget.0) + beside.0);
    let reason = format!(
        "maps take up to {map}, of which pool.memory allows {budget}; placement and waiting writes take up to {beside} \
         more"
    );
    let memory = match available() {
        _ if Bytes(least) > budget => {
            let remedy =
                format!("raise pool.memory to {} or more, or the pool does not open", Bytes(least));
            Finding::warn("memory", reason, remedy)
        }
        _ if map > budget => {
            let remedy = "raise pool.memory where there is more: pages of maps are read and written again and again";
            Finding::warn("memory", reason, remedy)
        }
        Some(free) if all > free => {
            let remedy = "lower pool.memory, choose another pool.placement such as auto:16, or give the machine more memory";
            Finding::warn("memory", format!("{reason}; {free} are free"), remedy)
        }
        _ => Finding::ok("memory", reason),
    };
    [size, memory]
}

/// Most memory of a pool besides its maps.
fn beside_maps(config: &Config) -> Bytes {
    Bytes(config.most_placement_memory() + config.most_waiting_memory())
}

/// Available memory of the system.
fn available() -> Option<Bytes> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes(kibibytes * 1024))
}
