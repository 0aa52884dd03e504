//! `lab run` and `lab compare`.

use std::thread;

use anyhow::ensure;
use clap::Args;
use thermocline_lab::{Settings, Stack};
use thermocline_record::RunRecord;
use thermocline_types::Bytes;

use super::args::{DeviceArgs, WorkloadArgs};
use super::output::OutputArgs;
use crate::progress::Progress;

/// Arguments of `lab run`.
#[derive(Args)]
#[command(after_help = "Examples:
  thermocline lab run --stack raw:p5316 --trace testdata/postgres-tpcc.csv.gz --report run.html
  thermocline lab run --stack raw:ideal --workload uniform --span 4GiB --drive-writes 10 --set device.op=0.07
  thermocline lab run --stack raw:micron2300 --workload jesd219 --span 8GiB --utilisation 0.9 --json")]
pub struct RunArgs {
    /// Stack LAYER:DEVICE, such as raw:p5316 or raw:./my-drive.toml (`lab list devices`)
    #[arg(long, value_name = "STACK")]
    stack: String,
    #[command(flatten)]
    workload: WorkloadArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Arguments of `lab compare`.
#[derive(Args)]
#[command(after_help = "Example:
  thermocline lab compare --trace testdata/postgres-tpcc.csv.gz --stack raw:p5316 --stack raw:pm9d3 --report compare.html")]
pub struct CompareArgs {
    /// Stack LAYER:DEVICE; give two or more
    #[arg(long = "stack", value_name = "STACK", required = true)]
    stacks: Vec<String>,
    #[command(flatten)]
    workload: WorkloadArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// `lab run`.
pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    let stacks = [args.device.stack(&args.stack)?];
    let settings = args.device.settings(args.workload.seed)?;
    let records = run_all(&stacks, &args.workload, &settings)?;
    args.output.give_run(&records[0])
}

/// `lab compare`.
pub fn compare(args: &CompareArgs) -> anyhow::Result<()> {
    ensure!(
        args.stacks.len() > 1,
        "compare takes two or more --stack; for one, use `thermocline lab run`"
    );
    let stacks = args
        .stacks
        .iter()
        .map(|text| args.device.stack(text))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let settings = args.device.settings(args.workload.seed)?;
    let records = run_all(&stacks, &args.workload, &settings)?;
    args.output.give_comparison(&records)
}

/// Runs every stack, as many at once as there are processors, and returns their records in order. All see the same
/// addresses: granules are as large as the largest mapping unit.
fn run_all(
    stacks: &[Stack],
    workload: &WorkloadArgs,
    settings: &Settings,
) -> anyhow::Result<Vec<RunRecord>> {
    let granule =
        stacks.iter().map(|stack| stack.profile.mapping_unit).max().unwrap_or(Bytes::BLOCK);
    let progress = Progress::default();
    let one = |stack: &Stack| -> anyhow::Result<RunRecord> {
        let bar = progress.bar(&stack.text);
        let mut prepared = workload.prepare(granule, settings.capacity)?;
        Ok(thermocline_lab::run(&mut prepared, stack, settings, &mut |share| bar.set(share))?)
    };
    let at_once = thread::available_parallelism().map_or(1, usize::from);
    let mut records = Vec::with_capacity(stacks.len());
    for group in stacks.chunks(at_once) {
        let results: Vec<_> = thread::scope(|scope| {
            let workers: Vec<_> = group.iter().map(|stack| scope.spawn(|| one(stack))).collect();
            workers.into_iter().map(|worker| worker.join().expect("panics abort")).collect()
        });
        for result in results {
            records.push(result?);
        }
    }
    Ok(records)
}
