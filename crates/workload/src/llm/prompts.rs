//! Traces of prompts, as Mooncake publishes them: a JSON object a line.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use thermocline_types::Time;

/// Tokens of a block (Mooncake, FAST 2025: traces are hashed in blocks of 512).
pub const TOKENS: u64 = 512;

/// Name of the trace that comes with the program.
pub const BUILT_IN: &str = "mooncake-conversation";
const BUILT_IN_BYTES: &[u8] = include_bytes!("../../testdata/mooncake-conversation.jsonl.gz");

/// Number of a block, from 0 in the order of first use.
pub type PromptBlock = u32;

/// One prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Arrival, since the first.
    pub at: Time,
    /// Its blocks, first to last. Equal numbers are equal prefixes up to and with the block.
    pub blocks: Vec<PromptBlock>,
    /// Whether the last block holds fewer tokens than [`TOKENS`].
    pub partial: bool,
}

/// A trace of prompts in order of arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompts {
    /// The prompts.
    pub all: Vec<Prompt>,
    /// Number of different blocks.
    pub distinct: usize,
}

/// A trace that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{name}{}: {reason}", if *.line > 0 { format!(", line {}", .line) } else { String::new() })]
pub struct TraceError {
    /// The file.
    pub name: String,
    /// The line, from 1; 0 where no line is at fault.
    pub line: usize,
    /// Why.
    pub reason: String,
}

/// A line.
#[derive(Deserialize)]
struct Line {
    /// In ms.
    timestamp: u64,
    input_length: u64,
    hash_ids: Vec<u64>,
}

impl Prompts {
    /// Reads the trace called `name`: a path, of text or gzip, or [`BUILT_IN`].
    ///
    /// # Errors
    /// [`TraceError`] with the first line at fault.
    pub fn open(name: &str) -> Result<Prompts, TraceError> {
        if name == BUILT_IN {
            return Prompts::read(name, BUILT_IN_BYTES);
        }
        let fault = |reason: String| TraceError { name: name.to_owned(), line: 0, reason };
        let file = File::open(crate::at_home(Path::new(name)))
            .map_err(|error| fault(error.to_string()))?;
        Prompts::read(name, file)
    }

    fn read(name: &str, input: impl Read) -> Result<Prompts, TraceError> {
        let fault = |line, reason: String| TraceError { name: name.to_owned(), line, reason };
        let mut input = BufReader::new(input);
        let start = input.fill_buf().map_err(|error| fault(0, error.to_string()))?;
        let gzip = start.starts_with(&[0x1f, 0x8b]);
        let text: Box<dyn Read + '_> =
            if gzip { Box::new(MultiGzDecoder::new(input)) } else { Box::new(input) };
        let (mut numbers, mut all) = (std::collections::HashMap::new(), Vec::<Prompt>::new());
        let mut first = 0;
        for (line, text) in (1..).zip(BufReader::new(text).lines()) {
            let text = text.map_err(|error| fault(line, error.to_string()))?;
            let read: Line =
                serde_json::from_str(&text).map_err(|error| fault(line, error.to_string()))?;
            let count = read.input_length.div_ceil(TOKENS);
            if count != read.hash_ids.len() as u64 {
                let have = read.hash_ids.len();
                let tokens = read.input_length;
                return Err(fault(line, format!("{tokens} tokens are {count} blocks, not {have}")));
            }
            first = if all.is_empty() { read.timestamp } else { first };
            let since = read.timestamp.checked_sub(first).and_then(|ms| ms.checked_mul(1000));
            let at = since.map(Time::micros);
            let Some(at) = at.filter(|&at| all.last().is_none_or(|last| last.at <= at)) else {
                return Err(fault(line, "earlier than the line before".to_owned()));
            };
            let blocks = read.hash_ids.iter().map(|&id| {
                let next = numbers.len() as PromptBlock;
                *numbers.entry(id).or_insert(next)
            });
            let blocks = blocks.collect();
            all.push(Prompt { at, blocks, partial: !read.input_length.is_multiple_of(TOKENS) });
        }
        if numbers.is_empty() {
            return Err(fault(0, "holds no blocks".to_owned()));
        }
        Ok(Prompts { all, distinct: numbers.len() })
    }

    /// Time from the first prompt to the last.
    #[must_use]
    pub fn duration(&self) -> Time {
        self.all.last().map_or(Time::ZERO, |prompt| prompt.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_prompts_and_faults_name_theirs() {
        let lines = [
            r#"{"timestamp": 5, "input_length": 600, "output_length": 1, "hash_ids": [7, 9]}"#,
            r#"{"timestamp": 8, "input_length": 1024, "output_length": 1, "hash_ids": [7, 3]}"#,
        ];
        let prompts = Prompts::read("a", lines.join("\n").as_bytes()).unwrap();
        let blocks: Vec<&[PromptBlock]> =
            prompts.all.iter().map(|prompt| &*prompt.blocks).collect();
        assert_eq!(blocks, [&[0, 1][..], &[0, 2][..]]);
        assert_eq!((prompts.distinct, prompts.duration()), (3, Time::micros(3000)));
        assert!(prompts.all[0].partial && !prompts.all[1].partial);
        let wrong = format!("{}\n{}", lines[0], lines[1].replace("1024", "1025"));
        let fault = Prompts::read("a", wrong.as_bytes()).unwrap_err().to_string();
        assert_eq!(fault, "a, line 2: 1025 tokens are 3 blocks, not 2");
        assert!(Prompts::read("a", [lines[1], lines[0]].join("\n").as_bytes()).is_err());
        assert!(Prompts::open("none.jsonl").is_err());
    }

    #[test]
    fn the_trace_that_comes_along_is_that_of_its_description() {
        let prompts = Prompts::open(BUILT_IN).unwrap();
        let references: usize = prompts.all.iter().map(|prompt| prompt.blocks.len()).sum();
        assert_eq!((prompts.all.len(), references, prompts.distinct), (12_031, 288_500, 182_790));
        assert_eq!(prompts.duration().as_secs_f64().round() as u64, 3_537);
        let mut uses = vec![0; prompts.distinct];
        prompts.all.iter().flat_map(|prompt| &prompt.blocks).for_each(|&b| uses[b as usize] += 1);
        let once = uses.iter().filter(|&&uses| uses == 1).count() as f64;
        assert_eq!((once / prompts.distinct as f64 * 1e3).round() as u64, 758);
        let again = (references - prompts.distinct) as f64 / references as f64;
        assert_eq!((again * 1e3).round() as u64, 366);
        // Every new block written once, in 10^10 bytes.
        for (model, written) in [("8b", 1_227), ("70b", 3_067), ("latent", 658)] {
            let block = model.parse::<crate::llm::LlmModel>().unwrap().block();
            let bytes = block.as_f64() * prompts.distinct as f64;
            assert_eq!((bytes / 1e10).round() as u64, written, "{model}");
        }
    }

    #[test]
    fn reuse_distances_are_those_of_the_reference() {
        let prompts = Prompts::open(BUILT_IN).unwrap();
        let mut last = vec![None; prompts.distinct];
        let (mut fresh, mut distances) = (0_u64, Vec::new());
        for &block in prompts.all.iter().flat_map(|prompt| &prompt.blocks) {
            let last = &mut last[block as usize];
            match *last {
                Some(last) => distances.push(fresh - last),
                None => fresh += 1,
            }
            *last = Some(fresh);
        }
        distances.sort_unstable();
        let at = |percent: usize| distances[(distances.len() - 1) * percent / 100];
        assert_eq!([10, 50, 90, 99].map(at), [34, 5_868, 25_882, 78_432]);
    }
}
