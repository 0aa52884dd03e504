//! Pools that scrub themselves on a schedule.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use thermocline_nbd::protocol::request::{Command, flag};

use super::serve::{PATIENCE, Served, format_striped, run};
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
