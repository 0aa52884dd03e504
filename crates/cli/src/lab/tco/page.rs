//! Costs of stacks, as tables and as a page.

use thermocline_lab::tco::{Band, Demand, Prices, StackCost, bills, usd};
use thermocline_record::plot::{Plot, PlotAxis, PlotLine};
use thermocline_report::{PlotPage, TextTable, render_plots};
use thermocline_types::Bytes;

use super::Found;
use crate::table::draw;

/// Number of most important inputs shown for each stack.
const SHOWN: usize = 5;
/// Points of a chart across.
const POINTS: i32 = 24;

/// The tables, the verdict and the inputs, for the terminal.
pub fn text(found: &Found<'_>) -> String {
    let mut text = format!("{}\n{}\n\n", found.asked.title, demand(found));
    for table in tables(found) {
        text += &format!("{}\n{}\n\n", table.title, draw(&table.heads, &table.rows));
    }
    text += &format!("{}\n", conclusion(found));
    for note in notes(found) {
        text += &format!("  {note}\n");
    }
    text
}

/// The comparison as an HTML page with charts.
///
/// # Errors
/// When a drive has no price.
pub fn html(found: &Found<'_>, trials: u32, seed: u64) -> anyhow::Result<String> {
    let mut notes = notes(found);
    notes.push(format!("{trials} trials from seed {seed}"));
    let source = found.asked.prices.source.iter();
    for record in found.records {
        notes.extend(record.notes.iter().map(|note| format!("{}: {note}", record.stack)));
    }
    notes.extend(source.map(|(key, source)| format!("price file, {key}: {source}")));
    let introduction = format!("{}. {}.", demand(found), conclusion(found));
    Ok(render_plots(&PlotPage {
        title: found.asked.title.clone(),
        introduction,
        plots: vec![over_years(found)?, by_load(found)?],
        tables: tables(found),
        notes,
        ..PlotPage::default()
    }))
}

/// The verdict, and which input flips it.
fn conclusion(found: &Found<'_>) -> String {
    let flip = found.comparison.flip.as_ref().map(|flip| format!(". {}", flip.sentence()));
    format!("{}{}", found.comparison.verdict, flip.unwrap_or_default())
}

fn demand(found: &Found<'_>) -> String {
    let Demand { data_bytes, daily_write_bytes, .. } = found.comparison.demand;
    let tb = |bytes: f64| format!("{} TB", significant(bytes / 1e12));
    format!(
        "{} stored, {} written a day, {} years; measured with {}",
        tb(data_bytes),
        tb(daily_write_bytes),
        found.comparison.years,
        found.workload()
    )
}

fn tables(found: &Found<'_>) -> Vec<TextTable> {
    let costs = &found.comparison.costs;
    let stacks = || costs.iter().map(|cost| cost.stack.clone());
    let heads: Vec<String> = std::iter::once(String::new()).chain(stacks()).collect();
    let row = |name: &str, cell: &dyn Fn(&StackCost) -> String| -> Vec<String> {
        std::iter::once(name.to_owned()).chain(costs.iter().map(cell)).collect()
    };
    let mut plan = vec![row("drives", &drives), row("needed for", &|cost| cost.fleet.limit.into())];
    plan.push(row("worn out after, years", &lives));
    let measured = |cell: &dyn Fn(usize) -> String| (0..costs.len()).map(cell).collect::<Vec<_>>();
    let waf = measured(&|index| {
        let record = &found.records[index];
        let mark = if record.steady_state.reached { "" } else { "~" };
        record.lasting.waf.map_or("-".into(), |waf| format!("{mark}{waf:.2}"))
    });
    let rate = measured(&|index| {
        let rate = found.measured[index].write_bytes_per_second;
        rate.map_or("-".into(), |rate| format!("{} MB/s", significant(rate / 1e6)))
    });
    plan.insert(0, std::iter::once("WAF".to_owned()).chain(waf).collect());
    plan.insert(1, std::iter::once("writes that a drive reached".to_owned()).chain(rate).collect());
    plan.push(row("servers", &|cost| format!("{}", cost.fleet.servers)));
    plan.push(row("racks", &|cost| format!("{:.2}", cost.fleet.racks)));
    plan.push(row("power", &|cost| format!("{} W", significant(cost.fleet.watts))));
    plan.push(row("TB a rack unit", &|cost| significant(cost.fleet.tb_per_rack_unit)));
    let mut money: Vec<Vec<String>> = Vec::new();
    for part in 0..5 {
        let name = costs[0].bill.parts()[part].0;
        money.push(row(name, &|cost| usd(cost.bill.parts()[part].1)));
    }
    let total = |cost: &StackCost| band(cost.usd, &usd);
    money.push(row("total, P50 (P10 - P90)", &total));
    money.push(row("USD for a TB and year", &|cost| significant(cost.usd_per_tb_year)));
    money.push(row("cheapest in", &|cost| format!("{:.0} %", 100.0 * cost.cheapest_share)));
    let tens = |unit: &'static str, by: f64| {
        move |value: f64| format!("{} {unit}", significant(value / by))
    };
    money.push(row("drives bought", &|cost| band(cost.drives_bought, &significant)));
    money.push(row("energy", &|cost| band(cost.kwh, &tens("MWh", 1e3))));
    money.push(row("carbon", &|cost| band(cost.kg_co2e, &tens("t CO2e", 1e3))));
    let title = |title: &str| title.to_owned();
    let table = |name: &str, rows| TextTable {
        title: title(name),
        heads: heads.clone(),
        rows,
        ..TextTable::default()
    };
    let mut all = vec![table("What it takes", plan), table("What it costs", money)];
    all.push(sensitivity(costs));
    let published = found.published();
    if !published.is_empty() {
        let heads = ["published ratio", "theirs", "ours"].map(str::to_owned).to_vec();
        let rows = published
            .into_iter()
            .map(|ratio| vec![ratio.what, significant(ratio.theirs), significant(ratio.ours)]);
        let rows = rows.collect();
        all.push(TextTable {
            title: title("Theirs and ours"),
            heads,
            rows,
            ..TextTable::default()
        });
    }
    all
}

/// The most important inputs of each stack.
fn sensitivity(costs: &[StackCost]) -> TextTable {
    let heads = ["what matters", "at its P10", "at its P90"].map(str::to_owned).to_vec();
    let rows = costs.iter().flat_map(|cost| {
        cost.sensitivity.iter().take(SHOWN).map(move |input| {
            let name = format!("{}: {}", cost.stack, input.input.replace('_', " "));
            vec![name, usd(input.usd_at_p10), usd(input.usd_at_p90)]
        })
    });
    let title = "The total when one input is at its 10th and 90th percentile".to_owned();
    TextTable { title, heads, rows: rows.collect(), ..TextTable::default() }
}

fn notes(found: &Found<'_>) -> Vec<String> {
    let mut notes: Vec<String> = found.asked.source.iter().cloned().collect();
    if found.asked.source.is_some() && found.asked.theirs.is_empty() {
        notes.push("of the document we hold no value to stand beside ours".into());
    }
    for (record, cost) in found.records.iter().zip(&found.comparison.costs) {
        let (simulated, full) = (record.device.capacity_bytes, record.device.utilisation);
        notes.push(format!(
            "{}: {}, {} simulated at {}, {:.0} % full{}",
            cost.stack,
            record.stack,
            record.device.title,
            Bytes(simulated),
            100.0 * full.unwrap_or(1.0),
            if record.steady_state.reached { "" } else { "; ~ is transient" }
        ));
    }
    for cost in &found.comparison.costs {
        let ageless = cost.fleet.drives.iter().filter(|drives| drives.life_years.is_none());
        notes.extend(ageless.map(|drives| {
            format!("{}: {} does not wear, or its endurance is unknown", cost.stack, drives.profile)
        }));
    }
    notes.push(
        "prices and powers: `thermocline lab tco --print-prices` has the source of each; no interest, no work of people"
            .into(),
    );
    notes
}

fn drives(cost: &StackCost) -> String {
    let each = cost.fleet.drives.iter().map(|d| format!("{} {}", d.count, d.profile));
    each.collect::<Vec<_>>().join(" + ")
}

fn lives(cost: &StackCost) -> String {
    let each = cost.fleet.drives.iter().map(|drives| match drives.life_years {
        Some(years) if years < 1000.0 => significant(years),
        Some(_) => "over 1000".into(),
        None => "-".into(),
    });
    each.collect::<Vec<_>>().join(" + ")
}

fn band(band: Band, show: &dyn Fn(f64) -> String) -> String {
    format!("{} ({} - {})", show(band.p50), show(band.p10), show(band.p90))
}

/// A number with three significant digits.
fn significant(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.2e}"),
    }
}

/// Costs by years of service, with all inputs at their medians.
fn over_years(found: &Found<'_>) -> anyhow::Result<Plot> {
    let prices = &found.asked.prices;
    let longest = 2.0 * prices.service.years;
    let at = |step: i32| {
        let years = longest * f64::from(step) / f64::from(POINTS);
        let service = thermocline_lab::tco::prices::Service { years, ..prices.service };
        (years, Prices { service, ..prices.clone() }, found.comparison.demand)
    };
    Ok(Plot {
        title: "Cost by years of service".into(),
        caption: "All inputs at their medians; it rises faster once drives are worn out.".into(),
        x: PlotAxis::linear("years"),
        y: PlotAxis::linear("US dollars"),
        lines: lines(found, &at)?,
    })
}

/// Costs by daily writes, from an eighth to eight times the demand.
fn by_load(found: &Found<'_>) -> anyhow::Result<Plot> {
    let demand = found.comparison.demand;
    let at = |step: i32| {
        let factor = 8_f64.powf(2.0 * f64::from(step) / f64::from(POINTS) - 1.0);
        let daily_write_bytes = demand.daily_write_bytes * factor;
        let of = |peak: Option<f64>| peak.map(|peak| peak * factor);
        let demand = Demand {
            daily_write_bytes,
            peak_write_bytes_per_second: of(demand.peak_write_bytes_per_second),
            peak_requests_per_second: of(demand.peak_requests_per_second),
            ..demand
        };
        (daily_write_bytes / 1e12, found.asked.prices.clone(), demand)
    };
    Ok(Plot {
        title: "Cost by what is written a day".into(),
        caption: "All inputs at their medians; the peak grows with the load. Where lines cross, the cheapest changes."
            .into(),
        x: PlotAxis::logarithmic("TB written a day"),
        y: PlotAxis::logarithmic("US dollars"),
        lines: lines(found, &at)?,
    })
}

/// One line for each stack through the values of `at` at each step.
fn lines(
    found: &Found<'_>,
    at: &dyn Fn(i32) -> (f64, Prices, Demand),
) -> anyhow::Result<Vec<PlotLine>> {
    let mut lines: Vec<PlotLine> =
        found.comparison.costs.iter().map(|cost| PlotLine::ours(&cost.stack, vec![])).collect();
    for step in 1..=POINTS {
        let (x, prices, demand) = at(step);
        for (line, bill) in lines.iter_mut().zip(bills(&prices, &demand, found.measured)?) {
            line.points.push([x, bill.total()]);
        }
    }
    Ok(lines)
}
