//! The runs of each question.

use thermocline_lab::Stack;
use thermocline_types::Bytes;

use crate::lab::args::{DeviceArgs, ReplayArgs, RunOf, SourceArgs};

/// The questions answered by runs, in the order of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Reads by size.
    Reads,
    /// Writes by size.
    Writes,
    /// Reads and writes mixed.
    Mix,
    /// Writes on an erased drive until their rate is steady.
    Burst,
    /// How writes follow each other.
    Relation,
    /// Requests in flight.
    Depth,
    /// The share of the drive in use.
    Reserve,
    /// How long requests take.
    Latency,
    /// The effect of heat, if the drive models heat.
    Heat,
}

/// One run of a question.
pub struct Measure {
    /// Which.
    pub question: Question,
    /// The label of the row.
    pub label: String,
    /// Horizontal position in a chart.
    pub x: f64,
    /// The run.
    pub run: RunOf,
}

/// Default requests in flight. Chosen: enough to keep drives with many dies busy.
const DEPTH: u32 = 64;
/// Minimum number of reads in a run; runs of small reads have more.
const READS: u64 = 20_000;

/// Label of the run with large sequential writes or reads.
pub const IN_ORDER: &str = "128 KiB in order";
/// Thermal time constant of the heat run, in seconds. Chosen: filling a small drive takes several time constants.
pub const HEATED_S: f64 = 0.01;

/// The smallest fast device of a tier with enough units for the log.
const LEAST_FAST: Bytes = Bytes::mib(32);

/// How long runs are.
struct Plan<'a> {
    stack: &'a str,
    span: Bytes,
    fast: Option<Bytes>,
    /// Default share of the drive in use.
    full: f64,
    /// Drive writes before rates are steady.
    drive_writes: f64,
    measures: Vec<Measure>,
}

/// All runs for `stack`, over `span` bytes of addresses.
pub fn measures(stack: &Stack, span: Bytes, full: f64, quick: bool) -> Vec<Measure> {
    let drive_writes = if quick { 2.0 } else { 4.0 };
    let fast = stack.fast.as_ref().map(|fast| {
        let share = fast.capacity.as_f64() / stack.profile.capacity.as_f64();
        // Keep the products' ratio of fast to capacity device: it decides the units of the log.
        LEAST_FAST.max(Bytes((span.as_f64() / full * share) as u64 >> 20 << 20))
    });
    let mut plan =
        Plan { stack: &stack.text, span, fast, full, drive_writes, measures: Vec::new() };
    let sizes: &[u64] = if quick {
        &[4096, 65_536, 1 << 20]
    } else {
        &[512, 4096, 16_384, 65_536, 131_072, 1 << 20]
    };
    let depths: &[u32] = if quick { &[1, 16, 128] } else { &[1, 4, 16, 64, 256] };
    for (question, read) in [(Question::Reads, 1.0), (Question::Writes, 0.0)] {
        for &size in sizes {
            let run = plan.random(size, read, DEPTH);
            plan.add(question, Bytes(size).to_string(), size as f64, run);
        }
        let ordered = RunOf { source: plan.source("seq", 131_072, read), ..plan.base(DEPTH) };
        plan.add(question, IN_ORDER.into(), f64::NAN, ordered);
    }
    for read in [1.0, 0.75, 0.5, 0.25, 0.0] {
        let label = format!("{:.0} % reads", read * 100.0);
        plan.add(Question::Mix, label, read * 100.0, plan.random(4096, read, DEPTH));
    }
    plan.burst();
    for (label, pattern) in [
        ("in order", "seq"),
        ("Zipf 0.99", "zipf:0.99"),
        ("90 % of writes to 10 % of the data", "hotcold:10:90"),
        ("uniform", "uniform"),
    ] {
        let run = RunOf { source: plan.source(pattern, 4096, 0.0), ..plan.base(DEPTH) };
        plan.add(Question::Relation, label.into(), f64::NAN, run);
    }
    for &depth in depths {
        for (what, read) in [("reads", 1.0), ("writes", 0.0)] {
            let label = format!("{depth}, {what}");
            plan.add(Question::Depth, label, f64::from(depth), plan.random(4096, read, depth));
        }
    }
    for full in [0.5, 0.7, 0.9, 1.0] {
        let mut run = plan.random(4096, 0.0, DEPTH);
        run.device.utilisation = full;
        plan.add(Question::Reserve, format!("{:.0} % full", full * 100.0), full * 100.0, run);
    }
    for (label, read, depth) in
        [("reads alone", 1.0, 1), ("writes alone", 0.0, 1), ("70 % reads, 32 in flight", 0.7, 32)]
    {
        plan.add(Question::Latency, label.into(), f64::NAN, plan.random(4096, read, depth));
    }
    if stack.profile.thermal.is_some() {
        plan.heat();
    }
    plan.measures
}

impl Plan<'_> {
    fn add(&mut self, question: Question, label: String, x: f64, run: RunOf) {
        self.measures.push(Measure { question, label, x, run });
    }

    fn base(&self, depth: u32) -> RunOf {
        let device = DeviceArgs {
            queue_depth: Some(depth),
            utilisation: self.full,
            fast_capacity: self.fast,
            ..DeviceArgs::default()
        };
        RunOf {
            stack: self.stack.to_owned(),
            source: SourceArgs::default(),
            replay: ReplayArgs::default(),
            device,
        }
    }

    fn source(&self, pattern: &str, size: u64, read: f64) -> SourceArgs {
        let source = SourceArgs::generated(pattern, self.span, self.drive_writes)
            .in_requests(Some(Bytes(size)), read);
        if read < 1.0 {
            return source;
        }
        source.of_requests(READS.max((self.span.0 / size).min(4 * READS)))
    }

    fn random(&self, size: u64, read: f64, depth: u32) -> RunOf {
        RunOf { source: self.source("uniform", size, read), ..self.base(depth) }
    }

    /// Sequential writes until the drive's temperature is steady. The run shortens the thermal time constant, which
    /// does not change the steady temperature.
    fn heat(&mut self) {
        let mut run = RunOf { source: self.source("seq", 131_072, 0.0), ..self.base(DEPTH) };
        run.stack = format!("{},thermal.time_constant_s={HEATED_S}", self.stack);
        run.replay.prefill = Some(thermocline_lab::Prefill::None);
        self.add(Question::Heat, "128 KiB writes in order".into(), f64::NAN, run);
    }

    /// Writes on an empty drive.
    fn burst(&mut self) {
        let mut run = self.random(4096, 0.0, DEPTH);
        run.replay.prefill = Some(thermocline_lab::Prefill::None);
        self.add(Question::Burst, "erased before".into(), f64::NAN, run);
    }
}
