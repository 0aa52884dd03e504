//! `drive list`.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use thermocline_drive::{DriveFigure, Waf, Wear};

use super::source::{self, decimal};
use crate::table::draw;

const ABOUT: &str = "\
Log pages are read as root; others see model and serial number. SATA drives are read by smartctl. WAF is of the whole
life; `thermocline drive stat` tells its page, and `thermocline drive watch` what the drive does now.

Example:
  thermocline drive list";

/// Arguments of `drive list`.
#[derive(Args)]
#[command(after_help = ABOUT)]
pub struct DriveListArgs {
    /// Print JSON, schema thermocline.drives/1
    #[arg(long)]
    json: bool,
}

/// The output of `--json`.
#[derive(Serialize)]
struct DriveList {
    schema: &'static str,
    drives: Vec<DriveRow>,
}

#[derive(Serialize)]
struct DriveRow {
    device: PathBuf,
    model: Option<String>,
    serial: Option<String>,
    capacity_bytes: Option<u64>,
    used_percent: Option<u64>,
    waf: Option<Waf>,
    /// Why the drive was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Prints the drives.
///
/// # Errors
/// When standard output cannot be written. A drive that cannot be read is listed with the reason.
pub fn list(args: &DriveListArgs) -> anyhow::Result<()> {
    let drives: Vec<DriveRow> = thermocline_drive::list().into_iter().map(row).collect();
    let mut out = std::io::stdout().lock();
    if args.json {
        let all = DriveList { schema: "thermocline.drives/1", drives };
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        return Ok(());
    }
    if drives.is_empty() {
        writeln!(out, "no NVMe controller and no SATA drive is below /sys")?;
        return Ok(());
    }
    let heads = ["device", "model", "serial", "capacity", "used", "WAF"].map(str::to_owned);
    writeln!(out, "{}", draw(&heads, &drives.iter().map(cells).collect::<Vec<_>>()))?;
    for error in drives.iter().filter_map(|one| one.error.as_ref()) {
        writeln!(out, "{error}")?;
    }
    Ok(())
}

fn row(listed: thermocline_drive::ListedDrive) -> DriveRow {
    let (reading, error) = match source::reading(&listed.path) {
        Ok(reading) => (reading, None),
        Err(error) => (thermocline_drive::HealthReading::default(), Some(error.to_string())),
    };
    let value = |figure| reading.counter(figure).map(|one| one.value);
    DriveRow {
        device: listed.path,
        model: listed.model,
        serial: listed.serial,
        capacity_bytes: value(DriveFigure::Capacity),
        used_percent: value(DriveFigure::Used),
        waf: Wear::of(None, &reading).waf,
        error,
    }
}

fn cells(row: &DriveRow) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        row.device.display().to_string(),
        or_dash(row.model.clone()),
        or_dash(row.serial.clone()),
        or_dash(row.capacity_bytes.map(|bytes| decimal(bytes as f64))),
        or_dash(row.used_percent.map(|used| format!("{used} %"))),
        or_dash(row.waf.as_ref().map(|waf| format!("{:.3}", waf.value))),
    ]
}
