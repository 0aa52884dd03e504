//! The device's units at the end of a run: maps of what they hold and of their wear.

use crate::data::Run;
use crate::figure::{absent, figure};
use crate::palette::{VALID, WEAR, ramp_key};
use crate::svg::{self, Histogram};
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
    figure("Unit map", &svg::units("Unit map", run.record), &caption)
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
    figure("Wear map", &svg::wear("Wear map", run.record), &caption)
}

/// Closed units by valid share.
fn valid_histogram(run: &Run<'_>) -> String {
    if run.record.units.valid_histogram.iter().all(|n| *n == 0) {
        return absent("Valid data in closed units", "No unit is closed.");
    }
    let caption = "Garbage collection is cheap while there are units at the left: few valid bytes \
        to relocate. A peak at the right \
                   means that every victim costs much.";
    let bins = &run.record.units.valid_histogram;
    let bin =
        |(index, units): (usize, &u64)| ((100 * index / bins.len()).to_string(), *units as f64);
    let title = "Valid data in closed units";
    let drawing = svg::histogram(&Histogram {
        title,
        names: ["valid share, % (lower edge of the bin)", "units"],
        bins: bins.iter().enumerate().map(bin).collect(),
        colour: VALID[4],
        apart: 0,
    });
    figure(title, &drawing, caption)
}

/// Cells by erase count.
fn wear_histogram(run: &Run<'_>) -> String {
    if run.record.wear.erase_counts.is_empty() {
        return String::new();
    }
    let caption = "A narrow hill is even wear; a long tail to the right is units that die early.";
    let (width, bins) = erase_bins(&run.record.wear.erase_counts);
    let title = "Units by erase count";
    let name = match width {
        1 => "erase count".to_owned(),
        width => format!("erase count (lower edge; bins of {width})"),
    };
    let drawing = svg::histogram(&Histogram {
        title,
        names: [&name, "units"],
        bins,
        colour: WEAR[4],
        apart: 0,
    });
    figure(title, &drawing, caption)
}

/// Bins of whole erase counts, at most 24 of them: their width, and label and units of each.
fn erase_bins(counts: &[f32]) -> (u64, Vec<(String, f64)>) {
    const MOST: u64 = 24;
    let finite = || counts.iter().copied().filter(|count| count.is_finite() && *count >= 0.0);
    let low = finite().fold(f32::MAX, f32::min).floor() as u64;
    let high = finite().fold(0.0, f32::max) as u64;
    let low = low.min(high);
    let width = (high - low + 1).div_ceil(MOST);
    let mut bins = vec![0.0; ((high - low) / width + 1) as usize];
    for count in finite() {
        bins[((count as u64 - low) / width) as usize] += 1.0;
    }
    let label = |(index, units)| ((low + index as u64 * width).to_string(), units);
    (width, bins.into_iter().enumerate().map(label).collect())
}
