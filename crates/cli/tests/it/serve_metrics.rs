//! Metrics: times, bytes at risk, counters of a simulated drive, and metrics for dashboards.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use thermocline_format::{OLDEST_VERSION, VERSION};
use thermocline_nbd::protocol::request::{Command, flag};

use super::serve::{PATIENCE, Served, format, format_tiered, run};
use super::serve_bounds::free_port;
use super::serve_fuse;
use super::serve_scrubs::schedule_scrubs;
use crate::{numbers, repository, scratch, write};

/// The metrics of a server.
pub fn metrics(served: &Served) -> String {
    let socket = served.folder.join("pool.status.sock");
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.split_once("\r\n\r\n").expect("a header").1.to_owned()
}

/// The value of a metric, its labels included in the name.
pub fn metric(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("thermocline_{name} ")));
    line.map(|value| value.parse().expect("a number"))
}

/// A new pool on a simulated drive: volumes `main` of 48 MiB and `second` of 16.
pub fn format_simulated(folder: &Path, profile: &str) {
    format(folder);
    let text = std::fs::read_to_string(folder.join("pool.toml")).expect("settings");
    let device = format!("path = 'drive.img'\nkind = 'simulated'\nprofile = '{profile}'");
    write(folder, "pool.toml", text.replace("path = 'pool.img'", &device));
    if profile == "zn540" {
        let text = std::fs::read_to_string(folder.join("pool.toml")).expect("settings");
        write(folder, "pool.toml", text.replace("unit = '1MiB'\n", ""));
    }
    run(folder, "format pool.toml").ok();
}

/// Writes blocks all over volume `main`, each durably, so that each is a chunk.
pub fn write_blocks(served: &Served, count: usize) {
    let mut client = served.client("main");
    for lba in numbers((48 << 20) / 4096).take(count) {
        client.call(Command::Write, flag::FUA, lba * 4096, 0, &[7; 4096]).expect("written");
    }
}

#[test]
fn memory_is_told_by_parts_and_as_the_system_counts_it() {
    let folder = scratch();
    format(folder.path());
    let served = Served::start(folder.path(), "");
    write_blocks(&served, 500);
    let memory = served.status()["memory"].clone();
    let part = |name: &str| memory[name].as_u64().expect("a number of bytes");
    let parts = ["maps", "units", "placement", "waiting", "connections"];
    let named: u64 = parts.iter().map(|name| part(&format!("{name}_bytes"))).sum();
    assert!(part("maps_bytes") > 0 && part("units_bytes") > 0, "{memory}");
    assert!(part("placement_bytes") > 0, "what `auto` remembers: {memory}");
    assert!(named < part("resident_bytes"), "{memory}");
    let text = metrics(&served);
    assert!(metric(&text, "resident_memory_bytes").is_some(), "{text}");
    assert!(metric(&text, "memory_bytes{part=\"placement\"}").is_some(), "{text}");
}

#[test]
fn the_program_and_the_format_of_the_pool_are_told() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("THERMOCLINE_COMMIT"));
    let named = format!("thermocline {version} (commit {commit}, pool format {VERSION})\n");
    assert_eq!(run(folder, "--version").ok(), named);
    assert_eq!(run(folder, "status pool.toml --json").json()["format"], OLDEST_VERSION);
    assert!(run(folder, "status pool.toml").ok().contains(&format!(", format {OLDEST_VERSION}: ")));
    let doctor = run(folder, "doctor pool.toml").ok();
    assert!(doctor.contains(&format!(" of format {OLDEST_VERSION} opens")), "{doctor}");
    let served = Served::start(folder, "");
    let labels = format!("version=\"{version}\",commit=\"{commit}\",format=\"{OLDEST_VERSION}\"");
    let text = metrics(&served);
    assert_eq!(metric(&text, &format!("build_info{{{labels}}}")), Some(1.0), "{text}");
    let status = served.status();
    assert_eq!(
        (&status["format"], &status["build"]["commit"]),
        (&OLDEST_VERSION.into(), &commit.into())
    );
    let told = run(folder, "status pool.toml").ok();
    let line = format!("by version {version}, commit {commit}; pool format {OLDEST_VERSION}\n");
    assert!(told.contains(&line), "{told}");
    let doctor = run(folder, "doctor pool.toml").ok();
    assert!(doctor.contains(&format!("served, in format {OLDEST_VERSION};")), "{doctor}");
    assert_eq!(served.stop(), 0);
}

/// A new pool without flushes of its own.
fn format_without_flushes(folder: &Path) {
    format(folder);
    let text = std::fs::read_to_string(folder.join("pool.toml")).expect("settings");
    write(folder, "pool.toml", text + "[serve]\nflush_after = 0\n");
}

#[test]
fn times_and_bytes_at_risk_are_told() {
    let folder = scratch();
    let folder = folder.path();
    format_without_flushes(folder);
    let served = Served::start(folder, "");
    let mut client = served.client("main");
    for lba in 0..10 {
        client.call(Command::Write, 0, lba * 4096, 0, &[1; 4096]).expect("written");
    }
    let text = metrics(&served);
    assert!(text.contains("\nthermocline_at_risk_bytes 40960\n"), "{text}");
    let all = "\nthermocline_request_seconds_bucket{operation=\"write\",le=\"+Inf\"} 10\n";
    assert!(text.contains(all), "{text}");
    let sum = text.lines().find_map(|line| {
        line.strip_prefix("thermocline_request_seconds_sum{operation=\"write\"} ")
    });
    assert!(sum.expect("a sum").parse::<f64>().expect("a number") > 0.0);
    client.call(Command::Flush, 0, 0, 0, &[]).expect("flushed");
    assert!(metrics(&served).contains("\nthermocline_at_risk_bytes 0\n"));
    assert_eq!(served.status()["engine"]["at_risk_bytes"], 0);
}

#[test]
fn what_is_written_to_files_is_counted_and_at_risk_like_all_else() {
    if !serve_fuse::ready(false, &[]) {
        return;
    }
    let folder = scratch();
    let folder = folder.path();
    format_without_flushes(folder);
    std::fs::create_dir(folder.join("mnt")).expect("a folder");
    let served = Served::start(folder, "--fuse mnt");
    let file = std::fs::File::options().write(true).open(folder.join("mnt/second"));
    let file = file.expect("the file of a volume");
    for lba in 0..20 {
        file.write_all_at(&[1; 8192], lba * 8192).expect("written");
    }
    let status = served.status();
    assert_eq!(status["engine"]["at_risk_bytes"], 20 * 8192);
    let writes = |of: &Value| of["requests"]["operations"][1].clone();
    assert_eq!(writes(&status)["name"], "write");
    for of in [&status, &status["volumes"][1]] {
        assert_eq!((&writes(of)["requests"], &writes(of)["bytes"]), (&20.into(), &163_840.into()));
        assert!(writes(of)["latency"]["seconds"].as_f64() > Some(0.0), "{of}");
    }
    assert_eq!(writes(&status["volumes"][0])["requests"], 0);
    let text = metrics(&served);
    let name = "volume_requests_total{volume=\"second\",operation=\"write\"}";
    assert_eq!(metric(&text, name), Some(20.0));
    let told = run(folder, "status pool.toml").ok();
    assert!(told.starts_with("at risk: 160 KiB that were written and are not durable\n"), "{told}");
    file.sync_all().expect("durable");
    assert_eq!(served.status()["engine"]["at_risk_bytes"], 0);
    let told = run(folder, "status pool.toml").ok();
    assert!(told.starts_with("at risk: nothing") && told.contains("/mnt/second\n"), "{told}");
    for lba in 0..2000 {
        file.write_all_at(&[2; 8192], lba * 8192).expect("written");
    }
    let stat = run(folder, "stat pool.toml").ok();
    let words: Vec<&str> = stat.lines().last().expect("a line").split_whitespace().collect();
    assert!(words[1] != "0" && words[4] != "0.0", "{stat}");
    drop(file);
    assert_eq!(served.stop(), 0);
}

#[test]
fn what_nobody_flushes_becomes_durable_all_the_same() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let text = std::fs::read_to_string(folder.join("pool.toml")).expect("settings");
    write(folder, "pool.toml", text + "[serve]\nflush_after = 1\n");
    let served = Served::start(folder, "");
    served.client("main").call(Command::Write, 0, 0, 0, &[1; 4096]).expect("written");
    // All clients have disconnected.
    let began = Instant::now();
    while served.status()["engine"]["at_risk_bytes"] != 0 {
        assert!(began.elapsed() < PATIENCE, "{}", served.status());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(served.status()["requests"]["operations"][2]["requests"], 0, "it asked itself");
    assert_eq!(served.stop(), 0);
}

#[test]
fn what_a_simulated_drive_does_inside_is_told() {
    let folder = scratch();
    let folder = folder.path();
    format_simulated(folder, "p5316");
    let served = Served::start(folder, "");
    write_blocks(&served, 300);
    let stat = run(folder, "stat pool.toml").ok();
    let mut lines = stat.lines();
    let words = |line: Option<&str>| {
        let line = line.expect("two lines").to_owned();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let (head, line) = (words(lines.next()), words(lines.next()));
    // `read MB/s` and `write MB/s` are two words.
    assert_eq!(head[7..11], ["ALWA", "DLWA", "WAF", "total"]);
    let ratio = |index: usize| line[index].parse::<f64>().expect("a ratio");
    let (alwa, dlwa, waf) = (ratio(5), ratio(6), ratio(7));
    assert!(alwa > 1.0 && dlwa > 2.0, "small writes on mapping units of 64 KiB: {stat}");
    assert!((alwa * dlwa / waf - 1.0).abs() < 0.05, "{stat}");
    assert_eq!(line[7], line[8], "the line is of all since the pool was opened");
    let text = metrics(&served);
    let value = |name: &str| metric(&text, name).unwrap_or_else(|| panic!("{name}: {text}"));
    let causes = ["host", "read_modify_write", "padding", "relocation", "wear_levelling"];
    let media = |cause| value(&format!("media_written_bytes_total{{cause=\"{cause}\"}}"));
    let media: f64 = causes.into_iter().map(media).sum();
    assert!((value("dlwa_ratio") - media / value("drive_written_bytes_total")).abs() < 1e-9);
    assert!((value("waf_ratio") - value("alwa_ratio") * value("dlwa_ratio")).abs() < 1e-9);
    let status = served.status();
    let drive = &status["drive"];
    let number = |value: &Value| value.as_f64().expect("a number");
    assert!(number(&drive["media_bytes_written"]) >= media, "it only grows");
    assert_eq!(
        drive["drive_bytes_written"], status["engine"]["device_bytes_written"],
        "all that the engine writes, the drive sees"
    );
    assert!((number(&status["waf"]) - waf).abs() < 0.05 * waf, "{status}");
    assert_eq!(served.stop(), 0);
    let served = Served::start(folder, "");
    let again = served.status();
    let (media, before) = (&again["drive"]["media_bytes_written"], &drive["media_bytes_written"]);
    assert!(number(media) < number(before) / 2.0, "counters begin anew: {media} after {before}");
    assert_eq!(served.stop(), 0);
}

#[test]
fn other_devices_tell_nothing_of_their_inside() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    write_blocks(&served, 10);
    let status = served.status();
    assert!(status.get("drive").is_none() && status.get("waf").is_none(), "{status}");
    let text = metrics(&served);
    assert!(metric(&text, "alwa_ratio").is_some_and(|alwa| alwa > 1.0), "{text}");
    for absent in ["dlwa", "waf", "media_", "drive_"] {
        assert!(!text.contains(&format!("thermocline_{absent}")), "{absent} of a file: {text}");
    }
    let stat = run(folder, "stat pool.toml").ok();
    assert!(stat.contains("ALWA  total") && !stat.contains("WAF"), "{stat}");
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_pool_on_simulated_zones_is_served_again_and_again() {
    let folder = scratch();
    let folder = folder.path();
    format_simulated(folder, "zn540");
    let mut served = Served::start(folder, "");
    for round in 0..4 {
        write_blocks(&served, 200 + round * 100);
        if round % 2 == 0 {
            served.signal("KILL");
            served.child.wait().expect("it is killed");
        } else {
            assert_eq!(served.stop(), 0);
        }
        run(folder, "check pool.toml").ok();
        served = Served::start(folder, "");
        let drive = &served.status()["drive"];
        let causes = &drive["media_by_cause"];
        assert_eq!(causes["relocation"], 0, "zones have no garbage: {drive}");
        // A zone that the kill left unfinished is filled up to the end of a page.
        assert!(causes["padding"].as_u64() < Some(1 << 20), "{drive}");
    }
    let mut client = served.client("main");
    let lba = numbers((48 << 20) / 4096).next().expect("they do not end");
    let read = client.call(Command::Read, 0, lba * 4096, 4096, &[]).expect("read");
    assert!(read.data == [7; 4096]);
    drop(client);
    assert_eq!(served.stop(), 0);
}

/// Data that waits in memory counts as host writes, although no device has it.
#[test]
fn what_hosts_write_counts_when_it_is_answered() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    let mut main = served.client("main");
    for count in 1..=5 {
        main.call(Command::Write, 0, count << 20, 0, &[7; 4096]).expect("written");
        let text = metrics(&served);
        for name in ["host_written_bytes_total", "volume_host_written_bytes_total{volume=\"main\"}"]
        {
            assert_eq!(metric(&text, name), Some((count * 4096) as f64), "{name}");
        }
    }
    main.call(Command::Flush, 0, 0, 0, &[]).expect("flushed");
    let text = metrics(&served);
    let name = "volume_device_written_bytes_total{volume=\"main\",cause=\"host\"}";
    assert_eq!(metric(&text, name), Some(5.0 * 4096.0));
    assert_eq!(metric(&text, "host_written_bytes_total"), Some(5.0 * 4096.0));
    drop(main);
    assert_eq!(served.stop(), 0);
}

#[test]
fn what_each_volume_costs_adds_up() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    let mut second = served.client("second");
    second.call(Command::Write, flag::FUA, 0, 0, &[3; 1 << 20]).expect("written");
    // Enough writes that garbage collection must copy data.
    let mut main = served.client("main");
    let (span, length) = ((48 << 20) / 4096 - 4, 16 << 10);
    for lba in numbers(span).take((400 << 20) / length) {
        main.call(Command::Write, 0, lba * 4096, 0, &vec![7; length]).expect("written");
    }
    main.call(Command::Flush, 0, 0, 0, &[]).expect("flushed");
    let status = served.status();
    let volumes = status["volumes"].as_array().expect("a list");
    let number = |value: &Value| value.as_u64().expect("a number");
    let sum = |key: &str| volumes.iter().map(|volume| number(&volume[key])).sum::<u64>();
    let (engine, causes) = (&status["engine"], &status["engine"]["by_cause"]);
    assert_eq!(sum("host_bytes_written"), number(&engine["host_bytes_written"]));
    assert_eq!(sum("absorbed_bytes"), number(&engine["absorbed_bytes"]));
    assert_eq!(sum("relocated_bytes"), number(&causes["relocation"]));
    let device = number(&causes["host"]) + number(&causes["relocation"]);
    assert_eq!(sum("device_bytes_written"), device);
    assert!(number(&volumes[0]["relocated_bytes"]) > 0, "{status}");
    assert_eq!(volumes[1]["host_bytes_written"], 1 << 20);
    let ratio = |volume: &Value| {
        number(&volume["device_bytes_written"]) as f64
            / number(&volume["host_bytes_written"]) as f64
    };
    assert_eq!(volumes[0]["alwa"].as_f64(), Some(ratio(&volumes[0])));
    let text = metrics(&served);
    let name = "volume_device_written_bytes_total{volume=\"main\",cause=\"relocation\"}";
    assert!(metric(&text, name) > Some(0.0), "{text}");
    let name = "volume_host_written_bytes_total{volume=\"second\"}";
    assert_eq!(metric(&text, name), Some(1048576.0));
    drop((main, second));
    assert_eq!(served.stop(), 0);
}

/// Names of metrics in a text.
fn names(text: &str) -> Vec<String> {
    let rest = text.split("thermocline_").skip(1);
    let name = |rest: &str| {
        let end = rest.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_');
        format!("thermocline_{}", &rest[..end.unwrap_or(rest.len())])
    };
    rest.map(name).collect()
}

/// Metrics, and a status of the same moment: garbage collection and destaging have ended.
fn quiet(served: &Served) -> (String, Value) {
    loop {
        let (before, text, after) = (served.status(), metrics(served), served.status());
        if before["engine"]["media"] == after["engine"]["media"] {
            return (text, after);
        }
    }
}

#[test]
fn what_each_class_of_devices_takes_is_told_by_class() {
    let folder = scratch();
    let folder = folder.path();
    format_tiered(folder, "auto");
    let served = Served::start(folder, "");
    let mut main = served.client("main");
    for count in 0..60 {
        main.call(Command::Write, flag::FUA, (count % 8) << 20, 0, &[7; 1 << 20]).expect("written");
    }
    let (text, status) = quiet(&served);
    for class in ["fast", "capacity"] {
        let media = status["engine"]["media"].as_array().expect("a list");
        let media = media.iter().find(|one| one["class"] == class).expect("both are there");
        for (name, key) in [
            ("class_free_units", "free_units"),
            ("class_valid_bytes", "valid_bytes"),
            ("class_debt_bytes", "debt_bytes"),
        ] {
            let name = format!("{name}{{class=\"{class}\"}}");
            assert_eq!(metric(&text, &name), media[key].as_f64(), "{name}: {text}");
        }
        let name = format!("class_written_bytes_total{{class=\"{class}\",cause=\"host\"}}");
        assert_eq!(metric(&text, &name), media["host_bytes"].as_f64(), "{text}");
    }
    let name = "class_debt_bytes{class=\"fast\"}";
    assert!(metric(&text, name) > Some(f64::from(1 << 20)), "overwritten blocks: {text}");
    let stat = run(folder, "stat pool.toml").ok();
    assert!(stat.contains("ALWA fast") && stat.contains("free capacity"), "{stat}");
    assert!(run(folder, "status pool.toml").ok().contains("capacity devices: "), "by class");
    drop(main);
    assert_eq!(served.stop(), 0);
}

#[test]
fn every_metric_of_the_dashboard_and_of_the_alert_rules_is_served() {
    let folder = scratch();
    let folder = folder.path();
    format_simulated(folder, "p5316");
    schedule_scrubs(folder, "30d");
    let served = Served::start(folder, "");
    write_blocks(&served, 1);
    let text = metrics(&served);
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let known: Vec<String> = samples.flat_map(|line| names(line).into_iter().take(1)).collect();
    let file = repository().join("docs/grafana/thermocline.json");
    let dashboard = std::fs::read_to_string(file).expect("there is a dashboard");
    let parsed: Value = serde_json::from_str(&dashboard).expect("JSON");
    let panels = parsed["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let mut used = 0;
    for target in targets {
        let named = names(target["expr"].as_str().expect("an expression"));
        assert!(!named.is_empty(), "{target}");
        used += named.len();
        for name in named {
            assert!(known.contains(&name), "{name} is not served");
        }
    }
    let file = repository().join("docs/prometheus/alerts.yml");
    let alerts = std::fs::read_to_string(file).expect("there are rules");
    let rules = alerts.lines().filter(|line| line.trim_start().starts_with("expr: "));
    for name in rules.flat_map(names).filter(|name| !name.ends_with("_whole")) {
        used += 1;
        assert!(known.contains(&name), "{name} is not served");
    }
    assert!(used > 15, "{used} metrics are used");
    assert_eq!(served.stop(), 0);
}

#[test]
fn stat_speaks_json_and_asks_another_machine() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let port = free_port();
    let served = Served::start(folder, &format!("--http 127.0.0.1:{port}"));
    write_blocks(&served, 100);
    let row: Value =
        serde_json::from_str(&run(folder, "stat pool.toml --json").ok()).expect("JSON");
    assert_eq!(row["schema"], "thermocline.stat/1");
    assert!(row["writes_per_second"].as_f64() > Some(0.0), "{row}");
    assert!(row["alwa"].as_f64() > Some(1.0), "each write has a header: {row}");
    assert!(row["write_p99_micros"].as_u64() > Some(0), "{row}");
    assert!(row["queue_depth"].as_f64() > Some(0.0), "{row}");
    assert!(row["read_p99_micros"].is_null(), "{row}");
    let remote = format!("http://127.0.0.1:{port}");
    let lines = run(folder, &format!("stat {remote} 0.05 2 --json")).ok();
    let rows = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let rates: Vec<Option<f64>> = rows.map(|row| row["writes_per_second"].as_f64()).collect();
    assert_eq!(rates, [Some(0.0), Some(0.0)], "nothing was written meanwhile");
    assert_eq!(served.stop(), 0);
    let refused = run(folder, &format!("stat {remote}"));
    assert_eq!(refused.code, 2, "{}", refused.err);
    let nowhere = run(folder, "stat http://localhost");
    assert!(nowhere.err.contains("the form is http://HOST:PORT"), "{}", nowhere.err);
}

#[test]
fn the_map_of_a_served_pool_is_drawn_by_its_server() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    write_blocks(&served, 2000);
    let map: Value = serde_json::from_str(&run(folder, "map pool.toml --json").ok()).expect("JSON");
    assert_eq!(map["schema"], "thermocline.units/1");
    let device = &map["devices"][0];
    let states = device["states"].as_str().expect("a text");
    assert!(states.starts_with("SS") && states.contains('o') && states.contains('.'), "{states}");
    let valid = device["valid_blocks"].as_array().expect("a list").iter();
    let valid: u64 = valid.map(|blocks| blocks.as_u64().expect("a number")).sum();
    let mapped = served.status()["engine"]["mapped_bytes"].as_u64().expect("a number") / 4096;
    assert!(valid >= mapped, "{valid} valid blocks hold {mapped} mapped ones");
    let drawn = run(folder, "map pool.toml --ascii").ok();
    assert!(drawn.starts_with("      0 SS"), "{drawn}");
    assert_eq!(served.stop(), 0);
    assert_eq!(run(folder, "map pool.toml --ascii").ok().lines().count(), drawn.lines().count());
}
