//! A key of a run and the values that are tried for it.

use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use serde::Serialize;
use thermocline_types::Bytes;

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
    /// Each as much more than the one before.
    Linear,
    /// Each as many times the one before.
    Geometric,
}

impl Spacing {
    /// The spacing in a word.
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
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Axis> {
        let (key, rest) = text.split_once('=').with_context(|| {
            format!("`{text}`: write KEY=A..B, KEY=A..B:STEPS:log or KEY=V,V,V, such as device.op=0.07..0.5")
        })?;
        let (key, rest) = (key.trim().to_owned(), rest.trim());
        let Some((from, to)) = rest.split_once("..") else {
            let values: Vec<String> =
                rest.split(',').map(|value| value.trim().to_owned()).collect();
            ensure!(values.iter().all(|value| !value.is_empty()), "`{text}`: a value is empty");
            return Axis { key, spacing: Spacing::List, values }.checked(text);
        };
        let mut parts = to.split(':');
        let to = parts.next().unwrap_or_default();
        let (from, to) = (End::read(text, from)?, End::read(text, to)?);
        ensure!(from.is_size == to.is_size, "`{text}`: one end is a size, the other a number");
        let mut spacing = if from.is_size { Spacing::Geometric } else { Spacing::Linear };
        let mut asked = None;
        for part in parts {
            match part {
                "lin" => spacing = Spacing::Linear,
                "log" => spacing = Spacing::Geometric,
                number => {
                    asked = Some(number.parse().with_context(|| {
                        format!("`{text}`: after a range come its number of values, lin or log, not `{number}`")
                    })?);
                }
            }
        }
        let steps = asked.unwrap_or(STEPS);
        ensure!((2..=MOST).contains(&steps), "`{text}`: a range has 2 to {MOST} values");
        ensure!(
            spacing != Spacing::Geometric || from.value > 0.0 && to.value > 0.0,
            "`{text}`: a geometric range has both ends above 0"
        );
        let values = between(from, to, steps, spacing);
        let axis = Axis { key, spacing, values }.checked(text)?;
        // Of a geometric range whose first values are closer than whole numbers, equal ones are tried once.
        let different = axis.values.len();
        ensure!(
            asked.is_none() || spacing == Spacing::Geometric || different == steps,
            "`{text}`: after a range comes how many values it has, not how far apart they are: of {steps}, only \
             {different} differ when rounded; give {different} or fewer"
        );
        Ok(axis)
    }
}

impl Axis {
    fn checked(mut self, text: &str) -> anyhow::Result<Axis> {
        ensure!(!self.key.is_empty(), "`{text}`: there is no key before the `=`");
        let mut seen = Vec::new();
        self.values.retain(|value| {
            let new = !seen.contains(value);
            seen.push(value.clone());
            new
        });
        if self.values.len() < 2 {
            bail!("`{text}`: a sweep has two values or more; for one, use `thermocline lab run`");
        }
        Ok(self)
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
    fn read(text: &str, end: &str) -> anyhow::Result<End> {
        let end = end.trim();
        if let Ok(value) = end.parse::<f64>() {
            ensure!(value.is_finite(), "`{text}`: {end} is no end of a range");
            let is_whole = !end.contains(['.', 'e', 'E']);
            return Ok(End { value, is_size: false, is_whole });
        }
        let size: Bytes = end.parse().with_context(|| {
            format!("`{text}`: `{end}` is neither a number nor a size such as 1MiB")
        })?;
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
