//! Which side of a pair is to be believed, from the labels of those that are there: pure.
//!
//! Invariants:
//! * A side that may miss something that was flushed is never the source.
//! * Whichever of two sides is named first makes no difference.

use thermocline_format::{MirrorLabel, SIDES};

use thermocline_array::LAST_EVENT;
use thermocline_array::bugs::{self, ArrayBug as Bug};

/// Why a pair cannot be used as it is found. Sides are by the order in which they were named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PairError {
    /// Neither has a label.
    #[error("neither side has the label of a mirrored pair")]
    NoLabel,
    /// Both have the label of the same side.
    #[error("both are copies of one side of the pair")]
    SameSide,
    /// They are of different pairs.
    #[error("they are sides of different pairs")]
    OtherPair,
    /// Each was used without the other.
    #[error("each was written while the other was away, so that neither has all")]
    Split,
    /// Neither label calls its own side one that has everything.
    #[error("neither side has everything")]
    NoSource,
    /// A label has a number that no pair gets to.
    #[error("the number of a label is none that a pair gets to")]
    NoNumber,
    /// One side is missing, and may have been written while the other was away.
    #[error("the other side is missing, and may have been written while this one was away")]
    Alone,
    /// The only side that is there lacks data, as its label says.
    #[error("it lacks what the other side has, which is missing")]
    Lacks,
    /// Nothing was ever copied to the one that is to be believed.
    #[error("nothing was copied to it yet")]
    New,
    /// The one that is not to be believed alone has everything, as its label says.
    #[error("the other side says that it alone has everything")]
    OtherAlone,
    /// The one that the other was last filled from is older than that.
    #[error("the side that was to fill the other one is older than it")]
    OldSource,
}

/// What is to become of the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mate {
    /// It is not there, or has no label.
    Missing,
    /// It holds the same.
    Current,
    /// It lacks these units.
    Lacks {
        /// Whether it lacks a unit, for each.
        units: Vec<bool>,
    },
}

/// How a pair starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairStart {
    /// Which of those named has everything.
    pub source: usize,
    /// The other one.
    pub mate: Mate,
}

/// What to do with the sides that have these labels. `forgive` a source that is alone: to look at it, not to write.
///
/// # Errors
/// [`PairError`].
pub(crate) fn decide(
    labels: [Option<&MirrorLabel>; SIDES],
    forgive: bool,
) -> Result<PairStart, PairError> {
    if labels.into_iter().flatten().any(|label| label.event > LAST_EVENT) {
        return Err(PairError::NoNumber);
    }
    match labels {
        [None, None] => Err(PairError::NoLabel),
        [Some(one), None] => {
            alone(one, forgive).map(|()| PairStart { source: 0, mate: Mate::Missing })
        }
        [None, Some(one)] => {
            alone(one, forgive).map(|()| PairStart { source: 1, mate: Mate::Missing })
        }
        [Some(one), Some(other)] => both(one, other),
    }
}

fn alone(label: &MirrorLabel, forgive: bool) -> Result<(), PairError> {
    let (own, mate) = (usize::from(label.side), usize::from(1 - label.side));
    if !trusts(label, own) {
        return Err(PairError::Lacks);
    }
    if label.current[mate] && !forgive { Err(PairError::Alone) } else { Ok(()) }
}

/// Whether a label names a side as one that has everything.
fn trusts(label: &MirrorLabel, side: usize) -> bool {
    label.event > 0 && label.current[side]
}

/// Whether a label names its own side as the only one that has everything.
pub(crate) fn is_alone(label: &MirrorLabel) -> bool {
    trusts(label, usize::from(label.side)) && !trusts(label, usize::from(1 - label.side))
}

fn both(one: &MirrorLabel, other: &MirrorLabel) -> Result<PairStart, PairError> {
    let units = one.lacking.len();
    let pair = |label: &MirrorLabel| (label.pool, label.device, label.lacking.len());
    if pair(one) != pair(other) {
        return Err(PairError::OtherPair);
    }
    if one.side == other.side {
        return Err(PairError::SameSide);
    }
    if is_alone(one) && is_alone(other) {
        return Err(PairError::Split);
    }
    if one.event == other.event {
        return same_event(one, other);
    }
    let (newest, source) = if one.event > other.event { (one, 0) } else { (other, 1) };
    if !trusts(newest, usize::from(newest.side)) {
        return Err(PairError::OldSource);
    }
    if bugs::has(Bug::StaleIsCurrent) {
        return Ok(PairStart { source, mate: Mate::Current });
    }
    // Whatever the older label says, something was written since.
    Ok(PairStart { source, mate: Mate::Lacks { units: vec![true; units] } })
}

fn same_event(one: &MirrorLabel, other: &MirrorLabel) -> Result<PairStart, PairError> {
    let says = |label: &MirrorLabel| (label.current, label.open, label.lacking.clone());
    if says(one) != says(other) {
        return Err(PairError::Split);
    }
    let source = usize::from(!trusts(one, usize::from(one.side)));
    let newest = [one, other][source];
    if !trusts(newest, usize::from(newest.side)) {
        return Err(PairError::NoSource);
    }
    // What was not flushed when it stopped may be on one side and not on the other. Whoever uses the pair has that made
    // equal.
    let whole = newest.current == [true; SIDES];
    let mate = if whole { Mate::Current } else { Mate::Lacks { units: newest.lacking.clone() } };
    Ok(PairStart { source, mate })
}

#[cfg(test)]
mod tests {
    use thermocline_format::PoolId;

    use super::*;

    fn label(side: u8, event: u64, current: [bool; 2], open: bool) -> MirrorLabel {
        let lacking = (0..4).map(|unit| current != [true; 2] && unit > 1).collect();
        MirrorLabel { pool: PoolId([1; 16]), device: 0, side, event, current, open, lacking }
    }

    const BOTH: [bool; 2] = [true; 2];
    const FIRST: [bool; 2] = [true, false];
    const SECOND: [bool; 2] = [false, true];

    fn lacks(units: [bool; 4]) -> Mate {
        Mate::Lacks { units: units.to_vec() }
    }

    /// In either order, with the source as side.
    fn decided(one: &MirrorLabel, other: &MirrorLabel) -> Result<(u8, Mate), PairError> {
        let found = decide([Some(one), Some(other)], false);
        let swapped = decide([Some(other), Some(one)], false);
        let side = |start: PairStart, of: [&MirrorLabel; 2]| (of[start.source].side, start.mate);
        let found = found.map(|start| side(start, [one, other]));
        let swapped = swapped.map(|start| side(start, [other, one]));
        assert_eq!(found.clone().map(|(_, mate)| mate), swapped.clone().map(|(_, mate)| mate));
        let either = found.as_ref().is_ok_and(|one| one.1 == Mate::Current);
        assert!(either || found == swapped);
        found
    }

    #[test]
    fn sides_that_agree_go_on() {
        let closed = |side| label(side, 7, BOTH, false);
        assert_eq!(decided(&closed(0), &closed(1)), Ok((0, Mate::Current)));
        let crashed = |side| label(side, 7, BOTH, true);
        assert_eq!(decided(&crashed(0), &crashed(1)), Ok((0, Mate::Current)));
        let filling = |side, open| label(side, 7, SECOND, open);
        let rest = [false, false, true, true];
        assert_eq!(decided(&filling(0, false), &filling(1, false)), Ok((1, lacks(rest))));
        assert_eq!(decided(&filling(0, true), &filling(1, true)), Ok((1, lacks(rest))));
    }

    #[test]
    fn an_older_side_is_filled_from_the_newer_one_and_never_the_other_way() {
        let all = lacks([true; 4]);
        for current in [BOTH, FIRST] {
            for open in [false, true] {
                let newer = label(0, 9, current, open);
                for event in [0, 1, 8] {
                    let older = label(1, event, BOTH, open);
                    assert_eq!(decided(&newer, &older), Ok((0, all.clone())), "{event}");
                    let older = label(1, event, FIRST, open);
                    assert_eq!(decided(&newer, &older), Ok((0, all.clone())), "{event}");
                }
            }
        }
        let older = label(0, 8, FIRST, false);
        assert_eq!(decided(&label(1, 9, FIRST, false), &older), Err(PairError::OldSource));
    }

    #[test]
    fn what_may_be_stale_is_not_used_alone() {
        let one = |label: MirrorLabel, forgive| decide([None, Some(&label)], forgive);
        let source = PairStart { source: 1, mate: Mate::Missing };
        assert_eq!(one(label(0, 5, FIRST, true), false), Ok(source.clone()));
        assert_eq!(one(label(0, 5, BOTH, false), false), Err(PairError::Alone));
        assert_eq!(one(label(0, 5, BOTH, false), true), Ok(source));
        for forgive in [false, true] {
            assert_eq!(one(label(1, 5, FIRST, false), forgive), Err(PairError::Lacks));
            assert_eq!(one(label(1, 0, FIRST, false), forgive), Err(PairError::Lacks));
        }
        assert_eq!(decide([None, None], true), Err(PairError::NoLabel));
    }

    #[test]
    fn sides_that_went_apart_are_refused() {
        for event in [5, 6, 9] {
            let (one, other) = (label(0, 6, FIRST, false), label(1, event, SECOND, true));
            assert_eq!(decided(&one, &other), Err(PairError::Split));
        }
        assert_eq!(
            decided(&label(0, 6, FIRST, true), &label(0, 6, FIRST, true)),
            Err(PairError::SameSide)
        );
        assert_eq!(
            decided(&label(0, 6, FIRST, true), &label(1, 6, FIRST, false)),
            Err(PairError::Split)
        );
        // Two that were made to be filled, and nobody to fill them from.
        assert_eq!(
            decided(&label(0, 0, BOTH, false), &label(1, 0, BOTH, false)),
            Err(PairError::NoSource)
        );
        assert_eq!(
            decided(&label(0, LAST_EVENT + 1, BOTH, false), &label(1, 6, BOTH, false)),
            Err(PairError::NoNumber)
        );
        let mut other = label(1, 6, BOTH, true);
        other.pool = PoolId([2; 16]);
        assert_eq!(decided(&label(0, 6, BOTH, true), &other), Err(PairError::OtherPair));
    }
}
