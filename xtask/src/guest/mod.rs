//! `cargo xtask guest`: scenarios on a real kernel with the drives of QEMU.
//!
//! A scenario is a shell file in `tests/guest`. The first comment states the purpose. Lines `# drive:`, `# volume:` and
//! `# limit:` declare the machine. The scenario runs as root in the guest; `/host` is a folder of this machine. The
//! exit code is the result. Lines that begin with `* ` are printed.

mod boot;
mod image;
mod powercut;
mod scenario;
mod served;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail, ensure};

use crate::repo::Repo;
use crate::step::cargo;
use image::Image;
use scenario::Scenario;

/// Runs the scenarios called `names`, or all scenarios. With `list`, only prints names.
///
/// # Errors
/// When a scenario fails, does not end within its limit, or does not exist.
pub fn run(repo: &Repo, names: &[String], list: bool) -> Result<()> {
    let mut scenarios = scenario::all(repo)?;
    if list {
        for scenario in &scenarios {
            println!("{:10} {}", scenario.name, scenario.about);
        }
        return Ok(());
    }
    for name in names {
        let known = scenarios.iter().any(|scenario| scenario.name == *name);
        ensure!(known, "no scenario `{name}`; `cargo xtask guest --list` lists them");
    }
    scenarios.retain(|scenario| names.is_empty() || names.contains(&scenario.name));
    let image = match Image::cached(repo) {
        Ok(image) => image,
        Err(reason) => {
            println!("SKIPPED {} scenarios: {reason:#}", scenarios.len());
            return Ok(());
        }
    };
    cargo(repo, "build", &["build", "--quiet", "-p", "thermocline-cli", "--bin", "thermocline"])?;
    let mut failed = Vec::new();
    for scenario in &scenarios {
        let begin = Instant::now();
        println!("{}: {}", scenario.name, scenario.about);
        let outcome = one(repo, &image, scenario);
        let seconds = begin.elapsed().as_secs();
        match outcome {
            Ok(()) => println!("{}: ok, {seconds} s", scenario.name),
            Err(error) => {
                println!("{}: FAILED, {seconds} s: {error:#}", scenario.name);
                failed.push(scenario.name.as_str());
            }
        }
    }
    println!("guest: {} ok, {} failed", scenarios.len() - failed.len(), failed.len());
    ensure!(failed.is_empty(), "failed scenarios: {}", failed.join(", "));
    Ok(())
}

fn one(repo: &Repo, image: &Image, scenario: &Scenario) -> Result<()> {
    let machine = boot::Machine::prepare(repo, scenario)?;
    let code = machine.run(image, scenario)?;
    machine.print_results()?;
    if code != 0 {
        bail!("exit code {code}; output: {}", machine.share().join("log").display());
    }
    let logged = scenario.drives.iter().find(|drive| drive.logged);
    logged.map_or(Ok(()), |drive| powercut::judge(&machine, drive))
}

/// Runs `command` and gives its output.
///
/// # Errors
/// When the command cannot be started or fails; the error has the last lines of output.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|error| anyhow::anyhow!("{command:?}: {error}"))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    if !output.status.success() {
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        let lines: Vec<&str> = lines.into_iter().rev().collect();
        bail!("{:?} failed: {}", command.get_program(), lines.join("\n"));
    }
    Ok(text)
}

/// Makes a sparse file of `mib` MiB.
fn sparse(path: &Path, mib: u64) -> Result<std::fs::File> {
    let file =
        std::fs::File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    file.set_len(mib << 20)?;
    Ok(file)
}
