//! Requests of clients to served volumes, recorded as a trace.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use thermocline_nbd::protocol::request::Command as Nbd;
use thermocline_types::{Op, Request};
use thermocline_workload::{Source as _, trace};

use super::serve::{PATIENCE, Served, format, run};
use super::serve_clients::noise;
use crate::{scratch, write};

/// Findings of `lab analyze` in the trace: requests and bytes by operation, and volumes.
fn found(folder: &Path, file: &str) -> Value {
    run(folder, &format!("lab analyze --quick --json --trace {file}")).json()
}

fn requests(of: &Value, operation: &str) -> (u64, u64) {
    let all = of["profile"]["operations"].as_array().expect("a list");
    let one = all.iter().find(|one| one["operation"] == operation);
    let number = |key| one.and_then(|one| one[key].as_u64()).unwrap_or(0);
    (number("requests"), number("bytes"))
}

#[test]
fn what_clients_asked_is_a_trace_that_the_lab_takes() {
    for file in ["t.csv", "t.csv.gz", "t.csv.zst"] {
        let folder = scratch();
        let folder = folder.path();
        format(folder);
        let served = Served::start(folder, &format!("--record-trace {file}"));
        let mut client = served.client("main");
        for lba in 0..300_u64 {
            client.call(Nbd::Write, 0, lba % 100 * 4096, 0, &[7; 4096]).expect("written");
        }
        client.call(Nbd::Read, 0, 8192, 4096, &[]).expect("read");
        client.call(Nbd::Trim, 0, 0, 4096, &[]).expect("trimmed");
        client.call(Nbd::WriteZeroes, 0, 4096, 8192, &[]).expect("zeroed");
        client.call(Nbd::Flush, 0, 0, 0, &[]).expect("flushed");
        drop(client);
        run(folder, "volume create pool.toml third 4MiB").ok();
        let mut client = served.client("third");
        client.call(Nbd::Write, 0, 0, 0, &[1; 1024]).expect("written");
        drop(client);
        assert_eq!(served.stop(), 0);
        let found = found(folder, file);
        assert_eq!(requests(&found, "write"), (301, 300 * 4096 + 1024), "{file}: {found}");
        assert_eq!(requests(&found, "read"), (1, 4096), "{file}");
        assert_eq!(requests(&found, "trim"), (1, 4096), "{file}");
        assert_eq!(requests(&found, "write_zeroes"), (1, 8192), "{file}");
        assert_eq!(requests(&found, "flush").0, 1, "{file}");
        let third = format!("lab analyze --quick --json --trace {file} --volume third");
        assert_eq!(requests(&run(folder, &third).json(), "write"), (1, 1024), "{file}");
        // A restart with the same arguments, as by systemd, writes a second file.
        let served = Served::start(folder, &format!("--record-trace {file}"));
        let mut client = served.client("main");
        client.call(Nbd::Write, 0, 0, 0, &[1; 4096]).expect("written");
        drop(client);
        assert_eq!(served.stop(), 0);
        let second = self::found(folder, &file.replace("t.", "t-1."));
        assert_eq!(requests(&second, "write"), (1, 4096), "{file}");
        assert_eq!(requests(&self::found(folder, file), "write").0, 301, "the first is as it was");
    }
}

#[test]
fn recording_begins_and_ends_while_clients_go_on() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let settings = std::fs::read_to_string(folder.join("pool.toml")).expect("settings");
    write(folder, "pool.toml", settings + "[serve]\nrecord_trace = 'first.csv'\n");
    let served = Served::start(folder, "");
    let mut client = served.client("main");
    let mut ask = |count: u64| {
        for lba in 0..count {
            client.call(Nbd::Write, 0, lba * 4096, 0, &[7; 4096]).expect("written");
        }
    };
    ask(3);
    let refused = run(folder, "record pool.toml second.csv").refused(2);
    assert!(refused.contains("first.csv: end that first"), "{refused}");
    run(folder, "record pool.toml --stop").ok();
    ask(4);
    let told = run(folder, "record pool.toml second.csv").ok();
    assert!(told.contains("second.csv"), "{told}");
    assert!(run(folder, "status pool.toml").ok().contains("requests are recorded in"));
    ask(5);
    run(folder, "record pool.toml --stop").ok();
    assert!(served.status()["recording"].is_null());
    ask(6);
    let refused = run(folder, "record pool.toml --stop").refused(2);
    assert!(refused.contains("no trace is being recorded"), "{refused}");
    for (file, count) in [("first.csv", 3), ("second.csv", 5)] {
        assert_eq!(requests(&found(folder, file), "write").0, count, "{file}");
    }
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_trace_can_be_read_after_a_kill() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "--record-trace t.csv.zst");
    let mut client = served.client("main");
    let began = Instant::now();
    // What was asked a second ago is in the file, and more comes.
    while run(folder, "lab analyze --quick --json --trace t.csv.zst").code != 0 {
        client.call(Nbd::Write, 0, 4096, 0, &[7; 4096]).expect("written");
        std::thread::sleep(Duration::from_millis(20));
        assert!(began.elapsed() < PATIENCE, "nothing is in the file");
    }
    drop(served);
    assert!(requests(&found(folder, "t.csv.zst"), "write").0 > 0);
}

#[test]
fn requests_tell_how_many_flushes_they_overlapped() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "--record-trace t.csv");
    let mut client = served.client("main");
    for lba in 0..64_u64 {
        client.send(Nbd::Write, 0, lba * 4096, 0, &[7; 4096]).expect("sent");
        client.send(Nbd::Flush, 0, 0, 0, &[]).expect("sent");
    }
    (0..128).for_each(|_| drop(client.receive().expect("a reply")));
    client.call(Nbd::Write, 0, 0, 0, &[7; 4096]).expect("written");
    drop(client);
    assert_eq!(served.stop(), 0);
    let outstanding: Vec<Option<u16>> =
        requests_of(&folder.join("t.csv")).iter().map(|request| request.outstanding).collect();
    assert_eq!(outstanding[0], Some(0));
    assert!(outstanding.iter().any(|count| *count > Some(1)), "{outstanding:?}");
    assert_eq!(outstanding[128], Some(0), "the client waited for all");
}

/// The requests of a trace.
fn requests_of(path: &Path) -> Vec<Request> {
    let mut trace = trace::open(path, &trace::Options::default()).expect("a trace");
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        trace.fill(&mut batch).expect("it can be read");
        if batch.is_empty() {
            return all;
        }
        all.extend_from_slice(&batch);
    }
}

/// Eight requests are under way at once. Before and after a flush the client waits for all of them.
fn replay(served: &Served, requests: &[Request]) {
    let data = noise(1 << 20);
    let mut client = served.client("main");
    let size = client.size();
    let mut under_way = 0;
    for request in requests {
        let (command, at, end) = match request.op {
            Op::Write => (Nbd::Write, request.offset.0, request.end().0),
            Op::Trim => (Nbd::Trim, request.offset.0, request.end().0.min(size)),
            Op::Flush => (Nbd::Flush, 0, 1),
            Op::Read | Op::WriteZeroes => continue,
        };
        let most = if command == Nbd::Flush { 0 } else { 7 };
        for at in (at..end).step_by(data.len()) {
            while under_way > most {
                assert_eq!(client.receive().expect("a reply").error, 0);
                under_way -= 1;
            }
            let length = (end - at).min(data.len() as u64);
            let sent = match command {
                Nbd::Write => client.send(command, 0, at, 0, &data[..length as usize]),
                Nbd::Trim => client.send(command, 0, at, length, &[]),
                _ => client.send(command, 0, 0, 0, &[]),
            };
            sent.expect("sent");
            under_way += 1;
        }
        if command == Nbd::Flush {
            assert_eq!(client.receive().expect("a reply").error, 0);
            under_way = 0;
        }
    }
    (0..under_way).for_each(|_| drop(client.receive().expect("a reply")));
}

#[test]
fn a_replayed_database_wears_a_simulated_drive_as_the_lab_predicts_from_its_record() {
    let folder = scratch();
    let folder = folder.path();
    let device = "path = 'q.img'\nsize = '768MiB'\nkind = 'simulated'\nprofile = 'p5316'\n";
    let volumes =
        "[[volumes]]\nname = 'main'\nsize = '3GiB'\n[[volumes]]\nname = 'second'\nsize = '4MiB'\n";
    write(folder, "pool.toml", format!("[device]\n{device}{volumes}"));
    run(folder, "format pool.toml").ok();
    let requests = requests_of(Path::new("mariadb-tpcc"));
    let served = Served::start(folder, "--record-trace t.csv");
    replay(&served, &requests[..30_000]);
    let media = served.status()["totals"]["media"].clone();
    assert_eq!(served.stop(), 0);
    let bytes = |all: &Value| -> f64 {
        all.as_object().expect("bytes by cause").values().filter_map(Value::as_f64).sum()
    };
    let lab =
        "lab run --pool pool.toml --trace t.csv --prefill none --loops 1 --set log.packs=0 --json";
    let predicted = run(folder, lab).json()["media_bytes_written"]["by_cause"].clone();
    let ratio = bytes(&predicted) / bytes(&media);
    assert!((ratio - 1.0).abs() <= 0.02, "{ratio}: {predicted}, served {media}");
}
