//! What each tenant of a run asked for and got.

use thermocline_record::{LatencyNs, TenantFigures, TenantRates, Tenants};

use crate::data::Run;
use crate::text::{count, data, escape, latency, ratio, significant};

/// A column: its head, and the cell's text for a tenant.
type Shown = (&'static str, fn(&TenantFigures) -> String);

/// Text of a cell without a value.
const NOTHING: &str = "\u{2013}";
/// The column that also shows unowned bytes.
const MEDIA_WRITTEN: &str = "Media<br>written";

/// Columns of every run, and those that need time.
const COLUMNS: [Shown; 4] = [
    ("WAF", |t| t.waf.map_or_else(|| NOTHING.to_owned(), |waf| ratio(Some(waf)))),
    ("Host<br>written", |t| data(t.host_bytes_written)),
    ("Host<br>read", |t| data(t.host_bytes_read)),
    (MEDIA_WRITTEN, |t| data(t.bytes.media_total())),
];
const COLUMNS_OF_TIME: [Shown; 8] = [
    ("Depth", |t| of_time(t, |rates| significant(rates.depth))),
    ("Writes<br><small>MB/s</small>", |t| {
        of_time(t, |rates| significant(rates.write_bytes_per_second / 1e6))
    }),
    ("Reads<br><small>MB/s</small>", |t| {
        of_time(t, |rates| significant(rates.read_bytes_per_second / 1e6))
    }),
    ("Requests<br><small>per second</small>", |t| {
        of_time(t, |rates| count(rates.requests_per_second.round() as u64))
    }),
    ("Write<br>p50", |t| percentile(t, "write", |l| l.p50)),
    ("Write<br>p99", |t| percentile(t, "write", |l| l.p99)),
    ("Read<br>p50", |t| percentile(t, "read", |l| l.p50)),
    ("Read<br>p99", |t| percentile(t, "read", |l| l.p99)),
];

/// The section with a table for each run with tenants; empty without tenants.
pub(crate) fn section(runs: &[Run<'_>]) -> String {
    let tables: String =
        runs.iter().filter_map(|run| Some(table(run, run.record.tenants.as_ref()?))).collect();
    if tables.is_empty() {
        return tables;
    }
    format!(
        "<section id=\"tenants\"><h2>Tenants</h2>{tables}<p class=\"legend\">A byte belongs to the tenant that wrote \
         its block last: relocated and destaged blocks count for their owner. WAF: media bytes of a tenant per byte \
         that it wrote, over the whole measured run. Nobody's are headers, maps, padding and data at rest. Depth: the \
         mean number of requests in flight.</p></section>"
    )
}

fn table(run: &Run<'_>, tenants: &Tenants) -> String {
    let timed = tenants.each.iter().any(|tenant| tenant.rates.is_some());
    let time: &[Shown] = if timed { &COLUMNS_OF_TIME } else { &[] };
    let columns = || COLUMNS.iter().chain(time);
    let heads: String =
        columns().map(|(head, _)| format!("<th scope=\"col\">{head}</th>")).collect();
    let row = |tenant: &TenantFigures| {
        let cells: String = columns().map(|(_, of)| format!("<td>{}</td>", of(tenant))).collect();
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>", escape(&tenant.name))
    };
    let mut rows: String = tenants.each.iter().map(row).collect();
    if tenants.nobody.media_total() > 0 {
        let cell = |&(head, _): &Shown| match head {
            MEDIA_WRITTEN => format!("<td>{}</td>", data(tenants.nobody.media_total())),
            _ => format!("<td>{NOTHING}</td>"),
        };
        let cells: String = columns().map(cell).collect();
        rows += &format!("<tr><th scope=\"row\">nobody\u{2019}s</th>{cells}</tr>");
    }
    format!(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"comparison\"><caption>{}</caption><thead><tr><th \
         scope=\"col\">Tenant</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>",
        run.name()
    )
}

/// A figure of a tenant in time.
fn of_time(tenant: &TenantFigures, show: fn(TenantRates) -> String) -> String {
    tenant.rates.map_or_else(|| NOTHING.to_owned(), show)
}

fn percentile(tenant: &TenantFigures, kind: &str, of: fn(&LatencyNs) -> Option<u64>) -> String {
    match tenant.latency_ns.as_ref().and_then(|kinds| kinds.get(kind)).map(of) {
        None => NOTHING.to_owned(),
        Some(None) => "in memory".to_owned(),
        Some(Some(ns)) => latency(ns as f64),
    }
}
