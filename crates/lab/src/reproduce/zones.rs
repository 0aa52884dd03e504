//! Runs on the log over a zoned drive that go by collections instead of bytes.

use thermocline_types::{Bytes, Time};
use thermocline_workload::synthetic::{self, Generator, Limit, Spec};
use thermocline_workload::{BATCH, Source as _};

use crate::bench::Bench;
use crate::log::machine::Machine;
use crate::log::plan::Plan;
use crate::{Error, Input, Pacing, Prefill, Prepared, Room, Settings, Stack};

/// Specification of the run.
pub struct Zones<'a> {
    /// Settings of device and log beside those of the drive.
    pub overrides: Vec<String>,
    /// Capacity of the drive.
    pub capacity: Bytes,
    /// Share of it that is filled with valid data and then updated.
    pub utilisation: f64,
    /// The updates.
    pub workload: &'a str,
    /// Share of requests that read.
    pub read_share: f64,
    /// Size of each request.
    pub io_size: Bytes,
    /// Requests in work.
    pub queue_depth: u32,
    /// Whether the host waits while a victim is collected.
    pub exclusive: bool,
    /// Seed of all randomness.
    pub seed: u64,
}

/// A run after the fill of the drive.
pub struct Running {
    /// The log at work.
    pub bench: Bench<Machine>,
    generator: Generator,
    batch: Vec<thermocline_types::Request>,
    next: usize,
}

impl Zones<'_> {
    /// Makes the drive and fills it in order.
    ///
    /// # Errors
    /// [`Error`] when the drive cannot be or cannot hold that much.
    pub fn begin(&self) -> Result<Running, Error> {
        let stack = Stack::parse("log:zn540", &self.overrides)?;
        let blocks = (self.capacity.as_f64() * self.utilisation / self.io_size.as_f64()) as u64;
        let span = Bytes(blocks * self.io_size.0);
        let pacing = Pacing::QueueDepth(self.queue_depth);
        let settings = Settings {
            capacity: Some(self.capacity),
            pacing: Some(pacing),
            seed: self.seed,
            ..Settings::default()
        };
        let spec: Spec = self.workload.parse()?;
        let options = synthetic::Options {
            seed: self.seed,
            io_size: Some(self.io_size),
            read_share: self.read_share,
            ..synthetic::Options::new(span, Limit::Writes(u64::MAX / 2))
        };
        let generator = Generator::new(&spec, &options)?;
        let input = Input::Synthetic { spec, options };
        let filling = Prepared::new(input, Some(Prefill::Sequential), Bytes::BLOCK, None)?;
        let plan = Plan::new(&stack, &settings, Room::all_of(span))?;
        let mut machine = plan.build()?;
        if self.exclusive {
            machine.hold_up_host();
        }
        let mut bench = Bench::new(machine, None, pacing, self.seed);
        bench.prefill(&filling)?;
        Ok(Running { bench, generator, batch: Vec::with_capacity(BATCH), next: 0 })
    }
}

impl Running {
    /// Has one more request served, which may still be in work then.
    ///
    /// # Errors
    /// As [`Bench::serve`].
    pub fn serve_one(&mut self) -> Result<(), Error> {
        if self.next == self.batch.len() {
            self.generator.fill(&mut self.batch)?;
            self.next = 0;
        }
        self.bench.serve(&self.batch[self.next..=self.next])?;
        self.next += 1;
        Ok(())
    }

    /// Goes on until so many victims have been collected.
    ///
    /// # Errors
    /// As [`Bench::serve`].
    pub fn collect(&mut self, victims: usize, progress: &mut dyn FnMut(f64)) -> Result<(), Error> {
        let mut told = 0;
        loop {
            let done = self.bench.target().collections().len();
            if done >= victims {
                return Ok(());
            }
            if done > told {
                told = done;
                progress(done as f64 / victims as f64);
            }
            self.serve_one()?;
        }
    }

    /// Mean time of the collections from number `from` on, in seconds.
    #[must_use]
    pub fn mean_time(&self, from: usize) -> f64 {
        let counted = &self.bench.target().collections()[from..];
        let sum: u64 = counted.iter().map(|gc| gc.ended.since(gc.began).as_nanos()).sum();
        Time(sum).as_secs_f64() / counted.len().max(1) as f64
    }
}
