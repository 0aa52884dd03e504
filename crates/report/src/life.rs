//! How long the drives last: the bar, the figures and what they rest on.

use thermocline_record::Life;

use crate::data::Run;
use crate::figure::{Chart, absent, figure, wide};
use crate::finding::TRANSIENT;
use crate::text::{UNKNOWN, endurance, escape, fullness, significant, years};

/// The section on lifetime.
pub(crate) fn section(runs: &[Run<'_>]) -> String {
    let rows = runs.iter().filter(|run| run.record.life.is_some()).count();
    let bar = if rows == 0 {
        absent("Lifetime under this load", "Unknown: no endurance is known for these devices.")
    } else {
        let height = 80 + 70 * u32::try_from(rows).unwrap_or(100).min(100);
        let caption = "Band: P10 to P90. Upright line: median. \u{25c6} end of the maker's \
            warranty. \u{25b2} when the maker's rated \
                       bytes (TBW) are used up at this load.";
        figure(Chart { name: "life", record: None, height }, "Lifetime under this load", caption)
    };
    let entries: String = runs.iter().map(entry).collect();
    format!(
        "<section id=\"life\"><h2>Lifetime</h2><div class=\"figures\">{}</div><div \
         class=\"cards\">{entries}</div></section>",
        wide(&bar)
    )
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

/// One stack: verdict, figures, assumptions.
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
        "<article class=\"card\"><h3>{name} {tag}</h3><p class=\"verdict\">{verdict}</p><dl \
         class=\"facts\">{facts}</dl>{assumptions}\
         </article>",
        name = run.name(),
        tag = if run.is_steady() { "" } else { TRANSIENT },
        verdict = escape(&life.verdict),
    )
}
