//! Garbage collection of a zoned drive by levels (LSM_ZGC) against copying block by block.

use thermocline_types::Bytes;

use super::zones::{Running, Zones};
use super::{Figure, Options, part};
use crate::Error;

/// Capacity of the drive: 384 zones of nine segments.
const CAPACITY: Bytes = Bytes::mib(384 * 18);
/// Zones that keep the paper's segments of 2 MiB; theirs have 1 GiB.
const ZONE: &str = "device.unit=18MiB";
const SEGMENT: &str = "log.gc.segment=2MiB";
/// Maps are in the drive of none of both schemes; with few checkpoints, theirs count little.
const CHECKPOINT: &str = "log.checkpoint=1GiB";
/// Their log answers for what is on the zones.
const ON_MEDIA: &str = "log.write_cache=off";
/// Victims collected before measuring, and while.
const SETTLE: usize = 600;
const MEASURE: usize = 300;
/// Requests in work while zones are collected with the host waiting: so many that chunks are as long as can be, and
/// what a collection reads of headers counts little. Theirs finds valid blocks in a bitmap.
const DEPTH: u32 = 1024;
/// Utilisations of their figures.
const UTILISATIONS: [f64; 5] = [0.5, 0.6, 0.7, 0.8, 0.9];
/// Uniform updates, and 70 % of them to 30 % of the data.
const PATTERNS: [(&str, &str); 2] = [("uniform", "uniform"), ("70/30", "hotcold:30:70")];

/// How garbage is collected.
#[derive(Clone, Copy)]
enum Scheme {
    /// Valid blocks one by one, to wherever the host writes.
    Basic,
    /// The same, the next read when the one before is done.
    OneByOne,
    /// Segments as a whole, to levels, with a threshold.
    Lsm(f64),
    /// Segments as a whole, to the classes of our default, which also chooses the victims.
    Auto,
}

impl Scheme {
    fn overrides(self) -> Vec<String> {
        let (plan, placement, victim) = match self {
            Scheme::Basic | Scheme::OneByOne => ("basic", "none".to_owned(), "greedy"),
            Scheme::Lsm(threshold) => ("segment", format!("lsm-zgc:{threshold}"), "greedy"),
            Scheme::Auto => ("segment", "auto".to_owned(), "own"),
        };
        let own = [
            format!("log.gc.read_plan={plan}"),
            format!("log.placement={placement}"),
            format!("log.victim={victim}"),
        ];
        let all = [ZONE, SEGMENT, CHECKPOINT, ON_MEDIA];
        own.into_iter().chain(all.map(str::to_owned)).collect()
    }
}

fn begin(
    scheme: Scheme,
    utilisation: f64,
    workload: &str,
    exclusive: bool,
    seed: u64,
) -> Result<Running, Error> {
    let zones = Zones {
        overrides: scheme.overrides(),
        capacity: CAPACITY,
        utilisation,
        workload,
        read_share: 0.0,
        io_size: Bytes::BLOCK,
        queue_depth: DEPTH,
        exclusive,
        seed,
    };
    let mut running = zones.begin()?;
    if matches!(scheme, Scheme::OneByOne) {
        running.bench.machine.read_one_by_one();
    }
    Ok(running)
}

/// Mean milliseconds that a collection takes while the host waits.
fn collection(
    scheme: Scheme,
    utilisation: f64,
    workload: &str,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<f64, Error> {
    let mut running = begin(scheme, utilisation, workload, true, seed)?;
    running.collect(SETTLE + MEASURE, progress)?;
    Ok(running.mean_time(SETTLE) * 1e3)
}

/// Repeats the paper's experiments.
pub fn lsm_zgc(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let seed = options.seed;
    let mut figures = Vec::new();
    for (index, (name, workload)) in PATTERNS.into_iter().enumerate() {
        let mut progress = part(progress, index, 5);
        figures.extend(times(name, workload, seed, &mut progress)?);
    }
    figures.extend(io_size(seed, &mut part(progress, 2, 5))?);
    figures.extend(histograms(seed, &mut part(progress, 3, 5))?);
    figures.extend(thresholds(seed, &mut part(progress, 4, 5))?);
    figures.extend(foreground(seed)?);
    Ok(figures)
}

/// Collection time against utilisation, both schemes, and how many times as long the basic one takes.
fn times(
    name: &str,
    workload: &str,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<Vec<Figure>, Error> {
    let (mut figures, mut ratios, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for (index, utilisation) in UTILISATIONS.into_iter().enumerate() {
        let mut step = part(progress, index, UTILISATIONS.len());
        let basic = collection(Scheme::Basic, utilisation, workload, seed, &mut step)?;
        let lsm = collection(Scheme::Lsm(0.8), utilisation, workload, seed, &mut step)?;
        let slow = collection(Scheme::OneByOne, utilisation, workload, seed, &mut step)?;
        let auto = collection(Scheme::Auto, utilisation, workload, seed, &mut step)?;
        others.push((slow / lsm, basic / auto));
        let all = [("basic", basic), ("basic, one by one", slow), ("LSM_ZGC", lsm), ("auto", auto)];
        for (scheme, ms) in all {
            figures.push(ours(format!("{name}, utilisation {utilisation}: {scheme}, ms"), ms));
        }
        ratios.push(basic / lsm);
    }
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let most = ratios.iter().copied().fold(0.0, f64::max);
    let published = if name == "uniform" { [1.9, 2.3] } else { [1.4, 1.6] };
    for (what, theirs, ours) in [("mean", published[0], mean), ("most", published[1], most)] {
        let what = format!("{name}: basic takes so many times as long, {what}");
        figures.push(Figure { what, theirs: Some(theirs), ours });
    }
    let (slow, auto): (Vec<f64>, Vec<f64>) = others.into_iter().unzip();
    for (what, ratios) in [
        ("basic, one by one, takes so many times as long, mean", slow),
        ("basic takes so many times as long as auto, mean", auto),
    ] {
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        figures.push(ours(format!("{name}: {what}"), mean));
    }
    Ok(figures)
}

/// The same victims read block by block and in pieces of 128 KiB, nothing separated.
fn io_size(seed: u64, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let mut times = Vec::new();
    let ways = [("basic", true), ("segment", true), ("basic", false), ("segment", false)];
    for (index, (plan, one_by_one)) in ways.into_iter().enumerate() {
        let mut overrides = Scheme::Basic.overrides();
        overrides.push(format!("log.gc.read_plan={plan}"));
        let zones = Zones {
            overrides,
            capacity: CAPACITY,
            utilisation: 0.8,
            workload: PATTERNS[0].1,
            read_share: 0.0,
            io_size: Bytes::BLOCK,
            queue_depth: DEPTH,
            exclusive: true,
            seed,
        };
        let mut running = zones.begin()?;
        if one_by_one {
            running.bench.machine.read_one_by_one();
        }
        running.collect(SETTLE + MEASURE, &mut part(progress, index, ways.len()))?;
        times.push(running.mean_time(SETTLE));
    }
    let [small, large, small_at_once, large_at_once] = times[..] else {
        unreachable!("four ways were tried")
    };
    let what = |how: &str| format!("4 KiB reads, {how}, take so many times as long as 128 KiB");
    Ok(vec![
        Figure { what: what("one by one"), theirs: Some(11.0), ours: small / large },
        ours(what("all at once"), small_at_once / large_at_once),
    ])
}

/// How zones fill up and empty: shares of zones nearly empty, and nearly full, after so many collections.
fn histograms(seed: u64, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    let schemes = [("basic", Scheme::Basic), ("LSM_ZGC", Scheme::Lsm(0.8))];
    for (index, (name, scheme)) in schemes.into_iter().enumerate() {
        let mut step = part(progress, index, 2);
        let mut running = begin(scheme, 0.7, PATTERNS[1].1, true, seed)?;
        for victims in [100, 500, 900] {
            running.collect(victims, &mut step)?;
            let zones = running.utilisations();
            let share = |keep: fn(f64) -> bool| {
                zones.iter().filter(|&&zone| keep(zone)).count() as f64 / zones.len() as f64
            };
            let (sparse, dense) = (share(|zone| zone < 0.6), share(|zone| zone > 0.9));
            for (range, ours_is) in [("under 0.6", sparse), ("over 0.9", dense)] {
                let what = format!("{name}, {victims} collections: zones used {range}");
                figures.push(ours(what, ours_is));
            }
        }
    }
    Ok(figures)
}

/// What the threshold between hot and cold does to the time of a collection.
fn thresholds(seed: u64, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    for (index, threshold) in [0.6, 0.8, 0.9].into_iter().enumerate() {
        let mut step = part(progress, index, 3);
        let ms = collection(Scheme::Lsm(threshold), 0.7, PATTERNS[1].1, seed, &mut step)?;
        figures.push(ours(format!("LSM_ZGC, threshold {threshold}: ms"), ms));
    }
    Ok(figures)
}

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
        let start = running.bench.machine.now();
        for _ in 0..JOB {
            running.serve_one()?;
        }
        Ok(running.bench.machine.now().since(start).as_secs_f64())
    };
    let alone = job(Scheme::Basic, 0.25)?;
    let mut figures = vec![ours("foreground job alone, seconds of 40".into(), 40.0)];
    for (name, scheme, theirs) in
        [("LSM_ZGC", Scheme::Lsm(0.8), 45.0), ("basic", Scheme::Basic, 53.0)]
    {
        let with = job(scheme, 0.7)?;
        let what = format!("the same with collections, {name}");
        figures.push(Figure { what, theirs: Some(theirs), ours: 40.0 * with / alone });
    }
    Ok(figures)
}

fn ours(what: String, ours: f64) -> Figure {
    Figure { what, theirs: None, ours }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_segments_pay_when_zones_are_full() {
        let uniform = PATTERNS[0].1;
        let basic = collection(Scheme::Basic, 0.9, uniform, 1, &mut |_| {}).unwrap();
        let lsm = collection(Scheme::Lsm(0.8), 0.9, uniform, 1, &mut |_| {}).unwrap();
        let emptier = collection(Scheme::Basic, 0.5, uniform, 1, &mut |_| {}).unwrap();
        assert!(basic / lsm > 1.2, "basic {basic:.1} ms, LSM_ZGC {lsm:.1} ms");
        assert!(basic / emptier > 1.8, "{basic:.1} ms at 0.9, {emptier:.1} ms at 0.5");
    }

    #[test]
    fn small_reads_one_by_one_cost_several_times_as_much() {
        let figures = io_size(1, &mut |_| {}).unwrap();
        assert!(figures[0].ours > 3.0 && figures[0].ours > 2.0 * figures[1].ours, "{figures:?}");
    }
}
