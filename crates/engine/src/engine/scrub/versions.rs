//! Scrub on devices with redundancy: every version of every valid block is read and compared.
//!
//! A block with a wrong version is rewritten from a right version. What the members hold beside the blocks, parity
//! among it, is made to agree with them at the end of a unit, and only where all of its blocks were right.

use std::fmt::Debug;

use thermocline_format::{Geometry, Location};
use thermocline_types::Version;

use super::{Counted, Scrub, Step};
use crate::bugs::bug;
use crate::device::{DeviceCmd, DeviceError, Done, FoundChunk, Heal};
use crate::engine::scrub::Scrubber;
use crate::engine::{Op, Parts};
use crate::marks::mark;
use crate::payload::Payload;

/// Blocks that one command reads. Chosen, not measured.
const RUN: usize = 64;

/// The header of a chunk that not every version has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Disputed {
    at: Location,
    /// Logical blocks of the header.
    blocks: u32,
    /// The only version with the header; `None` if several do.
    only_in: Option<Version>,
}

impl Disputed {
    pub(super) fn of<P>(chunk: &FoundChunk<P>, geometry: &Geometry) -> Disputed {
        let blocks = geometry.logical_block().to_hold(chunk.header.header_bytes(geometry));
        Disputed { at: chunk.header.origin.location, blocks, only_in: chunk.only_in }
    }
}

impl Scrubber {
    /// The first version read is wrong at `at`, and another version is right.
    pub(crate) fn version_was_wrong<P: Payload>(&mut self, asked: &Op<P>, at: Location) {
        let scrubs = matches!(asked, Op::ScrubRead { .. } | Op::ScrubVersion { .. });
        if scrubs && let Some(mut scrub) = self.scrubs.pop_front() {
            scrub.note_wrong(at);
            self.scrubs.push_front(scrub);
        }
    }

    /// Blocks were read without a member. Blocks that other versions have right were already rewritten.
    pub(crate) fn version_read<P: Payload>(
        &mut self,
        p: &mut Parts<P>,
        blocks: &[Counted],
        version: Version,
        done: &Result<Done<P>, DeviceError>,
    ) {
        mark!(ScrubVersionCompared if done.is_ok());
        mark!(ScrubVersionMissing if done.is_err());
        debug_assert!(!blocks.is_empty() && version != Version::AS_READ);
        if let Some(scrub) = self.scrubs.front_mut() {
            scrub.answered(p.now);
        }
    }
}

impl Scrub {
    /// A header that not every version has leads to a block that counts: it is written again. The blocks of its chunk
    /// are compared by themselves.
    pub(super) fn header<P: Payload>(&mut self, p: &mut Parts<P>, header: &Disputed) {
        mark!(ScrubHeaderInOneVersion if header.only_in.is_some());
        let Disputed { at, blocks, only_in } = *header;
        if let Some(version) = only_in {
            p.heal(Heal { at, blocks, version });
        }
        self.note_wrong(at);
    }

    /// A place that one version has wrong and another right.
    fn note_wrong(&mut self, at: Location) {
        if !self.wrong.contains(&at) {
            self.wrong.push(at);
            self.mended += 1;
        }
    }

    /// Reads the next blocks of those that were compared without a member; behind the last member, what was wrong is
    /// written again.
    pub(super) fn read_versions<P: Payload>(&mut self, p: &mut Parts<P>, member: u8, from: usize) {
        if member == p.members_of(self.unit) || bug!(p.config, OneVersionScrubbed) {
            self.step = Step::Heal;
            return;
        }
        if from == 0 {
            self.seen.sort_unstable_by_key(|block| block.value.address());
        }
        let Some(first) = self.seen.get(from) else {
            self.step = Step::Versions(member + 1, 0);
            return;
        };
        let per_block = p.config.geometry.logical_block().per_block();
        let at = p.addresses.location(first.value.address());
        let follows = |(nth, block): &(usize, &Counted)| {
            let place = p.addresses.location(block.value.address());
            place == Location { block: at.block + *nth as u32 * per_block, ..at }
        };
        let run = self.seen[from..].iter().enumerate().take(RUN).take_while(follows);
        let blocks: Vec<Counted> = run.map(|(_, block)| *block).collect();
        let (version, count) = (Version::without(member.into()), blocks.len());
        self.waiting += 1;
        self.step = Step::Versions(member, from + count.max(1));
        let op = p.ops.insert(Op::ScrubVersion { blocks, version });
        let blocks = count as u32;
        p.device(op, DeviceCmd::Read { at, blocks, into: None, version });
    }

    /// Waits until what was wrong is written again. Then what members hold beside the blocks is made to agree with
    /// these, where one was wrong and all are right now. Returns whether anything was done.
    pub(super) fn heals<P: Payload>(&mut self, p: &mut Parts<P>) -> bool {
        if p.healing.is_under_way() {
            return false;
        }
        let wrong = !std::mem::take(&mut self.wrong).is_empty();
        let right = self.damaged == self.begun.damaged;
        if wrong && right && !bug!(p.config, ParityNotScrubbed) {
            mark!(ScrubAgrees);
            let (at, version) = (Location { unit: self.unit, block: 0 }, Version::AS_READ);
            p.heal(Heal { at, blocks: self.end, version });
            return true;
        }
        self.disputed.clear();
        self.over(p);
        true
    }

    /// The unit is done with.
    pub(super) fn over<P: Payload>(&mut self, p: &mut Parts<P>) {
        p.space.drop_reader(self.unit);
        self.seen.clear();
        self.step = Step::Next;
        self.unit.0 += 1;
    }
}
