//! Fuzz targets, each for a while. They are workspaces of their own, since they need a nightly compiler to run.

use std::path::Path;

use anyhow::{Context, Result};

use crate::repo::Repo;
use crate::step::{cargo_with, run_program};

/// Packages with fuzz targets.
const FUZZED: [&str; 6] = ["engine", "format", "nbd", "runtime", "sim", "workload"];

/// Any compiler can check the targets.
///
/// # Errors
/// When one does not compile.
pub fn check(repo: &Repo) -> Result<()> {
    let target = repo.root().join("target/fuzz");
    let target = [("CARGO_TARGET_DIR", &*target.to_string_lossy())];
    for package in FUZZED {
        let manifest = format!("crates/{package}/fuzz/Cargo.toml");
        let check = ["check", "--quiet", "--locked", "--manifest-path", &manifest];
        cargo_with(repo, "fuzz targets", &check, &target)?;
    }
    Ok(())
}

/// Runs every target, or those whose name contains `name`, for so many seconds.
///
/// # Errors
/// When a target crashes, or `cargo fuzz` or a nightly compiler is missing.
pub fn run(repo: &Repo, name: Option<&str>, seconds: u32) -> Result<()> {
    for package in FUZZED {
        let folder = repo.root().join(format!("crates/{package}/fuzz"));
        for target in targets(&folder)? {
            if name.is_some_and(|name| !target.contains(name)) {
                continue;
            }
            let folder = folder.to_string_lossy();
            let time = format!("-max_total_time={seconds}");
            let words = ["+nightly", "fuzz", "run", "--fuzz-dir", &folder, &target, "--"];
            run_program(
                repo,
                &format!("{package}, {target}"),
                "cargo",
                &[&words[..], &[&time]].concat(),
            )?;
        }
    }
    Ok(())
}

/// Names of the targets in `folder`, in order.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let folder = folder.join("fuzz_targets");
    let files = folder.read_dir().with_context(|| folder.display().to_string())?;
    let names = files
        .map(|file| Ok(file?.path().file_stem().map(|name| name.to_string_lossy().into_owned())));
    let mut names: Vec<String> = names.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    names.sort();
    Ok(names)
}
