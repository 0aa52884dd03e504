//! Garbage collection of a zoned drive by levels (LSM_ZGC) against copying block by block.

mod collection;
mod engine;
mod knob;
mod population;

use super::{Figure, Options, part};
use crate::Error;

/// Utilisations of their figures.
const UTILISATIONS: [f64; 5] = [0.5, 0.6, 0.7, 0.8, 0.9];

/// The paper's experiments on its zones, collection by collection, by the commands that one has in flight.
pub fn collections(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let seed = options.seed;
    let mut figures = knob::histograms(seed, &mut part(progress, 0, 5));
    figures.extend(knob::knob(seed, &mut |share| progress(0.2 + 0.8 * share))?);
    Ok(figures)
}

/// The same schemes in the log engine.
pub fn engine(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    engine::lsm_zgc(options.seed, progress)
}

fn ours(what: String, ours: f64) -> Figure {
    Figure { what, theirs: None, ours }
}
