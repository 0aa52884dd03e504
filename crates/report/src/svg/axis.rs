//! Axes: ranges, ticks, and where a value lies between the ends.

use crate::text::tick;

/// An axis of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// Quantity and unit. Not escaped.
    pub name: String,
    /// Whether equal steps are equal factors.
    pub logarithmic: bool,
    /// The two ends.
    pub range: (f64, f64),
    /// The text of a value.
    pub show: fn(f64) -> String,
    /// Texts of the values 0, 1 and so on, in place of those of `show`; empty for an axis of numbers.
    pub labels: Vec<String>,
}

impl Axis {
    /// An axis from 0, or from a negative value, to the largest of `values`, ending at a tick.
    pub fn linear(name: &str, values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = ends(values);
        let (low, high) = if high > low.min(0.0) { (low.min(0.0), high) } else { (0.0, 1.0) };
        let step = step(high - low);
        let range = ((low / step).floor() * step, (high / step - 1e-9).ceil() * step);
        Axis { name: name.to_owned(), logarithmic: false, range, show: tick, labels: Vec::new() }
    }

    /// An axis of values at equal distances.
    pub fn listed(name: &str, labels: Vec<String>) -> Axis {
        let end = (labels.len().max(2) - 1) as f64;
        let axis = Axis::linear(name, std::iter::empty()).within((-0.3, end + 0.3));
        Axis { labels, ..axis }
    }

    /// An axis of whole decades around the positive ones of `values`.
    pub fn logarithmic(name: &str, values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = ends(values.filter(|value| *value > 0.0));
        let (low, high) = if low <= high { (low, high) } else { (1.0, 10.0) };
        let decade = |exponent: f64| 10f64.powi(exponent as i32);
        let (low, high) =
            (decade((low.log10() + 1e-9).floor()), decade((high.log10() - 1e-9).ceil()));
        let range = (low, if high > low { high } else { low * 10.0 });
        Axis { name: name.to_owned(), logarithmic: true, range, show: tick, labels: Vec::new() }
    }

    /// The axis with another text of values.
    pub fn shown(self, show: fn(f64) -> String) -> Axis {
        Axis { show, ..self }
    }

    /// The axis that ends at `range` exactly.
    pub fn within(self, range: (f64, f64)) -> Axis {
        Axis { range, ..self }
    }

    /// The place of `value`: 0 at the start, 1 at the end. `None` for a value outside the axis.
    pub fn at(&self, value: f64) -> Option<f64> {
        let (low, high) = self.range;
        let share = match self.logarithmic {
            true if value <= 0.0 => return None,
            true => (value / low).ln() / (high / low).ln(),
            false => (value - low) / (high - low),
        };
        share.is_finite().then(|| share.clamp(0.0, 1.0))
    }

    /// The text of a tick.
    pub fn label(&self, value: f64) -> String {
        self.labels.get(value as usize).cloned().unwrap_or_else(|| (self.show)(value))
    }

    /// The values with a label, at most about six.
    pub fn ticks(&self) -> Vec<f64> {
        let (low, high) = self.range;
        if !self.labels.is_empty() {
            let every = self.labels.len().div_ceil(8);
            return (0..self.labels.len()).step_by(every).map(|index| index as f64).collect();
        }
        if !self.logarithmic {
            let step = step(high - low);
            let first = (low / step - 1e-9).ceil();
            let count = ((high / step + 1e-9).floor() - first) as u32;
            return (0..=count.min(20)).map(|n| (first + f64::from(n)) * step).collect();
        }
        let (first, last) = (low.log10().round() as i32, high.log10().round() as i32);
        let every = (last - first) / 6 + 1;
        let digits: &[f64] = if last - first <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let decades = (first..=last).step_by(every as usize);
        let of = |exponent: i32| digits.iter().map(move |digit| digit * 10f64.powi(exponent));
        decades.flat_map(of).filter(|value| *value <= high * 1.000_001).collect()
    }
}

/// Least and most of the finite `values`.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite());
    finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
}

/// A step of 1, 2 or 5 times a power of ten, of which about five fill `length`.
fn step(length: f64) -> f64 {
    let rough = (length / 5.0).max(1e-12);
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|digit| digit * power)
        .into_iter()
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_lie_within_the_ends() {
        let axis = Axis::linear("", [0.3, 4.12].into_iter());
        assert_eq!((axis.range, axis.ticks()), ((0.0, 5.0), vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]));
        let axis = Axis::logarithmic("", [12e3, 3e6].into_iter());
        assert_eq!((axis.range, axis.ticks()), ((1e4, 1e7), vec![1e4, 1e5, 1e6, 1e7]));
        assert_eq!(axis.at(1e4), Some(0.0));
        assert_eq!(axis.at(0.0), None);
        for axis in
            [Axis::linear("", [f64::NAN].into_iter()), Axis::logarithmic("", [0.0].into_iter())]
        {
            assert!(axis.ticks().iter().all(|tick| axis.at(*tick).is_some()), "{axis:?}");
        }
        assert_eq!(Axis::linear("", [5.0, 5.0].into_iter()).range, (0.0, 5.0));
    }
}
