//! AutoStream: streams chosen below the database, and told by it, on a timed multi-stream drive.

use std::path::Path;

use thermocline_record::RunRecord;
use thermocline_types::Bytes;
use thermocline_workload::remap::Remap;
use thermocline_workload::synthetic::{self, Limit, Spec};
use thermocline_workload::trace::{self, BuiltIn};

use super::{Figure, Options, part};
use crate::{Error, Input, Pacing, Prepared, Settings, Stack, run};

/// The traces replayed, as they come with the program.
pub const TRACES: [&str; 2] = ["postgres-tpcc", "cassandra-ycsb-a"];
/// One that does not come with it, replayed if it is there.
const INNODB: &str = "maria_tpcc";

/// Traces with their names here and how often they are replayed, so that each writes two drive fills and more after the
/// first.
const CASES: [(&str, &str, u32); 3] = [
    (INNODB, "MariaDB InnoDB, TPC-C", 3),
    (TRACES[0], "PostgreSQL, TPC-C", 2),
    (TRACES[1], "Cassandra, YCSB A", 6),
];

/// A database made up for volumes that are known exactly, sized and loaded after what InnoDB does in its trace.
const DATABASE: (&str, &str) = ("five volumes, generated", include_str!("database.toml"));
/// What it addresses, and how often that is written after the first time.
const DATABASE_SPAN: Bytes = Bytes::gib(1);
const DATABASE_WRITES: f64 = 4.0;

/// Commands kept in flight.
const QUEUE_DEPTH: u32 = 32;
/// The drive: see the notes of the experiment.
const DRIVE: &str = "pm1725a,streams.count=8,op=0.17,buffer.merge=false";
/// Where it relocates to: makers do not tell.
const RELOCATION: [(&str, bool); 2] =
    [("survivors in their stream", false), ("survivors apart", true)];
/// Who chooses the stream below the database.
const POLICIES: [(&str, &str); 3] =
    [("AutoStream MQ", "mq:9"), ("AutoStream SFR", "sfr:9"), ("auto", "auto")];
/// What the database tells of its writes.
const TOLD: [(&str, &str); 2] = [("told by volume", "volume"), ("told by write hint", "hint")];

/// Largest effects of their abstract: share of WAF removed, and share of throughput gained.
const THEIR_REDUCTION: f64 = 0.60;
const THEIR_GAIN: f64 = 2.37;

/// Repeats it on every trace that is there, and on a generated database.
pub fn autostream(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let mut cases = vec![];
    for (trace, name, loops) in CASES {
        let path = options.trace(trace);
        if path.is_file() || BuiltIn::named(&path).is_some() {
            cases.push((name, replayed(&path, loops)));
        }
    }
    cases.push((DATABASE.0, generated(options.seed)?));
    let runs: Vec<_> =
        cases.iter().flat_map(|case| RELOCATION.map(|drive| (case, drive))).collect();
    let (mut figures, mut chosen, mut told) = (Vec::new(), Effects::default(), Effects::default());
    for (number, &((name, input), (where_to, separate))) in runs.iter().enumerate() {
        let mut progress = part(progress, number, runs.len());
        let replay = Replay { input, separate, seed: options.seed };
        let which = |who: &str| format!("{name}, {where_to}, {who}");
        let mut step = |index, placement: &str| {
            let steps = 1 + POLICIES.len() + TOLD.len();
            replay.under(placement, &mut part(&mut progress, index, steps))
        };
        let without = step(0, "")?;
        without.add_to(&mut figures, &which("one stream"));
        for (index, (who, placement)) in POLICIES.into_iter().chain(TOLD).enumerate() {
            let measured = step(1 + index, placement)?;
            measured.add_to(&mut figures, &which(who));
            let effects = if index < POLICIES.len() { &mut chosen } else { &mut told };
            effects.take(&without, &measured);
        }
    }
    figures.extend(chosen.figures("chosen below", Some((THEIR_REDUCTION, THEIR_GAIN))));
    figures.extend(told.figures("told by the database", None));
    Ok(figures)
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

    /// As figures, for streams that `who` says the choice of, beside `theirs`.
    fn figures(&self, who: &str, theirs: Option<(f64, f64)>) -> [Figure; 2] {
        let figure = |what: &str, theirs, ours| Figure {
            what: format!("{what}, streams {who}"),
            theirs,
            ours,
        };
        [
            figure(
                "largest reduction of WAF",
                theirs.map(|(reduction, _)| reduction),
                self.reduction,
            ),
            figure("largest gain in throughput", theirs.map(|(_, gain)| gain), self.gain),
        ]
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
            mean_ns: latency.mean?,
            p99_9_ns: latency.p99_9?,
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

/// A workload on one of the drives.
#[derive(Clone, Copy)]
struct Replay<'a> {
    input: &'a Input,
    /// Whether the drive relocates to a unit of its own.
    separate: bool,
    seed: u64,
}

impl Replay<'_> {
    /// Replays it with streams chosen by `policy`, or without if that is empty.
    fn under(self, policy: &str, progress: &mut dyn FnMut(f64)) -> Result<Measured, Error> {
        let mut prepared = Prepared::new(self.input.clone(), None, Bytes::BLOCK, None)?;
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
        let input = replayed(Path::new(TRACES[0]), 1);
        let replay = Replay { input: &input, separate: false, seed: 1 };
        let run = |policy| replay.under(policy, &mut |_| {}).unwrap();
        let (without, sfr) = (run(""), run("sfr:9"));
        assert!(sfr.waf < 0.95 * without.waf, "{} against {}", sfr.waf, without.waf);
        let mut effects = Effects::default();
        effects.take(&without, &sfr);
        assert!(effects.reduction > 0.0 && effects.gain > 0.0);
        assert!(sfr.mean_ns < without.mean_ns && without.mean_ns < without.p99_9_ns as f64);
        let volume = run("volume");
        assert!(volume.waf < 0.95 * without.waf, "{} against {}", volume.waf, without.waf);
    }

    #[test]
    fn a_database_that_tells_its_volumes_copies_less_than_one_that_hints() {
        let input = generated(1).unwrap();
        let replay = Replay { input: &input, separate: false, seed: 1 };
        let waf = |policy| replay.under(policy, &mut |_| {}).unwrap().waf;
        let (without, volume, hint) = (waf(""), waf("volume"), waf("hint"));
        assert!(volume < hint && hint < without, "{volume}, {hint}, {without}");
    }
}
