//! `lab whatif`: the benefit of discards, hints, streams, FDP, zones or a fast tier for a workload.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;

use anyhow::{Context, ensure};
use clap::Args;
use comfy_table::{Cell, CellAlignment};
use serde::Serialize;
use thermocline_lab::Error;
use thermocline_lab::whatif::{AS_IT_IS, Tried, WhatIf};
use thermocline_record::{RunRecord, RunSpec};
use thermocline_types::Bytes;

use super::args::{CONVENTIONS, ENDS_EARLY, ReplayArgs, SourceArgs, in_arguments, of_arguments};
use crate::file;
use crate::interrupt::Interrupt;
use crate::progress::{Bar, Progress};
use crate::table::{nanos, plain};

/// Help text about the comparison, with examples.
const ABOUT: &str = "\
Each option alone, against the same drive as conventional firmware runs it:
discards ignored, no hint on any write. All run on the same media, in units of
the same size, and hold the same volume; what is beyond the volume is
overprovisioning under each. Zones have it all, and the log above takes its
reserve from it; a fast tier is one more device, and the table says so.

What the workload cannot tell is said and not run: discards of a trace that has
none, hints where there are neither volumes nor files. WAF is that of the steady
state where it was reached. Life is that of the product, as full as the
simulated drive, under --daily-writes: by default, as in `lab compare`, what the
trace writes at its own pace, or the capacity once a day if there is no clock.

Examples:
  thermocline lab whatif --trace postgres-tpcc --device p5316
  thermocline lab whatif --trace cassandra-ycsb-a --device micron2300 --loops 3 \\
    --utilisation 0.9 --json";

/// Arguments of `lab whatif`.
#[derive(Args)]
#[command(after_help = format!("{ABOUT}\n\n{CONVENTIONS}\n{ENDS_EARLY}"))]
pub struct WhatIfArgs {
    /// DEVICE[,KEY=VALUE...]: a built-in profile such as p5316, or a file (`lab list devices`)
    #[arg(long, value_name = "DEVICE")]
    device: String,
    /// The device of the fast tier
    #[arg(long, value_name = "DEVICE", default_value = "p5800x")]
    fast: String,
    /// Capacity of the fast tier, as a share of that of the drive
    #[arg(long, value_name = "SHARE", value_parser = crate::lab::args::share, default_value_t = 0.05)]
    fast_share: f64,
    /// Share of the conventional drive's capacity that the volume takes, above 0 to 1
    #[arg(long, value_name = "SHARE", value_parser = crate::lab::args::share, default_value_t = 0.8)]
    utilisation: f64,
    /// Streams, and handles of FDP
    #[arg(long, value_name = "N", default_value_t = 8)]
    streams: u8,
    /// Written to the product per day [default: at the trace's own pace, or the capacity once]
    #[arg(long, value_name = "SIZE")]
    daily_writes: Option<Bytes>,
    /// Keep so many requests in flight [default: the workload's own clock, or 32]
    #[arg(long, value_name = "N")]
    queue_depth: Option<u32>,
    /// Replay the trace so many times [default: 5, the passes that steady state takes]
    #[arg(long, value_name = "N")]
    loops: Option<u32>,
    /// Options that are run at a time [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    #[command(flatten)]
    source: SourceArgs,
    /// Print JSON instead of a table
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Write an HTML report that compares the runs: a single file, readable offline
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,
}

/// The result of an option.
#[derive(Serialize)]
struct Answer {
    option: &'static str,
    verdict: String,
    /// The reason if the option was not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    unsupported: Option<String>,
    waf: Option<f64>,
    steady: bool,
    /// WAF of the conventional drive divided by WAF of this drive: the ratio of their lives.
    times_the_life: Option<f64>,
    life_years_p50: Option<f64>,
    write_p50_ns: Option<u64>,
    write_p99_ns: Option<u64>,
    host_write_mb_per_second: Option<f64>,
    /// Media of the drive, the same for all options.
    media_bytes: Option<u64>,
    /// Capacity of the fast device.
    fast_bytes: Option<u64>,
    spec: Option<RunSpec>,
}

#[derive(Serialize)]
struct Outcome<'a> {
    schema: &'static str,
    device: &'a str,
    workload: &'a str,
    volume_bytes: u64,
    media_bytes: u64,
    unit_bytes: u64,
    /// Bytes written per day in the estimate of life, with the reason.
    load: Option<&'a str>,
    interrupted: bool,
    options: &'a [Answer],
}

/// `lab whatif`.
pub fn whatif(args: &WhatIfArgs) -> anyhow::Result<()> {
    if let Some(path) = &args.report {
        file::check(path)?;
    }
    ensure!(args.jobs != Some(0), "--jobs must be at least 1");
    let interrupt = Interrupt::watch()?;
    let tried = args.question()?.run_with(&interrupt.flag(), &args.bars(&interrupt));
    let tried = match tried {
        Err(Error::Interrupted) => return interrupt.check(),
        tried => tried.map_err(of_arguments)?,
    };
    let records: Vec<RunRecord> = tried.iter().filter_map(|one| one.run.clone().ok()).collect();
    let first = records.first().context("the first run has a record")?;
    let answer = |one: &Tried| {
        let reason = one.run.as_ref().map_err(|reason| in_arguments(reason));
        answer(one.option, reason.as_ref().copied().map_err(String::as_str), first)
    };
    let answers: Vec<Answer> = tried.iter().map(answer).collect();
    args.give(first, &answers, &records, &interrupt)?;
    interrupt.check()
}

impl WhatIfArgs {
    fn question(&self) -> anyhow::Result<WhatIf> {
        Ok(WhatIf {
            device: self.device.clone(),
            workload: self.source.workload(&ReplayArgs::default())?,
            loops: self.loops,
            fast: self.fast.clone(),
            fast_share: self.fast_share,
            utilisation: self.utilisation,
            streams: self.streams,
            daily_writes: self.daily_writes,
            queue_depth: self.queue_depth,
            seed: self.source.seed,
            jobs: self.jobs,
        })
    }

    /// A bar for each option that runs.
    fn bars(&self, interrupt: &Interrupt) -> impl Fn(&'static str, f64) + Sync {
        let progress = Progress::default();
        let bars: Mutex<BTreeMap<&'static str, Bar>> = Mutex::default();
        move |option, share| {
            if option != AS_IT_IS {
                interrupt.something_to_show();
            }
            let mut bars = bars.lock().expect("no thread panics while it tells");
            bars.entry(option).or_insert_with(|| progress.bar(option)).set(share);
            if share >= 1.0 {
                bars.remove(option);
            }
        }
    }

    fn give(
        &self,
        first: &RunRecord,
        answers: &[Answer],
        records: &[RunRecord],
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        let shown = if self.json {
            let outcome = Outcome {
                schema: "thermocline.whatif/1",
                device: &self.device,
                workload: &first.workload.name,
                volume_bytes: first.workload.span_bytes,
                media_bytes: first.device.media_bytes,
                unit_bytes: first.device.unit_bytes,
                load: first
                    .life
                    .as_ref()
                    .and_then(|life| life.assumptions.get(1))
                    .map(String::as_str),
                interrupted: interrupt.is_asked(),
                options: answers,
            };
            writeln!(out, "{}", serde_json::to_string_pretty(&outcome)?)
        } else {
            out.write_all(text(first, answers).as_bytes())
        };
        let title =
            format!("Thermocline: what would help {} on {}", first.workload.name, self.device);
        let page = || thermocline_report::render(&title, records);
        let reported = self.report.as_ref().map_or(Ok(()), |path| file::write(path, &page()));
        reported?;
        Ok(shown?)
    }
}

fn waf(record: &RunRecord) -> Option<f64> {
    record.lasting.waf
}

/// Percentiles 50 and 99 of write latency, in nanoseconds; absent if a memory buffer completes the writes.
fn latency(record: &RunRecord) -> (Option<u64>, Option<u64>) {
    let write = record.latency_ns.as_ref().and_then(|all| all.get("write"));
    (write.and_then(|ns| ns.p50), write.and_then(|ns| ns.p99))
}

fn answer(option: &'static str, run: Result<&RunRecord, &str>, first: &RunRecord) -> Answer {
    let record = run.ok();
    let (p50, p99) = record.map_or((None, None), latency);
    let ours = record.and_then(waf);
    let times =
        ours.zip(waf(first)).filter(|(ours, _)| *ours > 0.0).map(|(ours, first)| first / ours);
    let rate = record.and_then(|record| record.bandwidth.as_ref());
    Answer {
        option,
        verdict: match (run, option) {
            (Err(reason), _) => format!("cannot be said: {reason}"),
            (Ok(record), AS_IT_IS) => of_the_drive(record),
            (Ok(record), _) => verdict(record, first),
        },
        unsupported: run.err().map(str::to_owned),
        waf: ours,
        steady: record.is_some_and(|record| record.steady_state.reached),
        times_the_life: times,
        life_years_p50: record.and_then(|r| r.life.as_ref()).map(|life| life.years_p50),
        write_p50_ns: p50,
        write_p99_ns: p99,
        host_write_mb_per_second: rate.map(|rate| rate.host_write_bytes_per_second / 1e6),
        media_bytes: record.map(|record| record.device.media_bytes),
        fast_bytes: record.and_then(|r| r.fast.as_ref()).map(|fast| fast.device.capacity_bytes),
        spec: record.and_then(|record| record.spec.as_deref().cloned()),
    }
}

/// Below this WAF placement saves almost no wear. Chosen, not measured.
const LOW: f64 = 1.1;
/// Smaller relative changes of WAF count as no change. Chosen, not measured.
const SAME: f64 = 0.02;

fn of_the_drive(record: &RunRecord) -> String {
    match waf(record) {
        Some(waf) if waf < LOW => {
            format!(
                "nothing is needed: WAF is {waf:.2}, and no option can save more than {:.0} %",
                (1.0 - 1.0 / waf) * 100.0
            )
        }
        Some(waf) => format!(
            "of what it writes to flash, {:.0} % is not the host's",
            (1.0 - 1.0 / waf) * 100.0
        ),
        None => "nothing was written".into(),
    }
}

/// The benefit of an option, as a sentence.
fn verdict(record: &RunRecord, first: &RunRecord) -> String {
    let (Some(ours), Some(theirs)) = (waf(record), waf(first)) else {
        return "nothing was written".into();
    };
    if ours <= 0.0 {
        return "nothing reached the drive in the measured part of the run: the workload is too short to tell".into();
    }
    let change = ours / theirs - 1.0;
    let mut text = if change.abs() <= SAME {
        format!("buys nothing: WAF {ours:.2} instead of {theirs:.2}")
    } else if change < 0.0 {
        format!(
            "buys {:.2} times the life: {:.0} % less written to flash",
            theirs / ours,
            -change * 100.0
        )
    } else {
        format!("costs life: {:.0} % more written to flash", change * 100.0)
    };
    match (latency(record).1, latency(first).1) {
        (Some(ours), Some(theirs)) if nanos(ours) == nanos(theirs) => {
            text += "; 99 % of writes as fast as before";
        }
        (Some(ours), Some(theirs)) => {
            text +=
                &format!("; 99 % of writes within {} instead of {}", nanos(ours), nanos(theirs));
        }
        (None, Some(theirs)) if record.latency_ns.is_some() => {
            text +=
                &format!("; 99 % of writes complete in memory, and took {} before", nanos(theirs));
        }
        _ => {}
    }
    if let Some(fast) = &record.fast {
        let size = Bytes(fast.device.capacity_bytes);
        text += &format!("; {size} of fast media are needed beside the same drive");
    }
    if !record.steady_state.reached {
        text += "; transient: more --loops or --drive-writes make it sure";
    }
    text
}

fn text(first: &RunRecord, answers: &[Answer]) -> String {
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let mut table = plain();
    let heads =
        ["WAF", "times the life", "life P50, years", "write p99"].map(|head| right(head.into()));
    table.set_header([Cell::new("option")].into_iter().chain(heads));
    for answer in answers.iter().filter(|answer| answer.unsupported.is_none()) {
        let number = |figure: Option<f64>, decimals: usize| {
            right(figure.map_or("-".into(), |figure| format!("{figure:.decimals$}")))
        };
        let mark = if answer.steady { "" } else { "~" };
        table.add_row(vec![
            Cell::new(answer.option),
            right(answer.waf.map_or("-".into(), |waf| format!("{mark}{waf:.3}"))),
            number(answer.times_the_life, 2),
            number(answer.life_years_p50, 1),
            right(answer.write_p99_ns.map_or("-".into(), nanos)),
        ]);
    }
    let device = &first.device;
    let mut text = format!(
        "{} on {}: a volume of {} on media of {} in units of {}, the same for all\n{table}\n",
        first.workload.name,
        device.title,
        Bytes(first.workload.span_bytes),
        Bytes(device.media_bytes),
        Bytes(device.unit_bytes)
    );
    if let Some(life) = &first.life {
        text += &format!(
            "life: {}; of the product {:.0} % full, as the simulated drive (--utilisation)\n",
            life.assumptions.get(1).map_or("", String::as_str),
            100.0 * life.product_utilisation.unwrap_or(1.0)
        );
    }
    for answer in answers {
        text += &format!("{}: {}\n", answer.option, answer.verdict);
    }
    if answers.iter().any(|answer| answer.waf.is_some() && !answer.steady) {
        text += "~ is transient: not in steady state by the end of the run\n";
    }
    text
}
