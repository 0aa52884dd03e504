//! The table of truth in `docs/VALIDATION.md`: written by the experiments, and held against them.

use std::fs;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};

use crate::repo::{Repo, Violation};
use crate::step::{cargo_command, rules};

/// The document.
const DOCUMENT: &str = "docs/VALIDATION.md";
/// The lines around the table.
const BEGIN: &str = "<!-- The table is written by `cargo xtask validation`. -->";
const END: &str = "<!-- The table ends here. -->";
/// Experiments that together take some two minutes of processor time.
const QUICK: [&str; 6] =
    ["indirection-unit", "cachelib-fdp", "uniform-fifo", "ftlsim", "autostream", "micron-hse"];

/// Reruns every experiment and writes the table.
///
/// # Errors
/// When an experiment fails, or the document has no place for the table.
pub fn write(repo: &Repo) -> Result<()> {
    let path = repo.root().join(DOCUMENT);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {DOCUMENT}"))?;
    let (before, _, after) = parts(&text)?;
    let table = reproduce(repo, &["all"])?;
    let text = format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", table.trim());
    fs::write(&path, text).with_context(|| format!("cannot write {DOCUMENT}"))
}

/// Reruns every experiment, or those that are quick, and compares the rows that they make with those of the document.
///
/// # Errors
/// When an experiment fails, or a row differs.
pub fn check(repo: &Repo, quick: bool) -> Result<()> {
    let path = repo.root().join(DOCUMENT);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {DOCUMENT}"))?;
    let (_, written, _) = parts(&text)?;
    let names: &[&str] = if quick { &QUICK } else { &["all"] };
    let of = |row: &&str| !quick || QUICK.iter().any(|name| is_of(row, name));
    let written: Vec<&str> = rows(written).filter(of).collect();
    let measured = reproduce(repo, names)?;
    // Errors are those of all points; of some they are others.
    let measured: Vec<&str> = rows(&measured).filter(of).collect();
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

/// Whether `row` is a point of the experiment called `name`.
fn is_of(row: &str, name: &str) -> bool {
    row.trim_end().ends_with(&format!("| `{name}` |"))
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

/// What `lab reproduce NAMES --points` prints.
fn reproduce(repo: &Repo, names: &[&str]) -> Result<String> {
    let program = ["run", "--quiet", "-p", "thermocline", "--", "lab", "reproduce", "--points"];
    println!("table of truth: thermocline lab reproduce --points {}", names.join(" "));
    let output = cargo_command(repo)
        .args(program)
        .args(names)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo cannot be started")?;
    if !output.status.success() {
        bail!("`thermocline lab reproduce --points {}` failed", names.join(" "));
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
        assert!(is_of(old, "ftlsim") && !is_of(old, "sim"));
    }

    #[test]
    fn the_document_has_a_table_with_rows_of_every_quick_experiment() {
        let repo = Repo::open().unwrap();
        let text = fs::read_to_string(repo.root().join(DOCUMENT)).unwrap();
        let (_, table, _) = parts(&text).unwrap();
        for name in QUICK {
            assert!(rows(table).any(|row| is_of(row, name)), "{name} has no row");
        }
        // Header and errors are some lines more.
        assert!(rows(table).count() >= 40 + 6, "40 points at least");
        assert!(parts("no table").is_err());
    }
}
