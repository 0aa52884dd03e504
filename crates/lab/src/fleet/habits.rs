//! What drives of a class have in common: wear of a byte, the trend of their load, and how far a drive strays.
//!
//! Rates of wear are handled as logarithms. The rate of a drive wanders: over `t` years its variance grows by
//! `walk * t`, and the mean over `t` years has a third of that. Rates of a class have a trend in common.

use std::collections::BTreeMap;

use super::history::{Counted, History, Span};

/// Half of the percent in which drives count: wear is within that of the counter plus that.
const HALF: f64 = 0.5;
/// Deviation of a uniform error of a percent, as a share of the endurance.
pub(crate) const ROUNDING: f64 = 0.01 * 0.2887;
/// Percent from which a drive tells the wear of a byte. Chosen: its rounding is below a tenth.
const TELLING: f64 = 3.0;
/// Least relative deviation of the wear of a byte between drives of a model. Chosen.
const ALIKE: f64 = 0.03;
/// Relative deviation of the wear of a host's byte from that of the drive's whole life. Chosen: WAF moves with the
/// space in use.
const HOST_BYTE: f64 = 0.1;
/// Drives of which the whole fleet's walk counts in a class. Chosen.
const WALKERS: f64 = 10.0;
/// Change of a rate's logarithm beyond which a host has another role: threefold or a third. Chosen.
const STRANGE: f64 = 1.1;
/// Share of strange changes that are seen. Chosen.
const SEEN: f64 = 0.25;
/// Roles that change a year where no drive has a history. Chosen.
const ASSUMED_ROLES: f64 = 0.02;

/// Assumed where no drive has a history: walk of a year, and deviation of the trend. Chosen.
pub(crate) const ASSUMED: [f64; 2] = [0.1, 0.15];
/// Bounds of the walk. Chosen.
const WALKS: (f64, f64) = (0.01, 1.0);
/// Least deviation of trends between classes, a year. Chosen.
const TRENDS: f64 = 0.03;

/// A logarithm with its variance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    pub ln: f64,
    pub variance: f64,
}

/// Wear of a drive so far, as shares of its endurance and per year with power.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wearing {
    pub class: usize,
    /// 1 is the rated endurance.
    pub worn: f64,
    pub worn_error: f64,
    /// Years with power, and those of the history.
    pub age: f64,
    pub span: f64,
    /// Rate in the history; `None`: it has none.
    pub recent: Option<Measured>,
    /// Variance of that from one month to another.
    pub unrest: f64,
    /// Rate before the history, or in the whole life; `None`: too short.
    pub before: Option<Measured>,
}

/// What the drives of a class have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Habit {
    /// Change of the rate's logarithm a year, with its deviation.
    pub trend: f64,
    pub trend_error: f64,
    /// Deviation of trends between classes.
    pub trends: f64,
    /// Growth of the variance a year.
    pub walk: f64,
    /// Rates of the class today; `None`: too few.
    pub level: Option<Measured>,
    /// Variance of the mean of a history that its drives may have in common: seasons.
    pub seasons: f64,
    /// Drives whose history and life before it are compared.
    pub compared: usize,
}

/// Hosts that get another role: their rate is that of any drive of the fleet then.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Roles {
    /// Changes a year, and the deviation of its logarithm.
    pub a_year: f64,
    pub error: f64,
    /// Rates of the fleet, in order.
    pub rates: Vec<f64>,
}

/// Wear of a byte, as a share of the endurance, with its relative deviation.
#[derive(Clone, Copy, Debug)]
struct WearOfByte {
    value: f64,
    deviation: f64,
}

/// Wear of all drives; an error says why a drive's is unknown. `classes` has the class of each.
pub(crate) fn wearing(drives: &[History], classes: &[usize]) -> Vec<Result<Wearing, String>> {
    let mut groups: BTreeMap<Alike<'_>, Vec<(f64, f64)>> = BTreeMap::new();
    for (drive, class) in drives.iter().zip(classes) {
        let used = drive.last.used_percent.filter(|used| (TELLING..255.0).contains(used));
        if let Some((used, bytes)) = used.zip(drive.life_bytes.filter(|bytes| *bytes > 0.0)) {
            let of = group(drive, *class);
            groups.entry(of).or_default().push(((used + HALF) / 100.0, bytes));
        }
    }
    let of_bytes: BTreeMap<_, WearOfByte> =
        groups.iter().map(|(key, all)| (*key, wear_of_byte(all))).collect();
    let wear = |(drive, class): (&History, &usize)| {
        wear_of(drive, *class, of_bytes.get(&group(drive, *class)).copied())
    };
    drives.iter().zip(classes).map(wear).collect()
}

/// Drives whose bytes wear alike: of a model, and of a class where the WAF is not counted.
type Alike<'a> = (&'a str, Counted, Option<usize>);

fn group(drive: &History, class: usize) -> Alike<'_> {
    (&drive.last.model, drive.counted, (drive.counted == Counted::Host).then_some(class))
}

fn wear_of_byte(all: &[(f64, f64)]) -> WearOfByte {
    let [used, bytes] = all.iter().fold([0.0, 0.0], |sum, one| [sum[0] + one.0, sum[1] + one.1]);
    let value = used / bytes;
    let square = |(used, bytes): &(f64, f64)| {
        let rounding = ROUNDING / used;
        ((used / bytes / value).ln().powi(2) - rounding * rounding).max(0.0)
    };
    // Of one or two drives, nothing is known about others.
    let unknown = if all.len() < 3 { 0.3 } else { 0.0 };
    let deviation = (all.iter().map(square).sum::<f64>() / all.len() as f64).sqrt();
    WearOfByte { value, deviation: deviation.max(ALIKE).max(unknown) }
}

/// The mean of values by their precision, with its variance.
pub(crate) fn weighted(all: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let [sum, weight] = all.fold([0.0, 0.0], |at, (value, variance)| {
        [at[0] + value / variance, at[1] + 1.0 / variance]
    });
    (sum / weight, 1.0 / weight)
}

fn wear_of(drive: &History, class: usize, of_byte: Option<WearOfByte>) -> Result<Wearing, String> {
    let used = drive.last.used_percent.ok_or("its rows have no used_percent")?;
    let age = drive.age.ok_or("its rows have no power_on_hours")?;
    if age <= 0.0 {
        return Err("it has no hours with power yet".to_owned());
    }
    let counter = ((used + HALF) / 100.0, ROUNDING * ROUNDING);
    let by_bytes = drive.life_bytes.zip(of_byte).map(|(bytes, of_byte)| {
        let worn = bytes * of_byte.value;
        (worn, (worn * of_byte.deviation).powi(2).max(1e-12))
    });
    let (worn, variance) = weighted(by_bytes.into_iter().chain([counter]));
    // At 100 % the counter decides.
    let worn = if used >= 100.0 { worn.max(used / 100.0) } else { worn.clamp(1e-6, 1.0) };
    let own = drive.life_bytes.filter(|bytes| *bytes > 0.0).map(|bytes| worn / bytes);
    let gained = drive.span.as_ref().and_then(|span| gained(drive, span, own, of_byte));
    let relative = variance / (worn * worn);
    let unrest = drive.span.as_ref().map_or(0.0, |span| unrest(&span.steps));
    let span = drive.span.as_ref().filter(|_| gained.is_some()).map_or(0.0, |span| span.years);
    let recent = gained.map(|(gain, noise)| Measured { ln: (gain / span).ln(), variance: noise });
    let (gain, noise) = gained.map_or((0.0, 0.0), |(gain, noise)| (gain, noise * gain * gain));
    let (earlier, lived) = (worn - gain, age - span);
    let error = (variance + noise).sqrt();
    let is_known = lived > 0.1 && (span == 0.0 || earlier > 2.0 * error);
    let before = is_known.then(|| Measured {
        ln: (earlier.max(1e-6) / lived).ln(),
        variance: if span == 0.0 { relative } else { (error / earlier).powi(2) },
    });
    Ok(Wearing { class, worn, worn_error: variance.sqrt(), age, span, recent, unrest, before })
}

/// Wear in the history, with the variance of its logarithm: from bytes, from the counter of percent, or both.
fn gained(
    drive: &History,
    span: &Span,
    own: Option<f64>,
    of_byte: Option<WearOfByte>,
) -> Option<(f64, f64)> {
    let value = own.or(of_byte.map(|of_byte| of_byte.value));
    let deviation = if drive.counted == Counted::Host { HOST_BYTE } else { ALIKE };
    let bytes = value.map(|value| value * span.bytes).filter(|gain| *gain > 0.0);
    let by_bytes = bytes.map(|gain| (gain, (gain * deviation).powi(2)));
    // A difference of two rounded numbers.
    let by_counter = (span.used / 100.0, 2.0 * ROUNDING * ROUNDING);
    let (gain, variance) = weighted(by_bytes.into_iter().chain([by_counter]));
    if gain <= 0.0 || variance.sqrt() > gain {
        return None;
    }
    Some((gain, variance / (gain * gain) + unrest(&span.steps)))
}

/// Variance of the logarithm of a mean of monthly rates. Neighbours are alike, so that half of them count.
fn unrest(steps: &[f64]) -> f64 {
    let count = steps.len() as f64;
    let mean = steps.iter().sum::<f64>() / count.max(1.0);
    if steps.len() < 3 || mean <= 0.0 {
        return 0.03;
    }
    let variance =
        steps.iter().map(|rate| (rate / mean - 1.0).powi(2)).sum::<f64>() / (count - 1.0);
    variance / (count / 2.0)
}

/// A drive whose history is compared with its life before: change of the logarithm, years between the middles of the
/// two, and variance of the measurement.
struct Change {
    change: f64,
    lag: f64,
    noise: f64,
}

fn change(drive: &Wearing) -> Option<Change> {
    let (recent, before) = drive.recent.zip(drive.before)?;
    let change = recent.ln - before.ln;
    // Unrest is of the load, not of the measurement.
    let noise = recent.variance - drive.unrest + before.variance;
    Some(Change { change, lag: drive.age / 2.0, noise })
}

/// Trend, and its deviation if at least three drives tell it.
fn slope(all: &[Change]) -> Option<(f64, f64)> {
    let squares: f64 = all.iter().map(|one| one.lag * one.lag).sum();
    let trend = all.iter().map(|one| one.change * one.lag).sum::<f64>() / squares;
    let rest: f64 = all.iter().map(|one| (one.change - trend * one.lag).powi(2)).sum();
    (all.len() >= 3).then(|| (trend, (rest / (all.len() - 1) as f64 / squares).sqrt().max(1e-3)))
}

/// Sum of squares beyond the noise, and the years in which they grew. The means before and after the seam have a
/// third of their lengths each, which is a third of the age.
fn strays(all: &[Change], trend: f64) -> [f64; 2] {
    all.iter().fold([0.0, 0.0], |sum, one| {
        let square = (one.change - trend * one.lag).powi(2);
        [sum[0] + (square - one.noise).max(0.0), sum[1] + 2.0 * one.lag / 3.0]
    })
}

/// The habits of `count` classes.
pub(crate) fn habits(drives: &[Wearing], count: usize) -> Vec<Habit> {
    let mut changes: Vec<Vec<Change>> = (0..count).map(|_| Vec::new()).collect();
    let mut seasons: Vec<[f64; 2]> = vec![[0.0; 2]; count];
    for drive in drives {
        changes[drive.class].extend(change(drive).filter(|one| one.change.abs() < STRANGE));
        if drive.recent.is_some() {
            let [sum, number] = seasons[drive.class];
            seasons[drive.class] = [sum + drive.unrest, number + 1.0];
        }
    }
    let slopes: Vec<Option<(f64, f64)>> = changes.iter().map(|all| slope(all)).collect();
    let known: Vec<(f64, f64)> = slopes.iter().flatten().copied().collect();
    let is_known = !known.is_empty();
    let mean = known.iter().map(|one| one.0).sum::<f64>() / known.len().max(1) as f64;
    let square = |one: &(f64, f64)| (one.0 - mean).powi(2) - one.1 * one.1;
    let between = known.iter().map(square).sum::<f64>() / (known.len().max(2) - 1) as f64;
    let trends = if is_known { between.max(0.0).sqrt().max(TRENDS) } else { ASSUMED[1] };
    let of_class = |class: usize| {
        let own = slopes[class].map(|(trend, error)| (trend, error * error));
        weighted(own.into_iter().chain([(mean, trends * trends)]))
    };
    let all = (0..count).map(|class| strays(&changes[class], of_class(class).0));
    let all: Vec<[f64; 2]> = all.collect();
    let [squares, years] =
        all.iter().fold([0.0, 0.0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    let walk = if is_known { (squares / years).clamp(WALKS.0, WALKS.1) } else { ASSUMED[0] };
    let habit = |class: usize| {
        let (trend, variance) = of_class(class);
        let compared = changes[class].len();
        let share = compared as f64 / (compared as f64 + WALKERS);
        let own = if all[class][1] > 0.0 { all[class][0] / all[class][1] } else { walk };
        let walk = (share * own.clamp(WALKS.0, WALKS.1) + (1.0 - share) * walk).max(WALKS.0);
        Habit {
            trend,
            trend_error: variance.sqrt(),
            trends,
            walk,
            level: None,
            seasons: seasons[class][0] / seasons[class][1].max(1.0),
            compared,
        }
    };
    let habits: Vec<Habit> = (0..count).map(habit).collect();
    let with_level = |(class, habit): (usize, &Habit)| {
        let own = drives.iter().filter(|drive| drive.class == class);
        Habit { level: level_of(own, habit), ..*habit }
    };
    habits.iter().enumerate().map(with_level).collect()
}

/// How often hosts change their role, and the rates that they may get.
pub(crate) fn roles(drives: &[Wearing], habits: &[Habit]) -> Roles {
    let changes: Vec<Change> = drives.iter().filter_map(change).collect();
    // A change in the midst of what is compared is not seen.
    let years: f64 = changes.iter().map(|one| one.lag * SEEN).sum();
    let level = |one: &Wearing| Some(one.level(&habits[one.class])?.0.ln.exp());
    let mut rates: Vec<f64> = drives.iter().filter_map(level).collect();
    rates.sort_by(f64::total_cmp);
    let strange = changes.iter().filter(|one| one.change.abs() >= STRANGE).count() as f64;
    // None seen is no proof: the assumption counts as one more.
    let seen = (strange + 1.0) / (years * visible(&rates) + 1.0 / ASSUMED_ROLES);
    Roles { a_year: seen, error: (strange + 1.0).sqrt().recip(), rates }
}

/// Share of changes from a rate to another that are strange.
fn visible(rates: &[f64]) -> f64 {
    let few: Vec<f64> = rates.iter().step_by(rates.len() / 50 + 1).copied().collect();
    let is_strange = |one: f64, other: f64| (one / other).ln().abs() >= STRANGE;
    let count =
        few.iter().flat_map(|one| few.iter().filter(|other| is_strange(*one, **other))).count();
    (count as f64 / (few.len() * few.len()).max(1) as f64).max(0.2)
}

/// Rates of a class: their mean, and their variance beyond that of their measurement.
fn level_of<'a>(drives: impl Iterator<Item = &'a Wearing>, habit: &Habit) -> Option<Measured> {
    let all: Vec<Measured> =
        drives.filter_map(|drive| drive.level(habit).map(|one| one.0)).collect();
    if all.len() < 3 {
        return None;
    }
    let count = all.len() as f64;
    let (ln, _) = weighted(all.iter().map(|one| (one.ln, one.variance + 0.1)));
    let square = |one: &Measured| (one.ln - ln).powi(2) - one.variance;
    let variance = all.iter().map(square).sum::<f64>() / (count - 1.0);
    Some(Measured { ln, variance: variance.max(0.02) })
}

impl Wearing {
    /// Its rate today, and how many years ago the middle of what it is from was; `None`: it has no rate of its own.
    pub(crate) fn level(&self, habit: &Habit) -> Option<(Measured, f64)> {
        let ago = |rate: Measured, middle: f64, walked: f64| {
            let ln = rate.ln + habit.trend * middle;
            ((ln, rate.variance + habit.walk * walked), middle)
        };
        let recent = self.recent.map(|rate| ago(rate, self.span / 2.0, self.span / 3.0));
        let lived = self.age - self.span;
        let before = self
            .before
            .map(|rate| ago(rate, f64::midpoint(self.age, self.span), self.span + lived / 3.0));
        if recent.is_none() && before.is_none() {
            return None;
        }
        let both = || recent.into_iter().chain(before);
        let (ln, variance) = weighted(both().map(|one| one.0));
        let middle = both().map(|((_, own), middle)| middle * variance / own).sum();
        Some((Measured { ln, variance }, middle))
    }
}
