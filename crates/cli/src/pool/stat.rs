//! `thermocline stat`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use thermocline_serve::{fetch, fetch_remote, status_socket};

use super::{CODES, print};

/// Arguments of `stat`.
#[derive(Args)]
#[command(after_help = format!("\
ALWA is device bytes over host bytes. A pool with fast devices has columns for each class of devices. On simulated drives, DLWA is what they wrote to their media over what was written
to them, and WAF is media bytes over host bytes: of one drive ALWA x DLWA, and more on a group, which adds parity. DLWA of real drives is by their log pages, read at most every 5 seconds; `-`: not told, and `status --json` has the reason. A line stands for its interval, and rates are per second; the
total is that of the last of these ratios since the service began. Requests are those of all front ends. The queue is the mean number of requests in the pool. 99 % of the reads
and of the writes took at most the milliseconds of the last columns. http://HOST:PORT in place of POOL.toml asks the server of another machine, which has --http.

Examples:
  thermocline stat pool.toml             one line: all since the service began
  thermocline stat pool.toml 1           a line per second, until Ctrl-C
  thermocline stat pool.toml 1 --json    an object per line, schema thermocline.stat/1

{CODES}"))]
pub struct StatArgs {
    /// Settings of the pool, the status socket of the server, or the address of its HTTP
    #[arg(value_name = "POOL.toml|SOCKET|URL")]
    pool: PathBuf,
    /// Seconds between lines; without, one line that covers all since the pool was opened
    #[arg(value_name = "SECONDS")]
    interval: Option<f64>,
    /// Lines to print [default: no end]
    #[arg(value_name = "COUNT", requires = "interval")]
    count: Option<u64>,
    /// Print an object of JSON per line
    #[arg(long)]
    json: bool,
}

/// The counters at one moment.
#[derive(Clone, Default)]
struct Sample {
    seconds: f64,
    reads: Operation,
    writes: Operation,
    flushes: Operation,
    /// Seconds that all requests took together.
    request_seconds: f64,
    host_bytes: u64,
    device_bytes: u64,
    relocated_bytes: u64,
    /// Of simulated drives, or of real drives with known media bytes.
    drive: Option<Drive>,
    /// The drives are real: their counters have writes of other users, too.
    is_real: bool,
    free_units: u64,
    units: u64,
    /// Device classes, if the pool has several.
    classes: Vec<Class>,
}

/// The counters of an operation at one moment.
#[derive(Clone, Default)]
struct Operation {
    requests: u64,
    bytes: u64,
    /// Upper bounds of the buckets of `counts` in microseconds; the last bucket has none.
    at_most_micros: Vec<u64>,
    counts: Vec<u64>,
}

/// The counters of a device class at one moment.
#[derive(Clone, Default)]
struct Class {
    name: String,
    written_bytes: u64,
    free_units: u64,
    units: u64,
}

/// Bytes through drives.
#[derive(Clone, Copy, Default)]
struct Drive {
    written_bytes: u64,
    media_bytes: u64,
}

/// A line: rates between two samples, and ratios. A ratio is `None` without writes, or if the bytes of the drive are
/// unknown.
#[derive(Serialize)]
struct Row {
    schema: &'static str,
    /// Of the interval.
    seconds: f64,
    reads_per_second: f64,
    writes_per_second: f64,
    flushes_per_second: f64,
    read_bytes_per_second: f64,
    written_bytes_per_second: f64,
    alwa: Option<f64>,
    dlwa: Option<f64>,
    waf: Option<f64>,
    /// WAF since the service began; ALWA if the bytes of the drive are unknown.
    total: Option<f64>,
    relocated_bytes_per_second: f64,
    free_units: u64,
    units: u64,
    /// Mean number of requests in the pool.
    queue_depth: f64,
    /// 99 % of the reads took at most this long; `None` without reads, or if beyond every bound.
    read_p99_micros: Option<u64>,
    write_p99_micros: Option<u64>,
    /// Whether the drives tell their bytes.
    #[serde(skip)]
    tells_drive: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    classes: Vec<ClassRow>,
}

/// Device bytes of a class over host bytes, in the interval and since the service began, and its units.
#[derive(Serialize)]
struct ClassRow {
    class: String,
    alwa: Option<f64>,
    total: Option<f64>,
    free_units: u64,
    units: u64,
}

/// `written` divided by `asked` bytes; `None` if `asked` is 0.
fn ratio(written: u64, asked: u64) -> Option<f64> {
    (asked > 0).then(|| written as f64 / asked as f64)
}

impl Operation {
    fn of(operations: &Value, name: &str) -> Operation {
        let found = operations.as_array().into_iter().flatten().find(|one| one["name"] == name);
        let found = found.unwrap_or(&Value::Null);
        let numbers = |value: &Value| value.as_array().into_iter().flatten().map(number).collect();
        Operation {
            requests: number(&found["requests"]),
            bytes: number(&found["bytes"]),
            at_most_micros: numbers(&found["latency"]["at_most_micros"]),
            counts: numbers(&found["latency"]["counts"]),
        }
    }

    /// Upper bound of the bucket in which the slowest of 99 % of the requests since `before` lies.
    fn p99_micros(&self, before: &Operation) -> Option<u64> {
        let earlier = before.counts.iter().copied().chain(std::iter::repeat(0));
        let since = self.counts.iter().zip(earlier).map(|(now, before)| now.saturating_sub(before));
        let since: Vec<u64> = since.collect();
        let wanted = (since.iter().sum::<u64>() as f64 * 0.99).ceil() as u64;
        let below = since.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        let bucket = below.into_iter().position(|below| below >= wanted && wanted > 0)?;
        self.at_most_micros.get(bucket).copied()
    }
}

impl Row {
    fn between(before: &Sample, now: &Sample) -> Row {
        let seconds = (now.seconds - before.seconds).max(1e-9);
        // A device change resets the engine's counters.
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        let host = now.host_bytes.saturating_sub(before.host_bytes);
        let earlier = before.drive.unwrap_or_default();
        let media = now.drive.map(|now| now.media_bytes.saturating_sub(earlier.media_bytes));
        let asked = now.drive.map(|now| now.written_bytes.saturating_sub(earlier.written_bytes));
        let class = |(number, one): (usize, &Class)| {
            let earlier = before.classes.get(number).map_or(0, |one| one.written_bytes);
            ClassRow {
                class: one.name.clone(),
                alwa: ratio(one.written_bytes.saturating_sub(earlier), host),
                total: ratio(one.written_bytes, now.host_bytes),
                free_units: one.free_units,
                units: one.units,
            }
        };
        let alwa = ratio(now.device_bytes.saturating_sub(before.device_bytes), host);
        let dlwa = media.zip(asked).and_then(|(media, asked)| ratio(media, asked));
        let of_all = now.drive.filter(|_| now.is_real);
        let of_all =
            of_all.map(|drive| ratio(drive.media_bytes, drive.written_bytes).unwrap_or(1.0));
        let total = match of_all {
            Some(dlwa) => ratio(now.device_bytes, now.host_bytes).map(|alwa| alwa * dlwa),
            None => {
                ratio(now.drive.map_or(now.device_bytes, |drive| drive.media_bytes), now.host_bytes)
            }
        };
        Row {
            schema: "thermocline.stat/1",
            seconds,
            reads_per_second: rate(before.reads.requests, now.reads.requests),
            writes_per_second: rate(before.writes.requests, now.writes.requests),
            flushes_per_second: rate(before.flushes.requests, now.flushes.requests),
            read_bytes_per_second: rate(before.reads.bytes, now.reads.bytes),
            written_bytes_per_second: rate(before.writes.bytes, now.writes.bytes),
            alwa,
            dlwa,
            waf: match now.is_real {
                true => alwa.zip(dlwa).map(|(alwa, dlwa)| alwa * dlwa),
                false => media.and_then(|media| ratio(media, host)),
            },
            total,
            relocated_bytes_per_second: rate(before.relocated_bytes, now.relocated_bytes),
            free_units: now.free_units,
            units: now.units,
            queue_depth: (now.request_seconds - before.request_seconds).max(0.0) / seconds,
            read_p99_micros: now.reads.p99_micros(&before.reads),
            write_p99_micros: now.writes.p99_micros(&before.writes),
            tells_drive: now.drive.is_some() || now.is_real,
            classes: now.classes.iter().enumerate().map(class).collect(),
        }
    }

    /// Heads of the columns with their widths, and the texts of this row. Only simulated drives have DLWA and WAF. With
    /// several device classes, each class has its own columns, because each class wears separately.
    fn columns(&self) -> Vec<(String, usize, String)> {
        let column = |head: &str, width: usize, text: String| (head.to_owned(), width, text);
        let ratio =
            |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let megabytes = |bytes: f64| format!("{:.1}", bytes / 1e6);
        let millis = |micros: Option<u64>| {
            micros.map_or("-".to_owned(), |micros| format!("{}", micros as f64 / 1e3))
        };
        let units = |free: u64, all: u64| format!("{free}/{all}");
        let mut columns = vec![
            column("reads/s", 10, format!("{:.0}", self.reads_per_second)),
            column("writes/s", 10, format!("{:.0}", self.writes_per_second)),
            column("flush/s", 9, format!("{:.0}", self.flushes_per_second)),
            column("read MB/s", 12, megabytes(self.read_bytes_per_second)),
            column("write MB/s", 11, megabytes(self.written_bytes_per_second)),
        ];
        for one in &self.classes {
            columns.push((format!("ALWA {}", one.class), 14, ratio(one.alwa)));
            columns.push(column("total", 6, ratio(one.total)));
        }
        if self.classes.is_empty() {
            columns.push(column("ALWA", 7, ratio(self.alwa)));
            if self.tells_drive {
                columns.push(column("DLWA", 7, ratio(self.dlwa)));
                columns.push(column("WAF", 7, ratio(self.waf)));
            }
            columns.push(column("total", 7, ratio(self.total)));
        }
        columns.push(column("moved MB/s", 12, megabytes(self.relocated_bytes_per_second)));
        for one in &self.classes {
            let head = format!("free {}", one.class);
            columns.push((head, 15, units(one.free_units, one.units)));
        }
        if self.classes.is_empty() {
            columns.push(column("free units", 12, units(self.free_units, self.units)));
        }
        columns.push(column("queue", 7, format!("{:.1}", self.queue_depth)));
        columns.push(column("r99 ms", 8, millis(self.read_p99_micros)));
        columns.push(column("w99 ms", 8, millis(self.write_p99_micros)));
        columns
    }

    /// The line below [`Row::head`].
    fn line(&self) -> String {
        let columns = self.columns().into_iter();
        columns.map(|(_, width, text)| format!("{text:>width$}")).collect::<String>() + "\n"
    }

    fn head(&self) -> String {
        let columns = self.columns().into_iter();
        columns.map(|(head, width, _)| format!("{head:>width$}")).collect::<String>() + "\n"
    }
}

/// `thermocline stat`.
pub fn stat(args: &StatArgs) -> anyhow::Result<ExitCode> {
    if let Some(interval) = args.interval {
        let fits = (0.01..=86_400.0).contains(&interval);
        ensure!(fits, "SECONDS is {interval}, must be 0.01 to 86400");
    }
    let told = |row: &Row, first: bool| {
        if args.json {
            return print(&(serde_json::to_string(row)? + "\n"));
        }
        let head = if first { row.head() } else { String::new() };
        print(&(head + &row.line()))
    };
    let mut before = sample(&args.pool)?;
    let Some(interval) = args.interval else {
        return told(&Row::between(&Sample::default(), &before), true);
    };
    let mut next = Instant::now();
    for number in 0..args.count.unwrap_or(u64::MAX) {
        next += Duration::from_secs_f64(interval);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let now = sample(&args.pool)?;
        told(&Row::between(&before, &now), number == 0)?;
        before = now;
    }
    Ok(ExitCode::SUCCESS)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// The counters of the server of a pool, by its settings, its status socket or its URL.
fn sample(pool: &Path) -> anyhow::Result<Sample> {
    let status = match pool.to_str().filter(|url| url.starts_with("http://")) {
        Some(url) => fetch_remote(url)?,
        None if pool.extension().is_some_and(|extension| extension == "toml") => {
            fetch(&status_socket(pool))?
        }
        None => fetch(pool)?,
    };
    let schema = status["schema"].as_str().unwrap_or_default();
    ensure!(schema == "thermocline.serve/1", "{} answers with `{schema}`", pool.display());
    let (engine, operations) = (&status["engine"], &status["requests"]["operations"]);
    let (drive, real) = (&status["drive"], &status["real_drives"]);
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
    let all = operations.as_array().into_iter().flatten();
    Ok(Sample {
        seconds: status["seconds"].as_f64().unwrap_or(0.0),
        reads: Operation::of(operations, "read"),
        writes: Operation::of(operations, "write"),
        flushes: Operation::of(operations, "flush"),
        request_seconds: all.filter_map(|one| one["latency"]["seconds"].as_f64()).sum(),
        host_bytes: number(&engine["host_bytes_written"]),
        device_bytes: number(&engine["device_bytes_written"]),
        relocated_bytes: number(&engine["by_cause"]["relocation"]),
        drive: match drive.is_object() {
            true => Some(Drive {
                written_bytes: number(&drive["drive_bytes_written"]),
                media_bytes: number(&drive["media_bytes_written"]),
            }),
            false => real["media_bytes_written"].as_u64().map(|media_bytes| Drive {
                written_bytes: number(&real["host_bytes_written"]),
                media_bytes,
            }),
        },
        is_real: real.is_object(),
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
            reads: Operation { requests: 20_000, ..Operation::default() },
            writes: Operation {
                requests: 4,
                bytes: 8_000_000,
                at_most_micros: vec![20, 50],
                counts: vec![1, 3, 0],
            },
            request_seconds: 5.0,
            host_bytes: 2000,
            device_bytes: 3000,
            free_units: 7,
            units: 64,
            ..before.clone()
        };
        let row = Row::between(&before, &now);
        let line = row.line();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[..5], ["10000", "2", "0", "0.0", "4.0"]);
        assert_eq!(words[5..], ["2.00", "1.50", "0.0", "7/64", "2.5", "-", "0.05"]);
        assert_eq!(line.len(), row.head().len());
        let slow = Operation { counts: vec![1, 3, 100], ..now.writes.clone() };
        assert_eq!(slow.p99_micros(&now.writes), None, "beyond every bound");
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
        let row = Row::between(&before, &now);
        let (text, head) = (row.line(), row.head());
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(
            words[5..],
            ["1.01", "1.01", "0.37", "0.38", "0.0", "10/64", "55/64", "0.0", "-", "-"]
        );
        assert_eq!(text.len(), head.len());
        for name in ["ALWA fast", "ALWA capacity", "free fast", "free capacity"] {
            assert!(head.contains(name), "{head}");
        }
    }

    #[test]
    fn a_real_drive_has_a_ratio_of_its_own_and_other_users_do_not_count() {
        let drive = Some(Drive { written_bytes: 9000, media_bytes: 18_000 });
        let now = Sample {
            host_bytes: 1000,
            device_bytes: 1500,
            drive,
            is_real: true,
            ..Sample::default()
        };
        let words = |now: &Sample| {
            let text = Row::between(&Sample::default(), now).line();
            text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(words(&now)[5..9], ["1.50", "2.00", "3.00", "3.00"]);
        let untold = Sample { drive: None, ..now };
        assert_eq!(words(&untold)[5..9], ["1.50", "-", "-", "1.50"]);
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
        let text = Row::between(&before, &now).line();
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words[5..9], ["2.00", "3.00", "6.00", "3.50"]);
        assert_eq!(text.len(), Row::between(&before, &now).head().len());
        let idle = Row::between(&now, &now).line();
        let words: Vec<&str> = idle.split_whitespace().collect();
        assert_eq!(words[5..9], ["-", "-", "-", "3.50"]);
    }
}
