//! Endurance of units, and the spares that replace worn-out units.

use thermocline_ftl::Erased;
use thermocline_types::{Rng, UnitId};

use crate::profile;

/// Endurance of every unit, and the spare units that replace worn-out ones.
///
/// A unit's endurance is drawn once from a normal distribution around the profile's `pe_cycles`. With the chance
/// `infant_share` it is an early failure instead, which comes after 1 to `infant_cycles` erases, each as likely. A unit
/// that reaches its endurance is replaced by a spare, which has an endurance of its own and may fail early as well;
/// without spares it leaves service. Failures show when a unit is erased and cost no data. A program of a page fails
/// with the chance `program_failures`, whatever its unit went through: the unit is to be emptied and leaves service as
/// one that is worn out does.
#[derive(Clone, Debug)]
pub struct Endurance {
    limits: Vec<u32>,
    cycles: f64,
    spread: f64,
    infant_share: f64,
    infant_cycles: u64,
    /// Units that will fail early; empty where none does.
    infants: Vec<bool>,
    spare_left: u64,
    retired: u64,
    worn_out: u64,
    failed_early: u64,
    rng: Rng,
    program_failures: f64,
    /// Units in which a program failed, until they are emptied.
    failing: Vec<UnitId>,
    failed_programs: u64,
    /// A separate generator: program failures must not change the drawn endurance.
    programs: Rng,
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
            infant_share: profile.infant_share,
            infant_cycles: (profile.infant_cycles.round() as u64).max(1),
            infants: Vec::new(),
            spare_left: spares(profile.spare) - spares(profile.factory_bad),
            retired: 0,
            worn_out: 0,
            failed_early: 0,
            rng: Rng::new(seed),
            program_failures: profile.program_failures,
            failing: Vec::new(),
            failed_programs: 0,
            programs: Rng::new(seed ^ 0x5072_6f67_7261_6d73),
        };
        if endurance.cycles.is_finite() || endurance.infant_share > 0.0 {
            endurance.limits = vec![0; units as usize];
            endurance.infants = vec![false; units as usize];
            (0..units as usize).for_each(|unit| endurance.begin(unit, 0));
        }
        endurance
    }

    /// Records that `unit` is being erased for the `erases`-th time.
    #[inline]
    pub fn erase(&mut self, unit: UnitId, erases: u32) -> Erased {
        if let Some(at) = self.failing.iter().position(|&failing| failing == unit) {
            self.failing.swap_remove(at);
            self.failed_programs += 1;
            return self.replace(unit, erases);
        }
        match self.limits.get(unit.index()) {
            Some(&limit) if erases >= limit => self.fail(unit, erases),
            _ => Erased::Usable,
        }
    }

    /// A page of `unit` is programmed, which may fail.
    #[inline]
    pub fn program(&mut self, unit: UnitId) {
        if self.program_failures > 0.0
            && self.programs.unit_f64() < self.program_failures
            && !self.failing.contains(&unit)
        {
            self.failing.push(unit);
        }
    }

    /// A unit in which a program failed and that is not emptied yet.
    #[must_use]
    #[inline]
    pub fn failing(&self) -> Option<UnitId> {
        self.failing.first().copied()
    }

    /// Whether a program failed in `unit` and it is not emptied yet.
    #[must_use]
    pub fn is_failing(&self, unit: UnitId) -> bool {
        self.failing.contains(&unit)
    }

    /// Units that went out of service because a program failed, replaced or not.
    #[must_use]
    pub fn failed_programs(&self) -> u64 {
        self.failed_programs
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

    /// Units that reached the end of their endurance, replaced or not, early failures not among them.
    #[must_use]
    pub fn worn_out(&self) -> u64 {
        self.worn_out
    }

    /// Units that failed early, replaced or not.
    #[must_use]
    pub fn failed_early(&self) -> u64 {
        self.failed_early
    }

    fn fail(&mut self, unit: UnitId, erases: u32) -> Erased {
        let early = self.infants[unit.index()];
        *if early { &mut self.failed_early } else { &mut self.worn_out } += 1;
        self.replace(unit, erases)
    }

    /// Puts a spare in the place of `unit`, or takes it out of service.
    fn replace(&mut self, unit: UnitId, erases: u32) -> Erased {
        if self.spare_left == 0 {
            self.retired += 1;
            return Erased::WornOut;
        }
        self.spare_left -= 1;
        self.begin(unit.index(), erases);
        Erased::Usable
    }

    /// Puts a unit without wear in the place of `unit` when that was erased `erases` times.
    fn begin(&mut self, unit: usize, erases: u32) {
        if self.limits.is_empty() {
            return; // Nothing wears out.
        }
        let infant = self.infant_share > 0.0 && self.rng.unit_f64() < self.infant_share;
        let cycles =
            if infant { 1 + self.rng.below(self.infant_cycles) as u32 } else { self.draw() };
        self.infants[unit] = infant;
        self.limits[unit] = erases.saturating_add(cycles);
    }

    /// Normal by the sum of twelve uniform numbers (Irwin-Hall), which needs no function that differs between machines.
    fn draw(&mut self) -> u32 {
        let normal: f64 = (0..12).map(|_| self.rng.unit_f64()).sum::<f64>() - 6.0;
        (self.cycles * (1.0 + self.spread * normal)).round().clamp(1.0, f64::from(u32::MAX)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wear(infant_share: f64, pe_cycles: Option<f64>) -> profile::Wear {
        profile::Wear {
            pe_cycles,
            infant_share,
            infant_cycles: 20.0,
            spare: 0.2,
            ..profile::Wear::default()
        }
    }

    /// Erases every one of 10,000 units so many times; returns those that left service.
    fn erase_all(endurance: &mut Endurance, from: u32, to: u32) -> u32 {
        let mut gone = 0;
        for erases in from + 1..=to {
            for unit in 0..10_000 {
                gone += u32::from(endurance.erase(UnitId(unit), erases) == Erased::WornOut);
            }
        }
        gone
    }

    #[test]
    fn a_share_of_units_fails_early_and_spares_take_their_place() {
        let mut endurance = Endurance::new(&wear(0.05, Some(1000.0)), 10_000, 1);
        assert_eq!(erase_all(&mut endurance, 0, 20), 0);
        // 5 % of 10,000, and 5 % of the spares of which half come early enough to fail as well; four deviations.
        let early = endurance.failed_early() as f64;
        assert!((early - 512.0).abs() < 4.0 * 512_f64.sqrt(), "{early}");
        assert_eq!(endurance.spare_left(), 2000 - endurance.failed_early());
        assert_eq!((endurance.worn_out(), endurance.retired()), (0, 0));
        // From then on only what replaced the last of them fails, until units are worn out.
        erase_all(&mut endurance, 20, 60);
        assert!(endurance.failed_early() as f64 - early < 60.0);
        let settled = endurance.failed_early();
        erase_all(&mut endurance, 60, 500);
        assert_eq!((endurance.failed_early(), endurance.worn_out()), (settled, 0));
        erase_all(&mut endurance, 500, 1000);
        assert!(endurance.worn_out() > 4000, "{}", endurance.worn_out());
    }

    #[test]
    fn media_without_limit_may_fail_early_and_without_early_failures_nothing_is_drawn_for_them() {
        let mut endless = Endurance::new(&wear(0.05, None), 10_000, 1);
        erase_all(&mut endless, 0, 200);
        assert!(endless.failed_early() > 400 && endless.worn_out() == 0);
        let never = Endurance::new(&wear(0.0, Some(1000.0)), 100, 1);
        let mut rng = Rng::new(1);
        let normal: f64 = (0..12).map(|_| rng.unit_f64()).sum::<f64>() - 6.0;
        assert_eq!(never.limits[0], (1000.0 * (1.0 + 0.1 * normal)).round() as u32);
    }
}
