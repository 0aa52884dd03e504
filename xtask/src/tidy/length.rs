//! Lines, functions and files that are too long, and files that are too large.

use crate::repo::{File, Violation};
use crate::rust_source::{Function, code_only, functions, without_literals};

use super::is_foreign;

/// Characters in a line.
const LINE: usize = 120;
/// Lines in a function, its signature included.
const FUNCTION: usize = 70;
/// Functions that are longer, by file and name, and the lines they may have. Entries only shrink and go.
const RATCHET: [(&str, &str, usize); 1] = [
    // A table of samples, which reads better in one piece.
    ("crates/workload/tests/it/samples.rs", "linux", 113),
];
/// Lines in a Rust file.
const FILE: usize = 700;
/// Bytes in any file.
const BLOB: u64 = 2 << 20;

/// What is too long about `file`.
pub fn check(file: &File) -> Vec<Violation> {
    let mut found = Vec::new();
    if file.size > BLOB {
        let message = format!("{} bytes; at most {BLOB} belong in the repository", file.size);
        found.push(Violation::new(&file.path, 0, message));
    }
    let Some(text) = file.text.as_deref().filter(|_| !is_foreign(&file.path)) else { return found };
    found.extend(check_lines(file, text));
    if file.is_rust() {
        let lines = text.lines().count();
        if lines > FILE {
            let message = format!("file of {lines} lines; {FILE} at most");
            found.push(Violation::new(&file.path, 0, message));
        }
        found.extend(check_functions(&file.path, &functions(&code_only(text)), &RATCHET));
    }
    found
}

fn check_functions(
    path: &str,
    functions: &[Function],
    ratchet: &[(&str, &str, usize)],
) -> Vec<Violation> {
    let mut found = Vec::new();
    for Function { name, line, lines } in functions {
        let entry = ratchet.iter().find(|(file, function, _)| file == &path && function == name);
        let limit = entry.map_or(FUNCTION, |(_, _, limit)| *limit);
        if *lines > limit {
            let message = format!("`{name}` has {lines} lines; {limit} at most");
            found.push(Violation::new(path, *line, message));
        }
        if entry.is_some() && *lines < limit {
            let message = format!(
                "`{name}` has {lines} lines now; lower or remove its entry in xtask's ratchet"
            );
            found.push(Violation::new(path, *line, message));
        }
    }
    found
}

/// Files whose lines are for reading, by the end of their names.
const READ: [&str; 6] = [".rs", ".md", ".toml", ".js", ".sh", "run"];

/// Tables, addresses and string literals cannot be broken over lines.
fn check_lines(file: &File, text: &str) -> Vec<Violation> {
    if !READ.iter().any(|end| file.path.ends_with(end)) {
        return vec![];
    }
    let markdown = file.path.ends_with(".md");
    let plain = if file.is_rust() { without_literals(text) } else { text.to_owned() };
    let breakable = |line: &str, plain: &str| {
        let table = markdown && line.trim_start().starts_with('|');
        let literal = line != plain || (!markdown && !file.is_rust() && line.contains('"'));
        !table && !literal && !line.contains("https://")
    };
    text.lines()
        .zip(plain.lines())
        .enumerate()
        .filter(|(_, (line, plain))| line.chars().count() > LINE && breakable(line, plain))
        .map(|(index, (line, _))| {
            let message = format!("line of {} characters; {LINE} at most", line.chars().count());
            Violation::new(&file.path, index + 1, message)
        })
        .collect()
}

/// The longest file and function, in words.
pub fn longest(files: &[File]) -> String {
    let rust =
        || files.iter().filter(|file| file.is_rust()).filter_map(|f| Some((f, f.text.as_ref()?)));
    let file = rust().map(|(file, text)| (text.lines().count(), &file.path)).max();
    let function = rust()
        .flat_map(|(file, text)| {
            functions(&code_only(text)).into_iter().map(move |f| (f.lines, f.name, &file.path))
        })
        .max();
    match (file, function) {
        (Some((lines, path)), Some((body, name, at))) => format!(
            "longest file {path} ({lines} of {FILE} lines), longest function `{name}` in {at} ({body} of {FUNCTION})"
        ),
        _ => "no Rust files".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: String) -> File {
        File { path: path.into(), size: text.len() as u64, text: Some(text) }
    }

    #[test]
    fn a_line_may_have_120_characters_and_not_121() {
        let found = check(&file("a.rs", format!("{}\n{}\n", "é".repeat(120), "é".repeat(121))));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].line, 2);
    }

    #[test]
    fn what_cannot_be_broken_and_foreign_files_may_have_long_lines() {
        let long = "x".repeat(130);
        assert!(check(&file("a.rs", format!("let x = \"{long}\";\n"))).is_empty());
        assert!(check(&file("a.rs", format!("let x = r\"\n{long}\n\";\n"))).is_empty());
        assert_eq!(check(&file("a.rs", format!("// \"{long}\"\n"))).len(), 1);
        assert!(check(&file("a.md", format!("| {long} |\n"))).is_empty());
        assert!(check(&file("a.md", format!("https://{long}\n"))).is_empty());
        assert!(check(&file("a.min.js", long.clone())).is_empty());
        assert_eq!(check(&file("a.rs", format!("| {long}\n"))).len(), 1);
    }

    #[test]
    fn a_function_may_have_70_lines_and_not_71() {
        let function = |lines: usize| format!("fn f() {{\n{}}}\n", "x;\n".repeat(lines - 2));
        assert!(check(&file("a.rs", function(70))).is_empty());
        assert_eq!(check(&file("a.rs", function(71))).len(), 1);
    }

    #[test]
    fn the_ratchet_lets_a_function_shrink_and_not_grow() {
        let measured = |lines| [Function { name: "f".into(), line: 1, lines }];
        let ratchet = [("a.rs", "f", 80)];
        assert!(check_functions("a.rs", &measured(80), &ratchet).is_empty());
        for lines in [79, 81] {
            assert_eq!(check_functions("a.rs", &measured(lines), &ratchet).len(), 1, "{lines}");
        }
        assert_eq!(check_functions("b.rs", &measured(80), &ratchet).len(), 1);
    }

    #[test]
    fn a_file_may_have_700_lines_and_2_mib() {
        assert!(check(&file("a.rs", "\n".repeat(700))).is_empty());
        assert_eq!(check(&file("a.rs", "\n".repeat(701))).len(), 1);
        let blob = |size| File { path: "a.gz".into(), size, text: None };
        assert!(check(&blob(2 << 20)).is_empty());
        assert_eq!(check(&blob((2 << 20) + 1)).len(), 1);
    }

    #[test]
    fn the_longest_are_named() {
        let files = [file("a.rs", "fn f() {}\n".into()), file("b.rs", "fn g() {\n}\n\n".into())];
        let text = longest(&files);
        assert!(text.contains("b.rs (3 of") && text.contains("`g` in b.rs (2 of"), "{text}");
    }
}
