//! Lifetimes of the drives: bar, figures and assumptions.

use thermocline_record::Life;

use crate::data::Run;
use crate::figure::{absent, figure, wide};
use crate::finding::TRANSIENT;
use crate::svg::{Span, spans};
use crate::text::{UNKNOWN, endurance, escape, fullness, significant, years};

/// The section on lifetime.
pub(crate) fn section(runs: &[Run<'_>]) -> String {
    let title = "Lifetime under this load";
    let rows: Vec<Span<'_>> = runs.iter().filter_map(span).collect();
    let bar = if rows.is_empty() {
        absent(title, "Unknown: no endurance is known for these devices.")
    } else {
        let caption = "Band: P10 to P90. Upright line: median. \u{25c6} end of the maker's warranty. \u{25b2} when \
            the maker's rated bytes (TBW) are used up at this load.";
        figure(title, &spans(title, &rows), caption)
    };
    let entries: String = runs.iter().map(entry).collect();
    format!(
        "<section id=\"life\"><h2>Lifetime</h2><div class=\"figures\">{}</div><div class=\"cards\">{entries}</div></section>",
        wide(&bar)
    )
}

/// The life of a run as a row of the chart.
fn span<'a>(run: &'a Run<'_>) -> Option<Span<'a>> {
    let life = run.record.life.as_ref()?;
    let [p10, p50, p90] = [life.years_p10, life.years_p50, life.years_p90].map(years);
    let positive = |years: &f64| *years > 0.0;
    Some(Span {
        name: &run.label,
        style: run.index,
        years: [life.years_p10, life.years_p50, life.years_p90],
        warranty: life.warranty_years.filter(positive),
        rated: rated_years(life).filter(positive),
        words: format!("{p50} years ({p10}\u{2013}{p90})"),
    })
}

/// Years until the rated bytes are used up at the load assumed.
pub(crate) fn rated_years(life: &Life) -> Option<f64> {
    let rated = life.rated_tbw_bytes.filter(|rated| *rated > 0.0 && life.tbw_bytes > 0.0)?;
    Some(life.years_p50 * rated / life.tbw_bytes)
}

/// Medians of an empty product and of one as full as the simulated drive.
fn range(life: &Life) -> Option<String> {
    let [empty, full] = &life.range[..] else { return None };
    Some(format!(
        "{} years empty, {} years {} full of such data",
        years(empty.years_p50),
        years(full.years_p50),
        fullness(full.product_utilisation)
    ))
}

/// One stack: figures and assumptions.
fn entry(run: &Run<'_>) -> String {
    let Some(life) = &run.record.life else {
        return format!(
            "<article class=\"card\"><h3>{}</h3><p>Lifetime unknown.</p></article>",
            run.name()
        );
    };
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
    let facts = [
        (
            "Life",
            format!(
                "{} years, P10\u{2013}P90 {}\u{2013}{}",
                years(life.years_p50),
                years(life.years_p10),
                years(life.years_p90)
            ),
        ),
        ("With the product full to", or_unknown(life.product_utilisation.map(fullness))),
        ("From empty to full", or_unknown(range(life))),
        (
            "Load assumed",
            format!("{} drive writes per day", significant(life.drive_writes_per_day)),
        ),
        ("Host bytes it can take at this WAF", endurance(life.tbw_bytes)),
        ("Rated by its maker", or_unknown(life.rated_tbw_bytes.map(endurance))),
        (
            "Warranty",
            or_unknown(life.warranty_years.map(|warranty| format!("{} years", years(warranty)))),
        ),
    ];
    let facts: String = facts
        .iter()
        .map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>"))
        .collect();
    let assumptions: String =
        life.assumptions.iter().map(|text| format!("<li>{}</li>", escape(text))).collect();
    let assumptions = if assumptions.is_empty() {
        String::new()
    } else {
        format!("<h4>Rests on</h4><ul>{assumptions}</ul>")
    };
    format!(
        "<article class=\"card\"><h3>{name} {tag}</h3><dl \
         class=\"facts\">{facts}</dl>{assumptions}\
         </article>",
        name = run.name(),
        tag = if run.is_steady() { "" } else { TRANSIENT },
    )
}
