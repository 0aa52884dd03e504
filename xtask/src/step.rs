//! Steps: one line each, and an error at the first that fails.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

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

/// The tests as the last step: the last lines are the test runner's. In CI, which nobody watches, all that was started
/// is killed when `limit` is over: then a test never ends, and the runner has named those that take over a minute.
///
/// # Errors
/// When a test fails, or does not end in time.
pub fn cargo_last(
    repo: &Repo,
    arguments: &[&str],
    environment: &[(&str, String)],
    limit: Duration,
) -> Result<()> {
    println!("tests: cargo {}", arguments.join(" "));
    let mut command = cargo_command(repo);
    command.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
    let limit = std::env::var_os("CI").map(|_| limit);
    if limit.is_some() {
        command.process_group(0);
    }
    let mut child = command.spawn().context("cargo cannot be started")?;
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("waiting for cargo")? {
            ensure!(status.success(), "tests: `cargo {}` failed", arguments.join(" "));
            return Ok(());
        }
        if limit.is_some_and(|limit| begin.elapsed() > limit) {
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let group = format!("-{}", child.id());
    Command::new("kill").args(["-KILL", "--", &group]).status().context("kill")?;
    bail!("the tests did not end within {} minutes", begin.elapsed().as_secs() / 60);
}

fn run(repo: &Repo, name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    println!("{name}: cargo {}", arguments.join(" "));
    let status = cargo_command(repo)
        .args(arguments)
        .envs(environment.iter().copied())
        .status()
        .context("cargo cannot be started")?;
    ensure!(status.success(), "{name}: `cargo {}` failed", arguments.join(" "));
    Ok(())
}

/// Runs a program at the root of the repository.
///
/// # Errors
/// When it cannot be started or fails.
pub fn run_program(repo: &Repo, name: &str, program: &str, arguments: &[&str]) -> Result<()> {
    println!("{name}: {program} {}", arguments.join(" "));
    let mut command = Command::new(program);
    let command = command.current_dir(repo.root()).args(arguments);
    let status = command.status().with_context(|| format!("{program} cannot be started"))?;
    ensure!(status.success(), "{name}: `{program} {}` failed", arguments.join(" "));
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
