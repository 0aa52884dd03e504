//! `lab reproduce`.

mod warp;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::Args;
use comfy_table::{Cell, CellAlignment};
use serde::Serialize;
use thermocline_lab::reproduce::kept::{KeptResults, Place};
use thermocline_lab::reproduce::point::{
    Errors, Point, Row, read, summary, table as point_table, to_csv,
};
use thermocline_lab::reproduce::{EXPERIMENTS, Experiment, Figure, FiguresDrawn, Options, Takes};
use thermocline_lab::spec::hash_of;
use thermocline_report::{BarChart, Origin, TextTable};

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
worst error of all. `lab list experiments` says how long each takes, with --quick and without.

Results are kept in $XDG_CACHE_HOME/thermocline or ~/.cache/thermocline, and printed again by the same program for the
same experiment, seed, options and traces. --fresh measures again.

`warp` predicts counters of real FDP drives, which do not come with the program: --logs names the folder with them.
docs/use/WARP.md describes the folder and the rules. It runs alone, for some minutes.")]
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
    /// Run small forms, about a minute each at most; each table says what is smaller and which rows are left out
    #[arg(long)]
    quick: bool,
    /// Measure again, and use no results kept from earlier
    #[arg(long)]
    fresh: bool,
    /// Print the table of truth only, as Markdown: a figure for each document, the largest differences, and each
    /// published value with ours and what explains the difference
    #[arg(long)]
    points: bool,
    /// With --points: put these rows in place of the same experiments' in this CSV, and print the summary of all
    #[arg(long, value_name = "FILE", requires = "points", conflicts_with = "json")]
    into: Option<PathBuf>,
    /// Folder with the runs that `warp` predicts: logs.csv, and curves/ID.csv of each
    #[arg(long, value_name = "DIR",
        conflicts_with_all = ["traces", "quick", "fresh", "report"])]
    logs: Option<PathBuf>,
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
    /// Which small form this is; `null`: the full one.
    quick: Option<&'static str>,
    figures: Vec<Figure>,
    notes: &'static [&'static str],
}

/// `lab reproduce`.
pub fn reproduce(args: &ReproduceArgs) -> anyhow::Result<()> {
    if let Some(folder) = warp::folder(args)? {
        return warp::warp(folder, args);
    }
    let chosen = chosen(&args.experiments)?;
    let options = Options {
        seed: args.seed,
        traces: args.traces.clone(),
        quick: args.quick,
        points: args.points,
    };
    chosen.iter().try_for_each(|experiment| experiment.check(&options))?;
    args.report.iter().try_for_each(|path| file::check(path))?;
    let names: Vec<&str> = chosen.iter().map(|experiment| experiment.name).collect();
    let kept = args.kept(&names)?;
    let mut out = std::io::stdout().lock();
    let (mut page, mut notes) = (plots::Charts::default(), Vec::new());
    let mut points = Vec::new();
    let store = store();
    for (index, experiment) in chosen.iter().enumerate() {
        let number = format!("{} ({} of {})", experiment.name, index + 1, chosen.len());
        let place = store.as_ref().map(|store| store.place(experiment, &options)).transpose()?;
        let old = place.as_ref().filter(|_| !args.fresh).and_then(from_earlier);
        let (figures, drawn) = match old {
            Some(old) => old,
            None => measure(experiment, &options, &number, place.as_ref())?,
        };
        page.plot_origins.extend(drawn.iter().map(|_| experiment.name.to_owned()));
        page.plots.extend(drawn);
        page.bars.extend(pairs(experiment, &figures));
        page.tables.push(table(experiment, &figures, args.quick));
        page.origins.push(args.origin(experiment));
        notes.extend(experiment.facts.notes);
        points.extend(experiment.points(&figures));
        if args.points {
            continue;
        }
        if args.json {
            let outcome = Outcome::new(experiment, figures, args);
            writeln!(out, "{}", serde_json::to_string_pretty(&outcome)?)?;
        } else {
            show(experiment, &figures, args.quick, &mut out)?;
        }
    }
    if args.points || args.experiments.iter().any(|name| name == "all") {
        show_points(points, kept, args, &mut out)?;
    }
    let title = format!("Thermocline: {}", args.experiments.join(", "));
    let introduction =
        "Published experiments, repeated: marks are theirs or a closed form, lines are ours.";
    plots::write(args.report.as_deref(), &title, introduction, page, &notes)
}

/// Where results are kept, if there is a folder for that and this program can be told from others.
fn store() -> Option<KeptResults> {
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    let program = hash_of(std::env::current_exe().ok()?.to_str()?).ok()?;
    Some(KeptResults::new(cache.join("thermocline"), program))
}

/// The result kept in `place`. A file that cannot be used is named.
fn from_earlier(place: &Place) -> Option<FiguresDrawn> {
    let path = place.path.display();
    match place.read() {
        Ok(old) => {
            if old.is_some() {
                eprintln!("kept from an earlier run in {path}; --fresh measures again");
            }
            old
        }
        Err(reason) => {
            eprintln!("{path} is not used: {reason}");
            None
        }
    }
}

/// Measures the figures, and keeps them in `place`.
fn measure(
    experiment: &Experiment,
    options: &Options,
    number: &str,
    place: Option<&Place>,
) -> anyhow::Result<FiguresDrawn> {
    let takes = experiment.takes(options);
    let quick = experiment.facts.quick.is_some() && !options.quick && takes > Takes::Minute;
    let hint = if quick { "; --quick runs a small form" } else { "" };
    eprintln!("{number}: takes {}{hint}", takes.name());
    let mut bar = Progress::default().aloud(number);
    let result = experiment.draw(options, &mut |share| bar.set(share))?;
    drop(bar);
    if let Some(Err(error)) = place.map(|place| place.write(&result)) {
        eprintln!("{number}: the result is not kept: {error}");
    }
    Ok(result)
}

/// Which small form the figures of `experiment` are of.
fn quick_terms(experiment: &Experiment) -> &'static str {
    experiment.facts.quick.map_or("the same as the full form", |quick| quick.terms)
}

impl ReproduceArgs {
    /// The rows of the table that the points go into, without those of the experiments called `chosen`.
    fn kept(&self, chosen: &[&str]) -> anyhow::Result<Vec<Row>> {
        Ok(self.into.as_deref().map(|path| kept(path, chosen)).transpose()?.unwrap_or_default())
    }

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
        let (name, source) = (experiment.name.to_owned(), experiment.facts.source.to_owned());
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
        let text = match &args.into {
            None => point_table(&rows),
            Some(path) => {
                let written = std::fs::write(path, to_csv(&rows));
                written.with_context(|| format!("cannot write {}", path.display()))?;
                summary(&rows)
            }
        };
        return Ok(write!(out, "{text}")?);
    }
    let errors = Errors::of(&rows);
    let (schema, seed, quick) = ("thermocline.points/1", args.seed, args.quick);
    let truth = Truth { schema, seed, quick, errors, points };
    Ok(writeln!(out, "{}", serde_json::to_string_pretty(&truth)?)?)
}

/// Rows of the table in `path`, without the rows of the experiments called `chosen`.
fn kept(path: &Path, chosen: &[&str]) -> anyhow::Result<Vec<Row>> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let mut rows = read(&text).with_context(|| path.display().to_string())?;
    ensure!(!rows.is_empty(), "{}: there is no table of truth in it", path.display());
    rows.retain(|row| !chosen.contains(&row.experiment()));
    let is_known = |name: &str| name == warp::NAME || Experiment::find(name).is_some();
    let unknown = rows.iter().find(|row| !is_known(row.experiment()));
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

/// Theirs beside ours, of the figures that have both.
fn pairs(experiment: &Experiment, figures: &[Figure]) -> Option<BarChart> {
    let both = figures.iter().filter(|figure| figure.theirs.is_some());
    let groups: Vec<_> =
        both.map(|figure| (figure.what.clone(), vec![figure.theirs, Some(figure.ours)])).collect();
    (!groups.is_empty()).then(|| BarChart {
        title: format!("{}: {}", experiment.name, experiment.facts.title),
        caption: "Published figures beside ours.".to_owned(),
        unit: "as each name says".to_owned(),
        series: ["theirs", "ours"].map(str::to_owned).to_vec(),
        groups,
        origin: Some(experiment.name.to_owned()),
    })
}

/// The figures as a table for the report, with columns for published values if the experiment has any.
fn table(experiment: &Experiment, figures: &[Figure], quick: bool) -> TextTable {
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
    let source = experiment.facts.source.trim_end_matches('.');
    let small = match quick {
        true => format!(" Quick form: {}.", quick_terms(experiment)),
        false => String::new(),
    };
    TextTable {
        title: format!("{}: {}", experiment.name, experiment.facts.title),
        text: format!("Theirs: {source}{nothing}.{small}"),
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
            let known = EXPERIMENTS.iter().map(|experiment| experiment.name);
            format!("`{name}` is no experiment; {}", thermocline_types::choices(name, known))
        })?;
        if !chosen.iter().any(|other| other.name == experiment.name) {
            chosen.push(experiment);
        }
    }
    Ok(chosen)
}

impl Outcome {
    fn new(experiment: &Experiment, figures: Vec<Figure>, args: &ReproduceArgs) -> Outcome {
        let facts = &experiment.facts;
        Outcome {
            schema: "thermocline.reproduce/1",
            experiment: experiment.name,
            title: facts.title,
            source: facts.source,
            seed: args.seed,
            quick: args.quick.then(|| quick_terms(experiment)),
            figures,
            notes: facts.notes,
        }
    }
}

fn show(
    experiment: &Experiment,
    figures: &[Figure],
    quick: bool,
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
    let facts = &experiment.facts;
    writeln!(out, "{}", facts.title)?;
    if quick {
        writeln!(out, "quick form: {}", quick_terms(experiment))?;
    }
    writeln!(out, "{table}\ntheirs: {}", facts.source)?;
    for note in facts.notes {
        writeln!(out, "note: {}", in_arguments(note))?;
    }
    writeln!(out)
}
