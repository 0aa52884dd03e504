//! Every byte by its cause: the bar and the exact table.

use std::collections::BTreeMap;

use thermocline_record::{DriveBytes, RunRecord};

use crate::data::Run;
use crate::figure::{Chart, absent, figure, wide};
use crate::palette::CAUSES;
use crate::text::{count, data, escape, ratio, words};

/// The section on bytes by cause.
pub(crate) fn section(runs: &[Run<'_>]) -> String {
    let rows: usize = runs.iter().map(|run| 1 + run.record.engine_bytes_written.len()).sum();
    let bar = if runs.iter().any(|run| run.record.host_bytes_written > 0) {
        let height = 96 + 44 * u32::try_from(rows).unwrap_or(100).min(100);
        let caption = "Bytes written for each cause, per host byte. The parts of a device bar add \
            up to its WAF over the whole \
                       measured run; each part is what its cause adds.";
        wide(&figure(
            Chart { name: "causes", record: None, height },
            "Where the writes come from",
            caption,
        ))
    } else {
        wide(&absent("Where the writes come from", "The host wrote nothing."))
    };
    let tables: String = runs.iter().map(table).collect();
    format!(
        "<section id=\"causes\"><h2>Bytes by cause</h2><div class=\"figures\">{bar}</div>\
         <details><summary>Exact bytes</summary><div class=\"tables\">{tables}</div></details></section>"
    )
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
fn cause_rows(causes: &BTreeMap<String, u64>, host: u64) -> String {
    let known =
        |key: &str| CAUSES.iter().position(|cause| cause.key == key).unwrap_or(CAUSES.len());
    let mut ordered: Vec<(&String, &u64)> = causes.iter().collect();
    ordered.sort_by_key(|(key, _)| known(key));
    ordered.into_iter().map(|(key, bytes)| row(&words(key), *bytes, host)).collect()
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
