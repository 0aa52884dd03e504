//! Findings, one sentence per stack.

use crate::data::Run;
use crate::life::rated_years;
use crate::text::{endurance, escape, fullness, ratio, significant, years};

/// The tag beside every ratio taken before steady state.
pub(crate) const TRANSIENT: &str = "<span class=\"tag warn\">transient</span>";

/// How well a drive fits a load.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    /// The drive outlasts the warranty within the rating.
    Good,
    /// The rating is unknown, or only the median drive outlasts the warranty.
    Unsure,
    /// The drive wears out, or the rating is used up, within the warranty.
    Bad,
}

impl Severity {
    /// Class in the style, icon and word.
    fn look(self) -> [&'static str; 3] {
        match self {
            Severity::Good => ["good", "\u{2714}", "Fits"],
            Severity::Unsure => ["unsure", "\u{26a0}", "At risk"],
            Severity::Bad => ["bad", "\u{2716}", "Does not fit"],
        }
    }
}

/// The verdict on a run: how bad it is, and what to buy, as a sentence.
struct Verdict {
    severity: Severity,
    word: &'static str,
    sentence: String,
}

/// The verdict for a buyer of the drive: writes within the warranty against the rating.
fn verdict(run: &Run<'_>) -> Verdict {
    let unknown = |sentence: &str| Verdict {
        severity: Severity::Unsure,
        word: "Unknown",
        sentence: sentence.to_owned(),
    };
    let Some(life) = &run.record.life else {
        return unknown(
            "No endurance is known for this device, so nothing can be said of its life.",
        );
    };
    let Some(warranty) = life.warranty_years.filter(|warranty| *warranty > 0.0) else {
        return unknown("Its maker states no warranty to compare its life with.");
    };
    let yearly =
        life.drive_writes_per_day * run.record.device.product_capacity_bytes as f64 * 365.0;
    let load = endurance(yearly * warranty);
    let used_up = rated_years(life).filter(|rated| *rated < warranty && *rated <= life.years_p50);
    let severity = match used_up {
        Some(_) => Severity::Bad,
        None if life.years_p10 >= warranty => Severity::Good,
        None if life.years_p50 >= warranty => Severity::Unsure,
        None => Severity::Bad,
    };
    let rating = life.rated_tbw_bytes.map_or_else(
        || "its maker states no rating (TBW)".to_owned(),
        |rated| format!("it is rated for {} (TBW)", endurance(rated)),
    );
    let full = life.product_utilisation.map_or_else(
        || "This".to_owned(),
        |full| format!("The drive is {:.0} % full. This", 100.0 * full),
    );
    let facts = format!(
        "{full} load writes {load} in its warranty of {} years; {rating}, and its flash takes {} at this WAF.",
        years(warranty),
        endurance(life.tbw_bytes)
    );
    let advice = match severity {
        Severity::Good => " It fits this load.".to_owned(),
        Severity::Unsure => " Buy it with a reserve, or lower the write amplification.".to_owned(),
        Severity::Bad => {
            let enough = used_up.unwrap_or(life.years_p50).max(1e-6);
            let dwpd = significant(life.drive_writes_per_day);
            format!(
                " Buy a drive rated for {load} or more ({dwpd} drive writes per day of this capacity), or lower the wear \
                 {} times.",
                significant(warranty / enough)
            )
        }
    };
    Verdict { severity, word: severity.look()[2], sentence: facts + &advice }
}

/// The findings section: what to buy, a card per stack, and the comparison in a sentence.
pub(crate) fn section(runs: &[Run<'_>]) -> String {
    let cards: String = runs.iter().map(card).collect();
    let lead = [headline(runs), comparison(runs)].into_iter().flatten();
    let lead: String = lead.map(|text| format!("<p class=\"lead\">{text}</p>")).collect();
    format!(
        "<section id=\"findings\"><h2>Findings</h2>{lead}<div class=\"cards\">{cards}</div></section>"
    )
}

/// What to buy of several drives.
fn headline(runs: &[Run<'_>]) -> Option<String> {
    if runs.len() < 2 || runs.iter().all(|run| run.record.life.is_none()) {
        return None;
    }
    let name = |run: &Run<'_>| format!("<b>{}</b>", escape(&run.label));
    let fitting: Vec<String> =
        runs.iter().filter(|run| verdict(run).severity == Severity::Good).map(name).collect();
    Some(match fitting.as_slice() {
        [] => "None of these drives is sure to last its warranty under this load.".to_owned(),
        all if all.len() == runs.len() => {
            "Each of these drives lasts its warranty under this load.".to_owned()
        }
        some => format!(
            "Of these drives, {} will last the warranty under this load.",
            some.join(" and ")
        ),
    })
}

/// One stack: name, two large figures, verdict, assumptions.
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
    let full = r.life.as_ref().and_then(|life| life.product_utilisation);
    let full = full.map_or_else(String::new, |share| format!(" at {} full", fullness(share)));
    let Verdict { severity, word, sentence: told } = verdict(run);
    let [class, icon, _] = severity.look();
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
         <p class=\"verdict {class}\"><b><span aria-hidden=\"true\">{icon}</span> {word}.</b> {told}</p>\
         <dl class=\"big\"><div><dt>Life{full}, median</dt><dd>{life}</dd></div>\
         <div><dt>WAF</dt><dd>{waf}</dd></div></dl>\
         <p>{sentence}</p>{warnings}</article>",
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
    let other = match full.is_empty() {
        true => "",
        false => " A run with another utilisation has other figures.",
    };
    format!(
        "{writes}. At {} drive writes per day{full} it lasts {} years (P10\u{2013}P90: {}\u{2013}{}).{other}",
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
