//! Documents that must keep up with the tree.

use crate::repo::{File, Violation};

const ARCHITECTURE: &str = "docs/develop/ARCHITECTURE.md";
const CHANGELOG: &str = "CHANGELOG.md";
const DECISIONS: &str = "docs/adr/";

/// What the documents lack. `crates` are the short names of all crates.
pub fn check(files: &[File], crates: &[String]) -> Vec<Violation> {
    let text = |path: &str| files.iter().find(|file| file.path == path)?.text.as_deref();
    let mut found = check_architecture(text(ARCHITECTURE).unwrap_or_default(), crates);
    found.extend(check_changelog(text(CHANGELOG).unwrap_or_default()));
    let decisions = files.iter().filter(|file| file.path.starts_with(DECISIONS));
    let decisions =
        decisions.map(|f| (&f.path[DECISIONS.len()..], f.text.as_deref().unwrap_or_default()));
    found.extend(check_decisions(&decisions.collect::<Vec<_>>()));
    found
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
