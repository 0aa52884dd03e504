//! What of a volume is mapped, for hosts that ask.

use std::fmt::Debug;

use crate::engine::Parts;
use crate::map::{Mapping, PAGE};
use crate::payload::Payload;
use crate::request::{Extent, HostError};

/// Blocks that are looked at for one question. Chosen so that it takes well under a millisecond.
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
        let map = self.volumes.map(self.locate(extent)?);
        let mut runs: Vec<Run> = Vec::new();
        let (mut lba, end) = (extent.lba, extent.lba + extent.blocks.min(LOOKED_AT));
        while lba < end {
            let (mapped, blocks) = match map.is_blank(lba / PAGE) {
                true => (false, end.min((lba / PAGE + 1) * PAGE) - lba),
                false => (map.look_up(lba) != Some(Mapping::Unmapped), 1),
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
