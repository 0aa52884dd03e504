//! The fast tier's document: CSAL in front of a QLC drive with a large indirection unit.

mod bed;
mod knob;
mod rows;
mod waf;

use super::{Figure, Options, part};
use crate::Error;
use bed::Bed;

pub fn csal(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let bed = Bed::new(options);
    let mut figures = waf::figures(&bed, &mut part(progress, 0, 3))?;
    figures.extend(rows::table(&bed, &mut part(progress, 1, 3))?);
    figures.extend(knob::knobs(&bed, &mut part(progress, 2, 3))?);
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::rows::{ROWS, rates};
    use super::*;
    use thermocline_types::Bytes;
    use thermocline_workload::synthetic::Pattern;

    #[test]
    fn the_tier_writes_several_times_less_than_the_drive_alone_and_is_faster() {
        let bed = Bed::of(Bytes::mib(512), 1);
        let jobs = [rows::job(Pattern::Uniform, 4, 0.0)];
        let [drive, tier] =
            ["drive", "tier"].map(|side| bed.run(side, &jobs, &mut |_| {}).unwrap());
        assert!((35.0..50.0).contains(&drive.waf()), "{}", drive.waf());
        assert!(drive.waf() > 5.0 * tier.waf(), "{} and {}", drive.waf(), tier.waf());
        assert!(tier.written_per_second[0] > drive.written_per_second[0]);
    }

    #[test]
    fn a_disk_is_fast_in_order_and_slow_at_random() {
        let bed = Bed::of(Bytes::gib(1), 1);
        let rate = |row: usize| rates(&bed, &ROWS[row], "disk", &mut |_| {}).unwrap();
        assert!((250.0..271.0).contains(&rate(0)[0]));
        assert!((0.4..1.3).contains(&rate(5)[0]), "{}", rate(5)[0]);
        let mixed = rate(9);
        assert!(mixed[1] > 5.0 * mixed[0], "64 KiB against 4: {mixed:?}");
    }
}
