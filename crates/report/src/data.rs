//! Records as shown on the page and as embedded for the page's scripts.

use serde::Serialize;
use thermocline_record::RunRecord;
use thermocline_record::plot::Plot;

use crate::palette::{CAUSES, CauseStyle, Ramp, Style, VALID, WEAR, style, swatch};
use crate::text::escape;

/// Everything the scripts read.
#[derive(Serialize)]
struct PageData<'a> {
    labels: Vec<&'a str>,
    styles: Vec<Style>,
    causes: &'a [CauseStyle],
    ramps: Ramps,
    records: Vec<&'a RunRecord>,
    plots: &'a [Plot],
}

/// Colours of the two maps.
#[derive(Serialize)]
struct Ramps {
    valid: Ramp,
    wear: Ramp,
}

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
    pub fn ratios(&self) -> Ratios {
        let r = self.record;
        let choose = |steady: Option<f64>, whole| steady.or(whole);
        Ratios {
            waf: choose(r.waf_steady, r.waf),
            alwa: choose(r.alwa_steady, r.alwa),
            dlwa: choose(r.dlwa_steady, r.dlwa),
        }
    }
}

/// The ratios a run is judged by.
pub(crate) struct Ratios {
    /// Media bytes / host bytes.
    pub waf: Option<f64>,
    /// Device bytes / host bytes.
    pub alwa: Option<f64>,
    /// Media bytes / device bytes.
    pub dlwa: Option<f64>,
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

/// The data as JSON that may stand inside a script element: no `<` is left in it that could end the element.
pub(crate) fn json(runs: &[Run<'_>]) -> String {
    // A run has one, and each line of a chart of one run's devices.
    let lines = runs.iter().map(|run| 2 * run.record.device_series.len()).max();
    let styles = runs.len().max(lines.unwrap_or(0));
    let data = PageData {
        labels: runs.iter().map(|run| run.label.as_str()).collect(),
        styles: (0..styles).map(style).collect(),
        causes: &CAUSES,
        ramps: Ramps { valid: VALID, wear: WEAR },
        records: runs.iter().map(|run| run.record).collect(),
        plots: &[],
    };
    inside_script(&data)
}

/// The same for a page of charts without records.
pub(crate) fn plots_json(plots: &[Plot]) -> String {
    let lines = plots.iter().map(|plot| plot.lines.len()).max().unwrap_or(0);
    inside_script(&PageData {
        labels: Vec::new(),
        styles: (0..lines).map(style).collect(),
        causes: &CAUSES,
        ramps: Ramps { valid: VALID, wear: WEAR },
        records: Vec::new(),
        plots,
    })
}

fn inside_script(data: &PageData) -> String {
    let text = serde_json::to_string(data).expect("a record holds only JSON values");
    text.replace('<', "\\u003c")
}
