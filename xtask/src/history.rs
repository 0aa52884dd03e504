//! The history of the repository's costs: one line of JSON for each measured commit, and a table with bars of all.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};

use crate::bench_serve;
use crate::repo::Repo;
use crate::step::cargo;

/// Where the lines are.
const HISTORY: &str = "docs/history.jsonl";

/// Columns of the table: key, heading, unit by which a value is divided.
const COLUMNS: [(&str, &str, f64); 4] = [
    ("release_cpu_seconds", "release build, CPU s", 1.0),
    ("binary_bytes", "binary, MB", 1e6),
    ("rust_lines", "lines of Rust", 1.0),
    ("document_words", "words of documents", 1.0),
];

/// Characters of the longest bar.
const BAR: f64 = 24.0;

/// Measures this commit and appends a line, unless `draw` says that the table is enough; prints the table. With `bench`
/// the ratios of `bench serve` are in the line.
///
/// # Errors
/// When something cannot be built, measured, read or written.
pub fn run(repo: &Repo, draw: bool, bench: bool) -> Result<()> {
    let path = repo.root().join(HISTORY);
    let mut lines = fs::read_to_string(&path).unwrap_or_default();
    if !draw {
        lines.push_str(&measure(repo, bench)?.to_string());
        lines.push('\n');
        fs::write(&path, &lines).with_context(|| HISTORY.to_owned())?;
    }
    let parsed = lines.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
    print!("{}", table(&parsed.with_context(|| format!("{HISTORY} is damaged"))?));
    Ok(())
}

/// What this commit costs.
fn measure(repo: &Repo, bench: bool) -> Result<Value> {
    let folder = repo.root().join("target/history");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("target/history cannot be emptied")?;
    }
    let target = folder.to_string_lossy();
    let before = children_cpu()?;
    let build = ["build", "--release", "--quiet", "--bin", "thermocline", "--target-dir", &target];
    cargo(repo, "clean release build", &build)?;
    let seconds = children_cpu()? - before;
    let binary = fs::metadata(folder.join("release/thermocline")).context("the built program")?;
    let files = repo.files()?;
    let text = |one: &&crate::repo::File| one.text.clone().unwrap_or_default();
    let rust: usize =
        files.iter().filter(|one| one.is_rust()).map(|one| text(&one).lines().count()).sum();
    let documents = files.iter().filter(|one| one.path.ends_with(".md"));
    let words: usize = documents.map(|one| text(&one).split_whitespace().count()).sum();
    let mut ratios = Map::new();
    if bench {
        for ratio in bench_serve::run(repo)? {
            let pair = [ratio.rate, ratio.cpu].map(|value| (value * 100.0).round() / 100.0);
            ratios.insert(ratio.name, json!(pair));
        }
    }
    Ok(json!({
        "commit": repo.commit().unwrap_or_default(),
        "release_cpu_seconds": seconds.round(),
        "binary_bytes": binary.len(),
        "rust_lines": rust,
        "document_words": words,
        "bench_rate_and_cpu": ratios,
    }))
}

/// CPU seconds, user and system, of ended children and of theirs: fields 16 and 17 of `/proc/self/stat`, in hundredths
/// (proc(5); `USER_HZ` is 100 on Linux).
fn children_cpu() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat").context("/proc/self/stat")?;
    let behind_name = stat.rsplit_once(')').context("/proc/self/stat has no name")?.1;
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    ensure!(fields.len() > 15, "/proc/self/stat is short");
    Ok((fields[13].parse::<f64>()? + fields[14].parse::<f64>()?) / 100.0)
}

/// All lines, oldest first. A bar shows each figure beside the largest of its column.
fn table(lines: &[Value]) -> String {
    let mut text = String::new();
    for (key, heading, unit) in COLUMNS {
        let of = |line: &Value| line[key].as_f64().unwrap_or(0.0) / unit;
        let most = lines.iter().map(of).fold(f64::MIN_POSITIVE, f64::max);
        text.push_str(&format!("{heading}\n"));
        for line in lines {
            let commit = line["commit"].as_str().and_then(|all| all.get(..8)).unwrap_or("-");
            let bar = "#".repeat((of(line) / most * BAR).round() as usize);
            text.push_str(&format!("  {commit:8} {:>12.1} {bar}\n", of(line)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_figures() {
        let lines = [json!({"commit": "0123456789", "rust_lines": 100}), json!({"rust_lines": 50})];
        let table = table(&lines);
        let bars: Vec<usize> = table
            .lines()
            .skip_while(|line| *line != "lines of Rust")
            .skip(1)
            .take(2)
            .map(|line| line.matches('#').count())
            .collect();
        assert_eq!(bars, [24, 12]);
        assert!(table.contains("01234567 "));
    }

    #[test]
    fn cpu_time_of_children_grows() {
        let before = children_cpu().unwrap();
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        assert!(std::process::Command::new("sh").args(["-c", busy]).status().unwrap().success());
        assert!(children_cpu().unwrap() > before);
    }
}
