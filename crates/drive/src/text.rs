//! Names and values that programs print of log pages, as JSON or as lines.
//!
//! Names are brought to one form: small letters and digits, joined by underscores.

use serde_json::Value;

/// A name, its value as printed, and its page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Printed {
    pub name: String,
    pub value: String,
    pub part: Part,
}

/// The page of a printed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Health,
    EnduranceGroup,
    Fdp,
    Ocp,
    Intel,
}

/// A name that identifies its page, in the order of the test.
const TELLING: [(&str, Part); 6] = [
    ("hbmw", Part::Fdp),
    ("physical_media_units_written", Part::Ocp),
    ("endurance_estimate", Part::EnduranceGroup),
    ("media_units_written", Part::EnduranceGroup),
    ("nand_bytes_written", Part::Intel),
    ("data_units_written", Part::Health),
];

/// The page with all of these names.
fn part_of(names: &[&str]) -> Part {
    let found = TELLING.iter().find(|(telling, _)| names.contains(telling));
    found.map_or(Part::Health, |(_, part)| *part)
}

/// The form of names.
pub(crate) fn plain(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_").to_ascii_lowercase()
}

/// Names and values of a JSON document, at any depth. Tables of SATA attributes are left out.
pub(crate) fn of_json(value: &Value) -> Vec<Printed> {
    let mut all = Vec::new();
    walk(value, "", &mut all);
    all
}

fn walk(value: &Value, of: &str, all: &mut Vec<Printed>) {
    match value {
        Value::Array(list) if of != "table" => list.iter().for_each(|one| walk(one, of, all)),
        Value::Object(object) => {
            let names: Vec<String> = object.keys().map(|name| plain(name)).collect();
            let part = part_of(&names.iter().map(String::as_str).collect::<Vec<_>>());
            for (name, (_, value)) in names.iter().zip(object) {
                match scalar(value) {
                    Some(value) => all.push(Printed { name: name.clone(), value, part }),
                    None => walk(value, name, all),
                }
            }
        }
        _ => {}
    }
}

/// A number or a text; a number in halves of 64 bits, and an object with a raw value, count as one.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Object(object) => {
            let number = |name: &str| object.get(name).and_then(Value::as_u64);
            match (number("hi"), number("lo")) {
                (Some(high), Some(low)) => {
                    Some(((u128::from(high) << 64) | u128::from(low)).to_string())
                }
                // smartctl: {"blocks": ..., "bytes": ...}, {"hours": ...}; nvme-cli: {"normalized": ..., "raw": ...}
                _ => ["bytes", "hours", "raw"]
                    .into_iter()
                    .find_map(number)
                    .map(|one| one.to_string()),
            }
        }
        _ => None,
    }
}

/// Names and values of lines such as `Percentage Used: 3%` and `(HBMW): 12`. Halves of OCP's numbers count as one.
pub(crate) fn of_lines(text: &str) -> Vec<Printed> {
    let pairs: Vec<(String, String)> = text.lines().filter_map(pair).collect();
    let part = part_of(&pairs.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>());
    pairs.into_iter().map(|(name, value)| Printed { name, value, part }).collect()
}

fn pair(line: &str) -> Option<(String, String)> {
    let cut = line.split_once(':').or_else(|| line.split_once(" - "))?;
    let (name, value) = (cut.0, cut.1.trim());
    // `Host Bytes with Metadata Written (HBMW): 12` is known by its short name.
    let short = name.rsplit_once('(').and_then(|(_, short)| short.strip_suffix(')'));
    let name = plain(short.filter(|short| short.chars().all(char::is_uppercase)).unwrap_or(name));
    let halves: Vec<&str> = value.split_whitespace().collect();
    let value = match halves[..] {
        [high, low] if name.starts_with("physical_media_units") => {
            let (high, low) = (high.parse::<u64>().ok()?, low.parse::<u64>().ok()?);
            ((u128::from(high) << 64) | u128::from(low)).to_string()
        }
        _ => value.to_owned(),
    };
    (!name.is_empty() && !value.is_empty()).then_some((name, value))
}

/// The number at the begin of a printed value: digits, groups of thousands set apart by commas, dots or apostrophes,
/// or a hexadecimal number after `0x`. More than 64 bits saturate.
pub(crate) fn number(value: &str) -> Option<u64> {
    let value = value.trim();
    if let Some(digits) = value.strip_prefix("0x") {
        let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        return u64::from_str_radix(&digits[..end], 16).ok();
    }
    let word = value.split(|c: char| c.is_whitespace() || c == '%').next()?;
    let groups: Vec<&str> = word.split([',', '.', '\'']).collect();
    let is_grouped = groups.len() > 1 && groups[1..].iter().all(|group| group.len() == 3);
    let digits = if is_grouped { groups.concat() } else { groups[0].to_owned() };
    let all = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_programs_print_them() {
        for (text, expected) in [
            ("1,234,567 [632 GB]", Some(1_234_567)),
            ("1.234.567", Some(1_234_567)),
            ("3%", Some(3)),
            ("0x04", Some(4)),
            ("35 Celsius", Some(35)),
            ("12.5", Some(12)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("-", None),
            ("", None),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
    }

    #[test]
    fn lines_and_json_have_the_same_names() {
        let lines =
            of_lines("  Host Bytes with Metadata Written (HBMW): 12\nMedia ... (MBMW): 13\n");
        let json = of_json(&serde_json::json!({"hbmw": 12, "mbmw": "13"}));
        assert_eq!(lines, json);
        assert!(lines.iter().all(|one| one.part == Part::Fdp));
        let ocp = of_lines("Physical media units written -   \t1 2\n");
        let same =
            of_json(&serde_json::json!({"Physical media units written": {"hi": 1, "lo": 2}}));
        assert_eq!((&ocp, ocp[0].value.as_str()), (&same, "18446744073709551618"));
    }
}
