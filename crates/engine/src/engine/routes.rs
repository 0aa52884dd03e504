//! Routes: each completion, each finished wait and each failure goes to the job that continues.

use thermocline_format::{Location, MapPage, PageId, Sequence};
use thermocline_types::{Class, DeviceId, UnitId};

use crate::bugs::bug;
use crate::device::{Chunk, DeviceError, Done, OpId, PageBytes};
use crate::durability::Then;
use crate::engine::gc::Collected;
use crate::engine::gc::choice::Choice;
use crate::engine::opening::{Recovered, Stepped};
use crate::engine::versions::{Judge, Judged};
use crate::engine::{Engine, Op, Phase};
use crate::map::{Mapping, Value, VolumeMap};
use crate::marks::mark;
use crate::pages::{Parked, Tried, Waits};
use crate::payload::Payload;
use crate::request::{Action, Extent, HostError, Notice, OpenError};
use crate::superblocks::Purpose;
use crate::write_cache::Owner;

/// Failed writes without a good one between them after which the device is given up. Chosen, not measured.
const FAILURES: u32 = 8;

impl<P: Payload> Engine<P> {
    /// Reports the pool open as soon as requests are accepted.
    fn tell_open(&mut self) {
        let safe = self.parts.superblocks.are_settled() || self.parts.phase == Phase::Failed;
        let due = |untold: &mut Recovered| safe || !untold.has_holes;
        if let Some(Recovered { chunks, entries, .. }) = self.untold.take_if(due) {
            self.parts.actions.push_back(Action::Notice(Notice::Open { chunks, entries }));
        }
    }

    pub(crate) fn flushed(&mut self, device: DeviceId, result: Result<(), DeviceError>) {
        self.parts.durability.end_flush(device, result.is_ok());
        match result {
            Ok(()) => self.resolve(),
            Err(_) => {
                mark!(FlushFailed);
                self.fail();
            }
        }
    }

    /// Goes on with all whose wait is over.
    fn resolve(&mut self) {
        for then in self.parts.due() {
            match then {
                Then::Host { request } => self.parts.request_progress(request, 1, None),
                Then::Release { units } => self.parts.reset_released(&units),
                Then::Scrub => self.scrubber.goes_on(),
                Then::Covered => self.layers.covers_durably(),
                Then::Dead => self.parts.space.dead_flushed(),
                Then::Pages { target } => self.checkpointer.pages_durable(&mut self.parts, target),
                Then::Superblock => self.superblock_durable(),
            }
        }
    }

    fn superblock_written(&mut self, result: Result<(), DeviceError>) {
        match result {
            Ok(()) => self.parts.next_copy(),
            Err(_) => {
                mark!(RecordFailed);
                self.fail();
            }
        }
    }

    /// The copies written so far are durable; with the last, the record counts.
    fn superblock_durable(&mut self) {
        let Some(counts) = self.parts.superblocks.copies_durable() else {
            return self.parts.next_copy();
        };
        let record = self.parts.superblocks.durable().expect("it counts now");
        self.parts.space.set_listed(&record.open_units);
        let ends_unclean = self.checkpointer.ends_unclean();
        let ends = record.clean || counts.purpose == Purpose::Checkpoint && ends_unclean;
        self.parts.reserve(&counts.fresh);
        if counts.purpose == Purpose::MoreUnits {
            self.checkpointer.list(&counts.fresh);
        }
        for value in counts.obsolete {
            self.parts.drop_value(value);
        }
        match counts.purpose {
            Purpose::Opening => self.opened(),
            Purpose::MoreUnits => {}
            Purpose::Checkpoint => self.checkpointed(),
        }
        if ends && let Some(request) = self.parts.closing.take() {
            mark!(ClosedClean if !ends_unclean);
            mark!(ClosedUnclean if ends_unclean);
            self.parts.phase = Phase::Closed;
            self.parts.request_progress(request, 1, None);
        }
    }

    /// The record of a checkpoint counts.
    fn checkpointed(&mut self) {
        let pages = self.checkpointer.end(&mut self.parts);
        let unsettled = self.parts.superblocks.settle();
        self.parts.pages_landed();
        self.parts.begin_unit_table();
        self.parts.unit_table.drop_kept();
        for value in unsettled {
            self.parts.drop_value(value);
        }
        self.tell_open();
        self.parts.stats.checkpoints += 1;
        self.parts.actions.push_back(Action::Notice(Notice::Checkpoint { pages }));
        self.resolve();
    }

    fn unit_reset(&mut self, unit: UnitId, result: Result<(), DeviceError>) {
        self.parts.space.reset_answered(unit, result.is_ok());
        match result {
            Ok(()) => self.collector.unstick(unit),
            Err(DeviceError::Gone) => self.fail(),
            Err(_) => {
                mark!(ResetFailed);
                self.parts.retire(unit);
            }
        }
        self.parts.reset_next();
    }

    /// Goes on with what waits for memory. Returns whether anything was done.
    pub(crate) fn memory_step(&mut self) -> bool {
        let mut worked = self.parts.land_step() | self.pages_arrive() | self.parts.shed_step();
        worked |= self.parts.pages.take_goes_on();
        if let Some(parked) = self.parts.pages.next_waiting() {
            let left = self.parts.pages.waiting();
            self.unpark(parked, Tried::Memory);
            let served = self.parts.pages.waiting() == left;
            if served {
                self.parts.pages.relieved();
            }
            worked |= served;
        }
        worked
    }

    /// Takes over pages that need not be read. Returns whether there were any.
    fn pages_arrive(&mut self) -> bool {
        let mut any = false;
        while let Some((volume, page, at, bytes)) = self.parts.pages.next_arrived() {
            any = true;
            self.page_read(volume, page, at, Some(&bytes));
        }
        any
    }

    /// Page `page` was read from `at`.
    fn page_read(&mut self, volume: u16, page: u64, at: Location, bytes: Option<&PageBytes>) {
        let parked = self.parts.pages.end((volume, page));
        let map = self.parts.volumes.map(volume);
        let (id, parent) = (PageId { volume: map.id, index: page as u32 }, map.page_at(page));
        let geometry = self.parts.config.geometry;
        self.parts.space.drop_reader(at.unit);
        let moved = parent.location(&geometry) != Some(at);
        let decoded =
            bytes.and_then(|bytes| MapPage::decode(bytes.as_slice(), id, parent, &geometry).ok());
        match decoded {
            Some(MapPage(entries)) => {
                self.parts.page_loaded(volume, page, entries.as_slice());
                if self.parts.phase == Phase::Opening
                    && let Some(recovery) = &mut self.recovery
                {
                    recovery.page_opened(&mut self.parts, volume, page);
                }
                self.parts.volumes.note_pages(volume);
            }
            // The page has moved: parked requests read the new location.
            None if moved => {
                return parked.into_iter().for_each(|parked| self.unpark(parked, Tried::Memory));
            }
            None => {
                mark!(PageDamaged);
                self.parts.pages.note_damaged((volume, page));
                self.parts.report_damage(at, Some(self.parts.extent_of_page(volume, page)));
            }
        }
        parked.into_iter().for_each(|parked| self.unpark(parked, Tried::Page));
    }

    fn unpark(&mut self, Parked { what, held }: Parked<P>, tried: Tried) {
        self.parts.pages.let_go(&held);
        match what {
            Waits::Read { request, extent, into } => {
                self.parts.read_again(request, extent, into, tried);
            }
            Waits::Write { request, extent, data, handle } => {
                self.parts.write_again(request, extent, data, handle, tried);
            }
        }
    }

    /// The write of `chunk` failed. The chunk and all later chunks of the unit are written elsewhere: recovery might
    /// not find chunks behind a hole.
    fn write_failed(
        &mut self,
        sequence: Sequence,
        chunk: &Chunk<P>,
        class: Class,
        error: DeviceError,
    ) {
        let unit = chunk.header.origin.location.unit;
        let block = chunk.header.origin.location.block;
        self.parts.space.break_at(chunk.header.origin.location);
        if self.parts.flights.failed() > FAILURES || error == DeviceError::Gone {
            mark!(DeviceGivenUp);
            self.fail();
            self.parts.keep_in_memory(chunk, class);
            self.checkpointer.pages_lost(&mut self.parts, chunk);
            return;
        }
        if self.parts.space.next_of(class).is_some_and(|at| at.unit == unit) {
            self.parts.close_frontier(class);
        }
        if matches!(error, DeviceError::ReadOnly | DeviceError::Offline) {
            mark!(CondemnedByWrite);
            self.parts.condemn(unit);
        }
        self.replace_chunk(sequence, chunk, class);
        let mut lost = vec![sequence];
        // Those still on their way are dealt with when the device answers.
        let behind = self.parts.flights.done_behind(Location { unit, block });
        for (sequence, chunk) in behind {
            if bug!(self.parts.config, BehindFailedWriteKept) {
                break;
            }
            mark!(BehindFailed);
            self.replace_chunk(sequence, &chunk, class);
            lost.push(sequence);
        }
        for sequence in lost {
            self.parts.await_successors(sequence);
        }
    }

    /// Fails all writes of the host that are staged: the pool has no space. If the host already has their completions,
    /// all writing fails, and the blocks stay readable from memory.
    fn fail_staged(&mut self) -> bool {
        if self.parts.cache.holds_acknowledged() {
            mark!(CompleteButNoRoom);
            self.fail();
            return true;
        }
        let hosts = self.parts.cache.take_hosts();
        let any = !hosts.is_empty();
        mark!(NoRoom if any);
        for staged in hosts {
            if staged.alive {
                let map = self.parts.volumes.map_mut(staged.volume);
                let unknown =
                    |map: &VolumeMap| map.said(staged.lba).is_some_and(|said| said.counted);
                match staged.old {
                    None if unknown(map) => map.unpatch(staged.lba),
                    None => map.set(staged.lba, Mapping::Unmapped),
                    Some(old) => map.set(staged.lba, Mapping::At(old)),
                }
                self.parts.volumes.map_less(u64::from(staged.old.is_none_or(Value::is_nowhere)));
            }
            for owner in staged.owners.each() {
                match *owner {
                    Owner::Request(request) => {
                        self.parts.request_progress(request, 1, Some(HostError::NoSpace));
                    }
                    // Blocks of a failed write, which the host may think are written.
                    Owner::Failed(_) => self.fail(),
                }
            }
        }
        any
    }

    /// Gives up writing: every request that writes fails from now on.
    pub(crate) fn fail(&mut self) {
        if self.parts.phase == Phase::Opening {
            self.open_failed(OpenError::Device);
        } else if !matches!(self.parts.phase, Phase::Failed | Phase::Closed) {
            self.set_failed();
            self.parts.actions.push_back(Action::Notice(Notice::Failed));
        }
    }

    /// Nothing is on its way and nothing can be done, but blocks wait to be sealed, or requests for a checkpoint: units
    /// have gone out of service, and there will never be room. Fails waiting blocks and requests rather than let them
    /// wait for ever. Returns whether anything did.
    pub(super) fn give_up_waiting(&mut self) -> bool {
        let working = matches!(self.parts.phase, Phase::Open | Phase::Closing);
        let waits = !self.parts.cache.is_empty() || !self.parts.requests.is_empty();
        if !working
            || !self.parts.ops.is_empty()
            || !waits
            || self.sealer.waits_for_deadline(&self.parts)
        {
            return false;
        }
        mark!(WaitingGivenUp);
        if self.parts.gc_borrow() || self.parts.due.force() {
            return true;
        }
        if !self.fail_staged() {
            mark!(NothingToFail);
            self.fail();
        }
        true
    }

    /// Fails every request that waits for more than the answer of the device.
    fn set_failed(&mut self) {
        self.parts.phase = Phase::Failed;
        for then in self.parts.durability.abandon() {
            match then {
                Then::Host { request } => {
                    self.parts.request_progress(request, 1, Some(HostError::Failed));
                }
                Then::Scrub => self.scrubber.goes_on(),
                _ => {}
            }
        }
        let (owners, flushes) = self.parts.cache.give_up();
        for owner in owners {
            match owner {
                Owner::Request(request) => {
                    self.parts.request_progress(request, 1, Some(HostError::Failed));
                }
                Owner::Failed(_) => self.parts.settle_owners(&[(owner, 1)]),
            }
        }
        for request in flushes {
            self.parts.request_progress(request, 1, Some(HostError::Failed));
        }
        if let Some(request) = self.parts.closing.take() {
            mark!(ClosingFailed);
            self.parts.request_progress(request, 1, Some(HostError::Failed));
        }
        self.trimmer.fail(&mut self.parts);
        self.layers.fail(&mut self.parts);
        self.parts.pages_failed();
        self.collector.unpin_all(&mut self.parts);
        self.tell_open();
    }

    /// The device answered for chunk `sequence` of `class`.
    fn chunk_written(&mut self, sequence: Sequence, class: Class, result: Result<(), DeviceError>) {
        let chunk = self.parts.flights.chunk(sequence);
        let unit = chunk.header.origin.location.unit;
        self.parts.space.chunk_answered(class, unit);
        self.parts.cache.urgent().answered(sequence);
        let broken = self.parts.space.broken(unit);
        match result {
            Ok(()) if broken.is_none_or(|block| block > chunk.header.origin.location.block) => {
                self.parts.flights.succeeded();
            }
            Ok(()) => {
                mark!(BehindBroken);
                self.replace_chunk(sequence, &chunk, class);
                self.parts.await_successors(sequence);
            }
            Err(error) => self.write_failed(sequence, &chunk, class, error),
        }
        if self.parts.space.units().state(unit) == thermocline_ftl::UnitState::Closed {
            self.parts.finish_if_quiet(unit);
            self.parts.space.closed_if_quiet(unit);
        }
        self.parts.flight_progress(sequence, 1);
    }

    /// What still counts of a chunk that is, or may be, lost is written again.
    fn replace_chunk(&mut self, sequence: Sequence, chunk: &Chunk<P>, class: Class) {
        if self.parts.replace_chunk(sequence, chunk, class) {
            self.checkpointer.pages_lost(&mut self.parts, chunk);
        }
    }

    /// Takes garbage collection a bounded step further. Returns whether anything was done.
    pub(crate) fn collect(&mut self) -> bool {
        let Collected { worked, lacks } = self.collector.step(&mut self.parts);
        let helped = lacks.is_some_and(|choice| self.do_without_victim(choice));
        worked || helped
    }

    fn do_without_victim(&mut self, choice: Choice) -> bool {
        if self.parts.space.dead_units() > 0 && self.parts.release_step() {
            return true;
        }
        if choice == Choice::Checkpoint {
            self.collector.starve(&mut self.parts);
            return true;
        }
        mark!(StarvedForGood);
        self.fail_staged()
    }

    /// The device has answered command `index` of an opening.
    fn recovery_progress(&mut self, index: usize, done: Result<Done<P>, DeviceError>) {
        if self.parts.phase != Phase::Opening {
            return;
        }
        let recovery = self.recovery.as_mut().expect("the pool is being opened");
        if let Err(error) = recovery.progress(&mut self.parts, index, done) {
            self.open_failed(error);
        }
    }

    /// Takes an opening a bounded step further. Returns whether anything was done.
    pub(crate) fn recover(&mut self) -> bool {
        let Some(recovery) = &mut self.recovery else {
            // The opening record is on its way.
            return self.parts.flush_step();
        };
        match recovery.step(&mut self.parts) {
            Ok(Stepped::Waits) => return false,
            Ok(Stepped::Worked) => {}
            Ok(Stepped::Over) => {
                let recovery = self.recovery.take().expect("it was just looked at");
                match recovery.finish(&mut self.parts) {
                    Ok(recovered) => self.untold = Some(recovered),
                    Err(error) => self.open_failed(error),
                }
            }
            Err(error) => self.open_failed(error),
        }
        true
    }

    fn open_failed(&mut self, error: OpenError) {
        if self.parts.phase != Phase::Opening {
            return;
        }
        mark!(OpeningFailed if error == OpenError::Device);
        self.parts.phase = Phase::Closed;
        self.parts.actions.push_back(Action::Notice(Notice::OpenFailed(error)));
    }

    /// The record of an opening is durable: the pool takes requests.
    fn opened(&mut self) {
        let p = &mut self.parts;
        p.phase = Phase::Open;
        p.begin_ages();
        for index in p.volumes.indices() {
            if p.volumes.map(index).deleted {
                self.trimmer.unmap_deleted(p, index);
            }
        }
        self.losing.begin_losing(p);
        if !p.superblocks.are_settled() {
            p.want_checkpoint();
        }
        // Zones that are not written on would count as active until they are reset.
        p.space.take_unfinished().into_iter().for_each(|unit| p.finish_if_quiet(unit));
        self.tell_open();
    }

    /// The device answered `op`: the job that sent the command continues.
    pub(crate) fn answered(&mut self, op: OpId, done: Result<Done<P>, DeviceError>) {
        let asked = self.parts.ops.remove(op.0 as usize);
        let recovery = self.recovery.as_deref();
        let mut judge = Judge::new(&mut self.parts, recovery, &self.collector, &mut self.scrubber);
        let judged = judge.judged(op.0 as usize, asked, done);
        let Some(Judged { asked, done, lost }) = judged else { return };
        let status = done.as_ref().map(|_| ()).map_err(|error| *error);
        let p = &mut self.parts;
        match (asked, done) {
            (Op::WriteChunk { sequence, class }, _) => self.chunk_written(sequence, class, status),
            (Op::HostRead { request, volume, lba, unit, expected }, _) => {
                let blocks = expected.len() as u64;
                let extent = Extent { volume, lba, blocks };
                p.read_done(request, extent, unit, expected, &lost, status);
            }
            (Op::LoadPage { volume, page, at }, Ok(Done::Page(bytes))) => {
                self.page_read(volume, page, at, Some(&bytes));
            }
            (Op::LoadPage { volume, page, at }, Err(_)) => self.page_read(volume, page, at, None),
            (Op::MovePage { page, unit }, Ok(Done::Page(bytes))) => {
                self.checkpointer.page_to_move(p, page, unit, Some(bytes));
            }
            (Op::MovePage { page, unit }, Err(_)) => {
                self.checkpointer.page_to_move(p, page, unit, None);
            }
            (Op::MergePage { page }, Ok(Done::Page(bytes))) => {
                self.checkpointer.page_to_merge(p, page, Some(bytes));
            }
            (Op::MergePage { page }, Err(_)) => self.checkpointer.page_to_merge(p, page, None),
            (Op::GcChunks { .. }, Ok(Done::Chunks(found))) => {
                self.collector.chunks_found(p, &found);
            }
            (Op::GcChunks { .. }, Err(error)) => self.collector.unreadable(error),
            (Op::GcRead { segment, first }, Ok(Done::Data(data))) => {
                self.collector.data_read(p, segment, first, Some(&data));
            }
            (Op::GcRead { segment, first }, Err(_)) => {
                self.collector.data_read(p, segment, first, None);
            }
            (Op::Lift { lifted }, done) => {
                let data = match done {
                    Ok(Done::Data(data)) if lost.is_empty() => Some(data),
                    _ => None,
                };
                self.layers.lifted(p, lifted, data);
            }
            (Op::Reset { unit }, _) => self.unit_reset(unit, status),
            (Op::Finish { unit }, _) => p.space.finished(unit),
            (Op::Flush { device }, _) => self.flushed(device, status),
            (Op::Superblock, _) => self.superblock_written(status),
            (Op::ScrubChunks, Ok(Done::Chunks(found))) => self.scrubber.found(p, Ok(found)),
            (Op::ScrubChunks, Err(error)) => self.scrubber.found(p, Err(error)),
            (Op::ScrubRead { block, missing }, Ok(Done::Data(data))) => {
                self.scrubber.block_read(p, block, missing, Some(&data));
            }
            (Op::ScrubRead { block, missing }, Err(_)) => {
                self.scrubber.block_read(p, block, missing, None);
            }
            (Op::ScrubVersion { blocks, version }, done) => {
                self.scrubber.version_read(p, &blocks, version, &done);
            }
            (Op::Heal { at, version }, _) => p.healed(at, version, status),
            (Op::Opening { index }, done) => self.recovery_progress(index, done),
            (asked, done) => panic!("{asked:?} was answered with {done:?}"),
        }
    }
}
