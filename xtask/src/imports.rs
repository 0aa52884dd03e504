//! Who may import whom.
//!
//! Imports go one way only, so that a simulated drive can host any layer, the report can be made from a record of any
//! origin, and pure crates stay pure. `docs/develop/ARCHITECTURE.md` says the same in words.

use anyhow::Result;

use crate::repo::{Manifest, Repo, Violation};

/// Each crate, the crates of this workspace that it may import, and the crates from elsewhere: a full list, or `*` for
/// all but [`BINARIES_ONLY`].
const RULES: [(&str, &str, &str); 26] = [
    ("types", "", "rand rand_xoshiro strsim thiserror"),
    ("ftl", "types", "prefetch-index"),
    ("format", "types", "crc-fast lz4_flex thiserror zerocopy"),
    ("engine", "types ftl format", "prefetch-index rustc-hash slab thiserror"),
    ("array", "types format", "slab thiserror"),
    ("nand", "types ftl", "rustc-hash serde serde_path_to_error thiserror toml"),
    ("record", "", "serde serde_json thiserror"),
    ("drive", "", "rustix serde serde_json thiserror"),
    ("report", "record", "*"),
    ("workload", "types", "*"),
    ("sim", "types ftl format engine array nand workload", "*"),
    ("target", "types", "*"),
    ("nbd", "types target", "*"),
    ("fuse", "types target", "*"),
    ("ublk", "types target", "*"),
    ("vhost", "types target", "*"),
    ("nvme", "types target", "*"),
    ("runtime", "types ftl format engine array nand target", "*"),
    (
        "serve",
        "types record drive ftl format engine nand workload target runtime nbd fuse ublk vhost nvme",
        "flate2 http-body-util hyper hyper-util listenfd rustix serde serde_json serde_path_to_error \
         thiserror tokio tracing zstd",
    ),
    ("lab", "types record ftl format engine array nand workload", "*"),
    ("thermocline", "types record format engine workload lab target runtime serve", ""),
    ("capi", "thermocline", ""),
    ("py", "thermocline report", "pyo3 serde_json"),
    (
        "cli",
        "types record drive ftl format engine array nand workload lab report target runtime serve sim nbd ublk",
        "*",
    ),
    ("shell", "types ftl format engine target runtime nbd sim", "*"),
    ("xtask", "", "*"),
];

/// What tests and benches of any crate may draw their loads from. The crate depends on no crate that uses it.
const DRAWN_FROM: &str = "workload";

/// Libraries must leave their errors and arguments typed, and must not choose a runtime for callers. `serve` has a
/// private runtime on its own threads.
const BINARIES_ONLY: [&str; 3] = ["anyhow", "clap", "tokio"];
const BINARIES: [&str; 2] = ["cli", "xtask"];

/// Every dependency that a crate must not have.
///
/// # Errors
/// When a manifest cannot be read.
pub fn check(repo: &Repo) -> Result<Vec<Violation>> {
    Ok(repo.manifests()?.iter().flat_map(check_manifest).collect())
}

fn check_manifest(manifest: &Manifest) -> Vec<Violation> {
    let name = manifest.short_name();
    let Some((_, ours, theirs)) = RULES.iter().find(|rule| rule.0 == name) else {
        let message = format!("`{name}` has no import rule; state one in xtask/src/imports.rs");
        return vec![Violation::new(&manifest.path, 0, message)];
    };
    let has = |list: &str, name: &str| list.split(' ').any(|one| one == name);
    let forbidden = |dependency: &Dependency| {
        // The library for other programs has the name without more.
        let called = dependency.name;
        let library = (called == "thermocline").then_some(called);
        if let Some(our) = called.strip_prefix("thermocline-").or(library) {
            return !(has(ours, our) || dependency.for_tests && our == DRAWN_FROM);
        }
        let free = BINARIES.contains(&name) || !BINARIES_ONLY.contains(&called);
        !(dependency.for_tests || has(theirs, called) || *theirs == "*" && free)
    };
    dependencies(&manifest.table)
        .into_iter()
        .filter(forbidden)
        .map(|dependency| {
            let message = format!("`{name}` must not import `{}`", dependency.name);
            Violation::new(&manifest.path, 0, message)
        })
        .collect()
}

struct Dependency<'a> {
    name: &'a str,
    for_tests: bool,
}

/// All dependencies, those of single platforms included.
fn dependencies(manifest: &toml::Table) -> Vec<Dependency<'_>> {
    let platforms = manifest.get("target").and_then(toml::Value::as_table);
    let platforms =
        platforms.into_iter().flat_map(|all| all.values().filter_map(|one| one.as_table()));
    let mut found = Vec::new();
    for table in std::iter::once(manifest).chain(platforms) {
        for (key, for_tests) in
            [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
        {
            let listed = table.get(key).and_then(toml::Value::as_table);
            for (name, value) in listed.into_iter().flatten() {
                let renamed = value.get("package").and_then(toml::Value::as_str);
                found.push(Dependency { name: renamed.unwrap_or(name), for_tests });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(name: &str, text: &str) -> Vec<String> {
        let path = format!("crates/{name}/Cargo.toml");
        let manifest = Manifest { path, table: text.parse().unwrap() };
        check_manifest(&manifest).into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn imports_go_down_only() {
        assert!(messages("nand", "[dependencies]\nthermocline-ftl = '1'\n").is_empty());
        let up = messages("ftl", "[dependencies]\nthermocline-nand = '1'\n");
        assert_eq!(up, ["`ftl` must not import `thermocline-nand`"]);
    }

    #[test]
    fn tests_may_use_other_peoples_crates_but_not_import_upwards() {
        assert!(messages("ftl", "[dev-dependencies]\nproptest = '1'\n").is_empty());
        assert_eq!(messages("ftl", "[dev-dependencies]\nthermocline-lab = '1'\n").len(), 1);
    }

    #[test]
    fn pure_crates_take_nothing_that_is_not_listed() {
        let found = messages("ftl", "[dependencies]\nserde = '1'\n");
        assert_eq!(found, ["`ftl` must not import `serde`"]);
        let found = messages("ftl", "[target.'cfg(unix)'.dependencies]\nlibc = '1'\n");
        assert_eq!(found, ["`ftl` must not import `libc`"]);
    }

    #[test]
    fn a_renamed_dependency_counts_under_its_own_name() {
        let text = "[dependencies]\nok = { package = 'anyhow', version = '1' }\n";
        assert_eq!(messages("lab", text), ["`lab` must not import `anyhow`"]);
        assert!(messages("cli", text).is_empty());
    }

    #[test]
    fn a_crate_without_a_rule_is_reported() {
        assert_eq!(messages("new", "").len(), 1);
    }
}
