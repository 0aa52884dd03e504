use std::collections::HashMap;

use thermocline_types::Rng;

use super::*;
use crate::testing::{Listed, request};

fn profile(requests: Vec<Request>) -> Profile {
    Profile::of(&mut Listed::new(requests)).unwrap()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn a_small_workload_is_counted_exactly() {
    let k = 1024;
    let profile = profile(vec![
        request(0, 0, Op::Write, 0, 64 * k),
        request(1, 0, Op::Write, 64 * k, 64 * k),
        request(2, 1, Op::Write, 0, 4 * k),
        request(3, 0, Op::Write, 512, k),
        request(3, 0, Op::Read, 1 << 30, 16 * k),
        request(3, 0, Op::Trim, 0, 4 * k),
        request(4, 0, Op::Flush, 0, 0),
        request(8, 0, Op::Write, 0, 4 * k),
    ]);
    assert_eq!((profile.requests, profile.span_bytes), (8, (1 << 30) + 16 * k));
    assert_eq!(profile.bytes_written, 137 * k);
    assert_eq!(profile.working_set_bytes, 132 * k);
    assert!(near(profile.daily_bytes_written.unwrap(), 137.0 * 1024.0 * 10_800.0));
    assert!(near(profile.sequential_share, 64.0 / 137.0));
    let write = &profile.operations[1];
    assert_eq!((write.operation, write.requests), ("write", 5));
    let sizes: Vec<_> = write.sizes.iter().map(|s| (s.bytes_max, s.requests, s.bytes)).collect();
    assert_eq!(sizes, [(k, 1, k), (4 * k, 2, 8 * k), (64 * k, 2, 128 * k)]);
    let flush = &profile.operations[4];
    assert_eq!((flush.requests, flush.sizes.len()), (1, 0));
    assert!(near(profile.operations[3].share_of_requests, 1.0 / 8.0));
    let shares: Vec<f64> = profile.alignment.iter().map(|a| a.share_of_writes).collect();
    assert!(near(shares[0], 0.8) && near(shares[1], 0.4) && near(shares[4], 0.4), "{shares:?}");
    assert!(near(profile.alignment[4].share_of_bytes, 128.0 / 137.0));
    // Block 0 of tenant 0: written at position 0, then 33 (after 32 + 1 blocks), then 34.
    let rewrites = &profile.rewrites;
    assert_eq!((rewrites.first_writes, rewrites.rewrites), (33, 2));
    let classes: Vec<_> = rewrites.classes.iter().filter(|c| c.blocks > 0).collect();
    assert_eq!((classes[0].bytes_min, classes[1].bytes_min), (4 * k, 128 * k));
    let tenants: Vec<_> =
        profile.tenants.iter().map(|t| (t.requests, t.working_set_bytes)).collect();
    assert_eq!(tenants, [(7, 128 * k), (1, 4 * k)]);
    assert_eq!((profile.tenants[0].flushes, profile.tenants[0].bytes_trimmed), (1, 4 * k));
}

#[test]
fn an_empty_or_instant_workload_has_no_pace_and_no_fit() {
    let profile = profile(vec![request(0, 0, Op::Flush, 0, 0)]);
    assert_eq!((profile.daily_bytes_written, profile.skew.zipf_theta), (None, None));
    assert!(
        near(profile.writes_per_working_set, 0.0)
            && near(profile.skew.hottest[0].share_of_writes, 0.0)
    );
}

#[test]
fn rewrite_intervals_and_hot_shares_match_a_plain_table() {
    let mut rng = Rng::new(3);
    let requests: Vec<Request> = (0..20_000)
        .map(|_| request(0, 0, Op::Write, rng.below(40) * rng.below(40) * 4096, 4096))
        .collect();
    let (mut last, mut counts) = (HashMap::new(), HashMap::new());
    let mut intervals = [0_u64; 64];
    for (position, request) in requests.iter().enumerate() {
        *counts.entry(request.offset.get()).or_insert(0_u64) += 1;
        if let Some(before) = last.insert(request.offset.get(), position) {
            intervals[(position - before).ilog2() as usize] += 1;
        }
    }
    let profile = profile(requests);
    for (class, blocks) in intervals.into_iter().enumerate() {
        let ours = profile.rewrites.classes.get(class).map_or(0, |c| c.blocks);
        assert_eq!(ours, blocks, "class {class}");
    }
    let mut counts: Vec<u64> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    for hot in &profile.skew.hottest {
        let blocks = (counts.len() as f64 * hot.share_of_blocks).ceil() as usize;
        let share = counts[..blocks].iter().sum::<u64>() as f64 / 20_000.0;
        assert!(near(hot.share_of_writes, share), "{hot:?} {share}");
    }
}

#[test]
fn the_exponent_of_a_power_law_is_found_again() {
    for theta in [0.0, 0.6, 0.99, 1.3] {
        let requests = (1..=1_000_u64).flat_map(|rank| {
            let count = (30_000.0 / (rank as f64).powf(theta)).round() as u64;
            (0..count.div_ceil(if theta > 0.0 { 1 } else { 1_000 }))
                .map(move |_| request(0, 0, Op::Write, rank * 4096, 4096))
        });
        let skew = profile(requests.collect()).skew;
        let found = skew.zipf_theta.unwrap();
        assert!((found - theta).abs() < 0.02, "{theta}: {found}");
        assert_eq!(skew.zipf_r2.is_some_and(|r2| r2 > 0.999), theta > 0.0, "{:?}", skew.zipf_r2);
    }
}
