//! `thermocline stat`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use serde_json::Value;
use thermocline_serve::{fetch, status_socket};

use super::{CODES, print};

/// Arguments of `stat`.
#[derive(Args)]
#[command(after_help = format!("\
ALWA is device bytes over host bytes. A pool with fast devices has columns for each class of devices. On simulated drives, DLWA is what they wrote to their media over what was written
to them, and WAF is media bytes over host bytes: of one drive ALWA x DLWA, and more on a group, which adds parity. A line stands for its interval, and rates are per second; the
total is that of the last of these ratios since the service began. Requests are those of all front ends.

Examples:
  thermocline stat pool.toml             one line: all since the service began
  thermocline stat pool.toml 1           a line per second, until Ctrl-C

{CODES}"))]
pub struct StatArgs {
    /// Settings of the pool, or the status socket of the server
    #[arg(value_name = "POOL.toml|SOCKET")]
    pool: PathBuf,
    /// Seconds between lines; without, one line that covers all since the pool was opened
    #[arg(value_name = "SECONDS")]
    interval: Option<f64>,
    /// Lines to print [default: no end]
    #[arg(value_name = "COUNT", requires = "interval")]
    count: Option<u64>,
}

/// The counters at one moment.
#[derive(Clone, Default)]
struct Sample {
    seconds: f64,
    reads: u64,
    writes: u64,
    read_bytes: u64,
    written_bytes: u64,
    flushes: u64,
    host_bytes: u64,
    device_bytes: u64,
    relocated_bytes: u64,
    /// Of simulated drives.
    drive: Option<Drive>,
    free_units: u64,
    units: u64,
    /// Device classes, if the pool has several.
    classes: Vec<Class>,
}

/// The counters of a device class at one moment.
#[derive(Clone, Default)]
struct Class {
    name: String,
    written_bytes: u64,
    free_units: u64,
    units: u64,
}

/// Bytes through simulated drives.
#[derive(Clone, Copy)]
struct Drive {
    written_bytes: u64,
    media_bytes: u64,
}

/// Write amplification between two samples; `None` without writes, or if the drive's bytes are unknown.
struct Amplification {
    alwa: Option<f64>,
    dlwa: Option<f64>,
    waf: Option<f64>,
}

/// `written` divided by `asked` bytes; `None` if `asked` is 0.
fn ratio(written: u64, asked: u64) -> Option<f64> {
    (asked > 0).then(|| written as f64 / asked as f64)
}

impl Amplification {
    fn between(before: &Sample, now: &Sample) -> Amplification {
        let (host, device) = (
            now.host_bytes.saturating_sub(before.host_bytes),
            now.device_bytes.saturating_sub(before.device_bytes),
        );
        let inside = now.drive.map(|now| {
            let before = before.drive.unwrap_or(Drive { written_bytes: 0, media_bytes: 0 });
            let media = now.media_bytes.saturating_sub(before.media_bytes);
            (
                ratio(media, now.written_bytes.saturating_sub(before.written_bytes)),
                ratio(media, host),
            )
        });
        let (dlwa, waf) = inside.unwrap_or_default();
        Amplification { alwa: ratio(device, host), dlwa, waf }
    }
}

/// `thermocline stat`.
pub fn stat(args: &StatArgs) -> anyhow::Result<ExitCode> {
    let socket = match args.pool.extension() {
        Some(extension) if extension == "toml" => status_socket(&args.pool),
        _ => args.pool.clone(),
    };
    if let Some(interval) = args.interval {
        let fits = (0.01..=86_400.0).contains(&interval);
        ensure!(fits, "SECONDS is {interval}, must be 0.01 to 86400");
    }
    let mut before = sample(&socket)?;
    print(&head(&before))?;
    let Some(interval) = args.interval else {
        return print(&line(&Sample::default(), &before));
    };
    let mut next = Instant::now();
    for _ in 0..args.count.unwrap_or(u64::MAX) {
        next += Duration::from_secs_f64(interval);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let now = sample(&socket)?;
        print(&line(&before, &now))?;
        before = now;
    }
    Ok(ExitCode::SUCCESS)
}

/// Names of the columns. Only simulated drives have DLWA and WAF. With several device classes, each class has its own
/// columns, because each class wears separately.
fn head(of: &Sample) -> String {
    let ratios = match (of.classes.as_slice(), of.drive) {
        ([], None) => "   ALWA  total".to_owned(),
        ([], Some(_)) => "   ALWA   DLWA    WAF  total".to_owned(),
        (classes, _) => {
            classes.iter().map(|one| format!("{:>14} total", one.alwa_name())).collect()
        }
    };
    let free = match of.classes.as_slice() {
        [] => "  free units".to_owned(),
        classes => {
            classes.iter().map(|one| format!("{:>15}", format!("free {}", one.name))).collect()
        }
    };
    format!("   reads/s  writes/s  flush/s   read MB/s write MB/s{ratios}  moved MB/s{free}\n")
}

impl Class {
    fn alwa_name(&self) -> String {
        format!("ALWA {}", self.name)
    }
}

fn line(before: &Sample, now: &Sample) -> String {
    let seconds = (now.seconds - before.seconds).max(1e-9);
    // A device change resets the engine's counters.
    let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
    let megabytes = |before, now| rate(before, now) / 1e6;
    let column = |ratio: Option<f64>| {
        let text = ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        format!("{text:>7}")
    };
    let within = Amplification::between(before, now);
    let since_opened = Amplification::between(&Sample::default(), now);
    let by_class = |(class, now_of): (usize, &Class)| {
        let earlier = before.classes.get(class).map_or(0, |one| one.written_bytes);
        let host = now.host_bytes.saturating_sub(before.host_bytes);
        let within = column(ratio(now_of.written_bytes.saturating_sub(earlier), host));
        format!("{within:>14}{:>6}", column(ratio(now_of.written_bytes, now.host_bytes)).trim())
    };
    let ratios = match now.drive {
        _ if !now.classes.is_empty() => now.classes.iter().enumerate().map(by_class).collect(),
        None => column(within.alwa) + &column(since_opened.alwa),
        Some(_) => [within.alwa, within.dlwa, within.waf, since_opened.waf].map(column).concat(),
    };
    let share = |free: u64, all: u64| format!("{free}/{all}");
    let free = match now.classes.as_slice() {
        [] => format!("{:>12}", share(now.free_units, now.units)),
        classes => {
            classes.iter().map(|one| format!("{:>15}", share(one.free_units, one.units))).collect()
        }
    };
    format!(
        "{:>10.0}{:>10.0}{:>9.0}{:>12.1}{:>11.1}{ratios}{:>12.1}{free}\n",
        rate(before.reads, now.reads),
        rate(before.writes, now.writes),
        rate(before.flushes, now.flushes),
        megabytes(before.read_bytes, now.read_bytes),
        megabytes(before.written_bytes, now.written_bytes),
        megabytes(before.relocated_bytes, now.relocated_bytes),
    )
}

fn sample(socket: &Path) -> anyhow::Result<Sample> {
    let status = fetch(socket)?;
    let schema = status["schema"].as_str().unwrap_or_default();
    ensure!(schema == "thermocline.serve/1", "{} tells `{schema}`", socket.display());
    let (engine, operations) = (&status["engine"], &status["requests"]["operations"]);
    let drive = &status["drive"];
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let operation = |name: &str, field: &str| {
        let found = operations.as_array().into_iter().flatten().find(|one| one["name"] == name);
        found.map_or(0, |one| number(&one[field]))
    };
    let class = |one: &Value| Class {
        name: one["class"].as_str().unwrap_or_default().to_owned(),
        written_bytes: ["host", "destage", "relocation", "metadata"]
            .map(|cause| number(&one[format!("{cause}_bytes")]))
            .iter()
            .sum(),
        free_units: number(&one["free_units"]),
        units: number(&one["units"]),
    };
    let classes: Vec<Class> =
        engine["media"].as_array().into_iter().flatten().map(class).rev().collect();
    Ok(Sample {
        seconds: status["seconds"].as_f64().unwrap_or(0.0),
        reads: operation("read", "requests"),
        writes: operation("write", "requests"),
        read_bytes: operation("read", "bytes"),
        written_bytes: operation("write", "bytes"),
        flushes: operation("flush", "requests"),
        host_bytes: number(&engine["host_bytes_written"]),
        device_bytes: number(&engine["device_bytes_written"]),
        relocated_bytes: number(&engine["by_cause"]["relocation"]),
        drive: drive.is_object().then(|| Drive {
            written_bytes: number(&drive["drive_bytes_written"]),
            media_bytes: number(&drive["media_bytes_written"]),
        }),
        free_units: number(&engine["free_units"]),
        units: number(&engine["units"]),
        classes: if classes.len() > 1 { classes } else { Vec::new() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_of_its_interval() {
        let before =
            Sample { seconds: 1.0, host_bytes: 1000, device_bytes: 1000, ..Sample::default() };
        let now = Sample {
            seconds: 3.0,
            reads: 20_000,
            writes: 4,
            written_bytes: 8_000_000,
            host_bytes: 2000,
            device_bytes: 3000,
            free_units: 7,
            units: 64,
            ..before.clone()
        };
        let line = line(&before, &now);
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words, ["10000", "2", "0", "0.0", "4.0", "2.00", "1.50", "0.0", "7/64"]);
        assert_eq!(line.len(), head(&now).len());
    }

    #[test]
    fn each_class_of_devices_has_its_own_columns() {
        let class = |name: &str, written_bytes, free_units| Class {
            name: name.to_owned(),
            written_bytes,
            free_units,
            units: 64,
        };
        let before = Sample {
            host_bytes: 1000,
            device_bytes: 1400,
            classes: vec![class("fast", 1000, 20), class("capacity", 400, 60)],
            ..Sample::default()
        };
        let now = Sample {
            host_bytes: 3000,
            device_bytes: 4400,
            classes: vec![class("fast", 3020, 10), class("capacity", 1140, 55)],
            ..before.clone()
        };
        let (text, head) = (line(&before, &now), head(&now));
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words[5..], ["1.01", "1.01", "0.37", "0.38", "0.0", "10/64", "55/64"]);
        assert_eq!(text.len(), head.len());
        for name in ["ALWA fast", "ALWA capacity", "free fast", "free capacity"] {
            assert!(head.contains(name), "{head}");
        }
    }

    #[test]
    fn a_simulated_drive_adds_what_it_does_inside() {
        let drive = |written_bytes, media_bytes| Some(Drive { written_bytes, media_bytes });
        let before = Sample {
            host_bytes: 1000,
            device_bytes: 1000,
            drive: drive(1000, 1000),
            ..Sample::default()
        };
        let now = Sample {
            host_bytes: 2000,
            device_bytes: 3000,
            drive: drive(3000, 7000),
            ..Sample::default()
        };
        let text = line(&before, &now);
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words[5..9], ["2.00", "3.00", "6.00", "3.50"]);
        assert_eq!(text.len(), head(&now).len());
        let idle = line(&now, &now);
        let words: Vec<&str> = idle.split_whitespace().collect();
        assert_eq!(words[5..9], ["-", "-", "-", "3.50"]);
    }
}
