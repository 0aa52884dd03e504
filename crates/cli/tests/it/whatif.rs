//! The benefit of options: equal media, equal volume, and figures of runs only.

use serde_json::Value;

use super::{lab_in, scratch, write};

/// Two volumes: one is rewritten in place all the time, one grows by files of 256 KiB that are deleted again.
fn trace(discards: bool, volumes: bool) -> String {
    let mut text = String::from("timestamp_us,op,offset_bytes,length_bytes,volume\n");
    let mut now = 0;
    let mut line = |op: &str, offset: u64, length: u64, volume: u64| {
        now += 100;
        let volume = if volumes { volume } else { 0 };
        let offset = offset + if volumes { 0 } else { volume << 30 };
        text += &format!("{now},{op},{offset},{length},{volume}\n");
    };
    for round in 0..6_u64 {
        for block in super::numbers(8192).skip(round as usize * 6000).take(6000) {
            line("W", block * 4096, 4096, 0);
        }
        for file in 0..64_u64 {
            let place = (1 << 26) + (file + round % 2 * 64) * (256 << 10);
            line("W", place, 256 << 10, 1);
            if discards && round > 0 {
                line("D", (1 << 26) + (file + (round + 1) % 2 * 64) * (256 << 10), 256 << 10, 1);
            }
        }
    }
    text
}

fn options(json: &Value) -> Vec<&Value> {
    json["options"].as_array().expect("options").iter().collect()
}

fn of<'a>(json: &'a Value, option: &str) -> &'a Value {
    let all = options(json);
    all.into_iter().find(|answer| answer["option"] == option).unwrap_or_else(|| panic!("{option}"))
}

const WHATIF: &str = "whatif --device ideal,unit=256KiB,op=0.15 --utilisation 0.95 --loops 2 --fast-share 0.3 --json --trace";

#[test]
fn every_option_is_on_the_same_media_and_holds_the_same_volume() {
    let folder = scratch();
    write(folder.path(), "both.csv", trace(true, true));
    let json = lab_in(folder.path(), &format!("{WHATIF} both.csv")).json();
    assert_eq!(json["schema"], "thermocline.whatif/1");
    let media = json["media_bytes"].as_u64().expect("bytes");
    for answer in options(&json) {
        let name = answer["option"].as_str().expect("a name");
        assert!(answer["unsupported"].is_null(), "{name}: {answer}");
        assert_eq!(answer["media_bytes"].as_u64(), Some(media), "{name}");
        assert!(answer["waf"].as_f64().is_some_and(|waf| waf > 0.3), "{name}: {answer}");
        assert!(!answer["verdict"].as_str().expect("a sentence").is_empty());
        let fast = answer["fast_bytes"].as_u64();
        assert_eq!(fast.is_some(), name.contains("fast tier"), "{name}: {fast:?}");
    }
    let waf = |option: &str| of(&json, option)["waf"].as_f64().expect("measured");
    assert!(waf("discards") < waf("as it is"), "half of the files are deleted at any time");
}

#[test]
fn what_a_trace_cannot_tell_is_said_and_not_called_equal() {
    let folder = scratch();
    write(folder.path(), "neither.csv", trace(false, false));
    let json = lab_in(folder.path(), &format!("{WHATIF} neither.csv")).json();
    for (option, why) in [("discards", "discards nothing"), ("hints", "one volume")] {
        let answer = of(&json, option);
        assert!(answer["waf"].is_null(), "{answer}");
        assert!(answer["unsupported"].as_str().is_some_and(|text| text.contains(why)), "{answer}");
        assert!(answer["verdict"].as_str().is_some_and(|text| text.starts_with("cannot be said")));
    }
    let text = lab_in(folder.path(), &format!("{WHATIF} neither.csv").replace(" --json", "")).ok();
    assert!(text.contains("the same for all") && text.contains("hints: cannot be said"), "{text}");
    let complaint = lab_in(folder.path(), "whatif --device p5800x --workload uniform").refused(2);
    assert!(complaint.contains("relocates nothing"), "{complaint}");
}

#[test]
fn one_trace_on_one_drive_has_one_life() {
    let folder = scratch();
    write(folder.path(), "both.csv", trace(true, true));
    let asked = "--utilisation 0.8 --loops 2 --json --trace both.csv";
    let whatif = lab_in(folder.path(), &format!("whatif --device micron2300 {asked}")).json();
    let stack = "raw:micron2300,kind=conventional";
    let run = lab_in(folder.path(), &format!("run --stack {stack} --ignore-trims {asked}")).json();
    let years = |value: &Value| value.as_f64().expect("years");
    let (ours, theirs) =
        (years(&of(&whatif, "as it is")["life_years_p50"]), years(&run["life"]["years_p50"]));
    assert!((ours / theirs - 1.0).abs() < 0.02, "{ours} and {theirs}");
    let load = whatif["load"].as_str().expect("a load");
    assert!(load.contains("the trace's own pace"), "{load}");
    let text = lab_in(
        folder.path(),
        &format!("whatif --device micron2300 {asked}").replace(" --json", ""),
    );
    assert!(text.out.contains(&format!("life: {load}")), "{}", text.out);
}
