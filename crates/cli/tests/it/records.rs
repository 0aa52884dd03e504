//! The run record on standard output: the contract `thermocline.run/1`, and determinism.

use serde_json::Value;

use crate::lab;

const QUICK: &str = "run --json --workload zipf:0.9 --span 64MiB --drive-writes 4";

/// A field of the contract and the type it must have.
type Field = (&'static str, fn(&Value) -> bool);

/// Every field of the contract on a timed drive of known endurance.
const FIELDS: [Field; 32] = [
    ("schema", Value::is_string),
    ("version", Value::is_string),
    ("stack", Value::is_string),
    ("device", Value::is_object),
    ("workload", Value::is_object),
    ("config", Value::is_object),
    ("seed", Value::is_u64),
    ("prefill_bytes_written", Value::is_u64),
    ("host_bytes_written", Value::is_u64),
    ("host_bytes_read", Value::is_u64),
    ("host_bytes_trimmed", Value::is_u64),
    ("requests", Value::is_u64),
    ("engine_bytes_written", Value::is_object),
    ("device_bytes_written", Value::is_u64),
    ("media_bytes_written", Value::is_object),
    ("media_bytes_erased", Value::is_u64),
    ("alwa", Value::is_f64),
    ("dlwa", Value::is_f64),
    ("waf", Value::is_f64),
    ("alwa_steady", Value::is_f64),
    ("dlwa_steady", Value::is_f64),
    ("waf_steady", Value::is_f64),
    ("steady_state", Value::is_object),
    ("latency_ns", Value::is_object),
    ("bandwidth", Value::is_object),
    ("life", Value::is_object),
    ("series", Value::is_array),
    ("units", Value::is_object),
    ("wear", Value::is_object),
    ("notes", Value::is_array),
    ("host_blocks_per_cpu_second", Value::is_f64),
    ("peak_rss_bytes", Value::is_u64),
];

fn f64_of(record: &Value, key: &str) -> f64 {
    record[key].as_f64().unwrap_or_else(|| panic!("{key} is a number"))
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9 * b.abs().max(1.0)
}

/// The record without the machine's costs of the run.
fn comparable(arguments: &str) -> Value {
    let mut record = lab(arguments).json();
    let fields = record.as_object_mut().expect("an object");
    fields.remove("host_blocks_per_cpu_second").expect("there");
    fields.remove("peak_rss_bytes").expect("there");
    record
}

#[test]
fn every_field_of_the_contract_is_there_with_its_type() {
    let record = lab(&format!("{QUICK} --stack raw:p5316 --read-share 0.2")).json();
    for (field, has_type) in FIELDS {
        assert!(has_type(&record[field]), "{field}: {}", record[field]);
    }
    assert_eq!(record["schema"], "thermocline.run/1");
    assert_eq!(record["workload"]["prefill"], "sequential");
    for kind in ["read", "write"] {
        for percentile in ["count", "p50", "p90", "p99", "p99_9", "p99_99", "max"] {
            assert!(record["latency_ns"][kind][percentile].is_u64(), "{kind} {percentile}");
        }
    }
    for key in ["years_p10", "years_p50", "years_p90", "drive_writes_per_day"] {
        assert!(record["life"][key].is_f64(), "{key}");
    }
    assert!(record["life"]["verdict"].as_str().is_some_and(|verdict| !verdict.is_empty()));
    assert!(record["life"]["assumptions"].as_array().is_some_and(|all| !all.is_empty()));
    assert!(record["steady_state"]["reached"].is_boolean());
    assert!(record["steady_state"]["rule"].as_str().is_some_and(|rule| rule.contains("SNIA")));
}

#[test]
fn the_bytes_add_up_and_the_ratios_follow_from_them() {
    for stack in
        ["raw:p5316", "raw:pm9d3", "tag:pm1725a", "raw:micron2300", "raw:p5800x", "raw:ideal"]
    {
        let record = lab(&format!("{QUICK} --io-size 8KiB --stack {stack}")).json();
        let media = &record["media_bytes_written"];
        let causes = media["by_cause"].as_object().expect("causes");
        let sum: u64 = causes.values().map(|bytes| bytes.as_u64().expect("bytes")).sum();
        assert_eq!(media["total"].as_u64(), Some(sum), "{stack}: causes sum to the total");
        let host = f64_of(&record, "host_bytes_written");
        assert!(near(host, 4.0 * 64.0 * 1024.0 * 1024.0), "{stack} wrote {host}");
        assert!(near(f64_of(&record, "waf"), sum as f64 / host), "{stack}");
        for tail in ["", "_steady"] {
            let [alwa, dlwa, waf] =
                ["alwa", "dlwa", "waf"].map(|name| f64_of(&record, &format!("{name}{tail}")));
            assert!(near(alwa * dlwa, waf), "{stack}: {alwa} x {dlwa} is {waf}");
        }
        let last = record["series"].as_array().and_then(|series| series.last()).expect("a series");
        assert_eq!(last["host_bytes"], record["host_bytes_written"], "{stack}");
    }
}

#[test]
fn what_is_not_modelled_is_absent() {
    let record = lab(&format!("{QUICK} --stack raw:ideal")).json();
    for field in ["latency_ns", "bandwidth", "life", "fdp"] {
        assert!(record[field].is_null(), "{field}: {}", record[field]);
    }
    let fdp = lab(&format!("{QUICK} --stack tag:pm9d3")).json();
    assert_eq!(fdp["fdp"]["hbmw"], fdp["host_bytes_written"]);
    assert_eq!(fdp["fdp"]["mbmw"], fdp["media_bytes_written"]["total"]);
}

#[test]
fn equal_seeds_give_equal_records_and_others_do_not() {
    let [first, again, other] =
        [7, 7, 8].map(|seed| comparable(&format!("{QUICK} --stack raw:p5316 --seed {seed}")));
    assert_eq!(first, again);
    assert_ne!(first["media_bytes_written"], other["media_bytes_written"]);
}

#[test]
fn traces_are_prefilled_by_first_touch_and_say_so() {
    let record = lab(
        "run --json --stack raw:p5316 --trace crates/workload/testdata/rocksdb-overwrite.csv.gz",
    )
    .json();
    assert_eq!(record["workload"]["kind"], "trace");
    assert_eq!(record["workload"]["format"], "thermocline-csv");
    assert_eq!(record["workload"]["prefill"], "first-touch");
    assert_eq!(record["prefill_bytes_written"], record["workload"]["working_set_bytes"]);
    assert!(f64_of(&record, "host_bytes_trimmed") > 0.0);
}

#[test]
fn a_full_zoned_drive_of_any_size_is_written_without_amplification() {
    // 100 MiB is no multiple of the zones it is cut into: the last one is used in part.
    for span in ["64MiB", "100MiB"] {
        let record = lab(&format!(
            "run --json --stack raw:zn540 --workload seq --span {span} --drive-writes 2"
        ))
        .json();
        assert!(near(f64_of(&record, "waf"), 1.0), "{}", record["waf"]);
        assert!(record["device"]["overprovisioning"].as_f64().is_some_and(|op| op >= 0.0));
    }
}

#[test]
fn the_end_of_life_ends_the_run_with_a_record() {
    for stack in ["raw:p5316", "raw:pm9d3"] {
        let record =
            lab(&format!("{QUICK} --stack {stack} --set device.wear.pe_cycles=3 --io-size 12KiB"))
                .json();
        assert_eq!(record["wear"]["end_of_life"], true, "{stack}");
        let notes = record["notes"].to_string();
        assert!(notes.contains("wore out"), "{stack}: {notes}");
    }
}

#[test]
fn settings_without_effect_are_named() {
    let record =
        lab(&format!("{QUICK} --stack raw:ideal --queue-depth 4 --daily-writes 1GB")).json();
    let notes = record["notes"].to_string();
    assert!(notes.contains("`queue_depth`") && notes.contains("`daily_writes`"), "{notes}");
    let record = lab(&format!("{QUICK} --stack raw:p5800x --victim fifo")).json();
    assert!(record["notes"].to_string().contains("`victim`"), "{}", record["notes"]);
}

#[test]
fn the_command_in_a_record_makes_it_again() {
    let first = lab("run --json --stack raw:ideal,op=0.2 --workload zipf:1.1 --span 64MiB --writes 40000 --seed 9").json();
    let command = first["command"].as_str().expect("a command");
    let again = lab(command.strip_prefix("thermocline lab ").expect("the program's name")).json();
    assert_eq!(again["media_bytes_written"], first["media_bytes_written"]);
    assert_eq!(again["series"], first["series"]);
}

/// One pass of a trace is its own whole; more passes must not change the answer much, and five are steady.
#[test]
fn passes_over_a_trace_agree_and_only_five_are_steady() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../workload/testdata/postgres-tpcc.csv.gz");
    let run = |loops: &str| {
        let record = lab(&format!("run --json --stack raw:ideal --trace {trace} {loops}")).json();
        let steady = record["steady_state"]["reached"].as_bool().expect("a verdict");
        assert_eq!(record["waf_steady"].is_f64(), steady, "a ratio of steady state");
        assert!(record["waf_last_half"].is_f64() && record["waf_last_quarter"].is_f64());
        (steady, record["lasting"]["waf"].as_f64().expect("a ratio"))
    };
    let (by_default, waf) = run("");
    assert!(by_default, "five passes are the default");
    for passes in 1..=5 {
        let (steady, other) = run(&format!("--loops {passes}"));
        assert_eq!(steady, passes == 5, "{passes} passes");
        assert!((other / waf - 1.0).abs() < 0.05, "{passes} passes: {other}, not {waf}");
    }
}

/// WAF is the capacity device's WAF, and so are the log's parts of WAF.
#[test]
fn the_parts_of_the_waf_of_a_tier_are_those_of_the_capacity_device() {
    let folder = crate::scratch();
    let run = "run --stack tier:p5800x+p5316 --capacity 512MiB --workload zipf:1.0 --span 384MiB --drive-writes 2";
    let record = crate::lab_in(folder.path(), &format!("{run} --json")).json();
    let table = crate::lab_in(folder.path(), run).ok();
    let bytes = |tier: &str, cause: &str| {
        record["engine_bytes_written"][tier][cause].as_f64().unwrap_or(0.0)
    };
    let host = record["host_bytes_written"].as_f64().expect("bytes");
    for (row, cause) in
        [("destage", "destage"), ("relocation", "relocation"), ("metadata", "metadata")]
    {
        let line = table.lines().find(|line| line.contains(&format!("log: {row} ")));
        let shown = line.and_then(|line| line.trim_end().rsplit('+').next()?.parse().ok());
        let expected = bytes("capacity", cause) / host;
        let found: f64 = shown.unwrap_or(0.0);
        assert!((found - expected).abs() < 0.000_51, "{row}: {found}, not {expected}\n{table}");
    }
    let fast = ["relocation", "metadata"].map(|cause| bytes("fast", cause) / host);
    assert!(fast[0].max(fast[1]) > 0.002, "the fast device has parts that would show: {fast:?}");
}

#[test]
fn a_record_is_explained_from_the_application_down_to_the_media() {
    let folder = crate::scratch();
    let run = "run --json --stack tier:p5800x+p5316 --capacity 512MiB --workload zipf:1.0 --span 384MiB \
               --drive-writes 2 --record run.json";
    let record = crate::lab_in(folder.path(), run).json();
    let waterfall = crate::lab_in(folder.path(), "explain --record run.json --json").json();
    let number = |value: &Value| value.as_u64().expect("bytes");
    let levels = waterfall["levels"].as_array().expect("levels");
    let place = |level: &Value| format!("{} {}", level["class"], level["kind"]).replace('"', "");
    let places: Vec<String> = levels.iter().map(place).collect();
    assert_eq!(places, ["fast devices", "fast media", "capacity devices", "capacity media"]);
    for level in levels {
        let added = level["added"].as_array().expect("causes");
        let added: u64 = added.iter().map(|cause| number(&cause[1])).sum();
        assert_eq!(number(&level["passed"]) + added, number(&level["bytes"]), "{level}");
    }
    assert_eq!(levels[2]["bytes"], record["device_bytes_written"]);
    assert_eq!(levels[3]["bytes"], record["media_bytes_written"]["total"]);
    let host = number(&waterfall["host"]) - number(&waterfall["absorbed"]);
    let arrived = number(&levels[0]["passed"]) + number(&levels[2]["passed"]);
    assert_eq!(host, arrived, "what was not absorbed arrived");
    let told = crate::lab_in(folder.path(), "explain --record run.json").ok();
    for part in ["application", "destage, capacity devices: +", "a larger fast device", "p5800x: "]
    {
        assert!(told.contains(part), "`{part}` is missing:\n{told}");
    }
    let wrong = crate::lab_in(folder.path(), "explain --record nowhere.json").refused(1);
    assert!(wrong.contains("cannot read nowhere.json"), "{wrong}");
}

#[test]
fn a_run_is_shown_beside_an_earlier_one_with_what_has_changed() {
    let folder = crate::scratch();
    let run = "run --stack raw:ideal --workload uniform --span 16MiB --drive-writes 2";
    crate::lab_in(folder.path(), &format!("{run} --record old.json")).ok();
    let again = crate::lab_in(folder.path(), &format!("{run} --against old.json")).ok();
    assert!(again.contains("(+0.0 %)"), "{again}");
    let other = format!("{run} --set device.op=0.5 --against old.json");
    let other = crate::lab_in(folder.path(), &other).ok();
    for part in
        ["against the earlier run of raw:ideal", "  WAF ", " instead of ", "overprovisioning 0.49"]
    {
        assert!(other.contains(part), "`{part}` is missing:\n{other}");
    }
    let refused = crate::lab_in(folder.path(), &format!("{run} --against none.json")).refused(1);
    assert!(refused.contains("cannot read none.json"), "{refused}");
}
