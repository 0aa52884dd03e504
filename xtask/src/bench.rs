//! Benches: every criterion bench of the workspace, one after the other, and a summary.
//!
//! End-to-end figures (whole runs of the `thermocline` program) belong in [`run`], between benches and summary.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::repo::{Manifest, Repo};
use crate::step::cargo_command;

/// One figure: the middle of the interval that criterion gives.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Figure {
    name: String,
    time: String,
    throughput: Option<String>,
}

/// Runs the benches of `package`, or of all, and passes `criterion` on to each.
///
/// # Errors
/// When no bench exists, or a bench fails.
pub fn run(repo: &Repo, package: Option<&str>, criterion: &[String]) -> Result<()> {
    let mut figures = Vec::new();
    let mut ran = false;
    for manifest in repo.manifests()? {
        if package.is_some_and(|package| package != manifest.package_name()) {
            continue;
        }
        for bench in benches(&manifest) {
            ran = true;
            figures.extend(figures_in(&output_of(repo, &manifest, bench, criterion)?));
        }
    }
    if !ran {
        bail!("{} has no benches", package.unwrap_or("the workspace"));
    }
    println!("\nsummary (middle of criterion's 95 % intervals)");
    let width = figures.iter().map(|figure| figure.name.chars().count()).max().unwrap_or(0);
    for Figure { name, time, throughput } in &figures {
        println!("  {name:width$}  {time:>12}  {}", throughput.as_deref().unwrap_or(""));
    }
    Ok(())
}

fn benches(manifest: &Manifest) -> Vec<&str> {
    let listed = manifest.table.get("bench").and_then(toml::Value::as_array);
    listed.into_iter().flatten().filter_map(|bench| bench.get("name")?.as_str()).collect()
}

/// Runs a bench, shows the output live, and returns the output.
fn output_of(
    repo: &Repo,
    manifest: &Manifest,
    bench: &str,
    criterion: &[String],
) -> Result<String> {
    let package = manifest.package_name();
    println!("bench: cargo bench -p {package} --bench {bench} -- {}", criterion.join(" "));
    let mut child = cargo_command(repo)
        .args(["bench", "--quiet", "-p", package, "--bench", bench, "--"])
        .args(criterion)
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo cannot be started")?;
    let stdout = child.stdout.take().expect("it was piped");
    let mut output = String::new();
    for line in BufReader::new(stdout).lines() {
        let line = line.context("the bench's output")?;
        println!("{line}");
        output.push_str(&line);
        output.push('\n');
    }
    if !child.wait().context("the bench's end")?.success() {
        bail!("bench {bench} of {package} failed");
    }
    Ok(output)
}

/// The figures in criterion's output: a name, then `time: [low middle high]` and perhaps `thrpt:`, on the same line or
/// below; what follows `change:` compares with an earlier run.
fn figures_in(output: &str) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    let mut name = String::new();
    let mut comparing = false;
    for line in output.lines() {
        let (head, rest) = match line.find("time:") {
            Some(at) => line.split_at(at),
            None => (line, ""),
        };
        if !head.trim().is_empty() && !head.starts_with([' ', '\t']) {
            name = head.trim().to_owned();
            comparing = false;
        }
        comparing |= line.trim_start().starts_with("change:");
        if comparing {
            continue;
        }
        if let Some(time) = middle(rest.trim_start_matches("time:")) {
            figures.push(Figure { name: name.clone(), time, throughput: None });
        } else if let Some(rest) = line.trim_start().strip_prefix("thrpt:")
            && let Some(last) = figures.last_mut()
        {
            last.throughput = middle(rest);
        }
    }
    figures
}

/// The second of three values with units in brackets.
fn middle(text: &str) -> Option<String> {
    let inside = text.trim().strip_prefix('[')?.split(']').next()?;
    let words: Vec<&str> = inside.split_whitespace().collect();
    (words.len() == 6).then(|| format!("{} {}", words[2], words[3]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_short_and_long_names() {
        let output = "\
short                   time:   [1.0 ns 1.1 ns 1.2 ns]
                        change: [-1.0% +0.1% +1.0%] (p = 0.75 > 0.05)
                        No change in performance detected.

group/with a long name, 5.6 B each
                        time:   [20.1 µs 20.2 µs 20.3 µs]
                        thrpt:  [12.6 Melem/s 12.7 Melem/s 12.8 Melem/s]
                 change:
                        time:   [-0.5% +0.1% +0.7%] (p = 0.75 > 0.05)
                        thrpt:  [-0.7% -0.1% +0.5%]
Found 2 outliers among 100 measurements (2.00%)
";
        let figure = |name: &str, time: &str, throughput: Option<&str>| Figure {
            name: name.into(),
            time: time.into(),
            throughput: throughput.map(Into::into),
        };
        let expected = [
            figure("short", "1.1 ns", None),
            figure("group/with a long name, 5.6 B each", "20.2 µs", Some("12.7 Melem/s")),
        ];
        assert_eq!(figures_in(output), expected);
    }

    #[test]
    fn benches_are_those_the_manifest_lists() {
        let table = "[[bench]]\nname = 'a'\n[[bench]]\nname = 'b'\n".parse().unwrap();
        let manifest = Manifest { path: String::new(), table };
        assert_eq!(benches(&manifest), ["a", "b"]);
    }
}
