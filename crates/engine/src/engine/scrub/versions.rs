//! What a scrub does on devices with redundancy: every version of what counts is read and compared.
//!
//! A block that one version has wrong is written again from one that has it right. What the members hold beside the
//! blocks, parity among it, is made to agree with them at the end of a unit, and only where all of its blocks were
//! right.

use std::fmt::Debug;

use thermocline_format::{Geometry, Location};
use thermocline_types::Version;

use super::{Counted, Scrub, Step};
use crate::bugs::bug;
use crate::device::{DeviceCmd, DeviceError, Done, FoundChunk};
use crate::engine::{Engine, Op};
use crate::healing::Heal;
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
    /// The version that alone has it; `None` if several do.
    only_in: Option<Version>,
}

impl Disputed {
    pub(super) fn of<P>(chunk: &FoundChunk<P>, geometry: &Geometry) -> Disputed {
        let blocks = geometry.logical_block().to_hold(chunk.header.header_bytes(geometry));
        Disputed { at: chunk.header.origin.location, blocks, only_in: chunk.only_in }
    }
}

impl<P: Payload> Engine<P> {
    /// A header that not every version has leads to a block that counts: it is written again. The blocks of its chunk
    /// are compared by themselves.
    pub(super) fn scrub_header(&mut self, scrub: &mut Scrub, header: &Disputed) {
        mark!(ScrubHeaderInOneVersion if header.only_in.is_some());
        let Disputed { at, blocks, only_in } = *header;
        if let Some(version) = only_in {
            self.parts.heal(Heal { at, blocks, version });
        }
        self.note_wrong(scrub, at);
    }

    /// A place that one version has wrong and another right.
    fn note_wrong(&mut self, scrub: &mut Scrub, at: Location) {
        if !scrub.wrong.contains(&at) {
            scrub.wrong.push(at);
            scrub.mended += 1;
        }
    }

    /// Another version than the one that was read first has right what stands at `at`.
    pub(crate) fn version_was_wrong(&mut self, asked: &Op<P>, at: Location) {
        let scrubs = matches!(asked, Op::ScrubRead { .. } | Op::ScrubVersion { .. });
        if scrubs && let Some(mut scrub) = self.scrubs.pop_front() {
            self.note_wrong(&mut scrub, at);
            self.scrubs.push_front(scrub);
        }
    }

    /// Reads the next blocks of those that were compared without a member; behind the last member, what was wrong is
    /// written again.
    pub(super) fn scrub_versions(&mut self, scrub: &mut Scrub, member: u8, from: usize) {
        if member == self.parts.members_of(scrub.unit)
            || bug!(self.parts.config, OneVersionScrubbed)
        {
            scrub.step = Step::Heal;
            return;
        }
        if from == 0 {
            scrub.seen.sort_unstable_by_key(|block| block.value.address());
        }
        let Some(first) = scrub.seen.get(from) else {
            scrub.step = Step::Versions(member + 1, 0);
            return;
        };
        let per_block = self.parts.config.geometry.logical_block().per_block();
        let at = self.parts.addresses.location(first.value.address());
        let follows = |(nth, block): &(usize, &Counted)| {
            let place = self.parts.addresses.location(block.value.address());
            place == Location { block: at.block + *nth as u32 * per_block, ..at }
        };
        let run = scrub.seen[from..].iter().enumerate().take(RUN).take_while(follows);
        let blocks: Vec<Counted> = run.map(|(_, block)| *block).collect();
        let (version, count) = (Version::without(member.into()), blocks.len());
        scrub.waiting += 1;
        scrub.step = Step::Versions(member, from + count.max(1));
        let op = self.parts.ops.insert(Op::ScrubVersion { blocks, version });
        let blocks = count as u32;
        self.parts.device(op, DeviceCmd::Read { at, blocks, into: None, version });
    }

    /// Blocks were read without a member. Where others have them right they were written again by now.
    pub(crate) fn scrub_version_read(
        &mut self,
        blocks: &[Counted],
        version: Version,
        done: &Result<Done<P>, DeviceError>,
    ) {
        mark!(ScrubVersionCompared if done.is_ok());
        mark!(ScrubVersionMissing if done.is_err());
        debug_assert!(!blocks.is_empty() && version != Version::AS_READ);
        if let Some(scrub) = self.scrubs.front_mut() {
            scrub.answered(self.parts.now);
        }
    }

    /// Waits until what was wrong is written again. Then what members hold beside the blocks is made to agree with
    /// these, where one was wrong and all are right now. Returns whether anything was done.
    pub(super) fn scrub_heals(&mut self, scrub: &mut Scrub) -> bool {
        if self.parts.healing.is_under_way() {
            return false;
        }
        let wrong = !std::mem::take(&mut scrub.wrong).is_empty();
        let right = scrub.damaged == scrub.begun.damaged;
        if wrong && right && !bug!(self.parts.config, ParityNotScrubbed) {
            mark!(ScrubAgrees);
            let (at, version) = (Location { unit: scrub.unit, block: 0 }, Version::AS_READ);
            self.parts.heal(Heal { at, blocks: scrub.end, version });
            return true;
        }
        scrub.disputed.clear();
        self.scrub_over(scrub);
        true
    }
}
