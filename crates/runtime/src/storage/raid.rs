//! Several storages over which units are striped, as one, with parity: what one of them loses, the others give back.
//!
//! A unit of the group is a unit of each member, filled in rows: a piece of data on each but one, which has the parity.
//! Whoever uses the group writes units front to back, so parity is computed from what is written, and is written once,
//! when its row is full. Until then the member that will have it has *running* parity in a log (`image`), which a flush
//! appends to: parity that protects something flushed is never written over.
//!
//! Invariants:
//! * A write, reset or flush is complete when all members that count have done it. If one fails, it is complete when
//!   the others have done it and a durable label of each says that the one does not count any more.
//! * When a flush is answered, each row with anything that it covers is full, with its parity, and flushed, or is in a
//!   flushed log up to there.
//! * Where data is written over, nothing depends on the parity that stands in its row: the log has what is before it.
//! * A row that anybody read after a crash is made to fit its parity before the next flush is answered.
//! * A member is read only if it holds what is asked for. While bytes are copied, nobody writes them.
//! * A label that calls a member current is written when that member has durably got all that it should.
//!
//! `docs/adr/0045-striped-groups.md` says why this suffices.

mod boot;
mod close;
mod doubt;
mod fail;
mod flushes;
mod gather;
mod image;
mod jobs;
mod journal;
mod labels;
mod reads;
mod rebuild;
mod start;
mod writes;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use slab::Slab;
use thermocline_engine::{DeviceError, UnitReport};
use thermocline_format::{RaidLabel, RaidLevel, RaidShape};
use thermocline_nand::Counters;
use thermocline_target::BufferPool;
use thermocline_types::Bytes;

use super::answers::Answers;
use super::bugs;
use super::group::{Group, GroupKind, GroupStatus, MemberState, MemberStatus};
use super::parts::{Parts, ROUNDS, TURN};
use super::{Access, Command, Completion, Fault, Layout, Storage, Token, Waker};
use boot::Rows;
use doubt::Doubt;
use flushes::Round;
use gather::Gather;
use image::Image;
use jobs::Job;
use journal::Journal;
use labels::Relabel;
use reads::{Reading, Segment};
use rebuild::Rebuild;
use writes::{Change, ChangeKey};

pub(crate) use boot::{
    FoundMember, erase, find, find_rows, layout_on, newest_label, relabel, write_label,
};
pub(crate) use start::decide;
pub use start::{MemberStart, RaidError, RaidStart};

/// What buffers of parity and reads keep of their memory for later. Chosen, not measured.
const POOL_BYTES: usize = 16 << 20;

/// One of the storages.
#[derive(Clone, Copy, Debug)]
struct Member {
    standing: MemberState,
    /// Whether a label on it says how it stands now; what is written goes to it then.
    labelled: bool,
    /// The place of its newest label.
    place: usize,
    /// Commands under way.
    under_way: usize,
    /// Whether something was written to it since it was flushed last, or may have been.
    unflushed: bool,
    /// Whether it was said that it failed and cannot be done without.
    lamented: bool,
}

impl Member {
    /// One that nothing is asked of.
    const fn new(standing: MemberState) -> Member {
        let (labelled, place, under_way, unflushed, lamented) = (false, 0, 0, true, false);
        Member { standing, labelled, place, under_way, unflushed, lamented }
    }
}

/// What a command to a member is for.
#[derive(Clone, Copy, Debug)]
enum What {
    Change(ChangeKey),
    /// A piece of what is read, by its number.
    Segment(usize),
    /// A part of what is gathered: which one, and the number of the part.
    Gather(usize, usize),
    /// Of the job under way.
    Job,
    /// Of the round under way.
    Round,
    Label,
}

/// A row that is not full yet.
#[derive(Debug)]
struct Front {
    row: u32,
    image: Image,
    /// Bytes of it that the log has.
    logged: u64,
    /// Whether nothing may be written behind what is there until the log has that.
    guard: bool,
    /// When it was written to last, by the count of changes.
    touched: u64,
}

/// How a group is found and used.
pub struct FoundRaid {
    /// Its name in the settings.
    pub name: String,
    /// Where its members are, by their number.
    pub paths: Vec<PathBuf>,
    /// Why one is missing.
    pub why: Option<String>,
    /// Its members, by their number; `None` where one is missing.
    pub storages: Vec<Option<FoundMember>>,
    /// What is to be done with them.
    pub start: RaidStart,
    /// Bytes per second that are computed to fill a member; `None`: no limit.
    pub rate: Option<u64>,
    /// What may be done.
    pub access: Access,
}

/// Several storages as one.
pub struct Raid {
    parts: Parts,
    shape: RaidShape,
    layout: Layout,
    access: Access,
    members: Vec<Member>,
    /// The newest label; of members only its number and whom it is about count.
    label: RaidLabel,
    /// Whether the newest label says something else than is so.
    stale: bool,
    answers: Answers,
    relabel: Option<Relabel>,
    /// Whether all members that count have the newest label.
    all_have: bool,
    /// Whether anything may be written to units, and whether all that was is settled again.
    opened: bool,
    closed: bool,
    inner: Slab<(usize, What)>,
    changes: Slab<Change>,
    /// Counts changes.
    time: u64,
    readings: Slab<Reading>,
    segments: Slab<Segment>,
    gathers: Slab<Gather>,
    /// Changes that wait for a job, or for the log.
    held: VecDeque<(Token, Command)>,
    /// Rows that are not full, by their unit.
    fronts: BTreeMap<u32, Front>,
    /// Of units in which a write failed, from where on nothing counts.
    failed_from: BTreeMap<u32, u64>,
    /// The log of each member.
    journals: Vec<Journal>,
    /// Rows that were not full when the group was used last, and are not written to their end.
    left: BTreeMap<(u32, u32), Image>,
    doubt: Doubt,
    /// Flushes that wait for the next round.
    flushes: Vec<Token>,
    /// Whether a round is wanted although nobody waits for a flush.
    wants_round: bool,
    round: Option<Round>,
    /// Rows that are full, whose parity is written and not flushed.
    full: Vec<(u32, u32)>,
    job: Option<Job>,
    /// Rows that are written on, of which what is there has to be read first: unit, and where in it.
    loads: VecDeque<(u32, u64)>,
    /// Places of a member that could not be read: unit, member, first byte in its strip, bytes.
    repairs: VecDeque<(u32, usize, std::ops::Range<u64>)>,
    rebuild: Rebuild,
    closing: bool,
    /// Something was handed to a member that it has not begun.
    unbegun: bool,
    completions: Vec<(usize, Completion)>,
    memory: BufferPool,
    group: Group,
}

impl Raid {
    /// The group that was found, and a handle of it. Unless it is only to be read, its members have a new label when
    /// this returns.
    ///
    /// # Errors
    /// [`Fault`] when no label can be written.
    ///
    /// # Panics
    /// If a member has not the units of the group.
    pub fn open(found: FoundRaid) -> Result<(Raid, Group), Fault> {
        let FoundRaid { name, paths, why, mut storages, start, rate, access } = found;
        let (shape, label) = (start.label.shape, start.label);
        let (mut members, filled) = members_of(&start.members);
        let rebuild = Rebuild::new(filled, rate);
        let rows = Rows::read(&label, &mut storages, &members_that_hold(&members, &rebuild));
        for (member, found) in members.iter_mut().zip(&storages) {
            let Some(found) = found else { continue };
            assert!(found.storage.layout().units >= shape.member_units(), "no room");
            (member.place, member.labelled) =
                (found.place, member.standing == MemberState::Current);
        }
        let kind = match shape.level {
            RaidLevel::Striped => GroupKind::Striped,
            RaidLevel::Parity => GroupKind::Parity,
        };
        let statuses = paths.into_iter().map(|path| MemberStatus::out(path, why.clone()));
        let group = Group::new(GroupStatus::new(kind, name, statuses.collect()));
        let parts = storages.into_iter().map(|found| found.map(|found| found.storage));
        let mut raid = Raid {
            parts: Parts::new(parts),
            shape,
            layout: Layout::contiguous(shape.logical_block, shape.unit_blocks, shape.units),
            access,
            members,
            stale: false,
            answers: Answers::default(),
            relabel: None,
            all_have: false,
            opened: false,
            closed: false,
            inner: Slab::new(),
            changes: Slab::new(),
            time: 0,
            readings: Slab::new(),
            segments: Slab::new(),
            gathers: Slab::new(),
            held: VecDeque::new(),
            fronts: BTreeMap::new(),
            failed_from: BTreeMap::new(),
            journals: rows.journals,
            doubt: Doubt::new(label.open && shape.level == RaidLevel::Parity, rows.left.keys()),
            left: rows.left,
            flushes: Vec::new(),
            wants_round: false,
            round: None,
            full: Vec::new(),
            job: None,
            loads: VecDeque::new(),
            repairs: VecDeque::new(),
            rebuild,
            closing: false,
            unbegun: false,
            completions: Vec::new(),
            memory: BufferPool::new(POOL_BYTES),
            group: group.clone(),
            label,
        };
        raid.begin(start.members.len())?;
        Ok((raid, group))
    }

    /// Says on the members that the group is used.
    fn begin(&mut self, members: usize) -> Result<(), Fault> {
        assert_eq!(members, usize::from(self.shape.members), "each member is there, or missing");
        self.group.wake_with(self.parts.waker());
        self.publish();
        if self.access == Access::ReadOnly {
            return Ok(());
        }
        // The first says who counts, the second that those that do have the first, and that something is written.
        for opened in [false, true] {
            (self.opened, self.stale) = (opened, true);
            self.settle();
        }
        self.answers.broken().map_or(Ok(()), Err)
    }

    /// Waits until the labels say what is so.
    fn settle(&mut self) {
        self.act();
        while self.answers.broken().is_none() && (self.stale || self.relabel.is_some()) {
            self.turn(None);
        }
    }

    /// Begins what can be begun. Returns whether anything was handed to a member.
    fn act(&mut self) -> bool {
        let before = (self.label.event, self.rebuild.made());
        self.take_news();
        if self.access == Access::ReadWrite {
            self.begin_label();
            self.begin_job();
            self.begin_round();
        }
        if self.access == Access::ReadOnly || (self.label.event, self.rebuild.made()) != before {
            self.publish();
        }
        std::mem::take(&mut self.unbegun)
    }

    /// What was said to the handle.
    fn take_news(&mut self) {
        let mut shared = self.group.shared();
        let doubtful = shared.doubtful.take();
        let free = |member: &usize| self.parts.get(*member).is_none();
        let out = self.missing().filter(free).filter(|_| self.relabel.is_none());
        let joins = out.and_then(|member| Some((member, shared.joining.take()?)));
        drop(shared);
        if let Some(units) = doubtful {
            self.doubt.only(units);
        }
        if let Some((member, storage)) = joins {
            self.parts.put(member, storage);
            self.members[member] = Member::new(MemberState::Filling);
            self.rebuild.begin_again();
            self.stale = true;
            self.group.say("a member is being filled");
        }
    }

    fn is_live(&self, member: usize) -> bool {
        self.members[member].labelled
    }

    /// The members to which what is written goes.
    fn live(&self) -> impl Iterator<Item = usize> + use<'_> {
        (0..self.members.len()).filter(|&member| self.is_live(member))
    }

    fn missing(&self) -> Option<usize> {
        self.members.iter().position(|member| member.standing == MemberState::Out)
    }

    fn filling(&self) -> Option<usize> {
        self.members.iter().position(|member| member.standing == MemberState::Filling)
    }

    /// Whether a member holds what it should of a unit.
    fn holds(&self, member: usize, unit: u32) -> bool {
        members_that_hold(&self.members, &self.rebuild)(member, unit)
    }

    /// Hands a command to a member.
    fn hand(&mut self, member: usize, what: What, command: Command) {
        let token = Token(self.inner.insert((member, what)) as u64);
        self.members[member].under_way += 1;
        if !matches!(command, Command::Read { .. } | Command::Flush(_)) {
            self.members[member].unflushed = true;
        }
        self.parts.submit(member, token, command);
        self.unbegun = true;
    }

    fn publish(&mut self) {
        let lacking = self.filling().map_or(Bytes(0), |_| self.rebuild.lacking(&self.shape));
        let mut shared = self.group.shared();
        let status = &mut shared.status;
        for (status, member) in status.members.iter_mut().zip(&self.members) {
            status.standing = member.standing;
            if member.standing != MemberState::Out {
                status.why = None;
            }
        }
        (status.lacking, status.filled) = (lacking, Bytes(self.rebuild.made()));
    }

    /// Waits for the members, and does what comes of their answers.
    fn turn(&mut self, wait: Option<Duration>) {
        let mut completions = std::mem::take(&mut self.completions);
        self.unbegun = false;
        let wait = wait.into_iter().chain(self.timeout()).min();
        for round in 0..ROUNDS {
            let wait = if round == 0 { wait } else { Some(Duration::ZERO) };
            self.unbegun = false;
            self.parts.reap(wait, &mut completions);
            for (member, completion) in completions.drain(..) {
                self.completed(member, completion);
            }
            if !self.act() {
                break;
            }
            self.unbegun = true;
        }
        self.completions = completions;
    }

    fn completed(&mut self, member: usize, Completion { token, result }: Completion) {
        let (_, what) = self.inner.remove(token.0 as usize);
        self.members[member].under_way -= 1;
        match what {
            What::Change(key) => self.change_done(key, member, result),
            What::Segment(key) => self.segment_done(key, member, result),
            What::Gather(key, part) => self.gather_done(key, part, result),
            What::Job => self.job_done(member, result),
            What::Round => self.round_done(member, result),
            What::Label => self.label_done(member, result),
        }
        self.drop_if_idle(member);
    }

    /// Room for bytes, with anything in it.
    fn room(&self, bytes: u64) -> crate::Buffer {
        crate::Buffer::new(self.memory.take(bytes as usize))
    }
}

/// The members of a group that starts like this, and how many units the one holds that is being filled.
fn members_of(start: &[(Option<usize>, MemberStart)]) -> (Vec<Member>, u32) {
    let (mut members, mut units) = (Vec::new(), 0);
    for (_, start) in start {
        members.push(Member::new(match *start {
            MemberStart::Missing => MemberState::Out,
            MemberStart::Current => MemberState::Current,
            MemberStart::Lacks { filled } => {
                units = filled;
                MemberState::Filling
            }
        }));
    }
    (members, units)
}

/// Whether a member holds what it should of a unit.
fn members_that_hold<'a>(
    members: &'a [Member],
    rebuild: &'a Rebuild,
) -> impl Fn(usize, u32) -> bool + 'a {
    |member, unit| match members[member].standing {
        MemberState::Current => true,
        MemberState::Filling => rebuild.has(unit) || bugs::has(bugs::Bug::ReadWhatIsLacking),
        MemberState::Out => false,
    }
}

impl Storage for Raid {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn submit(&mut self, token: Token, command: Command) {
        match command {
            Command::Read { at, into } => self.read(token, at, into),
            Command::Flush(_) => self.flushes.push(token),
            command => self.take(token, command),
        }
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
        let labels = self.stale && self.relabel.is_none() && self.answers.broken().is_none();
        let flushes = !self.flushes.is_empty() && self.round.is_none();
        let idle = self.job.is_none() && self.access == Access::ReadWrite;
        if idle && (labels || flushes || self.wants_round || self.has_job()) {
            return Some(Duration::ZERO);
        }
        let fill = (idle && self.may_fill()).then(|| self.rebuild.pace.pause());
        // A member that came later may have nothing to wait with, where the first ones had.
        let turn = (!self.inner.is_empty() && !self.parts.have_descriptors()).then_some(TURN);
        fill.into_iter().chain(turn).min()
    }

    fn report(&mut self) -> Result<Vec<UnitReport>, Fault> {
        let good = thermocline_engine::UnitCondition::Good;
        let report = UnitReport { condition: good, written: None };
        if self.live_or_read().next().is_none() {
            return Err(DeviceError::Gone.into());
        }
        Ok(vec![report; self.shape.units as usize])
    }

    fn drive_counters(&self) -> Option<Counters> {
        self.parts.drive_counters()
    }
}

impl Raid {
    /// The members that are there.
    fn live_or_read(&self) -> impl Iterator<Item = usize> + use<'_> {
        (0..self.members.len()).filter(|&member| self.parts.get(member).is_some())
    }

    /// The unit of a byte of the group, and which byte of the unit it is.
    fn place(&self, at: Bytes) -> (u32, u64) {
        let unit = self.layout.unit_of(at);
        (unit.0, at.0 - self.layout.start(unit).0)
    }

    /// A byte of a unit on a member.
    fn on_member(&self, unit: u32, strip: u64) -> Bytes {
        Bytes(self.shape.unit_start(unit) + strip)
    }
}

impl Drop for Raid {
    /// Says on all members that rows fit their parity, if they do: then nothing is compared when they are opened next.
    fn drop(&mut self) {
        if self.access == Access::ReadWrite && !std::thread::panicking() {
            self.close();
        }
    }
}

#[cfg(test)]
mod tests;
