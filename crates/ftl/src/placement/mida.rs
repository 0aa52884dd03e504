//! MiDA: by how often a block was relocated.

use thermocline_types::Class;

use super::{Classifier, Survivor, Topology, VictimRule, Write};

/// Host writes in class 0, blocks relocated `n` times in class `n`, at most the last (the start-up mode of MiDAS: Oh et
/// al., FAST 2024). Default: 5 classes. State: none, because a unit's class is the relocation count of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mida {
    classes: u8,
}

impl Mida {
    /// Up to `classes − 1` relocations are told apart.
    ///
    /// # Panics
    /// If there are fewer than 2 classes.
    #[must_use]
    pub fn new(classes: u8) -> Self {
        assert!(classes > 1, "host writes and survivors are apart");
        Mida { classes }
    }
}

impl Default for Mida {
    fn default() -> Self {
        Mida::new(5)
    }
}

impl Classifier for Mida {
    fn topology(&self) -> Topology {
        Topology::new(self.classes, 1..self.classes)
    }

    #[inline]
    fn place(&mut self, _write: Write) -> Class {
        Class(0)
    }

    #[inline]
    fn place_survivor(&mut self, survivor: Survivor, _now: u64) -> Class {
        Class((survivor.from.0 + 1).min(self.classes - 1))
    }
}

impl VictimRule for Mida {}

#[cfg(test)]
mod tests {
    use thermocline_types::Lba;

    use super::*;

    #[test]
    fn every_relocation_is_a_step_up_to_the_last_class() {
        let mut mida = Mida::new(4);
        let mut class = mida.place(Write::plain(Lba(1), 0));
        let mut path = vec![class.0];
        for _ in 0..4 {
            class = mida.place_survivor(Survivor { lba: Lba(1), from: class, utilisation: 0.5 }, 0);
            path.push(class.0);
        }
        assert_eq!(path, [0, 1, 2, 3, 3]);
    }
}
