use thermocline_record::RunRecord;
use thermocline_types::Bytes;
use thermocline_workload::synthetic::{self, Limit, Spec};

use super::*;
use crate::{Input, Pacing, Prepared, Settings, Stack, run};

/// A tenant that asks for little beside one that asks for a lot.
const QUIET_AND_NOISY: &str = include_str!("../../../testdata/quiet-and-noisy.toml");

fn tenants_on(stack: &str, workload: &str, share_at_rest: f64, utilisation: f64) -> RunRecord {
    let stack = Stack::parse(stack, &[]).unwrap();
    let span = Bytes::mib(256);
    let options = synthetic::Options::new(span, Limit::BytesWritten(Bytes::mib(384)));
    let input = Input::Synthetic { spec: Spec::from_toml(workload).unwrap(), options };
    let prepared = Prepared::thin(input, None, stack.profile.mapping_unit, None).unwrap();
    let mut prepared = prepared.with_data_at_rest(share_at_rest).unwrap();
    let pacing = Some(Pacing::QueueDepth(16));
    let settings = Settings { utilisation, pacing, ..Settings::default() };
    run(&mut prepared, &stack, &settings, &mut |_| {}).unwrap()
}

fn quiet_and_noisy(stack: &str) -> RunRecord {
    tenants_on(stack, QUIET_AND_NOISY, 0.0, 0.7)
}

/// Bytes for `cause` on the media of all tenants and nobody.
fn on_media(tenants: &Tenants, cause: &str) -> u64 {
    let each = tenants.each.iter().map(|tenant| &tenant.bytes);
    let all = each.chain([&tenants.nobody]);
    all.map(|bytes| bytes.media.get(cause).copied().unwrap_or(0)).sum()
}

/// The same that the log wrote to a tier.
fn by_log(tenants: &Tenants, tier: &str, cause: &str) -> u64 {
    let each = tenants.each.iter().map(|tenant| &tenant.bytes);
    let of = |bytes: &OwnedBytes| Some(*bytes.engine.get(tier)?.get(cause)?);
    each.chain([&tenants.nobody]).filter_map(of).sum()
}

/// Holds that the bytes of tenants and nobody are those of the record, each once.
fn assert_sums(record: &RunRecord) {
    let tenants = record.tenants.as_ref().expect("there are several");
    let sum = |of: fn(&TenantFigures) -> u64| tenants.each.iter().map(of).sum::<u64>();
    assert_eq!(sum(|t| t.host_bytes_written), record.host_bytes_written, "{}", record.stack);
    assert_eq!(sum(|t| t.host_bytes_read), record.host_bytes_read, "{}", record.stack);
    assert_eq!(sum(|t| t.host_bytes_trimmed), record.host_bytes_trimmed, "{}", record.stack);
    assert_eq!(sum(|t| t.requests), record.requests, "{}", record.stack);
    for (cause, bytes) in &record.media_bytes_written.by_cause {
        assert_eq!(on_media(tenants, cause), *bytes, "{cause} on {}", record.stack);
    }
    for (tier, causes) in &record.engine_bytes_written {
        for (cause, bytes) in causes.iter().filter(|(cause, _)| *cause != "read_modify_write") {
            let filled = causes.get("read_modify_write").filter(|_| cause == "host").unwrap_or(&0);
            let all = by_log(tenants, tier, cause);
            assert_eq!(all, bytes + filled, "{cause} to {tier} of {}", record.stack);
        }
    }
}

#[test]
fn bytes_of_tenants_and_nobody_are_those_of_the_run() {
    let stacks = [
        "raw:sn640",
        "raw:p5316",
        "raw:ideal",
        "raw:intel660p",
        "raw:pci-c*2",
        "raw:sata-a",
        "raw:p5800x",
        "tag:pm9d3",
        "log:zn540",
        "log:sn640",
        "log:p5316",
        "log:sn640,log.logical_block=512",
        "tier:p5800x+p5316",
        "tier:p5800x+zn540,pool.placement=sepbit",
        "tier:p5800x+p5316,log.media=fast,pool.high_watermark=0.5,pool.low_watermark=0.4",
    ];
    for stack in stacks {
        assert_sums(&quiet_and_noisy(stack));
    }
}

#[test]
fn what_has_to_move_counts_for_whose_it_is() {
    let waf = |stack: &str| {
        let record = quiet_and_noisy(stack);
        let tenants = record.tenants.expect("there are several");
        assert_eq!(tenants.each[2].waf, None, "the reader writes nothing");
        [0, 1].map(|tenant| tenants.each[tenant].waf.expect("it writes"))
    };
    let [quiet, noisy] = waf("raw:p5316");
    assert!(noisy > 2.0 * quiet, "mapping units of 64 KiB: {quiet} and {noisy}");
    // Lifetimes are told apart by the log and not by the drive.
    let [mixed, _] = waf("raw:ideal,op=0.07");
    let [apart, _] = waf("log:zn540");
    assert!(apart < 1.05 && mixed > apart + 0.3, "{mixed} mixed, {apart} apart");
}

#[test]
fn data_at_rest_is_nobodys() {
    for stack in ["raw:ideal,op=0.07,gc.victim=fifo", "log:ideal,unit=1MiB,pool.victim=fifo"] {
        let record = tenants_on(stack, QUIET_AND_NOISY, 0.3, 0.85);
        assert_sums(&record);
        let tenants = record.tenants.expect("there are several");
        let relocated = tenants.nobody.media.get("relocation").copied().unwrap_or(0);
        let by_log = tenants.nobody.engine.values().filter_map(|tier| tier.get("relocation"));
        assert!(relocated + by_log.sum::<u64>() > 0, "{stack} moves data at rest");
    }
}

#[test]
fn a_reader_waits_for_other_things_than_a_writer_and_both_for_their_depth() {
    let record = quiet_and_noisy("raw:p5316");
    let tenants = record.tenants.expect("there are several");
    let p99 = |tenant: usize, kind: &str| {
        tenants.each[tenant].latency_ns.as_ref().expect("timed")[kind].p99.expect("not in memory")
    };
    let (reader, writer) = (p99(2, "read"), p99(1, "write"));
    assert!(reader != writer, "{reader} ns");
    let all = &record.latency_ns.expect("timed")["read"];
    let [count, max] = [0, 2].into_iter().fold([0, 0], |[count, max], tenant| {
        let latency = &tenants.each[tenant].latency_ns.as_ref().expect("timed")["read"];
        [count + latency.count, max.max(latency.max.expect("not in memory"))]
    });
    assert_eq!((count, max), (all.count, all.max.expect("not in memory")));
    let depth: f64 = tenants.each.iter().map(|t| t.rates.expect("timed").depth).sum();
    assert!((15.0..=16.01).contains(&depth), "{depth} of 16 in flight");
}

#[test]
fn a_record_without_tenants_has_no_section_and_is_read() {
    let with = quiet_and_noisy("raw:ideal");
    let same = RunRecord::from_json(&with.to_json()).unwrap();
    let bytes = |record: &RunRecord| -> Vec<OwnedBytes> {
        let tenants = record.tenants.as_ref().expect("there are several");
        tenants.each.iter().map(|tenant| tenant.bytes.clone()).collect()
    };
    assert_eq!(bytes(&same), bytes(&with));
    let mut without: serde_json::Value = serde_json::from_str(&with.to_json()).unwrap();
    without.as_object_mut().unwrap().remove("tenants").expect("there was one");
    let read = RunRecord::from_json(&without.to_string()).unwrap();
    assert!(read.tenants.is_none());
    assert_eq!(read.media_bytes_written, with.media_bytes_written);
    let one = "[[tenant]]\nname = \"alone\"\nworkload = \"uniform\"";
    let alone = tenants_on("raw:ideal", one, 0.0, 0.7);
    assert!(alone.tenants.is_none() && !alone.to_json().contains("\"tenants\""));
}
