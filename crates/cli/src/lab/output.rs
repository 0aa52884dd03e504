//! Outputs of results: a table, JSON, a record file, a report.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;
use serde::Serialize;
use serde_json::Value;
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
    /// Show the run of a stored record (--record) in the first column, and what has changed since
    #[arg(long, value_name = "FILE", help_heading = "Output", conflicts_with = "json")]
    against: Option<PathBuf>,
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
        self.earlier().map(drop)
    }

    /// The record to compare with.
    fn earlier(&self) -> anyhow::Result<Option<RunRecord>> {
        let Some(path) = &self.against else { return Ok(None) };
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        let record = RunRecord::from_json(&text);
        record.map(Some).with_context(|| format!("{} is no record of a run", path.display()))
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
        let earlier = self.earlier()?;
        let changes = earlier.iter().flat_map(|earlier| changes(earlier, records));
        let changes: String = changes.map(|change| change + "\n").collect();
        let all: Vec<RunRecord> = earlier.into_iter().chain(records.iter().cloned()).collect();
        let records = &all[..];
        let shown = match (self.json, self.table) {
            (true, _) => json.to_owned(),
            (false, Some(form)) => table::flat(records, form),
            (false, None) => table::show(records) + &changes,
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

/// What differs between an earlier run and these: figures, then settings.
fn changes(earlier: &RunRecord, records: &[RunRecord]) -> Vec<String> {
    let p99 = |record: &RunRecord| {
        let write = record.latency_ns.as_ref()?.get("write")?;
        write.p99.map(|nanos| nanos as f64 / 1e6)
    };
    let life = |record: &RunRecord| record.life.as_ref().map(|life| life.years_p50);
    let figures = |record: &RunRecord| {
        [
            ("overprovisioning", Some(record.device.overprovisioning)),
            ("utilisation", record.device.utilisation),
            ("WAF", record.waf),
            ("ALWA", record.alwa),
            ("DLWA", record.dlwa),
            ("life P50 (years)", life(record)),
            ("write p99 (ms)", p99(record)),
        ]
    };
    let of_one = |record: &RunRecord| {
        let stack = &record.stack;
        let mut changes = vec![format!("{stack}, against the earlier run of {}:", earlier.stack)];
        if (&earlier.workload.name, earlier.workload.span_bytes)
            != (&record.workload.name, record.workload.span_bytes)
        {
            let (then, now) = (&earlier.workload.name, &record.workload.name);
            changes.push(format!(
                "  another workload: {now} instead of {then}, so figures differ for that alone"
            ));
        }
        for ((name, now), (_, then)) in figures(record).into_iter().zip(figures(earlier)) {
            let Some((now, then)) = now.zip(then).filter(|(_, then)| *then > 0.0) else { continue };
            let percent = 100.0 * (now / then - 1.0);
            changes.push(format!("  {name} {now:.3} instead of {then:.3} ({percent:+.1} %)"));
        }
        let keys: BTreeSet<&String> = earlier.config.keys().chain(record.config.keys()).collect();
        for key in keys {
            let (now, then) = (record.config.get(key), earlier.config.get(key));
            if now != then {
                let show =
                    |value: Option<&Value>| value.map_or("none".to_owned(), Value::to_string);
                changes.push(format!("  {key} is {} instead of {}", show(now), show(then)));
            }
        }
        changes
    };
    records.iter().flat_map(of_one).collect()
}
