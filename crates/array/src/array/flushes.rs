//! Flushes, in one round at a time: first the log takes the partial rows, then all members are flushed.
//!
//! The log may hold more of a row than a flush covers. So a round waits for all writes submitted before it; after them
//! the log is true. Until the new head is durable, the previous head stays valid: a round overwrites no slot named
//! there.

use thermocline_types::{Bytes, Class, DeviceId};

use super::{Array, Front, RaidShape, What};
use crate::bugs::{self, ArrayBug};
use crate::{Command, Fault, Memory, Token};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The round waits for earlier writes, and for the log.
    Logging,
    Flushing,
}

/// A round of flushes.
#[derive(Debug)]
pub(super) struct Round {
    tokens: Vec<Token>,
    stage: Stage,
    waits: usize,
    /// Whether an awaited write failed. The log then holds too much of its row, and is written again.
    redo: bool,
    faults: Vec<(usize, Fault)>,
    /// The result of the round: its first error.
    result: Result<(), Fault>,
    /// Full rows that leave the log if the round succeeds.
    pub(super) freed: Vec<(u32, u32)>,
    /// Units whose guard ends with the round.
    guarded: Vec<u32>,
}

impl Round {
    pub(super) fn of(tokens: Vec<Token>) -> Round {
        let (stage, redo, faults, guarded) = (Stage::Logging, false, Vec::new(), Vec::new());
        let (waits, result, freed) = (0, Ok(()), Vec::new());
        Round { tokens, stage, waits, redo, faults, result, freed, guarded }
    }

    /// Keeps rows in the log if `which` is true of them: their data changed.
    pub(super) fn forget(&mut self, which: impl Fn(u32, u32) -> bool) {
        self.freed.retain(|&(unit, row)| !which(unit, row));
    }
}

/// A partial row with bytes that the log lacks.
struct ToLog {
    unit: u32,
    row: u32,
    member: usize,
    guard: bool,
}

impl<M: Memory> Array<M> {
    /// Begins a round if one is due, or continues the round under way.
    pub(super) fn begin_round(&mut self) {
        if self.round.is_some() {
            return self.go_on_with_round();
        }
        if self.flushes.is_empty() && !self.wants_round {
            return;
        }
        if !self.is_active() {
            return self.begin_passive_round();
        }
        if !self.loads.is_empty() || self.is_loading() {
            return;
        }
        self.wants_round = false;
        if let Some(fault) = self.answers.broken() {
            let failed = std::mem::take(&mut self.flushes).into_iter();
            return failed.for_each(|token| self.answers.give_now(token, Err(fault)));
        }
        let (tokens, freed) = (std::mem::take(&mut self.flushes), std::mem::take(&mut self.full));
        self.round = Some(Round { freed, ..Round::of(tokens) });
        if bugs::has(ArrayBug::SlotUsedAgain) {
            self.free_rows();
        }
        self.await_changes();
        self.log_rows();
        self.go_on_with_round();
    }

    /// Flushes the members only: no command has changed data yet.
    fn begin_passive_round(&mut self) {
        let tokens = std::mem::take(&mut self.flushes);
        self.round = Some(Round { stage: Stage::Flushing, ..Round::of(tokens) });
        self.flush_members();
        self.go_on_with_round();
    }

    fn await_changes(&mut self) {
        let Some(round) = &mut self.round else { return };
        if bugs::has(ArrayBug::LogAheadOfData) {
            return;
        }
        for (_, change) in &mut self.changes {
            change.in_round = true;
            round.waits += 1;
        }
    }

    /// Writes the missing bytes of partial rows to the log.
    fn log_rows(&mut self) {
        if !self.shape.level.has_log() {
            return;
        }
        let mut all = Vec::new();
        for (&unit, front) in &self.fronts {
            let Some(member) = self.shape.parity_of(unit, front.row) else { continue };
            let entry = self.journals[member].entry(unit, front.row);
            let has = entry.filter(|_| front.logged > 0).map(|entry| u64::from(entry.filled));
            if has != Some(front.image.filled()) && self.is_live(member) {
                all.push(ToLog { unit, row: front.row, member, guard: front.guard });
            }
        }
        for row in all {
            self.log_row(&row);
        }
        for member in self.live().collect::<Vec<_>>() {
            if let Some((head, place)) = self.journals[member].head(&self.label, member) {
                let bytes = self.memory.holding(&head.encode(&self.shape));
                self.hand_round(member, RaidShape::log_place(place), bytes);
            }
        }
    }

    fn log_row(&mut self, to_log: &ToLog) {
        let ToLog { unit, row, member, guard } = *to_log;
        let front = &self.fronts[&unit];
        let (logged, filled) = (front.logged, front.image.filled());
        if bugs::has(ArrayBug::PartialInPlace) {
            return self.log_in_place(unit, row, member);
        }
        let crcs = front.image.crcs();
        let slot = self.journals[member].put((unit, row), filled as u32, crcs, logged == 0);
        let Some(slot) = slot else { return self.do_without_slot(to_log) };
        if logged < filled {
            let bytes = front.image.running(&self.memory, logged..filled);
            self.hand_round(member, self.shape.slot(slot) + logged, bytes);
        }
        let front = self.fronts.get_mut(&unit).expect("the row is partial");
        front.logged = filled;
        if guard {
            self.round.as_mut().expect("a round is under way").guarded.push(unit);
        }
    }

    /// The log is full. Without a guard, the row is padded to its end. A guarded row still depends on the parity on
    /// media: another logged row is padded to free its slot.
    fn do_without_slot(&mut self, to_log: &ToLog) {
        let ToLog { unit, member, guard, .. } = *to_log;
        let shape = self.shape;
        let same = |(other, front): &(&u32, &Front)| {
            shape.parity_of(**other, front.row) == Some(member) && !front.guard && front.logged > 0
        };
        let oldest = self.fronts.iter().filter(same).min_by_key(|(_, front)| front.touched);
        let other = oldest.map(|(&other, _)| other);
        let ends = if guard { other } else { Some(unit) };
        // When the padded row is full, or a leaving slot is free, the next round has room.
        self.wants_round |= guard;
        let Some(ends) = ends.filter(|&unit| !self.is_locked(unit, &(0..shape.rows()))) else {
            self.round.as_mut().expect("a round is under way").redo |= !guard;
            return;
        };
        if let Some(key) = self.pad(None, ends) {
            self.changes[key].in_round = true;
            self.round.as_mut().expect("a round is under way").waits += 1;
        }
    }

    fn log_in_place(&mut self, unit: u32, row: u32, member: usize) {
        let front = self.fronts.get_mut(&unit).expect("the row is partial");
        let mut parity = vec![0; self.shape.piece_len(front.image.filled(), 0) as usize];
        front.image.parity(&mut parity);
        (front.logged, front.guard) = (front.image.filled(), false);
        let at = self.shape.piece_start(unit, row);
        let bytes = self.memory.holding(&parity);
        self.hand_round(member, at, bytes);
    }

    fn hand_round(&mut self, member: usize, at: u64, bytes: M::Buffer) {
        let command = Command::Write { at: Bytes(at), parts: vec![bytes], class: Class(0) };
        self.round.as_mut().expect("a round is under way").waits += 1;
        self.hand(member, What::Round, command);
    }

    /// An awaited write of the round has ended.
    pub(super) fn round_has(&mut self, failed: bool) {
        let round = self.round.as_mut().expect("a round is under way");
        round.waits -= 1;
        round.redo |= failed;
    }

    pub(super) fn round_done(&mut self, member: usize, result: Result<(), Fault>) {
        let round = self.round.as_mut().expect("a round is under way");
        round.waits -= 1;
        if let Err(fault) = result {
            round.faults.push((member, fault));
        }
        if round.stage == Stage::Logging {
            self.members[member].unflushed = true;
        }
    }

    /// Continues the round, if no command of the round is under way.
    fn go_on_with_round(&mut self) {
        let Some(round) = self.round.as_mut().filter(|round| round.waits == 0) else { return };
        let faults = std::mem::take(&mut round.faults);
        let result = self.outcome(faults);
        let is_loading = !self.loads.is_empty() || self.is_loading();
        let Some(round) = &mut self.round else { return };
        round.result = round.result.and(result);
        match round.stage {
            Stage::Logging if round.redo => {
                if !is_loading {
                    round.redo = false;
                    self.log_rows();
                }
            }
            Stage::Logging if round.result.is_ok() => {
                round.stage = Stage::Flushing;
                self.flush_members();
            }
            _ => return self.end_round(),
        }
        if self.round.as_ref().is_some_and(|round| round.waits == 0 && !round.redo) {
            self.go_on_with_round();
        }
    }

    fn flush_members(&mut self) {
        for member in self.live().collect::<Vec<_>>() {
            let logged = self.journals[member].is_coming();
            let behind = self.shape.level.copies() && self.live().next() != Some(member);
            if bugs::has(ArrayBug::ParityNotFlushed) && logged
                || bugs::has(ArrayBug::FlushOfOne) && behind
            {
                continue;
            }
            if std::mem::take(&mut self.members[member].unflushed) {
                self.round.as_mut().expect("a round is under way").waits += 1;
                self.hand(member, What::Round, Command::Flush(DeviceId(0)));
            }
        }
    }

    /// Removes full rows with durable parity from the log.
    fn free_rows(&mut self) {
        let Some(round) = &mut self.round else { return };
        for (unit, row) in std::mem::take(&mut round.freed) {
            self.left.remove(&(unit, row));
            if self.fronts.get(&unit).is_none_or(|front| front.row != row) {
                let it = |other, of| (other, of) == (unit, row);
                self.journals.iter_mut().for_each(|journal| journal.release(it));
            }
        }
    }

    fn end_round(&mut self) {
        let result = self.round.as_ref().expect("a round is under way").result;
        if result.is_ok() {
            self.free_rows();
            self.journals.iter_mut().for_each(super::Journal::flushed);
        }
        let Round { tokens, guarded, freed, .. } = self.round.take().expect("a round is under way");
        self.full.extend(freed);
        match result {
            Ok(()) => self.unguard(guarded),
            Err(fault) => self.give_guarded_up(fault),
        }
        for token in tokens {
            self.answers.give(token, result);
        }
        self.release();
    }

    /// Ends the guard of these units: the log now holds the bytes before the next write.
    fn unguard(&mut self, units: Vec<u32>) {
        for unit in units {
            if let Some(front) = self.fronts.get_mut(&unit) {
                front.guard = false;
                self.left.remove(&(unit, front.row));
            }
        }
    }

    /// Fails the waiting writes of guarded units: the log cannot take their rows.
    fn give_guarded_up(&mut self, fault: Fault) {
        let guarded = self.fronts.iter().filter(|(_, front)| front.guard);
        for unit in guarded.map(|(&unit, _)| unit).collect::<Vec<_>>() {
            self.fronts.remove(&unit);
            self.cannot_go_on(unit, fault);
        }
    }
}
