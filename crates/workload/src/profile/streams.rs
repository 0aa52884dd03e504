//! Following sequential streams.

/// How many streams are followed at once. Chosen, not measured: enough for a database's logs, compactions and
/// flushes side by side.
const STREAMS: usize = 16;

/// Where the most recent streams of one tenant ended, the most recent first.
#[derive(Debug, Default)]
pub(super) struct Streams {
    ends: Vec<u64>,
}

impl Streams {
    /// Notes a write from `start` to `end` and says whether it continues a stream.
    pub fn continues(&mut self, start: u64, end: u64) -> bool {
        let found = self.ends.iter().position(|&previous| previous == start);
        match found {
            Some(stream) => self.ends[..=stream].rotate_right(1),
            None => {
                self.ends.truncate(STREAMS - 1);
                self.ends.insert(0, end);
            }
        }
        self.ends[0] = end;
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_interleaved_streams_are_followed_and_a_seventeenth_is_too_many() {
        for (count, continued) in [(16, true), (17, false)] {
            let mut streams = Streams::default();
            for step in 0..4 {
                for stream in 0..count {
                    let start = stream * 1_000_000 + step * 4096;
                    let expected = continued && step > 0;
                    assert_eq!(streams.continues(start, start + 4096), expected);
                }
            }
        }
    }
}
