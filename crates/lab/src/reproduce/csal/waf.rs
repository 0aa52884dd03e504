//! Write amplification and speed of writers of 4 KiB, alone and beside readers.

use super::bed::{Bed, Side};
use super::point::{CSAL, Reference};
use super::rows::{Jobs, RANDOM_4K, READ_64K, flat, writers};
use super::{Figure, NO_QUEUE, part, turned};
use crate::Error;
use crate::jobs::Share;

/// A load with what the document has for the drive alone and for the tier: WAF, MiB/s of each writer and reader.
struct Case {
    what: &'static str,
    /// What the document's chart may be of.
    jobs: &'static [Jobs],
    /// The other reading of the chart: one job of each kind.
    lone: &'static [Jobs],
    waf: [f64; 2],
    written: [f64; 2],
    read: Option<[f64; 2]>,
}

/// The document calls the first "single job", and does not say of how many. If its writer had been alone, readers would
/// have made it 1.8 and 2.3 times as fast; so one of eight, and one of four beside four readers, as in its table.
const CASES: [Case; 2] = [
    Case {
        what: "4 KiB random, each of 8",
        jobs: &[(8, RANDOM_4K)],
        lone: &[(1, RANDOM_4K)],
        waf: [43.3, 3.57],
        written: [5.02, 70.4],
        read: None,
    },
    Case {
        what: "4 KiB random, each of 4 beside 4 of 64 KiB random reads",
        jobs: &[(4, RANDOM_4K), (4, READ_64K)],
        lone: &[(1, RANDOM_4K), (1, READ_64K)],
        waf: [40.8, 3.54],
        written: [9.05, 163.0],
        read: Some([142.0, 250.0]),
    },
];

/// What the loads run on, with the column of the document, if it has one.
const SIDES: [(Side, Option<usize>); 3] =
    [(Side::Drive, Some(0)), (Side::Tier, Some(1)), (Side::Matched, None)];

/// The document's columns.
const COLUMNS: [&str; 2] = ["QLC drive", "CSAL"];

/// The two loads on the drive alone and behind the tier; `points` leaves out what the document has no figure for.
pub fn figures(
    bed: &Bed,
    points: bool,
    progress: &mut dyn FnMut(f64),
) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    let sides = || SIDES.into_iter().filter(|(_, theirs)| !points || theirs.is_some());
    let runs = CASES.iter().flat_map(|case| sides().map(move |on| (case, on)));
    let steps = CASES.len() * sides().count();
    for (step, (case, (side, theirs))) in runs.enumerate() {
        let mut progress = part(progress, step, steps);
        let mut run =
            |bed: &Bed, jobs, step| bed.run(side, &flat(jobs), &mut part(&mut progress, step, 3));
        let share = run(bed, case.jobs, 0)?;
        let lone = (!points).then(|| run(bed, case.lone, 1)).transpose()?;
        let apart = case.read.and(theirs).map(|_| run(&bed.without_vhost(), case.jobs, 2));
        let apart = apart.transpose()?;
        let name = |what: &str| format!("{}, {}: {what}", case.what, side.name());
        let mut take =
            |unit: &'static str, values: [f64; 2], of: &dyn Fn(&Share, &[Jobs]) -> f64| {
                let ours = of(&share, case.jobs);
                match theirs {
                    Some(at) => {
                        let reference = Reference::new(CSAL, case.what, unit).part(COLUMNS[at]);
                        let knob = apart.as_ref().map(|apart| (NO_QUEUE, of(apart, case.jobs)));
                        let (name, theirs, knobs) = (name(unit), values[at], knob.as_slice());
                        figures.extend(turned(&name, theirs, reference, ours, knobs));
                    }
                    None => figures.push(Figure::ours(name(unit), ours)),
                }
                figures.extend(lone.as_ref().map(|lone| {
                    let what = format!("{}; read as one job of each kind it is", name(unit));
                    Figure::beside(what, theirs.map(|at| values[at]), of(lone, case.lone))
                }));
            };
        take("WAF", case.waf, &|share, _| share.waf());
        take("MiB/s written", case.written, &|share, jobs| {
            mib(&share.written_per_second, writers(jobs).0)
        });
        if let Some(read) = case.read {
            take("MiB/s read", read, &|share, jobs| mib(&share.read_per_second, writers(jobs).1));
        }
        if side != Side::Drive {
            let causes = causes(&share).into_iter();
            figures.extend(causes.map(|(what, ours)| Figure::ours(name(what), ours)));
        }
    }
    Ok(figures)
}

/// All rates together, for each of `jobs`.
fn mib(rates: &[f64], jobs: usize) -> f64 {
    rates.iter().sum::<f64>() / 1_048_576.0 / jobs.max(1) as f64
}

/// What the tier's WAF is made of, for each byte of the host.
fn causes(share: &Share) -> Vec<(&'static str, f64)> {
    let host = share.counts.host_written.max(1) as f64;
    let log = share.counts.log.unwrap_or_default();
    let fast = share.counts.fast.map_or(0, |fast| fast.host_written);
    let device = share.counts.drive.host_written.max(1) as f64;
    vec![
        ("bytes to the fast device per host byte", fast as f64 / host),
        ("bytes destaged per host byte", log.destaged as f64 / host),
        ("bytes relocated by the log per host byte", log.relocated as f64 / host),
        (
            "media bytes per byte that the drive was given",
            share.counts.drive.media_total as f64 / device,
        ),
    ]
}
