//! Members that fail: one is done without, as long as there is parity.

use thermocline_engine::DeviceError;

use super::super::bugs::{self, Bug};
use super::{Fault, Journal, MemberState, Raid};

impl Raid {
    /// Whether all that a member has can be had without it.
    pub(super) fn can_do_without(&self, member: usize) -> bool {
        let others = self.members.iter().enumerate().filter(|(other, _)| *other != member);
        let whole = others.into_iter().all(|(_, other)| other.standing == MemberState::Current);
        let there = self.members[member].standing != MemberState::Out;
        there && whole && self.shape.level.parity() > 0
    }

    /// Does without a member from now on, for which [`Raid::can_do_without`] is true.
    pub(super) fn fail(&mut self, member: usize, fault: Fault) {
        let one = &mut self.members[member];
        (one.standing, one.labelled) = (MemberState::Out, false);
        self.rebuild.begin_again();
        self.repairs.clear();
        self.stale = true;
        if !bugs::has(Bug::AnswerBeforeLabel) {
            self.answers.hold();
        }
        self.journals[member] = Journal::new(self.shape.slots);
        for (&unit, front) in &mut self.fronts {
            if self.shape.parity_of(unit, front.row) == Some(member) {
                (front.logged, front.guard) = (0, false);
            }
        }
        let mut shared = self.group.shared();
        let status = &mut shared.status.members[member];
        status.why = Some(fault.to_string());
        let path = status.path.display().to_string();
        drop(shared);
        self.group.say(&format!(
            "{path} failed ({fault}) and is done without; no other member may be lost. Name a device for it in the \
             settings and say `thermocline device replace POOL.toml PATH`"
        ));
        self.release();
        self.drop_if_idle(member);
    }

    /// Does without a member that says that it is gone, if that can be.
    pub(super) fn note_gone(&mut self, member: usize, fault: Fault) {
        if fault.error != DeviceError::Gone {
            return;
        }
        if self.can_do_without(member) {
            self.fail(member, fault);
        } else {
            self.lament(member, fault);
        }
    }

    /// Says once of a member that it failed and cannot be done without.
    pub(super) fn lament(&mut self, member: usize, fault: Fault) {
        let one = &mut self.members[member];
        if one.standing == MemberState::Out || std::mem::replace(&mut one.lamented, true) {
            return;
        }
        let paths: Vec<String> = {
            let shared = self.group.shared();
            shared.status.members.iter().map(|one| one.path.display().to_string()).collect()
        };
        let lacks = |(other, one): (usize, &super::Member)| {
            let how = match one.standing {
                MemberState::Out => "is out",
                MemberState::Filling => "is being filled",
                MemberState::Current => return None,
            };
            (other != member).then(|| format!(" while {} {how}", paths[other]))
        };
        let other = self.members.iter().enumerate().find_map(lacks).unwrap_or_default();
        let path = &paths[member];
        self.group.say(&format!(
            "{path} failed ({fault}){other}: nothing makes up for what it had, and no more is written"
        ));
    }

    /// A member that is done without is let go of when it owes nothing any more.
    pub(super) fn drop_if_idle(&mut self, member: usize) {
        let one = &self.members[member];
        if one.standing == MemberState::Out && one.under_way == 0 {
            drop(self.parts.take(member));
        }
    }

    /// Members that are needed take no labels: nothing that needs one can be promised.
    pub(super) fn give_up(&mut self, fault: Fault) {
        self.answers.give_up(fault);
        self.relabel = None;
        self.group.say(&format!("no label can be written ({fault}), so nothing more is written"));
        for (token, _) in std::mem::take(&mut self.held) {
            self.answers.give_now(token, Err(fault));
        }
    }
}
