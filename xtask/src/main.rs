//! `cargo xtask`: the one entry to everything that contributors and CI run.
//!
//! Invariants:
//! * Every step prints a line before it starts; the first failed step ends the program with exit code 1.
//! * Nothing but Cargo, Git and a C compiler is needed.

mod bench;
mod bench_serve;
mod dist;
mod fuzz;
mod guest;
mod history;
mod imports;
mod mutants;
mod parts;
mod repo;
mod rust_source;
mod shard;
mod sim;
mod step;
mod tidy;
mod validation;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};

use repo::Repo;
use shard::Shard;
use step::{cargo, cargo_last, cargo_with, rules};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Checks, tests and benches of Thermocline")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Format, house rules, import rules, clippy with the rules of pure crates, rustdoc.
    Check,
    /// House rules only: lengths of lines and files, banned words, documents.
    Tidy,
    /// Everything a change must pass: `check`, fuzz targets, doc tests, all tests, among them the simulation with its
    /// deliberate bugs and a quarter of a million crash states.
    Test {
        /// Leave `check` out.
        #[arg(long)]
        no_check: bool,
    },
    /// The criterion benches, with a summary; arguments after `--` go to every bench. `bench serve` instead compares
    /// `thermocline serve` with `nbdkit memory` and `nbdfuse`, `bench tier` a pool with a fast device with what SPDK's
    /// FTL did.
    Bench {
        /// `serve`, `tier`, or nothing.
        suite: Option<Suite>,
        /// The name of a package, for example `thermocline-ftl`.
        #[arg(long, short)]
        package: Option<String>,
        /// Arguments of criterion: a part of a bench's name, or `--quick`.
        #[arg(last = true)]
        criterion: Vec<String>,
    },
    /// Crash simulation in release mode. Arguments go to `thermocline-sim`; `--help` lists them. With `--bugs` among
    /// them the program is built with the deliberate bugs of the engine.
    Sim {
        /// Passed on.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Worlds of the shell: pools, device changes and NBD clients on one thread and in virtual time. Arguments go to
    /// `thermocline-shell`; `--help` lists them. With `--bugs` among them the program is built with the deliberate bugs
    /// of the shell.
    Shell {
        /// Passed on.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Every fuzz target for a while. Crashes are in `crates/*/fuzz/artifacts`.
    Fuzz {
        /// A part of the names of targets.
        target: Option<String>,
        /// Of each target.
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
    /// Generated mutants of engine and format against the tests and the simulation: a sample of them. Takes a minute or
    /// so for each; needs `cargo install cargo-mutants`.
    Mutants {
        /// Which sample.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// About how many.
        #[arg(long, default_value_t = 100)]
        count: u64,
        /// Leave slow tests out. Mutants that pass then need a run with all tests.
        #[arg(long)]
        fast: bool,
    },
    /// Reruns published experiments and writes the table of truth, and its summary into `docs/use/VALIDATION.md`: of
    /// all, a quarter of an hour.
    Validation {
        /// Experiments to rerun. All other rows stay; the errors at the top are of all rows.
        #[arg(value_name = "EXPERIMENT")]
        names: Vec<String>,
        /// Compare with what is written instead of writing.
        #[arg(long)]
        check: bool,
        /// Only experiments that take two minutes together.
        #[arg(long, requires = "check", conflicts_with = "names")]
        quick: bool,
    },
    /// Appends a line to `docs/history.jsonl` and draws all lines: CPU seconds of a clean release build, size of the
    /// program, lines, words.
    History {
        /// Draw without measuring.
        #[arg(long)]
        draw: bool,
        /// Have the ratios of `bench serve` in the line.
        #[arg(long, conflicts_with = "draw")]
        bench: bool,
    },
    /// Packages of a release in `target/packages`: tarball, `.deb`, list of dependencies, checksums. Needs
    /// `rustup target add x86_64-unknown-linux-musl` and Debian's `musl-tools`.
    Dist {
        /// Link with the C library of this system instead of a static one.
        #[arg(long)]
        dynamic: bool,
    },
    /// Scenarios of `tests/guest` on a kernel of today in QEMU, with emulated drives. The
    /// first run installs packages of Debian into `target/guest`; needs `mmdebstrap`, network and root.
    Guest {
        /// Names of scenarios. Without names, all scenarios run.
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Print the names of the scenarios.
        #[arg(long)]
        list: bool,
    },
    /// One shard of `test`, for a machine of its own. All shards together run all of `test`. Without a name, all.
    Ci {
        /// Which one.
        shard: Option<Shard>,
    },
}

/// Benches that are programs against each other.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Suite {
    /// `thermocline serve` against `nbdkit memory` and `nbdfuse`; needs fio and nbdkit, and nbdfuse and root for files.
    Serve,
    /// A pool with a fast device, both devices in memory, beside published figures of SPDK's FTL of the same sizes:
    /// three minutes, 8 GiB of memory. After `--`, a part of the names of rows.
    Tier,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    let repo = Repo::open()?;
    match command {
        Command::Check => check(&repo),
        Command::Dist { dynamic } => dist::run(&repo, dynamic),
        Command::Tidy => tidy_rules(&repo),
        Command::Test { no_check } => test(&repo, no_check),
        Command::Bench { suite: Some(Suite::Serve), .. } => bench_serve::run(&repo).map(drop),
        Command::Bench { suite: Some(Suite::Tier), criterion, .. } => {
            let bench = ["bench", "--quiet", "-p", "thermocline-runtime", "--bench", "tier", "--"];
            let rows = criterion.iter().map(String::as_str);
            cargo(&repo, "tier", &bench.into_iter().chain(rows).collect::<Vec<_>>())
        }
        Command::Bench { suite: None, package, criterion } => {
            bench::run(&repo, package.as_deref(), &criterion)
        }
        Command::Sim { arguments } => sim::run(&repo, sim::ENGINE, &arguments),
        Command::Shell { arguments } => sim::run(&repo, sim::SHELL, &arguments),
        Command::Fuzz { target, seconds } => fuzz::run(&repo, target.as_deref(), seconds),
        Command::Mutants { seed, count, fast } => mutants::run(&repo, seed, count, fast),
        Command::Validation { check: true, names, quick } => {
            validation::check(&repo, &names, quick)
        }
        Command::Validation { check: false, names, .. } => validation::write(&repo, &names),
        Command::History { draw, bench } => history::run(&repo, draw, bench),
        Command::Guest { names, list } => guest::run(&repo, &names, list),
        Command::Ci { shard: None } => test(&repo, false),
        Command::Ci { shard: Some(shard) } => shard.run(&repo),
    }
}

/// Rules that read files run before rules that compile: reading takes a second and fails most often.
fn check(repo: &Repo) -> Result<()> {
    cargo(repo, "format", &["fmt", "--all", "--check"])?;
    tidy_rules(repo)?;
    rules("who may import whom", &imports::check(repo)?)?;
    rules("parts of the engine own their state", &parts::check(repo)?)?;
    let clippy = [&["clippy", "--workspace", "--all-targets", "--quiet"][..], &sim::BUGS];
    cargo(repo, "clippy", &[&clippy.concat()[..], &["--", "-D", "warnings"]].concat())?;
    // The program and the library `thermocline` have one name: their pages would take each other's place.
    for packages in
        [&["--workspace", "--exclude", "thermocline-cli"][..], &["-p", "thermocline-cli"]]
    {
        let doc = [&["doc", "--no-deps", "--quiet"], packages].concat();
        cargo_with(repo, "documentation", &doc, &[("RUSTDOCFLAGS", "-D warnings")])?;
    }
    fuzz::check(repo)
}

fn tidy_rules(repo: &Repo) -> Result<()> {
    let files = repo.files()?;
    println!("tidy: {}", tidy::longest(&files));
    rules("house rules", &tidy::check(repo, &files)?)
}

fn test(repo: &Repo, no_check: bool) -> Result<()> {
    if !no_check {
        check(repo)?;
    }
    fuzz::turn(repo)?;
    run_tests(repo, &[&["--workspace"][..], &sim::BUGS].concat())
}

/// Time limit for all tests: four times the duration on two cores.
const LIMIT: Duration = Duration::from_mins(45);

/// All tests of `packages`, and their examples; those of documentation run last.
fn run_tests(repo: &Repo, packages: &[&str]) -> Result<()> {
    let all = [&["test", "--no-fail-fast"], packages].concat();
    cargo_last(repo, &all, &sim::environment(repo), LIMIT)
}
