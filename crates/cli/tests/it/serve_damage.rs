//! Damage below a served pool: reports of the damage, and freeing of units with damaged blocks.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use serde_json::Value;
use thermocline_nbd::protocol::request::{Command, flag};

use super::serve::{Served, command, format, run};
use crate::scratch;

/// An incompressible block.
pub fn block(number: u64) -> Vec<u8> {
    let mut state = number + 1;
    let word = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 32) as u32
    };
    (0..1024).map(word).flat_map(u32::to_le_bytes).collect()
}

/// Damages the blocks in the image of the pool. Returns the number of blocks found.
fn spoil(folder: &Path, blocks: &[u64]) -> usize {
    spoil_in(folder, "pool.img", blocks)
}

/// The same in the image of one of several devices.
pub fn spoil_in(folder: &Path, image: &str, blocks: &[u64]) -> usize {
    let path = folder.join(image);
    let image = fs::read(&path).expect("it is there");
    let file = File::options().write(true).open(&path).expect("writable");
    let wanted: Vec<Vec<u8>> = blocks.iter().map(|number| block(*number)).collect();
    let mut spoiled = 0;
    for (index, found) in image.chunks(4096).enumerate() {
        if wanted.iter().any(|wanted| wanted == found) {
            file.write_all_at(b"damage", index as u64 * 4096 + 77).expect("writable");
            spoiled += 1;
        }
    }
    spoiled
}

#[test]
fn damage_is_told_with_its_device_and_its_blocks_can_be_given_up_by_range() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    let mut client = served.client("main");
    for lba in 0..64_u64 {
        client.call(Command::Write, flag::FUA, lba * 4096, 0, &block(lba)).expect("written");
    }
    drop(client);
    assert_eq!(served.stop(), 0);
    let damaged: Vec<u64> = (8..24).chain([40]).collect();
    assert_eq!(spoil(folder, &damaged), 17);
    let mut serve = command(folder, "serve pool.toml");
    serve.stderr(File::create(folder.join("said.txt")).expect("a file"));
    let served = Served::spawn(folder, serve);
    let mut client = served.client("main");
    for lba in 0..64_u64 {
        let read = client.call(Command::Read, 0, lba * 4096, 4096, &[]);
        assert_eq!(read.is_err(), damaged.contains(&lba), "block {lba}");
    }
    let status = run(folder, "status pool.toml").ok();
    assert!(status.starts_with("at risk: 17 reads have met damaged blocks"), "{status}");
    assert!(!status.contains("at risk: nothing"), "{status}");
    drop(client);
    assert_eq!(served.stop(), 0);
    let said = fs::read_to_string(folder.join("said.txt")).expect("it was said");
    assert_eq!(said.matches("pool.img: the block at unit").count(), 5, "{said}");
    let place =
        ", 4 KiB of volume `main` at byte 32768, cannot be read, or is not what was written";
    assert_eq!(said.matches(place).count(), 1, "{said}");
    assert_eq!(said.matches("10 reads have met damaged blocks").count(), 1, "{said}");
    assert!(said.contains("thermocline check pool.toml"), "{said}");
    let scrubbed = run(folder, "scrub pool.toml");
    assert_eq!(scrubbed.code, 1, "{}", scrubbed.err);
    let place = ", 4 KiB of volume `main` at byte 163840, is not what was written";
    assert!(scrubbed.out.contains(place), "{}", scrubbed.out);
    let listed = run(folder, "volume give-up pool.toml main");
    assert_eq!(listed.code, 1, "{}", listed.err);
    for expected in [
        "volume `main`: 68 KiB in 2 ranges are damaged",
        "64 KiB from byte 32768",
        "4 KiB from byte 163840",
        "nothing was changed",
    ] {
        assert!(listed.out.contains(expected), "{expected}: {}", listed.out);
    }
    run(folder, "volume give-up pool.toml main --yes-destroy second").refused(2);
    let part = "volume give-up pool.toml main --offset 128KiB --json --yes-destroy main";
    let report = run(folder, part).json();
    assert_eq!((&report["done"], &report["bytes"]), (&true.into(), &4096.into()), "{report}");
    let done = run(folder, "volume give-up pool.toml main --yes-destroy main").ok();
    assert!(done.contains("64 KiB in 1 ranges are given up"), "{done}");
    let again = run(folder, "volume give-up pool.toml main").ok();
    assert!(again.contains("no block that cannot be read"), "{again}");
    assert_eq!(run(folder, "scrub pool.toml").code, 0, "nothing points at what is damaged");
    let checked = run(folder, "check pool.toml --json");
    let report: Value = serde_json::from_str(&checked.out).expect("JSON");
    assert_eq!(report["damaged"].as_array().map(Vec::len), Some(17), "lost, never older");
    let served = Served::start(folder, "");
    let mut client = served.client("main");
    assert!(client.call(Command::Read, 0, 8 * 4096, 4096, &[]).is_err());
    for lba in damaged {
        client.call(Command::Write, flag::FUA, lba * 4096, 0, &block(lba)).expect("written");
    }
    drop(client);
    assert_eq!(served.stop(), 0);
    run(folder, "check pool.toml").ok();
}

#[test]
fn a_reader_that_goes_away_does_not_hide_damage() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    let mut client = served.client("main");
    for lba in 0..2000_u64 {
        client.call(Command::Write, 0, lba * 4096, 0, &block(lba)).expect("written");
    }
    drop(client);
    assert_eq!(served.stop(), 0);
    assert_eq!(spoil(folder, &(0..2000).collect::<Vec<_>>()), 2000);
    for look in ["check", "scrub"] {
        let (read, written) = std::io::pipe().expect("a pipe");
        drop(read);
        let mut command = command(folder, &format!("{look} pool.toml"));
        let status = command.stdout(written).status().expect("it runs");
        assert_eq!(status.code(), Some(1), "{look}");
    }
}
