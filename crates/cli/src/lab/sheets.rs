//! `lab sheets`: drive profiles beside their data sheets.

use std::io::Write as _;

use anyhow::{Context, ensure};
use clap::Args;
use serde::Serialize;
use thermocline_lab::Stack;
use thermocline_lab::sheets::{SheetRow, SheetRows, measure};
use thermocline_nand::profile::{Profile, builtin, names};
use thermocline_types::Bytes;

use super::args::CONVENTIONS;
use super::parallel;
use crate::interrupt::Interrupt;
use crate::table::{NONE, draw};

/// Help text: how figures are measured, and examples.
const ABOUT: &str = "\
Ratings are data of the profile (`[rated]`, docs/use/PROFILES.md), with their source.
Each drive is cut to a small capacity and filled before. Sequential requests have
128 KiB, 64 in flight; of random ones 512 are in flight. Sustained random writes
overwrite the drive twice before they are measured. A drive with an SLC cache is
measured within its cache, as its sheet rates it.

Examples:
  thermocline lab sheets
  thermocline lab sheets p5316 --all
  thermocline lab sheets pm9d3,timing.collecting_mb_per_s=2000 --json";

/// Arguments of `lab sheets`.
#[derive(Args)]
#[command(after_help = format!("{ABOUT}\n\n{CONVENTIONS}"))]
pub struct SheetsArgs {
    /// DEVICE[,KEY=VALUE...]: a profile (`lab list devices`) or the path of one [default: every profile with ratings]
    #[arg(value_name = "DEVICE")]
    devices: Vec<String>,
    /// Also figures without a rating: sequential and random, of 4 KiB and the drive's unit, alone and many in flight
    #[arg(long)]
    all: bool,
    /// Drives at a time [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Print JSON instead of a table
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// The figures of one drive.
#[derive(Serialize)]
struct Sheet {
    device: String,
    title: String,
    rows: Vec<SheetRow>,
}

/// `lab sheets`.
pub fn sheets(args: &SheetsArgs) -> anyhow::Result<()> {
    ensure!(args.jobs != Some(0), "--jobs must be at least 1");
    let devices = if args.devices.is_empty() { with_ratings()? } else { args.devices.clone() };
    let asked = if args.all { SheetRows::All } else { SheetRows::Rated };
    let stacks =
        devices.iter().map(|device| Ok((device, Stack::parse(&format!("raw:{device}"), &[])?)));
    let stacks: Vec<(&String, Stack)> = stacks.collect::<anyhow::Result<_>>()?;
    let interrupt = Interrupt::watch()?;
    let measured =
        parallel::each(&stacks, args.jobs, ("sheets", &interrupt), |(device, stack), _| {
            let rows = measure(stack, asked).with_context(|| format!("cannot measure {device}"))?;
            Ok(Sheet { device: (*device).clone(), title: stack.profile.title.clone(), rows })
        });
    interrupt.check()?;
    let sheets = measured.into_iter().flatten().collect::<anyhow::Result<Vec<Sheet>>>()?;
    let mut out = std::io::stdout().lock();
    if args.json {
        let output = serde_json::json!({"schema": "thermocline.sheets/1", "drives": sheets});
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&output)?)?);
    }
    let heads = ["drive", "requests", "size", "in flight", "rated", "simulated", "", "difference"];
    let heads = heads.map(str::to_owned);
    let rows: Vec<Vec<String>> = sheets.iter().flat_map(cells).collect();
    Ok(writeln!(out, "{}", draw(&heads, &rows))?)
}

/// Names of the built-in profiles with ratings.
fn with_ratings() -> anyhow::Result<Vec<String>> {
    let mut rated = Vec::new();
    for name in names() {
        if Profile::from_toml(name, builtin(name).unwrap_or_default())?.rated.is_some() {
            rated.push(name.to_owned());
        }
    }
    Ok(rated)
}

fn cells(sheet: &Sheet) -> Vec<Vec<String>> {
    let row = |(index, row): (usize, &SheetRow)| {
        let none = || NONE.to_owned();
        let name = if index == 0 { sheet.device.clone() } else { String::new() };
        vec![
            name,
            row.pattern.clone(),
            Bytes(row.size_bytes).to_string(),
            row.depth.to_string(),
            row.rated.map_or_else(none, |rated| format!("{rated}")),
            format!("{:.1}", row.simulated),
            row.unit.name().to_owned(),
            row.difference().map_or_else(none, |off| format!("{:+.1} %", 100.0 * off)),
        ]
    };
    sheet.rows.iter().enumerate().map(row).collect()
}
