//! The fast tier's document: CSAL in front of a QLC drive with a large indirection unit.

mod bed;
mod big_data;
mod rows;
mod tenants;
mod waf;

use super::point::{self, Reference, Standing};
use super::{Figure, Options, part};
use crate::Error;
use bed::Bed;

pub fn csal(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let bed = Bed::new(options);
    let points = options.points || options.quick;
    let steps = if points { 2 } else { 4 };
    let mut figures = waf::figures(&bed, points, &mut part(progress, 0, steps))?;
    let rows = if options.quick { &rows::ROWS[..2] } else { &rows::ROWS[..] };
    figures.extend(rows::table(&bed, rows, &mut part(progress, 1, steps))?);
    if !points {
        figures.extend(big_data::figures(&bed, &mut part(progress, 2, steps))?);
        figures.extend(tenants::figures(&bed, &mut part(progress, 3, steps))?);
    }
    Ok(figures)
}

/// Knob for an unpublished term: the path of the requests.
const NO_QUEUE: &str = "no queue in common and no cap";

/// The point of `theirs`, and figures beside it, each with one knob turned. The nearest figure is the possible
/// explanation if the figure at least halves the difference. A difference below 5 % needs no explanation.
fn turned(
    what: &str,
    theirs: f64,
    reference: Reference,
    ours: f64,
    knobs: &[(&'static str, f64)],
) -> Vec<Figure> {
    let off = |ours: f64| (ours / theirs - 1.0).abs();
    let best = knobs.iter().min_by(|a, b| off(a.1).total_cmp(&off(b.1)));
    let explains = |with: f64| off(ours) > 0.05 && off(with) <= off(ours) / 2.0;
    let standing = match best.filter(|(_, with)| explains(*with)) {
        Some(&(what, ours)) => Standing::Knob { what, ours },
        None => Standing::Unexplained,
    };
    let point = Figure::new(what, theirs, ours, reference.standing(standing));
    let beside = knobs.iter().map(|(knob, with)| {
        Figure::beside(format!("{what}; with {knob} it is"), Some(theirs), *with)
    });
    std::iter::once(point).chain(beside).collect()
}

#[cfg(test)]
mod tests {
    use super::bed::Side;
    use super::rows::{RANDOM_4K, ROWS, rates};
    use super::*;
    use thermocline_types::Bytes;

    #[test]
    fn the_tier_writes_several_times_less_than_the_drive_alone_and_is_faster() {
        let bed = Bed::of(Bytes::mib(512), 1);
        let jobs = [RANDOM_4K];
        let [drive, tier] =
            [Side::Drive, Side::Tier].map(|side| bed.run(side, &jobs, &mut |_| {}).unwrap());
        assert!((35.0..50.0).contains(&drive.waf()), "{}", drive.waf());
        assert!(drive.waf() > 5.0 * tier.waf(), "{} and {}", drive.waf(), tier.waf());
        assert!(tier.written_per_second[0] > drive.written_per_second[0]);
    }

    #[test]
    fn a_knob_stands_only_if_it_halves_the_difference() {
        let reference = Reference::new(point::CSAL, "writes", "MB/s");
        let standing = |with: f64| {
            let knobs = [(NO_QUEUE, with), ("none", 40.0)];
            let all = turned("a", 10.0, reference, 20.0, &knobs);
            assert!((all[1].ours - with).abs() < 1e-9 && all[1].reference.is_none());
            all[0].reference.map(|reference| reference.standing)
        };
        let knob = |ours| Some(Standing::Knob { what: NO_QUEUE, ours });
        assert_eq!(standing(14.0), knob(14.0));
        assert_eq!(standing(6.0), knob(6.0));
        assert_eq!(standing(16.0), Some(Standing::Unexplained));
        assert_eq!(standing(1.0), Some(Standing::Unexplained));
    }

    #[test]
    fn a_disk_is_fast_in_order_and_slow_at_random() {
        let bed = Bed::of(Bytes::gib(1), 1);
        let rate = |row: usize| rates(&bed, &ROWS[row], Side::Disk, &mut |_| {}).unwrap();
        assert!((250.0..271.0).contains(&rate(0)[0]));
        assert!((0.4..1.3).contains(&rate(5)[0]), "{}", rate(5)[0]);
        let mixed = rate(9);
        assert!(mixed[1] > 5.0 * mixed[0], "64 KiB against 4: {mixed:?}");
    }
}
