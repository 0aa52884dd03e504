//! Pools as for a new user: formatted on a file, filled, killed, checked.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::{Done, numbers, scratch, write};

fn command(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thermocline"));
    command.args(arguments.split_whitespace()).current_dir(folder).stdin(Stdio::null());
    command
}

fn run(folder: &Path, arguments: &str) -> Done {
    let done = command(folder, arguments).output().expect("the program starts");
    Done {
        code: done.status.code().expect("no signal ends the program"),
        out: String::from_utf8(done.stdout).expect("UTF-8"),
        err: String::from_utf8(done.stderr).expect("UTF-8"),
    }
}

/// Settings of a pool of 64 units with one volume.
fn settings(folder: &Path, logical_block: u32) {
    let text = format!(
        "[device]\npath = 'pool.img'\nsize = '64MiB'\nunit = '1MiB'\nlogical_block = {logical_block}\n
[pool]\nspare = 0.2\nreserved_units = 4\n\n[[volumes]]\nname = 'main'\n"
    );
    write(folder, "pool.toml", text);
}

/// Numbers that are the same in every run are masked.
fn masked(text: &str) -> String {
    let hex = |word: &str| word.len() == 32 && word.chars().all(|c| c.is_ascii_hexdigit());
    let line = |line: &str| {
        let words: Vec<&str> =
            line.split(' ').map(|word| if hex(word) { "POOL" } else { word }).collect();
        words.join(" ") + "\n"
    };
    text.lines().map(line).collect()
}

#[test]
fn a_new_user_formats_fills_and_checks() {
    let folder = scratch();
    let folder = folder.path();
    let example = run(folder, "format --example").ok();
    write(folder, "pool.toml", example);
    let made = run(folder, "format pool.toml").ok();
    assert!(made.contains("512 units of 8 MiB") && made.contains("volume `main` of"), "{made}");
    let trace = crate::repository().join("crates/workload/testdata/postgres-tpcc.csv.gz");
    let load =
        format!("load pool.toml --trace {} --loops 1 --prefill none --json", trace.display());
    let loaded = run(folder, &format!("{load} --ledger pool.ledger")).json();
    assert!(loaded["alwa"].as_f64().expect("something was written") > 1.0, "{loaded}");
    let scrubbed = run(folder, "scrub pool.toml --json").json();
    assert!(scrubbed["clean"] == true && scrubbed["blocks"].as_u64() > Some(1000), "{scrubbed}");
    let checked = run(folder, "check pool.toml --ledger pool.ledger --json").json();
    assert_eq!((&checked["clean"], &checked["replayed_chunks"]), (&true.into(), &0.into()));
    assert!(checked["blocks_compared"].as_u64().expect("a number") > 1000, "{checked}");
    let status = run(folder, "status pool.toml --json").json();
    assert_eq!(status["schema"], "thermocline.status/1");
    assert_eq!((&status["at_risk"], &status["clean"]), (&Value::Array(Vec::new()), &true.into()));
    // The last change of some compared blocks was a trim.
    let mapped = status["mapped_bytes"].as_u64().expect("a number") / 4096;
    let compared = checked["blocks_compared"].as_u64().expect("a number");
    assert!((compared * 9 / 10..=compared).contains(&mapped), "{mapped} of {compared}");
    let status = run(folder, "status pool.toml").ok();
    assert!(status.starts_with("at risk: nothing that was flushed\nclosed in order"), "{status}");
    let map = run(folder, "map pool.toml --ascii").ok();
    let cells: usize = map.lines().filter(|line| line.len() == 72).count();
    assert_eq!(cells, 8, "{map}");
    let map = run(folder, "map pool.toml --ascii --cell 32").ok();
    assert!(map.contains("a cell is 32 units"), "{map}");
    assert_eq!(map.lines().count(), 3, "{map}");
}

/// Kills `load` at random moments, and compares the volume with the flushed data.
fn kill_and_check(logical_block: u32) {
    let folder = scratch();
    let folder = folder.path();
    settings(folder, logical_block);
    run(folder, "format pool.toml").ok();
    let mut replayed = 0;
    for (round, pause) in numbers(300).take(12).enumerate() {
        let load = format!(
            "load pool.toml --workload zipf:0.9 --span 32MiB --drive-writes 100000 --trim-share 0.05 --prefill none \
             --read-share 0.1 --seed {round} --flush-every 100 --ledger pool.ledger"
        );
        let mut child = command(folder, &load).stderr(Stdio::piped()).spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(30 + pause));
        child.kill().expect("it is still at work");
        let output = child.wait_with_output().expect("it was killed");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_none() && error.is_empty(), "round {round}: {error}");
        if !folder.join("pool.ledger").exists() {
            continue;
        }
        let checked = run(folder, "check pool.toml --ledger pool.ledger --json");
        assert_eq!(checked.code, 0, "round {round}: {}{}", checked.out, checked.err);
        let again = run(folder, "check pool.toml --ledger pool.ledger --json");
        assert_eq!(checked.out, again.out, "a check changes nothing");
        replayed += again.json()["replayed_chunks"].as_u64().expect("a number");
    }
    assert!(replayed > 0, "no kill left anything to recover");
    run(folder, "check pool.toml --repair").ok();
    let checked = run(folder, "check pool.toml --ledger pool.ledger --json").json();
    assert_eq!(checked["replayed_chunks"], 0, "it was repaired");
    assert!(checked["blocks_compared"].as_u64().expect("a number") > 0, "{checked}");
}

#[test]
fn killed_at_any_moment_nothing_flushed_is_lost() {
    kill_and_check(4096);
}

#[test]
fn killed_at_any_moment_nothing_flushed_is_lost_with_sectors() {
    kill_and_check(512);
}

#[test]
fn what_is_damaged_is_named() {
    let folder = scratch();
    let folder = folder.path();
    settings(folder, 4096);
    run(folder, "format pool.toml").ok();
    let load =
        "load pool.toml --workload seq --span 8MiB --drive-writes 1 --prefill none --ledger l";
    run(folder, load).ok();
    let map = run(folder, "inspect pool.toml --map main --all").ok();
    let place = map.lines().find_map(|line| line.trim().strip_prefix("0 +")?.split_once(": unit "));
    let (unit, block) =
        place.and_then(|(_, at)| at.split_once(" block ")).expect("block 0 is there");
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let file = fs::File::options().write(true).open(folder.join("pool.img")).expect("writable");
    let at = (number(unit) << 20) + number(block) * 4096 + 100;
    file.write_all_at(b"damage", at).expect("writable");
    drop(file);
    let checked = run(folder, "check pool.toml");
    assert_eq!(checked.code, 1, "{}", checked.err);
    let expected = format!(
        "volume `main` block 0 cannot be read, or is not what was written (unit {unit} block {block})\n\
         1 blocks are damaged:"
    );
    assert!(checked.out.starts_with(&expected), "{}", checked.out);
    let scrubbed = run(folder, "scrub pool.toml");
    let place = format!(
        "unit {unit} block {block}, 4 KiB of volume `main` at byte 0, is not what was written\n\
         one place is damaged:"
    );
    assert!(scrubbed.code == 1 && scrubbed.out.starts_with(&place), "{}", scrubbed.out);
    let ledger = run(folder, "check pool.toml --ledger l --json");
    let report: Value = serde_json::from_str(&ledger.out).expect("JSON");
    assert_eq!((ledger.code, &report["damaged"][0]["lba"]), (1, &0.into()));
}

#[test]
fn a_ledger_tells_what_was_lost() {
    let folder = scratch();
    let folder = folder.path();
    settings(folder, 4096);
    run(folder, "format pool.toml").ok();
    fs::copy(folder.join("pool.img"), folder.join("old.img")).expect("room");
    let load =
        "load pool.toml --workload seq --span 1MiB --drive-writes 1 --prefill none --ledger l";
    run(folder, load).ok();
    fs::copy(folder.join("old.img"), folder.join("pool.img")).expect("room");
    let checked = run(folder, "check pool.toml --ledger l");
    assert_eq!(checked.code, 1);
    assert!(checked.out.contains("block 255 is zero; version 1 was flushed"), "{}", checked.out);
    assert!(checked.out.contains("256 blocks are damaged"), "{}", checked.out);
}

#[test]
fn volumes_come_change_and_go() {
    let folder = scratch();
    let folder = folder.path();
    settings(folder, 512);
    run(folder, "format pool.toml").ok();
    run(folder, "volume create pool.toml second 8MiB").ok();
    run(folder, "volume resize pool.toml second 4MiB").ok();
    let listed = run(folder, "volume list pool.toml --json").json();
    assert_eq!(listed["volumes"][1]["name"], "second");
    assert_eq!(listed["volumes"][1]["size_bytes"], 4 << 20);
    let which = run(folder, "load pool.toml --workload seq").refused(2);
    assert!(which.contains("say which volume; there are `main`, `second`"), "{which}");
    let not = run(folder, "volume delete pool.toml second --yes-destroy main").refused(2);
    assert!(not.contains("names `main`, not `second`"), "{not}");
    run(folder, "volume delete pool.toml second --yes-destroy second").ok();
    assert!(!run(folder, "volume list pool.toml").ok().contains("second"));
    let taken = run(folder, "volume create pool.toml main 4MiB").refused(2);
    assert!(taken.contains("a volume of that name exists"), "{taken}");
    run(folder, "volume create pool.toml odd 5000").refused(2);
}

#[test]
fn nothing_is_destroyed_without_being_named() {
    let folder = scratch();
    let folder = folder.path();
    settings(folder, 4096);
    let none = run(folder, "check pool.toml").refused(2);
    assert!(none.contains("pool.img"), "{none}");
    let made = run(folder, "format pool.toml").ok();
    let id = made.split(' ').nth(1).expect("the identity is printed");
    let refused = run(folder, "format pool.toml").refused(2);
    assert!(
        refused.contains(&format!("to destroy what is there, say --yes-destroy={id}")),
        "{refused}"
    );
    run(folder, "format pool.toml --yes-destroy=other.img").refused(2);
    run(folder, &format!("format pool.toml --yes-destroy={id}")).ok();
    run(folder, &format!("format pool.toml --yes-destroy={id}")).refused(2);
    run(folder, "format pool.toml --yes-destroy=pool.img").ok();
    let mut disk = vec![0; 8 << 20];
    disk[0x438..0x43A].copy_from_slice(&[0x53, 0xEF]);
    write(folder, "pool.img", &disk);
    let refused = run(folder, "format pool.toml").refused(2);
    assert!(refused.contains("an ext2, ext3 or ext4 file system"), "{refused}");
    let missing = run(folder, "status pool.toml").refused(2);
    assert!(missing.contains("there is no pool here"), "{missing}");
}

#[test]
fn inspect_prints_every_structure() {
    let folder = scratch();
    let folder = folder.path();
    settings(folder, 4096);
    run(folder, "format pool.toml").ok();
    let printed = masked(&run(folder, "inspect pool.toml").ok());
    let first = "\
superblock revision 2 at unit 0 block 0
  pool POOL
  epoch 2, tail epoch 2, checkpoint 1, 0 flushed from there on, not clean
  64 units of 256 logical blocks of 4096 bytes, superblocks in 0 and 1
  device 0: units 0 to 63, capacity, active
  next generation 0x200000000, next volume 1
  listed unit 2 block 0, generation 0x100000000
  listed unit 3 block 0, generation 0x100000001
  listed unit 4 block 0, generation 0x100000002
  listed unit 5 block 0, generation 0x100000003
superblock revision 2 at unit 1 block 0
";
    assert!(printed.starts_with(first), "{printed}");
    let newest = printed.rsplit("superblock revision").next().expect("there are several");
    assert!(newest.contains("  volume 1 `main`, ") && newest.contains(", clean\n"), "{newest}");
    let counts = run(folder, "inspect pool.toml --unit 2").ok();
    assert!(counts.starts_with("unit 2: ") && counts.contains(" 4 VolumeName\n"), "{counts}");
    assert!(!counts.contains("chunk 1 at"), "only counts: {counts}");
    let range = run(folder, "inspect pool.toml --unit 2 --blocks 0-0").ok();
    assert_eq!(range.matches("\nchunk ").count(), 1, "{range}");
    run(folder, "inspect pool.toml --unit 2 --blocks 9-0").refused(2);
    let unit = run(folder, "inspect pool.toml --unit 2 --all").ok();
    assert!(unit.starts_with(&counts), "{unit}");
    let entries = [
        "chunk 1 at unit 2 block 0: 1 blocks, Host, class 255, epoch 2, generation 0x100000000,",
        "  VolumeCreate { volume: VolumeId(1), blocks: ",
        "  VolumeName { volume: VolumeId(1), part: 3, text: ",
    ];
    for expected in entries {
        assert!(unit.contains(expected), "{unit}");
    }
    let beyond = run(folder, "inspect pool.toml --unit 64").refused(2);
    assert!(beyond.contains("units 0 to 63"), "{beyond}");
    run(folder, "inspect pool.toml --map other").refused(2);
    let map = run(folder, "inspect pool.toml --map main").ok();
    assert!(map.ends_with(": 0 on the media, in 0 runs\n") && map.lines().count() == 1, "{map}");
}

#[test]
fn what_many_volumes_hold_is_told_by_format_and_status() {
    let folder = scratch();
    let folder = folder.path();
    let device = "[device]\npath = 'pool.img'\nsize = '64MiB'\nunit = '1MiB'\n";
    let volume = |number| format!("[[volumes]]\nname = 'v{number}'\nsize = '1MiB'\n");
    let told = |volumes: u32| {
        let _none_yet = fs::remove_file(folder.join("pool.img"));
        write(
            folder,
            "pool.toml",
            device.to_owned() + &(0..volumes).map(volume).collect::<String>(),
        );
        let made = run(folder, "format pool.toml").ok();
        let line = made.lines().find_map(|line| line.split_once("; holds ")).expect("it says so");
        let status = run(folder, "status pool.toml").ok();
        let holds = line.1.strip_suffix(" of data").expect("a size");
        assert!(status.contains(&format!(": 0 B of {holds} hold data")), "{holds}: {status}");
        let doctor = run(folder, "doctor pool.toml").out;
        assert!(volumes == 1 || doctor.contains(&format!("the pool holds {holds}")), "{doctor}");
        let capacity = &run(folder, "status pool.toml --json").json()["capacity_bytes"];
        capacity.as_u64().expect("a number")
    };
    let (one, many) = (told(1), told(1500));
    assert!(many < one / 2, "each volume takes pages: {many} of {one}");
}

#[test]
fn a_pool_that_would_hold_nothing_is_refused_and_leaves_nothing() {
    let folder = scratch();
    let folder = folder.path();
    let volume = "[[volumes]]\nname = 'v'\nsize = '64KiB'\n";
    for (size, reason) in [
        ("512KiB", "device.size: the pool has 8 units"),
        ("512KiB'\nunit = '64KiB", "device.unit: the pool has 8 units"),
        ("900KiB", "device.size: maps and spare units leave no room for data"),
    ] {
        let device = format!("[device]\npath = 'pool.img'\nsize = '{size}'\n");
        write(folder, "pool.toml", device + volume);
        let refused = run(folder, "format pool.toml").refused(2);
        assert!(refused.contains(reason), "{size}: {refused}");
        assert!(!folder.join("pool.img").exists(), "{size}: a file is left");
    }
    write(folder, "pool.toml", "[device]\npath = 'pool.img'\nsize = '1MiB'\n".to_owned() + volume);
    run(folder, "format pool.toml").ok();
}

#[test]
fn a_volume_of_an_impossible_size_is_refused_with_the_limit() {
    let folder = scratch();
    let folder = folder.path();
    settings(folder, 4096);
    run(folder, "format pool.toml").ok();
    for (size, reason) in [
        ("1PiB", "a volume has 256 TiB at most"),
        ("1EiB", "a volume has 256 TiB at most"),
        ("256TiB", "a pool with larger units has more room"),
        ("4095", "a multiple of 4 KiB, and not 0; 4095 bytes is not"),
    ] {
        let refused = run(folder, &format!("volume create pool.toml v {size}")).refused(2);
        assert!(refused.contains(reason), "{size}: {refused}");
    }
    let text = fs::read_to_string(folder.join("pool.toml")).expect("it is there");
    for (size, reason) in [
        ("5EiB", "device.size: is 5EiB, must be 1 to 4EiB"),
        ("4611686018427387905", "device.size: is 4611686018427387905, must be 1 to 4EiB"),
    ] {
        write(folder, "large.toml", text.replace("64MiB", size));
        let refused = run(folder, "format large.toml").refused(2);
        assert!(refused.contains(reason), "{size}: {refused}");
    }
}

#[test]
fn a_check_skips_what_was_never_written() {
    let folder = scratch();
    let folder = folder.path();
    settings(folder, 4096);
    let text = fs::read_to_string(folder.join("pool.toml")).expect("it is there");
    write(folder, "pool.toml", text + "size = '1GiB'\n");
    run(folder, "format pool.toml").ok();
    let read = || {
        let checked = run(folder, "check pool.toml --json").json();
        assert_eq!(checked["clean"], true);
        checked["blocks_read"].as_u64().expect("a number")
    };
    assert_eq!(read(), 0);
    let load = "load pool.toml --workload seq --span 8MiB --drive-writes 1 --prefill none";
    run(folder, load).ok();
    assert_eq!(read(), 2048);
    // One read of a check covers more than what was written, and a ledger has all of it read.
    run(folder, "volume create pool.toml w 64MiB").ok();
    let load = "load pool.toml --into w --workload uniform --span 64MiB --writes 100 --prefill none --ledger l";
    run(folder, load).ok();
    let checked = run(folder, "check pool.toml --ledger l --json").json();
    assert_eq!(checked["blocks_read"], 2048 + checked["blocks_compared"].as_u64().expect("some"));
}

/// Trims of single blocks, each in a chunk of its own, before a small fast device with small units. Only a checkpoint
/// frees the space of such trims.
#[test]
fn many_small_trims_leave_a_pool_that_takes_writes() {
    let folder = scratch();
    let folder = folder.path();
    let device =
        |path, size| format!("[[device]]\npath = '{path}'\nsize = '{size}'\nunit = '64KiB'\n");
    let volume = "[[volumes]]\nname = 'main'\nsize = '60MiB'\nmedia = 'fast'\n";
    let fast = device("fast.img", "16MiB") + "class = 'fast'\n";
    write(folder, "pool.toml", fast + &device("pool.img", "96MiB") + volume);
    run(folder, "format pool.toml").ok();
    let load = "load pool.toml --workload uniform --span 60MiB --trim-share 0.8 --requests 50000 --depth 1";
    run(folder, load).ok();
    run(folder, "check pool.toml").ok();
}
