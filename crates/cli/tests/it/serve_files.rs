//! Files of a pool that are renamed, overwritten, truncated or removed while the pool is served.

use std::fs;
use std::path::Path;
use std::process::Command as Program;
use std::time::Instant;

use thermocline_nbd::ClientError;
use thermocline_nbd::protocol::request::Command;

use super::serve::{PATIENCE, Served, VOLUMES, format_mirrored, format_on, run};
use crate::scratch;

fn device(name: &str) -> String {
    format!("[[device]]\npath = '{name}.img'\nsize = '96MiB'\nunit = '1MiB'\n")
}

/// Rewrites the settings with these devices.
fn name(folder: &Path, devices: &[&str]) {
    let devices: String = devices.iter().map(|name| device(name)).collect();
    fs::write(folder.join("pool.toml"), devices + VOLUMES).expect("it can be written");
}

/// Waits for the end of the server. Returns the exit code.
fn ended(served: &mut Served) -> i32 {
    let began = Instant::now();
    loop {
        if let Some(status) = served.child.try_wait().expect("it is ours") {
            return status.code().expect("no signal ended it");
        }
        assert!(began.elapsed() < PATIENCE, "it runs on");
        std::thread::yield_now();
    }
}

#[test]
fn a_change_of_devices_waits_for_files_that_were_renamed() {
    let folder = scratch();
    let folder = folder.path();
    format_on(folder, &(device("a") + &device("b")));
    let served = Served::start(folder, "");
    name(folder, &["a", "b", "c"]);
    fs::rename(folder.join("b.img"), folder.join("elsewhere.img")).expect("renamed");
    let refused = run(folder, "device attach pool.toml c.img").refused(2);
    assert!(refused.contains("b.img") && refused.contains("was not closed"), "{refused}");
    served.client("main").call(Command::Write, 1, 0, 0, &[7; 4096]).expect("served as before");
    fs::copy(folder.join("elsewhere.img"), folder.join("b.img")).expect("a copy");
    let refused = run(folder, "device attach pool.toml c.img").refused(2);
    assert!(refused.contains("b.img") && refused.contains("put it back"), "{refused}");
    served.client("main").call(Command::Write, 1, 4096, 0, &[8; 4096]).expect("served as before");
    fs::rename(folder.join("elsewhere.img"), folder.join("b.img")).expect("renamed");
    run(folder, "device attach pool.toml c.img").ok();
    let read = served.client("main").call(Command::Read, 0, 0, 8192, &[]).expect("all is there");
    assert!(read.data[..4096] == [7; 4096] && read.data[4096..] == [8; 4096]);
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_change_of_devices_for_which_descriptors_are_lacking_closes_nothing() {
    let folder = scratch();
    let folder = folder.path();
    format_on(folder, &device("a"));
    let served = Served::start(folder, "");
    name(folder, &["a", "b"]);
    let process = served.child.id().to_string();
    let open = fs::read_dir(format!("/proc/{process}/fd")).expect("Linux").count();
    let limit = |limit: &str| {
        let mut set = Program::new("prlimit");
        set.args(["--pid", &process, &format!("--nofile={limit}:")]);
        assert!(set.status().expect("there is a `prlimit`").success());
    };
    // The request for the change takes one.
    limit(&(open + 2).to_string());
    let refused = run(folder, "device attach pool.toml b.img").refused(2);
    assert!(refused.contains("was not closed"), "{refused}");
    served.client("main").call(Command::Write, 1, 0, 0, &[7; 4096]).expect("served as before");
    limit("1024");
    run(folder, "device attach pool.toml b.img").ok();
    assert_eq!(served.stop(), 0);
}

/// So a supervisor can start the server again.
#[test]
fn a_server_that_has_lost_its_pool_ends_with_1() {
    let folder = scratch();
    let folder = folder.path();
    format_on(folder, &device("a"));
    let mut served = Served::start(folder, "");
    name(folder, &["a", "b"]);
    let file = fs::OpenOptions::new().write(true).open(folder.join("a.img")).expect("the file");
    let zeros = vec![0; 96 << 20];
    std::os::unix::fs::FileExt::write_all_at(&file, &zeros, 0).expect("overwritten");
    let refused = run(folder, "device attach pool.toml b.img").refused(2);
    assert!(refused.contains("the service ends"), "{refused}");
    assert_eq!(ended(&mut served), 1);
}

/// Waits until the status of a served pool reports that writes are refused, with the reason.
fn failure(served: &Served) -> String {
    let began = Instant::now();
    loop {
        let status = served.status();
        if status["failed"] == true {
            return status["failure"].as_str().expect("why").to_owned();
        }
        assert!(began.elapsed() < PATIENCE, "nobody noticed");
        std::thread::yield_now();
    }
}

/// Nobody writes meanwhile; who does afterwards gets an error, and nothing is called durable.
#[test]
fn a_file_that_is_removed_or_cut_off_is_noticed_and_nothing_is_written_any_more() {
    for removed in [true, false] {
        let folder = scratch();
        let folder = folder.path();
        format_on(folder, &(device("a") + &device("b")));
        let served = Served::start(folder, "");
        let mut client = served.client("main");
        client.call(Command::Write, 1, 0, 0, &[7; 4096]).expect("all is well");
        let path = folder.join("b.img");
        let said = if removed {
            fs::remove_file(path).expect("removed");
            "b.img was removed while it was in use: no write is taken any more"
        } else {
            let file = fs::OpenOptions::new().write(true).open(path).expect("the file");
            file.set_len(10 << 20).expect("cut off");
            "b.img was cut off at 10485760 of 100663296 bytes while it was in use"
        };
        assert!(failure(&served).contains(said), "{}", failure(&served));
        assert!(run(folder, "status pool.toml").out.contains(said));
        for command in [Command::Write, Command::WriteZeroes, Command::Flush] {
            let (payload, length) = match command {
                Command::Write => (&[8; 4096][..], 0),
                Command::WriteZeroes => (&[][..], 4096),
                _ => (&[][..], 0),
            };
            let refused = client.call(command, 0, 0, length, payload);
            assert!(matches!(refused, Err(ClientError::Request(5))), "{command:?}: {refused:?}");
        }
        let read = client.call(Command::Read, 0, 0, 4096, &[]).expect("it is there still");
        assert!(read.data == [7; 4096]);
        assert_eq!(served.stop(), 1);
    }
}

#[test]
fn a_side_of_a_pair_that_is_removed_is_out_and_the_other_is_served() {
    let folder = scratch();
    let folder = folder.path();
    format_mirrored(folder, "auto");
    let served = Served::start(folder, "");
    let sides = served.status()["mirrors"][0]["sides"].clone();
    let second = sides[1]["path"].as_str().expect("a path").to_owned();
    fs::remove_file(folder.join(&second)).expect("removed");
    let mut client = served.client("main");
    let side = || served.status()["mirrors"][0]["sides"][1].clone();
    until(|| {
        client.call(Command::Write, 1, 0, 0, &[7; 4096]).expect("the other has it");
        side()["state"] == "out"
    });
    assert!(side()["why"].to_string().contains("removed or cut off"), "{}", side());
    drop(client);
    assert_eq!(served.stop(), 0);
}

#[test]
fn files_of_a_pool_are_for_their_owner_and_doctor_warns_of_others() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = scratch();
    let folder = folder.path();
    format_on(folder, &device("a"));
    let path = folder.join("a.img");
    let mode = || fs::metadata(&path).expect("the file").permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    assert!(!run(folder, "doctor pool.toml").out.contains("chmod"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let said = run(folder, "doctor pool.toml").out;
    assert!(said.contains("other users can read") && said.contains("chmod 600 "), "{said}");
    let served = Served::start(folder, "");
    assert_eq!((served.stop(), mode()), (0, 0o644), "what somebody chose stays");
}

/// A pool on files and on a volume of another server, mounted as a file. The file hangs while that server is stopped.
struct Hanging {
    below: Served,
    served: Served,
    _folder: tempfile::TempDir,
}

impl Hanging {
    /// With the device or member that hangs behind `others`, and `keys` for each. `None` without FUSE.
    fn start(keys: &str, others: &[&str]) -> Option<Hanging> {
        if !super::serve_fuse::ready(false, &[]) {
            return None;
        }
        let scratch = scratch();
        let folder = |name: &str| {
            let folder = scratch.path().join(name);
            fs::create_dir_all(&folder).expect("a folder");
            folder
        };
        let (under, over) = (folder("under"), folder("over"));
        folder("under/mnt");
        format_on(&under, &device("a").replace("96MiB", "256MiB"));
        let below = Served::start(&under, "--fuse mnt");
        let member = |path: &str| {
            format!("[[device]]\npath = '{path}'\nsize = '40MiB'\nunit = '1MiB'\n{keys}\n")
        };
        let rest = "[pool]\nio_timeout = '200ms'\n[[volumes]]\nname = 'v'\nsize = '8MiB'\n[[volumes]]\nname = 'second'\nsize = '1MiB'\n";
        let others: String = others.iter().map(|path| member(path)).collect();
        let text = others + &member("../under/mnt/main") + rest;
        fs::write(over.join("pool.toml"), text).expect("settings");
        run(&over, "format pool.toml").ok();
        let served = Served::start(&over, "");
        Some(Hanging { below, served, _folder: scratch })
    }

    /// Stops both servers. The server below must be in good health.
    fn end(self) {
        self.below.signal("CONT");
        assert_eq!((self.served.stop(), self.below.stop()), (0, 0));
    }
}

fn until(mut what: impl FnMut() -> bool) {
    let began = Instant::now();
    while !what() {
        assert!(began.elapsed() < PATIENCE, "it does not happen");
        std::thread::yield_now();
    }
}

#[test]
fn a_side_of_a_pair_that_hangs_is_given_up_and_the_other_is_served() {
    let Some(hanging) = Hanging::start("mirror = 'm'", &["a.img"]) else { return };
    let served = &hanging.served;
    let mut client = served.client("v");
    client.call(Command::Write, 1, 0, 0, &[7; 4096]).expect("both have it");
    hanging.below.signal("STOP");
    client.call(Command::Write, 1, 4096, 0, &[8; 4096]).expect("the other has it");
    let side = served.status()["mirrors"][0]["sides"][1].clone();
    assert_eq!(side["state"], "out", "{side}");
    assert!(side["why"].to_string().contains("not ended a command in time"), "{side}");
    let read = client.call(Command::Read, 0, 0, 8192, &[]).expect("it is there");
    assert!(read.data[..4096] == [7; 4096] && read.data[4096..] == [8; 4096]);
    drop(client);
    hanging.end();
}

/// Rows are written on and on, also while the member is given up.
#[test]
fn a_member_of_a_striped_group_that_hangs_is_given_up_and_nothing_is_lost() {
    let hanging = Hanging::start("raid5 = 'g'", &["a.img", "b.img"]);
    let Some(hanging) = hanging else { return };
    let mut client = hanging.served.client("v");
    for block in 0..1000_u64 {
        if block == 500 {
            hanging.below.signal("STOP");
        }
        let bytes = [block as u8; 4096];
        client
            .call(Command::Write, (block % 7 == 0).into(), block * 4096, 0, &bytes)
            .expect("written");
    }
    client.call(Command::Flush, 0, 0, 0, &[]).expect("durable");
    let member = hanging.served.status()["raids"][0]["members"][2].clone();
    assert_eq!(member["state"], "out", "{member}");
    for block in 0..1000_u64 {
        let read = client.call(Command::Read, 0, block * 4096, 4096, &[]).expect("it is there");
        assert!(read.data == [block as u8; 4096], "block {block}");
    }
    drop(client);
    hanging.end();
}

#[test]
fn a_device_that_hangs_is_reported_until_it_goes_on() {
    let Some(hanging) = Hanging::start("", &[]) else { return };
    let (served, status) = (&hanging.served, || hanging.served.status());
    let mut client = served.client("v");
    client.call(Command::Write, 1, 0, 0, &[7; 4096]).expect("all is well");
    assert!(status()["late"].is_null());
    hanging.below.signal("STOP");
    client.send(Command::Write, 1, 4096, 0, &[8; 4096]).expect("sent");
    until(|| status()["late"].is_string());
    let late = status()["late"].to_string();
    assert!(late.contains("under/mnt/main has not ended a command in 0.2 s"), "{late}");
    let told = super::serve_metrics::metrics(served);
    assert_eq!(super::serve_metrics::metric(&told, "device_late"), Some(1.0));
    hanging.below.signal("CONT");
    until(|| status()["late"].is_null());
    assert_eq!(client.receive().expect("a reply").error, 0);
    drop(client);
    hanging.end();
}
