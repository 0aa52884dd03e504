//! Why mixes fall below both pure reads and pure writes.

use thermocline_record::plot::{Plot, PlotAxis, PlotLine};
use thermocline_types::Bytes;
use thermocline_workload::synthetic::Limit;

use super::super::{Figure, FiguresDrawn, Options, part};
use super::{PatternJob, mb_per_s, mix};
use crate::Error;
use crate::theory::bandwidth::READ_SHARES;

/// What is varied: a name, and settings of the device.
const CASES: [(&str, &[&str]); 4] = [
    ("one register, bus in order", &[]),
    ("one register, ready pages first", &["device.timing.bus_in_order=false"]),
    ("two registers", &["device.geometry.cache_register=true"]),
    ("one register, bus in order, 128 KiB", &[]),
];

/// Transfers, MiB of each case in all, and the size of the last case: Linux of 2009 split requests at it.
const TRANSFER: Bytes = Bytes::mib(1);
const SPLIT: Bytes = Bytes::kib(128);

/// Bandwidth over the mixes, as the buses and dies of PCI-C serve them.
pub fn collisions(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<FiguresDrawn, Error> {
    let (mut figures, mut lines) = (Vec::new(), Vec::new());
    let steps = CASES.len() * READ_SHARES.len();
    for (index, (name, settings)) in CASES.into_iter().enumerate() {
        let mut points = Vec::new();
        for (step, read) in READ_SHARES.into_iter().enumerate() {
            let step = index * READ_SHARES.len() + step;
            let size = if index + 1 == CASES.len() { SPLIT } else { TRANSFER };
            let ours = at((settings, size), read, options.seed, &mut part(progress, step, steps))?;
            points.push([read * 100.0, ours]);
            let what = format!("{name}, reads/writes {}: MB/s", mix(read));
            figures.push(Figure::beside(what, None, ours));
        }
        lines.push(PlotLine::ours(name, points));
    }
    let plot = Plot {
        title: "PCI-C: bandwidth by mix".into(),
        caption: "With one page register and a bus in order, a die keeps what the host reads until its turn, behind pages \
                  that wait to be programmed: mixes fall below both reads and writes, as in the tutorial."
            .into(),
        x: PlotAxis::linear("bytes read, %"),
        y: PlotAxis::linear("MB/s"),
        lines,
    };
    Ok((figures, vec![plot]))
}

fn at(
    (settings, io_size): (&[&str], Bytes),
    read: f64,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<f64, Error> {
    let overrides: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
    let requests = 2048 * TRANSFER.0 / io_size.0;
    let job = PatternJob {
        overrides: &overrides,
        pattern: "seq",
        read_share: read,
        seed,
        ..PatternJob::new("raw:pci-c", Bytes::gib(1), io_size, Limit::Requests(requests))
    };
    Ok(mb_per_s(&job.run(progress)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_fall_below_both_where_the_bus_is_in_order_and_nowhere_else() {
        let of = |case: usize, read| at((CASES[case].1, TRANSFER), read, 1, &mut |_| {}).unwrap();
        for (case, falls) in [(0, true), (1, false), (2, false)] {
            let lower = of(case, 1.0).min(of(case, 0.0));
            let mixed = of(case, 0.5);
            assert_eq!(mixed < 0.95 * lower, falls, "{}: {mixed}, {lower}", CASES[case].0);
        }
    }
}
