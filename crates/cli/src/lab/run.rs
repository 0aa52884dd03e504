//! `lab run` and `lab compare`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, ensure};
use clap::Args;
use thermocline_lab::spec::{self, Planned};
use thermocline_lab::{Settings, Stack};
use thermocline_record::{RunRecord, RunSpec, WorkloadSpec};
use thermocline_runtime::Settings as PoolSettings;
use thermocline_types::Bytes;

use super::args::{
    CONVENTIONS, DeviceArgs, ENDS_EARLY, ReplayArgs, RunOf, SourceArgs, check_fast_capacity, load,
    of_arguments,
};
use super::life_from::LifeFrom;
use super::output::OutputArgs;
use crate::interrupt::Interrupt;
use crate::pool::LabRun;
use crate::progress::Progress;

/// Help text about runs, shared by both commands.
const WHAT_A_RUN_DOES: &str = "\
A run sizes the drive so that the workload fills it, fills it, replays the
workload, and counts every byte written to the flash by its cause. WAF is media
bytes / host bytes; what the filling wrote is in no ratio. A WAF is transient
until the run is in steady state (SNIA PTS): --loops or --drive-writes for more.
Rates are over the time until all that was written is on the media.

Of several tenants (volumes of a trace, [[tenant]] of a workload file) each has
a row: the mean number of its requests in flight, its rates and latencies, and
the WAF of its own data: what is copied counts for the tenant that wrote it
last, headers and maps for nobody.";

/// Examples of `lab run`.
const RUN_EXAMPLES: &str = "\
Examples:
  A trace on a QLC drive, with a page of charts:
    thermocline lab run --stack raw:p5316 --report run.html \\
      --trace postgres-tpcc
  Uniform random writes on an ideal drive with 7 % overprovisioning:
    thermocline lab run --stack raw:ideal --workload uniform --set device.op=0.07
  An LSM store of 16 GiB on a drive told by kind of file (`lab list lsm`):
    thermocline lab run --stack tag:pm9d3 --tag-by directory \\
      --workload lsm:strategy=levels,keys=30%,fs.discard=off --drive-writes 2
  Your own drive: start from a built-in profile, edit it, name the file:
    thermocline lab list devices p5316 > mine.toml
    thermocline lab run --stack raw:./mine.toml --workload jesd219 --span 1GiB \\
      --utilisation 0.9 --json
  A run as one file that others can repeat, also from its record:
    thermocline lab run --stack raw:ideal --workload uniform --print-spec > spec.json
    thermocline lab run --spec spec.json --record run.json
    thermocline lab run --spec run.json
  Years left of a drive in use, by its counters and the WAF of its trace:
    thermocline lab run --stack raw:pm9d3 --trace postgres-tpcc --life-from drive.json
  What a setting changes against that run:
    thermocline lab run --stack raw:ideal --workload uniform --set device.op=0.2 --against run.json";

/// Examples of `lab compare`.
const COMPARE_EXAMPLES: &str = "\
Example:
  thermocline lab compare --trace postgres-tpcc \\
    --stack raw:p5316 --stack raw:pm9d3 --report compare.html";

/// Arguments of `lab run`.
#[derive(Args)]
#[command(after_help = format!("{WHAT_A_RUN_DOES}\n\n{RUN_EXAMPLES}\n\n{CONVENTIONS}\n{ENDS_EARLY}"))]
pub struct RunArgs {
    /// LAYER:DEVICE[,KEY=VALUE...], such as raw:p5316, raw:p5316,op=0.2 or raw:./mine.toml (`lab list layers` and
    /// `devices`)
    #[arg(long, value_name = "STACK", required_unless_present_any = ["pool", "spec"])]
    stack: Option<String>,
    /// What the pool of this settings file would make of the workload: its size and settings, on its simulated drive or
    /// on that of --stack
    #[arg(long, value_name = "POOL.toml", conflicts_with_all = ["capacity", "utilisation"])]
    pool: Option<PathBuf>,
    /// Everything that decides the run from a file instead: a specification that --print-spec printed, or the record of
    /// a run. Files that it names must be the same as then
    #[arg(long, value_name = "FILE", conflicts_with_all = DECIDING)]
    spec: Option<PathBuf>,
    /// Also tell the years left of a drive in use under this load: the drive, such as /dev/nvme0, or a record of
    /// `thermocline drive stat --record`, nvme-cli or smartctl. Without --daily-writes at its own pace
    #[arg(long, value_name = "DRIVE")]
    life_from: Option<PathBuf>,
    /// Print the specification of the run (thermocline.spec/1) instead of running it
    #[arg(long, help_heading = "Output")]
    print_spec: bool,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    replay: ReplayArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Arguments that decide a run. A specification has keys with the same names.
pub const DECIDING: [&str; 33] = [
    "stack",
    "trace",
    "workload",
    "format",
    "skip_bad",
    "volume",
    "from",
    "until",
    "span",
    "drive_writes",
    "writes",
    "requests",
    "io_size",
    "read_share",
    "trim_share",
    "rate",
    "seed",
    "prefill",
    "at_rest",
    "loops",
    "remap",
    "ignore_trims",
    "set",
    "capacity",
    "fast_capacity",
    "utilisation",
    "victim",
    "placement",
    "tag_by",
    "queue_depth",
    "think",
    "speed",
    "daily_writes",
];

/// Arguments of `lab compare`.
#[derive(Args)]
#[command(after_help = format!("{WHAT_A_RUN_DOES}\n\n{COMPARE_EXAMPLES}\n\n{CONVENTIONS}\n{ENDS_EARLY}"))]
pub struct CompareArgs {
    /// LAYER:DEVICE[,KEY=VALUE...], such as raw:p5316, raw:p5316,op=0.2 or raw:./mine.toml; give two or more
    #[arg(long = "stack", value_name = "STACK", required = true)]
    stacks: Vec<String>,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    replay: ReplayArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// `lab run`.
pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    let (spec, of_pool) = args.asked()?;
    let trace = match &spec.workload {
        WorkloadSpec::Trace { path, .. } => Some(Path::new(path)),
        WorkloadSpec::Generator { .. } => None,
    };
    args.output.check(trace)?;
    let mut planned = Planned::of(&spec).map_err(of_arguments)?;
    planned.settings.of_pool = of_pool;
    check_fast_capacity(spec.fast_capacity_bytes.is_some(), [spec.stack.as_str()].into_iter())?;
    if args.print_spec {
        return Ok(write!(std::io::stdout(), "{}", with_files(spec)?.to_json())?);
    }
    let drive = args.life_from.as_deref().map(LifeFrom::read).transpose()?;
    let interrupt = Interrupt::watch()?;
    let bar = Progress::default().bar(&spec.stack);
    let record = run_planned(&planned, &interrupt, &mut |share| {
        interrupt.something_to_show();
        bar.set(share);
    })?;
    drop(bar);
    if let Some(mut record) = record {
        let life = drive.map(|drive| drive.life(&record, spec.daily_writes_bytes));
        record.life_of_drive = life.transpose()?;
        let spec = Some(Box::new(with_files(spec)?));
        args.output.give_run(&RunRecord { spec, ..record }, &planned.input)?;
    }
    interrupt.check()
}

/// The specification with the hashes of its input files.
fn with_files(spec: RunSpec) -> anyhow::Result<RunSpec> {
    let files = spec::files(&spec.stack, &spec.workload).map_err(of_arguments)?;
    Ok(RunSpec { files, ..spec })
}

impl RunArgs {
    /// The requested run, from a file, a pool, or arguments; and whether the run models a pool.
    fn asked(&self) -> anyhow::Result<(RunSpec, bool)> {
        if let Some(path) = &self.spec {
            return Ok((load(path)?, false));
        }
        let pool = self.pool.as_deref().map(|path| LabRun::of(&PoolSettings::load(path)?));
        let (device, stack) = match (pool.transpose()?, &self.stack) {
            (Some(pool), stack) => {
                let text = stack.clone().unwrap_or_else(|| pool.stack.clone());
                (self.device.of_pool(pool), text)
            }
            (None, stack) => (self.device.clone(), stack.clone().expect("clap asks for one")),
        };
        let of_pool = device.of_pool;
        let (source, replay) = (self.source.clone(), self.replay.clone());
        Ok((RunOf { stack, source, replay, device }.spec()?, of_pool))
    }
}

/// `lab compare`.
pub fn compare(args: &CompareArgs) -> anyhow::Result<()> {
    ensure!(
        args.stacks.len() > 1,
        "compare takes two or more --stack; for one, use `thermocline lab run`"
    );
    args.output.check(args.source.trace.as_deref())?;
    let stacks = args
        .stacks
        .iter()
        .map(|text| args.device.stack(text))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let settings = args.device.settings(args.source.seed)?;
    let interrupt = Interrupt::watch()?;
    let records = run_all(&stacks, &args.source, &args.replay, &settings, &interrupt)?;
    if !records.is_empty() {
        args.output.give_comparison(&records, &args.source.input(&args.replay)?)?;
    }
    interrupt.check()
}

/// Runs every stack, one per processor at a time. Returns the records in the order of `stacks`. After an interrupt,
/// stacks without measurements are left out. All stacks get the same addresses: granules are as large as the largest
/// mapping unit.
///
/// # Errors
/// When a stack cannot be run.
pub fn run_all(
    stacks: &[Stack],
    source: &SourceArgs,
    replay: &ReplayArgs,
    settings: &Settings,
    interrupt: &Interrupt,
) -> anyhow::Result<Vec<RunRecord>> {
    let texts = stacks.iter().map(|stack| stack.text.as_str());
    check_fast_capacity(settings.fast_capacity.is_some(), texts)?;
    let granule =
        stacks.iter().map(|stack| stack.profile.mapping_unit).max().unwrap_or(Bytes::BLOCK);
    let progress = Progress::default();
    let input = source.input(replay)?;
    let one = |stack: &Stack| {
        let bar = progress.bar(&stack.text);
        let mut progress = |share| {
            interrupt.something_to_show();
            bar.set(share);
        };
        let planned = Planned {
            stack: stack.clone(),
            settings: *settings,
            input: input.clone(),
            prefill: replay.prefill,
            at_rest: replay.at_rest.unwrap_or(0.0),
            granule: Some(granule),
        };
        run_planned(&planned, interrupt, &mut progress)
    };
    let at_once = thread::available_parallelism().map_or(1, usize::from);
    let mut records = Vec::with_capacity(stacks.len());
    for group in stacks.chunks(at_once).take_while(|_| !interrupt.is_asked()) {
        let results: Vec<_> = thread::scope(|scope| {
            let workers: Vec<_> = group.iter().map(|stack| scope.spawn(|| one(stack))).collect();
            workers.into_iter().map(|worker| worker.join().expect("panics abort")).collect()
        });
        for result in results {
            records.extend(result?);
        }
    }
    Ok(records)
}

/// Runs one stack. Returns `None` if Ctrl-C ended the run before any measurement.
///
/// # Errors
/// When the stack cannot be run.
pub fn run_planned(
    planned: &Planned,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(f64),
) -> anyhow::Result<Option<RunRecord>> {
    match planned.run(&interrupt.flag(), progress) {
        Ok(record) => Ok(Some(RunRecord { command: Some(command_line()), ..record })),
        Err(thermocline_lab::Error::Interrupted) => Ok(None),
        Err(error) => {
            let context = format!("cannot run {}", planned.stack.text);
            Err(of_arguments(error)).context(context)
        }
    }
}

/// The command line of this process, quoted for a POSIX shell.
fn command_line() -> String {
    let words = std::env::args().skip(1).map(|word| quote(&word));
    std::iter::once("thermocline".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// A word, quoted for a POSIX shell.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+:.,/%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn words_survive_the_shell() {
        assert_eq!(quote("raw:p5316"), "raw:p5316");
        assert_eq!(quote("it's"), "'it'\\''s'");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("a;b"), "'a;b'");
    }
}
