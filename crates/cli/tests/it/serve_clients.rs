//! Served pools under foreign clients: libnbd, QEMU, fio.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::programs::{client, have};
use super::serve::{Served, done, format, run};
use crate::{numbers, scratch, write};

/// `count` incompressible bytes.
pub fn noise(count: usize) -> Vec<u8> {
    numbers(1 << 31).flat_map(|number| number.to_le_bytes()).take(count).collect()
}

#[test]
fn libnbd_copies_there_and_back() {
    if !have(&["nbdinfo", "nbdcopy"]) {
        return;
    }
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    let [main, second] = [&served.uris[0], &served.uris[1]];
    let info = client(folder, "nbdinfo", &[main]);
    for expected in [
        "export-size: 50331648",
        "using structured packets",
        "base:allocation",
        "can_multi_conn: true",
        "can_fast_zero: true",
        "can_df: true",
        "block_size_minimum: 512",
    ] {
        assert!(info.contains(expected), "{expected}: {info}");
    }
    let list = client(folder, "nbdinfo", &["--list", main]);
    assert!(list.contains("export=\"main\"") && list.contains("export=\"second\""), "{list}");
    let map = client(folder, "nbdinfo", &["--map", second]);
    assert_eq!(map.split_whitespace().collect::<Vec<_>>(), ["0", "16777216", "3", "hole,zero"]);
    let mut image = noise(16 << 20);
    image[1 << 20..9 << 20].fill(0);
    write(folder, "image", &image);
    client(folder, "nbdcopy", &["image", second]);
    client(folder, "nbdcopy", &["--flush", second, "back"]);
    assert!(fs::read(folder.join("back")).expect("a copy") == image);
    let map = client(folder, "nbdinfo", &["--map", second]);
    let hole = map.lines().find(|line| line.contains("hole")).expect("there is a hole");
    let hole: Vec<&str> = hole.split_whitespace().collect();
    assert_eq!(hole[..3], ["1048576", "8388608", "3"], "{map}");
    client(folder, "nbdcopy", &["--connections=4", "--requests=64", second, main]);
    client(folder, "nbdcopy", &[main, "back"]);
    assert!(fs::read(folder.join("back")).expect("a copy")[..16 << 20] == image);
    assert_eq!(served.stop(), 0);
}

#[test]
fn qemu_converts_compares_and_writes_patterns() {
    if !have(&["qemu-img", "qemu-io"]) {
        return;
    }
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    let second = &served.uris[1];
    let mut image = noise(16 << 20);
    image[2 << 20..5 << 20].fill(0);
    write(folder, "image", &image);
    client(folder, "qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", "image", second]);
    client(folder, "qemu-img", &["compare", "-f", "raw", "-F", "raw", "image", second]);
    client(folder, "qemu-img", &["convert", "-f", "raw", "-O", "qcow2", second, "back.qcow2"]);
    client(folder, "qemu-img", &["compare", "-f", "raw", "-F", "qcow2", "image", "back.qcow2"]);
    let bench = ["bench", "-f", "raw", "-c", "2000", "-d", "16", "-s", "4096", "-w", second];
    client(folder, "qemu-img", &bench);
    let patterns = [
        "write -P 0x5a 1M 192k",
        "read -P 0x5a 1M 192k",
        "write -P 0x11 1049088 512",
        "read -P 0x11 1049088 512",
        "read -P 0x5a 1M 512",
        "read -P 0x5a 1049600 512",
        "discard 1M 64k",
        "read -P 0 1M 64k",
        "write -z 1114112 64k",
        "read -P 0 1114112 64k",
        "write -z -u 1179648 4k",
        "read -P 0 1179648 4k",
        "write -f -P 0x77 15M 1M",
        "read -P 0x77 15M 1M",
        "flush",
        "aio_write -P 0x33 2M 64k",
        "aio_write -P 0x44 3M 64k",
        "aio_flush",
        "read -P 0x33 2M 64k",
        "read -P 0x44 3M 64k",
    ];
    let mut arguments = vec!["-f", "raw"];
    patterns.iter().for_each(|pattern| arguments.extend(["-c", pattern]));
    arguments.push(second);
    let out = client(folder, "qemu-io", &arguments);
    assert!(!out.contains("failed"), "{out}");
    assert_eq!(served.stop(), 0);
}

#[test]
fn fio_verifies_what_it_wrote() {
    if !have(&["fio"]) {
        return;
    }
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    let uri = format!("--uri={}", served.uris[0]);
    for job in [
        &["--rw=randwrite", "--bs=4k", "--iodepth=32", "--size=32M"][..],
        &["--rw=randrw", "--bsrange=512-64k", "--bs_unaligned=0", "--iodepth=16", "--size=24M"],
        &["--rw=write", "--bs=1M", "--iodepth=4", "--size=40M"],
    ] {
        let mut arguments =
            vec!["--name=verify", "--ioengine=nbd", &uri, "--verify=crc32c", "--verify_fatal=1"];
        arguments.extend(["--do_verify=1", "--randrepeat=1", "--fsync=200"]);
        arguments.extend(job);
        client(folder, "fio", &arguments);
    }
    assert_eq!(served.stop(), 0);
}

/// What libnbd refuses to send by itself has to be allowed; the server must answer as the protocol says.
const CORNERS: &str = include_str!("../../testdata/corners.py");

#[test]
fn nbdsh_finds_the_corners_where_the_protocol_has_them() {
    if !have(&["nbdsh"]) {
        return;
    }
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let served = Served::start(folder, "");
    let script = format!("URI = {:?}\n{CORNERS}", served.uris[1]);
    client(folder, "nbdsh", &["-c", &script]);
    assert_eq!(served.stop(), 0);
}

/// Makes a certificate of the authority `ca`, or the authority itself.
fn certificate(folder: &Path, name: &str, authority: bool) {
    let openssl = |arguments: &str| {
        client(folder, "openssl", &arguments.split(' ').collect::<Vec<_>>());
    };
    let key = format!("req -newkey rsa:2048 -nodes -keyout {name}-key.pem -subj /CN=localhost");
    if authority {
        return openssl(&format!("{key} -x509 -days 2 -out {name}-cert.pem"));
    }
    openssl(&format!("{key} -out {name}.csr"));
    write(folder, "names", "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
    openssl(&format!(
        "x509 -req -in {name}.csr -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile names \
         -out {name}-cert.pem"
    ));
}

#[test]
fn over_tls_only_clients_with_a_certificate_get_in() {
    if !have(&["openssl", "nbdinfo", "nbdcopy"]) {
        return;
    }
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    certificate(folder, "ca", true);
    certificate(folder, "server", false);
    certificate(folder, "client", false);
    let tls = "--listen 127.0.0.1:0 --tls-certificate server-cert.pem --tls-key server-key.pem \
               --tls-clients ca-cert.pem";
    let served = Served::start(folder, tls);
    let uri = &served.uris[1];
    assert!(uri.starts_with("nbds://127.0.0.1:"), "{uri}");
    let with = |name: &str| {
        let certificates = folder.join(name);
        fs::create_dir(&certificates).expect("a folder");
        fs::copy(folder.join("ca-cert.pem"), certificates.join("ca-cert.pem")).expect("copied");
        format!("{uri}?tls-certificates={}", certificates.display())
    };
    let known = with("known");
    for part in ["cert", "key"] {
        let (from, to) = (format!("client-{part}.pem"), format!("known/client-{part}.pem"));
        fs::copy(folder.join(from), folder.join(to)).expect("copied");
    }
    let info = client(folder, "nbdinfo", &[&known]);
    assert!(info.contains("with TLS"), "{info}");
    let image = noise(16 << 20);
    write(folder, "image", &image);
    client(folder, "nbdcopy", &["image", &known]);
    client(folder, "nbdcopy", &[&known, "back"]);
    assert!(fs::read(folder.join("back")).expect("a copy") == image);
    for refused in [with("unknown"), uri.replace("nbds://", "nbd://")] {
        let mut command = Command::new("timeout");
        command.args(["20", "nbdinfo", &refused]).current_dir(folder);
        let done = done(command);
        assert!(done.code != 0 && done.code != 124, "{refused}: {}", done.out);
    }
    client(folder, "nbdinfo", &[&known]);
    run(folder, "volume snapshot pool.toml second monday").ok();
    let export = "volume export pool.toml second@monday back.bin";
    let refused = run(folder, export).refused(2);
    assert!(refused.contains("encrypted connections only: add a `socket`"), "{refused}");
    assert_eq!(served.stop(), 0);
    run(folder, export).ok();
    let back = fs::read(folder.join("back.bin")).expect("a copy");
    assert!(back[..image.len()] == image && back[image.len()..].iter().all(|&byte| byte == 0));
}
