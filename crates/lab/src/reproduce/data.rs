//! Experiments whose runs are data: specifications, and which fields of the records are the figures.
//!
//! Invariants:
//! * Each run is a `thermocline.spec/1`.
//! * Equal files and options give equal figures.

use std::sync::Arc;

use serde::Deserialize;
use thermocline_record::plot::{Plot, PlotLine};
use thermocline_record::{RunSpec, WorkloadSpec};
use toml::{Table, Value};

use super::catalog::{Text, text};
use super::point::{DOCUMENTS, Meant, Reference, Standing};
use super::{Figure, FiguresDrawn, Options, part};
use crate::Error;
use crate::spec::Planned;

/// The runs of an experiment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataRuns {
    /// The specification that all runs share, without what has a default.
    spec: Table,
    /// Whether time is left out, where no figure depends on it.
    untimed: bool,
    /// Keys that all figures share.
    figure: Table,
    /// Charts, without their lines.
    plot: Vec<Plot>,
    /// The runs, each once for every combination of its variables.
    run: Vec<Runs>,
}

/// Runs that differ in variables.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Runs {
    /// Lists of variables, combined with each other; the last one changes first.
    #[serde(default)]
    each: Vec<Vec<Table>>,
    /// Differences from the common specification.
    #[serde(default)]
    spec: Table,
    /// Figures of a run.
    figures: Vec<Table>,
}

/// A figure of a record.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    what: String,
    /// Fields that are summed, each a path in the record.
    sum: Vec<String>,
    /// What the sum is divided by: a field or a number.
    #[serde(default)]
    over: Option<Value>,
    /// The published value.
    #[serde(default)]
    theirs: Option<f64>,
    /// Where it was published, if the figure is a row of the table of truth.
    #[serde(default)]
    published: Option<Published>,
    /// The line of a chart that it belongs to.
    #[serde(default)]
    line: Option<Line>,
}

/// The source of a published value; fields as those of [`Reference`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Published {
    document: String,
    #[serde(deserialize_with = "text")]
    quantity: Text,
    #[serde(deserialize_with = "text")]
    unit: Text,
    #[serde(default)]
    meant: Option<Meant>,
    #[serde(default)]
    standing: Option<Standing>,
}

/// A point of a line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// Title of the chart.
    plot: String,
    name: String,
    at: f64,
    /// Name of the line of published values.
    #[serde(default)]
    theirs: Option<String>,
}

/// A run with its figures.
struct Ready {
    spec: RunSpec,
    wanted: Vec<Wanted>,
}

impl DataRuns {
    /// Repeats the runs; with [`Options::points`], those that have a row of the table of truth.
    ///
    /// # Errors
    /// [`Error`] for a wrong file, or when a run fails.
    pub fn measure(
        &self,
        options: &Options,
        progress: &mut dyn FnMut(f64),
    ) -> Result<FiguresDrawn, Error> {
        let mut all = Vec::new();
        for runs in &self.run {
            for variables in combinations(&runs.each) {
                all.push(self.ready(runs, &variables, options)?);
            }
        }
        let is_point = |wanted: &Wanted| wanted.published.is_some();
        all.retain(|run| !options.points || run.wanted.iter().any(is_point));
        let (mut figures, mut plots) = (Vec::new(), self.plot.clone());
        for (index, Ready { spec, wanted }) in all.iter().enumerate() {
            let mut planned = Planned::of(spec)?;
            if self.untimed {
                planned.stack = planned.stack.untimed();
            }
            let progress = &mut part(progress, index, all.len());
            let record = planned.run(&Arc::default(), progress)?;
            let record = serde_json::to_value(record).map_err(|error| wrong(&error))?;
            for wanted in wanted {
                figures.push(wanted.of(&record, &mut plots)?);
            }
        }
        Ok((figures, plots))
    }

    /// The run of `runs` with `variables`.
    fn ready(&self, runs: &Runs, variables: &Table, options: &Options) -> Result<Ready, Error> {
        let mut own = self.spec.clone();
        merge(&mut own, &runs.spec);
        let trace = own.get("workload").and_then(|all| all.get("kind")?.as_str()) == Some("trace");
        let workload = if trace { WorkloadSpec::trace("") } else { WorkloadSpec::generator("") };
        let mut spec =
            Table::try_from(RunSpec::new("", workload)).map_err(|error| wrong(&error))?;
        merge(&mut spec, &own);
        let spec = fill(&Value::Table(spec), variables);
        let mut spec: RunSpec = spec.try_into().map_err(|error| wrong(&error))?;
        spec.seed = options.seed;
        if let WorkloadSpec::Trace { path, .. } = &mut spec.workload {
            *path = options.trace(path).to_string_lossy().into_owned();
        }
        let wanted = runs.figures.iter().map(|own| {
            let mut wanted = self.figure.clone();
            merge(&mut wanted, own);
            fill(&Value::Table(wanted), variables).try_into().map_err(|error| wrong(&error))
        });
        Ok(Ready { spec, wanted: wanted.collect::<Result<_, _>>()? })
    }
}

impl Wanted {
    /// The figure of `record`, which is also put into its chart.
    fn of(&self, record: &serde_json::Value, plots: &mut [Plot]) -> Result<Figure, Error> {
        let sum: f64 =
            self.sum.iter().map(|path| number(record, path)).sum::<Option<_>>().ok_or_else(
                || {
                    Error::Settings(format!(
                        "{}: the record has no {}",
                        self.what,
                        self.sum.join(" or ")
                    ))
                },
            )?;
        let over = match &self.over {
            None => 1.0,
            Some(Value::String(path)) => number(record, path).unwrap_or(f64::NAN),
            Some(value) => value.as_float().unwrap_or(f64::NAN),
        };
        let ours = sum / over;
        if let Some(Line { plot, name, at, theirs }) = &self.line {
            let plot = plots.iter_mut().find(|of| of.title == *plot);
            let plot =
                plot.ok_or_else(|| Error::Settings(format!("no chart for {}", self.what)))?;
            if let (Some(theirs), Some(value)) = (theirs, self.theirs) {
                add(plot, theirs, true, [*at, value]);
            }
            add(plot, name, false, [*at, ours]);
        }
        let reference = self.published.as_ref().map(Published::reference).transpose()?;
        Ok(Figure { reference, ..Figure::beside(&self.what, self.theirs, ours) })
    }
}

impl Published {
    fn reference(&self) -> Result<Reference, Error> {
        let found = DOCUMENTS.iter().find(|document| document.name == self.document);
        let document =
            found.ok_or_else(|| Error::Settings(format!("no document {}", self.document)))?;
        Ok(Reference::new(*document, self.quantity, self.unit)
            .meant(self.meant.unwrap_or(Meant::Equal))
            .standing(self.standing.unwrap_or(Standing::Unexplained)))
    }
}

fn wrong(error: &dyn std::fmt::Display) -> Error {
    Error::Settings(format!("the file of the experiment: {error}"))
}

/// The number at `path`, keys with dots between; a cause without bytes is 0.
fn number(record: &serde_json::Value, path: &str) -> Option<f64> {
    let pointer = format!("/{}", path.replace('.', "/"));
    let absent = path.contains("by_cause").then_some(0.0);
    record.pointer(&pointer).map_or(absent, serde_json::Value::as_f64)
}

fn add(plot: &mut Plot, name: &str, reference: bool, point: [f64; 2]) {
    match plot.lines.iter_mut().find(|line| line.name == name) {
        Some(line) => line.points.push(point),
        None => plot.lines.push(PlotLine { name: name.to_owned(), reference, points: vec![point] }),
    }
}

/// Puts `own` over `base`, table by table.
fn merge(base: &mut Table, own: &Table) {
    for (key, value) in own {
        match (base.get_mut(key), value) {
            (Some(Value::Table(base)), Value::Table(own)) => merge(base, own),
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

/// `value` with variables in place of `{name}`. A text that is nothing but a name becomes the variable itself.
fn fill(value: &Value, variables: &Table) -> Value {
    match value {
        Value::String(text) => {
            let whole = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            if let Some(value) = whole.and_then(|name| variables.get(name)) {
                return value.clone();
            }
            let put = |text: String, (name, value): (&String, &Value)| {
                let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                text.replace(&format!("{{{name}}}"), &shown)
            };
            Value::String(variables.iter().fold(text.clone(), put))
        }
        Value::Array(all) => Value::Array(all.iter().map(|value| fill(value, variables)).collect()),
        Value::Table(table) => {
            let filled = table.iter().map(|(key, value)| (key.clone(), fill(value, variables)));
            Value::Table(filled.collect())
        }
        other => other.clone(),
    }
}

/// Every combination of one of each list.
fn combinations(lists: &[Vec<Table>]) -> Vec<Table> {
    lists.iter().fold(vec![Table::new()], |all, list| {
        let with = |one: &Table| {
            let joined = |more: &Table| {
                let mut one = one.clone();
                one.extend(more.clone());
                one
            };
            list.iter().map(joined).collect::<Vec<_>>()
        };
        all.iter().flat_map(with).collect()
    })
}

#[cfg(test)]
mod tests {
    use thermocline_types::Bytes;
    use thermocline_workload::synthetic::JESD219_SIZES;

    use super::*;
    use crate::reproduce::Experiment;
    use crate::theory::bandwidth::{FlashArray, FlashTiming, HostLink, READ_SHARES};
    use crate::theory::indirection::IndirectionUnit;

    fn figures(name: &str) -> Vec<Figure> {
        let options = Options { seed: 1, traces: None, quick: true, points: false };
        Experiment::find(name).unwrap().run(&options, &mut |_| {}).unwrap()
    }

    #[test]
    fn mapping_units_meet_the_closed_form_that_the_file_states() {
        let start = |size: Bytes| if size < Bytes::BLOCK { Bytes::SECTOR } else { Bytes::BLOCK };
        for (figure, kib) in figures("indirection-unit").into_iter().zip([4, 8, 16, 32, 64]) {
            assert!(figure.error().unwrap().abs() < 0.02, "{figure:?}");
            let own = IndirectionUnit::new(Bytes::kib(kib)).unwrap().mix_waf(&JESD219_SIZES, start);
            let what = "small writes start on 512 B";
            let cause = Standing::Cause { what, theirs: own };
            assert_eq!(figure.reference.unwrap().standing, cause, "{figure:?}");
        }
    }

    /// The drives have pages of 4 KiB, and four banks of a bus work at the same time.
    #[test]
    fn simulated_drives_reach_the_closed_form_where_its_assumptions_hold() {
        let drives =
            [("slc", 24.0, "pcie1-x4"), ("mlc", 24.0, "pcie1-x4"), ("slc", 10.0, "sata-ii")];
        let all = drives.into_iter().flat_map(|drive| READ_SHARES.map(|read| (drive, read)));
        let figures = figures("snia-bandwidth");
        assert_eq!(figures.len(), 15);
        for (((media, buses, link), read), figure) in all.zip(figures) {
            let timing = FlashTiming { page_bytes: 4096.0, ..*FlashTiming::find(media).unwrap() };
            let link = *HostLink::find(link).unwrap();
            let array = FlashArray::new(timing, buses * 4.0, 4.0, 4.0, link).unwrap();
            assert_eq!(figure.theirs, Some(array.bandwidth(read, None).mb_per_s), "{figure:?}");
            assert!(figure.error().unwrap().abs() < 0.03, "{figure:?}");
        }
    }

    #[test]
    fn mixes_fall_below_both_where_the_bus_is_in_order_and_nowhere_else() {
        let figures = figures("snia-collisions");
        for (case, falls) in figures.chunks(5).zip([true, false, false]) {
            let lower = case[0].ours.min(case[4].ours);
            assert_eq!(case[2].ours < 0.95 * lower, falls, "{case:?}");
        }
    }

    #[test]
    fn lists_of_variables_are_combined_and_a_name_alone_keeps_its_type() {
        let list = |text: &str| -> Vec<Vec<Table>> {
            let table: Table = toml::from_str(text).unwrap();
            table["each"].clone().try_into().unwrap()
        };
        let all =
            combinations(&list("each = [[{ a = 1 }, { a = 2 }], [{ b = 'x' }, { b = 'y' }]]"));
        let told = |one: &Table| fill(&Value::String("{a}{b}".to_owned()), one);
        let told: Vec<Value> = all.iter().map(told).collect();
        assert_eq!(told, ["1x", "1y", "2x", "2y"].map(|text| Value::String(text.to_owned())));
        assert_eq!(fill(&Value::String("{a}".to_owned()), &all[0]), Value::Integer(1));
        assert_eq!(combinations(&[]), [Table::new()]);
    }

    #[test]
    fn a_field_that_no_record_has_is_an_error() {
        let record = serde_json::json!({ "waf": 1.5, "by_cause": {} });
        assert_eq!(number(&record, "waf"), Some(1.5));
        assert_eq!((number(&record, "by_cause.host"), number(&record, "wuff")), (Some(0.0), None));
    }
}
