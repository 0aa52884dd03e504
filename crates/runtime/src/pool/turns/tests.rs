use std::collections::BTreeMap;

use super::*;

fn write(bytes: u64) -> Cost {
    Cost { limited: true, bytes, written: bytes / 4096, ..Cost::default() }
}

/// The volumes of the next requests, as many as `count`, all at `now`.
fn order(turns: &mut Turns<u32>, count: usize, now: Instant) -> Vec<u32> {
    let mut order = Vec::new();
    while order.len() < count
        && let Turn::Job(_, volume, _) = turns.next(now)
    {
        order.push(volume);
    }
    order
}

/// How many requests each volume brought.
fn tally(order: &[u32]) -> BTreeMap<u32, usize> {
    let mut tally = BTreeMap::new();
    order.iter().for_each(|volume| *tally.entry(*volume).or_default() += 1);
    tally
}

#[test]
fn requests_of_a_volume_keep_their_order() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    (0..100).for_each(|job| turns.push(1, write(1 << 20), job));
    for expected in 0..100 {
        assert_eq!(turns.next(now), Turn::Job(expected, 1, write(1 << 20)));
    }
    assert!(turns.next(now) == Turn::Nobody && turns.is_empty());
}

#[test]
fn one_with_few_requests_waits_for_one_turn_of_each_other_at_most() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    (0..10_000).for_each(|job| turns.push(1, write(4096), job));
    assert_eq!(order(&mut turns, 100, now), [1; 100]);
    turns.push(2, write(4096), 0);
    let before = order(&mut turns, 1000, now).iter().take_while(|volume| **volume == 1).count();
    assert!(before <= 32, "a turn is of 256 KiB: {before} requests of 8 KiB with what each costs");
}

/// Two volumes always have `depth` writes each that wait; whatever is handed on is written `pace` blocks at a time.
fn written_by_shares(shares: [u32; 2], depth: u32, blocks: u64, pace: u64) -> [u64; 2] {
    let (mut turns, now, most) = (Turns::default(), Instant::now(), 4096);
    let mut written = [0, 0];
    for (volume, share) in (0..).zip(shares) {
        turns.set_limits(volume, VolumeLimits { share, ..VolumeLimits::default() }, now);
        (0..depth).for_each(|job| turns.push(volume, write(blocks * 4096), job));
    }
    let mut held = 0;
    for _ in 0..1000 {
        turns.room_is(held, most);
        while held + blocks <= most
            && let Turn::Job(job, volume, cost) = turns.next(now)
        {
            held += cost.written;
            written[volume as usize] += cost.written;
            turns.push(volume, cost, job);
        }
        held = held.saturating_sub(pace);
    }
    written
}

#[test]
fn volumes_of_equal_depth_write_by_their_shares_when_the_cache_is_full() {
    for (depth, blocks, pace) in [(32, 1, 255), (8, 16, 255), (1, 1, 64), (32, 16, 1000)] {
        let [some, more] = written_by_shares([1, 4], depth, blocks, pace);
        let ratio = more as f64 / some as f64;
        assert!((3.5..4.5).contains(&ratio), "depth {depth}, {blocks} blocks: {some} {more}");
    }
    let [one, other] = written_by_shares([3, 3], 32, 1, 255);
    assert!(one.abs_diff(other) * 20 < one, "{one} {other}");
}

#[test]
fn who_writes_alone_has_all_the_room_and_who_has_none_left_waits_for_it() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    turns.set_limits(1, VolumeLimits { share: 9, ..VolumeLimits::default() }, now);
    (0..200).for_each(|job| turns.push(2, write(4096), job));
    turns.room_is(0, 100);
    assert_eq!(order(&mut turns, 99, now), [2; 99]);
    // Somebody else comes, who has more shares and little room so far.
    (0..200).for_each(|job| turns.push(1, write(4096), job));
    turns.room_is(98, 100);
    let next = tally(&order(&mut turns, 20, now));
    assert!(next[&1] >= 18, "who waits was not known to, and gets two more: {next:?}");
    turns.room_is(100, 100);
    order(&mut turns, 300, now);
    assert_eq!(turns.next(now), Turn::Full);
    turns.room_is(0, 100);
    assert!(matches!(turns.next(now), Turn::Job(..)));
}

#[test]
fn a_trim_counts_for_the_entries_that_it_changes_and_a_long_one_for_no_more_than_some_turns() {
    let trim = |blocks| Cost { limited: true, trimmed: blocks, ..Cost::default() };
    let before = |blocks| {
        let (mut turns, now) = (Turns::default(), Instant::now());
        (0..10_000).for_each(|job| turns.push(1, trim(blocks), job));
        (0..10_000).for_each(|job| turns.push(2, write(4096), job));
        let order = order(&mut turns, 10_100, now);
        let trims = order.iter().filter(|volume| **volume == 1).count();
        (order.len() - trims) / trims.max(1)
    };
    assert_eq!(before(1), 0, "a short one counts for less than a write");
    assert!(
        (15..33).contains(&before(32 << 10)),
        "128 MiB count as 32 writes: {}",
        before(32 << 10)
    );
    assert!((100..140).contains(&before(1 << 32)), "16 TiB as 128: {}", before(1 << 32));
}

#[test]
fn a_piece_of_a_question_counts_for_some_small_requests() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    let piece = Cost { limited: true, looked_at: 2048, ..Cost::default() };
    (0..1000).for_each(|job| turns.push(1, piece, job));
    (0..10_000).for_each(|job| turns.push(2, write(4096), job));
    let brought = tally(&order(&mut turns, 2000, now));
    assert!((15..=17).contains(&(brought[&2] / brought[&1])), "{brought:?}");
}

#[test]
fn who_has_most_requests_under_way_leaves_room_for_others_and_alone_has_nearly_all() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    let flush = Cost { is_request: true, ..Cost::default() };
    turns.slots_are(64);
    (0..1000).for_each(|job| turns.push(1, flush, job));
    assert_eq!(order(&mut turns, 1000, now), [1; 56], "an eighth is kept");
    assert_eq!(turns.next(now), Turn::Full);
    (0..1000).for_each(|job| turns.push(2, flush, job));
    assert_eq!(order(&mut turns, 8, now), [2; 8], "for others");
    (0..40).for_each(|_| turns.ended(1));
    let next = tally(&order(&mut turns, 40, now));
    assert!(next[&2] >= 20 && next.get(&1).is_none_or(|&one| one <= 12), "in halves: {next:?}");
    let mut one = Turns::default();
    one.slots_are(1);
    one.push(1, flush, 0);
    assert!(matches!(one.next(now), Turn::Job(0, 1, _)), "there is always one");
}

#[test]
fn turns_are_of_bytes_in_proportion_to_the_shares() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    turns.set_limits(3, VolumeLimits { share: 3, ..VolumeLimits::default() }, now);
    for job in 0..20_000 {
        turns.push(1, write(4096), job);
        turns.push(2, write(60 << 10), job);
        turns.push(3, write(4096), job);
    }
    let tally = tally(&order(&mut turns, 9600, now));
    let bytes = |volume: u32, each: usize| tally[&volume] * each;
    let (first, long, third) = (bytes(1, 8192), bytes(2, 64 << 10), bytes(3, 8192));
    assert!(first.abs_diff(long) < 512 << 10, "{first} and {long}");
    assert!(third.abs_diff(3 * first) < 1536 << 10, "{third} and three times {first}");
}

#[test]
fn a_request_longer_than_a_turn_is_handed_on_after_some() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    (0..1000).for_each(|job| turns.push(1, write(4096), job));
    turns.push(2, write(1 << 20), 0);
    let before = order(&mut turns, 1000, now).iter().position(|volume| *volume == 2);
    assert!(before.is_some_and(|before| before <= 5 * 32), "{before:?}");
}

#[test]
fn limits_hold_and_what_was_not_used_is_saved_up_for_a_moment_only() {
    let (mut turns, begin) = (Turns::default(), Instant::now());
    turns.set_limits(1, VolumeLimits { iops: Some(1000), ..VolumeLimits::default() }, begin);
    (0..100_000).for_each(|job| turns.push(1, write(4096), job));
    let after = |millis: u64| begin + Duration::from_millis(millis);
    let mut count = 0;
    for millis in 0..2000 {
        count += order(&mut turns, usize::MAX, after(millis)).len();
    }
    assert!((1990..=2010).contains(&count), "{count} in two seconds");
    let Turn::Later(when) = turns.next(after(1999)) else { panic!("the limit is used up") };
    assert!(when > after(1999) && when <= after(2001));
    let burst = order(&mut turns, usize::MAX, after(60_000)).len();
    assert!((100..=102).contains(&burst), "a tenth of a second's: {burst}");
}

#[test]
fn a_limit_of_bytes_lets_long_requests_pass_and_makes_the_next_wait() {
    let (mut turns, begin) = (Turns::default(), Instant::now());
    turns.set_limits(
        1,
        VolumeLimits { bandwidth: Some(1 << 20), ..VolumeLimits::default() },
        begin,
    );
    (0..10).for_each(|job| turns.push(1, write(4 << 20), job));
    assert!(matches!(turns.next(begin), Turn::Job(0, ..)));
    let Turn::Later(when) = turns.next(begin) else { panic!("it took more than there was") };
    let waits = (when - begin).as_secs_f64();
    assert!((3.99..=4.01).contains(&waits), "4 MiB at 1 MiB/s: {waits} s");
}

#[test]
fn one_at_its_limit_holds_up_nobody_and_gains_nothing() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    turns.set_limits(
        1,
        VolumeLimits { iops: Some(1), share: 1000, ..VolumeLimits::default() },
        now,
    );
    for job in 0..100 {
        turns.push(1, write(4096), job);
        turns.push(2, write(4096), job);
    }
    let order = order(&mut turns, usize::MAX, now);
    assert_eq!(tally(&order), BTreeMap::from([(1, 1), (2, 100)]));
    assert!(matches!(turns.next(now), Turn::Later(_)));
}

#[test]
fn flushes_pass_limits_and_what_is_put_back_comes_first_again() {
    let (mut turns, now) = (Turns::default(), Instant::now());
    turns.set_limits(1, VolumeLimits { iops: Some(1), ..VolumeLimits::default() }, now);
    turns.push(1, write(4096), 0);
    turns.push(1, Cost::default(), 1);
    turns.push(1, write(4096), 2);
    for _ in 0..3 {
        let Turn::Job(job, volume, cost) = turns.next(now) else {
            panic!("one is within the limit")
        };
        assert_eq!(job, 0);
        turns.put_back(volume, cost, job);
    }
    assert!(matches!(turns.next(now), Turn::Job(0, ..)));
    assert!(matches!(turns.next(now), Turn::Job(1, ..)), "the limit is used up, and it is a flush");
    assert!(matches!(turns.next(now), Turn::Later(_)));
}

#[test]
fn limits_below_a_block_or_a_request_per_second_are_none_to_live_with() {
    let none = VolumeLimits::default();
    for bandwidth in [0, 1, 4095] {
        let limits = VolumeLimits { bandwidth: Some(bandwidth), ..none };
        let error = limits.check().unwrap_err();
        assert_eq!((error, error.key()), (VolumeLimitError::Bandwidth(bandwidth), "bandwidth"));
        assert!(error.to_string().contains("must be at least 4096 bytes per second"), "{error}");
    }
    let limits = VolumeLimits { iops: Some(0), ..none };
    assert_eq!(limits.check(), Err(VolumeLimitError::Iops));
    let least = VolumeLimits { iops: Some(1), bandwidth: Some(4096), ..none };
    assert_eq!(least.check(), Ok(()));
}

#[test]
fn a_flood_over_a_limit_is_two_changes_of_state() {
    let (mut turns, begin) = (Turns::default(), Instant::now());
    let after = |seconds: u64| begin + Duration::from_secs(seconds);
    turns.set_limits(1, VolumeLimits { iops: Some(10), ..VolumeLimits::default() }, begin);
    turns.push(1, write(4096), 0);
    order(&mut turns, usize::MAX, after(1));
    assert_eq!(turns.throttling(after(1)), [], "no request was held");
    (0..200).for_each(|job| turns.push(1, write(4096), job));
    let (mut changes, mut held_until) = (Vec::new(), 0);
    for second in 2..400 {
        order(&mut turns, usize::MAX, after(second));
        held_until = if turns.is_empty() { held_until } else { second };
        changes.extend(turns.throttling(after(second)).into_iter().map(|one| (second, one)));
    }
    let [(2, (1, true)), (ended, (1, false))] = changes[..] else { panic!("{changes:?}") };
    assert_eq!(ended, held_until + UNHELD.as_secs(), "a minute after the last held request");
}
