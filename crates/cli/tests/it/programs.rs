//! Programs of the system that tests use: clients, file systems, a database.
//!
//! Without its program a test prints a line and is skipped. If `CI` is set, the test fails instead.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::serve::done;

/// Programs by their Debian package.
const PACKAGES: [(&str, &[&str]); 15] = [
    ("btrfs-progs", &["mkfs.btrfs", "btrfs"]),
    ("chromium", &["chromium"]),
    ("e2fsprogs", &["mkfs.ext4", "e2fsck"]),
    ("fio", &["fio"]),
    ("fuse3", &["fusermount3"]),
    ("libnbd-bin", &["nbdinfo", "nbdcopy"]),
    ("mount", &["losetup"]),
    ("openssl", &["openssl"]),
    ("postgresql", &["initdb", "pg_ctl", "psql", "pgbench", "pg_amcheck", "pg_checksums"]),
    ("python3", &["python3"]),
    ("python3-libnbd", &["nbdsh"]),
    ("qemu-utils", &["qemu-img", "qemu-io"]),
    ("util-linux", &["fallocate", "fstrim", "setpriv"]),
    ("xfsprogs", &["mkfs.xfs", "xfs_repair"]),
    ("nbdkit", &["nbdkit"]),
];

/// Where programs are: those of the system before others of the same name (packages of its Python are for its own
/// Python), those for administrators, and PostgreSQL's, which are in no usual `PATH`.
fn folders() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("/usr/bin")];
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    folders.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    folders.extend(versions.map(|version| version.path().join("bin")));
    folders
}

/// Whether all programs are installed; prints the missing program.
pub fn have(programs: &[&str]) -> bool {
    let folders = folders();
    let is_there = |program: &&str| folders.iter().any(|folder| folder.join(program).exists());
    let Some(missing) = programs.iter().find(|program| !is_there(program)) else { return true };
    let package = PACKAGES.iter().find(|(_, programs)| programs.contains(missing));
    let package = package.map_or("unknown", |(package, _)| package);
    println!("SKIPPED: there is no {missing} (Debian: {package})");
    assert!(std::env::var_os("CI").is_none(), "CI must have {missing}");
    false
}

/// `program`, in `folder`, ended after a time.
pub fn program(folder: &Path, program: &str, seconds: u32) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", &seconds.to_string(), program]).current_dir(folder);
    let path = std::env::join_paths(folders()).expect("they came from one");
    command.env("PATH", path).stdin(Stdio::null());
    command
}

/// Runs a program, which must succeed in bounded time. Returns its output.
#[track_caller]
pub fn client(folder: &Path, name: &str, arguments: &[&str]) -> String {
    let mut command = program(folder, name, 120);
    command.args(arguments);
    let done = done(command);
    assert_eq!(done.code, 0, "{name} {arguments:?}: {}{}", done.out, done.err);
    done.out
}
