//! What to make of costs, in a sentence.

use super::StackCost;

/// Costs that differ by less than this share count as equal. Chosen, not measured: prices are no more accurate.
const SAME: f64 = 0.05;
/// A stack is reported as cheapest from this share of the trials on. Chosen.
const SURE: f64 = 0.8;

/// The finding on `costs` over `years`, of which the first is what the others are held against.
pub fn verdict(costs: &[StackCost], years: f64) -> String {
    let mut ranked: Vec<&StackCost> = costs.iter().collect();
    ranked.sort_by(|a, b| a.usd.p50.total_cmp(&b.usd.p50));
    let (best, first) = (ranked[0], &costs[0]);
    let Some(second) = ranked.get(1) else {
        return format!("{} costs {}{}", best.stack, over(best, years), worn(&[best], years));
    };
    let close = second.usd.p50 <= best.usd.p50 * (1.0 + SAME);
    if close || best.cheapest_share < SURE {
        return format!(
            "nothing to choose by cost between {} ({}) and {} ({}): the first is cheaper in {:.0} % of the trials{}",
            best.stack,
            usd(best.usd.p50),
            second.stack,
            usd(second.usd.p50),
            100.0 * best.cheapest_share / (best.cheapest_share + second.cheapest_share).max(1e-9),
            worn(&[best, second], years)
        );
    }
    let other = if first.stack == best.stack { second } else { first };
    format!(
        "{} costs least: {}, {:.0} % less than {}, and least of all in {:.0} % of the trials; most of that is {}{}",
        best.stack,
        over(best, years),
        100.0 * (1.0 - best.usd.p50 / other.usd.p50),
        other.stack,
        100.0 * best.cheapest_share,
        largest_saving(best, other),
        worn(&[best, other], years)
    )
}

fn over(cost: &StackCost, years: f64) -> String {
    format!(
        "{} ({} - {}) over {years} years",
        usd(cost.usd.p50),
        usd(cost.usd.p10),
        usd(cost.usd.p90)
    )
}

/// The part of the bill in which `best` saves most against `other`.
fn largest_saving(best: &StackCost, other: &StackCost) -> String {
    let parts = best.bill.parts().into_iter().zip(other.bill.parts());
    let saved = parts.map(|((name, ours), (_, theirs))| (name, theirs - ours));
    let most = saved.max_by(|a, b| a.1.total_cmp(&b.1));
    let (name, saved) = most.expect("a bill has parts");
    format!("{name} ({})", usd(saved))
}

/// Which drives are worn out before the years are over.
fn worn(costs: &[&StackCost], years: f64) -> String {
    let drives = costs.iter().flat_map(|cost| cost.fleet.drives.iter().map(move |d| (cost, d)));
    let short: Vec<String> = drives
        .filter_map(|(cost, drive)| {
            let life = drive.life_years.filter(|life| *life < years)?;
            Some(format!("{} of {} after {life:.1} years", drive.profile, cost.stack))
        })
        .collect();
    match (short.is_empty(), costs.len()) {
        (true, 1) => format!("; its drives are not worn out in {years} years"),
        (true, _) => "; wear does not decide: no drive of either is worn out by then".into(),
        (false, _) => format!("; worn out before: {}", short.join(", ")),
    }
}

/// An amount in dollars with three significant digits.
pub fn usd(amount: f64) -> String {
    match amount.abs() {
        size if size >= 1e6 => format!("{:.2} M USD", amount / 1e6),
        size if size >= 1e5 => format!("{:.0} k USD", amount / 1e3),
        size if size >= 1e3 => format!("{:.1} k USD", amount / 1e3),
        _ => format!("{amount:.0} USD"),
    }
}
