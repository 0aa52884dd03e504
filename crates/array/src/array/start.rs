//! Which members of a group are to be believed, from the labels of those that are there: pure.
//!
//! Invariants:
//! * A member that may miss something that was flushed is never believed.
//! * In which order members are named makes no difference.

use thermocline_format::RaidLabel;

use super::LAST_EVENT;
use crate::bugs::{self, ArrayBug};

/// Why a group cannot be used as it is found. Members are by the order in which they were named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// None has a label.
    #[error("none has the label of a striped group")]
    NoLabel,
    /// Two are copies of one member.
    #[error("two are copies of one member")]
    SameMember(usize, usize),
    /// They are of different groups.
    #[error("they are members of different groups")]
    OtherGroup(usize, usize),
    /// The group has more members than were named, or fewer.
    #[error("the group has {has} members, and {named} are named")]
    Number {
        /// Who says so.
        says: usize,
        /// Its members.
        has: usize,
        /// Those that were named.
        named: usize,
    },
    /// One has a label whose number no group gets to.
    #[error("the number of its label is none that a group gets to")]
    NoNumber(usize),
    /// One says that the group is divided otherwise than the pool on it.
    #[error("its label divides the group otherwise than the pool is divided")]
    OtherDivision(usize),
    /// More members lack something than the others can make up for.
    #[error("more members are missing, or lack something, than the others make up for")]
    TooFew {
        /// Their numbers, those that are not there.
        missing: Vec<usize>,
        /// Those that were named and lack something, by the order in which they were named.
        stale: Vec<usize>,
    },
    /// Two say different things, and neither is older.
    #[error("two were each used without the other")]
    Split(usize, usize),
}

/// How a member starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberStart {
    /// It is not there, or has no label.
    Missing,
    /// It holds all that it should.
    Current,
    /// It holds so many units, from the first on.
    Lacks {
        /// How many.
        filled: u32,
    },
}

/// How a group starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayStart {
    /// The label that is believed.
    pub label: RaidLabel,
    /// Of each member, by its number, which of those named it is, and how it starts.
    pub members: Vec<(Option<usize>, MemberStart)>,
}

/// What to do with those that have these labels, in the order in which they were named.
///
/// # Errors
/// [`StartError`].
pub fn decide(labels: &[Option<&RaidLabel>]) -> Result<ArrayStart, StartError> {
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
    let start = ArrayStart { label: label.clone(), members };
    start.suffices()?;
    Ok(start)
}

/// How a member starts whose own label is `own`, if `newest` is the newest of all.
fn start_of(own: &RaidLabel, newest: &RaidLabel) -> MemberStart {
    let kept_up = own.event >= newest.floor || bugs::has(ArrayBug::StaleIsCurrent);
    if kept_up && (newest.is_current(own.member.into()) || bugs::has(ArrayBug::StaleIsCurrent)) {
        return MemberStart::Current;
    }
    let filled = if kept_up && newest.filling == Some(own.member) { newest.filled } else { 0 };
    MemberStart::Lacks { filled }
}

impl ArrayStart {
    /// An error if more is lacking than the parity makes up for.
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

    /// In every order, by number of member.
    fn decided(labels: &[Option<RaidLabel>; 3]) -> Result<[MemberStart; 3], StartError> {
        let mut all = Vec::new();
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let start = decide(&order.map(|index: usize| labels[index].as_ref()));
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
        // A label was on its way, and nothing was answered under it.
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
        let few = decide(&[Some(&one), None]);
        assert_eq!(few, Err(StartError::Number { says: 0, has: 3, named: 2 }));
        let last = [LAST_EVENT, LAST_EVENT + 1].map(|event| label(0, event, 4, ALL));
        let labels = last.each_ref().map(|last| [Some(last), None, Some(&one)]);
        assert!(matches!(decide(&labels[0]), Err(StartError::SameMember(..))));
        assert_eq!(decide(&labels[1]), Err(StartError::NoNumber(0)));
    }
}
