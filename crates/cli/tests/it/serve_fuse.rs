//! Volumes as files, and file systems on loop devices over them: used, stopped, and killed under load.
//!
//! What a machine lacks (FUSE, loop devices, the right to mount) is said as `SKIPPED`, and not tried.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use thermocline_nbd::protocol::request::Command as Nbd;

use super::programs::{have, program};
use super::serve::{Served, done, run};
use crate::{numbers, scratch, write};

const MAIN_BYTES: u64 = 400 << 20;

pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Whether all is there that a test needs; says what is not. A system without FUSE or loop devices, or one where they
/// are not for us, is no failure even in CI.
pub fn ready(root: bool, programs: &[&str]) -> bool {
    let fuse = OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok();
    let why = if !fuse {
        "/dev/fuse cannot be opened"
    } else if root && !is_root() {
        "only root has loop devices"
    } else if root && !Path::new("/dev/loop-control").exists() {
        "there are no loop devices"
    } else {
        return have(programs) && (is_root() || have(&["fusermount3"]));
    };
    println!("SKIPPED: {why}");
    false
}

/// A pool served with its volumes as files in `mnt`, and the mounts on these files. Dropping ends everything, also
/// when a test fails.
pub struct Stand {
    pub folder: tempfile::TempDir,
    served: Option<Served>,
    device: Option<String>,
}

impl Stand {
    pub fn new() -> Stand {
        Stand::over(Path::new("pool.img"))
    }

    /// With the pool in `file`.
    pub fn over(file: &Path) -> Stand {
        let file = file.display();
        Stand::on(&format!("[device]\npath = '{file}'\nsize = '1GiB'\nunit = '4MiB'\n"))
    }

    /// With a fast device before the other.
    pub fn tiered() -> Stand {
        Stand::on(
            "[[device]]\npath = 'pool.img'\nsize = '1GiB'\nunit = '4MiB'\n
[[device]]\npath = 'fast.img'\nclass = 'fast'\nsize = '128MiB'\nunit = '4MiB'\n",
        )
    }

    fn on(devices: &str) -> Stand {
        let folder = scratch();
        let text = format!(
            "{devices}
[[volumes]]\nname = 'main'\nsize = '{}MiB'\n[[volumes]]\nname = 'second'\nsize = '16MiB'\n",
            MAIN_BYTES >> 20
        );
        write(folder.path(), "pool.toml", text);
        run(folder.path(), "format pool.toml").ok();
        for name in ["mnt", "fs"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let mut stand = Stand { folder, served: None, device: None };
        stand.serve();
        stand
    }

    pub fn serve(&mut self) {
        self.served = Some(Served::start(self.folder.path(), "--fuse mnt"));
    }

    pub fn served(&self) -> &Served {
        self.served.as_ref().expect("it is served")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open(&self, name: &str) -> File {
        let file = OpenOptions::new().read(true).write(true).open(self.path("mnt").join(name));
        file.expect("the file of a volume")
    }

    /// Runs a shell script that must succeed, with bounded time; `$dev` is the loop device. Returns what it prints.
    #[track_caller]
    pub fn sh(&self, script: &str) -> String {
        let mut command = program(self.folder.path(), "sh", 120);
        command.args(["-ec", script]).env("dev", self.device.as_deref().unwrap_or("none"));
        let done = done(command);
        assert_eq!(done.code, 0, "{script}: {}{}", done.out, done.err);
        done.out
    }

    /// Makes volume `main` a block device.
    pub fn attach(&mut self) {
        let device = self.sh("losetup --direct-io=on --find --show mnt/main");
        self.device = Some(device.trim().to_owned());
        assert_eq!(self.sh("losetup --noheadings --output DIO $dev").trim(), "1", "direct I/O");
    }

    pub fn detach(&mut self) {
        self.sh("losetup -d $dev");
        self.device = None;
    }

    /// Kills the server with SIGKILL, and ends all uses of its volumes.
    pub fn kill(&mut self) {
        drop(self.served.take());
        self.sh("umount -l fs || true");
        if self.device.is_some() {
            self.detach();
        }
    }

    pub fn stop(mut self) {
        let served = self.served.take().expect("it is served");
        assert_eq!(served.stop(), 0);
        assert!(!self.is_mounted("mnt"));
        assert_eq!(run(self.folder.path(), "check pool.toml").code, 0);
    }

    fn is_mounted(&self, name: &str) -> bool {
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("a list of mounts");
        let path = self.path(name).canonicalize().unwrap_or(self.path(name));
        let path = path.to_str().expect("UTF-8");
        mounts.lines().any(|line| line.split(' ').nth(1) == Some(path))
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        // Without the server nothing waits for it: what is not answered ends with an error.
        drop(self.served.take());
        let mut script = "umount -l fs; umount -l mnt".to_owned();
        if let Some(device) = &self.device {
            script += &format!("; losetup -d {device}");
        }
        let mut command = program(self.folder.path(), "sh", 60);
        let _nothing_there = command.args(["-c", &script]).stderr(Stdio::null()).status();
    }
}

#[test]
fn a_volume_is_a_file() {
    if !ready(false, &["fallocate"]) {
        return;
    }
    let stand = Stand::new();
    let mut names: Vec<_> = std::fs::read_dir(stand.path("mnt")).expect("a folder").collect();
    assert_eq!(names.len(), 2);
    names.retain(|name| name.as_ref().is_ok_and(|name| name.file_name() == "main"));
    assert_eq!(names.len(), 1);
    drop(names); // It keeps the folder open.
    let uris = stand.served().status()["uris"].to_string();
    assert!(uris.contains("file:///") && uris.contains("/mnt/main"), "{uris}");
    let mut file = stand.open("main");
    let meta = file.metadata().expect("attributes");
    assert_eq!((meta.len(), meta.mode() & 0o777), (MAIN_BYTES, 0o600));
    // Any byte, over the edges of sectors and blocks, against an array.
    let mut model = vec![0_u8; 1 << 20];
    let mut number = numbers(1 << 20);
    for fill in 1..=200_u8 {
        let mut next = || number.next().expect("they do not end") as usize;
        let from = next();
        let to = (from + 1 + next() % 20_000).min(model.len());
        let (length, at) = ((to - from) as u64, from as u64);
        match fill % 5 {
            0 => {
                stand.sh(&format!("fallocate --punch-hole -o {at} -l {length} mnt/main"));
                model[from..to].fill(0);
            }
            1 => {
                stand.sh(&format!("fallocate --zero-range -o {at} -l {length} mnt/main"));
                model[from..to].fill(0);
            }
            _ => {
                model[from..to].fill(fill);
                file.write_all_at(&model[from..to], at).expect("written");
            }
        }
    }
    file.sync_all().expect("durable");
    let mut found = vec![0; model.len()];
    file.read_exact_at(&mut found, 0).expect("read");
    assert!(found == model, "what was written is there");
    let reply = stand.served().client("main").call(Nbd::Read, 0, 0, 1 << 20, &[]).expect("read");
    assert!(reply.data == model, "and an NBD client sees the same");
    let mut client = stand.served().client("main");
    client.call(Nbd::Write, 0, 4096, 0, &[99; 512]).expect("written");
    file.read_exact_at(&mut found[..512], 4096).expect("read");
    assert_eq!(found[..512], [99; 512], "what an NBD client writes is seen at once");
    ends_and_refusals(&stand, &mut file);
    drop((file, client));
    stand.stop();
}

fn ends_and_refusals(stand: &Stand, file: &mut File) {
    assert_eq!(file.write_at(&[1; 100], MAIN_BYTES - 10).expect("as far as it fits"), 10);
    let full = file.write_at(&[1], MAIN_BYTES).expect_err("behind the end");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    let mut rest = Vec::new();
    file.seek(SeekFrom::Start(MAIN_BYTES - 10)).expect("a file");
    file.read_to_end(&mut rest).expect("read");
    assert_eq!(rest, [1; 10]);
    let refused = file.set_len(1 << 20).expect_err("the size is fixed");
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    std::fs::write(stand.path("mnt/second"), "as a block device").expect("O_TRUNC does nothing");
    assert_eq!(std::fs::metadata(stand.path("mnt/second")).expect("a file").len(), 16 << 20);
    assert!(std::fs::remove_file(stand.path("mnt/second")).is_err());
    assert!(File::create(stand.path("mnt/third")).is_err());
    assert!(File::open(stand.path("mnt/third")).is_err());
    // An empty region of the volume is a hole, as tools that copy sparse files find it.
    stand.sh("fallocate --punch-hole -o 0 -l 400MiB mnt/main");
    file.write_all_at(&[7; 4096], 64 << 20).expect("written");
    stand.sh("cp --sparse=always mnt/main copy && cmp mnt/main copy && rm copy");
    assert_eq!(stand.served().status()["engine"]["mapped_bytes"], 4096 + 4096);
}

#[test]
fn a_mount_in_use_does_not_hold_up_a_stop() {
    if !ready(false, &[]) {
        return;
    }
    let mut stand = Stand::new();
    let file = stand.open("main");
    file.write_all_at(&[1; 4096], 0).expect("written");
    let served = stand.served.take().expect("it is served");
    assert_eq!(served.stop(), 0);
    assert!(!stand.is_mounted("mnt"));
    assert!(file.write_all_at(&[1; 4096], 0).is_err(), "nobody serves it any more");
    stand.serve();
    let mut found = [0; 4096];
    stand.open("main").read_exact_at(&mut found, 0).expect("read");
    assert_eq!(found, [1; 4096], "though nobody flushed it, an orderly stop keeps it");
}

#[test]
fn a_killed_server_leaves_a_mount_that_the_next_one_replaces() {
    if !ready(false, &[]) {
        return;
    }
    let mut stand = Stand::new();
    let file = stand.open("main");
    file.write_all_at(&[5; 1000], 77).expect("written");
    file.sync_all().expect("durable");
    drop(stand.served.take());
    assert!(file.read_at(&mut [0; 512], 0).is_err());
    assert!(std::fs::read_dir(stand.path("mnt")).is_err(), "it is dead");
    stand.serve();
    let mut found = [0; 1000];
    stand.open("main").read_exact_at(&mut found, 77).expect("read");
    assert_eq!(found, [5; 1000]);
    drop(file);
    stand.stop();
}

#[test]
fn what_cannot_be_mounted_is_refused_with_the_reason() {
    if !ready(false, &[]) {
        return;
    }
    let folder = scratch();
    super::serve::format(folder.path());
    let refused = run(folder.path(), "serve pool.toml --fuse nowhere").refused(2);
    assert!(refused.contains("cannot mount on nowhere"), "{refused}");
}

/// A file system with its programs: making it, mounting it, and checking it without changing it.
struct FileSystem {
    name: &'static str,
    make: &'static str,
    check: &'static str,
}

const EXT4: FileSystem =
    FileSystem { name: "ext4", make: "mkfs.ext4 -q $dev", check: "e2fsck -fn $dev" };
const XFS: FileSystem =
    FileSystem { name: "xfs", make: "mkfs.xfs -q $dev", check: "xfs_repair -n $dev" };
const BTRFS: FileSystem =
    FileSystem { name: "btrfs", make: "mkfs.btrfs -q $dev", check: "btrfs check --readonly $dev" };

impl FileSystem {
    /// `line` as a script. Programs of btrfs look at the backing file of every mounted loop device, and fail if its
    /// server is dead; they run without the mounts of others.
    fn script(&self, line: &str) -> String {
        if self.name != "btrfs" {
            return line.to_owned();
        }
        let mounts = "sed -n 's/^.dev.loop[0-9]* //p' /proc/mounts | cut -d ' ' -f 1";
        format!("unshare -m sh -ec \"{mounts} | xargs -r umount -l; {line}\"")
    }
}

fn is_made_filled_trimmed_and_checked(system: &FileSystem) {
    let program = |line: &'static str| line.split(' ').next().expect("a program");
    let programs = [program(system.make), program(system.check), "losetup", "fstrim", "fallocate"];
    if !ready(true, &programs) {
        return;
    }
    let mut stand = Stand::new();
    stand.attach();
    stand.sh(&system.script(system.make));
    stand.sh(&format!("mount -t {} $dev fs", system.name));
    stand.sh(
        "mkdir fs/a fs/b; for i in 1 2 3 4 5 6; do head -c 20000000 /dev/urandom > fs/a/$i; done",
    );
    stand.sh("for i in 1 2 3; do cp --reflink=never fs/a/$i fs/b/$i; done; sync; sha256sum fs/b/* > sums");
    let mapped =
        |stand: &Stand| stand.served().status()["engine"]["mapped_bytes"].as_u64().expect("bytes");
    let full = mapped(&stand);
    // What is removed may be freed later, at the latest before the end of the mount.
    stand.sh(&format!("rm -r fs/a; umount fs; mount -t {} $dev fs; fstrim -v fs", system.name));
    let trimmed = mapped(&stand);
    assert!(trimmed + 100_000_000 < full, "{trimmed} of {full} bytes are mapped after fstrim");
    stand.sh(&format!("umount fs; {}", system.script(system.check)));
    // The same after the server was stopped in order and started again.
    stand.detach();
    assert_eq!(stand.served.take().expect("it is served").stop(), 0);
    stand.serve();
    stand.attach();
    stand.sh(&format!("mount -t {} $dev fs; sha256sum --quiet -c sums; umount fs", system.name));
    stand.sh(&system.script(system.check));
    stand.detach();
    stand.stop();
}

#[test]
fn ext4_is_made_filled_trimmed_and_checked() {
    is_made_filled_trimmed_and_checked(&EXT4);
}

#[test]
fn xfs_is_made_filled_trimmed_and_checked() {
    is_made_filled_trimmed_and_checked(&XFS);
}

#[test]
fn btrfs_is_made_filled_trimmed_and_checked() {
    is_made_filled_trimmed_and_checked(&BTRFS);
}

/// The expected contents of a file.
fn content(name: u64, version: u64) -> Vec<u8> {
    let line = format!("{name} {version} ");
    line.repeat(1 + (name * 37 % 3000) as usize).into_bytes()
}

/// Writes files, each flushed before it counts, until that fails. A new version replaces the old one by renaming.
fn write_until_the_end(folder: &Path, ledger: &mut BTreeMap<u64, u64>) -> std::io::Result<()> {
    let directory = File::open(folder)?;
    for (name, version) in numbers(300).zip(ledger.values().copied().max().unwrap_or(0) + 1..) {
        let temporary = folder.join(format!("{name}.new"));
        let mut file = File::create(&temporary)?;
        file.write_all(&content(name, version))?;
        file.sync_all()?;
        std::fs::rename(&temporary, folder.join(name.to_string()))?;
        directory.sync_all()?;
        ledger.insert(name, version);
    }
    unreachable!("there is no end of numbers")
}

/// The file may have a newer version than the ledger: the server may die before its answer.
fn compare(folder: &Path, ledger: &BTreeMap<u64, u64>) {
    for (&name, &version) in ledger {
        let found = std::fs::read(folder.join(name.to_string())).expect("it was flushed");
        let newer = version..=version + 1_000_000;
        let text = String::from_utf8(found.clone()).expect("text");
        let there = text.split(' ').nth(1).and_then(|there| there.parse::<u64>().ok());
        let there = there.expect("a version");
        assert!(newer.contains(&there), "file {name}: version {there}, but {version} was flushed");
        assert!(found == content(name, there), "file {name} is not what was written");
    }
}

#[test]
fn killed_under_a_file_system_nothing_that_it_flushed_is_lost() {
    if !ready(true, &["mkfs.ext4", "e2fsck", "losetup"]) {
        return;
    }
    let mut stand = Stand::new();
    stand.attach();
    stand.sh("mkfs.ext4 -q $dev");
    let mut ledger = BTreeMap::new();
    for pause in numbers(500).take(6) {
        stand.sh("mount -t ext4 $dev fs");
        compare(&stand.path("fs"), &ledger);
        let id = stand.served().child.id();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300 + pause));
            let killed = Command::new("kill").args(["-9", &id.to_string()]).status();
            assert!(killed.expect("there is a `kill`").success());
        });
        write_until_the_end(&stand.path("fs"), &mut ledger).expect_err("the server is killed");
        killer.join().expect("it kills");
        stand.kill();
        stand.serve();
        stand.attach();
        // Mounting replays the journal. After the replay, a check must find no errors.
        stand.sh("mount -t ext4 $dev fs");
        compare(&stand.path("fs"), &ledger);
        stand.sh("umount fs; e2fsck -fn $dev");
    }
    assert!(ledger.len() >= 6, "{} files were flushed in all", ledger.len());
    eprintln!("{} files, newest version {:?}", ledger.len(), ledger.values().max());
    stand.detach();
    stand.stop();
}
