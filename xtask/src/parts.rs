//! The parts of the engine own their state: none knows the engine, none is in a circle with others, and what changes
//! itself shows no field.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::repo::{File, Repo, Violation};
use crate::rust_source::{code_only, line_of, without_tests, words};

const ENGINE: &str = "crates/engine/src/";

/// Types that change themselves and show fields all the same: the attributes of a volume are plain values beside its
/// map.
const SHOWN: [&str; 1] = ["VolumeMap"];

/// Every part that breaks a rule.
///
/// # Errors
/// When the files cannot be read.
pub fn check(repo: &Repo) -> Result<Vec<Violation>> {
    Ok(check_files(&repo.files()?))
}

fn check_files(files: &[File]) -> Vec<Violation> {
    let source = |file: &&File| file.path.starts_with(ENGINE) && file.is_rust() && !is_test(file);
    let mut found = Vec::new();
    let mut uses: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for file in files.iter().filter(source) {
        let code = without_tests(&code_only(file.text.as_deref().unwrap_or_default()));
        found.extend(shown_fields(file, &code));
        let Some(part) = part_of(&file.path) else { continue };
        for (at, other) in used(&code) {
            if other == "engine" {
                let message = "a part knows nothing of the engine that it is a part of";
                found.push(Violation::new(&file.path, line_of(&code, at), message));
            } else if other != part {
                uses.entry(part).or_default().insert(other);
            }
        }
    }
    found.extend(circle(&uses));
    found
}

fn is_test(file: &File) -> bool {
    file.path.ends_with("/tests.rs") || file.path.contains("/tests/")
}

/// The part that a file belongs to; `None` for the engine, which knows all parts, and for the root of the crate.
fn part_of(path: &str) -> Option<&str> {
    let rest = path.strip_prefix(ENGINE)?;
    let part = rest.split(['/', '.']).next()?;
    (!["engine", "lib"].contains(&part)).then_some(part)
}

/// Modules at the root of the crate that code names.
fn used(code: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    words(code, "crate").filter_map(|at| {
        let rest = code[at + "crate".len()..].strip_prefix("::")?;
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        Some((at, rest[..end].to_owned()))
    })
}

/// Parts that use each other in a circle, one of those there are.
fn circle(uses: &BTreeMap<&str, BTreeSet<String>>) -> Option<Violation> {
    let mut left: BTreeSet<&str> = uses.keys().copied().collect();
    loop {
        let free = |part: &&str| uses[*part].iter().all(|other| !left.contains(other.as_str()));
        let Some(part) = left.iter().copied().find(free) else { break };
        left.remove(part);
    }
    let names: Vec<&str> = left.into_iter().collect();
    let message = || format!("these parts use each other in a circle: {}", names.join(", "));
    (!names.is_empty()).then(|| Violation::new(ENGINE, 0, message()))
}

/// Fields that others see of types that change themselves.
fn shown_fields(file: &File, code: &str) -> Vec<Violation> {
    let changing = changing_types(code);
    let mut found = Vec::new();
    for at in words(code, "struct") {
        let name = name_at(&code[at + "struct".len()..]);
        let Some(open) = code[at..].find(['{', ';', '(']).map(|end| at + end) else { continue };
        if !code[open..].starts_with('{') || !changing.contains(name) || SHOWN.contains(&name) {
            continue;
        }
        let end = code[open..].find("\n}").map_or(code.len(), |end| open + end);
        // What a module shows to its own files is no matter of others.
        let shown = |at: &usize| !code[open + at..].starts_with("pub(super)");
        for at in words(&code[open..end], "pub").filter(shown) {
            let message = format!("`{name}` changes itself and shows a field");
            found.push(Violation::new(&file.path, line_of(code, open + at), message));
        }
    }
    found
}

/// The types of which some method of their own changes the value; operators aside.
fn changing_types(code: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for at in words(code, "impl") {
        let Some(open) = code[at..].find('{').map(|open| at + open) else { continue };
        let end = code[open..].find("\n}").map_or(code.len(), |end| open + end);
        if code[open..end].contains("&mut self") {
            let head = code[at + "impl".len()..open].trim_start();
            let subject = head
                .strip_prefix('<')
                .map_or(head, |rest| rest.split_once('>').map_or(rest, |(_, subject)| subject));
            if !head.contains(" for ") {
                found.insert(name_at(subject));
            }
        }
    }
    found
}

/// The name that a text begins with.
fn name_at(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let file = |(path, text): &(&str, &str)| File {
            path: format!("{ENGINE}{path}"),
            size: 0,
            text: Some((*text).into()),
        };
        let files: Vec<File> = files.iter().map(file).collect();
        check_files(&files).into_iter().map(|one| (one.message, one.line)).collect()
    }

    #[test]
    fn a_part_that_names_the_engine_is_found() {
        let told =
            found(&[("space.rs", "use crate::config::Config;\nuse crate::engine::Engine;\n")]);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].1, 2);
        assert_eq!(found(&[("engine/io.rs", "use crate::engine::Engine;\n")]), []);
    }

    #[test]
    fn parts_in_a_circle_are_named_and_their_own_files_are_none() {
        let told = found(&[
            ("map.rs", "use crate::map::leaf::Leaf;\nuse crate::volumes::Volumes;\n"),
            ("map/leaf.rs", "use crate::map::PAGE;\n"),
            ("volumes.rs", "use crate::tier::Stream;\n"),
            ("tier.rs", "use crate::map::PAGE;\n"),
            ("pages.rs", "use crate::map::PAGE;\n"),
        ]);
        assert_eq!(told.len(), 1);
        assert!(told[0].0.ends_with("map, pages, tier, volumes"), "{}", told[0].0);
    }

    #[test]
    fn a_shown_field_of_what_changes_itself_is_found() {
        let shown = "pub struct A<P> {\n    one: u8,\n    pub(crate) two: u8,\n}\n";
        let changes = "impl<P> A<P> {\n    fn set(&mut self) {}\n}\n";
        let reads = "impl<P> A<P> {\n    fn get(&self) {}\n}\n";
        let told = found(&[("a.rs", &format!("{shown}{changes}"))]);
        assert_eq!(told, [("`A` changes itself and shows a field".to_owned(), 3)]);
        assert_eq!(found(&[("a.rs", &format!("{shown}{reads}"))]), []);
    }
}
