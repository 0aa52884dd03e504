//! What a workload is made of, and whether placement can help it.

use serde::Serialize;
use thermocline_types::{Bytes, Op, Request};
use thermocline_workload::profile::Profile;
use thermocline_workload::synthetic::Generator;
use thermocline_workload::{Source, trace};

use crate::headroom::{Headroom, headroom};
use crate::{Error, Input, Prepared};

/// A workload, analysed. Its JSON has the schema `thermocline.analyze/1`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Analysis {
    /// Version of the form.
    pub schema: &'static str,
    /// File or generator.
    pub workload: String,
    /// Format of a trace.
    pub format: Option<String>,
    /// Lines that could not be read.
    pub skipped_lines: u64,
    /// Requests without length.
    pub empty_requests: u64,
    /// Requests that were out of order.
    pub reordered_requests: u64,
    /// Events that the recorder lost.
    pub lost_events: u64,
    /// Facts about the reading of the trace.
    pub notes: Vec<String>,
    /// Names of the volumes or tenants.
    pub volumes: Vec<String>,
    /// Sizes, alignment, working set, sequence, skew.
    pub profile: Profile,
    /// The WAF that placement could reach.
    pub headroom: Option<Headroom>,
    /// Why the requested headroom is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_headroom_because: Option<String>,
}

/// A stage of an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The workload is read.
    Reading,
    /// The headroom is simulated.
    Headroom,
}

impl Stage {
    /// The stage in a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Stage::Reading => "reading",
            Stage::Headroom => "headroom",
        }
    }
}

/// Analyses `input`, and simulates its headroom with `headroom` block writes at most; `None`: not at all. `progress`
/// hears the stage and the share of it that is done.
///
/// # Errors
/// [`Error`], if the workload cannot be read.
pub fn analyze(
    input: &Input,
    headroom: Option<u64>,
    progress: &mut dyn FnMut(Stage, f64),
) -> Result<Analysis, Error> {
    let mut analysis = profile(input, &mut |share| progress(Stage::Reading, share))?;
    if let Some(most) = headroom {
        match simulate(input, most, &mut |share| progress(Stage::Headroom, share)) {
            Ok(found) => analysis.headroom = Some(found),
            // Too small, too large, or of a kind that can be read only once.
            Err(Error::Settings(reason)) => analysis.no_headroom_because = Some(reason),
            Err(error) => return Err(error),
        }
    }
    Ok(analysis)
}

fn simulate(input: &Input, most: u64, progress: &mut dyn FnMut(f64)) -> Result<Headroom, Error> {
    let mut prepared = Prepared::new(input.clone(), None, Bytes::BLOCK, None)?;
    headroom(&mut prepared, most, progress)
}

/// A source that reports how far it was read.
struct Watched<'a, S>(&'a mut S, &'a mut dyn FnMut(f64));

impl<S: Source> Source for Watched<'_, S> {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), trace::Error> {
        (self.1)(self.0.fraction_done());
        self.0.fill(batch)
    }

    fn fraction_done(&self) -> f64 {
        self.0.fraction_done()
    }

    fn directories(&self) -> Vec<String> {
        self.0.directories()
    }
}

fn profile(input: &Input, progress: &mut dyn FnMut(f64)) -> Result<Analysis, Error> {
    let empty = |workload, profile| Analysis {
        schema: "thermocline.analyze/1",
        workload,
        format: None,
        skipped_lines: 0,
        empty_requests: 0,
        reordered_requests: 0,
        lost_events: 0,
        notes: Vec::new(),
        volumes: Vec::new(),
        profile,
        headroom: None,
        no_headroom_because: None,
    };
    match input {
        Input::Trace { path, options, .. } => {
            let mut opened = trace::open(path, options)?;
            let profile = Profile::of(&mut Watched(&mut opened, progress))?;
            Ok(Analysis {
                format: Some(opened.format().to_string()),
                skipped_lines: opened.skipped(),
                empty_requests: opened.empty(),
                reordered_requests: opened.reordered(),
                lost_events: opened.lost(),
                volumes: opened.volumes().to_vec(),
                notes: opened.notes(),
                ..empty(path.display().to_string(), profile)
            })
        }
        Input::Synthetic { spec, options } => {
            let mut generator = Generator::new(spec, options)?;
            let profile = Profile::of(&mut Watched(&mut generator, progress))?;
            let volumes = spec.tenant_names().into_iter().map(str::to_owned).collect();
            Ok(Analysis { volumes, ..empty(spec.to_string(), profile) })
        }
    }
}

/// Cells of [`Heat`] across, and rows.
const CELLS: [usize; 2] = [96, 48];

/// Bytes written by address and time.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// Whether cells across are equal times. Otherwise they are equal numbers of requests.
    pub by_time: bool,
    /// Rows of cells from address 0 up.
    pub rows: Vec<Vec<f64>>,
}

/// Where and when `input` writes; `profile` is that of the same input.
///
/// # Errors
/// [`Error`], if the workload cannot be read.
pub fn heat(input: &Input, profile: &Profile) -> Result<Heat, Error> {
    match input {
        Input::Trace { path, options, .. } => heat_of(&mut trace::open(path, options)?, profile),
        Input::Synthetic { spec, options } => heat_of(&mut Generator::new(spec, options)?, profile),
    }
}

fn heat_of(source: &mut impl Source, profile: &Profile) -> Result<Heat, Error> {
    let [columns, rows] = CELLS;
    let mut heat =
        Heat { by_time: profile.duration_s >= 1.0, rows: vec![vec![0.0; columns]; rows] };
    let (mut batch, mut count, mut first) = (Vec::new(), 0.0, None);
    let cell = |value: f64, end: f64, cells: usize| {
        ((value / end.max(1e-9) * cells as f64) as usize).min(cells - 1)
    };
    loop {
        source.fill(&mut batch)?;
        if batch.is_empty() {
            return Ok(heat);
        }
        for request in &batch {
            let seconds = request.at.since(*first.get_or_insert(request.at)).as_secs_f64();
            let (at, end) = match heat.by_time {
                true => (seconds, profile.duration_s),
                false => (count, profile.requests as f64),
            };
            count += 1.0;
            if request.op == Op::Write {
                let row = cell(request.offset.as_f64(), profile.span_bytes as f64, rows);
                heat.rows[row][cell(at, end, columns)] += request.length.as_f64();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use thermocline_record::WorkloadSpec;

    use super::*;
    use crate::spec;

    #[test]
    fn an_analysis_has_stages_and_a_headroom_only_if_asked_for() {
        let input = spec::input(&WorkloadSpec::trace("cassandra-ycsb-a"), 1).unwrap();
        let mut stages = Vec::new();
        let mut tell = |stage, _| stages.push(stage);
        let analysis = analyze(&input, None, &mut tell).unwrap();
        assert!(analysis.profile.requests > 0 && analysis.headroom.is_none());
        let heat = heat(&input, &analysis.profile).unwrap();
        let written: f64 = heat.rows.iter().flatten().sum();
        assert!((written - analysis.profile.bytes_written as f64).abs() < 0.5, "{written}");
        assert!(!stages.is_empty() && stages.iter().all(|stage| *stage == Stage::Reading));
    }
}
