//! Loads that fio makes, from the rows and from the published jobs.
//!
//! * **One stream** writes at random. With `permutation_per_pass=yes` it writes each block once in a pass, in fio's
//!   order: a random block, or else the next one that is not written yet.
//! * **Three streams**: one in order over the first 90 %, one at random over the same 90 % (the overwriter) with the
//!   distribution that the row names, one at random over the last 10 %. Handles are 0, 2 and 1; `shared` puts the
//!   overwriter into 0, `off` puts all into 0.
//! * Host bytes by handle say how much each stream writes, in the course of the run. An overwriter in handle 0 has the
//!   ratio to the random stream that the row states, as both are jobs of one kind.
//! * Without such counters a fill of 90 % in order comes first, with 10 % at random if `fill` says so, and the shares
//!   that the row states hold after that.

use std::collections::BTreeMap;

use super::super::folder::{Folder, Log};
use super::super::load::{Load, Order, Span, Stream};
use super::one;
use crate::Error;

/// Bytes of a random request of the three streams.
const REQUEST: f64 = 4096.0;
/// The share of the span that the first two streams write.
const FRONT: f64 = 0.9;
/// fio's `zoned:80/20:10/20:10/60`.
const ZONES: &[(f64, f64)] = &[(0.8, 0.2), (0.1, 0.2), (0.1, 0.6)];

/// The load of a row of one stream over `exported` blocks.
pub(super) fn one_stream(log: &Log, exported: u64) -> Load {
    let (order, about) = match (log.parameter("pattern"), log.parameter("permutation_per_pass")) {
        (Some("sequential"), _) => (Order::Sequential, "in order"),
        (_, Some("yes")) => (Order::EachOnce, "random, each block once in a pass"),
        _ => (Order::Uniform, "uniform random"),
    };
    one(Stream { span: Span { first: 0, blocks: exported }, order, handle: 0, burst: 1 }, about)
}

/// The load of a row of three streams over `exported` blocks.
///
/// # Errors
/// [`Error::Settings`] when the row states no shares, or a distribution that is not known.
pub(super) fn three_streams(folder: &Folder, log: &Log, exported: u64) -> Result<Load, Error> {
    let front = (exported as f64 * FRONT) as u64;
    let ahead = Span { first: 0, blocks: front };
    let behind = Span { first: front, blocks: exported - front };
    let name = log.parameter("overwriter_distribution").unwrap_or("uniform");
    let ranks = log.needed("capacity_bytes")? * FRONT / REQUEST;
    let theta = name.strip_prefix("zipf").and_then(|theta| theta.parse().ok());
    let order = match (name, theta) {
        ("uniform", _) => Order::Uniform,
        ("zoned", _) => Order::Zoned(ZONES),
        (_, Some(theta)) => Order::Zipf { theta, ranks },
        _ => return Err(wrong(log, &format!("no distribution is called `{name}`"))),
    };
    let [sequential, overwriter, random] = match log.text("fdp") {
        "on" => [0, 2, 1],
        "shared" => [0, 0, 1],
        _ => [0, 0, 0],
    };
    let stream = |span, order, handle| Stream { span, order, handle, burst: 1 };
    let streams = vec![
        stream(ahead, Order::Sequential, sequential),
        stream(ahead, order, overwriter),
        stream(behind, Order::Uniform, random),
    ];
    let steady = steady(log)?;
    let both = log.parameter("fill").is_some_and(|fill| fill.contains("random 4 KiB"));
    let (filled, fill) =
        if both { (1.0, [FRONT, 0.0, 1.0 - FRONT]) } else { (FRONT, [1.0, 0.0, 0.0]) };
    let capacity = log.needed("capacity_bytes")?;
    let counted = folder.handles(log)?.into_iter().filter_map(|interval| {
        let until = interval.until / capacity;
        let apart = apart(&interval.shares, if until <= filled { fill } else { steady })?;
        Some((until, apart.to_vec()))
    });
    let mut shares: Vec<(f64, Vec<f64>)> = counted.collect();
    if shares.is_empty() {
        shares = vec![(filled, fill.to_vec()), (f64::INFINITY, steady.to_vec())];
    }
    let [first, second, third] = steady.map(|share| share * 100.0);
    let about = format!("{first:.1} % in order, {second:.1} % {name}, {third:.1} % random");
    Ok(Load { streams, shares, about })
}

/// The shares of the three streams by the counters of their handles; `None` if handle 1 has no stream. An overwriter
/// without a handle of its own writes as much for each byte of the random stream as `stated`.
fn apart(counted: &BTreeMap<u8, f64>, stated: [f64; 3]) -> Option<[f64; 3]> {
    let random = *counted.get(&1)?;
    let overwriter = match counted.get(&2) {
        Some(overwriter) => *overwriter,
        None => (random * stated[1] / stated[2].max(f64::MIN_POSITIVE)).min(1.0 - random),
    };
    Some([1.0 - random - overwriter, overwriter, random])
}

/// Shares of the bytes after the fill: the stream in order, the overwriter, the random one. The row states them for
/// itself, or in the words "had A/B/C seq/overwriter/random" for the same load with three handles.
fn steady(log: &Log) -> Result<[f64; 3], Error> {
    let own = ["steady_share_seq", "steady_share_overwriter", "steady_share_random"];
    let own: Vec<f64> = own.iter().filter_map(|key| log.parameter_number(key)).collect();
    let other = || -> Option<Vec<f64>> {
        let text = log.parameter("steady_share")?.split_once(" had ")?.1.split(' ').next()?;
        Some(text.split('/').filter_map(|share| share.parse().ok()).collect())
    };
    let shares = if own.len() == 3 { Some(own) } else { other() };
    let shares: Option<[f64; 3]> = shares.and_then(|shares| shares.try_into().ok());
    let sum = shares.map_or(0.0, |shares| shares.iter().sum());
    match shares {
        Some(shares) if sum > 0.0 => Ok(shares.map(|share| share / sum)),
        _ => Err(wrong(log, "the shares of the three streams are not stated")),
    }
}

fn wrong(log: &Log, what: &str) -> Error {
    Error::Settings(format!("logs.csv, `{}`: {what}", log.text("id")))
}
