//! A storage that follows a script: one seed decides when each command ends and how.
//!
//! Invariants:
//! * The storage never blocks. The first wait of a step is noted for the scheduler. A second wait in the same step
//!   advances the clock to the next completion, so an opening or a closing ends within one step.
//! * Commands reach the drive when they complete, in the order of their completion.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thermocline_engine::{DeviceError, UnitCondition, UnitReport};
use thermocline_runtime::Buffer;
use thermocline_runtime::storage::{Command, Completion, Fault, Layout, Storage, Token, Waker};
use thermocline_target::Clock;
use thermocline_types::{DeviceId, Rng, UnitId};

use crate::drive::ScriptedDrive;

/// Times and failure rates of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habits {
    /// The shortest time of a command.
    pub least: Duration,
    /// The longest time of a command.
    pub most: Duration,
    /// One flush in this number fails; 0: no flush.
    pub flush_fails_one_in: u64,
    /// One write in this number fails; 0: no write.
    pub write_fails_one_in: u64,
    /// One read in this number fails; 0: no read.
    pub read_fails_one_in: u64,
}

impl Habits {
    /// These habits without errors.
    #[must_use]
    pub const fn sound(self) -> Habits {
        Habits { flush_fails_one_in: 0, write_fails_one_in: 0, read_fails_one_in: 0, ..self }
    }
}

/// Counts of failed commands since the opening of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// Writes and flushes.
    pub changes: u64,
    /// Reads.
    pub reads: u64,
}

/// State that the scheduler and the storage share.
#[derive(Debug)]
pub struct Script {
    rng: Rng,
    /// Times and failure rates of new commands.
    pub habits: Habits,
    /// Counts of failed commands.
    pub hits: Hits,
    /// Waits in this step.
    waits: u32,
    /// The end of the sleep, if the storage's thread sleeps; an inner `None` is a sleep without end.
    sleeps: Option<Option<Duration>>,
    /// End of the next command.
    next: Option<Duration>,
}

/// A handle of a script.
#[derive(Clone, Debug)]
pub struct Scripted(Arc<Mutex<Script>>);

impl Scripted {
    /// A script with the random numbers of `seed`.
    #[must_use]
    pub fn new(seed: u64, habits: Habits) -> Scripted {
        Scripted(Arc::new(Mutex::new(Script {
            rng: Rng::new(seed),
            habits,
            hits: Hits::default(),
            waits: 0,
            sleeps: None,
            next: None,
        })))
    }

    /// The script.
    pub fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a step of the storage's thread.
    pub fn begin_step(&self) {
        let mut script = self.script();
        (script.waits, script.sleeps) = (0, None);
    }

    /// The end of the sleep, if the storage's thread sleeps; an inner `None` is a sleep without end.
    #[must_use]
    pub fn sleeps(&self) -> Option<Option<Duration>> {
        self.script().sleeps
    }

    /// When the next command ends.
    #[must_use]
    pub fn next(&self) -> Option<Duration> {
        self.script().next
    }
}

/// A shared drive.
pub type SharedDrive = Arc<Mutex<ScriptedDrive>>;

/// A device of the pool.
#[derive(Debug)]
pub struct Part {
    /// The device's units in the pool.
    pub units: Range<u32>,
    /// The drive; `None` after the device has left the pool.
    pub drive: Option<SharedDrive>,
}

#[derive(Debug)]
struct Flight {
    token: Token,
    due: Duration,
    what: What,
    fails: bool,
}

#[derive(Debug)]
enum What {
    Write(usize, u64, Vec<Buffer>),
    Read(usize, u64, Buffer),
    Flush(usize, u64),
    Nothing,
    /// A command to a detached device.
    Refused,
}

/// Drives as the storage of a pool.
#[derive(Debug)]
pub struct ScriptedStorage {
    layout: Layout,
    parts: Vec<Part>,
    script: Scripted,
    clock: Clock,
    flights: Vec<Flight>,
    woken: Arc<AtomicBool>,
}

impl ScriptedStorage {
    /// A storage with the consecutive units of all devices.
    #[must_use]
    pub fn new(layout: Layout, parts: Vec<Part>, script: &Scripted, clock: &Clock) -> Self {
        ScriptedStorage {
            layout,
            parts,
            script: script.clone(),
            clock: clock.clone(),
            flights: Vec::new(),
            woken: Arc::default(),
        }
    }

    /// The flag that the waker sets.
    #[must_use]
    pub fn woken(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.woken)
    }

    fn part_of(&self, unit: UnitId) -> usize {
        let part = self.parts.iter().position(|part| part.units.contains(&unit.0));
        part.expect("the unit is one of the pool's")
    }

    /// The device of a byte, and the byte's place on the device.
    fn place(&self, at: u64) -> (usize, u64) {
        let unit = self.layout.unit_of(thermocline_types::Bytes(at));
        let part = self.part_of(unit);
        (part, at - self.layout.start(UnitId(self.parts[part].units.start)).0)
    }

    fn drive(&self, part: usize) -> MutexGuard<'_, ScriptedDrive> {
        let drive = self.parts[part].drive.as_ref().expect("commands of others are refused");
        drive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plan(&mut self, command: Command) -> What {
        let (part, plan) = match command {
            Command::Write { at, parts, .. } => {
                let (part, at) = self.place(at.0);
                (part, What::Write(part, at, parts))
            }
            Command::Read { at, into, .. } => {
                let (part, at) = self.place(at.0);
                (part, What::Read(part, at, into))
            }
            Command::Zero(unit) => {
                let (part, at) = self.place(self.layout.start(unit).0);
                let zeros = vec![0; self.layout.unit_bytes().0 as usize];
                let zeros = Buffer::new(thermocline_target::Buffer::from_bytes(&zeros));
                (part, What::Write(part, at, vec![zeros]))
            }
            Command::Flush(DeviceId(part)) => (usize::from(part), What::Flush(part.into(), 0)),
            Command::Reset(unit) | Command::Finish(unit) => (self.part_of(unit), What::Nothing),
            Command::Heal { .. } | Command::Distrust { .. } => return What::Nothing,
        };
        if self.parts[part].drive.is_none() {
            return What::Refused;
        }
        match plan {
            What::Flush(part, _) => What::Flush(part, self.drive(part).begin_flush()),
            plan => plan,
        }
    }

    /// Ends a command.
    fn end(&mut self, Flight { token, what, fails, .. }: Flight) -> Completion {
        let failed = Err(Fault::from(DeviceError::Io));
        let result = match what {
            What::Refused => failed,
            What::Nothing => Ok(()),
            What::Flush(part, begun) => {
                self.drive(part).end_flush(begun, !fails);
                if fails { failed } else { Ok(()) }
            }
            _ if fails => failed,
            What::Write(part, at, parts) => {
                self.drive(part).write(at, joined(&parts));
                Ok(())
            }
            What::Read(part, at, into) => {
                self.drive(part).read(at, &mut into.write());
                Ok(())
            }
        };
        Completion::new(token, result)
    }

    fn end_what_is_due(&mut self, done: &mut Vec<Completion>) {
        let now = self.clock.passed();
        loop {
            let due = self.flights.iter().enumerate().filter(|(_, flight)| flight.due <= now);
            let first = due.min_by_key(|(_, flight)| (flight.due, flight.token.0));
            let Some((index, _)) = first else { break };
            let flight = self.flights.swap_remove(index);
            done.push(self.end(flight));
        }
        self.script.script().next = self.flights.iter().map(|flight| flight.due).min();
    }
}

fn joined(parts: &[Buffer]) -> Vec<u8> {
    let mut bytes = Vec::new();
    parts.iter().for_each(|part| bytes.extend_from_slice(&part.read()));
    bytes
}

impl Storage for ScriptedStorage {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn submit(&mut self, token: Token, command: Command) {
        let what = self.plan(command);
        let (due, fails) = {
            let mut script = self.script.script();
            let Habits { least, most, .. } = script.habits;
            let spread = (most - least).as_nanos() as u64;
            let takes = least + Duration::from_nanos(script.rng.below(spread + 1));
            (self.clock.passed() + takes, script.draws_failure(&what))
        };
        self.flights.push(Flight { token, due, what, fails });
        let mut script = self.script.script();
        script.next = Some(script.next.map_or(due, |next| next.min(due)));
    }

    fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        let before = done.len();
        self.end_what_is_due(done);
        let woken = self.woken.swap(false, Ordering::AcqRel);
        if done.len() > before || wait == Some(Duration::ZERO) || woken {
            return;
        }
        let now = self.clock.passed();
        let until = wait.map(|wait| now + wait);
        let (first, next) = {
            let mut script = self.script.script();
            script.waits += 1;
            (script.waits == 1, script.next)
        };
        if first {
            self.script.script().sleeps = Some(until);
            return;
        }
        let until = next.into_iter().chain(until).min();
        let until = until.expect("whoever waits without end waits for a command");
        self.clock.advance(until.saturating_sub(now));
        self.end_what_is_due(done);
    }

    fn waker(&self) -> Waker {
        let woken = self.woken();
        Arc::new(move || woken.store(true, Ordering::Release))
    }

    /// None: the scheduler uses the script instead.
    fn descriptors<'a>(&'a self, _: &mut Vec<BorrowedFd<'a>>) {}

    fn report(&mut self) -> Result<Vec<UnitReport>, Fault> {
        let condition = |part: &Part| match part.drive {
            Some(_) => UnitCondition::Good,
            None => UnitCondition::Offline,
        };
        let reports = self.parts.iter().flat_map(|part| {
            let report = UnitReport { condition: condition(part), written: None };
            part.units.clone().map(move |_| report)
        });
        Ok(reports.collect())
    }
}

impl Script {
    fn draws_failure(&mut self, what: &What) -> bool {
        let one_in = match what {
            What::Write(..) => self.habits.write_fails_one_in,
            What::Read(..) => self.habits.read_fails_one_in,
            What::Flush(..) => self.habits.flush_fails_one_in,
            What::Nothing | What::Refused => 0,
        };
        let fails = one_in > 0 && self.rng.below(one_in) == 0;
        let hits = &mut self.hits;
        match what {
            What::Read(..) => hits.reads += u64::from(fails),
            _ => hits.changes += u64::from(fails),
        }
        fails
    }
}

/// Dropping the storage kills the process: the drive gets all, a part, or no bytes of each write in flight.
impl Drop for ScriptedStorage {
    fn drop(&mut self) {
        for flight in std::mem::take(&mut self.flights) {
            if let What::Write(part, at, parts) = flight.what {
                let bytes = joined(&parts);
                let kept = self.script.script().rng.below((bytes.len() / 512) as u64 + 1) as usize;
                self.drive(part).write(at, bytes[..kept * 512].to_vec());
            }
        }
        self.script.script().next = None;
    }
}
