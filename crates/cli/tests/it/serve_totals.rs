//! Totals: bytes of a pool over restarts, kills and changes of devices.

use std::path::Path;

use serde_json::Value;

use super::serve::{Served, format, run};
use super::serve_metrics::{format_simulated, metric, metrics, write_blocks};
use crate::{scratch, write};

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

/// Sum of the bytes by cause or kind.
fn sum(bytes: &Value) -> u64 {
    bytes.as_object().expect("bytes by name").values().map(number).sum()
}

/// The totals in the status of a pool that is not served.
fn at_rest(folder: &Path) -> Value {
    run(folder, "status pool.toml --json").json()["totals"].clone()
}

#[test]
fn totals_of_a_pool_on_a_simulated_drive_last_over_stops_and_kills() {
    let folder = scratch();
    let folder = folder.path();
    format_simulated(folder, "p5316");
    assert!(at_rest(folder).is_null(), "it was never served");
    let served = Served::start(folder, "");
    write_blocks(&served, 300);
    let first = served.status()["totals"].clone();
    assert_eq!(first["host"]["written"], 300 * 4096, "{first}");
    assert_eq!(served.stop(), 0);
    let stopped = at_rest(folder);
    assert_eq!(stopped["host"], first["host"]);
    assert!(sum(&stopped["device"]) > sum(&first["device"]), "the close writes too: {stopped}");
    assert!(sum(&stopped["media"]) > 2 * sum(&stopped["device"]), "small writes: {stopped}");
    assert_eq!(stopped["drives"]["written"], sum(&stopped["device"]), "{stopped}");
    assert_eq!(number(&stopped["volumes"]["1"]["host"]), 300 * 4096, "{stopped}");
    let mut served = Served::start(folder, "");
    write_blocks(&served, 100);
    let status = served.status();
    assert_eq!(status["engine"]["host_bytes_written"], 100 * 4096, "of this service");
    assert_eq!(status["totals"]["host"]["written"], 400 * 4096, "of both");
    assert_eq!(status["totals"]["began_unix_seconds"], first["began_unix_seconds"]);
    let text = metrics(&served);
    let name = "lifetime_host_bytes_total{kind=\"written\"}";
    assert_eq!(metric(&text, name), Some(400.0 * 4096.0), "{text}");
    assert!(
        metric(&text, "lifetime_media_written_bytes_total{cause=\"host\"}").is_some(),
        "{text}"
    );
    served.signal("KILL");
    served.child.wait().expect("it is killed");
    let killed = at_rest(folder);
    for part in ["host", "device", "media", "drives"] {
        assert!(sum(&killed[part]) >= sum(&stopped[part]), "{part}: {killed} after {stopped}");
    }
    let media = number(&killed["media_bytes"]) as f64;
    let erases = killed["drives"]["erased"].as_f64().expect("a drive") / media;
    assert!(media > 0.0 && killed["mean_cycles"] == erases, "{killed}");
    let served = Served::start(folder, "");
    write_blocks(&served, 10);
    let last = served.status()["totals"].clone();
    assert!(number(&last["host"]["written"]) >= 310 * 4096, "{last}");
    let told = run(folder, "status pool.toml").ok();
    assert!(told.contains(" written by hosts, ") && told.contains(" to NAND (WAF "), "{told}");
    assert_eq!(served.stop(), 0);
    let told = run(folder, "status pool.toml").ok();
    assert!(told.contains(" written by hosts, "), "{told}");
}

#[test]
fn totals_last_over_changes_of_devices_and_are_of_one_pool() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    write_blocks(&served, 50);
    let settings = std::fs::read_to_string(folder.join("pool.toml")).expect("settings");
    let more = "[[device]]\npath = 'b.img'\nsize = '64MiB'\nunit = '1MiB'\n";
    write(folder, "pool.toml", settings.replace("[device]", "[[device]]") + more);
    run(folder, "device attach pool.toml b.img").ok();
    write_blocks(&served, 30);
    let totals = served.status()["totals"].clone();
    assert_eq!(totals["host"]["written"], 80 * 4096, "{totals}");
    assert_eq!(sum(&totals["classes"]["capacity"]), sum(&totals["device"]), "{totals}");
    assert!(totals["media"].as_object().expect("none").is_empty(), "no drive is simulated");
    assert_eq!(served.stop(), 0);
    assert_eq!(at_rest(folder)["host"]["written"], 80 * 4096);
    // Another pool at the same place.
    for image in ["pool.img", "b.img"] {
        std::fs::remove_file(folder.join(image)).expect("it is there");
    }
    run(folder, "format pool.toml").ok();
    assert!(at_rest(folder).is_null());
    let served = Served::start(folder, "");
    assert_eq!(served.status()["totals"]["host"]["written"], 0);
    assert_eq!(served.stop(), 0);
    write(folder, "pool.totals.json", "{");
    let refused = run(folder, "status pool.toml").refused(2);
    assert!(refused.contains("pool.totals.json is no record of totals"), "{refused}");
    let served = Served::start(folder, "");
    write_blocks(&served, 3);
    assert_eq!(served.stop(), 0, "a service goes on without the record");
    assert_eq!(at_rest(folder)["host"]["written"], 3 * 4096);
}
