//! The table of truth: written by the experiments, and held against them.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::repo::{Repo, Violation};
use crate::step::{cargo_command, rules};

/// All rows.
const ROWS: &str = "crates/lab/src/reproduce/truth.csv";
/// The page with the summary.
const PAGE: &str = "docs/use/VALIDATION.md";
/// The lines around the summary.
const BEGIN: &str = "<!-- `cargo xtask validation` writes from here. -->";
const END: &str = "<!-- To here. -->";
/// Experiments that together take some two minutes of processor time.
const QUICK: [&str; 6] =
    ["indirection-unit", "cachelib-fdp", "uniform-fifo", "ftlsim", "autostream", "micron-hse"];

/// Reruns the experiments called `names`, or all if there are none, and writes their rows and the summary of all rows.
///
/// # Errors
/// When an experiment fails, or the page has no place for the summary.
pub fn write(repo: &Repo, names: &[String]) -> Result<()> {
    let path = repo.root().join(PAGE);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {PAGE}"))?;
    let (before, _, after) = parts(&text)?;
    let summary = reproduce(repo, names, Path::new(ROWS))?;
    let text = format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", summary.trim());
    fs::write(&path, text).with_context(|| format!("cannot write {PAGE}"))
}

/// Makes the rows as [`write()`] does, and compares them with those that are written; `quick`: of experiments that are.
///
/// # Errors
/// When an experiment fails, or a row differs.
pub fn check(repo: &Repo, names: &[String], quick: bool) -> Result<()> {
    let quick: &[&str] = if quick { &QUICK } else { &[] };
    let names: Vec<String> =
        names.iter().cloned().chain(quick.iter().map(|&name| name.to_owned())).collect();
    let written = repo.root().join(ROWS);
    let measured = repo.root().join("target/truth.csv");
    fs::copy(&written, &measured).with_context(|| format!("cannot copy {ROWS}"))?;
    reproduce(repo, &names, &measured)?;
    let read = |path| fs::read_to_string(path).with_context(|| format!("cannot read {ROWS}"));
    let (written, measured) = (read(&written)?, read(&measured)?);
    let [written, measured] = [&written, &measured].map(|text| text.lines().collect::<Vec<_>>());
    rules("table of truth", &differences(&written, &measured))
}

/// The page before, in and after its summary.
fn parts(text: &str) -> Result<(&str, &str, &str)> {
    let found = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (table, after) = rest.split_once(END)?;
        Some((before, table, after))
    });
    found.with_context(|| format!("{PAGE} has no lines `{BEGIN}` and `{END}`"))
}

/// What the experiments give and the document does not say, and the other way round.
fn differences(written: &[&str], measured: &[&str]) -> Vec<Violation> {
    let only = |here: &[&str], there: &[&str], what: &str| -> Vec<Violation> {
        let rows = here.iter().filter(|row| !there.contains(row));
        rows.map(|row| Violation::new(ROWS, 0, format!("{what}: {row}"))).collect()
    };
    let mut found = only(written, measured, "no longer measured");
    found.extend(only(measured, written, "measured, not written"));
    found
}

/// Has `lab reproduce NAMES --points --into PATH`, or that of all experiments, write the rows, and returns the summary.
fn reproduce(repo: &Repo, names: &[String], path: &Path) -> Result<String> {
    let path = path.to_str().context("the path is no text")?;
    let mut arguments = vec!["lab", "reproduce", "--points", "--fresh", "--into", path];
    match names {
        [] => arguments.push("all"),
        _ => arguments.extend(names.iter().map(String::as_str)),
    }
    let command = format!("thermocline {}", arguments.join(" "));
    println!("table of truth: {command}");
    let output = cargo_command(repo)
        .args(["run", "--quiet", "-p", "thermocline-cli", "--"])
        .args(&arguments)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo cannot be started")?;
    if !output.status.success() {
        bail!("`{command}` failed");
    }
    String::from_utf8(output.stdout).context("the summary is no text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_changed_is_named_on_both_sides() {
        let (old, new) = ("| a | 1.000 | `ftlsim` |", "| a | 1.001 | `ftlsim` |");
        assert!(differences(&[old], &[old]).is_empty());
        let found = differences(&[old], &[new]);
        assert_eq!(found.len(), 2);
        assert!(found[0].message.contains("1.000") && found[1].message.contains("1.001"));
    }

    #[test]
    fn there_are_rows_of_every_quick_experiment_and_a_place_for_the_summary() {
        let repo = Repo::open().unwrap();
        let text = fs::read_to_string(repo.root().join(ROWS)).unwrap();
        for name in QUICK {
            let last = format!("`{name}`");
            assert!(text.lines().any(|row| row.ends_with(&last)), "{name} has no row");
        }
        let page = fs::read_to_string(repo.root().join(PAGE)).unwrap();
        assert!(parts(&page).is_ok() && parts("no table").is_err());
    }
}
