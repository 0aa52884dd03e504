//! Stacks with the log layer, run as commands.

use crate::{lab, lab_in, scratch};

/// A short run with garbage collection.
const RUN: &str = "run --json --stack log:ideal --workload zipf:0.9 --span 64MiB --drive-writes 2 \
                   --set device.unit=512KiB --set device.garbage=0.3 --set pool.write_cache=off";

#[test]
fn a_log_has_a_record_like_any_other_and_its_bytes_sum() {
    let record = lab(RUN).json();
    let causes = record["engine_bytes_written"]["capacity"].as_object().expect("causes of the log");
    let names: Vec<&str> = causes.keys().map(String::as_str).collect();
    assert_eq!(names, ["host", "metadata", "read_modify_write", "relocation"]);
    let sum: u64 = causes.values().filter_map(serde_json::Value::as_u64).sum();
    assert_eq!(Some(sum), record["device_bytes_written"].as_u64());
    let ratio = |key: &str| record[key].as_f64().expect("a ratio");
    assert!((ratio("alwa") * ratio("dlwa") / ratio("waf") - 1.0).abs() < 1e-9);
    assert!(ratio("alwa") > 1.2 && (ratio("dlwa") - 1.0).abs() < 0.01, "{}", ratio("alwa"));
    let units = record["units"]["valid"].as_array().expect("a map of the units");
    assert!(units.iter().any(|share| share.as_f64() > Some(0.5)));
}

#[test]
fn settings_of_the_log_reach_it_and_are_in_the_record() {
    let asked = "--placement lsm-zgc:0.6 --victim greedy --set pool.read_plan=segment --set pool.write_depth=2";
    let record = lab(&format!("{RUN} {asked}")).json();
    for (key, value) in [
        ("pool.placement", "lsm-zgc:0.6"),
        ("pool.victim", "greedy"),
        ("pool.read_plan", "segment"),
    ] {
        assert_eq!(record["config"][key], value, "{key}");
    }
    assert_eq!(record["config"]["pool.write_depth"], 2);
    let own = lab(&RUN.replace("log:ideal", "log:ideal,pool.placement=none")).json();
    assert_eq!(own["config"]["pool.placement"], "none");
    assert_ne!(own["waf"], record["waf"]);
}

#[test]
fn equal_seeds_give_equal_logs() {
    let one = lab(&format!("{RUN} --seed 7")).json();
    let two = lab(&format!("{RUN} --seed 7")).json();
    let other = lab(&format!("{RUN} --seed 8")).json();
    for key in ["engine_bytes_written", "series", "units", "waf"] {
        assert_eq!(one[key], two[key], "{key}");
    }
    assert_ne!(one["engine_bytes_written"], other["engine_bytes_written"]);
}

#[test]
fn a_drive_alone_and_under_a_log_are_compared_in_one_report() {
    let folder = scratch();
    let table = lab_in(
        folder.path(),
        "compare --stack raw:pm9d3 --stack log:zn540 --workload uniform --span 64MiB --drive-writes 1 \
         --utilisation 0.7 --report both.html",
    )
    .ok();
    for row in ["log: ALWA x DLWA", "log: relocation", "log: metadata"] {
        assert!(table.contains(row), "{table}");
    }
    let page = std::fs::read_to_string(folder.path().join("both.html")).expect("the report");
    assert!(page.contains("log:zn540") && page.contains("raw:pm9d3"));
}

#[test]
fn settings_of_a_log_that_is_not_there_are_named() {
    let record = lab(
        "run --json --stack raw:ideal --workload uniform --span 16MiB --set pool.write_depth=2",
    )
    .json();
    let notes = record["notes"].to_string();
    assert!(notes.contains("without a log: log.KEY or pool.KEY had no effect"), "{notes}");
}
