//! Pools of other format versions: released ones are opened and written, others are refused.

use std::fs;
use std::path::{Path, PathBuf};

use thermocline_format::{OLDEST_VERSION, SUPERBLOCK_PREFIX_BYTES, VERSION, prefix_checksum};
use thermocline_nbd::protocol::request::{Command, flag};

use super::serve::{Served, format, format_mirrored, run};
use crate::{repository, scratch, write};

/// Version of each released format. `crates/cli/testdata` has a pool of each.
const RELEASED: [u16; 2] = [7, 8];

/// Settings of the golden pools.
const SETTINGS: &str = "[device]\npath = 'pool.img'\nsize = '24MiB'\nunit = '1MiB'\n\
                        [[volumes]]\nname = 'main'\nsize = '4MiB'\n[[volumes]]\nname = 'second'\nsize = '1MiB'\n";

/// The first version with snapshots; its golden pool has one of `main`, made before the second writes.
const SNAPSHOTS: u16 = 8;

/// Blocks of `main` that a golden pool has; even ones were written twice, and the last eight trimmed.
const BLOCKS: u64 = 64;
const TRIMMED: u64 = 8;

fn golden(version: u16) -> PathBuf {
    repository().join(format!("crates/cli/testdata/pool-v{version}.img.zst"))
}

/// A block of `main` as it was written the first or the second time.
fn block(lba: u64, time: u64) -> Vec<u8> {
    format!("block {lba:07} time {time:07}\n").bytes().cycle().take(4096).collect()
}

/// What block `lba` of `main` reads as.
fn expected(lba: u64) -> Vec<u8> {
    match lba {
        lba if lba >= BLOCKS - TRIMMED => vec![0; 4096],
        lba => block(lba, (lba + 1) % 2),
    }
}

/// Compares the blocks of `main`, and of its snapshot if there is one.
fn compare(served: &Served, version: u16) {
    let mut main = served.client("main");
    let mut snapshot = (version >= SNAPSHOTS).then(|| served.client("main@first"));
    for lba in 0..BLOCKS {
        let read = main.call(Command::Read, 0, lba * 4096, 4096, &[]).expect("read");
        assert!(read.data == expected(lba), "block {lba}");
        if let Some(snapshot) = &mut snapshot {
            let read = snapshot.call(Command::Read, 0, lba * 4096, 4096, &[]).expect("read");
            assert!(read.data == block(lba, 0), "block {lba} of the snapshot");
        }
    }
}

/// How golden pools are made: the server is killed when all is durable, so that a recovery has chunks to replay.
#[test]
#[ignore = "writes the golden pools of new format versions, once each"]
fn write_golden_pools() {
    let new = (OLDEST_VERSION..=VERSION).filter(|version| !golden(*version).exists());
    new.for_each(write_a_golden_pool);
}

fn write_a_golden_pool(version: u16) {
    let folder = scratch();
    let folder = folder.path();
    write(folder, "pool.toml", SETTINGS);
    run(folder, "format pool.toml").ok();
    let mut served = Served::start(folder, "");
    let mut main = served.client("main");
    let mut write = |lba: u64, time| {
        main.call(Command::Write, flag::FUA, lba * 4096, 0, &block(lba, time)).expect("written");
    };
    (0..BLOCKS).for_each(|lba| write(lba, 0));
    if version >= SNAPSHOTS {
        run(folder, "volume snapshot pool.toml main first").ok();
    }
    (0..BLOCKS).step_by(2).for_each(|lba| write(lba, 1));
    let (from, length) = ((BLOCKS - TRIMMED) * 4096, TRIMMED * 4096);
    main.call(Command::Trim, flag::FUA, from, length, &[]).expect("trimmed");
    compare(&served, version);
    served.signal("KILL");
    served.child.wait().expect("it is killed");
    let image = fs::read(folder.join("pool.img")).expect("it is there");
    fs::write(golden(version), zstd::encode_all(&image[..], 19).expect("memory"))
        .expect("writable");
}

#[test]
fn golden_pools_of_released_formats_are_read_checked_and_written() {
    for version in RELEASED {
        let folder = scratch();
        let folder = folder.path();
        let packed = fs::read(golden(version)).expect("each released format has one");
        let image = zstd::decode_all(&packed[..]).expect("it is sound");
        write(folder, "pool.img", &image);
        write(folder, "pool.toml", SETTINGS);
        let doctor = run(folder, "doctor pool.toml").ok();
        let opens = format!(" of format {version} opens, with ");
        assert!(doctor.contains(&opens), "{version}: {doctor}");
        let checked = run(folder, "check pool.toml --json").json();
        assert_eq!(checked["clean"], true, "{version}: {checked}");
        assert!(checked["replayed_chunks"].as_u64() > Some(0), "{version}: {checked}");
        let served = Served::start(folder, "--read-only");
        compare(&served, version);
        assert_eq!(served.stop(), 0);
        assert!(fs::read(folder.join("pool.img")).expect("it is there") == image, "only read");
        let served = Served::start(folder, "");
        compare(&served, version);
        let mut second = served.client("second");
        second.call(Command::Write, flag::FUA, 0, 0, &block(0, 2)).expect("written");
        drop(second);
        assert_eq!(served.stop(), 0);
        assert_eq!(run(folder, "check pool.toml --json").json()["replayed_chunks"], 0);
        assert_eq!(run(folder, "status pool.toml --json").json()["format"], version);
        let served = Served::start(folder, "");
        compare(&served, version);
        let read = served.client("second").call(Command::Read, 0, 0, 4096, &[]).expect("read");
        assert!(read.data == block(0, 2));
        assert_eq!(served.stop(), 0);
    }
}

/// Gives all superblock records in the image of a device another version. The checksums stay right.
fn restamp(image: &Path, version: u16) {
    let mut bytes = fs::read(image).expect("it is there");
    let magic: [u8; 8] = *b"THERMOSB";
    for at in (0..bytes.len()).step_by(512) {
        if !bytes[at..].starts_with(&magic) {
            continue;
        }
        let end = at + SUPERBLOCK_PREFIX_BYTES - 4;
        bytes[at + 8..at + 10].copy_from_slice(&version.to_le_bytes());
        let checksum = prefix_checksum(&bytes[at..end]);
        bytes[end..end + 4].copy_from_slice(&checksum.to_le_bytes());
    }
    fs::write(image, bytes).expect("writable");
}

#[test]
fn pools_of_newer_and_older_formats_are_refused_with_both_versions_and_the_way_on() {
    let newer =
        (VERSION + 1, format!("reads up to version {VERSION}"), "A newer thermocline wrote");
    let older = (
        OLDEST_VERSION - 1,
        format!("reads none before version {OLDEST_VERSION}"),
        "No release wrote",
    );
    type Make = fn(&Path);
    let pools: [(Make, &[&str]); 2] = [
        (format, &["pool.img"]),
        (|folder| format_mirrored(folder, "auto"), &["a.img", "b.img", "pool.img"]),
    ];
    for (version, reads, remedy) in [newer, older] {
        for (make, images) in pools {
            let folder = scratch();
            let folder = folder.path();
            make(folder);
            images.iter().for_each(|image| restamp(&folder.join(image), version));
            let before: Vec<_> = images.iter().map(|image| fs::read(folder.join(image))).collect();
            for asked in ["status", "check", "scrub", "map", "serve", "inspect"] {
                let refused = run(folder, &format!("{asked} pool.toml")).refused(2);
                for words in [&*format!("version {version}; this program "), &*reads, remedy] {
                    assert!(refused.contains(words), "{asked}, {words}: {refused}");
                }
            }
            let doctor = run(folder, "doctor pool.toml");
            assert_eq!(doctor.code, 1, "{}", doctor.out);
            assert!(doctor.out.contains(&reads) && doctor.out.contains(remedy), "{}", doctor.out);
            let format = run(folder, "format pool.toml").refused(2);
            assert!(format.contains("--yes-destroy"), "{format}");
            for (image, before) in images.iter().zip(before) {
                let after = fs::read(folder.join(image)).expect("it is there");
                assert!(after == before.expect("it is there"), "{image} was changed");
            }
        }
    }
}
