//! `lab theory integrity`.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use thermocline_format::TAG_BITS;
use thermocline_lab::Stack;
use thermocline_lab::theory::integrity::{Outlook, Use, WearYears, order, outlook, wear_years};
use thermocline_nand::Profile;
use thermocline_nand::integrity::{Integrity, class};
use thermocline_record::plot::{Plot, PlotAxis, PlotLine};
use thermocline_report::TextTable;

use crate::file;
use crate::lab::plots;
use crate::table::draw;

/// Arguments of `lab theory integrity`.
#[derive(Args)]
#[command(after_help = "\
Bits that are read wrong grow with wear, age, heat and reads; correction, retries, parity over dies, patrol and refresh
keep data whole. Closed forms, stated in the documentation of `thermocline_nand::integrity`; most values are assumed (the
last lines say where each is from), and figures are shown for bit error rates at both ends of their uncertainty.

Examples:
  thermocline lab theory integrity
  thermocline lab theory integrity --device pm9d3 --celsius 70 --drive-reads 10 \\
    --report integrity.html
  thermocline lab theory integrity --device p5316,integrity.parity.dies=0 --json")]
pub struct IntegrityArgs {
    /// DEVICE[,KEY=VALUE...]: a built-in profile such as p5316, or a file (`lab list devices`)
    #[arg(long, value_name = "DEVICE", default_value = "p5316")]
    device: String,
    /// Temperature of the flash, degrees Celsius
    #[arg(long, value_name = "T", default_value_t = 55.0, allow_negative_numbers = true)]
    celsius: f64,
    /// Capacities read a day, in random reads of 4 KiB
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    drive_reads: f64,
    /// Capacities written a day
    #[arg(long, value_name = "N", default_value_t = 0.3)]
    drive_writes: f64,
    /// Write amplification without refresh, as a run measures it
    #[arg(long, value_name = "WAF", default_value_t = 2.0)]
    waf: f64,
    /// Share of the data that the host never rewrites
    #[arg(long, value_name = "SHARE", value_parser = crate::lab::args::share, default_value_t = 0.5)]
    resting: f64,
    /// Years of service
    #[arg(long, value_name = "YEARS", default_value_t = 5.0)]
    years: f64,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Write the tables and charts as an HTML page: a single file, readable offline
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

#[derive(Serialize)]
struct Output<'a> {
    schema: &'static str,
    device: &'a str,
    r#use: Use,
    outlook: &'a [Outlook],
    wear_years_levelled: Option<WearYears>,
    wear_years_not_levelled: Option<WearYears>,
    capacity_share_of_ecc: f64,
    capacity_share_of_parity: f64,
    failures_first_year: f64,
    failures_later_year: f64,
}

/// The shown shares of the rated cycles.
const WEAR: [f64; 4] = [0.0, 0.5, 1.0, 1.25];
/// Horizontal points of a chart, up to one and a half times the rated cycles.
const POINTS: u32 = 30;

/// `lab theory integrity`.
pub fn integrity(args: &IntegrityArgs) -> anyhow::Result<()> {
    args.report.iter().try_for_each(|path| file::check(path))?;
    let profile = Stack::parse(&format!("raw:{}", args.device), &[])?.profile;
    let model = profile.integrity.as_ref().with_context(|| {
        format!("{} has no [integrity]: how it keeps data whole is not modelled", args.device)
    })?;
    let usage = args.usage()?;
    let at = |wear| outlook(&profile, &usage, wear).expect("it is modelled");
    let points: Vec<Outlook> = WEAR.into_iter().map(at).collect();
    let years = wear_years(&profile, &usage);
    let tables = vec![main_table(&points), costs(model, &points, years)];
    let mut out = std::io::stdout().lock();
    if args.json {
        let output = Output {
            schema: "thermocline.theory-integrity/1",
            device: &args.device,
            r#use: usage,
            outlook: &points,
            wear_years_levelled: years.map(|[levelled, _]| levelled),
            wear_years_not_levelled: years.map(|[_, left]| left),
            capacity_share_of_ecc: of_ecc(model),
            capacity_share_of_parity: model.parity.share(),
            failures_first_year: model.failures.between(0.0, 365.0),
            failures_later_year: model.failures.between(730.0, 1095.0),
        };
        writeln!(out, "{}", serde_json::to_string_pretty(&output)?)?;
    } else {
        writeln!(out, "{}\n{}\n", profile.title, stated(&usage))?;
        for table in &tables {
            writeln!(out, "{}\n{}\n", table.title, draw(&table.heads, &table.rows))?;
        }
        sources(&profile, model).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    let notes = sources(&profile, model);
    let notes: Vec<&str> = notes.iter().map(String::as_str).collect();
    let charts = charts(&profile, &usage);
    let title = format!("How {} keeps data whole", profile.title);
    let charts = plots::Charts { plots: charts, tables, ..plots::Charts::default() };
    plots::write(args.report.as_deref(), &title, &stated(&usage), charts, &notes)
}

impl IntegrityArgs {
    fn usage(&self) -> anyhow::Result<Use> {
        let usage = Use {
            celsius: self.celsius,
            drive_reads_per_day: self.drive_reads,
            drive_writes_per_day: self.drive_writes,
            waf: self.waf,
            resting: self.resting,
            service_years: self.years,
        };
        Ok(usage.checked()?)
    }
}

fn stated(usage: &Use) -> String {
    format!(
        "{} °C, {} capacities read and {} written a day at a WAF of {}, {:.0} % of the data at rest, {} years of service",
        usage.celsius,
        usage.drive_reads_per_day,
        usage.drive_writes_per_day,
        usage.waf,
        100.0 * usage.resting,
        usage.service_years
    )
}

fn main_table(points: &[Outlook]) -> TextTable {
    let heads = std::iter::once("share of the rated cycles used up".to_owned())
        .chain(points.iter().map(|point| format!("{:.0} %", 100.0 * point.wear)))
        .collect();
    let row = |name: &str, cell: &dyn Fn(&Outlook) -> String| -> Vec<String> {
        std::iter::once(name.to_owned()).chain(points.iter().map(cell)).collect()
    };
    let optional = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.0}"));
    let mut rows = vec![
        row("oldest data, days", &|p| format!("{:.0}", p.oldest_days)),
        row("its bit error rate", &|p| format!("{:.1e}", p.bit_error_rate)),
    ];
    for part in 0..points[0].parts.len() {
        let name = format!("  {}", points[0].parts[part].0);
        rows.push(row(&name, &|p| format!("{:.1e}", p.parts[part].1)));
    }
    rows.extend([
        row("corrected at once, a year", &|p| order(p.corrected_per_year)),
        row("read again, a year", &|p| p.retried_per_year.to_string()),
        row("rebuilt from parity, a year", &|p| p.rebuilt_per_year.to_string()),
        row("lost, a year", &|p| p.lost_per_year.to_string()),
        row("UBER in use", &|p| p.uber.to_string()),
        row("UBER after 3 months off at 40 °C", &|p| p.uber_jesd218.to_string()),
        row("refreshed after, days", &|p| optional(p.refresh_days)),
        row("  WAF of refresh", &|p| format!("+{:.3}", p.waf_of_refresh)),
        row("page read in the mean, us", &|p| optional(p.read_us)),
        row("  99 / 99.9 / 99.99 % within, us", &|p| {
            p.read_us_within.map_or("-".into(), |[a, b, c]| format!("{a:.0} / {b:.0} / {c:.0}"))
        }),
    ]);
    let title = "Over the life: codewords of a drive (at the low and high end of the error rates)";
    TextTable { title: title.into(), heads, rows, ..TextTable::default() }
}

fn of_ecc(model: &Integrity) -> f64 {
    model.ecc.overhead / (1.0 + model.ecc.overhead)
}

fn costs(model: &Integrity, points: &[Outlook], years: Option<[WearYears; 2]>) -> TextTable {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let failures = &model.failures;
    let mut rows = vec![
        row("share of the cells that ECC takes", format!("{:.1} %", 100.0 * of_ecc(model))),
        row(
            "share of the media that parity takes",
            format!("{:.1} %", 100.0 * model.parity.share()),
        ),
        row(
            "drives that fail in their first year, in a later one",
            format!(
                "{:.1} %, {:.1} %",
                100.0 * failures.between(0.0, 365.0),
                100.0 * failures.between(730.0, 1095.0)
            ),
        ),
    ];
    if let Some([levelled, left]) = years {
        let both = |y: WearYears| format!("{:.1}, {:.1} years", y.first_block, y.spares_used_up);
        rows.push(row("first block worn out, spares used up", both(levelled)));
        rows.push(row("  without static levelling", both(left)));
    }
    if let Some((new, worn)) = points[0].read_us.zip(points[2].read_us) {
        let slower = format!("{:.0} %", 100.0 * (worn / new - 1.0));
        rows.push(row("reads slower at the rated cycles than new, by", slower));
    }
    let heads = ["what keeping data whole takes", ""].map(str::to_owned).to_vec();
    TextTable { title: "Protection and wear".into(), heads, rows, ..TextTable::default() }
}

/// Sources of the values for the cell class of `model`, by key.
pub fn class_sources(model: &Integrity) -> impl Iterator<Item = (&'static str, &'static str)> {
    let text = class(&model.cells).unwrap_or_default();
    let lines = text.lines().skip_while(|line| *line != "[source]").skip(1);
    lines
        .filter_map(|line| line.split_once(" = "))
        .map(|(key, source)| (key.trim_matches('"'), source.trim_matches('"')))
}

/// Sources of the model's values, and the protection above the drive.
fn sources(profile: &Profile, model: &Integrity) -> Vec<String> {
    let own = profile.source.iter().filter(|(key, _)| key.starts_with("integrity"));
    let own = own.map(|(key, source)| format!("{key}: {source}"));
    let of_class =
        class_sources(model).map(|(key, source)| format!("{} {key}: {source}", model.cells));
    own.chain(of_class).chain([beyond_the_drive()]).collect()
}

/// The layers that detect wrong data which a drive returns without an error. The tag of a wrong block matches by
/// chance once in 2^[`TAG_BITS`] (ADR 0063).
fn beyond_the_drive() -> String {
    format!(
        "lost: the drive returns an error; data that it returns wrong without one is in no figure, for want of a source; a \
         log or tier above it finds that by the tag of the block, its checksum and home mark in one, but for one block in \
         2^{TAG_BITS}, and scrub by 32 bits"
    )
}

fn charts(profile: &Profile, usage: &Use) -> Vec<Plot> {
    let points: Vec<Outlook> = (0..=POINTS)
        .filter_map(|step| outlook(profile, usage, 1.5 * f64::from(step) / f64::from(POINTS)))
        .collect();
    let line = |name: &str, y: &dyn Fn(&Outlook) -> Option<f64>| {
        let above = |p: &Outlook| y(p).filter(|y| *y > 0.0).map(|y| [100.0 * p.wear, y]);
        PlotLine::ours(name, points.iter().filter_map(above).collect())
    };
    let plot = |title: &str, caption: &str, y: PlotAxis, lines: Vec<PlotLine>| Plot {
        title: title.into(),
        caption: caption.into(),
        x: PlotAxis::linear("rated cycles used up, %"),
        y,
        lines,
    };
    let parts = (0..points[0].parts.len())
        .map(|part| line(points[0].parts[part].0, &|point| Some(point.parts[part].1)));
    let sum = line("all", &|p| Some(p.bit_error_rate));
    let ber = parts.chain([sum]).collect();
    let ladder = vec![
        line("read again", &|p| Some(p.retried_per_year.assumed / codewords(p))),
        line("rebuilt from parity", &|p| Some(p.rebuilt_per_year.assumed / codewords(p))),
        line("lost", &|p| Some(p.lost_per_year.assumed / codewords(p))),
        line("lost, error rates at the high end", &|p| Some(p.lost_per_year.high / codewords(p))),
    ];
    let within = |index: usize| move |p: &Outlook| p.read_us_within.map(|us| us[index]);
    let speed = vec![
        line("mean", &|p| p.read_us),
        line("99 %", &within(0)),
        line("99.9 %", &within(1)),
        line("99.99 %", &within(2)),
    ];
    let logarithmic = PlotAxis::logarithmic;
    vec![
        plot(
            "Bits read wrong",
            "Of the oldest data, mean over pages.",
            logarithmic("share of the bits"),
            ber,
        ),
        plot(
            "What becomes of a codeword",
            "Shares of all that is read.",
            logarithmic("share of the codewords"),
            ladder,
        ),
        plot(
            "Speed against integrity",
            "Time within which so many reads of a page have their data corrected.",
            PlotAxis::linear("microseconds"),
            speed,
        ),
        plot(
            "Writes of refresh",
            "What it adds to the write amplification.",
            PlotAxis::linear("media bytes for each byte of the host"),
            vec![line("refresh", &|p| Some(p.waf_of_refresh))],
        ),
    ]
}

/// Codewords read a year.
fn codewords(point: &Outlook) -> f64 {
    point.corrected_per_year + point.retried_per_year.assumed
}
