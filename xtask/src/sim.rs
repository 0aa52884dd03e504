//! The simulations: as programs of their own, since millions of states want an optimised build, and in the tests.

use anyhow::Result;

use crate::repo::Repo;
use crate::step::cargo;

/// The simulation of the engine.
pub const ENGINE: &str = "thermocline-sim";

/// The simulation of the shell.
pub const SHELL: &str = "thermocline-shell";

/// Deliberate bugs can be switched on in all that is tested: each crate is compiled once.
pub const BUGS: [&str; 2] = ["--features", "thermocline-sim/bugs,thermocline-shell/bugs"];

/// Crash states of seeds that every run goes through, and as many of seeds that follow from the commit.
const STATES: &str = "120000";

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

/// What the tests of the simulation are told: how many crash states, and of which seeds.
pub fn environment(repo: &Repo) -> [(&'static str, String); 2] {
    let seed = seed(repo).to_string();
    [("THERMOCLINE_CRASH_STATES", STATES.to_owned()), ("THERMOCLINE_SEED", seed)]
}

/// The seed of the commit that is checked out.
pub fn seed(repo: &Repo) -> u64 {
    seed_of(repo.commit().as_deref().unwrap_or(""))
}

/// A seed from the first digits of a commit's hash, beyond those that are always run.
fn seed_of(commit: &str) -> u64 {
    let digits = commit.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    1_000_000 + digits.unwrap_or(0)
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
