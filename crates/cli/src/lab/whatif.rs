//! `lab whatif`: what discards, hints, streams, FDP, zones or a fast tier would buy a workload.

use std::io::Write as _;
use std::path::PathBuf;
use std::thread;

use anyhow::{Context, bail, ensure};
use clap::Args;
use comfy_table::{Cell, CellAlignment};
use serde::Serialize;
use thermocline_lab::{Input, Prepared, Stack};
use thermocline_nand::Kind;
use thermocline_nand::profile::Profile;
use thermocline_record::{RunRecord, RunSpec};
use thermocline_types::{Bytes, Op};

use super::args::spec::RunOf;
use super::args::{CONVENTIONS, DeviceArgs, ENDS_EARLY, ReplayArgs, SourceArgs};
use super::run::run_one;
use crate::file;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::table::{nanos, plain};

/// What is compared, and examples.
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
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    fast_share: f64,
    /// Share of the conventional drive's capacity that the volume takes, above 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.8)]
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
    /// Write an HTML report that compares the runs: one file, no network needed to read it
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,
}

/// An option, and how it is run or why it cannot be.
struct Choice {
    name: &'static str,
    run: Result<RunOf, String>,
}

/// What an option came to.
#[derive(Serialize)]
struct Answer {
    option: &'static str,
    verdict: String,
    /// Why it was not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    unsupported: Option<String>,
    waf: Option<f64>,
    steady: bool,
    /// WAF of the conventional drive over that of this one: how many times the life.
    times_the_life: Option<f64>,
    life_years_p50: Option<f64>,
    write_p50_ns: Option<u64>,
    write_p99_ns: Option<u64>,
    host_write_mb_per_second: Option<f64>,
    /// Media of the drive, which are the same for all.
    media_bytes: Option<u64>,
    /// Capacity of the fast device beside it.
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
    /// How much is written per day in the years of life, and why so much.
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
    ensure!(args.fast_share > 0.0, "--fast-share is {}, must be above 0", args.fast_share);
    let profile = args.profile()?;
    let interrupt = Interrupt::watch()?;
    let base = args.base();
    let bars = Progress::default();
    let bar = bars.bar("as it is");
    let run = run_one(&base, None, &interrupt, &mut |share| bar.set(share));
    drop(bar);
    let Some(record) = run? else { return interrupt.check() };
    let (first, known) = (with_spec(record, &base, profile.mapping_unit)?, args.known()?);
    let choices = args.choices(&profile, &base, &first, &known)?;
    let records = args.run_all(&choices, profile.mapping_unit, &interrupt)?;
    let mut answers = vec![answer("as it is", Ok(&first), &first)];
    for (choice, record) in choices.iter().zip(&records) {
        let run = match (&choice.run, record) {
            (Err(reason), _) => Err(reason.clone()),
            (Ok(_), Err(error)) => Err(format!("it cannot be run here: {error:#}")),
            (Ok(_), Ok(None)) => Err("it was not run: interrupted".into()),
            (Ok(_), Ok(Some(record))) => Ok(record),
        };
        answers.push(answer(choice.name, run.as_ref().copied().map_err(String::as_str), &first));
    }
    let all = [&first].into_iter().chain(records.iter().filter_map(|r| r.as_ref().ok()?.as_ref()));
    args.give(&first, &answers, &all.cloned().collect::<Vec<_>>(), &interrupt)?;
    interrupt.check()
}

/// What the workload tells of its writes.
struct Known {
    volumes: bool,
    files: bool,
    trace: bool,
}

impl WhatIfArgs {
    fn profile(&self) -> anyhow::Result<Profile> {
        let profile = Stack::parse(&format!("raw:{}", self.device), &[])?.profile;
        if profile.kind == Kind::Direct {
            bail!(
                "{} writes in place and relocates nothing: no option can lower what it writes; name a drive of flash \
                 (`thermocline lab list devices`)",
                self.device
            );
        }
        Ok(profile)
    }

    /// The drive with conventional firmware, discards ignored.
    fn base(&self) -> RunOf {
        let daily_writes = self.daily_writes;
        let (queue_depth, utilisation) = (self.queue_depth, self.utilisation);
        let device = DeviceArgs { daily_writes, queue_depth, utilisation, ..DeviceArgs::default() };
        let is_trace = self.source.trace.is_some();
        let loops = self.loops.filter(|_| is_trace);
        let replay = ReplayArgs { loops, ignore_trims: is_trace, ..ReplayArgs::default() };
        let stack = format!("raw:{},kind=conventional", self.device);
        RunOf { stack, source: self.source.clone(), replay, device }
    }

    fn known(&self) -> anyhow::Result<Known> {
        let replay = ReplayArgs { loops: None, ..ReplayArgs::default() };
        let input = self.source.input(&replay)?;
        let trace = matches!(input, Input::Trace { .. });
        let prepared = Prepared::new(input, None, Bytes::BLOCK, None)?;
        Ok(Known {
            volumes: prepared.tenants().len() > 1,
            files: !prepared.directories().is_empty(),
            trace,
        })
    }

    /// Every option on the media of `first`.
    fn choices(
        &self,
        profile: &Profile,
        base: &RunOf,
        first: &RunRecord,
        known: &Known,
    ) -> anyhow::Result<Vec<Choice>> {
        let unit = format!("unit={}", first.device.unit_bytes);
        let (device, capacity) = (&self.device, Bytes(first.device.capacity_bytes));
        let on = |stack: String, capacity: Bytes, placement: Option<&str>| {
            let placement = placement.map(str::to_owned);
            let fast =
                Bytes((first.device.capacity_bytes as f64 * self.fast_share) as u64 >> 20 << 20);
            let fast_capacity = stack.starts_with("tier:").then_some(fast.max(Bytes::mib(1)));
            let device =
                DeviceArgs { placement, fast_capacity, utilisation: 1.0, ..base.device.clone() };
            RunOf { stack, device: device.with_capacity(capacity), ..base.clone() }
        };
        let handles = format!("kind=multi-stream,streams.count={}", self.streams);
        let told = match (known.files, known.volumes) {
            (true, _) => Some("directory"),
            (_, true) => Some("hint"),
            _ => None,
        };
        let hints = told.map(|told| {
            on(
                format!("tag:{device},{unit},kind=multi-stream,streams.count=4"),
                capacity,
                Some(told),
            )
        });
        let by = match (known.files, known.volumes) {
            (true, _) => "directory",
            (_, true) => "volume",
            _ => "auto",
        };
        let fdp = format!(
            "kind=fdp,fdp.groups=1,fdp.handles={},fdp.persistently_isolated=false",
            self.streams
        );
        let media = Bytes(first.device.media_bytes);
        let bytes = first.device.unit_bytes;
        let spare = without_reserve(profile);
        // A drive that is written in order needs no mapping unit beyond a logical block.
        let zns = format!(
            "kind=zns,mapping_unit=4KiB,{spare},zns.zone_size={bytes},zns.zone_capacity={bytes},zns.max_open=0,\
             zns.max_active=0"
        );
        let (name, options) =
            device.split_once(',').map_or((device.as_str(), ""), |(name, rest)| (name, rest));
        let options = if options.is_empty() { String::new() } else { format!(",{options}") };
        let tier = format!("tier:{}+{name}{options},{unit},kind=conventional", self.fast);
        let choice = |name, run| Choice { name, run: Ok(run) };
        Ok(vec![
            Choice { name: "discards", run: self.discards(base, &unit, capacity, known)? },
            Choice {
                name: "hints",
                run: hints.ok_or_else(|| {
                    "the workload has one volume and names no files, so there is nothing to tell the drive".into()
                }),
            },
            choice("streams, found by the host", on(format!("tag:{device},{unit},{handles}"), capacity, Some("auto"))),
            choice("FDP", on(format!("tag:{device},{unit},{fdp}"), capacity, Some(by))),
            choice("a log on the host", on(format!("log:{device},{unit},kind=conventional"), capacity, None)),
            choice("zones under that log", on(format!("log:{device},{unit},{zns}"), media, None)),
            choice("a fast tier under that log", on(tier, capacity, None)),
        ])
    }

    /// The conventional drive that obeys discards, or why that tells nothing.
    fn discards(
        &self,
        base: &RunOf,
        unit: &str,
        capacity: Bytes,
        known: &Known,
    ) -> anyhow::Result<Result<RunOf, String>> {
        if !known.trace {
            return Ok(Err(
                "a generator says itself what it discards: fs.discard of lsm, or --trim-share"
                    .into(),
            ));
        }
        let replay = ReplayArgs { ignore_trims: false, loops: Some(1), ..base.replay.clone() };
        let mut prepared = self.source.prepare(&replay, Bytes::BLOCK, None)?;
        let mut discards = 0_u64;
        prepared.replay(|batch| {
            let trims = batch
                .pieces()
                .iter()
                .filter(|piece| matches!(piece.op, Op::Trim | Op::WriteZeroes));
            discards += trims.count() as u64;
            Ok(())
        })?;
        if discards == 0 {
            return Ok(Err(
                "the trace discards nothing of what it writes: what the file system deleted was not recorded, or it was \
                 mounted without discard"
                    .into(),
            ));
        }
        let replay = ReplayArgs { ignore_trims: false, ..base.replay.clone() };
        let device = base.device.clone().with_capacity(capacity);
        let stack = format!("{},{unit}", base.stack);
        Ok(Ok(RunOf { stack, replay, device, ..base.clone() }))
    }

    fn run_all(
        &self,
        choices: &[Choice],
        granule: Bytes,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Vec<anyhow::Result<Option<RunRecord>>>> {
        let progress = Progress::default();
        let one = |choice: &Choice| -> anyhow::Result<Option<RunRecord>> {
            let Ok(run) = &choice.run else { return Ok(None) };
            let bar = progress.bar(choice.name);
            let mut tell = |share| {
                interrupt.something_to_show();
                bar.set(share);
            };
            let granule = granule.max(Bytes::BLOCK);
            let record = run_one(run, Some(granule), interrupt, &mut tell)?;
            record.map(|record| with_spec(record, run, granule)).transpose()
        };
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let mut records = Vec::with_capacity(choices.len());
        for group in choices.chunks(self.jobs.unwrap_or(processors)) {
            records.extend(thread::scope(|scope| {
                let workers: Vec<_> =
                    group.iter().map(|choice| scope.spawn(|| one(choice))).collect();
                let joined = workers.into_iter().map(|worker| worker.join().expect("panics abort"));
                joined.collect::<Vec<_>>()
            }));
        }
        Ok(records)
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

/// The record with its specification, where that alone gives the same addresses: they are kept together in granules of
/// the conventional drive's mapping unit, and zones may have a smaller one.
fn with_spec(record: RunRecord, run: &RunOf, granule: Bytes) -> anyhow::Result<RunRecord> {
    let same = record.device.mapping_unit_bytes == granule.0;
    let spec = same.then(|| run.spec().context("the run has no specification")).transpose()?;
    Ok(RunRecord { spec: spec.map(Box::new), ..record })
}

fn waf(record: &RunRecord) -> Option<f64> {
    record.waf_steady.or(record.waf)
}

/// Percentiles 50 and 99 of write latency, in nanoseconds; absent where they are those of memory.
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
            (Ok(record), "as it is") => of_the_drive(record),
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

/// Below this WAF there is next to nothing to save. Chosen, not measured.
const LOW: f64 = 1.1;
/// Changes of WAF within this share are called none. Chosen, not measured.
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

/// What an option buys, in a sentence.
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

/// Settings of the product whose reserve is the host's: it is as large as its media.
fn without_reserve(profile: &Profile) -> String {
    let all = (profile.capacity.as_f64() * (1.0 + profile.overprovisioning())) as u64 >> 12 << 12;
    let garbage = if profile.garbage.is_some() { ",garbage=0.0" } else { "" };
    format!("capacity={all},op=0.0{garbage}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_without_a_reserve_is_as_large_as_its_media() {
        for device in ["p5316", "micron2300", "ideal", "ideal,garbage=0.2", "ideal,op=0.5"] {
            let of = |device: &str| Stack::parse(&format!("raw:{device}"), &[]).unwrap().profile;
            let product = of(device);
            let bare = of(&format!("{device},{}", without_reserve(&product)));
            let media =
                |profile: &Profile| profile.capacity.as_f64() * (1.0 + profile.overprovisioning());
            assert!(media(&product) - media(&bare) < 4097.0, "{device}: {}", bare.capacity);
            assert!(bare.overprovisioning().abs() < 1e-12 && bare.capacity > product.capacity);
        }
    }
}
