use std::collections::{HashMap, HashSet};

use super::*;
use crate::synthetic::keys::Keyed as _;
use crate::synthetic::keys::tests::keys_are_taken_and_read_back;

const SPAN: Bytes = Bytes::mib(256);

fn database(text: &str, seed: u64) -> Result<Database, Error> {
    Database::new(&BtreeSpec::read(text)?, SPAN, None, seed)
}

fn take(database: &mut Database, count: usize) -> Vec<Request> {
    (0..count).map(|_| database.next().expect("it is never full")).collect()
}

fn written(requests: &[Request], directory: u16) -> u64 {
    let of = |r: &&Request| r.op == Op::Write && r.stream.directory == directory;
    requests.iter().filter(of).map(|r| r.length.0).sum()
}

#[test]
fn every_key_is_taken() {
    keys_are_taken_and_read_back::<BtreeSpec>();
}

#[test]
fn equal_seeds_give_equal_requests_which_stay_in_their_places() {
    for text in ["btree", "btree:engine=wiredtiger,page=32KiB,sync=off", "btree:load=on,pool=1%"] {
        let mut one = database(text, 7).expect(text);
        let all = take(&mut one, 30_000);
        assert_eq!(all, take(&mut database(text, 7).expect(text), 30_000), "{text}");
        assert_ne!(all, take(&mut database(text, 8).expect(text), 30_000), "{text}");
        let layout = one.core.layout;
        for request in all.iter().filter(|request| request.op != Op::Flush) {
            let place = match request.stream.directory {
                LOG => layout.log,
                SECOND => layout.second,
                UNDO => layout.undo,
                _ => layout.pages,
            };
            let inside = request.offset.0 >= place.start && request.end().0 <= place.end();
            assert!(inside && request.offset.0.is_multiple_of(512), "{text}: {request:?}");
        }
    }
}

/// What InnoDB promises: a page and its undo are written twice, its log before it, and never so late that the log
/// would overtake it.
#[test]
fn pages_are_written_twice_and_before_the_log_comes_round() {
    let mut ours = database("btree:log=1%,pool=60%,changes=2", 1).expect("valid");
    let (mut all, mut on_media) = (Vec::new(), 0);
    for _ in 0..200_000 {
        let request = ours.next().expect("it is never full");
        on_media += if request.stream.directory == LOG { request.length.0 } else { 0 };
        if let Some((_, since)) = ours.core.pool.oldest() {
            let behind = ours.core.lsn - since;
            assert!(behind <= ours.core.layout.log.length, "{behind} behind");
        }
        all.push(request);
    }
    let (pages, undo) = (written(&all, PAGES), written(&all, UNDO));
    let twice = written(&all, SECOND);
    assert!(twice.abs_diff(pages + undo) <= 64 * 16384, "{twice} for {pages} and {undo}");
    assert!(on_media >= ours.core.lsn - (64 << 10), "{on_media} of {}", ours.core.lsn);
    // Each change has 256 bytes of undo and 512 of log.
    let share = undo as f64 / ours.core.lsn as f64;
    assert!((0.45..0.52).contains(&share), "{share}");
}

#[test]
fn hot_pages_stay_in_memory_and_are_written_once_a_round() {
    let per_change = |text: &str| {
        let mut ours = database(text, 1).expect(text);
        let all = take(&mut ours, 60_000);
        written(&all, PAGES) as f64 / 16384.0 / (ours.core.lsn as f64 / 512.0)
    };
    let (uniform, zipf) = (per_change("btree:skew=uniform"), per_change("btree:skew=zipf:1.1"));
    assert!(uniform > 0.8 && uniform <= 1.0, "{uniform}: nearly every change is of another page");
    assert!(zipf < 0.6 * uniform, "{zipf} for {uniform}");
}

/// Share of the pages written that lie behind the one written before.
fn in_row(text: &str) -> f64 {
    let all = take(&mut database(text, 1).expect(text), 60_000);
    let pages = all.iter().filter(|r| r.op == Op::Write && r.stream.directory == PAGES);
    let pages: Vec<u64> = pages.map(|r| r.offset.0 / 16384).collect();
    let follow = pages.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count();
    follow as f64 / pages.len() as f64
}

#[test]
fn neighbours_go_together_and_more_of_them_where_changes_are_side_by_side() {
    let alone = in_row("btree:skew=uniform,pool=30%");
    let together = in_row("btree:skew=uniform,pool=30%,neighbours=on");
    let appended = in_row("btree:skew=uniform,pool=30%,neighbours=on,beside=0.4");
    assert!(alone < 0.05, "{alone}: a batch of 64 of 13,000 pages");
    assert!(together > 3.0 * alone && together < 0.4, "{together}: by chance only");
    assert!(appended > together + 0.2, "{appended} after {together}");
}

/// Pages that are written with another are those of its extent, and no batch is longer than the buffer.
#[test]
fn neighbours_stay_in_their_extent_and_batches_in_the_buffer() {
    let mut ours = database("btree:load=on,neighbours=on,data=60%", 1).expect("valid");
    let mut batch = 0;
    for request in take(&mut ours, 60_000) {
        match request.stream.directory {
            PAGES if request.op == Op::Write => batch += 1,
            LOG if request.op == Op::Flush => batch = 0,
            _ => {}
        }
        assert!(batch <= BATCH, "{batch}");
    }
    for page in [130, 131, 191, 192] {
        if !ours.core.pool.holds(page) {
            continue;
        }
        ours.core.pool.use_page(page, Some(ours.core.lsn));
        let around = innodb::dirty_around(&ours.core, page);
        assert_eq!((around.start() / 64, around.end() / 64), (page / 64, page / 64));
        assert!(around.contains(&page));
    }
}

#[test]
fn checkpoints_come_after_the_share_of_the_journal_that_is_said() {
    let per_checkpoint = |text: &str| {
        let mut ours = database(text, 1).expect(text);
        let all = take(&mut ours, 150_000);
        let ends = all.windows(2).filter(|pair| {
            pair[0].stream.directory == SECOND && pair[1].stream.directory != SECOND
        });
        ours.core.lsn as f64 / ends.count() as f64 / ours.core.layout.log.length as f64
    };
    let often =
        per_checkpoint("btree:engine=wiredtiger,pool=60%,dirty=1,data=30%,log=8%,checkpoint=0.3");
    let rarely = per_checkpoint("btree:engine=wiredtiger,pool=60%,dirty=1,data=30%,log=8%");
    assert!((0.28..0.36).contains(&often), "{often}");
    assert!((0.85..1.0).contains(&rarely), "{rarely}");
}

#[test]
fn only_pages_that_are_not_in_memory_are_read() {
    let mut ours = database("btree:pool=80%,skew=uniform", 1).expect("valid");
    let reads = |all: &[Request]| all.iter().filter(|r| r.op == Op::Read).count() as u64;
    let all = take(&mut ours, 400_000);
    assert!(reads(&all) <= ours.core.layout.count, "{}", reads(&all));
    assert_eq!(reads(&all[300_000..]), 0, "all are in memory");
    let mut ours = database("btree:pool=1%,skew=uniform", 1).expect("valid");
    assert!(reads(&take(&mut ours, 60_000)) > 15_000);
}

/// What WiredTiger promises: what the last checkpoint needs is not written over before the next one is complete.
#[test]
fn a_place_is_written_once_between_checkpoints_and_pages_move() {
    for text in ["btree:engine=wiredtiger,pool=40%", "btree:engine=wiredtiger,dirty=0.2,data=60%"] {
        let mut ours = database(text, 1).expect(text);
        let (mut since, mut places, mut checkpoints) = (HashSet::new(), HashMap::new(), 0);
        let (mut was_interior, mut merged) = (false, false);
        for request in take(&mut ours, 150_000) {
            let is_interior = request.stream.directory == SECOND;
            if was_interior && !is_interior {
                since.clear();
                checkpoints += 1;
            }
            was_interior = is_interior;
            if request.op == Op::Write && request.stream.directory == PAGES {
                for place in (request.offset.0..request.end().0).step_by(16384) {
                    assert!(since.insert(place), "{text}: {request:?} twice");
                    *places.entry(place).or_insert(0) += 1;
                }
                merged |= request.length > Bytes::kib(16);
            }
        }
        assert!(checkpoints > 3 && merged, "{text}: {checkpoints}");
        // The first room that is free is used again and again, the last hardly ever.
        let behind = ours.core.layout.pages.start + ours.core.layout.count * 16384;
        assert!(places.keys().any(|place| *place >= behind), "{text}: none behind the pages");
        let most = places.values().max().expect("some were written");
        assert!(*most > 3, "{text}: {most}");
    }
}

#[test]
fn a_load_writes_every_page_once_and_in_order() {
    let mut ours = database("btree:load=on,data=40%", 1).expect("valid");
    let (mut pages, mut doubled) = (Vec::new(), 0);
    while pages.len() < ours.core.layout.count as usize {
        let request = ours.next().expect("it is never full");
        if request.op == Op::Write && request.stream.directory == PAGES {
            pages.push(request.offset);
        }
        doubled += if request.stream.directory == SECOND { request.length.0 / 16384 } else { 0 };
        assert!(request.op != Op::Read || pages.len() > 5_000, "a load reads nothing");
    }
    let first: HashSet<Bytes> = pages.iter().copied().collect();
    assert!(first.len() as f64 > 0.9 * pages.len() as f64, "{} of {}", first.len(), pages.len());
    assert!(pages[..4_000].is_sorted());
    assert!(doubled < 1_000, "{doubled}: only what transactions change and undo");
}

#[test]
fn keys_that_do_not_fit_the_volume_are_named() {
    for (text, part) in [
        ("btree:data=99%", "btree data is `253.4"),
        ("btree:log=0", "btree log is `0 B`: must hold 16 pages"),
        ("btree:page=5000", "must be a multiple of 512 B"),
        ("btree:engine=oracle", "must be one of innodb, wiredtiger"),
    ] {
        let error = database(text, 1).expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}
