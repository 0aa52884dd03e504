//! Scrub: reads everything that counts and compares it with its checksums.
//!
//! Unit by unit, chunk by chunk: every block that a map points at is compared with the 32 bits in the header of its
//! chunk, every header with its own place. Blocks that no sound header tells of are found by the maps and compared with
//! the 28 bits there. What is wrong is reported by location, and nothing is changed.

use rustc_hash::FxHashSet;
use thermocline_format::{Entry, Location, MapEntry, PageId, VolumeId, home_mark};
use thermocline_ftl::UnitState;
use thermocline_types::UnitId;

use crate::device::{DeviceCmd, DeviceError, FoundChunks, ReadChunks};
use crate::engine::{Engine, Op, Phase};
use crate::map::Value;
use crate::payload::Payload;
use crate::request::{Action, Notice, Reply};

/// Blocks that are read one by one at once. Chosen, not measured.
const READS: u32 = 32;

/// A scrub in progress.
#[derive(Debug)]
pub(crate) struct Scrub {
    request: u32,
    unit: UnitId,
    /// Where the next chunk of the unit begins, and where the unit ends; `None` between units.
    walk: Option<(u32, u32)>,
    waiting: u32,
    /// Addresses in the unit that were compared.
    seen: FxHashSet<u64>,
    /// Blocks that are still to be read one by one.
    left: Vec<(Location, MapEntry)>,
    blocks: u64,
    damaged: u64,
}

impl<P: Payload> Engine<P> {
    pub(crate) fn begin_scrub(&mut self, request: u32) {
        self.scrubs.push_back(Scrub {
            request,
            unit: UnitId(0),
            walk: None,
            waiting: 0,
            seen: FxHashSet::default(),
            left: Vec::new(),
            blocks: 0,
            damaged: 0,
        });
    }

    /// How much of the units the scrub in progress has looked at, 0 to 1; 1 when there is none.
    #[must_use]
    pub fn scrubbed(&self) -> f64 {
        let units = f64::from(self.config.geometry.units());
        self.scrubs.front().map_or(1.0, |scrub| f64::from(scrub.unit.0) / units)
    }

    /// Takes the first scrub a step further. Returns whether anything was done.
    pub(crate) fn scrub_step(&mut self) -> bool {
        let Some(scrub) = self.scrubs.front_mut() else { return false };
        if !scrub.left.is_empty() && scrub.waiting < READS {
            let (at, expected) = scrub.left.pop().expect("it is not empty");
            scrub.waiting += 1;
            let op = self.ops.insert(Op::ScrubRead { at, expected });
            self.device(op, DeviceCmd::Read { at, blocks: 1, into: None });
            return true;
        }
        let waiting = scrub.waiting > 0;
        let known = self.pages.complete || self.pages_are_damaged();
        if waiting || !(known || self.phase == Phase::Failed) {
            return false;
        }
        let scrub = self.scrubs.front_mut().expect("it was just looked at");
        match scrub.walk {
            Some((from, end)) if from < end => self.scrub_on(from, end),
            Some(_) => self.scrubbed_unit(),
            None => self.scrub_next_unit(),
        }
        true
    }

    fn scrub_next_unit(&mut self) {
        let unit = self.scrubs.front().expect("a scrub is in progress").unit;
        if unit.0 == 0 {
            let mut scrub = self.scrubs.pop_front().expect("a scrub is in progress");
            for at in self.damaged_pages() {
                self.scrub_hit(&mut scrub, at);
            }
            self.scrubs.push_front(scrub);
        }
        let scrub = self.scrubs.front_mut().expect("a scrub is in progress");
        if unit.0 == self.config.geometry.units() {
            let scrub = self.scrubs.pop_front().expect("a scrub is in progress");
            let reply = Reply::Scrubbed { blocks: scrub.blocks, damaged: scrub.damaged };
            self.request_reply(scrub.request, reply);
            return self.request_progress(scrub.request, 1, None);
        }
        let open = self.space.frontiers.iter().filter_map(|frontier| frontier.open);
        let end = match self.space.units.state(unit) {
            UnitState::Closed | UnitState::Relocating => self.space.units.written(unit),
            UnitState::Open => {
                open.filter(|at| at.unit == unit).map(|at| at.block).next().unwrap_or(0)
            }
            UnitState::Free | UnitState::Retired => 0,
        };
        let quiet = self.space.tails[unit.index()].writers == 0 || self.phase == Phase::Failed;
        if end == 0 || self.space.units.valid_count(unit) == 0 {
            scrub.unit.0 += 1;
        } else if quiet {
            scrub.walk = Some((0, end));
            self.space.tail(unit).readers += 1;
        } else {
            // Chunks are on their way to it: compared when they are there.
            self.await_next_flush(crate::durability::Then::Scrub);
            scrub_waits(self.scrubs.front_mut());
        }
    }

    fn scrub_on(&mut self, from: u32, end: u32) {
        let block = self.config.geometry.logical_block();
        let longest = block.max_chunk() + block.to_hold(thermocline_format::MAX_HEADER_BYTES);
        let scrub = self.scrubs.front_mut().expect("a scrub is in progress");
        scrub.waiting += 1;
        let at = Location { unit: scrub.unit, block: from };
        let window = longest.min(end - from);
        let generation = self.space.tails[at.unit.index()].generation;
        let generation = (generation.0 > 0).then_some(generation);
        let pool = self.pool;
        let cmd = ReadChunks { at, window, pool, generation, search: true, data: true };
        let op = self.ops.insert(Op::ScrubChunks);
        self.device(op, DeviceCmd::ReadChunks(cmd));
    }

    pub(crate) fn scrub_found(&mut self, found: Result<FoundChunks<P>, DeviceError>) {
        let Some(mut scrub) = self.scrubs.pop_front() else { return };
        scrub.waiting -= 1;
        let (from, end) = scrub.walk.expect("a unit is being walked through");
        let mut next = end;
        if let Ok(found) = found {
            let mut expected = from;
            next = found.next;
            for chunk in &found.chunks {
                let at = chunk.header.origin.location;
                let blocks =
                    chunk.header.entries.iter().filter(|entry| entry.has_block()).count() as u32;
                let whole = chunk.data.as_ref().map_or(0, |(_, whole)| *whole);
                if at.block > expected {
                    self.scrub_hit(&mut scrub, Location { block: expected, ..at });
                }
                if whole < blocks {
                    // It ends beyond what was read; it is read again from its beginning, unless that was this time.
                    next = if at.block > from { at.block } else { at.block + chunk.header.blocks };
                    break;
                }
                expected = at.block + chunk.header.blocks;
                self.scrub_chunk(&mut scrub, chunk);
            }
            let nothing = found.chunks.is_empty();
            if nothing {
                let at = Location { unit: scrub.unit, block: from };
                self.scrub_hit(&mut scrub, at);
            }
        }
        scrub.walk = Some((next.max(from + 1), end));
        self.scrubs.push_front(scrub);
    }

    /// Something is wrong at `at`.
    fn scrub_hit(&mut self, scrub: &mut Scrub, at: Location) {
        scrub.damaged += 1;
        self.stats.damaged_blocks += 1;
        self.actions.push_back(Action::Notice(Notice::Damaged { at }));
    }

    fn scrub_chunk(&mut self, scrub: &mut Scrub, chunk: &crate::device::FoundChunk<P>) {
        let geometry = self.config.geometry;
        let blocks = chunk.header.placed(&geometry).filter_map(|(entry, at)| Some((*entry, at?)));
        let blocks: Vec<(Entry, Location)> = blocks.collect();
        for (number, (entry, at)) in (0..).zip(blocks) {
            let Entry::Data { volume, lba, crc } = entry else { continue };
            let value = Value::new(geometry.address(at), crc);
            if !self.counts(volume, lba.0, value) {
                continue;
            }
            scrub.seen.insert(value.address());
            scrub.blocks += 1;
            let (run, _) = chunk.data.as_ref().expect("the chunk is whole");
            if run.crc(number) ^ home_mark(volume, lba) != crc {
                self.scrub_hit(scrub, at);
            }
        }
    }

    /// Whether a map, or what leads to a page of one, points at this block.
    fn counts(&self, volume: VolumeId, lba: u64, value: Value) -> bool {
        if volume.is_user() {
            let index = self.volumes.index(volume);
            return index.is_some_and(|index| {
                lba < self.volumes.map(index).blocks && self.on_media(index, lba) == Some(value)
            });
        }
        let page = PageId::from_lba(thermocline_types::Lba(lba));
        let Some(index) = self.volumes.index(page.volume) else { return false };
        let map = self.volumes.map(index);
        let entry = match volume {
            VolumeId::MAP if u64::from(page.index) < map.pages() => map.page_at(page.index.into()),
            VolumeId::ROOT => match map.roots.get(page.index as usize) {
                Some(root) => root.at,
                None => return false,
            },
            _ => return false,
        };
        entry.pack() == value.0
    }

    /// All chunks of the unit were compared: blocks that none of them told of are left.
    fn scrubbed_unit(&mut self) {
        let mut scrub = self.scrubs.pop_front().expect("a scrub is in progress");
        let unit = scrub.unit;
        if (scrub.seen.len() as u64) < u64::from(self.space.units.valid_count(unit)) {
            let geometry = self.config.geometry;
            let mut left: Vec<(Location, MapEntry)> = Vec::new();
            let mut add = |entry: MapEntry| {
                if let Some(at) = entry.location(&geometry)
                    && at.unit == unit
                    && !scrub.seen.contains(&geometry.address(at))
                {
                    left.push((at, entry));
                }
            };
            for index in self.volumes.indices() {
                let map = self.volumes.map(index);
                for lba in 0..map.blocks {
                    if let Some(value) = self.on_media(index, lba)
                        && let Ok(entry) =
                            MapEntry::unpack(&geometry, value.of_bytes(map.id, lba).0)
                    {
                        add(entry);
                    }
                }
                map.roots.iter().for_each(|root| add(root.at));
                (0..map.pages()).for_each(|page| add(map.page_at(page)));
            }
            // A header that should tell of them is not there, wherever it was.
            if let Some(at) = left.iter().map(|(at, _)| *at).min_by_key(|at| at.block) {
                self.scrub_hit(&mut scrub, at);
            }
            scrub.left = left;
        }
        self.space.tail(unit).readers -= 1;
        scrub.seen.clear();
        scrub.walk = None;
        scrub.unit.0 += 1;
        self.scrubs.push_front(scrub);
    }

    pub(crate) fn scrub_read(&mut self, at: Location, expected: MapEntry, data: Option<&P>) {
        let Some(mut scrub) = self.scrubs.pop_front() else { return };
        scrub.waiting -= 1;
        scrub.blocks += 1;
        if !data.is_some_and(|data| expected.matches(data.crc(0))) {
            self.scrub_hit(&mut scrub, at);
        }
        self.scrubs.push_front(scrub);
    }

    pub(crate) fn scrub_goes_on(&mut self) {
        if let Some(scrub) = self.scrubs.front_mut() {
            scrub.waiting -= 1;
        }
    }
}

fn scrub_waits(scrub: Option<&mut Scrub>) {
    if let Some(scrub) = scrub {
        scrub.waiting += 1;
    }
}
