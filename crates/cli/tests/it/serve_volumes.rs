//! Volumes that grow, shrink and are deleted while their pool is served.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use thermocline_nbd::protocol::request::{Command, Framing, flag};
use thermocline_nbd::{Client, ClientError};
use vhost::VhostBackend as _;
use vhost::vhost_user::Frontend;

use super::serve::{PATIENCE, Served, format, format_tiered, run};
use super::serve_fuse;
use super::serve_metrics::metrics;
use crate::{scratch, write};

/// NBD's `ESHUTDOWN`.
const GONE: u32 = 108;

/// Waits until a command succeeds: a server notices a departed client with a delay.
#[track_caller]
fn in_the_end(folder: &Path, arguments: &str) {
    let began = Instant::now();
    loop {
        let done = run(folder, arguments);
        if done.code == 0 {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{}", done.err);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Names and sizes in MiB of a running server's volumes.
fn volumes(served: &Served) -> Vec<(String, u64)> {
    let status = served.status();
    let volumes = status["volumes"].as_array().expect("a list").iter();
    let one = |volume: &serde_json::Value| {
        let name = volume["name"].as_str().expect("a name").to_owned();
        (name, volume["size_bytes"].as_u64().expect("a size") >> 20)
    };
    volumes.map(one).collect()
}

#[test]
fn a_served_volume_grows_under_its_clients_and_shrinks_without_them() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    let mut client = served.client("main");
    run(folder, "volume resize pool.toml main 56MiB").ok();
    assert_eq!((client.size(), served.client("main").size()), (48 << 20, 56 << 20));
    let mut later = served.client("main");
    later.call(Command::Write, flag::FUA, 55 << 20, 0, &[5; 4096]).expect("written");
    later.call(Command::Write, flag::FUA, 4096, 0, &[6; 4096]).expect("written");
    let refused = run(folder, "volume resize pool.toml main 8MiB").refused(2);
    assert!(
        refused.contains("volume `main` is in use (2 connections and open files)"),
        "{refused}"
    );
    assert_eq!(served.client("main").size(), 56 << 20, "it is offered as before");
    drop(later);
    let cut = "volume resize pool.toml main 8MiB --despite-clients";
    let asked = run(folder, cut).refused(2);
    assert!(
        asked.contains("`main` has 4 KiB of data (1 blocks) beyond 8 MiB, which would be gone"),
        "{asked}"
    );
    let other = run(folder, &format!("{cut} --yes-destroy second")).refused(2);
    assert!(other.contains("--yes-destroy names `second`"), "{other}");
    let read = client.call(Command::Read, 0, 4096, 4096, &[]).expect("read");
    assert!(read.data == [6; 4096] && served.client("main").size() == 56 << 20);
    run(folder, &format!("{cut} --yes-destroy main")).ok();
    let beyond = client.call(Command::Read, 0, 16 << 20, 4096, &[]);
    assert!(matches!(beyond, Err(ClientError::Request(_))), "{beyond:?}");
    assert!(client.call(Command::Read, 0, 4096, 4096, &[]).expect("read").data == [6; 4096]);
    drop(client);
    in_the_end(folder, "volume resize pool.toml main 4MiB");
    run(folder, "volume resize pool.toml main 56MiB").ok();
    let mut client = served.client("main");
    let read = client.call(Command::Read, 0, 55 << 20, 4096, &[]).expect("read");
    assert!(read.data == [0; 4096], "what was cut off is gone");
    let wrong = run(folder, "volume resize pool.toml none 4MiB").refused(2);
    assert!(wrong.contains("there is no volume `none`"), "{wrong}");
    drop(client);
    assert_eq!(served.stop(), 0);
    let listed = run(folder, "volume list pool.toml --json").json();
    assert_eq!(listed["volumes"][0]["size_bytes"], 56 << 20);
}

#[test]
fn a_served_volume_is_deleted_when_nobody_uses_it() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    let mut client = served.client("main");
    let delete = "volume delete pool.toml main --yes-destroy main";
    let refused = run(folder, delete).refused(2);
    assert!(
        refused.contains("is in use (1 connections and open files): end that first"),
        "{refused}"
    );
    client.call(Command::Write, flag::FUA, 0, 0, &[5; 4096]).expect("it goes on");
    run(folder, &format!("{delete} --despite-clients")).ok();
    for (command, length) in [(Command::Read, 512), (Command::Trim, 512), (Command::Flush, 0)] {
        let gone = client.call(command, 0, 0, length, &[]);
        assert!(matches!(gone, Err(ClientError::Request(GONE))), "{command:?}: {gone:?}");
    }
    assert!(Client::connect(served.stream(), "main", Framing::Simple).is_err());
    assert_eq!(served.client("").size(), 16 << 20, "now the other one is the oldest");
    run(folder, "volume create pool.toml main 8MiB").ok();
    assert_eq!(volumes(&served), [("second".to_owned(), 16), ("main".to_owned(), 8)]);
    let mut new = served.client("main");
    let read = new.call(Command::Read, 0, 0, 4096, &[]).expect("read");
    assert!(read.data == [0; 4096], "a new one of the same name is empty");
    client.call(Command::Read, 0, 0, 4096, &[]).expect_err("the old one stays away");
    drop((client, new));
    in_the_end(folder, delete);
    let again = run(folder, delete).refused(2);
    assert!(again.contains("there is no volume `main`"), "{again}");
    let while_served = run(folder, "volume list pool.toml --json").json();
    assert_eq!(served.stop(), 0);
    let listed = run(folder, "volume list pool.toml --json").json();
    assert_eq!(listed["volumes"].as_array().map(Vec::len), Some(1));
    assert_eq!(listed, while_served);
}

#[test]
fn a_volume_is_renamed_under_its_clients_and_after_a_kill() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    run(folder, "volume rename pool.toml second second-b").ok();
    let mut served = Served::start(folder, "");
    let mut client = served.client("main");
    let taken = run(folder, "volume rename pool.toml main second-b").refused(2);
    assert!(taken.contains("a volume of that name exists"), "{taken}");
    let bad = run(folder, "volume rename pool.toml main a/b").refused(2);
    assert!(bad.contains("cannot be the name of a volume"), "{bad}");
    let said = run(folder, "volume rename pool.toml main vault").ok();
    assert!(said.contains("rename it in [[volumes]] of pool.toml"), "{said}");
    client.call(Command::Write, flag::FUA, 0, 0, &[5; 4096]).expect("clients keep it");
    assert!(Client::connect(served.stream(), "main", Framing::Simple).is_err());
    let delete = "volume delete pool.toml vault --yes-destroy vault";
    let refused = run(folder, delete).refused(2);
    assert!(refused.contains("`vault` is in use (1 connections and open files)"), "{refused}");
    served.child.kill().expect("it runs");
    served.child.wait().expect("it was killed");
    let served = Served::start(folder, "");
    let names = [("vault".to_owned(), 48), ("second-b".to_owned(), 16)];
    assert_eq!(volumes(&served), names);
    let read = served.client("vault").call(Command::Read, 0, 0, 4096, &[]).expect("read");
    assert!(read.data == [5; 4096]);
    assert_eq!(served.stop(), 0);
}

#[test]
fn http_changes_volumes_on_the_socket_only() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    let ask = |request: &str| {
        let mut stream = UnixStream::connect(folder.join("pool.status.sock")).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.write_all(request.as_bytes()).expect("it listens");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer.split(' ').nth(1).expect("a code").parse::<u16>().expect("a number")
    };
    let body = "{\"name\": \"a b\", \"size_bytes\": 4096}";
    let post = format!("POST /volumes HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    assert_eq!((ask(&post), ask(&post)), (201, 409));
    let body = "{\"size_bytes\": 8192}";
    let patch = |name: &str| {
        format!("PATCH /volumes/{name} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    assert_eq!((ask(&patch("a%20b")), ask(&patch("none"))), (200, 409));
    assert_eq!(served.client("a b").size(), 8192);
    in_the_end(folder, "volume resize pool.toml second 8MiB");
    assert_eq!(ask("DELETE /volumes HTTP/1.0\r\n\r\n"), 405);
    let began = Instant::now();
    while ask("DELETE /volumes/a%20b HTTP/1.0\r\n\r\n") != 200 {
        assert!(began.elapsed() < PATIENCE, "its client has gone");
    }
    assert_eq!(served.stop(), 0);
    let read_only = Served::start(folder, "--read-only");
    assert_eq!(ask("DELETE /volumes/main HTTP/1.0\r\n\r\n"), 405);
    assert_eq!(read_only.stop(), 0);
}

#[test]
fn disks_of_guests_come_and_go_with_their_volumes() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let settings = std::fs::read_to_string(folder.join("pool.toml")).expect("settings");
    let stated = settings.replace("[device]\n", "[device]\nendurance = '1TB'\n");
    write(folder, "pool.toml", stated);
    run(folder, "volume snapshot pool.toml main old").ok();
    let served = Served::start(folder, "--vhost-user guests");
    let path = |name: &str| folder.join(format!("guests/{name}.sock"));
    let features = |name: &str| {
        let frontend = Frontend::connect(path(name), 1).expect("a socket");
        frontend.get_features().expect("features")
    };
    let [main, old] = ["main", "main@old"].map(features);
    let has = |features: u64, bit: u32| features & 1 << bit != 0;
    assert!(has(main, 13) && has(main, 15) && !has(main, 5), "discard, wear, writable: {main:x}");
    assert!(!has(old, 13) && has(old, 5), "read-only: {old:x}");
    assert!(served.status()["uris"].to_string().contains("vhost-user:/"));
    run(folder, "volume create pool.toml third 8MiB").ok();
    await_that("a socket of the new volume", || path("third").exists());
    let user = Frontend::connect(path("third"), 1).expect("a socket");
    user.get_features().expect("an answer");
    let refused = run(folder, "volume delete pool.toml third --yes-destroy third").refused(2);
    assert!(refused.contains("volume `third` is in use"), "{refused}");
    run(folder, "volume rename pool.toml third fourth").ok();
    await_that("another name", || path("fourth").exists() && !path("third").exists());
    drop(user);
    in_the_end(folder, "volume delete pool.toml fourth --yes-destroy fourth");
    await_that("the end of its socket", || !path("fourth").exists());
    assert_eq!(served.stop(), 0);
    assert!(!path("main").exists());
}

fn await_that(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "no {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn files_come_grow_and_go_with_their_volumes() {
    if !serve_fuse::ready(false, &[]) {
        return;
    }
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    std::fs::create_dir(folder.join("mnt")).expect("a folder");
    let settings = std::fs::read_to_string(folder.join("pool.toml")).expect("settings");
    write(folder, "pool.toml", settings + "[serve]\nfuse = 'mnt'\n");
    let served = Served::start(folder, "");
    let path = folder.join("mnt/third");
    run(folder, "volume create pool.toml third 8MiB").ok();
    let file = File::options().read(true).write(true).open(&path).expect("the new volume");
    file.write_all_at(&[7; 5000], 100).expect("written");
    let read = served.client("third").call(Command::Read, 0, 4096, 512, &[]).expect("read");
    assert!(read.data == [7; 512]);
    assert!(served.status()["uris"].to_string().contains("/mnt/third"));
    let slash = run(folder, "volume create pool.toml a/b 8MiB").refused(2);
    assert!(slash.contains("\"a/b\" cannot be the name of a volume"), "{slash}");
    assert_eq!(volumes(&served).len(), 3);
    run(folder, "volume resize pool.toml third 12MiB").ok();
    file.write_all_at(&[8; 4096], 10 << 20).expect("it has grown");
    in_the_end(folder, "volume delete pool.toml second --yes-destroy second");
    let refused = run(folder, "volume delete pool.toml third --yes-destroy third").refused(2);
    assert!(refused.contains("volume `third` is in use"), "{refused}");
    file.write_all_at(&[9; 4096], 0).expect("it goes on");
    run(folder, "volume delete pool.toml third --yes-destroy third --despite-clients").ok();
    file.write_all_at(&[9; 4096], 0).expect_err("its volume is gone");
    let gone = File::open(&path).expect_err("it is no file any more");
    assert_eq!(gone.kind(), std::io::ErrorKind::NotFound);
    run(folder, "volume create pool.toml third 4MiB").ok();
    let new = File::open(&path).expect("a new one of the same name");
    assert_eq!(new.metadata().expect("attributes").len(), 4 << 20);
    let mut bytes = [1; 512];
    new.read_exact_at(&mut bytes, 0).expect("read");
    assert_eq!(bytes, [0; 512]);
    let names = std::fs::read_dir(folder.join("mnt")).expect("a folder");
    let mut names: Vec<_> = names.map(|name| name.expect("a name").file_name()).collect();
    names.sort();
    assert_eq!(names, ["main", "third"]);
    drop((file, new));
    assert_eq!(served.stop(), 0);
}

/// Destaged data of a volume, in MiB.
fn destaged(served: &Served, index: usize) -> u64 {
    served.status()["volumes"][index]["destaged_bytes"].as_u64().expect("bytes") >> 20
}

/// Writes the first 48 MiB of a volume, without pauses.
fn fill(client: &mut Client<UnixStream>) {
    for lba in 0..48 {
        client.call(Command::Write, 0, lba << 20, 0, &[4; 1 << 20]).expect("written");
    }
    client.call(Command::Flush, 0, 0, 0, &[]).expect("flushed");
}

/// A served tier with a volume on fast devices, of which 4 MiB were written before [`fill`] of the other; and how many
/// of these left.
fn fast_beside_auto(folder: &Path) -> (Served, Client<UnixStream>, u64) {
    format_tiered(folder, "auto");
    run(folder, "volume media pool.toml second fast").ok();
    let served = Served::start(folder, "");
    let listed = run(folder, "volume list pool.toml").ok();
    assert!(listed.contains("fast") && listed.contains("auto"), "{listed}");
    let mut second = served.client("second");
    for lba in 0..1024 {
        second.call(Command::Write, 0, lba << 12, 0, &[3; 4096]).expect("written");
    }
    let mut main = served.client("main");
    fill(&mut main);
    let left = destaged(&served, 1);
    (served, main, left)
}

#[test]
fn volumes_of_a_tier_are_put_on_the_media_that_was_chosen() {
    // A busy machine is late in giving units back, and what has none to go to leaves: one time in six where three other
    // programs use the two cores.
    let mut tries = 0;
    let (folder, served, mut main) = loop {
        let folder = scratch();
        let (served, main, left) = fast_beside_auto(folder.path());
        if left <= 1 {
            break (folder, served, main);
        }
        tries += 1;
        assert!(tries < 6, "{left} of 4 MiB left though the host wrote as fast as it could");
        drop(main);
        assert_eq!(served.stop(), 0);
    };
    let folder = folder.path();
    let before = destaged(&served, 0);
    assert!(before > 8, "{before} MiB of what is written once leave");
    run(folder, "volume media pool.toml main capacity").ok();
    fill(&mut main);
    fill(&mut main);
    let after = destaged(&served, 0);
    assert!(
        after < before + 24,
        "{after} MiB after {before}: more than was there, and 96 MiB went by"
    );
    let engine = &served.status()["engine"];
    let of = |class: usize, key: &str| engine["media"][class][key].as_u64().expect("bytes") >> 20;
    assert_eq!((of(0, "host_bytes"), of(1, "host_bytes")), (96, 52));
    assert!(of(1, "relocation_bytes") >= 4, "what stays went from unit to unit: {engine}");
    let status = served.status();
    let levels = status["waterfall"]["levels"].as_array().expect("levels");
    let given: u64 = levels.iter().map(|level| level["bytes"].as_u64().expect("bytes")).sum();
    assert_eq!(status["engine"]["device_bytes_written"], given, "{levels:?}");
    let told = run(folder, "status pool.toml").ok();
    let causes = ["only on fast devices: ", "destage", "1. "];
    assert!(causes.iter().all(|cause| told.contains(cause)), "{told}");
    let wrong = run(folder, "volume media pool.toml main slow").refused(2);
    assert!(wrong.contains("choose auto, fast or capacity"), "{wrong}");
    drop(main);
    assert_eq!(served.stop(), 0);
    let listed = run(folder, "volume list pool.toml --json").json();
    assert_eq!(listed["volumes"][0]["media"], "capacity");
    assert_eq!(run(folder, "scrub pool.toml").code, 0);
}

#[test]
fn a_volume_keeps_to_its_limits_and_others_do_not_wait_for_it() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    run(folder, "volume create pool.toml slow 16MiB").ok();
    let text = fs::read_to_string(folder.join("pool.toml")).expect("settings");
    let limits = "[[volumes]]\nname = 'slow'\nsize = '16MiB'\nbandwidth = '4KiB'\nshare = 2\n";
    write(folder, "pool.toml", format!("{text}\n{limits}"));
    let served = Served::start(folder, "");
    let limits = |served: &Served| served.status()["volumes"][2]["limits"].clone();
    assert_eq!(limits(&served), serde_json::json!({ "share": 2, "bandwidth_bytes": 4096 }));
    let mut slow = served.client("slow");
    // The first write is within the limit. The second write waits four minutes unless the limit is lifted.
    slow.call(Command::Write, 0, 0, 0, &[1; 1020 << 10]).expect("written");
    let waiting = std::thread::spawn(move || {
        slow.call(Command::Write, 0, 1020 << 10, 0, &[2; 4096]).expect("written");
        slow
    });
    let mut main = served.client("main");
    for lba in 0..256 {
        main.call(Command::Write, 0, lba << 12, 0, &[3; 4096]).expect("written");
    }
    while served.status()["volumes"][2]["waiting"] != 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!waiting.is_finished());
    run(folder, "volume limit pool.toml slow --bandwidth 0 --iops 100000").ok();
    let slow = waiting.join().expect("it was answered");
    assert_eq!(limits(&served), serde_json::json!({ "share": 2, "iops": 100_000 }));
    let refused = run(folder, "volume limit pool.toml slow").refused(2);
    assert!(refused.contains("--share <N>|--iops <N>|--bandwidth <BYTES>"), "{refused}");
    let refused = run(folder, "volume limit pool.toml slow --share 0").refused(2);
    assert!(refused.contains("share is 0, must be 1 to 1000"), "{refused}");
    let refused = run(folder, "volume limit pool.toml slow --bandwidth 4095").refused(2);
    let least = "bandwidth is 4095, must be at least 4096 bytes per second, which is a block";
    assert!(refused.contains(&format!("{least}; 0 lifts the limit")), "{refused}");
    assert_eq!(limits(&served), serde_json::json!({ "share": 2, "iops": 100_000 }));
    let refused = run(folder, "volume limit pool.toml none --iops 5").refused(2);
    assert!(refused.contains("no volume `none`"), "{refused}");
    drop((slow, main));
    assert_eq!(served.stop(), 0);
    let refused = run(folder, "volume limit pool.toml slow --iops 5").refused(2);
    assert!(refused.contains("state them in [[volumes]]"), "{refused}");
    for (limit, why) in [
        ("iops = 0", "iops: is 0, must be at least 1; leave it out for no limit"),
        ("bandwidth = '1'", "bandwidth: is 1, must be at least 4096 bytes per second"),
    ] {
        write(folder, "pool.toml", format!("{text}\n[[volumes]]\nname = 'a'\n{limit}\n"));
        let refused = run(folder, "status pool.toml").refused(2);
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn a_pool_without_a_fast_device_says_so_where_media_are_chosen() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let refused = run(folder, "volume media pool.toml main fast").refused(2);
    assert!(refused.contains("no fast device"), "{refused}");
    let text =
        "[device]\npath = 'new.img'\nsize = '64MiB'\n[[volumes]]\nname = 'a'\nmedia = 'fast'\n";
    write(folder, "new.toml", text);
    let refused = run(folder, "format new.toml").refused(2);
    assert!(
        refused.contains("volumes[0].media") && refused.contains("no fast device"),
        "{refused}"
    );
    assert!(!folder.join("new.img").exists());
}

#[test]
fn what_hosts_write_goes_past_fast_devices_that_wear_too_fast() {
    let folder = scratch();
    let folder = folder.path();
    format_tiered(folder, "auto");
    let text = fs::read_to_string(folder.join("pool.toml")).expect("settings");
    // 16 MiB a day, and a day ahead at most.
    let text = text.replace("class = 'fast'", "class = 'fast'\nendurance = '160MiB'");
    assert!(text.contains("endurance"), "{text}");
    write(folder, "pool.toml", format!("[pool]\nservice_days = 10\n{text}"));
    let served = Served::start(folder, "");
    let mut main = served.client("main");
    let mut fill = |lbas: std::ops::Range<u64>| {
        for lba in lbas {
            main.call(Command::Write, 0, lba << 20, 0, &[4; 1 << 20]).expect("written");
        }
        main.call(Command::Flush, 0, 0, 0, &[]).expect("flushed");
    };
    let wear = || served.status()["wear"][0].clone();
    assert_eq!((&wear()["class"], &wear()["state"]), (&"fast".into(), &"green".into()));
    fill(0..20);
    let began = Instant::now();
    while wear()["state"] != "red" {
        assert!(began.elapsed() < PATIENCE, "{}", wear());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(wear()["ahead_days"].as_f64().expect("days") > 1.0, "{}", wear());
    let on = |class: usize| served.status()["engine"]["media"][class]["host_bytes"].as_u64();
    let (capacity, fast) = (on(0), on(1));
    fill(20..40);
    let more = |now: Option<u64>, before: Option<u64>| {
        now.zip(before).map(|(now, before)| (now - before) >> 20)
    };
    assert!(more(on(1), fast) < Some(4) && more(on(0), capacity) > Some(14), "{}", served.status());
    let told = run(folder, "status pool.toml").ok();
    assert!(told.contains("wear of fast devices: red; "), "{told}");
    assert!(told.contains("what hosts write goes past them"), "{told}");
    let metrics = metrics(&served);
    assert!(metrics.contains("thermocline_wear_ahead_days{class=\"fast\"}"), "{metrics}");
    assert_eq!(served.stop(), 0);
}

/// Bytes of volumes that are on fast devices alone.
fn on_fast(served: &Served) -> u64 {
    served.status()["engine"]["media"][1]["valid_bytes"].as_u64().expect("bytes")
}

#[test]
fn what_is_on_fast_devices_for_too_long_leaves_an_idle_pool_and_one_that_was_killed() {
    let folder = scratch();
    let folder = folder.path();
    format_tiered(folder, "auto");
    let text = fs::read_to_string(folder.join("pool.toml")).expect("settings");
    write(folder, "pool.toml", format!("[pool]\nmax_age = 1\nhigh_watermark = 0.9\n{text}"));
    for kills in 0..2 {
        let mut served = Served::start(folder, "");
        let mut main = served.client("main");
        for lba in 0..3 {
            main.call(Command::Write, 0, lba << 20, 0, &[kills; 1 << 20]).expect("written");
        }
        main.call(Command::Flush, 0, 0, 0, &[]).expect("flushed");
        if kills == 0 {
            served.child.kill().expect("it runs");
            served.child.wait().expect("it is ours");
            continue;
        }
        let began = Instant::now();
        while on_fast(&served) > 0 {
            assert!(began.elapsed() < PATIENCE, "{} bytes stay", on_fast(&served));
            std::thread::sleep(Duration::from_millis(20));
        }
        let read = main.call(Command::Read, 0, 0, 1 << 20, &[]).expect("it can be read").data;
        assert!(read.iter().all(|byte| *byte == kills));
        drop(main);
        assert_eq!(served.stop(), 0);
    }
    assert_eq!(run(folder, "scrub pool.toml").code, 0);
    let text = fs::read_to_string(folder.join("pool.toml")).expect("settings");
    for (wrong, complaint) in [
        ("low_watermark = 0.95", "low_watermark is above high_watermark"),
        ("high_watermark = 80", "pool.high_watermark: is 80, must be 0 to 1"),
        ("at_risk = '1MiB'", "1 fast units may be in use with what may be at risk"),
    ] {
        let text =
            text.replace("high_watermark = 0.9", "").replace("[pool]", &format!("[pool]\n{wrong}"));
        let text = if wrong.starts_with("low") {
            text.replace("max_age", "high_watermark = 0.9\nmax_age")
        } else {
            text
        };
        write(folder, "wrong.toml", text);
        let refused = run(folder, "serve wrong.toml").refused(2);
        assert!(refused.contains(complaint), "{wrong}: {refused}");
    }
}

/// As long as a name may be, but for the volume that is served last.
fn long_name(number: usize) -> String {
    if number == MOST - 1 { "second".to_owned() } else { format!("{number:0>64}") }
}

/// As many as a pool may have.
const MOST: usize = 4096;

#[test]
fn a_pool_may_have_four_thousand_volumes() {
    let folder = scratch();
    let folder = folder.path();
    let device = "[device]\npath = 'pool.img'\nsize = '1GiB'\n";
    let volume = |number| format!("[[volumes]]\nname = '{}'\nsize = '1GiB'\n", long_name(number));
    let settings = |count| device.to_owned() + &(0..count).map(volume).collect::<String>();
    write(folder, "pool.toml", settings(MOST + 1));
    let refused = run(folder, "format pool.toml").refused(2);
    assert!(refused.contains("the pool has as many volumes as it can have: 4096"), "{refused}");
    write(folder, "pool.toml", settings(MOST));
    run(folder, "format pool.toml").ok();
    let served = Served::start(folder, "");
    let mut client = served.client(&long_name(MOST - 1));
    client.call(Command::Write, flag::FUA, 0, 0, &[3; 4096]).expect("written");
    drop(client);
    let listed = run(folder, "volume list pool.toml").ok();
    assert!((0..MOST).all(|number| listed.contains(&long_name(number))));
    let status = run(folder, "status pool.toml --json").json();
    assert_eq!(status["volumes"].as_array().map(Vec::len), Some(MOST));
    let goes = long_name(7);
    run(folder, &format!("volume delete pool.toml {goes} --yes-destroy {goes}")).ok();
    run(folder, "volume create pool.toml new 1GiB").ok();
    let refused = run(folder, "volume create pool.toml another 1GiB").refused(2);
    assert!(refused.contains("as many volumes"), "{refused}");
    assert_eq!(served.stop(), 0);
    run(folder, "check pool.toml").ok();
}
