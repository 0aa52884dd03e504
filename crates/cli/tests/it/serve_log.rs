//! The log of a served pool.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::time::Instant;

use serde_json::Value;
use thermocline_nbd::protocol::request::{Command, flag};

use super::serve::{PATIENCE, Served, VOLUMES, command, done, format, format_on, run};
use crate::{scratch, write};

/// Serves the pool. Standard error is appended to `said.txt`.
fn serve(folder: &Path, arguments: &str) -> Served {
    let mut command = command(folder, &format!("serve pool.toml {arguments}"));
    let said = OpenOptions::new().create(true).append(true).open(folder.join("said.txt"));
    command.stderr(said.expect("a file"));
    Served::spawn(folder, command)
}

fn said(folder: &Path) -> String {
    fs::read_to_string(folder.join("said.txt")).expect("a log")
}

fn entries(folder: &Path) -> Vec<Value> {
    let text = said(folder);
    // The server may be in the middle of a line.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn of_event<'a>(entries: &'a [Value], event: &str) -> Vec<&'a Value> {
    entries.iter().filter(|entry| entry["event"] == event).collect()
}

/// Waits until the log has an entry of `event`.
fn await_event(folder: &Path, event: &str) {
    let began = Instant::now();
    while of_event(&entries(folder), event).is_empty() {
        assert!(began.elapsed() < PATIENCE, "{event}: {}", said(folder));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn device(name: &str) -> String {
    format!("[[device]]\npath = '{name}.img'\nsize = '128MiB'\nunit = '1MiB'\n")
}

fn use_devices(folder: &Path, names: &[&str]) {
    let devices: String = names.iter().map(|name| device(name)).collect();
    write(folder, "pool.toml", format!("{devices}{VOLUMES}"));
}

/// Writes to a volume until the pool is full.
fn fill(served: &Served, volume: &str) {
    let mut client = served.client(volume);
    let full = (0..1024).any(|block| {
        client.call(Command::Write, flag::FUA, block << 20, 0, &[block as u8 + 1; 1 << 20]).is_err()
    });
    assert!(full, "the pool is smaller than the volume");
}

#[test]
fn each_open_of_a_volume_as_a_file_is_an_entry_with_its_process() {
    if !super::serve_fuse::ready(false, &[]) {
        return;
    }
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    fs::create_dir(folder.join("mnt")).expect("a folder");
    let served = serve(folder, "--fuse mnt --log-format json");
    drop(fs::File::open(folder.join("mnt/main")).expect("a volume"));
    await_event(folder, "disconnect");
    let entries = entries(folder);
    for event in ["connect", "disconnect"] {
        let [entry] = of_event(&entries, event)[..] else { panic!("{entries:?}") };
        let client = entry["client"].as_str().expect("a client");
        assert!(entry["volume"] == "main" && client.starts_with("process "), "{entry}");
    }
    assert_eq!(served.stop(), 0);
}

#[test]
fn each_change_of_a_served_pool_is_one_entry() {
    let folder = scratch();
    let folder = folder.path();
    format_on(folder, &device("a"));
    let served = serve(folder, "--log-format json");
    use_devices(folder, &["a", "b"]);
    run(folder, "device attach pool.toml b.img").ok();
    let mut client = served.client("main");
    client.call(Command::Write, flag::FUA, 0, 0, &[1; 4096]).expect("written");
    drop(client);
    await_event(folder, "disconnect");
    run(folder, "device drain pool.toml a.img").ok();
    await_event(folder, "drain_ended");
    run(folder, "device detach pool.toml a.img").ok();
    use_devices(folder, &["b"]);
    run(folder, "volume limit pool.toml second --iops 2").ok();
    let mut client = served.client("second");
    for lba in 0..4 {
        client.call(Command::Write, 0, lba * 4096, 0, &[2; 4096]).expect("written");
    }
    await_event(folder, "throttle_began");
    run(folder, "volume create pool.toml big 1GiB").ok();
    fill(&served, "big");
    await_event(folder, "full");
    drop(served);
    let first = entries(folder);
    for entry in &first {
        let time = entry["timestamp"].as_str().expect("a time");
        assert!(time.starts_with("20") && time.ends_with('Z'), "{entry}");
        assert_eq!(
            (entry["pool"].as_str(), entry["message"].is_string()),
            (Some("pool.toml"), true)
        );
    }
    let once = |event: &str| {
        let [entry] = of_event(&first, event)[..] else { panic!("{event}: {first:#?}") };
        entry
    };
    let start = once("start");
    assert_eq!(start["version"], env!("CARGO_PKG_VERSION"));
    assert!(start["format"].as_u64() >= Some(7) && start["id"].is_string(), "{start}");
    assert_eq!(once("recovery")["chunks"], 0, "the pool is new");
    for (event, path) in [
        ("attach", "b.img"),
        ("drain_began", "a.img"),
        ("drain_ended", "a.img"),
        ("detach", "a.img"),
    ] {
        assert!(once(event)["device"].as_str().expect("a path").ends_with(path), "{event}");
    }
    assert_eq!(once("throttle_began")["volume"], "second");
    let full = once("full");
    assert!(full["level"] == "ERROR" && full["bytes"].as_u64() < Some(1 << 20), "{full}");
    let connected = of_event(&first, "connect");
    let volumes: Vec<&str> = connected.iter().filter_map(|one| one["volume"].as_str()).collect();
    assert_eq!(volumes, ["main", "second", "big"]);
    let process = format!("process {}", std::process::id());
    assert!(connected.iter().all(|one| one["client"] == process.as_str()), "{connected:?}");
    // The first server was killed.
    assert_eq!(serve(folder, "--log-format json").stop(), 0);
    let all = entries(folder);
    let second = &all[first.len()..];
    let recovery = of_event(second, "recovery");
    assert!(recovery.len() == 1 && recovery[0]["chunks"].as_u64() > Some(0), "{second:#?}");
    assert!(recovery[0]["bytes"].as_u64() > Some(0) && recovery[0]["seconds"].is_f64());
    for event in ["start", "stop_began", "stop"] {
        assert_eq!(of_event(second, event).len(), 1, "{event}: {second:#?}");
    }
}

#[test]
fn text_is_the_default_and_quiet_logs_errors_only() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    for (arguments, starts, color) in
        [("", 1, false), ("-q", 0, false), ("-v", 1, false), ("--color always", 1, true)]
    {
        write(folder, "said.txt", "");
        let served = serve(folder, arguments);
        drop(served.client("main"));
        assert_eq!(served.stop(), 0);
        let text = said(folder);
        assert_eq!(text.matches("the service begins with 2 volumes").count(), starts, "{text}");
        assert_eq!(text.contains(" INFO the service begins"), starts == 1 && !color, "{text}");
        assert_eq!(text.contains('\u{1b}'), color, "{text}");
        assert_eq!(text.contains("checkpoint"), arguments == "-v", "{text}");
        assert_eq!(text.is_empty(), arguments == "-q", "{text}");
    }
    let both = done(command(folder, "serve pool.toml -q -v")).refused(2);
    assert!(both.contains("cannot be used with"), "{both}");
}
