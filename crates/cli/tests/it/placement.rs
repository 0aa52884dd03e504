//! `bench-placement`.

use crate::{lab, lab_in, repository, scratch};

const SMALL: &str = "bench-placement --blocks 40000 --turnovers 3 --segment 64";

#[test]
fn every_policy_is_measured_and_prediction_beats_no_separation() {
    let run = format!("{SMALL} --only-workload hotcold-10-90 --only-victim kawaguchi,own --json");
    let outcome = lab(&run).json();
    assert_eq!(outcome["schema"], "thermocline.bench-placement/1");
    let table = &outcome["tables"][0];
    assert_eq!(
        (table["workload"].as_str(), table["blocks"].as_u64()),
        (Some("hotcold-10-90"), Some(40_000))
    );
    assert_eq!(table["blocks_measured"], 60_000);
    let limit = table["limit"].as_f64().expect("a closed form");
    let lines = table["lines"].as_array().expect("one per policy");
    let waf = |policy: &str| {
        let line = lines.iter().find(|line| line["policy"] == policy);
        let best = line.unwrap_or_else(|| panic!("{policy} is missing"))["wafs"][0][1].as_f64();
        best.expect("it fits")
    };
    for policy in
        ["sepgc", "lsm-zgc:0.8", "sepbit", "dac:6", "fadac:6", "sfs:6", "warcip:6", "mida:5"]
    {
        assert!(waf(policy) < waf("none"), "{policy}: {} against {}", waf(policy), waf("none"));
    }
    assert!(waf("oracle-future") < limit && limit < waf("dac:6"));
    let own = |policy: &str| {
        let line = lines.iter().find(|line| line["policy"] == policy).expect("listed");
        line["wafs"][1][1].as_f64()
    };
    assert!(own("sfs:6").is_some() && own("midas").is_some() && own("multilog:6").is_some());
    assert_eq!(own("dac:6"), None, "it has no victim rule of its own");
}

#[test]
fn traces_of_a_folder_are_measured_whole_and_reported_on_one_page() {
    let folder = scratch();
    let traces = repository().join("crates/workload/testdata");
    let run = format!(
        "bench-placement --traces {} --only-workload cassandra-ycsb-a --only-policy sepgc,dac:3 \
         --only-victim greedy --garbage 0.1,0.15 --jobs 2 --report page.html --record out.json",
        traces.display()
    );
    let text = lab_in(folder.path(), &run).ok();
    assert!(text.contains("cassandra-ycsb-a: garbage 10.00 %") && text.contains("dac:3"), "{text}");
    assert!(text.contains("best WAF"), "two tables have a summary: {text}");
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("written");
    assert!(page.starts_with("<!doctype html>") && page.contains("cassandra-ycsb-a"));
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("<script"));
    let record = std::fs::read_to_string(folder.path().join("out.json")).expect("written");
    let record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!(record["tables"].as_array().map(Vec::len), Some(2));
    assert_eq!(record["tables"][0]["is_trace"], true);
}

#[test]
fn what_does_not_exist_is_refused_with_what_does() {
    let error = lab("bench-placement --only-workload zipf-7").refused(2);
    assert!(error.contains("`zipf-7`") && error.contains("zipf-1.0"), "{error}");
    let error = lab("bench-placement --only-policy dac:99").refused(2);
    assert!(error.contains("dac:99") && error.contains("oracle-future"), "{error}");
    let error =
        lab("bench-placement --garbage 1.5 --only-workload uniform --blocks 1000").refused(2);
    assert!(error.contains("1.5"), "{error}");
    lab("bench-placement --turnovers 0").refused(2);
}

#[test]
fn a_trace_is_explained_with_the_figures_of_its_table() {
    let trace = repository().join("crates/workload/testdata").join("postgres-tpcc.csv.gz");
    let about = lab(&format!("explain --trace {} --jobs 2 --json", trace.display())).json();
    assert_eq!(about["schema"], "thermocline.explain/1");
    assert_eq!(about["winner"]["policy"], "auto");
    let waf = |key: &str| about[key].as_f64().expect("a WAF");
    let winner = about["winner"]["waf"].as_f64().expect("a WAF");
    assert!(waf("waf_perfect") < winner && winner < waf("waf_without"), "{winner}");
    let sentences = about["sentences"].to_string();
    assert!(sentences.contains("its own victim rule"), "{sentences}");
    assert!(sentences.contains(&format!("{winner:.3}")), "{sentences}");
}

#[test]
fn lines_that_cannot_be_read_are_left_out_of_an_explanation_when_asked() {
    let folder = crate::scratch();
    let line = |i: u64| format!("{i},W,{},4096\n", i * 2_654_435_761 % 4096 * 4096);
    let text = (0..8192).map(line).collect::<String>();
    crate::write(folder.path(), "t", format!("{text}8192,W,4096\n"));
    let explain = |more: &str| crate::lab_in(folder.path(), &format!("explain --trace t{more}"));
    let refused = explain("").refused(2);
    assert!(refused.contains("t:8193: expected a length in bytes in column 4"), "{refused}");
    let told = explain(" --skip-bad").ok();
    assert!(told.contains("\n1 lines of the trace could not be read and were left out."), "{told}");
}

#[test]
fn a_tag_stack_takes_a_policy_and_records_it() {
    let run = "run --json --workload zipf:1.0 --span 64MiB --drive-writes 2 --placement";
    let record = lab(&format!("{run} auto --stack tag:pm9d3")).json();
    assert_eq!(record["config"]["tag.placement"], "auto");
    let record = lab(&format!("{run} auto --stack tag:pm9d3,tag.placement=sfr:9")).json();
    assert_eq!(record["config"]["tag.placement"], "sfr:9", "the stack's own comes first");
    let record = lab(&format!("{run} tenant --stack tag:pm9d3")).json();
    assert_eq!(record["config"]["tag.placement"], "tenant");
}

#[test]
fn a_tag_stack_takes_what_the_application_tells_of_a_trace() {
    let trace = repository().join("crates/workload/testdata").join("postgres-tpcc.csv.gz");
    let drive = "pm1725a,streams.count=8,op=0.17,buffer.merge=false,gc.separate=false";
    let run = format!("run --json --trace {} --loops 1 --ignore-trims --stack", trace.display());
    let waf = |record: &serde_json::Value| record["waf"].as_f64().expect("a WAF");
    let without = lab(&format!("{run} raw:{drive}")).json();
    for told in ["volume", "hint"] {
        let record = lab(&format!("{run} tag:{drive} --placement {told}")).json();
        assert_eq!(record["config"]["tag.placement"], told);
        assert!(
            waf(&record) < 0.95 * waf(&without),
            "{told}: {} of {}",
            record["waf"],
            without["waf"]
        );
    }
    let listed = lab("list placements").ok();
    assert!(listed.contains("volume") && listed.contains("hint"), "{listed}");
}

#[test]
fn the_engine_stands_beside_the_yardstick_and_says_what_it_costs() {
    let run = "bench-placement --only-workload uniform --blocks 100000 --turnovers 2 --garbage 0.2 --only-policy sepgc \
               --only-victim greedy --through engine";
    let text = lab(run).ok();
    for cause in ["headers", "maps", "superblocks", "empty units", "open units", "unexplained"] {
        assert!(text.contains(cause), "{cause}: {text}");
    }
    let through = &lab(&format!("{run} --json")).json()["tables"][0]["through"][0];
    let waf = |value: &serde_json::Value| value.as_f64().expect("a WAF");
    assert!(waf(&through["yardstick"]) < waf(&through["engine"]), "{through}");
    assert_eq!(through["causes"][0]["cause"], "headers");
    let error = lab(&format!("{run} --discards")).refused(2);
    assert!(error.contains("--discards"), "{error}");
    lab(&format!("{run} --set log.victims=none")).refused(2);
    lab("bench-placement --set pool.victim=greedy").refused(2);
}
