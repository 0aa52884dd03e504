//! Making a pool, and opening one: from what is on the device to an engine that takes requests.
//!
//! `docs/FORMAT.md`, section 6, has the steps, ADR 0063 why they are sound. Nothing is written before the last of them.
//! Pages of the map are loaded later: what the tail changes is kept in patches.

mod bases;
mod format;
mod heal;
mod known;
mod record;
mod replay;
mod stale;
mod tail;
mod unit_table;
mod unmapped;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;

use thermocline_format::{
    DeviceState, Entry, Epoch, Generation, Location, MapEntry, MapPage, OpenUnit, PageId, PoolId,
    Revision, Sequence, Superblock,
};
use thermocline_types::{Class, Version};

use crate::bugs::bug;
use crate::config::Config;
use crate::device::{DeviceCmd, DeviceError, Done, UnitCondition, UnitReport};
use crate::engine::{Engine, Op, Phase};
use crate::flights::Flights;
use crate::healing::Heal;
use crate::map::{PAGE, Wanted};
use crate::marks::mark;
use crate::memory::Share;
use crate::pages::{LOADS, WORDS};
use crate::payload::Payload;
use crate::request::{Action, Notice, OpenError};
use crate::space::Space;
use crate::volumes::{PageCursor, Walk};
use bases::Bases;
use heal::Single;
use known::{Headers, TailChunk};
use stale::Stale;
use unmapped::Unmapped;

/// Chunks found in a life of a unit, and how far the walk through it is.
#[derive(Debug)]
struct Life {
    listed: OpenUnit,
    /// The class of its chunks; `None` while no chunk of this life was found.
    class: Option<Class>,
    /// Behind the last chunk found, whatever its epoch: where writing may go on.
    end: u32,
    /// Behind the last chunk that is to be replayed: how far it is to the next one decides whether that counts.
    replayed: u32,
    /// From where it is being read.
    from: u32,
    /// Chunks that are to be replayed, until all are found; and whether there were any.
    chunks: Vec<TailChunk>,
    replays: bool,
    /// Whether those hold nothing but pages.
    only_pages: bool,
    /// The highest number up to which one of them says that everything was durable.
    durable: Sequence,
}

/// A block above the durable sequence, which counts only if it is whole.
#[derive(Clone, Copy, Debug)]
struct Doubtful {
    chunk: usize,
    entry: usize,
    crc: u32,
    at: Location,
    /// How often it may still be read.
    tries: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Report,
    /// Formatting: emptying superblock units.
    Emptying,
    /// Formatting: making that durable.
    FlushEmpty,
    /// Formatting: emptying all others, now that no earlier pool can be found.
    EmptyingRest,
    /// Formatting: the first record.
    FirstRecord,
    /// Making durable what an earlier process wrote, or the first record: what recovery is about to believe.
    Flush,
    Superblocks,
    Roots,
    UnitTable,
    /// Reading the first chunk of each listed unit, and all from where it is listed.
    Tail,
    /// Reading once more the headers of chunks of which blocks may be torn.
    Headers,
    /// Reading blocks that may be torn.
    Doubts,
    /// Looking at every page: to count its blocks, where the unit table is damaged, or for stale ones after a loss.
    Pages,
    /// Doing once more what the tail says.
    Replay,
    /// Reading the pages that the tail changes: what they lead to in place of what changed counts no more.
    Bases,
    /// Counting the blocks of the pages that it touched.
    Counting,
    /// Taking over the units that nobody lists.
    Units,
    /// Writing what was found right over what members hold wrong, before anything is built on it.
    Heal,
    /// Making members agree on what was not flushed and counts from now on.
    Agree,
    /// Having members filled anew that lack what was flushed. They may alone have what was not.
    Distrust,
    /// Writing the record of this opening.
    Record,
}

impl Step {
    /// The step behind this one, of an opening or of a pool being made.
    fn next(self, formats: bool) -> Step {
        match self {
            Step::Report if formats => Step::Emptying,
            Step::Report | Step::FirstRecord => Step::Flush,
            Step::Flush => Step::Superblocks,
            Step::Emptying => Step::FlushEmpty,
            Step::FlushEmpty => Step::EmptyingRest,
            Step::EmptyingRest => Step::FirstRecord,
            Step::Superblocks => Step::Roots,
            Step::Roots => Step::UnitTable,
            Step::UnitTable => Step::Tail,
            Step::Tail => Step::Headers,
            Step::Headers => Step::Doubts,
            Step::Doubts => Step::Pages,
            Step::Pages => Step::Replay,
            Step::Replay => Step::Bases,
            Step::Bases => Step::Counting,
            Step::Counting => Step::Units,
            Step::Units => Step::Heal,
            Step::Heal => Step::Agree,
            Step::Agree => Step::Distrust,
            Step::Distrust | Step::Record => Step::Record,
        }
    }
}

/// What is known while a pool is being opened.
#[derive(Debug)]
pub(crate) struct Opening<P> {
    step: Step,
    format: Option<PoolId>,
    reports: Vec<UnitReport>,
    record: Option<Superblock>,
    /// Root pages on their way: volume and number.
    roots: Vec<(u16, usize)>,
    lives: Vec<Life>,
    /// The tail in the order of sequences.
    tail: Vec<TailChunk>,
    headers: Headers,
    /// What a sound prefix named: the highest revision and epoch.
    named: (Revision, Epoch),
    doubtful: Vec<Doubtful>,
    /// Chunks that one version alone has, on devices with redundancy.
    single: Vec<Single>,
    /// Chunks above the durable sequence there, which not all members may have.
    unequal: Vec<Heal>,
    /// Blocks that turned out to be torn: chunk and entry.
    torn: BTreeSet<(usize, usize)>,
    durable: Sequence,
    /// Up to here nothing is missing or torn, so that all of it is durable since this opening began with a flush.
    whole: Sequence,
    /// Whether chunks are missing, or the newest record, and the pool is opened all the same.
    overlooked: bool,
    /// Lives that were released, by unit and generation, and the chunks that say so.
    released: BTreeMap<(u32, Generation), Sequence>,
    /// Chunks of the tail in lives that hold nothing but pages.
    vain: u32,
    /// Blocks that the tail unmaps, of pages that are on media only.
    unmapped: Unmapped,
    /// What the tail says of pages that could not be read when the record was written, which is a part of the maps.
    placed: Vec<(u16, u64, MapEntry)>,
    /// Those of these blocks for which the unit table does not count what the page on media leads to.
    settled: BTreeSet<(u16, u64)>,
    /// What pages on media lead to and something else stands there.
    stale: Stale,
    /// Chunks of the tail that were replayed, and the entries that they had.
    replayed: usize,
    entries: u64,
    bases: Bases,
    /// Where counting goes on; `None` when it is over.
    counting: Option<PageCursor>,
    /// The units before this one were taken over.
    adopted: u32,
    /// Whether a page of the unit table cannot be read: then the blocks of every page are counted.
    recount: bool,
    /// How far pages were asked for, to be counted or to find what is stale.
    asked_for: PageCursor,
    /// What the step still asks the device for.
    wanted: VecDeque<(usize, DeviceCmd<P>)>,
    /// Commands that were asked for and not answered.
    asked: usize,
}

/// An opening that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Untold {
    /// Chunks and entries that were replayed.
    pub(super) chunks: u64,
    pub(super) entries: u64,
    /// Whether the next opening could find more in the tail. Hosts wait for a checkpoint then: nobody looks for more
    /// behind it.
    pub(super) has_holes: bool,
}

impl<P> Opening<P> {
    /// Whether chunks or blocks are missing amid the tail of a pool with redundancy. A member that lost flushed data
    /// may show them later.
    fn has_holes(&self, config: &Config) -> bool {
        let newest = self.tail.last().map_or(Sequence(0), TailChunk::sequence);
        let redundant = config.geometry.present().any(|(device, _)| config.members.of(device) > 0);
        let hidden = redundant && self.whole < newest && !bug!(config, HolesShownLater);
        mark!(HolesClosed if hidden);
        hidden
    }

    /// Whether it is durable that a listed life was released.
    fn was_released(&self, listed: &OpenUnit) -> bool {
        let entry = self.released.get(&(listed.next.unit.0, listed.generation));
        entry.is_some_and(|entry| *entry <= self.whole)
    }

    /// Whether all that is to be replayed of a life are pages of a checkpoint that was cut short: the record leads to
    /// none. If the life were gone, a Released entry would count as durable that may not be.
    fn is_in_vain(&self, life: &Life, space: &Space) -> bool {
        let unit = life.listed.next.unit;
        let released = self.released.contains_key(&(unit.0, life.listed.generation));
        life.replays && life.only_pages && !space.held_pages(unit) && !released
    }

    /// Whether nothing was found of a life since its unit was reset, and nothing keeps it from being written to.
    fn is_untouched(&self, life: &Life) -> bool {
        let report = self.reports[life.listed.next.unit.index()];
        let empty = report.written.is_none_or(|written| written == 0);
        let good = report.condition == UnitCondition::Good;
        good && empty && life.class.is_none() && life.listed.next.block == 0
    }

    /// Memory for what the tail unmaps.
    pub(crate) fn unmapped_bytes(&self) -> u64 {
        self.unmapped.memory_bytes()
    }

    /// Whether the opening looks at every page.
    fn looks_at_pages(&self) -> bool {
        self.recount || self.overlooked
    }

    /// Whether every page that the opening needs was asked for.
    fn has_asked_for_pages(&self) -> bool {
        !self.looks_at_pages() || self.asked_for == PageCursor::END
    }
}

/// Commands of an opening that are on their way at once. Chosen, not measured.
const ASKED: usize = 256;

/// Chunks replayed in one step. Chosen so that a step takes well under a millisecond.
const CHUNKS: usize = 16;

impl<P: Payload> Engine<P> {
    pub(crate) fn begin_opening(&mut self, format: Option<PoolId>) {
        self.opening = Some(Box::new(Opening {
            step: Step::Report,
            format,
            reports: Vec::new(),
            record: None,
            roots: Vec::new(),
            lives: Vec::new(),
            tail: Vec::new(),
            headers: Headers::new(self.parts.config.tail_entries),
            named: (Revision(0), Epoch(0)),
            doubtful: Vec::new(),
            single: Vec::new(),
            unequal: Vec::new(),
            torn: BTreeSet::new(),
            durable: Sequence(0),
            whole: Sequence(0),
            overlooked: false,
            released: BTreeMap::new(),
            vain: 0,
            unmapped: Unmapped::default(),
            placed: Vec::new(),
            settled: BTreeSet::new(),
            stale: Stale::default(),
            replayed: 0,
            entries: 0,
            bases: Bases::default(),
            counting: Some(PageCursor::default()),
            adopted: 0,
            recount: false,
            asked_for: PageCursor::default(),
            wanted: VecDeque::new(),
            asked: 0,
        }));
        self.ask(0, DeviceCmd::ReportUnits);
    }

    /// Asks the device for part `index` of what this step needs.
    fn ask(&mut self, index: usize, cmd: DeviceCmd<P>) {
        let opening = self.opening.as_mut().expect("the pool is being opened");
        opening.wanted.push_back((index, cmd));
        self.ask_next();
    }

    fn ask_next(&mut self) {
        while let Some(opening) = &mut self.opening
            && opening.asked < ASKED
            && let Some((index, cmd)) = opening.wanted.pop_front()
        {
            opening.asked += 1;
            let op = self.parts.ops.insert(Op::Opening { index });
            self.parts.device(op, cmd);
        }
    }

    pub(crate) fn open_failed(&mut self, error: OpenError) {
        if self.parts.phase != Phase::Opening {
            return;
        }
        mark!(OpeningFailed if error == OpenError::Device);
        self.parts.phase = Phase::Closed;
        self.parts.actions.push_back(Action::Notice(Notice::OpenFailed(error)));
    }

    /// Part `index` of what this step asked for is there.
    pub(crate) fn opening_progress(&mut self, index: usize, done: Result<Done<P>, DeviceError>) {
        if self.parts.phase != Phase::Opening {
            return;
        }
        let mut opening = self.opening.take().expect("the pool is being opened");
        opening.asked -= 1;
        let outcome = match (opening.step, done) {
            (Step::Doubts, done) => {
                self.opening = Some(opening);
                self.doubt_read(index, done.as_ref().ok());
                opening = self.opening.take().expect("it was just put there");
                Ok(())
            }
            (Step::Tail, Ok(Done::Chunks(found))) => {
                self.opening = Some(opening);
                self.tail_found(index, &found);
                opening = self.opening.take().expect("it was just put there");
                Ok(())
            }
            (Step::Headers | Step::Replay, done) => {
                self.opening = Some(opening);
                let outcome = self.header_read_again(index, done.as_ref().ok());
                opening = self.opening.take().expect("it was just put there");
                outcome
            }
            (Step::Bases, done) => {
                self.opening = Some(opening);
                let outcome = self.base_read(index, done.ok());
                opening = self.opening.take().expect("it was just put there");
                outcome
            }
            (Step::Roots, done) => self.root_read(&opening, index, done),
            (Step::UnitTable, done) => {
                self.unit_page_read(&mut opening, index, &done);
                Ok(())
            }
            (Step::Report, Ok(Done::Units(reports))) => {
                opening.reports = self.as_used(reports);
                Ok(())
            }
            (Step::Superblocks, Ok(Done::Superblocks(records))) => {
                self.choose_superblock(&mut opening, records)
            }
            // A member that takes nothing is done without, and a version that cannot be had is not written.
            (Step::Heal | Step::Agree | Step::Distrust, _) => Ok(()),
            (_, Ok(Done::Ok)) => Ok(()),
            (_, Ok(answer)) => panic!("opening a pool was answered with {answer:?}"),
            (_, Err(_)) => Err(OpenError::Device),
        };
        self.opening = Some(opening);
        match outcome {
            Ok(()) => self.ask_next(),
            Err(error) => self.open_failed(error),
        }
    }

    /// Goes to the next step when this one has all it asked for. Returns whether anything was done.
    pub(crate) fn opening_step(&mut self) -> bool {
        let Some(mut opening) = self.opening.take() else {
            // The opening record is on its way.
            return self.parts.flush_step();
        };
        let step = opening.step;
        let waits = opening.asked > 0 || step == Step::Pages && !self.parts.pages_idle();
        let done = match step {
            Step::Pages => opening.has_asked_for_pages(),
            Step::Replay => opening.replayed == opening.tail.len(),
            Step::Bases => opening.bases.are_known(),
            Step::Counting => opening.counting.is_none(),
            Step::Units => opening.adopted == self.parts.config.geometry.units(),
            _ => true,
        };
        if waits || !done {
            self.opening = Some(opening);
            return self.opening_goes_on(step);
        }
        opening.step = step.next(opening.format.is_some());
        let entered = opening.step;
        self.opening = Some(opening);
        let result = self.enter(entered);
        if let Err(error) = result {
            self.open_failed(error);
        }
        true
    }

    /// Asks for what `step` needs first, or does it.
    fn enter(&mut self, step: Step) -> Result<(), OpenError> {
        match step {
            Step::Emptying => self.empty_superblocks(),
            Step::EmptyingRest => self.empty_rest(),
            Step::FlushEmpty | Step::Flush => {
                let devices: Vec<_> = self.parts.config.geometry.present().collect();
                devices.into_iter().for_each(|(device, _)| self.ask(0, DeviceCmd::Flush(device)));
                Ok(())
            }
            Step::FirstRecord => self.write_first_record(),
            Step::Superblocks => {
                self.ask(0, DeviceCmd::ReadSuperblocks(self.parts.config.members));
                Ok(())
            }
            Step::Roots => self.read_roots(),
            Step::UnitTable => self.read_unit_table(),
            Step::Tail => self.read_tail(),
            Step::Headers => self.check_tail(),
            Step::Doubts => {
                self.read_doubtful();
                Ok(())
            }
            Step::Pages => {
                self.find_placed();
                Ok(())
            }
            Step::Replay => self.begin_replay(),
            Step::Bases | Step::Counting | Step::Units => Ok(()),
            Step::Heal => {
                self.heal_found();
                Ok(())
            }
            Step::Agree => {
                self.make_equal();
                Ok(())
            }
            Step::Distrust => {
                self.distrust_older();
                Ok(())
            }
            Step::Record => self.finish_opening(),
            Step::Report => Ok(()),
        }
    }

    /// Units that nothing more is written to count as those do that the device itself will not write again.
    fn as_used(&self, mut reports: Vec<UnitReport>) -> Vec<UnitReport> {
        let geometry = &self.parts.config.geometry;
        for (device, units) in geometry.device_units() {
            let condition = match geometry.device(device).state {
                DeviceState::Active => continue,
                DeviceState::Draining if bug!(self.parts.config, DrainedDeviceWritten) => continue,
                DeviceState::Draining => UnitCondition::ReadOnly,
                DeviceState::Detached | DeviceState::Lost => UnitCondition::Offline,
            };
            let units = units.start as usize..units.end as usize;
            reports[units].iter_mut().for_each(|report| report.condition = condition);
        }
        reports
    }

    fn read_roots(&mut self) -> Result<(), OpenError> {
        let geometry = self.parts.config.geometry;
        let mut wanted = Vec::new();
        for index in self.parts.volumes.indices() {
            let roots: Vec<MapEntry> = self.parts.volumes.map(index).roots_at().collect();
            self.parts.keeps_pages(&roots)?;
            for (number, root) in roots.into_iter().enumerate() {
                if let Some(at) = root.location(&geometry) {
                    wanted.push((index, number, at));
                }
            }
        }
        for (index, (volume, number, at)) in wanted.into_iter().enumerate() {
            let opening = self.opening.as_mut().expect("the pool is being opened");
            opening.roots.push((volume, number));
            self.parts.space.add_page(at.unit);
            self.ask(index, DeviceCmd::ReadPage { at, version: Version::AS_READ });
        }
        Ok(())
    }

    fn root_read(
        &mut self,
        opening: &Opening<P>,
        index: usize,
        done: Result<Done<P>, DeviceError>,
    ) -> Result<(), OpenError> {
        let (volume, number) = opening.roots[index];
        let geometry = self.parts.config.geometry;
        let map = self.parts.volumes.map(volume);
        let parent = map.root_at(number).expect("it was asked for");
        let id = PageId { volume: map.id, index: number as u32 };
        let at = parent.location(&geometry).expect("it was read from somewhere");
        let Ok(Done::Page(bytes)) = done else { return Err(OpenError::MapDamaged(at)) };
        let page = MapPage::decode(bytes.as_slice(), id, parent, &geometry);
        // Blocks are lost, pages never are.
        let page = page.ok().filter(|MapPage(pages)| !pages.iter().any(|page| page.is_lost()));
        mark!(RootDamaged if page.is_none());
        let Some(MapPage(pages)) = page else { return Err(OpenError::MapDamaged(at)) };
        self.parts.keeps_pages(&*pages)?;
        for at in pages.iter().filter_map(|page| page.location(&geometry)) {
            self.parts.space.add_page(at.unit);
        }
        self.parts.volumes.map_mut(volume).adopt(number, &pages);
        self.parts.volumes.note_pages(volume);
        Ok(())
    }

    /// Does a bounded part of a step that does more than ask. Returns whether anything was done.
    fn opening_goes_on(&mut self, step: Step) -> bool {
        match step {
            Step::Pages => self.look_at_pages(),
            Step::Replay => self.replay_next(),
            Step::Bases => self.read_bases(),
            Step::Counting => self.count_next(),
            Step::Units => self.adopt_next(),
            _ => false,
        }
    }

    /// Finds what the tail says of pages that could not be read when the record was written.
    fn find_placed(&mut self) {
        let mut opening = self.opening.take().expect("the pool is being opened");
        let number = opening.record.as_ref().expect("a superblock was chosen").patches;
        if opening.recount {
            self.count_all();
        }
        for entry in opening.tail.iter().flat_map(TailChunk::entries) {
            let Entry::Placed { volume, lba, entry, settled, number: of } = *entry else {
                continue;
            };
            let Some(index) = self.parts.volumes.slot(volume) else { continue };
            opening.bases.may_be_unreadable(index, lba.0 / PAGE);
            mark!(PlacedOfAnother if of != number);
            if of == number || bug!(self.parts.config, PlacedOfAnyNumber) {
                opening.placed.push((index, lba.0, entry));
                let settled = settled && !bug!(self.parts.config, SettledCountedAgain);
                opening.settled.extend(settled.then_some((index, lba.0)));
            }
        }
        self.note_what_stands(&mut opening);
        self.opening = Some(opening);
    }

    /// Loads some of the pages that are to be looked at.
    fn look_at_pages(&mut self) -> bool {
        let opening = self.opening.as_ref().expect("the pool is being opened");
        let mut cursor = opening.asked_for;
        let (mut budget, mut worked) = (WORDS, false);
        let looks = opening.looks_at_pages();
        while looks && self.parts.pages.on_their_way() < LOADS && cursor != PageCursor::END {
            worked = true;
            match self.parts.next_page(&mut cursor, Wanted::Unloaded, &mut budget) {
                Walk::Found(volume, page) => {
                    mark!(PageRecounted);
                    self.parts.loaded(volume, page * PAGE, page * PAGE + 1, Share::Upkeep);
                }
                Walk::Pause => break,
                Walk::End => cursor = PageCursor::END,
            }
        }
        self.opening.as_mut().expect("the pool is being opened").asked_for = cursor;
        worked
    }

    /// Takes over the units as they were found; what was read of the map must be sound.
    fn begin_replay(&mut self) -> Result<(), OpenError> {
        let recount = self.opening.as_ref().is_some_and(|opening| opening.recount);
        if let Some(&at) = self.parts.damaged_pages().first().filter(|_| recount) {
            mark!(TailPageDamaged);
            return Err(OpenError::MapDamaged(at));
        }
        let mut opening = self.opening.take().expect("the pool is being opened");
        let record = opening.record.as_ref().expect("a superblock was chosen");
        let newest = opening.tail.last().map_or(0, |chunk| chunk.sequence().0);
        let next = newest.max(opening.durable.0).max(record.checkpoint.0 - 1) + 1;
        self.parts.flights = Flights::new(Sequence(next));
        self.parts.durability.recovered(Sequence(next - 1));
        let step = u32::from(!bug!(self.parts.config, EpochNotAdvanced));
        self.parts.epoch = Epoch(record.epoch.0.max(opening.named.1.0) + step);
        let of_epoch = u64::from(self.parts.epoch.0) << 32;
        let generation = Generation(record.next_generation.0.max(of_epoch));
        self.parts.space.set_next_generation(generation);
        self.adopt_units(&opening, record);
        self.apply_stale(&mut opening);
        self.apply_placed(&opening);
        self.opening = Some(opening);
        Ok(())
    }

    /// Does once more what some chunks of the tail say.
    fn replay_next(&mut self) -> bool {
        let mut worked = self.read_headers_ahead();
        let mut opening = self.opening.take().expect("the pool is being opened");
        for _ in 0..CHUNKS {
            let Some((number, header)) = opening.next_header() else { break };
            worked = true;
            let Some(header) = header else { continue };
            opening.entries += header.entries.len() as u64;
            self.replay(&mut opening, number, &header);
        }
        self.opening = Some(opening);
        worked
    }

    /// Counts the blocks of some pages that the tail touched.
    fn count_next(&mut self) -> bool {
        let mut opening = self.opening.take().expect("the pool is being opened");
        opening.counting = opening.counting.and_then(|cursor| self.count_replayed(cursor));
        self.opening = Some(opening);
        true
    }

    /// Takes over some of the units that nobody lists.
    fn adopt_next(&mut self) -> bool {
        let mut opening = self.opening.take().expect("the pool is being opened");
        self.adopt_rest(&mut opening);
        self.opening = Some(opening);
        true
    }

    fn finish_opening(&mut self) -> Result<(), OpenError> {
        let opening = *self.opening.take().expect("the pool is being opened");
        let settled = opening.tail.is_empty() || bug!(self.parts.config, RecoveryNotCheckpointed);
        self.untold = Some(Untold {
            chunks: opening.tail.len() as u64,
            entries: opening.entries,
            has_holes: opening.has_holes(&self.parts.config),
        });
        let mut record = opening.record.expect("a superblock was chosen");
        self.holds_all_of(&record)?;
        record.revision = record.revision.max(opening.named.0);
        record.geometry = self.parts.config.geometry;
        record.unit_pages.resize(record.geometry.unit_pages(), MapEntry::UNMAPPED);
        self.parts.superblocks.adopt(record.clone());
        self.parts.write_opening_record(record, settled, opening.vain);
        Ok(())
    }

    /// Finishes zones that are not written on: they would count as active until they are reset.
    fn finish_zones(&mut self) {
        self.parts
            .space
            .take_unfinished()
            .into_iter()
            .for_each(|unit| self.parts.finish_if_quiet(unit));
    }

    /// The record of this opening is durable.
    pub(crate) fn opened(&mut self) {
        self.parts.phase = Phase::Open;
        self.parts.begin_ages();
        for index in self.parts.volumes.indices() {
            if self.parts.volumes.map(index).deleted {
                self.unmap_deleted(index);
            }
        }
        self.begin_losing();
        if !self.parts.superblocks.are_settled() {
            self.parts.want_checkpoint();
        }
        self.finish_zones();
        self.tell_open();
    }
}
