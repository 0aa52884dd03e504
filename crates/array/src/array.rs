//! Several members as one device, with parity or a copy. The other members restore the data of a lost member.
//!
//! A mirror is a group of two with one piece of data in a row. Its parity is a copy and is written with the data. So a
//! mirror has no partial rows and no log. The rest of this text is about groups with more pieces.
//!
//! A unit of the group is a unit of each member, filled in rows. A row has a piece of data on each member but one, and
//! parity on that one. The user of the group writes units front to back. So the group computes parity from the data of
//! each write, and writes parity once, when the row is full. Until then the parity member holds *running* parity of the
//! row in its log (`image`). A flush appends to the log. Parity that protects flushed data is never overwritten. Live
//! members, whose state a durable label shows, get all writes.
//!
//! Invariants:
//! * A write, reset or flush is complete when all live members have carried it out. If one member fails, completion
//!   needs the other members and a durable label on each of them. The label no longer calls the failed member current.
//! * When a flush is answered, each row with covered bytes is full and flushed with its parity. Otherwise a flushed log
//!   holds all covered bytes of the row.
//! * Before a write overwrites data, the log holds the row up to the write. So no data depends on the old parity.
//! * The parity of a row read after a crash is made to agree before the next flush is answered.
//! * The array reads a member only if the member holds the data. Bytes are not written while they are copied.
//! * A label calls a member current only when all data of the member is durable.
//!
//! `docs/adr/0045-groups.md` shows why this suffices.

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
    ArrayNotice, ArrayStatus, ByteCause, Command, Completion, Fault, Healed, Layout, MemberState,
    Memory, Token, WrittenBytes,
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

/// The highest event of a valid label, and the highest round of a valid log head. No array reaches it. Chosen, not
/// measured.
pub const LAST_EVENT: u64 = MAX_NUMBER - (1 << 32);

/// Notices that wait for the owner; further notices are dropped. Chosen, not measured.
const NOTICES: usize = 64;

/// How an array may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Read and write.
    #[default]
    ReadWrite,
    /// Read only: every other command fails.
    ReadOnly,
}

/// A member of the array.
#[derive(Clone, Copy, Debug)]
struct Member {
    standing: MemberState,
    /// Whether the owner of the array has a storage for the member.
    there: bool,
    /// Whether a durable label shows the state of the member. Only such a member is live: it receives all writes.
    labelled: bool,
    /// The place of its newest label.
    place: usize,
    /// Commands under way.
    under_way: usize,
    /// Whether the member may hold unflushed writes.
    unflushed: bool,
    /// Whether the array reported that the needed member failed.
    fault_reported: bool,
}

impl Member {
    /// A member without commands under way.
    const fn new(standing: MemberState, there: bool) -> Member {
        let (labelled, place, under_way, unflushed, fault_reported) = (false, 0, 0, true, false);
        Member { standing, there, labelled, place, under_way, unflushed, fault_reported }
    }
}

/// The purpose of a command to a member.
#[derive(Clone, Copy, Debug)]
enum What {
    /// A read before the array is open, by number.
    Looking(usize),
    Change(ChangeKey),
    /// A piece of a read, by its number.
    Segment(usize),
    /// A part of a gather: the number of the gather, and the number of the part.
    Gather(usize, usize),
    /// A command of the job under way.
    Job,
    /// A command of the round under way.
    Round,
    Label,
}

/// A partial row that is being written.
#[derive(Debug)]
struct Front {
    row: u32,
    image: Image,
    /// Bytes of the row in the log.
    logged: u64,
    /// Whether writes to the row wait until the log holds its earlier bytes.
    guard: bool,
    /// The number of the last change of the row.
    touched: u64,
}

/// The phase of an array.
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
    /// The array is being closed.
    Closing(close::Stage),
    /// The array is closed.
    Closed,
}

/// An array as found, and how to use it.
#[derive(Debug)]
pub struct FoundArray<M> {
    /// How its members start.
    pub start: ArrayStart,
    /// The place of the newest label, for each member by number; `None` where the member is missing.
    pub places: Vec<Option<usize>>,
    /// The most bytes per second to fill a member with; `None`: no limit.
    pub rate: Option<u64>,
    /// How the array may be used.
    pub access: Access,
    /// The member of a mirror to avoid: read only if the other member cannot be read.
    pub avoid: Option<usize>,
    /// Makes buffers.
    pub memory: M,
}

/// Several members as one device.
#[derive(Debug)]
pub struct Array<M: Memory> {
    memory: M,
    phase: Phase<M::Buffer>,
    /// Commands that wait for the array to open or to write its first labels.
    waiting: VecDeque<(Token, Command<M::Buffer>)>,
    now: Time,
    /// Commands to members, for the owner to take.
    outbox: VecDeque<(usize, Token, Command<M::Buffer>)>,
    /// Members with a storage for the owner to drop.
    leaving: VecDeque<usize>,
    notices: VecDeque<ArrayNotice>,
    status: ArrayStatus,
    /// Bytes handed to each member since the opening.
    written: Vec<WrittenBytes>,
    shape: RaidShape,
    layout: Layout,
    access: Access,
    avoid: Option<usize>,
    members: Vec<Member>,
    /// The newest label. Its `member` field is unused: each member gets a copy with its own number.
    label: RaidLabel,
    /// Whether the newest label is out of date.
    stale: bool,
    answers: Answers,
    relabel: Option<Relabel>,
    /// Whether all live members hold the newest label durably.
    all_have: bool,
    /// Whether the label that allows writes was begun. Whether closing found all rows in agreement with their parity.
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
    /// Partial rows that are being written, by their unit.
    fronts: BTreeMap<u32, Front>,
    /// Units with a failed write, and the first byte from which their data is void.
    failed_from: BTreeMap<u32, u64>,
    /// The log of each member.
    journals: Vec<Journal>,
    /// Partial rows that the logs held at the opening, and that are not full yet.
    left: BTreeMap<(u32, u32), Image>,
    /// Rows of the log that are settled before a heal verifies their data.
    unsettled: BTreeSet<(u32, u32)>,
    /// Flushes that wait for the next round.
    flushes: Vec<Token>,
    /// Whether a round is due without a waiting flush.
    wants_round: bool,
    round: Option<Round>,
    /// Full rows whose parity is written but not flushed.
    full: Vec<(u32, u32)>,
    job: Option<Job<M::Buffer>>,
    /// Rows to resume whose earlier bytes must be read: the unit, and the byte where writing resumes.
    loads: VecDeque<(u32, u64)>,
    heals: Slab<Heal>,
    /// Parts of heals that have not begun.
    mendings: VecDeque<Mending>,
    rebuild: Rebuild,
    closing: bool,
}

impl<M: Memory> Array<M> {
    /// Opens the array. The array first reads the logs of its members. Writes begin with the first changing command.
    ///
    /// # Panics
    /// If `start` or `places` has not one entry for each member.
    pub fn open(found: FoundArray<M>) -> Array<M> {
        let FoundArray { start, places, rate, access, avoid, memory } = found;
        let (shape, label) = (start.label.shape, start.label);
        let number = usize::from(shape.members);
        assert!(start.members.len() == number && places.len() == number, "one per member");
        let (mut members, filled) = members_of(&start.members);
        for (member, place) in members.iter_mut().zip(places) {
            let Some(place) = place else { continue };
            let labelled = member.standing == MemberState::Current;
            (member.there, member.place, member.labelled) = (true, place, labelled);
        }
        let status = ArrayStatus {
            members: Vec::new(),
            lacking: Bytes(0),
            holes: Bytes(0),
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
            written: vec![WrittenBytes::default(); number],
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

    /// How the array is divided.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Whether the array has parity or a copy, so that one member may be wrong or missing.
    #[must_use]
    pub fn keeps_parity(&self) -> bool {
        self.shape.level.parity() > 0
    }

    /// The state of the array.
    #[must_use]
    pub fn status(&self) -> &ArrayStatus {
        &self.status
    }

    /// For each member by number: bytes of the writes handed to it since the opening.
    #[must_use]
    pub fn written(&self) -> &[WrittenBytes] {
        &self.written
    }

    /// Takes a command and answers it exactly once.
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

    /// The next command to a member, and the number of the member.
    pub fn poll_command(&mut self) -> Option<(usize, Token, Command<M::Buffer>)> {
        if self.outbox.is_empty() {
            self.act();
        }
        self.outbox.pop_front()
    }

    /// Takes the completion of a command from [`Array::poll_command`].
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

    /// Advances the clock and begins due work.
    pub fn handle_timeout(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.act();
    }

    /// When to call [`Array::handle_timeout`] at the latest, if no member completes a command before.
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

    /// The next notice for an operator.
    pub fn poll_notice(&mut self) -> Option<ArrayNotice> {
        self.notices.pop_front()
    }

    /// A member that is out and has no command under way: its owner drops the storage.
    pub fn takes_out(&mut self) -> Option<usize> {
        self.leaving.pop_front()
    }

    /// The member that is out, if a new storage can take its place now.
    #[must_use]
    pub fn vacancy(&self) -> Option<usize> {
        self.missing().filter(|&member| !self.members[member].there && self.relabel.is_none())
    }

    /// Adds a storage for the member of [`Array::vacancy`]. The storage has a label in its first place, and is filled.
    ///
    /// # Panics
    /// If the member is not the vacancy.
    pub fn join(&mut self, member: usize) {
        assert_eq!(self.vacancy(), Some(member), "the member is not vacant");
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

    /// Whether units may be written.
    #[must_use]
    pub fn is_active(&self) -> bool {
        matches!(self.phase, Phase::Active | Phase::Closing(_))
    }

    /// The error of a label on a needed member. The array stops writing then.
    #[must_use]
    pub fn broken(&self) -> Option<Fault> {
        self.answers.broken()
    }

    /// Whether no command to a member is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.inner.is_empty()
    }

    /// Starts to serve, with the rows read from the logs.
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
    /// unit is resumed or emptied. With a wrong member, only old parity may protect the data behind the logged bytes.
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
            Command::Heal(ranges) => self.heal(token, &ranges),
            Command::Distrust { version, .. } => self.distrust(token, version),
            Command::Flush(_) => self.flushes.push(token),
            command => self.take(token, command),
        }
    }

    /// Begins all work that can begin.
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

    /// The first label announces the live members. When all of them hold it, the second label allows writes to units.
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

    /// The live members, which receive all writes.
    fn live(&self) -> impl Iterator<Item = usize> + use<'_, M> {
        (0..self.members.len()).filter(|&member| self.is_live(member))
    }

    fn missing(&self) -> Option<usize> {
        self.members.iter().position(|member| member.standing == MemberState::Out)
    }

    fn filling(&self) -> Option<usize> {
        self.members.iter().position(|member| member.standing == MemberState::Filling)
    }

    /// Whether a member holds its data of a unit.
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
        if let (Some(cause), Command::Write { parts, .. }) = (self.cause(what, &command), &command)
        {
            self.written[member].add(cause, writes::length::<M>(parts));
        }
        self.outbox.push_back((member, token, command));
    }

    /// The cause of all bytes of a write to a member; `None` for changes, whose bytes have several causes.
    fn cause(&self, what: What, command: &Command<M::Buffer>) -> Option<ByteCause> {
        match (what, command) {
            (What::Label, _) => Some(ByteCause::Label),
            (What::Round, Command::Write { at, .. }) if at.0 < self.shape.slot(0) => {
                Some(ByteCause::LogHead)
            }
            (What::Round, _) => Some(ByteCause::Log),
            (What::Job, _) => Some(ByteCause::Restored),
            (What::Change(_) | What::Looking(_) | What::Segment(_) | What::Gather(..), _) => None,
        }
    }

    fn publish(&mut self) {
        let status = &mut self.status;
        status.members.clear();
        status.members.extend(self.members.iter().map(|member| member.standing));
        let filling = self.members.iter().any(|member| member.standing == MemberState::Filling);
        status.lacking = if filling { self.rebuild.lacking(&self.shape) } else { Bytes(0) };
        status.holes = if filling { self.rebuild.holes() } else { Bytes(0) };
        status.filled = Bytes(self.rebuild.made());
    }

    /// A new buffer with arbitrary content.
    fn room(&self, bytes: u64) -> M::Buffer {
        self.memory.room(bytes as usize)
    }

    /// The unit of a byte of the array, and the offset of the byte in the unit.
    fn place(&self, at: Bytes) -> (u32, u64) {
        let unit = self.layout.unit_of(at);
        (unit.0, at.0 - self.layout.start(unit).0)
    }

    /// The place on a member of a byte of its strip.
    fn on_member(&self, unit: u32, strip: u64) -> Bytes {
        Bytes(self.shape.unit_start(unit) + strip)
    }
}

/// Whether a member holds its data of a unit.
fn holds(member: &Member, rebuild: &Rebuild, unit: u32) -> bool {
    match member.standing {
        MemberState::Current => true,
        MemberState::Filling => rebuild.has(unit) || bugs::has(ArrayBug::ReadWhatIsLacking),
        MemberState::Out => false,
    }
}

/// The members of an array with this start, and the number of units on the member being filled.
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
