//! What went through a device over time.

use thermocline_types::{Bytes, Time};

/// Largest number of steps; beyond this number, pairs of steps are merged.
const STEPS: usize = 1024;
/// Length of a step at first. Chosen: the least of any drive's burst that a chart is to show.
const FIRST_STEP: Time = Time::micros(1000);

/// Bytes read and written in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Bytes of reads completed in the step.
    pub read: u64,
    /// Bytes of writes completed in the step.
    pub written: u64,
}

/// Bytes through a device in steps of equal time, each command counted where it ended.
///
/// Invariant: there are at most [`STEPS`] steps, and they hold all bytes counted since [`DeviceRates::new`].
#[derive(Clone, Debug)]
pub struct DeviceRates {
    start: Time,
    step: Time,
    steps: Vec<Step>,
}

impl DeviceRates {
    /// Empty counters for commands after `start`.
    #[must_use]
    pub fn new(start: Time) -> DeviceRates {
        DeviceRates { start, step: FIRST_STEP, steps: Vec::new() }
    }

    /// A read of so many bytes ended at `end`.
    #[inline]
    pub fn read(&mut self, end: Time, bytes: Bytes) {
        self.at(end).read += bytes.0;
    }

    /// A write of so many bytes ended at `end`.
    #[inline]
    pub fn written(&mut self, end: Time, bytes: Bytes) {
        self.at(end).written += bytes.0;
    }

    /// Length of a step.
    #[must_use]
    pub fn step(&self) -> Time {
        self.step
    }

    /// The steps up to the last in which a command ended.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The step that `end` is in. What ended before the start counts for the first.
    fn at(&mut self, end: Time) -> &mut Step {
        let since = end.0.saturating_sub(self.start.0);
        while since / self.step.0 >= STEPS as u64 {
            self.halve();
        }
        let index = (since / self.step.0) as usize;
        if index >= self.steps.len() {
            self.steps.resize(index + 1, Step::default());
        }
        &mut self.steps[index]
    }

    fn halve(&mut self) {
        self.step = Time(self.step.0 * 2);
        let sum = |pair: &[Step]| Step {
            read: pair.iter().map(|step| step.read).sum(),
            written: pair.iter().map(|step| step.written).sum(),
        };
        self.steps = self.steps.chunks(2).map(sum).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_become_longer_and_keep_all_bytes() {
        let start = Time::seconds(3);
        let mut rates = DeviceRates::new(start);
        for ms in 0..5000 {
            rates.written(start + Time::micros(1000 * ms), Bytes(2));
            rates.read(start + Time::micros(1000 * ms), Bytes(1));
        }
        assert_eq!(rates.step(), Time::micros(8_000));
        assert_eq!(rates.steps().len(), 5000 / 8);
        assert_eq!(rates.steps()[0], Step { read: 8, written: 16 });
        assert_eq!(rates.steps().iter().map(|step| step.written).sum::<u64>(), 10_000);
        // Ends come in any order.
        rates.read(start, Bytes(7));
        assert_eq!(rates.steps()[0].read, 15);
    }
}
