//! Several members as one, with parity or a copy: what one of them loses, the others give back.
//!
//! A mirror is a group of two with one piece of data in a row: its parity is a copy, and is written with the data. So
//! rows of a mirror are never partial, and it has no log. What follows is of groups with more pieces.
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
//! `docs/adr/0045-striped-groups.md` and `0071-a-pair-is-a-group-of-two.md` say why this suffices.

mod answers;
mod boot;
mod close;
mod fail;
mod flushes;
mod gather;
mod heals;
mod image;
mod jobs;
mod journal;
mod labels;
mod pace;
mod reads;
mod rebuild;
mod start;
mod writes;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use slab::Slab;
use thermocline_format::{MAX_NUMBER, RaidLabel, RaidShape};
use thermocline_types::{Bytes, DeviceError, Time};

use crate::bugs::{self, ArrayBug};
use crate::{
    ArrayNotice, ArrayStatus, Command, Completion, Fault, Healed, Layout, MemberState, Memory,
    Token,
};
use answers::Answers;
use boot::Looking;
use flushes::Round;
use gather::Gather;
use heals::{Heal, Mending};
use image::Image;
use jobs::Job;
use journal::Journal;
use labels::Relabel;
use reads::{Reading, Segment};
use rebuild::Rebuild;
use writes::{Change, ChangeKey};

pub use boot::{ReadMember, Rows, find_rows, layout_on, newest_label};
pub use start::{ArrayStart, MemberStart, StartError, decide, is_alone};

/// The highest number of a believed label or head. No array counts as far. Chosen, not measured.
pub const LAST_EVENT: u64 = MAX_NUMBER - (1 << 32);

/// Notices that nobody took yet; further ones are dropped. Chosen, not measured.
const NOTICES: usize = 64;

/// What may be done to an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Read and write.
    #[default]
    ReadWrite,
    /// Read only: everything else fails.
    ReadOnly,
}

/// One of the members.
#[derive(Clone, Copy, Debug)]
struct Member {
    standing: MemberState,
    /// Whether the owner of the array has a storage for the member.
    there: bool,
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
    const fn new(standing: MemberState, there: bool) -> Member {
        let (labelled, place, under_way, unflushed, lamented) = (false, 0, 0, true, false);
        Member { standing, there, labelled, place, under_way, unflushed, lamented }
    }
}

/// What a command to a member is for.
#[derive(Clone, Copy, Debug)]
enum What {
    /// A read of the start, by number.
    Looking(usize),
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

/// How far an array is.
#[derive(Debug)]
enum Phase<B> {
    /// The array reads the logs of its members; commands wait.
    Looking(Looking<B>),
    /// No command has changed data yet; the array writes nothing.
    Passive,
    /// The first two labels are on their way; changes wait.
    Labelling,
    /// Units are written.
    Active,
    /// The array ends.
    Closing(close::Stage),
    /// The array is at its end.
    Closed,
}

/// How an array is found and used.
#[derive(Debug)]
pub struct FoundArray<M> {
    /// How its members start.
    pub start: ArrayStart,
    /// The place of the newest label, for each member by number; `None` where the member is missing.
    pub places: Vec<Option<usize>>,
    /// Bytes per second that are computed to fill a member; `None`: no limit.
    pub rate: Option<u64>,
    /// What may be done.
    pub access: Access,
    /// The member of a mirror that is read only where the other one cannot be.
    pub avoid: Option<usize>,
    /// Makes buffers.
    pub memory: M,
}

/// Several members as one.
#[derive(Debug)]
pub struct Array<M: Memory> {
    memory: M,
    phase: Phase<M::Buffer>,
    /// Commands that wait for the phase in which they can be taken.
    waiting: VecDeque<(Token, Command<M::Buffer>)>,
    now: Time,
    /// Commands to members, for the owner to take.
    outbox: VecDeque<(usize, Token, Command<M::Buffer>)>,
    /// Members with a storage for the owner to drop.
    leaving: VecDeque<usize>,
    notices: VecDeque<ArrayNotice>,
    status: ArrayStatus,
    shape: RaidShape,
    layout: Layout,
    access: Access,
    avoid: Option<usize>,
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
    settled: bool,
    inner: Slab<(usize, What)>,
    changes: Slab<Change>,
    /// Counts changes.
    time: u64,
    readings: Slab<Reading<M::Buffer>>,
    segments: Slab<Segment<M::Buffer>>,
    gathers: Slab<Gather<M::Buffer>>,
    /// Changes that wait for a job, or for the log.
    held: VecDeque<(Token, Command<M::Buffer>)>,
    /// Rows that are not full, by their unit.
    fronts: BTreeMap<u32, Front>,
    /// Of units in which a write failed, from where on nothing counts.
    failed_from: BTreeMap<u32, u64>,
    /// The log of each member.
    journals: Vec<Journal>,
    /// Rows that were not full when the array was used last, and are not written to their end.
    left: BTreeMap<(u32, u32), Image>,
    /// Rows that leave the log before their data is verified.
    unsettled: BTreeSet<(u32, u32)>,
    /// Flushes that wait for the next round.
    flushes: Vec<Token>,
    /// Whether a round is wanted although nobody waits for a flush.
    wants_round: bool,
    round: Option<Round>,
    /// Rows that are full, whose parity is written and not flushed.
    full: Vec<(u32, u32)>,
    job: Option<Job<M::Buffer>>,
    /// Rows that are written on, of which what is there has to be read first: unit, and where in it.
    loads: VecDeque<(u32, u64)>,
    heals: Slab<Heal>,
    /// The parts of heals that have not begun.
    mendings: VecDeque<Mending>,
    rebuild: Rebuild,
    closing: bool,
}

impl<M: Memory> Array<M> {
    /// The array that was found. The array reads the logs of its members first, and writes nothing before the first
    /// changing command.
    ///
    /// # Panics
    /// If `start` and `places` are not of each member.
    pub fn open(found: FoundArray<M>) -> Array<M> {
        let FoundArray { start, places, rate, access, avoid, memory } = found;
        let (shape, label) = (start.label.shape, start.label);
        let number = usize::from(shape.members);
        assert!(start.members.len() == number && places.len() == number, "one for each member");
        let (mut members, filled) = members_of(&start.members);
        for (member, place) in members.iter_mut().zip(places) {
            let Some(place) = place else { continue };
            let labelled = member.standing == MemberState::Current;
            (member.there, member.place, member.labelled) = (true, place, labelled);
        }
        let status = ArrayStatus {
            members: Vec::new(),
            lacking: Bytes(0),
            filled: Bytes(0),
            healed: vec![Healed::default(); number],
            rows_healed: 0,
        };
        let mut array = Array {
            memory,
            phase: Phase::Looking(Looking::default()),
            waiting: VecDeque::new(),
            now: Time::default(),
            outbox: VecDeque::new(),
            leaving: VecDeque::new(),
            notices: VecDeque::new(),
            status,
            shape,
            layout: Layout::contiguous(shape.logical_block, shape.unit_blocks, shape.units),
            access,
            avoid,
            members,
            stale: false,
            answers: Answers::default(),
            relabel: None,
            all_have: false,
            opened: false,
            settled: false,
            inner: Slab::new(),
            changes: Slab::new(),
            time: 0,
            readings: Slab::new(),
            segments: Slab::new(),
            gathers: Slab::new(),
            held: VecDeque::new(),
            fronts: BTreeMap::new(),
            failed_from: BTreeMap::new(),
            journals: Vec::new(),
            left: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            flushes: Vec::new(),
            wants_round: false,
            round: None,
            full: Vec::new(),
            job: None,
            loads: VecDeque::new(),
            heals: Slab::new(),
            mendings: VecDeque::new(),
            rebuild: Rebuild::new(filled, rate),
            closing: false,
            label,
        };
        array.publish();
        array.look();
        array
    }

    /// How it is divided.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Whether one member may be wrong or missing: there is parity or a copy.
    #[must_use]
    pub fn keeps_parity(&self) -> bool {
        self.shape.level.parity() > 0
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> &ArrayStatus {
        &self.status
    }

    /// Takes a command, which is answered exactly once.
    pub fn submit(&mut self, token: Token, command: Command<M::Buffer>) {
        match &self.phase {
            Phase::Looking(_) => self.waiting.push_back((token, command)),
            Phase::Passive if command.changes() && self.access == Access::ReadOnly => {
                self.answers.give_now(token, Err(DeviceError::ReadOnly.into()));
            }
            Phase::Passive if command.changes() => {
                (self.phase, self.stale) = (Phase::Labelling, true);
                self.waiting.push_back((token, command));
            }
            Phase::Labelling if command.changes() => self.waiting.push_back((token, command)),
            _ => self.begin(token, command),
        }
    }

    /// The next command to a member: its number, and the command.
    pub fn poll_command(&mut self) -> Option<(usize, Token, Command<M::Buffer>)> {
        if self.outbox.is_empty() {
            self.act();
        }
        self.outbox.pop_front()
    }

    /// A command of [`Array::poll_command`] is over.
    ///
    /// # Panics
    /// If no such command is under way.
    pub fn completed(&mut self, member: usize, completion: Completion) {
        let Completion { token, result, .. } = completion;
        let (_, what) = self.inner.remove(token.0 as usize);
        self.members[member].under_way -= 1;
        match what {
            What::Looking(place) => self.looked(place, result),
            What::Change(key) => self.change_done(key, member, result),
            What::Segment(key) => self.segment_done(key, member, result),
            What::Gather(key, part) => self.gather_done(key, part, result),
            What::Job => self.job_done(member, result),
            What::Round => self.round_done(member, result),
            What::Label => self.label_done(member, result),
        }
        self.drop_if_idle(member);
    }

    /// The next answer.
    pub fn poll_answer(&mut self) -> Option<Completion> {
        self.answers.take()
    }

    /// Says what time it is.
    pub fn handle_timeout(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.act();
    }

    /// When to call [`Array::handle_timeout`] at the latest, though no member may answer before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if !self.outbox.is_empty() || !self.answers.are_none() {
            return Some(self.now);
        }
        let flushes = !self.flushes.is_empty() && self.round.is_none();
        let writes = matches!(self.phase, Phase::Labelling) || self.is_active();
        let label = writes && self.stale && self.relabel.is_none();
        let idle = self.job.is_none();
        let job = self.is_active() && (self.wants_round || self.has_job());
        if idle && (flushes || job || label && self.answers.broken().is_none()) {
            return Some(self.now);
        }
        (idle && self.may_fill()).then(|| self.rebuild.pace.not_before().max(self.now))
    }

    /// The next thing that an operator has to know.
    pub fn poll_notice(&mut self) -> Option<ArrayNotice> {
        self.notices.pop_front()
    }

    /// A member that is done without and owes nothing: its owner drops its storage.
    pub fn takes_out(&mut self) -> Option<usize> {
        self.leaving.pop_front()
    }

    /// The member that is out, if a storage can take its place now.
    #[must_use]
    pub fn vacancy(&self) -> Option<usize> {
        self.missing().filter(|&member| !self.members[member].there && self.relabel.is_none())
    }

    /// A member of [`Array::vacancy`] has a storage now: it has a label in its first place, and is filled.
    ///
    /// # Panics
    /// If there is no such vacancy.
    pub fn join(&mut self, member: usize) {
        assert_eq!(self.vacancy(), Some(member), "the member is there");
        self.members[member] = Member::new(MemberState::Filling, true);
        self.rebuild.begin_again();
        self.stale = true;
        self.say(ArrayNotice::Fills { member });
    }

    /// Whether the array has read the logs of its members.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self.phase, Phase::Looking(_))
    }

    /// Whether anything may be written to units.
    #[must_use]
    pub fn is_active(&self) -> bool {
        matches!(self.phase, Phase::Active | Phase::Closing(_))
    }

    /// The error of a label on a needed member: the array writes nothing more.
    #[must_use]
    pub fn broken(&self) -> Option<Fault> {
        self.answers.broken()
    }

    /// Whether no command to a member is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.inner.is_empty()
    }

    /// The logs of the members are read.
    fn begin_with(&mut self, rows: Rows) {
        (self.journals, self.left) = (rows.journals, rows.left);
        self.unsettled = self.rows_too_many();
        self.phase = Phase::Passive;
        if bugs::has(ArrayBug::WritesBeforeChange) {
            (self.phase, self.stale) = (Phase::Labelling, true);
        }
        self.take_waiting();
    }

    /// The rows above half of the slots of a log. The other rows stay in the log until their data is verified, or their
    /// unit is written on or emptied: with a wrong member, only old parity may have the data behind the logged bytes.
    fn rows_too_many(&self) -> BTreeSet<(u32, u32)> {
        let mut many = BTreeSet::new();
        for member in 0..self.members.len() {
            let own = |(unit, row): &&(u32, u32)| self.shape.parity_of(*unit, *row) == Some(member);
            let rows: Vec<_> = self.left.keys().filter(own).copied().collect();
            let most = self.shape.slots as usize / 2;
            many.extend(rows.iter().take(rows.len().saturating_sub(most)));
        }
        many
    }

    fn take_waiting(&mut self) {
        for (token, command) in std::mem::take(&mut self.waiting) {
            self.submit(token, command);
        }
    }

    fn begin(&mut self, token: Token, command: Command<M::Buffer>) {
        match command {
            Command::Read { at, into, version } => self.read(token, at, into, version),
            Command::Heal { at, bytes, version } => self.heal(token, at, bytes, version),
            Command::Distrust { version, .. } => self.distrust(token, version),
            Command::Flush(_) => self.flushes.push(token),
            command => self.take(token, command),
        }
    }

    /// Begins what can be begun.
    fn act(&mut self) {
        if matches!(self.phase, Phase::Labelling | Phase::Active | Phase::Closing(_)) {
            self.begin_label();
            self.go_on_opening();
        }
        if self.is_active() {
            self.begin_job();
        }
        if !matches!(self.phase, Phase::Looking(_) | Phase::Closed) {
            self.begin_round();
        }
        self.go_on_closing();
        self.publish();
    }

    /// The first label names the members that count. With the second label, all have the first, and units may be
    /// written.
    fn go_on_opening(&mut self) {
        let labelled = !self.stale && self.relabel.is_none();
        if !matches!(self.phase, Phase::Labelling) || !labelled && self.answers.broken().is_none() {
            return;
        }
        if !self.opened && labelled {
            (self.opened, self.stale) = (true, true);
            return self.begin_label();
        }
        self.phase = Phase::Active;
        self.take_waiting();
    }

    fn say(&mut self, notice: ArrayNotice) {
        if self.notices.len() < NOTICES {
            self.notices.push_back(notice);
        }
    }

    fn is_live(&self, member: usize) -> bool {
        self.members[member].labelled
    }

    /// The members to which what is written goes.
    fn live(&self) -> impl Iterator<Item = usize> + use<'_, M> {
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
        holds(&self.members[member], &self.rebuild, unit)
    }

    /// Hands a command to a member.
    fn hand(&mut self, member: usize, what: What, command: Command<M::Buffer>) {
        let token = Token(self.inner.insert((member, what)) as u64);
        self.members[member].under_way += 1;
        if !matches!(command, Command::Read { .. } | Command::Flush(_)) {
            self.members[member].unflushed = true;
        }
        self.outbox.push_back((member, token, command));
    }

    fn publish(&mut self) {
        let status = &mut self.status;
        status.members.clear();
        status.members.extend(self.members.iter().map(|member| member.standing));
        let filling = self.members.iter().any(|member| member.standing == MemberState::Filling);
        status.lacking = if filling { self.rebuild.lacking(&self.shape) } else { Bytes(0) };
        status.filled = Bytes(self.rebuild.made());
    }

    /// Room for bytes, with anything in it.
    fn room(&self, bytes: u64) -> M::Buffer {
        self.memory.room(bytes as usize)
    }

    /// The unit of a byte of the array, and which byte of the unit it is.
    fn place(&self, at: Bytes) -> (u32, u64) {
        let unit = self.layout.unit_of(at);
        (unit.0, at.0 - self.layout.start(unit).0)
    }

    /// A byte of a unit on a member.
    fn on_member(&self, unit: u32, strip: u64) -> Bytes {
        Bytes(self.shape.unit_start(unit) + strip)
    }
}

/// Whether a member holds what it should of a unit.
fn holds(member: &Member, rebuild: &Rebuild, unit: u32) -> bool {
    match member.standing {
        MemberState::Current => true,
        MemberState::Filling => rebuild.has(unit) || bugs::has(ArrayBug::ReadWhatIsLacking),
        MemberState::Out => false,
    }
}

/// The members of an array that starts like this, and how many units the one holds that is being filled.
fn members_of(start: &[(Option<usize>, MemberStart)]) -> (Vec<Member>, u32) {
    let (mut members, mut units) = (Vec::new(), 0);
    for (_, start) in start {
        let standing = match *start {
            MemberStart::Missing => MemberState::Out,
            MemberStart::Current => MemberState::Current,
            MemberStart::Lacks { filled } => {
                units = filled;
                MemberState::Filling
            }
        };
        members.push(Member::new(standing, false));
    }
    (members, units)
}

#[cfg(test)]
mod tests;
