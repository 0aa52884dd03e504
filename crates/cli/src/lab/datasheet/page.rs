//! The sheet as tables, JSON and a page.

use serde::Serialize;
use thermocline_record::plot::{Plot, PlotAxis, PlotLine};
use thermocline_report::{PlotPage, TextTable, render_plots};

use super::answers::{Answer, late_rate};
use super::questions::Question;
use super::{Sheet, origins};
use crate::table::draw;

/// The output as JSON.
#[derive(Serialize)]
pub struct Output<'a> {
    schema: &'static str,
    stack: &'a str,
    title: &'a str,
    simulated_bytes: u64,
    answers: &'a [Answer],
    advice: &'a Answer,
    charts: Vec<Plot>,
}

/// The sheet as JSON.
pub fn json<'a>(sheet: &'a Sheet, answers: &'a [Answer], advice: &'a Answer) -> Output<'a> {
    Output {
        schema: "thermocline.datasheet/1",
        stack: &sheet.stack.text,
        title: &sheet.stack.profile.title,
        simulated_bytes: sheet.measured[0].1.device.capacity_bytes,
        answers,
        advice,
        charts: charts(sheet),
    }
}

/// The sheet for the terminal.
pub fn text(sheet: &Sheet, answers: &[Answer], advice: &Answer, commands: bool) -> String {
    let mut text = format!("{}: {}\n\n", sheet.stack.text, products(sheet));
    for (index, answer) in answers.iter().chain([advice]).enumerate() {
        let number = if index < answers.len() { format!("{}. ", index + 1) } else { String::new() };
        text += &format!("{number}{}\n   {}\n", answer.question, answer.finding);
        let table = table(answer, commands);
        if !table.rows.is_empty() {
            text += &format!("{}\n", draw(&table.heads, &table.rows));
        }
        text.push('\n');
    }
    text
}

/// The sheet as one HTML page.
pub fn html(sheet: &Sheet, answers: &[Answer], advice: &Answer) -> String {
    let all: Vec<&Answer> = answers.iter().chain([advice]).collect();
    let short = |(index, answer): (usize, &Answer)| {
        vec![format!("{}. {}", index + 1, answer.question), sentence(&answer.finding)]
    };
    let mut tables: Vec<TextTable> = all.iter().map(|answer| table(answer, false)).collect();
    for (index, (table, answer)) in tables.iter_mut().zip(&all).enumerate() {
        if index < answers.len() {
            table.title = format!("{}. {}", index + 1, table.title);
        }
        table.row_origins = origins::of_rows(sheet, index, answer);
    }
    render_plots(&PlotPage {
        title: format!("Data sheet of {}", sheet.stack.text),
        introduction: format!(
            "{}. Sixteen questions to ask of any drive, after the SNIA tutorial of 2009, and advice; measured in virtual \
             time on {} of it, {:.0} % full unless a row says otherwise. The name of a row leads to the command that \
             repeats it, or to the source of what it states.",
            products(sheet),
            sheet.span,
            100.0 * sheet.full
        ),
        summary: Some(TextTable {
            title: "In short".into(),
            heads: vec!["question".into(), "answer".into()],
            rows: answers.iter().enumerate().map(short).collect(),
            ..TextTable::default()
        }),
        plots: charts(sheet),
        tables,
        origins: origins::all(sheet, &all),
        ..PlotPage::default()
    })
}

/// The drives of the stack, the capacity drive first.
fn products(sheet: &Sheet) -> String {
    let titles: Vec<&str> = sheet.profiles().map(|profile| profile.title.as_str()).collect();
    titles.join("; before it, as the fast device, ")
}

/// A finding as a sentence: with a capital letter and a full stop.
fn sentence(finding: &str) -> String {
    let mut letters = finding.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

fn table(answer: &Answer, commands: bool) -> TextTable {
    let with = commands && answer.rows.iter().any(|row| row.command.is_some());
    let heads = answer.heads.iter().copied().chain(with.then_some("command"));
    let row = |row: &super::answers::Row| {
        let command = with.then(|| row.command.clone().unwrap_or_default());
        row.cells.iter().cloned().chain(command).collect()
    };
    TextTable {
        title: answer.question.to_owned(),
        text: sentence(&answer.finding),
        heads: heads.map(str::to_owned).collect(),
        rows: answer.rows.iter().map(row).collect(),
        ..TextTable::default()
    }
}

fn charts(sheet: &Sheet) -> Vec<Plot> {
    let scaled = |name: &str, question: Question, only: &str, unit: f64| {
        let runs = sheet.of(question).filter(|(m, _)| m.x.is_finite() && m.label.ends_with(only));
        let points = runs.map(|(m, record)| [m.x / unit, late_rate(record) / 1e6]);
        PlotLine::ours(name, points.collect())
    };
    let line = |name: &str, question: Question, only: &str| scaled(name, question, only, 1.0);
    let by_size = |name: &str, question: Question| scaled(name, question, "", 1024.0);
    let plot = |title: &str, x: PlotAxis, lines: Vec<PlotLine>| Plot {
        title: title.to_owned(),
        caption: "Host bytes a second, over the later half of each run.".into(),
        x,
        y: PlotAxis::linear("MB/s"),
        lines,
    };
    let logarithmic = PlotAxis::logarithmic;
    vec![
        plot(
            "By size, random, 64 in flight",
            logarithmic("KiB of a request"),
            vec![by_size("reads", Question::Reads), by_size("writes", Question::Writes)],
        ),
        plot(
            "Reads and writes mixed, 4 KiB",
            PlotAxis::linear("reads, %"),
            vec![line("4 KiB", Question::Mix, "")],
        ),
        plot(
            "By requests in flight, 4 KiB",
            logarithmic("in flight"),
            vec![
                line("reads", Question::Depth, "reads"),
                line("writes", Question::Depth, "writes"),
            ],
        ),
        plot(
            "By how full it is, random writes of 4 KiB",
            PlotAxis::linear("full, %"),
            vec![line("writes", Question::Reserve, "")],
        ),
        burst(sheet),
    ]
}

/// Bandwidth of an erased drive over the bytes written.
fn burst(sheet: &Sheet) -> Plot {
    let mut lines = Vec::new();
    for (_, record) in sheet.of(Question::Burst) {
        let mut seconds = 0.0;
        let mut points = Vec::new();
        for point in &record.series {
            let took = point.seconds - seconds;
            if took > 0.0 {
                let written = point.host_bytes as f64 / record.device.capacity_bytes as f64;
                points.push([written, point.host_bytes_written as f64 / took / 1e6]);
            }
            seconds = point.seconds;
        }
        lines.push(PlotLine::ours("random writes of 4 KiB", points));
    }
    Plot {
        title: "Burst and steady: a drive that was erased".into(),
        caption: "Each point is the rate since the one before.".into(),
        x: PlotAxis::linear("capacities written"),
        y: PlotAxis::linear("MB/s"),
        lines,
    }
}
