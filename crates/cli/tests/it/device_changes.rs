//! Devices that are attached to a pool, drained and detached.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use thermocline_types::Rng;

use super::serve::{PATIENCE, Served, VOLUMES, format_on, run};
use super::serve_kill::{Known, SPAN, compare, write_and_kill, write_some};
use crate::{Done, scratch};

fn device(name: &str) -> String {
    format!("[[device]]\npath = '{name}.img'\nsize = '96MiB'\nunit = '1MiB'\n")
}

/// From now on the settings name these.
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

/// A pool that is written, killed and served again all along goes from one device to another, and back.
#[test]
fn a_pool_that_is_killed_while_it_is_drained_loses_nothing() {
    let folder = scratch();
    let folder = folder.path();
    format_on(folder, &device("a"));
    let mut ledger = vec![Known::default(); SPAN as usize];
    let mut rng = Rng::new(5);
    write_and_kill(Served::start(folder, ""), &mut ledger, &mut rng);
    name(folder, &["a", "b"]);
    refuses(folder, "check pool.toml", "device attach");
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
    // It breaks now that it is not needed any more.
    fs::remove_file(folder.join("a.img")).expect("it is there");
    does(folder, "device detach pool.toml a.img");
    refuses(folder, "check pool.toml", "device attach");
    name(folder, &["b"]);
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

/// As above, but all of it is asked of the server, while a client writes and reads.
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
    refuses(folder, "device attach pool.toml b.img", "--yes-destroy b.img");
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
