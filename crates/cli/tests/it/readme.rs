//! Runs README.md's commands, in order.

use super::programs::have;
use super::script::{Need, announce, await_server, run};
use super::serve_fuse::ready;
use crate::{repository, scratch};

/// Commands that are not run, by their first words, with the reason.
const LEFT_OUT: [(&str, &str); 3] = [
    ("cargo xtask test", "it is what runs this"),
    ("cargo install", "the program is built already"),
    ("cargo xtask bench", "minutes, and figures that mean nothing on a busy machine"),
];

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

#[test]
fn every_command_of_the_readme_works_from_the_program_alone() {
    let text = std::fs::read_to_string(repository().join("README.md")).expect("it is there");
    let mut script = String::new();
    let mut left_out = Vec::new();
    for (number, block) in blocks(&text) {
        if NEEDS.iter().any(|(word, met)| block.contains(word) && !met()) {
            continue;
        }
        script += &announce(&format!("README.md:{number}"));
        for line in block.lines() {
            match LEFT_OUT.iter().find(|(begin, _)| line.starts_with(begin)) {
                Some((begin, _)) => left_out.push(*begin),
                None => script += &(await_server(&typed(line)) + "\n"),
            }
        }
    }
    assert!(!script.contains("cargo"), "{script}");
    for (begin, reason) in LEFT_OUT {
        assert!(left_out.contains(&begin), "`{begin}` is not in README.md any more ({reason})");
    }
    let folder = scratch();
    let done = run(&script, folder.path());
    print!("{}", done.out);
    assert_eq!(done.code, 0, "{}", done.err);
    for made in ["report.html", "mine.toml", "pool.ledger"] {
        assert!(folder.path().join(made).is_file(), "{made}");
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
