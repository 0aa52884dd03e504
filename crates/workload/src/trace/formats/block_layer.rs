//! Events of Linux's block layer put together into requests, each counted once.
//!
//! A request is queued, issued to the driver, perhaps given back and issued again, and completed. A device is read by
//! its issues, else by its queueing, else by its completions. Devices above others (logical volumes, dm-crypt, md,
//! multipath) pass on what they are asked: those are left out, unless one is asked for by name.
//!
//! Invariants:
//! * Requests keep the order of their events. Events of a device are held back until one of them is completed, so that
//!   it is known by then which kind the device has, and what is below it. At most `HELD_MAX` are held.
//! * Zone appends are read from completions, as only these say where the data went.
//! * Discards are read where they are queued: the kernel joins discards of several ranges into one issue, which has the
//!   first sector and the sum of the lengths.
//! * What is given back and issued again counts once.

use std::collections::{HashMap, VecDeque};

use thermocline_types::Op;

use super::super::record::{Expected, Record};
use super::rwbs::{self, Action};

/// Events held back at most: 2^16 take 6 MiB. Chosen, not measured.
const HELD_MAX: usize = 1 << 16;

/// Issued requests remembered of each device, above the queue depths of drives. Chosen, not measured.
const ISSUED_MAX: usize = 1 << 10;

/// Completions of what was begun before the trace: more of them decide that a device has no issue events.
const STRANGERS_MAX: u32 = 1 << 10;

/// How many devices may stand above each other.
const STORIES: usize = 8;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Stage {
    /// Submitted to the block layer.
    Queue,
    /// Issued to the driver.
    Issue,
    /// Given back by the driver, to be issued again.
    Requeue,
    /// Done.
    Complete,
}

/// A line of a recorder: what happens to which request.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Event<'a> {
    /// The time in nanoseconds.
    pub at: u64,
    /// The device as the recorder names it.
    pub device: &'a [u8],
    /// What happens.
    pub stage: Stage,
    /// What is asked.
    pub action: Action,
    /// First sector and count.
    pub extent: Option<(u64, u64)>,
}

/// All devices of a trace, and the requests that are not given out yet.
#[derive(Debug, Default)]
pub(in super::super) struct BlockLayer {
    devices: Vec<Device>,
    numbers: HashMap<Box<[u8]>, usize>,
    last: usize,
    held: VecDeque<Held>,
    /// Every device is read: one was asked for by name.
    keeps_all: bool,
}

#[derive(Debug)]
struct Held {
    device: usize,
    stage: Stage,
    append: bool,
    record: Record<'static>,
}

/// What is read of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Undecided,
    By(Stage),
    /// Nothing: its requests are those of the device with this number too, or perhaps of several.
    Nothing {
        below: Option<usize>,
    },
}

#[derive(Debug)]
struct Device {
    name: Box<[u8]>,
    reading: Reading,
    /// The device that its requests were seen to go to.
    below: Option<usize>,
    queued: u64,
    issued: u64,
    completed: u64,
    /// Whether discards are queued in the trace.
    queues_trims: bool,
    appends_queued: u64,
    appends_issued: u64,
    appends_done: u64,
    strangers: u32,
    in_flight: InFlight,
}

impl Device {
    fn new(name: &[u8]) -> Self {
        Device {
            name: name.into(),
            reading: Reading::Undecided,
            below: None,
            queued: 0,
            issued: 0,
            completed: 0,
            queues_trims: false,
            appends_queued: 0,
            appends_issued: 0,
            appends_done: 0,
            strangers: 0,
            in_flight: InFlight::default(),
        }
    }

    fn name(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }

    fn has_events(&self) -> bool {
        self.queued + self.issued + self.completed > 0
    }

    /// Whether `held` is a request, if `stage` is read.
    fn takes(&self, stage: Stage, held: &Held) -> bool {
        if held.append {
            return held.stage == Stage::Complete;
        }
        if held.record.op == Op::Trim && stage == Stage::Issue && self.queues_trims {
            return held.stage == Stage::Queue;
        }
        held.stage == stage
    }

    /// Appends of which no completion was seen.
    fn appends_lost(&self) -> u64 {
        self.appends_queued.max(self.appends_issued).saturating_sub(self.appends_done)
    }
}

/// Issued requests of a device that are not known to be done.
#[derive(Debug, Default)]
struct InFlight {
    issued: VecDeque<Extent>,
    given_back: Vec<Extent>,
}

type Extent = (Option<Op>, u64, u64);

impl InFlight {
    /// Notes an issue; `false`: it was given back, and so was counted before.
    fn issue(&mut self, extent: Extent) -> bool {
        let again = self.given_back.iter().position(|other| *other == extent);
        if let Some(index) = again {
            self.given_back.swap_remove(index);
        }
        if self.issued.len() == ISSUED_MAX {
            self.issued.pop_front();
        }
        self.issued.push_back(extent);
        again.is_none()
    }

    /// Notes that a request was given back. Some drivers do so before the first issue, which changes nothing.
    fn give_back(&mut self, extent: Extent) {
        if self.complete(extent) && self.given_back.len() < ISSUED_MAX {
            self.given_back.push(extent);
        }
    }

    /// Notes that a request is done; `false` if its issue is not known.
    fn complete(&mut self, extent: Extent) -> bool {
        let found = self.issued.iter().position(|other| *other == extent);
        found.is_some_and(|index| self.issued.remove(index).is_some())
    }
}

impl BlockLayer {
    /// For a trace of which all devices are read, or one `volume` alone.
    pub fn new(volume: Option<&str>) -> Self {
        BlockLayer { keeps_all: volume.is_some(), ..BlockLayer::default() }
    }

    /// Takes in an event.
    pub fn event(&mut self, event: &Event<'_>) -> Result<(), Expected> {
        let record = rwbs::record(event.at, event.action, event.extent)?;
        let number = self.number(event.device);
        if !self.devices[number].has_events() {
            self.leave_out_above(number);
        }
        let Event { stage, action, .. } = *event;
        let device = &mut self.devices[number];
        let extent = event.extent.filter(|_| action.op != Some(Op::Flush)).unwrap_or_default();
        let extent = (action.op, extent.0, extent.1);
        match stage {
            Stage::Requeue => {
                device.in_flight.give_back(extent);
                return Ok(());
            }
            Stage::Queue => device.queued += 1,
            Stage::Issue if !device.in_flight.issue(extent) => return Ok(()),
            Stage::Issue => device.issued += 1,
            Stage::Complete => {
                device.completed += 1;
                device.in_flight.complete(extent);
            }
        }
        if action.append {
            match stage {
                Stage::Complete => device.appends_done += 1,
                Stage::Issue => device.appends_issued += 1,
                Stage::Queue | Stage::Requeue => device.appends_queued += 1,
            }
        }
        device.queues_trims |= stage == Stage::Queue && action.op == Some(Op::Trim);
        if stage == Stage::Complete && device.reading == Reading::Undecided {
            self.completes(number, event);
        }
        if let Some(record) = record {
            self.hold(Held { device: number, stage, append: action.append, record });
        }
        Ok(())
    }

    /// Takes in that what `upper` is asked goes to `lower`.
    pub fn remap(&mut self, lower: &[u8], upper: &[u8]) {
        let (lower, upper) = (self.number(lower), self.number(upper));
        if lower == upper {
            return;
        }
        self.devices[upper].below = Some(lower);
        let mut floor = lower;
        for _ in 0..STORIES {
            if self.devices[floor].has_events() {
                return self.leave_out(upper, Some(floor));
            }
            let Some(below) = self.devices[floor].below else { return };
            floor = below;
        }
    }

    /// The input has ended: decide all held events.
    pub fn finish(&mut self) {
        (0..self.devices.len()).for_each(|number| self.decide(number));
    }

    /// The next request.
    pub fn take(&mut self) -> Option<Record<'_>> {
        while let Some(held) = self.held.front() {
            let device = &self.devices[held.device];
            let is_taken = match device.reading {
                Reading::Undecided => return None,
                Reading::By(stage) => device.takes(stage, held),
                Reading::Nothing { .. } => false,
            };
            let held = self.held.pop_front()?;
            if is_taken {
                return Some(held.record.on(&self.devices[held.device].name));
            }
        }
        None
    }

    /// What was left out, a sentence each.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for device in &self.devices {
            let name = device.name();
            let requests = [device.issued, device.queued, device.completed];
            let requests = requests.into_iter().find(|count| *count > 0).unwrap_or(0);
            if let Reading::Nothing { below } = device.reading
                && device.has_events()
            {
                let why = match below {
                    Some(below) => {
                        format!("they went to {}, where they are counted", self.devices[below].name())
                    }
                    None => "it has no issue events and other devices have, as where it stands above these".into(),
                };
                notes.push(format!(
                    "{requests} requests of {name} were left out: {why}; `--volume {name}` reads {name} alone"
                ));
            }
            if device.appends_lost() > 0 {
                notes.push(format!(
                    "{} zone appends to {name} were left out: only completions say where they wrote, and the trace lacks \
                     those; record completions as well",
                    device.appends_lost()
                ));
            }
        }
        notes
    }

    fn number(&mut self, name: &[u8]) -> usize {
        if self.devices.get(self.last).is_some_and(|device| *device.name == *name) {
            return self.last;
        }
        self.last = match self.numbers.get(name) {
            Some(number) => *number,
            None => {
                self.numbers.insert(name.into(), self.devices.len());
                self.devices.push(Device::new(name));
                self.devices.len() - 1
            }
        };
        self.last
    }

    fn hold(&mut self, held: Held) {
        let device = &self.devices[held.device];
        let is_of_use = match device.reading {
            Reading::Undecided => {
                held.stage != Stage::Complete || held.append || device.queued + device.issued == 0
            }
            Reading::By(stage) => device.takes(stage, &held),
            Reading::Nothing { .. } => false,
        };
        if is_of_use {
            self.held.push_back(held);
        }
        if self.held.len() >= HELD_MAX
            && let Some(first) = self.held.front()
        {
            self.decide(first.device);
        }
    }

    /// A completion on a device that is not decided: the completion of a held request decides.
    fn completes(&mut self, number: usize, event: &Event<'_>) {
        let device = &mut self.devices[number];
        if device.queued + device.issued == 0 {
            return;
        }
        let first = event
            .extent
            .filter(|(_, count)| *count > 0)
            .map(|(first, _)| first.saturating_mul(512));
        let is_held = |first: u64| {
            let begun = self.held.iter().filter(|held| held.device == number);
            begun
                .map(|held| held.record)
                .any(|record| (record.offset..record.offset + record.length).contains(&first))
        };
        if event.action.append || first.is_some_and(is_held) {
            return self.decide(number);
        }
        device.strangers += 1;
        if device.strangers > STRANGERS_MAX {
            self.decide(number);
        }
    }

    fn decide(&mut self, number: usize) {
        let device = &self.devices[number];
        if device.reading != Reading::Undecided {
            return;
        }
        let others_are_issued = || self.devices.iter().any(|device| device.issued > 0);
        let reading = if device.issued > 0 {
            Reading::By(Stage::Issue)
        } else if !self.keeps_all && others_are_issued() {
            Reading::Nothing { below: None }
        } else if device.queued > 0 {
            Reading::By(Stage::Queue)
        } else {
            Reading::By(Stage::Complete)
        };
        self.devices[number].reading = reading;
    }

    /// `number` has requests: devices above it are left out.
    fn leave_out_above(&mut self, number: usize) {
        let mut floors = vec![number];
        while let Some(floor) = floors.pop() {
            for upper in 0..self.devices.len() {
                let is_read = !matches!(self.devices[upper].reading, Reading::Nothing { .. });
                if self.devices[upper].below == Some(floor) && upper != number && is_read {
                    self.leave_out(upper, Some(number));
                    floors.push(upper);
                }
            }
        }
    }

    fn leave_out(&mut self, upper: usize, below: Option<usize>) {
        if !self.keeps_all {
            self.devices[upper].reading = Reading::Nothing { below };
        }
    }
}
