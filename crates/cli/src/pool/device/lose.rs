//! `thermocline device lose`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Serialize;
use thermocline_engine::{Extent, HostError, Notice};
use thermocline_runtime::storage::Storage;
use thermocline_runtime::{DeviceChange, Driver};
use thermocline_types::Bytes;

use super::super::open::{Advised as _, broken, to_change, without_on_trial};
use super::super::print;
use super::LoseArgs;
use super::change::Named;
use crate::progress::Progress;

/// How often progress is shown.
const TICK: Duration = Duration::from_millis(100);

/// Ticks without progress or device commands after which the search for lost blocks fails. Chosen.
const IDLE: u32 = 50;

/// Most ranges of a volume in the table. Chosen: more do not fit on a screen.
const SHOWN: usize = 10;

/// A range of adjacent lost blocks of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LostRange {
    /// Bytes from the beginning of the volume.
    pub offset: u64,
    pub bytes: u64,
}

#[derive(Serialize)]
pub struct LostVolume {
    pub name: String,
    pub bytes: u64,
    pub ranges: Vec<LostRange>,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    device: String,
    /// Whether the device has left the pool. Otherwise the pool is unchanged.
    done: bool,
    bytes: u64,
    volumes: Vec<LostVolume>,
}

impl LostVolume {
    /// The first `SHOWN` ranges as text. `what` describes the ranges.
    pub fn listed(&self, what: &str) -> String {
        let LostVolume { name, bytes, ranges } = self;
        let (bytes, count) = (Bytes(*bytes), ranges.len());
        let mut text = format!("volume `{name}`: {bytes} in {count} ranges are {what}\n");
        for LostRange { offset, bytes } in ranges.iter().take(SHOWN) {
            text += &format!("  {} from byte {offset}\n", Bytes(*bytes));
        }
        if count > SHOWN {
            text += &format!("  and {} more (--json has all)\n", count - SHOWN);
        }
        text
    }
}

/// `thermocline device lose`.
pub fn lose(args: &LoseArgs) -> anyhow::Result<ExitCode> {
    let Named { settings, path } = Named::load(&args.device)?;
    let device = path.display().to_string();
    match args.yes_destroy.as_deref() {
        None => {}
        Some(named) if named == device => {}
        Some(other) => bail!("--yes-destroy names `{other}`, which is not {device}"),
    }
    let done = args.yes_destroy.is_some();
    let (volumes, left) = if done {
        let mut pool = to_change(&settings, &path, DeviceChange::Lose, args.despite_loss)?;
        let volumes = lost_of(&mut pool.driver)?;
        let detach = || to_change(&settings, &path, DeviceChange::Detach, false)?.close();
        (volumes, pool.close().and_then(|()| detach()))
    } else {
        (lost_of(&mut without_on_trial(&settings, &path, args.despite_loss)?.driver)?, Ok(()))
    };
    let bytes = volumes.iter().map(|volume| volume.bytes).sum();
    let report = Report { schema: "thermocline.lost/1", device, done, bytes, volumes };
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
    } else {
        print(&text(&report, args))?;
    }
    left.with_context(|| format!("{} is given up all the same", report.device))?;
    Ok(ExitCode::from(u8::from(!done)))
}

/// Runs the engine until all lost ranges are known.
fn lost_of<S: Storage>(driver: &mut Driver<S>) -> anyhow::Result<Vec<LostVolume>> {
    let bar = Progress::default().bar("lose");
    let (mut found, mut ended, mut idle) = (BTreeMap::new(), Vec::new(), 0);
    while let Some(share) = driver.engine().losing() {
        bar.set(share);
        driver.poll(Some(TICK), &mut ended);
        let same = driver.engine().losing() == Some(share);
        idle = if same && driver.device().is_idle() { idle + 1 } else { 0 };
        if driver.notices().contains(&Notice::Failed) || idle > IDLE {
            return Err(broken(driver, HostError::Failed).into());
        }
        collect(driver, &mut found);
    }
    collect(driver, &mut found);
    let volumes = driver.engine().volumes();
    let named = |(id, ranges): (u32, Vec<LostRange>)| {
        let volume = volumes.iter().find(|volume| volume.id.0 == id);
        let name = volume.map_or_else(|| format!("volume {id}"), |one| one.name.to_string());
        LostVolume { name, bytes: ranges.iter().map(|range| range.bytes).sum(), ranges }
    };
    Ok(found.into_iter().map(named).collect())
}

/// Adds new notices of lost blocks, by volume. The engine scans each volume from the first block to the last.
fn collect<S: Storage>(driver: &mut Driver<S>, found: &mut BTreeMap<u32, Vec<LostRange>>) {
    for notice in driver.notices() {
        let Notice::Lost { extent } = notice else { continue };
        let Extent { volume, lba, blocks } = extent;
        let (offset, bytes) = (lba * Bytes::BLOCK.0, blocks * Bytes::BLOCK.0);
        let ranges = found.entry(volume.0).or_default();
        match ranges.last_mut() {
            Some(last) if last.offset + last.bytes == offset => last.bytes += bytes,
            _ => ranges.push(LostRange { offset, bytes }),
        }
    }
    driver.clear_notices();
}

fn text(report: &Report, args: &LoseArgs) -> String {
    let Report { device, volumes, .. } = report;
    let settings = args.device.settings.display();
    let despite = if args.despite_loss { " --despite-loss" } else { "" };
    let mut text: String = volumes.iter().map(|volume| volume.listed("lost")).collect();
    if volumes.is_empty() {
        text += &format!("nothing is only on {device}\n");
    }
    text + &match report.done {
        true => format!(
            "{device} has left the pool; what is lost reads as errors until it is written again or trimmed\ntake it out of \
             {settings}\n"
        ),
        false => format!(
            "nothing was changed; to go on without it, say `thermocline device lose {settings} {device}{despite} \
             --yes-destroy {device}`\n"
        ),
    }
}
