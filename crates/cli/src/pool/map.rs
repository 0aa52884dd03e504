//! `thermocline map`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::ensure;
use clap::Args;
use thermocline_format::DeviceState;
use thermocline_ftl::UnitState;
use thermocline_runtime::Settings;
use thermocline_types::UnitId;

use super::open::on_trial;
use super::{CODES, print};

/// Arguments of `map`.
#[derive(Args)]
#[command(after_help = format!("\
One cell is one unit. Its shade is the valid share of the blocks that the unit holds when it is full.

Example:
  thermocline map pool.toml --ascii

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
}

/// Cells from empty to full, for eyes and for old terminals.
const SHADES: [&str; 9] = ["▁", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const DIGITS: [&str; 9] = ["0", "1", "2", "3", "4", "5", "6", "7", "8"];

/// `thermocline map`.
pub fn map(args: &MapArgs) -> anyhow::Result<ExitCode> {
    ensure!(args.width > 0, "--width must be at least 1");
    let pool = on_trial(&Settings::load(&args.settings)?)?;
    let engine = pool.driver.engine();
    let geometry = &pool.config.geometry;
    let most = pool.config.blocks_per_unit().max(1);
    let units = engine.units();
    let cell = |unit: UnitId| -> &'static str {
        if geometry.is_superblock_unit(unit) {
            return "S";
        }
        let valid = u64::from(units.valid_count(unit));
        let eighths = (valid * 8).div_ceil(most).min(8) as usize;
        match units.state(unit) {
            UnitState::Free => {
                if args.ascii {
                    "."
                } else {
                    "·"
                }
            }
            UnitState::Retired if geometry.state_of(unit) == DeviceState::Draining => "-",
            UnitState::Retired => "X",
            UnitState::Open if valid == 0 => "o",
            _ if args.ascii => DIGITS[eighths],
            _ => SHADES[eighths],
        }
    };
    let mut text = String::new();
    // Skip units of detached devices.
    let there: Vec<UnitId> = geometry.present().flat_map(|(_, units)| units).map(UnitId).collect();
    for units in there.chunk_by(|unit, next| unit.0 + 1 == next.0) {
        for row in units.chunks(args.width) {
            text += &format!("{:>7} ", row[0].0);
            row.iter().for_each(|&unit| text += cell(unit));
            text += "\n";
        }
    }
    let (free, empty, full) =
        if args.ascii { (".", DIGITS[0], DIGITS[8]) } else { ("·", SHADES[0], SHADES[8]) };
    text += &format!(
        "{free} free, {empty} to {full} none to all valid, o open, S superblocks, X out of service, - emptied to \
         leave\n"
    );
    print(&text)
}
