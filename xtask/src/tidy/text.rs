//! Words and places that do not belong in the tree.

use crate::repo::{File, Violation, built_folder};
use crate::rust_source::{line_of, words};

use super::is_foreign;

/// Unfinished work. Split, because the rule applies to the file itself.
const MARKERS: [&str; 3] = [concat!("FIX", "ME"), concat!("XX", "X"), concat!("TO", "DO")];

/// First parts of absolute paths that exist on one machine only.
const MACHINE_FOLDERS: [&str; 6] = ["home", "root", "tmp", "Users", "work", "workspace"];

/// What does not belong in `file`, or the file itself.
pub fn check(file: &File) -> Vec<Violation> {
    if let Some(folder) = built_folder(&file.path) {
        let message = format!("`{folder}` is made by tools; ignore it in .gitignore");
        return vec![Violation::new(&file.path, 0, message)];
    }
    let Some(text) = file.text.as_deref().filter(|_| !is_foreign(&file.path)) else {
        return vec![];
    };
    let mut found = Vec::new();
    let mut report = |at: usize, message: String| {
        found.push(Violation::new(&file.path, line_of(text, at), message));
    };
    for marker in MARKERS {
        for at in words(text, marker) {
            report(at, format!("`{marker}`: finish it, or file an issue"));
        }
    }
    for folder in MACHINE_FOLDERS {
        let path = format!("/{folder}/");
        for (at, _) in text.match_indices(&path).filter(|&(at, _)| starts_a_path(text, at)) {
            report(at, format!("`{path}...` exists on one machine only"));
        }
    }
    found
}

/// Whether the slash at `at` is the first of a path, not one inside a longer path or an address.
fn starts_a_path(text: &str, at: usize) -> bool {
    let before = text[..at].chars().next_back();
    !before.is_some_and(|c| c.is_alphanumeric() || "._-~/}>)*".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        let file = File { path: path.into(), size: 0, text: Some(text.into()) };
        check(&file).into_iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn unfinished_work_is_found_in_any_text() {
        assert_eq!(found("a.md", &format!("x\n{}: y", MARKERS[0])), [2]);
        assert_eq!(found("a.rs", &format!("// {} later", MARKERS[2])), [1]);
        assert!(found("a.rs", "// a METHODOLOGY").is_empty());
    }

    #[test]
    fn paths_of_one_machine_are_found_and_other_paths_are_not() {
        for folder in MACHINE_FOLDERS {
            assert_eq!(found("a.md", &format!("see\n`/{folder}/x`")), [2], "{folder}");
        }
        for text in
            ["https://example.org/home/x", "crates/work/x", "../tmp/x", "$HOME/tmp/y", "/dev/sda"]
        {
            assert!(found("a.md", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn what_tools_make_is_not_committed() {
        assert_eq!(found("crates/x/target/criterion/a.json", ""), [0]);
        assert!(found("crates/target.rs", "").is_empty());
    }
}
