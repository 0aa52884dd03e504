//! Reads that took several attempts.

use thermocline_record::PageReads;

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
    })
}

/// What the flash went through, and what that made of its reads.
pub fn note(outcome: &Outcome, run: &ByteCounts) -> Option<String> {
    let aged = outcome.stack.profile.aged.as_ref()?;
    let reads = of(outcome, run)?;
    let lost = if reads.lost > 0 { format!(", {} were lost", reads.lost) } else { String::new() };
    Some(format!(
        "flash with {:.0} % of its rated cycles used up and data of {} days at {} °C: {} of {} reads of pages took more \
         than one attempt, {} were rebuilt from parity{lost}; rates are assumed (`lab theory integrity`)",
        100.0 * aged.wear,
        aged.days,
        aged.celsius,
        reads.retried,
        reads.reads,
        reads.rebuilt
    ))
}
