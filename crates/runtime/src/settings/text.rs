//! Values of settings that are written as text.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use thermocline_engine::ReadPlan;
use thermocline_format::MediaClass;

use crate::storage::{IoEngine, Latency};

/// Seconds between two things that a pool does on its own. Chosen.
const INTERVAL: RangeInclusive<u64> = 3600..=3650 * 86_400;

/// Anything that people write as text, or, if it is a number, as a number.
pub(super) fn optional<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    struct Text<T>(PhantomData<T>);
    impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Text<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
            number.to_string().parse().map_err(E::custom)
        }
    }
    deserializer.deserialize_any(Text(PhantomData)).map(Some)
}

/// A time of hours or days, or 0.
pub(super) fn interval<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    struct Interval(Duration);
    impl FromStr for Interval {
        type Err = String;

        fn from_str(text: &str) -> Result<Interval, String> {
            let units = [("h", 3600), ("d", 86_400)];
            let part = |(unit, seconds): &(&str, u64)| {
                let number: u64 = text.trim().strip_suffix(unit)?.trim().parse().ok()?;
                number.checked_mul(*seconds)
            };
            let seconds = if text.trim() == "0" { Some(0) } else { units.iter().find_map(part) };
            let fits = seconds.filter(|seconds| *seconds == 0 || INTERVAL.contains(seconds));
            fits.map(|seconds| Interval(Duration::from_secs(seconds))).ok_or_else(|| {
                format!("`{text}` is none of 0, 1h to 87600h and 1d to 3650d, such as 30d")
            })
        }
    }
    optional(deserializer)
        .map(|interval: Option<Interval>| interval.map_or(Duration::ZERO, |one| one.0))
}

/// One table, or an array of them.
pub(super) fn one_or_more<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct OneOrMore<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMore<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table, or an array of tables")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<T>, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(|one| vec![one])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Vec<T>, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(seq))
        }
    }
    deserializer.deserialize_any(OneOrMore(PhantomData))
}

pub(super) fn class<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MediaClass, D::Error> {
    one_of(deserializer, &[("capacity", MediaClass::Capacity), ("fast", MediaClass::Fast)])
}

pub(super) fn io<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IoEngine, D::Error> {
    let choices = [
        ("auto", IoEngine::Auto),
        ("uring", IoEngine::Uring),
        ("threads", IoEngine::Threads),
        ("inline", IoEngine::Inline),
    ];
    one_of(deserializer, &choices)
}

pub(super) fn latency<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Latency>, D::Error> {
    one_of(deserializer, &[("none", Latency::None), ("modelled", Latency::Modelled)]).map(Some)
}

pub(super) fn read_plan<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ReadPlan>, D::Error> {
    let choices =
        [("basic", ReadPlan::Basic), ("segment", ReadPlan::Segment), ("cost", ReadPlan::COST)];
    one_of(deserializer, &choices).map(Some)
}

fn one_of<'de, D, T>(deserializer: D, choices: &[(&str, T)]) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Copy,
{
    let text = String::deserialize(deserializer)?;
    let found = choices.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        D::Error::custom(format!("`{text}` is none of {}", names.join(", ")))
    })
}
