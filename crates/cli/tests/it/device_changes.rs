//! Attaching, draining and detaching devices of a pool.

use std::fs;
use std::path::Path;
use std::process::{self, Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thermocline_nbd::ClientError;
use thermocline_nbd::protocol::request::Command;
use thermocline_types::Rng;

use super::serve::{PATIENCE, Served, VOLUMES, command, format_on, format_striped, run};
use super::serve_kill::{BLOCK, Known, SPAN, compare, compare_block, write_and_kill, write_some};
use crate::{Done, scratch};

fn device(name: &str) -> String {
    format!("[[device]]\npath = '{name}.img'\nsize = '96MiB'\nunit = '1MiB'\n")
}

/// Rewrites the settings with this device alone, of `units` units.
fn name_of_size(folder: &Path, path: &str, mib: u32) {
    let device = format!("[[device]]\npath = '{path}'\nsize = '{mib}MiB'\nunit = '1MiB'\n");
    fs::write(folder.join("pool.toml"), device + VOLUMES).expect("it can be written");
}

/// Rewrites the settings with these devices.
fn name(folder: &Path, devices: &[&str]) {
    let devices: String = devices.iter().map(|name| device(name)).collect();
    fs::write(folder.join("pool.toml"), devices + VOLUMES).expect("it can be written");
}

fn does(folder: &Path, arguments: &str) -> String {
    let Done { code, out, err } = run(folder, arguments);
    assert_eq!(code, 0, "{arguments}: {err}");
    out
}

fn refuses(folder: &Path, arguments: &str, why: &str) {
    let Done { code, err, .. } = run(folder, arguments);
    assert!(code == 2 && err.contains(why), "{arguments}: {code}, {err}");
}

fn states(folder: &Path) -> Vec<String> {
    let listed = does(folder, "device list pool.toml --json");
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let devices = listed["devices"].as_array().expect("devices").iter();
    devices.map(|device| device["state"].as_str().expect("a state").to_owned()).collect()
}

fn units_left(served: &Served) -> Option<u64> {
    served.status()["draining"][0]["units_left"].as_u64()
}

/// The units in the `status` of a pool that is not served.
fn units(folder: &Path) -> (Value, String) {
    let status = does(folder, "status pool.toml --json");
    let mut status: Value = serde_json::from_str(&status).expect("JSON");
    (status["units"].take(), does(folder, "status pool.toml"))
}

/// Units of a drained or detached device count neither as retired nor as superblocks, and no data is at risk.
#[test]
fn units_of_devices_that_leave_are_not_called_out_of_service() {
    let folder = scratch();
    let folder = folder.path();
    format_on(folder, &(device("a") + &device("b")));
    let (before, text) = units(folder);
    assert_eq!((&before["total"], &before["superblocks"]), (&json!(192), &json!(4)), "{text}");
    does(folder, "device drain pool.toml a.img");
    let (drained, text) = units(folder);
    let told = ["total", "retired", "emptied", "superblocks"].map(|name| drained[name].clone());
    assert_eq!(told, [192, 0, 94, 4].map(Value::from), "{text}");
    assert!(text.starts_with("at risk: nothing") && text.contains("94 emptied"), "{text}");
    assert!(does(folder, "map pool.toml --ascii").contains(&format!("SS{}\n", "-".repeat(62))));
    does(folder, "device detach pool.toml a.img");
    name(folder, &["b"]);
    let (left, text) = units(folder);
    let told = ["total", "retired", "emptied", "superblocks"].map(|name| left[name].clone());
    assert_eq!(told, [96, 0, 0, 2].map(Value::from), "{text}");
    assert!(text.starts_with("at risk: nothing"), "{text}");
    assert!(does(folder, "map pool.toml --ascii").starts_with("     96 SS"));
    let served = Served::start(folder, "");
    assert_eq!(served.status()["engine"]["units"], 96);
    assert_eq!(served.stop(), 0);
}

/// A pool moves to another device and back, while it is written, killed and served again.
#[test]
fn a_pool_that_is_killed_while_it_is_drained_loses_nothing() {
    let folder = scratch();
    let folder = folder.path();
    format_on(folder, &device("a"));
    let mut ledger = vec![Known::default(); SPAN as usize];
    let mut rng = Rng::new(5);
    write_and_kill(Served::start(folder, ""), &mut ledger, &mut rng);
    name(folder, &["a", "b"]);
    does(folder, "check pool.toml");
    assert_eq!(states(folder), ["active", "unattached"]);
    does(folder, "device attach pool.toml b.img");
    assert_eq!(states(folder), ["active", "active"]);
    refuses(folder, "device detach pool.toml a.img", "not drained");
    does(folder, "device drain pool.toml a.img --later");
    let served = Served::start(folder, "");
    assert!(units_left(&served).is_some());
    compare(&mut served.client("main"), &mut ledger);
    write_and_kill(served, &mut ledger, &mut rng);
    let served = Served::start(folder, "");
    let began = Instant::now();
    while units_left(&served) != Some(0) {
        assert!(began.elapsed() < PATIENCE, "{:?}", units_left(&served));
        std::thread::sleep(Duration::from_millis(20));
    }
    compare(&mut served.client("main"), &mut ledger);
    assert_eq!(served.stop(), 0);
    assert_eq!(states(folder), ["draining", "active"]);
    // The drained device breaks.
    fs::remove_file(folder.join("a.img")).expect("it is there");
    does(folder, "device detach pool.toml a.img");
    // The settings still name the device, as after an interrupted replacement.
    does(folder, "check pool.toml");
    let served = Served::start(folder, "");
    compare(&mut served.client("main"), &mut ledger);
    write_and_kill(served, &mut ledger, &mut rng);
    name(folder, &["b", "a"]);
    does(folder, "device attach pool.toml a.img");
    does(folder, "device drain pool.toml b.img");
    does(folder, "device detach pool.toml b.img");
    refuses(folder, "device attach pool.toml b.img", "--yes-destroy b.img");
    name(folder, &["a"]);
    does(folder, "check pool.toml");
    let served = Served::start(folder, "");
    compare(&mut served.client("main"), &mut ledger);
    assert_eq!(served.stop(), 0);
}

/// As above, by requests to the server, while a client writes and reads.
#[test]
fn devices_of_a_served_pool_come_and_go_under_its_clients() {
    let folder = scratch();
    let folder = folder.path();
    format_on(folder, &device("a"));
    let served = Served::start(folder, "");
    let stop = Arc::new(AtomicBool::new(false));
    let (mut client, ended) = (served.client("main"), Arc::clone(&stop));
    let writer = std::thread::spawn(move || {
        let (mut ledger, mut rng) = (vec![Known::default(); SPAN as usize], Rng::new(6));
        while !ended.load(Ordering::Relaxed) {
            write_some(&mut client, &mut ledger, &mut rng).expect("nobody is sent away");
        }
        // Nobody was killed: all that was acknowledged is there.
        ledger.iter_mut().for_each(|known| known.durable = known.sent);
        compare(&mut client, &mut ledger);
        ledger
    });
    name(folder, &["a", "b"]);
    does(folder, "device attach pool.toml b.img");
    assert_eq!(states(folder), ["active", "active"]);
    refuses(folder, "device attach pool.toml b.img", "is a device of the pool already");
    refuses(folder, "device detach pool.toml a.img", "not drained");
    does(folder, "device drain pool.toml a.img --later");
    does(folder, "device drain pool.toml a.img --cancel");
    assert_eq!(units_left(&served), None);
    does(folder, "device drain pool.toml a.img");
    assert_eq!(units_left(&served), Some(0));
    does(folder, "device detach pool.toml a.img");
    name(folder, &["b"]);
    stop.store(true, Ordering::Relaxed);
    let mut ledger = writer.join().expect("it read what it wrote");
    assert_eq!(served.stop(), 0);
    does(folder, "check pool.toml");
    let served = Served::start(folder, "");
    compare(&mut served.client("main"), &mut ledger);
    assert_eq!(served.stop(), 0);
}

/// A pool grows with its file, served or not, under a client and across a kill, and then holds more data.
#[test]
fn a_pool_grows_with_its_last_device() {
    let folder = scratch();
    let folder = folder.path();
    format_on(folder, &device("a"));
    let mut ledger = vec![Known::default(); SPAN as usize];
    let mut rng = Rng::new(21);
    let served = Served::start(folder, "");
    refuses(folder, "device grow pool.toml a.img", "state a larger `size`");
    write_some(&mut served.client("main"), &mut ledger, &mut rng).expect("it is served as before");
    let counted = || {
        let status = served.status();
        let volume = &status["volumes"][0]["host_bytes_written"];
        [&status["engine"]["host_bytes_written"], &status["engine"]["device_bytes_written"], volume]
            .map(|bytes| bytes.as_u64().expect("bytes"))
    };
    let before = counted();
    name_of_size(folder, "a.img", 160);
    does(folder, "device grow pool.toml a.img");
    let after = counted();
    let all = before.iter().zip(after).all(|(before, after)| (1..=after).contains(before));
    assert!(all, "counters go on over a device change: {before:?}, {after:?}");
    assert_eq!(served.status()["engine"]["units"], 160);
    compare(&mut served.client("main"), &mut ledger);
    write_and_kill(served, &mut ledger, &mut rng);
    name_of_size(folder, "a.img", 200);
    let told = does(folder, "device grow pool.toml a.img");
    assert!(told.contains("a.img is used to its end by the pool; the pool holds"), "{told}");
    assert_eq!(fs::metadata(folder.join("a.img")).expect("it is there").len(), 200 << 20);
    let served = Served::start(folder, "");
    compare(&mut served.client("main"), &mut ledger);
    does(folder, "volume create pool.toml more 96MiB");
    assert_eq!(served.stop(), 0);
    does(folder, "load pool.toml --into more --workload uniform --span 96MiB --writes 40000");
    write_and_kill(Served::start(folder, ""), &mut ledger, &mut rng);
    let served = Served::start(folder, "");
    compare(&mut served.client("main"), &mut ledger);
    assert_eq!(served.stop(), 0);
    does(folder, "check pool.toml");
    assert_eq!(units(folder).0["total"], 200);
    // A smaller size in the settings does not shrink the pool.
    name_of_size(folder, "a.img", 96);
    refuses(folder, "device grow pool.toml a.img", "the pool uses 200 MiB of it");
    name(folder, &["a", "b"]);
    does(folder, "device attach pool.toml b.img");
    refuses(folder, "device grow pool.toml a.img", "only the last one grows");
    refuses(folder, "device grow pool.toml b.img", "the pool uses 96 MiB of it");
    does(folder, "check pool.toml");
}

/// Fills a pool and begins to drain `b.img`, and holds the server up amid that. `None` if it was done already, or if
/// nothing was there; then the device is used as before.
fn begin_to_drain(folder: &Path, served: &Served) -> Option<Child> {
    let mut client = served.client("main");
    for mib in 0..48 {
        let data = vec![mib as u8; 1 << 20];
        client.call(Command::Write, 0, mib << 20, 0, &data).expect("written");
    }
    let mut drain = command(folder, "device drain pool.toml b.img");
    drain.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut drain = drain.spawn().expect("the program starts");
    let began = Instant::now();
    let left = loop {
        assert!(began.elapsed() < PATIENCE, "it never begins");
        if let Some(left) = units_left(served) {
            break left;
        }
    };
    if left > 0 {
        served.signal("STOP");
        // It asks how far it is now, and gets no answer.
        std::thread::sleep(Duration::from_millis(300));
        return Some(drain);
    }
    drain.wait().expect("it ends");
    does(folder, "device drain pool.toml b.img --cancel");
    None
}

/// Exit code and output of an ended drain.
fn ended(drain: Child) -> (Option<i32>, String) {
    let done = drain.wait_with_output().expect("it ends");
    let said = [done.stdout, done.stderr].concat();
    (done.status.code(), String::from_utf8(said).expect("UTF-8"))
}

/// Ctrl-C or the end of the server ends the wait, not the drain. The command reports the state and the remedy.
#[test]
fn a_drain_that_is_interrupted_says_what_is_left_and_goes_on() {
    let folder = scratch();
    let folder = folder.path();
    format_on(folder, &(device("a") + &device("b")));
    let served = Served::start(folder, "");
    let interrupted = (0..20).find_map(|_| {
        let drain = begin_to_drain(folder, &served)?;
        let sent = process::Command::new("kill").args(["-INT", &drain.id().to_string()]).status();
        assert!(sent.expect("there is a `kill`").success());
        std::thread::sleep(Duration::from_millis(100));
        served.signal("CONT");
        let (code, said) = ended(drain);
        let is_empty = code == Some(0);
        is_empty.then(|| does(folder, "device drain pool.toml b.img --cancel"));
        (!is_empty).then_some((code, said))
    });
    let (code, said) = interrupted.expect("it was never amid draining");
    assert_eq!(code, Some(130), "{said}");
    for part in [
        " units of b.img are left. It is drained on whenever the pool is served",
        "`thermocline device drain pool.toml b.img --cancel`",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let said = does(folder, "device drain pool.toml b.img");
    assert!(said.contains("b.img is empty"), "{said}");
    does(folder, "device drain pool.toml b.img --cancel");
    let drain = (0..20).find_map(|_| begin_to_drain(folder, &served));
    served.signal("KILL");
    let (code, said) = ended(drain.expect("it was never amid draining"));
    assert_eq!(code, Some(2), "{said}");
    // It may have been asked to drain, and have got no answer yet.
    let told = ["b.img is drained on whenever the pool is served, but", "ended before it answered"];
    assert!(told.iter().any(|told| said.contains(told)), "{said}");
    drop(served);
    assert_eq!(states(folder), ["active", "draining"]);
    does(folder, "device drain pool.toml b.img");
    does(folder, "device detach pool.toml b.img");
}

/// If all units of the remaining devices hold data, some units are emptied first, served or not.
#[test]
fn a_drain_makes_room_where_no_unit_is_empty() {
    let folder = scratch();
    let folder = folder.path();
    format_on(folder, &(device("a") + &device("b")));
    let fill = "load pool.toml --into main --workload uniform --span 48MiB --writes 20000";
    for round in 0..3 {
        does(folder, fill);
        let told = does(folder, "device drain pool.toml b.img");
        assert!(told.contains("b.img is empty"), "{told}");
        does(folder, "check pool.toml");
        does(folder, "device drain pool.toml b.img --cancel");
        assert_eq!(states(folder), ["active", "active"], "round {round}");
    }
    does(folder, fill);
    let served = Served::start(folder, "");
    let mut ledger = vec![Known::default(); SPAN as usize];
    write_some(&mut served.client("second"), &mut ledger, &mut Rng::new(31)).expect("it is served");
    does(folder, "device drain pool.toml b.img");
    assert_eq!(units_left(&served), Some(0));
    does(folder, "device detach pool.toml b.img");
    name(folder, &["a"]);
    // Nobody was killed: all that was acknowledged is there.
    ledger.iter_mut().for_each(|known| known.durable = known.sent);
    compare(&mut served.client("second"), &mut ledger);
    assert_eq!(served.stop(), 0);
    does(folder, "check pool.toml");
}

/// The settings in use do not name a detached device. A refused change then leaves the pool unchanged.
#[test]
fn a_refused_change_leaves_the_pool_served_as_it_was() {
    let folder = scratch();
    let folder = folder.path();
    format_on(folder, &(device("a") + &device("b")));
    let served = Served::start(folder, "");
    let mut client = served.client("main");
    let (mut ledger, mut rng) = (vec![Known::default(); SPAN as usize], Rng::new(10));
    does(folder, "device drain pool.toml b.img");
    does(folder, "device detach pool.toml b.img");
    let text = "[[device]]\npath = 'c.img'\nsize = '64KiB'\nunit = '1MiB'\n";
    let small = format!("{}{text}{VOLUMES}", device("a"));
    fs::write(folder.join("pool.toml"), small).expect("it can be written");
    for (devices, arguments) in [
        (None, "device attach pool.toml c.img"),
        (Some(&["a"][..]), "device drain pool.toml a.img"),
        (Some(&["a", "b"]), "device drain pool.toml a.img"),
        (Some(&["a"]), "device detach pool.toml a.img"),
    ] {
        devices.into_iter().for_each(|devices| name(folder, devices));
        let Done { code, err, .. } = run(folder, arguments);
        assert!(code == 2 && !err.contains("stop the service"), "{arguments}: {code}, {err}");
        write_some(&mut client, &mut ledger, &mut rng).expect("it is served as before");
        assert_eq!(units_left(&served), None, "{arguments}");
    }
    // Nobody was killed: all that was acknowledged is there.
    ledger.iter_mut().for_each(|known| known.durable = known.sent);
    compare(&mut client, &mut ledger);
    assert_eq!(served.stop(), 0);
    name(folder, &["a"]);
    does(folder, "check pool.toml");
}

/// One command attaches, drains and detaches. Steps of an earlier command are not repeated.
#[test]
fn a_device_takes_the_place_of_another_by_one_command() {
    for is_served in [false, true] {
        let folder = scratch();
        let folder = folder.path();
        format_on(folder, &device("a"));
        let mut ledger = vec![Known::default(); SPAN as usize];
        write_and_kill(Served::start(folder, ""), &mut ledger, &mut Rng::new(9));
        name(folder, &["a", "b"]);
        if !is_served {
            does(folder, "device attach pool.toml b.img");
            // The command may be a slip: it does not show which of both devices must leave.
            let slip = "device replace pool.toml b.img --instead-of a.img";
            refuses(folder, slip, "`thermocline device drain pool.toml a.img`");
            does(folder, "device drain pool.toml a.img --later");
        }
        refuses(folder, "device replace pool.toml b.img --instead-of b.img", "its own place");
        let served = is_served.then(|| {
            name(folder, &["a"]);
            let served = Served::start(folder, "");
            name(folder, &["a", "b"]);
            served
        });
        let said = does(folder, "device replace pool.toml b.img --instead-of a.img");
        assert!(said.contains("a.img has left the pool"), "{said}");
        let again = does(folder, "device replace pool.toml b.img --instead-of a.img");
        assert!(again.contains("a.img is none any more"), "{again}");
        if let Some(served) = served {
            compare(&mut served.client("main"), &mut ledger);
            assert_eq!(served.stop(), 0);
        }
        // After an interruption the settings are unchanged: the service starts, and prints the next step.
        let served = Served::start(folder, "");
        compare(&mut served.client("main"), &mut ledger);
        assert_eq!(served.stop(), 0);
        let doctor = run(folder, "doctor pool.toml").out;
        assert!(doctor.contains("a.img is no device of the pool"), "{doctor}");
        name(folder, &["b"]);
        fs::remove_file(folder.join("a.img")).expect("it is there");
        does(folder, "check pool.toml");
        compare(&mut Served::start(folder, "").client("main"), &mut ledger);
    }
}

/// A device of another class is no replacement: a slip would drain all fast devices.
#[test]
fn no_device_takes_the_place_of_one_of_another_class() {
    let folder = scratch();
    let folder = folder.path();
    format_on(folder, &format!("{}{}{FAST}", device("a"), device("b")));
    let slip = "device replace pool.toml b.img --instead-of fast.img";
    refuses(folder, slip, "b.img is a device of the pool already");
    let more = format!("{}{}{}{FAST}{VOLUMES}", device("a"), device("b"), device("c"));
    fs::write(folder.join("pool.toml"), more).expect("it can be written");
    let slip = "device replace pool.toml c.img --instead-of fast.img";
    refuses(folder, slip, "c.img is for capacity, and fast.img is fast");
    assert_eq!(states(folder), ["active", "active", "unattached", "active"]);
    let served = Served::start(folder, "");
    assert_eq!(served.status()["engine"]["media"][1]["class"], "fast");
    assert_eq!(served.stop(), 0);
}

/// A new device that is too small is attached all the same. The printed remedy works.
#[test]
fn a_device_that_cannot_take_the_place_of_another_does_not_stay_unsaid() {
    for is_served in [false, true] {
        let folder = scratch();
        let folder = folder.path();
        format_on(folder, &device("a"));
        let mut ledger = vec![Known::default(); SPAN as usize];
        write_and_kill(Served::start(folder, ""), &mut ledger, &mut Rng::new(11));
        let served = is_served.then(|| Served::start(folder, ""));
        let small = "[[device]]\npath = 's.img'\nsize = '4MiB'\nunit = '1MiB'\n";
        let both = format!("{}{small}{VOLUMES}", device("a"));
        fs::write(folder.join("pool.toml"), both).expect("it can be written");
        let replace = "device replace pool.toml s.img --instead-of a.img";
        let Done { code, err, .. } = run(folder, replace);
        assert_eq!(code, 2, "{err}");
        for part in [
            "s.img is a device of the pool now, and a.img still is",
            "`thermocline device drain pool.toml s.img`, then `thermocline device detach pool.toml s.img`",
        ] {
            assert!(err.contains(part), "{err}");
        }
        refuses(folder, replace, "s.img is a device of the pool already");
        assert_eq!(states(folder), ["active", "active"]);
        does(folder, "device drain pool.toml s.img");
        does(folder, "device detach pool.toml s.img");
        name(folder, &["a"]);
        if let Some(served) = served {
            compare(&mut served.client("main"), &mut ledger);
            assert_eq!(served.stop(), 0);
        }
        does(folder, "check pool.toml");
    }
}

const FAST: &str = "[[device]]\npath = 'fast.img'\nclass = 'fast'\nsize = '24MiB'\nunit = '1MiB'\n";

/// The report of `device lose` about the lost device, and whether the device was given up.
fn lost(folder: &Path, more: &str) -> (Value, i32) {
    let Done { code, out, err } =
        run(folder, &format!("device lose pool.toml a.img --json {more}"));
    (serde_json::from_str(&out).unwrap_or_else(|_| panic!("{code}, {err}")), code)
}

/// One of two capacity devices below a fast device is lost. Its data is listed and reads as errors; all other data is
/// intact.
#[test]
fn a_pool_goes_on_without_a_device_and_never_shows_what_was_before() {
    let folder = scratch();
    let folder = folder.path();
    let all = device("a") + &device("b") + FAST;
    format_on(folder, &all);
    let mut ledger = vec![Known::default(); SPAN as usize];
    let mut rng = Rng::new(7);
    let mut served = Served::start(folder, "");
    for _ in 0..2 {
        let mut client = served.client("main");
        for _ in 0..1200 {
            write_some(&mut client, &mut ledger, &mut rng).expect("it is served");
        }
        assert_eq!(served.stop(), 0);
        served = Served::start(folder, "");
    }
    assert_eq!(served.stop(), 0);
    // The pool was closed in order, so all acknowledged writes are present.
    ledger.iter_mut().for_each(|known| known.durable = known.sent);
    let path = folder.join("a.img");
    fs::rename(&path, folder.join("away")).expect("it is there");
    refuses(folder, "check pool.toml", "device lose");
    let (listed, code) = lost(folder, "");
    assert!(code == 1 && listed["done"] == false && listed["bytes"].as_u64() > Some(1 << 20));
    refuses(folder, "device lose pool.toml a.img --yes-destroy b.img", "not a.img");
    refuses(folder, "device lose pool.toml fast.img", "it is a fast device");
    fs::rename(folder.join("away"), &path).expect("nobody took its place");
    does(folder, "check pool.toml");
    fs::remove_file(&path).expect("it is there");
    let (done, code) = lost(folder, "--yes-destroy a.img");
    assert!(code == 0 && done["done"] == true && done["volumes"] == listed["volumes"]);
    fs::write(folder.join("pool.toml"), device("b") + FAST + VOLUMES).expect("writable");
    let mapped = does(folder, "inspect pool.toml --map main --all");
    assert!(mapped.contains("lost with its device"), "{mapped}");
    let ranges = listed["volumes"][0]["ranges"].as_array().expect("ranges");
    let range = |range: &Value| {
        let [from, bytes] = ["offset", "bytes"].map(|key| range[key].as_u64().expect("a number"));
        from..from + bytes
    };
    let ranges: Vec<_> = ranges.iter().map(range).collect();
    let served = Served::start(folder, "");
    let mut client = served.client("main");
    let mut errors = 0;
    for (lba, known) in ledger.iter_mut().enumerate() {
        let at = (lba * BLOCK) as u64;
        let gone = ranges.iter().any(|range| range.contains(&at));
        let read = client.call(Command::Read, 0, at, BLOCK as u64, &[]);
        errors += u64::from(gone);
        match read {
            Ok(read) if !gone => compare_block(lba, known, &read.data),
            Err(ClientError::Request(_)) if gone => {}
            other => panic!("block {lba}, gone {gone}: {other:?}"),
        }
    }
    assert_eq!(errors * BLOCK as u64, listed["bytes"].as_u64().expect("a number"));
    // Rewritten blocks can be read again.
    for lba in 0..SPAN {
        let zeros = vec![lba as u8; BLOCK];
        let at = lba * BLOCK as u64;
        let write = client.call(Command::Write, 0, at, 0, &zeros);
        assert_eq!(write.expect("it is served").error, 0);
    }
    assert_eq!(served.stop(), 0);
    does(folder, "check pool.toml");
}

/// Devices that the home of then does not know are not taken for new ones, and nothing is written to them.
#[test]
fn a_home_from_before_a_device_was_attached_is_refused() {
    let folder = scratch();
    let folder = folder.path();
    let all = device("a") + &device("f").replace("unit", "class = 'fast'\nunit");
    let settings = |devices: String| {
        fs::write(folder.join("pool.toml"), devices + VOLUMES).expect("it can be written");
    };
    settings(all.clone());
    does(folder, "format pool.toml");
    let copy = |from: &str, to: &str| {
        fs::copy(folder.join(from), folder.join(to)).expect("there is room");
    };
    copy("f.img", "old.img");
    settings(all + &device("b"));
    does(folder, "device attach pool.toml b.img");
    copy("f.img", "new.img");
    copy("old.img", "f.img");
    let before = fs::read(folder.join("b.img")).expect("readable");
    for command in ["check pool.toml", "device attach pool.toml b.img --yes-destroy b.img"] {
        refuses(folder, command, "f.img: this is an older copy of the device");
    }
    assert!(fs::read(folder.join("b.img")).expect("readable") == before, "it was written to");
    copy("new.img", "f.img");
    does(folder, "check pool.toml");
}

/// Beside a striped group, too, a device is not overwritten for a home that one opening made old.
#[test]
fn an_older_home_beside_a_group_is_refused_before_a_device_is_attached() {
    let folder = scratch();
    let folder = folder.path();
    format_striped(folder, "raid5", true);
    fs::copy(folder.join("fast.img"), folder.join("old.img")).expect("there is room");
    assert_eq!(Served::start(folder, "").stop(), 0);
    fs::copy(folder.join("old.img"), folder.join("fast.img")).expect("there is room");
    let all = fs::read_to_string(folder.join("pool.toml")).expect("readable");
    fs::write(folder.join("pool.toml"), device("d") + &all).expect("it can be written");
    let precious = vec![7; 96 << 20];
    fs::write(folder.join("d.img"), &precious).expect("there is room");
    let attach = "device attach pool.toml d.img --yes-destroy d.img";
    refuses(folder, attach, "fast.img: this is an older copy of the device");
    assert!(fs::read(folder.join("d.img")).expect("readable") == precious, "it was written to");
}
