//! Labels of a group: written to all members that are not out, and flushed.

use thermocline_format::{RaidLabel, RaidShape};
use thermocline_types::{Bytes, Class, DeviceId};

use super::{Array, What};
use crate::bugs::{self, ArrayBug};
use crate::{Command, Fault, MemberState, Memory};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Flush the member being filled first: the label will report its new units.
    Before,
    Write,
    Flush,
}

/// A label being written to the members.
#[derive(Debug)]
pub(super) struct Relabel {
    members: Vec<usize>,
    step: Step,
    waits: usize,
    faults: Vec<(usize, Fault)>,
}

impl<M: Memory> Array<M> {
    /// Begins to write a label, if the newest label is out of date and no label is being written.
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
        self.relabel.as_mut().expect("a label is being written").waits += 1;
        self.hand(member, What::Label, Command::Flush(DeviceId(0)));
    }

    fn write_label(&mut self, member: usize) {
        self.relabel.as_mut().expect("a label is being written").waits += 1;
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

    /// Drops the members that failed to take a label, so that a new label is due. Gives up if such a member is needed.
    fn label_failed(&mut self, faults: &[(usize, Fault)]) {
        self.relabel = None;
        self.stale = true;
        for &(member, fault) in faults {
            if self.members[member].standing == MemberState::Out {
                continue;
            }
            if !self.can_do_without(member) {
                self.report_fault(member, fault);
                return self.give_up(fault);
            }
            self.fail(member, fault);
        }
    }

    /// The member being filled, if it holds all units. In a mirror the filled member is current only when a durable
    /// label of the other member names it. Until then the other member's label calls that member the only complete one.
    fn complete(&self) -> Option<usize> {
        self.filling().filter(|&one| self.is_live(one) && self.rebuild.is_over(&self.shape))
    }

    /// All members hold the label durably.
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
