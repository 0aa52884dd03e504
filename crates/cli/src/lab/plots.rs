//! Charts of theory and experiments as a report.

use std::path::Path;

use thermocline_record::plot::Plot;
use thermocline_report::{BarChart, Origin, PlotPage, TextTable, render_plots};

use crate::file;

/// Charts and tables with their origins.
#[derive(Default)]
pub struct Charts {
    /// Charts of bars.
    pub bars: Vec<BarChart>,
    /// The charts of lines.
    pub plots: Vec<Plot>,
    /// Name of the origin of each chart, if there are origins.
    pub plot_origins: Vec<String>,
    /// The same in numbers.
    pub tables: Vec<TextTable>,
    /// Sources and commands.
    pub origins: Vec<Origin>,
}

/// Writes the page with the plots to `path`, if given.
pub fn write(
    path: Option<&Path>,
    title: &str,
    introduction: &str,
    drawn: Charts,
    notes: &[&str],
) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let Charts { bars, plots, plot_origins, tables, origins } = drawn;
    let page = PlotPage {
        title: title.to_owned(),
        introduction: introduction.to_owned(),
        bars,
        plots,
        plot_origins,
        tables,
        origins,
        notes: notes.iter().map(|note| (*note).to_owned()).collect(),
        ..PlotPage::default()
    };
    file::write(path, &render_plots(&page))
}
