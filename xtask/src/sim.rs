//! Crash simulation: a program of its own, since millions of states want an optimised build.

use anyhow::Result;

use crate::repo::Repo;
use crate::step::cargo;

const PACKAGE: &str = "thermocline-sim";

/// Crash states of the seeds that every run goes through, and of seeds that follow from the commit.
const SAME_STATES: &str = "800_000";
const NEW_STATES: &str = "200_000";

/// Threads: as many cores as CI has.
const JOBS: &str = "2";

/// Builds the simulator and passes `arguments` to it.
///
/// # Errors
/// When it cannot be built, or finds anything.
pub fn run(repo: &Repo, arguments: &[String]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    simulate(repo, "simulation", &words)
}

fn simulate(repo: &Repo, name: &str, arguments: &[&str]) -> Result<()> {
    let mut words = vec!["run", "--quiet", "--profile", "sim", "-p", PACKAGE];
    if arguments.contains(&"--bugs") {
        words.extend(["--features", "bugs"]);
    }
    words.push("--");
    words.extend(arguments);
    cargo(repo, name, &words)
}

/// A million crash states: most of seeds that are always the same, some of seeds that no earlier commit had.
///
/// # Errors
/// When anything is lost in one of them.
pub fn crash_states(repo: &Repo) -> Result<()> {
    let step = ["--states", SAME_STATES, "--jobs", JOBS, "--seed", "1", "--marks"];
    simulate(repo, "crash states", &step)?;
    let seed = seed_of(repo.commit().as_deref().unwrap_or(""));
    let step = ["--states", NEW_STATES, "--jobs", JOBS, "--seed", &seed.to_string()];
    simulate(repo, "crash states of this commit", &step)
}

/// A seed from the first digits of a commit's hash, beyond those that are always run.
fn seed_of(commit: &str) -> u64 {
    let digits = commit.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    1_000_000 + digits.unwrap_or(0)
}

/// Bugs that are made on purpose are found.
///
/// # Errors
/// When one is not.
pub fn deliberate_bugs(repo: &Repo) -> Result<()> {
    let words = ["test", "-p", PACKAGE, "--features", "bugs", "--", "hunt"];
    cargo(repo, "deliberate bugs", &words)
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
