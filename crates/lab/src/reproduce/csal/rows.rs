//! The document's table: ten loads of eight jobs, on eight disks, on the drive alone, and behind the fast tier.

use thermocline_types::Bytes;
use thermocline_workload::synthetic::Pattern;

use super::bed::{Bed, DEPTH, Side};
use super::point::{CSAL, Reference};
use super::{Figure, NO_QUEUE, part, turned};
use crate::Error;
use crate::jobs::JobSpec;

/// Jobs of one kind: how many, and what each does.
pub type Jobs = (usize, JobSpec);

/// A job with the bed's depth.
pub const fn job(pattern: Pattern, kib: u64, read_share: f64) -> JobSpec {
    JobSpec { pattern, io_size: Bytes::kib(kib), read_share, depth: DEPTH, cap_mb_per_s: None }
}

const SEQ_4K: JobSpec = job(Pattern::Sequential, 4, 0.0);
const SEQ_64K: JobSpec = job(Pattern::Sequential, 64, 0.0);
pub const RANDOM_4K: JobSpec = job(Pattern::Uniform, 4, 0.0);
const RANDOM_64K: JobSpec = job(Pattern::Uniform, 64, 0.0);
const ZIPF_08: JobSpec = job(Pattern::Zipf { theta: 0.8 }, 64, 0.0);
const ZIPF_12: JobSpec = job(Pattern::Zipf { theta: 1.2 }, 64, 0.0);
pub const READ_64K: JobSpec = job(Pattern::Uniform, 64, 1.0);
const READ_4K: JobSpec = job(Pattern::Uniform, 4, 1.0);

/// One row: what it is called, its jobs, and MB/s of each job that writes and of each that reads, on disks, on the
/// drive, and behind the tier.
pub struct Row {
    /// In words.
    pub what: &'static str,
    /// All writers are alike, and all readers.
    pub jobs: &'static [Jobs],
    /// The document's.
    pub writes: [f64; 3],
    /// The document's, where any job reads.
    pub reads: Option<[f64; 3]>,
}

/// The document's table, MB/s per job: 8 HDD, QLC alone (10 % left unused), CSAL.
pub const ROWS: [Row; 10] = [
    Row {
        what: "8 x 64 KiB sequential",
        jobs: &[(8, SEQ_64K)],
        writes: [250.0, 320.0, 400.0],
        reads: None,
    },
    Row {
        what: "8 x 64 KiB random",
        jobs: &[(8, RANDOM_64K)],
        writes: [20.0, 60.0, 107.0],
        reads: None,
    },
    Row {
        what: "8 x 64 KiB Zipf 0.8",
        jobs: &[(8, ZIPF_08)],
        writes: [20.0, 60.0, 129.0],
        reads: None,
    },
    Row {
        what: "8 x 64 KiB Zipf 1.2",
        jobs: &[(8, ZIPF_12)],
        writes: [20.0, 60.0, 487.0],
        reads: None,
    },
    Row {
        what: "8 x 4 KiB sequential",
        jobs: &[(8, SEQ_4K)],
        writes: [250.0, 5.0, 388.0],
        reads: None,
    },
    Row {
        what: "8 x 4 KiB random",
        jobs: &[(8, RANDOM_4K)],
        writes: [1.2, 3.0, 105.0],
        reads: None,
    },
    Row {
        what: "4 x 64 KiB random beside 4 x 64 KiB random reads",
        jobs: &[(4, RANDOM_64K), (4, READ_64K)],
        writes: [20.0, 170.0, 190.0],
        reads: Some([20.0, 100.0, 250.0]),
    },
    Row {
        what: "4 x 64 KiB Zipf 0.8 beside 4 x 64 KiB random reads",
        jobs: &[(4, ZIPF_08), (4, READ_64K)],
        writes: [20.0, 170.0, 264.0],
        reads: Some([20.0, 60.0, 250.0]),
    },
    Row {
        what: "4 x 4 KiB sequential beside 4 x 4 KiB random reads",
        jobs: &[(4, SEQ_4K), (4, READ_4K)],
        writes: [250.0, 4.0, 118.0],
        reads: Some([1.2, 5.0, 118.0]),
    },
    Row {
        what: "7 x 4 KiB random beside 64 KiB random reads",
        jobs: &[(7, RANDOM_4K), (1, READ_64K)],
        writes: [1.2, 4.0, 108.0],
        reads: Some([20.0, 45.0, 250.0]),
    },
];

/// What the rows run on, in the document's order.
const SIDES: [Side; 3] = [Side::Disk, Side::Drive, Side::Tier];

/// Disks choose among what waits by the angle of the platters as well, which the model leaves out.
const QUARTER_TURN: &str = "disks that wait for a quarter of a turn, not half,";

/// The document's columns: write rates and read rates.
const COLUMNS: [[&str; 2]; 3] = [
    ["disk, a writer", "disk, a reader"],
    ["QLC drive, a writer", "QLC drive, a reader"],
    ["CSAL, a writer", "CSAL, a reader"],
];

/// Every job of `jobs`.
pub fn flat(jobs: &[Jobs]) -> Vec<JobSpec> {
    jobs.iter().flat_map(|&(count, job)| vec![job; count]).collect()
}

/// Number of writing jobs and of reading jobs.
pub fn writers(jobs: &[Jobs]) -> (usize, usize) {
    let read = |&(count, job): &Jobs| if job.read_share > 0.0 { count } else { 0 };
    let readers = jobs.iter().map(read).sum();
    (jobs.iter().map(|(count, _)| count).sum::<usize>() - readers, readers)
}

/// MB/s of each writer and each reader of `row`, in the mean.
pub fn rates(
    bed: &Bed,
    row: &Row,
    side: Side,
    progress: &mut dyn FnMut(f64),
) -> Result<[f64; 2], Error> {
    if matches!(side, Side::Disk | Side::QuickDisk) {
        return disks(bed, row, side);
    }
    let share = bed.run(side, &flat(row.jobs), progress)?;
    let (writers, readers) = writers(row.jobs);
    let mean = |rates: &[f64], jobs: usize| rates.iter().sum::<f64>() / 1e6 / jobs.max(1) as f64;
    Ok([mean(&share.written_per_second, writers), mean(&share.read_per_second, readers)])
}

/// Each job has a disk of its own.
fn disks(bed: &Bed, row: &Row, side: Side) -> Result<[f64; 2], Error> {
    let mut rates = [0.0; 2];
    for (_, job) in row.jobs {
        let reads = job.read_share > 0.0;
        // A disk's reads are timed like its writes.
        let alone = [JobSpec { read_share: 0.0, ..*job }];
        let share = bed.without_vhost().run(side, &alone, &mut |_| {})?;
        rates[usize::from(reads)] = share.written_per_second[0] / 1e6;
    }
    Ok(rates)
}

/// All rows on all sides.
pub fn table(bed: &Bed, rows: &[Row], progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        for (at, side) in SIDES.into_iter().enumerate() {
            let step = index * SIDES.len() + at;
            let mut progress = part(progress, step, rows.len() * SIDES.len());
            let ours = rates(bed, row, side, &mut part(&mut progress, 0, 2))?;
            let progress = &mut part(&mut progress, 1, 2);
            let knob = match side {
                Side::Disk => Some((QUARTER_TURN, rates(bed, row, Side::QuickDisk, progress)?)),
                _ if row.reads.is_none() => None,
                _ => Some((NO_QUEUE, rates(&bed.without_vhost(), row, side, progress)?)),
            };
            let what = |kind: &str| format!("{}, {}: {kind} MB/s per job", row.what, side.name());
            let reference = Reference::new(CSAL, row.what, "MB/s per job");
            let [writer, reader] = COLUMNS[at].map(|column| reference.part(column));
            let mut take = |kind: &str, at: usize, theirs: f64, reference: Reference| {
                let knob = knob.map(|(knob, with)| (knob, with[at]));
                figures.extend(turned(&what(kind), theirs, reference, ours[at], knob.as_slice()));
            };
            take("writes", 0, row.writes[at], writer);
            if let Some(theirs) = row.reads {
                take("reads", 1, theirs[at], reader);
            }
        }
    }
    Ok(figures)
}
