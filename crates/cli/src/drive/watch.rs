//! `drive watch`.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use thermocline_drive::{Counter, DriveFigure, HealthReading, Wear};

use super::source::{self, decimal};
use crate::interrupt::Interrupt;

const ABOUT: &str = "\
A line has what hosts wrote and what the drive wrote to its media in the interval, per second, their ratio WAF, and used
endurance. `-`: the drive does not tell, or wrote nothing. Ctrl-C or the end of --count prints the whole time. Drives
count in steps, such as 512 kB of page 02h and 1 GB of page 09h: take intervals in which they write many. A file is read
again each time: a record that another machine renews. The lines of --json are a log for `thermocline drive calibrate`.

Examples:
  thermocline drive watch fdp.json --every 1s --count 2
  thermocline drive watch fdp.json --every 1s --count 2 --json >> drive-log.json";

/// Time between two looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);

/// Arguments of `drive watch`.
#[derive(Args)]
#[command(after_help = ABOUT)]
pub struct WatchArgs {
    /// A drive, such as /dev/nvme0, or a record that another program renews
    #[arg(value_name = "DRIVE|RECORD")]
    drive: PathBuf,
    /// Time between two readings
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = source::interval)]
    every: Duration,
    /// Lines to print [default: no end]
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
    /// Print an object of JSON per line
    #[arg(long)]
    json: bool,
}

/// A line: of an interval, or of the whole time.
#[derive(Serialize)]
struct WatchLine {
    schema: &'static str,
    seconds: f64,
    /// Counts of the drive at the end.
    host_bytes: Option<u64>,
    media_bytes: Option<u64>,
    erased_bytes: Option<u64>,
    host_bytes_per_second: Option<f64>,
    media_bytes_per_second: Option<f64>,
    waf: Option<f64>,
    /// Pages of the counts behind the ratio: of hosts, of the media.
    waf_pages: Option<[String; 2]>,
    used_percent: Option<u64>,
}

impl WatchLine {
    fn between(first: &HealthReading, last: &HealthReading, time: Duration) -> WatchLine {
        let seconds = time.as_secs_f64().max(1e-9);
        let finest = |figure| {
            let of_figure = last.counters.iter().filter(|one| one.figure == figure);
            of_figure.min_by_key(|one| one.step)
        };
        let rate = |last: Option<&Counter>| {
            let last = last?;
            let same = |one: &&Counter| (one.figure, &one.page) == (last.figure, &last.page);
            let before = first.counters.iter().find(same)?.value;
            Some(last.value.checked_sub(before)? as f64 / seconds)
        };
        let (host, media) = (finest(DriveFigure::HostWritten), finest(DriveFigure::MediaWritten));
        let waf = Wear::of(Some(first), last).waf;
        WatchLine {
            schema: "thermocline.drive-watch/1",
            seconds,
            host_bytes: host.map(|one| one.value),
            media_bytes: media.map(|one| one.value),
            erased_bytes: finest(DriveFigure::MediaErased).map(|one| one.value),
            host_bytes_per_second: rate(host),
            media_bytes_per_second: rate(media),
            waf: waf.as_ref().map(|waf| waf.value),
            waf_pages: waf.map(|waf| [waf.host, waf.media].map(|page| page.to_string())),
            used_percent: last.counter(DriveFigure::Used).map(|one| one.value),
        }
    }

    fn shown(&self, is_json: bool) -> anyhow::Result<String> {
        if is_json {
            return Ok(serde_json::to_string(self)?);
        }
        let rate =
            |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{}/s", decimal(rate)));
        let waf = self.waf.map_or("-".to_owned(), |waf| format!("{waf:.3}"));
        let used = self.used_percent.map_or("-".to_owned(), |used| format!("{used} %"));
        let (host, media) = (rate(self.host_bytes_per_second), rate(self.media_bytes_per_second));
        Ok(line([&format!("{:.0}", self.seconds), &host, &media, &waf, &used]))
    }
}

fn line([seconds, host, media, waf, used]: [&str; 5]) -> String {
    format!("{seconds:>8}{host:>14}{media:>14}{waf:>8}{used:>7}")
}

/// Prints a line for each interval.
///
/// # Errors
/// When the drive cannot be read.
pub fn watch(args: &WatchArgs) -> anyhow::Result<()> {
    let interrupt = Interrupt::watch()?;
    let first = source::reading(&args.drive)?;
    let began = Instant::now();
    let (mut before, mut read_at) = (first.clone(), began);
    interrupt.something_to_show();
    let mut out = std::io::stdout().lock();
    if !args.json {
        writeln!(out, "{}", line(["seconds", "host", "media", "WAF", "used"]))?;
    }
    let mut number = 0;
    while args.count.is_none_or(|count| number < count) && !interrupt.is_asked() {
        number += 1;
        let next = read_at + args.every;
        while Instant::now() < next && !interrupt.is_asked() {
            std::thread::sleep(LOOK.min(next.saturating_duration_since(Instant::now())));
        }
        let (last, now) = (source::reading(&args.drive)?, Instant::now());
        let told = WatchLine::between(&before, &last, now - read_at);
        writeln!(out, "{}", told.shown(args.json)?)?;
        (before, read_at) = (last, now);
    }
    let whole = WatchLine::between(&first, &before, read_at - began);
    if !args.json {
        writeln!(out, "in all\n{}", whole.shown(false)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_rates_and_the_ratio_of_its_interval() {
        let reading = |host: u64, media: u64| {
            let text = format!("{{\"hbmw\": {host}, \"mbmw\": {media}}}");
            HealthReading::recorded(text.as_bytes()).expect("counters")
        };
        let told = |first, last| WatchLine::between(&first, &last, Duration::from_secs(2));
        let line = told(reading(1_000_000, 1_000_000), reading(5_000_000, 7_000_000));
        assert_eq!(
            line.shown(false).expect("text"),
            "       2     2.00 MB/s     3.00 MB/s   1.500      -"
        );
        assert_eq!((line.host_bytes, line.media_bytes), (Some(5_000_000), Some(7_000_000)));
        let line = told(reading(5, 7), reading(5, 7));
        assert!(line.waf.is_none() && line.host_bytes_per_second.is_some());
        let fell = told(reading(5, 7), reading(1, 1));
        assert_eq!(fell.host_bytes_per_second, None);
    }
}
