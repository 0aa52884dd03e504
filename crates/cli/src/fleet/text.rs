//! The answer on a terminal.

use thermocline_lab::fleet::{FleetAnswer, FleetClass, FleetDrive, FleetMend, FleetRange};

use crate::lab::args::in_arguments;
use crate::table::{NONE, draw};

/// Drives, refused rows and the like that are listed.
const LISTED: usize = 10;

/// The answer, a table of classes, the first drives, and what is not known.
pub fn text(answer: &FleetAnswer) -> String {
    let mut text = format!(
        "{}\n\n{}\n",
        answer.answer,
        draw(&CLASS_HEADS.map(str::to_owned), &classes(answer))
    );
    for class in &answer.classes {
        text += &format!("{}: {}\n", class.name, class.why.join("; "));
    }
    let mends = mends(answer);
    if !mends.is_empty() {
        text += &format!(
            "\nwhat would mend it, by simulation\n{}\n",
            draw(&MEND_HEADS.map(str::to_owned), &mends)
        );
    }
    let first = drives(answer, LISTED);
    if !first.is_empty() {
        text += &format!(
            "\nthe first to wear out\n{}\n",
            draw(&DRIVE_HEADS.map(str::to_owned), &first)
        );
    }
    let unsaid = answer.unsaid.iter().map(|one| format!("{}: {}", one.serial, one.reason));
    text += &listed("drives of which nothing can be said", unsaid);
    text += &listed("options that traces cannot show", unshown(answer).into_iter());
    let refused = answer.refused.iter();
    text += &listed(
        "rows that were not read",
        refused.map(|one| format!("{}, line {}: {}", one.file, one.line, one.reason)),
    );
    text += &listed("about the rows", answer.notes.iter().cloned());
    text + &listed("assumed", answer.assumptions.iter().cloned())
}

/// A head with the number of `all`, then the first of them, a line each.
fn listed(head: &str, all: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = all.collect();
    if all.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{head}: {}\n", all.len());
    all.iter().take(LISTED).for_each(|one| text += &format!("  {one}\n"));
    if all.len() > LISTED {
        text += &format!("  and {} more (--json)\n", all.len() - LISTED);
    }
    text
}

/// Heads of [`classes`].
pub const CLASS_HEADS: [&str; 6] = ["class", "drives", "wear out", "90 %", "WAF", "first"];

/// A row for each class.
pub fn classes(answer: &FleetAnswer) -> Vec<Vec<String>> {
    let row = |class: &FleetClass| {
        let FleetRange { low, likely, high } = class.worn_out;
        let waf = class.waf.map_or(NONE.to_owned(), |waf| format!("{:.2}", waf.likely));
        vec![
            class.name.clone(),
            class.drives.to_string(),
            format!("{likely:.1}"),
            format!("{low:.0} to {high:.0}"),
            waf,
            class.first.clone().unwrap_or(NONE.to_owned()),
        ]
    };
    answer.classes.iter().map(row).collect()
}

/// Heads of [`mends`].
pub const MEND_HEADS: [&str; 6] =
    ["class, option", "of the wear", "90 %", "wear out", "90 %", "saves"];

/// A row for each option that the traces of a class could show.
pub fn mends(answer: &FleetAnswer) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for class in &answer.classes {
        for mend in &class.mends {
            let Some((factor, worn_out)) = mend.factor.zip(mend.worn_out) else { continue };
            let percent = |share: f64| format!("{:.0}", 100.0 * share);
            rows.push(vec![
                format!("{}: {}", class.name, mend.option),
                percent(factor.likely) + " %",
                format!("{} to {}", percent(factor.low), percent(factor.high)),
                format!("{:.1}", worn_out.likely),
                format!("{:.0} to {:.0}", worn_out.low, worn_out.high),
                mend.saves.map_or(NONE.to_owned(), |saves| format!("{saves:.0}")),
            ]);
        }
    }
    rows
}

/// Reasons why traces of a class cannot show an option.
pub fn unshown(answer: &FleetAnswer) -> Vec<String> {
    let of = |class: &FleetClass| -> Vec<String> {
        let reason = |mend: &FleetMend| {
            let reason = in_arguments(mend.reason.as_ref()?);
            Some(format!("{}: {}: {reason}", class.name, mend.option))
        };
        class.mends.iter().filter_map(reason).collect()
    };
    answer.classes.iter().flat_map(of).collect()
}

/// Heads of [`drives`].
pub const DRIVE_HEADS: [&str; 7] =
    ["serial", "host", "model", "used", "worn out", "90 %", "probability"];

/// A row for each of the first `most` drives that may wear out in service.
pub fn drives(answer: &FleetAnswer, most: usize) -> Vec<Vec<String>> {
    let may = |one: &&FleetDrive| one.probability >= 0.05;
    answer.drives.iter().filter(may).take(most).map(drive).collect()
}

fn drive(drive: &FleetDrive) -> Vec<String> {
    let month = |date: &Option<String>| {
        date.as_ref().map_or("later".to_owned(), |date| date.chars().take(7).collect())
    };
    vec![
        drive.serial.clone(),
        drive.host.clone(),
        drive.model.clone(),
        format!("{:.0} %", drive.used_percent),
        month(&drive.worn_out.likely),
        format!("{} to {}", month(&drive.worn_out.early), month(&drive.worn_out.late)),
        format!("{:.0} %", 100.0 * drive.probability),
    ]
}
