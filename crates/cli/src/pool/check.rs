//! `thermocline check`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::ensure;
use clap::Args;
use serde::Serialize;
use thermocline_engine::{Extent, HostError, HostRequest, MAX_IO_BLOCKS, VolumeInfo};
use thermocline_runtime::storage::Storage;
use thermocline_runtime::{Buffer, Driver, DriverError, Settings};
use thermocline_serve::{fetch_superblock, status_socket};
use thermocline_target as target;

use super::advice::told;
use super::ledger::Ledger;
use super::online::{self, Scrubbed};
use super::open::{Advised as _, Opened, on_trial, to_write};
use super::stamp::BLOCK;
use super::{CODES, verdict};
use crate::progress::Progress;

/// Arguments of `check`.
#[derive(Args)]
#[command(after_help = format!("\
The pool is opened as after a crash; what recovery would write is kept in memory. Then every block of every volume
that was written is read and its checksum verified; of a volume with a ledger, every block.

If the pool is served, its server compares all data with the headers, as `scrub`. What a recovery would replay, the
checksums in the map and the ledger are checked only while the pool is stopped.

Examples:
  thermocline check pool.toml
  thermocline check pool.toml --ledger pool.ledger

{CODES}"))]
pub struct CheckArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// Compare with what `load --ledger` wrote and flushed
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// Write the recovered state, even if flushed data is missing; damaged blocks stay damaged
    #[arg(long)]
    repair: bool,
    /// Print JSON, schema thermocline.check/1
    #[arg(long)]
    json: bool,
}

/// A damaged block.
#[derive(Serialize)]
pub(super) struct Damage {
    pub volume: String,
    pub lba: u64,
    /// The block's place on the device, if known. A lost block has no place.
    pub unit: Option<u32>,
    pub block: Option<u32>,
    pub reason: String,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    clean: bool,
    /// The error if the pool could not be opened.
    open_error: Option<String>,
    pool: Option<String>,
    replayed_chunks: u64,
    blocks_read: u64,
    blocks_compared: u64,
    damaged: Vec<Damage>,
    /// Of a pool that is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    served: Option<Served>,
}

/// Further results of a pool that is served.
#[derive(Serialize)]
struct Served {
    by: String,
    /// Damaged places, of which some hold no block of a volume, and at most 100 are listed.
    places_damaged: u64,
    /// Places that a member of a group held wrong, written again from the others.
    places_repaired: u64,
    /// Risks of the groups.
    risks: Vec<String>,
}

/// `thermocline check`.
pub fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.settings)?;
    if let Some(who) = online::server(&args.settings) {
        return match (&args.ledger, args.repair) {
            (Some(_), _) => online::refuse(&args.settings, &who, "`check --ledger`"),
            (None, true) => online::refuse(&args.settings, &who, "`check --repair`"),
            (None, false) => shown(&of_server(&args.settings, who)?, args),
        };
    }
    let ledger = args.ledger.as_deref().map(|path| Ledger::open(path, false)).transpose()?;
    let report = if args.repair {
        to_write(&settings, true).and_then(|mut pool| {
            let report = look_through(&mut pool, ledger.as_ref())?;
            pool.close()?;
            Ok(report)
        })
    } else {
        on_trial(&settings).and_then(|mut pool| look_through(&mut pool, ledger.as_ref()))
    };
    let report = match report {
        Ok(report) => report,
        Err(error) if error.is::<DriverError>() => Report {
            schema: "thermocline.check/1",
            clean: false,
            open_error: Some(told(&error)),
            pool: None,
            replayed_chunks: 0,
            blocks_read: 0,
            blocks_compared: 0,
            damaged: Vec::new(),
            served: None,
        },
        Err(error) => return Err(error),
    };
    shown(&report, args)
}

fn shown(report: &Report, args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let text = match (args.json, &report.served) {
        (true, _) => format!("{}\n", serde_json::to_string_pretty(report)?),
        (false, Some(served)) => served_text(report, served, &args.settings)?,
        (false, None) => text(report)?,
    };
    verdict(&text, report.clean)
}

/// Has the server of the pool, `who`, compare all data.
fn of_server(file: &Path, who: String) -> anyhow::Result<Report> {
    let Scrubbed { end, damage } = online::scrub(file)?;
    let reason = || "is not what was written".to_owned();
    let damaged = damage.iter().filter_map(|place| Some((place, place.holds.as_ref()?)));
    let damaged = damaged.flat_map(|(place, held)| {
        let blocks = held.offset / BLOCK as u64..(held.offset + held.bytes) / BLOCK as u64;
        let (unit, block) = (Some(place.unit), Some(place.block));
        let volume = &held.volume;
        blocks.map(move |lba| Damage { volume: volume.clone(), lba, unit, block, reason: reason() })
    });
    let damaged: Vec<Damage> = damaged.collect();
    let served = Served {
        by: who,
        places_damaged: end.found.damaged.max(damage.len() as u64),
        places_repaired: end.found.mended,
        risks: online::risks(file)?,
    };
    Ok(Report {
        schema: "thermocline.check/1",
        clean: served.places_damaged == 0,
        open_error: None,
        pool: Some(fetch_superblock(&status_socket(file))?.decode()?.pool.to_string()),
        replayed_chunks: 0,
        blocks_read: end.found.blocks,
        blocks_compared: 0,
        damaged,
        served: Some(served),
    })
}

fn served_text(report: &Report, served: &Served, file: &Path) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    show_damage(&mut text, &report.damaged)?;
    for risk in &served.risks {
        writeln!(text, "at risk: {risk}")?;
    }
    if served.places_repaired > 0 {
        let places = served.places_repaired;
        writeln!(text, "{places} places that a member held wrong were written again")?;
    }
    let outcome = match served.places_damaged {
        0 => "clean".to_owned(),
        count => format!("{count} places are damaged"),
    };
    let (by, blocks, file) = (&served.by, report.blocks_read, file.display());
    writeln!(
        text,
        "{outcome}: {blocks} blocks compared with their headers by {by}, which serves the pool"
    )?;
    writeln!(
        text,
        "not checked while served: what a recovery replays, and the checksums in the map: `thermocline stop {file}`, then \
         `thermocline check {file}`"
    )?;
    Ok(text)
}

fn show_damage(text: &mut String, damaged: &[Damage]) -> std::fmt::Result {
    for Damage { volume, lba, unit, block, reason } in damaged {
        write!(text, "volume `{volume}` block {lba} {reason}")?;
        if let (Some(unit), Some(block)) = (unit, block) {
            write!(text, " (unit {unit} block {block})")?;
        }
        writeln!(text)?;
    }
    Ok(())
}

fn text(report: &Report) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    if let Some(error) = &report.open_error {
        writeln!(text, "the pool cannot be opened: {error}")?;
        return Ok(text);
    }
    show_damage(&mut text, &report.damaged)?;
    let outcome = match report.damaged.len() {
        0 => "clean".to_owned(),
        count => format!("{count} blocks are damaged"),
    };
    write!(text, "{outcome}: {} blocks read", report.blocks_read)?;
    if report.blocks_compared > 0 {
        write!(text, ", {} compared with the ledger", report.blocks_compared)?;
    }
    writeln!(text, ", {} chunks replayed", report.replayed_chunks)?;
    Ok(text)
}

fn look_through<S: Storage>(
    pool: &mut Opened<S>,
    ledger: Option<&Ledger>,
) -> anyhow::Result<Report> {
    let volumes = pool.driver.engine().volumes();
    if let Some(ledger) = ledger {
        let known = volumes
            .iter()
            .any(|volume| volume.id.0 == ledger.volume() && volume.blocks == ledger.blocks());
        ensure!(known, "the ledger is of a volume that the pool does not have, or of another size");
    }
    let mut damaged = Vec::new();
    let (mut blocks_read, mut blocks_compared) = (0, 0);
    for volume in &volumes {
        let ledger = ledger.filter(|ledger| ledger.volume() == volume.id.0);
        let bar = Progress::default().bar(&format!("check {}", volume.name));
        let driver = &mut pool.driver;
        blocks_read += read_volume(driver, volume, ledger, &mut damaged, |share| bar.set(share));
        blocks_compared += ledger.map_or(0, Ledger::flushed_blocks);
    }
    Ok(Report {
        schema: "thermocline.check/1",
        clean: damaged.is_empty(),
        open_error: None,
        pool: Some(pool.driver.engine().pool_id().to_string()),
        replayed_chunks: pool.replayed.0,
        blocks_read,
        blocks_compared,
        damaged,
        served: None,
    })
}

/// Reads a whole volume. Without a ledger, unmapped ranges are skipped. A failed read is repeated block by block, to
/// name the damaged blocks. Returns the number of blocks read from media: mapped blocks that are not lost.
pub(super) fn read_volume<S: Storage>(
    driver: &mut Driver<S>,
    volume: &VolumeInfo,
    ledger: Option<&Ledger>,
    damaged: &mut Vec<Damage>,
    progress: impl Fn(f64),
) -> u64 {
    let buffer = Buffer::new(target::Buffer::zeroed(MAX_IO_BLOCKS as usize * BLOCK));
    let read = |driver: &mut Driver<S>, lba: u64, blocks: u64| {
        let into = buffer.part(0, blocks as usize * BLOCK);
        let extent = Extent { volume: volume.id, lba, blocks };
        let done = driver.carry_out(HostRequest::Read { extent, into: into.clone() });
        driver.clear_notices();
        done.map(|_| into)
    };
    let (mut first, mut blocks_read) = (0, 0);
    while first < volume.blocks {
        let empty = if ledger.is_some() { 0 } else { unmapped(driver, volume, first) };
        first += empty;
        progress(first as f64 / volume.blocks as f64);
        if empty > 0 {
            continue;
        }
        let blocks = MAX_IO_BLOCKS.min(volume.blocks - first);
        let mut lost = 0;
        match read(driver, first, blocks) {
            Ok(found) => compare(volume, first, &found, ledger, damaged),
            Err(_) => {
                for lba in first..first + blocks {
                    match read(driver, lba, 1) {
                        Ok(found) => compare(volume, lba, &found, ledger, damaged),
                        Err(error) => {
                            lost += u64::from(matches!(error, HostError::Lost));
                            damaged.push(unreadable(volume, lba, error));
                        }
                    }
                }
            }
        }
        blocks_read += mapped(driver, volume, first, blocks).saturating_sub(lost);
        first += blocks;
        progress(first as f64 / volume.blocks as f64);
    }
    blocks_read
}

/// Number of mapped blocks from `first` on. The caller has just read the blocks' map page.
fn mapped<S: Storage>(driver: &Driver<S>, volume: &VolumeInfo, first: u64, blocks: u64) -> u64 {
    let extent = Extent { volume: volume.id, lba: first, blocks };
    let runs = driver.engine().runs(extent, blocks as usize).unwrap_or_default();
    runs.iter().filter(|run| run.mapped).map(|run| run.blocks).sum()
}

/// Number of blocks from `first` on that are known to be unmapped; a single query limits the number.
fn unmapped<S: Storage>(driver: &Driver<S>, volume: &VolumeInfo, first: u64) -> u64 {
    let ask = |blocks: u64| {
        let runs = driver.engine().runs(Extent { volume: volume.id, lba: first, blocks }, 1);
        let run = runs.ok().and_then(|runs| runs.first().copied());
        run.filter(|run| !run.mapped).map_or(0, |run| run.blocks)
    };
    // Query a large range only if the blocks of the next read are all unmapped.
    let left = volume.blocks - first;
    let near = left.min(MAX_IO_BLOCKS);
    if ask(near) == near { ask(left) } else { ask(near) }
}

fn compare(
    volume: &VolumeInfo,
    first: u64,
    found: &Buffer,
    ledger: Option<&Ledger>,
    damaged: &mut Vec<Damage>,
) {
    let Some(ledger) = ledger else { return };
    for (block, lba) in found.read().chunks(BLOCK).zip(first..) {
        if let Some(reason) = ledger.verdict(lba, block) {
            let volume = volume.name.to_string();
            damaged.push(Damage { volume, lba, unit: None, block: None, reason });
        }
    }
}

fn unreadable(volume: &VolumeInfo, lba: u64, error: HostError) -> Damage {
    let (at, reason) = match error {
        HostError::Unreadable(at) => {
            (Some(at), "cannot be read, or is not what was written".to_owned())
        }
        HostError::Lost => (
            None,
            "is lost, with a device or a chunk that the pool was told to do without".to_owned(),
        ),
        other => (None, other.to_string()),
    };
    Damage {
        volume: volume.name.to_string(),
        lba,
        unit: at.map(|at| at.unit.0),
        block: at.map(|at| at.block),
        reason,
    }
}
