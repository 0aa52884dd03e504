use thermocline_types::{StreamId, TenantId};

use super::*;
use crate::profile::builtin;

fn request(op: Op, offset: u64, length: u64) -> Request {
    Request {
        at: Time::ZERO,
        op,
        offset: Bytes(offset),
        length: Bytes(length),
        tenant: TenantId(0),
        stream: StreamId::UNKNOWN,
        outstanding: None,
    }
}

fn with(given: &[(&str, &str)]) -> BlockMapped {
    let given: Vec<(String, String)> =
        given.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    let profile = Profile::with_overrides("sata-a", builtin("sata-a").unwrap(), &given).unwrap();
    let cut = Cut::new(&profile, None).unwrap();
    BlockMapped::new(&profile, cut, 1).unwrap()
}

/// Units of 16 blocks of 4 KiB, as the tutorial's worked examples have them: 4 pages of 4 blocks.
fn drive(order: &str) -> BlockMapped {
    with(&[
        ("wear.pe_cycles", "200"),
        ("capacity", "1MiB"),
        ("unit", "64KiB"),
        ("mapping_unit", "4KiB"),
        ("op", "0.25"),
        ("geometry.page", "16KiB"),
        ("geometry.block", "64KiB"),
        ("rewrite.order", order),
    ])
}

fn write(drive: &mut BlockMapped, blocks: std::ops::Range<u64>) -> Counters {
    let before = drive.counters();
    let request = request(Op::Write, blocks.start * 4096, (blocks.end - blocks.start) * 4096);
    drive.submit(Time::ZERO, &request).unwrap();
    drive.counters().check().unwrap();
    drive.counters().since(&before)
}

fn blocks(counters: &Counters) -> [u64; 3] {
    [Cause::Host, Cause::ReadModifyWrite, Cause::Padding]
        .map(|cause| counters.media[cause.index()] / 4096)
}

/// The worked example: 16 written, 3 new, 8 copied, 5 null; then 16 written, 5 new, 8 copied, 3 null. A quarter of what
/// is written is the user's, for two erases.
#[test]
fn the_worked_example_is_a_quarter_user_writes_and_two_erases() {
    for order in ["in-place", "elsewhere"] {
        let mut drive = drive(order);
        write(&mut drive, 0..8);
        let start = drive.counters();
        assert_eq!(blocks(&write(&mut drive, 8..11)), [3, 8, 5], "{order}");
        assert_eq!(blocks(&write(&mut drive, 8..13)), [5, 8, 3], "{order}");
        let run = drive.counters().since(&start);
        assert_eq!(run.media_total / 4096, 32);
        assert_eq!(run.media_total / run.host_written, 4, "a quarter of it is the user's");
        assert_eq!(run.erased / drive.cut().unit().0, 2, "{order}");
    }
}

/// One block in place takes its unit through all erases; elsewhere they go round by themselves.
#[test]
fn writing_elsewhere_evens_out_wear() {
    for (order, most) in [("in-place", 99), ("elsewhere", 6)] {
        let mut drive = drive(order);
        for _ in 0..100 {
            write(&mut drive, 0..1);
        }
        let erases = drive.units().iter().map(|unit| unit.erases).max().unwrap();
        assert!(erases <= most && erases >= most - 2, "{order}: {erases}");
    }
}

#[test]
fn whole_units_cost_nothing_more_and_trimmed_blocks_are_not_copied() {
    let mut drive = drive("elsewhere");
    assert_eq!(blocks(&write(&mut drive, 0..32)), [32, 0, 0]);
    drive.submit(Time::ZERO, &request(Op::Trim, 0, 8 * 4096)).unwrap();
    assert_eq!(blocks(&write(&mut drive, 15..16)), [1, 7, 8]);
}

#[test]
fn a_worn_out_block_is_replaced_until_none_is_left() {
    let mut drive = drive("in-place");
    let request = request(Op::Write, 0, 4096);
    let mut writes = 0u64;
    while drive.submit(Time::ZERO, &request).is_ok() {
        writes += 1;
        assert!(writes < 10_000_000, "it never wears out");
    }
    assert!(drive.media().endurance().retired() > 0);
}

/// By hand for one die: 64 pages read, erased, 64 programmed: 64 (tR + tX) + tERASE + 64 (tX + tPROG).
#[test]
fn a_rewrite_takes_the_time_of_its_pages_and_its_erase() {
    let mut drive = with(&[
        ("geometry.dies", "1"),
        ("geometry.channels", "1"),
        ("timing.bus_in_order", "false"),
        ("capacity", "1MiB"),
        ("op", "0.5"),
        ("rewrite.order", "in-place"),
    ]);
    let unit = drive.cut().unit().0;
    drive.submit(Time::ZERO, &request(Op::Write, 0, unit)).unwrap();
    let start = drive.media().drained();
    let writes = 20;
    for _ in 0..writes {
        drive.submit(start, &request(Op::Write, 0, 512)).unwrap();
    }
    let each = drive.media().drained().since(start).as_secs_f64() / f64::from(writes);
    let transfer = 4096.0 / 40e6;
    let by_hand = 64.0 * (25e-6 + transfer) + 1.5e-3 + 64.0 * (transfer + 200e-6);
    assert!((each / by_hand - 1.0).abs() < 0.03, "{each} s, by hand {by_hand}");
}
