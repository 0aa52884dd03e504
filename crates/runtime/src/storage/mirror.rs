//! Two storages that hold the same, as one: what one loses, the other has.
//!
//! Invariants:
//! * A write, reset or flush is complete when both sides have done it. If one fails, it is complete when the other has
//!   done it and a durable label of that one says that it is the only one to be believed.
//! * A side is read only if it holds what is asked for: if it is current, or that unit was copied to it. One that is to
//!   be written mostly is read only if the other does not hold it, or fails.
//! * While bytes are copied from one side to the other, nobody writes them.
//! * A label that calls a side current is written when that side has durably got all that the other has.
//!
//! `docs/adr/0033-mirrored-pairs.md` says why this suffices.

mod fill;
mod label;
mod start;

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use slab::Slab;
use thermocline_engine::{DeviceError, UnitReport};
use thermocline_format::{MirrorLabel, SIDES};
use thermocline_nand::Counters;
use thermocline_types::{Bytes, UnitId};

use super::answers::Answers;
use super::group::{Group, GroupKind, GroupStatus, MemberStatus};
use super::parts::{Parts, ROUNDS, TURN};
use super::{Access, Command, Completion, Fault, Layout, MemberState, Storage, Token, Waker};
use crate::Buffer;
use fill::Fill;
use thermocline_array::bugs::{self, ArrayBug as Bug};

pub(crate) use label::{label_units, read_label, write_label};
pub use start::{Mate, PairError, PairStart};
pub(crate) use start::{decide, is_alone};

/// Bad places that wait to be written again; further ones are found when they are read next. Chosen, not measured.
const REPAIRS: usize = 1024;

/// One of two storages.
#[derive(Clone, Copy, Debug)]
struct Side {
    standing: MemberState,
    /// Whether a label on it says that it is being filled; what is on it does not count before that.
    labelled: bool,
    /// The place of its newest label.
    place: usize,
    write_mostly: bool,
    /// Commands under way, and how many of them read for the host.
    under_way: usize,
    reads: usize,
}

impl Side {
    /// One that nothing is asked of.
    const fn new(standing: MemberState, place: usize, write_mostly: bool) -> Side {
        Side { standing, labelled: false, place, write_mostly, under_way: 0, reads: 0 }
    }
}

/// A command of whoever uses the pair.
#[derive(Debug)]
struct Host {
    token: Token,
    asked: Asked,
    waits: usize,
    results: [Option<Result<(), Fault>>; SIDES],
}

#[derive(Debug)]
enum Asked {
    /// These bytes change.
    Change(Range<u64>),
    Flush,
    Read(Bytes, Buffer),
}

/// What a command to a side is for.
#[derive(Clone, Copy, Debug)]
enum What {
    Host(usize),
    Label,
    /// With the number of the piece.
    Piece(u64),
    /// That everything does, at the end.
    Last,
}

/// Bytes that are copied from one side to the other.
#[derive(Debug)]
struct Piece {
    number: u64,
    range: Range<u64>,
    from: usize,
    to: usize,
    room: Buffer,
    step: Step,
    /// As [`Fill::round`] was: if a side failed or joined since, it is of no use.
    round: u64,
    /// Of a place that could not be read, instead of one that is lacking.
    repairs: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Until nobody writes there any more.
    Wait,
    Read,
    Write,
}

/// A label on its way to the sides, one after the other.
#[derive(Debug)]
struct Relabel {
    /// The sides that get it, and how many of them have it.
    order: Vec<usize>,
    done: usize,
    flushing: bool,
}

/// How a pair is found and used.
pub struct FoundPair {
    /// Its name in the settings.
    pub name: String,
    /// Where its sides are, in the order of `storages`.
    pub paths: [PathBuf; SIDES],
    /// Its sides; `None` where one is missing.
    pub storages: [Option<Box<dyn Storage>>; SIDES],
    /// Why one is missing.
    pub why: Option<String>,
    /// What is to be done with them.
    pub start: PairStart,
    /// The label that is believed.
    pub label: MirrorLabel,
    /// In which of its places the newest label of each side is, in the order of `storages`.
    pub places: [usize; SIDES],
    /// Whether a side is read only where the other cannot be, in the order of `storages`.
    pub write_mostly: [bool; SIDES],
    /// Bytes per second that are copied to fill a side; `None`: no limit.
    pub rate: Option<u64>,
    /// What may be done.
    pub access: Access,
}

/// Two storages as one.
pub struct Mirror {
    parts: Parts,
    layout: Layout,
    access: Access,
    sides: [Side; SIDES],
    /// The newest label; only its number and whom it is about count.
    label: MirrorLabel,
    /// Whether the newest label says something else than is so.
    stale: bool,
    answers: Answers,
    relabel: Option<Relabel>,
    hosts: Slab<Host>,
    inner: Slab<(usize, What)>,
    /// Changes that wait for a piece to be copied.
    held: VecDeque<(Token, Command)>,
    piece: Option<Piece>,
    pieces: u64,
    repairs: VecDeque<(Range<u64>, usize)>,
    fill: Fill,
    /// Units that may differ, until it is known which ones they are.
    doubt: Option<Vec<bool>>,
    closing: bool,
    /// Something was handed to a side that it has not begun.
    unbegun: bool,
    completions: Vec<(usize, Completion)>,
    pair: Group,
}

impl Mirror {
    /// The pair that was found, and a handle of it. Unless it is only to be read, its sides have a new label when this
    /// returns.
    ///
    /// # Errors
    /// [`Fault`] when no label can be written.
    ///
    /// # Panics
    /// If a side has not the units of the pair and its labels.
    pub fn open(found: FoundPair) -> Result<(Mirror, Group), Fault> {
        let FoundPair {
            name,
            mut paths,
            mut storages,
            why,
            start,
            label,
            mut places,
            mut write_mostly,
            rate,
            access,
        } = found;
        let (units, source) = (label.lacking.len() as u32, usize::from(label.side));
        if source != start.source {
            paths.swap(0, 1);
            storages.swap(0, 1);
            places.swap(0, 1);
            write_mostly.swap(0, 1);
        }
        if start.mate == Mate::Missing {
            storages[1 - source] = None;
        }
        let layout = storages[source].as_ref().expect("there is a source").layout();
        assert!(layout.units >= units + label_units(units, layout.unit_bytes()), "no room");
        let layout = Layout { units, ..*layout };
        let pair = Group::new(status(name, paths, why.as_deref()));
        let mut mirror = Mirror {
            parts: Parts::new(storages),
            layout,
            access,
            sides: [0, 1]
                .map(|side: usize| Side::new(MemberState::Out, places[side], write_mostly[side])),
            label,
            stale: access == Access::ReadWrite,
            answers: Answers::default(),
            relabel: None,
            hosts: Slab::new(),
            inner: Slab::new(),
            held: VecDeque::new(),
            piece: None,
            pieces: 0,
            repairs: VecDeque::new(),
            fill: Fill::new(layout, rate),
            doubt: None,
            closing: false,
            unbegun: false,
            completions: Vec::new(),
            pair: pair.clone(),
        };
        mirror.take_stand(source, start.mate);
        pair.wake_with(mirror.parts.waker());
        mirror.publish();
        mirror.settle();
        match mirror.answers.broken() {
            Some(fault) => Err(fault),
            None => Ok((mirror, pair)),
        }
    }

    fn take_stand(&mut self, source: usize, mate: Mate) {
        self.sides[source].standing = MemberState::Current;
        self.sides[source].labelled = true;
        let other = &mut self.sides[1 - source];
        match mate {
            Mate::Missing => self.fill.begin_all(),
            Mate::Current => (other.standing, other.labelled) = (MemberState::Current, true),
            Mate::Lacks { units, doubtful } => {
                other.standing = MemberState::Filling;
                match doubtful {
                    true => {
                        self.fill.begin_all();
                        self.doubt = Some(units);
                    }
                    false => self.fill.begin(units),
                }
            }
        }
    }

    /// Waits until the labels say what is so.
    fn settle(&mut self) {
        self.act();
        while self.answers.broken().is_none() && (self.stale || self.relabel.is_some()) {
            self.turn(None);
        }
    }

    /// Begins what can be begun. Returns whether anything was handed to a side.
    fn act(&mut self) -> bool {
        let before = self.pieces + self.label.event;
        self.take_news();
        if self.access == Access::ReadOnly {
            self.publish();
            return std::mem::take(&mut self.unbegun);
        }
        self.begin_label();
        self.begin_piece();
        let changed = self.pieces + self.label.event != before;
        if changed {
            self.publish();
        }
        std::mem::take(&mut self.unbegun) || changed
    }

    /// What was said to the handle.
    fn take_news(&mut self) {
        let mut shared = self.pair.shared();
        let doubtful = shared.doubtful.take();
        let out = self.sides.iter().position(|side| side.standing == MemberState::Out);
        let free = |&side: &usize| self.parts.get(side).is_none();
        let joins = out.filter(free).and_then(|side| Some((side, shared.joining.take()?)));
        drop(shared);
        if let Some(units) = doubtful
            && let Some(mut lacking) = self.doubt.take()
        {
            units.iter().for_each(|unit| lacking[unit.index()] = true);
            self.fill.begin(lacking);
            self.stale = true;
        }
        if let Some((side, storage)) = joins {
            self.parts.put(side, storage);
            let write_mostly = self.sides[side].write_mostly;
            self.sides[side] = Side::new(MemberState::Filling, 0, write_mostly);
            self.fill.begin_all();
            self.stale = true;
            self.pair.say("a side is being filled");
        }
    }

    /// The sides that hold everything.
    fn current(&self) -> impl Iterator<Item = usize> + '_ {
        (0..SIDES).filter(|&side| self.sides[side].standing == MemberState::Current)
    }

    fn filling(&self) -> Option<usize> {
        (0..SIDES).find(|&side| self.sides[side].standing == MemberState::Filling)
    }

    /// Whether a side holds what is in a unit.
    fn holds(&self, side: usize, unit: UnitId) -> bool {
        match self.sides[side].standing {
            MemberState::Current => true,
            MemberState::Filling => {
                let lacks = self.fill.lacks(unit) && !bugs::has(Bug::ReadWhatIsLacking);
                self.sides[side].labelled && !lacks
            }
            MemberState::Out => false,
        }
    }

    /// Hands a command to a side.
    fn hand(&mut self, side: usize, what: What, command: Command) {
        let token = Token(self.inner.insert((side, what)) as u64);
        self.sides[side].under_way += 1;
        self.parts.submit(side, token, command);
        self.unbegun = true;
    }

    /// Does without a side from now on, unless there is no other.
    fn fail(&mut self, side: usize, fault: Fault) {
        let Side { standing, .. } = self.sides[side];
        let only = self.current().all(|one| one == side);
        if standing == MemberState::Out || (standing == MemberState::Current && only) {
            return;
        }
        self.sides[side].standing = MemberState::Out;
        self.sides[side].labelled = false;
        self.fill.begin_all();
        self.doubt = None;
        self.repairs.clear();
        self.stale = true;
        if !bugs::has(Bug::AnswerBeforeLabel) {
            self.answers.hold();
        }
        let mut shared = self.pair.shared();
        let status = &mut shared.status.members[side];
        status.why = Some(fault.to_string());
        let path = status.path.display().to_string();
        drop(shared);
        self.pair.say(&format!(
            "{path} failed ({fault}) and is done without; the other side is the only copy. Name a device for it in the \
             settings and say `thermocline device replace POOL.toml PATH`"
        ));
        self.drop_if_idle(side);
    }

    /// A side that is done without is let go of when it owes nothing any more.
    fn drop_if_idle(&mut self, side: usize) {
        let Side { standing, under_way, .. } = self.sides[side];
        if standing == MemberState::Out && under_way == 0 {
            drop(self.parts.take(side));
        }
    }

    fn publish(&mut self) {
        let (lacking, filled) = (self.fill.bytes(), Bytes(self.fill.filled));
        let filling = self.filling().is_some();
        let mut shared = self.pair.shared();
        let status = &mut shared.status;
        for (status, side) in status.members.iter_mut().zip(&self.sides) {
            status.standing = side.standing;
            if side.standing != MemberState::Out {
                status.why = None;
            }
        }
        status.lacking = if filling { lacking } else { Bytes(0) };
        status.filled = filled;
    }

    /// Waits for the sides, and does what comes of their answers.
    fn turn(&mut self, wait: Option<Duration>) {
        let mut completions = std::mem::take(&mut self.completions);
        self.unbegun = false;
        let wait = wait.into_iter().chain(self.timeout()).min();
        for round in 0..ROUNDS {
            let wait = if round == 0 { wait } else { Some(Duration::ZERO) };
            self.unbegun = false;
            self.parts.reap(wait, &mut completions);
            for (side, completion) in completions.drain(..) {
                self.completed(side, completion);
            }
            if !self.act() {
                break;
            }
            self.unbegun = true;
        }
        self.completions = completions;
    }

    fn completed(&mut self, side: usize, Completion { token, result, .. }: Completion) {
        let (_, what) = self.inner.remove(token.0 as usize);
        self.sides[side].under_way -= 1;
        match what {
            What::Host(key) => self.host_done(key, side, result),
            What::Label => self.label_done(side, result),
            What::Piece(number) => self.piece_done(number, result),
            What::Last => {
                if let Err(fault) = result {
                    self.fail(side, fault);
                }
            }
        }
        self.drop_if_idle(side);
    }
}

fn status(name: String, paths: [PathBuf; SIDES], why: Option<&str>) -> GroupStatus {
    let sides = paths.map(|path| MemberStatus::out(path, why.map(str::to_owned)));
    GroupStatus::new(GroupKind::Mirror, name, sides.into())
}

mod copies;
mod hosts;
mod labels;

impl Storage for Mirror {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn submit(&mut self, token: Token, command: Command) {
        self.take(token, command);
    }

    fn reap(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) {
        self.act();
        let wait = if self.answers.are_none() { wait } else { Some(Duration::ZERO) };
        self.turn(wait);
        self.answers.take(done);
    }

    fn waker(&self) -> Waker {
        self.parts.waker()
    }

    fn descriptor(&mut self) -> Option<OwnedFd> {
        self.parts.descriptor()
    }

    fn timeout(&self) -> Option<Duration> {
        if self.unbegun || !self.answers.are_none() {
            return Some(Duration::ZERO);
        }
        let fills = self.may_fill().is_some() && self.piece.is_none() && self.fill.bytes().0 > 0;
        let fill = fills.then(|| self.fill.pace.pause());
        // A side that came later may have nothing to wait with, where the first ones had.
        let turn = (!self.inner.is_empty() && !self.parts.have_descriptors()).then_some(TURN);
        fill.into_iter().chain(turn).min()
    }

    fn report(&mut self) -> Result<Vec<UnitReport>, Fault> {
        let mut result = Err(DeviceError::Gone.into());
        for side in self.current().collect::<Vec<_>>() {
            let Some(storage) = self.parts.get_mut(side) else { continue };
            result = storage.report().map(|mut reports| {
                reports.truncate(self.layout.units as usize);
                reports
            });
            if result.is_ok() {
                break;
            }
        }
        result
    }

    fn drive_counters(&self) -> Option<Counters> {
        self.parts.drive_counters()
    }
}

impl Drop for Mirror {
    /// Says on both sides that they hold the same, if they do: then nothing is compared when they are opened next.
    fn drop(&mut self) {
        if self.access == Access::ReadWrite && !std::thread::panicking() {
            self.close();
        }
    }
}

#[cfg(test)]
mod tests;
