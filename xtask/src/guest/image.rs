//! The root of the guest: packages of Debian, with kernel and QEMU among them, cached in `target/guest`.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::{output, sparse};
use crate::repo::Repo;

/// The release, and the suite with newer kernels.
const SUITES: [&str; 2] = ["trixie", "trixie-backports"];
/// Packages of the root besides the minimum.
const PACKAGES: &str = "linux-image-amd64/trixie-backports,initramfs-tools,zstd,busybox-static,qemu-system-x86,\
    qemu-utils,fio,nvme-cli,nbd-client,nbdkit,e2fsprogs,xfsprogs,util-linux,kmod,iproute2,udev,mount";
/// Modules that the kernel needs before it has a root.
const MODULES: &str = "virtio_pci virtio_blk ext4";
/// The first program of the guest: the rest of the start is in the shared folder.
const INIT: &str = "#!/bin/sh\nexport PATH=/usr/sbin:/usr/bin\nmodprobe -a 9p 9pnet_virtio\nmkdir -p /host\n\
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=none host /host\nexec bash /host/init.sh\n";
/// Size of the root's file system in MiB; its file is sparse.
const ROOT_MIB: u64 = 3072;
/// Where Debian keeps libraries.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// A built root.
pub struct Image {
    folder: PathBuf,
}

impl Image {
    /// The cached image of the current list of packages, or a new image.
    ///
    /// # Errors
    /// When packages cannot be installed.
    pub fn cached(repo: &Repo) -> Result<Image> {
        ensure!(cfg!(target_arch = "x86_64"), "guests are of x86_64");
        let mut key = DefaultHasher::new();
        (SUITES, PACKAGES, MODULES, INIT, ROOT_MIB).hash(&mut key);
        let parent = repo.root().join("target/guest");
        let folder = parent.join(format!("{:016x}", key.finish()));
        if !folder.join("root.img").is_file() {
            build(&folder).with_context(|| {
                format!("no root with QEMU and a kernel; log: {}", folder.join("log").display())
            })?;
        }
        Ok(Image { folder })
    }

    /// A program of the root, to run on this machine with the root's libraries.
    pub fn program(&self, name: &str) -> Command {
        let root = self.folder.join("root");
        let mut command = Command::new(root.join(LIBRARIES).join("ld-linux-x86-64.so.2"));
        command.arg("--library-path").arg(root.join(LIBRARIES));
        command.arg(root.join("usr/bin").join(name));
        command.env("QEMU_MODULE_DIR", root.join(LIBRARIES).join("qemu"));
        command
    }

    /// QEMU with its firmware.
    pub fn qemu(&self) -> Command {
        let mut command = self.program("qemu-system-x86_64");
        for folder in ["qemu", "seabios"] {
            command.arg("-L").arg(self.folder.join("root/usr/share").join(folder));
        }
        command
    }

    pub fn kernel(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    pub fn initrd(&self) -> PathBuf {
        self.folder.join("initrd")
    }

    pub fn root(&self) -> PathBuf {
        self.folder.join("root.img")
    }
}

/// Debian's mirror in the sources of this machine.
fn mirror() -> Result<String> {
    let folder = Path::new("/etc/apt");
    let mut files = vec![folder.join("sources.list")];
    for entry in fs::read_dir(folder.join("sources.list.d")).into_iter().flatten() {
        files.push(entry?.path());
    }
    files.sort();
    let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    texts.filter_map(|text| mirror_in(&text)).next().context("no mirror of Debian in /etc/apt")
}

/// The first address in sources of either format that ends as those of Debian do.
fn mirror_in(text: &str) -> Option<String> {
    let lines = text.lines().filter(|line| line.starts_with("URIs:") || line.starts_with("deb "));
    let mut words = lines.flat_map(str::split_whitespace);
    let ours =
        |word: &&str| word.contains("://") && word.trim_end_matches('/').ends_with("/debian");
    words.find(ours).map(str::to_owned)
}

/// Builds the image beside its place, then moves its last file there.
fn build(folder: &Path) -> Result<()> {
    let mirror = mirror()?;
    if let Some(parent) = folder.parent().filter(|parent| parent.is_dir()) {
        remove(parent)?;
    }
    fs::create_dir_all(folder)?;
    println!("root: packages of {} from {mirror}, some minutes", SUITES.join(" and "));
    let root = folder.join("root");
    let modules = "mkdir -p \"$1\"/etc/initramfs-tools/conf.d \"$1\"/usr/share/initramfs-tools/modules.d; \
        echo MODULES=list > \"$1\"/etc/initramfs-tools/conf.d/guest; \
        printf '%s\\n' MODULE_NAMES > \"$1\"/usr/share/initramfs-tools/modules.d/guest";
    let mut command = Command::new("mmdebstrap");
    command.args([
        "--variant=minbase",
        "--aptopt=Acquire::Languages \"none\"",
        "--dpkgopt=force-unsafe-io",
    ]);
    for left_out in ["man", "locale", "doc"] {
        command.arg(format!("--dpkgopt=path-exclude=/usr/share/{left_out}/*"));
    }
    command.arg(format!("--include={PACKAGES}"));
    command.arg(format!("--essential-hook={}", modules.replace("MODULE_NAMES", MODULES)));
    command.arg(SUITES[0]).arg(&root);
    command.args(SUITES.map(|suite| format!("deb {mirror} {suite} main")));
    let log = fs::File::create(folder.join("log"))?;
    command.stdout(log.try_clone()?).stderr(log);
    let status = command.status().context("`mmdebstrap` is missing")?;
    if !status.success() {
        let log = fs::read_to_string(folder.join("log"))?;
        bail!("mmdebstrap failed: {}", log.lines().last().unwrap_or_default());
    }
    for (link, name) in [("vmlinuz", "vmlinuz"), ("initrd.img", "initrd")] {
        fs::copy(root.join(link), folder.join(name)).with_context(|| format!("root's {link}"))?;
    }
    fs::write(root.join("usr/sbin/guest-init"), INIT)?;
    output(Command::new("chmod").arg("+x").arg(root.join("usr/sbin/guest-init")))?;
    let made = folder.join("root.new");
    drop(sparse(&made, ROOT_MIB)?);
    let mut command = Command::new("mke2fs");
    command.args(["-q", "-t", "ext4", "-O", "^has_journal", "-d"]).arg(&root).arg(&made);
    output(&mut command)?;
    Ok(fs::rename(made, folder.join("root.img"))?)
}

/// Removes older images.
fn remove(parent: &Path) -> Result<()> {
    for entry in fs::read_dir(parent)? {
        let path = entry?.path();
        if path.join("log").is_file() && path.join("root").is_dir() {
            fs::remove_dir_all(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_the_first_of_debian_in_either_format() {
        let list =
            "# deb http://no/debian x\ndeb [a=b] http://other/repo x\ndeb http://m/debian x main\n";
        assert_eq!(mirror_in(list).as_deref(), Some("http://m/debian"));
        let sources = "Types: deb\nURIs: http://n/debian/\nSuites: x\n";
        assert_eq!(mirror_in(sources).as_deref(), Some("http://n/debian/"));
        assert_eq!(mirror_in("URIs: http://n/debian-security\n"), None);
    }
}
