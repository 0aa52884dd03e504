//! What units are used for, on average.

use thermocline_ftl::{UnitState, Units};
use thermocline_types::UnitId;

/// How often units are looked at while measuring.
pub(super) const LOOKS: usize = 256;

/// Contents of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// Blocks of the host, up to its end or not.
    Blocks {
        /// Written blocks of the unit, valid or not.
        written: u32,
    },
    /// Maps, and what else a log notes.
    Metadata,
    /// Superblocks.
    Superblocks,
}

/// Units by purpose: sums over looks, or means.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Census {
    looks: f64,
    pub superblocks: f64,
    pub metadata: f64,
    /// Without a valid block: free, or about to be.
    pub empty: f64,
    /// Unwritten part of units that hold valid blocks; mostly of open units.
    pub unwritten: f64,
}

impl Census {
    /// Looks at all units.
    pub(super) fn look(&mut self, units: &Units, holds: impl Fn(UnitId) -> Holds) {
        self.looks += 1.0;
        for unit in units.ids() {
            let is_empty = match units.state(unit) {
                UnitState::Free => true,
                UnitState::Closed => units.valid_count(unit) == 0,
                _ => false,
            };
            match holds(unit) {
                Holds::Superblocks => self.superblocks += 1.0,
                _ if is_empty => self.empty += 1.0,
                Holds::Metadata => self.metadata += 1.0,
                Holds::Blocks { written } => {
                    let all = f64::from(units.blocks_per_unit());
                    self.unwritten += 1.0 - f64::from(written) / all;
                }
            }
        }
    }

    /// The mean over all looks.
    pub(super) fn mean(self) -> Census {
        let mean = |sum: f64| sum / self.looks.max(1.0);
        Census {
            looks: self.looks,
            superblocks: mean(self.superblocks),
            metadata: mean(self.metadata),
            empty: mean(self.empty),
            unwritten: mean(self.unwritten),
        }
    }
}

#[cfg(test)]
mod tests {
    use thermocline_types::Class;

    use super::*;

    #[test]
    fn units_count_by_what_they_are_for() {
        let mut units = Units::new(5, 100);
        for unit in [1, 2, 3, 4].map(UnitId) {
            units.open(unit, Class(0));
        }
        units.add_valid(UnitId(3));
        units.close(UnitId(4), 100, 0);
        let mut census = Census::default();
        for written in [20, 40] {
            census.look(&units, |unit| match unit.0 {
                1 => Holds::Superblocks,
                2 => Holds::Metadata,
                _ => Holds::Blocks { written },
            });
        }
        let mean = census.mean();
        assert_eq!((mean.superblocks, mean.metadata, mean.empty), (1.0, 1.0, 2.0));
        assert!((mean.unwritten - 0.7).abs() < 1e-12, "{}", mean.unwritten);
    }
}
