//! The SNIA tutorial of 2009 (Thatcher, Fusion-io), chart by chart.

mod bandwidth;
mod collisions;
mod controllers;
mod pathological;

use thermocline_record::RunRecord;
use thermocline_types::Bytes;
use thermocline_workload::synthetic::{self, Limit, Spec};

use super::{FiguresDrawn, Options};
use crate::{Error, Input, Pacing, Prefill, Prepared, Settings, Stack, run};

pub use bandwidth::bandwidth;
pub use collisions::collisions;
pub use controllers::controllers;
pub use pathological::pathological;

/// Repeats an experiment and draws it, telling the share done.
pub type Draw = fn(&Options, &mut dyn FnMut(f64)) -> Result<FiguresDrawn, Error>;

/// The experiments of this tutorial, each with its charts.
const DRAWN: [(&str, Draw); 4] = [
    ("snia-bandwidth", bandwidth),
    ("snia-controllers", controllers),
    ("snia-pathological", pathological),
    ("snia-collisions", collisions),
];

/// What repeats the experiment called `name` with its charts, if it is one of the tutorial's.
pub fn drawn(name: &str) -> Option<Draw> {
    DRAWN.iter().find(|(known, _)| *known == name).map(|(_, draw)| *draw)
}

/// A generated workload on a stack.
#[derive(Clone, Copy, Debug)]
struct Job<'a> {
    stack: &'a str,
    overrides: &'a [String],
    /// What the drive exports.
    capacity: Bytes,
    /// What of it is addressed.
    span: Bytes,
    pattern: &'a str,
    io_size: Bytes,
    read_share: f64,
    limit: Limit,
    queue_depth: u32,
    prefill: Prefill,
    seed: u64,
}

impl<'a> Job<'a> {
    /// Requests of `io_size` all over a drive that was filled before, 64 in flight.
    fn new(stack: &'a str, capacity: Bytes, io_size: Bytes, limit: Limit) -> Job<'a> {
        Job {
            stack,
            overrides: &[],
            capacity,
            span: capacity,
            pattern: "uniform",
            io_size,
            read_share: 0.0,
            limit,
            queue_depth: 64,
            prefill: Prefill::Sequential,
            seed: 1,
        }
    }

    fn run(&self, progress: &mut dyn FnMut(f64)) -> Result<RunRecord, Error> {
        let stack = Stack::parse(self.stack, self.overrides)?;
        let options = synthetic::Options {
            io_size: Some(self.io_size),
            read_share: self.read_share,
            seed: self.seed,
            ..synthetic::Options::new(self.span, self.limit)
        };
        let input = Input::Synthetic { spec: self.pattern.parse::<Spec>()?, options };
        let unit = stack.profile.mapping_unit;
        let mut prepared = Prepared::new(input, Some(self.prefill), unit, None)?;
        let settings = Settings {
            capacity: Some(self.capacity),
            pacing: Some(Pacing::QueueDepth(self.queue_depth)),
            seed: self.seed,
            ..Settings::default()
        };
        run(&mut prepared, &stack, &settings, progress)
    }
}

/// Reads and writes together, MB/s.
fn mb_per_s(record: &RunRecord) -> f64 {
    record.bandwidth.as_ref().map_or(0.0, |rates| {
        (rates.host_read_bytes_per_second + rates.host_write_bytes_per_second) / 1e6
    })
}

/// A mix as the tutorial writes it: reads/writes in per cent.
fn mix(read: f64) -> String {
    format!("{:.0}/{:.0}", read * 100.0, (1.0 - read) * 100.0)
}
