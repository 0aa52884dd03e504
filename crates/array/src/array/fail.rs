//! Members that fail: with parity, the array drops one member and goes on.

use crate::bugs::{self, ArrayBug};
use thermocline_types::{DeviceError, Version};

use super::{Array, Journal};
use crate::{ArrayNotice, Fault, MemberState, Memory, Token};

impl<M: Memory> Array<M> {
    /// Whether all other members are current, so that the member can be dropped.
    pub(super) fn can_do_without(&self, member: usize) -> bool {
        let others = self.members.iter().enumerate().filter(|(other, _)| *other != member);
        let whole = others.into_iter().all(|(_, other)| other.standing == MemberState::Current);
        let there = self.members[member].standing != MemberState::Out;
        there && whole && self.shape.level.parity() > 0
    }

    /// Drops a member, for which [`Array::can_do_without`] is true.
    pub(super) fn fail(&mut self, member: usize, fault: Fault) {
        let one = &mut self.members[member];
        (one.standing, one.labelled) = (MemberState::Out, false);
        self.rebuild.begin_again();
        self.stale = true;
        if self.is_active() && !bugs::has(ArrayBug::AnswerBeforeLabel) {
            self.answers.hold();
        }
        self.journals[member] = Journal::new(self.shape.slots);
        self.forget_log_of(member);
        self.say(ArrayNotice::Failed { member, fault });
        self.release();
        self.drop_if_idle(member);
    }

    /// Stops believing a member that lacks flushed data. The member is filled anew.
    pub(super) fn distrust(&mut self, token: Token, version: Version) {
        let member = version.member_left_out();
        let Some(member) =
            member.filter(|&one| one < self.members.len() && self.can_do_without(one))
        else {
            return self.answers.give_now(token, Err(DeviceError::Io.into()));
        };
        let one = &mut self.members[member];
        (one.standing, one.labelled) = (MemberState::Filling, false);
        self.rebuild.begin_again();
        self.journals[member].forget_all();
        self.forget_log_of(member);
        let shape = self.shape;
        self.left.retain(|&(unit, row), _| shape.parity_of(unit, row) != Some(member));
        self.unsettled.retain(|&(unit, row)| shape.parity_of(unit, row) != Some(member));
        self.stale = true;
        if !bugs::has(ArrayBug::DistrustBeforeLabel) {
            self.answers.hold();
        }
        self.answers.give(token, Ok(()));
        self.say(ArrayNotice::Distrusted { member });
        self.release();
    }

    /// Marks the partial rows in the log of a member as unlogged.
    fn forget_log_of(&mut self, member: usize) {
        for (&unit, front) in &mut self.fronts {
            if self.shape.parity_of(unit, front.row) == Some(member) {
                (front.logged, front.guard) = (0, false);
            }
        }
    }

    /// Drops a member that reports `Gone`, if the array can go on.
    pub(super) fn note_gone(&mut self, member: usize, fault: Fault) {
        if fault.error != DeviceError::Gone {
            return;
        }
        if self.can_do_without(member) {
            self.fail(member, fault);
        } else {
            self.report_fault(member, fault);
        }
    }

    /// Reports once that a needed member failed.
    pub(super) fn report_fault(&mut self, member: usize, fault: Fault) {
        let one = &mut self.members[member];
        if one.standing == MemberState::Out || std::mem::replace(&mut one.fault_reported, true) {
            return;
        }
        let lacks = |(other, one): (usize, &super::Member)| {
            other != member && one.standing != MemberState::Current
        };
        let other = self.members.iter().enumerate().position(lacks);
        self.say(ArrayNotice::CannotDoWithout { member, fault, other });
    }

    /// Releases the storage of a dropped member when no command is under way.
    pub(super) fn drop_if_idle(&mut self, member: usize) {
        let one = &mut self.members[member];
        if one.standing == MemberState::Out && one.under_way == 0 && one.there {
            one.there = false;
            self.leaving.push_back(member);
        }
    }

    /// Gives up: a needed member takes no label, so no later change can be acknowledged.
    pub(super) fn give_up(&mut self, fault: Fault) {
        self.answers.give_up(fault);
        self.relabel = None;
        self.say(ArrayNotice::NoLabel { fault });
        for (token, _) in std::mem::take(&mut self.held) {
            self.answers.give_now(token, Err(fault));
        }
    }
}
