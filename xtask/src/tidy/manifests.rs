//! What every crate's manifest must say.

use toml::Value;

use crate::repo::{Manifest, Violation};

/// Keys of `[package]` that all crates share.
const INHERITED: [&str; 5] = ["edition", "license", "publish", "rust-version", "version"];

/// What `manifest` lacks.
pub fn check(manifest: &Manifest) -> Vec<Violation> {
    let package = manifest.table.get("package");
    let inherits = |value: Option<&Value>| {
        value.and_then(|value| value.get("workspace")?.as_bool()).unwrap_or(false)
    };
    let mut missing: Vec<String> = INHERITED
        .iter()
        .filter(|key| !inherits(package.and_then(|package| package.get(**key))))
        .map(|key| format!("`{key}.workspace = true` under [package]"))
        .collect();
    if !inherits(manifest.table.get("lints")) {
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
        let table = text.parse().unwrap();
        check(&Manifest { path: "crates/a/Cargo.toml".into(), table }).len()
    }

    #[test]
    fn a_crate_inherits_lints_and_edition_and_says_what_it_is() {
        assert_eq!(found(GOOD), 0);
        assert_eq!(found(&GOOD.replace("[lints]\nworkspace = true\n", "")), 1);
        assert_eq!(found(&GOOD.replace("edition.workspace = true", "edition = '2021'")), 1);
        assert_eq!(found(&GOOD.replace("description = 'b'\n", "")), 1);
    }
}
