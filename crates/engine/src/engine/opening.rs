//! Making a pool, and opening one: from what is on the device to an engine that takes requests.
//!
//! `docs/develop/FORMAT.md`, section 6, has the steps, ADR 0063 why they are sound. Only the last steps write. Pages of
//! the map are loaded later: what the tail changes is kept in patches.

mod asking;
mod bases;
mod format;
mod heal;
mod known;
mod lives;
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
use crate::device::{DeviceCmd, DeviceError, Done, Heal, UnitCondition, UnitReport};
use crate::engine::Parts;
use crate::flights::Flights;
use crate::map::{PAGE, Wanted};
use crate::marks::mark;
use crate::memory::Share;
use crate::pages::{LOADS, WORDS};
use crate::payload::Payload;
use crate::request::OpenError;
use crate::volumes::{PageCursor, Walk};
use bases::Bases;
use heal::Single;
use known::{Headers, TailChunk};
use record::holds_all_of;
use stale::Stale;
use unmapped::Unmapped;

/// Chunks found in a life of a unit, and how far the walk through it is.
#[derive(Debug)]
struct Life {
    listed: OpenUnit,
    /// The class of its chunks; `None` while no chunk of this life was found.
    class: Option<Class>,
    /// End of the last chunk found, of any epoch: writing may continue here.
    end: u32,
    /// Behind the last chunk that is to be replayed: the distance to the next chunk decides whether the next chunk
    /// counts.
    replayed: u32,
    /// From where it is being read.
    from: u32,
    /// Chunks that are to be replayed, until all are found; and whether there were any.
    chunks: Vec<TailChunk>,
    replays: bool,
    /// Whether all chunks hold only pages.
    only_pages: bool,
    /// The highest durable sequence that a chunk header states.
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
    /// Reading the pages that the tail changes: the replaced blocks become invalid.
    Bases,
    /// Counting the blocks of the pages that the tail touched.
    Counting,
    /// Taking over the unlisted units.
    Units,
    /// Repairing members: wrong copies are overwritten with right copies before further steps rely on the data.
    Heal,
    /// Making members agree on unflushed data that counts from now on.
    Agree,
    /// Having members rebuilt that lack flushed data. Such a member may hold the only copy of unflushed data.
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

/// What a step of an opening came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stepped {
    /// It waits for the device, or for pages.
    Waits,
    /// Something was done.
    Worked,
    /// The pool was recovered.
    Over,
}

/// A pool that is being opened, or made: the state known so far.
#[derive(Debug)]
pub(crate) struct Recovery<P> {
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
    /// Chunks found in only one version, on devices with redundancy.
    single: Vec<Single>,
    /// Chunks above the durable sequence there, which not all members may have.
    unequal: Vec<Heal>,
    /// Blocks that turned out to be torn: chunk and entry.
    torn: BTreeSet<(usize, usize)>,
    durable: Sequence,
    /// All chunks up to this sequence are whole, hence durable, since this opening began with a flush.
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
    /// Map entries on media whose location now holds another block.
    stale: Stale,
    /// Chunks of the tail that were replayed, and the entries that they had.
    replayed: usize,
    entries: u64,
    bases: Bases,
    /// Where counting goes on; `None` when it is over.
    counting: Option<PageCursor>,
    /// Units below this number are taken over.
    adopted: u32,
    /// Whether a page of the unit table cannot be read: then the blocks of every page are counted.
    recount: bool,
    /// End of the pages already requested, for counting or for finding stale entries.
    asked_for: PageCursor,
    /// What the step still asks the device for.
    wanted: VecDeque<(usize, DeviceCmd<P>)>,
    /// Commands that were asked for and not answered.
    asked: usize,
}

/// What an opening came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovered {
    /// Chunks and entries that were replayed.
    pub(super) chunks: u64,
    pub(super) entries: u64,
    /// Whether the next opening could find more in the tail. Hosts wait for a checkpoint then: an opening does not
    /// search for chunks before the checkpoint.
    pub(super) has_holes: bool,
}

impl<P> Recovery<P> {
    /// Whether chunks or blocks are missing amid the tail of a pool with redundancy. They may appear later, on a member
    /// that lost flushed data.
    fn has_holes(&self, config: &Config) -> bool {
        let newest = self.tail.last().map_or(Sequence(0), TailChunk::sequence);
        let redundant = config.geometry.present().any(|(device, _)| config.members.of(device) > 0);
        let hidden = redundant && self.whole < newest && !bug!(config, HolesShownLater);
        mark!(HolesClosed if hidden);
        hidden
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

/// Chunks replayed in one step. Chosen so that a step takes well under a millisecond.
const CHUNKS: usize = 16;

impl<P: Payload> Recovery<P> {
    /// Begins to open a pool, or to make the one that is named by `format`.
    pub(crate) fn begin(p: &mut Parts<P>, format: Option<PoolId>) -> Box<Recovery<P>> {
        let mut recovery = Box::new(Recovery {
            step: Step::Report,
            format,
            reports: Vec::new(),
            record: None,
            roots: Vec::new(),
            lives: Vec::new(),
            tail: Vec::new(),
            headers: Headers::new(p.config.tail_entries),
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
        });
        recovery.ask(p, 0, DeviceCmd::ReportUnits);
        recovery
    }

    /// The device has answered command `index` of the step.
    ///
    /// # Errors
    /// [`OpenError`]: the pool cannot be opened.
    pub(crate) fn progress(
        &mut self,
        p: &mut Parts<P>,
        index: usize,
        done: Result<Done<P>, DeviceError>,
    ) -> Result<(), OpenError> {
        self.asked -= 1;
        match (self.step, done) {
            (Step::Doubts, done) => {
                self.doubt_read(p, index, done.as_ref().ok());
            }
            (Step::Tail, Ok(Done::Chunks(found))) => {
                self.tail_found(p, index, &found);
            }
            (Step::Headers | Step::Replay, done) => {
                self.header_read_again(p, index, done.as_ref().ok())?;
            }
            (Step::Bases, done) => self.base_read(p, index, done.ok())?,
            (Step::Roots, done) => self.root_read(p, index, done)?,
            (Step::UnitTable, done) => self.unit_page_read(p, index, &done),
            (Step::Report, Ok(Done::Units(reports))) => {
                self.reports = self.as_used(p, reports);
            }
            (Step::Superblocks, Ok(Done::Superblocks(records))) => {
                self.choose_superblock(p, records)?;
            }
            // A member that takes nothing is done without, and a version that cannot be had is not written.
            (Step::Heal | Step::Agree | Step::Distrust, _) | (_, Ok(Done::Ok)) => {}
            (_, Ok(answer)) => panic!("opening a pool was answered with {answer:?}"),
            (_, Err(_)) => return Err(OpenError::Device),
        }
        self.ask_next(p);
        Ok(())
    }

    /// Enters the next step when all reads of the current step are answered.
    ///
    /// # Errors
    /// [`OpenError`]: the pool cannot be opened.
    pub(crate) fn step(&mut self, p: &mut Parts<P>) -> Result<Stepped, OpenError> {
        let step = self.step;
        let waits = self.asked > 0 || step == Step::Pages && !p.pages_idle();
        let done = match step {
            Step::Pages => self.has_asked_for_pages(),
            Step::Replay => self.replayed == self.tail.len(),
            Step::Bases => self.bases.are_known(),
            Step::Counting => self.counting.is_none(),
            Step::Units => self.adopted == p.config.geometry.units(),
            _ => true,
        };
        if waits || !done {
            return Ok(if self.goes_on(p, step) { Stepped::Worked } else { Stepped::Waits });
        }
        self.step = step.next(self.format.is_some());
        if self.step == Step::Record {
            return Ok(Stepped::Over);
        }
        self.enter(p, self.step)?;
        Ok(Stepped::Worked)
    }

    /// Sends the first commands of `step`, or carries the step out.
    fn enter(&mut self, p: &mut Parts<P>, step: Step) -> Result<(), OpenError> {
        match step {
            Step::Emptying => self.empty_superblocks(p),
            Step::EmptyingRest => self.empty_rest(p),
            Step::FlushEmpty | Step::Flush => {
                let devices: Vec<_> = p.config.geometry.present().collect();
                devices
                    .into_iter()
                    .for_each(|(device, _)| self.ask(p, 0, DeviceCmd::Flush(device)));
                Ok(())
            }
            Step::FirstRecord => self.write_first_record(p),
            Step::Superblocks => {
                self.ask(p, 0, DeviceCmd::ReadSuperblocks(p.config.members));
                Ok(())
            }
            Step::Roots => self.read_roots(p),
            Step::UnitTable => self.read_unit_table(p),
            Step::Tail => self.read_tail(p),
            Step::Headers => self.check_tail(p),
            Step::Doubts => {
                self.read_doubtful(p);
                Ok(())
            }
            Step::Pages => {
                self.find_placed(p);
                Ok(())
            }
            Step::Replay => self.begin_replay(p),
            Step::Bases | Step::Counting | Step::Units => Ok(()),
            Step::Heal => {
                self.heal_found(p);
                Ok(())
            }
            Step::Agree => {
                self.make_equal(p);
                Ok(())
            }
            Step::Distrust => {
                self.distrust_older(p);
                Ok(())
            }
            Step::Report | Step::Record => Ok(()),
        }
    }

    /// Marks the units of draining devices read-only, and the units of detached or lost devices offline.
    fn as_used(&self, p: &Parts<P>, mut reports: Vec<UnitReport>) -> Vec<UnitReport> {
        let geometry = &p.config.geometry;
        for (device, units) in geometry.device_units() {
            let condition = match geometry.device(device).state {
                DeviceState::Active => continue,
                DeviceState::Draining if bug!(p.config, DrainedDeviceWritten) => continue,
                DeviceState::Draining => UnitCondition::ReadOnly,
                DeviceState::Detached | DeviceState::Lost => UnitCondition::Offline,
            };
            let units = units.start as usize..units.end as usize;
            reports[units].iter_mut().for_each(|report| report.condition = condition);
        }
        reports
    }

    fn read_roots(&mut self, p: &mut Parts<P>) -> Result<(), OpenError> {
        let geometry = p.config.geometry;
        let mut wanted = Vec::new();
        for index in p.volumes.indices() {
            let roots: Vec<MapEntry> = p.volumes.map(index).roots_at().collect();
            p.keeps_pages(&roots)?;
            for (number, root) in roots.into_iter().enumerate() {
                if let Some(at) = root.location(&geometry) {
                    wanted.push((index, number, at));
                }
            }
        }
        for (index, (volume, number, at)) in wanted.into_iter().enumerate() {
            self.roots.push((volume, number));
            p.space.add_page(at.unit);
            self.ask(p, index, DeviceCmd::ReadPage { at, version: Version::AS_READ });
        }
        Ok(())
    }

    fn root_read(
        &mut self,
        p: &mut Parts<P>,
        index: usize,
        done: Result<Done<P>, DeviceError>,
    ) -> Result<(), OpenError> {
        let (volume, number) = self.roots[index];
        let geometry = p.config.geometry;
        let map = p.volumes.map(volume);
        let parent = map.root_at(number).expect("it was asked for");
        let id = PageId { volume: map.id, index: number as u32 };
        let at = parent.location(&geometry).expect("it was read from somewhere");
        let Ok(Done::Page(bytes)) = done else { return Err(OpenError::MapDamaged(at)) };
        let page = MapPage::decode(bytes.as_slice(), id, parent, &geometry);
        // Blocks are lost, pages never are.
        let page = page.ok().filter(|MapPage(pages)| {
            !pages.iter().any(|page| page.is_nowhere() && !page.is_unmapped())
        });
        mark!(RootDamaged if page.is_none());
        let Some(MapPage(pages)) = page else { return Err(OpenError::MapDamaged(at)) };
        p.keeps_pages(&*pages)?;
        for at in pages.iter().filter_map(|page| page.location(&geometry)) {
            p.space.add_page(at.unit);
        }
        p.volumes.map_mut(volume).adopt(number, &pages);
        p.volumes.note_pages(volume);
        Ok(())
    }

    /// Does a bounded part of a step that does more than ask. Returns whether anything was done.
    fn goes_on(&mut self, p: &mut Parts<P>, step: Step) -> bool {
        match step {
            Step::Pages => self.look_at_pages(p),
            Step::Replay => self.replay_next(p),
            Step::Bases => self.read_bases(p),
            Step::Counting => self.count_next(p),
            Step::Units => self.adopt_next(p),
            _ => false,
        }
    }

    /// Finds what the tail says of pages that could not be read when the record was written.
    fn find_placed(&mut self, p: &mut Parts<P>) {
        self.make_layers(p);
        let number = self.record.as_ref().expect("a superblock was chosen").patches;
        if self.recount {
            self.count_all(p);
        }
        for entry in self.tail.iter().flat_map(TailChunk::entries) {
            let Entry::Placed { volume, lba, entry, settled, number: of } = *entry else {
                continue;
            };
            let Some(index) = p.volumes.slot(volume) else { continue };
            self.bases.may_be_unreadable(index, lba.0 / PAGE);
            mark!(PlacedOfAnother if of != number);
            if of == number || bug!(p.config, PlacedOfAnyNumber) {
                self.placed.push((index, lba.0, entry));
                let settled = settled && !bug!(p.config, SettledCountedAgain);
                self.settled.extend(settled.then_some((index, lba.0)));
            }
        }
        self.note_what_stands(p);
    }

    /// Loads some of the pages that are to be looked at.
    fn look_at_pages(&mut self, p: &mut Parts<P>) -> bool {
        let mut cursor = self.asked_for;
        let (mut budget, mut worked) = (WORDS, false);
        let looks = self.looks_at_pages();
        while looks && p.pages.on_their_way() < LOADS && cursor != PageCursor::END {
            worked = true;
            match p.next_page(&mut cursor, Wanted::Unloaded, &mut budget) {
                Walk::Found(volume, page) => {
                    mark!(PageRecounted);
                    p.loaded(volume, page * PAGE, page * PAGE + 1, Share::Upkeep);
                }
                Walk::Pause => break,
                Walk::End => cursor = PageCursor::END,
            }
        }
        self.asked_for = cursor;
        worked
    }

    /// Takes over the units as they were found; what was read of the map must be sound.
    fn begin_replay(&mut self, p: &mut Parts<P>) -> Result<(), OpenError> {
        let recount = self.recount;
        if let Some(&at) = p.damaged_pages().first().filter(|_| recount) {
            mark!(TailPageDamaged);
            return Err(OpenError::MapDamaged(at));
        }
        let record = self.record.as_ref().expect("a superblock was chosen");
        let newest = self.tail.last().map_or(0, |chunk| chunk.sequence().0);
        let next = newest.max(self.durable.0).max(record.checkpoint.0 - 1) + 1;
        p.flights = Flights::new(Sequence(next));
        p.durability.recovered(Sequence(next - 1));
        let step = u32::from(!bug!(p.config, EpochNotAdvanced));
        p.epoch = Epoch(record.epoch.0.max(self.named.1.0) + step);
        let of_epoch = u64::from(p.epoch.0) << 32;
        let generation = Generation(record.next_generation.0.max(of_epoch));
        p.space.set_next_generation(generation);
        self.adopt_units(p, record);
        self.apply_stale(p);
        self.apply_placed(p);
        Ok(())
    }

    /// Does once more what some chunks of the tail say.
    fn replay_next(&mut self, p: &mut Parts<P>) -> bool {
        let mut worked = self.read_headers_ahead(p);
        for _ in 0..CHUNKS {
            let Some((number, header)) = self.next_header() else { break };
            worked = true;
            let Some(header) = header else { continue };
            self.entries += header.entries.len() as u64;
            self.replay(p, number, &header);
        }
        worked
    }

    /// Counts the blocks of some pages that the tail touched.
    fn count_next(&mut self, p: &mut Parts<P>) -> bool {
        self.counting = self.counting.and_then(|cursor| self.count_replayed(p, cursor));
        true
    }

    /// Takes over some of the unlisted units.
    fn adopt_next(&mut self, p: &mut Parts<P>) -> bool {
        self.adopt_rest(p);
        true
    }

    /// The pool was recovered: what was found becomes the state of an engine, and its first record is written.
    ///
    /// # Errors
    /// [`OpenError`]: the remaining devices cannot hold the pool's data.
    pub(crate) fn finish(self, p: &mut Parts<P>) -> Result<Recovered, OpenError> {
        let settled = self.tail.is_empty() || bug!(p.config, RecoveryNotCheckpointed);
        let recovered = Recovered {
            chunks: self.tail.len() as u64,
            entries: self.entries,
            has_holes: self.has_holes(&p.config),
        };
        let mut record = self.record.expect("a superblock was chosen");
        holds_all_of(p, &record)?;
        record.revision = record.revision.max(self.named.0);
        record.geometry = p.config.geometry;
        record.unit_pages.resize(record.geometry.unit_pages(), MapEntry::UNMAPPED);
        p.superblocks.adopt(record.clone());
        p.write_opening_record(record, settled, self.vain);
        Ok(recovered)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use thermocline_format::{ChunkCause, ChunkHeader, ChunkOrigin, VolumeId};
    use thermocline_types::{Lba, UnitId};

    use super::*;
    use crate::engine::parts::testing::parts;
    use crate::request::Action;

    /// What the devices were asked for.
    fn asked(p: &mut Parts<()>) -> Vec<DeviceCmd<()>> {
        let cmd = |action| match action {
            Action::Device { cmd, .. } => Some(cmd),
            _ => None,
        };
        p.actions.drain(..).filter_map(cmd).collect()
    }

    fn reports(p: &Parts<()>) -> Vec<UnitReport> {
        let report = UnitReport { condition: UnitCondition::Good, written: Some(0) };
        vec![report; p.config.geometry.units() as usize]
    }

    #[test]
    fn records_are_read_after_a_flush_and_without_one_there_is_no_pool() {
        let mut p = parts();
        let mut recovery = Recovery::begin(&mut p, None);
        assert!(matches!(asked(&mut p)[..], [DeviceCmd::ReportUnits]));
        assert_eq!(recovery.step(&mut p), Ok(Stepped::Waits));
        let units = reports(&p);
        assert_eq!(recovery.progress(&mut p, 0, Ok(Done::Units(units))), Ok(()));
        assert_eq!(recovery.step(&mut p), Ok(Stepped::Worked));
        assert!(matches!(asked(&mut p)[..], [DeviceCmd::Flush(_)]));
        assert_eq!(recovery.progress(&mut p, 0, Ok(Done::Ok)), Ok(()));
        assert_eq!(recovery.step(&mut p), Ok(Stepped::Worked));
        assert!(matches!(asked(&mut p)[..], [DeviceCmd::ReadSuperblocks(_)]));
        let none = recovery.progress(&mut p, 0, Ok(Done::Superblocks(Vec::new())));
        assert_eq!(none, Err(OpenError::NoPool));
    }

    #[test]
    fn a_device_that_does_not_answer_cannot_be_opened() {
        let mut p = parts();
        let mut recovery = Recovery::begin(&mut p, None);
        let failed = recovery.progress(&mut p, 0, Err(DeviceError::Io));
        assert_eq!(failed, Err(OpenError::Device));
    }

    #[test]
    fn what_superblock_units_hold_goes_before_a_pool_is_made() {
        let mut p = parts();
        let mut recovery = Recovery::begin(&mut p, Some(PoolId([3; 16])));
        let units = reports(&p);
        assert_eq!(recovery.progress(&mut p, 0, Ok(Done::Units(units))), Ok(()));
        asked(&mut p);
        assert_eq!(recovery.step(&mut p), Ok(Stepped::Worked));
        assert!(matches!(asked(&mut p)[..], [DeviceCmd::Reset(_), DeviceCmd::Reset(_)]));
    }

    #[test]
    fn patches_in_the_tail_count_if_they_have_the_number_of_the_record() {
        let mut p = parts();
        let mut recovery = Recovery::begin(&mut p, None);
        let record = p.superblocks.durable().expect("a record").clone();
        recovery.record = Some(Superblock { patches: 3, ..record });
        let entry = MapEntry::UNMAPPED;
        let placed = |volume, lba, settled, number| Entry::Placed {
            volume: VolumeId(volume),
            lba: Lba(lba),
            entry,
            settled,
            number,
        };
        let origin = ChunkOrigin {
            pool: p.pool,
            location: Location { unit: UnitId(5), block: 0 },
            generation: Generation(1),
            epoch: Epoch(1),
            sequence: Sequence(1),
            durable: Sequence(0),
            revision: Revision(1),
            cause: ChunkCause::Host,
            class: Class(0),
        };
        let entries = vec![
            placed(1, 7, true, 3),
            placed(1, 8, false, 3),
            placed(1, 9, true, 2),
            placed(2, 7, true, 3),
        ];
        let header = ChunkHeader { origin, blocks: 1, entries, packed: None };
        recovery.tail = vec![TailChunk::Kept(Arc::new(header)), TailChunk::Over(Sequence(2))];
        recovery.find_placed(&mut p);
        assert_eq!(recovery.placed, [(0, 7, entry), (0, 8, entry)]);
        assert_eq!(recovery.settled, BTreeSet::from([(0, 7)]));
    }
}
