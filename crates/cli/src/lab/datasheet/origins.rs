//! Origins of the figures of a data sheet: the commands of its rows, and the sources of stated and assumed values.

use thermocline_report::Origin;

use super::Sheet;
use super::answers::Answer;
use crate::lab::theory;

/// A row's place in the list: the question's number, then the row's number.
fn number(question: usize, row: usize) -> String {
    format!("{}.{}", question + 1, row + 1)
}

/// Names of the origins of the rows of `answer`; empty for a row without an origin.
pub fn of_rows(sheet: &Sheet, question: usize, answer: &Answer) -> Vec<String> {
    let values = sources(sheet);
    let rows = answer.rows.iter().enumerate();
    rows.map(|(index, row)| match (&row.command, &row.value) {
        (Some(_), _) => number(question, index),
        (None, Some(key)) => source_of(&values, key),
        (None, None) => String::new(),
    })
    .collect()
}

/// The origin with the longest prefix of `key`.
fn source_of(values: &[Origin], key: &str) -> String {
    let prefixes = values.iter().map(|origin| &origin.name);
    prefixes
        .filter(|name| key == name.as_str() || key.starts_with(&format!("{name}.")))
        .max_by_key(|name| name.len())
        .cloned()
        .unwrap_or_default()
}

/// The commands of all rows, then the source of every value.
pub fn all(sheet: &Sheet, answers: &[&Answer]) -> Vec<Origin> {
    let commands = answers.iter().enumerate().flat_map(|(question, answer)| {
        answer.rows.iter().enumerate().filter_map(move |(index, row)| {
            let command = row.command.as_ref()?.replace("; thermocline", "\nthermocline");
            let command = format!("# {} {}\n{command}", answer.question, row.cells[0]);
            Some(Origin { name: number(question, index), source: String::new(), command })
        })
    });
    commands.chain(sources(sheet)).collect()
}

/// Sources of the values of the drives' profiles, of how cells keep data, and of their power.
fn sources(sheet: &Sheet) -> Vec<Origin> {
    let origin = |name: String, source: &str| Origin {
        name,
        source: source.to_owned(),
        command: String::new(),
    };
    let mut all = Vec::new();
    for profile in sheet.profiles() {
        let own = profile.source.iter();
        all.extend(own.map(|(key, source)| origin(format!("{}.{key}", profile.name), source)));
    }
    if let Some(model) = &sheet.stack.profile.integrity {
        let of_class = theory::class_sources(model);
        all.extend(of_class.map(|(key, source)| origin(format!("{}.{key}", model.cells), source)));
    }
    for profile in sheet.profiles() {
        let key = format!("drive.{}", profile.name);
        let prices = sheet.prices.source.iter().filter(|(known, _)| known.starts_with(&key));
        all.extend(prices.map(|(known, source)| origin(known.clone(), source)));
    }
    all
}
