//! `lab reproduce`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::Args;
use comfy_table::{Cell, CellAlignment};
use serde::Serialize;
use thermocline_lab::reproduce::point::{Errors, Point, Row, table as point_table};
use thermocline_lab::reproduce::{EXPERIMENTS, Experiment, Figure, Options};
use thermocline_report::{Origin, TextTable};

use super::args::in_arguments;
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
  thermocline lab reproduce indirection-unit cachelib-fdp --points
  thermocline lab reproduce all --json

`all` ends with the table of truth: each published value, ours, the difference, what explains it, and the median and
worst error of all. It takes about a quarter of an hour; with --quick some minutes.")]
pub struct ReproduceArgs {
    /// Names of experiments (`lab list experiments`), or `all`
    #[arg(value_name = "EXPERIMENT", required = true)]
    experiments: Vec<String>,
    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Folder of traces to replay, each NAME.csv.gz [default: traces inside the program]
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Smaller where an experiment is of its document's size (micron-zones): a sixteenth, in seconds
    #[arg(long)]
    quick: bool,
    /// Print the table of truth only, as Markdown: published values, ours, differences and what explains them
    #[arg(long)]
    points: bool,
    /// With --points: put these rows in place of the same experiments' in the table of this file, the others as there
    #[arg(long, value_name = "FILE", requires = "points", conflicts_with = "json")]
    into: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Write an HTML page with charts of theirs and ours: a single file, readable offline
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// The table of truth as JSON.
#[derive(Serialize)]
struct Truth {
    schema: &'static str,
    seed: u64,
    quick: bool,
    /// Errors over all points with a test.
    errors: Option<Errors>,
    points: Vec<Point>,
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
    let chosen = chosen(&args.experiments)?;
    let options = Options {
        seed: args.seed,
        traces: args.traces.clone(),
        quick: args.quick,
        points: args.points,
    };
    chosen.iter().try_for_each(|experiment| experiment.check(&options))?;
    args.report.iter().try_for_each(|path| file::check(path))?;
    let kept = args.into.as_deref().map(|path| kept(path, &chosen)).transpose()?;
    let mut out = std::io::stdout().lock();
    let (mut page, mut notes) = (plots::Charts::default(), Vec::new());
    let mut points = Vec::new();
    let all = Progress::default();
    for (index, experiment) in chosen.iter().enumerate() {
        let bar = all.bar(&format!("{} ({} of {})", experiment.name, index + 1, chosen.len()));
        let (figures, drawn) = experiment.draw(&options, &mut |share| bar.set(share))?;
        drop(bar);
        page.plot_origins.extend(drawn.iter().map(|_| experiment.name.to_owned()));
        page.plots.extend(drawn);
        page.tables.push(table(experiment, &figures));
        page.origins.push(args.origin(experiment));
        notes.extend(experiment.notes);
        points.extend(experiment.points(&figures));
        if args.points {
            continue;
        }
        if args.json {
            let outcome = Outcome::new(experiment, figures, args.seed);
            writeln!(out, "{}", serde_json::to_string_pretty(&outcome)?)?;
        } else {
            show(experiment, &figures, &mut out)?;
        }
    }
    if args.points || args.experiments.iter().any(|name| name == "all") {
        show_points(points, kept.unwrap_or_default(), args, &mut out)?;
    }
    let title = format!("Thermocline: {}", args.experiments.join(", "));
    let introduction =
        "Published experiments, repeated: marks are theirs or a closed form, lines are ours.";
    plots::write(args.report.as_deref(), &title, introduction, page, &notes)
}

impl ReproduceArgs {
    /// The source of the figures of `experiment`, and the command that repeats only this experiment.
    fn origin(&self, experiment: &Experiment) -> Origin {
        let mut command =
            format!("thermocline lab reproduce {} --seed {}", experiment.name, self.seed);
        if self.quick {
            command += " --quick";
        }
        if let Some(traces) = &self.traces {
            command += &format!(" --traces {}", traces.display());
        }
        let (name, source) = (experiment.name.to_owned(), experiment.source.to_owned());
        Origin { name, source, command }
    }
}

/// Prints the table of truth, with rows kept from another table, if given.
fn show_points(
    points: Vec<Point>,
    kept: Vec<Row>,
    args: &ReproduceArgs,
    out: &mut impl std::io::Write,
) -> anyhow::Result<()> {
    let mut rows: Vec<Row> = points.iter().map(Row::of).chain(kept).collect();
    if !args.json {
        let place = |row: &Row| EXPERIMENTS.iter().position(|of| of.name == row.experiment());
        rows.sort_by_key(place);
        return Ok(write!(out, "{}", point_table(&rows))?);
    }
    let errors = Errors::of(&rows);
    let (schema, seed, quick) = ("thermocline.points/1", args.seed, args.quick);
    let truth = Truth { schema, seed, quick, errors, points };
    Ok(writeln!(out, "{}", serde_json::to_string_pretty(&truth)?)?)
}

/// Rows of the table in `path`, without the rows of `chosen` experiments.
fn kept(path: &Path, chosen: &[&Experiment]) -> anyhow::Result<Vec<Row>> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let mut rows = Row::read(&text).with_context(|| path.display().to_string())?;
    ensure!(!rows.is_empty(), "{}: there is no table of truth in it", path.display());
    rows.retain(|row| !chosen.iter().any(|experiment| experiment.name == row.experiment()));
    let unknown = rows.iter().find(|row| Experiment::find(row.experiment()).is_none());
    ensure!(
        unknown.is_none(),
        "{}: `{}` is no experiment",
        path.display(),
        unknown.map_or("", Row::experiment)
    );
    Ok(rows)
}

/// A figure with four significant digits, or all digits before the point. More digits are noise in a simulation.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// The figures as a table for the report, with columns for published values if the experiment has any.
fn table(experiment: &Experiment, figures: &[Figure]) -> TextTable {
    let compared = figures.iter().any(|figure| figure.theirs.is_some());
    let row = |figure: &Figure| {
        let theirs = figure.theirs.map_or("-".into(), digits);
        let error = figure.error().map_or("-".into(), |error| format!("{:+.2} %", error * 100.0));
        let (what, ours) = (figure.what.clone(), digits(figure.ours));
        if compared { vec![what, theirs, ours, error] } else { vec![what, ours] }
    };
    let heads: &[&str] =
        if compared { &["figure", "theirs", "ours", "difference"] } else { &["figure", "ours"] };
    let nothing = if compared { "" } else { ", which states no values to compare these with" };
    TextTable {
        title: format!("{}: {}", experiment.name, experiment.title),
        text: format!("Theirs: {}{nothing}.", experiment.source.trim_end_matches('.')),
        heads: heads.iter().map(|head| (*head).to_owned()).collect(),
        rows: figures.iter().map(row).collect(),
        origin: Some(experiment.name.to_owned()),
        ..TextTable::default()
    }
}

/// The experiments called `names`, each once.
fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Experiment>> {
    if names.iter().any(|name| name == "all") {
        return Ok(EXPERIMENTS.iter().collect());
    }
    let mut chosen: Vec<&Experiment> = Vec::new();
    for name in names {
        let experiment = Experiment::find(name).with_context(|| {
            let known: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
            format!("`{name}` is no experiment; there are {}", known.join(", "))
        })?;
        if !chosen.iter().any(|other| other.name == experiment.name) {
            chosen.push(experiment);
        }
    }
    Ok(chosen)
}

impl Outcome {
    fn new(experiment: &Experiment, figures: Vec<Figure>, seed: u64) -> Outcome {
        Outcome {
            schema: "thermocline.reproduce/1",
            experiment: experiment.name,
            title: experiment.title,
            source: experiment.source,
            seed,
            figures,
            notes: experiment.notes,
        }
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
        writeln!(out, "note: {}", in_arguments(note))?;
    }
    writeln!(out)
}
