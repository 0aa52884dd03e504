use proptest::prelude::*;
use thermocline_types::{Rng, StreamId, TenantId};

use super::*;
use crate::profile::builtin;

fn profile(name: &str, overrides: &[(&str, &str)]) -> Profile {
    let overrides: Vec<(String, String)> =
        overrides.iter().map(|&(key, value)| (key.into(), value.into())).collect();
    Profile::with_overrides(name, builtin(name).unwrap(), &overrides).unwrap()
}

fn drive(profile: &Profile, capacity: Bytes) -> Mapped {
    Mapped::new(profile, Cut::new(profile, Some(capacity)).unwrap(), 1).unwrap()
}

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

fn media(counters: &Counters, cause: Cause) -> u64 {
    counters.media[cause.index()]
}

#[test]
fn small_and_misaligned_writes_cost_whole_mapping_units() {
    let p5316 = profile("p5316", &[]);
    let mut drive = drive(&p5316, Bytes::mib(256));
    let cases = [
        (0, 4096, 1),            // a sixteenth of a unit
        (65_536 - 512, 1024, 2), // a sector in each of two units
        (65_536, 65_536, 1),     // exactly one unit
        (4096, 65_536, 2),       // one unit's worth, misaligned
        (0, 3 * 65_536 + 512, 4),
    ];
    for (offset, length, units) in cases {
        let before = drive.counters();
        drive.submit(Time::ZERO, &request(Op::Write, offset, length), 0).unwrap();
        let counters = drive.counters().since(&before);
        counters.check().unwrap();
        assert_eq!(media(&counters, Cause::Host), length, "{offset} {length}");
        assert_eq!(counters.media_total, units * 65_536, "{offset} {length}");
    }
}

#[test]
fn a_merging_buffer_makes_small_sequential_writes_whole() {
    let merging = profile("p5316", &[("buffer.merge", "true"), ("buffer.size", "1MiB")]);
    let mut drive = drive(&merging, Bytes::mib(256));
    for block in 0..4096 {
        drive.submit(Time::ZERO, &request(Op::Write, block * 4096, 4096), 0).unwrap();
    }
    let counters = drive.counters();
    counters.check().unwrap();
    assert_eq!(media(&counters, Cause::ReadModifyWrite), 0);
    assert_eq!(counters.buffered, 1 << 20);
    for _ in 0..10 {
        drive.submit(Time::ZERO, &request(Op::Write, 4095 * 4096, 4096), 0).unwrap();
    }
    let counters = drive.counters();
    counters.check().unwrap();
    assert_eq!(counters.absorbed, 10 * 4096, "overwrites in the buffer never reach the media");
    drive.submit(Time::ZERO, &request(Op::Trim, 4080 * 4096, 65_536), 0).unwrap();
    let counters = drive.counters();
    counters.check().unwrap();
    assert_eq!(counters.absorbed, 10 * 4096 + 65_536, "nor does what is trimmed there");
}

#[test]
fn a_flush_pads_only_without_power_loss_protection() {
    for (protected, padding) in [("true", 0), ("false", 32_768 - 4096)] {
        let client = profile("micron2300", &[("buffer.power_loss_protection", protected)]);
        let mut drive = drive(&client, Bytes::mib(256));
        drive.submit(Time::ZERO, &request(Op::Write, 0, 4096), 0).unwrap();
        let done = drive.submit(Time::ZERO, &request(Op::Flush, 0, 0), 0).unwrap();
        let counters = drive.counters();
        counters.check().unwrap();
        assert_eq!(media(&counters, Cause::Padding), padding);
        assert_eq!(done >= Time::micros(575), padding > 0, "{done:?}");
    }
}

#[test]
fn trims_act_on_whole_units_and_lower_write_amplification() {
    let ideal = profile("ideal", &[("op", "0.07")]);
    let waf = |trims: bool| {
        let mut drive = drive(&ideal, Bytes::mib(128));
        let mut rng = Rng::new(3);
        let blocks = 32_768;
        for block in 0..blocks {
            drive.submit(Time::ZERO, &request(Op::Write, block * 4096, 4096), 0).unwrap();
        }
        for _ in 0..6 * blocks {
            let block = rng.below(blocks);
            if trims {
                drive
                    .submit(Time::ZERO, &request(Op::Trim, rng.below(blocks) * 4096, 4096), 0)
                    .unwrap();
            }
            drive.submit(Time::ZERO, &request(Op::Write, block * 4096, 4096), 0).unwrap();
        }
        let counters = drive.counters();
        counters.check().unwrap();
        counters.media_total as f64 / counters.host_written as f64
    };
    let (without, with) = (waf(false), waf(true));
    assert!(with < 0.5 * without, "{with} with trims of half the blocks, {without} without");
    let mut drive = drive(&ideal, Bytes::mib(128));
    drive.submit(Time::ZERO, &request(Op::Write, 0, 8192), 0).unwrap();
    drive.submit(Time::ZERO, &request(Op::Trim, 512, 8192 - 1024), 0).unwrap();
    assert!(drive.ftl.lookup(Lba(0)).is_some() && drive.ftl.lookup(Lba(1)).is_some());
}

#[test]
fn handles_keep_short_lived_data_apart() {
    let waf = |handles: bool| {
        let fdp = profile("pm9d3", &[("buffer.merge", "false")]);
        let mut drive = drive(&fdp, Bytes::mib(256));
        let blocks = 65_536;
        let mut rng = Rng::new(3);
        for block in 0..blocks {
            let handle = u16::from(handles && block < blocks / 10);
            drive.submit(Time::ZERO, &request(Op::Write, block * 4096, 4096), handle).unwrap();
        }
        // Half of the writes go round the large part in order, half anywhere in the small part.
        let mut next = blocks / 10;
        for _ in 0..6 * blocks {
            let block = if rng.below(2) > 0 { next } else { rng.below(blocks / 10) };
            if block == next {
                next = if next + 1 == blocks { blocks / 10 } else { next + 1 };
            }
            let handle = u16::from(handles && block < blocks / 10);
            drive.submit(Time::ZERO, &request(Op::Write, block * 4096, 4096), handle).unwrap();
        }
        let counters = drive.counters();
        counters.check().unwrap();
        assert!(counters.media_reallocated > 0 && counters.invalid_handles == 0);
        counters.media_total as f64 / counters.host_written as f64
    };
    let (mixed, apart) = (waf(false), waf(true));
    assert!(mixed > 1.2 && apart < 1.05, "{apart} apart, {mixed} mixed");
}

#[test]
fn fdp_events_are_counted() {
    let mut drive = drive(&profile("pm9d3", &[("buffer.merge", "false")]), Bytes::mib(256));
    drive.submit(Time::ZERO, &request(Op::Write, 0, 4096), 9).unwrap();
    drive.submit(Time::ZERO, &request(Op::Write, 0, 4096), 3).unwrap();
    drive.update_handle(3);
    drive.update_handle(5);
    let counters = drive.counters();
    assert_eq!((counters.invalid_handles, counters.units_not_full), (1, 1));
}

#[test]
fn beyond_the_capacity_is_refused_without_effect() {
    let mut drive = drive(&profile("ideal", &[]), Bytes::mib(128));
    let error = drive.submit(Time::ZERO, &request(Op::Write, (128 << 20) - 4096, 8192), 0);
    assert!(matches!(error, Err(DriveError::OutOfRange { .. })), "{error:?}");
    assert_eq!(drive.counters(), Counters::default());
}

#[test]
fn a_drive_worn_out_turns_read_only() {
    let fragile = profile("ideal", &[("wear.pe_cycles", "20"), ("wear.spare", "0.05")]);
    let mut drive = drive(&fragile, Bytes::mib(64));
    let mut rng = Rng::new(3);
    let mut written = 0;
    loop {
        let write = request(Op::Write, rng.below(16_384) * 4096, 4096);
        match drive.submit(Time::ZERO, &write, 0) {
            Ok(_) => written += 4096,
            Err(error) => break assert_eq!(error, DriveError::EndOfLife),
        }
    }
    let endurance = drive.media().endurance();
    assert!(endurance.spare_left() == 0 && endurance.retired() > 0);
    let cycles = drive.counters().erased as f64 / drive.cut().media().as_f64();
    assert!((14.0..24.0).contains(&cycles), "{cycles} of 20 cycles and 5 % spares used");
    assert!(written > 0);
    drive.submit(Time::ZERO, &request(Op::Read, 0, 4096), 0).unwrap();
}

#[test]
fn a_small_read_of_a_large_mapping_unit_moves_only_what_was_asked_for() {
    let mut drive = drive(&profile("p5316", &[]), Bytes::mib(256));
    drive.submit(Time::ZERO, &request(Op::Write, 0, 131_072), 0).unwrap();
    let took = |drive: &mut Mapped, at: Time, offset: u64, length: u64| {
        drive.submit(at, &request(Op::Read, offset, length), 0).unwrap().since(at).as_secs_f64()
            * 1e6
    };
    // 10 us firmware, 85 us array, 0.5 us command, 1.2 bytes per ns on the channel, 7 on the link.
    let fixed = 10.0 + 85.0 + 0.5;
    for (ms, offset, length, codewords) in
        [(10, 0, 4096, 1), (20, 512, 512, 1), (30, 3584, 1024, 2), (40, 0, 65_536, 16)]
    {
        let expected = fixed + f64::from(codewords) * 4096.0 / 1200.0 + length as f64 / 7000.0;
        let took = took(&mut drive, Time::micros(1000 * ms), offset, length);
        assert!((took - expected).abs() < 0.1, "{offset} {length}: {took}, not {expected}");
    }
    let both = took(&mut drive, Time::micros(50_000), 61_440, 8192);
    assert!((both - fixed - 4096.0 / 1200.0 - 8192.0 / 7000.0).abs() < 0.1, "on two dies: {both}");
}

#[test]
fn writes_are_acknowledged_in_order_and_at_the_rate_of_the_media() {
    let client = profile("micron2300", &[("buffer.merge", "false")]);
    let mut drive = drive(&client, Bytes::mib(256));
    let mut last = Time::ZERO;
    let mut waited = 0;
    for block in 0..16_384_u64 {
        let done = drive.submit(Time::ZERO, &request(Op::Write, block * 4096, 4096), 0).unwrap();
        assert!(done >= last, "{block}: {done:?} after {last:?}");
        waited += u64::from(done > Time::micros(1000));
        last = done;
    }
    assert!(waited > 15_000, "all but what the buffer takes at once wait for it: {waited}");
    let dies = 16.0 * 32_768.0 / 575e-6;
    let rate = f64::from(60 << 20) / last.as_secs_f64(); // 4 MiB are still in the buffer.
    assert!(
        (rate / dies - 1.0).abs() < 0.05,
        "{rate} bytes per second, {dies} is what the dies do"
    );
}

#[test]
fn commands_without_data_take_the_controller_its_time() {
    for (name, us) in [("p5316", 10), ("pm9d3", 8)] {
        let mut drive = drive(&profile(name, &[]), Bytes::mib(256));
        for (second, op) in [(1, Op::Trim), (2, Op::WriteZeroes), (3, Op::Flush)] {
            let length = if op == Op::Flush { 0 } else { 65_536 };
            let at = Time::seconds(second);
            let done = drive.submit(at, &request(op, 0, length), 0).unwrap();
            assert_eq!(done.since(at), Time::micros(us), "{name} {op:?}");
        }
    }
}

/// Four programs of a page of eight sectors: three flushes program one each, the fourth fills the page up.
#[test]
fn a_flush_programs_a_part_of_a_page_as_often_as_the_page_may_be() {
    let keys = [("mapping_unit", "512B"), ("geometry.programs_per_page", "4")];
    let mut drive = drive(&profile("sata-b", &keys), Bytes::mib(16));
    let mut now = Time::ZERO;
    let mut padding = Vec::new();
    for sector in 0..8 {
        now = drive.submit(now, &request(Op::Write, 4096 * sector, 512), 0).unwrap();
        let flushed = drive.submit(now, &request(Op::Flush, 0, 0), 0).unwrap();
        assert!(flushed >= now + Time::micros(200), "a program takes its time");
        now = drive.submit(flushed, &request(Op::Flush, 0, 0), 0).unwrap();
        assert!(now < flushed + Time::micros(200), "nothing is new, and nothing is programmed");
        padding.push(media(&drive.counters(), Cause::Padding) / 512);
    }
    assert_eq!(padding, [0, 0, 0, 4, 4, 4, 4, 8]);
    let refused = Profile::with_overrides(
        "pm9d3",
        builtin("pm9d3").unwrap(),
        &[("geometry.programs_per_page".into(), "2".into())],
    );
    assert!(refused.unwrap_err().to_string().contains("cells of one bit"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Time changes nothing but time, and no byte is ever unaccounted for.
    #[test]
    fn timed_and_untimed_drives_write_the_same_bytes(
        name in prop::sample::select(vec!["p5316", "pm9d3", "pm1725a", "micron2300", "sata-b"]),
        merge in any::<bool>(),
        aged in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut keys = vec![("buffer.merge", if merge { "true" } else { "false" })];
        keys.extend(aged.then_some(("aged.wear", "1.5")));
        // Pages in parts, which flushes of this drive make.
        let parts = [("mapping_unit", "512B"), ("geometry.programs_per_page", "3")];
        keys.extend(parts.into_iter().filter(|_| name == "sata-b"));
        let timed = profile(name, &keys);
        let mut untimed = timed.clone();
        untimed.timing = None;
        let capacity = Bytes::mib(192);
        let (mut timed, mut untimed) = (drive(&timed, capacity), drive(&untimed, capacity));
        let mut rng = Rng::new(seed);
        let mut at = Time::ZERO;
        for _ in 0..4000 {
            let (op, length) = match rng.below(40) {
                0 => (Op::Flush, 0),
                1 => (Op::Trim, 512 * (1 + rng.below(4096))),
                2..6 => (Op::Read, 512 * (1 + rng.below(256))),
                _ => (Op::Write, 512 * (1 + rng.below(512))),
            };
            let offset = if op == Op::Flush { 0 } else { 512 * rng.below((capacity.0 - length) / 512) };
            let request = request(op, offset, length);
            at += Time::micros(rng.below(300));
            let done = timed.submit(at, &request, 0).unwrap();
            prop_assert!(done >= at && done < at + Time::seconds(60), "{op:?} took {:?}", done.since(at));
            untimed.submit(at, &request, 0).unwrap();
        }
        prop_assert_eq!(timed.counters(), untimed.counters());
        timed.counters().check().unwrap();
        timed.verify();
    }
}
