//! Pure crates do no I/O, read no clock, start no thread and ask the system for no randomness, so that equal
//! input gives equal output on every machine. Their tests may.

use anyhow::Result;

use crate::repo::{File, Repo, Violation};
use crate::rust_source::{code_only, line_of, without_tests, words};

const PURE: [&str; 6] = ["types", "ftl", "format", "engine", "array", "nand"];

/// Modules of the standard library that reach outside the program.
const MODULES: [&str; 7] = ["env", "fs", "io", "net", "os", "process", "thread"];

/// Names that reach outside the program, from any library. The standard hash maps are seeded by the system, and iterate
/// in an order that differs between runs.
const NAMES: [&str; 13] = [
    "Condvar",
    "HashMap",
    "HashSet",
    "Instant",
    "Mutex",
    "OnceLock",
    "RwLock",
    "SystemTime",
    "UNIX_EPOCH",
    "eprintln",
    "println",
    "print",
    "thread_rng",
];

/// Every use of something impure in a pure crate.
///
/// # Errors
/// When the files cannot be read.
pub fn check(repo: &Repo) -> Result<Vec<Violation>> {
    Ok(repo.files()?.iter().filter(|file| must_be_pure(&file.path)).flat_map(check_file).collect())
}

fn must_be_pure(path: &str) -> bool {
    let is_test = path.ends_with("/tests.rs") || path.contains("/tests/");
    let in_pure = PURE.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")));
    in_pure && path.ends_with(".rs") && !is_test
}

fn check_file(file: &File) -> Vec<Violation> {
    let code = without_tests(&code_only(file.text.as_deref().unwrap_or_default()));
    let names = NAMES.iter().flat_map(|name| words(&code, name).map(|at| (at, (*name).to_owned())));
    let modules = std_modules(&code)
        .into_iter()
        .filter(|(_, module)| MODULES.contains(&module.as_str()))
        .map(|(at, module)| (at, format!("std::{module}")));
    let mut found: Vec<(usize, String)> = names.chain(modules).collect();
    found.sort_unstable();
    found
        .into_iter()
        .map(|(at, name)| {
            let message = format!("`{name}` has no place in a pure crate");
            Violation::new(&file.path, line_of(&code, at), message)
        })
        .collect()
}

/// Every module of `std` that a path or a group of imports names.
fn std_modules(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for at in words(code, "std") {
        let rest = code[at + 3..].trim_start();
        let Some(path) = rest.strip_prefix("::").map(str::trim_start) else { continue };
        match path.strip_prefix('{') {
            None => found.push((at, first_word(path))),
            Some(group) => found.extend(group_heads(group).map(|head| (at, first_word(head)))),
        }
    }
    found
}

/// The items of an import group, without what they contain.
fn group_heads(group: &str) -> impl Iterator<Item = &str> {
    let mut depth = 1;
    let mut end = group.len();
    let mut commas = Vec::new();
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => commas.push(at + 1),
            _ => {}
        }
        if depth == 0 {
            end = at;
            break;
        }
    }
    std::iter::once(0).chain(commas).map(move |at| group[at..end].trim_start())
}

fn first_word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<(usize, String)> {
        let file = File { path: "crates/ftl/src/x.rs".into(), size: 0, text: Some(source.into()) };
        check_file(&file)
            .into_iter()
            .map(|violation| {
                let name = violation.message.split('`').nth(1).unwrap().to_owned();
                (violation.line, name)
            })
            .collect()
    }

    #[test]
    fn a_clock_a_file_and_a_lock_are_found_where_they_stand() {
        assert_eq!(
            found("fn f() {\n    let t = std::time::Instant::now();\n}"),
            [(2, "Instant".into())]
        );
        assert_eq!(found("use std::fs::File;"), [(1, "std::fs".into())]);
        assert_eq!(found("struct S { m: Mutex<u8> }"), [(1, "Mutex".into())]);
    }

    #[test]
    fn groups_of_imports_hide_nothing() {
        let source = "use std::{\n    collections::{BTreeMap, VecDeque}, fmt,\n    thread::{self, sleep}, env,\n};";
        assert_eq!(found(source), [(1, "std::env".into()), (1, "std::thread".into())]);
    }

    #[test]
    fn comments_strings_tests_and_longer_words_do_not_count() {
        let source = "// std::fs\nfn f(m: FxHashMap<u8, u8>) { g(\"std::env\") }\n#[cfg(test)]\nmod tests { use std::fs; }\n";
        assert!(found(source).is_empty());
    }

    #[test]
    fn only_the_sources_of_pure_crates_are_looked_at() {
        assert!(must_be_pure("crates/nand/src/profile/mod.rs"));
        for path in
            ["crates/lab/src/lib.rs", "crates/ftl/src/ftl/tests.rs", "crates/ftl/benches/b.rs"]
        {
            assert!(!must_be_pure(path), "{path}");
        }
    }
}
