//! A generated workload on a stack, as experiments run it.

use thermocline_record::RunRecord;
use thermocline_types::Bytes;
use thermocline_workload::synthetic::{self, Bursts, Limit, Spec};

use crate::{Error, Input, Pacing, Prefill, Prepared, Settings, Stack, run};

/// A generated workload on a stack.
#[derive(Clone, Copy, Debug)]
pub struct PatternJob<'a> {
    /// As `lab run` takes it.
    pub stack: &'a str,
    /// Settings besides.
    pub overrides: &'a [String],
    /// Capacity of the drive.
    pub capacity: Bytes,
    /// Bytes addressed.
    pub span: Bytes,
    /// Which requests.
    pub pattern: &'a str,
    /// Their size.
    pub io_size: Bytes,
    /// Share of reads, 0..=1.
    pub read_share: f64,
    /// How many.
    pub limit: Limit,
    /// How many at once, where there is no rate.
    pub queue_depth: u32,
    /// Requests per second.
    pub rate: Option<f64>,
    /// Bursts, with rests in between.
    pub bursts: Option<Bursts>,
    /// Share of all data that is written once, before everything else, and never touched.
    pub at_rest: f64,
    /// What is there before.
    pub prefill: Prefill,
    /// Seed of all randomness.
    pub seed: u64,
}

impl<'a> PatternJob<'a> {
    /// Requests of `io_size` all over a drive that was filled before, 64 in flight.
    pub fn new(stack: &'a str, capacity: Bytes, io_size: Bytes, limit: Limit) -> PatternJob<'a> {
        PatternJob {
            stack,
            overrides: &[],
            capacity,
            span: capacity,
            pattern: "uniform",
            io_size,
            read_share: 0.0,
            limit,
            queue_depth: 64,
            rate: None,
            bursts: None,
            at_rest: 0.0,
            prefill: Prefill::Sequential,
            seed: 1,
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// As [`run`].
    pub fn run(&self, progress: &mut dyn FnMut(f64)) -> Result<RunRecord, Error> {
        let stack = Stack::parse(self.stack, self.overrides)?;
        let options = synthetic::Options {
            io_size: Some(self.io_size),
            read_share: self.read_share,
            rate: self.rate,
            bursts: self.bursts,
            seed: self.seed,
            ..synthetic::Options::new(self.span, self.limit)
        };
        let input = Input::Synthetic { spec: self.pattern.parse::<Spec>()?, options };
        let unit = stack.profile.mapping_unit;
        let prepared = Prepared::new(input, Some(self.prefill), unit, None)?;
        let mut prepared = prepared.with_data_at_rest(self.at_rest)?;
        let settings = Settings {
            capacity: Some(self.capacity),
            pacing: self.rate.is_none().then_some(Pacing::QueueDepth(self.queue_depth)),
            seed: self.seed,
            ..Settings::default()
        };
        run(&mut prepared, &stack, &settings, progress)
    }
}

/// Reads and writes together, MB/s.
pub fn mb_per_s(record: &RunRecord) -> f64 {
    record.bandwidth.as_ref().map_or(0.0, |rates| {
        (rates.host_read_bytes_per_second + rates.host_write_bytes_per_second) / 1e6
    })
}
