//! A key of a run and the values that are tried for it.

use std::str::FromStr;

use serde::Serialize;
use thermocline_types::Bytes;

use crate::Error;

/// Values of a range unless it says how many.
const STEPS: usize = 6;
/// Values of a range at most.
const MOST: usize = 1000;

/// How the values of a range lie between its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// As given, one by one.
    List,
    /// Equal differences.
    Linear,
    /// Equal ratios.
    Geometric,
}

impl Spacing {
    /// The spacing in a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Spacing::List => "as listed",
            Spacing::Linear => "linear",
            Spacing::Geometric => "geometric",
        }
    }
}

/// A key and its values, as `KEY=A..B[:STEPS][:lin|:log]` or `KEY=V,V,...`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Axis {
    /// The key.
    pub key: String,
    /// How the values were made.
    pub spacing: Spacing,
    /// The values, each as it is given to the key.
    pub values: Vec<String>,
}

impl FromStr for Axis {
    type Err = Error;

    fn from_str(text: &str) -> Result<Axis, Error> {
        let wrong = |reason: String| Error::Axis { text: text.to_owned(), reason };
        let (key, rest) = text.split_once('=').ok_or_else(|| {
            wrong(
                "write KEY=A..B, KEY=A..B:STEPS:log or KEY=V,V,V, such as device.op=0.07..0.5"
                    .into(),
            )
        })?;
        let (key, rest) = (key.trim().to_owned(), rest.trim());
        let axis = match rest.split_once("..") {
            None => {
                let values: Vec<String> =
                    rest.split(',').map(|value| value.trim().to_owned()).collect();
                if values.iter().any(String::is_empty) {
                    return Err(wrong("a value is empty".into()));
                }
                Axis { key, spacing: Spacing::List, values }
            }
            Some((from, to)) => Range::read(from, to).map_err(wrong)?.of(key).map_err(wrong)?,
        };
        axis.checked().map_err(wrong)
    }
}

impl Axis {
    /// The same with each value once.
    fn checked(mut self) -> Result<Axis, String> {
        if self.key.is_empty() {
            return Err("there is no key before the `=`".into());
        }
        let mut seen = Vec::new();
        self.values.retain(|value| {
            let new = !seen.contains(value);
            seen.push(value.clone());
            new
        });
        match self.values.len() {
            0 | 1 => Err("a sweep has two values or more".into()),
            _ => Ok(self),
        }
    }
}

/// A range as it is written.
struct Range {
    from: End,
    to: End,
    spacing: Spacing,
    /// Number of values, where one is stated.
    steps: Option<usize>,
}

impl Range {
    fn read(from: &str, to: &str) -> Result<Range, String> {
        let mut parts = to.split(':');
        let to = parts.next().unwrap_or_default();
        let (from, to) = (End::read(from)?, End::read(to)?);
        if from.is_size != to.is_size {
            return Err("one end is a size, the other a number".into());
        }
        let spacing = if from.is_size { Spacing::Geometric } else { Spacing::Linear };
        let mut range = Range { from, to, spacing, steps: None };
        for part in parts {
            match part {
                "lin" => range.spacing = Spacing::Linear,
                "log" => range.spacing = Spacing::Geometric,
                number => {
                    range.steps = Some(number.parse().map_err(|_| {
                        format!(
                            "after a range come its number of values, lin or log, not `{number}`"
                        )
                    })?);
                }
            }
        }
        Ok(range)
    }

    /// The values of `key`.
    fn of(self, key: String) -> Result<Axis, String> {
        let Range { from, to, spacing, steps: asked } = self;
        let steps = asked.unwrap_or(STEPS);
        if !(2..=MOST).contains(&steps) {
            return Err(format!("a range has 2 to {MOST} values"));
        }
        if spacing == Spacing::Geometric && (from.value <= 0.0 || to.value <= 0.0) {
            return Err("a geometric range has both ends above 0".into());
        }
        let values = between(from, to, steps, spacing);
        let axis = Axis { key, spacing, values }.checked()?;
        // Of a geometric range whose first values are closer than whole numbers, equal ones are tried once.
        let different = axis.values.len();
        if asked.is_some() && spacing != Spacing::Geometric && different != steps {
            return Err(format!(
                "after a range comes how many values it has, not how far apart they are: of {steps}, only {different} \
                 differ when rounded; give {different} or fewer"
            ));
        }
        Ok(axis)
    }
}

/// One end of a range.
#[derive(Clone, Copy)]
struct End {
    value: f64,
    /// It has a unit of bytes.
    is_size: bool,
    is_whole: bool,
}

impl End {
    fn read(end: &str) -> Result<End, String> {
        let end = end.trim();
        if let Ok(value) = end.parse::<f64>() {
            if !value.is_finite() {
                return Err(format!("{end} is no end of a range"));
            }
            let is_whole = !end.contains(['.', 'e', 'E']);
            return Ok(End { value, is_size: false, is_whole });
        }
        let size: Bytes = end
            .parse()
            .map_err(|_| format!("`{end}` is neither a number nor a size such as 1MiB"))?;
        Ok(End { value: size.as_f64(), is_size: true, is_whole: true })
    }
}

fn between(from: End, to: End, steps: usize, spacing: Spacing) -> Vec<String> {
    let at = |step: usize| {
        let share = step as f64 / (steps - 1) as f64;
        match spacing {
            Spacing::Geometric => from.value * (to.value / from.value).powf(share),
            _ => from.value + (to.value - from.value) * share,
        }
    };
    (0..steps).map(|step| shown(at(step), from.is_size, from.is_whole && to.is_whole)).collect()
}

/// A value as it is given to its key: sizes in whole blocks of 4 KiB, numbers with four significant digits.
fn shown(value: f64, is_size: bool, is_whole: bool) -> String {
    if is_size {
        let block = Bytes::BLOCK.as_f64();
        return exact(Bytes(((value / block).round().max(1.0) * block) as u64));
    }
    if is_whole {
        return format!("{}", value.round());
    }
    let digits = 3 - value.abs().max(f64::MIN_POSITIVE).log10().floor() as i32;
    let scale = 10_f64.powi(digits);
    format!("{}", (value * scale).round() / scale)
}

/// A size in the largest unit of which it is a multiple.
fn exact(size: Bytes) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.iter().find(|(_, shift)| size.0 != 0 && size.0.is_multiple_of(1 << shift));
    unit.map_or_else(|| size.0.to_string(), |(name, shift)| format!("{}{name}", size.0 >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        text.parse::<Axis>().unwrap().values
    }

    #[test]
    fn ranges_are_linear_for_numbers_and_geometric_for_sizes_unless_they_say_otherwise() {
        assert_eq!(values("op=0.1..0.5:5"), ["0.1", "0.2", "0.3", "0.4", "0.5"]);
        assert_eq!(values("unit=1MiB..16MiB:5"), ["1MiB", "2MiB", "4MiB", "8MiB", "16MiB"]);
        assert_eq!(values("unit=1MiB..4MiB:4:lin"), ["1MiB", "2MiB", "3MiB", "4MiB"]);
        assert_eq!(values("depth=1..64:3:log"), ["1", "8", "64"]);
        assert_eq!(values("depth=1..3"), ["1", "2", "3"], "whole numbers are tried once each");
        assert_eq!(
            values("depth=1..8:7:log"),
            ["1", "2", "3", "4", "6", "8"],
            "also where asked for more"
        );
        let axis: Axis = "device.unit=1MiB..1GiB".parse().unwrap();
        assert_eq!((axis.values.len(), axis.spacing), (STEPS, Spacing::Geometric));
        assert_eq!(axis.values[1], "4MiB");
    }

    #[test]
    fn lists_stay_as_they_are() {
        let axis: Axis = "victim=greedy, fifo".parse().unwrap();
        assert_eq!(
            (axis.values, axis.spacing),
            (vec!["greedy".into(), "fifo".into()], Spacing::List)
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, expected) in [
            ("op", "KEY=A..B"),
            ("op=0.1", "two values"),
            ("op=1..2:1", "2 to 1000"),
            ("op=0..1:log", "above 0"),
            ("op=1..2MiB", "one end is a size"),
            ("op=a..b", "neither a number nor a size"),
            ("op=1..2:cubic", "lin or log"),
            ("=1,2", "no key"),
            ("op=1,,2", "empty"),
            (
                "depth=1..4:7",
                "how many values it has, not how far apart they are: of 7, only 4 differ",
            ),
            ("unit=4KiB..16KiB:9:lin", "of 9, only 4 differ when rounded; give 4 or fewer"),
        ] {
            let error = format!("{:#}", text.parse::<Axis>().unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
