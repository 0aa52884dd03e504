//! A real file system on a served volume whose server is killed.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use super::programs::{client, have, program};
use super::serve::{Served, format, run};
use crate::{numbers, scratch, write};

/// Copies the image to the volume; ends with a flush.
fn copy(uri: &str) -> Vec<&str> {
    vec!["convert", "-n", "-t", "writeback", "-f", "raw", "-O", "raw", "image", uri]
}

#[test]
fn ext4_is_whole_after_its_server_was_killed_amid_and_after_the_copy() {
    if !have(&["mkfs.ext4", "e2fsck", "qemu-img", "nbdcopy"]) {
        return;
    }
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    fs::create_dir(folder.join("files")).expect("a folder");
    for file in 0..24 {
        let bytes: Vec<u8> = numbers(256).skip(file).take(900_000).map(|byte| byte as u8).collect();
        write(folder, &format!("files/{file}"), bytes);
    }
    let arguments = ["-q", "-F", "-d", "files", "image", "40M"];
    client(folder, "mkfs.ext4", &arguments);
    for pause in [40, 120, 300] {
        let mut served = Served::start(folder, "");
        let mut arguments = copy(&served.uris[0]);
        // The files take a second at least.
        arguments.extend(["-r", "20M"]);
        let mut copying = program(folder, "qemu-img", 60);
        let mut copying =
            copying.args(&arguments).stderr(Stdio::null()).spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(pause));
        served.child.kill().expect("it is ours");
        assert!(!copying.wait().expect("it is ours").success(), "it was interrupted");
    }
    let mut served = Served::start(folder, "");
    client(folder, "qemu-img", &copy(&served.uris[0]));
    served.child.kill().expect("it is ours");
    drop(served);
    let served = Served::start(folder, "");
    client(folder, "nbdcopy", &[&served.uris[0], "back"]);
    assert_eq!(served.stop(), 0);
    let back = fs::OpenOptions::new().write(true).open(folder.join("back")).expect("a copy");
    back.set_len(40 << 20).expect("it is longer");
    let same = fs::read(folder.join("image")).ok() == fs::read(folder.join("back")).ok();
    assert!(same, "what was copied and flushed is what is read");
    client(folder, "e2fsck", &["-fn", "back"]);
    assert_eq!(run(folder, "check pool.toml").code, 0);
}
