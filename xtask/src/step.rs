//! Steps: one line each, and an error at the first that fails.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::repo::{Repo, Violation};

/// Runs Cargo with `arguments` at the root of the repository, and says how long that took.
///
/// # Errors
/// When it cannot be started or fails.
pub fn cargo(repo: &Repo, name: &str, arguments: &[&str]) -> Result<()> {
    cargo_with(repo, name, arguments, &[])
}

/// [`cargo`] with environment variables.
///
/// # Errors
/// When it cannot be started or fails.
pub fn cargo_with(
    repo: &Repo,
    name: &str,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Result<()> {
    let begin = Instant::now();
    run(repo, name, arguments, environment)?;
    println!("{name}: {} s", begin.elapsed().as_secs());
    Ok(())
}

/// [`cargo`] as the last step: the last lines are Cargo's.
///
/// # Errors
/// When it cannot be started or fails.
pub fn cargo_last(repo: &Repo, name: &str, arguments: &[&str]) -> Result<()> {
    run(repo, name, arguments, &[])
}

fn run(repo: &Repo, name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    println!("{name}: cargo {}", arguments.join(" "));
    let status = cargo_command(repo)
        .args(arguments)
        .envs(environment.iter().copied())
        .status()
        .context("cargo cannot be started")?;
    if !status.success() {
        bail!("{name}: `cargo {}` failed", arguments.join(" "));
    }
    Ok(())
}

/// The Cargo that runs this program, at the root of the repository.
pub fn cargo_command(repo: &Repo) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(repo.root());
    command
}

/// Reports what a check of our own found.
///
/// # Errors
/// When it found anything.
pub fn rules(name: &str, violations: &[Violation]) -> Result<()> {
    for violation in violations {
        eprintln!("{violation}");
    }
    match violations.len() {
        0 => {
            println!("{name}: ok");
            Ok(())
        }
        1 => bail!("{name}: 1 violation"),
        count => bail!("{name}: {count} violations"),
    }
}
