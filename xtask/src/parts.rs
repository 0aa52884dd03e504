//! The parts of the engine own their state: none knows the engine, none is in a circle with others, and what changes
//! itself shows no field.
//!
//! The engine lends its parts to jobs as one value, [`LENT`]. A job owns the rest of its state and knows nothing of the
//! engine. Files with methods of one type call each other in no circle: this holds for each job and for the engine.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::repo::{File, Repo, Violation};
use crate::rust_source::{code_only, line_of, words};

const ENGINE: &str = "crates/engine/src/";

/// Types that change themselves and show fields all the same: the attributes of a volume are plain values beside its
/// map, and whoever is lent the parts may use each of them.
const SHOWN: [&str; 2] = ["VolumeMap", LENT];

/// The value by which the engine lends its parts.
const LENT: &str = "Parts";

/// What is named in no file of the engine but in those that route and answer questions.
const OWNER: &str = "Engine";

/// The files that hold the engine, route what comes in to jobs, and answer questions.
const ROUTES: [&str; 3] = ["engine.rs", "engine/routes.rs", "engine/queries.rs"];

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
        let code = code_only(file.text.as_deref().unwrap_or_default());
        found.extend(shown_fields(file, &code));
        if is_job(&file.path) {
            found.extend(words(&code, OWNER).map(|at| {
                let message = "a job knows nothing of the engine that routes to it";
                Violation::new(&file.path, line_of(&code, at), message)
            }));
        }
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
    let message = "these parts use each other in a circle";
    found.extend(circle(&uses, message));
    for subject in subjects(files) {
        let message = format!("these files call methods of `{subject}` in a circle");
        found.extend(circle(&calls(files, &subject), &message));
    }
    found
}

/// Whether a file of the engine's own folder is about a job, or about what several need.
fn is_job(path: &str) -> bool {
    let rest = path.strip_prefix(ENGINE).unwrap_or_default();
    rest.starts_with("engine") && !ROUTES.contains(&rest)
}

/// The types of which files in the engine's own folder have methods.
fn subjects(files: &[File]) -> BTreeSet<String> {
    let own = |file: &&File| file.is_rust() && file.path.starts_with(&format!("{ENGINE}engine"));
    let mut found = BTreeSet::new();
    for file in files.iter().filter(own) {
        let code = code_only(file.text.as_deref().unwrap_or_default());
        found.extend(words(&code, "impl").map(|at| subject_of(&code[at..]).to_owned()));
    }
    found
}

/// Of each file with methods of `subject`, the other files of which it calls methods of that type.
fn calls<'a>(files: &'a [File], subject: &str) -> BTreeMap<&'a str, BTreeSet<String>> {
    let mut homes: BTreeMap<String, &str> = BTreeMap::new();
    let mut bodies: Vec<(&str, String)> = Vec::new();
    for file in files.iter().filter(|file| file.path.starts_with(ENGINE) && file.is_rust()) {
        let code = code_only(file.text.as_deref().unwrap_or_default());
        for body in bodies_of(&code, subject) {
            for at in words(body, "fn") {
                homes.insert(name_at(&body[at + "fn".len()..]).to_owned(), &file.path);
            }
            bodies.push((&file.path, body.to_owned()));
        }
    }
    let mut uses: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (path, body) in &bodies {
        for at in words(body, "self") {
            let rest = body[at + "self".len()..].trim_start();
            let Some(name) = rest.strip_prefix('.').map(name_at) else { continue };
            let is_call = rest[1..].trim_start()[name.len()..].starts_with('(');
            match homes.get(name).filter(|_| is_call) {
                Some(home) if home != path => {
                    uses.entry(path).or_default().insert((*home).to_owned());
                }
                _ => {}
            }
        }
    }
    uses
}

/// What is between the braces of each block of methods of `subject`.
fn bodies_of<'a>(code: &'a str, subject: &str) -> Vec<&'a str> {
    let body = |at: usize| {
        let open = code[at..].find('{').map(|open| at + open)?;
        let end = code[open..].find("\n}").map_or(code.len(), |end| open + end);
        let head = &code[at..open];
        (subject_of(head) == subject && !head.contains(" for ")).then_some(&code[open..end])
    };
    words(code, "impl").filter_map(body).collect()
}

/// The type that a head `impl<..> Type<..>` is about.
fn subject_of(head: &str) -> &str {
    let head = head["impl".len()..].trim_start();
    let subject = head
        .strip_prefix('<')
        .map_or(head, |rest| rest.split_once('>').map_or(rest, |(_, rest)| rest));
    name_at(subject)
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

/// A violation if parts, or files, use each other in a circle.
fn circle(uses: &BTreeMap<&str, BTreeSet<String>>, message: &str) -> Option<Violation> {
    let mut left: BTreeSet<&str> = uses.keys().copied().collect();
    loop {
        let free = |part: &&str| uses[*part].iter().all(|other| !left.contains(other.as_str()));
        let Some(part) = left.iter().copied().find(free) else { break };
        left.remove(part);
    }
    let names: Vec<&str> = left.into_iter().collect();
    let message = || format!("{message}: {}", names.join(", "));
    (!names.is_empty()).then(|| Violation::new(ENGINE, 0, message()))
}

/// Visible fields of types with `&mut self` methods.
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
            let head = &code[at..open];
            if !head.contains(" for ") {
                found.insert(subject_of(head));
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
        for path in ROUTES {
            assert_eq!(found(&[(path, "use crate::engine::Engine;\n")]), []);
        }
        let told = found(&[("engine/scrub/pace.rs", "use crate::engine::Engine;\n")]);
        assert_eq!(told, [("a job knows nothing of the engine that routes to it".to_owned(), 1)]);
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
    fn files_that_call_methods_of_one_type_in_a_circle_are_named() {
        let of = |file: &'static str, text: &str| {
            (file, format!("impl<P: Payload> Parts<P> {{\n    {text}\n}}\n"))
        };
        let up = of("engine/up.rs", "fn up(&self) {\n        self.down();\n    }");
        let down = of("engine/down.rs", "fn down(&self) {}");
        let back =
            of("engine/down.rs", "fn down(&self) {\n        self\n            .up();\n    }");
        let told = |files: &[&(&'static str, String)]| {
            let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (*a, b.as_str())).collect();
            found(&files)
        };
        assert_eq!(told(&[&up, &down]), []);
        let circle = told(&[&up, &back]);
        assert_eq!(circle.len(), 1);
        assert!(
            circle[0].0.ends_with("engine/down.rs, crates/engine/src/engine/up.rs"),
            "{circle:?}"
        );
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
