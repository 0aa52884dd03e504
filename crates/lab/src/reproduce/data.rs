//! Experiments whose runs are data: specifications, and which fields of the records are the figures.
//!
//! Invariants:
//! * Each run is a `thermocline.spec/1`.
//! * Equal files and options give equal figures.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
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
    /// Variables of the full form, and of the small form.
    full: Table,
    quick: Table,
    /// Lists of variables: all runs are repeated for every combination.
    each: Vec<Vec<Table>>,
    /// The runs, each once for every combination of its variables.
    run: Vec<Runs>,
}

/// Runs that differ in variables.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Runs {
    /// Lists of variables, combined with each other; the last one changes first. The variable `spec` is a table of more
    /// differences.
    #[serde(default)]
    each: Vec<Vec<Table>>,
    /// Differences from the common specification.
    #[serde(default)]
    spec: Table,
    /// Figures of a run.
    figures: Vec<Table>,
    /// A figure after the last run: the root of the mean square of `of` figures before.
    #[serde(default)]
    root_mean_square: Option<Table>,
    /// What the drive has beyond its capacity, whatever the size of the workload.
    #[serde(default)]
    units_beyond_capacity: Option<Table>,
}

/// Units of a drive.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Units {
    count: u32,
    bytes: u64,
}

/// A figure of the figures before.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Score {
    what: String,
    of: usize,
}

/// A figure of a record.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    what: String,
    /// Fields that are summed, each a path in the record.
    #[serde(default)]
    sum: Vec<String>,
    /// Instead of a sum: MB/s of writes between two shares of the points of the series.
    #[serde(default)]
    written_between: Option<[f64; 2]>,
    /// What it is multiplied with, and then divided by: fields or numbers.
    #[serde(default)]
    times: Vec<Value>,
    #[serde(default)]
    over: Vec<Value>,
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
    /// After the figures.
    score: Option<Score>,
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
        let form = if options.quick { &self.quick } else { &self.full };
        let mut all = Vec::new();
        for outer in combinations(form, &self.each) {
            for runs in &self.run {
                for variables in combinations(&outer, &runs.each) {
                    all.push(self.ready(runs, &variables, options)?);
                }
                if let (Some(score), Some(last)) = (&runs.root_mean_square, all.last_mut()) {
                    last.score = Some(filled(score, &outer)?);
                }
            }
        }
        let is_point = |wanted: &Wanted| wanted.published.is_some();
        all.retain(|run| !options.points || run.wanted.iter().any(is_point));
        let (mut figures, mut plots) = (Vec::new(), self.plot.clone());
        for (index, Ready { spec, wanted, score }) in all.iter().enumerate() {
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
            figures.extend(score.as_ref().map(|score| score.of(&figures)));
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
        if let Some(Value::Table(more)) = variables.get("spec") {
            merge(&mut spec, more);
        }
        let mut spec: RunSpec = filled(&spec, variables)?;
        spec.seed = options.seed;
        if let WorkloadSpec::Trace { path, .. } = &mut spec.workload {
            *path = options.trace(path).to_string_lossy().into_owned();
        }
        if let Some(units) = &runs.units_beyond_capacity {
            let Units { count, bytes } = filled(units, variables)?;
            let beyond = f64::from(count) * bytes as f64 * spec.utilisation;
            let footprint = Planned::of(&spec)?.prepared()?.footprint();
            spec.set.push(format!("device.op={}", beyond / footprint.as_f64()));
        }
        let wanted = runs.figures.iter().map(|own| {
            let mut wanted = self.figure.clone();
            merge(&mut wanted, own);
            filled(&wanted, variables)
        });
        Ok(Ready { spec, wanted: wanted.collect::<Result<_, _>>()?, score: None })
    }
}

impl Wanted {
    /// The figure of `record`, which is also put into its chart.
    fn of(&self, record: &serde_json::Value, plots: &mut [Plot]) -> Result<Figure, Error> {
        let sum = || self.sum.iter().map(|path| number(record, path)).sum::<Option<f64>>();
        let asked = match self.written_between {
            Some(shares) => written_between(record, shares),
            None => sum(),
        };
        let asked = asked.ok_or_else(|| {
            let fields = self.sum.join(" or ");
            Error::Settings(format!("{}: the record has no {fields}", self.what))
        })?;
        let value = |of: &Value| match of {
            Value::String(path) => number(record, path).unwrap_or(f64::NAN),
            number => number.as_float().unwrap_or(f64::NAN),
        };
        let product = self.times.iter().map(value).fold(asked, |product, times| product * times);
        let ours = self.over.iter().map(value).fold(product, |ours, over| ours / over);
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

impl Score {
    fn of(&self, figures: &[Figure]) -> Figure {
        let values = figures.iter().rev().take(self.of).rev().map(|figure| figure.ours);
        let squares: f64 = values.map(|value| value * value).sum();
        Figure::ours(&self.what, (squares / self.of as f64).sqrt())
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

/// MB/s that the host wrote between two shares of the points of the series.
fn written_between(record: &serde_json::Value, [from, to]: [f64; 2]) -> Option<f64> {
    let series = record.get("series")?.as_array()?;
    let at = |share: f64| {
        let place = ((share * series.len() as f64) as usize).checked_sub(1);
        let field = |at: usize, name| series[at].get(name)?.as_f64();
        place.map_or(Some((0.0, 0.0)), |at| Some((field(at, "host_bytes")?, field(at, "seconds")?)))
    };
    let ((begun, since), (done, until)) = (at(from)?, at(to)?);
    Some((done - begun) / (until - since) / 1e6)
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

/// What `table` says with `variables`.
fn filled<T: DeserializeOwned>(table: &Table, variables: &Table) -> Result<T, Error> {
    fill(&Value::Table(table.clone()), variables).try_into().map_err(|error| wrong(&error))
}

/// Every combination of one of each list, beside the variables of `with`.
fn combinations(with: &Table, lists: &[Vec<Table>]) -> Vec<Table> {
    lists.iter().fold(vec![with.clone()], |all, list| {
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

    /// What a figure of `all` is.
    fn of(all: &[Figure], what: &str) -> f64 {
        let found = all.iter().find(|figure| figure.what == what);
        found.unwrap_or_else(|| panic!("{what}: {all:?}")).ours
    }

    #[test]
    fn a_full_cache_is_a_cliff_and_folding_is_a_write_more() {
        let figures = figures("slc-cache");
        let order = |what: &str| {
            of(&figures, &format!("in order, erased before, folded when full: {what}"))
        };
        assert!(order("MB/s at first") > 10.0 * order("MB/s later"));
        // Only what the cache still holds in the end is not folded.
        assert!((1.85..2.0).contains(&order("WAF")), "{}", order("WAF"));
        let past = of(&figures, "in order, erased before, past it when full: MB/s later");
        assert!(past > 1.1 * order("MB/s later"), "{past}");
        // x = 12 + (768 - x) 0.667 / 4 GB.
        let took = "in order, erased before, past it when full: GB that the cache took";
        assert!((of(&figures, took) / 120.0 - 1.0).abs() < 0.05, "{}", of(&figures, took));
        let paced =
            |when: &str| of(&figures, &format!("Zipf 4 KiB at a pace, folded when {when}: WAF"));
        assert!(paced("idle") > 1.1 * paced("full"), "{} {}", paced("idle"), paced("full"));
    }

    /// 4 KiB in erase blocks of 256 KiB: 64 times as much is written. Whole blocks cost nothing more, in any of the
    /// three; and erasing later is faster than erasing first.
    #[test]
    fn small_writes_cost_a_block_each_and_whole_blocks_nothing() {
        let figures = figures("snia-controllers");
        let waf =
            |name: &str, size: &str| of(&figures, &format!("{name}, random writes of {size}: WAF"));
        let rate = |name| of(&figures, &format!("{name}, random writes of 4 KiB: per second"));
        let (first, later, log) =
            ("read/erase/modify/write", "read/modify/write", "garbage collecting");
        for name in [first, later] {
            assert!((waf(name, "4 KiB") - 64.0).abs() < 1e-9, "{name}");
            assert!((waf(name, "256 KiB") - 1.0).abs() < 1e-9, "{name}");
        }
        assert!(rate(later) >= rate(first), "{} and {}", rate(later), rate(first));
        assert!(waf(log, "4 KiB") < 4.0, "garbage collection with a quarter of spare");
        assert!(rate(log) > 5.0 * rate(later));
        let five = ["100/0", "75/25", "50/50", "25/75", "0/100"];
        let mixed = |mix| of(&figures, &format!("{log}, 512 B at reads/writes {mix}: per second"));
        let mean = five.map(mixed).iter().map(|value| value * value).sum::<f64>() / 5.0;
        let score = of(&figures, &format!("{log}, 512 B: root of the mean square of the five"));
        assert!((score / mean.sqrt() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn lists_of_variables_are_combined_and_a_name_alone_keeps_its_type() {
        let list = |text: &str| -> Vec<Vec<Table>> {
            let table: Table = toml::from_str(text).unwrap();
            table["each"].clone().try_into().unwrap()
        };
        let all = combinations(
            &Table::new(),
            &list("each = [[{ a = 1 }, { a = 2 }], [{ b = 'x' }, { b = 'y' }]]"),
        );
        let told = |one: &Table| fill(&Value::String("{a}{b}".to_owned()), one);
        let told: Vec<Value> = all.iter().map(told).collect();
        assert_eq!(told, ["1x", "1y", "2x", "2y"].map(|text| Value::String(text.to_owned())));
        assert_eq!(fill(&Value::String("{a}".to_owned()), &all[0]), Value::Integer(1));
        assert_eq!(combinations(&all[0], &[]), [all[0].clone()]);
    }

    #[test]
    fn a_field_that_no_record_has_is_an_error() {
        let record = serde_json::json!({ "waf": 1.5, "by_cause": {} });
        assert_eq!(number(&record, "waf"), Some(1.5));
        assert_eq!((number(&record, "by_cause.host"), number(&record, "wuff")), (Some(0.0), None));
    }
}
