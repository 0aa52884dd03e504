//! What every crate's manifest must say.

use toml::Value;

use crate::repo::{Manifest, Violation};

/// Keys of `[package]` that all crates share.
const INHERITED: [&str; 5] = ["edition", "license", "publish", "rust-version", "version"];

/// Unpublished crates.
const NOT_PUBLISHED: [&str; 4] = ["py", "shell", "sim", "xtask"];

/// Crates that may use `unsafe`. Each states its own lints: a crate cannot undo the workspace's `forbid`.
const OWN_LINTS: [&str; 4] = ["capi", "drive", "runtime", "ublk"];

/// What lints of a crate's own must deny: what keeps documentation whole and each `unsafe` block explained.
const OWN_DENIED: [(&str, &str); 2] =
    [("rust", "missing_docs"), ("clippy", "undocumented_unsafe_blocks")];

/// What `manifest` lacks.
pub fn check(manifest: &Manifest) -> Vec<Violation> {
    let package = manifest.table.get("package");
    let inherits = |value: Option<&Value>| {
        value.and_then(|value| value.get("workspace")?.as_bool()).unwrap_or(false)
    };
    let mut missing: Vec<String> = INHERITED
        .iter()
        .filter(|key| !(**key == "publish" && NOT_PUBLISHED.contains(&manifest.short_name())))
        .filter(|key| !inherits(package.and_then(|package| package.get(**key))))
        .map(|key| format!("`{key}.workspace = true` under [package]"))
        .collect();
    let lints = manifest.table.get("lints");
    if !(inherits(lints) || OWN_LINTS.contains(&manifest.short_name()) && denies(lints)) {
        missing.push("`workspace = true` under [lints]".to_owned());
    }
    if !package.is_some_and(|package| package.get("description").is_some_and(Value::is_str)) {
        missing.push("a `description`".to_owned());
    }
    missing
        .into_iter()
        .map(|what| Violation::new(&manifest.path, 0, format!("there is no {what}")))
        .collect()
}

/// Whether lints of a crate's own have what they must.
fn denies(lints: Option<&Value>) -> bool {
    OWN_DENIED.iter().all(|(tool, lint)| {
        let level = lints.and_then(|lints| lints.get(tool)?.get(lint)?.as_str());
        level == Some("deny")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]
name = 'a'
description = 'b'
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
publish.workspace = true
[lints]
workspace = true
";

    fn found(text: &str) -> usize {
        found_in("a", text)
    }

    fn found_in(name: &str, text: &str) -> usize {
        let table = text.parse().unwrap();
        check(&Manifest { path: format!("crates/{name}/Cargo.toml"), table }).len()
    }

    #[test]
    fn a_crate_inherits_lints_and_edition_and_says_what_it_is() {
        assert_eq!(found(GOOD), 0);
        assert_eq!(found(&GOOD.replace("[lints]\nworkspace = true\n", "")), 1);
        assert_eq!(found(&GOOD.replace("edition.workspace = true", "edition = '2021'")), 1);
        assert_eq!(found(&GOOD.replace("description = 'b'\n", "")), 1);
    }

    #[test]
    fn lints_of_its_own_are_for_few_and_must_deny_what_matters() {
        let own = "[lints.rust]
missing_docs = 'deny'
[lints.clippy]
undocumented_unsafe_blocks = 'deny'
";
        let text = GOOD.replace("[lints]\nworkspace = true\n", own);
        assert_eq!((found_in("runtime", &text), found_in("a", &text)), (0, 1));
        let weaker = text.replace("undocumented_unsafe_blocks = 'deny'", "todo = 'deny'");
        assert_eq!(found_in("runtime", &weaker), 1);
    }
}
