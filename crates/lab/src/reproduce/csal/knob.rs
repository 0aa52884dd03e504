//! The drive alone: which of its unknowns would have to be what, for the document's speeds.

use thermocline_workload::synthetic::Pattern;

use super::bed::Bed;
use super::rows::{ROWS, job};
use super::{Figure, part};
use crate::Error;
use crate::jobs::JobSpec;

/// What is tried, in words and as settings of the drive.
const KNOBS: [(&str, &str); 8] = [
    ("as in its profile", ""),
    ("parts of a unit acknowledged before the rest is read", "buffer.whole_units=false"),
    ("reads wait for programs to end", "timing.suspend_us=1000000"),
    ("one read-modify-write at a time", "timing.modify_at_once=1"),
    ("media of 1,800 MB/s", "timing.program_mb_per_s=1800"),
    ("media of 1,200 MB/s", "timing.program_mb_per_s=1200"),
    ("media of 900 MB/s", "timing.program_mb_per_s=900"),
    (
        "media of 1,200 MB/s, one read-modify-write at a time",
        "timing.program_mb_per_s=1200,timing.modify_at_once=1",
    ),
];

/// Rows of the table that the drive is held against, and what the document has for one job of 4 KiB random writes.
const HELD: [usize; 4] = [0, 1, 4, 5];
const ONE_JOB: f64 = 5.02 * 1.048_576;

/// Speeds of the drive alone by knob; how far the worst is off at the end of each.
pub fn knobs(bed: &Bed, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    let steps = KNOBS.len() * (HELD.len() + 1);
    for (index, (name, settings)) in KNOBS.iter().enumerate() {
        let comma = if settings.is_empty() { "" } else { "," };
        let stack = format!("raw:p5316{comma}{settings}");
        let mut worst: f64 = 1.0;
        let mut step = index * (HELD.len() + 1);
        let mut take = |what: &str, jobs: &[JobSpec], theirs: f64, count: f64| {
            let share = bed.run(&stack, jobs, &mut part(progress, step, steps))?;
            step += 1;
            let ours = share.written_per_second.iter().sum::<f64>() / 1e6 / count;
            worst = worst.max(ours / theirs).max(theirs / ours);
            let what = format!("drive, {name}: {what}, MB/s per job");
            figures.push(Figure::beside(what, Some(theirs), ours));
            Ok::<(), Error>(())
        };
        for row in HELD.map(|row| &ROWS[row]) {
            let (count, job) = row.jobs[0];
            take(row.what, &vec![job; count], row.writes[1], count as f64)?;
        }
        take("1 x 4 KiB random", &[job(Pattern::Uniform, 4, 0.0)], ONE_JOB, 1.0)?;
        let what = format!("drive, {name}: off by a factor of, at worst");
        figures.push(Figure::beside(what, None, worst));
    }
    Ok(figures)
}
