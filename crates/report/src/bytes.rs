//! Every byte by its cause: the bar and the exact table.

use std::collections::BTreeMap;

use thermocline_record::waterfall::{LevelKind, Waterfall};
use thermocline_record::{DriveBytes, RunRecord};

use crate::data::Run;
use crate::figure::{absent, figure, wide};
use crate::palette::CAUSES;
use crate::svg::{Part, Row, causes, rows};
use crate::text::{count, data, escape, ratio, significant, words};

/// The section on bytes by cause.
pub(crate) fn section(runs: &[Run<'_>]) -> String {
    let written = || runs.iter().filter(|run| run.record.host_bytes_written > 0);
    let bars = if written().next().is_none() {
        wide(&absent("Where the writes come from", "The host wrote nothing."))
    } else if runs.len() > 1 {
        wide(&stacked(runs)) + &written().map(waterfall).collect::<String>()
    } else {
        written().map(|run| wide(&waterfall(run))).collect()
    };
    let tables: String = runs.iter().map(table).collect();
    format!(
        "<section id=\"causes\"><h2>Bytes by cause</h2><div class=\"figures\">{bars}</div>\
         <details><summary>Exact bytes</summary><div class=\"tables\">{tables}</div></details></section>"
    )
}

/// A bar for each run, and for each class of devices under a layer.
fn stacked(runs: &[Run<'_>]) -> String {
    let mut all = Vec::new();
    for run in runs.iter().filter(|run| run.record.host_bytes_written > 0) {
        let record = run.record;
        let tiers = record.engine_bytes_written.iter();
        let tiers = tiers.map(|(tier, causes)| (format!("{}, {tier}", run.label), causes));
        let media = match record.engine_bytes_written.is_empty() {
            true => run.label.clone(),
            false => format!("{}, media", run.label),
        };
        for (name, causes) in tiers.chain([(media, &record.media_bytes_written.by_cause)]) {
            let mut end = 0.0;
            let part = |(cause, bytes): (&String, &u64)| {
                let from = end;
                end += *bytes as f64 / record.host_bytes_written as f64;
                Part { cause: cause.clone(), range: (from, end) }
            };
            let some = ordered(causes).into_iter().filter(|(_, bytes)| **bytes > 0);
            let parts: Vec<Part> = some.map(part).collect();
            all.push(Row { name, parts, figure: significant(end) });
        }
    }
    let title = "Where the writes come from";
    let caption = "Bytes written for each cause, per host byte. The parts of a device bar add up to its WAF over the \
        whole measured run; each part is what its cause adds.";
    figure(title, &(causes(&all) + &rows(title, "bytes per host byte", &all)), caption)
}

/// From the bytes of the host to those of the media, step by step.
fn waterfall(run: &Run<'_>) -> String {
    let record = run.record;
    let host = record.host_bytes_written as f64;
    let of = |bytes: u64| bytes as f64 / host;
    let step = |name: String, cause: &str, range: (f64, f64), figure: String| Row {
        name,
        parts: vec![Part { cause: cause.to_owned(), range }],
        figure,
    };
    let waterfall = Waterfall::of(record);
    let mut all =
        vec![step("written by the host".to_owned(), "host", (0.0, 1.0), significant(1.0))];
    if waterfall.absorbed > 0 {
        let rest = of(waterfall.host.saturating_sub(waterfall.absorbed));
        let figure = format!("\u{2212}{}", significant(of(waterfall.absorbed)));
        all.push(step("absorbed in memory".to_owned(), "padding", (rest, 1.0), figure));
    }
    for level in &waterfall.levels {
        let place = match (level.kind, waterfall.levels.len() > 1) {
            (_, false) => String::new(),
            (LevelKind::Devices, _) => format!(", to {} devices", level.class),
            (LevelKind::Media, _) => format!(", {} media", level.class),
        };
        let mut end = of(level.passed);
        if waterfall.levels.len() > 1 {
            let figure = significant(end);
            all.push(step(format!("passed on{place}"), "host", (0.0, end), figure));
        }
        for (cause, bytes) in level.added.iter().filter(|(_, bytes)| of(*bytes) >= 5e-4) {
            let range = (end, end + of(*bytes));
            end = range.1;
            let name = format!("{}{place}", cause.replace('_', " "));
            all.push(step(name, cause, range, format!("+{}", significant(of(*bytes)))));
        }
    }
    let media = record.media_bytes_written.total;
    all.push(step(
        "WAF: written to the media".to_owned(),
        "host",
        (0.0, of(media)),
        significant(of(media)),
    ));
    let title = format!("From the host to the media, {}", run.label);
    let caption =
        "Per host byte, over the whole measured run: each bar begins where the one above ends.";
    figure(&escape(&title), &rows(&title, "bytes per host byte", &all), caption)
}

/// All byte counters of one run.
fn table(run: &Run<'_>) -> String {
    let r = run.record;
    let host = r.host_bytes_written;
    let mut rows =
        group_row("Host") + &row("written", host, host) + &row("read", r.host_bytes_read, host);
    rows += &row("trimmed", r.host_bytes_trimmed, host);
    for (tier, causes) in &r.engine_bytes_written {
        rows += &group_row(&format!("Layer above the device, {}", escape(tier)));
        rows += &cause_rows(causes, host);
    }
    rows += &group_row("Device");
    rows += &row("written to it", r.device_bytes_written, host);
    rows += &each_drive(r);
    rows += &group_row("Media");
    rows += &cause_rows(&r.media_bytes_written.by_cause, host);
    rows += &row("<b>all causes</b>", r.media_bytes_written.total, host);
    rows += &row("erased", r.media_bytes_erased, host);
    rows += &group_row("Host bytes that reached no media");
    rows += &row(
        "overwritten or trimmed in the write buffer",
        r.media_bytes_written.absorbed_in_buffer,
        host,
    );
    rows +=
        &row("still in the write buffer at the end", r.media_bytes_written.left_in_buffer, host);
    if let Some(fdp) = &r.fdp {
        rows += &group_row("FDP statistics");
        rows += &(row("HBMW", fdp.hbmw, host)
            + &row("MBMW", fdp.mbmw, host)
            + &row("MBE", fdp.mbe, host));
    }
    format!(
        "<table class=\"exact\"><caption>{}</caption><thead><tr><th scope=\"col\">Bytes</th><th \
         scope=\"col\">exact</th>\
         <th scope=\"col\">about</th><th scope=\"col\">per host \
         byte</th></tr></thead><tbody>{rows}</tbody></table>{}",
        run.name(),
        events(run),
    )
}

/// What each of several drives was given and programmed.
fn each_drive(record: &RunRecord) -> String {
    let host = record.host_bytes_written;
    let of = |(number, drive): (usize, &DriveBytes)| {
        row(&format!("to drive {}", number + 1), drive.device_bytes_written, host)
            + &row(&format!("media of drive {}", number + 1), drive.media_bytes_written.total, host)
    };
    record.drives.iter().enumerate().map(of).collect()
}

/// FDP events by name, where the device has them.
fn events(run: &Run<'_>) -> String {
    let Some(fdp) = run.record.fdp.as_ref().filter(|fdp| !fdp.events.is_empty()) else {
        return String::new();
    };
    let list: Vec<String> =
        fdp.events.iter().map(|(name, n)| format!("{} {}", words(name), count(*n))).collect();
    format!("<p class=\"legend\">FDP events: {}.</p>", list.join(", "))
}

/// The causes in the order of the palette, then any others by name.
fn ordered(causes: &BTreeMap<String, u64>) -> Vec<(&String, &u64)> {
    let known =
        |key: &str| CAUSES.iter().position(|cause| cause.key == key).unwrap_or(CAUSES.len());
    let mut ordered: Vec<(&String, &u64)> = causes.iter().collect();
    ordered.sort_by_key(|(key, _)| known(key));
    ordered
}

fn cause_rows(causes: &BTreeMap<String, u64>, host: u64) -> String {
    let row = |(key, bytes): (&String, &u64)| row(&words(key), *bytes, host);
    ordered(causes).into_iter().map(row).collect()
}

/// A heading within the table.
fn group_row(title: &str) -> String {
    format!("<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"4\">{title}</th></tr>")
}

/// One counter: exact, readable, and per host byte.
fn row(name: &str, bytes: u64, host: u64) -> String {
    let factor = (host > 0).then(|| bytes as f64 / host as f64);
    format!(
        "<tr><th scope=\"row\">{name}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
        count(bytes),
        data(bytes),
        ratio(factor)
    )
}
