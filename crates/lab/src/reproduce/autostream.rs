//! AutoStream: streams chosen below the database, and told by it, on a timed multi-stream drive.

use std::path::Path;

use thermocline_record::RunRecord;
use thermocline_types::Bytes;
use thermocline_workload::remap::Remap;
use thermocline_workload::synthetic::{self, Limit, Spec};
use thermocline_workload::trace;

use super::point::{AUTOSTREAM, Meant, Reference};
use super::{Figure, Options, part};
use crate::{Error, Input, Pacing, Prepared, Settings, Stack, run};

/// The traces replayed, as they come with the program.
pub const TRACES: [&str; 3] = ["mariadb-tpcc", "postgres-tpcc", "cassandra-ycsb-a"];

/// A trace to replay.
#[derive(Clone, Copy)]
struct Case {
    trace: &'static str,
    name: &'static str,
    /// Passes over the trace: enough to write two drive fills after the first.
    loops: u32,
    /// Unit of erasure, where the scaled drive's unit is too small.
    unit: Option<&'static str>,
    theirs: Theirs,
}

const CASES: [Case; 3] = [
    Case { trace: TRACES[0], name: "MariaDB InnoDB, TPC-C", loops: 3, unit: None, theirs: MYSQL },
    Case { trace: TRACES[1], name: "PostgreSQL, TPC-C", loops: 2, unit: None, theirs: MYSQL },
    Case {
        trace: TRACES[2],
        name: "Cassandra, YCSB A, units of 8 MiB",
        loops: 6,
        // With smaller units whole files die together under any policy, so streams neither gain nor lose.
        unit: Some("8MiB"),
        theirs: CASSANDRA,
    },
];

/// What they published of AutoStream on a workload, and of streams that the application itself chose: how many times as
/// much as without streams. "Over" and "up to" of theirs are left out.
#[derive(Clone, Copy, Default)]
struct Theirs {
    throughput: Option<f64>,
    latency: Option<f64>,
    tail: Option<f64>,
    throughput_told: Option<f64>,
}

/// MySQL under TPC-C with 8 streams: over 40 % more throughput, over 15 % less latency.
const MYSQL: Theirs =
    Theirs { throughput: Some(1.4), latency: Some(0.85), tail: None, throughput_told: None };
/// Cassandra, half of it reads: up to 40 % less 99.9 % latency; tagged by hand, up to 3 times.
const CASSANDRA: Theirs =
    Theirs { throughput: None, latency: None, tail: Some(0.6), throughput_told: Some(3.0) };

/// The published values and their bounds.
const THROUGHPUT: Reference =
    Reference::new(AUTOSTREAM, "MySQL, TPC-C, 8 streams: throughput", "times")
        .meant(Meant::AtLeast);
const LATENCY: Reference =
    Reference::new(AUTOSTREAM, "MySQL, TPC-C, 8 streams: latency", "times").meant(Meant::AtMost);
const TAIL: Reference =
    Reference::new(AUTOSTREAM, "Cassandra, half reads: 99.9 % latency, at best", "times");
const TOLD_THROUGHPUT: Reference =
    Reference::new(AUTOSTREAM, "Cassandra, tagged by hand, at best", "times");

/// A database made up for volumes that are known exactly, sized and loaded after what InnoDB does in its trace.
const DATABASE: (&str, &str) = ("five volumes, generated", include_str!("database.toml"));
/// Addressed bytes, and times they are rewritten.
const DATABASE_SPAN: Bytes = Bytes::gib(1);
const DATABASE_WRITES: f64 = 4.0;

/// Commands in flight: a closed loop of as many clients as the document had.
const QUEUE_DEPTH: u32 = 60;
/// The drive: see the notes of the experiment.
const DRIVE: &str = "pm1725a,streams.count=8,op=0.17,buffer.merge=false";
/// Where the drive relocates to; makers do not publish the place.
const RELOCATION: [(&str, bool); 2] =
    [("survivors in their stream", false), ("survivors apart", true)];
/// Who chooses the stream below the database.
const POLICIES: [(&str, &str); 3] =
    [("AutoStream MQ", "mq:9"), ("AutoStream SFR", "sfr:9"), ("auto", "auto")];
/// Hints given by the database with each write.
const TOLD: [(&str, &str); 2] = [("told by volume", "volume"), ("told by write hint", "hint")];

/// Repeats the experiment on every trace, and on a generated database.
pub fn autostream(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let mut cases = vec![];
    for case in CASES {
        let path = options.trace(case.trace);
        cases.push((case.name, replayed(&path, case.loops), case.unit, case.theirs));
    }
    cases.push((DATABASE.0, generated(options.seed)?, None, Theirs::default()));
    let runs: Vec<_> =
        cases.iter().flat_map(|case| RELOCATION.map(|drive| (case, drive))).collect();
    let (mut figures, mut tails) = (Vec::new(), Tails::default());
    for (number, &((name, input, unit, theirs), (where_to, separate))) in runs.iter().enumerate() {
        let mut progress = part(progress, number, runs.len());
        let replay = Replay { input, separate, unit: *unit, seed: options.seed };
        let mut step = |index, placement: &str| {
            let steps = 1 + POLICIES.len() + TOLD.len();
            replay.under(placement, &mut part(&mut progress, index, steps))
        };
        let without = step(0, "")?;
        without.add_to(&mut figures, &format!("{name}, {where_to}, one stream"));
        for (index, (who, placement)) in POLICIES.into_iter().chain(TOLD).enumerate() {
            let which = format!("{name}, {where_to}, {who}");
            let effect = step(1 + index, placement)?.against(&without);
            let theirs = theirs.of(index);
            effect.add_to(&mut figures, &which, &theirs);
            tails.take(which, effect.tail);
        }
    }
    figures.extend(tails.figures());
    Ok(figures)
}

impl Theirs {
    /// The published values for entry `index` of [`POLICIES`] and [`TOLD`]: AutoStream's two policies, or hints.
    fn of(self, index: usize) -> Theirs {
        let told = Theirs { throughput_told: self.throughput_told, ..Theirs::default() };
        match index {
            0 | 1 => Theirs { throughput_told: None, ..self },
            _ if index >= POLICIES.len() => told,
            _ => Theirs::default(),
        }
    }
}

/// A trace, so many times over.
fn replayed(path: &Path, loops: u32) -> Input {
    Input::Trace {
        path: path.to_owned(),
        options: trace::Options::default(),
        remap: Remap::Dense,
        loops,
        ignore_trims: true,
    }
}

/// The generated database.
fn generated(seed: u64) -> Result<Input, Error> {
    let limit = Limit::drive_writes(DATABASE_WRITES, DATABASE_SPAN)?;
    let options = synthetic::Options { seed, ..synthetic::Options::new(DATABASE_SPAN, limit) };
    Ok(Input::Synthetic { spec: Spec::from_toml(DATABASE.1)?, options })
}

/// What streams made of a workload: its WAF, and how many times as much as without they made of the rest.
struct Effect {
    waf: f64,
    throughput: f64,
    latency: f64,
    tail: f64,
}

impl Effect {
    fn add_to(&self, figures: &mut Vec<Figure>, which: &str, theirs: &Theirs) {
        let (throughput, published) = match theirs.throughput_told {
            Some(told) => (Some(told), TOLD_THROUGHPUT),
            None => (theirs.throughput, THROUGHPUT),
        };
        let all = [
            ("WAF", None, self.waf, THROUGHPUT),
            ("times the throughput", throughput, self.throughput, published),
            ("times the mean latency", theirs.latency, self.latency, LATENCY),
            ("times the 99.9 % latency", theirs.tail, self.tail, TAIL),
        ];
        figures.extend(all.map(|(what, theirs, ours, reference)| {
            let what = format!("{which}: {what}");
            theirs.map_or_else(
                || Figure::ours(&what, ours),
                |theirs| Figure::new(&what, theirs, ours, reference),
            )
        }));
    }
}

/// What streams do to the 99.9 % latency over all workloads: how often it rises, and where most.
#[derive(Default)]
struct Tails(Vec<(String, f64)>);

impl Tails {
    fn take(&mut self, which: String, tail: f64) {
        self.0.push((which, tail));
    }

    fn figures(mut self) -> Vec<Figure> {
        self.0.sort_by(|a, b| a.1.total_cmp(&b.1));
        let rises = self.0.iter().filter(|(_, tail)| *tail > 1.0).count();
        let share = rises as f64 / self.0.len() as f64;
        let ends = [("least", self.0.first()), ("most", self.0.last())];
        let ends = ends.into_iter().filter_map(|(which, end)| {
            end.map(|(name, tail)| (format!("times the 99.9 % latency, {which}: {name}"), *tail))
        });
        let share = ("share of these with a higher 99.9 % latency than one stream".into(), share);
        ends.chain([share]).map(|(what, ours)| Figure::ours(what, ours)).collect()
    }
}

/// Results of a policy on a trace.
struct Measured {
    requests_per_second: f64,
    mean_ns: f64,
    p99_9_ns: u64,
    waf: f64,
}

impl Measured {
    fn of(record: &RunRecord) -> Option<Measured> {
        let latency = record.latency_ns.as_ref()?.get("write")?;
        Some(Measured {
            requests_per_second: record.bandwidth.as_ref()?.requests_per_second,
            mean_ns: latency.mean?,
            p99_9_ns: latency.p99_9?,
            waf: record.lasting.waf?,
        })
    }

    /// The results relative to a run with one stream.
    fn against(&self, without: &Measured) -> Effect {
        Effect {
            waf: self.waf,
            throughput: self.requests_per_second / without.requests_per_second,
            latency: self.mean_ns / without.mean_ns,
            tail: self.p99_9_ns as f64 / without.p99_9_ns as f64,
        }
    }

    fn add_to(&self, figures: &mut Vec<Figure>, which: &str) {
        let all = [
            ("thousand commands a second", self.requests_per_second / 1e3),
            ("mean latency, ms", self.mean_ns / 1e6),
            ("99.9 % latency, ms", self.p99_9_ns as f64 / 1e6),
            ("WAF", self.waf),
        ];
        figures.extend(all.map(|(what, ours)| Figure::ours(format!("{which}: {what}"), ours)));
    }
}

/// A workload on one of the drives.
#[derive(Clone, Copy)]
struct Replay<'a> {
    input: &'a Input,
    /// Whether the drive relocates to a unit of its own.
    separate: bool,
    unit: Option<&'a str>,
    seed: u64,
}

impl Replay<'_> {
    /// Replays it with streams chosen by `policy`, or without if that is empty.
    fn under(self, policy: &str, progress: &mut dyn FnMut(f64)) -> Result<Measured, Error> {
        let mut prepared = Prepared::new(self.input.clone(), None, Bytes::BLOCK, None)?;
        let layer = if policy.is_empty() { "raw" } else { "tag" };
        let unit = self.unit.map_or(String::new(), |unit| format!(",unit={unit}"));
        let text = format!("{layer}:{DRIVE}{unit},gc.separate={}", self.separate);
        let mut stack = Stack::parse(&text, &[])?;
        if layer == "tag" {
            stack.place(policy)?;
        }
        let pacing = Some(Pacing::QueueDepth(QUEUE_DEPTH));
        let settings = Settings { pacing, seed: self.seed, ..Settings::default() };
        let record = run(&mut prepared, &stack, &settings, progress)?;
        Measured::of(&record).ok_or_else(|| Error::Settings("nothing was written".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_lower_waf_and_raise_throughput_on_a_database() {
        let input = replayed(Path::new(TRACES[0]), 1);
        let replay = Replay { input: &input, separate: false, unit: None, seed: 1 };
        let run = |policy| replay.under(policy, &mut |_| {}).unwrap();
        let (without, sfr) = (run(""), run("sfr:9"));
        assert!(sfr.waf < 0.95 * without.waf, "{} against {}", sfr.waf, without.waf);
        let effect = sfr.against(&without);
        assert!(effect.throughput > 1.0 && effect.latency < 1.0, "{}", effect.throughput);
        assert!(sfr.mean_ns < without.mean_ns && without.mean_ns < without.p99_9_ns as f64);
        let volume = run("volume");
        assert!(volume.waf < 0.95 * without.waf, "{} against {}", volume.waf, without.waf);
    }

    #[test]
    fn where_the_slowest_writes_become_slower_is_said() {
        let mut tails = Tails::default();
        for (which, tail) in [("a", 0.8), ("b", 1.46), ("c", 1.1), ("d", 0.9)] {
            tails.take(which.into(), tail);
        }
        let [least, most, share] = &tails.figures()[..] else { panic!("three figures") };
        assert!(least.what.ends_with(": a") && most.what.ends_with(": b"), "{least:?}, {most:?}");
        assert!((most.ours - 1.46).abs() < 1e-9 && (share.ours - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_database_that_tells_its_volumes_copies_less_than_one_that_hints() {
        let input = generated(1).unwrap();
        let replay = Replay { input: &input, separate: false, unit: None, seed: 1 };
        let waf = |policy| replay.under(policy, &mut |_| {}).unwrap().waf;
        let (without, volume, hint) = (waf(""), waf("volume"), waf("hint"));
        assert!(volume < hint && hint < without, "{volume}, {hint}, {without}");
    }
}
