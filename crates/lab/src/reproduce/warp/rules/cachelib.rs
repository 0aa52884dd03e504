//! Loads that CacheLib makes.
//!
//! * Small objects lie in buckets of 4 KiB in the last `soc_pct` of the flash cache, and each write takes any bucket
//!   with equal chance. Larger objects lie before them in a log that is written in order and begins again at its end,
//!   regions of [`REGION`] at once. The cache is no larger than the drive.
//! * With placement each of the two has a handle. Without it, both have one. A row that does not know has it if nothing
//!   was relocated for over [`QUIET`] fills.
//! * Host bytes by handle say what small objects write, in the course of the run. Without such counters it is the
//!   middle of `small_share_low` and `small_share_high` of the row; else the mean of that over rows of the same trace,
//!   else over all rows of kvcache traces, else [`SMALL`].
//! * The Meta CDN and Twitter traces have no objects of up to 640 B to speak of: the share is 0.
//! * **Noise.** The second writer writes uniformly, with a handle of its own where there is placement. A label with AxB
//!   gives it the last A % of the drive and the cache the rest. Any other label gives it the whole drive. Its share is
//!   what the row's rate has above the rate of the same cache without noise: the median of such rows, else
//!   [`CACHE_RATE`].

use super::super::folder::{Folder, Log};
use super::super::load::{Load, Order, Span, Stream};
use crate::Error;
use crate::counters::median;

/// Share of small objects where no row says it.
const SMALL: f64 = 0.8;
/// Fills without relocation that no drive reaches whose small and large objects are mixed.
const QUIET: f64 = 1.5;
/// Bytes of a region of large objects.
const REGION: f64 = 16.0 * 1_048_576.0;
/// MB/s of a cache without noise where no row shows it.
const CACHE_RATE: f64 = 200.0;

/// The load of a row of CacheLib over `exported` blocks.
///
/// # Errors
/// [`Error::Settings`] when the row states no share of the small objects' part.
pub(super) fn cache(folder: &Folder, log: &Log, exported: u64) -> Result<Load, Error> {
    let part = log.parameter_number("soc_pct").filter(|part| (0.0..100.0).contains(part));
    let Some(part) = part else {
        let id = log.text("id");
        return Err(Error::Settings(format!(
            "logs.csv, `{id}`: `soc_pct` is no share in per cent"
        )));
    };
    let capacity = log.needed("capacity_bytes")?;
    let cache =
        log.parameter_number("flash_cache_mib").map_or(1.0, |mib| mib * 1_048_576.0 / capacity);
    let noisy = noise_span(log);
    let cache = (exported as f64 * cache.min(1.0 - noisy)) as u64;
    let buckets = (cache as f64 * part / 100.0) as u64;
    let placed = is_placed(log);
    let large = Span { first: 0, blocks: cache - buckets };
    let burst = (REGION / (capacity / exported as f64)).round().max(1.0) as u64;
    let stream = |span, order, handle: u16| {
        let handle = if placed { handle } else { 0 };
        Stream { span, order, handle, burst: 1 }
    };
    let mut streams = vec![Stream { burst, ..stream(large, Order::Sequential, 1) }];
    let small = if buckets > 0 { small_share(folder, log) } else { 0.0 };
    let mut about = format!("small objects {:.1} %", small * 100.0);
    let mut shares = vec![(f64::INFINITY, vec![1.0 - small])];
    if small > 0.0 {
        let buckets = Span { first: cache - buckets, blocks: buckets };
        streams.push(stream(buckets, Order::Uniform, 0));
        shares[0].1.push(small);
        let counted: Vec<(f64, Vec<f64>)> = counted(folder, log, capacity)?;
        if !counted.is_empty() {
            shares = counted;
            "small objects by the handle's counter".clone_into(&mut about);
        }
    }
    if log.parameter("noise").is_some() {
        let noise = noise_share(folder, log);
        let first = if noisy > 0.0 { cache } else { 0 };
        streams.push(stream(Span { first, blocks: exported - first }, Order::Uniform, 2));
        for (_, shares) in &mut shares {
            shares.iter_mut().for_each(|share| *share *= 1.0 - noise);
            shares.push(noise);
        }
        about += &format!(", noise {:.1} %", noise * 100.0);
    }
    Ok(Load { streams, shares, about })
}

/// Whether the two parts have a handle each. Where the row does not know, a run that is longer than [`QUIET`] without
/// relocation shows it.
fn is_placed(log: &Log) -> bool {
    let quiet = log.number("onset_fills_low").is_none();
    match log.text("fdp") {
        "unknown" => quiet && log.number("host_fills").is_some_and(|fills| fills > QUIET),
        fdp => fdp == "on",
    }
}

/// Shares of large and small objects in the course of the run, where two handles are counted: the lower has the small.
fn counted(folder: &Folder, log: &Log, capacity: f64) -> Result<Vec<(f64, Vec<f64>)>, Error> {
    let intervals = folder.handles(log)?.into_iter().filter(|interval| interval.shares.len() == 2);
    let shares = intervals.filter_map(|interval| {
        let small = *interval.shares.values().next()?;
        Some((interval.until / capacity, vec![1.0 - small, small]))
    });
    Ok(shares.collect())
}

/// What small objects write of all that the cache writes.
fn small_share(folder: &Folder, log: &Log) -> f64 {
    let of = |log: &Log| {
        Some(f64::midpoint(log.number("small_share_low")?, log.number("small_share_high")?))
    };
    let Some(trace) = log.parameter("trace").filter(|trace| trace.contains("kvcache")) else {
        return of(log).unwrap_or(0.0);
    };
    let mean = |chosen: &dyn Fn(&str) -> bool| {
        let rows = folder.logs().iter().filter(|row| row.parameter("trace").is_some_and(chosen));
        let all: Vec<f64> = rows.filter_map(of).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    let same = || mean(&|other| other == trace);
    let any = || mean(&|other| other.contains("kvcache"));
    of(log).or_else(same).or_else(any).unwrap_or(SMALL)
}

/// The share of the drive that only the second writer writes: A % by the part AxB of its label, else none.
fn noise_span(log: &Log) -> f64 {
    let label = log.parameter("noise").and_then(|label| label.split(' ').next()).unwrap_or("");
    let sizes = label.rsplit('_').find_map(|part| part.split_once('x'));
    let percent = sizes.and_then(|(percent, _)| percent.parse::<f64>().ok());
    percent.filter(|percent| (0.0..100.0).contains(percent)).map_or(0.0, |percent| percent / 100.0)
}

/// What the second writer writes of all.
fn noise_share(folder: &Folder, log: &Log) -> f64 {
    let like = |other: &&Log| {
        other.parameter("noise").is_none()
            && ["trace", "soc_pct", "amp_factor", "requests"]
                .iter()
                .all(|key| other.parameter(key) == log.parameter(key))
            && other.text("drive") == log.text("drive")
    };
    let rates = folder.logs().iter().filter(like).filter_map(|row| row.number("rate_mb_s_median"));
    let rates: Vec<f64> = rates.collect();
    let alone = if rates.is_empty() { CACHE_RATE } else { median(rates) };
    let all = log.number("rate_mb_s_median").unwrap_or(alone);
    (1.0 - alone / all).clamp(0.0, 1.0)
}
