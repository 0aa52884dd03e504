//! What is expected to be lost: chances that are summed, since what is lost is too rare to be drawn.

use std::collections::BTreeMap;

use crate::integrity::Integrity;

/// Steps of an octave of the bit error rate at which chances are computed. Chosen: between them, what is lost is a
/// straight line on two logarithmic axes to within 1 %.
const STEPS: f64 = 64.0;

/// What is expected of reads, as a mean over all drives that do the same.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss {
    /// Bits read.
    pub bits: f64,
    /// Codewords that no attempt of the drive's own corrects.
    pub uncorrectable: f64,
    /// Of these, codewords that parity does not bring back.
    pub lost: f64,
}

impl Loss {
    /// Lost codewords for each bit read (UBER, JESD218); `None` before the first read.
    #[must_use]
    pub fn uber(&self) -> Option<f64> {
        (self.bits > 0.0).then(|| self.lost / self.bits)
    }

    /// The same counted from `start`.
    #[must_use]
    pub fn since(&self, start: &Loss) -> Loss {
        Loss {
            bits: self.bits - start.bits,
            uncorrectable: self.uncorrectable - start.uncorrectable,
            lost: self.lost - start.lost,
        }
    }

    /// Those of both.
    #[must_use]
    pub fn plus(&self, other: &Loss) -> Loss {
        Loss {
            bits: self.bits + other.bits,
            uncorrectable: self.uncorrectable + other.uncorrectable,
            lost: self.lost + other.lost,
        }
    }
}

/// How old the valid data of a drive is, and what reading all of it once is expected to lose.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AgesAndLoss {
    /// Mean age over all valid bytes, days; units are as old as their first block.
    pub mean_days: f64,
    /// Age of the oldest unit with valid data, days.
    pub oldest_days: f64,
    /// What reading all of it once is expected to lose.
    pub loss: Loss,
}

/// The step of a bit error rate, with what is between steps.
pub(super) fn step(rate: f64) -> f64 {
    STEPS * rate.max(f64::MIN_POSITIVE).log2()
}

/// The bit error rate at a step.
pub(super) fn rate_of(step: f64) -> f64 {
    (step / STEPS).exp2()
}

/// Chances of a codeword by its mean bit error rate.
#[derive(Clone, Debug)]
pub(super) struct Losses {
    integrity: Integrity,
    /// By step, logarithms of the chances that it is uncorrectable and lost.
    known: BTreeMap<i32, [f64; 2]>,
}

impl Losses {
    pub(super) fn new(integrity: Integrity) -> Losses {
        Losses { integrity, known: BTreeMap::new() }
    }

    /// What is expected of reading `bytes` at the mean bit error rate `rate`.
    pub(super) fn of(&mut self, rate: f64, bytes: u64) -> Loss {
        let step = step(rate);
        let (below, part) = (step.floor() as i32, step - step.floor());
        let [low, high] = [below, below + 1].map(|step| self.at(step));
        let chance = |index: usize| {
            if low[index].is_finite() && high[index].is_finite() {
                (low[index] * (1.0 - part) + high[index] * part).exp()
            } else {
                0.0
            }
        };
        let codewords = bytes as f64 / self.integrity.ecc.codeword.as_f64();
        Loss {
            bits: 8.0 * bytes as f64,
            uncorrectable: codewords * chance(0),
            lost: codewords * chance(1),
        }
    }

    fn at(&mut self, step: i32) -> [f64; 2] {
        let integrity = &self.integrity;
        *self.known.entry(step).or_insert_with(|| {
            let outcome = integrity.outcome_at(rate_of(f64::from(step)));
            [outcome.uncorrectable.ln(), outcome.lost.ln()]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use crate::profile::builtin;

    #[test]
    fn between_steps_chances_are_those_of_the_closed_form() {
        for name in ["p5316", "pm9d3"] {
            let profile = Profile::from_toml(name, builtin(name).unwrap()).unwrap();
            let integrity = profile.integrity.unwrap();
            let mut losses = Losses::new(integrity.clone());
            for rate in [0.8e-3, 1.37e-3, 2.9e-3, 4.44e-3, 8.1e-3] {
                let exact = integrity.outcome_at(rate);
                let loss = losses.of(rate, integrity.ecc.codeword.0);
                for (found, exact) in
                    [(loss.uncorrectable, exact.uncorrectable), (loss.lost, exact.lost)]
                {
                    assert!((found / exact - 1.0).abs() < 0.01, "{name} {rate}: {found} {exact}");
                }
            }
            assert!((losses.of(2e-3, 1 << 20).bits - 8.0 * 1024.0 * 1024.0).abs() < 0.5);
        }
        assert_eq!(Loss::default().uber(), None);
    }
}
