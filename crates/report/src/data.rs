//! Records as shown on the page.

use thermocline_record::{Lasting, RunRecord};

use crate::palette::swatch;
use crate::text::escape;

/// A record and its position on the page.
pub(crate) struct Run<'a> {
    /// Position among the records, which decides its style.
    pub index: usize,
    /// Its stack, numbered where a stack occurs more than once. Not escaped.
    pub label: String,
    /// The measured record.
    pub record: &'a RunRecord,
}

impl Run<'_> {
    /// Swatch and name as HTML.
    pub fn name(&self) -> String {
        format!("{}<span class=\"stack\">{}</span>", swatch(self.index), escape(&self.label))
    }

    /// Whether the run's ratios are of the steady window.
    pub fn is_steady(&self) -> bool {
        self.record.steady_state.reached
    }

    /// WAF, ALWA and DLWA to report: of the steady window, or of its substitute before steady state.
    pub fn ratios(&self) -> &Lasting {
        &self.record.lasting
    }
}

/// The records in the order given, each with a label of its own.
pub(crate) fn runs(records: &[RunRecord]) -> Vec<Run<'_>> {
    let label = |index: usize, stack: &str| {
        let same = |other: &&RunRecord| other.stack == stack;
        if records.iter().filter(same).count() == 1 {
            return stack.to_owned();
        }
        format!("{stack} #{}", records[..=index].iter().filter(same).count())
    };
    let run = |(index, record): (usize, _)| {
        let record: &RunRecord = record;
        Run { index, label: label(index, &record.stack), record }
    };
    records.iter().enumerate().map(run).collect()
}
