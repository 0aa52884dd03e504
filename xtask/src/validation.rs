//! The table of truth in `docs/use/TRUTH.md`: written by the experiments, and held against them.

use std::fs;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};

use crate::repo::{Repo, Violation};
use crate::step::{cargo_command, rules};

/// The document.
const DOCUMENT: &str = "docs/use/TRUTH.md";
/// The lines around the table.
const BEGIN: &str = "<!-- The table is written by `cargo xtask validation`. -->";
const END: &str = "<!-- The table ends here. -->";
/// Experiments that together take some two minutes of processor time.
const QUICK: [&str; 6] =
    ["indirection-unit", "cachelib-fdp", "uniform-fifo", "ftlsim", "autostream", "micron-hse"];

/// Reruns the experiments called `names`, or all if there are none, and writes the table: rows of the others stay, and
/// the errors at its top are those of all rows.
///
/// # Errors
/// When an experiment fails, or the document has no place for the table.
pub fn write(repo: &Repo, names: &[String]) -> Result<()> {
    let path = repo.root().join(DOCUMENT);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {DOCUMENT}"))?;
    let (before, _, after) = parts(&text)?;
    let table = reproduce(repo, names)?;
    let text = format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", table.trim());
    fs::write(&path, text).with_context(|| format!("cannot write {DOCUMENT}"))
}

/// Makes the table as [`write()`] does, and compares it with that of the document; `quick`: of experiments that are.
///
/// # Errors
/// When an experiment fails, or a row differs.
pub fn check(repo: &Repo, names: &[String], quick: bool) -> Result<()> {
    let path = repo.root().join(DOCUMENT);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {DOCUMENT}"))?;
    let (_, written, _) = parts(&text)?;
    let quick: &[&str] = if quick { &QUICK } else { &[] };
    let names: Vec<String> =
        names.iter().cloned().chain(quick.iter().map(|&name| name.to_owned())).collect();
    let measured = reproduce(repo, &names)?;
    let [written, measured] = [written, &measured].map(|text| rows(text).collect::<Vec<_>>());
    rules("table of truth", &differences(&written, &measured))
}

/// The document before, in and after its table.
fn parts(text: &str) -> Result<(&str, &str, &str)> {
    let found = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (table, after) = rest.split_once(END)?;
        Some((before, table, after))
    });
    found.with_context(|| format!("{DOCUMENT} has no lines `{BEGIN}` and `{END}`"))
}

/// The lines of the table.
fn rows(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|--"))
}

/// What the experiments give and the document does not say, and the other way round.
fn differences(written: &[&str], measured: &[&str]) -> Vec<Violation> {
    let only = |here: &[&str], there: &[&str], what: &str| -> Vec<Violation> {
        let rows = here.iter().filter(|row| !there.contains(row));
        rows.map(|row| Violation::new(DOCUMENT, 0, format!("{what}: {row}"))).collect()
    };
    let mut found = only(written, measured, "no longer measured");
    found.extend(only(measured, written, "measured, not written"));
    found
}

/// The table that `lab reproduce NAMES --points --into` the document prints, or that of all experiments.
fn reproduce(repo: &Repo, names: &[String]) -> Result<String> {
    let mut arguments = vec!["lab", "reproduce", "--points", "--fresh"];
    match names {
        [] => arguments.push("all"),
        _ => {
            arguments.extend(names.iter().map(String::as_str));
            arguments.extend(["--into", DOCUMENT]);
        }
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
    let text = String::from_utf8(output.stdout).context("the table is no text")?;
    ensure!(rows(&text).count() > 2, "the experiments gave no points");
    Ok(text)
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
    fn the_document_has_a_table_with_rows_of_every_quick_experiment() {
        let repo = Repo::open().unwrap();
        let text = fs::read_to_string(repo.root().join(DOCUMENT)).unwrap();
        let (_, table, _) = parts(&text).unwrap();
        for name in QUICK {
            let last = format!("| `{name}` |");
            assert!(rows(table).any(|row| row.ends_with(&last)), "{name} has no row");
        }
        // Header and errors are some lines more.
        assert!(rows(table).count() >= 40 + 6, "40 points at least");
        assert!(parts("no table").is_err());
    }
}
