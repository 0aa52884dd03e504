//! A simulated drive served without a pool: `layer = "raw"` and `"tag"`.

use std::path::Path;

use thermocline_nbd::protocol::request::{Command, flag};

use super::serve::{Served, run};
use crate::{scratch, write};

/// Settings of a drive of 256 MiB with two volumes.
fn settings(folder: &Path, profile: &str, layer: &str) {
    let device =
        format!("path = 'drive.img'\nsize = '256MiB'\nkind = 'simulated'\nprofile = '{profile}'");
    let volumes = "[[volumes]]\nname = 'main'\nsize = '128MiB'\n[[volumes]]\nname = 'second'\nsize = '32MiB'\n";
    write(folder, "pool.toml", format!("[device]\n{device}\n[pool]\nlayer = '{layer}'\n{volumes}"));
}

/// The block that the `number`th write goes to, in an order that looks random.
fn place(number: u64) -> u64 {
    number * 7919 % 16_384 * 4096
}

/// Writes blocks of 4 KiB all over the first 64 MiB of the main volume, once and a half. Returns the WAF.
fn churn(served: &Served) -> f64 {
    let mut client = served.client("main");
    for number in 0..24_576u64 {
        let data = [number as u8; 4096];
        client.call(Command::Write, 0, place(number), 0, &data).expect("written");
    }
    client.call(Command::Flush, 0, 0, 0, &[]).expect("flushed");
    let status = served.status();
    let drive = &status["drive"];
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    let waf = number(&status["waf"]);
    let host = number(&status["engine"]["host_bytes_written"]);
    assert!((waf - number(&drive["media_bytes_written"]) / host).abs() < 1e-9);
    waf
}

/// Reads what [`churn`] wrote last.
fn verify(served: &Served) {
    let mut client = served.client("main");
    for number in (24_576 - 16_384)..24_576u64 {
        let read = client.call(Command::Read, 0, place(number), 4096, &[]).expect("read");
        assert!(read.data == [number as u8; 4096], "write {number}");
    }
}

#[test]
fn the_waf_of_one_load_is_seen_without_and_with_the_log() {
    let waf = |layer: &str| {
        let folder = scratch();
        let folder = folder.path();
        settings(folder, "p5316", layer);
        if layer == "log" {
            run(folder, "format pool.toml").ok();
        }
        let mut served = Served::start(folder, "");
        let waf = churn(&served);
        verify(&served);
        let shown = run(folder, "status pool.toml").ok();
        assert!(shown.contains("main"), "{shown}");
        run(folder, "stat pool.toml").ok();
        served.child.kill().expect("it runs");
        served.child.wait().expect("it was killed");
        let served = Served::start(folder, "");
        verify(&served);
        assert_eq!(served.stop(), 0);
        waf
    };
    let [raw, tag, log] = ["raw", "tag", "log"].map(waf);
    // A drive with indirection units of 64 KiB writes a whole one for each block.
    assert!(raw > 8.0 && (tag / raw - 1.0).abs() < 0.05, "{raw} {tag}");
    assert!(log < 1.5, "{log}");
}

#[test]
fn volumes_of_a_drive_have_ranges_of_their_own() {
    let folder = scratch();
    let folder = folder.path();
    settings(folder, "pm9d3", "tag:auto");
    let served = Served::start(folder, "");
    let mut both = ["main", "second"].map(|name| served.client(name));
    assert_eq!(both.each_ref().map(thermocline_nbd::Client::size), [128 << 20, 32 << 20]);
    for (client, byte) in both.iter_mut().zip([1, 2]) {
        // The end of a unit lies within it.
        client
            .call(Command::Write, flag::FUA, (1 << 20) - 4096, 0, &vec![byte; 1 << 20])
            .expect("written");
    }
    for (client, byte) in both.iter_mut().zip([1, 2]) {
        client.call(Command::Trim, 0, 1 << 20, 8192, &[]).expect("trimmed");
        let read = client.call(Command::Read, 0, (1 << 20) - 512, 1024, &[]).expect("read");
        assert!(read.data[..512] == [byte; 512] && read.data[512..] == [0; 512]);
    }
    let mut refused = both[1].call(Command::Read, 0, 32 << 20, 512, &[]);
    refused.as_mut().expect_err("beyond its end");
    let refused = run(folder, "volume create pool.toml third 8MiB").refused(2);
    assert!(refused.contains("its volumes have fixed places"), "{refused}");
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_pool_is_not_overwritten_by_a_drive_nor_looked_for_on_it() {
    let folder = scratch();
    let folder = folder.path();
    settings(folder, "p5316", "log");
    run(folder, "format pool.toml").ok();
    settings(folder, "p5316", "raw");
    let refused = run(folder, "serve pool.toml").refused(2);
    assert!(
        refused.contains("holds the pool") && refused.contains("another device.path"),
        "{refused}"
    );
    let refused = run(folder, "check pool.toml").refused(2);
    assert!(refused.contains("pool.layer") && refused.contains("there is no pool"), "{refused}");
    settings(folder, "zn540", "raw");
    let refused = run(folder, "serve pool.toml").refused(2);
    assert!(refused.contains("takes no writes in any order"), "{refused}");
    write(
        folder,
        "pool.toml",
        "[device]\npath = 'a.img'\nsize = '64MiB'\n[pool]\nlayer = 'raw'\n[[volumes]]\nname = 'a'\n",
    );
    let refused = run(folder, "serve pool.toml").refused(2);
    assert!(refused.contains("kind = \"simulated\""), "{refused}");
}
