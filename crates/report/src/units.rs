//! The device's units at the end of a run: maps of what they hold and of their wear.

use crate::data::Run;
use crate::figure::{Chart, absent, figure};
use crate::palette::{VALID, WEAR, ramp_key};
use crate::text::{count, data, escape, significant};

/// What is drawn for each state of a unit.
const STATES: [(char, &str, &str); 5] = [
    ('f', "free", "free"),
    ('o', "open", "open"),
    ('c', "closed", "closed"),
    ('r', "retired", "retired"),
    ('m', "mixed", "of several states"),
];

/// One section per stack with its maps and histograms.
pub(crate) fn sections(runs: &[Run<'_>]) -> String {
    runs.iter().map(section).collect()
}

/// The maps and histograms of one stack.
fn section(run: &Run<'_>) -> String {
    let device = &run.record.device;
    format!(
        "<section class=\"stack-section\" id=\"stack-{index}\"><h2>{name} <small>units at the \
         end</small></h2>\
         <p class=\"device\">{units} of {size}{title}. {summary}</p>\
         <div class=\"figures\">{maps}{histograms}</div></section>",
        index = run.index,
        name = run.name(),
        units = if device.units == 1 {
            "1 unit".to_owned()
        } else {
            format!("{} units", count(device.units))
        },
        size = data(device.unit_bytes),
        title = if device.title.is_empty() {
            String::new()
        } else {
            format!(" in {}", escape(&device.title))
        },
        summary = state_summary(run),
        maps = unit_map(run) + &wear_map(run),
        histograms = valid_histogram(run) + &wear_histogram(run),
    )
}

/// How many cells are in which state, and what a cell is.
fn state_summary(run: &Run<'_>) -> String {
    let units = &run.record.units;
    let mut parts = Vec::new();
    for (letter, _, name) in STATES {
        let n = units.state.chars().filter(|state| *state == letter).count();
        if n > 0 {
            parts.push(format!("{} {name}", count(n as u64)));
        }
    }
    let cell = match units.units_per_cell {
        0 | 1 => "Each cell is one unit".to_owned(),
        n => format!("Each cell stands for {} units", count(n)),
    };
    if parts.is_empty() { String::new() } else { format!("{cell}: {}.", parts.join(", ")) }
}

/// The map of fill and valid data.
fn unit_map(run: &Run<'_>) -> String {
    if run.record.units.fill.is_empty() {
        return absent("Unit map", "This run lists no units.");
    }
    let present = |letter: char| run.record.units.state.contains(letter);
    let keys: String = STATES
        .iter()
        .filter(|(letter, _, _)| present(*letter))
        .map(|(_, class, name)| {
            format!("<span class=\"key\"><i class=\"cell {class}\"></i> {name}</span> ")
        })
        .collect();
    let caption = format!(
        "{keys}<br>Height: share written. Shade: share of that still valid, {}. Unit 0 is at the \
         top left, then row by row.",
        ramp_key(&VALID, "0 %", "100 %")
    );
    figure(Chart { name: "unit_map", record: Some(run.index), height: 320 }, "Unit map", &caption)
}

/// The map of erase counts, in the layout of the unit map.
fn wear_map(run: &Run<'_>) -> String {
    let wear = &run.record.wear;
    if wear.erase_counts.is_empty() {
        return absent("Wear map", "This run lists no erase counts.");
    }
    // A cell that stands for several units holds their mean, which stays below the largest.
    let cells = wear.erase_counts.iter().copied().filter(|count| count.is_finite());
    let most = match run.record.units.units_per_cell {
        0 | 1 => count(wear.max),
        _ => significant(f64::from(cells.fold(0.0_f32, f32::max))),
    };
    let caption = format!(
        "Erase count of each unit, {}. Same layout as the unit map. Least {}, mean {}, most {}; \
         {} retired, {} spares left.",
        ramp_key(&WEAR, "0", &most),
        count(wear.min),
        significant(wear.mean),
        count(wear.max),
        count(wear.retired),
        count(wear.spare_left)
    );
    figure(Chart { name: "wear_map", record: Some(run.index), height: 320 }, "Wear map", &caption)
}

/// Closed units by valid share.
fn valid_histogram(run: &Run<'_>) -> String {
    if run.record.units.valid_histogram.iter().all(|n| *n == 0) {
        return absent("Valid data in closed units", "No unit is closed.");
    }
    let caption = "Garbage collection is cheap while there are units at the left: few valid bytes \
        to relocate. A peak at the right \
                   means that every victim costs much.";
    figure(
        Chart { name: "valid_histogram", record: Some(run.index), height: 260 },
        "Valid data in closed units",
        caption,
    )
}

/// Cells by erase count.
fn wear_histogram(run: &Run<'_>) -> String {
    if run.record.wear.erase_counts.is_empty() {
        return String::new();
    }
    let caption = "A narrow hill is even wear; a long tail to the right is units that die early.";
    figure(
        Chart { name: "wear_histogram", record: Some(run.index), height: 260 },
        "Units by erase count",
        caption,
    )
}
