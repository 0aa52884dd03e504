//! The page of `fleet`.

use thermocline_lab::fleet::{FleetAnswer, FleetRange};
use thermocline_report::{FleetPage, TextTable, fleet_page};

use super::text::{CLASS_HEADS, DRIVE_HEADS, MEND_HEADS, classes, drives, mends, unshown};

/// Drives on the page.
const LISTED: usize = 50;
/// Sentences of each list on the page.
const SENTENCES: usize = 100;

/// The answer as HTML.
pub fn page(answer: &FleetAnswer) -> String {
    let FleetRange { low, likely, high } = answer.worn_out;
    let serving: usize = answer.classes.iter().map(|one| one.drives - one.past_service).sum();
    let figure = |name: &str, value: String| (name.to_owned(), value);
    let heads = |heads: &[&str]| heads.iter().map(|head| (*head).to_owned()).collect();
    let table = |title: &str, names: &[&str], rows| TextTable {
        title: title.to_owned(),
        heads: heads(names),
        rows,
        ..TextTable::default()
    };
    let curve = answer.curve.iter().map(|point| {
        let FleetRange { low, likely, high } = point.worn_out;
        (point.date.clone(), [low, likely, high])
    });
    fleet_page(&FleetPage {
        title: "Thermocline: which drives of the fleet wear out".to_owned(),
        answer: answer.answer.clone(),
        figures: vec![
            figure("Wear out in service", format!("{likely:.0}")),
            figure("90 % interval", format!("{low:.0} \u{2013} {high:.0}")),
            figure("Drives in service", serving.to_string()),
            figure("Counters of", answer.date.clone()),
        ],
        curve: curve.collect(),
        classes: table(
            "Drives that wear out before their service ends",
            &CLASS_HEADS,
            classes(answer),
        ),
        why: answer.classes.iter().map(|one| (one.name.clone(), one.why.clone())).collect(),
        mends: Some(mends(answer)).filter(|rows| !rows.is_empty()).map(|rows| {
            table("Options of `lab whatif`, simulated on traces of each class", &MEND_HEADS, rows)
        }),
        first: table("", &DRIVE_HEADS, drives(answer, LISTED)),
        lists: lists(answer),
    })
}

fn lists(answer: &FleetAnswer) -> Vec<(String, Vec<String>)> {
    let list = |heading: &str, all: &mut dyn Iterator<Item = String>| {
        let mut all: Vec<String> = all.collect();
        let more = all.len().saturating_sub(SENTENCES);
        all.truncate(SENTENCES);
        all.extend((more > 0).then(|| format!("and {more} more, in the output of --json")));
        (heading.to_owned(), all)
    };
    let unsaid =
        answer.unsaid.iter().map(|one| format!("{} on {}: {}", one.serial, one.host, one.reason));
    let refused =
        answer.refused.iter().map(|one| format!("{}, line {}: {}", one.file, one.line, one.reason));
    vec![
        list("What cannot be said", &mut { unsaid }),
        list("Options that traces cannot show", &mut unshown(answer).into_iter()),
        list("Rows that were not read", &mut { refused }),
        list("About the rows", &mut answer.notes.iter().cloned()),
        list("Assumed", &mut answer.assumptions.iter().cloned()),
    ]
}
