//! The classes of a placement policy, and the pools of units that they belong to.

use std::ops::Range;

use thermocline_types::Class;

/// Which classes there are, which of them survivors go to, and which pool each belongs to. Fixed for a policy's life.
///
/// Every pool (reclaim group) has the same classes, one pool's after the other's; each class has one open unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    pools: u8,
    classes_per_pool: u8,
    /// The classes of the first pool that survivors go to.
    relocation: (u8, u8),
    reserve: u8,
}

impl Topology {
    /// `classes` in one pool; classes in `relocation` take survivors. Garbage collection keeps a free unit for each
    /// relocation class.
    ///
    /// # Panics
    /// If `relocation` is empty or beyond `classes`.
    #[must_use]
    pub const fn new(classes: u8, relocation: Range<u8>) -> Topology {
        let (first, end) = (relocation.start, relocation.end);
        assert!(first < end && end <= classes, "survivors go to some of the classes");
        let reserve = end - first;
        Topology { pools: 1, classes_per_pool: classes, relocation: (first, end), reserve }
    }

    /// The same in each of `pools`, whose data never leave them.
    ///
    /// # Panics
    /// If that makes no class, or more than 255.
    #[must_use]
    pub const fn in_pools(self, pools: u8) -> Topology {
        assert!(
            pools > 0 && pools as u32 * self.classes_per_pool as u32 <= 255,
            "1 to 255 classes"
        );
        Topology { pools, ..self }
    }

    /// Garbage collection keeps `reserve` units of each pool free. With fewer than there are classes for survivors,
    /// these sometimes share an open unit.
    #[must_use]
    pub const fn with_reserve(self, reserve: u8) -> Topology {
        Topology { reserve, ..self }
    }

    /// All classes.
    #[must_use]
    pub const fn classes(self) -> u8 {
        self.pools * self.classes_per_pool
    }

    /// How many pools units are divided into.
    #[must_use]
    pub const fn pools(self) -> u8 {
        self.pools
    }

    /// Free units that garbage collection keeps in each pool.
    #[must_use]
    pub const fn reserve(self) -> u8 {
        self.reserve
    }

    /// The classes of `pool` that survivors go to.
    #[must_use]
    pub const fn relocation_classes(self, pool: u8) -> Range<u8> {
        let first = pool * self.classes_per_pool;
        first + self.relocation.0..first + self.relocation.1
    }

    /// The pool of `class`. Most devices have a single pool; the check avoids a division.
    #[inline]
    #[must_use]
    pub const fn pool(self, class: Class) -> u8 {
        if self.pools == 1 { 0 } else { class.0 / self.classes_per_pool }
    }

    /// Which class of its pool `class` is.
    #[inline]
    #[must_use]
    pub const fn within_pool(self, class: Class) -> u8 {
        if self.pools == 1 { class.0 } else { class.0 % self.classes_per_pool }
    }

    /// Units of `pool` that are kept free for survivors: the reserve, but no more than there are classes that they go
    /// to.
    #[must_use]
    pub fn units_held(self, pool: u8) -> u32 {
        (self.relocation_classes(pool).len() as u32).min(self.reserve().into())
    }

    /// The class of `pool` that takes blocks of `class` from a full pool.
    #[must_use]
    pub const fn redirect(self, class: Class, pool: u8) -> Class {
        Class(pool * self.classes_per_pool + self.within_pool(class))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pool_has_the_same_classes() {
        let topology = Topology::new(4, 3..4).in_pools(2);
        assert_eq!((topology.classes(), topology.pools(), topology.reserve()), (8, 2, 1));
        assert_eq!([0, 1].map(|pool| topology.relocation_classes(pool)), [3..4, 7..8]);
        let pools: Vec<u8> = (0..8).map(|class| topology.pool(Class(class))).collect();
        assert_eq!(pools, [0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(topology.redirect(Class(2), 1), Class(6));
        assert_eq!(topology.redirect(Class(6), 0), Class(2));
    }

    #[test]
    fn one_pool_has_all_classes() {
        let topology = Topology::new(6, 2..6).with_reserve(2);
        assert_eq!((topology.classes(), topology.pools(), topology.reserve()), (6, 1, 2));
        assert_eq!(topology.relocation_classes(0), 2..6);
        assert_eq!((topology.pool(Class(5)), topology.within_pool(Class(5))), (0, 5));
    }

    #[test]
    #[should_panic(expected = "survivors go to some of the classes")]
    fn survivors_need_a_class() {
        _ = Topology::new(2, 2..3);
    }
}
