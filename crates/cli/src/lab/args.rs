//! Arguments shared by the commands of the lab.

mod run_of;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};
use clap::Args;
use thermocline_ftl::victim::Victim;
use thermocline_lab::{Error, Input, Prefill, Prepared, Settings, Stack, spec};
use thermocline_record::{ReadError, RunSpec, WorkloadSpec};
use thermocline_types::{Bytes, Setting as _, Time};
use thermocline_workload::remap::Remap;
use thermocline_workload::trace;

pub use run_of::{RunOf, load};

use super::run::DECIDING;
use crate::pool::LabRun;

/// Help text about sizes and exit codes, shared by many commands.
pub const CONVENTIONS: &str = "\
Sizes: 4096, 4KiB, 2MiB, 1.92TB; KiB, MiB, GiB count in 1024, KB, MB, GB in 1000.
Exit code: 0 done; 2 wrong arguments or input; 1 a file cannot be written, or a defect; 130 interrupted.";

/// Help text about Ctrl-C for commands that show partial results.
pub const ENDS_EARLY: &str = "Ctrl-C ends a run early and shows what was measured by then, if anything was; a second one ends it at once.";

/// Help text about Ctrl-C for commands without partial results.
pub const ENDS_AT_ONCE: &str = "Ctrl-C ends it, and nothing is shown or written.";

/// Default size of the volume that a suite of tests accesses. Chosen: large enough that buffer sizes matter little,
/// small enough for a run of minutes. At 512 MiB and 1 GiB of `tier:p5800x+p5316`, the pool's units (at most a 32nd of
/// the scaled fast device) are shorter than the drive's units, and the drive copies data. Uniform writes at 80 % full
/// then have a WAF of 5.2 and 7.5. The WAF is 2.6 at 2, 4 and 16 GiB, and 3.1 at 256 MiB (whole runs).
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
    /// Leave out what comes before this time of the trace, such as 90s, 10min, 2h or 1d
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = "Trace")]
    from: Option<Time>,
    /// Leave out what comes from this time of the trace on
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = "Trace")]
    until: Option<Time>,

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
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = 0.0, help_heading = "Generator")]
    read_share: f64,
    /// Share of requests that trim, 0 to 1
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = 0.0, help_heading = "Generator")]
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
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = "Replay")]
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

/// Refuses --fast-capacity if `stacks` have no fast device.
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

/// A share as typed: `0.1` or `10%`. Commands check the range.
pub fn share(text: &str) -> Result<f64, String> {
    f64::read(text)
}

fn parse_prefill(text: &str) -> Result<Prefill, String> {
    let prefill = spec::prefill(text);
    prefill.map_err(|_| format!("`{text}` is no prefill; there are first-touch, sequential, none"))
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

    /// This source, until `requests` requests of any kind were issued.
    pub fn of_requests(self, requests: u64) -> SourceArgs {
        SourceArgs { requests: Some(requests), drive_writes: None, writes: None, ..self }
    }

    /// This source with requests of `io_size`; the share `read` of the requests reads.
    pub fn in_requests(self, io_size: Option<Bytes>, read: f64) -> SourceArgs {
        SourceArgs { io_size, read_share: read, ..self }
    }

    /// Whether the host issues requests at its own pace.
    pub fn has_pace(&self) -> bool {
        self.rate.is_some() || self.burst.is_some()
    }

    /// The workload of these arguments, placed on a drive according to `replay`.
    pub fn input(&self, replay: &ReplayArgs) -> anyhow::Result<Input> {
        spec::input(&self.workload(replay)?, self.seed).map_err(of_arguments)
    }

    /// The input, scanned and ready to run on devices with mapping units up to `granule`.
    pub fn prepare(
        &self,
        replay: &ReplayArgs,
        granule: Bytes,
        capacity: Option<Bytes>,
    ) -> anyhow::Result<Prepared> {
        let prepared = Prepared::new(self.input(replay)?, replay.prefill, granule, capacity)?;
        Ok(prepared.with_data_at_rest(replay.at_rest.unwrap_or(0.0))?)
    }

    /// The part of a specification that these arguments decide.
    pub fn workload(&self, replay: &ReplayArgs) -> anyhow::Result<WorkloadSpec> {
        match (&self.trace, &self.workload) {
            (Some(path), None) => self.of_trace(path, replay),
            (None, Some(generator)) => self.of_generator(generator, replay),
            _ => bail!(
                "say what to replay: --trace FILE, or --workload SPEC such as --workload zipf:0.99; `thermocline lab list \
                 workloads` shows the generators"
            ),
        }
    }

    fn of_trace(&self, path: &Path, replay: &ReplayArgs) -> anyhow::Result<WorkloadSpec> {
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
        Ok(WorkloadSpec::Trace {
            path: path.to_str().context("the trace's path is no text")?.to_owned(),
            format: self.format.map(|format| format.to_string()),
            volume: self.volume.clone(),
            from_us: self.from.map(micros),
            until_us: self.until.map(micros),
            skip_bad: self.skip_bad,
            remap: replay.remap.to_string(),
            loops: replay.loops,
            ignore_trims: replay.ignore_trims,
        })
    }

    fn of_generator(&self, text: &str, replay: &ReplayArgs) -> anyhow::Result<WorkloadSpec> {
        let trace_only = [
            ("--format", self.format.is_some()),
            ("--skip-bad", self.skip_bad),
            ("--volume", self.volume.is_some()),
            ("--from", self.from.is_some()),
            ("--until", self.until.is_some()),
            ("--loops", replay.loops.is_some_and(|loops| loops != 1)),
            ("--ignore-trims", replay.ignore_trims),
            ("--remap", replay.remap != Remap::default()),
        ];
        if let Some((name, _)) = trace_only.iter().find(|(_, given)| *given) {
            bail!("{name} is for traces (--trace)");
        }
        Ok(WorkloadSpec::Generator {
            generator: text.to_owned(),
            span_bytes: self.span.map(|size| size.0),
            drive_writes: self.drive_writes,
            writes: self.writes,
            requests: self.requests,
            io_size_bytes: self.io_size.map(|size| size.0),
            read_share: self.read_share,
            trim_share: self.trim_share,
            rate: self.rate,
            burst_bytes: self.burst.map(|size| size.0),
            idle_us: self.idle.map(micros),
        })
    }
}

/// A text of the lab for the command line: keys of a specification become arguments.
pub fn in_arguments(text: &str) -> String {
    /// Keys of commands that a specification does not have.
    const MORE: [&str; 4] = ["points", "price", "quick", "traces"];
    let keys = DECIDING.iter().chain(&MORE);
    keys.fold(text.to_owned(), |text, key| {
        text.replace(&format!("`{key}`"), &format!("--{}", key.replace('_', "-")))
    })
}

/// The text of an error. In errors of the lab itself, keys of a specification become arguments. Profiles, traces and
/// workloads have their own keys.
pub fn told(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let of_lab = error.chain().find_map(|one| one.downcast_ref::<Error>());
    match of_lab {
        None | Some(Error::Profile(_) | Error::Trace(_) | Error::Map(_) | Error::Workload(_)) => {
            text
        }
        Some(_) => in_arguments(&text),
    }
}

/// Adds a remedy to the error of a specification without one.
pub fn of_arguments(error: Error) -> anyhow::Error {
    match error {
        Error::Key { key: "placement", .. } => {
            let text = in_arguments(&error.to_string());
            anyhow!("{text}; `thermocline lab list placements` shows the policies")
        }
        error @ Error::OtherFile { .. } => anyhow!(
            "{error}; bring that file back, or print a new specification with `thermocline lab run ... --print-spec`"
        ),
        Error::Specification { path, source } => {
            let shown = path.display();
            let remedy = match source {
                ReadError::SpecSchema { .. } => {
                    "; `thermocline lab run ... --print-spec` prints a specification"
                }
                _ => "",
            };
            anyhow!("{shown} specifies no run: {:#}{remedy}", anyhow::Error::from(source))
        }
        error @ Error::Stack { .. } => {
            anyhow!(
                "{error}; `thermocline lab list layers` and `devices` show the parts of a stack"
            )
        }
        error => error.into(),
    }
}

/// What to run on, and how.
#[derive(Args, Clone, Default)]
pub struct DeviceArgs {
    /// Override a field of the profile, such as device.op=0.07, or a setting of the log, such as pool.write_depth=8
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
        value_name = "SHARE", value_parser = share,
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
    /// Under tag and log, what has a handle of its own: file, directory (or kind of file) or volume; under log the
    /// placement becomes `handles`; of no effect under other layers
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
    /// These arguments on the drive of `pool`. Overrides on the command line take precedence over the pool's.
    pub fn of_pool(&self, pool: LabRun) -> DeviceArgs {
        let set = pool.set.into_iter().chain(self.set.iter().cloned()).collect();
        let fast_capacity = pool.fast_capacity.or(self.fast_capacity);
        let capacity = Some(pool.capacity);
        DeviceArgs { set, capacity, fast_capacity, of_pool: true, ..self.clone() }
    }

    /// The stack called `text`, with these overrides.
    pub fn stack(&self, text: &str) -> anyhow::Result<Stack> {
        let spec = self.fill(RunSpec::new(text, WorkloadSpec::generator("")));
        spec::stack(&spec).map_err(of_arguments)
    }

    /// The settings of a run with `seed`.
    pub fn settings(&self, seed: u64) -> anyhow::Result<Settings> {
        let spec = self.fill(RunSpec::new("", WorkloadSpec::generator("")));
        let settings = spec::settings(&spec).map_err(of_arguments)?;
        Ok(Settings { seed, of_pool: self.of_pool, ..settings })
    }

    /// `spec` with the values of the command line.
    fn fill(&self, spec: RunSpec) -> RunSpec {
        RunSpec {
            set: self.set.clone(),
            placement: self.placement.clone(),
            tag_by: self.tag_by.clone(),
            victim: self.victim.map(|victim| victim.to_string()),
            capacity_bytes: self.capacity.map(|size| size.0),
            fast_capacity_bytes: self.fast_capacity.map(|size| size.0),
            utilisation: self.utilisation,
            queue_depth: self.queue_depth,
            think_us: self.think.map(micros),
            speed: self.speed,
            daily_writes_bytes: self.daily_writes.map(|size| size.0),
            ..spec
        }
    }
}

/// A time of a trace: seconds, or with a unit.
fn moment(text: &str) -> Result<Time, String> {
    // `us` and `ms` end in `s`.
    let units =
        [("us", 1e3), ("ms", 1e6), ("min", 60e9), ("h", 3600e9), ("d", 86_400e9), ("s", 1e9)];
    let found = units.iter().find_map(|(unit, nanos)| Some((text.strip_suffix(unit)?, *nanos)));
    let (number, nanos) = found.unwrap_or((text, 1e9));
    let number: Option<f64> = number.trim().parse().ok();
    let nanos = number.map(|number| number * nanos).filter(|nanos| (0.0..1e18).contains(nanos));
    let why = || format!("`{text}` is no time such as 90s, 10min, 2h or 1d");
    nanos.map(|nanos| Time::nanos(nanos as u64)).ok_or_else(why)
}

fn micros(time: Time) -> f64 {
    time.0 as f64 / 1e3
}
