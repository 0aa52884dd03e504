//! Pools on striped groups: with parity, flushed data survives the loss of any member.

use std::fs;
use std::path::Path;

use serde_json::Value;
use thermocline_types::Rng;

use super::serve::{Served, format_on, format_striped, run};
use super::serve_kill::{Known, SPAN, compare, durable, kill_and_compare, write_and_kill};
use super::serve_metrics::{metric, metrics, write_blocks};
use crate::scratch;

#[test]
fn killed_at_any_moment_a_striped_pool_loses_nothing() {
    kill_and_compare(|folder| format_striped(folder, "raid5", false), 8, 500);
    kill_and_compare(|folder| format_striped(folder, "raid0", true), 3, 100);
}

fn group(served: &Served) -> Value {
    served.status()["raids"][0].clone()
}

/// Each member is missing in turn: `check` passes, and all data can be read.
fn check_without_each(folder: &Path) {
    for name in ["a", "b", "c"] {
        let (path, away) = (folder.join(format!("{name}.img")), folder.join("away.img"));
        fs::rename(&path, &away).expect("it is there");
        let checked = run(folder, "check pool.toml");
        assert_eq!(checked.code, 0, "without {name}: {}{}", checked.out, checked.err);
        assert_eq!(run(folder, "scrub pool.toml").code, 0, "without {name}");
        fs::rename(&away, &path).expect("it is there");
    }
}

/// A row that a flush left short has nothing of most of its pieces.
#[test]
fn a_wide_group_is_served_again_after_kills() {
    let folder = scratch();
    let folder = folder.path();
    let member = |name| {
        format!("[[device]]\npath = '{name}.img'\nraid5 = 'g'\nsize = '64MiB'\nunit = '1MiB'\n")
    };
    format_on(folder, &["a", "b", "c", "d", "e", "f"].map(member).concat());
    let mut ledger = vec![Known::default(); SPAN as usize];
    let mut rng = Rng::new(17);
    for lost in ["a", "d", "f"] {
        let served = Served::start(folder, "");
        served.wait_until_whole("raids");
        compare(&mut served.client("main"), &mut ledger);
        write_and_kill(served, &mut ledger, &mut rng);
        fs::remove_file(folder.join(format!("{lost}.img"))).expect("it is there");
        let served = Served::start(folder, "");
        compare(&mut served.client("main"), &mut ledger);
        run(folder, &format!("device replace pool.toml {lost}.img")).ok();
        write_and_kill(served, &mut ledger, &mut rng);
    }
    run(folder, "check pool.toml").ok();
}

/// Serves, kills, and takes one member away, again and again: removed or overwritten with zeros. It is served at once,
/// and a new member filled while clients write.
#[test]
fn any_member_may_be_lost_with_a_kill_and_is_filled_while_serving() {
    let folder = scratch();
    let folder = folder.path();
    format_striped(folder, "raid5", true);
    let mut ledger = vec![Known::default(); SPAN as usize];
    let mut rng = Rng::new(5);
    for (lost, zeroed) in [("a", false), ("b", true), ("c", false)] {
        let served = Served::start(folder, "");
        served.wait_until_whole("raids");
        compare(&mut served.client("main"), &mut ledger);
        write_and_kill(served, &mut ledger, &mut rng);
        check_without_each(folder);
        let path = folder.join(format!("{lost}.img"));
        match zeroed {
            true => fs::write(&path, vec![0; 64 << 20]).expect("writable"),
            false => fs::remove_file(&path).expect("it is there"),
        }
        let status = run(folder, "status pool.toml").ok();
        assert!(status.starts_with("at risk: raid5 `g`: "), "{status}");
        let served = Served::start(folder, "");
        compare(&mut served.client("main"), &mut ledger);
        assert!(group(&served)["risk"].as_str().expect("text").contains("all other members"));
        let listed = run(folder, "device list pool.toml --json").json();
        assert_eq!(listed["raids"][0]["whole"], false, "{listed}");
        let other = if lost == "a" { "b" } else { "a" };
        let again = run(folder, &format!("device replace pool.toml {other}.img")).refused(2);
        assert!(again.contains("holds the pool"), "{again}");
        run(folder, &format!("device replace pool.toml {lost}.img")).ok();
        write_and_kill(served, &mut ledger, &mut rng);
    }
    assert!(durable(&ledger) > 500);
    let served = Served::start(folder, "");
    served.wait_until_whole("raids");
    compare(&mut served.client("main"), &mut ledger);
    assert_eq!(served.stop(), 0);
    check_without_each(folder);
    let doctor = run(folder, "doctor pool.toml").out;
    assert!(doctor.contains("all members of `g` are current"), "{doctor}");
}

/// A second member that is lost while the first one is filled: nothing is served, both are named, and with it back the
/// filling goes on.
#[test]
fn a_member_lost_while_another_is_filled_is_refused_by_name() {
    let folder = scratch();
    let folder = folder.path();
    format_striped(folder, "raid5", false);
    let settings = fs::read_to_string(folder.join("pool.toml")).expect("it is there");
    // The least there is: a minute, of which this takes seconds.
    fs::write(folder.join("pool.toml"), settings + "[pool]\nfill_rate = '1MiB'\n")
        .expect("writable");
    let mut ledger = vec![Known::default(); SPAN as usize];
    let mut rng = Rng::new(7);
    write_and_kill(Served::start(folder, ""), &mut ledger, &mut rng);
    fs::remove_file(folder.join("c.img")).expect("it is there");
    let served = Served::start(folder, "");
    compare(&mut served.client("main"), &mut ledger);
    run(folder, "device replace pool.toml c.img").ok();
    write_and_kill(served, &mut ledger, &mut rng);
    let (a, away) = (folder.join("a.img"), folder.join("away.img"));
    fs::rename(&a, &away).expect("it is there");
    for command in ["serve pool.toml", "check pool.toml", "device replace pool.toml a.img"] {
        let refused = run(folder, command).refused(2);
        assert!(refused.contains("a.img") && refused.contains("c.img"), "{command}: {refused}");
    }
    fs::rename(&away, &a).expect("it is there");
    let served = Served::start(folder, "");
    compare(&mut served.client("main"), &mut ledger);
    let group = group(&served);
    assert_eq!(group["whole"], false, "{group}");
    assert_eq!(group["members"][2]["state"], "filling", "{group}");
    assert_eq!(served.stop(), 0);
    assert!(durable(&ledger) > 50);
}

/// Missing, older and swapped members are recognised by their labels.
#[test]
fn a_member_that_was_away_is_never_taken_for_current() {
    let folder = scratch();
    let folder = folder.path();
    format_striped(folder, "raid5", false);
    let [a, b, c] = ["a", "b", "c"].map(|name| folder.join(format!("{name}.img")));
    let mut ledger = vec![Known::default(); SPAN as usize];
    let mut rng = Rng::new(6);
    let copy = folder.join("copy.img");
    fs::copy(&b, &copy).expect("it is there");
    write_and_kill(Served::start(folder, ""), &mut ledger, &mut rng);
    // An older copy, and another one missing: nothing that could be served.
    fs::copy(&copy, &b).expect("it is there");
    for gone in [&c, &a] {
        fs::rename(gone, folder.join("away.img")).expect("it is there");
        let refused = run(folder, "serve pool.toml").refused(2);
        let names = [gone, &b].map(|path| path.file_name().expect("a file").to_string_lossy());
        assert!(names.iter().all(|name| refused.contains(&**name)), "{refused}");
        fs::rename(folder.join("away.img"), gone).expect("it is there");
    }
    // With the other members present, the older member is filled.
    let served = Served::start(folder, "");
    compare(&mut served.client("main"), &mut ledger);
    served.wait_until_whole("raids");
    assert!(group(&served)["filled_bytes"].as_u64() > Some(0), "{}", group(&served));
    assert_eq!(served.stop(), 0);
    check_without_each(folder);
    assert!(durable(&ledger) > 50);
}

/// A device of the group, and the group without one of its devices, are told what they are.
#[test]
fn members_are_named_together() {
    let folder = scratch();
    let folder = folder.path();
    format_striped(folder, "raid5", false);
    let text = fs::read_to_string(folder.join("pool.toml")).expect("it is there");
    let one = "[device]\npath = 'b.img'\n[[volumes]]\nname = 'main'\n";
    fs::write(folder.join("one.toml"), one).expect("writable");
    let refused = run(folder, "status one.toml").refused(2);
    assert!(refused.contains("one member of a striped group"), "{refused}");
    let named = run(folder, "format one.toml").refused(2);
    assert!(named.contains("holds the pool") || named.contains("--yes-destroy"), "{named}");
    let twice = text.replacen("path = 'c.img'", "path = 'd.img'", 1);
    fs::copy(folder.join("b.img"), folder.join("d.img")).expect("it is there");
    fs::write(folder.join("pool.toml"), &twice).expect("writable");
    let refused = run(folder, "status pool.toml").refused(2);
    assert!(refused.contains("copies of one member"), "{refused}");
    // In another order, and under other names, they are the same.
    fs::rename(folder.join("c.img"), folder.join("d.img")).expect("it is there");
    let swapped = twice.replacen("a.img", "x.img", 1).replacen("b.img", "a.img", 1);
    let swapped = swapped.replacen("x.img", "b.img", 1);
    fs::write(folder.join("pool.toml"), swapped).expect("writable");
    run(folder, "check pool.toml").ok();
}

/// A pool on a group of simulated drives, `a.img`, `b.img` and so on.
fn format_on_drives(folder: &Path, key: &str, drives: &[&str]) {
    let drive = |name: &&str| {
        let kind = "kind = 'simulated'\nprofile = 'p5316'";
        format!(
            "[[device]]\npath = '{name}.img'\n{kind}\n{key} = 'g'\nsize = '64MiB'\nunit = '1MiB'\n"
        )
    };
    format_on(folder, &drives.iter().map(drive).collect::<String>());
}

#[test]
fn killed_at_any_moment_simulated_drives_of_a_group_lose_nothing() {
    kill_and_compare(|folder| format_on_drives(folder, "raid5", &["a", "b", "c"]), 4, 100);
}

/// What the drives of a group do inside is told of all of them, parity and all.
#[test]
fn drives_of_a_group_tell_what_redundancy_costs() {
    for (key, drives, least, most) in
        [("raid5", &["a", "b", "c", "d"][..], 1.3, 8.0), ("raid0", &["a", "b", "c"], 1.0, 1.05)]
    {
        let folder = scratch();
        let folder = folder.path();
        format_on_drives(folder, key, drives);
        let served = Served::start(folder, "");
        write_blocks(&served, 1000);
        let status = served.status();
        let number = |value: &Value| value.as_f64().expect("a number");
        let (engine, drive) = (&status["engine"], &status["drive"]);
        let asked = number(&engine["device_bytes_written"]);
        let times = number(&drive["drive_bytes_written"]) / asked;
        assert!((least..most).contains(&times), "{key}: {times}");
        let (waf, alwa) = (number(&status["waf"]), number(&engine["alwa"]));
        let inside = number(&drive["dlwa"]);
        assert!((waf / (alwa * times * inside) - 1.0).abs() < 1e-9, "{status}");
        let told = status["raids"][0]["written_bytes"].as_object().expect("causes");
        let causes: f64 = told.values().map(number).sum();
        let counted = number(&drive["drive_bytes_written"]);
        assert!((causes / counted - 1.0).abs() < 0.01, "{status}");
        let (data, log) = (number(&told["data"]), number(&told["parity_log"]));
        assert!((data / asked - 1.0).abs() < 0.01, "{status}");
        assert_eq!(log > 0.0, key == "raid5", "{status}");
        let levels = status["waterfall"]["levels"].as_array().expect("levels");
        assert_eq!(levels[0]["bytes"], drive["drive_bytes_written"], "{status}");
        let text = metrics(&served);
        assert_eq!(metric(&text, "waf_ratio"), Some(waf), "{text}");
        assert_eq!(metric(&text, "dlwa_ratio"), Some(inside), "{text}");
        let stat = run(folder, "stat pool.toml").ok();
        let told: Vec<&str> = stat.lines().last().expect("a line").split_whitespace().collect();
        assert!((told[7].parse::<f64>().expect("WAF") - waf).abs() < 0.01 * waf, "{stat}");
        assert_eq!(served.stop(), 0);
        let lab = run(folder, "status pool.toml --lab-command").ok();
        assert!(lab.contains("--stack log:p5316 --capacity "), "{lab}");
        assert!(lab.contains(&format!("--set log.group={key}:{} ", drives.len())), "{lab}");
    }
}

/// One of the drives is lost and filled while it is served: that is counted, and all of it can be read without another.
#[test]
fn a_simulated_drive_of_a_group_is_replaced_while_serving() {
    let folder = scratch();
    let folder = folder.path();
    format_on_drives(folder, "raid5", &["a", "b", "c"]);
    let mut ledger = vec![Known::default(); SPAN as usize];
    let mut rng = Rng::new(12);
    write_and_kill(Served::start(folder, ""), &mut ledger, &mut rng);
    fs::remove_file(folder.join("b.img")).expect("it is there");
    // It can be served, so that it is warned of.
    let doctor = run(folder, "doctor pool.toml").ok();
    assert!(doctor.contains("b.img, which is to be a member of raid5 `g`"), "{doctor}");
    assert!(doctor.contains("\nwarn  raid5      raid5 `g`: "), "{doctor}");
    let served = Served::start(folder, "");
    compare(&mut served.client("main"), &mut ledger);
    run(folder, "device replace pool.toml b.img").ok();
    served.wait_until_whole("raids");
    let (filled, drive) =
        (group(&served)["filled_bytes"].as_u64(), served.status()["drive"].clone());
    assert!(filled > Some(0) && drive["drive_bytes_written"].as_u64() >= filled, "{drive}");
    write_and_kill(served, &mut ledger, &mut rng);
    let served = Served::start(folder, "");
    served.wait_until_whole("raids");
    compare(&mut served.client("main"), &mut ledger);
    assert_eq!(served.stop(), 0);
    check_without_each(folder);
    let doctor = run(folder, "doctor pool.toml").out;
    assert!(doctor.contains("b.img is the data of a simulated drive"), "{doctor}");
    assert!(doctor.contains("all members of `g` are current"), "{doctor}");
}
