//! Pools that scrub themselves on a schedule.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use thermocline_nbd::protocol::request::{Command, flag};
use thermocline_serve::Serving;

use super::serve::{PATIENCE, Served, command, format, format_striped, run};
use super::serve_damage::{block, spoil_in};
use crate::scratch;

/// Waits for the end of a scrub. Returns the report on scrubs.
fn scrubbed(served: &Served) -> Value {
    let began = Instant::now();
    loop {
        let scrub = served.status()["scrub"].clone();
        if scrub["last"].is_object() && scrub["current"].is_null() {
            return scrub;
        }
        assert!(began.elapsed() < PATIENCE, "{scrub}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn schedule_scrubs(folder: &Path, every: &str) {
    let path = folder.join("pool.toml");
    let text = fs::read_to_string(&path).expect("it is there");
    fs::write(path, format!("[pool]\nscrub_every = '{every}'\n{text}")).expect("writable");
}

#[test]
fn a_served_pool_scrubs_itself_repairs_a_member_and_remembers_it() {
    let folder = scratch();
    let folder = folder.path();
    format_striped(folder, "raid5", false);
    let served = Served::start(folder, "");
    assert!(served.status()["scrub"].is_null(), "no schedule is the default");
    let mut client = served.client("main");
    for lba in 0..64_u64 {
        client.call(Command::Write, flag::FUA, lba * 4096, 0, &block(lba)).expect("written");
    }
    drop(client);
    assert_eq!(served.stop(), 0);
    let all: Vec<u64> = (0..64).collect();
    let spoiled = spoil_in(folder, "a.img", &all);
    assert!(spoiled > 8, "{spoiled} blocks are on this member");
    schedule_scrubs(folder, "30d");
    let served = Served::start(folder, "");
    let scrub = scrubbed(&served);
    let last = &scrub["last"];
    assert_eq!(last["damaged"], 0, "{scrub}");
    assert!(last["mended"].as_u64().is_some_and(|places| places > 8), "{scrub}");
    let due = last["ended_unix_seconds"].as_u64().expect("a time") + 30 * 86_400;
    assert_eq!(scrub["due_unix_seconds"], due, "{scrub}");
    let status = run(folder, "status pool.toml").ok();
    assert!(status.contains("last scrub: ended") && status.contains("next scrub: "), "{status}");
    let metrics = served.get("/metrics");
    let ended = format!("thermocline_scrub_ended_seconds {}\n", last["ended_unix_seconds"]);
    assert!(metrics.contains(&ended) && metrics.contains("scrub_progress_ratio 1\n"), "{metrics}");
    assert_eq!(served.stop(), 0);
    let told = |text: &str| {
        let scrubs = text.lines().filter(|line| line.contains(" scrub: "));
        scrubs.map(str::to_owned).collect::<Vec<_>>()
    };
    let at_rest = run(folder, "status pool.toml").ok();
    assert_eq!(told(&at_rest), told(&status), "{at_rest}");
    let json = run(folder, "status pool.toml --json").ok();
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json["scrub"], scrub, "{json}");
    run(folder, "scrub pool.toml").ok();
    let served = Served::start(folder, "");
    assert_eq!(served.status()["scrub"], scrub, "a restart forgets nothing and repeats nothing");
    assert_eq!(served.stop(), 0);
    let served = Served::start(folder, "--read-only");
    assert!(served.status()["scrub"].is_null(), "nothing is written to a pool that is read");
    assert_eq!(served.stop(), 0);
}

/// Writes 64 blocks to `main`, damages `damaged` of them while nobody serves, and serves the pool again.
fn serve_damaged(folder: &Path, damaged: &[u64]) -> Served {
    format(folder);
    let served = Served::start(folder, "");
    let mut client = served.client("main");
    for lba in 0..64_u64 {
        client.call(Command::Write, flag::FUA, lba * 4096, 0, &block(lba)).expect("written");
    }
    drop(client);
    assert_eq!(served.stop(), 0);
    assert_eq!(spoil_in(folder, "pool.img", damaged), damaged.len());
    Served::start(folder, "")
}

#[test]
fn the_server_scrubs_and_checks_its_pool_on_request() {
    let folder = scratch();
    let folder = folder.path();
    let served = serve_damaged(folder, &[8, 9, 40]);
    let scrubbed = run(folder, "scrub pool.toml");
    assert_eq!(scrubbed.code, 1, "{}", scrubbed.err);
    let place = ", 4 KiB of volume `main` at byte 163840, is not what was written\n";
    assert!(scrubbed.out.contains(place), "{}", scrubbed.out);
    assert!(scrubbed.out.contains("3 places are damaged: "), "{}", scrubbed.out);
    let health = served.get("/health");
    assert!(health.starts_with("degraded\n") && health.contains("damaged blocks"), "{health}");
    let checked = run(folder, "check pool.toml --json");
    assert_eq!(checked.code, 1, "{}", checked.err);
    let report: Value = serde_json::from_str(&checked.out).expect("JSON");
    let damaged = report["damaged"].as_array().expect("a list");
    let blocks: Vec<u64> = damaged.iter().filter_map(|one| one["lba"].as_u64()).collect();
    let mut sorted = blocks.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [8, 9, 40], "{report}");
    assert_eq!((&report["clean"], &report["served"]["places_damaged"]), (&false.into(), &3.into()));
    let said = run(folder, "check pool.toml").out;
    let unseen = "not checked while served: what a recovery replays";
    assert!(said.contains(unseen) && said.contains("volume `main` block 40 is not"), "{said}");
    for offline in ["check pool.toml --repair", "inspect pool.toml --map main"] {
        let refused = run(folder, offline).refused(2);
        let server = format!("process {} serves this pool", served.child.id());
        assert!(refused.contains(&server) && refused.contains("`thermocline stop pool.toml`"));
    }
    let mut client = served.client("main");
    for lba in [8, 9, 40] {
        client.call(Command::Write, flag::FUA, lba * 4096, 0, &block(lba)).expect("written");
    }
    drop(client);
    let clean = run(folder, "scrub pool.toml --json").json();
    assert_eq!((&clean["clean"], &clean["damaged"]), (&true.into(), &Value::Array(Vec::new())));
    assert!(clean["blocks"].as_u64() >= Some(64), "{clean}");
    assert_eq!(served.get("/health"), "ok\n", "a scrub found nothing");
    assert!(run(folder, "check pool.toml").ok().contains("clean: "));
    let last = served.status()["scrub"]["last"].clone();
    assert_eq!(last["damaged"], 0, "{last}");
    assert_eq!(served.stop(), 0);
    let at_rest = run(folder, "status pool.toml").ok();
    assert!(at_rest.contains("last scrub: ended") && !at_rest.contains("next scrub"), "{at_rest}");
    run(folder, "scrub pool.toml").ok();
}

#[test]
fn the_server_shows_its_superblock_and_units() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    served.client("main").call(Command::Write, flag::FUA, 0, 0, &[7; 4096]).expect("written");
    let shown = run(folder, "inspect pool.toml").ok();
    let pool = served.status()["pool"].as_str().expect("an identifier").to_owned();
    for expected in [&*format!("  pool {pool}\n"), "volume 1 `main`", "device 0: units 0 to 127"] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    assert_eq!(shown.matches("superblock revision").count(), 1, "the newest one: {shown}");
    assert!(
        run(folder, "inspect pool.toml --unit 0").ok().contains("unit 0, capacity: superblocks")
    );
    let refused = run(folder, "inspect pool.toml --unit 128").refused(2);
    assert!(refused.contains("the pool has no unit 128"), "{refused}");
    assert_eq!(served.stop(), 0);
    let at_rest = run(folder, "inspect pool.toml").ok();
    assert!(at_rest.contains(&format!("  pool {pool}\n")), "{at_rest}");
    let served = Served::start(folder, "--read-only");
    let refused = run(folder, "scrub pool.toml").refused(2);
    assert!(refused.contains("is served with --read-only"), "{refused}");
    assert_eq!(served.stop(), 0);
}

/// Interrupts `scrub` while a client writes. Returns the exit code: 130, unless the scrub ended before the signal.
fn interrupted(served: &Served) -> Option<i32> {
    let mut scrub = command(&served.folder, "scrub pool.toml");
    let mut scrub = scrub.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut client = served.client("second");
    loop {
        client.call(Command::Write, flag::FUA, 0, 0, &[7; 4096]).expect("written");
        let page: Value = serde_json::from_str(&served.get("/scrub")).expect("JSON");
        if page["current"].is_object() {
            break;
        }
        if let Some(status) = scrub.try_wait().expect("it is ours") {
            return status.code();
        }
    }
    let id = scrub.id().to_string();
    let sent = std::process::Command::new("kill").args(["-s", "INT", &id]).status();
    assert!(sent.expect("there is a `kill`").success());
    loop {
        client.call(Command::Write, flag::FUA, 0, 0, &[7; 4096]).expect("written");
        if let Some(status) = scrub.try_wait().expect("it is ours") {
            return status.code();
        }
    }
}

#[test]
fn ctrl_c_stops_the_scrub_of_the_server() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    let mut client = served.client("main");
    for at in 0..48_u64 {
        let data: Vec<u8> = (0..256).flat_map(|lba| block(at * 256 + lba)).collect();
        client.call(Command::Write, flag::FUA, at << 20, 0, &data).expect("written");
    }
    drop(client);
    let began = Instant::now();
    while interrupted(&served) != Some(130) {
        assert!(began.elapsed() < PATIENCE, "each scrub ends before the signal");
    }
    let page: Value = serde_json::from_str(&served.get("/scrub")).expect("JSON");
    assert!(page["current"].is_null(), "{page}");
    let refused = Serving::of(&folder.join("pool.toml")).expect("it is served").stop_scrub();
    assert!(refused.expect_err("it was stopped").to_string().contains("no scrub is in progress"));
    assert!(run(folder, "scrub pool.toml").ok().starts_with("clean: "), "the next one ends");
    assert_eq!(served.stop(), 0);
}
