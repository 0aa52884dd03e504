//! A placement policy that chooses the handles of writes.

use std::ops::Range;

use thermocline_ftl::placement::{Below, Classifier as _, Part, Policy, Write};
use thermocline_types::{Bytes, Lba, Request};

use crate::profile::Cut;

/// A policy that chooses handles.
///
/// The policy sees every block written by the host, but nothing inside the drive: neither the location of blocks nor
/// the opening and cleaning of units. A command has one handle, chosen by the majority of the command's blocks; the
/// first handle wins a tie. The policy maps a class to a handle.
#[derive(Debug)]
pub struct Tagger {
    policy: Policy,
    /// Host blocks of 4 KiB written.
    now: u64,
    /// Blocks of a request by handle.
    votes: Vec<u32>,
}

impl Tagger {
    /// `policy`, on a drive with `handles` handles that is cut as `cut` says.
    #[must_use]
    pub fn new(mut policy: Policy, handles: u8, cut: &Cut) -> Tagger {
        let blocks = |bytes: Bytes| bytes.0 / Bytes::BLOCK.0;
        let per_unit = blocks(cut.unit()).max(1) as u32;
        policy.begin(blocks(cut.capacity()).max(1), cut.shape.units(), per_unit, Below::Apart);
        Tagger { policy, now: 0, votes: vec![0; usize::from(handles.max(1))] }
    }

    /// Whether `policy` separates host writes by the writes alone.
    ///
    /// The others put all of them in one class (none, SepGC, LSM_ZGC, MiDA, MiDAS), measure lifespans on victims
    /// (SepBIT), take their thresholds from units (SFS), or have only survivors leave the first log (MultiLog).
    #[must_use]
    pub fn suits(policy: &Policy) -> bool {
        matches!(
            policy,
            Policy::Auto(_)
                | Policy::Dac(_)
                | Policy::Fadac(_)
                | Policy::Warcip(_)
                | Policy::MultiQueue(_)
                | Policy::Sfr(_)
                | Policy::Eti(_)
        )
    }

    /// The handle of the write command that consists of `pieces`, in the order of commands.
    pub fn handle(&mut self, pieces: &[Request]) -> u16 {
        self.votes.fill(0);
        let streams = self.votes.len() as u8;
        let length = pieces.iter().map(|piece| blocks_of(piece).count() as u32).sum();
        for (lba, offset) in pieces.iter().flat_map(blocks_of).zip(0..) {
            let part = Part { offset, length };
            let class = self.policy.place(Write { part, ..Write::plain(Lba(lba), self.now) });
            self.votes[usize::from(self.policy.stream(class, streams))] += 1;
            self.now += 1;
        }
        let most = self.votes.iter().copied().max().unwrap_or(0);
        self.votes.iter().position(|&votes| votes == most).unwrap_or(0) as u16
    }
}

/// The 4 KiB blocks that a request touches.
fn blocks_of(request: &Request) -> Range<u64> {
    request.offset.0 / Bytes::BLOCK.0..request.end().div_ceil(Bytes::BLOCK)
}
