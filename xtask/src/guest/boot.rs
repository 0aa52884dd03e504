//! A machine of one scenario: folder, drives, start of QEMU, exit code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::image::Image;
use super::scenario::{Drive, Scenario, Volume};
use super::served::{Process, Served, nbd_socket, socket};
use super::{output, sparse};
use crate::repo::Repo;

/// Command line of the kernel.
const KERNEL: &str = "root=/dev/vda rw init=/usr/sbin/guest-init console=ttyS0 quiet panic=-1 mitigations=off \
    no_timer_check nvme_core.multipath=N random.trust_cpu=on \
    rcupdate.rcu_expedited=1";

/// A machine with its files, before and after it ran.
pub struct Machine {
    folder: PathBuf,
}

impl Machine {
    /// Makes the folder of `scenario` with the drives and all files that the guest sees.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn prepare(repo: &Repo, scenario: &Scenario) -> Result<Machine> {
        let folder = repo.root().join("target/guest/runs").join(&scenario.name);
        let machine = Machine { folder };
        if machine.folder.exists() {
            fs::remove_dir_all(&machine.folder)?;
        }
        let share = machine.share();
        fs::create_dir_all(&share)?;
        fs::copy(repo.root().join("target/debug/thermocline"), machine.program())?;
        fs::copy(&scenario.script, share.join("run.sh"))?;
        fs::copy(repo.root().join("tests/guest/init.sh"), share.join("init.sh"))?;
        fs::write(share.join("drives"), scenario.drives.len().to_string())?;
        for drive in &scenario.drives {
            sparse(&machine.drive(&drive.name), drive.mib)?;
            if drive.logged {
                sparse(&machine.log(), 0)?;
            }
        }
        Ok(machine)
    }

    /// The folder that the guest sees as `/host`.
    pub fn share(&self) -> PathBuf {
        self.folder.join("host")
    }

    /// The program that is tested.
    pub fn program(&self) -> PathBuf {
        self.share().join("thermocline")
    }

    /// The folder of all files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The log of the logged drive.
    pub fn log(&self) -> PathBuf {
        self.folder.join("writes.log")
    }

    fn drive(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.img"))
    }

    /// Starts the guest and waits for the exit code of the scenario.
    ///
    /// # Errors
    /// When the guest reports none within the limit.
    pub fn run(&self, image: &Image, scenario: &Scenario) -> Result<i32> {
        let volumes = &scenario.volumes;
        let served = |program| Served::start(&self.folder, program, volumes);
        let program = self.share().join("thermocline");
        let mut served = (!volumes.is_empty()).then(|| served(&program)).transpose()?;
        if let Some(root) = volumes.iter().find(|volume| volume.root) {
            self.fill(image, root)?;
        }
        let mut qemu = image.qemu();
        self.arguments(&mut qemu, image, scenario);
        qemu.env("TMPDIR", &self.folder).stdin(Stdio::null());
        let errors = fs::File::create(self.folder.join("qemu.log"))?;
        qemu.stdout(errors.try_clone()?).stderr(errors);
        let mut qemu = Process(qemu.spawn().context("QEMU cannot be started")?);
        let begin = Instant::now();
        while qemu.0.try_wait()?.is_none() {
            ensure!(
                begin.elapsed() < scenario.limit,
                "no end within {} s; output: {}",
                scenario.limit.as_secs(),
                self.share().join("log").display()
            );
            std::thread::sleep(Duration::from_millis(100));
            // The guest asks for a kill of the server by this file, and waits until it is gone.
            let wish = self.share().join("kill");
            if let Some(served) = served.as_mut().filter(|_| wish.exists()) {
                served.kill()?;
                fs::remove_file(wish)?;
            }
        }
        served.map_or(Ok(()), Served::check)?;
        let code = fs::read_to_string(self.share().join("rc")).ok();
        code.and_then(|code| code.trim().parse().ok()).with_context(|| {
            format!("the guest ended without an exit code; see {}", self.folder.display())
        })
    }

    fn arguments(&self, qemu: &mut Command, image: &Image, scenario: &Scenario) {
        if scenario.volumes.is_empty() {
            qemu.args(["-machine", "q35"]);
        } else {
            // Guest memory that the server shares.
            qemu.args(["-object", "memory-backend-memfd,id=memory,size=2048M,share=on"]);
            qemu.args(["-machine", "q35,memory-backend=memory"]);
        }
        qemu.args(["-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max", "-smp", "2"]);
        qemu.args([
            "-m",
            "2048",
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
        ]);
        qemu.arg("-serial").arg(format!("file:{}", self.folder.join("serial.log").display()));
        qemu.arg("-kernel").arg(image.kernel()).arg("-initrd").arg(image.initrd());
        qemu.args(["-append", KERNEL]);
        // The kernel finds its root as the first disk.
        if !scenario.volumes.iter().any(|volume| volume.root) {
            let copy = "format=raw,if=none,id=root,snapshot=on,cache=unsafe,file.locking=off";
            qemu.arg("-drive").arg(format!("{copy},file={}", image.root().display()));
            qemu.args(["-device", "virtio-blk-pci,drive=root"]);
        }
        scenario.volumes.iter().for_each(|volume| self.add_volume(qemu, volume));
        let share = "local,id=host,security_model=none,multidevs=remap,path";
        qemu.arg("-fsdev").arg(format!("{share}={}", self.share().display()));
        qemu.args(["-device", "virtio-9p-pci,fsdev=host,mount_tag=host"]);
        for drive in &scenario.drives {
            self.add_drive(qemu, drive);
        }
    }

    /// Copies the root to the served volume.
    fn fill(&self, image: &Image, volume: &Volume) -> Result<()> {
        let path = nbd_socket(&self.folder);
        let target = format!("nbd+unix:///{}?socket={}", volume.name, path.display());
        let mut copy = image.program("qemu-img");
        copy.args(["convert", "-n", "-f", "raw", "-O", "raw"]).arg(image.root()).arg(target);
        output(&mut copy).map(drop)
    }

    fn add_volume(&self, qemu: &mut Command, volume: &Volume) {
        let Volume { name, vhost_user, nbd, .. } = volume;
        if *vhost_user {
            let path = socket(&self.folder, name);
            let socket = format!("socket,id=g-{name},reconnect-ms=50,path={}", path.display());
            qemu.args(["-chardev", &socket]);
            qemu.args(["-device", &format!("vhost-user-blk-pci,chardev=g-{name}")]);
        }
        if *nbd {
            let path = nbd_socket(&self.folder);
            let node = format!(
                "driver=nbd,node-name=n-{name},export={name},discard=unmap,reconnect-delay=60"
            );
            let node = format!("{node},server.type=unix,server.path={}", path.display());
            qemu.args(["-blockdev", &node]);
            qemu.args(["-device", &format!("virtio-blk-pci,drive=n-{name},serial={name}-nbd")]);
        }
    }

    fn add_drive(&self, qemu: &mut Command, drive: &Drive) {
        let Drive { name, namespace, subsystem, .. } = drive;
        let file = self.drive(name);
        let data =
            format!("driver=file,discard=unmap,cache.no-flush=on,filename={}", file.display());
        if drive.logged {
            let log = format!("driver=file,cache.no-flush=on,filename={}", self.log().display());
            qemu.args(["-blockdev", &format!("{data},node-name=data")]);
            qemu.args(["-blockdev", &format!("{log},node-name=log")]);
            let logged = "driver=blklogwrites,log-sector-size=512,discard=unmap,file=data,log=log";
            qemu.args(["-blockdev", &format!("{logged},node-name={name}")]);
        } else {
            qemu.args(["-blockdev", &format!("{data},node-name={name}")]);
        }
        qemu.args(["-device", &format!("nvme-subsys,id=s-{name}{subsystem}")]);
        qemu.args(["-device", &format!("nvme,id=c-{name},serial={name},subsys=s-{name}")]);
        qemu.args(["-device", &format!("nvme-ns,bus=c-{name},drive={name},nsid=1{namespace}")]);
    }

    /// Prints the lines that the scenario marked as results.
    ///
    /// # Errors
    /// When the guest wrote no output.
    pub fn print_results(&self) -> Result<()> {
        let log = fs::read(self.share().join("log")).context("no output of the guest")?;
        for line in String::from_utf8_lossy(&log).lines().filter(|line| line.starts_with("* ")) {
            println!("  {}", &line[2..]);
        }
        Ok(())
    }
}
