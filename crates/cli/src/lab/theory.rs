//! `lab theory`.

use clap::Args;
use comfy_table::{Cell, CellAlignment};
use thermocline_lab::theory::{Table, tables};

use crate::table::plain;

/// Arguments of `lab theory`.
#[derive(Args)]
#[command(
    after_help = "The tables hold for memoryless workloads in steady state; `thermocline lab reproduce uniform-greedy` \
holds the simulator against them."
)]
pub struct TheoryArgs {
    /// Only tables whose title contains this text
    #[arg(value_name = "TEXT")]
    title: Option<String>,
    /// Print comma-separated values instead of tables
    #[arg(long)]
    csv: bool,
}

/// `lab theory`.
pub fn theory(args: &TheoryArgs) -> anyhow::Result<()> {
    let wanted = args.title.as_deref().unwrap_or("").to_lowercase();
    let all = tables();
    let chosen: Vec<&Table> =
        all.iter().filter(|table| table.title.to_lowercase().contains(&wanted)).collect();
    if chosen.is_empty() {
        let titles: Vec<&str> = all.iter().map(|table| table.title).collect();
        anyhow::bail!("no table is called `{wanted}`; there are\n  {}", titles.join("\n  "));
    }
    let mut out = std::io::stdout().lock();
    for table in chosen {
        if args.csv { csv(table, &mut out)? } else { show(table, &mut out)? }
    }
    Ok(())
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
