//! `lab theory bandwidth`.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use thermocline_lab::theory::bandwidth::{
    FLASH_TIMINGS, FlashArray, FlashTiming, HOST_LINKS, HostLink, READ_SHARES,
};
use thermocline_record::plot::{Plot, PlotAxis, PlotLine};
use thermocline_report::TextTable;

use crate::file;
use crate::lab::plots;
use crate::table::draw;

/// Arguments of `lab theory bandwidth`.
#[derive(Args)]
#[command(after_help = "\
Of a bus with B banks that can be selected one by one: page · min(1 / transfer, B / bank time), where a bank is busy
for tR + transfer per page read, and for transfer + tPROG + its share of tERASE per page written; all buses together,
cut by the link. Assumed: large transfers, deep queues, steady state, one block erased for each one written. `lab run`
says in its record what limited a run, and what share of this it reached.

Examples:
  thermocline lab theory bandwidth
  thermocline lab theory bandwidth --media slc,mlc --link sata-ii --dies-per-bus 4
  thermocline lab theory bandwidth --media qlc --dies 128 --link pcie4-x4
  thermocline lab theory bandwidth --report bandwidth.html
  thermocline lab theory bandwidth --media mlc --json")]
pub struct BandwidthArgs {
    /// Cells: slc and mlc of 2009, tlc and qlc of 2021
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "slc,mlc,tlc,qlc")]
    media: Vec<String>,
    /// Dies of the largest drive shown
    #[arg(long, value_name = "N", default_value_t = 240)]
    dies: u32,
    /// Dies on a bus
    #[arg(long, value_name = "N", default_value_t = 8)]
    dies_per_bus: u32,
    /// Dies of a bus that can work at the same time
    #[arg(long, value_name = "N", default_value_t = 4)]
    chip_selects: u32,
    /// Link to the host: none, sata-ii, pcie1-x4, pcie3-x4 or pcie4-x4
    #[arg(long, value_name = "NAME", default_value = "none")]
    link: String,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Write the charts as an HTML page: a single file, readable offline
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

#[derive(Serialize)]
struct Output {
    schema: &'static str,
    dies_per_bus: u32,
    chip_selects: u32,
    link: &'static str,
    points: Vec<Point>,
}

/// Bandwidth of a drive at one mix of reads and writes.
#[derive(Serialize)]
struct Point {
    media: &'static str,
    dies: u32,
    capacity_bytes: f64,
    read_share: f64,
    mb_per_s: f64,
    limit: &'static str,
}

/// `lab theory bandwidth`.
pub fn bandwidth(args: &BandwidthArgs) -> anyhow::Result<()> {
    args.report.iter().try_for_each(|path| file::check(path))?;
    let media = args.media()?;
    let link = find_link(&args.link)?;
    let mut points = Vec::new();
    for timing in &media {
        for dies in args.sweep() {
            let array = args.array(timing, dies, link)?;
            points.extend(READ_SHARES.map(|read_share| {
                let reached = array.bandwidth(read_share, None);
                Point {
                    media: timing.name,
                    dies,
                    capacity_bytes: timing.die_bytes * f64::from(dies),
                    read_share,
                    mb_per_s: reached.mb_per_s,
                    limit: reached.bottleneck.name(),
                }
            }));
        }
    }
    let tables = media.iter().map(|timing| args.table(timing, &points)).collect::<Vec<_>>();
    let sources: Vec<String> =
        media.iter().map(|timing| format!("{}: {}", timing.name, timing.source)).collect();
    let mut out = std::io::stdout().lock();
    if args.json {
        let output = Output {
            schema: "thermocline.theory-bandwidth/1",
            dies_per_bus: args.dies_per_bus,
            chip_selects: args.chip_selects,
            link: link.name,
            points,
        };
        writeln!(out, "{}", serde_json::to_string_pretty(&output)?)?;
    } else {
        for table in &tables {
            writeln!(out, "{}\n{}\n", table.title, draw(&table.heads, &table.rows))?;
        }
        sources.iter().try_for_each(|source| writeln!(out, "{source}"))?;
    }
    let notes: Vec<&str> = sources.iter().map(String::as_str).collect();
    let plots = args.plots(&media, link)?;
    let drawn = plots::Charts { plots, tables, ..plots::Charts::default() };
    let title = "Bandwidth of dies, buses and link";
    plots::write(args.report.as_deref(), title, INTRODUCTION, drawn, &notes)
}

const INTRODUCTION: &str = "What a drive can do at most, after Thatcher's SNIA tutorial of 2009: large transfers, deep queues, steady state, one \
     block erased for each one written. The formula is our reconstruction of its charts.";

fn find_link(name: &str) -> anyhow::Result<&'static HostLink> {
    let names = HOST_LINKS.map(|link| link.name).join(", ");
    HostLink::find(name).with_context(|| format!("--link {name}: there are {names}"))
}

impl BandwidthArgs {
    fn media(&self) -> anyhow::Result<Vec<&'static FlashTiming>> {
        let names = FLASH_TIMINGS.map(|timing| timing.name).join(", ");
        let find = |name: &String| {
            FlashTiming::find(name).with_context(|| format!("--media {name}: there are {names}"))
        };
        self.media.iter().map(find).collect()
    }

    /// Numbers of dies: up to eight steps of whole buses; the last step is all dies.
    fn sweep(&self) -> Vec<u32> {
        let buses = (self.dies / self.dies_per_bus.max(1)).max(1);
        let mut dies: Vec<u32> =
            (1..=8).map(|step| (buses * step).div_ceil(8) * self.dies_per_bus).collect();
        dies.dedup();
        dies.retain(|&dies| dies < self.dies);
        dies.push(self.dies);
        dies
    }

    fn array(
        &self,
        timing: &FlashTiming,
        dies: u32,
        link: &HostLink,
    ) -> anyhow::Result<FlashArray> {
        let [dies, per_bus, selects] = [dies, self.dies_per_bus, self.chip_selects].map(f64::from);
        Ok(FlashArray::new(*timing, dies, per_bus, selects, *link)?)
    }

    fn table(&self, timing: &FlashTiming, points: &[Point]) -> TextTable {
        let mixes = READ_SHARES.map(mix);
        let heads = ["dies".to_owned(), "capacity".to_owned()].into_iter().chain(mixes).collect();
        let row = |dies: u32| {
            let mine = points.iter().filter(|p| p.media == timing.name && p.dies == dies);
            let cells = mine.map(|p| format!("{:.0} {}", p.mb_per_s, p.limit));
            let size = format!("{:.0} GB", timing.die_bytes * f64::from(dies) / 1e9);
            [dies.to_string(), size].into_iter().chain(cells).collect()
        };
        TextTable {
            title: format!(
                "{}: MB/s and its limit, by reads/writes; {} dies a bus, {} at a time, link {}",
                timing.name, self.dies_per_bus, self.chip_selects, self.link
            ),
            heads,
            rows: self.sweep().into_iter().map(row).collect(),
            ..TextTable::default()
        }
    }

    fn plots(&self, media: &[&FlashTiming], link: &HostLink) -> anyhow::Result<Vec<Plot>> {
        let mut plots = Vec::new();
        for timing in media {
            let mut lines = Vec::new();
            for read in READ_SHARES {
                let mut points = Vec::new();
                for dies in self.sweep() {
                    let reached = self.array(timing, dies, link)?.bandwidth(read, None);
                    points.push([f64::from(dies), reached.mb_per_s]);
                }
                lines.push(PlotLine::ours(&mix(read), points));
            }
            plots.push(Plot {
                title: format!(
                    "{}: bandwidth by dies and reads/writes, link {}",
                    timing.name, link.name
                ),
                caption: "Lines that lie on each other are limited by the same resource.".into(),
                x: PlotAxis::linear("dies"),
                y: PlotAxis::linear("MB/s"),
                lines,
            });
        }
        plots.push(self.by_chip_selects(media)?);
        Ok(plots)
    }

    /// The share of a bus's rate that reads and writes reach, by number of banks.
    fn by_chip_selects(&self, media: &[&FlashTiming]) -> anyhow::Result<Plot> {
        let none = find_link("none")?;
        let mut lines = Vec::new();
        for timing in media {
            for (name, read) in [("reads", 1.0), ("writes", 0.0)] {
                let mut points = Vec::new();
                for selects in 1..=16 {
                    let banks = f64::from(selects);
                    let bus = FlashArray::new(**timing, banks, banks, banks, *none)?;
                    let share = bus.bandwidth(read, None).mb_per_s / timing.bus_mb_per_s;
                    points.push([banks, share]);
                }
                lines.push(PlotLine::ours(&format!("{} {name}", timing.name), points));
            }
        }
        Ok(Plot {
            title: "Banks on a bus".into(),
            caption: "Share of the bus that is used when so many banks of it work at a time: the imbalance of reads and \
                      writes closes with banks."
                .into(),
            x: PlotAxis::linear("banks on the bus"),
            y: PlotAxis::linear("share of the bus"),
            lines,
        })
    }
}

/// A mix in the tutorial's notation: reads/writes in per cent.
fn mix(read: f64) -> String {
    format!("{:.0}/{:.0}", read * 100.0, (1.0 - read) * 100.0)
}
