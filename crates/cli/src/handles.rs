//! Table of the placement handles of a run.

use thermocline_record::{HandleFigures, RunRecord};
use thermocline_types::Bytes;

use crate::table::{NONE, draw};

/// The table of a run; `None` if the run wrote with fewer than two handles.
pub fn show(record: &RunRecord) -> Option<String> {
    if record.handles.len() < 2 {
        return None;
    }
    let heads = [
        "handle",
        "WAF",
        "host written",
        "copied",
        "by its own invalidations",
        "by those of others",
        "copies it caused of others",
    ];
    let rows: Vec<Vec<String>> = record.handles.iter().map(row).collect();
    let table = draw(&heads.map(str::to_owned), &rows);
    Some(format!("{} by placement handle\n{table}\n", record.stack))
}

fn row(handle: &HandleFigures) -> Vec<String> {
    let bytes = |bytes: u64| if bytes > 0 { Bytes(bytes).to_string() } else { NONE.to_owned() };
    vec![
        handle.handle.to_string(),
        handle.waf.map_or(NONE.to_owned(), |waf| format!("{waf:.3}")),
        bytes(handle.host_bytes_programmed),
        bytes(handle.bytes_relocated),
        bytes(handle.bytes_relocated_by_own),
        bytes(handle.bytes_relocated_by_others),
        bytes(handle.bytes_relocated_of_others),
    ]
}
