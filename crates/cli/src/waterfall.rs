//! The waterfall as text: the bytes into each level, the bytes that the level adds, and remedies for the largest
//! additions.

use thermocline_record::waterfall::{Addition, LevelKind, Waterfall};
use thermocline_types::Bytes;

use crate::table;

/// Additions shown with a remedy.
const TOLD: usize = 3;
/// Additions below this share of the application's writes get no remedy.
const LITTLE: f64 = 0.01;
/// Application bytes below which no shares are shown: opening a pool alone writes some records. Chosen.
const TELLING: u64 = 64 << 10;

/// Draws `waterfall`, and names the largest additions with their remedies.
pub fn show(waterfall: &Waterfall) -> String {
    // Below 64 KiB of application writes a ratio is noise.
    let telling = waterfall.host >= TELLING;
    let share = |bytes: u64| bytes as f64 / waterfall.host.max(1) as f64;
    let told = |sign: &str, bytes: u64| match telling {
        true => format!("{sign}{:.3}", share(bytes)),
        false => String::new(),
    };
    let whole = |name: String, bytes: u64| vec![name, Bytes(bytes).to_string(), told("", bytes)];
    let part = |name: &str, sign: &str, bytes: u64| {
        vec![format!("  {name}"), Bytes(bytes).to_string(), told(sign, bytes)]
    };
    let mut rows = vec![whole("application".to_owned(), waterfall.host)];
    if waterfall.absorbed > 0 {
        rows.push(part("overwritten in memory", "-", waterfall.absorbed));
    }
    for level in &waterfall.levels {
        rows.push(whole(name(level.kind, &level.class), level.bytes));
        if level.passed > 0 && !level.added.is_empty() {
            rows.push(part("from above", "", level.passed));
        }
        rows.extend(level.added.iter().map(|(cause, bytes)| part(&words(cause), "+", *bytes)));
    }
    let heads = ["", "bytes", "of the application's"].map(str::to_owned);
    let mut text = format!("{}\n", table::draw(&heads, &rows));
    let most = waterfall.additions();
    let most = most.iter().take(TOLD).filter(|added| telling && share(added.bytes) >= LITTLE);
    for (number, Addition { kind, class, cause, bytes, remedy }) in (1..).zip(most) {
        let (level, cause, share) = (name(*kind, class), words(cause), share(*bytes));
        text += &format!("{number}. {cause}, {level}: +{share:.3}; lowered by {remedy}\n");
    }
    text
}

fn name(kind: LevelKind, class: &str) -> String {
    match kind {
        LevelKind::Devices => format!("{class} devices"),
        LevelKind::Media => format!("media of {class} devices"),
    }
}

fn words(cause: &str) -> String {
    match cause {
        "read_modify_write" => "read-modify-write".to_owned(),
        cause => cause.replace('_', " "),
    }
}
