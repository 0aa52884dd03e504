use std::collections::BTreeSet;

use thermocline_types::{Op, Request};

use super::*;
use crate::synthetic::app::Application as _;
use crate::synthetic::keys::Keyed as _;
use crate::synthetic::{Generator, Limit, Options, Spec};
use crate::{Source as _, trace};

const MIB: u64 = 1 << 20;

fn store(text: &str, span: Bytes) -> Store {
    Store::new(&LsmSpec::read(text).expect(text), span, None, 1).expect(text)
}

/// Runs until so much was written to the store.
fn ingest(store: &mut Store, bytes: Bytes) {
    while store.facts().ingested < bytes.0 {
        store.next().expect("room");
    }
}

fn requests(text: &str, span: Bytes, seed: u64) -> Result<Vec<Request>, trace::Error> {
    let spec: Spec = text.parse().expect(text);
    let limit = Limit::drive_writes(4.0, span).expect("valid");
    let mut generator =
        Generator::new(&spec, &Options { seed, ..Options::new(span, limit) }).expect(text);
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        generator.fill(&mut batch)?;
        if batch.is_empty() {
            return Ok(all);
        }
        all.append(&mut batch);
    }
}

const SMALL: &str =
    "memtable=1MiB,log.segment=512KiB,level.base=4MiB,level.table=1MiB,tier.small=0,fs.turn=128KiB";

#[test]
fn equal_seeds_give_equal_requests_and_the_volume_holds_them() {
    let span = Bytes::mib(256);
    for strategy in ["tiers", "levels", "windows"] {
        for allocator in ["first", "next", "roam"] {
            let text = format!(
                "lsm:strategy={strategy},fs.allocator={allocator},fs.metadata=0.02,skew=zipf:0.9,reads=on,{SMALL}"
            );
            let one = requests(&text, span, 7).expect("room");
            assert_eq!(one, requests(&text, span, 7).expect("room"), "{text}");
            assert_ne!(
                one,
                requests(&text, span, 8).expect("room"),
                "{text}: metadata go elsewhere"
            );
            let written = one.iter().filter(|r| r.op == Op::Write).map(|r| r.length.0).sum::<u64>();
            assert_eq!(written, 4 * span.0);
            for request in &one {
                assert!(request.end() <= span && request.length > Bytes::ZERO, "{request:?}");
                assert!(request.stream.is_known());
            }
            let kinds: BTreeSet<u16> = one.iter().map(|request| request.stream.directory).collect();
            assert!(kinds.len() >= 4, "{kinds:?}");
        }
    }
}

/// Blocks that hold data by the requests alone.
fn held(requests: &[Request]) -> BTreeSet<u64> {
    let mut held = BTreeSet::new();
    for request in requests {
        let blocks = request.offset.0 / 4096..request.end().0 / 4096;
        match request.op {
            Op::Write => blocks.for_each(|block| assert!(held.insert(block), "{request:?}")),
            Op::Trim => blocks.for_each(|block| assert!(held.remove(&block), "{request:?}")),
            _ => {}
        }
    }
    held
}

#[test]
fn what_is_written_and_not_discarded_is_what_files_hold() {
    for strategy in ["tiers", "levels", "windows"] {
        let text = format!("lsm:strategy={strategy},{SMALL}");
        let mut store = store(&text, Bytes::gib(1));
        let mut all = Vec::new();
        while store.facts().ingested < 300 * MIB {
            all.push(store.next().expect("room"));
        }
        while let Some(request) = store.pending() {
            all.push(request);
        }
        assert_eq!(held(&all).len() as u64 * 4096, store.held(), "{strategy}");
    }
}

/// Without overwritten records, 4^k flushed tables were merged k times each: log and flush once, and k times.
#[test]
fn size_tiers_write_once_for_each_tier() {
    for (tiers, tables) in [(1, 4), (2, 16), (4, 256)] {
        let text = format!("lsm:keys=1000000%,pace=100000,{SMALL}");
        let mut store = store(&text, Bytes::gib(4));
        ingest(&mut store, Bytes(tables * MIB + MIB * 7 / 8));
        let facts = store.facts();
        let expected = 2.0 + f64::from(tiers);
        let ours = facts.write_amplification() * facts.ingested as f64 / (tables * MIB) as f64;
        assert!(
            (ours / expected - 1.0).abs() < 0.02 + 0.5 / tables as f64,
            "{ours} for {expected}"
        );
        assert!(facts.tables <= 2, "{facts:?}");
        assert!((facts.live as f64 / (tables * MIB) as f64 - 1.0).abs() < 0.01, "{facts:?}");
    }
}

/// A table is merged with what overlaps it: at most `factor` tables of a full level and one more at the edges, at least
/// half of that, since tables ahead of the cursor are narrower than the mean (Lim et al., FAST 2016, find the same).
#[test]
fn levels_write_half_a_factor_to_a_factor_for_each_level() {
    let factor = 6.0;
    let text = format!("lsm:strategy=levels,keys=1000000%,pace=100,level.factor=6,{SMALL}");
    let mut store = store(&text, Bytes::gib(4));
    // Levels of 4, 24 and 144 MiB are full; what is beyond is in the fourth.
    ingest(&mut store, Bytes::mib(300));
    let before = store.facts();
    ingest(&mut store, Bytes::mib(600));
    let facts = store.facts();
    let ours = (facts.written.iter().sum::<u64>() - before.written.iter().sum::<u64>()) as f64
        / (facts.ingested - before.ingested) as f64;
    // Into the first level: four tables of 1 MiB with the 4 MiB of it. Into the fourth: 150 to 450 MiB below 144.
    let (first, last) = (2.0, 1.0 + 300.0 / 144.0);
    let least = 2.0 + first + 2.0 * (1.0 + factor / 2.0) + 1.0 + (last - 1.0) / 2.0;
    let most = 2.0 + first + 2.0 * (2.0 + factor) + 1.0 + last;
    assert!((least..most).contains(&ours), "{ours} outside {least} to {most}");
    let sum: f64 = (1..=3).map(|level| store.level_target(level)).sum();
    assert!(facts.live as f64 > sum && facts.live <= facts.ingested, "{facts:?}");
}

/// Of a window of 16 memtables, 12 are merged by fours; when it is over, all are merged into one.
#[test]
fn windows_are_merged_once_more_and_deleted_whole() {
    let text = format!("lsm:strategy=windows,window=16MiB,ttl=160MiB,pace=100,{SMALL}");
    let mut store = store(&text, Bytes::gib(1));
    ingest(&mut store, Bytes::mib(1600));
    let facts = store.facts();
    let expected = 2.0 + 12.0 / 16.0 + 1.0;
    let ours = facts.write_amplification();
    assert!((ours / expected - 1.0).abs() < 0.02, "{ours} for {expected}");
    // Whole windows of the last 160 MiB, and the one that is being written.
    assert!((144 * MIB..=192 * MIB).contains(&facts.live), "{facts:?}");
}

#[test]
fn tables_hold_each_record_once_in_the_mean() {
    let span = Bytes::gib(1);
    // Four tables of all records before they are merged, and what is smaller; levels hold a tenth more each.
    for (strategy, most) in [("tiers", 5.0), ("levels", 1.5)] {
        for skew in ["uniform", "zipf:0.99"] {
            let text = format!("lsm:strategy={strategy},keys=128MiB,skew={skew},pace=100,{SMALL}");
            let mut store = store(&text, span);
            ingest(&mut store, Bytes::gib(1));
            let facts = store.facts();
            let theta = if skew == "uniform" { 0.0 } else { 0.99 };
            let space = keyspace::KeySpace::new(Bytes::mib(128), Bytes::kib(1), theta);
            let distinct = space.distinct((facts.ingested - 2 * MIB) as f64, 0.0);
            let ratio = facts.live as f64 / distinct;
            assert!((1.0..most).contains(&ratio), "{strategy} {skew}: {ratio}");
        }
    }
}

#[test]
fn what_was_loaded_is_there_from_the_beginning() {
    for strategy in ["tiers", "levels"] {
        let text = format!("lsm:strategy={strategy},keys=100MiB,load=60MiB,{SMALL}");
        let mut store = store(&text, Bytes::mib(512));
        ingest(&mut store, Bytes(1));
        let facts = store.facts();
        let kind = Store::directories().iter().position(|name| *name == "load").expect("there");
        assert!(facts.written[kind].abs_diff(60 * MIB) < 4096, "{facts:?}");
        assert!(facts.live.abs_diff(60 * MIB) < 4096, "{facts:?}");
        assert_eq!(facts.tables, if strategy == "tiers" { 1 } else { 60 });
    }
}

#[test]
fn a_full_file_system_ends_it_with_the_keys_to_change() {
    let error = requests(&format!("lsm:keys=90%,pace=0.5,{SMALL}"), Bytes::mib(64), 1).unwrap_err();
    assert_eq!(error.kind(), trace::ErrorKind::VolumeFull);
    let text = error.to_string();
    for part in ["workload lsm", "64 MiB is full after", "larger --span", "keys, load, compactors"]
    {
        assert!(text.contains(part), "{text}");
    }
    let text = format!("lsm:strategy=windows,ttl=100%,{SMALL}");
    let error = requests(&text, Bytes::mib(64), 1).unwrap_err().to_string();
    assert!(error.contains("other ttl, window"), "{error}");
}

#[test]
fn keys_that_contradict_each_other_are_named() {
    for (text, part) in [
        ("lsm:load=50%", "lsm load is `512 MiB`: must be at most keys, 153.6 MiB"),
        ("lsm:keys=0", "lsm keys is `0 B`: must be at least a record, 1 KiB"),
        ("lsm:fs.extent=6KiB", "lsm fs.extent is `6 KiB`: must be a multiple of fs.block, 4 KiB"),
        ("lsm:fs.block=1000", "lsm fs.block is `1000 B`: must be a multiple of 512 B"),
        ("lsm:tier.most=3", "lsm tier.most is `3`: must be at least tier.tables, 4"),
        ("lsm:strategy=windows,load=1%", "lsm load is `10.24 MiB`: is for tiers and levels"),
        (
            "lsm:strategy=windows,ttl=1%",
            "lsm ttl is `10.24 MiB`: must be at least a window, 20.48 MiB",
        ),
    ] {
        let spec: Spec = text.parse().expect(text);
        let options = Options::new(Bytes::gib(1), Limit::Writes(1));
        let error = Generator::new(&spec, &options).expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    let spec: Spec = "lsm".parse().expect("valid");
    let options = Options { read_share: 0.5, ..Options::new(Bytes::gib(1), Limit::Writes(1)) };
    let error = Generator::new(&spec, &options).expect_err("reads").to_string();
    assert!(error.contains("lsm:reads=on"), "{error}");
}

#[test]
fn merges_read_what_they_merge() {
    let text = format!("lsm:reads=on,keys=1000000%,pace=100,{SMALL}");
    let mut store = store(&text, Bytes::gib(1));
    let (mut read, mut merged) = (0, 0);
    while store.facts().ingested < 64 * MIB + MIB / 2 {
        let request = store.next().expect("room");
        let length = request.length.0;
        match request.op {
            Op::Read => read += length,
            Op::Write if request.stream.directory > 4 => merged += length,
            _ => {}
        }
    }
    // Nothing is dropped, so that as much is read as written.
    assert!((read as f64 / merged as f64 - 1.0).abs() < 0.02, "{read} of {merged}");
}
