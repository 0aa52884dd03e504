use thermocline_nand::Drive;
use thermocline_record::{LatencyNs, RunRecord};
use thermocline_types::Bytes;
use thermocline_workload::synthetic::{self, Limit, Spec};

use super::machine::Machine;
use super::plan::Plan;
use crate::{Error, Input, Pacing, Prepared, Settings, Stack, run};

fn prepared(workload: &str, span: Bytes, writes: f64, io_size: Option<Bytes>) -> Prepared {
    let limit = Limit::drive_writes(writes, span).unwrap();
    let options = synthetic::Options { io_size, ..synthetic::Options::new(span, limit) };
    let input = Input::Synthetic { spec: Spec::load(workload).unwrap(), options };
    Prepared::new(input, None, Bytes::BLOCK, None).unwrap()
}

/// The record of `stack` under `workload` over 64 MiB, written over three times.
fn record(stack: &str, workload: &str, utilisation: f64) -> RunRecord {
    let stack = Stack::parse(stack, &[]).unwrap();
    let mut workload = prepared(workload, Bytes::mib(64), 3.0, None);
    let settings = Settings { utilisation, ..Settings::default() };
    run(&mut workload, &stack, &settings, &mut |_| {}).unwrap()
}

/// Bytes that the log wrote for `cause`.
fn cause(record: &RunRecord, cause: &str) -> u64 {
    record.engine_bytes_written["capacity"][cause]
}

#[test]
fn every_kind_of_drive_takes_a_log_and_the_bytes_add_up() {
    for (stack, utilisation) in [
        ("log:ideal,unit=512KiB,garbage=0.3", 1.0),
        ("log:zn540", 0.7),
        ("log:p5316", 0.7),
        ("log:pm9d3", 0.7),
        ("log:pm1725a", 0.7),
        ("log:p5800x", 0.7),
    ] {
        let record = record(stack, "zipf:0.9", utilisation);
        let written: u64 = record.engine_bytes_written["capacity"].values().sum();
        assert_eq!(written, record.device_bytes_written, "{stack}");
        assert!(cause(&record, "relocation") > 0, "{stack} never collected garbage");
        assert!(cause(&record, "metadata") > 0, "{stack}");
        let (alwa, dlwa) = (record.alwa.unwrap(), record.dlwa.unwrap());
        assert!((alwa * dlwa / record.waf.unwrap() - 1.0).abs() < 1e-9, "{stack}");
    }
}

#[test]
fn zones_are_written_without_amplification_of_their_own() {
    let record = record("log:zn540", "uniform", 0.7);
    // Zones that are closed before they are full have their last page filled up.
    assert!(record.dlwa.unwrap() < 1.01, "{:?}", record.dlwa);
    let units = &record.units;
    let valid: f64 = units.valid.iter().map(|share| f64::from(*share)).sum();
    let share = valid / units.valid.len() as f64;
    assert!((0.66..0.75).contains(&share), "{share} of the zones is valid, 0.7 was written");
    let more = units.fill.iter().zip(&units.valid).filter(|(fill, valid)| *valid > &(*fill + 0.01));
    assert_eq!(more.count(), 0, "no zone holds more valid blocks than were written to it");
}

#[test]
fn writes_that_cover_blocks_in_part_read_the_rest_first() {
    let stack = Stack::parse("log:ideal,unit=512KiB,garbage=0.5", &[]).unwrap();
    let mut workload = prepared("uniform", Bytes::mib(16), 0.05, Some(Bytes(2048)));
    let record = run(&mut workload, &stack, &Settings::default(), &mut |_| {}).unwrap();
    let (host, filled) = (cause(&record, "host"), cause(&record, "read_modify_write"));
    assert!(filled.abs_diff(host) <= 4096, "half of each block: {host} and {filled}");
    assert!(record.notes.iter().any(|note| note.contains("cover blocks in part")));
}

#[test]
fn a_workload_that_does_not_fit_is_refused_with_what_to_do() {
    let mut workload = prepared("uniform", Bytes::mib(64), 1.0, None);
    for (stack, advice) in [
        ("log:zn540", "`utilisation` 0."),
        ("log:ideal,unit=512KiB,garbage=0.02", "device.garbage=0."),
    ] {
        let stack = Stack::parse(stack, &[]).unwrap();
        let settings = Settings { utilisation: 0.99, ..Settings::default() };
        let result = run(&mut workload, &stack, &settings, &mut |_| {});
        let error = result.unwrap_err().to_string();
        assert!(error.contains("can hold") && error.contains(advice), "{error}");
    }
}

#[test]
fn full_is_as_full_as_the_log_can_fill_a_drive() {
    for stack in ["log:zn540", "log:p5316", "log:pm9d3", "log:ideal,unit=512KiB,garbage=0.02"] {
        let record = record(stack, "zipf:0.9", 1.0);
        let full = record.device.utilisation.unwrap();
        assert!((0.7..1.0).contains(&full), "{stack}: {full}");
        let as_said = Stack::parse(stack, &[]).unwrap();
        let workload = prepared("zipf:0.9", Bytes::mib(64), 1.0, None);
        let more = Settings { utilisation: full + 0.03, ..Settings::default() };
        let more = Plan::new(&as_said, &more, workload.room());
        assert!(matches!(more, Err(Error::DoesNotFit(_))), "{stack}: {full}");
    }
}

#[test]
fn more_classes_than_zones_that_may_be_open_are_refused() {
    let few = "log:zn540,zns.max_open=5,zns.max_active=5,pool.placement=lsm-zgc";
    let stack = Stack::parse(few, &[]).unwrap();
    let mut workload = prepared("uniform", Bytes::mib(64), 1.0, None);
    let settings = Settings { utilisation: 0.5, ..Settings::default() };
    let error = run(&mut workload, &stack, &settings, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("fewer classes"), "{error}");
}

#[test]
fn zones_behind_a_fast_drive_are_open_for_what_stays_alone() {
    let fits = |layer: &str| {
        let text = format!("{layer}zn540,zns.max_open=5,zns.max_active=5,pool.placement=sepgc");
        let stack = Stack::parse(&text, &["pool.write_cache=off".to_owned()]).unwrap();
        let mut workload = prepared("zipf:0.9", Bytes::mib(512), 1.0, None);
        let settings = Settings { utilisation: 0.7, ..Settings::default() };
        run(&mut workload, &stack.untimed(), &settings, &mut |_| {})
    };
    let error = fits("log:").unwrap_err().to_string();
    assert!(error.contains("up to 6 zones"), "{error}");
    let record = fits("tier:p5800x+").unwrap();
    assert!(cause(&record, "destage") > 0);
}

/// A victim that has more valid blocks than may be staged at once, in classes none of which fills a chunk of its own.
#[test]
fn many_classes_collect_zones_of_many_blocks_without_a_standstill() {
    let stack = Stack::parse("log:zn540,unit=18MiB,pool.placement=auto", &[]).unwrap();
    let mut workload = prepared("hotcold:10:90", Bytes::gib(2), 1.5, None);
    let settings = Settings { utilisation: 0.7, ..Settings::default() };
    let record = run(&mut workload, &stack.untimed(), &settings, &mut |_| {}).unwrap();
    assert!(cause(&record, "relocation") > 0);
}

fn filled(settings: &Settings) -> (Machine, thermocline_engine::Config) {
    let stack = Stack::parse("log:zn540", &[]).unwrap();
    let workload = prepared("uniform", Bytes::mib(64), 1.0, None);
    let plan = Plan::new(&stack, settings, workload.room()).unwrap();
    let config = plan.config.clone();
    let mut machine = plan.build().unwrap();
    workload
        .prefill(|request| {
            machine.submit(&[request], 0);
            machine.settle()
        })
        .unwrap();
    (machine, config)
}

#[test]
fn a_pool_is_found_again_after_closing_and_after_a_crash() {
    let settings = Settings { utilisation: 0.6, ..Settings::default() };
    for in_order in [true, false] {
        let (machine, config) = filled(&settings);
        let before: u64 = valid(&machine);
        let (mut again, replayed) = machine.reopen(config, in_order, 2).unwrap();
        again.settle().unwrap();
        assert_eq!(replayed == 0, in_order, "only a crash leaves chunks to replay: {replayed}");
        assert!(matches!(again.device().drive(), Drive::Zoned(_)));
        let user = Bytes::mib(64).0 / 4096;
        assert!(valid(&again) >= user && before >= user, "{} blocks of {user}", valid(&again));
    }
}

fn valid(machine: &Machine) -> u64 {
    let units = machine.engine().units();
    units.ids().map(|unit| u64::from(units.valid_count(unit))).sum()
}

/// 99.9th percentile and maximum of write latency as multiples of the median, on zones that are being collected.
fn slowest_by_median(depth: u32) -> (f64, f64) {
    // Answered from memory, the median write takes no time at all.
    let stack = Stack::parse("log:zn540,unit=3MiB,pool.write_cache=off", &[]).unwrap();
    let mut workload = prepared("uniform", Bytes::mib(512), 1.5, None);
    let pacing = Some(Pacing::QueueDepth(depth));
    let settings = Settings { utilisation: 0.8, pacing, ..Settings::default() };
    let record = run(&mut workload, &stack, &settings, &mut |_| {}).unwrap();
    let latency = &record.latency_ns.unwrap()["write"];
    let ns = |percentile: Option<u64>| percentile.expect("writes complete on media") as f64;
    (ns(latency.p99_9) / ns(latency.p50), ns(latency.max) / ns(latency.p50))
}

#[test]
fn collection_is_spread_so_evenly_that_the_slowest_writes_are_near_the_median() {
    let (ratio, _) = slowest_by_median(32);
    assert!(ratio < 10.0, "p99.9 is {ratio:.1} times the median");
}

#[test]
fn no_class_waits_for_others_while_copies_are_owed() {
    let (ratio, slowest) = slowest_by_median(128);
    assert!(
        ratio < 8.0 && slowest < 20.0,
        "p99.9 is {ratio:.1} times the median, the slowest {slowest:.1}"
    );
}

/// Latencies of a database on zones that are being collected, one request in flight: what each flush took, what chunks
/// of the host took, and flushes of the drive.
fn latencies_of_a_database(stack: &str, span: u64, writes: f64, filled: f64) -> [LatencyNs; 3] {
    let stack = Stack::parse(stack, &[]).unwrap();
    let mut workload = prepared("btree:engine=innodb", Bytes::gib(span), writes, None);
    let pacing = Some(Pacing::QueueDepth(1));
    let settings = Settings { utilisation: filled, pacing, ..Settings::default() };
    let record = run(&mut workload, &stack, &settings, &mut |_| {}).unwrap();
    assert!(record.alwa.unwrap() > 1.25, "{:?}: little is copied", record.alwa);
    let mut all = record.latency_ns.unwrap();
    ["flush", "log.chunk", "log.flush"].map(|kind| all.remove(kind).expect("it takes time"))
}

/// Holds that flushes wait for what the host wrote and the drive, and for no copies.
fn assert_no_flush_waits_for_copies(of: [Option<u64>; 3]) {
    let [whole, chunk, flush] = of.map(|time| time.expect("it takes time"));
    assert!(whole <= chunk + flush, "{whole} ns, for {chunk} and {flush}");
}

// Not all chunks are waited for: only what is far out in all three compares.

#[test]
fn flushes_wait_for_what_the_host_wrote_and_the_drive_and_for_no_copies() {
    let stack = "log:zn540,geometry.superblock=product";
    let all = latencies_of_a_database(stack, 48, 0.8, 0.65);
    assert_no_flush_waits_for_copies(all.each_ref().map(|l| l.p99_9));
    assert_no_flush_waits_for_copies(all.each_ref().map(|l| l.p99_99));
}

#[test]
fn flushes_wait_for_no_copies_where_a_chunk_is_most_of_a_zone() {
    let all = latencies_of_a_database("log:zn540", 4, 3.0, 0.7);
    assert_no_flush_waits_for_copies(all.each_ref().map(|l| l.p99_9));
    // One that needs a unit for each of several classes fills those that are open. It waited for up to 12 chunks.
    let [slowest, chunk, _] = all.map(|latency| latency.max.expect("it takes time"));
    assert!(slowest < 8 * chunk, "{slowest} ns, for {chunk}");
}
