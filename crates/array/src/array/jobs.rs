//! Internal reads and writes, one job at a time. Jobs resume partial rows after an opening, settle parity, rewrite
//! unreadable places and fill a member.
//!
//! Changes of the rows of a job wait for its end.

use std::ops::Range;

use thermocline_types::{Bytes, Class, DeviceError, Version};

use super::gather::Why;
use super::heals::{HealKey, Mending, Strips, TOLD};
use super::image::exclusive_or;
use super::reads::{How, Then};
use super::{Array, Front, Image, What};
use crate::bugs::{self, ArrayBug};
use crate::{ArrayNotice, Command, Fault, MemberState, Memory};

/// Jobs that may begin and end at once before other work gets a turn. Chosen, not measured.
const JOBS: usize = 64;

/// How often a job reads its bytes until two reads in a row agree. Chosen: a member that gives wrong bytes at one read
/// in 16 prevents the agreement in one job of some 10^8.
const READS: u8 = 16;

/// How often a job reads its bytes although a member reports an error. Chosen, not measured.
const FAILS: u8 = 5;

/// The task of a job.
#[derive(Clone, Debug)]
enum Work {
    /// Read the bytes of the row before byte `from` of its unit, to resume writing at that byte.
    Load { from: u64 },
    /// Read the row, compute its parity, and write the parity if the member has another one. The logged bytes take
    /// precedence over the bytes read, unless a heal verified the latter. Parity stays where it covers unlogged bytes
    /// before the verified ones. These bytes were flushed with that parity, and a member may hold them wrong.
    Settle { member: usize, verified: Range<u64>, heal: Option<HealKey> },
    /// Compute bytes of members' strips and write them to the members, to heal. All are computed before one is written.
    Mend { strips: Strips, heal: HealKey },
    /// Compute bytes of a member's strip and write them to the member, to fill it.
    Fill { member: usize, strip: Range<u64> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Until no change of its rows is under way.
    Wait,
    Read,
    Write,
}

/// A job under way.
#[derive(Debug)]
pub(super) struct Job<B> {
    unit: u32,
    rows: Range<u32>,
    work: Work,
    step: Step,
    /// The data and the parity, as read.
    data: Option<B>,
    parity: Option<B>,
    /// Strips with their members, and the bytes computed of each.
    computed: Vec<(usize, Range<u64>, Option<Vec<u8>>)>,
    /// How often the job has read its bytes, and how often a member reported an error.
    reads: u8,
    failed: u8,
    /// The bytes as they were last read, and whether two reads in a row agreed on these bytes.
    known: Vec<(Option<Vec<u8>>, bool)>,
    waits: usize,
    fault: Option<Fault>,
    /// Whether the row stays in the log although its parity agrees.
    keeps_log: bool,
    /// Pieces of reads that wait for the end of the job.
    postponed: Vec<(usize, Fault)>,
}

impl<M: Memory> Array<M> {
    /// Whether changes of these rows wait for the job.
    pub(super) fn is_locked(&self, unit: u32, rows: &Range<u32>) -> bool {
        let locks = |job: &Job<M::Buffer>| {
            let copies = job.computes() && bugs::has(ArrayBug::CopyOverWrites);
            job.unit == unit && job.rows.start < rows.end && rows.start < job.rows.end && !copies
        };
        self.job.as_ref().is_some_and(locks)
    }

    pub(super) fn is_being_settled(&self, unit: u32, row: u32) -> bool {
        let settles = |job: &Job<M::Buffer>| {
            let begun = matches!(job.work, Work::Settle { .. }) && job.step != Step::Wait;
            begun && job.unit == unit && job.rows.contains(&row)
        };
        self.job.as_ref().is_some_and(settles)
    }

    pub(super) fn is_loading(&self) -> bool {
        self.job.as_ref().is_some_and(|job| matches!(job.work, Work::Load { .. }))
    }

    /// The next row of the log to settle, and the member with its parity. Rows that cannot be settled are skipped.
    fn next_to_settle(&mut self) -> Option<(u32, u32, usize)> {
        while let Some(&(unit, row)) = self.unsettled.first() {
            match self.can_settle(unit, row) {
                Some(member) => return Some((unit, row, member)),
                None => _ = self.unsettled.remove(&(unit, row)),
            }
        }
        None
    }

    /// The member with the parity of a row, if the row can be compared with its parity.
    fn can_settle(&self, unit: u32, row: u32) -> Option<usize> {
        let whole = (0..self.members.len()).all(|member| self.holds(member, unit));
        let known = whole || self.left.contains_key(&(unit, row));
        let begun = self.fronts.get(&unit).is_some_and(|front| front.row == row);
        let parity = self.shape.parity_of(unit, row).filter(|_| known && !begun);
        parity.filter(|&member| self.holds(member, unit) && self.is_live(member))
    }

    pub(super) fn postpone(&mut self, segment: usize, fault: Fault) {
        let job = self.job.as_mut().expect("a job is under way");
        job.postponed.push((segment, fault));
    }

    /// Begins the next job, or a job that waited for changes.
    pub(super) fn begin_job(&mut self) {
        for _ in 0..JOBS {
            if self.job.is_none() {
                self.job = self.next_job();
            }
            self.start_job();
            if self.job.is_some() {
                return;
            }
        }
    }

    /// Whether a job is queued.
    pub(super) fn has_job(&self) -> bool {
        !self.loads.is_empty() || !self.mendings.is_empty() || !self.unsettled.is_empty()
    }

    fn start_job(&mut self) {
        let Some(job) = self.job.as_mut().filter(|job| job.step == Step::Wait) else { return };
        let (unit, rows, work) = (job.unit, job.rows.clone(), job.work.clone());
        let copies = job.computes() && bugs::has(ArrayBug::CopyOverWrites);
        if (self.is_changed(unit, &rows) && !copies) || self.is_gathered(unit, &rows) {
            return;
        }
        self.job.as_mut().expect("a job is under way").step = Step::Read;
        match work {
            Work::Load { from } => self.load(unit, rows.start, from),
            Work::Settle { member, .. } if self.can_settle(unit, rows.start) == Some(member) => {
                self.read_row(unit, rows.start, member);
            }
            Work::Settle { .. } => self.let_be(Ok(())),
            Work::Mend { strips, .. } => self.compute(unit, strips),
            Work::Fill { member, strip } => self.compute(unit, vec![(member, strip)]),
        }
    }

    fn compute(&mut self, unit: u32, strips: Strips) {
        let job = self.job.as_mut().expect("a job is under way");
        job.waits = strips.len();
        job.computed =
            strips.iter().cloned().map(|(member, strip)| (member, strip, None)).collect();
        for (index, (member, strip)) in strips.into_iter().enumerate() {
            if !self.begin_gather(unit, member, strip, Why::Job(index)) {
                self.job_gathered(index, Err(DeviceError::Gone.into()));
            }
        }
    }

    fn next_job(&mut self) -> Option<Job<M::Buffer>> {
        if let Some(&(unit, from)) = self.loads.front() {
            let row = (from / self.shape.row_bytes()) as u32;
            // The row is resumed with bytes that its queued heals make right.
            let heals = |mending: &Mending| self.is_of_row(mending, unit, row);
            if let Some(first) = self.mendings.iter().position(heals) {
                return self.mendings.remove(first).map(|mending| self.mend(mending));
            }
            self.loads.pop_front();
            return Some(Job::new(unit, row..row + 1, Work::Load { from }));
        }
        if let Some(mending) = self.mendings.pop_front() {
            return Some(self.mend(mending));
        }
        if let Some((unit, row, member)) = self.next_to_settle() {
            return Some(Job::new(
                unit,
                row..row + 1,
                Work::Settle { member, verified: 0..0, heal: None },
            ));
        }
        let (unit, member, strip) = self.next_to_fill()?;
        Some(Job::new(unit, self.rows_on(&strip), Work::Fill { member, strip }))
    }

    /// Whether a part of a heal is of a row.
    fn is_of_row(&self, mending: &Mending, unit: u32, row: u32) -> bool {
        match mending {
            Mending::Row { unit: of, row: is, .. } => (*of, *is) == (unit, row),
            Mending::Strips { unit: of, strips, .. } => {
                *of == unit && self.rows_on(&strips[0].1).contains(&row)
            }
        }
    }

    fn mend(&self, mending: Mending) -> Job<M::Buffer> {
        match mending {
            Mending::Row { unit, row, member, verified, heal } => {
                Job::new(unit, row..row + 1, Work::Settle { member, verified, heal: Some(heal) })
            }
            Mending::Strips { unit, strips, heal } => {
                // All strips are in one row.
                let rows = self.rows_on(&strips[0].1);
                Job::new(unit, rows, Work::Mend { strips, heal })
            }
        }
    }

    /// Whether a member may be filled now.
    pub(super) fn may_fill(&self) -> bool {
        let filling = self.filling().is_some_and(|member| self.is_live(member));
        let stopped = self.rebuild.is_stopped();
        filling && !stopped && !self.closing && self.is_active() && self.relabel.is_none()
    }

    fn next_to_fill(&mut self) -> Option<(u32, usize, Range<u64>)> {
        let member = self.filling().filter(|_| self.may_fill())?;
        if self.rebuild.wants_label(&self.shape) {
            self.stale = true;
            if self.rebuild.is_over(&self.shape) {
                if self.shape.level.overlaps() || bugs::has(ArrayBug::FilledIsAlone) {
                    self.is_filled(member);
                }
                return None;
            }
        }
        if self.rebuild.pace.not_before() > self.now {
            return None;
        }
        let (unit, strip) = self.rebuild.next(&self.shape, self.now)?;
        self.rebuild.pace.spend(strip.end - strip.start, self.now);
        Some((unit, member, strip))
    }

    /// Marks a filled member as current.
    pub(super) fn is_filled(&mut self, member: usize) {
        self.members[member].standing = MemberState::Current;
        self.say(ArrayNotice::AllCurrent);
    }

    fn load(&mut self, unit: u32, row: u32, from: u64) {
        let start = u64::from(row) * self.shape.row_bytes();
        let into = self.room(from - start);
        self.job.as_mut().expect("a job is under way").data = Some(into.clone());
        self.begin_reading(Then::Job, unit, start, into, How::AsRead);
    }

    fn read_row(&mut self, unit: u32, row: u32, member: usize) {
        let (start, bytes) = (u64::from(row) * self.shape.row_bytes(), self.shape.row_len(row));
        let (data, parity) = (self.room(bytes), self.room(self.shape.piece_len(bytes, 0)));
        let job = self.job.as_mut().expect("a job is under way");
        (job.data, job.parity, job.waits) = (Some(data.clone()), Some(parity.clone()), 2);
        let at = Bytes(self.shape.piece_start(unit, row));
        let version = Version::AS_READ;
        self.hand(member, What::Job, Command::Read { at, into: parity, version });
        // The parity is in doubt, so an unreadable piece cannot be computed and compared.
        self.begin_reading(Then::Job, unit, start, data, How::Direct);
    }

    pub(super) fn job_has_read(&mut self, result: Result<(), Fault>) {
        let job = self.job.as_mut().expect("a job is under way");
        job.fault = job.fault.or(result.err());
        match job.work {
            Work::Load { .. } => self.loaded(),
            Work::Settle { .. } => self.row_has_been_read(),
            Work::Mend { .. } | Work::Fill { .. } => unreachable!("computed bytes are gathered"),
        }
    }

    pub(super) fn job_done(&mut self, member: usize, result: Result<(), Fault>) {
        let job = self.job.as_mut().expect("a job is under way");
        if job.step == Step::Read {
            job.fault = job.fault.or(result.err());
            if let Err(fault) = result {
                self.note_gone(member, fault);
            }
            return self.row_has_been_read();
        }
        job.waits -= 1;
        let over = job.waits == 0;
        self.members[member].unflushed = true;
        if let Err(fault) = result {
            job.fault = Some(fault);
            job.computed.retain(|(other, ..)| *other != member);
            if self.can_do_without(member) {
                self.fail(member, fault);
            }
        }
        if over {
            let fault = self.job.as_ref().and_then(|job| job.fault);
            self.written_by_job(fault.map_or(Ok(()), Err));
        }
    }

    /// Why the job cannot go on with what it has read, if it cannot; `None` while it reads again. The buffers get the
    /// bytes that can be relied on.
    fn fault_of_reads(&mut self, read: &[&M::Buffer]) -> Option<Option<Fault>> {
        let fault = self.job.as_ref().expect("a job is under way").fault;
        let bytes = |buffer: &&M::Buffer| fault.is_none().then(|| M::read(buffer, <[u8]>::to_vec));
        let sure = self.agrees(read.iter().map(bytes).collect())?;
        for (buffer, bytes) in read.iter().zip(sure) {
            let Some(bytes) = bytes else { return Some(fault.or(Some(DeviceError::Io.into()))) };
            M::write(buffer, |buffer| buffer.copy_from_slice(&bytes));
        }
        Some(None)
    }

    /// Those of the bytes read by the job that can be relied on; `None` while the job reads again. A member may give
    /// wrong bytes once, or fail once. A wrong parity or log would follow, and no check of the user covers them. So two
    /// reads in a row must agree. The bytes of a fill are checked when they are used.
    fn agrees(&mut self, read: Vec<Option<Vec<u8>>>) -> Option<Vec<Option<Vec<u8>>>> {
        let job = self.job.as_mut().expect("a job is under way");
        let fills = matches!(job.work, Work::Fill { .. }) || bugs::has(ArrayBug::ReadOnce);
        let gone = job.fault.is_some_and(|fault| fault.error == DeviceError::Gone);
        job.reads += 1;
        job.failed += u8::from(read.contains(&None));
        job.known.resize(read.len(), (None, false));
        for ((known, sure), bytes) in job.known.iter_mut().zip(read) {
            if bytes.is_some() && !*sure {
                *sure = fills || *known == bytes;
                *known = bytes;
            }
        }
        let all = job.known.iter().all(|(_, sure)| *sure);
        if all || fills || gone || job.reads >= READS || job.failed >= FAILS {
            let known = std::mem::take(&mut job.known).into_iter();
            return Some(known.map(|(bytes, sure)| bytes.filter(|_| sure)).collect());
        }
        (job.fault, job.step) = (None, Step::Wait);
        self.start_job();
        None
    }

    /// Resumes a row: the bytes before the next write have been read.
    fn loaded(&mut self) {
        let job = self.job.as_ref().expect("a job is under way");
        let data = job.data.clone().expect("the job has read data");
        let Some(fault) = self.fault_of_reads(&[&data]) else { return };
        let job = self.job.as_ref().expect("a job is under way");
        let (unit, row) = (job.unit, job.rows.start);
        self.lay_log_over(unit, row, &data);
        match fault {
            Some(fault) => self.cannot_go_on(unit, fault),
            None => {
                let mut image = Image::new(&self.shape);
                image.take::<M>(&data);
                let parity =
                    self.shape.parity_of(unit, row).expect("only rows with parity are loaded");
                let guard = self.is_live(parity) && !bugs::has(ArrayBug::WrittenOnUnlogged);
                let (logged, touched) = (0, self.time);
                self.fronts.insert(unit, Front { row, image, logged, guard, touched });
                self.wants_round |= guard;
            }
        }
        self.end_job();
    }

    /// Fails the waiting writes of a unit whose row cannot be resumed.
    pub(super) fn cannot_go_on(&mut self, unit: u32, fault: Fault) {
        let waits = std::mem::take(&mut self.held);
        for (token, command) in waits {
            match command {
                Command::Write { at, .. } if self.place(at).0 == unit => {
                    self.answers.give(token, Err(fault));
                }
                command => self.held.push_back((token, command)),
            }
        }
    }

    fn row_has_been_read(&mut self) {
        let job = self.job.as_mut().expect("a job is under way");
        job.waits -= 1;
        if job.waits > 0 {
            return;
        }
        let (data, parity) = (job.data.take().expect("room"), job.parity.take().expect("room"));
        let Some(fault) = self.fault_of_reads(&[&data, &parity]) else { return };
        if let Some(fault) = fault {
            return self.written_by_job(Err(fault));
        }
        let job = self.job.as_ref().expect("a job is under way");
        let Work::Settle { member, ref verified, heal } = job.work else {
            unreachable!("only a settle job reads parity")
        };
        let verified = verified.clone();
        let (unit, row) = (job.unit, job.rows.start);
        let is_older = self.drop_older_log(unit, row, &verified, &data);
        if heal.is_some() && self.differs_behind(unit, row, &verified, &data) {
            return self.let_be(Ok(()));
        }
        // A member's bytes differ from the log: a later heal of the row needs the log again.
        let heeded = !is_older && !bugs::has(ArrayBug::LogNotHeeded);
        let logged = self.left.get(&(unit, row)).map_or(0, Image::filled);
        let keeps_log = heeded && self.lay_log_over(unit, row, &data) && heal.is_some();
        self.job.as_mut().expect("a job is under way").keeps_log = keeps_log;
        if heal.is_some() && !keeps_log {
            self.left.remove(&(unit, row));
        }
        let mut right = vec![0; M::len(&parity)];
        let piece = self.shape.piece as usize;
        M::read(&data, |data| data.chunks(piece).for_each(|one| exclusive_or(&mut right, one)));
        if heal.is_some() && !bugs::has(ArrayBug::UnverifiedBelieved) {
            let unverified = if heeded { logged } else { 0 }..verified.start;
            M::read(&parity, |parity| {
                columns(unverified, piece).for_each(|at| right[at] = parity[at]);
            });
        }
        if M::read(&parity, |parity| *parity == *right) {
            return self.written_by_job(Ok(()));
        }
        self.status.rows_healed += u64::from(heal.is_some());
        if heal.is_some() && bugs::has(ArrayBug::ParityNotHealed) {
            return self.written_by_job(Ok(()));
        }
        let job = self.job.as_mut().expect("a job is under way");
        (job.step, job.waits) = (Step::Write, 1);
        let at = Bytes(self.shape.piece_start(unit, row));
        M::write(&parity, |parity| parity.copy_from_slice(&right));
        let (parts, class) = (vec![parity], Class(0));
        self.hand(member, What::Job, Command::Write { at, parts, class });
    }

    /// Overwrites the bytes read of a row with the logged bytes. Returns whether the two differed.
    fn lay_log_over(&self, unit: u32, row: u32, data: &M::Buffer) -> bool {
        let Some(image) = self.left.get(&(unit, row)) else { return false };
        M::write(data, |data| {
            let mut logged = vec![0; (image.filled() as usize).min(data.len())];
            image.read(0, &mut logged);
            let differs = !data.starts_with(&logged);
            data[..logged.len()].copy_from_slice(&logged);
            differs
        })
    }

    /// Drops a row from the log if the log differs from the `verified` bytes: the log is of an earlier life. Returns
    /// whether the row was dropped. For unverified bytes the log takes precedence, as a member may hold them wrong.
    fn drop_older_log(
        &mut self,
        unit: u32,
        row: u32,
        verified: &Range<u64>,
        data: &M::Buffer,
    ) -> bool {
        let Some(image) = self.left.get(&(unit, row)) else { return false };
        let known = image.filled().min(M::len(data) as u64);
        let (from, end) = (verified.start.min(known), verified.end.min(known));
        let mut logged = vec![0; (end - from) as usize];
        image.read(from, &mut logged);
        let same = M::read(data, |data| data[from as usize..end as usize] == *logged);
        if same || bugs::has(ArrayBug::OldLogKept) {
            return false;
        }
        self.left.remove(&(unit, row));
        self.journals.iter_mut().for_each(|journal| journal.forget_row(unit, row));
        true
    }

    /// Whether the log covers all `verified` bytes of a row, and differs from the members behind them. Parity of the
    /// logged bytes would give wrong bytes for a missing member. Parity of the members' bytes would lose the logged
    /// bytes. So the row stays in the log.
    fn differs_behind(&self, unit: u32, row: u32, verified: &Range<u64>, data: &M::Buffer) -> bool {
        let Some(image) = self.left.get(&(unit, row)) else { return false };
        let known = image.filled().min(M::len(data) as u64);
        if verified.end > known {
            return false;
        }
        let mut logged = vec![0; (known - verified.end) as usize];
        image.read(verified.end, &mut logged);
        M::read(data, |data| data[verified.end as usize..known as usize] != *logged)
    }

    pub(super) fn job_gathered(&mut self, index: usize, result: Result<Vec<u8>, Fault>) {
        let job = self.job.as_mut().expect("a job is under way");
        match result {
            Ok(bytes) => job.computed[index].2 = Some(bytes),
            Err(fault) => job.fault = Some(fault),
        }
        job.waits -= 1;
        if job.waits == 0 {
            self.write_computed();
        }
    }

    /// Writes computed bytes to members that are still live.
    fn write_computed(&mut self) {
        let job = self.job.as_ref().expect("a job is under way");
        let read = job.computed.iter().map(|(.., bytes)| bytes.clone()).collect();
        let Some(sure) = self.agrees(read) else { return };
        let job = self.job.as_mut().expect("a job is under way");
        if !sure.contains(&None) {
            job.fault = None;
        }
        job.computed.iter_mut().zip(sure).for_each(|((.., bytes), sure)| *bytes = sure);
        job.computed.retain(|(.., bytes)| bytes.is_some());
        let all = job.computed.len();
        job.computed.retain(|(member, ..)| self.members[*member].labelled);
        if job.computed.len() < all {
            job.fault = Some(DeviceError::Gone.into());
        }
        if job.computed.is_empty() {
            let fault = job.fault.unwrap_or(DeviceError::Io.into());
            return if all > 0 { self.let_be(Err(fault)) } else { self.written_by_job(Err(fault)) };
        }
        (job.step, job.waits) = (Step::Write, job.computed.len());
        let start = self.shape.unit_start(job.unit);
        let writes = job.computed.iter_mut().map(|(member, strip, bytes)| {
            let bytes = bytes.take().expect("it was computed");
            let parts = vec![self.memory.holding(&bytes)];
            (*member, Command::Write { at: Bytes(start + strip.start), parts, class: Class(0) })
        });
        for (member, write) in writes.collect::<Vec<_>>() {
            self.hand(member, What::Job, write);
        }
    }

    /// Ends a job without a write.
    fn let_be(&mut self, result: Result<(), Fault>) {
        let job = self.job.as_ref().expect("a job is under way");
        let (row, work) = ((job.unit, job.rows.start), job.work.clone());
        if matches!(work, Work::Settle { .. }) {
            self.unsettled.remove(&row);
        }
        if let Work::Settle { heal: Some(heal), .. } | Work::Mend { heal, .. } = work {
            self.mended(heal, result);
        }
        self.end_job();
    }

    /// The write of a job has ended, or the job failed before.
    fn written_by_job(&mut self, result: Result<(), Fault>) {
        let job = self.job.as_mut().expect("a job is under way");
        let (unit, row, keeps_log) = (job.unit, job.rows.start, job.keeps_log);
        let healed = std::mem::take(&mut job.computed);
        match (job.work.clone(), result) {
            (Work::Settle { heal, .. }, result) => {
                self.unsettled.remove(&(unit, row));
                match result {
                    Ok(()) if keeps_log => {}
                    Ok(()) => self.full.push((unit, row)),
                    Err(fault) => self.say(ArrayNotice::NotCompared { fault }),
                }
                if let Some(heal) = heal {
                    self.mended(heal, result);
                }
            }
            (Work::Mend { heal, .. }, result) => {
                for (member, strip, _) in healed {
                    self.count_healed(heal, unit, member, &strip);
                }
                self.mended(heal, result);
            }
            (Work::Fill { member, strip }, result) => self.filled(member, &strip, result),
            (Work::Load { .. }, _) => {}
        }
        self.end_job();
    }

    /// Counts a part of the member being filled as written, or handles its error. Of many places without data, only
    /// some are reported.
    fn filled(&mut self, member: usize, strip: &Range<u64>, result: Result<(), Fault>) {
        if self.members[member].standing != MemberState::Filling {
            return;
        }
        let bytes = strip.end - strip.start;
        if let Err(fault) = result {
            if fault.error == DeviceError::Gone {
                return self.rebuild.stop();
            }
            if self.rebuild.cut(strip) {
                return;
            }
            let places = self.rebuild.failed(bytes, &self.shape, self.now);
            if places <= TOLD || places.is_power_of_two() {
                self.say(ArrayNotice::NotFilled { member, bytes, fault, places });
            }
            return;
        }
        self.rebuild.computed(bytes, &self.shape);
    }

    fn end_job(&mut self) {
        let postponed = self.job.take().map(|job| job.postponed).unwrap_or_default();
        for (segment, fault) in postponed {
            self.compute_segment(segment, fault);
        }
        self.release();
    }
}

/// The offsets in a piece of the row bytes `bytes`.
fn columns(bytes: Range<u64>, piece: usize) -> impl Iterator<Item = usize> {
    let end = bytes.end.min(bytes.start.saturating_add(piece as u64));
    (bytes.start..end).map(move |byte| byte as usize % piece)
}

impl<B> Job<B> {
    fn new(unit: u32, rows: Range<u32>, work: Work) -> Job<B> {
        Job {
            unit,
            rows,
            work,
            step: Step::Wait,
            data: None,
            parity: None,
            computed: Vec::new(),
            reads: 0,
            failed: 0,
            known: Vec::new(),
            waits: 0,
            fault: None,
            keeps_log: false,
            postponed: Vec::new(),
        }
    }

    /// Whether the job computes bytes of members and writes them.
    fn computes(&self) -> bool {
        matches!(self.work, Work::Mend { .. } | Work::Fill { .. })
    }
}
