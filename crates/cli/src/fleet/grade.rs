//! `fleet grade`.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use thermocline_lab::fleet::{self, ClassGrade, FleetQuestion, FleetRange, FleetTruth, Grade};

use super::answer;
use crate::table::draw;

const ABOUT: &str = "\
A class is inside if the drives that wear out before their service ends are as many as the 90 % interval allows.

Example:
  thermocline fleet grade racks";

/// Arguments of `fleet grade`.
#[derive(Args)]
#[command(after_help = ABOUT)]
pub struct FleetGradeArgs {
    /// Folders that `fleet generate` wrote
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// `fleet grade`.
///
/// # Errors
/// When a folder cannot be read.
pub fn grade(args: &FleetGradeArgs) -> anyhow::Result<()> {
    let grade = |folder: &PathBuf| -> anyhow::Result<Grade> {
        let path = folder.join("truth.json");
        let text = std::fs::read_to_string(&path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        let truth: FleetTruth = serde_json::from_str(&text)
            .with_context(|| format!("{} is no truth", path.display()))?;
        let question =
            FleetQuestion { service_years: truth.service_years, ..FleetQuestion::default() };
        Ok(fleet::grade(&answer(&[folder.join("drives.csv")], &question)?, &truth))
    };
    let grades: Vec<Grade> = args.folders.iter().map(grade).collect::<Result<_, _>>()?;
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&grades)?)?,
        false => write!(out, "{}", text(&grades))?,
    }
    Ok(())
}

fn text(grades: &[Grade]) -> String {
    let heads = ["seed, class", "drives", "forecast", "90 %", "came", "inside"].map(str::to_owned);
    let row = |seed: u64, class: &ClassGrade| {
        let FleetRange { low, likely, high } = class.forecast;
        let inside = if class.inside { "yes" } else { "no" };
        vec![
            format!("{seed} {}", class.name),
            class.drives.to_string(),
            format!("{likely:.1}"),
            format!("{low:.0} to {high:.0}"),
            class.truth.to_string(),
            inside.to_owned(),
        ]
    };
    let rows = |grade: &Grade| -> Vec<Vec<String>> {
        let classes = grade.classes.iter().chain([&grade.fleet]);
        classes.map(|class| row(grade.seed, class)).collect()
    };
    let all: Vec<Vec<String>> = grades.iter().flat_map(rows).collect();
    let classes = || grades.iter().flat_map(|grade| &grade.classes);
    let inside = classes().filter(|class| class.inside).count();
    let share = |inside: usize, all: usize| 100.0 * inside as f64 / all.max(1) as f64;
    let fleets = grades.iter().filter(|grade| grade.fleet.inside).count();
    let drives = grades.iter().map(|grade| grade.drives_inside).sum::<f64>() / grades.len() as f64;
    format!(
        "{}\n{inside} of {} classes are inside their 90 % interval ({:.0} %), and {fleets} of {} fleets; used endurance at \
         the end of service is inside its own for {:.0} % of drives\n",
        draw(&heads, &all),
        classes().count(),
        share(inside, classes().count()),
        grades.len(),
        100.0 * drives
    )
}
