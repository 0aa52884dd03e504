//! Write amplification and speed of one job, and of one beside reads.

use thermocline_workload::synthetic::Pattern;

use super::bed::{Bed, UNUSED, UNUSED_BY_CSAL};
use super::point::{CSAL, Reference};
use super::rows::job;
use super::{Figure, ONE_IN_FLIGHT, part, turned};
use crate::Error;
use crate::jobs::Share;

/// A load with what the document has for the drive alone and for the tier: WAF, MiB/s written, MiB/s read.
struct Case {
    what: &'static str,
    reads: bool,
    waf: [f64; 2],
    written: [f64; 2],
    read: Option<[f64; 2]>,
}

const CASES: [Case; 2] = [
    Case {
        what: "1 x 4 KiB random",
        reads: false,
        waf: [43.3, 3.57],
        written: [5.02, 70.4],
        read: None,
    },
    Case {
        what: "4 KiB random beside 64 KiB random reads",
        reads: true,
        waf: [40.8, 3.54],
        written: [9.05, 163.0],
        read: Some([142.0, 250.0]),
    },
];

/// Beds of the loads: unused share, side, and index of the published figure, if any.
const BEDS: [(f64, &str, Option<usize>); 5] = [
    (UNUSED, "drive", Some(0)),
    (UNUSED, "tier", None),
    (UNUSED_BY_CSAL, "drive", None),
    (UNUSED_BY_CSAL, "tier", Some(1)),
    (UNUSED_BY_CSAL, "tier, units of the drive's size", None),
];

/// The document's columns.
const COLUMNS: [&str; 2] = ["QLC drive", "CSAL"];

/// The two loads on the drive alone and behind the tier; `points` leaves out what the document has no figure for.
pub fn figures(
    bed: &Bed,
    points: bool,
    progress: &mut dyn FnMut(f64),
) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    let beds = || BEDS.iter().filter(|(.., theirs)| !points || theirs.is_some());
    let runs = CASES.iter().flat_map(|case| beds().map(move |on| (case, on)));
    let steps = CASES.len() * beds().count();
    for (step, (case, &(unused, side, theirs))) in runs.enumerate() {
        let mut jobs = vec![job(Pattern::Uniform, 4, 0.0)];
        if case.reads {
            jobs.push(job(Pattern::Uniform, 64, 1.0));
        }
        let bed = bed.shared(unused);
        let mut progress = part(progress, step, steps);
        let share = bed.run(side, &jobs, &mut part(&mut progress, 0, 2))?;
        let other = match theirs {
            Some(_) => Some(bed.depth(1).run(side, &jobs, &mut part(&mut progress, 1, 2))?),
            None => None,
        };
        let name =
            |what: &str| format!("{}, {side}, {:.0} % unused: {what}", case.what, unused * 100.0);
        let mut take = |unit: &'static str, values: [f64; 2], of: fn(&Share) -> f64| {
            let reference = |at: usize| Reference::new(CSAL, case.what, unit).part(COLUMNS[at]);
            match theirs.zip(other.as_ref()) {
                Some((at, other)) => {
                    let knobs = [(ONE_IN_FLIGHT, of(other))];
                    let name = name(unit);
                    figures.extend(turned(&name, values[at], reference(at), of(&share), &knobs));
                }
                None => figures.push(Figure::ours(name(unit), of(&share))),
            }
        };
        take("WAF", case.waf, Share::waf);
        take("MiB/s written", case.written, |share| mib(&share.written_per_second));
        if let Some(read) = case.read {
            take("MiB/s read", read, |share| mib(&share.read_per_second));
        }
        if side != "drive" {
            let causes = causes(&share).into_iter();
            figures.extend(causes.map(|(what, ours)| Figure::ours(name(what), ours)));
        }
    }
    Ok(figures)
}

/// All rates together.
fn mib(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / 1_048_576.0
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
