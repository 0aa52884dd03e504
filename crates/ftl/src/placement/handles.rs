//! Placement by the handle that came with the write: multi-stream drives and Flexible Data Placement.

use thermocline_types::Class;

use super::{Classifier, Survivor, Topology, VictimRule, Write};

/// Where garbage collection may put the data of a handle (NVM Express TP4146).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Relocated data of all handles of a reclaim group is mixed.
    Initially,
    /// Relocated data stays with its handle, in an open unit of its own.
    Persistently,
    /// Relocated data shares the open unit of its handle's host writes.
    Shared,
}

/// One open unit per placement handle and reclaim group, and open units for relocation as the isolation type asks.
///
/// A write's handle is `reclaim group × handles + handle`; one beyond the last counts as handle 0 of group 0, as a
/// drive treats an invalid placement identifier. State: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handles {
    groups: u8,
    handles: u8,
    isolation: Isolation,
}

impl Handles {
    /// `handles` per reclaim group, `groups` of them.
    ///
    /// # Panics
    /// If the open units this asks for exceed 255.
    #[must_use]
    pub fn new(groups: u8, handles: u8, isolation: Isolation) -> Self {
        let placement = Handles { groups, handles, isolation };
        let classes = u32::from(groups) * u32::from(placement.classes_per_group());
        assert!(groups > 0 && handles > 0 && classes <= 255, "1 to 255 open units");
        placement
    }

    /// Handles per reclaim group.
    #[must_use]
    pub fn count(&self) -> u8 {
        self.handles
    }

    fn classes_per_group(&self) -> u8 {
        match self.isolation {
            Isolation::Initially => self.handles.saturating_add(1),
            Isolation::Persistently => self.handles.saturating_mul(2),
            Isolation::Shared => self.handles,
        }
    }

    /// The class that host writes with `handle` go to.
    #[inline]
    #[must_use]
    pub fn class_of_handle(&self, handle: u16) -> Class {
        let handles = u16::from(self.handles);
        if handle < handles {
            return Class(handle as u8);
        }
        let (group, handle) = (handle / handles, handle % handles);
        if group >= u16::from(self.groups) {
            return Class(0);
        }
        Class(group as u8 * self.classes_per_group() + handle as u8)
    }

    /// The handle a class belongs to, or `None` for the mixed relocation class.
    #[must_use]
    pub fn handle_of(&self, class: Class) -> Option<u8> {
        let within = class.0 % self.classes_per_group();
        match self.isolation {
            Isolation::Initially => (within < self.handles).then_some(within),
            Isolation::Persistently | Isolation::Shared => Some(within % self.handles),
        }
    }
}

impl Classifier for Handles {
    fn topology(&self) -> Topology {
        let own = if self.isolation == Isolation::Shared { 0 } else { self.handles };
        let classes = self.classes_per_group();
        Topology::new(classes, own..classes).in_pools(self.groups)
    }

    #[inline]
    fn place(&mut self, write: Write) -> Class {
        self.class_of_handle(write.handle)
    }

    #[inline]
    fn place_survivor(&mut self, survivor: Survivor, _now: u64) -> Class {
        let (topology, from) = (self.topology(), survivor.from);
        let first = from.0 - topology.within_pool(from);
        match self.isolation {
            Isolation::Initially => Class(first + self.handles),
            Isolation::Persistently => {
                Class(first + self.handles + (from.0 - first) % self.handles)
            }
            Isolation::Shared => from,
        }
    }
}

impl VictimRule for Handles {}

#[cfg(test)]
mod tests {
    use thermocline_types::Lba;

    use super::*;

    fn with_handle(handle: u16) -> Write {
        Write { handle, ..Write::plain(Lba(0), 0) }
    }

    fn survivor(from: Class) -> Survivor {
        Survivor { lba: Lba(0), from, utilisation: 0.5 }
    }

    #[test]
    fn initially_isolated_handles_share_one_relocation_class_per_group() {
        let mut fdp = Handles::new(2, 3, Isolation::Initially);
        assert_eq!(fdp.topology().classes(), 8);
        assert_eq!(fdp.topology().relocation_classes(1), 7..8);
        assert_eq!(fdp.place(with_handle(4)), Class(5));
        assert_eq!(
            fdp.place(with_handle(6)),
            Class(0),
            "an invalid identifier counts as the first"
        );
        for from in [4, 5, 6, 7] {
            assert_eq!(fdp.place_survivor(survivor(Class(from)), 0), Class(7));
            assert_eq!(fdp.topology().pool(Class(from)), 1);
        }
    }

    #[test]
    fn persistently_isolated_handles_keep_their_data_apart() {
        let mut fdp = Handles::new(1, 3, Isolation::Persistently);
        assert_eq!(fdp.topology().classes(), 6);
        for handle in 0..3_u8 {
            let host = fdp.place(with_handle(u16::from(handle)));
            let moved = fdp.place_survivor(survivor(host), 0);
            let again = fdp.place_survivor(survivor(moved), 0);
            assert_eq!((host.0, moved.0, again.0), (handle, handle + 3, handle + 3));
            assert_eq!(fdp.handle_of(moved), Some(handle));
        }
    }
}
