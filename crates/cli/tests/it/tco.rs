//! `lab tco`.

use crate::{lab, scratch};

const RUN: &str =
    "--workload zipf:0.99 --span 128MiB --drive-writes 2 --data 100TB --daily-writes 20TB";

#[test]
fn stacks_are_compared_and_the_bill_adds_up() {
    let out = lab(&format!("tco --json --stack raw:p5316 --stack log:p5316 {RUN}")).json();
    assert_eq!(out["schema"], "thermocline.tco/1");
    let costs = out["costs"].as_array().expect("costs");
    for cost in costs {
        let bill = cost["bill"].as_object().expect("a bill");
        let sum: f64 = bill.values().filter_map(serde_json::Value::as_f64).sum();
        let usd = |which: &str| cost["usd"][which].as_f64().expect(which);
        assert!(usd("p10") < sum && sum < usd("p90"), "{cost}");
        assert!(usd("p10") < usd("p50") && usd("p50") < usd("p90"), "{cost}");
    }
    let shares: f64 = costs.iter().filter_map(|cost| cost["cheapest_share"].as_f64()).sum();
    assert!((shares - 1.0).abs() < 1e-9);
    // Nine drives of each: writes that are shaped save their replacements.
    let verdict = out["verdict"].as_str().expect("a verdict");
    assert!(verdict.starts_with("log:p5316 costs least"), "{verdict}");
}

#[test]
fn records_serve_as_well_as_runs_and_prices_can_be_replaced() {
    let folder = scratch();
    let record = folder.path().join("run.json");
    let record = record.to_str().expect("text");
    let run =
        "--stack raw:p5316 --workload zipf:0.99 --span 128MiB --drive-writes 2 --queue-depth 32";
    lab(&format!("run {run} --utilisation 0.8 --record {record}")).ok();
    let demand = "--data 100TB --daily-writes 20TB --json";
    let from_record = lab(&format!("tco --record {record} {demand}")).json();
    let from_run = lab(&format!("tco --stack raw:p5316 {RUN} --json")).json();
    assert_eq!(from_record["costs"], from_run["costs"]);
    let dear =
        lab(&format!("tco --record {record} {demand} --price energy.usd_per_kwh=0.24")).json();
    let energy = |out: &serde_json::Value| out["costs"][0]["bill"]["energy"].as_f64().expect("USD");
    assert!((energy(&dear) / energy(&from_record) - 2.0).abs() < 1e-9);
}

#[test]
fn what_cannot_be_reckoned_is_named() {
    for (arguments, reason) in [
        ("tco", "--case"),
        ("tco --stack raw:p5316 --workload uniform", "--data 100TB"),
        ("tco --case beer", "wine, cloudmark, llog, csal"),
        ("tco --case csal --price energy.usd=1", "unknown field"),
    ] {
        let refused = lab(arguments).refused(2);
        assert!(refused.contains(reason), "{arguments}: {refused}");
    }
    let ideal = format!("tco --stack raw:ideal {RUN}");
    assert!(lab(&ideal).refused(2).contains("[drive.ideal]"));
}

#[test]
fn a_case_has_theirs_beside_ours() {
    let out = lab("tco --case csal --json").json();
    let published = out["published"].as_array().expect("ratios");
    assert_eq!(published.len(), 2);
    assert!(published.iter().all(|ratio| ratio["ours"].as_f64() > Some(1.0)), "{published:?}");
    assert_eq!(out["costs"][2]["stack"], "QLC behind a fast tier");
    // A fast drive is in a slot of its own: both flash stacks have as many servers.
    let servers = |stack: usize| out["costs"][stack]["fleet"]["servers"].as_f64();
    assert_eq!(servers(1), servers(2));
    let flip = &out["flip"];
    assert_ne!(flip["from"], flip["value"], "{flip}");
}
