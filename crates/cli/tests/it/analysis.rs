//! `analyze`.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;

use crate::{command, lab, lab_in, scratch, write};

#[test]
fn skewed_writes_have_headroom_and_uniform_ones_have_none() {
    let waf = |analysis: &Value, line: usize| {
        analysis["headroom"]["lines"][line]["waf"].as_f64().expect("a WAF")
    };
    let zipf = lab("analyze --json --workload zipf:1.0 --span 512MiB --drive-writes 3").json();
    assert_eq!(zipf["schema"], "thermocline.analyze/1");
    assert!(waf(&zipf, 0) > 1.15 * waf(&zipf, 2), "rates help: {}", zipf["headroom"]);
    assert!(waf(&zipf, 3) < waf(&zipf, 2), "the future helps more: {}", zipf["headroom"]);
    let uniform = lab("analyze --json --workload uniform --span 512MiB --drive-writes 3").json();
    assert!(waf(&uniform, 0) < 1.1 * waf(&uniform, 2), "rates are equal: {}", uniform["headroom"]);
}

#[test]
fn the_profile_counts_what_the_trace_holds() {
    let folder = scratch();
    let text = "timestamp_us,op,offset_bytes,length_bytes,tenant\n\
                0,W,0,4096,0\n1000,W,4096,4096,0\n2000,W,0,4096,0\n3000,R,0,8192,0\n4000,D,4096,4096,0\n";
    write(folder.path(), "small.csv", text);
    let analysis = lab_in(folder.path(), "analyze --json --trace small.csv").json();
    let profile = &analysis["profile"];
    assert_eq!(profile["requests"], 5);
    assert_eq!(profile["bytes_written"], 3 * 4096);
    assert_eq!(profile["working_set_bytes"], 2 * 4096);
    assert!(analysis["headroom"].is_null());
    let reason = analysis["no_headroom_because"].as_str().expect("a reason");
    assert!(reason.contains("too few"), "{reason}");
    let text = lab_in(folder.path(), "analyze --trace small.csv").ok();
    assert!(text.contains("5 requests") && text.contains("no headroom"), "{text}");
}

#[test]
fn workloads_barely_large_enough_are_simulated_or_refused_in_words() {
    let folder = scratch();
    // Sizes around the smallest device with units of 2 MiB. A run must never run out of units.
    for blocks in [1, 500, 512, 513, 600, 1500, 2500, 5000, 20_000] {
        let mut text = "timestamp_us,op,offset_bytes,length_bytes,tenant\n".to_owned();
        (0..2 * blocks).for_each(|i| text += &format!("{i},W,{},4096,0\n", i * 7 % blocks * 4096));
        write(folder.path(), "trace.csv", text);
        let analysis = lab_in(folder.path(), "analyze --json --trace trace.csv").json();
        assert_ne!(
            analysis["headroom"].is_null(),
            analysis["no_headroom_because"].is_null(),
            "{blocks}"
        );
    }
}

#[test]
fn a_trace_of_reads_can_be_looked_at() {
    let folder = scratch();
    write(
        folder.path(),
        "reads.csv",
        "timestamp_us,op,offset_bytes,length_bytes\n1,R,0,4096\n2,R,8192,4096\n",
    );
    let text = lab_in(folder.path(), "analyze --trace reads.csv").ok();
    assert!(text.contains("2 requests") && text.contains("holds no writes"), "{text}");
    assert!(!text.contains("NaN"), "{text}");
}

#[test]
fn standard_input_is_analysed_but_has_no_headroom() {
    let folder = scratch();
    let mut child = command(folder.path(), "analyze --trace -")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = child.stdin.take().expect("piped");
    input
        .write_all(b"timestamp_us,op,offset_bytes,length_bytes\n1,W,0,4096\n")
        .expect("room in the pipe");
    drop(input);
    let done = child.wait_with_output().expect("it ends");
    let text = String::from_utf8(done.stdout).expect("UTF-8");
    assert!(done.status.success() && text.contains("1 requests"), "{text}");
    assert!(text.contains("save standard input to a file"), "{text}");
}

#[test]
fn of_many_volumes_the_largest_are_shown_and_json_has_all() {
    let folder = scratch();
    let mut text = "device_id,opcode,offset,length,timestamp\n".to_owned();
    for volume in 0..300_u64 {
        let blocks = if volume == 299 { 50 } else { 1 + volume % 3 };
        text += &format!("{volume},W,0,{},{}\n", blocks * 4096, 1_577_808_000_000_000 + volume);
    }
    write(folder.path(), "many.csv", text);
    let shown = lab_in(folder.path(), "analyze --no-headroom --trace many.csv").ok();
    let from = shown.find(" tenant ").expect("a table");
    let rows: Vec<&str> = shown[from..].lines().skip(2).take(21).collect();
    assert!(rows[0].contains("299") && rows[0].contains("200 KiB"), "{shown}");
    assert!(rows[20].contains("280 more (--json has each)"), "{shown}");
    assert!(shown.lines().count() < 60, "{shown}");
    let json = lab_in(folder.path(), "analyze --no-headroom --json --trace many.csv").json();
    assert_eq!(json["profile"]["tenants"].as_array().map(Vec::len), Some(300));
    let split = lab_in(folder.path(), "convert --trace many.csv --split parts");
    assert!(split.err.contains("280 more files of volumes with fewer requests"), "{}", split.err);
    assert_eq!(std::fs::read_dir(folder.path().join("parts")).expect("made").count(), 300);
}

#[test]
fn several_traces_have_a_row_each_and_a_window_cuts_one() {
    let many = lab("analyze --no-headroom --traces postgres-tpcc rocksdb-overwrite").ok();
    assert!(many.contains("postgres-tpcc") && many.contains("rocksdb-overwrite"), "{many}");
    let many = lab("analyze --no-headroom --json --traces postgres-tpcc rocksdb-overwrite").json();
    let requests = |analysis: &serde_json::Value| analysis["profile"]["requests"].as_u64();
    let one = lab("analyze --no-headroom --json --trace postgres-tpcc").json();
    assert_eq!(requests(&many[0]), requests(&one));
    let window = |times: &str| {
        let asked = format!("analyze --no-headroom --json --trace postgres-tpcc {times}");
        requests(&lab(&asked).json()).expect("a number")
    };
    let middle = one["profile"]["duration_s"].as_f64().expect("seconds") / 2.0;
    let halves = window(&format!("--until {middle}s")) + window(&format!("--from {middle}s"));
    assert_eq!(Some(halves), requests(&one));
    let refused = lab("analyze --no-headroom --trace postgres-tpcc --from 2h").refused(2);
    assert!(refused.contains("no request lies in the window"), "{refused}");
}
