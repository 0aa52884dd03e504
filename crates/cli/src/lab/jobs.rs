//! `lab jobs`: several jobs at once on one stack.

use std::io::Write as _;
use std::str::FromStr;

use anyhow::{Context as _, ensure};
use clap::Args;
use serde::Serialize;
use thermocline_lab::jobs::{JobSpan, JobSpec, Length, Share, run_jobs};
use thermocline_lab::{Settings, Stack};
use thermocline_record::LatencyNs;
use thermocline_types::{Bytes, Op, Setting as _, Time};
use thermocline_workload::synthetic::Pattern;

use super::args::{CONVENTIONS, share};
use crate::progress::Progress;
use crate::table::{NONE, draw};

/// Help text: what jobs are, and examples.
const ABOUT: &str = "\
A job is [COUNTx]PATTERN[,KEY=VALUE...], such as uniform or 4xzipf:0.99,size=64KiB.
Patterns are those of `lab list workloads`. Keys:
  size=4KiB   bytes of a request
  reads=0     share of requests that read, 0 to 1
  depth=32    requests that the job keeps in flight
  cap=MB/s    most that the job gets; its requests wait for their turn
Each job has an equal part of the volume, and a depth of its own: a slow job does
not hold up a fast one, other than the tenants of a workload file.

--queue is one queue of all jobs, in order of arrival, as behind a vhost of SPDK:
the stack has so many of their requests at once. Latencies are those of the stack,
without the time in that queue.

Examples:
  thermocline lab jobs --stack raw:p5316 --queue 256 \\
    --job 4xuniform,depth=128 --job 4xuniform,size=64KiB,reads=1,depth=128,cap=250
  thermocline lab jobs --stack tier:p5800x+p5316 --age 4 --job 8xzipf:1.2 --json";

/// Arguments of `lab jobs`.
#[derive(Args)]
#[command(after_help = format!("{ABOUT}\n\n{CONVENTIONS}"))]
pub struct JobsArgs {
    /// LAYER:DEVICE[,KEY=VALUE...], such as raw:p5316 (`lab list layers` and `devices`)
    #[arg(long, value_name = "STACK")]
    stack: String,
    /// Jobs that are alike; may be repeated
    #[arg(long = "job", value_name = "JOB", required = true)]
    jobs: Vec<Alike>,
    /// Let all jobs share one queue in order; the stack has so many of their requests at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    queue: Option<u32>,
    /// Bytes of the volume, which is filled in order first
    #[arg(long, value_name = "SIZE", default_value = "2GiB")]
    span: Bytes,
    /// Let each job address all of the volume
    #[arg(long)]
    shared: bool,
    /// Then write so many times the volume at random, in requests of 64 KiB
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    age: f64,
    /// Then run the jobs for so much simulated time, such as 20ms, before they are measured
    #[arg(long, value_name = "TIME", default_value = "50ms")]
    before: Time,
    /// Measure them for so much simulated time
    #[arg(long = "for", value_name = "TIME", default_value = "100ms")]
    measured: Time,
    /// Override a field of the profile, or a setting of the log; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Share of the capacity that the volume fills, above 0 to 1
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = 0.8)]
    utilisation: f64,
    /// Seed of all randomness; equal seeds give equal results
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of a table
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Jobs that are alike, as typed.
#[derive(Clone, Debug)]
struct Alike {
    text: String,
    count: usize,
    job: JobSpec,
}

impl FromStr for Alike {
    type Err = String;

    fn from_str(text: &str) -> Result<Alike, String> {
        let (pattern, keys) = text.split_once(',').unwrap_or((text, ""));
        let counted =
            pattern.split_once('x').and_then(|(count, rest)| Some((count.parse().ok()?, rest)));
        let (count, pattern) = counted.unwrap_or((1, pattern));
        if !(1..=256).contains(&count) {
            return Err(format!("{count} jobs, must be 1 to 256"));
        }
        let pattern: Pattern = pattern.parse().map_err(|error| format!("{error}"))?;
        let (io_size, read_share, depth, cap_mb_per_s) = (Bytes::BLOCK, 0.0, 32, None);
        let mut job = JobSpec { pattern, io_size, read_share, depth, cap_mb_per_s };
        for pair in keys.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) =
                pair.split_once('=').ok_or(format!("`{pair}`, must be KEY=VALUE"))?;
            let wrong = |why: String| format!("{key}: {why}");
            match key {
                "size" => job.io_size = Bytes::read(value).map_err(wrong)?,
                "reads" => job.read_share = share(value).map_err(wrong)?,
                "depth" => job.depth = number(value, 1.0..=65_536.0).map_err(wrong)? as u32,
                "cap" => job.cap_mb_per_s = Some(number(value, 1e-3..=1e6).map_err(wrong)?),
                _ => return Err(format!("`{key}`; there are size, reads, depth, cap")),
            }
        }
        Ok(Alike { text: text.to_owned(), count, job })
    }
}

fn number(text: &str, range: std::ops::RangeInclusive<f64>) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("`{text}`, must be {} to {}", range.start(), range.end()))
}

/// What jobs got, as JSON.
#[derive(Serialize)]
struct Output {
    schema: &'static str,
    seconds: f64,
    waf: f64,
    jobs: Vec<Got>,
}

/// What one job got.
#[derive(Serialize)]
struct Got {
    job: String,
    written_mb_per_s: f64,
    read_mb_per_s: f64,
    waf: Option<f64>,
    write_latency: Option<LatencyNs>,
    read_latency: Option<LatencyNs>,
}

/// `lab jobs`.
pub fn jobs(args: &JobsArgs) -> anyhow::Result<()> {
    ensure!((0.0..=100.0).contains(&args.age), "--age is {}, must be 0 to 100", args.age);
    let stack = Stack::parse(&args.stack, &args.set)?;
    let utilisation = args.utilisation;
    let settings = Settings { utilisation, seed: args.seed, ..Settings::default() };
    let alike = args.jobs.iter().flat_map(|alike| std::iter::repeat_n(alike, alike.count));
    let (names, jobs): (Vec<&str>, Vec<JobSpec>) =
        alike.map(|alike| (alike.text.as_str(), alike.job)).unzip();
    let length = Length {
        shared: args.shared,
        queue: args.queue,
        aged: Bytes((args.span.as_f64() * args.age) as u64),
        before: JobSpan::Lasts(args.before),
        ..Length::of(JobSpan::Lasts(args.measured))
    };
    let bar = Progress::default().bar("jobs");
    let got = run_jobs(&stack, &settings, args.span, &jobs, length, &mut |share| bar.set(share))
        .context("cannot run the jobs")?;
    drop(bar);
    let jobs = names.iter().enumerate().map(|(job, name)| of_job(&got, job, name)).collect();
    let output =
        Output { schema: "thermocline.jobs/1", seconds: got.seconds, waf: got.waf(), jobs };
    let mut out = std::io::stdout().lock();
    if args.json {
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&output)?)?);
    }
    let heads = ["job", "written MB/s", "read MB/s", "WAF", "write p99", "read p99"];
    let rows: Vec<Vec<String>> = output.jobs.iter().map(cells).collect();
    writeln!(out, "{}", draw(&heads.map(str::to_owned), &rows))?;
    Ok(writeln!(out, "all: WAF {:.3} over {:.3} simulated seconds", output.waf, output.seconds)?)
}

fn of_job(got: &Share, job: usize, name: &str) -> Got {
    Got {
        job: name.to_owned(),
        written_mb_per_s: got.written_per_second[job] / 1e6,
        read_mb_per_s: got.read_per_second[job] / 1e6,
        waf: got.waf_of(job),
        write_latency: got.latency(job, Op::Write),
        read_latency: got.latency(job, Op::Read),
    }
}

fn cells(got: &Got) -> Vec<String> {
    let none = || NONE.to_owned();
    let p99 = |latency: &Option<LatencyNs>| {
        let ns = latency.as_ref().and_then(|latency| latency.p99);
        ns.map_or_else(none, |ns| format!("{:.0} us", ns as f64 / 1e3))
    };
    vec![
        got.job.clone(),
        format!("{:.1}", got.written_mb_per_s),
        format!("{:.1}", got.read_mb_per_s),
        got.waf.map_or_else(none, |waf| format!("{waf:.2}")),
        p99(&got.write_latency),
        p99(&got.read_latency),
    ]
}
