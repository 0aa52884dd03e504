//! Values of settings that are written as text.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use thermocline_format::MediaClass;
use thermocline_types::Setting;

use crate::storage::{GroupKind, IoEngine, Latency};

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

/// A single table or an array of tables.
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

pub(super) fn io<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<IoEngine>, D::Error> {
    let text = String::deserialize(deserializer)?;
    IoEngine::read(&text).map(Some).map_err(D::Error::custom)
}

pub(super) fn group_kind<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<GroupKind, D::Error> {
    one_of(deserializer, &GroupKind::ALL.map(|kind| (kind.name(), kind)))
}

pub(super) fn latency<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Latency>, D::Error> {
    one_of(deserializer, &[("none", Latency::None), ("modelled", Latency::Modelled)]).map(Some)
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
