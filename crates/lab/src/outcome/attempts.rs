//! Reads that took several attempts.

use thermocline_record::{DataAges, PageReads};

use super::Outcome;
use crate::byte_counts::ByteCounts;

/// Reads of pages over the measured run, where the drive models wrong bits.
pub fn of(outcome: &Outcome, run: &ByteCounts) -> Option<PageReads> {
    outcome.stack.profile.aged.as_ref()?;
    let attempts = run.drive.attempts;
    Some(PageReads {
        reads: attempts.reads,
        retried: attempts.retried,
        further_attempts: attempts.further,
        with_soft_information: attempts.soft,
        rebuilt: attempts.rebuilt,
        lost: attempts.lost,
        uber: run.drive.losses.uber().map(digits),
        data: outcome.ages.map(|ages| DataAges {
            mean_days: digits(ages.mean_days),
            oldest_days: digits(ages.oldest_days),
            uber: digits(ages.loss.uber().unwrap_or(0.0)),
        }),
    })
}

/// To three digits, since machines may differ in the last bits of a logarithm, and no more is known.
fn digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().expect("a number that was written")
}

/// Describes the age of the flash and the effect on reads.
pub fn note(outcome: &Outcome, run: &ByteCounts) -> Option<String> {
    let aged = outcome.stack.profile.aged.as_ref()?;
    let reads = of(outcome, run)?;
    let lost = if reads.lost > 0 { format!(", {} were lost", reads.lost) } else { String::new() };
    let age = match reads.data {
        None => format!("data of {} days", aged.days),
        Some(data) => {
            format!("data of {} days in the mean, {} at most,", data.mean_days, data.oldest_days)
        }
    };
    Some(format!(
        "flash with {:.0} % of its rated cycles used up at first and {age} at {} °C: {} of {} reads of pages took more \
         than one attempt, {} were rebuilt from parity{lost}; rates are assumed (`lab theory integrity`)",
        100.0 * aged.wear,
        aged.celsius,
        reads.retried,
        reads.reads,
        reads.rebuilt
    ))
}
