//! Servers under way.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::repo::Repo;
use crate::step::cargo_command;

/// Bytes of the volume. Chosen small enough for a run to overwrite the volume several times.
const SIZE: &str = "512MiB";
/// The same, as nbdkit understands it.
const NBDKIT_SIZE: &str = "512M";
/// Length of a tick of `/proc/PID/stat` in seconds: `USER_HZ` of Linux.
const TICK: f64 = 0.01;

/// A folder in memory that goes when this is dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Result<Folder> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let path = parent.join(format!("thermocline-bench-{name}-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Folder(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in memory, and named after us.
        let _left = fs::remove_dir_all(&self.0);
    }
}

/// A server under way, of one process or several, ended when this is dropped.
pub struct Server {
    children: Vec<Child>,
    /// Arguments of fio that select the server.
    pub target: Vec<String>,
}

impl Server {
    /// A server without processes yet.
    pub fn not_yet(target: Vec<String>) -> Server {
        Server { children: Vec::new(), target }
    }

    /// A new pool in `folder`, served over NBD.
    pub fn thermocline(repo: &Repo, folder: &Path) -> Result<Server> {
        let serve = serve(repo, folder)?;
        let mut server = Server::not_yet(over_nbd("main", folder, "pool"));
        server.start(serve, &folder.join("pool.sock"))?;
        Ok(server)
    }

    /// Memory, served over NBD.
    pub fn nbdkit(folder: &Path) -> Result<Server> {
        let socket = folder.join("nbdkit.sock");
        let mut serve = Command::new("nbdkit");
        serve.arg("-f").arg("-U").arg(&socket).args(["memory", NBDKIT_SIZE]);
        let mut server = Server::not_yet(over_nbd("", folder, "nbdkit"));
        server.start(serve, &socket)?;
        Ok(server)
    }

    /// Adds a process and waits until the file `made` exists.
    pub fn start(&mut self, mut command: Command, made: &Path) -> Result<()> {
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        self.children.push(child);
        let began = Instant::now();
        while !made.exists() {
            let child = self.children.last_mut().context("one was just added")?;
            if let Some(status) = child.try_wait()? {
                bail!("{command:?} ended: {status}");
            }
            ensure!(began.elapsed() < Duration::from_secs(30), "{command:?} does not serve");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// CPU time so far, in seconds.
    pub fn cpu(&self) -> Result<f64> {
        self.children.iter().map(|child| cpu(child.id())).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended by itself.
            let _ended = child.kill();
            let _ended = child.wait();
        }
    }
}

/// Makes a pool in `folder`, and gives the command that serves it.
pub fn serve(repo: &Repo, folder: &Path) -> Result<Command> {
    let settings = format!(
        "[device]\npath = 'pool.img'\nsize = '2GiB'\n\n[[volumes]]\nname = 'main'\nsize = '{SIZE}'\n"
    );
    fs::write(folder.join("pool.toml"), settings)?;
    let program = target_folder(repo)?.join("dist/thermocline");
    let made = Command::new(&program).args(["format", "pool.toml"]).current_dir(folder).output()?;
    ensure!(made.status.success(), "no pool: {}", String::from_utf8_lossy(&made.stderr));
    let mut serve = Command::new(&program);
    serve.args(["serve", "pool.toml"]).current_dir(folder).stdout(Stdio::null());
    Ok(serve)
}

/// Arguments of fio for an export on the socket called `socket`.
fn over_nbd(export: &str, folder: &Path, socket: &str) -> Vec<String> {
    let socket = folder.join(socket).with_extension("sock");
    let uri = format!("--uri=nbd+unix:///{export}?socket={}", socket.display());
    vec!["--ioengine=nbd".to_owned(), uri]
}

/// CPU time that a process took so far, in seconds.
fn cpu(id: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
    // The name, which may hold anything, is in parentheses; user and system time are fields 14 and 15.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: Vec<u64> = fields.skip(11).take(2).map_while(|field| field.parse().ok()).collect();
    ensure!(ticks.len() == 2, "`/proc/PID/stat` is not what it was");
    Ok(ticks.iter().sum::<u64>() as f64 * TICK)
}

/// Cargo's target folder.
fn target_folder(repo: &Repo) -> Result<PathBuf> {
    let metadata = ["metadata", "--format-version=1", "--no-deps", "--offline"];
    let output = cargo_command(repo).args(metadata).output()?;
    let text = String::from_utf8(output.stdout)?;
    let (_, rest) = text.split_once("\"target_directory\":\"").context("cargo says no folder")?;
    Ok(rest.split('"').next().unwrap_or_default().into())
}
