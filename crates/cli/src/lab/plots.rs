//! Charts of theory and experiments as a report.

use std::path::Path;

use thermocline_record::plot::Plot;
use thermocline_report::{PlotPage, TextTable, render_plots};

use crate::file;

/// Writes the page with `plots` and `tables` to `path`, if one is given.
pub fn write(
    path: Option<&Path>,
    title: &str,
    introduction: &str,
    (plots, tables): (Vec<Plot>, Vec<TextTable>),
    notes: &[&str],
) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let page = PlotPage {
        title: title.to_owned(),
        introduction: introduction.to_owned(),
        plots,
        tables,
        notes: notes.iter().map(|note| (*note).to_owned()).collect(),
    };
    file::write(path, &render_plots(&page))
}
