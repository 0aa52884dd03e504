//! Advice: problems, the drive's reactions, remedies by the system, and their effect on this stack.

use thermocline_record::RunRecord;

use super::Sheet;
use super::answers::{Answer, Row, late_rate};
use super::questions::{Measure, Question};

/// A run of the sheet.
type Run = (Measure, RunRecord);

/// A problem, its remedies, and the two runs that show the effect.
struct Case<'a> {
    problem: &'static str,
    drive: &'static str,
    system: &'static str,
    worse: &'a Run,
    better: &'a Run,
    /// The compared figure: name, and value in a run.
    of: (&'static str, fn(&RunRecord) -> Option<f64>),
}

/// Smaller factors count as no difference. Chosen.
const SAME: f64 = 1.1;

/// The table for all runs of the sheet.
pub fn advice(sheet: &Sheet) -> Answer {
    let cases = cases(sheet);
    let factors: Vec<Option<f64>> = cases.iter().map(Case::factor).collect();
    let most = cases.iter().zip(&factors).filter_map(|(case, factor)| Some((case, (*factor)?)));
    let most = most.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, factor)| *factor >= SAME);
    Answer {
        question: "What can a system do about it?",
        finding: most.map_or("nothing here makes a difference".into(), |(case, factor)| {
            format!("most by this: {} ({factor:.1} times)", case.system)
        }),
        heads: vec!["problem", "the drive", "the system can", "here"],
        rows: cases.iter().map(Case::row).collect(),
    }
}

fn cases(sheet: &Sheet) -> Vec<Case<'_>> {
    let all = |question| sheet.of(question).collect::<Vec<&Run>>();
    let labelled =
        |question, label: &str| sheet.of(question).find(|(measure, _)| measure.label == label);
    let (writes, depth) = (all(Question::Writes), all(Question::Depth));
    let unit = sheet.stack.profile.mapping_unit.as_f64();
    // The smallest measured writes that cover whole mapping units.
    let whole = writes.iter().copied().find(|(measure, _)| measure.x >= unit.max(4096.0));
    let reads: Vec<&Run> =
        depth.into_iter().filter(|(measure, _)| measure.label.ends_with("reads")).collect();
    let alone = labelled(Question::Latency, "reads alone");
    let mixed = labelled(Question::Latency, "70 % reads, 32 in flight");
    let pairs = [
        (SMALL, writes.first().copied(), whole),
        (
            FULL,
            labelled(Question::Reserve, "100 % full").or(labelled(Question::Reserve, "90 % full")),
            labelled(Question::Reserve, "70 % full"),
        ),
        (
            UNRELATED,
            labelled(Question::Relation, "uniform"),
            labelled(Question::Relation, "in order"),
        ),
        (SHALLOW, reads.first().copied(), reads.last().copied()),
        (BEHIND, mixed, alone),
    ];
    let found =
        pairs.into_iter().filter_map(|(words, worse, better)| Some((words, worse?, better?)));
    found
        .map(|((problem, drive, system, of), worse, better)| Case {
            problem,
            drive,
            system,
            worse,
            better,
            of,
        })
        .collect()
}

/// The problem, the drive's reaction, the system's remedy, and the compared figure.
type Words =
    (&'static str, &'static str, &'static str, (&'static str, fn(&RunRecord) -> Option<f64>));

/// The compared figures: WAF, time for each 4 KiB, and 99th percentile of read latency.
const WAF: (&str, fn(&RunRecord) -> Option<f64>) = ("WAF", |record| record.lasting.waf);
const SLOWNESS: (&str, fn(&RunRecord) -> Option<f64>) =
    ("us for each 4 KiB", |record| Some(4096.0 * 1e6 / late_rate(record)));
const READ_TIME: (&str, fn(&RunRecord) -> Option<f64>) =
    ("us within which 99 % of reads end", |record| {
        let latency = record.latency_ns.as_ref()?.get("read")?;
        latency.p99.map(|ns| ns as f64 / 1e3)
    });

const SMALL: Words = (
    "writes smaller than what the drive maps",
    "reads and rewrites the rest of the mapping unit",
    "gather writes into whole, aligned mapping units: a log or a fast tier above (log:, tier:)",
    WAF,
);
const FULL: Words = (
    "no room",
    "copies more valid data for each unit that it frees",
    "discard what is deleted, leave a part of the drive unused",
    WAF,
);
const UNRELATED: Words = (
    "data that is written together and dies apart",
    "copies what lives on out of every unit",
    "write in order of death: streams, FDP handles or zones for each lifetime (lab whatif)",
    WAF,
);
const SHALLOW: Words = (
    "one request at a time",
    "keeps one die busy, the others wait",
    "keep many requests in flight",
    SLOWNESS,
);
const BEHIND: Words = (
    "reads behind writes",
    "makes a read wait for the program or erase on its die",
    "write at times of few reads, or to another drive first (tier:)",
    READ_TIME,
);

impl Case<'_> {
    /// The factor by which the worse run is worse.
    fn factor(&self) -> Option<f64> {
        let [worse, better] = [self.worse, self.better].map(|run| (self.of.1)(&run.1));
        Some(worse? / better?).filter(|factor| factor.is_finite())
    }

    fn row(&self) -> Row {
        let [worse, better] = [self.worse, self.better].map(|run| (self.of.1)(&run.1));
        let number =
            |value: f64| if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") };
        let here = match worse.zip(better) {
            Some((worse, better)) => {
                let same = if worse < SAME * better { ": no difference here" } else { "" };
                format!(
                    "{} {} ({}) against {} ({}){same}",
                    self.of.0,
                    number(worse),
                    self.worse.0.label,
                    number(better),
                    self.better.0.label
                )
            }
            None => "not measured here".to_owned(),
        };
        let cells = vec![self.problem.into(), self.drive.into(), self.system.into(), here];
        let commands = [self.worse, self.better].map(|(measure, _)| measure.run.command());
        Row { cells, command: Some(commands.join("; ")), value: None }
    }
}
