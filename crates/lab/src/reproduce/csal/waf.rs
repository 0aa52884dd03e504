//! Write amplification and speed of one job, and of one beside reads.

use thermocline_workload::synthetic::Pattern;

use super::bed::{Bed, UNUSED, UNUSED_BY_CSAL};
use super::rows::job;
use super::{Figure, part};
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

/// What the loads run on: unused share, side, and which of the document's figures stands beside it, if any.
const BEDS: [(f64, &str, Option<usize>); 5] = [
    (UNUSED, "drive", Some(0)),
    (UNUSED, "tier", None),
    (UNUSED_BY_CSAL, "drive", None),
    (UNUSED_BY_CSAL, "tier", Some(1)),
    (UNUSED_BY_CSAL, "tier, units of the drive's size", None),
];

/// The two loads on the drive alone and behind the tier.
pub fn figures(bed: &Bed, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    let runs = CASES.iter().flat_map(|case| BEDS.iter().map(move |on| (case, on)));
    for (step, (case, &(unused, side, theirs))) in runs.enumerate() {
        let mut jobs = vec![job(Pattern::Uniform, 4, 0.0)];
        if case.reads {
            jobs.push(job(Pattern::Uniform, 64, 1.0));
        }
        let mut progress = part(progress, step, BEDS.len() * CASES.len());
        let share = bed.shared(unused).run(side, &jobs, &mut progress)?;
        let mut take = |what: &str, theirs: Option<f64>, ours: f64| {
            let what = format!("{}, {side}, {:.0} % unused: {what}", case.what, unused * 100.0);
            figures.push(Figure::beside(what, theirs, ours));
        };
        take("WAF", theirs.map(|at| case.waf[at]), share.waf());
        let all = |rates: &[f64]| rates.iter().sum::<f64>() / 1_048_576.0;
        take("MiB/s written", theirs.map(|at| case.written[at]), all(&share.written_per_second));
        if let Some(read) = case.read {
            take("MiB/s read", theirs.map(|at| read[at]), all(&share.read_per_second));
        }
        if side != "drive" {
            causes(&share).into_iter().for_each(|(what, ours)| take(what, None, ours));
        }
    }
    Ok(figures)
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
