//! How often units can be erased, and what replaces those that cannot.

use thermocline_ftl::Erased;
use thermocline_types::{Rng, UnitId};

use crate::profile;

/// Endurance of every unit, and the spare units that replace worn-out ones.
///
/// A unit's endurance is drawn once from a normal distribution around the profile's `pe_cycles`. A unit that reaches it
/// is replaced by a spare, which has an endurance of its own; without spares it leaves service.
#[derive(Clone, Debug)]
pub struct Endurance {
    limits: Vec<u32>,
    cycles: f64,
    spread: f64,
    spare_left: u64,
    retired: u64,
    rng: Rng,
}

impl Endurance {
    /// Draws the endurance of `units` units from `profile`.
    #[must_use]
    pub fn new(profile: &profile::Wear, units: u32, seed: u64) -> Self {
        let spares = |share: f64| (share * f64::from(units)).round() as u64;
        let mut endurance = Endurance {
            limits: Vec::new(),
            cycles: profile.pe_cycles.unwrap_or(f64::INFINITY),
            spread: profile.pe_spread,
            spare_left: spares(profile.spare) - spares(profile.factory_bad),
            retired: 0,
            rng: Rng::new(seed),
        };
        if endurance.cycles.is_finite() {
            endurance.limits = (0..units).map(|_| endurance.draw()).collect();
        }
        endurance
    }

    /// Records that `unit` is being erased for the `erases`-th time.
    #[inline]
    pub fn erase(&mut self, unit: UnitId, erases: u32) -> Erased {
        match self.limits.get(unit.index()) {
            Some(&limit) if erases >= limit => self.wear_out(unit, erases),
            _ => Erased::Usable,
        }
    }

    /// Spare units left.
    #[must_use]
    pub fn spare_left(&self) -> u64 {
        self.spare_left
    }

    /// Units that left service.
    #[must_use]
    pub fn retired(&self) -> u64 {
        self.retired
    }

    fn wear_out(&mut self, unit: UnitId, erases: u32) -> Erased {
        if self.spare_left == 0 {
            self.retired += 1;
            return Erased::WornOut;
        }
        self.spare_left -= 1;
        self.limits[unit.index()] = erases.saturating_add(self.draw());
        Erased::Usable
    }

    /// Normal by the sum of twelve uniform numbers (Irwin-Hall), which needs no function that differs between machines.
    fn draw(&mut self) -> u32 {
        let normal: f64 = (0..12).map(|_| self.rng.unit_f64()).sum::<f64>() - 6.0;
        (self.cycles * (1.0 + self.spread * normal)).round().clamp(1.0, f64::from(u32::MAX)) as u32
    }
}
