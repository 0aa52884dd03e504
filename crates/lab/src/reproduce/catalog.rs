//! The experiments by name: each is a file of facts, and the code that measures its figures.

use std::sync::LazyLock;

use serde::{Deserialize, Deserializer, Serialize};
use thermocline_record::plot::{Plot, PlotAxis, PlotLine};

use super::data::DataRuns;
use super::point::Point;
use super::{Figure, Options};
use super::{
    applications, autostream, csal, lsm_zgc, micron_hse, micron_zones, refresh, snia, uniform,
};
use crate::Error;

/// Figures, and the same as charts.
pub type FiguresDrawn = (Vec<Figure>, Vec<Plot>);

/// Code that measures an experiment.
type Code<T> = fn(&Options, &mut dyn FnMut(f64)) -> Result<T, Error>;

/// How the figures of an experiment are measured; `progress` hears the share done.
#[derive(Clone, Copy)]
enum Measure {
    Figures(Code<Vec<Figure>>),
    /// With charts of its own.
    Drawn(Code<FiguresDrawn>),
    /// By the runs in the file.
    Runs,
}

use Measure::{Drawn, Figures, Runs};

/// Name, file and code of an experiment.
macro_rules! of {
    ($name:literal, $measure:expr) => {
        ($name, include_str!(concat!("experiments/", $name, ".toml")), $measure)
    };
}

/// Every experiment, in the order of the table of truth.
const FILES: [(&str, &str, Measure); 23] = [
    of!("uniform-greedy", Figures(uniform::greedy)),
    of!("uniform-fifo", Figures(uniform::fifo)),
    of!("ftlsim", Figures(uniform::ftlsim)),
    of!("indirection-unit", Runs),
    of!("autostream", Figures(autostream::autostream)),
    of!("applications", Figures(applications::applications)),
    of!("cachelib-fdp", Runs),
    of!("micron-zero-op", Runs),
    of!("micron-zones", Figures(micron_zones::zones)),
    of!("lsm-zgc", Figures(lsm_zgc::collections)),
    of!("snia-bandwidth", Runs),
    of!("snia-controllers", Runs),
    of!("snia-pathological", Drawn(snia::pathological)),
    of!("snia-collisions", Runs),
    of!("snia-scaling", Drawn(snia::scaling)),
    of!("snia-partial", Drawn(snia::partial)),
    of!("snia-wear", Drawn(snia::wear)),
    of!("snia-life", Drawn(snia::life)),
    of!("snia-uber", Drawn(snia::uber)),
    of!("refresh", Figures(refresh::refresh)),
    of!("slc-cache", Runs),
    of!("micron-hse", Drawn(micron_hse::drawn)),
    of!("csal", Figures(csal::csal)),
];

/// Every experiment.
pub static EXPERIMENTS: LazyLock<Vec<Experiment>> = LazyLock::new(|| {
    let read = |(name, text, measure): (&'static str, &'static str, Measure)| {
        let facts = toml::from_str(text);
        let facts = facts.unwrap_or_else(|error| panic!("the file of {name} is valid: {error}"));
        Experiment { name, text, facts, measure }
    };
    FILES.map(read).into()
});

/// How long an experiment takes on one processor of some GHz.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Takes {
    /// Under a quarter of a minute.
    Seconds,
    /// About a minute.
    Minute,
    /// Up to ten minutes.
    Minutes,
    /// Over ten minutes.
    Long,
}

impl Takes {
    /// The duration in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Takes::Seconds => "seconds",
            Takes::Minute => "about a minute",
            Takes::Minutes => "some minutes",
            Takes::Long => "over ten minutes",
        }
    }
}

/// What the file of an experiment says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentFacts {
    /// What is repeated.
    #[serde(deserialize_with = "text")]
    pub title: Text,
    /// Where their figures come from.
    #[serde(deserialize_with = "text")]
    pub source: Text,
    /// How long it takes.
    pub takes: Takes,
    /// How [`Options::quick`] differs, and how long it takes then; `None`: quick is the same.
    #[serde(default)]
    pub quick: Option<Quick>,
    /// Traces that it replays.
    #[serde(default, deserialize_with = "texts")]
    pub traces: &'static [&'static str],
    /// Runs, if the experiment is made of runs.
    #[serde(default)]
    pub(super) data: DataRuns,
    /// What a reader must know to judge the differences, one sentence each.
    #[serde(deserialize_with = "texts")]
    pub notes: &'static [&'static str],
}

/// The quick form of an experiment.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// How long it takes.
    pub takes: Takes,
    /// What is smaller, and which rows are left out.
    #[serde(deserialize_with = "text")]
    pub terms: Text,
}

/// An experiment that can be repeated by name.
#[derive(Clone)]
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// Its file.
    text: &'static str,
    /// What its file says.
    pub facts: ExperimentFacts,
    measure: Measure,
}

/// A text of a file that lives as long as the program. An alias, as serde borrows a spelled-out `&str` from its input.
pub(super) type Text = &'static str;

/// Reads a text that lives as long as the program.
pub(super) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Text, D::Error> {
    Ok(String::deserialize(from)?.leak())
}

fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<&'static [&'static str], D::Error> {
    let all = Vec::<String>::deserialize(from)?;
    Ok(all.into_iter().map(|text| &*text.leak()).collect::<Vec<&str>>().leak())
}

impl Experiment {
    /// The experiment called `name`.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Experiment> {
        EXPERIMENTS.iter().find(|experiment| experiment.name == name)
    }

    /// Its file.
    pub(super) fn text(&self) -> &'static str {
        self.text
    }

    /// How long it takes under `options`.
    #[must_use]
    pub fn takes(&self, options: &Options) -> Takes {
        let quick = self.facts.quick.filter(|_| options.quick);
        quick.map_or(self.facts.takes, |quick| quick.takes)
    }

    /// Checks that all traces of the experiment exist.
    ///
    /// # Errors
    /// [`Error::Settings`] naming the first missing trace.
    pub fn check(&self, options: &Options) -> Result<(), Error> {
        let Some(folder) = &options.traces else { return Ok(()) };
        let missing = self.traces(options).find(|path| !path.is_file());
        missing.map_or(Ok(()), |path| {
            Err(Error::Settings(format!(
                "{} replays {}, which is not in the folder {}: without `traces` it takes the trace that comes with the \
                 program",
                self.name,
                path.display(),
                folder.display()
            )))
        })
    }

    /// Where the traces are that it replays.
    pub(super) fn traces(&self, options: &Options) -> impl Iterator<Item = std::path::PathBuf> {
        self.facts.traces.iter().map(|name| options.trace(name))
    }

    /// Repeats it; `progress` is told the share done, 0..=1.
    ///
    /// # Errors
    /// [`Error`] when a run fails or a trace is not where [`Options::traces`] says.
    pub fn run(
        &self,
        options: &Options,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Figure>, Error> {
        Ok(self.measured(options, progress)?.0)
    }

    fn measured(
        &self,
        options: &Options,
        progress: &mut dyn FnMut(f64),
    ) -> Result<FiguresDrawn, Error> {
        match self.measure {
            Figures(measure) => Ok((measure(options, progress)?, Vec::new())),
            Drawn(measure) => measure(options, progress),
            Runs => self.facts.data.measure(options, progress),
        }
    }

    /// The points of the table of truth among `figures` of this experiment.
    #[must_use]
    pub fn points(&self, figures: &[Figure]) -> Vec<Point> {
        figures.iter().filter_map(|figure| Point::of(self.name, figure)).collect()
    }

    /// Repeats the experiment and draws charts: the experiment's own charts, or else all figures with a published
    /// value.
    ///
    /// # Errors
    /// As [`Experiment::run`].
    pub fn draw(
        &self,
        options: &Options,
        progress: &mut dyn FnMut(f64),
    ) -> Result<FiguresDrawn, Error> {
        let (figures, plots) = self.measured(options, progress)?;
        if !plots.is_empty() {
            return Ok((figures, plots));
        }
        let both = || figures.iter().enumerate().filter(|(_, figure)| figure.theirs.is_some());
        let points = |value: fn(&Figure) -> f64| {
            both().map(|(index, figure)| [index as f64 + 1.0, value(figure)]).collect()
        };
        let plot = Plot {
            title: self.facts.title.to_owned(),
            caption: "Figures in the order of the table.".to_owned(),
            x: PlotAxis::linear("figure"),
            y: PlotAxis::linear("value"),
            lines: vec![
                PlotLine::reference("theirs", points(|figure| figure.theirs.unwrap_or(f64::NAN))),
                PlotLine::ours("ours", points(|figure| figure.ours)),
            ],
        };
        Ok((figures, vec![plot]))
    }
}
