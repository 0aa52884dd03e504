//! A pool that this machine serves to the guest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::output;
use super::scenario::Volume;

/// A child process, killed on drop.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// A pool with its server.
pub struct Served {
    folder: PathBuf,
    program: PathBuf,
    server: Process,
    /// Sockets of the volumes.
    sockets: Vec<PathBuf>,
}

impl Served {
    /// Makes a pool of `volumes` in `folder` and serves it with `program`. Writes complete on the device: a
    /// killed server loses no write.
    ///
    /// # Errors
    /// When the pool cannot be made, or is not served within a minute.
    pub fn start(folder: &Path, program: &Path, volumes: &[Volume]) -> Result<Served> {
        let mib: u64 = volumes.iter().map(|volume| volume.mib).sum();
        let mut settings = format!(
            "[device]\npath = \"pool.img\"\nsize = \"{}MiB\"\nendurance = \"1TB\"\n[pool]\nwrite_cache = false\n\
             [serve]\nvhost_user = \"guests\"\n",
            2 * mib + 256
        );
        for Volume { name, mib, .. } in volumes {
            settings += &format!("[[volumes]]\nname = \"{name}\"\nsize = \"{mib}MiB\"\n");
        }
        fs::write(folder.join("pool.toml"), settings)?;
        output(Command::new(program).args(["format", "pool.toml"]).current_dir(folder))?;
        let sockets = volumes.iter().map(|volume| socket(folder, &volume.name));
        let sockets = sockets.chain([nbd_socket(folder)]).collect();
        let (folder, program) = (folder.to_owned(), program.to_owned());
        let server = spawn(&folder, &program)?;
        let mut served = Served { folder, program, server, sockets };
        served.wait()?;
        Ok(served)
    }

    /// Waits until the sockets are there.
    fn wait(&mut self) -> Result<()> {
        let begin = Instant::now();
        while !self.sockets.iter().all(|socket| socket.exists()) {
            ensure!(self.server.0.try_wait()?.is_none(), "the server ended; see serve.log");
            ensure!(begin.elapsed() < Duration::from_secs(60), "the server does not serve");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Kills the server with SIGKILL and starts it again.
    ///
    /// # Errors
    /// When it does not serve within a minute.
    pub fn kill(&mut self) -> Result<()> {
        self.server.0.kill()?;
        self.server.0.wait()?;
        self.sockets.iter().try_for_each(fs::remove_file)?;
        self.server = spawn(&self.folder, &self.program)?;
        self.wait()
    }

    /// Stops the server in order and checks the pool.
    ///
    /// # Errors
    /// When either fails.
    pub fn check(self) -> Result<()> {
        let run = |command| {
            let mut program = Command::new(&self.program);
            output(program.args([command, "pool.toml"]).current_dir(&self.folder))
        };
        run("stop")?;
        let checked = run("check")?;
        println!("  check: {}", checked.lines().last().unwrap_or_default());
        run("scrub").map(drop)
    }
}

fn spawn(folder: &Path, program: &Path) -> Result<Process> {
    let log = fs::File::options().append(true).create(true).open(folder.join("serve.log"))?;
    let mut serve = Command::new(program);
    serve.args(["serve", "pool.toml"]).current_dir(folder).stdin(Stdio::null());
    serve.stdout(log.try_clone()?).stderr(log);
    Ok(Process(serve.spawn().context("the server cannot be started")?))
}

/// The vhost-user socket of a volume.
pub fn socket(folder: &Path, volume: &str) -> PathBuf {
    folder.join(format!("guests/{volume}.sock"))
}

/// The NBD socket.
pub fn nbd_socket(folder: &Path) -> PathBuf {
    folder.join("pool.sock")
}
