//! `cargo xtask bench serve`: `thermocline serve` against `nbdkit memory`, point by point, with one client in one run.
//!
//! The pool is a file in memory, the whole engine behind it. Every point is measured on one server right after the
//! other, so that what else the machine does hits both. CPU time is that of the server's process, user and system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::repo::Repo;
use crate::step::{cargo, cargo_command};

/// Seconds that a point takes on each server. Chosen, not measured.
const SECONDS: u32 = 4;
/// Bytes of the volume. Chosen so that a run overwrites it several times.
const SIZE: &str = "512MiB";
/// Length of a tick of `/proc/PID/stat` in seconds: `USER_HZ` of Linux.
const TICK: f64 = 0.01;

/// What is measured.
struct Point {
    name: &'static str,
    pattern: &'static str,
    block: &'static str,
    depth: u32,
    connections: u32,
}

const fn point(
    name: &'static str,
    pattern: &'static str,
    block: &'static str,
    depth: u32,
    connections: u32,
) -> Point {
    Point { name, pattern, block, depth, connections }
}

const POINTS: [Point; 10] = [
    point("4 KiB random writes", "randwrite", "4k", 1, 1),
    point("4 KiB random writes", "randwrite", "4k", 32, 1),
    point("4 KiB random writes", "randwrite", "4k", 1, 2),
    point("4 KiB random writes", "randwrite", "4k", 32, 2),
    point("4 KiB random reads", "randread", "4k", 1, 1),
    point("4 KiB random reads", "randread", "4k", 32, 1),
    point("4 KiB random reads", "randread", "4k", 1, 2),
    point("4 KiB random reads", "randread", "4k", 32, 2),
    point("1 MiB sequential writes", "write", "1m", 4, 1),
    point("1 MiB sequential reads", "read", "1m", 4, 1),
];

/// What a point gave on one server.
struct Figure {
    /// Requests per second.
    rate: f64,
    /// Microseconds of CPU time per request.
    cpu: f64,
}

/// Measures and prints a table.
///
/// # Errors
/// When `fio` or `nbdkit` is missing, or anything fails.
pub fn run(repo: &Repo) -> Result<()> {
    for (program, package) in [("fio", "fio"), ("nbdkit", "nbdkit")] {
        let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
        ensure!(
            found.is_ok(),
            "`{program}` is missing (Debian and Ubuntu: apt-get install {package})"
        );
    }
    cargo(repo, "build", &["build", "--release", "--quiet", "-p", "thermocline"])?;
    let folder = Folder::new()?;
    let ours = Server::thermocline(repo, &folder.0)?;
    let theirs = Server::nbdkit(&folder.0)?;
    for server in [&ours, &theirs] {
        measure(server, &point("fill", "write", "1m", 4, 1))?;
    }
    println!("\n{:34}{:>24}{:>26}", "", "requests per second", "server CPU us per request");
    println!(
        "{:24}{:>5}{:>5}{:>10}{:>8}{:>6}{:>12}{:>8}{:>6}",
        "", "depth", "conn", "ours", "nbdkit", "ratio", "ours", "nbdkit", "ratio"
    );
    for point in &POINTS {
        let (mine, other) = (measure(&ours, point)?, measure(&theirs, point)?);
        println!(
            "{:24}{:>5}{:>5}{:>10.0}{:>8.0}{:>6.2}{:>12.2}{:>8.2}{:>6.2}",
            point.name,
            point.depth,
            point.connections,
            mine.rate,
            other.rate,
            mine.rate / other.rate,
            mine.cpu,
            other.cpu,
            mine.cpu / other.cpu,
        );
    }
    Ok(())
}

/// A folder in memory that goes when this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let path = parent.join(format!("thermocline-bench-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in memory, and named after us.
        let _left = fs::remove_dir_all(&self.0);
    }
}

/// A server under way, ended when this is dropped.
struct Server {
    child: Child,
    uri: String,
}

impl Server {
    fn thermocline(repo: &Repo, folder: &Path) -> Result<Server> {
        let settings = format!(
            "[device]\npath = 'pool.img'\nsize = '2GiB'\n\n[[volumes]]\nname = 'main'\nsize = '{SIZE}'\n"
        );
        fs::write(folder.join("pool.toml"), settings)?;
        let program = target_folder(repo)?.join("release/thermocline");
        let made =
            Command::new(&program).args(["format", "pool.toml"]).current_dir(folder).output()?;
        ensure!(made.status.success(), "no pool: {}", String::from_utf8_lossy(&made.stderr));
        let mut serve = Command::new(&program);
        serve.args(["serve", "pool.toml"]).current_dir(folder).stdout(Stdio::null());
        Server::start(serve, "main", &folder.join("pool.sock"))
    }

    fn nbdkit(folder: &Path) -> Result<Server> {
        let socket = folder.join("nbdkit.sock");
        let mut serve = Command::new("nbdkit");
        serve.arg("-f").arg("-U").arg(&socket).args(["memory", "512M"]);
        Server::start(serve, "", &socket)
    }

    fn start(mut command: Command, export: &str, socket: &Path) -> Result<Server> {
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let uri = format!("nbd+unix:///{export}?socket={}", socket.display());
        let mut server = Server { child, uri };
        let began = Instant::now();
        while !socket.exists() {
            if let Some(status) = server.child.try_wait()? {
                bail!("{command:?} ended: {status}");
            }
            ensure!(began.elapsed() < Duration::from_secs(30), "{command:?} does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// CPU time so far, in seconds.
    fn cpu(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name, which may hold anything, is in parentheses; user and system time are fields 14 and 15.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        let ticks: Vec<u64> =
            fields.skip(11).take(2).map_while(|field| field.parse().ok()).collect();
        ensure!(ticks.len() == 2, "`/proc/PID/stat` is not what it was");
        Ok(ticks.iter().sum::<u64>() as f64 * TICK)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// Where Cargo puts what it builds.
fn target_folder(repo: &Repo) -> Result<PathBuf> {
    let metadata = ["metadata", "--format-version=1", "--no-deps", "--offline"];
    let output = cargo_command(repo).args(metadata).output()?;
    let text = String::from_utf8(output.stdout)?;
    let (_, rest) = text.split_once("\"target_directory\":\"").context("cargo says no folder")?;
    Ok(rest.split('"').next().unwrap_or_default().into())
}

/// Runs fio at one point on one server.
fn measure(server: &Server, point: &Point) -> Result<Figure> {
    let before = server.cpu()?;
    let mut fio = Command::new("fio");
    fio.args(["--name=bench", "--ioengine=nbd", "--group_reporting", "--minimal", "--time_based"]);
    fio.arg(format!("--uri={}", server.uri)).arg(format!("--rw={}", point.pattern));
    fio.arg(format!("--bs={}", point.block)).arg(format!("--iodepth={}", point.depth));
    fio.arg(format!("--numjobs={}", point.connections)).arg(format!("--runtime={SECONDS}"));
    let output = fio.output().context("fio cannot be started")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "fio failed: {}", String::from_utf8_lossy(&output.stderr));
    let cpu = server.cpu()? - before;
    let line =
        text.lines().find(|line| line.contains(";bench;")).context("fio printed no figures")?;
    let rate = rate(line).context("fio printed figures that cannot be read")?;
    ensure!(rate > 0.0, "fio did nothing");
    Ok(Figure { rate, cpu: cpu * 1e6 / (rate * f64::from(SECONDS)) })
}

/// Requests per second in a line of `fio --minimal`, version 3: of reads in field 8, of writes in field 49.
fn rate(line: &str) -> Option<f64> {
    let fields: Vec<&str> = line.split(';').collect();
    let number = |field: usize| fields.get(field - 1)?.parse::<f64>().ok();
    Some(number(8)? + number(49)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_are_added() {
        let mut fields = vec!["0"; 60];
        fields[7] = "1000";
        fields[48] = "234";
        assert_eq!(rate(&fields.join(";")).map(|rate| rate as u64), Some(1234));
        assert_eq!(rate("3;fio;bench"), None);
    }
}
