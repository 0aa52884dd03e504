//! Answers against what became of a generated fleet.

use std::collections::BTreeMap;

use serde::Serialize;

use super::answer::{FleetAnswer, FleetRange};
use super::generate::FleetTruth;

/// A class, as forecast and as it came.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassGrade {
    /// Its name.
    pub name: String,
    /// Its drives.
    pub drives: usize,
    /// Drives worn out before their service ends, as forecast.
    pub forecast: FleetRange,
    /// The same, as it came.
    pub truth: usize,
    /// Whether the truth is in the interval.
    pub inside: bool,
}

/// A fleet, as forecast and as it came.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grade {
    /// The seed of the fleet.
    pub seed: u64,
    /// All drives together.
    pub fleet: ClassGrade,
    /// Its classes.
    pub classes: Vec<ClassGrade>,
    /// Share of the drives whose used endurance at the end of service is in its interval.
    pub drives_inside: f64,
}

impl Grade {
    /// Share of the classes whose truth is in the interval.
    #[must_use]
    pub fn classes_inside(&self) -> f64 {
        let inside = self.classes.iter().filter(|class| class.inside).count();
        inside as f64 / self.classes.len().max(1) as f64
    }
}

/// Grades `answer` by `truth`.
#[must_use]
pub fn grade(answer: &FleetAnswer, truth: &FleetTruth) -> Grade {
    let of = |name: &str, drives, forecast: FleetRange, truth: usize| {
        // An interval that has no drive at an end says so exactly.
        let inside = (forecast.low..=forecast.high).contains(&(truth as f64));
        ClassGrade { name: name.to_owned(), drives, forecast, truth, inside }
    };
    let class = |true_class: &super::TruthClass| {
        let forecast = answer.classes.iter().find(|class| class.name == true_class.name);
        let forecast = forecast.map(|class| class.worn_out).unwrap_or_default();
        of(&true_class.name, true_class.drives, forecast, true_class.worn_out)
    };
    let classes: Vec<ClassGrade> = truth.classes.iter().map(class).collect();
    let sum = |of: fn(&ClassGrade) -> usize| classes.iter().map(of).sum::<usize>();
    let fleet = of("fleet", sum(|one| one.drives), answer.worn_out, sum(|one| one.truth));
    let ends: BTreeMap<&str, f64> =
        truth.drives.iter().map(|one| (one.serial.as_str(), one.used_at_end_percent)).collect();
    let is_inside = |one: &&super::FleetDrive| {
        let FleetRange { low, high, .. } = one.used_at_end_percent;
        ends.get(one.serial.as_str()).is_some_and(|end| (low..=high).contains(end))
    };
    let inside = answer.drives.iter().filter(is_inside).count();
    let drives_inside = inside as f64 / truth.drives.len().max(1) as f64;
    Grade { seed: truth.seed, fleet, classes, drives_inside }
}
