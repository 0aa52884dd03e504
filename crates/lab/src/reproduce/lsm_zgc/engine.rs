//! LSM_ZGC and copying block by block in the log engine, on zones of 18 MiB.

use thermocline_types::Bytes;

use super::super::zones::Zones;
use super::{Figure, LONGER, Options, SMALL_READS, UTILISATIONS, ours, part};
use crate::Error;
use crate::reproduce::point::{CHOI, Reference};

/// Capacity of the drive: 384 zones of nine segments.
const CAPACITY: Bytes = Bytes::mib(384 * 18);
/// Zones that keep the paper's segments of 2 MiB; theirs have 1 GiB.
const ZONE: &str = "device.unit=18MiB";
const SEGMENT: &str = "pool.segment=2MiB";
/// Maps are in the drive of none of both schemes; with few checkpoints, theirs count little.
const CHECKPOINT: &str = "pool.checkpoint=1GiB";
/// Their log answers for what is on the zones.
const ON_MEDIA: &str = "pool.write_cache=off";
/// Victims collected before measuring, and while.
const SETTLE: usize = 600;
const MEASURE: usize = 300;
/// Requests in work while zones are collected with the host waiting: so many that chunks are as long as can be, and
/// what a collection reads of headers counts little. Theirs finds valid blocks in a bitmap.
const DEPTH: u32 = 1024;
/// Uniform updates, and 70 % of them to 30 % of the data.
const PATTERNS: [(&str, &str); 2] = [("uniform", "uniform"), ("70/30", "hotcold:30:70")];

/// How garbage is collected.
#[derive(Clone, Copy)]
enum Scheme {
    /// Valid blocks by a command each, to wherever the host writes.
    Basic,
    /// Segments as a whole, to levels.
    Lsm,
    /// Segments as a whole, to the classes of our default, which also chooses the victims.
    Auto,
}

/// When the reads of a segment are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    AtOnce,
    /// Each when the one before is done.
    OneByOne,
}

/// Schemes that are measured, with their names.
const WAYS: [(&str, Scheme, Reads); 5] = [
    ("basic", Scheme::Basic, Reads::AtOnce),
    ("LSM_ZGC", Scheme::Lsm, Reads::AtOnce),
    ("basic, one by one", Scheme::Basic, Reads::OneByOne),
    ("LSM_ZGC, one by one", Scheme::Lsm, Reads::OneByOne),
    ("auto", Scheme::Auto, Reads::AtOnce),
];

impl Scheme {
    fn overrides(self) -> Vec<String> {
        let (plan, placement, victim) = match self {
            Scheme::Basic => ("basic", "none", "greedy"),
            Scheme::Lsm => ("segment", "lsm-zgc:0.8", "greedy"),
            Scheme::Auto => ("segment", "auto", "own"),
        };
        let own = [
            format!("pool.read_plan={plan}"),
            format!("pool.placement={placement}"),
            format!("pool.victim={victim}"),
        ];
        let all = [ZONE, SEGMENT, CHECKPOINT, ON_MEDIA];
        own.into_iter().chain(all.map(str::to_owned)).collect()
    }
}

/// Mean milliseconds that a collection takes while the host waits.
fn collection(
    overrides: Vec<String>,
    reads: Reads,
    utilisation: f64,
    workload: &str,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<f64, Error> {
    let zones = Zones {
        overrides,
        capacity: CAPACITY,
        utilisation,
        workload,
        read_share: 0.0,
        io_size: Bytes::BLOCK,
        queue_depth: DEPTH,
        exclusive: true,
        seed,
    };
    let mut running = zones.begin()?;
    if reads == Reads::OneByOne {
        running.bench.target_mut().read_one_by_one();
    }
    running.collect(SETTLE + MEASURE, progress)?;
    Ok(running.mean_time(SETTLE) * 1e3)
}

/// Both schemes and our default in the log engine.
pub fn lsm_zgc(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    let seed = options.seed;
    let patterns = if options.quick { &PATTERNS[..1] } else { &PATTERNS };
    for (index, &(name, workload)) in patterns.iter().enumerate() {
        let mut progress = part(progress, index, 3);
        figures.extend(times(name, workload, seed, &mut progress)?);
    }
    figures.extend(io_size(seed, &mut part(progress, 2, 3))?);
    figures.extend(foreground(seed)?);
    Ok(figures)
}

/// Collection time against utilisation, and how many times as long the basic scheme takes.
fn times(
    name: &str,
    workload: &str,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    let (mut at_once, mut one_by_one, mut auto) = (Vec::new(), Vec::new(), Vec::new());
    for (index, utilisation) in UTILISATIONS.into_iter().enumerate() {
        let mut took = [0.0; WAYS.len()];
        for (which, (scheme_name, scheme, reads)) in WAYS.into_iter().enumerate() {
            let steps = UTILISATIONS.len() * WAYS.len();
            let mut step = part(progress, index * WAYS.len() + which, steps);
            let ms = collection(scheme.overrides(), reads, utilisation, workload, seed, &mut step)?;
            took[which] = ms;
            figures.push(ours(format!("{name}, utilisation {utilisation}: {scheme_name}, ms"), ms));
        }
        let [basic, lsm, slow_basic, slow_lsm, ours] = took;
        at_once.push(basic / lsm);
        one_by_one.push(slow_basic / slow_lsm);
        auto.push(basic / ours);
    }
    let published = if name == "uniform" { [1.9, 2.3] } else { [1.4, 1.6] };
    for (what, ratios, theirs) in [
        ("basic / LSM_ZGC", at_once, Some(published)),
        ("basic / LSM_ZGC, both one by one", one_by_one, Some(published)),
        ("basic / auto", auto, None),
    ] {
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        let most = ratios.iter().copied().fold(0.0, f64::max);
        for (index, (which, ours)) in [("mean", mean), ("most", most)].into_iter().enumerate() {
            let what = format!("{name}: {what}, {which}");
            figures.push(match theirs {
                Some(theirs) => Figure::new(what, theirs[index], ours, LONGER[index]),
                None => Figure::ours(what, ours),
            });
        }
    }
    Ok(figures)
}

/// The same victims read block by block and in pieces of 128 KiB, nothing separated.
fn io_size(seed: u64, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let mut times = Vec::new();
    let ways = [
        ("basic", Reads::OneByOne),
        ("segment", Reads::OneByOne),
        ("basic", Reads::AtOnce),
        ("segment", Reads::AtOnce),
    ];
    for (index, (plan, reads)) in ways.into_iter().enumerate() {
        let mut overrides = Scheme::Basic.overrides();
        overrides.push(format!("pool.read_plan={plan}"));
        let mut step = part(progress, index, ways.len());
        times.push(collection(overrides, reads, 0.8, PATTERNS[0].1, seed, &mut step)?);
    }
    let [small, large, small_at_once, large_at_once] = times[..] else {
        unreachable!("four ways were tried")
    };
    let what = |how: &str| format!("4 KiB reads, {how}, take so many times as long as 128 KiB");
    Ok(vec![
        Figure::new(what("one by one"), 11.0, small / large, SMALL_READS),
        ours(what("all at once"), small_at_once / large_at_once),
    ])
}

/// What their job, which takes 40 alone, takes beside collections.
const JOB_TAKES: Reference = Reference::new(CHOI, "job of 40, with collections", "its units");
/// Requests of the foreground job.
const JOB: usize = 40_000;
/// Its requests in work, the size of each, and the share that reads; theirs is not published. Chosen.
const JOB_DEPTH: u32 = 4;
const JOB_SIZE: Bytes = Bytes::kib(128);
const JOB_READS: f64 = 0.7;

/// How long a foreground job takes alone and with collections beside it, in units in which it takes 40 alone.
fn foreground(seed: u64) -> Result<Vec<Figure>, Error> {
    let job = |scheme: Scheme, utilisation: f64| -> Result<f64, Error> {
        let zones = Zones {
            overrides: scheme.overrides(),
            capacity: CAPACITY,
            utilisation,
            workload: PATTERNS[0].1,
            read_share: JOB_READS,
            io_size: JOB_SIZE,
            queue_depth: JOB_DEPTH,
            exclusive: false,
            seed,
        };
        let mut running = zones.begin()?;
        if utilisation > 0.5 {
            running.collect(SETTLE, &mut |_| {})?;
        }
        let start = running.bench.target().now();
        for _ in 0..JOB {
            running.serve_one()?;
        }
        Ok(running.bench.target().now().since(start).as_secs_f64())
    };
    let alone = job(Scheme::Basic, 0.25)?;
    let mut figures = vec![ours("foreground job alone, seconds of 40".into(), 40.0)];
    for (name, scheme, theirs) in [("LSM_ZGC", Scheme::Lsm, 45.0), ("basic", Scheme::Basic, 53.0)] {
        let with = job(scheme, 0.7)?;
        let what = format!("the same with collections, {name}");
        figures.push(Figure::new(what, theirs, 40.0 * with / alone, JOB_TAKES));
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(scheme: Scheme, utilisation: f64) -> f64 {
        let uniform = PATTERNS[0].1;
        collection(scheme.overrides(), Reads::AtOnce, utilisation, uniform, 1, &mut |_| {}).unwrap()
    }

    #[test]
    fn whole_segments_pay_when_zones_are_full() {
        let (basic, lsm) = (ms(Scheme::Basic, 0.9), ms(Scheme::Lsm, 0.9));
        let emptier = ms(Scheme::Basic, 0.5);
        assert!(basic / lsm > 1.2, "basic {basic:.1} ms, LSM_ZGC {lsm:.1} ms");
        assert!(basic / emptier > 1.8, "{basic:.1} ms at 0.9, {emptier:.1} ms at 0.5");
    }

    #[test]
    fn small_reads_one_by_one_cost_several_times_as_much() {
        let figures = io_size(1, &mut |_| {}).unwrap();
        assert!(figures[0].ours > 3.0 && figures[0].ours > 2.0 * figures[1].ours, "{figures:?}");
    }
}
