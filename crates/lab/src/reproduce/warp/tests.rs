//! Tests on made-up folders.

use std::num::NonZeroU32;

use tempfile::TempDir;
use thermocline_ftl::placement::{Handles, Isolation};
use thermocline_ftl::victim::Victim;
use thermocline_ftl::{Ftl, HandleAccount, HandleAccounts, Shape};

use super::load::{Load, Order, Span, Stream, Writes};
use super::{Prediction, predict};
use crate::theory::{self, Overprovisioning};

const HEADS: &str = "id,kind,drive,capacity_bytes,ru_bytes,workload,parameters,fdp,start_state,\
                     onset_fills_low,onset_fills_high,note\n";
/// Bytes of a made-up drive of 512 units.
const CAPACITY: u64 = 512 << 28;

/// A folder with `rows`, and the curve of each: host bytes of so many fills, and media bytes of so many more.
fn folder(rows: &str, curves: &[(&str, f64, f64)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("logs.csv"), format!("{HEADS}{rows}")).unwrap();
    std::fs::create_dir(folder.path().join("curves")).unwrap();
    for (id, fills, waf) in curves {
        let host = CAPACITY as f64 * fills;
        let text = format!("host_bytes,media_bytes\n0,0\n{host},{}\n", host * waf);
        std::fs::write(folder.path().join(format!("curves/{id}.csv")), text).unwrap();
    }
    folder
}

/// A row of a drive with a quarter more units than its capacity needs, written by one stream of fio.
fn row(id: &str, parameters: &str) -> String {
    format!(
        "{id},drive,made up,{CAPACITY},{},fio 1 stream,{parameters},off,trimmed,1.25,1.25,\"a, \"\"b\"\"\"\n",
        1 << 28
    )
}

fn predicted(folder: &TempDir) -> Vec<Prediction> {
    predict(folder.path(), 1, &|_, _| ()).unwrap()
}

fn refused(folder: &TempDir) -> String {
    predict(folder.path(), 1, &|_, _| ()).unwrap_err().to_string()
}

/// A stream in order leaves nothing to copy, and uniform writes meet the closed form of greedy collection, here with
/// survivors apart, which uniform writes do not tell from mixed ones.
#[test]
fn known_loads_have_known_write_amplification() {
    let rows = row("order", "pattern=sequential") + &row("uniform", "pattern=random");
    let folder = folder(&rows, &[("order", 3.0, 1.25), ("uniform", 12.0, 2.0)]);
    let [order, uniform]: [Prediction; 2] = predicted(&folder).try_into().unwrap();
    assert_eq!((order.id.as_str(), order.kind.as_str()), ("order", "drive"));
    assert!((order.curve.waf_predicted - 1.0).abs() < 1e-9, "{order:?}");
    assert!((order.curve.waf_measured - 1.25).abs() < 1e-9, "{order:?}");
    assert!((order.curve.median_error - 0.2).abs() < 1e-9, "{order:?}");
    assert_eq!(uniform.units, 642, "512 units and a quarter, the open one and one kept free");
    let steady = uniform.curve.predicted[9];
    let spare = Overprovisioning::from_ratio(0.25).unwrap();
    let theory = theory::uniform::greedy_waf(spare, NonZeroU32::new(2048).unwrap());
    assert!((steady / theory - 1.0).abs() < 0.02, "{steady} for {theory}");
    assert!(uniform.curve.predicted[0] < 1.2, "the drive was empty: {uniform:?}");
}

/// The measured curve decides nothing but the length of the run.
#[test]
fn a_prediction_does_not_look_at_media_bytes() {
    let of = |waf| {
        let folder = folder(&row("a", "pattern=random"), &[("a", 2.0, waf)]);
        predicted(&folder).remove(0).curve.predicted
    };
    assert_eq!(of(1.5), of(7.0));
}

#[test]
fn mistakes_in_a_folder_are_named() {
    let empty = tempfile::tempdir().unwrap();
    assert!(refused(&empty).contains("logs.csv"));
    let check = |rows: &str, said: &str| {
        let message = refused(&folder(rows, &[("a", 2.0, 1.5)]));
        assert!(message.contains(said), "{message}");
    };
    let good = row("a", "pattern=random");
    check("", "has no rows");
    check("a,drive\n", "2 cells under 12 names");
    check(&good.replace("fio 1 stream", ""), "the row `a` has no `workload`");
    check(&good.replace(&CAPACITY.to_string(), "much"), "`capacity_bytes` is `much`");
    check(&good.replace("1.25,1.25", "0.5,0.5"), "units are too few");
    check(&row("b", "pattern=random"), "b.csv");
    check(&good.replace("fio 1 stream", "fio 3 streams"), "shares of the three streams");
    let streams = good.replace("fio 1 stream", "fio 3 streams");
    check(&streams.replace("pattern=random", "overwriter_distribution=pareto"), "called `pareto`");
    check(&good.replace("fio 1 stream", "CacheLib"), "`soc_pct` is no share");
    let falling = folder(&good, &[("a", -2.0, 1.5)]);
    assert!(refused(&falling).contains("must rise"));
    std::fs::write(falling.path().join("curves/a.csv"), "host_bytes,media_bytes\n0,0\n1,x\n")
        .unwrap();
    assert!(refused(&falling).contains("`x` as `media_bytes`"));
}

/// How often each of 1,000 blocks is written by `order` in `writes` writes.
fn counts(order: Order, writes: u64) -> Vec<u64> {
    let stream = Stream { span: Span { first: 0, blocks: 1000 }, order, handle: 3, burst: 1 };
    let load = Load { streams: vec![stream], shares: vec![(1.0, vec![1.0])], about: String::new() };
    let (mut next, mut counts) = (Writes::new(&load, 1000, 1), vec![0; 1000]);
    for _ in 0..writes {
        let (lba, handle) = next.next();
        assert_eq!(handle, 3);
        counts[lba.0 as usize] += 1;
    }
    counts
}

#[test]
fn orders_write_what_they_promise() {
    assert!(counts(Order::EachOnce, 3000).iter().all(|count| *count == 3));
    assert!(counts(Order::Sequential, 2000).iter().all(|count| *count == 2));
    let zones: &[(f64, f64)] = &[(0.8, 0.2), (0.1, 0.2), (0.1, 0.6)];
    let zoned = counts(Order::Zoned(zones), 100_000);
    let first: u64 = zoned[..200].iter().sum();
    assert!((79_000..81_000).contains(&first), "{first}");
    let mut zipf = counts(Order::Zipf { theta: 2.2, ranks: 1000.0 }, 100_000);
    zipf.sort_unstable();
    let share = zipf[999] as f64 / 1e5;
    assert!((0.65..0.72).contains(&share), "1 / zeta(2.2) = 0.671: {share}");
}

/// Shares change in the course of a load.
#[test]
fn shares_are_kept() {
    let span = Span { first: 0, blocks: 1000 };
    let stream =
        |handle| Stream { span, order: Order::Uniform, handle, burst: 1 + u64::from(handle) };
    let shares = vec![(1.0, vec![0.25, 0.75]), (f64::INFINITY, vec![1.0, 0.0])];
    let load = Load { streams: vec![stream(0), stream(1)], shares, about: String::new() };
    let mut next = Writes::new(&load, 10_000, 1);
    let mut of_first = |writes| (0..writes).filter(|_| next.next().1 == 0).count();
    let first = of_first(10_000);
    assert!((2_300..2_700).contains(&first), "{first}");
    assert_eq!(of_first(10_000), 10_000);
}

/// The adversarial load of three streams with a handle each: the overwriter has the addresses of the stream in order,
/// so that it causes copies of that stream's data.
#[test]
fn an_overwriter_is_noisy_for_the_stream_whose_data_it_overwrites() {
    let exported = 1 << 17;
    let shape = Shape::new(exported, 600, 256).unwrap();
    let stream = |first, blocks, order, handle| {
        let span = Span { first, blocks };
        Stream { span, order, handle, burst: 1 }
    };
    let front = exported * 9 / 10;
    let streams = vec![
        stream(0, front, Order::Sequential, 0),
        stream(0, front, Order::Uniform, 2),
        stream(front, exported - front, Order::Uniform, 1),
    ];
    let third = vec![1.0 / 3.0; 3];
    let fill = (1.0, vec![0.9, 0.0, 0.1]);
    let load = Load { streams, shares: vec![fill, (f64::INFINITY, third)], about: String::new() };
    let placement = Handles::new(1, 3, Isolation::Initially);
    let mut ftl = Ftl::new(shape, placement, Victim::Greedy, 1).unwrap();
    let (mut accounts, mut writes) =
        (HandleAccounts::new(shape, 3), Writes::new(&load, exported, 1));
    for _ in 0..8 * exported {
        let (lba, handle) = writes.next();
        accounts.write_with(handle);
        ftl.write(lba, handle, &mut accounts).unwrap();
    }
    let [order, random, overwriter] = accounts.accounts() else { panic!("three handles") };
    let by_others = order.copied as f64 - order.copied_by_own;
    assert!(by_others > 0.5 * order.copied as f64, "{order:?}");
    assert!(overwriter.copied_of_others > order.copied_of_others, "{overwriter:?} {order:?}");
    assert!(overwriter.copied_of_others > random.copied_of_others, "{overwriter:?} {random:?}");
    let waf = |of: &HandleAccount| 1.0 + of.copied as f64 / of.host as f64;
    assert!(waf(order) > 1.5, "in order, and yet copied: {order:?}");
}
