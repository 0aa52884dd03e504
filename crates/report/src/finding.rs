//! Findings, one sentence per stack.

use crate::data::Run;
use crate::text::{escape, fullness, ratio, significant, years};

/// The tag beside every ratio taken before steady state.
pub(crate) const TRANSIENT: &str = "<span class=\"tag warn\">transient</span>";

/// The findings section: a card per stack, and the comparison in a sentence.
pub(crate) fn section(runs: &[Run<'_>]) -> String {
    let cards: String = runs.iter().map(card).collect();
    let comparison =
        comparison(runs).map_or_else(String::new, |text| format!("<p class=\"lead\">{text}</p>"));
    format!(
        "<section id=\"findings\"><h2>Findings</h2>{comparison}<div \
         class=\"cards\">{cards}</div></section>"
    )
}

/// One stack: its name, its two big numbers, the sentence, the verdict.
fn card(run: &Run<'_>) -> String {
    let r = run.record;
    let tag = match (r.host_bytes_written, run.is_steady()) {
        (0, _) => "",
        (_, true) => "<span class=\"tag\">steady</span>",
        (_, false) => TRANSIENT,
    };
    let life = r
        .life
        .as_ref()
        .map_or_else(|| "unknown".to_owned(), |life| format!("{} years", years(life.years_p50)));
    let verdict = r.life.as_ref().map_or_else(String::new, |life| {
        format!("<p class=\"verdict\"><b>Verdict</b> {}</p>", escape(&life.verdict))
    });
    let mut warnings = String::new();
    if r.wear.end_of_life {
        warnings += "<p class=\"alarm\">The drive ran out of spare units during this run and \
            turned read-only.</p>";
    }
    for note in &r.notes {
        warnings += &format!("<p class=\"note\">{}</p>", escape(note));
    }
    format!(
        "<article class=\"card\"><h3>{name} {tag}</h3><p class=\"device\">{title}</p>\
         <dl class=\"big\"><div><dt>WAF</dt><dd>{waf}</dd></div><div><dt>Life, \
         median</dt><dd>{life}</dd></div></dl>\
         <p>{sentence}</p>{verdict}{warnings}</article>",
        name = run.name(),
        title = escape(&r.device.title),
        waf = ratio(run.ratios().waf),
        sentence = sentence(run),
    )
}

/// What a run found, in a sentence built from its numbers.
fn sentence(run: &Run<'_>) -> String {
    let r = run.record;
    let fills = significant(r.steady_state.drive_fills);
    let writes = match (r.host_bytes_written, run.ratios().waf) {
        (0, _) => {
            return "The host wrote nothing, so there is no write amplification to speak of."
                .to_owned();
        }
        (_, None) => "Its write amplification is unknown".to_owned(),
        (_, Some(waf)) if run.is_steady() => {
            format!("Writes {} bytes to its media per host byte once steady", significant(waf))
        }
        (_, Some(waf)) => format!(
            "Wrote {} bytes to its media per host byte so far, and was <strong>not yet \
             steady</strong> after {fills} \
             drive fills",
            significant(waf)
        ),
    };
    let Some(life) = &r.life else {
        return format!("{writes}. How long it lasts is unknown.");
    };
    let full = life
        .product_utilisation
        .map_or_else(String::new, |share| format!(", with the product {} full,", fullness(share)));
    format!(
        "{writes}. At {} drive writes per day{full} it lasts {} years (P10\u{2013}P90: {}\u{2013}{}).",
        significant(life.drive_writes_per_day),
        years(life.years_p50),
        years(life.years_p10),
        years(life.years_p90),
    )
}

/// Lowest against highest WAF, where there are two that differ.
fn comparison(runs: &[Run<'_>]) -> Option<String> {
    let with_waf = || {
        let finite = |run| Some((run, Run::ratios(run).waf.filter(|waf| waf.is_finite())?));
        runs.iter().filter_map(finite)
    };
    let (best, low) = with_waf().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let (worst, high) = with_waf().max_by(|a, b| a.1.total_cmp(&b.1))?;
    if low <= 0.0 || high / low < 1.005 {
        return None;
    }
    let caution = if with_waf().all(|(run, _)| run.is_steady()) {
        ""
    } else {
        " Some of these runs were not yet steady: longer runs may change the order."
    };
    Some(format!(
        "<b>{}</b> writes least: {} media bytes per host byte. <b>{}</b> writes most, {}; that is \
         {} times as much.{caution}",
        escape(&best.label),
        significant(low),
        escape(&worst.label),
        significant(high),
        significant(high / low),
    ))
}
