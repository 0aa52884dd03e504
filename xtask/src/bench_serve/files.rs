//! Volumes as files of FUSE, with loop devices on them.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::is_there;
use super::server::{Server, serve};
use crate::repo::Repo;

/// The first missing requirement of the machine, if any.
pub fn missing() -> Option<&'static str> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let has_fuse = OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok();
    [
        (is_root, "only root has loop devices"),
        (has_fuse, "/dev/fuse cannot be opened"),
        (Path::new("/dev/loop-control").exists(), "there are no loop devices"),
        (is_there("losetup"), "`losetup` is missing (Debian and Ubuntu: apt-get install mount)"),
        (is_there("nbdfuse"), "`nbdfuse` is missing (Debian and Ubuntu: apt-get install nbdfuse)"),
    ]
    .into_iter()
    .find_map(|(has, reason)| (!has).then_some(reason))
}

/// A server whose file is a loop device. The fields are dropped in this order, as they must end.
pub struct Attached {
    _device: Loop,
    pub server: Server,
    _mount: Mount,
}

/// A new pool in `folder`, served as files.
pub fn thermocline(repo: &Repo, folder: &Path) -> Result<Attached> {
    let mut serve = serve(repo, folder)?;
    let mount = Mount::on(folder.join("ours"))?;
    serve.arg("--fuse").arg(&mount.0);
    attach(Server::not_yet(Vec::new()), serve, mount, "main")
}

/// Memory that nbdkit serves, and nbdfuse as a file.
pub fn nbdfuse(folder: &Path) -> Result<Attached> {
    let server = Server::nbdkit(folder)?;
    let mount = Mount::on(folder.join("theirs"))?;
    let mut serve = Command::new("nbdfuse");
    let uri = format!("nbd+unix:///?socket={}", folder.join("nbdkit.sock").display());
    serve.arg(mount.0.join("volume")).arg(uri);
    attach(server, serve, mount, "volume")
}

fn attach(mut server: Server, serve: Command, mount: Mount, name: &str) -> Result<Attached> {
    let file = mount.0.join(name);
    server.start(serve, &file)?;
    let device = Loop::on(&file)?;
    let filename = format!("--filename={}", device.0);
    server.target = vec!["--ioengine=libaio".to_owned(), "--direct=1".to_owned(), filename];
    Ok(Attached { _device: device, server, _mount: mount })
}

/// A mount point, unmounted on drop.
struct Mount(PathBuf);

impl Mount {
    fn on(folder: PathBuf) -> Result<Mount> {
        fs::create_dir(&folder)?;
        Ok(Mount(folder))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // The server may have seen to it.
        let mut unmount = Command::new("umount");
        let _gone = unmount.arg("-l").arg(&self.0).stderr(Stdio::null()).status();
    }
}

/// A loop device, until this is dropped.
struct Loop(String);

impl Loop {
    fn on(file: &Path) -> Result<Loop> {
        let set = losetup(&["--direct-io=on", "--find", "--show"], file.as_os_str())?;
        let device = Loop(set);
        let direct = losetup(&["--noheadings", "--output", "DIO"], device.0.as_ref())?;
        ensure!(direct == "1", "a loop device on {} goes through the page cache", file.display());
        Ok(device)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // Otherwise it goes with the machine.
        let _left = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

/// The trimmed output of `losetup`.
fn losetup(arguments: &[&str], last: &std::ffi::OsStr) -> Result<String> {
    let output = Command::new("losetup").args(arguments).arg(last).output();
    let output = output.context("losetup cannot be started")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "losetup {arguments:?} {}: {error}", last.display());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
