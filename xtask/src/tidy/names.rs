//! Each public type name has a single meaning.

use std::collections::BTreeMap;

use crate::repo::{File, Violation};

/// Names that several crates or modules use for their own, each plain where it stands: commands, options, errors. Names
/// may leave the list; no new names are added.
const SHARED: [&str; 49] = [
    "Answer",
    "Buffer",
    "Change",
    "Command",
    "Completion",
    "Device",
    "Done",
    "Ended",
    "Endurance",
    "Error",
    "ErrorKind",
    "Event",
    "Extent",
    "Fault",
    "Geometry",
    "Latency",
    "Line",
    "ListArgs",
    "Listed",
    "Listener",
    "Machine",
    "Memory",
    "OpenError",
    "Opened",
    "Options",
    "Outcome",
    "Part",
    "Place",
    "Plan",
    "Population",
    "Profile",
    "Progress",
    "Reply",
    "Report",
    "Request",
    "Row",
    "Settings",
    "Stamp",
    "Status",
    "Step",
    "Structure",
    "Table",
    "Trace",
    "Traffic",
    "Trouble",
    "Units",
    "Volume",
    "Wear",
    "Zoned",
];

/// Types that have the name of another one and are not listed, and listed names that only one type has.
pub fn check(files: &[File]) -> Vec<Violation> {
    let mut types: BTreeMap<String, Vec<(&str, usize)>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.path.starts_with("crates/") && is_source(file)) {
        for (name, line) in public_types(file.text.as_deref().unwrap_or_default()) {
            types.entry(name).or_default().push((&file.path, line));
        }
    }
    let mut found = Vec::new();
    for (name, places) in &types {
        let [(first, _), others @ ..] = &places[..] else { continue };
        for (path, line) in others.iter().filter(|_| !SHARED.contains(&name.as_str())) {
            let message = format!("`{name}` is the name of a public type in {first}, too");
            found.push(Violation::new(path, *line, message));
        }
    }
    let shared = |name: &str| types.get(name).is_some_and(|places| places.len() > 1);
    for name in SHARED.iter().filter(|name| !shared(name)) {
        let message = format!("`{name}` is no longer shared: it leaves the list");
        found.push(Violation::new("xtask/src/tidy/names.rs", 0, message));
    }
    found
}

/// Crates for users of the library: their types repeat the names of the types that they wrap.
const FOR_USERS: [&str; 2] = ["crates/thermocline/", "crates/capi/"];

fn is_source(file: &File) -> bool {
    let for_users = FOR_USERS.iter().any(|folder| file.path.starts_with(folder));
    file.is_rust() && file.path.contains("/src/") && !for_users
}

/// Public types at the outermost level, each with its line. Those of tests are indented.
fn public_types(text: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        if words.next() == Some("pub")
            && matches!(words.next(), Some("struct" | "enum" | "trait" | "type"))
            && let Some(name) = words.next()
        {
            found.push((name.to_owned(), index + 1));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), size: 0, text: Some(text.into()) }
    }

    /// Violations but for those about the list.
    fn found(files: &[File]) -> Vec<(String, usize)> {
        let all = check(files).into_iter().filter(|violation| violation.line > 0);
        all.map(|violation| (violation.path, violation.line)).collect()
    }

    #[test]
    fn a_second_public_type_of_a_name_is_found() {
        let files = [
            file("crates/a/src/lib.rs", "pub struct Zone;\n"),
            file("crates/b/src/lib.rs", "//! Zones.\n\npub enum Zone<T> { One(T) }\n"),
            file("crates/b/src/other.rs", "pub(crate) struct Zone;\nstruct Zone2;\n"),
        ];
        assert_eq!(found(&files), [("crates/b/src/lib.rs".to_owned(), 3)]);
    }

    #[test]
    fn listed_names_may_be_shared_and_tests_have_their_own() {
        let files = [
            file("crates/a/src/lib.rs", "pub struct Error;\npub trait Zone {}\n"),
            file("crates/b/src/lib.rs", "pub struct Error;\n"),
            file("crates/b/tests/it/main.rs", "pub struct Zone;\n"),
            file("crates/c/src/lib.rs", "mod tests {\n    pub struct Zone;\n}\n"),
        ];
        assert_eq!(found(&files), []);
    }

    #[test]
    fn a_listed_name_that_nobody_shares_leaves_the_list() {
        let told = check(&[file("crates/a/src/lib.rs", "pub struct Error;\n")]);
        assert!(told.iter().any(|violation| violation.message.contains("`Error` is no longer")));
    }
}
