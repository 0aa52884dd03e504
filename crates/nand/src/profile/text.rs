//! TOML with sizes such as `"16KiB"`, and values replaced by dotted keys: profiles and similar files.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use thermocline_types::Bytes;

/// What is wrong in a text: where, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongKey {
    /// The dotted key, empty when the text as a whole is wrong.
    pub key: String,
    /// Why.
    pub reason: String,
}

/// Reads TOML text after replacing values: each override is a dotted key, as in `timing.read_us`, and a TOML value.
/// Text that is no TOML value stands for itself.
///
/// # Errors
/// [`WrongKey`] for text that is not TOML, unknown or missing keys and wrong types.
pub fn read<T: DeserializeOwned>(
    text: &str,
    overrides: &[(String, String)],
) -> Result<T, WrongKey> {
    read_completed(text, overrides, (|_| (), |_| Ok(())))
}

/// The same, with two functions that add absent values: the first before the overrides, the second after them.
pub(super) fn read_completed<T: DeserializeOwned>(
    text: &str,
    overrides: &[(String, String)],
    (before, after): (
        impl FnOnce(&mut toml::Table),
        impl FnOnce(&mut toml::Table) -> Result<(), WrongKey>,
    ),
) -> Result<T, WrongKey> {
    let mut table: toml::Table = toml::from_str(text).map_err(|source| WrongKey {
        key: String::new(),
        reason: source.to_string().trim_end().to_owned(),
    })?;
    before(&mut table);
    for (key, value) in overrides {
        set(&mut table, key, value).map_err(|reason| WrongKey { key: key.clone(), reason })?;
    }
    after(&mut table)?;
    serde_path_to_error::deserialize(table).map_err(|error| {
        let key = error.path().to_string();
        let key = if key == "." { String::new() } else { key };
        WrongKey { key, reason: error.inner().message().to_owned() }
    })
}

/// Reads a number of bytes, or text with a unit.
///
/// # Errors
/// For anything else.
pub fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(u64),
        Text(String),
    }
    match Written::deserialize(deserializer) {
        Ok(Written::Number(bytes)) => Ok(Bytes(bytes)),
        Ok(Written::Text(text)) => text.parse().map_err(serde::de::Error::custom),
        Err(_) => Err(serde::de::Error::custom("expected a size such as \"16KiB\"")),
    }
}

/// The same where it may be left out.
///
/// # Errors
/// As [`size`].
pub fn optional_size<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Bytes>, D::Error> {
    size(deserializer).map(Some)
}

/// Replaces the value at a dotted key, making tables on the way.
fn set(table: &mut toml::Table, key: &str, value: &str) -> Result<(), String> {
    let parsed = format!("value = {value}").parse::<toml::Table>().ok();
    let parsed = parsed.and_then(|mut table| table.remove("value"));
    let parsed = parsed.unwrap_or_else(|| toml::Value::String(value.to_owned()));
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), parsed);
            Ok(())
        }
        Some((head, rest)) => table
            .entry(head)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()))
            .as_table_mut()
            .ok_or_else(|| format!("`{head}` is a value, not a table"))
            .and_then(|inner| set(inner, rest, value)),
    }
}
