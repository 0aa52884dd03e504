//! `lab reproduce`.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use comfy_table::{Cell, CellAlignment};
use serde::Serialize;
use thermocline_lab::reproduce::{EXPERIMENTS, Experiment, Figure, Options};
use thermocline_report::TextTable;

use super::plots;
use crate::file;
use crate::progress::Progress;
use crate::table::plain;

/// Arguments of `lab reproduce`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  thermocline lab list experiments
  thermocline lab reproduce uniform-greedy
  thermocline lab reproduce micron-zones --quick
  thermocline lab reproduce snia-bandwidth --report snia.html
  thermocline lab reproduce all --json")]
pub struct ReproduceArgs {
    /// Name of an experiment (`lab list experiments`), or `all`
    #[arg(value_name = "EXPERIMENT")]
    experiment: String,
    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Folder of traces to replay, each NAME.csv.gz [default: those that come with the program]
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Smaller where an experiment is of its document's size (micron-zones): a sixteenth, in seconds
    #[arg(long)]
    quick: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Write an HTML page with charts of theirs and ours: one file, no network needed to read it
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

#[derive(Serialize)]
struct Outcome {
    schema: &'static str,
    experiment: &'static str,
    title: &'static str,
    source: &'static str,
    seed: u64,
    figures: Vec<Figure>,
    notes: &'static [&'static str],
}

/// `lab reproduce`.
pub fn reproduce(args: &ReproduceArgs) -> anyhow::Result<()> {
    let chosen: Vec<&Experiment> = if args.experiment == "all" {
        EXPERIMENTS.iter().collect()
    } else {
        let names: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        vec![Experiment::find(&args.experiment).with_context(|| {
            format!("`{}` is no experiment; there are {}", args.experiment, names.join(", "))
        })?]
    };
    let options = Options { seed: args.seed, traces: args.traces.clone(), quick: args.quick };
    chosen.iter().try_for_each(|experiment| experiment.check(&options))?;
    args.report.iter().try_for_each(|path| file::check(path))?;
    let mut out = std::io::stdout().lock();
    let (mut plots, mut tables, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for experiment in chosen {
        let bar = Progress::default().bar(experiment.name);
        let (figures, drawn) = experiment.draw(&options, &mut |share| bar.set(share))?;
        drop(bar);
        plots.extend(drawn);
        tables.push(table(experiment, &figures));
        notes.extend(experiment.notes);
        if args.json {
            let outcome = Outcome {
                schema: "thermocline.reproduce/1",
                experiment: experiment.name,
                title: experiment.title,
                source: experiment.source,
                seed: args.seed,
                figures,
                notes: experiment.notes,
            };
            writeln!(out, "{}", serde_json::to_string_pretty(&outcome)?)?;
        } else {
            show(experiment, &figures, &mut out)?;
        }
    }
    let title = format!("Thermocline: {}", args.experiment);
    let introduction = "Published experiments, repeated: marks are theirs, lines are ours.";
    plots::write(args.report.as_deref(), &title, introduction, (plots, tables), &notes)
}

/// The figures as a table for the report.
fn table(experiment: &Experiment, figures: &[Figure]) -> TextTable {
    let row = |figure: &Figure| {
        let theirs = figure.theirs.map_or("-".into(), |value| format!("{value:.3}"));
        let error = figure.error().map_or("-".into(), |error| format!("{:+.2} %", error * 100.0));
        vec![figure.what.clone(), theirs, format!("{:.3}", figure.ours), error]
    };
    TextTable {
        title: format!("{}: {}. Theirs: {}", experiment.name, experiment.title, experiment.source),
        heads: ["figure", "theirs", "ours", "difference"].map(str::to_owned).to_vec(),
        rows: figures.iter().map(row).collect(),
    }
}

fn show(
    experiment: &Experiment,
    figures: &[Figure],
    out: &mut impl std::io::Write,
) -> std::io::Result<()> {
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let mut table = plain();
    table.set_header(vec![
        Cell::new(experiment.name),
        right("theirs".into()),
        right("ours".into()),
        right("difference".into()),
    ]);
    for figure in figures {
        let theirs = figure.theirs.map_or("-".into(), |value| format!("{value:.3}"));
        let error = figure.error().map_or("-".into(), |error| format!("{:+.2} %", error * 100.0));
        table.add_row(vec![
            Cell::new(&figure.what),
            right(theirs),
            right(format!("{:.3}", figure.ours)),
            right(error),
        ]);
    }
    writeln!(out, "{}\n{table}\ntheirs: {}", experiment.title, experiment.source)?;
    for note in experiment.notes {
        writeln!(out, "note: {note}")?;
    }
    writeln!(out)
}
