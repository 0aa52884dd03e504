//! Mapped runs of a volume, for host queries.

use std::fmt::Debug;

use crate::engine::Parts;
use crate::map::{Mapping, PAGE, Value};
use crate::payload::Payload;
use crate::request::{Extent, HostError};

/// Blocks that a query scans at most. Chosen so that the scan takes well under a millisecond.
const LOOKED_AT: u64 = 64 * PAGE;

/// A run of blocks of a volume that are mapped, or are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Blocks, at least one.
    pub blocks: u64,
    /// Whether they are mapped. If not, they read as zeros.
    pub mapped: bool,
}

impl<P: Payload> Parts<P> {
    /// As [`crate::Engine::runs`].
    pub(crate) fn runs(&self, extent: Extent, count: usize) -> Result<Vec<Run>, HostError> {
        let volume = self.locate(extent)?;
        let blank = |page: u64| {
            self.volumes.map(volume).is_blank(page) && !self.volumes.is_below(volume, page)
        };
        let mut runs: Vec<Run> = Vec::new();
        let (mut lba, end) = (extent.lba, extent.lba + extent.blocks.min(LOOKED_AT));
        while lba < end {
            let (mapped, blocks) = match blank(lba / PAGE) {
                true => (false, end.min((lba / PAGE + 1) * PAGE) - lba),
                false => {
                    let (_, mapping) = self.volumes.find(volume, lba);
                    let nothing = [Mapping::Unmapped, Mapping::At(Value::HOLE)];
                    (mapping.is_none_or(|mapping| !nothing.contains(&mapping)), 1)
                }
            };
            match runs.last_mut() {
                Some(run) if run.mapped == mapped => run.blocks += blocks,
                _ => {
                    if runs.len() == count {
                        break;
                    }
                    runs.push(Run { blocks, mapped });
                }
            }
            lba += blocks;
        }
        Ok(runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::parts::testing::{blocks, parts};
    use crate::request::RequestId;

    #[test]
    fn runs_end_where_mapped_blocks_end_and_none_goes_beyond_the_number_that_was_asked_for() {
        let mut p = parts();
        let from = PAGE - 6;
        assert!(p.write_at_once(RequestId(1), blocks(from, 4), &(), 0));
        let runs = |lba, count, most| {
            let runs = p.runs(blocks(lba, count), most).expect("blocks of the volume");
            runs.into_iter().map(|run| (run.blocks, run.mapped)).collect::<Vec<_>>()
        };
        assert_eq!(runs(0, 1024, 9), [(from, false), (4, true), (1020 - from, false)]);
        assert_eq!(runs(3, 1000, 2), [(from - 3, false), (4, true)]);
        assert_eq!(runs(from + 1, 2, 9), [(2, true)]);
        // Of a page in which nothing is mapped.
        assert_eq!(runs(PAGE + 7, 5, 1), [(5, false)]);
    }
}
