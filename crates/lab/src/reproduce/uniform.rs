//! Uniform random writes against closed forms and another simulator.

use std::num::NonZeroU32;

use thermocline_ftl::placement::Nothing;
use thermocline_ftl::victim::Victim;
use thermocline_ftl::{Ftl, NoMedia, Shape};
use thermocline_types::{Cause, Lba, Rng};

use super::point::{DESNOYERS, FTLSIM, Reference, Standing};
use super::{Figure, Options};
use crate::Error;
use crate::theory::{Overprovisioning, uniform};

/// Units of the simulated devices, enough that the open and reserve units do not count.
const UNITS: u32 = 16_384;
/// Drive fills written before and while measuring.
const FILLS: u64 = 3;

pub fn greedy(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let cases: Vec<(f64, u32)> = [0.07, 0.15, 0.20, 0.28]
        .into_iter()
        .flat_map(|op| [64, 128, 256, 512, 1024].map(|blocks| (op, blocks)))
        .filter(|&(_, blocks)| !options.quick || blocks <= 256)
        .collect();
    let weight: f64 = cases.iter().map(|&(_, blocks)| f64::from(blocks)).sum();
    let mut done = 0.0;
    let mut figures = Vec::new();
    for (op, blocks) in cases {
        let spare = Overprovisioning::from_ratio(op).expect("above 0");
        let waf = |spare| uniform::greedy_waf(spare, NonZeroU32::new(blocks).expect("above 0"));
        let ours = simulate(UNITS, op, blocks, Victim::Greedy, options.seed)?;
        let reference =
            reference("greedy cleaning of uniform writes: WAF", waf(usable(UNITS, op, blocks)));
        let what = format!("OP {:.0} %, {blocks} blocks per unit", op * 100.0);
        figures.push(Figure::new(what, waf(spare), ours, reference));
        done += f64::from(blocks);
        progress(done / weight);
    }
    Ok(figures)
}

pub fn fifo(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    for (op, blocks) in
        [(0.07, 64), (0.15, 64), (0.20, 64), (0.28, 64), (0.07, 256), (0.15, 256), (0.28, 256)]
    {
        let spare = Overprovisioning::from_ratio(op).expect("above 0");
        let reference = reference(
            "cleaning of uniform writes in order of writing: WAF",
            uniform::fifo_waf(usable(UNITS, op, blocks)),
        );
        let what = format!("OP {:.0} %, {blocks} blocks per unit", op * 100.0);
        let ours = simulate(UNITS, op, blocks, Victim::Fifo, options.seed)?;
        figures.push(Figure::new(what, uniform::fifo_waf(spare), ours, reference));
        progress(figures.len() as f64 / 7.0);
    }
    Ok(figures)
}

pub fn ftlsim(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let golden = [
        (3200, 0.219, 128, 2.443),
        (32_000, 0.219, 256, 2.458),
        (32_000, 0.07, 256, 7.13),
        (2000, 0.12, 128, 4.248),
        (2000, 0.219, 16, 2.208),
    ];
    let mut figures = Vec::new();
    for (units, spare, blocks, theirs) in golden {
        let op = spare / (1.0 - spare);
        let what = format!("{units} units of {blocks} blocks, spare {:.1} %", spare * 100.0);
        let ours = simulate(units, op, blocks, Victim::Greedy, options.seed)?;
        let reference = Reference::new(FTLSIM, "greedy cleaning of uniform writes: WAF", "ratio");
        figures.push(Figure::new(what, theirs, ours, reference));
        progress(figures.len() as f64 / golden.len() as f64);
    }
    Ok(figures)
}

/// Usable spare of a small device. On average one free unit waits and the open unit is half written, so both are
/// subtracted. The closed forms assume infinitely many units, where the subtraction vanishes.
fn usable(units: u32, op: f64, blocks: u32) -> Overprovisioning {
    let exported = (f64::from(units) * f64::from(blocks) / (1.0 + op)).floor();
    let usable = (f64::from(units) - 1.5 - 0.5) * f64::from(blocks);
    Overprovisioning::from_ratio(usable / exported - 1.0).expect("thousands of units leave some")
}

/// A closed form that gives `theirs` with the [`usable`] spare.
fn reference(quantity: &'static str, theirs: f64) -> Reference {
    let what = "open unit and reserve taken out of the spare";
    Reference::new(DESNOYERS, quantity, "ratio").standing(Standing::Cause { what, theirs })
}

/// WAF of uniform random overwrites after [`FILLS`] drive fills of them.
fn simulate(units: u32, op: f64, blocks: u32, victim: Victim, seed: u64) -> Result<f64, Error> {
    let exported = (f64::from(units) * f64::from(blocks) / (1.0 + op)) as u64;
    let refuse = |error: thermocline_ftl::ShapeError| Error::Settings(error.to_string());
    let shape = Shape::new(exported, units, blocks).map_err(refuse)?;
    let mut ftl = Ftl::new(shape, Nothing, victim, seed).map_err(refuse)?;
    let mut rng = Rng::new(seed);
    for lba in 0..exported {
        ftl.write(Lba(lba), 0, &mut NoMedia).expect("nothing wears out");
    }
    let mut overwrite = |writes: u64| {
        let mut batch = [Lba(0); 256];
        let mut left = writes;
        while left > 0 {
            let count = left.min(256) as usize;
            for lba in &mut batch[..count] {
                *lba = Lba(rng.below(exported));
                ftl.prefetch(*lba);
            }
            for &lba in &batch[..count] {
                ftl.write(lba, 0, &mut NoMedia).expect("nothing wears out");
            }
            left -= count as u64;
        }
        ftl.programmed(Cause::Relocation)
    };
    let before = overwrite(FILLS * exported);
    let copied = overwrite(FILLS * exported) - before;
    Ok(1.0 + copied as f64 / (FILLS * exported) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulated against closed forms at every overprovisioning and unit size of the full experiment, on smaller
    /// devices: the open and reserve units, which the closed forms do not know, are taken out of the spare.
    #[test]
    fn simulation_matches_closed_forms() {
        let check = |victim, op: f64, blocks: u32, units: u32, bound: f64| {
            let ours = simulate(units, op, blocks, victim, 1).unwrap();
            let spare = usable(units, op, blocks);
            let theory = match victim {
                Victim::Fifo => uniform::fifo_waf(spare),
                _ => uniform::greedy_waf(spare, NonZeroU32::new(blocks).unwrap()),
            };
            let error = ours / theory - 1.0;
            assert!(
                error.abs() < bound,
                "{victim} OP {op} b {blocks}: {ours:.4}, theory {theory:.4}"
            );
        };
        for op in [0.07, 0.15, 0.20, 0.28] {
            for (blocks, units) in [(64, 4096), (256, 2048), (1024, 1024)] {
                check(Victim::Greedy, op, blocks, units, 0.01);
            }
            check(Victim::Fifo, op, 64, 4096, 0.02);
        }
    }
}
