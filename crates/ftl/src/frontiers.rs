//! Where blocks of each class are written, and what must be left free so that this always goes on.
//!
//! The drive, the log engine and the miniatures of `auto` append to the same frontiers. Opening differs: a drive opens
//! a unit at once, the engine when a superblock lists the unit.

use thermocline_types::Class;

/// The place in the open unit of each class that is written next.
#[derive(Clone, Debug, PartialEq)]
pub struct Frontiers<P> {
    places: Vec<Option<P>>,
}

impl<P: Copy> Frontiers<P> {
    /// Of so many classes, without an open unit.
    #[must_use]
    pub fn new(classes: usize) -> Frontiers<P> {
        Frontiers { places: vec![None; classes] }
    }

    /// How many classes there are.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.places.len()
    }

    /// Where the next block of `class` goes, if a unit is open for it.
    #[inline]
    #[must_use]
    pub fn place(&self, class: Class) -> Option<P> {
        self.places[class.index()]
    }

    /// The next block of `class` goes to `place`: a unit was opened for it, or it is written further on.
    #[inline]
    pub fn set(&mut self, class: Class, place: P) {
        self.places[class.index()] = Some(place);
    }

    /// No unit is open for `class` any more. Returns where its next block would have gone.
    #[inline]
    pub fn close(&mut self, class: Class) -> Option<P> {
        self.places[class.index()].take()
    }

    /// The places of open units.
    pub fn open(&self) -> impl Iterator<Item = P> {
        self.places.iter().flatten().copied()
    }

    /// How many of the first `classes` have an open unit.
    #[must_use]
    pub fn count(&self, classes: usize) -> u32 {
        self.places[..classes].iter().flatten().count() as u32
    }

    /// The substitute for a `class` without an open unit that may not open a unit: among classes that `may` share, the
    /// nearest with an open unit; at equal distance the lower.
    #[must_use]
    pub fn nearest(&self, class: Class, may: impl Fn(Class) -> bool) -> Option<Class> {
        let all = (0..self.places.len()).map(|index| Class(index as u8));
        let open = all.filter(|other| self.places[other.index()].is_some() && may(*other));
        open.min_by_key(|other| other.0.abs_diff(class.0))
    }
}

/// Units that hold no blocks of users at the worst moment, of a layer with `frontiers` open ones that begins to collect
/// garbage when no more than `reserve` are free: the reserve, the frontiers and the victim. Why the rest suffices is
/// argued at [`Ftl`](crate::Ftl).
#[must_use]
pub fn set_aside(frontiers: u32, reserve: u32) -> u32 {
    frontiers + reserve + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_without_a_unit_shares_the_nearest() {
        let mut frontiers = Frontiers::new(6);
        assert_eq!(frontiers.nearest(Class(2), |_| true), None);
        for class in [0, 4, 5] {
            frontiers.set(Class(class), u32::from(class) * 10);
        }
        assert_eq!(frontiers.nearest(Class(1), |_| true), Some(Class(0)));
        assert_eq!(frontiers.nearest(Class(2), |_| true), Some(Class(0)), "of two the lower");
        assert_eq!(frontiers.nearest(Class(2), |other| other.0 > 0), Some(Class(4)));
        assert_eq!(frontiers.nearest(Class(4), |_| true), Some(Class(4)), "its own is nearest");
        assert_eq!((frontiers.count(5), frontiers.count(6)), (2, 3));
        assert_eq!(frontiers.open().collect::<Vec<_>>(), [0, 40, 50]);
        assert_eq!((frontiers.close(Class(4)), frontiers.close(Class(4))), (Some(40), None));
        assert_eq!((frontiers.place(Class(4)), frontiers.place(Class(5))), (None, Some(50)));
    }
}
