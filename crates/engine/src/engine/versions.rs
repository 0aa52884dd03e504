//! Answers of devices with redundancy: where a check fails, other versions are asked for, and what is right is written
//! over what is wrong.

use thermocline_format::{Location, MapPage, PageId};
use thermocline_types::{UnitId, Version};

use crate::bugs::bug;
use crate::device::{DeviceError, Done, PageBytes};
use crate::engine::{Engine, Op, Phase};
use crate::healing::{Heal, Read, Tried};
use crate::marks::mark;
use crate::payload::Payload;
use crate::request::{Action, Notice};

impl<P: Payload> Engine<P> {
    /// Members of the device that a unit is on.
    pub(crate) fn members_of(&self, unit: UnitId) -> u8 {
        self.config.members.of(self.config.geometry.device_of(unit))
    }

    /// The answer to a read of a device is that of this version, because a member that was asked first reported an
    /// error. To be said before [`Engine::handle_completion`].
    pub fn degraded(&mut self, op: crate::OpId, version: Version) {
        self.healing.degraded(op.0 as usize, version);
    }

    /// What an answer comes to when other versions were asked for what is wrong in it; `None` while they are.
    pub(crate) fn judged(
        &mut self,
        op: usize,
        asked: Op<P>,
        done: Result<Done<P>, DeviceError>,
    ) -> Option<(Op<P>, Result<Done<P>, DeviceError>)> {
        if let Op::Again(tried) = asked {
            return self.another_version(*tried, done);
        }
        let Some((read, version)) = self.healing.end(op) else { return Some((asked, done)) };
        let wrong = self.wrong_in(&asked, &read, &done);
        if version != Version::AS_READ {
            self.heal_right(&asked, &read, &wrong, &done, version);
        }
        if bug!(self.config, OtherVersionsNotAsked) {
            return Some((asked, done));
        }
        mark!(VersionWrong if !wrong.is_empty());
        self.ask_another(Box::new(Tried { asked, done, read, wrong, next: 0 }))
    }

    /// Asks for the next version of what is wrong; returns the answer if there is none.
    fn ask_another(
        &mut self,
        mut tried: Box<Tried<P>>,
    ) -> Option<(Op<P>, Result<Done<P>, DeviceError>)> {
        let members = self.members_of(tried.read.unit());
        let Some(cmd) = tried.command(members, &self.config.geometry) else {
            return Some((tried.asked, tried.done));
        };
        let op = self.ops.insert(Op::Again(tried));
        let op = crate::OpId(op as u64);
        self.actions.push_back(Action::Device { op, cmd });
        None
    }

    /// Another version was read, or cannot be.
    fn another_version(
        &mut self,
        mut tried: Tried<P>,
        done: Result<Done<P>, DeviceError>,
    ) -> Option<(Op<P>, Result<Done<P>, DeviceError>)> {
        let index = *tried.wrong.last().expect("something was wrong");
        let right = match &done {
            Ok(Done::Data(data)) => self.block_is_right(&tried.asked, index, data, 0),
            Ok(Done::Page(bytes)) => self.page_is_right(&tried.asked, bytes),
            Ok(Done::Chunks(found)) => !found.unsound && !found.chunks.is_empty(),
            _ => false,
        };
        if right || bug!(self.config, OtherVersionUnverified) && done.is_ok() {
            mark!(VersionRight);
            let at = tried.read.place(index, &self.config.geometry);
            if !matches!(tried.read, Read::Chunks(_)) {
                self.heal(Heal::block(at, tried.version(), &self.config.geometry));
                self.version_was_wrong(&tried.asked, at);
            }
            tried.wrong.pop();
            tried.next = 0;
            if !matches!(tried.read, Read::Blocks { .. }) {
                tried.done = done;
            }
        }
        self.ask_another(Box::new(tried))
    }

    /// The blocks of an answer that fail their check. A device that reports an error has asked its other members itself.
    fn wrong_in(
        &self,
        asked: &Op<P>,
        read: &Read,
        done: &Result<Done<P>, DeviceError>,
    ) -> Vec<u32> {
        match (read, done) {
            (Read::Blocks { .. }, Ok(Done::Data(data))) => {
                let mut wrong: Vec<u32> = (0..self.blocks_of(asked))
                    .filter(|index| !self.block_is_right(asked, *index, data, *index))
                    .collect();
                wrong.reverse();
                wrong
            }
            (Read::Blocks { .. }, Err(DeviceError::Io))
                if matches!(asked, Op::ScrubVersion { .. }) =>
            {
                (0..self.blocks_of(asked)).rev().collect()
            }
            (Read::Page { .. }, Ok(Done::Page(bytes))) if !self.page_is_right(asked, bytes) => {
                vec![0]
            }
            (Read::Chunks(_), Ok(Done::Chunks(found)))
                if found.unsound || found.chunks.is_empty() =>
            {
                vec![0]
            }
            _ => Vec::new(),
        }
    }

    /// Writes again what a member could not read, where the answer without it is right.
    fn heal_right(
        &mut self,
        asked: &Op<P>,
        read: &Read,
        wrong: &[u32],
        done: &Result<Done<P>, DeviceError>,
        version: Version,
    ) {
        let at = match (read, done) {
            (Read::Blocks { at }, Ok(Done::Data(_))) => *at,
            (Read::Page { at }, Ok(Done::Page(_))) => *at,
            _ => return,
        };
        if wrong.is_empty() {
            mark!(UnreadableHealed);
            let blocks = self.blocks_of(asked) * self.config.geometry.logical_block().per_block();
            self.heal(Heal { at, blocks, version });
        }
    }

    /// Blocks of a read that have a check.
    fn blocks_of(&self, asked: &Op<P>) -> u32 {
        match asked {
            Op::HostRead { expected, .. } => expected.len() as u32,
            Op::GcRead { segment, first } => self.gc_blocks_of(*segment, *first),
            Op::ScrubVersion { blocks, .. } => blocks.len() as u32,
            _ => 1,
        }
    }

    /// Whether block `index` of a read passes its check: it is block `nth` of `data`. A block that nothing is known of
    /// does.
    fn block_is_right(&self, asked: &Op<P>, index: u32, data: &P, nth: u32) -> bool {
        match asked {
            Op::HostRead { expected, .. } => {
                let value = expected[index as usize];
                let at = self.addresses.location(value.address());
                self.arrived(data, nth, at, |crc| self.passes(value, crc))
            }
            Op::GcRead { segment, first } => {
                self.gc_block_is_right((*segment, *first), index, data, nth)
            }
            Op::ScrubRead { block, .. } => self.counted_is_right(*block, data, nth),
            Op::ScrubVersion { blocks, .. } => {
                self.counted_is_right(blocks[index as usize], data, nth)
            }
            Op::Opening { index: part } => self.opening_block_is_right(*part, data, nth),
            _ => true,
        }
    }

    /// Whether a page that was read passes its check. One that stands elsewhere by now does.
    fn page_is_right(&self, asked: &Op<P>, bytes: &PageBytes) -> bool {
        let geometry = &self.config.geometry;
        match asked {
            Op::LoadPage { volume, page, at } => {
                let map = self.volumes.map(*volume);
                let (id, parent) =
                    (PageId { volume: map.id, index: *page as u32 }, map.page_at(*page));
                let moved = parent.location(geometry) != Some(*at);
                moved || MapPage::check(bytes.as_slice(), id, parent, geometry).is_ok()
            }
            Op::MovePage { page, .. } | Op::MergePage { page } => page.is_sound(bytes, geometry),
            Op::Opening { index } => self.opening_page_is_right(*index, bytes),
            _ => true,
        }
    }

    /// Has a place written again, now or, in an opening, at its end.
    pub(crate) fn heal(&mut self, heal: Heal) {
        if bug!(self.config, NothingHealed) {
            return;
        }
        match self.phase {
            Phase::Opening => self.healing.keep(heal),
            Phase::Open | Phase::Closing => {
                let op = self.ops.insert(Op::Heal { at: heal.at, version: heal.version });
                self.device(op, heal.command());
            }
            Phase::Closed | Phase::Failed => {}
        }
    }

    /// A place was written again, or could not be.
    pub(crate) fn healed(
        &mut self,
        at: Location,
        version: Version,
        result: Result<(), DeviceError>,
    ) {
        if result.is_ok() {
            self.stats.healed_places += 1;
            self.actions.push_back(Action::Notice(Notice::Healed { at, version }));
        }
    }
}
