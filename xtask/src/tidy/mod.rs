//! House rules without another tool to check them. Limits only ever go down: lower a limit as soon as the tree permits.

mod documents;
mod length;
mod manifests;
mod names;
mod plain;
mod text;
mod words;

use anyhow::Result;

use crate::repo::{File, Repo, Violation};

/// Everything that breaks a house rule.
///
/// # Errors
/// When a manifest cannot be read.
pub fn check(repo: &Repo, files: &[File]) -> Result<Vec<Violation>> {
    let mut violations: Vec<Violation> =
        files.iter().flat_map(|file| [length::check(file), text::check(file)].concat()).collect();
    let manifests = repo.manifests()?;
    violations.extend(manifests.iter().flat_map(manifests::check));
    let crates: Vec<String> =
        manifests.iter().map(|manifest| manifest.short_name().to_owned()).collect();
    violations.extend(names::check(files));
    violations.extend(words::check(files));
    violations.extend(plain::check(files));
    violations.extend(documents::check(files, &crates));
    Ok(violations)
}

/// The longest file, in words.
pub fn longest(files: &[File]) -> String {
    length::longest(files)
}

/// Files made by others, or by tools: only their size is our business.
fn is_foreign(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("LICENSE")
        || name.starts_with("NOTICE")
        || name.ends_with(".min.js")
        || name == "Cargo.lock"
        || name == "package-lock.json"
}
