//! When things happen: one timeline per die, a work-conserving server per channel and link, no event queue.
//!
//! Model (after the timelines of NVMeVirt, FAST 2023, and FEMU, FAST 2018, with a background queue of our own):
//! * A host write is acknowledged once its data is in the write buffer. The buffer holds a fixed number of program
//!   units; the next one is admitted when the oldest has been programmed.
//! * A program occupies the channel for its transfer and then the die for tPROG; a read the die for tR and then the
//!   channel. Programs of all dies together may be limited to a rate. Channels and links serve in order of arrival and
//!   lose no idle time to transfers that are not ready yet. A die without a second page register is busy during its
//!   transfers as well, and, where the bus is in order, until the turn of what the host reads has come.
//! * A read goes before queued programs and erases of its die. A read suspends a running program or erase if the drive
//!   supports suspension, and waits for the end otherwise. Displaced operations are delayed by the same time.
//! * The translation layer decides relocations at once, so that time never changes write amplification. Their reads,
//!   programs and erases queue as *debt*, which is worked off when a die would be idle, and in step with host programs
//!   so that it is gone when the open unit is full. The reserve units are what makes waiting safe. Reads for relocation
//!   precede the programs queued on the die, so that the data is ready when the program starts.
//! * While debt moves data, all dies together may be limited to a lower rate (`timing.collecting_mb_per_s`).
//! * What is written in part of a block is programmed when the rest of the block has been read. Such reads may have to
//!   wait for one of a few places (`timing.modify_at_once`): the media are busy with them at once, so that reads of the
//!   host never queue behind what waits for a place; only their end is put off.
//! * A unit begins on the die after those that units opened before it cover. Units of the product cover every die
//!   equally often; the units of a drive cut to a small capacity do so together.
//!
//! Invariant: requests are submitted in order of arrival.

use std::collections::VecDeque;

use thermocline_types::{Bytes, Time, UnitId};

use crate::aged::{Further, Legibility, ReadAttempts};
use crate::busy::BusyTimes;
use crate::profile::{Geometry, Slc, Timing};
use crate::server::Server;
use crate::thermal::{Heat, Thermal, Warmth};

/// Where program unit `page` of unit `unit` lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The unit of erasure.
    pub unit: UnitId,
    /// The program unit within it.
    pub page: u32,
    /// Whether the page is in SLC mode: one bit a cell.
    pub slc: bool,
}

/// Queued programs and erases of a die, each with its start and end; starts never precede the previous end.
#[derive(Clone, Debug, Default)]
struct Die {
    work: VecDeque<(u64, u64)>,
    reads_end: u64,
    relocation_reads_end: u64,
    busy: u64,
}

impl Die {
    /// When all that is queued will be done.
    fn free_at(&self) -> u64 {
        self.work_end().max(self.reads_end)
    }

    fn work_end(&self) -> u64 {
        self.work.back().map_or(0, |&(_, end)| end)
    }

    fn forget_before(&mut self, now: u64) {
        while self.work.len() > 1 && self.work[0].1 <= now {
            self.work.pop_front();
        }
    }

    /// Queues a program or erase that is ready at `ready`; returns when it is done.
    fn enqueue(&mut self, now: u64, ready: u64, duration: u64) -> u64 {
        self.forget_before(now);
        let start = ready.max(self.free_at());
        self.busy += duration;
        self.work.push_back((start, start + duration));
        start + duration
    }

    /// Queues a read for relocation before the programs and erases that have not begun, behind other such reads;
    /// returns when it is done.
    fn read_to_relocate(&mut self, now: u64, duration: u64) -> u64 {
        self.forget_before(now);
        let after = now.max(self.relocation_reads_end);
        let at = self.work.partition_point(|&(start, _)| start < after);
        let begun = at.checked_sub(1).map_or(0, |running| self.work[running].1);
        let start = now.max(begun).max(self.reads_end);
        self.busy += duration;
        self.delay(at, start, duration);
        self.work.insert(at, (start, start + duration));
        self.relocation_reads_end = start + duration;
        start + duration
    }

    /// Reads for `duration` as soon as possible after `now`; returns when the data is in the page register.
    fn read(&mut self, now: u64, duration: u64, suspend: Option<u64>) -> u64 {
        self.forget_before(now);
        let mut start = now.max(self.reads_end);
        let mut first_delayed = self.work.len();
        for (index, work) in self.work.iter().enumerate() {
            if work.1 <= start {
                continue;
            }
            first_delayed = index;
            if work.0 < start {
                match suspend {
                    Some(latency) if latency < work.1 - start => start += latency,
                    _ => {
                        start = work.1;
                        first_delayed = index + 1;
                    }
                }
            }
            break;
        }
        self.busy += duration;
        self.reads_end = start + duration;
        self.delay(first_delayed, start, duration);
        self.reads_end
    }

    /// Keeps the die from `from`, when a read ended, until `until`, when its only page register is empty.
    fn hold(&mut self, from: u64, until: u64) {
        let duration = until.saturating_sub(from);
        self.busy += duration;
        self.reads_end = self.reads_end.max(until);
        let first = self.work.partition_point(|&(_, end)| end <= from);
        self.delay(first, from, duration);
    }

    /// Pushes back what overlaps a read of `duration` from `start`: the suspended operation by the whole read, later
    /// ones by what is left after gaps.
    fn delay(&mut self, first: usize, start: u64, duration: u64) {
        let mut earliest = start + duration;
        for work in self.work.range_mut(first..) {
            let length = work.1 - work.0;
            if work.0 < start {
                work.1 += duration;
            } else if work.0 < earliest {
                *work = (earliest, earliest + length);
            } else {
                break;
            }
            earliest = work.1;
        }
    }
}

/// Where a unit begins: on which die of those it is striped over.
#[derive(Clone, Copy, Debug, Default)]
struct Begin {
    die: u32,
    /// False once the unit is erased: it will begin elsewhere.
    holds: bool,
}

#[derive(Clone, Copy, Debug)]
enum Debt {
    Read { page: Page, bytes: u64 },
    Program(Page),
    Erase(UnitId),
}

/// Array read and program of a page.
#[derive(Clone, Copy, Debug)]
struct CellTimes {
    read: u64,
    program: u64,
}

/// Timelines of a drive's dies, channels, controller and link. Times inside are nanoseconds.
#[derive(Clone, Debug)]
pub struct Timeline {
    geometry: Geometry,
    pages_per_unit: u32,
    cells: CellTimes,
    /// Of cells in SLC mode, with the pages of a unit in it.
    slc: Option<(CellTimes, u32)>,
    erase: u64,
    suspend: Option<u64>,
    bus_in_order: bool,
    command: u64,
    ns_per_bus_byte: f64,
    ns_per_programmed_byte: f64,
    /// The same while garbage collection moves data.
    ns_per_collected_byte: f64,
    ns_per_byte_in: f64,
    ns_per_byte_out: f64,
    firmware_read: u64,
    firmware_write: u64,
    start_command: u64,
    /// What a host read and a host write take the controller beyond that.
    start_more: [u64; 2],
    dies: Vec<Die>,
    channels: Vec<Server>,
    controller: Server,
    /// What all dies together may program, by power or controller.
    power: Server,
    link_in: Server,
    /// If absent, both directions share `link_in`.
    link_out: Option<Server>,
    buffered: VecDeque<u64>,
    buffer_pages: usize,
    debt: VecDeque<Debt>,
    /// Programs in `debt`.
    programs_due: usize,
    relocation_ready: u64,
    /// Where each unit begun so far begins, by unit.
    begins: Vec<Begin>,
    /// When the latest read-modify-writes have their data, as many as can be in work at once, oldest first; empty where
    /// any number can.
    modifying: VecDeque<u64>,
    /// Where the next one will.
    next_die: u32,
    /// The temperature, if modelled.
    heat: Option<Heat>,
    /// How well pages can be read, where that is modelled.
    errors: Option<Box<Legibility>>,
    now: u64,
    previous: u64,
}

impl Timeline {
    /// Timelines of a drive with units of `pages_per_unit` program units and room for `buffer` bytes of host writes.
    ///
    /// A drive cut to a small capacity has smaller units than the product and so erases more often; an erase takes less
    /// time in proportion, so that the time per byte stays that of the product.
    #[must_use]
    pub fn new(
        geometry: &Geometry,
        timing: &Timing,
        slc: Option<&Slc>,
        pages_per_unit: u32,
        buffer: Bytes,
    ) -> Self {
        let ns = |us: f64| Time::micros_f64(us).as_nanos();
        let page = geometry.program_unit();
        let product_pages = geometry.product_unit().as_f64() / page.as_f64();
        let size = f64::from(pages_per_unit) / product_pages;
        let starts = [Some(timing.controller_kiops), timing.controller_write_kiops]
            .map(|kiops| (1e6 / kiops.unwrap_or(timing.controller_kiops)).round() as u64);
        let start_command = starts[0].min(starts[1]);
        Timeline {
            pages_per_unit,
            cells: CellTimes { read: ns(timing.read_us), program: ns(timing.program_us) },
            slc: slc.map(|slc| {
                let read = ns(slc.read_us.unwrap_or(timing.read_us));
                let program = ns(slc.program_us.unwrap_or(timing.program_us));
                (CellTimes { read, program }, slc.pages(pages_per_unit))
            }),
            erase: ns(timing.erase_us * size.min(1.0)),
            suspend: timing.suspend_us.map(ns),
            bus_in_order: timing.bus_in_order,
            command: ns(timing.command_us),
            ns_per_bus_byte: 1e3 / timing.bus_mb_per_s,
            ns_per_programmed_byte: timing.program_mb_per_s.map_or(0.0, |rate| 1e3 / rate),
            ns_per_collected_byte: timing
                .collecting_mb_per_s
                .or(timing.program_mb_per_s)
                .map_or(0.0, |rate| 1e3 / rate),
            ns_per_byte_in: 1e3 / timing.link_write_mb_per_s,
            ns_per_byte_out: 1e3 / timing.link_read_mb_per_s,
            firmware_read: ns(timing.firmware_read_us),
            firmware_write: ns(timing.firmware_write_us),
            start_command,
            start_more: starts.map(|start| start - start_command),
            dies: vec![Die::default(); geometry.dies as usize],
            channels: vec![Server::default(); geometry.channels as usize],
            controller: Server::default(),
            power: Server::default(),
            link_in: Server::default(),
            link_out: (!timing.link_half_duplex).then(Server::default),
            buffered: VecDeque::new(),
            buffer_pages: (buffer.0 / page.0).max(u64::from(geometry.dies)) as usize,
            debt: VecDeque::new(),
            programs_due: 0,
            relocation_ready: 0,
            begins: Vec::new(),
            modifying: vec![0; timing.modify_at_once.unwrap_or(0) as usize].into(),
            next_die: 0,
            heat: None,
            errors: None,
            now: 0,
            previous: 0,
            geometry: geometry.clone(),
        }
    }

    /// The same drive where heat is modelled.
    #[must_use]
    pub fn with_heat(mut self, thermal: &Thermal) -> Self {
        self.heat = Some(Heat::new(thermal));
        self
    }

    /// The same drive with pages that take several attempts to read, if any.
    #[must_use]
    pub(crate) fn with_errors(mut self, errors: Option<Legibility>) -> Self {
        self.errors = errors.map(Box::new);
        self
    }

    /// Page reads so far and their attempts; zero if not modelled.
    #[must_use]
    pub fn attempts(&self) -> ReadAttempts {
        self.errors.as_ref().map_or_else(ReadAttempts::default, |errors| errors.counts())
    }

    /// How well pages can be read, where that is modelled.
    pub(crate) fn errors_mut(&mut self) -> Option<&mut Legibility> {
        self.errors.as_deref_mut()
    }

    /// Records that `unit` is being erased for the `erases`-th time, without taking time.
    #[inline]
    pub fn wear(&mut self, unit: UnitId, erases: u32) {
        if let Some(errors) = &mut self.errors {
            errors.erased(unit, erases);
        }
    }

    /// What reading `bytes` of `page` takes beyond the first attempt.
    #[inline]
    fn further(&mut self, page: Page, bytes: u64) -> Further {
        match &mut self.errors {
            Some(errors) if !page.slc => errors.read(page.unit, page.page, bytes),
            _ => Further::default(),
        }
    }

    /// The temperature, if modelled.
    #[must_use]
    pub fn warmth(&self) -> Option<Warmth> {
        self.heat.as_ref().map(Heat::warmth)
    }

    /// A request arrives at `at`. Dies that were idle since the previous one worked off debt meanwhile.
    pub fn arrive(&mut self, at: Time) {
        self.previous = self.now;
        self.now = at.as_nanos().max(self.now);
        let started = self.controller.serve(self.now, self.now, self.start_command);
        self.work_while_idle();
        self.now = self.now.max(started - self.start_command);
        if self.heat.as_ref().is_some_and(|heat| heat.is_due(self.now)) {
            self.follow_heat();
        }
    }

    fn follow_heat(&mut self) {
        let links = self.link_in.busy() + self.link_out.map_or(0, |link| link.busy());
        let dies = self.dies.iter().map(|die| die.busy).sum();
        let buses = self.channels.iter().map(Server::busy).sum();
        if let Some(heat) = &mut self.heat {
            heat.follow(self.now, [dies, buses, links]);
        }
    }

    /// When `bytes` that cross the link until `end` are through, if the drive is held back by heat.
    fn hold_back(&mut self, end: u64, bytes: Bytes) -> u64 {
        let now = self.now;
        self.heat.as_mut().map_or(end, |heat| heat.hold_back(now, end, bytes.as_f64()))
    }

    /// `bytes` arrive over the link; returns when the controller has them.
    pub fn receive(&mut self, bytes: Bytes) -> Time {
        self.controller.serve(self.now, self.now, self.start_more[1]);
        let transfer = (bytes.as_f64() * self.ns_per_byte_in) as u64;
        let end = self.link_in.serve(self.now, self.now, transfer);
        Time(self.hold_back(end, bytes) + self.firmware_write)
    }

    /// Waits for a place in the write buffer for one more program unit; returns when there is one.
    pub fn admit(&mut self) -> Time {
        if self.buffered.len() < self.buffer_pages {
            return Time(self.now);
        }
        let freed = self.buffered.pop_front().expect("a full buffer has an oldest page");
        Time(freed.max(self.now))
    }

    /// When everything the host wrote so far is on the media.
    #[must_use]
    pub fn drained(&self) -> Time {
        Time(self.buffered.iter().copied().max().unwrap_or(0).max(self.now) + self.firmware_write)
    }

    /// Programs a page of host data, which is whole at `ready`, and works off the share of debt due with it.
    pub fn program_host(&mut self, page: Page, ready: Time) {
        self.program_rest(page, self.geometry.program_unit(), ready);
    }

    /// The same of a page of which `bytes` are still to be programmed.
    pub fn program_rest(&mut self, page: Page, bytes: Bytes, ready: Time) {
        self.begin(page);
        let ns_per_byte = self.ns_per_programmed_byte();
        let pages_left = (self.pages(page) - page.page).max(1) as usize;
        for _ in 0..self.debt.len().div_ceil(pages_left) {
            let debt = self.debt.pop_front().expect("counted");
            self.work_off(debt, self.now);
        }
        let ready = ready.as_nanos().max(self.now);
        let done = self.schedule_program(page, bytes, ns_per_byte, (self.now, ready));
        self.buffered.push_back(done);
    }

    /// Programs `bytes` of a page of host data, which are whole at `ready`; the rest of the page is left for later. The
    /// array takes as long as for a whole page.
    pub fn program_part(&mut self, page: Page, bytes: Bytes, ready: Time) {
        self.begin(page);
        let ready = ready.as_nanos().max(self.now);
        let ns_per_byte = self.ns_per_programmed_byte();
        let done = self.schedule_program(page, bytes, ns_per_byte, (self.now, ready));
        self.buffered.push_back(done);
    }

    /// Programs a page of relocated data in the background.
    pub fn program_relocated(&mut self, page: Page) {
        self.begin(page);
        self.programs_due += 1;
        self.debt.push_back(Debt::Program(page));
    }

    /// Reads `bytes` of a page in the background, to copy them.
    pub fn read_to_relocate(&mut self, page: Page, more: Bytes) {
        // A page whose first blocks filled a program is still in the controller for the rest of them.
        let last = self.debt.iter_mut().rev().find(|debt| !matches!(debt, Debt::Program(_)));
        match last {
            Some(Debt::Read { page: last, bytes }) if *last == page => *bytes += more.0,
            _ => self.debt.push_back(Debt::Read { page, bytes: more.0 }),
        }
    }

    /// Erases a unit in the background.
    pub fn erase(&mut self, unit: UnitId) {
        if let Some(begin) = self.begins.get_mut(unit.index()) {
            begin.holds = false;
        }
        self.debt.push_back(Debt::Erase(unit));
    }

    /// Erases a unit for the host, once what stays of it was read at `ready`; returns when it is done.
    pub fn erase_now(&mut self, unit: UnitId, ready: Time) -> Time {
        let mut done = ready.as_nanos();
        for page in 0..self.geometry.dies_per_unit().min(self.pages_per_unit) {
            let (die, _) = self.place(Page { unit, page, slc: false });
            done = done.max(self.dies[die].enqueue(self.now, ready.as_nanos(), self.erase));
        }
        Time(done)
    }

    /// Reads `bytes` of `page` inside the drive; returns when the controller has them.
    pub fn read(&mut self, page: Page, bytes: Bytes) -> Time {
        let further = self.further(page, bytes.0);
        let done = self.read_page(page, bytes, further);
        if further.stripe == 0 {
            return Time(done);
        }
        // The attempts are over when the rest of the stripe is asked for; it is taken as read from now on.
        let pages = self.pages(page);
        let others = (1..=further.stripe.min(pages.saturating_sub(1)))
            .map(|step| Page { page: (page.page + step) % pages, ..page });
        let last = others.map(|other| self.read_page(other, bytes, Further::default())).max();
        Time(done + last.map_or(0, |last| last - self.now))
    }

    /// Reads `bytes` of `page` with `further` attempts; returns when the controller has them, in nanoseconds.
    fn read_page(&mut self, page: Page, bytes: Bytes, further: Further) -> u64 {
        let (die, channel) = self.place(page);
        let transfer = self.command + (bytes.as_f64() * self.ns_per_bus_byte) as u64;
        let cached = self.geometry.cache_register;
        let kept = if cached || self.bus_in_order { 0 } else { transfer };
        let read = self.cells(page).read + further.on_die();
        let die = &mut self.dies[die];
        let ready = die.read(self.now, read + kept, self.suspend) - kept;
        for _ in 0..further.attempts() {
            self.channels[channel].serve(self.now, ready - further.on_die(), transfer);
        }
        let done = self.channels[channel].serve(self.now, ready, transfer);
        if !cached && self.bus_in_order {
            die.hold(ready, done);
        }
        done
    }

    /// How long each resource was busy since the start.
    #[must_use]
    pub fn busy(&self) -> BusyTimes {
        let mut busy = BusyTimes::default();
        busy.add("dies", self.dies.iter().map(|die| die.busy));
        busy.add("buses", self.channels.iter().map(Server::busy));
        busy.add("controller", [self.controller.busy()]);
        if self.ns_per_collected_byte > 0.0 {
            busy.add("program_power", [self.power.busy()]);
        }
        match self.link_out {
            Some(out) => {
                busy.add("link_in", [self.link_in.busy()]);
                busy.add("link_out", [out.busy()]);
            }
            None => busy.add("link", [self.link_in.busy()]),
        }
        busy
    }

    /// Reads `bytes` of `page` because the rest of them is being written; returns when the controller has them.
    pub fn read_to_modify(&mut self, page: Page, bytes: Bytes) -> Time {
        let takes = self.read(page, bytes).as_nanos() - self.now;
        let Some(place) = self.modifying.pop_front() else { return Time(self.now + takes) };
        let ready = self.now.max(place) + takes;
        self.modifying.push_back(ready);
        Time(ready)
    }

    /// Sends `bytes`, ready at `ready`, to the host; returns when it has them.
    pub fn send(&mut self, ready: Time, bytes: Bytes) -> Time {
        self.controller.serve(self.now, self.now, self.start_more[0]);
        let transfer = (bytes.as_f64() * self.ns_per_byte_out) as u64;
        let ready = ready.as_nanos().max(self.now);
        let link = self.link_out.as_mut().unwrap_or(&mut self.link_in);
        let end = link.serve(self.now, ready, transfer);
        Time(self.hold_back(end, bytes) + self.firmware_read)
    }

    /// The current request's arrival.
    #[must_use]
    pub fn now(&self) -> Time {
        Time(self.now)
    }

    /// Decides where the unit of `page` begins, if that is its first since it was erased.
    fn begin(&mut self, page: Page) {
        let unit = page.unit.index();
        if self.begins.len() <= unit {
            self.begins.resize(unit + 1, Begin::default());
        }
        if page.page == 0 && !self.begins[unit].holds {
            self.begins[unit] = Begin { die: self.next_die, holds: true };
            let next = u64::from(self.next_die) + u64::from(self.pages(page));
            self.next_die = (next % u64::from(self.geometry.dies_per_unit())) as u32;
        }
    }

    /// Times of the cells of `page`.
    fn cells(&self, page: Page) -> CellTimes {
        self.slc.filter(|_| page.slc).map_or(self.cells, |(cells, _)| cells)
    }

    /// Pages per unit, in the mode of `page`.
    fn pages(&self, page: Page) -> u32 {
        self.slc.filter(|_| page.slc).map_or(self.pages_per_unit, |(_, pages)| pages)
    }

    fn place(&self, page: Page) -> (usize, usize) {
        let width = self.geometry.dies_per_unit();
        let stripe = page.unit.0 % (self.geometry.dies / width);
        let begin = self.begins.get(page.unit.index()).copied().unwrap_or_default();
        let die = stripe * width + (begin.die + page.page % width) % width;
        (die as usize, (die % self.geometry.channels) as usize)
    }

    /// What all dies together need for a byte: more while garbage collection moves data.
    fn ns_per_programmed_byte(&self) -> f64 {
        if self.programs_due > 0 { self.ns_per_collected_byte } else { self.ns_per_programmed_byte }
    }

    /// Programs `bytes`, asked for and ready at `times`, at the rate `ns_per_byte` of all dies together; returns when
    /// that is done.
    fn schedule_program(
        &mut self,
        page: Page,
        bytes: Bytes,
        ns_per_byte: f64,
        (now, ready): (u64, u64),
    ) -> u64 {
        let (die, channel) = self.place(page);
        let bytes = bytes.as_f64();
        let transfer = self.command + (bytes * self.ns_per_bus_byte) as u64;
        let cached = self.geometry.cache_register;
        let ready = if cached { ready } else { ready.max(self.dies[die].free_at()) };
        let transferred = self.channels[channel].serve(now, ready, transfer);
        let powered = self.power.serve(now, now, (bytes * ns_per_byte) as u64);
        let there = transferred.max(powered);
        // Without a second register, the die takes the transfer itself.
        let with = if cached { 0 } else { transfer };
        let program = self.cells(page).program;
        self.dies[die].enqueue(now, there.saturating_sub(with), with + program)
    }

    fn work_off(&mut self, debt: Debt, now: u64) {
        match debt {
            Debt::Read { page, bytes } => {
                let (die, channel) = self.place(page);
                let transfer = self.command + (bytes as f64 * self.ns_per_bus_byte) as u64;
                // Without a second register, the die keeps the page while it is on the bus.
                let kept = if self.geometry.cache_register { 0 } else { transfer };
                let further = self.further(page, bytes);
                let read = self.cells(page).read + further.on_die();
                let ready = self.dies[die].read_to_relocate(now, read + kept) - kept;
                for _ in 0..further.attempts() {
                    self.channels[channel].serve(now, ready - further.on_die(), transfer);
                }
                let done = self.channels[channel].serve(now, ready, transfer);
                self.relocation_ready = self.relocation_ready.max(done);
            }
            Debt::Program(page) => {
                self.programs_due -= 1;
                let (bytes, rate) = (self.geometry.program_unit(), self.ns_per_collected_byte);
                self.schedule_program(page, bytes, rate, (now, self.relocation_ready));
            }
            Debt::Erase(unit) => {
                for page in 0..self.geometry.dies_per_unit().min(self.pages_per_unit) {
                    let (die, _) = self.place(Page { unit, page, slc: false });
                    self.dies[die].enqueue(now, now, self.erase);
                }
            }
        }
    }

    /// Works off debt whose die had nothing else to do between the previous request and this one. Dies work side by
    /// side: a program waits for the read of the data, a read only for the die.
    fn work_while_idle(&mut self) {
        while let Some(&debt) = self.debt.front() {
            let page = match debt {
                Debt::Read { page, .. } | Debt::Program(page) => page,
                Debt::Erase(unit) => Page { unit, page: 0, slc: false },
            };
            let (die, _) = self.place(page);
            let idle_from = self.dies[die].work_end().max(self.previous);
            let there = matches!(debt, Debt::Program(_)).then_some(self.relocation_ready);
            if idle_from.max(there.unwrap_or(0)) >= self.now {
                break;
            }
            self.debt.pop_front();
            self.work_off(debt, idle_from);
        }
    }
}

#[cfg(test)]
mod tests;
