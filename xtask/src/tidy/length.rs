//! Lines and files that are too long, and files that are too large.

use crate::repo::{File, Violation};

use super::is_foreign;

/// Characters in a line.
const LINE: usize = 120;
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
    }
    found
}

/// Files whose lines are for reading, by the end of their names.
const READ: [&str; 6] = [".rs", ".md", ".toml", ".js", ".sh", "run"];

/// Tables and addresses cannot be broken over lines. Of Rust, `rustfmt` breaks all but comments.
fn check_lines(file: &File, text: &str) -> Vec<Violation> {
    if !READ.iter().any(|end| file.path.ends_with(end)) {
        return vec![];
    }
    let breakable = |line: &str| {
        let start = line.trim_start();
        let kept = match () {
            () if file.is_rust() => !start.starts_with("//"),
            () if file.path.ends_with(".md") => start.starts_with('|'),
            () => line.contains('"'),
        };
        !kept && !line.contains("https://")
    };
    text.lines()
        .enumerate()
        .filter(|(_, line)| line.chars().count() > LINE && breakable(line))
        .map(|(index, line)| {
            let message = format!("line of {} characters; {LINE} at most", line.chars().count());
            Violation::new(&file.path, index + 1, message)
        })
        .collect()
}

/// The longest file, in words.
pub fn longest(files: &[File]) -> String {
    let rust = files.iter().filter(|file| file.is_rust());
    let lines = rust.filter_map(|file| Some((file.text.as_ref()?.lines().count(), &file.path)));
    lines.max().map_or_else(
        || "no Rust files".to_owned(),
        |(lines, path)| format!("longest file {path} ({lines} of {FILE} lines)"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: String) -> File {
        File { path: path.into(), size: text.len() as u64, text: Some(text) }
    }

    #[test]
    fn a_line_may_have_120_characters_and_not_121() {
        let found = check(&file("a.md", format!("{}\n{}\n", "é".repeat(120), "é".repeat(121))));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].line, 2);
    }

    #[test]
    fn what_cannot_be_broken_and_foreign_files_may_have_long_lines() {
        let long = "x".repeat(130);
        assert!(check(&file("a.rs", format!("let x = \"{long}\";\n"))).is_empty());
        assert_eq!(check(&file("a.rs", format!("// \"{long}\"\n"))).len(), 1);
        assert!(check(&file("a.md", format!("| {long} |\n"))).is_empty());
        assert!(check(&file("a.md", format!("https://{long}\n"))).is_empty());
        assert!(check(&file("a.min.js", long.clone())).is_empty());
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
    fn the_longest_file_is_named() {
        let files = [file("a.rs", "a\n".into()), file("b.rs", "b\nc\n".into())];
        assert_eq!(longest(&files), format!("longest file b.rs (2 of {FILE} lines)"));
    }
}
