//! Documents that must keep up with the tree.

use std::collections::BTreeSet;

use crate::repo::{File, Violation};
use crate::rust_source::line_of;

const ARCHITECTURE: &str = "docs/develop/ARCHITECTURE.md";
const CHANGELOG: &str = "CHANGELOG.md";
const DECISIONS: &str = "docs/adr/";
/// The pages of the book.
const BOOK: &str = "docs/use/";

/// What the documents lack. `crates` are the short names of all crates.
pub fn check(files: &[File], crates: &[String]) -> Vec<Violation> {
    let text = |path: &str| files.iter().find(|file| file.path == path)?.text.as_deref();
    let mut found = check_architecture(text(ARCHITECTURE).unwrap_or_default(), crates);
    found.extend(check_changelog(text(CHANGELOG).unwrap_or_default()));
    let decisions = files.iter().filter(|file| file.path.starts_with(DECISIONS));
    let decisions =
        decisions.map(|f| (&f.path[DECISIONS.len()..], f.text.as_deref().unwrap_or_default()));
    found.extend(check_decisions(&decisions.collect::<Vec<_>>()));
    found.extend(check_links(files));
    let summary = text(&format!("{BOOK}SUMMARY.md")).unwrap_or_default();
    let pages = files.iter().filter_map(|file| Some((file, file.path.strip_prefix(BOOK)?)));
    let forgotten = |name: &str| !summary.contains(&format!("]({name})")) && name != "SUMMARY.md";
    let pages = pages.filter(|(_, name)| name.ends_with(".md") && forgotten(name));
    found.extend(
        pages.map(|(file, _)| Violation::new(&file.path, 0, "SUMMARY.md has no link here")),
    );
    found
}

/// Links of documents to a file or heading that does not exist, and links out of the book.
fn check_links(files: &[File]) -> Vec<Violation> {
    let document = |path: &str| {
        let document = path.ends_with(".md").then(|| files.iter().find(|file| file.path == path));
        document.flatten().and_then(|file| file.text.as_deref())
    };
    let mut found = Vec::new();
    for path in files.iter().map(|file| file.path.as_str()) {
        let Some(text) = document(path) else { continue };
        for (at, _) in text.match_indices("](") {
            let link = text[at + 2..].split([')', ' ']).next().unwrap_or_default();
            if link.contains("://") || link.starts_with("mailto:") || text[..at].ends_with('`') {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.to_owned() } else { beside(path, file) };
            let inside = format!("{}/", target.trim_end_matches('/'));
            let message =
                if !files.iter().any(|one| one.path == target || one.path.starts_with(&inside)) {
                    "does not exist"
                } else if path.starts_with(BOOK) && !target.starts_with(BOOK) {
                    "leads out of the book; name the file instead"
                } else if !heading.is_empty()
                    && !document(&target).is_some_and(|text| headings(text).contains(heading))
                {
                    "has no such heading"
                } else {
                    continue;
                };
            found.push(Violation::new(path, line_of(text, at), format!("`{link}` {message}")));
        }
    }
    found
}

/// The path that `link` names in the document `path`.
fn beside(path: &str, link: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The names that links use for the headings of a document.
fn headings(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let name = |line: &str| {
        let text = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        text.replace(|c: char| !c.is_alphanumeric() && c != '-' && c != '_', "")
    };
    headings.map(name).collect()
}

fn check_architecture(text: &str, crates: &[String]) -> Vec<Violation> {
    let missing = |name: &&String| !text.contains(&format!("`{name}`"));
    let missing = crates.iter().filter(missing);
    missing
        .map(|name| Violation::new(ARCHITECTURE, 0, format!("crate `{name}` is not described")))
        .collect()
}

fn check_changelog(text: &str) -> Vec<Violation> {
    if text.lines().any(|line| line.trim_end() == "## [Unreleased]") {
        return vec![];
    }
    vec![Violation::new(CHANGELOG, 0, "there is no section `## [Unreleased]`")]
}

/// Decisions, as file name and text in order of file name, have numbers of their own and the same parts. A number is
/// free where a decision was merged into another one.
fn check_decisions(decisions: &[(&str, &str)]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut last = "";
    for (name, text) in decisions {
        let path = format!("{DECISIONS}{name}");
        let number = name.get(..4).unwrap_or_default();
        let counts = number.bytes().all(|byte| byte.is_ascii_digit()) && number > last;
        if !counts || name.get(4..5) != Some("-") || !name.ends_with(".md") {
            let message = format!("the name must be NNNN-title.md, with a number above `{last}`");
            found.push(Violation::new(&path, 0, message));
        }
        last = number;
        if !text.starts_with(&format!("# {number}: ")) {
            let message = format!("the heading must be `# {number}: title`");
            found.push(Violation::new(&path, 1, message));
        }
        for part in ["Date: ", "## Context", "## Decision", "## Consequences"] {
            if !text.lines().any(|line| line.starts_with(part)) {
                found.push(Violation::new(&path, 0, format!("there is no `{}`", part.trim_end())));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECISION: &str = "\n\nDate: 2026-01-01\n\n## Context\n\n## Decision\n\n## Consequences\n";

    fn decision(number: &str) -> String {
        format!("# {number}: title{DECISION}")
    }

    #[test]
    fn a_crate_that_is_not_described_is_named() {
        let crates = ["ftl".to_owned(), "new".to_owned()];
        let found = check_architecture("| `ftl` | the core; nothing new |", &crates);
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("`new`"));
    }

    #[test]
    fn links_have_a_file_and_a_heading_and_stay_in_the_book() {
        let file = |(path, text): (&str, &str)| File {
            path: path.into(),
            size: 0,
            text: Some(text.into()),
        };
        let found = |page: &str, summary: &str| {
            let files = [
                ("docs/use/SUMMARY.md", summary),
                ("docs/use/A.md", page),
                ("docs/use/B.md", "## The `pool` is full\n"),
                ("docs/develop/C.md", "# c\n"),
            ];
            let found = check(&files.map(file), &[]);
            let found = found.into_iter().filter(|one| one.path.starts_with(BOOK));
            found.map(|one| one.message).collect::<Vec<_>>()
        };
        let summary = "[a](A.md) [b](B.md)";
        assert_eq!(found("[b](B.md#the-pool-is-full) [](https://a.b)", summary), [""; 0]);
        assert_eq!(found("[b](b.md)", summary), ["`b.md` does not exist"]);
        assert_eq!(found("[b](B.md#pool)", summary), ["`B.md#pool` has no such heading"]);
        let out = ["`../develop/C.md` leads out of the book; name the file instead"];
        assert_eq!(found("[c](../develop/C.md)", summary), out);
        assert_eq!(found("", "[a](A.md)"), ["SUMMARY.md has no link here"]);
    }

    #[test]
    fn the_changelog_has_an_unreleased_section() {
        assert!(check_changelog("# Changelog\n\n## [Unreleased]\n").is_empty());
        assert_eq!(check_changelog("# Changelog\n\n## [1.0.0]\n").len(), 1);
    }

    #[test]
    fn decisions_have_rising_numbers() {
        let (one, three) = (decision("0001"), decision("0003"));
        assert!(check_decisions(&[("0001-a.md", &one), ("0003-b.md", &three)]).is_empty());
        assert_eq!(check_decisions(&[("0001-a.md", &one), ("0001-b.md", &one)]).len(), 1);
        assert_eq!(check_decisions(&[("0001-a.md", &one), ("0004-b.md", &three)]).len(), 1);
        assert_eq!(check_decisions(&[("1-a.md", &one)]).len(), 2);
    }

    #[test]
    fn a_decision_has_every_part() {
        let text = decision("0001").replace("## Consequences", "## What follows");
        let found = check_decisions(&[("0001-a.md", &text)]);
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("Consequences"));
    }
}
