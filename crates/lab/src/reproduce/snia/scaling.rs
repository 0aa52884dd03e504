//! Several drives under one host.

use thermocline_record::RunRecord;
use thermocline_record::plot::{Plot, PlotAxis, PlotLine};
use thermocline_types::Bytes;
use thermocline_workload::synthetic::Limit;

use super::super::{Figure, FiguresDrawn, Options, part};
use super::{
    FOR_BANDWIDTH, FOR_IOPS, PatternJob, SIZES, mb_per_s, mix, per_second, root_mean_square,
};
use crate::Error;
use crate::tco::Prices;
use crate::tco::prices::DEFAULT_PRICES;
use crate::theory::bandwidth::READ_SHARES;

const DEVICE: &str = "pci-c";
/// Drives, as the tutorial has them.
const DRIVES: [u32; 4] = [1, 2, 4, 8];
/// Requests in flight for each drive.
const DEPTH: u32 = 64;
/// Capacity of each drive; `--quick` uses a quarter.
const CAPACITY: Bytes = Bytes::mib(64);
/// Requests of a run for each drive; `--quick` a quarter.
const REQUESTS: u64 = 8000;
/// Processor time of a request to a drive, microseconds. Assumed: Linux of 2009 took some 200 thousand a second from
/// one thread at best.
const CPU_US: f64 = 5.0;
/// What all drives together can move in one direction, MB/s. Assumed: 32 lanes of PCI Express 1.1 at 250 MB/s, less a
/// fifth.
const LINK: f64 = 6400.0;
/// Threads of the host: one, and enough to saturate the drives.
const THREADS: [u32; 2] = [1, 16];
/// Mix of the chart by size, share that reads. Chosen: the middle of the tutorial's mixes that write.
const SIZES_READ: f64 = 0.5;

/// A run of so many drives.
#[derive(Clone, Copy)]
struct Case {
    drives: u32,
    threads: u32,
    size: u64,
    read: f64,
}

/// What is counted of a run.
#[derive(Clone, Copy)]
struct Score {
    name: &'static str,
    unit: &'static str,
    size: u64,
    of: fn(&RunRecord) -> f64,
}

/// The tutorial's scores: operations of the smallest size, and bandwidth.
const SCORES: [Score; 2] = [
    Score { name: "512 B", unit: "thousand a second", size: FOR_IOPS, of: kiops },
    Score { name: "128 KiB", unit: "MB/s", size: FOR_BANDWIDTH, of: mb_per_s },
];

fn counted(drives: u32) -> String {
    if drives == 1 { "1 drive".to_owned() } else { format!("{drives} drives") }
}

fn kiops(record: &RunRecord) -> f64 {
    per_second(record) / 1e3
}

/// Consecutive runs with a common progress report.
struct Runs<'a> {
    divisor: u64,
    seed: u64,
    done: usize,
    progress: &'a mut dyn FnMut(f64),
}

impl Runs<'_> {
    const ALL: usize = SCORES.len() * THREADS.len() * DRIVES.len() * READ_SHARES.len()
        + SIZES.len() * DRIVES.len();

    fn run(&mut self, case: Case) -> Result<RunRecord, Error> {
        let stack = format!("raw:{DEVICE}*{}", case.drives);
        let host = [
            format!("host.threads={}", case.threads),
            format!("host.cpu_us={CPU_US}"),
            format!("host.link_mb_per_s={LINK}"),
        ];
        let drives = u64::from(case.drives);
        let capacity = Bytes(CAPACITY.0 * drives / self.divisor);
        // As many requests of a large size as move what the drives hold twice.
        let most = 2 * capacity.0 / case.size;
        let limit = Limit::Requests((REQUESTS * drives / self.divisor).min(most));
        let job = PatternJob {
            overrides: &host,
            read_share: case.read,
            queue_depth: DEPTH * case.drives,
            seed: self.seed,
            ..PatternJob::new(&stack, capacity, Bytes(case.size), limit)
        };
        let record = job.run(&mut part(self.progress, self.done, Self::ALL))?;
        self.done += 1;
        Ok(record)
    }
}

/// Watts of the host and of each drive at its limit.
struct Watts {
    host: f64,
    drive: f64,
}

/// One to eight drives by mix and size.
pub fn scaling(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<FiguresDrawn, Error> {
    let divisor = if options.quick { 4 } else { 1 };
    let mut runs = Runs { divisor, seed: options.seed, done: 0, progress };
    let prices = Prices::from_toml("built-in", DEFAULT_PRICES, &[])?;
    let watts = Watts { host: prices.server.watts, drive: prices.drive(DEVICE)?.active_w };
    let (mut figures, mut plots) = (Vec::new(), Vec::new());
    for score in SCORES {
        let mut lines = vec![PlotLine::reference(
            "as many times as drives",
            DRIVES.map(|drives| [f64::from(drives); 2]).to_vec(),
        )];
        for threads in THREADS {
            lines.push(by_drives(&mut runs, score, threads, &watts, &mut figures)?);
        }
        plots.push(Plot {
            title: format!("Transfers of {}: times one drive", score.name),
            caption: "Root of the mean square of reads/writes 100/0, 75/25, 50/50, 25/75 and 0/100, over that of one drive."
                .into(),
            x: PlotAxis::linear("drives"),
            y: PlotAxis::linear("times one drive"),
            lines,
        });
    }
    plots.push(by_size(&mut runs, &mut figures)?);
    Ok((figures, plots))
}

/// The score over the number of drives, in times that of one.
fn by_drives(
    runs: &mut Runs<'_>,
    score: Score,
    threads: u32,
    watts: &Watts,
    figures: &mut Vec<Figure>,
) -> Result<PlotLine, Error> {
    let host = if threads == 1 { "one thread".to_owned() } else { format!("{threads} threads") };
    let Score { name, unit, size, of } = score;
    let (mut one, mut normalised) = (f64::NAN, Vec::new());
    for drives in DRIVES {
        let what = format!("{name}, {}, {host}", counted(drives));
        let mut five = Vec::new();
        for read in READ_SHARES {
            let ours = of(&runs.run(Case { drives, threads, size, read })?);
            five.push(ours);
            figures.push(Figure::ours(format!("{what}, {}: {unit}", mix(read)), ours));
        }
        let all = root_mean_square(&five);
        one = if drives == 1 { all } else { one };
        normalised.push([f64::from(drives), all / one]);
        let what = format!("{what}, RMS of five mixes");
        figures.push(Figure::ours(format!("{what}: {unit}"), all));
        figures.push(Figure::ours(format!("{what}: times one drive"), all / one));
        if size == FOR_IOPS {
            let watts = watts.host + f64::from(drives) * watts.drive;
            figures.push(Figure::ours(format!("{what}: a second and watt"), 1e3 * all / watts));
        }
    }
    Ok(PlotLine::ours(&host, normalised))
}

/// Bandwidth over the size of transfers, with many threads.
fn by_size(runs: &mut Runs<'_>, figures: &mut Vec<Figure>) -> Result<Plot, Error> {
    let threads = THREADS[THREADS.len() - 1];
    let mut lines = Vec::new();
    for drives in DRIVES {
        let mut points = Vec::new();
        for size in SIZES {
            let ours = mb_per_s(&runs.run(Case { drives, threads, size, read: SIZES_READ })?);
            points.push([size as f64 / 1024.0, ours]);
            let what = format!("{}, {}, {threads} threads", Bytes(size), counted(drives));
            figures.push(Figure::ours(format!("{what}, {}: MB/s", mix(SIZES_READ)), ours));
        }
        lines.push(PlotLine::ours(&counted(drives), points));
    }
    Ok(Plot {
        title: format!("Bandwidth by size of transfers, reads/writes {}", mix(SIZES_READ)),
        caption: format!("{threads} threads of the host."),
        x: PlotAxis::logarithmic("KiB of a transfer"),
        y: PlotAxis::logarithmic("MB/s"),
        lines,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(drives: u32, threads: u32, size: u64) -> RunRecord {
        let mut runs = Runs { divisor: 8, seed: 1, done: 0, progress: &mut |_| {} };
        runs.run(Case { drives, threads, size, read: 1.0 }).unwrap()
    }

    #[test]
    fn large_transfers_scale_with_the_drives_and_small_ones_to_the_threads() {
        let [one, eight] = [1, 8].map(|drives| mb_per_s(&run(drives, 16, FOR_BANDWIDTH)));
        assert!((6.0..8.2).contains(&(eight / one)), "{one} and {eight} MB/s");
        assert!(eight < 1.02 * LINK, "{eight}");
        let [one, eight, many] =
            [(1, 1), (8, 1), (8, 16)].map(|(drives, threads)| run(drives, threads, FOR_IOPS));
        assert_eq!(eight.bandwidth.as_ref().unwrap().limit.as_deref(), Some("host_cpu"));
        assert!((kiops(&eight) * CPU_US / 1e3 - 1.0).abs() < 0.02, "{}", kiops(&eight));
        assert!(kiops(&many) > 5.0 * kiops(&one) && kiops(&many) > 3.0 * kiops(&eight));
    }

    #[test]
    fn bytes_of_the_drives_sum_to_those_of_the_record() {
        let mut runs = Runs { divisor: 8, seed: 1, done: 0, progress: &mut |_| {} };
        let case = Case { drives: 4, threads: 1, size: FOR_IOPS, read: 0.25 };
        let record = runs.run(case).unwrap();
        assert_eq!(record.drives.len(), 4);
        let sum = |of: fn(&thermocline_record::DriveBytes) -> u64| {
            record.drives.iter().map(of).sum::<u64>()
        };
        assert_eq!(sum(|drive| drive.device_bytes_written), record.device_bytes_written);
        assert_eq!(sum(|drive| drive.device_bytes_read), record.host_bytes_read);
        assert_eq!(sum(|drive| drive.media_bytes_written.total), record.media_bytes_written.total);
        assert!(record.drives.iter().all(|drive| drive.media_bytes_written.total > 0));
    }
}
