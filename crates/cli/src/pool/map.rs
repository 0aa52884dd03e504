//! `thermocline map`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::ensure;
use clap::Args;
use thermocline_runtime::Settings;
use thermocline_serve::{DeviceUnits, Serving, UnitsReport, fetch_units, letter, status_socket};

use super::open::on_trial;
use super::{CODES, print};

/// Rows of the map, unless the cells are given. Chosen: a screen.
const ROWS: usize = 40;

/// Arguments of `map`.
#[derive(Args)]
#[command(after_help = format!("\
One cell is one unit, or several of a large pool. Its shade is the valid share of the blocks that its units hold when
they are full. A pool that is served is drawn as its server has it.

Examples:
  thermocline map pool.toml --ascii
  thermocline map pool.toml --cell 1     each unit of a large pool

{CODES}"))]
pub struct MapArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// Draw with digits and letters only
    #[arg(long)]
    ascii: bool,
    /// Cells in a row
    #[arg(long, value_name = "N", default_value_t = 64)]
    width: usize,
    /// Units of a cell [default: so many that the map fits a screen]
    #[arg(long, value_name = "UNITS")]
    cell: Option<usize>,
    /// Print JSON, schema thermocline.units/1
    #[arg(long)]
    json: bool,
}

/// Cells from empty to full, for eyes and for old terminals.
const SHADES: [&str; 9] = ["▁", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const DIGITS: [&str; 9] = ["0", "1", "2", "3", "4", "5", "6", "7", "8"];

/// `thermocline map`.
pub fn map(args: &MapArgs) -> anyhow::Result<ExitCode> {
    ensure!(args.width > 0, "--width must be at least 1");
    ensure!(args.cell != Some(0), "--cell must be at least 1");
    let report = match Serving::of(&args.settings) {
        Some(_) => fetch_units(&status_socket(&args.settings))?,
        None => UnitsReport::of(on_trial(&Settings::load(&args.settings)?)?.driver.engine()),
    };
    if args.json {
        return print(&(serde_json::to_string(&report)? + "\n"));
    }
    print(&drawing(&report, args))
}

fn drawing(report: &UnitsReport, args: &MapArgs) -> String {
    let units: usize = report.devices.iter().map(|device| device.valid_blocks.len()).sum();
    let size = args.cell.unwrap_or(units.div_ceil(args.width * ROWS).max(1));
    let shades = if args.ascii { DIGITS } else { SHADES };
    let mut text = String::new();
    for device in &report.devices {
        let cells = cells(device, size, report.blocks_per_unit, args.ascii, shades);
        for (row, cells) in cells.chunks(args.width).enumerate() {
            let first = device.first_unit as usize + row * args.width * size;
            text += &format!("{first:>7} {}\n", cells.concat());
        }
    }
    if size > 1 {
        text += &format!("a cell is {size} units\n");
    }
    let free = free(args.ascii);
    text + &format!(
        "{free} free, {} to {} none to all valid, o open, S superblocks, X out of service, - emptied to leave\n",
        shades[0], shades[8]
    )
}

/// The cells of a device, each of `size` units. A cell whose units have one state other than closed shows the state.
fn cells(
    device: &DeviceUnits,
    size: usize,
    most: u32,
    ascii: bool,
    shades: [&'static str; 9],
) -> Vec<&'static str> {
    let states: Vec<char> = device.states.chars().collect();
    let valid = device.valid_blocks.chunks(size);
    let of_cell = |(states, valid): (&[char], &[u32])| {
        let sum: u64 = valid.iter().copied().map(u64::from).sum();
        let room = u64::from(most) * valid.len() as u64;
        let same = states.iter().all(|state| *state == states[0]).then_some(states[0]);
        match same {
            Some(letter::SUPERBLOCKS) => "S",
            Some(letter::FREE) => free(ascii),
            Some(letter::LEAVING) => "-",
            Some(letter::RETIRED) => "X",
            Some(letter::OPEN) if sum == 0 => "o",
            _ => shades[(sum * 8).div_ceil(room).min(8) as usize],
        }
    };
    states.chunks(size).zip(valid).map(of_cell).collect()
}

fn free(ascii: bool) -> &'static str {
    if ascii { "." } else { "·" }
}
