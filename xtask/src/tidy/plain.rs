//! Plain words: few sentences consist of pronouns and stand-ins, in each crate's comments and in each document.
//!
//! A riddle is a sentence of six words and more of which a quarter or more are stand-ins.

use std::collections::BTreeMap;

use crate::repo::{File, Violation};

const STAND_INS: [&str; 28] = [
    "what",
    "who",
    "whose",
    "whom",
    "whoever",
    "whatever",
    "those",
    "that",
    "this",
    "these",
    "it",
    "its",
    "them",
    "they",
    "one",
    "ones",
    "others",
    "other",
    "there",
    "so",
    "such",
    "none",
    "nobody",
    "anybody",
    "somebody",
    "something",
    "anything",
    "nothing",
];

/// Riddles in a thousand sentences. A short text may have one riddle.
const LIMIT: usize = 20;

/// Sentences and riddles of a text.
#[derive(Default)]
struct Count {
    sentences: usize,
    riddles: usize,
    /// The first riddle: path and sentence.
    first: Option<(String, String)>,
}

/// Crates and documents with too many riddles.
pub fn check(files: &[File]) -> Vec<Violation> {
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    for file in files {
        let (Some(home), Some(text)) = (home(&file.path), file.text.as_deref()) else { continue };
        count(&file.path, text, counts.entry(home).or_default());
    }
    counts.iter().filter_map(|(home, count)| judge(home, count)).collect()
}

/// The crate of a source file, or the document itself; `None` for tests and other files.
fn home(path: &str) -> Option<&str> {
    if path.ends_with(".md") {
        return Some(path);
    }
    if !path.ends_with(".rs") || path.contains("/tests") || path.ends_with("tests.rs") {
        return None;
    }
    let folders = if path.starts_with("crates/") { 2 } else { 1 };
    let end = path.match_indices('/').nth(folders - 1)?.0;
    Some(&path[..end])
}

fn judge(home: &str, count: &Count) -> Option<Violation> {
    let (path, sentence) = count.first.as_ref()?;
    if count.riddles < 2 || count.riddles * 1000 <= LIMIT * count.sentences {
        return None;
    }
    let message = format!(
        "{} of {} sentences are riddles; at most {LIMIT} in a thousand. The first, in {path}: {sentence}",
        count.riddles, count.sentences
    );
    Some(Violation::new(home, 0, message))
}

fn count(path: &str, text: &str, count: &mut Count) {
    for paragraph in paragraphs(path.ends_with(".md"), text) {
        for sentence in sentences(&paragraph) {
            let words = sentence.split(|c: char| !c.is_ascii_alphabetic() && c != '\'');
            let words = words.filter(|word| !word.is_empty()).count();
            if words < 6 {
                continue;
            }
            count.sentences += 1;
            let parts = sentence.split(|c: char| !c.is_alphanumeric() && c != '_');
            let is_stand_in = |part: &&str| STAND_INS.iter().any(|s| s.eq_ignore_ascii_case(part));
            if parts.filter(is_stand_in).count() * 4 >= words {
                count.riddles += 1;
                count.first.get_or_insert_with(|| (path.to_owned(), sentence.to_owned()));
            }
        }
    }
}

/// Runs of comment lines, or of prose outside code, tables and headings.
fn paragraphs(markdown: bool, text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut fenced = false;
    for line in text.lines() {
        let trimmed = line.trim_start();
        fenced ^= markdown && line.starts_with("```");
        let prose = if markdown {
            let other = fenced
                || trimmed.is_empty()
                || ['|', '#', '<'].iter().any(|c| trimmed.starts_with(*c))
                || trimmed.starts_with("```");
            (!other).then_some(trimmed)
        } else {
            let comment = trimmed.strip_prefix("//");
            comment.map(|rest| rest.strip_prefix(['/', '!']).unwrap_or(rest))
        };
        match prose {
            Some(words) => {
                let paragraph = found.last_mut().expect("there is always a paragraph");
                paragraph.push_str(words);
                paragraph.push(' ');
            }
            None => found.push(String::new()),
        }
    }
    found
}

fn sentences(paragraph: &str) -> Vec<&str> {
    let ends = paragraph.match_indices([' ']).map(|(at, _)| at);
    let ends = ends.filter(|&at| paragraph[..at].ends_with(['.', ':', ';']));
    let mut from = 0;
    let mut found = Vec::new();
    for end in ends.chain([paragraph.len()]) {
        found.push(paragraph[from..end].trim());
        from = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIDDLE: &str = "Those who have it keep what is theirs.";
    const PLAIN: &str = "The engine writes each page before its checkpoint.";

    fn found(path: &str, text: &str) -> Vec<String> {
        let file = File { path: path.into(), size: 0, text: Some(text.into()) };
        check(&[file]).into_iter().map(|one| one.path).collect()
    }

    #[test]
    fn one_riddle_in_fifty_sentences_passes_and_more_fail() {
        let text =
            |plain: usize| format!("{RIDDLE}\n{RIDDLE}\n{}", format!("{PLAIN}\n").repeat(plain));
        assert_eq!(found("docs/a.md", &text(98)), Vec::<String>::new());
        assert_eq!(found("docs/a.md", &text(60)), ["docs/a.md"]);
        assert_eq!(found("docs/a.md", RIDDLE), Vec::<String>::new());
    }

    #[test]
    fn comments_of_a_crate_count_and_its_code_and_tests_do_not() {
        let comment = format!("/// {RIDDLE}\n/// {RIDDLE}\n");
        assert_eq!(found("crates/ftl/src/a.rs", &comment), ["crates/ftl"]);
        assert_eq!(found("xtask/src/a.rs", &comment), ["xtask"]);
        let code = comment.replace("///", "let a =");
        assert_eq!(found("crates/ftl/src/a.rs", &code), Vec::<String>::new());
        assert_eq!(found("crates/ftl/tests/it/a.rs", &comment), Vec::<String>::new());
        let table = format!("| {RIDDLE} {RIDDLE} |\n```\n{RIDDLE}\n{RIDDLE}\n```\n");
        assert_eq!(found("docs/a.md", &table), Vec::<String>::new());
    }
}
