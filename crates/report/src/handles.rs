//! What each placement handle of a run wrote, and whose invalidations caused copies of it.

use thermocline_record::HandleFigures;

use crate::data::Run;
use crate::text::{data, ratio};

const HEADS: [&str; 7] = [
    "Handle",
    "WAF",
    "Host<br>written",
    "Copied",
    "By its own<br>invalidations",
    "By those<br>of others",
    "Copies it caused<br>of others",
];

/// The section with a table for each run with several handles; empty without one.
pub(crate) fn section(runs: &[Run<'_>]) -> String {
    let several = runs.iter().filter(|run| run.record.handles.len() > 1);
    let tables: String = several.map(table).collect();
    if tables.is_empty() {
        return tables;
    }
    format!(
        "<section id=\"handles\"><h2>Placement handles</h2>{tables}<p class=\"legend\">A copy is on the account of the \
         handles through which other blocks of its unit were invalidated, in proportion. A handle that causes many copies \
         of others is noisy.</p></section>"
    )
}

fn table(run: &Run<'_>) -> String {
    let heads: String = HEADS.iter().map(|head| format!("<th scope=\"col\">{head}</th>")).collect();
    let rows: String = run.record.handles.iter().map(row).collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"comparison\"><caption>{}</caption><thead><tr>{heads}</tr>\
         </thead><tbody>{rows}</tbody></table></div>",
        run.name()
    )
}

fn row(handle: &HandleFigures) -> String {
    let bytes = [
        handle.host_bytes_programmed,
        handle.bytes_relocated,
        handle.bytes_relocated_by_own,
        handle.bytes_relocated_by_others,
        handle.bytes_relocated_of_others,
    ];
    let cells: String = bytes.map(|bytes| format!("<td>{}</td>", data(bytes))).concat();
    let waf = ratio(handle.waf);
    format!("<tr><th scope=\"row\">{}</th><td>{waf}</td>{cells}</tr>", handle.handle)
}
