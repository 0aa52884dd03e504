//! Runs the commands of README.md, docs/use/TOUR.md and docs/use/RUNBOOK.md, in order.

use thermocline_serve::Serving;

use super::programs::have;
use super::script::{Need, announce, run};
use super::serve_fuse::ready;
use crate::{repository, scratch};

/// Commands that are not run, by their first words, with the reason.
const LEFT_OUT: [(&str, &str); 2] =
    [("cargo xtask test", "it runs this test"), ("cargo install", "the program is built already")];

/// Commands that build and run from the sources run the program instead.
const FROM_SOURCES: (&str, &str) = ("cargo run --release --", "thermocline");

/// Benches run as well, with less data.
const LESS: (&str, &str) = ("--span 25GiB", "--span 2GiB");

/// Needs of blocks from the machine, by a word in the block.
const NEEDS: [Need; 2] =
    [("losetup", || ready(true, &["losetup", "mkfs.ext4"])), ("fio", || have(&["fio"]))];

/// The shell's blocks with the number of their first line.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let mut in_block = false;
    for (number, line) in text.lines().enumerate() {
        match line {
            "```sh" => {
                in_block = true;
                blocks.push((number + 2, String::new()));
            }
            "```" => in_block = false,
            line if in_block => {
                let (_, block) = blocks.last_mut().expect("one has begun");
                *block += &format!("{line}\n");
            }
            _ => {}
        }
    }
    blocks
}

fn typed(line: &str) -> String {
    [FROM_SOURCES, LESS].iter().fold(line.to_owned(), |line, (from, to)| line.replace(from, to))
}

/// The blocks of `text` with output of programs.
fn tables(text: &str) -> impl Iterator<Item = &str> {
    text.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next())
}

/// Runs the blocks of a document. Returns the lines they print, with one blank between words.
fn printed_by(document: &str, made: &[&str]) -> (String, Vec<String>) {
    let text = std::fs::read_to_string(repository().join(document)).expect("it is there");
    let mut script = String::new();
    for (number, block) in blocks(&text) {
        if NEEDS.iter().any(|(word, met)| block.contains(word) && !met()) {
            continue;
        }
        script += &announce(&format!("{document}:{number}"));
        let is_run = |line: &&str| !LEFT_OUT.iter().any(|(begin, _)| line.starts_with(begin));
        block.lines().filter(is_run).for_each(|line| script += &(typed(line) + "\n"));
    }
    assert!(!script.contains("cargo"), "{script}");
    let folder = scratch();
    let done = run(&script, folder.path());
    print!("{}", done.out);
    assert_eq!(done.code, 0, "{}", done.err);
    for made in made {
        assert!(folder.path().join(made).is_file(), "{made}");
    }
    let running = Serving::of(&folder.path().join("pool.toml"));
    assert!(running.is_none(), "{document} leaves a server running");
    (text, done.out.lines().map(words).collect())
}

/// A line with one blank between words.
fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The number behind the last line that begins with `begin`, in column `column`.
fn last_figure(lines: &[String], begin: &str, column: usize) -> f64 {
    let line = lines.iter().rev().find(|line| line.starts_with(begin));
    let figure = line.and_then(|line| line.split(' ').nth(column));
    figure.and_then(|figure| figure.parse().ok()).expect("a figure")
}

#[test]
fn every_command_of_the_readme_works_and_prints_the_tables_of_the_readme() {
    let (text, lines) = printed_by("README.md", &["report.html", "mine.csv.zst"]);
    assert!(text.lines().count() <= 150, "README.md is to be read in three minutes");
    for (begin, reason) in LEFT_OUT {
        assert!(text.contains(begin), "`{begin}` is not in README.md any more ({reason})");
    }
    // The first block of text is the drawing.
    for line in tables(&text).skip(1).flat_map(str::lines).map(words) {
        assert!(lines.contains(&line), "README.md has `{line}`, which no command printed");
    }
    if !have(&["fio"]) {
        return;
    }
    let stat = lines.iter().position(|line| line.starts_with("reads/s")).expect("`stat`");
    let served: f64 = lines[stat + 1].split(' ').nth(8).expect("a total").parse().expect("WAF");
    let predicted = last_figure(&lines, "WAF (media / host) transient", 5);
    assert!((predicted / served - 1.0).abs() < 0.05, "served {served}, predicted {predicted}");
    assert!((served - 1.1).abs() < 0.1, "README.md has 1.1, served {served}");
}

#[test]
fn every_command_of_the_tour_works_from_the_program_alone() {
    printed_by("docs/use/TOUR.md", &["mine.toml", "pool.ledger", "p5316.html"]);
}

#[test]
fn every_command_of_the_runbook_works() {
    if have(&["nbdcopy"]) {
        printed_by("docs/use/RUNBOOK.md", &["backup.bin"]);
    }
}

#[test]
fn the_page_of_settings_is_what_the_program_prints() {
    let page = std::fs::read_to_string(repository().join("docs/use/SETTINGS.md")).unwrap();
    let folder = scratch();
    let example = super::serve::run(folder.path(), "format --example").ok();
    let again = "```toml of docs/use/SETTINGS.md differs from `thermocline format --example`";
    assert!(page.contains(&format!("```toml\n{example}```\n")), "{again}");
}
