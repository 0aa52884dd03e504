//! Outputs of results: a table, JSON, a record file, a report.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use clap::Args;
use serde::Serialize;
use thermocline_lab::Input;
use thermocline_record::RunRecord;
use thermocline_report::render_with_workload;

use super::analyze::charts_of;
use crate::table::TableForm;
use crate::{file, table};

/// Where results go.
#[derive(Args, Clone)]
pub struct OutputArgs {
    /// Print JSON instead of a table
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Print the figures as CSV or as a table of Markdown, a column for each run
    #[arg(long, value_name = "FORM", help_heading = "Output", conflicts_with = "json")]
    table: Option<TableForm>,
    /// Write the JSON to a file as well
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    record: Option<PathBuf>,
    /// Write an HTML report: a single file, readable offline
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,
}

/// Several runs of the same workload.
#[derive(Serialize)]
struct Comparison<'a> {
    schema: &'static str,
    runs: &'a [RunRecord],
}

/// Refuses to write `output` over the trace that is read.
pub fn refuse_overwriting(trace: &Path, output: &Path) -> anyhow::Result<()> {
    let same =
        trace.canonicalize().ok().zip(output.canonicalize().ok()).is_some_and(|(a, b)| a == b);
    ensure!(!same, "{} is the trace itself; write to another file", output.display());
    Ok(())
}

impl OutputArgs {
    /// Refuses unwritable output paths before a long run.
    pub fn check(&self, trace: Option<&Path>) -> anyhow::Result<()> {
        ensure!(
            self.record.is_none() || self.record != self.report,
            "--record and --report name the same file"
        );
        for path in [&self.record, &self.report].into_iter().flatten() {
            if let Some(trace) = trace {
                refuse_overwriting(trace, path)?;
            }
            file::check(path)?;
        }
        Ok(())
    }

    /// Gives out one run.
    pub fn give_run(&self, record: &RunRecord, input: &Input) -> anyhow::Result<()> {
        self.give(std::slice::from_ref(record), &record.to_json(), input)
    }

    /// Gives out a comparison.
    pub fn give_comparison(&self, records: &[RunRecord], input: &Input) -> anyhow::Result<()> {
        let comparison = Comparison { schema: "thermocline.compare/1", runs: records };
        self.give(records, &format!("{}\n", serde_json::to_string_pretty(&comparison)?), input)
    }

    /// Writes to standard output, then to the files. A failed write does not prevent the other writes.
    fn give(&self, records: &[RunRecord], json: &str, input: &Input) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        let shown = match (self.json, self.table) {
            (true, _) => json.to_owned(),
            (false, Some(form)) => table::flat(records, form),
            (false, None) => table::show(records),
        };
        let shown = out.write_all(shown.as_bytes());
        let recorded = self.record.as_ref().map_or(Ok(()), |path| file::write(path, json));
        let reported = self.report.as_ref().map_or(Ok(()), |path| {
            let title = format!("Thermocline: {}", records[0].workload.name);
            // An interrupted run ends at once.
            let ended = records.iter().all(|record| record.interrupted.is_none());
            let workload = if ended { charts_of(input)? } else { None };
            file::write(path, &render_with_workload(&title, records, workload.as_ref()))
        });
        recorded.and(reported)?;
        shown?;
        if let (Some(path), false) = (&self.report, self.json || self.table.is_some()) {
            writeln!(out, "report: {}", path.display())?;
        }
        Ok(())
    }
}
