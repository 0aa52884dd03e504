//! AutoStream: streams chosen below the database, on a timed multi-stream drive.

use std::path::Path;

use thermocline_record::RunRecord;
use thermocline_types::Bytes;
use thermocline_workload::remap::Remap;
use thermocline_workload::trace;

use super::{Figure, Options, part};
use crate::{Error, Input, Pacing, Prepared, Settings, Stack, run};

/// The traces replayed, as they ship with Thermocline.
pub const TRACES: [&str; 2] = ["postgres-tpcc.csv.gz", "cassandra-ycsb-a.csv.gz"];
/// One that does not ship, replayed if it is there.
const INNODB: &str = "maria_tpcc.csv.gz";

/// Traces with their names here and how often they are replayed, so that each writes two drive fills and more after the
/// first.
const CASES: [(&str, &str, u32); 3] = [
    (INNODB, "MariaDB InnoDB, TPC-C", 3),
    (TRACES[0], "PostgreSQL, TPC-C", 2),
    (TRACES[1], "Cassandra, YCSB A", 6),
];

/// Commands kept in flight.
const QUEUE_DEPTH: u32 = 32;
/// The drive: see the notes of the experiment.
const DRIVE: &str = "pm1725a,streams.count=8,op=0.17,buffer.merge=false";
/// Where it relocates to: makers do not tell.
const RELOCATION: [(&str, bool); 2] =
    [("survivors in their stream", false), ("survivors apart", true)];
/// Who chooses the stream; nobody first.
const POLICIES: [(&str, &str); 4] =
    [("one stream", ""), ("AutoStream MQ", "mq:9"), ("AutoStream SFR", "sfr:9"), ("auto", "auto")];

/// Largest effects of their abstract: share of WAF removed, and share of throughput gained.
const THEIR_REDUCTION: f64 = 0.60;
const THEIR_GAIN: f64 = 2.37;

/// Repeats it on every trace that is there.
pub fn autostream(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let there = |case: &(&str, &str, u32)| options.traces.join(case.0).is_file();
    let cases: Vec<(&str, &str, u32)> = CASES.into_iter().filter(there).collect();
    let drives = cases.iter().flat_map(|case| RELOCATION.map(|drive| (case, drive)));
    let steps = cases.len() * RELOCATION.len();
    let (mut figures, mut best) = (Vec::new(), Effects::default());
    for (number, (&(file, name, loops), (where_to, separate))) in drives.enumerate() {
        let path = options.traces.join(file);
        let mut progress = part(progress, number, steps);
        let mut without = None;
        for (index, (who, policy)) in POLICIES.into_iter().enumerate() {
            let replay = Replay { path: &path, loops, separate, seed: options.seed };
            let measured = replay.under(policy, &mut part(&mut progress, index, POLICIES.len()))?;
            measured.add_to(&mut figures, &format!("{name}, {where_to}, {who}"));
            match &without {
                None => without = Some(measured),
                Some(without) => best.take(without, &measured),
            }
        }
    }
    let mut largest = |what: &str, theirs, ours| {
        figures.push(Figure { what: what.into(), theirs: Some(theirs), ours });
    };
    largest("largest reduction of WAF", THEIR_REDUCTION, best.reduction);
    largest("largest gain in throughput", THEIR_GAIN, best.gain);
    Ok(figures)
}

/// The largest effects seen, as shares of what one stream gave.
#[derive(Default)]
struct Effects {
    reduction: f64,
    gain: f64,
}

impl Effects {
    fn take(&mut self, without: &Measured, with: &Measured) {
        self.reduction = self.reduction.max(1.0 - with.waf / without.waf);
        self.gain = self.gain.max(with.requests_per_second / without.requests_per_second - 1.0);
    }
}

/// What one policy gave on one trace.
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
            mean_ns: latency.mean,
            p99_9_ns: latency.p99_9,
            waf: record.waf_steady?,
        })
    }

    fn add_to(&self, figures: &mut Vec<Figure>, which: &str) {
        let all = [
            ("thousand commands a second", self.requests_per_second / 1e3),
            ("mean latency, ms", self.mean_ns / 1e6),
            ("99.9 % latency, ms", self.p99_9_ns as f64 / 1e6),
            ("WAF", self.waf),
        ];
        figures.extend(all.map(|(what, ours)| Figure {
            what: format!("{which}: {what}"),
            theirs: None,
            ours,
        }));
    }
}

/// A trace on one of the drives.
#[derive(Clone, Copy)]
struct Replay<'a> {
    path: &'a Path,
    loops: u32,
    /// Whether the drive relocates to a unit of its own.
    separate: bool,
    seed: u64,
}

impl Replay<'_> {
    /// Replays it with streams chosen by `policy`, or without if that is empty.
    fn under(self, policy: &str, progress: &mut dyn FnMut(f64)) -> Result<Measured, Error> {
        let input = Input::Trace {
            path: self.path.to_owned(),
            options: trace::Options::default(),
            remap: Remap::Dense,
            loops: self.loops,
            ignore_trims: true,
        };
        let mut prepared = Prepared::new(input, None, Bytes::BLOCK, None)?;
        let layer = if policy.is_empty() { "raw" } else { "tag" };
        let text = format!("{layer}:{DRIVE},gc.separate={}", self.separate);
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
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(TRACES[0]);
        let replay = Replay { path: &path, loops: 1, separate: false, seed: 1 };
        let run = |policy| replay.under(policy, &mut |_| {}).unwrap();
        let (without, sfr) = (run(""), run("sfr:9"));
        assert!(sfr.waf < 0.95 * without.waf, "{} against {}", sfr.waf, without.waf);
        let mut effects = Effects::default();
        effects.take(&without, &sfr);
        assert!(effects.reduction > 0.0 && effects.gain > 0.0);
        assert!(sfr.mean_ns < without.mean_ns && without.mean_ns < without.p99_9_ns as f64);
    }
}
