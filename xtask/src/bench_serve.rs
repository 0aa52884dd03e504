//! `cargo xtask bench serve`: `thermocline serve` point by point against what else serves block devices from userspace,
//! with one client in one run: over NBD against `nbdkit memory`, and as loop devices on files of FUSE against `nbdfuse`
//! in front of `nbdkit memory`.
//!
//! The pool is a file in memory, the whole engine behind it. Each point is measured on both servers in succession, so
//! that background load affects both alike. CPU time is user and system time of the servers' processes; kernel threads
//! of loop devices are not included.

mod files;
mod server;

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::repo::Repo;
use crate::step::cargo;
use server::{Folder, Server};

/// Seconds that a point takes on each server. Chosen, not measured.
const SECONDS: u32 = 4;

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

/// Over NBD.
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

/// On loop devices.
const DEVICE_POINTS: [Point; 6] = [
    point("4 KiB random writes", "randwrite", "4k", 1, 1),
    point("4 KiB random writes", "randwrite", "4k", 32, 1),
    point("4 KiB random reads", "randread", "4k", 1, 1),
    point("4 KiB random reads", "randread", "4k", 32, 1),
    point("1 MiB sequential writes", "write", "1m", 4, 1),
    point("1 MiB sequential reads", "read", "1m", 4, 1),
];

/// The result of a point on a server.
struct Figure {
    /// Requests per second.
    rate: f64,
    /// Microseconds of CPU time per request.
    cpu: f64,
}

/// Ours divided by theirs at one point.
pub struct Ratio {
    /// Front end, pattern, depth and connections.
    pub name: String,
    /// Of requests per second: above 1 is better.
    pub rate: f64,
    /// Of the server's CPU time per request: below 1 is better.
    pub cpu: f64,
}

/// Measures and prints the tables; the second says why not where it cannot be measured.
///
/// # Errors
/// When `fio` or `nbdkit` is missing, or anything fails.
pub fn run(repo: &Repo) -> Result<Vec<Ratio>> {
    for (program, package) in [("fio", "fio"), ("nbdkit", "nbdkit")] {
        ensure!(
            is_there(program),
            "`{program}` is missing (Debian and Ubuntu: apt-get install {package})"
        );
    }
    cargo(repo, "build", &["build", "--profile", "dist", "--quiet", "--bin", "thermocline"])?;
    let mut ratios = {
        let folder = Folder::new("nbd")?;
        let ours = Server::thermocline(repo, folder.path())?;
        let theirs = Server::nbdkit(folder.path())?;
        compare("over NBD", "nbdkit", [&ours, &theirs], &POINTS)?
    };
    if let Some(reason) = files::missing() {
        println!("\nSKIPPED: loop devices on files of FUSE: {reason}");
        return Ok(ratios);
    }
    let folder = Folder::new("files")?;
    let ours = files::thermocline(repo, folder.path())?;
    let theirs = files::nbdfuse(folder.path())?;
    let servers = [&ours.server, &theirs.server];
    ratios.extend(compare("FUSE and loop device", "nbdfuse", servers, &DEVICE_POINTS)?);
    Ok(ratios)
}

/// Whether a program can be started.
fn is_there(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Measures all points on ours and theirs, and prints a table.
fn compare(title: &str, name: &str, servers: [&Server; 2], points: &[Point]) -> Result<Vec<Ratio>> {
    for server in servers {
        measure(server, &point("fill", "write", "1m", 4, 1))?;
    }
    println!("\n{title:34}{:>24}{:>26}", "requests per second", "server CPU us per request");
    println!(
        "{:24}{:>5}{:>5}{:>10}{name:>8}{:>6}{:>12}{name:>8}{:>6}",
        "", "depth", "conn", "ours", "ratio", "ours", "ratio"
    );
    let mut ratios = Vec::new();
    for point in points {
        let (ours, theirs) = (measure(servers[0], point)?, measure(servers[1], point)?);
        println!(
            "{:24}{:>5}{:>5}{:>10.0}{:>8.0}{:>6.2}{:>12.2}{:>8.2}{:>6.2}",
            point.name,
            point.depth,
            point.connections,
            ours.rate,
            theirs.rate,
            ours.rate / theirs.rate,
            ours.cpu,
            theirs.cpu,
            ours.cpu / theirs.cpu,
        );
        ratios.push(Ratio {
            name: format!("{title}, {}, {} x {}", point.name, point.depth, point.connections),
            rate: ours.rate / theirs.rate,
            cpu: ours.cpu / theirs.cpu,
        });
    }
    Ok(ratios)
}

/// Runs fio at `point` against `server`.
fn measure(server: &Server, point: &Point) -> Result<Figure> {
    let before = server.cpu()?;
    let mut fio = Command::new("fio");
    fio.args(["--name=bench", "--group_reporting", "--minimal", "--time_based"]);
    fio.args(&server.target).arg(format!("--rw={}", point.pattern));
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
