//! Backups of snapshots and of what changed between them: with foreign clients, and with `volume export`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use thermocline_nbd::Client;
use thermocline_nbd::protocol::request::Command;

use super::programs::{client, have};
use super::serve::{Served, format, run};
use crate::{numbers, scratch};

const MIB: u64 = 1 << 20;

/// Writes incompressible bytes of this seed.
#[track_caller]
fn write(client: &mut Client<UnixStream>, seed: usize, offset: u64, bytes: u64) {
    let data = numbers(1 << 31).skip(seed).flat_map(|number| number.to_le_bytes());
    let data: Vec<u8> = data.take(bytes as usize).collect();
    client.call(Command::Write, 0, offset, 0, &data).expect("written");
}

/// A served pool whose volume `main` has snapshots `a`, `b` and `c`, of which `b` may have been deleted.
fn serve(folder: &Path, deletes: bool) -> Served {
    format(folder);
    let served = Served::start(folder, "");
    let mut client = served.client("main");
    let snapshot = |name: &str| run(folder, &format!("volume snapshot pool.toml main {name}")).ok();
    write(&mut client, 1, 0, 4 * MIB);
    snapshot("a");
    write(&mut client, 2, MIB, 4096);
    client.call(Command::Trim, 0, 2 * MIB, MIB, &[]).expect("trimmed");
    snapshot("b");
    write(&mut client, 3, 8 * MIB, 2 * 4096);
    snapshot("c");
    write(&mut client, 4, 4096, 4096);
    client.call(Command::Flush, 0, 0, 0, &[]).expect("flushed");
    if deletes {
        run(folder, "volume delete pool.toml main@b --yes-destroy main@b").ok();
    }
    served
}

/// Runs of the map of `nbdinfo` with a flag: offset, length.
fn dirty(folder: &Path, export: &str, since: &str) -> Vec<(u64, u64)> {
    let context = format!("--map=qemu:dirty-bitmap:{since}");
    let uri = format!("nbd+unix:///{export}?socket=pool.sock");
    let map = client(folder, "nbdinfo", &[&context, &uri]);
    let mut runs = Vec::new();
    for line in map.lines() {
        let fields: Vec<u64> =
            line.split_whitespace().take(3).map(|field| field.parse().expect("a number")).collect();
        runs.extend((fields[2] == 1).then_some((fields[0], fields[1])));
    }
    runs
}

#[test]
fn libnbd_and_qemu_read_what_changed_since_a_snapshot() {
    if !have(&["nbdinfo", "nbdsh", "qemu-img"]) {
        return;
    }
    let folder = scratch();
    let folder = folder.path();
    let served = serve(folder, false);
    let [block, new, trimmed] = [(MIB, 4096), (8 * MIB, 8192), (2 * MIB, MIB)];
    assert_eq!(dirty(folder, "main@b", "a"), [block, trimmed]);
    assert_eq!(dirty(folder, "main@c", "b"), [new]);
    assert_eq!(dirty(folder, "main@c", "a"), [block, trimmed, new]);
    assert_eq!(dirty(folder, "main", "c"), [(4096, 4096)]);
    assert_eq!(dirty(folder, "main", "a"), [(4096, 4096), block, trimmed, new]);
    let list = client(folder, "nbdinfo", &["--list", &served.uris[0]]);
    assert_eq!(list.matches("qemu:dirty-bitmap:a").count(), 3, "of main, main@b, main@c: {list}");
    assert_eq!(list.matches("qemu:dirty-bitmap:c").count(), 1, "of main: {list}");
    // QEMU shows what is not dirty as data.
    let image = "driver=nbd,server.type=unix,server.path=pool.sock,export=main@c,x-dirty-bitmap=";
    let image = format!("{image}qemu:dirty-bitmap:b");
    let map = client(folder, "qemu-img", &["map", "--output=json", "--image-opts", &image]);
    let map: serde_json::Value = serde_json::from_str(&map).expect("JSON");
    let map: Vec<_> = map.as_array().expect("a list").iter().collect();
    let dirty = map.iter().filter(|run| run["data"] == false);
    let dirty: Vec<_> = dirty.map(|run| (run["start"].as_u64(), run["length"].as_u64())).collect();
    assert_eq!(dirty, [(Some(new.0), Some(new.1))], "{map:?}");
    let script = "\
h.add_meta_context('qemu:dirty-bitmap:a')
h.add_meta_context('base:allocation')
h.connect_uri('nbd+unix:///main@c?socket=pool.sock')
found = {}
h.block_status(16 << 20, 0, lambda context, offset, runs, error: found.update({context: runs}))
print(sorted(found), found['qemu:dirty-bitmap:a'][:8], found['base:allocation'][:8])
assert found['qemu:dirty-bitmap:a'][:8] == [1 << 20, 0, 4096, 1, (1 << 20) - 4096, 0, 1 << 20, 1]
assert found['base:allocation'][:4] == [2 << 20, 0, 1 << 20, 3]
";
    client(folder, "nbdsh", &["-c", script]);
    assert_eq!(served.stop(), 0);
}

/// Whether an image has what an export shows.
#[track_caller]
fn same(folder: &Path, export: &str, image: &str) {
    let uri = format!("nbd+unix:///{export}?socket=pool.sock");
    client(folder, "qemu-img", &["compare", "-f", "raw", "-F", "raw", image, &uri]);
}

#[test]
fn an_image_of_a_snapshot_becomes_that_of_a_newer_one_by_the_changes() {
    if !have(&["qemu-img"]) {
        return;
    }
    for deletes in [false, true] {
        let folder = scratch();
        let folder = folder.path();
        let served = serve(folder, deletes);
        let done = run(folder, "volume export pool.toml main@a image").ok();
        assert!(done.contains("image holds `main@a`: 4 MiB copied of 48 MiB"), "{done}");
        same(folder, "main@a", "image");
        let blocks = fs::metadata(folder.join("image")).expect("an image").blocks();
        assert!(blocks * 512 < 6 * MIB, "it is sparse: {blocks}");
        fs::copy(folder.join("image"), folder.join("other")).expect("copied");
        fs::copy(folder.join("image.export"), folder.join("other.export")).expect("copied");
        let export = "volume export pool.toml main@c image --since main@a --json";
        let report = run(folder, export).json();
        assert_eq!(report["copied_bytes"], 3 * 4096, "{report}");
        assert_eq!(report["zeroed_bytes"], MIB, "{report}");
        same(folder, "main@c", "image");
        let wrong = run(folder, "volume export pool.toml main image --since a").refused(2);
        assert!(wrong.contains("image holds `main@c`"), "{wrong}");
        let wrong = run(folder, "volume export pool.toml main@a image --since c").refused(2);
        assert!(wrong.contains("`main@a` has no older snapshot `c`"), "{wrong}");
        let wrong = run(folder, "volume export pool.toml main@c image").refused(2);
        assert!(wrong.contains("image exists: name a new file"), "{wrong}");
        let wrong = run(folder, "volume export pool.toml main@x new").refused(2);
        assert!(wrong.contains("no volume or snapshot `main@x`"), "{wrong}");
        assert_eq!(served.stop(), 0);

        let report = run(folder, "volume export pool.toml main other --since a --json").json();
        assert_eq!(report["copied_bytes"], 4 * 4096, "{report}");
        run(folder, "volume export pool.toml main@c whole").ok();
        let bytes = |name: &str| fs::read(folder.join(name)).expect("an image");
        assert!(bytes("whole") == bytes("image"), "served or not");
        let served = Served::start(folder, "");
        same(folder, "main", "other");
        assert_eq!(served.stop(), 0);
    }
}
