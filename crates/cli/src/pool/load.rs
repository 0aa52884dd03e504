//! `thermocline load`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::ensure;
use clap::Args;
use serde::Serialize;
use thermocline_runtime::Settings;
use thermocline_types::Bytes;

use super::ledger::Ledger;
use super::loader::{Loader, bytes};
use super::open::{Advised as _, to_write};
use super::{CODES, print, say};
use crate::interrupt::Interrupt;
use crate::lab::args::{ReplayArgs, SourceArgs};
use crate::progress::Progress;

/// Arguments of `load`.
#[derive(Args)]
#[command(after_help = format!("\
Addresses are widened to whole blocks of 4 KiB. With a ledger, each block says what it is, and the ledger what must be
there: kill this command at any moment, then check the pool against the ledger. Ctrl-C ends it in order, and shows what
was done by then; the exit code is then 130.

Examples:
  thermocline load pool.toml --workload zipf:0.99 --span 256MiB --ledger pool.ledger
  thermocline load pool.toml --trace postgres-tpcc --ledger pool.ledger
  thermocline check pool.toml --ledger pool.ledger

{CODES}"))]
pub struct LoadArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// The volume to write to [default: the only one]
    #[arg(long, value_name = "NAME")]
    into: Option<String>,
    /// Keep a ledger of what was written and flushed; an existing one is continued
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// Requests in work at once
    #[arg(long, value_name = "N", default_value_t = 32)]
    depth: usize,
    /// Blocks after which a flush is sent, beside those of the workload; 0 for none
    #[arg(long, value_name = "N", default_value_t = 1024)]
    flush_every: usize,
    /// Print JSON, schema thermocline.load/1
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    replay: ReplayArgs,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    volume: String,
    seconds: f64,
    host_bytes_written: u64,
    host_bytes_read: u64,
    host_bytes_trimmed: u64,
    flushes: u64,
    device_bytes_written: u64,
    /// Device bytes over host bytes.
    alwa: Option<f64>,
    /// Reads that found a damaged block, including reads by garbage collection.
    damaged_blocks: u64,
    /// Whether Ctrl-C ended the load early.
    interrupted: bool,
}

/// `thermocline load`.
pub fn load(args: &LoadArgs) -> anyhow::Result<ExitCode> {
    ensure!(args.depth > 0, "--depth must be at least 1");
    ensure!(
        !args.source.has_pace(),
        "load is as fast as --depth lets it be: --rate, and --burst with --idle, are for the lab"
    );
    let settings = Settings::load(&args.settings)?;
    let mut pool = to_write(&settings, false)?;
    let volume = pool.volume(args.into.as_deref())?;
    let size = bytes(volume.blocks);
    let interrupt = Interrupt::watch()?;
    let mut prepared = args.source.prepare(&args.replay, Bytes::BLOCK, Some(size))?;
    prepared.stop_on(interrupt.flag());
    let footprint = prepared.footprint();
    ensure!(
        footprint <= size,
        "the workload addresses {footprint}, volume `{}` has {size}: a smaller --span, or --remap fold, makes it fit",
        volume.name
    );
    let ledger =
        args.ledger.as_deref().map(|path| Ledger::create(path, volume.id.0, volume.blocks));
    let ledger = ledger.transpose()?;
    let began = Instant::now();
    let bar = Progress::default().bar(&format!("load {}", volume.name));
    let mut loader = Loader::new(&mut pool.driver, volume.id, ledger, args.depth, args.flush_every);
    // The lab's replay has its own error type, so the first error of the loader is kept here.
    let mut failed = None;
    let stop = || thermocline_lab::Error::Settings(String::new());
    let mut serve = |request: &thermocline_types::Request| {
        loader.serve(request).map_err(|error| {
            failed = Some(error);
            stop()
        })
    };
    interrupt.something_to_show();
    let filled = prepared.prefill(|request| serve(&request));
    let replayed = filled.and_then(|()| {
        prepared.replay(|batch| {
            bar.set(batch.done);
            batch.pieces().iter().try_for_each(&mut serve)
        })
    });
    if let Some(error) = failed {
        return Err(error);
    }
    if !interrupt.is_asked() {
        replayed?;
    }
    let done = loader.finish()?;
    drop(bar);
    let seconds = began.elapsed().as_secs_f64();
    let (stats, host) = (*pool.driver.engine().stats(), bytes(done.written));
    pool.close()?;
    let report = Report {
        schema: "thermocline.load/1",
        volume: volume.name.to_string(),
        seconds,
        host_bytes_written: host.0,
        host_bytes_read: bytes(done.read).0,
        host_bytes_trimmed: bytes(done.trimmed).0,
        flushes: done.flushes,
        device_bytes_written: stats.device_bytes_written(),
        alwa: (host.0 > 0).then(|| stats.device_bytes_written() as f64 / host.as_f64()),
        damaged_blocks: stats.damaged_blocks,
        interrupted: interrupt.is_asked(),
    };
    show(&report, args)?;
    interrupt.check()?;
    Ok(ExitCode::SUCCESS)
}

fn show(report: &Report, args: &LoadArgs) -> anyhow::Result<()> {
    if report.damaged_blocks > 0 {
        say(format_args!(
            "{} reads have met damaged blocks: `thermocline check {}` names volumes and offsets",
            report.damaged_blocks,
            args.settings.display()
        ));
    }
    let json = args.json.then(|| serde_json::to_string_pretty(report)).transpose()?;
    print(&json.map_or_else(|| text(report), |json| json + "\n"))?;
    Ok(())
}

fn text(report: &Report) -> String {
    let host = Bytes(report.host_bytes_written);
    format!(
        "wrote {host}, read {}, trimmed {}, {} flushes in {:.1} s: {:.1} MB/s written\n\
         {} written to the device, ALWA {}\n",
        Bytes(report.host_bytes_read),
        Bytes(report.host_bytes_trimmed),
        report.flushes,
        report.seconds,
        host.as_f64() / report.seconds / 1e6,
        Bytes(report.device_bytes_written),
        report.alwa.map_or("-".to_owned(), |alwa| format!("{alwa:.3}")),
    )
}
