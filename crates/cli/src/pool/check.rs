//! `thermocline check`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::ensure;
use clap::Args;
use serde::Serialize;
use thermocline_engine::{Extent, HostError, HostRequest, MAX_IO_BLOCKS, VolumeInfo};
use thermocline_runtime::storage::Storage;
use thermocline_runtime::{Buffer, Driver, DriverError, Settings};
use thermocline_target as target;

use super::advice::told;
use super::ledger::Ledger;
use super::open::{Advised as _, Opened, on_trial, to_write};
use super::stamp::BLOCK;
use super::{CODES, verdict};
use crate::progress::Progress;

/// Arguments of `check`.
#[derive(Args)]
#[command(after_help = format!("\
The pool is opened as after a crash; what recovery would write is kept in memory. Then every block of every volume
that was written is read and its checksum verified; of a volume with a ledger, every block.

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
}

/// `thermocline check`.
pub fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.settings)?;
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
        },
        Err(error) => return Err(error),
    };
    let text = match args.json {
        true => format!("{}\n", serde_json::to_string_pretty(&report)?),
        false => text(&report)?,
    };
    verdict(&text, report.clean)
}

fn text(report: &Report) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    if let Some(error) = &report.open_error {
        writeln!(text, "the pool cannot be opened: {error}")?;
        return Ok(text);
    }
    for Damage { volume, lba, unit, block, reason } in &report.damaged {
        write!(text, "volume `{volume}` block {lba} {reason}")?;
        if let (Some(unit), Some(block)) = (unit, block) {
            write!(text, " (unit {unit} block {block})")?;
        }
        writeln!(text)?;
    }
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
