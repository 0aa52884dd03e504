//! Labels of a group: written to all members that count, and flushed.

use thermocline_format::{RaidLabel, RaidShape};
use thermocline_types::{Bytes, Class, DeviceId};

use super::{Array, What};
use crate::bugs::{self, ArrayBug};
use crate::{Command, Fault, MemberState, Memory};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// What a member was filled with is flushed first: the label says that it has it.
    Before,
    Write,
    Flush,
}

/// A label on its way to the members.
#[derive(Debug)]
pub(super) struct Relabel {
    members: Vec<usize>,
    step: Step,
    waits: usize,
    faults: Vec<(usize, Fault)>,
}

impl<M: Memory> Array<M> {
    /// Begins to write what is so, if the newest label says something else and none is being written.
    pub(super) fn begin_label(&mut self) {
        if !self.stale || self.relabel.is_some() || self.answers.broken().is_some() {
            return;
        }
        self.stale = false;
        let before = self.label.clone();
        let filling_before = before.filling;
        let is = |member: &usize, standing| self.members[*member].standing == standing;
        let all = 0..self.members.len();
        let complete = self.complete();
        let current = all.clone().filter(|one| is(one, MemberState::Current));
        let current = current.chain(complete).fold(0, |mask, member| mask | 1 << member);
        let filling = self.filling().filter(|_| complete.is_none()).map(|member| member as u8);
        let filled = filling.map_or(0, |_| self.rebuild.saved());
        let (event, open) = (before.event + 1, !self.settled && (self.opened || before.open));
        let floor = if self.all_have { before.event } else { before.floor };
        let announced = !self.opened;
        let new = RaidLabel { event, floor, current, filling, filled, open, announced, ..before };
        self.label = new;
        self.all_have = false;
        let members: Vec<usize> = all.filter(|one| !is(one, MemberState::Out)).collect();
        let (step, waits, faults) = (Step::Before, 0, Vec::new());
        self.relabel = Some(Relabel { members, step, waits, faults });
        if !bugs::has(ArrayBug::LabelBeforeFlush) {
            let new = |member: &usize| filling_before == Some(*member as u8);
            let new = (0..self.members.len()).filter(new).filter(|&one| self.is_live(one));
            new.collect::<Vec<_>>().into_iter().for_each(|member| self.flush_label(member));
        }
        self.go_on_with_label();
    }

    fn flush_label(&mut self, member: usize) {
        self.relabel.as_mut().expect("it is being written").waits += 1;
        self.hand(member, What::Label, Command::Flush(DeviceId(0)));
    }

    fn write_label(&mut self, member: usize) {
        self.relabel.as_mut().expect("it is being written").waits += 1;
        let label = RaidLabel { member: member as u8, ..self.label.clone() };
        let at = Bytes(RaidShape::label_place(1 - self.members[member].place));
        let parts = vec![self.memory.holding(&label.encode())];
        self.hand(member, What::Label, Command::Write { at, parts, class: Class(0) });
    }

    fn go_on_with_label(&mut self) {
        let Some(relabel) = self.relabel.as_mut().filter(|relabel| relabel.waits == 0) else {
            return;
        };
        let (step, faults) = (relabel.step, std::mem::take(&mut relabel.faults));
        if !faults.is_empty() {
            return self.label_failed(&faults);
        }
        let mut members = relabel.members.clone();
        members.retain(|&member| self.members[member].standing != MemberState::Out);
        match step {
            Step::Before => {
                relabel.step = Step::Write;
                members.into_iter().for_each(|member| self.write_label(member));
            }
            Step::Write => {
                relabel.step = Step::Flush;
                members.into_iter().for_each(|member| self.flush_label(member));
            }
            Step::Flush => self.labelled(&members),
        }
    }

    pub(super) fn label_done(&mut self, member: usize, result: Result<(), Fault>) {
        let Some(relabel) = &mut self.relabel else { return };
        relabel.waits -= 1;
        if let Err(fault) = result {
            relabel.faults.push((member, fault));
        }
        self.go_on_with_label();
    }

    /// One that takes no labels is done without; what failed has made another label necessary.
    fn label_failed(&mut self, faults: &[(usize, Fault)]) {
        self.relabel = None;
        self.stale = true;
        for &(member, fault) in faults {
            if self.members[member].standing == MemberState::Out {
                continue;
            }
            if !self.can_do_without(member) {
                self.lament(member, fault);
                return self.give_up(fault);
            }
            self.fail(member, fault);
        }
    }

    /// The member that is being filled, if it has all units. In a mirror the filled member counts only when a durable
    /// label of the other member names it: that label calls its own member the only complete one until then.
    fn complete(&self) -> Option<usize> {
        self.filling().filter(|&one| self.is_live(one) && self.rebuild.is_over(&self.shape))
    }

    /// All have the label.
    fn labelled(&mut self, members: &[usize]) {
        self.relabel = None;
        for &member in members {
            let one = &mut self.members[member];
            (one.labelled, one.place) = (true, 1 - one.place);
        }
        self.all_have = true;
        if let Some(member) = self.complete().filter(|&member| self.label.is_current(member)) {
            self.is_filled(member);
        }
        if !self.stale {
            self.answers.release();
        }
    }
}
