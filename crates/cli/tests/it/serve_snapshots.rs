//! Snapshots of the volumes of a pool, served and not.

use std::path::Path;

use thermocline_nbd::protocol::request::{Command, flag};
use thermocline_nbd::{Client, ClientError, protocol::request::Framing};

use super::serve::{Served, format, format_on, run};
use crate::scratch;

/// NBD's `EPERM`.
const READ_ONLY: u32 = 1;

const MIB: u64 = 1 << 20;

#[track_caller]
fn fill(client: &mut Client<std::os::unix::net::UnixStream>, byte: u8, mib: std::ops::Range<u64>) {
    for offset in (mib.start * MIB..mib.end * MIB).step_by(MIB as usize) {
        client.call(Command::Write, 0, offset, 0, &[byte; MIB as usize]).expect("written");
    }
    client.call(Command::Flush, 0, 0, 0, &[]).expect("flushed");
}

#[track_caller]
fn shows(served: &Served, export: &str, offset: u64, byte: u8) {
    let read = served.client(export).call(Command::Read, 0, offset, 4096, &[]).expect("read");
    assert!(read.data == [byte; 4096], "{export} at {offset} begins with {}", read.data[0]);
}

/// Bytes of all volumes and snapshots that the pool holds.
fn mapped(served: &Served) -> u64 {
    served.status()["engine"]["mapped_bytes"].as_u64().expect("a number")
}

fn names(folder: &Path) -> Vec<String> {
    let listed = run(folder, "volume list pool.toml --json").json();
    let volumes = listed["volumes"].as_array().expect("a list").iter();
    volumes.map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_snapshot_shows_what_was_there_until_it_is_deleted_and_its_space_returns() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    let mut client = served.client("main");
    fill(&mut client, 1, 0..8);
    let made = run(folder, "volume snapshot pool.toml main monday").ok();
    assert!(made.contains("`main@monday` is a snapshot of volume `main`"), "{made}");
    fill(&mut client, 2, 0..4);
    client.call(Command::Trim, flag::FUA, 4 * MIB, MIB, &[]).expect("trimmed");
    let check = |served: &Served| {
        for (export, offset, byte) in [
            ("main", 0, 2),
            ("main", 4 * MIB, 0),
            ("main", 6 * MIB, 1),
            ("main@monday", 0, 1),
            ("main@monday", 4 * MIB, 1),
            ("main@monday", 6 * MIB, 1),
        ] {
            shows(served, export, offset, byte);
        }
    };
    check(&served);
    let written = served.client("main@monday").call(Command::Write, 0, 0, 0, &[3; 4096]);
    assert!(matches!(written, Err(ClientError::Request(READ_ONLY))), "{written:?}");
    let refused = run(folder, "volume snapshot pool.toml main monday").refused(2);
    assert!(refused.contains("a volume of that name exists"), "{refused}");
    let refused =
        run(folder, "volume delete pool.toml main --yes-destroy main --despite-clients").refused(2);
    assert!(refused.contains("has snapshots, which must be deleted before"), "{refused}");
    assert_eq!(names(folder), ["main", "second", "main@monday"]);
    served.signal("KILL");
    drop((client, served));

    let served = Served::start(folder, "");
    check(&served);
    let before = mapped(&served);
    run(folder, "volume delete pool.toml main@monday --yes-destroy main@monday").ok();
    assert!(Client::connect(served.stream(), "main@monday", Framing::Simple).is_err());
    let began = std::time::Instant::now();
    // Of 4 MiB that were overwritten and 1 MiB that was trimmed.
    while mapped(&served) > before - 5 * MIB {
        assert!(began.elapsed() < super::serve::PATIENCE, "{} of {before}", mapped(&served));
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    for (offset, byte) in [(0, 2), (4 * MIB, 0), (6 * MIB, 1)] {
        shows(&served, "main", offset, byte);
    }
    assert_eq!(served.stop(), 0);
    assert_eq!(names(folder), ["main", "second"]);
}

#[test]
fn a_snapshot_is_made_and_deleted_in_a_pool_that_is_not_served() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    run(folder, "volume snapshot pool.toml main monday").ok();
    let served = Served::start(folder, "");
    fill(&mut served.client("main"), 1, 0..1);
    shows(&served, "main@monday", 0, 0);
    shows(&served, "main", 0, 1);
    assert_eq!(served.stop(), 0);
    assert_eq!(names(folder), ["main", "second", "main@monday"]);
    let wrong = run(folder, "volume snapshot pool.toml main a/b").refused(2);
    assert!(wrong.contains("cannot be the name of a volume"), "{wrong}");
    run(folder, "volume delete pool.toml main@monday --yes-destroy main@monday").ok();
    run(folder, "volume delete pool.toml main --yes-destroy main").ok();
    assert_eq!(names(folder), ["second"]);
}

#[test]
fn snapshots_rotate_for_ever_though_nobody_overwrites_what_deleted_ones_have() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    let mut client = served.client("main");
    // More snapshots than a volume may have layers; each has blocks of its own that stay.
    for day in 0..80_u8 {
        client
            .call(Command::Write, flag::FUA, u64::from(day) * 4096, 0, &[day + 1; 4096])
            .expect("written");
        run(folder, &format!("volume snapshot pool.toml main day{day}")).ok();
        if day >= 3 {
            let old = format!("main@day{}", day - 3);
            run(folder, &format!("volume delete pool.toml {old} --yes-destroy {old}")).ok();
        }
    }
    let check = |served: &Served| {
        for day in 0..80_u8 {
            shows(served, "main", u64::from(day) * 4096, day + 1);
        }
        shows(served, "main@day77", 77 * 4096, 78);
        shows(served, "main@day77", 78 * 4096, 0);
    };
    check(&served);
    drop(client);
    assert_eq!(served.stop(), 0);
    assert_eq!(names(folder), ["main", "second", "main@day77", "main@day78", "main@day79"]);
    // The same in a pool that is not served.
    for day in 80..150_u8 {
        run(folder, &format!("volume snapshot pool.toml main day{day}")).ok();
        let old = format!("main@day{}", day - 3);
        run(folder, &format!("volume delete pool.toml {old} --yes-destroy {old}")).ok();
    }
    let served = Served::start(folder, "");
    for day in 0..80_u8 {
        shows(&served, "main", u64::from(day) * 4096, day + 1);
    }
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_pool_that_was_full_with_a_snapshot_takes_writes_over_its_blocks_after_its_deletion() {
    let folder = scratch();
    let folder = folder.path();
    format_on(folder, "[device]\npath = 'pool.img'\nsize = '80MiB'\nunit = '1MiB'\n");
    let served = Served::start(folder, "");
    let mut client = served.client("main");
    fill(&mut client, 1, 0..48);
    run(folder, "volume snapshot pool.toml main monday").ok();
    let over = |client: &mut Client<_>, offset: u64, byte: u8| {
        client.call(Command::Write, flag::FUA, offset, 0, &vec![byte; MIB as usize])
    };
    let mut offset = 0;
    while over(&mut client, offset, 2).is_ok() {
        offset += MIB;
        assert!(offset < 48 * MIB, "the pool must become full");
    }
    run(folder, "volume delete pool.toml main@monday --yes-destroy main@monday").ok();
    for offset in (0..48).rev().map(|mib| mib * MIB) {
        over(&mut client, offset, 3).expect("blocks of the deleted snapshot give way");
    }
    for offset in (0..48 * MIB).step_by(MIB as usize) {
        shows(&served, "main", offset, 3);
    }
    drop(client);
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_clone_goes_its_own_way_and_outlives_its_snapshot_and_its_first_volume() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    let mut client = served.client("main");
    fill(&mut client, 1, 0..8);
    run(folder, "volume snapshot pool.toml main monday").ok();
    let refused = run(folder, "volume clone pool.toml main trial").refused(2);
    assert!(refused.contains("a clone can be made of a snapshot only"), "{refused}");
    let made = run(folder, "volume clone pool.toml main@monday trial").ok();
    assert!(made.contains("volume `trial` begins as `main@monday`"), "{made}");
    let refused = run(folder, "volume clone pool.toml main@monday trial").refused(2);
    assert!(refused.contains("a volume of that name exists"), "{refused}");
    let listed = run(folder, "volume list pool.toml").ok();
    assert!(listed.lines().any(|line| line.contains("trial") && line.contains("main@monday")));
    fill(&mut client, 2, 0..2);
    let mut trial = served.client("trial");
    fill(&mut trial, 3, 1..4);
    trial.call(Command::Trim, flag::FUA, 4 * MIB, MIB, &[]).expect("trimmed");
    let check = |served: &Served, exports: &[&str]| {
        for (export, bytes) in
            [("main", [2, 2, 1, 1, 1, 1]), ("main@monday", [1; 6]), ("trial", [1, 3, 3, 3, 0, 1])]
        {
            for (mib, byte) in (0..).zip(bytes).filter(|_| exports.contains(&export)) {
                shows(served, export, mib * MIB, byte);
            }
        }
    };
    check(&served, &["main", "main@monday", "trial"]);
    served.signal("KILL");
    drop((client, trial, served));

    let served = Served::start(folder, "");
    check(&served, &["main", "main@monday", "trial"]);
    // 8 MiB of the snapshot, 2 of the volume, 3 of the clone.
    assert_eq!(mapped(&served), 13 * MIB);
    run(folder, "volume delete pool.toml main@monday --yes-destroy main@monday").ok();
    run(folder, "volume delete pool.toml main --yes-destroy main").ok();
    check(&served, &["trial"]);
    let wait_for = |served: &Served, bytes: u64| {
        let began = std::time::Instant::now();
        while mapped(served) != bytes {
            assert!(began.elapsed() < super::serve::PATIENCE, "{} bytes", mapped(served));
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    };
    // 3 MiB of its own, and 4 of the snapshot that it neither wrote nor trimmed.
    wait_for(&served, 7 * MIB);
    assert_eq!(served.stop(), 0);
    run(folder, "volume snapshot pool.toml trial tuesday").ok();
    run(folder, "volume clone pool.toml trial@tuesday second-trial").ok();
    assert_eq!(names(folder), ["second", "trial", "trial@tuesday", "second-trial"]);
    let served = Served::start(folder, "");
    check(&served, &["trial"]);
    shows(&served, "second-trial", MIB, 3);
    shows(&served, "second-trial", 5 * MIB, 1);
    for gone in ["trial@tuesday", "trial", "second-trial"] {
        run(folder, &format!("volume delete pool.toml {gone} --yes-destroy {gone}")).ok();
    }
    wait_for(&served, 0);
    assert_eq!(served.stop(), 0);
}
