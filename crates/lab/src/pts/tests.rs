use super::*;

fn options(volume: Bytes) -> PtsOptions {
    PtsOptions { volume, utilisation: 1.0, depth: 32, seed: 1, quick: true }
}

/// With a buffer that does not absorb much of a volume this small.
const TLC: &str = "raw:pm9d3,buffer.size=1MiB";

fn result(stack: &str, test: usize, volume: Bytes) -> PtsResult {
    let stack = stack_under_test(stack, &[]).unwrap();
    TESTS[test].run(&stack, &options(volume), &mut |_| {}).unwrap()
}

#[test]
fn the_matrix_of_the_iops_test_is_that_of_the_specification() {
    let accesses = TESTS[0].accesses(&options(Bytes::mib(64)));
    assert_eq!(accesses.len(), 56);
    assert!(accesses.iter().all(|access| access.depth == 32));
    let latency = TESTS[3].accesses(&options(Bytes::mib(64)));
    assert_eq!(latency.len(), 9);
    assert!(latency.iter().all(|access| access.depth == 1));
}

#[test]
fn rounds_end_when_five_are_steady_and_small_writes_cost_more_than_reads() {
    let found = result(TLC, 0, Bytes::mib(64));
    let [first, last] = found.window.rounds;
    assert_eq!((last - first, found.cells[0].rounds.len()), (4, last));
    assert!(found.window.steady && last < MOST_ROUNDS, "{:?}", found.window);
    assert!(found.window.range <= 0.2 && found.window.drift.abs() <= 0.1, "{:?}", found.window);
    let of = |size: u64, read: f64| {
        let cell = |cell: &&PtsCell| cell.io_size == size && (cell.read_share - read).abs() < 1e-9;
        found.cells.iter().find(cell).unwrap().value
    };
    assert!(of(4096, 1.0) > of(4096, 0.0), "{} and {}", of(4096, 1.0), of(4096, 0.0));
    assert!(of(4096, 0.0) > of(1 << 20, 0.0));
    // An earlier window would not have been steady.
    let tracked = &found.cells[found.tracked].rounds;
    assert!(tracked.len() == ROUNDS || !Fit::of(&tracked[last - 6..last - 1]).is_steady());
}

#[test]
fn write_saturation_begins_fast_and_writes_four_capacities() {
    let found = result(TLC, 4, Bytes::mib(64));
    let rounds = &found.cells[0].rounds;
    assert_eq!(rounds.len() as u64, SATURATION_ROUNDS);
    assert!((found.written.last().unwrap() - 4.0).abs() < 0.2, "{:?}", found.written);
    assert!(rounds[2] > 1.5 * found.window.mean, "{} and {}", rounds[2], found.window.mean);
    assert!(found.waf[2].unwrap() < 1.1 && found.waf.last().unwrap().unwrap() > 2.0);
}

#[test]
fn latency_and_throughput_are_those_of_one_request_and_of_large_ones() {
    let latency = result("raw:sata-b", 3, Bytes::mib(32));
    assert!(latency.cells.iter().all(|cell| cell.mean_us > 1.0 && cell.mean_us <= cell.max_us));
    let large = result("raw:sata-b", 1, Bytes::mib(32));
    let small = result("raw:sata-b", 2, Bytes::mib(32));
    assert!(large.cells[0].value >= 0.95 * small.cells[0].value);
    assert_eq!(plots(&latency).len(), 4);
}

#[test]
fn a_log_is_tested_without_its_volatile_cache_unless_it_is_asked_for() {
    let of = |text: &str| stack_under_test(text, &[]).unwrap().overrides;
    assert!(of("log:zn540").iter().any(|given| given == "pool.write_cache=off"));
    assert_eq!(of("log:zn540,pool.write_cache=on"), ["pool.write_cache=on"]);
    assert!(stack_under_test("raw:ideal", &[]).unwrap_err().to_string().contains("no time"));
}
