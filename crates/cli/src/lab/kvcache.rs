//! `lab kvcache`: admission rules of a language model's cache on flash.

use std::io::Write as _;

use anyhow::{Context as _, ensure};
use clap::Args;
use serde::Serialize;
use thermocline_lab::kvcache::{Counted, KvCache, Wear};
use thermocline_lab::{Layer, Settings, Stack};
use thermocline_workload::llm::{Admission, BUILT_IN, CacheCounts};

use super::args::{CONVENTIONS, ENDS_AT_ONCE, share};
use super::parallel;
use crate::interrupt::Interrupt;
use crate::table::{NONE, draw};

/// Help text: rules, columns, and examples.
const ABOUT: &str = "\
The trace is prompts as Mooncake publishes them, in blocks of 512 tokens. Sizes are
of all its blocks (5%), or in bytes. Rules of admission to flash:
  all             at every miss
  first           at the first use ever
  second          from the second use on
  evicted         when DRAM evicts the block; evicted-twice: if it was used twice
  frequency:F     count of uses, halved after F times the flash tier, reaches 1.5
  distance        at a use later than DRAM and not later than flash keeps a block
  budget:N        at every miss, but at most N times the flash tier a day
  probation:S     at the second use; DRAM holds only blocks that are not on flash;
                  of those it evicts after one use, the share S is written too
KEPT is the hits over those of `all`, WRITES likewise. WAF is that of a simulated
drive that is smaller than the tier, LIFE the median for the product. With tag: a
handle tells blocks used once, twice, and more often when they are written.

Examples:
  thermocline lab kvcache --dram 5% --flash 20% --stack raw:p5316
  thermocline lab kvcache --admit second,probation --window second-half --no-drive
  thermocline lab kvcache --flash 10%,20%,50% --oracle --no-drive --json";

/// Rules of the table where none are given. The budget is about a third of the writes of `all` on the trace that comes
/// along.
const RULES: &str = "all,first,evicted,second,evicted-twice,frequency,distance,budget:40,probation";

/// Arguments of `lab kvcache`.
#[derive(Args)]
#[command(after_help = format!("{ABOUT}\n\n{CONVENTIONS}\n{ENDS_AT_ONCE}"))]
pub struct KvCacheArgs {
    /// Prompts, as JSON lines, gzip or not
    #[arg(long, value_name = "FILE", default_value = BUILT_IN)]
    trace: String,
    /// Bytes of a token: 8b, 70b, latent or LAYERSxHEADSxSIZE, with @8 for 8 bits
    #[arg(long, value_name = "MODEL", default_value = "70b")]
    model: String,
    /// Size of the tier in DRAM
    #[arg(long, value_name = "SIZE", default_value = "5%")]
    dram: String,
    /// Sizes of the tier on flash
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_value = "20%")]
    flash: Vec<String>,
    /// Admission rules
    #[arg(long, value_name = "RULES", value_delimiter = ',', default_value = RULES)]
    admit: Vec<Admission>,
    /// Part of the trace that is counted
    #[arg(long, value_enum, default_value = "whole")]
    window: Part,
    /// Show how few writes could give the hits, if the future were known
    #[arg(long)]
    oracle: bool,
    /// LAYER:DEVICE[,KEY=VALUE...], such as raw:p5316 (`lab list layers` and `devices`)
    #[arg(long, value_name = "STACK", default_value = "raw:p5316")]
    stack: String,
    /// Simulate no drive
    #[arg(long)]
    no_drive: bool,
    /// Override a field of the profile, or a setting of the log; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Share of the drive that the flash tier fills, above 0 to 1
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = 0.9)]
    utilisation: f64,
    /// Write the flash tier so many times over on the simulated drive
    #[arg(long, value_name = "X", default_value_t = 4.0)]
    fills: f64,
    /// Seed of all randomness; equal seeds give equal results
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs at a time [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Print JSON instead of a table
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Part of the trace.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Part {
    /// All of it, from an empty cache
    Whole,
    /// The first half of the prompts
    FirstHalf,
    /// The second half; the cache begins as the first half leaves it
    SecondHalf,
}

/// A rule on tiers of a size, as JSON.
#[derive(Clone, Serialize)]
struct Row {
    flash: String,
    rule: String,
    references: u64,
    dram_hit_ratio: f64,
    flash_hit_ratio: f64,
    hits_of_all: f64,
    writes_of_all: f64,
    written_bytes_per_day: f64,
    drive_writes_per_day: Option<f64>,
    waf: Option<f64>,
    life_years_p50: Option<f64>,
}

/// The bound for tiers of a size: the fewest writes for shares of the hits of `all`.
#[derive(Serialize)]
struct Least {
    flash: String,
    hits_of_all: f64,
    writes_of_all: Option<f64>,
}

/// Everything, as JSON.
#[derive(Serialize)]
struct Output {
    schema: &'static str,
    block_bytes: u64,
    rows: Vec<Row>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    oracle: Vec<Least>,
}

/// Shares of the hits of `all` for which the bound is shown.
const KEPT: [f64; 4] = [0.8, 0.9, 0.95, 1.0];

/// `lab kvcache`.
pub fn kvcache(args: &KvCacheArgs) -> anyhow::Result<()> {
    ensure!((0.1..=1000.0).contains(&args.fills), "--fills is {}, must be 0.1 to 1000", args.fills);
    ensure!(args.jobs != Some(0), "--jobs must be at least 1");
    let mut stack = Stack::parse(&args.stack, &args.set)?;
    if stack.layer == Layer::Tag {
        stack.tag_by("directory")?;
    }
    let mut all: Vec<(&str, Admission, KvCache)> = Vec::new();
    for flash in &args.flash {
        for &rule in &args.admit {
            all.push((flash, rule, KvCache::new(&workload(args, flash, rule))?));
        }
    }
    let interrupt = Interrupt::watch()?;
    let rows = parallel::each(&all, args.jobs, ("kvcache", &interrupt), |item, tell| {
        row(args, &stack, item, tell)
    });
    interrupt.check()?;
    let rows = rows.into_iter().map(|row| row.context("it was not run")?);
    let rows = rows.collect::<anyhow::Result<Vec<Row>>>()?;
    let first = &all.first().context("--flash and --admit must name one at least")?.2;
    let oracle = if args.oracle { least(args)? } else { Vec::new() };
    let block_bytes = first.block().0;
    let output = Output { schema: "thermocline.kvcache/1", block_bytes, rows, oracle };
    let mut out = std::io::stdout().lock();
    if args.json {
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&output)?)?);
    }
    write!(out, "{}", text(args, &stack, first, &output))?;
    Ok(())
}

/// The workload of tiers with `flash` under `rule`.
fn workload(args: &KvCacheArgs, flash: &str, rule: Admission) -> String {
    let KvCacheArgs { trace, model, dram, .. } = args;
    format!("llm:trace={trace},model={model},dram={dram},flash={flash},admit={rule},reads=off")
}

fn window(part: Part) -> Counted {
    match part {
        Part::Whole => Counted::Whole,
        Part::FirstHalf => Counted::FirstHalf,
        Part::SecondHalf => Counted::SecondHalf,
    }
}

fn row(
    args: &KvCacheArgs,
    stack: &Stack,
    (flash, rule, cache): &(&str, Admission, KvCache),
    tell: &mut dyn FnMut(f64),
) -> anyhow::Result<Row> {
    let window = window(args.window);
    let counts = cache.counts(*rule, window);
    let all = cache.counts(Admission::All, window);
    let daily = cache.daily(counts.writes, window);
    let settings =
        Settings { utilisation: args.utilisation, seed: args.seed, ..Settings::default() };
    let wear = (!args.no_drive && counts.writes > 0)
        .then(|| cache.wear(stack, &settings, args.fills, daily, tell))
        .transpose()
        .with_context(|| format!("cannot run {rule}"))?;
    Ok(of(flash, *rule, &counts, &all, daily, wear))
}

fn of(
    flash: &str,
    rule: Admission,
    counts: &CacheCounts,
    all: &CacheCounts,
    daily: f64,
    wear: Option<Wear>,
) -> Row {
    let over = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    Row {
        flash: flash.to_owned(),
        rule: rule.to_string(),
        references: counts.references,
        dram_hit_ratio: over(counts.dram_hits, counts.references),
        flash_hit_ratio: over(counts.flash_hits, counts.references),
        hits_of_all: over(counts.hits(), all.hits()),
        writes_of_all: over(counts.writes, all.writes),
        written_bytes_per_day: daily,
        drive_writes_per_day: wear.map(|wear| wear.drive_writes_per_day),
        waf: wear.and_then(|wear| wear.waf),
        life_years_p50: wear.and_then(|wear| wear.years),
    }
}

/// The bound for each size of the flash tier.
fn least(args: &KvCacheArgs) -> anyhow::Result<Vec<Least>> {
    ensure!(matches!(args.window, Part::Whole), "--oracle needs --window whole");
    let mut found = Vec::new();
    for flash in &args.flash {
        let cache = KvCache::new(&workload(args, flash, Admission::All))?;
        let (all, bound) = (cache.counts(Admission::All, Counted::Whole), cache.bound());
        found.extend(KEPT.map(|hits_of_all| {
            let writes = bound.writes((all.hits() as f64 * hits_of_all).ceil() as u64);
            let writes_of_all = writes.map(|writes| writes as f64 / all.writes as f64);
            Least { flash: flash.clone(), hits_of_all, writes_of_all }
        }));
    }
    Ok(found)
}

fn text(args: &KvCacheArgs, stack: &Stack, first: &KvCache, output: &Output) -> String {
    let prompts = &first.prompts;
    let mut text = format!(
        "{} prompts, {} blocks of {}, {} of them different, in {:.0} s\n",
        prompts.all.len(),
        output.rows.first().map_or(0, |row| row.references),
        first.block(),
        prompts.distinct,
        prompts.duration().as_secs_f64()
    );
    if !args.no_drive {
        text += &format!(
            "{:.2} TB of flash ({}) fill {:.2} drives of {} to {:.0} %\n",
            first.flash().as_f64() / 1e12,
            args.flash[0],
            first.drives(stack, args.utilisation),
            stack.profile.name,
            args.utilisation * 100.0
        );
    }
    let heads = [
        "flash",
        "rule",
        "DRAM hits",
        "flash hits",
        "kept",
        "writes",
        "written/day",
        "DWPD",
        "WAF",
        "life",
    ];
    let rows: Vec<Vec<String>> = output.rows.iter().map(cells).collect();
    text += &format!("{}\n", draw(&heads.map(str::to_owned), &rows));
    for least in &output.oracle {
        let writes = least.writes_of_all.map_or("no number".to_owned(), percent);
        text += &format!(
            "bound: {} of the hits of `all` on {} of flash take {writes} of its writes at least\n",
            percent(least.hits_of_all),
            least.flash
        );
    }
    text
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn cells(row: &Row) -> Vec<String> {
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| NONE.to_owned(), |value| format!("{value:.digits$}"))
    };
    vec![
        row.flash.clone(),
        row.rule.clone(),
        percent(row.dram_hit_ratio),
        percent(row.flash_hit_ratio),
        percent(row.hits_of_all),
        percent(row.writes_of_all),
        format!("{:.1} TB", row.written_bytes_per_day / 1e12),
        number(row.drive_writes_per_day, 1),
        number(row.waf, 3),
        row.life_years_p50.map_or_else(|| NONE.to_owned(), |years| format!("{years:.3} years")),
    ]
}
