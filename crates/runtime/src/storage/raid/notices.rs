//! What an operator hears of an array.

use thermocline_array::{ArrayNotice, MemberState};

use super::super::{Fault, GroupKind};
use super::Raid;

impl Raid {
    /// Tells the listeners of the group.
    pub(super) fn tell(&mut self, notice: &ArrayNotice) {
        if let ArrayNotice::Failed { member, fault } = *notice {
            self.group.shared().status.members[member].why = Some(Fault::from(fault).to_string());
        }
        let text = self.text_of(notice);
        self.group.say(&text);
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
                "{} failed ({}) and is done without; {left}. Name a device for it in the settings and say `thermocline \
                 device replace POOL.toml PATH`",
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
                    "{} failed ({}){}: nothing makes up for what it had, and no more is written",
                    path(member),
                    Fault::from(fault),
                    other.unwrap_or_default()
                )
            }
            ArrayNotice::NotCompared { fault } => format!(
                "a row cannot be compared with its parity ({}), which may be wrong",
                Fault::from(fault)
            ),
            ArrayNotice::Healed { member, unit, from, bytes, places } => {
                let path = path(member);
                let all = match places {
                    0..=1 => String::new(),
                    more => format!("; that was place {more} of it"),
                };
                format!(
                    "{path} held {bytes} wrong or unreadable bytes at byte {from} of its unit {unit}: they were written \
                     again from the others{all}"
                )
            }
            ArrayNotice::Distrusted { member } => format!(
                "{} lacks data that was flushed: it was put back to an earlier state, or says too soon that it has \
                 flushed. It is filled anew from the others; until then {left}",
                path(member)
            ),
            ArrayNotice::NotFilled { member, bytes, fault } => format!(
                "{bytes} bytes cannot be computed to fill {} ({}): it lacks them",
                path(member),
                Fault::from(fault)
            ),
            ArrayNotice::NoLabel { fault } => format!(
                "no label can be written ({}), so nothing more is written",
                Fault::from(fault)
            ),
        }
    }
}
