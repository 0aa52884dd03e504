//! Arguments shared by the commands of the lab.

pub mod spec;

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use clap::Args;
use thermocline_ftl::victim::Victim;
use thermocline_lab::{Input, Layer, Pacing, Prefill, Prepared, Settings, Stack};
use thermocline_types::{Bytes, Time};
use thermocline_workload::remap::Remap;
use thermocline_workload::synthetic::{self, Bursts, Limit, Spec};
use thermocline_workload::trace;

use crate::pool::LabRun;

/// Sizes and exit codes, below the help of every command that takes or gives them.
pub const CONVENTIONS: &str = "\
Sizes: 4096, 4KiB, 2MiB, 1.92TB; KiB, MiB, GiB count in 1024, KB, MB, GB in 1000.
Exit code: 0 done; 2 wrong arguments or input; 1 a file cannot be written, or a defect; 130 interrupted.";

/// What Ctrl-C does to a command that shows what it has by then.
pub const ENDS_EARLY: &str = "Ctrl-C ends a run early and shows what was measured by then, if anything was; a second one ends it at once.";

/// What Ctrl-C does to others.
pub const ENDS_AT_ONCE: &str = "Ctrl-C ends it, and nothing is shown or written.";

/// What a suite of tests accesses if nothing else is asked for. Chosen: large enough that sizes of buffers matter
/// little, small enough for minutes. With 512 MiB or 1 GiB of `tier:p5800x+p5316` the pool's units, a 32nd of the
/// scaled fast device at most, are shorter than the drive's, which copies then: uniform writes at 80 % full have a WAF
/// of 5.2 and 7.5, with 2, 4 and 16 GiB 2.6, with 256 MiB 3.1 (whole runs).
pub fn test_volume(quick: bool) -> Bytes {
    if quick { Bytes::mib(256) } else { Bytes::gib(2) }
}

/// Where requests come from: a trace, or a generator.
#[derive(Args, Clone, Default)]
pub struct SourceArgs {
    /// Block trace: a file, plain, gzip or zstd, of any format (`lab list formats`), or one that comes with the program
    /// (`lab list traces`)
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Workload, one of",
        conflicts_with = "workload"
    )]
    pub trace: Option<PathBuf>,
    /// Generator: uniform, zipf:0.99, ..., an application such as lsm:strategy=levels,keys=20% (`lab list lsm`), or a
    /// TOML file of tenants (`lab list workloads`)
    #[arg(long, value_name = "SPEC", help_heading = "Workload, one of")]
    workload: Option<String>,

    /// Trace format, where detection does not settle it
    #[arg(long, value_name = "NAME", help_heading = "Trace")]
    format: Option<trace::Format>,
    /// Leave out and count lines that cannot be read, instead of ending at the first
    #[arg(long, help_heading = "Trace")]
    skip_bad: bool,
    /// Only the requests of this volume (`lab analyze` shows the volumes)
    #[arg(long, value_name = "NAME", help_heading = "Trace")]
    volume: Option<String>,

    /// Bytes addressed; of an application, its volume [default: 1GiB, of applications 16GiB]
    #[arg(long, value_name = "SIZE", help_heading = "Generator")]
    span: Option<Bytes>,
    /// Write so many times the span [default: 5]
    #[arg(long, value_name = "X", help_heading = "Generator", conflicts_with = "writes")]
    drive_writes: Option<f64>,
    /// Issue so many write requests instead
    #[arg(long, value_name = "N", help_heading = "Generator")]
    writes: Option<u64>,
    /// Issue so many requests of any kind instead: with --read-share 1 reads alone
    #[arg(long, value_name = "N", help_heading = "Generator", conflicts_with_all = ["writes", "drive_writes"])]
    requests: Option<u64>,
    /// Size of each request, of an application the largest [default: 4KiB, or the workload's own mix; 1MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Generator")]
    io_size: Option<Bytes>,
    /// Share of requests that read, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, help_heading = "Generator")]
    read_share: f64,
    /// Share of requests that trim, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, help_heading = "Generator")]
    trim_share: f64,
    /// Requests per second [default: as fast as --queue-depth allows]
    #[arg(long, value_name = "N", help_heading = "Generator")]
    rate: Option<f64>,
    /// Bytes of a burst, after which the host rests for --idle
    #[arg(
        long,
        value_name = "SIZE",
        help_heading = "Generator",
        requires = "idle",
        conflicts_with = "rate"
    )]
    burst: Option<Bytes>,
    /// How long nothing is asked for after each --burst, such as 500ms (us, ms, s)
    #[arg(long, value_name = "TIME", help_heading = "Generator", requires = "burst")]
    idle: Option<Time>,
    /// Seed of all randomness; equal seeds give equal results
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Passes over a trace when nothing else is asked for: what the steady-state rule looks at together.
const PASSES: u32 = 5;

/// How a workload is put on a drive.
#[derive(Args, Clone)]
pub struct ReplayArgs {
    /// Fill the drive first: first-touch (default of traces), sequential (of generators), none
    #[arg(long, value_name = "HOW", value_parser = parse_prefill, help_heading = "Replay")]
    pub prefill: Option<Prefill>,
    /// Replay the trace so many times [default: 5, the passes that steady state takes]
    #[arg(long, value_name = "N", help_heading = "Replay")]
    pub loops: Option<u32>,
    /// Fit the trace's addresses into the device: dense, fold or none
    #[arg(long, value_name = "HOW", default_value = "dense", help_heading = "Replay")]
    pub remap: Remap,
    /// Share of all data on the volume that is written once before everything else and never touched, 0 to below 1: the
    /// drive is so much larger than the workload needs [default: 0]
    #[arg(long, value_name = "SHARE", help_heading = "Replay")]
    pub at_rest: Option<f64>,
    /// Leave out trims, as on a file system mounted without discard
    #[arg(long, help_heading = "Replay")]
    pub ignore_trims: bool,
}

impl Default for ReplayArgs {
    fn default() -> Self {
        ReplayArgs {
            prefill: None,
            at_rest: None,
            loops: Some(1),
            remap: Remap::default(),
            ignore_trims: false,
        }
    }
}

/// Refuses a --fast-capacity that would be that of none of `stacks`.
pub fn check_fast_capacity<'a>(
    given: bool,
    stacks: impl Iterator<Item = &'a str> + Clone,
) -> anyhow::Result<()> {
    ensure!(
        !given || stacks.clone().any(|stack| stack.starts_with("tier:")),
        "--fast-capacity is that of the fast device under tier, such as tier:p5800x+p5316; there is none in {}",
        stacks.collect::<Vec<&str>>().join(", ")
    );
    Ok(())
}

fn parse_prefill(text: &str) -> Result<Prefill, String> {
    [Prefill::FirstTouch, Prefill::Sequential, Prefill::None]
        .into_iter()
        .find(|prefill| prefill.name() == text)
        .ok_or_else(|| format!("`{text}` is no prefill; there are first-touch, sequential, none"))
}

impl SourceArgs {
    /// A generator over `span` bytes, written `drive_writes` times over.
    pub fn generated(workload: &str, span: Bytes, drive_writes: f64) -> SourceArgs {
        SourceArgs {
            workload: Some(workload.to_owned()),
            span: Some(span),
            drive_writes: Some(drive_writes),
            seed: 1,
            ..SourceArgs::default()
        }
    }

    /// The same until so many requests of any kind were issued.
    pub fn of_requests(self, requests: u64) -> SourceArgs {
        SourceArgs { requests: Some(requests), drive_writes: None, writes: None, ..self }
    }

    /// The same in requests of `io_size`, of which a share `read` reads.
    pub fn in_requests(self, io_size: Option<Bytes>, read: f64) -> SourceArgs {
        SourceArgs { io_size, read_share: read, ..self }
    }

    /// Whether the host asks at a pace of its own.
    pub fn has_pace(&self) -> bool {
        self.rate.is_some() || self.burst.is_some()
    }

    /// The workload these arguments describe, put on a drive as `replay` says.
    pub fn input(&self, replay: &ReplayArgs) -> anyhow::Result<Input> {
        match (&self.trace, &self.workload) {
            (Some(path), None) => self.trace_input(path, replay),
            (None, Some(spec)) => self.synthetic_input(spec, replay),
            _ => bail!(
                "say what to replay: --trace FILE, or --workload SPEC such as --workload zipf:0.99; `thermocline lab list \
                 workloads` shows the generators"
            ),
        }
    }

    /// The same, looked through and ready to run on devices with mapping units up to `granule`.
    pub fn prepare(
        &self,
        replay: &ReplayArgs,
        granule: Bytes,
        capacity: Option<Bytes>,
    ) -> anyhow::Result<Prepared> {
        let prepared = Prepared::new(self.input(replay)?, replay.prefill, granule, capacity)?;
        Ok(prepared.with_data_at_rest(replay.at_rest.unwrap_or(0.0))?)
    }

    /// The same for a thin volume.
    pub fn prepare_thin(
        &self,
        replay: &ReplayArgs,
        granule: Bytes,
        capacity: Option<Bytes>,
    ) -> anyhow::Result<Prepared> {
        let prepared = Prepared::thin(self.input(replay)?, replay.prefill, granule, capacity)?;
        Ok(prepared.with_data_at_rest(replay.at_rest.unwrap_or(0.0))?)
    }

    fn trace_input(&self, path: &Path, replay: &ReplayArgs) -> anyhow::Result<Input> {
        let generator_only = [
            ("--span", self.span.is_some()),
            ("--drive-writes", self.drive_writes.is_some()),
            ("--writes", self.writes.is_some()),
            ("--requests", self.requests.is_some()),
            ("--io-size", self.io_size.is_some()),
            ("--read-share", self.read_share != 0.0),
            ("--trim-share", self.trim_share != 0.0),
            ("--rate", self.rate.is_some()),
            ("--burst", self.burst.is_some()),
        ];
        if let Some((name, _)) = generator_only.iter().find(|(_, given)| *given) {
            bail!("{name} is for generators (--workload); a trace says that itself");
        }
        let loops = replay.loops.unwrap_or(PASSES);
        ensure!(loops > 0, "--loops must be at least 1");
        Ok(Input::Trace {
            path: path.to_owned(),
            options: trace::Options {
                format: self.format,
                skip_bad: self.skip_bad,
                volume: self.volume.clone(),
            },
            remap: replay.remap,
            loops,
            ignore_trims: replay.ignore_trims,
        })
    }

    fn synthetic_input(&self, text: &str, replay: &ReplayArgs) -> anyhow::Result<Input> {
        let trace_only = [
            ("--format", self.format.is_some()),
            ("--skip-bad", self.skip_bad),
            ("--volume", self.volume.is_some()),
            ("--loops", replay.loops.is_some_and(|loops| loops != 1)),
            ("--ignore-trims", replay.ignore_trims),
            ("--remap", replay.remap != Remap::default()),
        ];
        if let Some((name, _)) = trace_only.iter().find(|(_, given)| *given) {
            bail!("{name} is for traces (--trace)");
        }
        let (reads, trims) = (self.read_share, self.trim_share);
        if reads + trims >= 1.0 && reads.max(trims) <= 1.0 && self.requests.is_none() {
            bail!(
                "--read-share {reads} and --trim-share {trims} leave nothing to write; --requests N ends a run without \
                 writes"
            );
        }
        ensure!(self.writes != Some(0), "--writes must be at least 1");
        ensure!(self.requests != Some(0), "--requests must be at least 1");
        let spec = Spec::load(text)?;
        let span = self.span.or(spec.fixed_span()).unwrap_or(Bytes::gib(1));
        let limit = match (self.requests, self.writes, self.drive_writes) {
            (Some(requests), _, _) => Limit::Requests(requests),
            (None, Some(writes), _) => Limit::Writes(writes),
            (None, None, times) => Limit::drive_writes(times.unwrap_or(5.0), span)?,
        };
        let options = synthetic::Options {
            io_size: self.io_size,
            read_share: self.read_share,
            trim_share: self.trim_share,
            seed: self.seed,
            rate: self.rate,
            bursts: self.burst.zip(self.idle).map(|(bytes, idle)| Bursts { bytes, idle }),
            ..synthetic::Options::new(span, limit)
        };
        Ok(Input::Synthetic { spec, options })
    }
}

/// What to run on, and how.
#[derive(Args, Clone, Default)]
pub struct DeviceArgs {
    /// Override a field of the profile, such as device.op=0.07, or a setting of the log, such as log.write_depth=8
    /// (`lab list log`); may be repeated
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Device")]
    pub set: Vec<String>,
    /// Capacity the device exports [default: what the workload addresses]
    #[arg(long, value_name = "SIZE", help_heading = "Device")]
    pub capacity: Option<Bytes>,
    /// Capacity of the fast device under tier [default: beside the other as large as the products are]
    #[arg(long, value_name = "SIZE", help_heading = "Device")]
    pub fast_capacity: Option<Bytes>,
    /// Or: share of the capacity that the workload fills, above 0 to 1; 1 is full, under log: full beside what the log
    /// sets aside
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 1.0,
        help_heading = "Device",
        conflicts_with = "capacity"
    )]
    pub utilisation: f64,
    /// Which unit garbage collection takes (`lab list victims`) [default: the profile's]
    #[arg(long, value_name = "NAME", help_heading = "Device")]
    pub victim: Option<Victim>,
    /// Under log, the class of a block; under tag, the handle of a write (`lab list placements`)
    #[arg(long, value_name = "NAME", help_heading = "Device")]
    pub placement: Option<String>,
    /// Under tag, what has a handle of its own: file, directory (or kind of file) or volume; of no effect under other
    /// layers
    #[arg(long, value_name = "WHAT", help_heading = "Device", conflicts_with = "placement")]
    #[arg(value_parser = ["file", "directory", "volume"])]
    pub tag_by: Option<String>,
    /// Keep so many requests in flight [default: 32 if the workload has no clock]
    #[arg(long, value_name = "N", help_heading = "Time", conflicts_with = "speed")]
    pub queue_depth: Option<u32>,
    /// Of --queue-depth clients, each thinks so long after a request before its next one: exponential with this mean,
    /// such as 2ms (us, ms, s) [default: 0]
    #[arg(long, value_name = "TIME", help_heading = "Time", conflicts_with = "speed")]
    pub think: Option<Time>,
    /// Follow the workload's clock, so many times as fast; 1 is its own pace
    #[arg(long, value_name = "X", help_heading = "Time")]
    pub speed: Option<f64>,
    /// Written to the product per day [default: a trace's pace, else one capacity]
    #[arg(long, value_name = "SIZE", help_heading = "Life")]
    pub daily_writes: Option<Bytes>,
    /// The capacities are those of a pool.
    #[arg(skip)]
    pub of_pool: bool,
}

impl DeviceArgs {
    /// The same on a drive of this capacity.
    pub fn with_capacity(self, capacity: Bytes) -> DeviceArgs {
        DeviceArgs { capacity: Some(capacity), ..self }
    }

    /// The same on the drive of a pool, set up as the pool is unless these arguments say otherwise.
    pub fn of_pool(&self, pool: LabRun) -> DeviceArgs {
        let set = pool.set.into_iter().chain(self.set.iter().cloned()).collect();
        let fast_capacity = pool.fast_capacity.or(self.fast_capacity);
        let capacity = Some(pool.capacity);
        DeviceArgs { set, capacity, fast_capacity, of_pool: true, ..self.clone() }
    }

    /// The stack called `text`, with these overrides.
    pub fn stack(&self, text: &str) -> anyhow::Result<Stack> {
        let mut stack = Stack::parse(text, &self.set)?;
        if let Some(placement) = &self.placement {
            stack.place(placement)?;
        }
        if let Some(what) = self.tag_by.as_ref().filter(|_| stack.layer == Layer::Tag) {
            stack.place(what)?;
        }
        Ok(stack)
    }

    /// The settings of a run with `seed`.
    pub fn settings(&self, seed: u64) -> anyhow::Result<Settings> {
        ensure!(
            self.think.is_none() || self.queue_depth.is_some(),
            "--think is that of --queue-depth clients: say how many"
        );
        let pacing = match (self.queue_depth, self.speed) {
            (Some(depth), _) => {
                ensure!(
                    (1..=65_536).contains(&depth),
                    "--queue-depth is {depth}, must be 1 to 65536"
                );
                Some(match self.think.filter(|&think| think > Time::ZERO) {
                    Some(think) => Pacing::Clients { count: depth, think },
                    None => Pacing::QueueDepth(depth),
                })
            }
            (None, Some(speed)) => {
                ensure!(
                    (1e-6..=1e6).contains(&speed),
                    "--speed is {speed}, must be from 1e-6 to 1e6"
                );
                Some(Pacing::Clock { speed })
            }
            (None, None) => None,
        };
        if let Some(bytes) = self.daily_writes {
            ensure!(bytes > Bytes::ZERO, "--daily-writes must be above 0");
        }
        Ok(Settings {
            capacity: self.capacity,
            fast_capacity: self.fast_capacity,
            utilisation: self.utilisation,
            victim: self.victim,
            pacing,
            daily_writes: self.daily_writes,
            seed,
            of_pool: self.of_pool,
        })
    }
}
