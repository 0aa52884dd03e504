//! Groups of drives under the log.

use std::collections::BTreeMap;

use thermocline_record::RunRecord;
use thermocline_types::Bytes;

use super::flush_tests::Trace;
use crate::{Pacing, Prefill, Settings};

/// Writes of `blocks` blocks all over 32 MiB, with a flush after each `flushed` of them.
fn trace(name: &str, writes: u64, blocks: u64, flushed: u64) -> Trace {
    let places = 8192 / blocks;
    let lines = (0..writes).flat_map(|write| {
        let block = write * 2_654_435_761 % places * blocks;
        let volume = if write % 3 == 0 { "a" } else { "b" };
        let flush = (write % flushed == flushed - 1).then_some(('F', 0, 0, volume));
        std::iter::once(('W', block, blocks, volume)).chain(flush)
    });
    Trace::of(name, 50, &lines.collect::<Vec<_>>())
}

fn settings() -> Settings {
    let (capacity, fast_capacity) = (Some(Bytes::mib(192)), Some(Bytes::mib(64)));
    let pacing = Some(Pacing::QueueDepth(4));
    Settings { capacity, fast_capacity, pacing, ..Settings::default() }
}

/// What was written beside the bytes of the log, by cause.
fn added(record: &RunRecord, tier: &str) -> BTreeMap<String, u64> {
    let of_log = ["host", "relocation", "destage", "metadata", "read_modify_write"];
    let causes = record.engine_bytes_written[tier].clone().into_iter();
    causes.filter(|(cause, _)| !of_log.contains(&cause.as_str())).collect()
}

/// What the log itself wrote.
fn logged(record: &RunRecord, tier: &str) -> u64 {
    let all: u64 = record.engine_bytes_written[tier].values().sum();
    all - added(record, tier).values().sum::<u64>()
}

fn check_sums(record: &RunRecord, stack: &str, members: usize) {
    let written: u64 = record.engine_bytes_written["capacity"].values().sum();
    assert_eq!(written, record.device_bytes_written, "{stack}");
    assert_eq!(record.drives.len(), members, "{stack}");
    let sum = |of: fn(&thermocline_record::DriveBytes) -> u64| record.drives.iter().map(of).sum();
    let (device, media): (u64, u64) =
        (sum(|drive| drive.device_bytes_written), sum(|drive| drive.media_bytes_written.total));
    assert_eq!((device, media), (written, record.media_bytes_written.total), "{stack}");
    let waf = media as f64 / record.host_bytes_written as f64;
    assert!((record.waf.unwrap() / waf - 1.0).abs() < 1e-9, "{stack}");
    let each = record.drives.iter().map(|drive| drive.media_bytes_written.total);
    let (least, most) = (each.clone().min().unwrap() as f64, each.max().unwrap() as f64);
    assert!(least > 0.6 * most, "{stack}: {least} to {most}");
}

#[test]
fn members_get_parity_and_its_log_and_the_bytes_add_up() {
    let trace = trace("group", 3000, 4, 1);
    for (group, members) in [("raid5:3", 3), ("raid5:4", 4), ("raid0:2", 2), ("mirror", 2)] {
        for device in ["p5316", "ideal,unit=512KiB,log.unit=1MiB"] {
            let stack = format!("log:{device},log.group={group}");
            let record = trace.run(&stack, Prefill::FirstTouch, &settings());
            check_sums(&record, &stack, members);
            let (added, log) = (added(&record, "capacity"), logged(&record, "capacity"));
            let names: Vec<&str> = added.keys().map(String::as_str).collect();
            match group {
                "raid0:2" => assert!(names.is_empty(), "{stack}: {added:?}"),
                "mirror" => {
                    assert_eq!(names, ["parity"], "{stack}");
                    assert_eq!(added["parity"], log, "{stack}");
                }
                _ => {
                    assert!(names.starts_with(&["parity", "parity_log", "parity_log_heads"]));
                    let share = added["parity"] as f64 / log as f64 * (members - 1) as f64;
                    assert!((0.9..1.1).contains(&share), "{stack}: {added:?} for {log}");
                }
            }
        }
    }
}

#[test]
fn a_group_before_or_behind_a_tier_has_causes_of_its_own() {
    let trace = trace("tier", 3000, 4, 1);
    let stack = "tier:p5800x+p5316,log.unit=1MiB,log.group=raid5:3,log.fast_group=mirror";
    let record = trace.run(stack, Prefill::FirstTouch, &settings());
    check_sums(&record, stack, 3);
    assert_eq!(added(&record, "fast")["parity"], logged(&record, "fast"));
    let fast = record.fast.as_ref().expect("a fast device");
    assert_eq!(fast.device_bytes_written, 2 * logged(&record, "fast"));
    // The flushes go to the fast device.
    let below = added(&record, "capacity");
    assert!(below["parity"] > 0, "{below:?}");
    assert!(!below.contains_key("parity_log"), "{below:?}");
}

#[test]
fn tenants_of_a_group_and_nobody_sum_to_what_the_members_got() {
    let trace = trace("tenants", 3000, 4, 2);
    for stack in ["log:p5316,log.group=raid5:4", "log:p5316,log.group=mirror"] {
        let record = trace.run(stack, Prefill::FirstTouch, &settings());
        let tenants = record.tenants.as_ref().expect("there are two volumes");
        let all = tenants.each.iter().map(|tenant| &tenant.bytes).chain([&tenants.nobody]);
        let engine: u64 = all.clone().flat_map(|of| of.engine["capacity"].values()).sum();
        assert_eq!(engine, record.device_bytes_written, "{stack}");
        let media: u64 = all.flat_map(|of| of.media.values()).sum();
        assert_eq!(media, record.media_bytes_written.total, "{stack}");
        let of_tenants: u64 = tenants.each.iter().flat_map(|one| one.bytes.media.values()).sum();
        assert!(of_tenants > media / 4, "{stack}: {of_tenants} of {media}");
    }
}

#[test]
fn a_group_that_cannot_be_is_refused() {
    let trace = trace("refused", 10, 4, 1);
    for (stack, reason) in [
        ("log:zn540,log.group=raid5:3", "zones"),
        ("log:p5316,log.unit=16KiB,log.group=raid5:3", "too small for 3 members"),
        ("tier:p5800x+p5316,log.fast_group=raid5", "raid5:N with 3 to 16"),
    ] {
        let refused = trace.try_run(
            stack,
            thermocline_workload::remap::Remap::Dense,
            Prefill::FirstTouch,
            &settings(),
        );
        let refused = refused.expect_err(stack).to_string();
        assert!(refused.contains(reason), "{stack}: {refused}");
    }
}

/// Without a capacity, the members are as large as the data needs.
#[test]
fn a_group_is_sized_to_its_data() {
    let trace = trace("sized", 3000, 4, 8);
    for (group, share) in [("raid5:4", 0.75), ("raid0:2", 1.0), ("mirror", 0.5)] {
        let stack = format!("log:p5316,log.unit=256KiB,log.group={group}");
        let settings = Settings { utilisation: 0.5, ..Settings::default() };
        let record = trace.run(&stack, Prefill::FirstTouch, &settings);
        let full = record.device.utilisation.expect("known") / share;
        assert!((0.3..0.55).contains(&full), "{stack}: {full}");
    }
}
