//! `lab theory`.

mod bandwidth;
mod controllers;
mod integrity;

pub use integrity::class_sources;

use std::io::Write as _;
use std::num::NonZeroU32;

use anyhow::Context;
use clap::{Args, Subcommand};
use comfy_table::{Cell, CellAlignment};
use thermocline_lab::theory::{
    Overprovisioning, Population, Row, Table, separation, skew, tables, uniform,
};

use crate::table::plain;

/// Arguments of `lab theory`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
#[command(after_help = "Examples:
  thermocline lab theory                         every table
  thermocline lab theory jesd219                 the tables with that in their title
  thermocline lab theory --op 0.12               uniform random writes at 12 % overprovisioning
  thermocline lab theory --garbage 0.15 --zipf 1.0
  thermocline lab theory --op 0.07 --hotcold 10:90
  thermocline lab theory bandwidth --media slc --link pcie1-x4

The closed forms hold for memoryless workloads in steady state; `thermocline lab reproduce uniform-greedy`
holds the simulator against them.")]
pub struct TheoryArgs {
    #[command(subcommand)]
    topic: Option<Topic>,
    /// Only tables whose title contains this text
    #[arg(value_name = "TEXT", conflicts_with_all = ["op", "garbage", "spare"])]
    title: Option<String>,
    /// Print comma-separated values instead of tables
    #[arg(long)]
    csv: bool,
    /// Print JSON instead of tables
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    #[command(flatten)]
    space: Space,
    /// Blocks in a unit, for greedy cleaning
    #[arg(long, value_name = "N", default_value = "512")]
    blocks: NonZeroU32,
    /// Hot and cold blocks: the hot DATA % of the blocks get WRITES % of the writes
    #[arg(long, value_name = "DATA%:WRITES%", conflicts_with = "zipf", requires = "space")]
    hotcold: Option<String>,
    /// Zipf with this exponent over a million blocks
    #[arg(long, value_name = "THETA", requires = "space")]
    zipf: Option<f64>,
}

/// What is computed from more than room and skew.
#[derive(Subcommand)]
enum Topic {
    /// What dies, buses and link can do at most, by the mix of reads and writes
    Bandwidth(bandwidth::BandwidthArgs),
    /// How whole data is kept over a drive's life, and what that costs
    Integrity(integrity::IntegrityArgs),
    /// Three controllers of 2009 step by step: what they copy for a small write
    Controllers(controllers::ControllersArgs),
}

/// How much room there is, in one of the ways people say it.
#[derive(Args)]
#[group(id = "space", multiple = false)]
struct Space {
    /// Overprovisioning, (media - capacity) / capacity: 0.07 is 7 %
    #[arg(long, value_name = "RATIO", group = "space")]
    op: Option<f64>,
    /// Garbage proportion, 1 - capacity / media
    #[arg(long, value_name = "SHARE", value_parser = crate::lab::args::share, group = "space")]
    garbage: Option<f64>,
    /// Spare share of the media, (media - capacity) / media, as drive simulators say it
    #[arg(long, value_name = "SHARE", value_parser = crate::lab::args::share, group = "space")]
    spare: Option<f64>,
}

impl Space {
    fn given(&self) -> anyhow::Result<Option<Overprovisioning>> {
        let op = self.op.map(Overprovisioning::from_ratio);
        let garbage = self.garbage.map(Overprovisioning::from_garbage);
        let spare = self.spare.map(Overprovisioning::from_spare);
        Ok(op.or(garbage).or(spare).transpose()?)
    }
}

/// Blocks of a Zipf population.
const ZIPF_BLOCKS: u64 = 1_000_000;

/// `lab theory`.
pub fn theory(args: &TheoryArgs) -> anyhow::Result<()> {
    match &args.topic {
        Some(Topic::Bandwidth(args)) => return bandwidth::bandwidth(args),
        Some(Topic::Integrity(args)) => return integrity::integrity(args),
        Some(Topic::Controllers(args)) => return controllers::controllers(args),
        None => {}
    }
    let mut out = std::io::stdout().lock();
    let computed = args.space.given()?.map(|op| compute(args, op)).transpose()?;
    let all = if computed.is_some() { Vec::new() } else { tables() };
    let wanted = args.title.as_deref().unwrap_or("").to_lowercase();
    let chosen: Vec<&Table> = all
        .iter()
        .filter(|table| table.title.to_lowercase().contains(&wanted))
        .chain(&computed)
        .collect();
    if chosen.is_empty() {
        let titles: Vec<&str> = all.iter().map(|table| table.title).collect();
        anyhow::bail!("no table is called `{wanted}`; there are\n  {}", titles.join("\n  "));
    }
    if args.json {
        let tables: Vec<serde_json::Value> = chosen.into_iter().map(json).collect();
        let all = serde_json::json!({"schema": "thermocline.theory/1", "tables": tables});
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?);
    }
    for table in chosen {
        if args.csv { csv(table, &mut out)? } else { show(table, &mut out)? }
    }
    Ok(())
}

/// The closed forms for one amount of overprovisioning.
fn compute(args: &TheoryArgs, op: Overprovisioning) -> anyhow::Result<Table> {
    let row = |label: String, waf: f64| Row { label, values: vec![waf] };
    let mut rows = vec![
        row(
            format!("uniform, greedy, units of {} blocks", args.blocks),
            uniform::greedy_waf(op, args.blocks),
        ),
        row("uniform, cleaned in order of writing (FIFO)".into(), uniform::fifo_waf(op)),
        row("uniform, random victim".into(), uniform::random_victim_waf(op)),
    ];
    if let Some((name, population)) = population(args)? {
        let optimum = separation::optimum(&population, op);
        rows.push(row(format!("{name}, not separated (FIFO)"), skew::fifo_waf(&population, op)));
        rows.push(row(format!("{name}, separated by true rate, best split"), optimum.waf));
    }
    Ok(Table {
        title: "write amplification (WAF) in steady state",
        note: "memoryless writes; see `thermocline lab theory` without options for formulas' sources",
        corner: "case",
        columns: vec![format!(
            "OP {:.2} % (garbage {:.2} %)",
            op.ratio() * 100.0,
            op.garbage() * 100.0
        )],
        rows,
        decimals: 4,
    })
}

fn population(args: &TheoryArgs) -> anyhow::Result<Option<(String, Population)>> {
    if let Some(theta) = args.zipf {
        return Ok(Some((format!("Zipf {theta}"), Population::zipf(theta, ZIPF_BLOCKS)?)));
    }
    let Some(text) = &args.hotcold else { return Ok(None) };
    let shares = text.split_once(':').and_then(|(data, writes)| {
        Some((data.parse::<f64>().ok()? / 100.0, writes.parse::<f64>().ok()? / 100.0))
    });
    let (data, writes) =
        shares.with_context(|| format!("--hotcold {text}: write DATA%:WRITES%, such as 10:90"))?;
    Ok(Some((format!("hot/cold {text}"), Population::hot_cold(data, writes)?)))
}

fn show(table: &Table, out: &mut impl std::io::Write) -> std::io::Result<()> {
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let mut drawn = plain();
    let mut header = vec![Cell::new(table.corner)];
    header.extend(table.columns.iter().map(|column| right(column.clone())));
    drawn.set_header(header);
    for row in &table.rows {
        let mut cells = vec![Cell::new(&row.label)];
        cells.extend(row.values.iter().map(|value| right(format!("{value:.*}", table.decimals))));
        drawn.add_row(cells);
    }
    writeln!(out, "{}\n{drawn}\n{}\n", table.title, table.note)
}

fn json(table: &Table) -> serde_json::Value {
    let row = |row: &Row| serde_json::json!({"label": row.label, "values": row.values});
    serde_json::json!({
        "title": table.title,
        "note": table.note,
        "columns": table.columns,
        "rows": table.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn csv(table: &Table, out: &mut impl std::io::Write) -> std::io::Result<()> {
    let quote = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let header: Vec<String> = table.columns.iter().map(|column| quote(column)).collect();
    writeln!(out, "# {}\n{},{}", table.title, quote(table.corner), header.join(","))?;
    for row in &table.rows {
        let values: Vec<String> =
            row.values.iter().map(|v| format!("{v:.*}", table.decimals)).collect();
        writeln!(out, "{},{}", quote(&row.label), values.join(","))?;
    }
    Ok(())
}
