//! `fleet generate`.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use thermocline_lab::fleet;

use crate::file;

const ABOUT: &str = "\
Writes DIR/drives.csv, rows for `thermocline fleet`, and DIR/truth.json, what becomes of each drive. Hosts have seasons,
growth that stops and changes of role; WAF follows from the space in use, which grows; some drives count no media bytes,
some were replaced, and two rows are broken. Nothing of that is known to the forecast.

Example:
  thermocline fleet generate 300 --seed 1 --into racks";

/// Arguments of `fleet generate`.
#[derive(Args)]
#[command(after_help = ABOUT)]
pub struct FleetGenerateArgs {
    /// Drives in use today
    #[arg(value_name = "DRIVES", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    drives: u32,
    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Share of the drives that have a history
    #[arg(long, value_name = "SHARE", value_parser = crate::lab::args::share, default_value_t = 0.08)]
    sampled: f64,
    /// Folder of the two files
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
}

/// `fleet generate`.
///
/// # Errors
/// When a file cannot be written.
pub fn generate(args: &FleetGenerateArgs) -> anyhow::Result<()> {
    let FleetGenerateArgs { drives, seed, sampled, into } = args;
    std::fs::create_dir_all(into).with_context(|| format!("cannot make {}", into.display()))?;
    let fleet = fleet::generate(*drives as usize, *seed, *sampled);
    file::write(&into.join("drives.csv"), &fleet.rows)?;
    file::write(&into.join("truth.json"), &(serde_json::to_string_pretty(&fleet.truth)? + "\n"))?;
    let worn: usize = fleet.truth.classes.iter().map(|class| class.worn_out).sum();
    let rows = fleet.rows.lines().count() - 1;
    let folder = into.display();
    writeln!(
        std::io::stdout(),
        "{folder}/drives.csv: {rows} rows of {drives} drives\n{folder}/truth.json: {worn} of them wear out before their \
         service ends"
    )?;
    Ok(())
}
