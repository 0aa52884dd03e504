//! Garbage collection of a zoned drive by levels (LSM_ZGC) against copying block by block.

mod collection;
mod knob;
mod population;

use super::point::{CHOI, Reference};
use super::{Figure, Options, part};
use crate::Error;

/// Utilisations of their figures.
const UTILISATIONS: [f64; 5] = [0.5, 0.6, 0.7, 0.8, 0.9];

/// The paper's experiments on its zones, collection by collection, by the commands that one has in flight.
pub fn collections(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let seed = options.seed;
    let mut figures = match options.points {
        true => Vec::new(),
        false => knob::histograms(seed, &mut part(progress, 0, 5)),
    };
    figures.extend(knob::knob(seed, &mut |share| progress(0.2 + 0.8 * share))?);
    Ok(figures)
}

/// How many times as long as LSM_ZGC the basic scheme takes to collect a zone: mean and most over utilisations.
const LONGER: [Reference; 2] = [
    Reference::new(CHOI, "collection, basic / LSM_ZGC, mean", "times"),
    Reference::new(CHOI, "collection, basic / LSM_ZGC, most", "times"),
];
/// How much longer reads of 4 KiB take than reads of 128 KiB.
const SMALL_READS: Reference = Reference::new(CHOI, "reads of 4 KiB / of 128 KiB", "times");

fn ours(what: String, ours: f64) -> Figure {
    Figure::ours(what, ours)
}
