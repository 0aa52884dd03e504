//! Mistakes of operators with a served pool: each is refused with a remedy, loses no data, and leaves no files behind.

use std::path::Path;
use std::process::{Command, Stdio};

use super::programs::have;
use thermocline_nbd::protocol::request;

use super::serve::{Served, command, done, format, run};
use super::serve_fuse;
use crate::{scratch, write};

/// Names of files in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("a name").file_name();
    let mut names: Vec<String> =
        entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn what_fails_leaves_no_files_behind() {
    let folder = scratch();
    let folder = folder.path();
    let text = "[device]\npath = 'pool.img'\nsize = '64MiB'\n";
    write(folder, "pool.toml", text);
    run(folder, "serve pool.toml").refused(2);
    assert_eq!(names(folder), ["pool.toml"], "there is no pool");
    for wrong in [
        "[pool]\nahead_units = 1000\n",
        "[[volumes]]\nname = 'a'\nsize = '1TiB'\n[[volumes]]\nname = 'b'\n",
    ] {
        write(folder, "pool.toml", format!("{text}{wrong}"));
        run(folder, "format pool.toml").refused(2);
        assert_eq!(names(folder), ["pool.toml"], "{wrong}");
    }
    format(folder);
    for wrong in ["--listen nowhere", "--http nowhere", "--fuse none"] {
        run(folder, &format!("serve pool.toml {wrong}")).refused(2);
        assert_eq!(names(folder), ["pool.img", "pool.toml"], "{wrong}");
    }
    std::fs::write(folder.join("pool.img"), [0; 4096]).expect("written");
    run(folder, "serve pool.toml --listen 127.0.0.1:0 --socket own.sock");
    assert_eq!(names(folder), ["pool.img", "pool.toml"]);
}

/// Settings of another name have sockets of their own: the server is known by the lock of the device.
#[test]
fn who_serves_a_pool_is_known_by_other_settings_too() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    std::fs::copy(folder.join("pool.toml"), folder.join("other.toml")).expect("settings");
    let server = format!("process {} ", served.child.id());
    for what in ["serve", "status"] {
        let refused = run(folder, &format!("{what} other.toml")).refused(2);
        assert_eq!(refused.matches("process ").count(), 1, "{refused}");
        assert!(refused.contains(&server), "{refused}");
    }
    let refused = run(folder, "check pool.toml --repair").refused(2);
    assert!(refused.contains(&format!("{server}serves this pool")), "{refused}");
    assert_eq!(served.stop(), 0);
}

/// A suspended or stuck server accepts connections and never answers.
#[test]
fn a_server_that_does_not_answer_is_named() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    served.signal("STOP");
    let expected = format!(
        "the server at pool.status.sock (process {}) has not answered for 10 s",
        served.child.id()
    );
    let asked = ["status pool.toml", "volume list pool.toml", "stat pool.toml"];
    let asked = asked.map(|what| {
        let mut asked = command(folder, what);
        asked.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
    });
    for asked in asked {
        let done = asked.wait_with_output().expect("it ends");
        let said = String::from_utf8(done.stderr).expect("UTF-8");
        assert!(done.status.code() == Some(2) && said.contains(&expected), "{said}");
    }
    served.signal("CONT");
    run(folder, "status pool.toml").ok();
    assert_eq!(served.stop(), 0);
}

#[test]
fn numbers_of_the_command_line_have_bounds() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    for (wrong, bounds) in [
        ("--connections 0", "0 is not in 1..=1048576"),
        ("--connections 1048577", "1048577 is not in 1..=1048576"),
        ("--patience 18446744073709551615", "18446744073709551615 is not in 0..=86400"),
    ] {
        let refused = run(folder, &format!("serve pool.toml {wrong}")).refused(2);
        assert!(refused.contains(bounds), "{refused}");
    }
    let served = Served::start(folder, "");
    for wrong in ["1e300", "inf", "nan", "0"] {
        let refused = run(folder, &format!("stat pool.toml {wrong}"));
        assert_eq!(refused.code, 2, "{wrong}: {}", refused.err);
        assert!(refused.err.contains("must be 0.01 to 86400"), "{}", refused.err);
    }
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_smaller_volume_keeps_its_data_unless_told_otherwise() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    run(folder, "load pool.toml --into second --workload uniform --span 16MiB --writes 3000").ok();
    let asked = run(folder, "volume resize pool.toml second 4MiB").refused(2);
    assert!(asked.contains("of data (") && asked.contains("say --yes-destroy second"), "{asked}");
    run(folder, "volume resize pool.toml main 4MiB").ok();
    run(folder, "volume resize pool.toml second 4MiB --yes-destroy second").ok();
}

#[test]
fn too_little_memory_for_maps_names_the_key() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let settings = std::fs::read_to_string(folder.join("pool.toml")).expect("settings");
    write(folder, "pool.toml", format!("{settings}[pool]\nmemory = '1MiB'\n"));
    let create = "volume create pool.toml big 100GiB";
    let offline = run(folder, create).refused(2);
    let served = Served::start(folder, "");
    for refused in [offline, run(folder, create).refused(2)] {
        assert!(refused.contains("bytes of memory at least, the budget is 1048576"), "{refused}");
        assert!(refused.contains("set `memory` in [pool]"), "{refused}");
    }
    assert_eq!(served.stop(), 0);
}

#[test]
fn names_that_are_no_names_of_files_are_refused() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    for name in ["a/b", ".", "..", "/"] {
        let refused = run(folder, &format!("volume create pool.toml {name} 4MiB")).refused(2);
        assert!(refused.contains("cannot be the name of a volume"), "{refused}");
    }
    assert_eq!(served.stop(), 0);
    let refused = run(folder, "volume create pool.toml .. 4MiB").refused(2);
    assert!(refused.contains("is neither `.` nor `..`"), "{refused}");
}

/// Whoever opens a pipe waits until somebody opens its other end, for ever if need be.
#[test]
fn what_is_neither_a_file_nor_a_block_device_is_refused() {
    let folder = scratch();
    let folder = folder.path();
    assert_eq!(sh(folder, "mkfifo pipe"), 0);
    for path in ["pipe", "/dev/zero", "."] {
        for kind in ["", "kind = 'file'\n", "kind = 'simulated'\nprofile = 'ideal'\n"] {
            let text = format!("[device]\npath = '{path}'\nsize = '64MiB'\n{kind}");
            write(folder, "pool.toml", &text);
            for what in ["format", "serve", "status", "doctor"] {
                let mut asked = Command::new("timeout");
                asked.args(["-k1", "20", env!("CARGO_BIN_EXE_thermocline"), what, "pool.toml"]);
                asked.current_dir(folder).stdin(Stdio::null());
                let refused = done(asked);
                let (code, why) = match what {
                    "doctor" => (1, "is no file and no block device"),
                    _ => (2, "it is neither a regular file nor a block device"),
                };
                let said = format!("{}{}", refused.out, refused.err);
                assert!(refused.code == code && said.contains(why), "{what} {text}: {said}");
            }
        }
    }
}

#[test]
fn a_mount_takes_an_empty_folder_only() {
    if !serve_fuse::ready(false, &[]) {
        return;
    }
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    write(folder, "file", "");
    std::fs::create_dir_all(folder.join("full/of")).expect("folders");
    for (path, why) in [("file", "it is no folder"), ("full", "it is not empty")] {
        let refused = run(folder, &format!("serve pool.toml --fuse {path}")).refused(2);
        assert!(refused.contains(&format!("cannot mount on {path}: {why}")), "{refused}");
    }
    assert_eq!(names(folder), ["file", "full", "pool.img", "pool.toml"]);
}

#[test]
fn the_end_of_a_terminal_stops_in_order_and_nohup_keeps_its_meaning() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    // Whoever runs the tests may have it ignored.
    let mut server = Command::new("env");
    server.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_thermocline"), "serve", "pool.toml"]);
    server.current_dir(folder);
    let mut served = Served::spawn(folder, server);
    served.signal("HUP");
    assert_eq!(served.child.wait().expect("it ends").code(), Some(0));
    let checked = run(folder, "check pool.toml --json").json();
    assert_eq!(checked["replayed_chunks"], 0, "the pool was closed in order");
    let mut nohup = Command::new("sh");
    let script = "trap '' HUP; exec \"$0\" serve pool.toml";
    nohup.args(["-c", script, env!("CARGO_BIN_EXE_thermocline")]).current_dir(folder);
    let served = Served::spawn(folder, nohup);
    served.signal("HUP");
    // A signal that is not ignored ends what comes behind it.
    served.status();
    served.client("main");
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_failure_names_what_failed() {
    if !serve_fuse::is_root() || !have(&["losetup", "mkfs.ext4"]) {
        println!("SKIPPED: only root mounts a file system that runs full");
        return;
    }
    let folder = scratch();
    let folder = folder.path();
    let script = "mkdir small && mount -t tmpfs -o size=24m none small";
    assert_eq!(sh(folder, script), 0);
    let text = "[device]\npath = 'small/pool.img'\nsize = '64MiB'\nunit = '1MiB'\nio = 'threads'\n
[[volumes]]\nname = 'main'\nsize = '40MiB'\n";
    write(folder, "pool.toml", text);
    run(folder, "format pool.toml").ok();
    let load = "load pool.toml --workload seq --span 40MiB --writes 10000";
    let failed = run(folder, load);
    let _unmounted = sh(folder, "umount small");
    assert_eq!(failed.code, 1, "{}", failed.err);
    for part in ["the device failed", "writing", "bytes at byte", "(unit ", "(os error 28)"] {
        assert!(failed.err.contains(part), "{part}: {}", failed.err);
    }
}

/// Writes beyond a file size limit fail like device errors.
#[test]
fn a_change_of_a_pool_that_has_failed_is_refused_with_the_reason_and_what_to_do() {
    let folder = scratch();
    let folder = folder.path();
    let device = |name| {
        format!("[[device]]\npath = '{name}.img'\nsize = '64MiB'\nunit = '1MiB'\nio = 'threads'\n")
    };
    let volumes = "[[volumes]]\nname = 'main'\nsize = '48MiB'\n[[volumes]]\nname = 'second'\nsize = '16MiB'\n";
    write(folder, "pool.toml", device("a") + &device("b") + volumes);
    run(folder, "format pool.toml").ok();
    let mut limited = Command::new("sh");
    let script = "trap '' XFSZ; ulimit -f 20480; exec \"$0\" serve pool.toml";
    limited.args(["-c", script, env!("CARGO_BIN_EXE_thermocline")]).current_dir(folder);
    limited.stderr(Stdio::null());
    let served = Served::spawn(folder, limited);
    let mut client = served.client("main");
    let write =
        |lba: u64| client.call(request::Command::Write, 0, lba * 4096, 0, &[7; 4096]).is_ok();
    assert!(!(0..48_u64 << 8).all(write), "the files are full");
    assert_eq!(served.status()["failed"], true);
    for change in ["device drain pool.toml b.img", "volume create pool.toml more 4MiB"] {
        let refused = run(folder, change).refused(2);
        let begin = "says: nothing can be changed: the device failed: ";
        for part in [begin, "(os error 27)", "stop the service, see to that, and say this again"] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
    }
    assert_eq!(served.stop(), 1);
    run(folder, "device drain pool.toml b.img").ok();
}

fn sh(folder: &Path, script: &str) -> i32 {
    let mut command = Command::new("sh");
    let status = command.args(["-ec", script]).current_dir(folder).stdin(Stdio::null()).status();
    status.expect("there is a shell").code().expect("no signal")
}

#[test]
fn a_mounted_device_is_not_written() {
    if !serve_fuse::ready(true, &["losetup", "mkfs.ext4"]) {
        return;
    }
    let folder = scratch();
    let folder = folder.path();
    let script = "truncate -s 64M disk && mkdir mnt && dev=$(losetup --find --show disk) && echo $dev > dev && \
                  mkfs.ext4 -q $dev && mount $dev mnt && echo kept > mnt/file";
    assert_eq!(sh(folder, script), 0);
    let device = std::fs::read_to_string(folder.join("dev")).expect("a device").trim().to_owned();
    write(folder, "pool.toml", format!("[device]\npath = '{device}'\nunit = '1MiB'\n"));
    let format = format!("format pool.toml --yes-destroy={device}");
    let mut refused = command(folder, &format);
    refused.stdin(Stdio::null());
    let refused = done(refused);
    let kept = std::fs::read_to_string(folder.join("mnt/file"));
    let unmounted = sh(folder, "umount mnt");
    let after = run(folder, &format);
    let _detached = sh(folder, "losetup -d $(cat dev)");
    assert_eq!((kept.expect("it is there").as_str(), unmounted), ("kept\n", 0));
    assert_eq!(refused.code, 2, "{}", refused.err);
    let mounted = format!("{device}: is in use: it is mounted on ");
    assert!(refused.err.contains(&mounted) && refused.err.contains("/mnt"), "{}", refused.err);
    assert_eq!(after.code, 0, "{}", after.err);
}
