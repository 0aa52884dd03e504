//! Generated mutants of the engine and its format, tried against the tests and the simulation: what no test notices is
//! a hole in them. Needs `cargo install cargo-mutants`.

use anyhow::{Context, Result, ensure};

use crate::repo::Repo;
use crate::step::{cargo, cargo_command};

/// What is changed. Deliberate bugs and coverage marks are no part of the program, and texts for people are not tested
/// word for word.
const MUTATED: [&str; 10] = [
    "--package=thermocline-array",
    "--package=thermocline-engine",
    "--package=thermocline-format",
    "--exclude=crates/array/src/bugs.rs",
    "--exclude=crates/array/src/**/tests/**",
    "--exclude=crates/engine/src/bugs.rs",
    "--exclude=crates/engine/src/marks.rs",
    "--exclude=crates/engine/fuzz/**",
    "--exclude-re=impl fmt::Display",
    "--exclude-re=impl Debug",
];

/// What is to notice. Seconds until a test that does not end counts as one that noticed.
const TRIED: [&str; 8] = [
    "--test-package=thermocline-array,thermocline-engine,thermocline-format,thermocline-sim",
    "--features=thermocline-sim/bugs",
    "--profile=mutants",
    "--baseline=skip",
    "--timeout=400",
    "--jobs=1",
    "--output=target",
    "--shuffle",
];

/// Tests of time and memory, which a change of behaviour is not meant to show in.
const TESTS: [&str; 6] = ["--", "--lib", "--test", "it", "--", "--skip=ten_terabytes"];

/// Tests that take more than some seconds each: with them a mutant takes minutes.
const SLOW: [&str; 11] = [
    "--skip=hunt::",
    "--skip=rare_situations",
    "--skip=larger_pools",
    "--skip=damage_is_found",
    "--skip=the_device_spoils",
    "--skip=damage_in_one_page",
    "--skip=many_failing",
    "--skip=failed_chunks",
    "--skip=formatting_over",
    "--skip=log_of_all_changes",
    "--skip=thousand",
];

/// Tries about `count` mutants: each so manieth of all, the first of them chosen by `seed`, in random order, so that a
/// run that is cut short has tried a sample as well; with `fast`, without slow tests. Results are in
/// `target/mutants.out`.
///
/// # Errors
/// When a mutant was missed, or `cargo-mutants` is not installed.
pub fn run(repo: &Repo, seed: u64, count: u64, fast: bool) -> Result<()> {
    let listed = cargo_command(repo).args(["mutants", "--list"]).args(MUTATED).output();
    let listed = listed.context("cargo cannot be started")?;
    ensure!(listed.status.success(), "`cargo mutants` does not work: cargo install cargo-mutants");
    let all = listed.stdout.iter().filter(|&&byte| byte == b'\n').count() as u64;
    let shards = (all / count.max(1)).max(1);
    let shard = format!("--shard={}/{shards}", seed % shards);
    println!("{all} mutants, of which one in {shards} is tried");
    let words = ["mutants"].into_iter().chain(MUTATED).chain(TRIED);
    let words = words.chain([shard.as_str(), "--sharding=round-robin"]).chain(TESTS);
    let words = words.chain(SLOW.into_iter().filter(|_| fast));
    cargo(repo, "mutants", &words.collect::<Vec<_>>())
}
