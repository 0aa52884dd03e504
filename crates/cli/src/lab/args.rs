//! Arguments shared by the commands of the lab.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use thermocline_ftl::victim::Victim;
use thermocline_lab::{Input, Pacing, Prefill, Prepared, Settings, Stack};
use thermocline_types::Bytes;
use thermocline_workload::remap::Remap;
use thermocline_workload::synthetic::{self, Limit, Spec};
use thermocline_workload::trace;

/// Where requests come from: a trace, or a generator.
#[derive(Args, Clone)]
pub struct WorkloadArgs {
    /// Block trace, plain, gzip or zstd; its format is detected (`lab list formats`)
    #[arg(long, value_name = "FILE", help_heading = "Workload", conflicts_with = "workload")]
    pub trace: Option<PathBuf>,
    /// Synthetic workload, such as uniform, zipf:0.99, hotcold:10:90, jesd219, or a TOML file of tenants (`lab list
    /// workloads`)
    #[arg(long, value_name = "SPEC", help_heading = "Workload")]
    pub workload: Option<String>,

    /// Trace format, where detection does not settle it
    #[arg(long, value_name = "NAME", help_heading = "Trace")]
    format: Option<trace::Format>,
    /// Leave out lines that cannot be read, and count them, instead of stopping at the first
    #[arg(long, help_heading = "Trace")]
    skip_bad: bool,
    /// Only the requests of this volume of a multi-volume trace
    #[arg(long, value_name = "NAME", help_heading = "Trace")]
    volume: Option<String>,
    /// How to fit addresses into the device: dense, fold or none
    #[arg(long, value_name = "HOW", default_value = "dense", help_heading = "Trace")]
    remap: Remap,
    /// Replay the trace so many times
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Trace")]
    loops: u32,

    /// Leave out trims, as on a file system mounted without discard
    #[arg(long, help_heading = "Trace")]
    ignore_trims: bool,

    /// Bytes a synthetic workload addresses [default: 1GiB]
    #[arg(long, value_name = "SIZE", help_heading = "Synthetic workload")]
    span: Option<Bytes>,
    /// Write so many times the span [default: 5]
    #[arg(long, value_name = "X", help_heading = "Synthetic workload", conflicts_with = "writes")]
    drive_writes: Option<f64>,
    /// Issue so many writes
    #[arg(long, value_name = "N", help_heading = "Synthetic workload")]
    writes: Option<u64>,
    /// Size of each request [default: 4KiB, or the workload's own mix]
    #[arg(long, value_name = "SIZE", help_heading = "Synthetic workload")]
    io_size: Option<Bytes>,
    /// Share of requests that read, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, help_heading = "Synthetic workload")]
    read_share: f64,
    /// Share of requests that trim, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, help_heading = "Synthetic workload")]
    trim_share: f64,
    /// Requests per second; without it, as fast as the queue depth allows
    #[arg(long, value_name = "N", help_heading = "Synthetic workload")]
    rate: Option<f64>,

    /// Fill the drive before measuring: first-touch (traces), sequential (generators) or none
    #[arg(long, value_name = "HOW", value_parser = parse_prefill, help_heading = "Workload")]
    prefill: Option<Prefill>,
    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Workload")]
    pub seed: u64,
}

fn parse_prefill(text: &str) -> Result<Prefill, String> {
    [Prefill::FirstTouch, Prefill::Sequential, Prefill::None]
        .into_iter()
        .find(|prefill| prefill.name() == text)
        .ok_or_else(|| format!("`{text}` is no prefill; there are first-touch, sequential, none"))
}

impl WorkloadArgs {
    /// The workload these arguments describe.
    pub fn input(&self) -> anyhow::Result<Input> {
        match (&self.trace, &self.workload) {
            (Some(path), None) => self.trace_input(path),
            (None, Some(spec)) => self.synthetic_input(spec),
            _ => bail!(
                "say what to replay: --trace FILE, or --workload SPEC (such as --workload zipf:0.99); `thermocline lab list \
                 workloads` shows the generators"
            ),
        }
    }

    /// The same, looked through and ready to run on devices with mapping units up to `granule`.
    pub fn prepare(&self, granule: Bytes, capacity: Option<Bytes>) -> anyhow::Result<Prepared> {
        Ok(Prepared::new(self.input()?, self.prefill, granule, capacity)?)
    }

    /// How to read the trace.
    pub fn trace_options(&self) -> trace::Options {
        trace::Options { format: self.format, skip_bad: self.skip_bad, volume: self.volume.clone() }
    }

    fn trace_input(&self, path: &Path) -> anyhow::Result<Input> {
        let synthetic_only = [
            ("--span", self.span.is_some()),
            ("--drive-writes", self.drive_writes.is_some()),
            ("--writes", self.writes.is_some()),
            ("--io-size", self.io_size.is_some()),
            ("--read-share", self.read_share > 0.0),
            ("--trim-share", self.trim_share > 0.0),
            ("--rate", self.rate.is_some()),
        ];
        if let Some((name, _)) = synthetic_only.iter().find(|(_, given)| *given) {
            bail!("{name} is for synthetic workloads; a trace says that itself");
        }
        ensure!(self.loops > 0, "--loops must be at least 1");
        Ok(Input::Trace {
            path: path.to_owned(),
            options: self.trace_options(),
            remap: self.remap,
            loops: self.loops,
            ignore_trims: self.ignore_trims,
        })
    }

    fn synthetic_input(&self, text: &str) -> anyhow::Result<Input> {
        let trace_only = [
            ("--format", self.format.is_some()),
            ("--skip-bad", self.skip_bad),
            ("--volume", self.volume.is_some()),
            ("--loops", self.loops != 1),
            ("--ignore-trims", self.ignore_trims),
            ("--remap", self.remap != Remap::default()),
        ];
        if let Some((name, _)) = trace_only.iter().find(|(_, given)| *given) {
            bail!("{name} is for traces");
        }
        let spec = Spec::load(text)?;
        let span = self.span.or(spec.fixed_span()).unwrap_or(Bytes::gib(1));
        let limit = match (self.writes, self.drive_writes) {
            (Some(writes), _) => Limit::Writes(writes),
            (None, times) => Limit::drive_writes(times.unwrap_or(5.0), span)?,
        };
        let options = synthetic::Options {
            io_size: self.io_size,
            read_share: self.read_share,
            trim_share: self.trim_share,
            seed: self.seed,
            rate: self.rate,
            ..synthetic::Options::new(span, limit)
        };
        Ok(Input::Synthetic { spec, options })
    }
}

/// What to run on, and how.
#[derive(Args, Clone)]
pub struct DeviceArgs {
    /// Override a field of the device, such as device.op=0.07; may be repeated
    #[arg(long, value_name = "device.KEY=VALUE", help_heading = "Device")]
    set: Vec<String>,
    /// Capacity the device exports [default: what the workload addresses: a full drive]
    #[arg(long, value_name = "SIZE", help_heading = "Device")]
    pub capacity: Option<Bytes>,
    /// Size the device so that the workload fills this share of it, 0 to 1
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 1.0,
        help_heading = "Device",
        conflicts_with = "capacity"
    )]
    utilisation: f64,
    /// Victim policy of garbage collection (`lab list victims`) [default: the device's]
    #[arg(long, value_name = "NAME", help_heading = "Device")]
    victim: Option<Victim>,
    /// Placement policy: none under raw, tenant under tag (`lab list placements`)
    #[arg(long, value_name = "NAME", help_heading = "Device")]
    placement: Option<String>,
    /// Keep so many requests in flight [default: the trace's own clock, or 32]
    #[arg(long, value_name = "N", help_heading = "Time", conflicts_with = "speed")]
    queue_depth: Option<u32>,
    /// Replay the workload's clock so many times as fast
    #[arg(long, value_name = "X", help_heading = "Time")]
    speed: Option<f64>,
    /// What the product will be written per day, for its life [default: the trace's own pace]
    #[arg(long, value_name = "SIZE", help_heading = "Life")]
    daily_writes: Option<Bytes>,
}

impl DeviceArgs {
    /// The stack called `text`, with these overrides.
    pub fn stack(&self, text: &str) -> anyhow::Result<Stack> {
        let stack = Stack::parse(text, &self.set)?;
        let expected = match stack.layer {
            thermocline_lab::Layer::Raw => "none",
            thermocline_lab::Layer::Tag => "tenant",
        };
        if let Some(placement) = &self.placement {
            ensure!(
                placement == expected,
                "--placement {placement}: {} takes {expected}; `thermocline lab list placements` shows them",
                stack.text
            );
        }
        Ok(stack)
    }

    /// The settings of a run with `seed`.
    pub fn settings(&self, seed: u64) -> anyhow::Result<Settings> {
        let pacing = match (self.queue_depth, self.speed) {
            (Some(depth), _) => {
                ensure!((1..=65_536).contains(&depth), "--queue-depth must be 1 to 65536");
                Some(Pacing::QueueDepth(depth))
            }
            (None, Some(speed)) => {
                ensure!(speed.is_finite() && speed > 0.0, "--speed must be above 0");
                Some(Pacing::Clock { speed })
            }
            (None, None) => None,
        };
        if let Some(bytes) = self.daily_writes {
            ensure!(bytes > Bytes::ZERO, "--daily-writes must be above 0");
        }
        Ok(Settings {
            capacity: self.capacity,
            utilisation: self.utilisation,
            victim: self.victim,
            pacing,
            daily_writes: self.daily_writes,
            seed,
        })
    }
}

/// Writes `text` to `path`.
pub fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
