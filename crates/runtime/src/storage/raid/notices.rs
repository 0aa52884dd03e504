//! Notices of an array, in words for an operator.

use thermocline_array::{ArrayNotice, MemberState};

use super::super::{Fault, GroupChange, GroupKind};
use super::Raid;
use crate::Remedy;

impl Raid {
    /// Sends a notice to the listeners of the group.
    pub(super) fn tell(&mut self, notice: &ArrayNotice) {
        if let ArrayNotice::Failed { member, fault } = *notice {
            self.group.shared().status.members[member].why = Some(Fault::from(fault).to_string());
        }
        let remedy = matches!(notice, ArrayNotice::Failed { .. }).then_some(Remedy::ReplaceMember);
        let text = self.text_of(notice);
        self.group.say(change(notice), &text, remedy);
    }

    fn text_of(&self, notice: &ArrayNotice) -> String {
        let path =
            |member: usize| self.group.shared().status.members[member].path.display().to_string();
        let is_pair = self.group.shared().status.kind == GroupKind::Mirror;
        let left =
            if is_pair { "the other side is the only copy" } else { "no other member may be lost" };
        match *notice {
            ArrayNotice::Fills { member } => format!("{} is being filled", path(member)),
            ArrayNotice::AllCurrent if is_pair => "both sides are current".to_owned(),
            ArrayNotice::AllCurrent => "all members are current".to_owned(),
            ArrayNotice::Failed { member, fault } => format!(
                "{} failed ({}), and the pool goes on without the device; {left}",
                path(member),
                Fault::from(fault)
            ),
            ArrayNotice::CannotDoWithout { member, fault, other } => {
                let how = |other: usize| match self.array.status().members[other] {
                    MemberState::Out => "is out",
                    _ => "is being filled",
                };
                let other = other.map(|other| format!(" while {} {}", path(other), how(other)));
                format!(
                    "{} failed ({}){}: no other member has its data, and writing stops",
                    path(member),
                    Fault::from(fault),
                    other.unwrap_or_default()
                )
            }
            ArrayNotice::NotCompared { fault } => format!(
                "the parity of a row cannot be checked ({}), and may be wrong",
                Fault::from(fault)
            ),
            ArrayNotice::Healed { member, unit, from, bytes, places } => {
                let path = path(member);
                let all = match places {
                    0..=1 => String::new(),
                    more => format!("; {more} places so far"),
                };
                format!(
                    "{path} held {bytes} wrong or unreadable bytes at byte {from} of its unit {unit}, now rewritten \
                     with the right data{all}"
                )
            }
            ArrayNotice::Distrusted { member } => format!(
                "{} lacks flushed data: the device was put back to an earlier state, or reports flushes too early. The \
                 device is filled anew; until then {left}",
                path(member)
            ),
            ArrayNotice::NotFilled { member, bytes, fault, places } => {
                let all = match places {
                    0..=1 => String::new(),
                    more => format!("; {more} attempts failed so far"),
                };
                format!(
                    "{bytes} bytes of {} cannot be restored, because another member does not read ({}). The device is \
                     not whole, and the bytes are tried again{all}",
                    path(member),
                    Fault::from(fault)
                )
            }
            ArrayNotice::NoLabel { fault } => {
                format!("no label can be written ({}), so writing stops", Fault::from(fault))
            }
        }
    }
}

const fn change(notice: &ArrayNotice) -> GroupChange {
    match notice {
        ArrayNotice::Fills { .. } => GroupChange::RepairBegan,
        ArrayNotice::AllCurrent => GroupChange::RepairEnded,
        ArrayNotice::Failed { .. } | ArrayNotice::Distrusted { .. } => GroupChange::MemberLost,
        ArrayNotice::Healed { .. } => GroupChange::Healed,
        ArrayNotice::CannotDoWithout { .. }
        | ArrayNotice::NotCompared { .. }
        | ArrayNotice::NotFilled { .. }
        | ArrayNotice::NoLabel { .. } => GroupChange::Risk,
    }
}
