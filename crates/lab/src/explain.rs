//! Which placement policy wins on a trace, and why.

use std::num::NonZeroU32;
use std::path::Path;

use serde::Serialize;
use thermocline_ftl::victim::Victim;
use thermocline_types::Bytes;
use thermocline_workload::profile::Profile;
use thermocline_workload::trace;

use crate::Error;
use crate::bench_placement::{Candidate, Line, Plan, Table, Watch, bench};
use crate::headroom::GARBAGE;

/// Policies usable without knowledge of the future, grouped by the data on which they decide.
const COUNTERS: [&str; 2] = ["dac:6", "fadac:6"];
const INTERVALS: [&str; 2] = ["sepbit", "warcip:6"];
const NOTHING: &str = "none";
const APART: &str = "sepgc";
const AUTO: &str = "auto";
/// What knows more than can be known.
const RATES: &str = "oracle-rates";
const FUTURE: &str = "oracle-future";
/// Victim rules: every rule that is best for some workload, and the policies' own rule.
const VICTIMS: [&str; 5] = ["greedy", "cost-benefit-4", "cost-benefit", "kawaguchi", "own"];
/// Units of 2 MiB, smaller where there would be fewer than so many, as for the headroom of `lab analyze`.
const BLOCKS_PER_UNIT: u32 = 512;
const UNITS: f64 = 640.0;
const FEWEST_BLOCKS: u32 = 16;
/// Working sets that are looked at: room for some open units of the smallest kind. Chosen, not measured.
const LEAST: Bytes = Bytes::mib(8);
/// Differences below this share of all writes are ignored: open units and reserve cost about as much.
const MARGIN: f64 = 0.01;

/// Why which policy wins on a trace.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// Version of this form.
    pub schema: &'static str,
    /// The policy that can be used with the lowest WAF.
    pub winner: Reached,
    /// The next one.
    pub second: Reached,
    /// WAF without separation.
    pub waf_without: f64,
    /// WAF of a policy that knows when every block is written next.
    pub waf_perfect: f64,
    /// Share of the copies without separation that the winner saves, of those a perfect policy would save.
    pub share_of_possible: f64,
    /// Figures on write rates.
    pub rates: Rates,
    /// Figures on recency.
    pub recency: Recency,
    /// Share of the written bytes that continue a stream.
    pub sequential_share: f64,
    /// The explanation in sentences.
    pub sentences: Vec<String>,
    /// Every policy with every victim rule.
    pub table: Table,
}

/// Result of a policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reached {
    /// The policy.
    pub policy: String,
    /// Its best victim rule.
    pub victim: String,
    /// WAF with it.
    pub waf: f64,
}

/// How unevenly blocks are written, and the gain from separation by write rate.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rates {
    /// The hottest share of blocks looked at, and the share of block writes that it takes.
    pub hottest: Option<[f64; 2]>,
    /// Lowest WAF of the policies that count writes.
    pub waf_counters: f64,
    /// WAF of one that knows how often every block is written.
    pub waf_known: f64,
}

/// How soon blocks are written again, and what that is worth.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Recency {
    /// Half of the rewrites come within so many bytes written; `None` without rewrites.
    pub median_bytes: Option<u64>,
    /// The middle 80 % of rewrite intervals span so many powers of two.
    pub octaves: u32,
    /// Lowest WAF of the policies that go by the last interval.
    pub waf_intervals: f64,
}

/// Explains the trace at `path`, read as `reading` says: policies on a full drive with 15 % garbage, discards ignored.
///
/// # Errors
/// When the trace cannot be read or writes too little to compare policies on.
pub fn explain(
    path: &Path,
    reading: &trace::Options,
    jobs: usize,
    seed: u64,
    progress: Watch<'_>,
) -> Result<Explanation, Error> {
    let mut read = trace::open(path, reading)?;
    let profile = Profile::of(&mut read)?;
    let mut found = None;
    let too_few = || {
        Error::Settings(format!(
            "{} writes {} distinct bytes, too few to compare policies on",
            path.display(),
            Bytes(profile.working_set_bytes)
        ))
    };
    if profile.working_set_bytes < LEAST.0 {
        return Err(too_few());
    }
    let plan = Plan { reading: reading.clone(), ..plan(path, &profile, jobs, seed) };
    bench(&plan, progress, |table| {
        found = Some(table);
        Ok(())
    })?;
    let table = found.expect("a plan with a trace and a garbage proportion has a table");
    let mut explanation = compare(&profile, table).ok_or_else(too_few)?;
    explanation.sentences.extend(read.notes().into_iter().map(|note| note + "."));
    Ok(explanation)
}

fn plan(path: &Path, profile: &Profile, jobs: usize, seed: u64) -> Plan {
    let policies = [AUTO, NOTHING, APART].into_iter().chain(COUNTERS).chain(INTERVALS);
    let candidate = |name: &str| -> Candidate { name.parse().expect("a policy or an oracle") };
    let blocks = profile.working_set_bytes as f64 / Bytes::BLOCK.as_f64() / (1.0 - GARBAGE);
    let per_unit = ((blocks / UNITS) as u32).clamp(FEWEST_BLOCKS, BLOCKS_PER_UNIT);
    Plan {
        candidates: policies.chain([RATES, FUTURE]).map(candidate).collect(),
        victims: VICTIMS.map(|name| name.parse::<Victim>().expect("a victim rule")).to_vec(),
        garbage: vec![GARBAGE],
        blocks_per_unit: NonZeroU32::new(per_unit).expect("units have blocks"),
        laws: Vec::new(),
        blocks: 0,
        turnovers: 0.0,
        traces: vec![path.to_owned()],
        reading: trace::Options::default(),
        discards: false,
        reserve: None,
        through: None,
        seed,
        jobs,
    }
}

/// Draws the conclusions; `None` when a policy did not fit the drive.
fn compare(profile: &Profile, table: Table) -> Option<Explanation> {
    let best = |name: &str| {
        let line: &Line = table.lines.iter().find(|line| line.policy == name)?;
        let (waf, victim) = line.best()?;
        Some(Reached { policy: name.to_owned(), victim: victim.to_owned(), waf })
    };
    let least = |names: &[&str]| {
        let reached = names.iter().filter_map(|name| best(name));
        reached.min_by(|a, b| a.waf.total_cmp(&b.waf))
    };
    let usable = [AUTO, APART].into_iter().chain(COUNTERS).chain(INTERVALS).chain([NOTHING]);
    let mut ranking: Vec<Reached> = usable.filter_map(best).collect();
    ranking.sort_by(|a, b| a.waf.total_cmp(&b.waf));
    let mut ranking = ranking.into_iter();
    let (winner, second) = (ranking.next()?, ranking.next()?);
    let (without, perfect) = (best(NOTHING)?.waf, best(FUTURE)?.waf);
    let possible = without - perfect;
    let rates = Rates {
        hottest: hottest(profile),
        waf_counters: least(&COUNTERS)?.waf,
        waf_known: best(RATES)?.waf,
    };
    let recency = Recency { waf_intervals: least(&INTERVALS)?.waf, ..recency(profile) };
    let mut explanation = Explanation {
        schema: "thermocline.explain/1",
        share_of_possible: if possible > 0.0 { (without - winner.waf) / possible } else { 1.0 },
        winner,
        second,
        waf_without: without,
        waf_perfect: perfect,
        rates,
        recency,
        sequential_share: profile.sequential_share,
        sentences: Vec::new(),
        table,
    };
    explanation.sentences = sentences(&explanation, profile);
    Some(explanation)
}

/// The share nearest to a tenth of the blocks that the profile looked at.
fn hottest(profile: &Profile) -> Option<[f64; 2]> {
    let off = |share: f64| (share - 0.1).abs();
    let hottest = profile.skew.hottest.iter();
    let nearest =
        hottest.min_by(|a, b| off(a.share_of_blocks).total_cmp(&off(b.share_of_blocks)))?;
    Some([nearest.share_of_blocks, nearest.share_of_writes])
}

/// Intervals of the profile; the WAF is for the caller to fill in.
fn recency(profile: &Profile) -> Recency {
    let rewrites = &profile.rewrites;
    let within = |share: f64| {
        let mut left = (rewrites.rewrites as f64 * share).ceil();
        rewrites.classes.iter().find_map(|class| {
            left -= class.blocks as f64;
            (left <= 0.0 && rewrites.rewrites > 0).then_some(2 * class.bytes_min)
        })
    };
    let octaves = within(0.1).zip(within(0.9)).map_or(0, |(low, high)| (high / low).ilog2() + 1);
    Recency { median_bytes: within(0.5), octaves, waf_intervals: f64::NAN }
}

fn sentences(about: &Explanation, profile: &Profile) -> Vec<String> {
    let copied = |waf: f64| waf - 1.0;
    if copied(about.waf_without) < MARGIN {
        return vec![format!(
            "No policy is needed: without any separation a drive writes this {:.3} times as it is.",
            about.waf_without
        )];
    }
    vec![winner(about), rates(about), recency_sentence(about, profile), why(about), perfect(about)]
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn winner(about: &Explanation) -> String {
    let (first, second) = (&about.winner, &about.second);
    let victims = if first.victim == "own" { "its own victim rule" } else { &first.victim };
    let saved = 1.0 - (first.waf - 1.0) / (second.waf - 1.0).max(f64::EPSILON);
    let margin = if second.waf - first.waf < MARGIN {
        format!("ahead of {} by less than counts ({:.3})", second.policy, second.waf)
    } else {
        format!(
            "and copies {} less than {}, the next ({:.3})",
            percent(saved),
            second.policy,
            second.waf
        )
    };
    format!(
        "{} with {} is best, WAF {:.3} against {:.3} without separation, {margin}.",
        first.policy, victims, first.waf, about.waf_without
    )
}

fn rates(about: &Explanation) -> String {
    let known = about.rates.waf_known;
    let skew = about.rates.hottest.map_or(String::new(), |[blocks, writes]| {
        format!(
            "the hottest {} of the blocks take {} of the writes; ",
            percent(blocks),
            percent(writes)
        )
    });
    let worth = if known > about.winner.waf + MARGIN {
        "so how often a block is written does not tell when it will be next"
    } else {
        "so rates are worth knowing here"
    };
    format!("Rates: {skew}knowing the rate of every block gives {known:.3}, {worth}.")
}

fn recency_sentence(about: &Explanation, profile: &Profile) -> String {
    let Some(median) = about.recency.median_bytes else {
        return "Recency: nothing is written twice.".into();
    };
    let rewrites = &profile.rewrites;
    let all = (rewrites.first_writes + rewrites.rewrites).max(1) as f64;
    format!(
        "Recency: {} of the block writes are rewrites, half of them within {} of the write before (the working set is \
         {}), the middle 80 % within {} powers of two.",
        percent(rewrites.rewrites as f64 / all),
        Bytes(median),
        Bytes(profile.working_set_bytes),
        about.recency.octaves
    )
}

/// Which kind of knowledge the policies' ranking speaks for.
fn why(about: &Explanation) -> String {
    let (counters, intervals) = (about.rates.waf_counters, about.recency.waf_intervals);
    let (apart, _) = (about.table.lines.iter().find(|line| line.policy == APART))
        .and_then(Line::best)
        .unwrap_or((f64::NAN, ""));
    let reading = if (counters - intervals).abs() < MARGIN {
        "so neither says more than the other"
    } else if counters < intervals {
        "so the longer history says more than the last interval"
    } else {
        "so the last interval says more than the count"
    };
    let gain = if apart < counters.min(intervals) + MARGIN {
        "; keeping survivors apart, with no history at all, does as well as either"
    } else {
        ""
    };
    format!(
        "Why: counting writes gives {counters:.3}, the last rewrite interval {intervals:.3}, survivors apart alone \
            {apart:.3}, {reading}{gain}. {} of the bytes are written in sequence.",
        percent(about.sequential_share)
    )
}

fn perfect(about: &Explanation) -> String {
    format!(
        "A policy that knows when every block is written next would reach {:.3}; the best one has {} of what that \
         saves.",
        about.waf_perfect,
        percent(about.share_of_possible)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;

    fn explained(path: &Path, jobs: usize) -> Result<Explanation, Error> {
        explain(path, &trace::Options::default(), jobs, 1, &|_, _| ControlFlow::Continue(()))
    }

    #[test]
    fn the_winner_is_the_lowest_line_and_the_sentences_hold_its_figures() {
        let about = explained(Path::new("cassandra-ycsb-a"), 2).unwrap();
        let usable = about.table.lines.iter().filter(|line| !line.policy.starts_with("oracle"));
        let wafs: Vec<f64> = usable.filter_map(|line| Some(line.best()?.0)).collect();
        assert_eq!(wafs.len(), 7);
        let least = wafs.iter().copied().fold(f64::INFINITY, f64::min);
        assert!((about.winner.waf - least).abs() < 1e-12 && least <= about.second.waf);
        assert!(about.waf_perfect <= about.winner.waf && about.winner.waf <= about.waf_without);
        assert!((0.0..=1.0).contains(&about.share_of_possible), "{}", about.share_of_possible);
        let text = about.sentences.join(" ");
        if about.waf_without > 1.0 + MARGIN {
            assert!(text.contains(&about.winner.policy), "{text}");
            assert!(text.contains(&format!("{:.3}", about.waf_perfect)), "{text}");
        } else {
            assert!(text.contains("No policy is needed"), "{text}");
        }
    }

    /// What `lab analyze` simulates of a trace is what `lab explain` does: the same four kinds of knowledge.
    #[test]
    fn the_headroom_has_the_same_figures() {
        let mut rng = thermocline_types::Rng::new(7);
        let mut text = "timestamp_us,op,offset_bytes,length_bytes\n".to_owned();
        for at in 0..40_000 {
            let below = [512, 1024, 4096][rng.below(3) as usize];
            text += &format!("{at},W,{},4096\n", rng.below(below) * 4096);
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace.csv");
        std::fs::write(&path, text).expect("written");
        let about = explained(&path, 2).unwrap();
        let input = crate::Input::Trace {
            path,
            options: trace::Options::default(),
            remap: thermocline_workload::remap::Remap::Dense,
            loops: 1,
            ignore_trims: false,
        };
        let mut prepared = crate::Prepared::new(input, None, Bytes::BLOCK, None).unwrap();
        let whole = crate::headroom::WRITES;
        let headroom = crate::headroom::headroom(&mut prepared, whole, &mut |_| {}).unwrap();
        let best = |name: &str| {
            let line = about.table.lines.iter().find(|line| line.policy == name).unwrap();
            line.best().unwrap().0
        };
        let explained = [NOTHING, APART, RATES, FUTURE].map(best);
        assert!(explained[0] > explained[2] && explained[2] > explained[3] + 0.1, "{explained:?}");
        for (line, explained) in headroom.lines.iter().zip(explained) {
            assert!((line.waf - explained).abs() < 1e-12, "{line:?}, explained {explained}");
        }
    }

    #[test]
    fn a_trace_too_small_is_refused_in_words() {
        let error = compare_empty().unwrap_err().to_string();
        assert!(error.contains("too few"), "{error}");
    }

    fn compare_empty() -> Result<Explanation, Error> {
        let folder =
            std::env::temp_dir().join(format!("thermocline-explain-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("small.csv");
        let text =
            "timestamp_us,op,offset_bytes,length_bytes\n0,W,0,4096\n1,W,4096,4096\n2,W,0,4096\n";
        std::fs::write(&path, text).expect("written");
        let explained = explained(&path, 1);
        std::fs::remove_dir_all(&folder).expect("removed");
        explained
    }
}
