use proptest::prelude::*;
use thermocline_types::{Op, Request, Rng, StreamId, TenantId};

use crate::profile::{Cut, Profile, builtin};
use crate::{Counters, Drive, Mapped};

use super::*;

const CAPACITY: Bytes = Bytes::mib(64);

fn profile(overrides: &[(&str, &str)]) -> Profile {
    let cached =
        [("capacity", "64MiB"), ("slc.capacity", "4MiB"), ("slc.bits", "4"), ("unit", "256KiB")];
    let given = cached.iter().chain(overrides);
    let given: Vec<_> = given.map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    Profile::with_overrides("ideal", builtin("ideal").unwrap(), &given).unwrap()
}

fn drive(overrides: &[(&str, &str)]) -> Mapped {
    let profile = profile(overrides);
    Mapped::new(&profile, Cut::new(&profile, Some(CAPACITY)).unwrap(), 1).unwrap()
}

fn write(at: Time, block: u64) -> Request {
    let (offset, length) = (Bytes(block * 4096), Bytes(4096));
    Request {
        at,
        op: Op::Write,
        offset,
        length,
        tenant: TenantId(0),
        stream: StreamId::UNKNOWN,
        outstanding: None,
    }
}

fn folded(counters: &Counters) -> u64 {
    counters.media[Cause::Folding.index()]
}

fn checked(drive: &mut Mapped) -> Counters {
    let counters = drive.counters();
    counters.check().unwrap();
    drive.verify();
    counters
}

#[test]
fn the_cache_takes_what_fits_and_folds_what_comes_after() {
    let mut drive = drive(&[]);
    // 64 blocks of a unit are 16 in SLC mode; 4 MiB are 64 units of those.
    for block in 0..1024 {
        drive.submit(Time::ZERO, &write(Time::ZERO, block), 0).unwrap();
    }
    let counters = checked(&mut drive);
    assert_eq!((counters.slc, folded(&counters)), (1024 * 4096, 0));
    for block in 1024..2048 {
        drive.submit(Time::ZERO, &write(Time::ZERO, block), 0).unwrap();
    }
    let counters = checked(&mut drive);
    assert_eq!(folded(&counters), 1024 * 4096, "a byte in, a byte out");
    assert_eq!(counters.media_total, 3 * 1024 * 4096);
    assert_eq!(counters.slc_lent, 0);
}

#[test]
fn what_is_overwritten_or_trimmed_in_the_cache_is_never_folded() {
    let mut drive = drive(&[]);
    for block in 0..16 * 1024 {
        drive.submit(Time::ZERO, &write(Time::ZERO, block % 256), 0).unwrap();
    }
    assert_eq!(folded(&checked(&mut drive)), 0);
    let trim = Request { op: Op::Trim, length: Bytes::mib(1), ..write(Time::ZERO, 0) };
    drive.submit(Time::ZERO, &trim, 0).unwrap();
    for block in 256..1280 {
        drive.submit(Time::ZERO, &write(Time::ZERO, block), 0).unwrap();
    }
    assert_eq!(folded(&checked(&mut drive)), 0, "all of it was trimmed");
}

#[test]
fn what_comes_goes_past_a_full_cache_if_asked_to() {
    let mut drive = drive(&[("slc.full", "direct")]);
    for block in 0..4096 {
        drive.submit(Time::ZERO, &write(Time::ZERO, block), 0).unwrap();
    }
    let counters = checked(&mut drive);
    assert_eq!((counters.slc, folded(&counters)), (1024 * 4096, 0));
    assert_eq!(counters.media_total, 4096 * 4096);
}

#[test]
fn an_idle_drive_folds_at_its_rate() {
    let idle = [("slc.full", "direct"), ("slc.fold_idle_ms", "100"), ("slc.fold_mb_per_s", "1")];
    let mut drive = drive(&idle);
    for block in 0..1024 {
        drive.submit(Time::ZERO, &write(Time::ZERO, block), 0).unwrap();
    }
    // One second and a tenth fold 10^6 bytes: 244 blocks.
    drive.submit(Time::ZERO, &write(Time::micros(1_100_000), 1024), 0).unwrap();
    assert_eq!(folded(&checked(&mut drive)), 244 * 4096);
    drive.submit(Time::ZERO, &write(Time::micros(1_199_000), 1025), 0).unwrap();
    assert_eq!(folded(&checked(&mut drive)), 244 * 4096, "that was not idle");
    drive.submit(Time::ZERO, &write(Time::micros(9_000_000), 1026), 0).unwrap();
    assert_eq!(folded(&checked(&mut drive)), 1024 * 4096, "all but the unit that is written");
}

#[test]
fn a_dynamic_cache_is_a_share_of_what_is_not_filled_and_goes_as_that_is_filled() {
    let dynamic = [("slc.capacity", "0"), ("slc.dynamic", "0.5")];
    let mut drive = drive(&dynamic);
    let mut in_slc_mode = Vec::new();
    for block in 0..CAPACITY.0 / 4096 {
        let before = drive.counters().slc;
        drive.submit(Time::ZERO, &write(Time::ZERO, block), 0).unwrap();
        in_slc_mode.push(drive.counters().slc > before);
    }
    let counters = checked(&mut drive);
    assert_eq!(counters.slc, counters.slc_lent);
    // 256 units are exported; half of those not filled can be lent, and each takes 16 blocks. All that fits until they
    // meet is never folded: 16 (256 - x / 64) / 2 = x, so x = 1820.
    assert!(in_slc_mode[..1800].iter().all(|&slc| slc));
    assert!(!in_slc_mode[in_slc_mode.len() - 1], "none is left on a full drive");
    assert!(folded(&counters) > counters.slc / 2);
}

#[test]
fn a_burst_is_fast_and_a_full_cache_is_slower_than_none() {
    let rate = |overrides: &[(&str, &str)], from: u64, to: u64| {
        let given: Vec<_> = overrides.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
        let text = builtin("micron2300").unwrap();
        let profile = Profile::with_overrides("micron2300", text, &given).unwrap();
        let mut drive = Drive::new(&profile, Some(Bytes::mib(512)), 1).unwrap();
        let (mut now, mut begun) = (Time::ZERO, Time::ZERO);
        for step in 0..to {
            if step == from {
                begun = now;
            }
            let request = Request {
                offset: Bytes(step * 131_072),
                length: Bytes::kib(128),
                ..write(Time::ZERO, 0)
            };
            now = drive.submit(now, &request, 0).unwrap();
        }
        ((to - from) * 131_072) as f64 / now.since(begun).as_secs_f64() / 1e6
    };
    let cached = [
        ("slc.capacity", "128GiB"), // an eighth: 64 MiB of 512
        ("slc.bits", "3"),
        ("slc.read_us", "30"),
        ("slc.program_us", "200"),
    ];
    let bare = rate(&[], 200, 400);
    let (burst, after) = (rate(&cached, 200, 400), rate(&cached, 1000, 2000));
    assert!(burst > 1.5 * bare, "{burst} against {bare}");
    assert!(after < 0.9 * bare, "{after} against {bare}");
    // A page of 32 KiB costs a program in SLC mode, a read, and a program in the other: 200 + 30 + 575 us on 16 dies.
    let expected = 16.0 * 32.768 / (200.0 + 30.0 + 575.0) * 1e3; // Without erases and transfers.
    assert!((0.8..1.0).contains(&(after / expected)), "{after} against {expected}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Whatever is written and trimmed, in whatever pauses, all bytes add up, every block is in one place, and the
    /// drive never runs out of units.
    #[test]
    fn every_block_is_in_one_place(
        seed in any::<u64>(),
        own in prop::bool::ANY,
        dynamic in 0_u8..=10,
        direct in prop::bool::ANY,
        idle in prop::bool::ANY,
        trims in 0_u64..20,
    ) {
        let share = (f64::from(dynamic) / 10.0).max(if own { 0.0 } else { 0.1 }).to_string();
        let mut given = vec![
            ("slc.capacity", if own { "1MiB" } else { "0" }),
            ("slc.dynamic", share.as_str()),
            ("slc.full", if direct { "direct" } else { "fold" }),
            ("op", "0.05"),
        ];
        if idle {
            given.extend([("slc.fold_idle_ms", "0"), ("slc.fold_mb_per_s", "10")]);
        }
        let mut drive = drive(&given);
        let blocks = CAPACITY.0 / 4096;
        let (mut rng, mut at) = (Rng::new(seed), Time::ZERO);
        let mut held = vec![false; blocks as usize];
        for step in 0..3 * blocks {
            let block = rng.below(blocks);
            at = Time(at.0 + 1000 * rng.below(1000));
            let write = write(at, block);
            let trim = step / 64 % 20 < trims && rng.below(2) == 0;
            let op = if trim { Op::Trim } else { Op::Write };
            drive.submit(Time::ZERO, &Request { op, ..write }, 0).unwrap();
            held[block as usize] = !trim;
        }
        checked(&mut drive);
        for (block, held) in held.into_iter().enumerate() {
            prop_assert_eq!(drive.holds(Lba(block as u64)), held, "block {}", block);
        }
    }
}
