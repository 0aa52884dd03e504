//! Decides from the labels found which members of a group are current. Pure.
//!
//! Invariants:
//! * A member that may lack flushed data is never current.
//! * The order of the devices makes no difference.

use thermocline_format::RaidLabel;

use super::{Access, LAST_EVENT};
use crate::bugs::{self, ArrayBug};

/// Why a group cannot be used as found. Members are numbered by the order of the devices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// No device has a label.
    #[error("no device has the label of a group")]
    NoLabel,
    /// Two devices are copies of one member.
    #[error("two devices are copies of one member")]
    SameMember(usize, usize),
    /// Two devices are members of different groups.
    #[error("the devices are members of different groups")]
    OtherGroup(usize, usize),
    /// The group has more or fewer members than devices are named.
    #[error("the group has {has} members, but {named} devices are named")]
    Number {
        /// The device with the label.
        says: usize,
        /// Members of the group.
        has: usize,
        /// Devices named.
        named: usize,
    },
    /// A label has an event that no group reaches.
    #[error("the event of its label is higher than any group reaches")]
    NoNumber(usize),
    /// A label divides the group differently from the pool on the group.
    #[error("its label divides the group differently from the pool")]
    OtherDivision(usize),
    /// More members lack data than the parity can restore.
    #[error("more members are missing or lack data than the parity can restore")]
    TooFew {
        /// Numbers of the missing members.
        missing: Vec<usize>,
        /// Members that lack data, by the order of the devices.
        stale: Vec<usize>,
    },
    /// Two labels of the same age differ, or each member of a mirror claims to hold all data alone.
    #[error("two members were each used without the other")]
    Split(usize, usize),
    /// The other member of a mirror is missing, and may hold newer data.
    #[error("the other member is missing, and may hold newer data")]
    Alone(usize),
}

/// How a member starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberStart {
    /// The member is missing, or has no label.
    Missing,
    /// The member holds all its data.
    Current,
    /// The member holds its first units only.
    Lacks {
        /// Number of units.
        filled: u32,
    },
}

/// How a group starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayStart {
    /// The label that takes precedence.
    pub label: RaidLabel,
    /// For each member by number: the index of its device, and how the member starts.
    pub members: Vec<(Option<usize>, MemberStart)>,
}

/// Decides how the group of these labels starts. Labels are in the order of the devices. With read-only access, a
/// member of a mirror starts alone although the missing member may be newer.
///
/// # Errors
/// [`StartError`].
pub fn decide(labels: &[Option<&RaidLabel>], access: Access) -> Result<ArrayStart, StartError> {
    let age = |(_, label): &(usize, &RaidLabel)| (label.event, !label.announced);
    let found = || labels.iter().enumerate().filter_map(|(index, label)| Some((index, (*label)?)));
    let (newest, label) = found().max_by_key(age).ok_or(StartError::NoLabel)?;
    let group = |label: &RaidLabel| (label.pool, label.device, label.group, label.shape);
    if let Some((other, _)) = found().find(|(_, other)| group(other) != group(label)) {
        return Err(StartError::OtherGroup(newest, other));
    }
    let has = usize::from(label.shape.members);
    if has != labels.len() {
        return Err(StartError::Number { says: newest, has, named: labels.len() });
    }
    if label.event > LAST_EVENT {
        return Err(StartError::NoNumber(newest));
    }
    let says = |label: &RaidLabel| (label.current, label.filling, label.open, label.floor);
    let apart = |other: &RaidLabel| {
        other.event == label.event && !other.announced && says(other) != says(label)
    };
    if let Some((other, _)) = found().find(|(_, other)| apart(other)) {
        return Err(StartError::Split(newest, other));
    }
    let mut members = vec![(None, MemberStart::Missing); has];
    for (index, one) in found() {
        let member = usize::from(one.member);
        if let Some(other) = members[member].0.replace(index) {
            return Err(StartError::SameMember(other, index));
        }
        members[member].1 = start_of(one, label);
    }
    let mut start = ArrayStart { label: label.clone(), members };
    start.suffices()?;
    if !label.shape.level.overlaps() {
        start.heed_each(labels, access)?;
    }
    Ok(start)
}

/// Whether a label calls its own member the only complete one.
pub fn is_alone(label: &RaidLabel) -> bool {
    label.event > 0 && label.current == 1 << label.member
}

/// How a member with the label `own` starts, if `newest` is the newest label of all.
fn start_of(own: &RaidLabel, newest: &RaidLabel) -> MemberStart {
    // The label of a new member, not yet filled, has event 0.
    let kept_up = own.event >= newest.floor.max(1) || bugs::has(ArrayBug::StaleIsCurrent);
    if kept_up && (newest.is_current(own.member.into()) || bugs::has(ArrayBug::StaleIsCurrent)) {
        return MemberStart::Current;
    }
    let filled = if kept_up && newest.filling == Some(own.member) { newest.filled } else { 0 };
    MemberStart::Lacks { filled }
}

impl ArrayStart {
    /// Compares the labels of a mirror. Each member may have been used without the other, and only its own label shows
    /// that.
    fn heed_each(
        &mut self,
        labels: &[Option<&RaidLabel>],
        access: Access,
    ) -> Result<(), StartError> {
        let own = |named: Option<usize>| named.and_then(|index| Some((index, labels[index]?)));
        let [one, other] = [0, 1].map(|member: usize| own(self.members[member].0));
        let (Some((index, label)), Some((behind, second))) = (one, other) else {
            let Some((index, label)) = one.or(other) else { return Ok(()) };
            let gone = 1 - usize::from(label.member);
            let may_be_older = label.is_current(gone) && !bugs::has(ArrayBug::AloneIsNewest);
            let refused = may_be_older && access == Access::ReadWrite;
            return if refused { Err(StartError::Alone(index)) } else { Ok(()) };
        };
        if is_alone(label) && is_alone(second) {
            return Err(StartError::Split(index, behind));
        }
        // A member was filled, but no label of the other member names it yet. Until then the other member is needed.
        for (says, other) in [(label, 1), (second, 0)] {
            let both = self.members.iter().all(|(_, start)| *start == MemberStart::Current);
            if both && !says.is_current(other) {
                self.members[other].1 = MemberStart::Lacks { filled: self.label.shape.units };
            }
        }
        Ok(())
    }

    /// An error if more members lack data than the parity can restore.
    fn suffices(&self) -> Result<(), StartError> {
        let lacking = self.members.iter().enumerate();
        let lacking = lacking.filter(|(_, (_, start))| *start != MemberStart::Current);
        if lacking.clone().count() <= self.label.shape.level.parity() {
            return Ok(());
        }
        let missing = lacking.clone().filter(|(_, (named, _))| named.is_none());
        let missing = missing.map(|(member, _)| member).collect();
        let stale = lacking.filter_map(|(_, (named, _))| *named).collect();
        Err(StartError::TooFew { missing, stale })
    }
}

#[cfg(test)]
mod tests {
    use thermocline_format::{LogicalBlock, PoolId, RaidLevel, RaidShape};

    use super::*;

    fn label(member: u8, event: u64, floor: u64, current: u16) -> RaidLabel {
        let block = LogicalBlock::B4096;
        let shape = RaidShape::new(RaidLevel::Parity, 3, block, 256, 9).expect("it can be");
        RaidLabel {
            pool: PoolId([1; 16]),
            group: 7,
            device: 0,
            member,
            shape,
            event,
            floor,
            current,
            filling: None,
            filled: 0,
            open: true,
            announced: false,
        }
    }

    /// Decides in every order of the devices. The result is by number of member.
    fn decided(labels: &[Option<RaidLabel>; 3]) -> Result<[MemberStart; 3], StartError> {
        let mut all = Vec::new();
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let found = order.map(|index: usize| labels[index].as_ref());
            let start = decide(&found, Access::ReadWrite);
            all.push(start.map(|start| [0, 1, 2].map(|member: usize| start.members[member].1)));
        }
        let first = all[0].clone();
        let alike = |other: &Result<_, _>| match (&first, other) {
            (Ok(one), Ok(other)) => one == other,
            (Err(one), Err(other)) => std::mem::discriminant(one) == std::mem::discriminant(other),
            _ => false,
        };
        assert!(all.iter().all(alike), "{all:?}");
        first
    }

    const ALL: u16 = 0b111;
    use MemberStart::{Current, Missing};

    fn lacks(filled: u32) -> MemberStart {
        MemberStart::Lacks { filled }
    }

    #[test]
    fn members_that_kept_up_go_on() {
        let at = |events: [u64; 3], floor| {
            let of = |member: usize| Some(label(member as u8, events[member], floor, ALL));
            decided(&[of(0), of(1), of(2)])
        };
        assert_eq!(at([5, 5, 5], 4), Ok([Current; 3]));
        // The newest label was being written, and no command was answered under it.
        assert_eq!(at([5, 4, 5], 4), Ok([Current; 3]));
        assert_eq!(at([5, 4, 4], 4), Ok([Current; 3]));
    }

    #[test]
    fn an_older_copy_is_filled_anew() {
        let mut labels = [0, 1, 2].map(|member| Some(label(member, 9, 8, ALL)));
        labels[1] = Some(label(1, 7, 6, ALL));
        assert_eq!(decided(&labels), Ok([Current, lacks(0), Current]));
        labels[0] = Some(label(0, 7, 6, ALL));
        let two = decided(&labels);
        assert!(matches!(two, Err(StartError::TooFew { ref stale, .. }) if stale.len() == 2));
        labels[0] = None;
        let two = decided(&labels);
        assert!(matches!(two, Err(StartError::TooFew { ref missing, .. }) if missing == &[0]));
    }

    #[test]
    fn one_may_be_missing_and_none_that_was_done_without_is_believed() {
        let two = [Some(label(0, 5, 4, ALL)), None, Some(label(2, 5, 4, ALL))];
        assert_eq!(decided(&two), Ok([Current, Missing, Current]));
        let without = [0, 2].map(|member| Some(label(member, 6, 5, 0b101)));
        let [one, other] = without;
        let back = [one.clone(), Some(label(1, 5, 4, ALL)), other];
        assert_eq!(decided(&back), Ok([Current, lacks(0), Current]));
        let [one, stale, _] = back;
        assert!(matches!(decided(&[one, stale, None]), Err(StartError::TooFew { .. })));
    }

    #[test]
    fn filling_goes_on_where_the_label_says() {
        let filling = |member, event, floor| {
            let filling = Some(1);
            Some(RaidLabel { filling, filled: 4, ..label(member, event, floor, 0b101) })
        };
        let all = [filling(0, 8, 7), filling(1, 8, 7), filling(2, 8, 7)];
        assert_eq!(decided(&all), Ok([Current, lacks(4), Current]));
        let behind = [filling(0, 8, 7), filling(1, 7, 6), filling(2, 8, 7)];
        assert_eq!(decided(&behind), Ok([Current, lacks(4), Current]));
        let new = [filling(0, 8, 7), Some(label(1, 0, 0, 0b101)), filling(2, 8, 7)];
        assert_eq!(decided(&new), Ok([Current, lacks(0), Current]));
    }

    #[test]
    fn a_label_under_which_nothing_was_written_does_not_count_against_another() {
        let announced = |member| RaidLabel { announced: true, ..label(member, 6, 5, 0b110) };
        let all = [Some(label(0, 6, 5, ALL)), Some(announced(1)), Some(announced(2))];
        assert_eq!(decided(&all), Ok([Current; 3]));
        let all = [Some(label(0, 6, 5, 0b011)), Some(announced(1)), Some(announced(2))];
        assert_eq!(decided(&all), Ok([Current, Current, lacks(0)]));
    }

    #[test]
    fn what_is_no_one_group_is_refused() {
        assert_eq!(decided(&[None, None, None]), Err(StartError::NoLabel));
        let same = [Some(label(0, 5, 4, ALL)), Some(label(0, 5, 4, ALL)), None];
        assert!(matches!(decided(&same), Err(StartError::SameMember(..))));
        let other = RaidLabel { group: 8, ..label(1, 5, 4, ALL) };
        let mixed = [Some(label(0, 5, 4, ALL)), Some(other), None];
        assert!(matches!(decided(&mixed), Err(StartError::OtherGroup(..))));
        let split = [Some(label(0, 6, 5, 0b011)), Some(label(1, 6, 5, 0b110)), None];
        assert!(matches!(decided(&split), Err(StartError::Split(..))));
        let one = label(0, 5, 4, ALL);
        let few = decide(&[Some(&one), None], Access::ReadWrite);
        assert_eq!(few, Err(StartError::Number { says: 0, has: 3, named: 2 }));
        let last = [LAST_EVENT, LAST_EVENT + 1].map(|event| label(0, event, 4, ALL));
        let labels = last.each_ref().map(|last| [Some(last), None, Some(&one)]);
        assert!(matches!(decide(&labels[0], Access::ReadWrite), Err(StartError::SameMember(..))));
        assert_eq!(decide(&labels[1], Access::ReadWrite), Err(StartError::NoNumber(0)));
    }

    /// A label of a mirror that calls these members current.
    fn half(member: u8, event: u64, current: u16) -> RaidLabel {
        let block = LogicalBlock::B4096;
        let shape = RaidShape::new(RaidLevel::Mirrored, 2, block, 256, 9).expect("it can be");
        RaidLabel { shape, ..label(member, event, event.saturating_sub(1), current) }
    }

    /// Decides in either order of the devices. The result is by number of member.
    fn paired(
        one: Option<&RaidLabel>,
        other: Option<&RaidLabel>,
        access: Access,
    ) -> Result<[MemberStart; 2], StartError> {
        let starts = |start: ArrayStart| [0, 1].map(|member: usize| start.members[member].1);
        let found = decide(&[one, other], access).map(starts);
        let swapped = decide(&[other, one], access).map(starts);
        let alike = match (&found, &swapped) {
            (Err(one), Err(other)) => std::mem::discriminant(one) == std::mem::discriminant(other),
            (one, other) => one == other,
        };
        assert!(alike, "{found:?} {swapped:?}");
        found
    }

    fn both(one: &RaidLabel, other: &RaidLabel) -> Result<[MemberStart; 2], StartError> {
        paired(Some(one), Some(other), Access::ReadWrite)
    }

    #[test]
    fn members_of_a_mirror_that_agree_go_on() {
        assert_eq!(both(&half(0, 7, 0b11), &half(1, 7, 0b11)), Ok([Current; 2]));
        assert_eq!(both(&half(0, 7, 0b11), &half(1, 6, 0b11)), Ok([Current; 2]));
        let filling = |member| RaidLabel { filling: Some(0), filled: 4, ..half(member, 7, 0b10) };
        assert_eq!(both(&filling(0), &filling(1)), Ok([lacks(4), Current]));
    }

    #[test]
    fn an_older_member_of_a_mirror_is_filled_and_never_the_other_way() {
        for current in [0b11, 0b01] {
            let newer = half(0, 9, current);
            for event in [0, 1, 7] {
                assert_eq!(both(&newer, &half(1, event, 0b11)), Ok([Current, lacks(0)]));
                assert_eq!(both(&newer, &half(1, event, 0b01)), Ok([Current, lacks(0)]));
            }
        }
        let refused = both(&half(1, 9, 0b01), &half(0, 7, 0b01));
        assert!(matches!(refused, Err(StartError::TooFew { .. })), "{refused:?}");
    }

    #[test]
    fn a_member_of_a_mirror_that_may_be_older_is_not_used_alone() {
        let one = |label: RaidLabel, access| paired(None, Some(&label), access);
        let alone = Ok([Current, Missing]);
        assert_eq!(one(half(0, 5, 0b01), Access::ReadWrite), alone);
        assert!(matches!(one(half(0, 5, 0b11), Access::ReadWrite), Err(StartError::Alone(_))));
        assert_eq!(one(half(0, 5, 0b11), Access::ReadOnly), alone);
        for access in [Access::ReadWrite, Access::ReadOnly] {
            let lacks = [half(1, 5, 0b01), half(1, 0, 0b01), half(0, 0, 0b11)];
            for label in lacks {
                let refused = one(label, access);
                assert!(matches!(refused, Err(StartError::TooFew { .. })), "{refused:?}");
            }
        }
    }

    #[test]
    fn members_of_a_mirror_that_went_apart_are_refused() {
        for event in [5, 6, 9] {
            let refused = both(&half(0, 6, 0b01), &half(1, event, 0b10));
            assert!(matches!(refused, Err(StartError::Split(..))), "{refused:?}");
        }
        let open = RaidLabel { open: false, ..half(1, 6, 0b01) };
        assert!(matches!(both(&half(0, 6, 0b01), &open), Err(StartError::Split(..))));
        assert!(matches!(both(&half(0, 6, 1), &half(0, 6, 1)), Err(StartError::SameMember(..))));
    }

    #[test]
    fn a_filled_member_of_a_mirror_counts_when_the_other_one_says_so() {
        let (old, new) = (half(0, 7, 0b01), half(1, 8, 0b11));
        assert_eq!(both(&old, &new), Ok([Current, lacks(9)]));
        assert_eq!(both(&half(0, 8, 0b11), &half(1, 7, 0b01)), Ok([Current; 2]));
    }
}
