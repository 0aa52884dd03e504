//! Fuzz targets, each for a while. Their packages are workspaces of their own: Cargo compiles each crate that a target
//! uses with counters for libFuzzer.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::repo::Repo;
use crate::sim;
use crate::step::{cargo_with, run_program};

/// Package, target, and the longest input in bytes.
const TARGETS: [(&str, &str, u32); 11] = [
    ("engine", "find", 16_384),
    ("format", "chunk", 4096),
    ("format", "labels", 4096),
    ("format", "map_page", 4096),
    ("format", "superblock", 4096),
    ("nbd", "handshake", 2048),
    ("nbd", "messages", 2048),
    ("runtime", "groups", 60),
    ("sim", "images", 80),
    ("sim", "operations", 1200),
    ("workload", "traces", 4096),
];

/// Where a package has sound inputs, from which a campaign begins.
const SEEDS: [(&str, &str); 3] = [
    ("engine", "crates/format/testdata"),
    ("format", "crates/format/testdata"),
    ("workload", "crates/workload/testdata/samples"),
];

/// The counters of `cargo fuzz` without a sanitizer.
const COUNTERS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Seconds for each target of the package that is the turn of a commit.
const TURN: u32 = 10;

/// Compiles every target without running it.
///
/// # Errors
/// When one does not compile.
pub fn check(repo: &Repo) -> Result<()> {
    packages().iter().try_for_each(|package| compile(repo, "check", package))
}

/// Runs the targets of one package: each commit has its turn.
///
/// # Errors
/// When a target crashes.
pub fn turn(repo: &Repo) -> Result<()> {
    let packages = packages();
    let package = packages[sim::seed(repo) as usize % packages.len()];
    run_those(repo, TURN, |one, _| one == package)
}

/// Runs every target, or those whose name contains `name`, for so many seconds.
///
/// # Errors
/// When a target crashes or does not compile.
pub fn run(repo: &Repo, name: Option<&str>, seconds: u32) -> Result<()> {
    run_those(repo, seconds, |_, target| name.is_none_or(|name| target.contains(name)))
}

fn run_those(repo: &Repo, seconds: u32, wanted: impl Fn(&str, &str) -> bool) -> Result<()> {
    let mut built = None;
    let mut count = 0;
    for (package, target, longest) in TARGETS.into_iter().filter(|one| wanted(one.0, one.1)) {
        if built.replace(package) != Some(package) {
            compile(repo, "build", package)?;
        }
        let fuzz = format!("crates/{package}/fuzz");
        let (corpus, crashes) = (format!("{fuzz}/corpus/{target}"), format!("{fuzz}/artifacts/"));
        for folder in [&corpus, &crashes] {
            fs::create_dir_all(repo.root().join(folder)).with_context(|| folder.clone())?;
        }
        let program = format!("target/fuzz/{}/debug/{target}", platform());
        let mut arguments = vec![
            format!("-max_total_time={seconds}"),
            format!("-max_len={longest}"),
            format!("-artifact_prefix={crashes}{target}-"),
            "-timeout=60".to_owned(),
            "-print_final_stats=1".to_owned(),
            "-verbosity=0".to_owned(),
            corpus,
        ];
        let seeds = SEEDS.iter().filter(|(of, _)| *of == package);
        arguments.extend(seeds.map(|(_, folder)| (*folder).to_owned()));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run_program(repo, &format!("{package}, {target}"), &program, &arguments)?;
        count += 1;
    }
    ensure!(count > 0, "no fuzz target has such a name");
    Ok(())
}

fn packages() -> Vec<&'static str> {
    let mut packages: Vec<&str> = TARGETS.iter().map(|(package, ..)| *package).collect();
    packages.dedup();
    packages
}

/// Lets Cargo `check` or `build` all targets of `package` in a folder that all packages share.
fn compile(repo: &Repo, how: &str, package: &str) -> Result<()> {
    let manifest = format!("crates/{package}/fuzz/Cargo.toml");
    let folder = repo.root().join("target/fuzz");
    // Build scripts and macros have no counters, as Cargo keeps flags from them where a platform is named.
    let platform = platform();
    let words = [how, "--quiet", "--locked", "--manifest-path", &manifest, "--target", &platform];
    let environment = [
        ("CARGO_TARGET_DIR", &*folder.to_string_lossy()),
        ("RUSTFLAGS", COUNTERS),
        ("CARGO_PROFILE_DEV_OPT_LEVEL", "1"),
        ("CARGO_PROFILE_DEV_DEBUG", "0"),
    ];
    cargo_with(repo, "fuzz targets", &words, &environment)
}

fn platform() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_in_the_table() {
        let repo = Repo::open().unwrap();
        let mut files: Vec<String> =
            repo.files().unwrap().into_iter().map(|one| one.path).collect();
        files.retain(|path| path.contains("/fuzz_targets/"));
        let path = |(package, target, _)| format!("crates/{package}/fuzz/fuzz_targets/{target}.rs");
        assert_eq!(files, TARGETS.map(path));
    }
}
