//! Changes of units: data is written at once, and parity when its row is full.

use std::collections::VecDeque;
use std::ops::Range;

use thermocline_format::Span;
use thermocline_types::{Class, DeviceError, UnitId};

use super::image::exclusive_or;
use super::{Array, Front, Image, What};
use crate::bugs::{self, ArrayBug};
use crate::{ByteCause, Command, Fault, Layout, Memory, Token};

/// A change under way, by its place in the slab.
pub(super) type ChangeKey = usize;

/// A write, reset or zeroing that members work on.
#[derive(Debug)]
pub(super) struct Change {
    /// The command to answer; `None` for padding by the array.
    token: Option<Token>,
    pub(super) unit: u32,
    pub(super) rows: Range<u32>,
    /// Of a write, its first byte in the unit.
    from: Option<u64>,
    /// The partial row completed by the write.
    pub(super) kept: Option<Front>,
    waits: usize,
    faults: Vec<(usize, Fault)>,
    /// Whether the round under way waits for this change.
    pub(super) in_round: bool,
}

/// The buffers of a write, taken from the front.
struct Supply<M: Memory>(VecDeque<M::Buffer>);

impl<M: Memory> Supply<M> {
    fn take(&mut self, mut bytes: u64) -> Vec<M::Buffer> {
        let mut taken = Vec::new();
        while bytes > 0 {
            let next = self.0.pop_front().expect("a write has the bytes of its spans");
            let length = M::len(&next);
            let now = (length as u64).min(bytes) as usize;
            if now < length {
                self.0.push_front(M::part(&next, now, length - now));
            }
            taken.push(M::part(&next, 0, now));
            bytes -= now as u64;
        }
        taken
    }
}

/// The parity of a row that is being written.
enum RowParity<B> {
    /// The write covers the whole row: the parity so far.
    Whole(B),
    /// Earlier or later writes cover parts of the row.
    Part(Front),
}

/// The bytes of a write for a member.
struct Share<B> {
    /// The first byte in its strip.
    from: u64,
    parts: Vec<B>,
    /// Bytes of parity among the parts.
    parity: u64,
}

/// The bytes for each member.
struct Shares<M: Memory>(Vec<Share<M::Buffer>>);

impl<M: Memory> Shares<M> {
    /// Adds bytes of a piece at `strip`. The bytes of a write are contiguous on each member: a piece of each row.
    fn add(&mut self, member: usize, strip: u64, parts: impl IntoIterator<Item = M::Buffer>) {
        let share = &mut self.0[member];
        if share.parts.is_empty() {
            share.from = strip;
        }
        let end = share.from + length::<M>(&share.parts);
        assert_eq!(end, strip, "the bytes of a write are contiguous on a member");
        share.parts.extend(parts);
    }

    /// Adds parity of a row, or a copy.
    fn add_parity(&mut self, member: usize, strip: u64, parts: Vec<M::Buffer>) {
        self.0[member].parity += length::<M>(&parts);
        self.add(member, strip, parts);
    }
}

/// Whether the array knows the row bytes before a write.
enum Position {
    /// Known, or the write begins a row.
    Known,
    /// Unknown: the array must read the bytes.
    Unknown,
    /// The write does not follow the last one of the unit. The array first pads the row of the earlier write.
    Elsewhere,
}

/// The unit of a command.
fn unit_of<B>(layout: &Layout, command: &Command<B>) -> u32 {
    match command {
        Command::Write { at, .. } | Command::Read { at, .. } => layout.unit_of(*at).0,
        Command::Reset(unit) | Command::Zero(unit) | Command::Finish(unit) => unit.0,
        Command::Heal(_) | Command::Distrust { .. } | Command::Flush(_) => {
            unreachable!("the command changes no unit")
        }
    }
}

impl<M: Memory> Array<M> {
    /// Begins a change, or queues the change behind its dependencies.
    pub(super) fn take(&mut self, token: Token, command: Command<M::Buffer>) {
        if let Some(fault) = self.answers.broken() {
            return self.answers.give_now(token, Err(fault));
        }
        let unit = unit_of(&self.layout, &command);
        if self.is_held_back(unit, &command) {
            return self.held.push_back((token, command));
        }
        match command {
            Command::Write { at, parts, class } => {
                let (_, from) = self.place(at);
                match self.position(unit, from) {
                    Position::Known => {
                        self.write(Some(token), unit, from, parts, class, ByteCause::Data);
                        return;
                    }
                    Position::Unknown => self.want_loaded(unit, from),
                    Position::Elsewhere => _ = self.pad(None, unit),
                }
                self.held.push_back((token, Command::Write { at, parts, class }));
            }
            Command::Finish(_) if self.fronts.contains_key(&unit) => {
                self.pad(Some(token), unit);
            }
            Command::Finish(_) => self.answers.give(token, Ok(())),
            command => self.empty(token, unit, &command),
        }
    }

    /// Tries the queued changes again.
    pub(super) fn release(&mut self) {
        for (token, command) in std::mem::take(&mut self.held) {
            self.take(token, command);
        }
    }

    fn is_held_back(&self, unit: u32, command: &Command<M::Buffer>) -> bool {
        let behind = self.held.iter().any(|(_, other)| unit_of(&self.layout, other) == unit);
        let guarded = self.fronts.get(&unit).is_some_and(|front| front.guard);
        behind || guarded || self.is_locked(unit, &self.rows_of(command))
    }

    fn rows_of(&self, command: &Command<M::Buffer>) -> Range<u32> {
        match command {
            Command::Write { at, parts, .. } => {
                let (_, from) = self.place(*at);
                self.rows(from, length::<M>(parts))
            }
            _ => 0..self.shape.rows(),
        }
    }

    /// The rows of `bytes` bytes from byte `from` of a unit on.
    pub(super) fn rows(&self, from: u64, bytes: u64) -> Range<u32> {
        let row = self.shape.row_bytes();
        (from / row) as u32..(from + bytes).div_ceil(row) as u32
    }

    /// Whether a change of these rows is under way.
    pub(super) fn is_changed(&self, unit: u32, rows: &Range<u32>) -> bool {
        let meets = |change: &Change| {
            change.unit == unit && change.rows.start < rows.end && rows.start < change.rows.end
        };
        self.changes.iter().any(|(_, change)| meets(change))
    }

    /// Whether a write at byte `from` of a unit can begin.
    fn position(&self, unit: u32, from: u64) -> Position {
        if !self.shape.level.has_log() {
            return Position::Known;
        }
        let row = self.shape.row_bytes();
        let end = |front: &Front| u64::from(front.row) * row + front.image.filled();
        match self.fronts.get(&unit) {
            Some(front) if end(front) == from => Position::Known,
            Some(_) => Position::Elsewhere,
            None if from.is_multiple_of(row) => Position::Known,
            None => Position::Unknown,
        }
    }

    /// Pads a partial row with zeros. Returns the change, unless the change is already complete.
    pub(super) fn pad(&mut self, token: Option<Token>, unit: u32) -> Option<ChangeKey> {
        let front = &self.fronts[&unit];
        let (start, filled) = (u64::from(front.row) * self.shape.row_bytes(), front.image.filled());
        let zeros = self.room(self.shape.row_len(front.row) - filled);
        M::write(&zeros, |zeros| zeros.fill(0));
        let parity = self.shape.parity_of(unit, front.row);
        let before = self.members.clone();
        if bugs::has(ArrayBug::ParityWithoutPadding) {
            let others = self.members.iter_mut().enumerate();
            let others = others.filter(|(member, _)| parity != Some(*member));
            others.for_each(|(_, member)| member.labelled = false);
        }
        let from = start + filled;
        let key = self.write(token, unit, from, vec![zeros], Class(0), ByteCause::Padding);
        if bugs::has(ArrayBug::ParityWithoutPadding) {
            for (member, before) in self.members.iter_mut().zip(before) {
                member.labelled = before.labelled;
            }
        }
        key
    }

    /// Writes to a unit at the end of its last write; `cause` is that of the bytes beside parity. Returns the change,
    /// unless the change is already complete.
    fn write(
        &mut self,
        token: Option<Token>,
        unit: u32,
        from: u64,
        parts: Vec<M::Buffer>,
        class: Class,
        cause: ByteCause,
    ) -> Option<ChangeKey> {
        let bytes = length::<M>(&parts);
        let share = |_| Share { from: 0, parts: Vec::new(), parity: 0 };
        let mut shares = Shares::<M>((0..self.members.len()).map(share).collect());
        let kept = self.share_out(unit, from, bytes, Supply(parts.into()), &mut shares);
        let rows = self.rows(from, bytes);
        rows.clone().for_each(|row| _ = self.unsettled.remove(&(unit, row)));
        let has = |&one: &usize| !shares.0[one].parts.is_empty();
        let live: Vec<usize> = self.live().filter(has).collect();
        let (waits, faults) = (live.len(), Vec::new());
        let from = Some(from);
        let change = Change { token, unit, rows, from, kept, waits, faults, in_round: false };
        let key = self.changes.insert(change);
        self.time += 1;
        for member in live {
            let share = &mut shares.0[member];
            let (parts, parity) = (std::mem::take(&mut share.parts), share.parity);
            let at = self.on_member(unit, share.from);
            self.written[member].add(ByteCause::Parity, parity);
            self.written[member].add(cause, length::<M>(&parts) - parity);
            self.hand(member, What::Change(key), Command::Write { at, parts, class });
        }
        if waits == 0 {
            // No member is written: memory holds the bytes until the log does.
            self.change_over(key);
        }
        (waits > 0).then_some(key)
    }

    /// Distributes a write over the members. Returns the partial row that the write completes.
    fn share_out(
        &mut self,
        unit: u32,
        from: u64,
        bytes: u64,
        mut supply: Supply<M>,
        shares: &mut Shares<M>,
    ) -> Option<Front> {
        let (shape, end) = (self.shape, from + bytes);
        let (mut parity, mut kept) = (None, None);
        for span in shape.spans(from, bytes) {
            let parts = supply.take(span.bytes);
            let row_start = u64::from(span.row) * shape.row_bytes();
            if parity.is_none() && shape.level.has_log() {
                parity =
                    Some(self.row_parity(unit, span, row_start + shape.row_len(span.row) <= end));
            }
            if let Some(parity) = &mut parity {
                add::<M>(parity, span, &parts);
            }
            let strip = u64::from(span.row) * u64::from(shape.piece);
            if shape.level.copies()
                && let Some(copy) = shape.parity_of(unit, span.row)
                && !bugs::has(ArrayBug::CopyNotWritten)
            {
                shares.add_parity(copy, strip + span.from, parts.clone());
            }
            let member = shape.member_of(unit, span.row, span.piece);
            shares.add(member, strip + span.from, parts);
            if row_start + shape.row_len(span.row) == from + span.before + span.bytes
                && let Some(parity) = parity.take()
            {
                let (parity, front) = self.finished(parity);
                kept = kept.or(front);
                let member = shape.parity_of(unit, span.row).expect("the level has parity");
                shares.add_parity(member, strip, vec![parity]);
            }
        }
        if let Some(RowParity::Part(front)) = parity {
            self.fronts.insert(unit, front);
        }
        kept
    }

    /// The parity of the row in which `span` begins. No earlier span of this write is in the row.
    fn row_parity(&mut self, unit: u32, span: Span, to_its_end: bool) -> RowParity<M::Buffer> {
        let (shape, begins) = (self.shape, span.piece == 0 && span.from == 0);
        let touched = self.time;
        if begins && self.left.remove(&(unit, span.row)).is_some() {
            // The row starts again, so its logged bytes are void. Otherwise the write would resume behind them.
            self.journals.iter_mut().for_each(|journal| journal.forget_row(unit, span.row));
        }
        if begins && to_its_end {
            return RowParity::Whole(self.room(shape.piece_len(shape.row_len(span.row), 0)));
        }
        let before = self.fronts.remove(&unit).filter(|front| !begins && front.row == span.row);
        let (row, image, logged) = (span.row, Image::new(&shape), 0);
        let front = before.unwrap_or(Front { row, image, logged, guard: false, touched });
        RowParity::Part(Front { touched, ..front })
    }

    /// The parity of a full row. Returns the partial row too, if an earlier write began the row.
    fn finished(&self, parity: RowParity<M::Buffer>) -> (M::Buffer, Option<Front>) {
        match parity {
            RowParity::Whole(parity) => (parity, None),
            RowParity::Part(front) => {
                let bytes = self.shape.piece_len(front.image.filled(), 0);
                let parity = self.room(bytes);
                if M::HAS_BYTES {
                    M::write(&parity, |parity| front.image.parity(parity));
                }
                (parity, Some(front))
            }
        }
    }

    /// Empties a unit. All its data becomes void.
    fn empty(&mut self, token: Token, unit: u32, command: &Command<M::Buffer>) {
        self.forget_unit(unit);
        if self.filling().is_some_and(|member| self.is_live(member)) {
            self.rebuild.emptied(unit);
        }
        let live: Vec<usize> = self.live().collect();
        let (waits, faults) = (live.len(), Vec::new());
        let rows = 0..self.shape.rows();
        let (token, from, kept, in_round) = (Some(token), None, None, false);
        let change = Change { token, unit, rows, from, kept, waits, faults, in_round };
        let key = self.changes.insert(change);
        for member in live {
            // The unit's number on a member, behind labels and log.
            let own = UnitId(self.shape.head_units() + unit);
            let command = match command {
                Command::Zero(_) => Command::Zero(own),
                _ => Command::Reset(own),
            };
            self.hand(member, What::Change(key), command);
        }
    }

    /// Forgets all rows of a unit.
    fn forget_unit(&mut self, unit: u32) {
        self.fronts.remove(&unit);
        self.failed_from.remove(&unit);
        self.loads.retain(|(other, _)| *other != unit);
        self.full.retain(|(other, _)| *other != unit);
        self.left.retain(|(other, _), _| *other != unit);
        self.unsettled.retain(|(other, _)| *other != unit);
        if let Some(round) = &mut self.round {
            round.forget(|other, _| other == unit);
        }
        if !bugs::has(ArrayBug::LogOutlivesReset) {
            self.journals.iter_mut().for_each(|journal| journal.forget(unit));
        }
    }

    pub(super) fn change_done(&mut self, key: ChangeKey, member: usize, result: Result<(), Fault>) {
        self.members[member].unflushed = true;
        let change = &mut self.changes[key];
        change.waits -= 1;
        if let Err(fault) = result {
            change.faults.push((member, fault));
        }
        if change.waits == 0 {
            self.change_over(key);
        }
    }

    fn change_over(&mut self, key: ChangeKey) {
        let Change { token, unit, from, kept, faults, in_round, .. } = self.changes.remove(key);
        let result = self.outcome(faults);
        match (result, from) {
            (Ok(()), Some(_)) => self.full.extend(kept.map(|front| (unit, front.row))),
            (Err(_), Some(from)) => self.take_back(unit, from, kept),
            (_, None) => {}
        }
        if in_round {
            self.round_has(result.is_err());
        }
        if let Some(token) = token {
            self.answers.give(token, result);
        }
    }

    /// The result of a command that all members have answered. If one member alone failed, the array drops the member
    /// and the command succeeds. Otherwise the command fails, as on a single device.
    pub(super) fn outcome(&mut self, faults: Vec<(usize, Fault)>) -> Result<(), Fault> {
        let mut faults: Vec<(usize, Fault)> = faults;
        faults.retain(|(member, _)| self.is_live(*member));
        faults.dedup_by_key(|(member, _)| *member);
        match faults[..] {
            [] => Ok(()),
            [(member, fault)] if self.can_do_without(member) => {
                self.fail(member, fault);
                Ok(())
            }
            [(_, fault), ..] => {
                let gone = faults.iter().find(|(_, fault)| fault.error == DeviceError::Gone);
                if let Some(&(member, fault)) = gone.filter(|(one, _)| self.can_do_without(*one)) {
                    self.fail(member, fault);
                }
                for (member, fault) in faults {
                    if !self.can_do_without(member) {
                        self.report_fault(member, fault);
                    }
                }
                Err(fault)
            }
        }
    }

    /// Handles a failed write. The data of the unit is void from the write on, and no write continues there.
    pub(super) fn take_back(&mut self, unit: u32, from: u64, kept: Option<Front>) {
        let failed_before = self.failed_from.get(&unit).is_some_and(|&before| before <= from);
        if failed_before || !self.shape.level.has_log() {
            return;
        }
        self.failed_from.insert(unit, from);
        let row_bytes = self.shape.row_bytes();
        let (row, filled) = ((from / row_bytes) as u32, from % row_bytes);
        let newest = self.fronts.remove(&unit);
        let on_its_way = self.changes.iter_mut().filter(|(_, change)| change.unit == unit);
        let all = on_its_way.filter_map(|(_, change)| change.kept.take());
        let all = kept.into_iter().chain(newest).chain(all);
        let front = all.filter(|front| front.row == row).last();
        self.full.retain(|(other, of)| *other != unit || *of < row);
        if let Some(round) = &mut self.round {
            round.forget(|other, of| other == unit && of >= row);
        }
        for journal in &mut self.journals {
            journal.release(|other, of| other == unit && (of > row || (of == row && filled == 0)));
        }
        match front {
            _ if filled == 0 => {}
            Some(mut front) => {
                front.image.truncate(filled);
                front.logged = front.logged.min(filled);
                self.fronts.insert(unit, front);
            }
            None => self.want_loaded(unit, from),
        }
    }

    /// Queues a read of the row bytes before byte `from` of a unit.
    fn want_loaded(&mut self, unit: u32, from: u64) {
        if self.loads.iter().all(|(other, _)| *other != unit) {
            self.loads.push_back((unit, from));
        }
    }
}

/// Adds written bytes to the parity of their row.
fn add<M: Memory>(parity: &mut RowParity<M::Buffer>, span: Span, parts: &[M::Buffer]) {
    match parity {
        RowParity::Part(front) => {
            parts.iter().for_each(|part| front.image.take::<M>(part));
        }
        RowParity::Whole(parity) if M::HAS_BYTES => {
            let mut at = span.from as usize;
            for part in parts {
                M::write(parity, |to| {
                    M::read(part, |from| {
                        let to = &mut to[at..at + from.len()];
                        match span.piece {
                            0 => to.copy_from_slice(from),
                            _ => exclusive_or(to, from),
                        }
                    });
                });
                at += M::len(part);
            }
        }
        RowParity::Whole(_) => {}
    }
}

/// Bytes of buffers.
pub(super) fn length<M: Memory>(parts: &[M::Buffer]) -> u64 {
    parts.iter().map(|part| M::len(part) as u64).sum()
}
