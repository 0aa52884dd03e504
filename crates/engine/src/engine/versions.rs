//! Answers of devices with redundancy: where a check fails, other versions are asked for, and what is right is written
//! over what is wrong.

use std::fmt::Debug;

use thermocline_format::{Geometry, MapPage, PageId};
use thermocline_types::Version;

use crate::bugs::bug;
use crate::device::{DeviceCmd, DeviceError, Done, Heal, PageBytes, ReadChunks, Versions};
use crate::engine::gc::Collector;
use crate::engine::opening::Recovery;
use crate::engine::scrub::Scrubber;
use crate::engine::{Op, Parts};
use crate::healing::Read;
use crate::map::Value;
use crate::marks::mark;
use crate::payload::Payload;
use crate::request::Action;

/// A read of which some blocks fail their check, while other versions of them are asked for.
#[derive(Debug)]
pub(crate) struct Tried<P> {
    /// What was asked for, and the answer as far as it is known.
    asked: Op<P>,
    done: Result<Done<P>, DeviceError>,
    read: Read,
    /// Blocks of it that are to be tried again, the next one last.
    wrong: Vec<u32>,
    /// Blocks without a right version.
    lost: Vec<u32>,
    /// The version that is tried next, of the next block.
    next: u8,
    /// The version of which the device could not read a run as a whole: each block of the run is tried in this version
    /// first, since most of them are right there.
    one_by_one: Option<Version>,
}

impl<P: Payload> Tried<P> {
    /// The command that reads the next wrong block in the next version, or, of chunks, all versions at once. A device
    /// without redundancy is asked for the same once more: an error may have passed. `None` if every version was tried.
    fn command(&mut self, members: u8, geometry: &Geometry) -> Option<DeviceCmd<P>> {
        loop {
            let index = *self.wrong.last()?;
            let at_once = matches!(self.read, Read::Chunks(_));
            let first = u8::from(self.one_by_one.is_some());
            if self.next == members.max(1) + first || self.next > 0 && at_once {
                self.lost.extend(self.wrong.pop());
                self.next = 0;
                continue;
            }
            self.next += 1;
            let version = self.version(members);
            let at = self.read.place(index, geometry);
            return Some(match &self.read {
                Read::Blocks { .. } => {
                    let into = match &self.done {
                        Ok(Done::Data(data)) => Some(data.slice(index, 1)),
                        _ => None,
                    };
                    DeviceCmd::Read { at, blocks: 1, into, version }
                }
                Read::Page { .. } => DeviceCmd::ReadPage { at, version },
                Read::Chunks(request) => DeviceCmd::ReadChunks(ReadChunks {
                    versions: Versions::All(members),
                    ..*request
                }),
            });
        }
    }

    /// The version that was asked for last.
    fn version(&self, members: u8) -> Version {
        let tried = usize::from(self.next) - 1;
        match self.one_by_one {
            Some(version) if tried == 0 => version,
            Some(_) => Version::without(tried - 1),
            None if members == 0 => Version::AS_READ,
            None => Version::without(tried),
        }
    }

    /// Whether the version that was asked for last is the one of the run.
    fn is_of_run(&self) -> bool {
        self.one_by_one.is_some() && self.next == 1
    }
}

/// What an answer of a device comes to.
pub(crate) struct Judged<P> {
    pub(crate) asked: Op<P>,
    pub(crate) done: Result<Done<P>, DeviceError>,
    /// Blocks of it that fail their check in every version, in order.
    pub(crate) lost: Vec<u32>,
}

impl<P> Judged<P> {
    fn as_it_is(asked: Op<P>, done: Result<Done<P>, DeviceError>) -> Judged<P> {
        Judged { asked, done, lost: Vec::new() }
    }
}

/// Judges answers: the job that sent the command checks the contents.
pub(crate) struct Judge<'a, P: Payload> {
    parts: &'a mut Parts<P>,
    recovery: Option<&'a Recovery<P>>,
    collector: &'a Collector<P>,
    scrubber: &'a mut Scrubber,
}

impl<'a, P: Payload> Judge<'a, P> {
    /// A judge over the jobs that send commands.
    pub(crate) fn new(
        parts: &'a mut Parts<P>,
        recovery: Option<&'a Recovery<P>>,
        collector: &'a Collector<P>,
        scrubber: &'a mut Scrubber,
    ) -> Judge<'a, P> {
        Judge { parts, recovery, collector, scrubber }
    }

    /// The judged answer, after failed blocks were retried in other versions; `None` while retries are in flight.
    #[inline]
    pub(crate) fn judged(
        &mut self,
        op: usize,
        asked: Op<P>,
        done: Result<Done<P>, DeviceError>,
    ) -> Option<Judged<P>> {
        if let Op::Again(tried) = asked {
            return self.another_version(*tried, done);
        }
        let degraded = self.parts.healing.take_degraded(op);
        let Some(read) = self.read_of(&asked) else { return Some(Judged::as_it_is(asked, done)) };
        let wrong = self.wrong_in(&asked, &done);
        if let Some(version) = degraded.filter(|_| wrong.is_empty()) {
            self.heal_right(&asked, &read, &done, version);
        }
        if wrong.is_empty() {
            return Some(Judged::as_it_is(asked, done));
        }
        if bug!(self.parts.config, OtherVersionsNotAsked) {
            return Some(Judged { asked, done, lost: wrong });
        }
        mark!(VersionWrong if self.parts.members_of(read.unit()) > 0);
        let lost = Vec::new();
        let one_by_one = match (&asked, &done) {
            (Op::ScrubVersion { version, .. }, Err(_)) => Some(*version),
            _ => None,
        };
        self.ask_another(Box::new(Tried { asked, done, read, wrong, lost, next: 0, one_by_one }))
    }

    /// Requests the next version of the wrong blocks; returns the answer if every version was tried.
    #[cold]
    fn ask_another(&mut self, mut tried: Box<Tried<P>>) -> Option<Judged<P>> {
        let members = self.parts.members_of(tried.read.unit());
        let Some(cmd) = tried.command(members, &self.parts.config.geometry) else {
            let Tried { asked, done, mut lost, .. } = *tried;
            lost.sort_unstable();
            return Some(Judged { asked, done, lost });
        };
        let op = self.parts.ops.insert(Op::Again(tried));
        let op = crate::OpId(op as u64);
        self.parts.actions.push_back(Action::Device { op, cmd });
        None
    }

    /// Another version was read, or cannot be.
    fn another_version(
        &mut self,
        mut tried: Tried<P>,
        done: Result<Done<P>, DeviceError>,
    ) -> Option<Judged<P>> {
        let index = *tried.wrong.last().expect("something was wrong");
        let right = match &done {
            Ok(Done::Data(data)) => self.block_is_right(&tried.asked, index, data, 0),
            Ok(Done::Page(bytes)) => self.page_is_right(&tried.asked, bytes),
            Ok(Done::Chunks(found)) => !found.unsound && !found.chunks.is_empty(),
            _ => false,
        };
        if right || bug!(self.parts.config, OtherVersionUnverified) && done.is_ok() {
            mark!(VersionRight);
            let at = tried.read.place(index, &self.parts.config.geometry);
            let members = self.parts.members_of(at.unit);
            if members > 0 && !matches!(tried.read, Read::Chunks(_)) && !tried.is_of_run() {
                self.parts.heal(Heal::block(
                    at,
                    tried.version(members),
                    &self.parts.config.geometry,
                ));
                self.scrubber.version_was_wrong(&tried.asked, at);
            }
            tried.wrong.pop();
            tried.next = 0;
            if !matches!(tried.read, Read::Blocks { .. }) {
                tried.done = done;
            }
        }
        self.ask_another(Box::new(tried))
    }

    /// The blocks of an answer that fail their check. A device that reports an error has already tried the other
    /// members.
    #[inline]
    fn wrong_in(&self, asked: &Op<P>, done: &Result<Done<P>, DeviceError>) -> Vec<u32> {
        let all = || 0..self.blocks_of(asked);
        match (asked, done) {
            (_, Ok(Done::Data(data))) => {
                let wrong =
                    all().rev().filter(|index| !self.block_is_right(asked, *index, data, *index));
                wrong.collect()
            }
            (Op::ScrubVersion { .. }, Err(DeviceError::Io)) => all().rev().collect(),
            (_, Ok(Done::Page(bytes))) if !self.page_is_right(asked, bytes) => vec![0],
            (Op::GcChunks { request }, Ok(Done::Chunks(found)))
                if self.parts.members_of(request.at.unit) > 0
                    && (found.unsound || found.chunks.is_empty()) =>
            {
                vec![0]
            }
            _ => Vec::new(),
        }
    }

    /// The place that an operation reads, if it has a check.
    fn read_of(&self, asked: &Op<P>) -> Option<Read> {
        let geometry = &self.parts.config.geometry;
        let of = |value: Value| self.parts.addresses.location(value.address());
        Some(match asked {
            Op::HostRead { expected, .. } => Read::Blocks { at: of(*expected.first()?) },
            // Without other versions, blocks are compared when they are placed, and no sooner.
            Op::GcRead { segment, first } => {
                let at = self.collector.read_at(*segment, *first)?;
                (self.parts.members_of(at.unit) > 0).then_some(Read::Blocks { at })?
            }
            Op::Lift { lifted } => Read::Blocks { at: of(lifted.value) },
            Op::ScrubRead { block, .. } => Read::Blocks { at: of(block.value()) },
            Op::ScrubVersion { blocks, .. } => Read::Blocks { at: of(blocks.first()?.value()) },
            Op::LoadPage { at, .. } => Read::Page { at: *at },
            Op::MovePage { page, .. } | Op::MergePage { page } => {
                Read::Page { at: page.at(geometry)? }
            }
            Op::GcChunks { request } => Read::Chunks(*request),
            Op::Opening { index } => self.recovery?.read_of(self.parts, *index)?,
            _ => return None,
        })
    }

    /// Writes again what a member could not read, where the answer without it is right.
    fn heal_right(
        &mut self,
        asked: &Op<P>,
        read: &Read,
        done: &Result<Done<P>, DeviceError>,
        version: Version,
    ) {
        let at = match (read, done) {
            (Read::Blocks { at }, Ok(Done::Data(_))) => *at,
            (Read::Page { at }, Ok(Done::Page(_))) => *at,
            _ => return,
        };
        mark!(UnreadableHealed);
        let blocks = self.blocks_of(asked) * self.parts.config.geometry.logical_block().per_block();
        self.parts.heal(Heal { at, blocks, version });
    }

    /// Blocks of a read that have a check.
    fn blocks_of(&self, asked: &Op<P>) -> u32 {
        match asked {
            Op::HostRead { expected, .. } => expected.len() as u32,
            Op::GcRead { segment, first } => self.collector.blocks_of(self.parts, *segment, *first),
            Op::ScrubVersion { blocks, .. } => blocks.len() as u32,
            _ => 1,
        }
    }

    /// Whether block `index` of a read passes its check: it is block `nth` of `data`. A block without a known checksum
    /// passes.
    fn block_is_right(&self, asked: &Op<P>, index: u32, data: &P, nth: u32) -> bool {
        match asked {
            Op::HostRead { expected, .. } => {
                let value = expected[index as usize];
                let at = self.parts.addresses.location(value.address());
                self.parts.arrived(data, nth, at, |crc| self.parts.passes(value, crc))
            }
            Op::GcRead { segment, first } => {
                self.collector.block_is_right(self.parts, (*segment, *first), index, data, nth)
            }
            Op::Lift { lifted } => {
                let value = lifted.expected();
                let at = self.parts.addresses.location(value.address());
                self.parts.arrived(data, nth, at, |crc| self.parts.passes(value, crc))
            }
            Op::ScrubRead { block, .. } => block.is_right(self.parts, data, nth),
            Op::ScrubVersion { blocks, .. } => {
                blocks[index as usize].is_right(self.parts, data, nth)
            }
            Op::Opening { index: part } => {
                let recovery = self.recovery;
                recovery.is_none_or(|one| one.block_is_right(self.parts, *part, data, nth))
            }
            _ => true,
        }
    }

    /// Whether a page that was read passes its check. A page that has moved passes.
    fn page_is_right(&self, asked: &Op<P>, bytes: &PageBytes) -> bool {
        let geometry = &self.parts.config.geometry;
        match asked {
            Op::LoadPage { volume, page, at } => {
                let map = self.parts.volumes.map(*volume);
                let (id, parent) =
                    (PageId { volume: map.id, index: *page as u32 }, map.page_at(*page));
                let moved = parent.location(geometry) != Some(*at);
                moved || MapPage::check(bytes.as_slice(), id, parent, geometry).is_ok()
            }
            Op::MovePage { page, .. } | Op::MergePage { page } => page.is_sound(bytes, geometry),
            Op::Opening { index } => {
                let recovery = self.recovery;
                recovery.is_none_or(|one| one.page_is_right(self.parts, *index, bytes))
            }
            _ => true,
        }
    }
}
