//! Sorted tables and their merges.

use std::ops::Range;

use super::keyspace::KeySpace;
use crate::filesystem::DataFile;

/// A sorted table.
#[derive(Debug)]
pub(super) struct SortedTable {
    pub id: u64,
    pub file: DataFile,
    pub content: Content,
    /// The level, or how often its youngest part was merged.
    pub level: u32,
    /// Bytes written to the store when its youngest record was.
    pub newest: u64,
    /// Whether it is being merged.
    pub busy: bool,
}

impl SortedTable {
    pub fn bytes(&self) -> u64 {
        self.content.bytes
    }
}

/// Content of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Content {
    /// The part of the keys, of 0..1.
    pub keys: Range<f64>,
    /// Bytes written for each whole of the keys.
    pub draws: f64,
    /// Share of the keys in its part that was loaded.
    pub loaded: f64,
    pub bytes: u64,
}

impl Content {
    pub fn new(keys: Range<f64>, draws: f64, loaded: f64, space: &KeySpace) -> Content {
        let bytes = (keys.end - keys.start) * space.distinct(draws, loaded);
        Content { keys, draws, loaded, bytes: bytes.round() as u64 }
    }

    pub fn overlaps(&self, other: &Content) -> bool {
        self.keys.start < other.keys.end && other.keys.start < self.keys.end
    }

    fn width(&self) -> f64 {
        self.keys.end - self.keys.start
    }

    /// The union of two adjacent contents.
    fn and(&self, next: &Content) -> Content {
        let (one, other) = (self.width(), next.width());
        let mean = |a: f64, b: f64| (a * one + b * other) / (one + other);
        Content {
            keys: self.keys.start..next.keys.end,
            draws: mean(self.draws, next.draws),
            loaded: mean(self.loaded, next.loaded),
            bytes: self.bytes + next.bytes,
        }
    }

    /// The first `bytes` of it, and the rest.
    fn split(self, bytes: u64) -> (Content, Content) {
        let at = self.keys.start + self.width() * bytes as f64 / self.bytes as f64;
        let rest = Content { keys: at..self.keys.end, bytes: self.bytes - bytes, ..self.clone() };
        (Content { keys: self.keys.start..at, bytes, ..self }, rest)
    }
}

/// The tables that merging `inputs` makes, each of at most `most` bytes. Within a table the keys count as evenly
/// written, with the mean.
pub(super) fn merge(inputs: &[&Content], most: u64, space: &KeySpace) -> Vec<Content> {
    let mut outputs: Vec<Content> = Vec::new();
    for mut piece in pieces(inputs, space) {
        while piece.bytes > 0 {
            let joins = outputs.last().filter(|last| {
                last.bytes < most && last.keys.end.total_cmp(&piece.keys.start).is_eq()
            });
            let room = most - joins.map_or(0, |last| last.bytes);
            let joins = joins.is_some();
            let now;
            (now, piece) = if piece.bytes > room {
                piece.split(room)
            } else {
                let rest = Content { bytes: 0, ..piece.clone() };
                (piece, rest)
            };
            match outputs.last_mut().filter(|_| joins) {
                Some(last) => *last = last.and(&now),
                None => outputs.push(now),
            }
        }
    }
    outputs
}

/// The union of `inputs`, cut wherever an input begins or ends.
fn pieces(inputs: &[&Content], space: &KeySpace) -> Vec<Content> {
    let mut bounds: Vec<f64> =
        inputs.iter().flat_map(|input| [input.keys.start, input.keys.end]).collect();
    bounds.sort_by(f64::total_cmp);
    bounds.dedup_by(|a, b| a.total_cmp(b).is_eq());
    let piece = |pair: &[f64]| {
        let part = pair[0]..pair[1];
        let within =
            |input: &&&Content| input.keys.start <= part.start && part.end <= input.keys.end;
        let (mut draws, mut absent, mut some) = (0.0, 1.0, false);
        for input in inputs.iter().filter(within) {
            draws += input.draws;
            absent *= 1.0 - input.loaded;
            some = true;
        }
        some.then(|| Content::new(part, draws, 1.0 - absent, space))
    };
    bounds.windows(2).filter_map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_types::Bytes;

    fn space() -> KeySpace {
        KeySpace::new(Bytes::gib(1), Bytes::kib(1), 0.0)
    }

    #[test]
    fn merging_adds_what_was_written_and_keeps_each_record_once() {
        let space = space();
        let draws = Bytes::gib(1).as_f64();
        let one = Content::new(0.0..1.0, draws, 0.0, &space);
        let merged = merge(&[&one, &one], u64::MAX, &space);
        let [merged] = &merged[..] else { panic!("{merged:?}") };
        // 1 - 1/e of the keys in one, 1 - 1/e^2 in both.
        let share = |content: &Content| content.bytes as f64 / draws;
        assert!((share(&one) - 0.632_12).abs() < 1e-4, "{}", share(&one));
        assert!((share(merged) - 0.864_66).abs() < 1e-4, "{}", share(merged));
        // What was loaded is there, whatever else was written.
        let loaded = Content::new(0.0..1.0, 0.0, 1.0, &space);
        assert_eq!(loaded.bytes, Bytes::gib(1).0);
        assert_eq!(merge(&[&loaded, &one], u64::MAX, &space)[0].bytes, loaded.bytes);
    }

    #[test]
    fn tables_end_where_they_are_full_or_the_keys_have_a_gap() {
        let space = space();
        let upper = Content::new(0.0..0.5, 1e9, 0.0, &space);
        let below: Vec<Content> = [0.0..0.25, 0.25..0.5, 0.75..1.0]
            .map(|keys| Content::new(keys, 2e9, 0.0, &space))
            .into();
        let all: Vec<&Content> = std::iter::once(&upper).chain(&below).collect();
        let merged = merge(&all, 100 << 20, &space);
        let in_part = 0.5 * space.distinct(3e9, 0.0);
        let sum: u64 = merged.iter().filter(|table| table.keys.end < 0.6).map(|t| t.bytes).sum();
        assert!((sum as f64 - in_part).abs() < 3.0, "{sum} for {in_part}");
        assert!(merged.iter().all(|table| table.bytes <= 100 << 20));
        let ends = |pair: &[Content]| pair[0].keys.end <= pair[1].keys.start;
        assert!(merged.windows(2).all(ends));
        let gap = merged.iter().find(|table| table.keys.contains(&0.6));
        assert_eq!(gap, None);
        let last = merged.last().expect("some");
        assert!((last.keys.end - 1.0).abs() < 1e-12 && last.keys.start >= 0.75);
    }
}
