//! Crash simulation: a program of its own, since millions of states want an optimised build. CI looks at fewer, in the
//! build that the simulation's tests have: another one would take as long as it saves.

use anyhow::Result;

use crate::repo::Repo;
use crate::step::cargo;

/// The simulation of the engine.
pub const ENGINE: &str = "thermocline-sim";

/// The simulation of the shell.
pub const SHELL: &str = "thermocline-shell";

/// Crash states of the seeds that every run goes through, and of seeds that follow from the commit.
const SAME_STATES: &str = "400_000";
const NEW_STATES: &str = "100_000";

/// Threads: as many cores as CI has.
const JOBS: &str = "2";

/// Builds the simulator `package`, optimised, and passes `arguments` to it.
///
/// # Errors
/// When it cannot be built, or finds anything.
pub fn run(repo: &Repo, package: &str, arguments: &[String]) -> Result<()> {
    let mut words = vec!["run", "--quiet", "--profile", "sim", "-p", package];
    if arguments.iter().any(|word| word == "--bugs") {
        words.extend(["--features", "bugs"]);
    }
    words.push("--");
    words.extend(arguments.iter().map(String::as_str));
    cargo(repo, "simulation", &words)
}

/// Half a million crash states: most of seeds that are always the same, some of seeds that no earlier commit had.
///
/// # Errors
/// When anything is lost in one of them.
pub fn crash_states(repo: &Repo) -> Result<()> {
    let simulate = |name, seed: &str, states, marks: Option<&'static str>| {
        let words = ["run", "--quiet", "-p", ENGINE, "--features", "bugs", "--"];
        let budget = ["--states", states, "--jobs", JOBS, "--seed", seed];
        cargo(repo, name, &words.into_iter().chain(budget).chain(marks).collect::<Vec<_>>())
    };
    simulate("crash states", "1", SAME_STATES, Some("--marks"))?;
    let seed = seed_of(repo.commit().as_deref().unwrap_or(""));
    simulate("crash states of this commit", &seed.to_string(), NEW_STATES, None)
}

/// A seed from the first digits of a commit's hash, beyond those that are always run.
fn seed_of(commit: &str) -> u64 {
    let digits = commit.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    1_000_000 + digits.unwrap_or(0)
}

/// The tests of the simulations, among them that bugs which are made on purpose are found.
///
/// # Errors
/// When one fails.
pub fn tests(repo: &Repo) -> Result<()> {
    let packages = ["test", "-p", ENGINE, "-p", SHELL, "--features", "bugs"];
    cargo(repo, "tests of the simulations", &packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_commit_has_its_own_seeds() {
        assert_eq!(seed_of("000000ff00000000"), 1_000_255);
        assert_ne!(seed_of("80c970b8b650fada"), seed_of("7a1115c0b650fada"));
        assert_eq!(seed_of(""), 1_000_000);
    }
}
