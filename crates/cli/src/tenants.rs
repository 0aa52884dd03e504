//! Table of the requests and results of each tenant of a run.

use thermocline_record::{LatencyNs, RunRecord, TenantFigures, Tenants};
use thermocline_types::Bytes;

use crate::table::{NONE, draw, nanos};

/// Most tenants in a table. The record and the JSON have all tenants.
pub const SHOWN: usize = 20;

/// The head of a column, and its cell for a tenant.
type TenantColumn = (&'static str, fn(&TenantFigures) -> String);

const COLUMNS: [TenantColumn; 9] = [
    ("WAF", |t| optional(t.waf.map(|waf| format!("{waf:.3}")))),
    ("host written", |t| bytes(t.host_bytes_written)),
    ("media written", |t| bytes(t.bytes.media_total())),
    ("depth", |t| optional(t.rates.map(|rates| format!("{:.1}", rates.depth)))),
    ("writes", |t| optional(t.rates.and_then(|rates| rate(rates.write_bytes_per_second)))),
    ("reads", |t| optional(t.rates.and_then(|rates| rate(rates.read_bytes_per_second)))),
    ("requests/s", |t| optional(t.rates.map(|rates| format!("{:.0}", rates.requests_per_second)))),
    ("write p50 / p99 / p99.9", |t| latency(t, "write")),
    ("read p50 / p99 / p99.9", |t| latency(t, "read")),
];

/// The table of a run; `None` if the run has no tenants.
pub fn show(record: &RunRecord) -> Option<String> {
    let Tenants { each, nobody } = record.tenants.as_ref()?;
    let mut shown: Vec<&TenantFigures> = each.iter().collect();
    shown.sort_by_key(|t| std::cmp::Reverse(t.host_bytes_written + t.host_bytes_read));
    shown.truncate(SHOWN);
    if each.len() <= SHOWN {
        shown = each.iter().collect();
    }
    let columns = COLUMNS.iter().filter(|(_, of)| shown.iter().any(|t| of(t) != NONE));
    let columns: Vec<&TenantColumn> = columns.collect();
    let mut rows: Vec<Vec<String>> = shown
        .iter()
        .map(|t| {
            let cells = columns.iter().map(|(_, of)| of(t));
            std::iter::once(t.name.clone()).chain(cells).collect()
        })
        .collect();
    if nobody.media_total() > 0 {
        let cell = |&&(head, _): &&TenantColumn| match head {
            "media written" => Bytes(nobody.media_total()).to_string(),
            _ => NONE.to_owned(),
        };
        let cells = columns.iter().map(cell);
        rows.push(std::iter::once("nobody's".to_owned()).chain(cells).collect());
    }
    let heads = columns.iter().map(|(head, _)| (*head).to_owned());
    let heads: Vec<String> = std::iter::once("tenant".to_owned()).chain(heads).collect();
    let more = match each.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("{more} tenants with less are in the record\n"),
    };
    Some(format!("{} by tenant\n{}\n{more}", record.stack, draw(&heads, &rows)))
}

fn optional(value: Option<String>) -> String {
    value.unwrap_or_else(|| NONE.into())
}

fn bytes(bytes: u64) -> String {
    optional((bytes > 0).then(|| Bytes(bytes).to_string()))
}

fn rate(rate: f64) -> Option<String> {
    (rate > 0.0).then(|| format!("{:.1} MB/s", rate / 1e6))
}

fn latency(tenant: &TenantFigures, kind: &str) -> String {
    let ns = |percentile: Option<u64>| percentile.map_or("in memory".into(), nanos);
    let show = |l: &LatencyNs| format!("{} / {} / {}", ns(l.p50), ns(l.p99), ns(l.p99_9));
    optional(tenant.latency_ns.as_ref().and_then(|all| all.get(kind)).map(show))
}
