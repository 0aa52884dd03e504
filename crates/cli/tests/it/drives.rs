//! `drive`.

use std::fmt::Write as _;

use serde_json::Value;

use crate::serve::run;
use crate::{lab, scratch, write};

const LOAD: &str = "--workload zipf:1 --span 128MiB";

/// What `nvme fdp stats` would print of a simulated drive of 128 MiB with 256 units in its capacity.
fn log(apart: bool) -> String {
    let stack = format!("raw:ideal,op=0.2,unit=512KiB,gc.separate={apart}");
    let run =
        format!("run --stack {stack} {LOAD} --seed 9 --drive-writes 5.8 --prefill none --json");
    let record = lab(&run).json();
    let (mut text, mut media) = (String::new(), 0);
    let mut sample = |host: u64, media: u64| {
        let unit = 512 << 10;
        writeln!(
            text,
            "Mon Nov 30 10:00:00 UTC 2026\nHost Bytes with Metadata Written (HBMW): {host}\n\
             Media Bytes with Metadata Written (MBMW): {media}\nMedia Bytes Erased (MBE): {}",
            media / unit * unit
        )
        .expect("memory");
    };
    sample(0, 0);
    for step in record["series"].as_array().expect("a series") {
        media += step["media_bytes_written"].as_u64().expect("bytes");
        sample(step["host_bytes"].as_u64().expect("bytes"), media);
    }
    text
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Counters of a simulated drive give its spare, its unit and the place of survivors, and the profile predicts them.
#[test]
fn a_drive_is_found_in_its_counters_and_predicts_them() {
    let folder = scratch();
    for apart in [true, false] {
        write(folder.path(), "drive.log", log(apart));
        let calibrate = format!(
            "drive calibrate --log drive.log --capacity 128MiB {LOAD} --out drive.toml --json"
        );
        let found = run(folder.path(), &calibrate).json();
        assert_eq!(found["schema"], "thermocline.drive-calibrate/1");
        assert_eq!(found["survivors_apart"], apart, "{found}");
        assert_eq!(found["unit_bytes"], 512 << 10);
        let op = number(&found["overprovisioning"]);
        assert!((op - 0.2).abs() < 0.01, "{op}");
        let predict = format!("drive predict --log drive.log {LOAD} --drive drive.toml --json");
        let predicted = run(folder.path(), &predict).json();
        assert_eq!(predicted["schema"], "thermocline.drive-predict/1");
        assert_eq!(predicted["measured"].as_array().map(Vec::len), Some(10));
        let error = number(&predicted["median_error"]);
        assert!(error < 0.02, "{error}");
        let other = format!("{predict} --seed 3").replace("zipf:1", "uniform");
        let error = number(&run(folder.path(), &other).json()["median_error"]);
        assert!(error > 0.1, "another workload: {error}");
    }
    let lab_run = format!("lab run --stack raw:./drive.toml {LOAD} --drive-writes 1 --json");
    assert_eq!(run(folder.path(), &lab_run).json()["device"]["kind"], "conventional");
}

#[test]
fn tables_pages_and_profiles_are_written() {
    let folder = scratch();
    write(folder.path(), "drive.log", log(true));
    let profile = run(folder.path(), "drive calibrate --log drive.log --capacity 128MiB").ok();
    for part in ["op = 0.2", "assumed", "relocation begins between 1.1", "unit = \"512KiB\""] {
        assert!(profile.contains(part), "{part} is not in {profile}");
    }
    let predict = format!("drive predict --log drive.log --capacity 128MiB {LOAD} --report d.html");
    let table = run(folder.path(), &predict).ok();
    assert!(table.contains("0.00 to 0.58") && table.contains("Median error"), "{table}");
    let page = std::fs::read_to_string(folder.path().join("d.html")).expect("a page");
    for part in ["<svg", "WAF of each tenth", "measured", "predicted"] {
        assert!(page.contains(part), "{part} is not in the page");
    }
}

#[test]
fn what_a_log_does_not_show_is_asked_for() {
    let folder = scratch();
    write(folder.path(), "short.csv", "host_bytes,media_bytes\n0,0\n1000000,1000000\n");
    write(folder.path(), "old.csv", "host_bytes,media_bytes\n0,0\n1000000,3000000\n");
    write(folder.path(), "other.csv", "a,b\n0,0\n");
    for (arguments, said) in [
        ("calibrate --log short.csv", "give --capacity"),
        ("predict --log short.csv", "give --capacity"),
        ("calibrate --log short.csv --capacity 1MB", "before the drive relocates anything"),
        ("calibrate --log old.csv --capacity 2MB", "begin a log on an empty drive"),
        ("calibrate --log other.csv --capacity 2MB", "the columns host_bytes and media_bytes"),
        ("calibrate --log none.log --capacity 2MB", "cannot read none.log"),
        ("predict --log old.csv --drive raw:p5317", "p5316"),
        ("calibrate --log old.csv --capacity 2MB --op 0.1 --unit 4KiB --workload gauss", "uniform"),
    ] {
        let refused = run(folder.path(), &format!("drive {arguments}")).refused(2);
        assert!(refused.to_lowercase().contains(&said.to_lowercase()), "{arguments}: {refused}");
    }
}

/// Output of `nvme smart-log` and `nvme ocp smart-add-log` for a drive with `tb` of host writes in `hours`. WAF is
/// 2.5.
fn printed(tb: u64, hours: u64) -> [String; 2] {
    let units = tb * 1_000_000_000_000 / 512_000;
    let health = format!(
        "percentage_used : 7%\nData Units Written : {units} (x TB)\npower_on_hours : {hours}\n"
    );
    let media = tb * 2_500_000_000_000;
    [health, format!("  Physical media units written -               \t0 {media}\n")]
}

#[test]
fn what_nvme_cli_printed_tells_write_amplification_and_life() {
    let folder = scratch();
    let folder = folder.path();
    for (name, tb, hours) in [("old", 10, 8766), ("new", 12, 8814)] {
        let [health, ocp] = printed(tb, hours);
        write(folder, &format!("{name}.health"), health);
        write(folder, &format!("{name}.ocp"), ocp);
    }
    let told = run(folder, "drive stat new.health new.ocp").ok();
    assert!(told.contains("WAF: 2.500 since the drive was new"), "{told}");
    assert!(told.contains("life: 13.4 years with power are left"), "{told}");
    let between = "drive stat new.health new.ocp --since old.health --since old.ocp --json";
    let found = run(folder, between).json();
    let wear = &found["wear"];
    assert_eq!(
        (&wear["hours"], &wear["waf"]["host_bytes"]),
        (&48.into(), &2_000_000_000_000_u64.into())
    );
    assert_eq!(wear["daily_bytes"], 1e12, "{found}");
    let alone = run(folder, "drive stat new.health").ok();
    assert!(alone.contains("WAF: unknown: no record has media bytes"), "{alone}");
    write(folder, "none.txt", "hello\n");
    assert!(run(folder, "drive stat none.txt").refused(2).contains("none.txt has no counter"));
}
