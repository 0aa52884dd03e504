//! Which drives of a fleet wear out before their service ends, from their counters.
//!
//! Rows of counters ([`FleetRows`]) become histories of drives. Drives of a class share the trend of their load; each
//! has a rate of wear of its own, which wanders. Futures are drawn from that ([`assess`]). [`generate`] makes a fleet
//! by another model, whose future is known, so that answers can be graded ([`grade`]).
//!
//! Invariants:
//! * A drive is worn out when its counter of used endurance reaches 100 %.
//! * Every drive is in [`FleetAnswer::drives`] or, with a reason, in [`FleetAnswer::unsaid`].
//! * Equal rows and questions give equal answers.

mod answer;
mod day;
mod forecast;
mod generate;
mod grade;
mod habits;
mod history;
mod json;
mod mend;
mod rows;

use std::collections::BTreeMap;

pub use answer::{
    FleetAnswer, FleetClass, FleetDates, FleetDrive, FleetMend, FleetPoint, FleetRange, UnsaidDrive,
};
pub use day::date;
pub use generate::{FleetTruth, Generated, TruthClass, TruthDrive, generate};
pub use grade::{ClassGrade, Grade, grade};
pub use mend::{ClassTrial, NARROW, TriedMend, trial};
pub use rows::{COLUMNS, FleetRow, FleetRows, RefusedRow};

use day::YEAR;
use forecast::{Drawn, Future, Runner, STEP, draw, reaches};
use habits::{Habit, Roles, Wearing, habits, roles, wearing};
use history::{Counted, History};

/// Length of a service unless it is told, years. Chosen: the usual warranty.
pub const SERVICE_YEARS: f64 = 5.0;
/// Days without a row after which a drive may be gone. Chosen.
const SILENT: f64 = 30.0;
/// Shortest horizon of a forecast, years; it is also that of drives past their service. Chosen.
const HORIZON: f64 = 0.5;

/// The question to a fleet.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetQuestion {
    /// Length of a service, years of power-on hours, where rows do not have its end.
    pub service_years: f64,
    /// What a drive costs.
    pub price: Option<f64>,
    /// Simulations of traces, at most one a class.
    pub trials: Vec<ClassTrial>,
}

impl Default for FleetQuestion {
    fn default() -> FleetQuestion {
        FleetQuestion { service_years: SERVICE_YEARS, price: None, trials: Vec::new() }
    }
}

/// A drive, its wear and its future.
struct Foreseen {
    history: History,
    wear: Wearing,
    future: Future,
    /// Years with power until its service ends.
    left: f64,
}

/// Everything known before futures are drawn.
struct Fleet {
    /// Names of classes.
    classes: Vec<String>,
    habits: Vec<Habit>,
    roles: Roles,
    drives: Vec<Foreseen>,
    unsaid: Vec<UnsaidDrive>,
    notes: Vec<String>,
    /// Time of the last row.
    now: f64,
    is_classed: bool,
}

/// Says which drives of `rows` wear out before their service ends.
///
/// # Errors
/// The reason, if there is no row, or a trial is of a class that no drive has.
pub fn assess(rows: &FleetRows, question: &FleetQuestion) -> Result<FleetAnswer, String> {
    if rows.rows.is_empty() {
        return Err(match &rows.refused[..] {
            [] => "there is no row".to_owned(),
            [RefusedRow { file, line, reason }, ..] => format!(
                "no row could be read, and {} were refused, the first in {file}, line {line}: {reason}",
                rows.refused.len()
            ),
        });
    }
    let fleet = Fleet::of(rows, question.service_years);
    if let Some(one) = question.trials.iter().find(|one| !fleet.classes.contains(&one.class)) {
        let classes = fleet.classes.join(", ");
        return Err(format!("no drive is of class {}; classes are {classes}", one.class));
    }
    let runners: Vec<Runner> = fleet.drives.iter().map(Foreseen::runner).collect();
    let longest = runners.iter().map(|one| one.left).fold(HORIZON, f64::max).min(10.0);
    let drawn = draw(
        &runners,
        &fleet.roles,
        &vec![1.0; fleet.classes.len()],
        (longest / STEP).ceil() as usize,
    );
    Ok(fleet.answer(rows, &drawn, question))
}

impl Fleet {
    fn of(rows: &FleetRows, service_years: f64) -> Fleet {
        let mut by_serial: BTreeMap<&str, Vec<FleetRow>> = BTreeMap::new();
        for row in &rows.rows {
            by_serial.entry(&row.serial).or_default().push(row.clone());
        }
        let histories: Vec<History> = by_serial.into_values().map(History::of).collect();
        let now = histories.iter().map(|one| one.last.time).fold(0.0, f64::max);
        let is_classed = histories.iter().any(|one| one.last.class.is_some());
        let name = |one: &History| match &one.last.class {
            Some(class) => class.clone(),
            None if is_classed => "without a class".to_owned(),
            None => one.last.model.clone(),
        };
        let mut classes: Vec<String> = histories.iter().map(name).collect();
        let of_each = classes.clone();
        classes.sort();
        classes.dedup();
        let index = |name: &String| classes.binary_search(name).expect("it is of a drive");
        let of_each: Vec<usize> = of_each.iter().map(index).collect();
        let mut notes = rows.notes.clone();
        notes.extend(histories.iter().flat_map(|one| one.notes.clone()));
        let (mut known, mut unsaid) = (Vec::new(), Vec::new());
        for (history, wear) in histories.iter().zip(wearing(&histories, &of_each)) {
            match wear {
                _ if now - history.last.time > SILENT * day::DAY => {
                    let reason =
                        format!("its last row is of {}: it may be gone", date(history.last.time));
                    unsaid.push(unsaid_drive(history, reason));
                }
                Ok(wear) => known.push((history.clone(), wear)),
                Err(reason) => unsaid.push(unsaid_drive(history, reason)),
            }
        }
        let wears: Vec<Wearing> = known.iter().map(|one| one.1.clone()).collect();
        let habits = habits(&wears, classes.len());
        let roles = roles(&wears, &habits);
        let mut drives = Vec::new();
        for (history, wear) in known {
            let left = service_left(&history, service_years);
            match Future::of(&wear, &habits[wear.class], left.max(HORIZON)) {
                Some(future) => drives.push(Foreseen { history, wear, future, left }),
                None => {
                    let reason = "it is too young for a rate of its own, and so is its class";
                    unsaid.push(unsaid_drive(&history, reason.to_owned()));
                }
            }
        }
        Fleet { classes, habits, roles, drives, unsaid, notes, now, is_classed }
    }

    fn answer(self, rows: &FleetRows, drawn: &Drawn, question: &FleetQuestion) -> FleetAnswer {
        let service_years = question.service_years;
        let at_risk = self.drives.iter().filter(|one| one.left > 0.0).count();
        let sum: Vec<u32> = (0..forecast::DRAWS)
            .map(|at| drawn.by_class.iter().map(|class| class[at]).sum())
            .collect();
        let worn_out = range(&sum);
        let point = |(step, counts): (usize, &Vec<u32>)| FleetPoint {
            years: step as f64 * STEP,
            date: date(self.now + step as f64 * STEP * YEAR),
            worn_out: range(counts),
        };
        let mut classes: Vec<FleetClass> = self
            .classes
            .iter()
            .enumerate()
            .map(|(index, name)| self.class(index, name, range(&drawn.by_class[index]), question))
            .collect();
        classes.sort_by(|a, b| b.worn_out.likely.total_cmp(&a.worn_out.likely));
        let mut drives: Vec<FleetDrive> = self.drives.iter().map(|one| one.drive(&self)).collect();
        drives.sort_by(|a, b| {
            let date = |one: &FleetDrive| one.worn_out.likely.clone().unwrap_or("~".to_owned());
            b.probability.total_cmp(&a.probability).then_with(|| date(a).cmp(&date(b)))
        });
        FleetAnswer {
            schema: "thermocline.fleet/1",
            answer: headline(&worn_out, at_risk, &classes, &drives),
            date: date(self.now),
            service_years,
            worn_out,
            curve: drawn.by_step.iter().enumerate().map(point).collect(),
            assumptions: self.assumptions(service_years),
            classes,
            drives,
            unsaid: self.unsaid,
            refused: rows.refused.clone(),
            notes: self.notes,
        }
    }

    fn class(
        &self,
        index: usize,
        name: &str,
        worn_out: FleetRange,
        question: &FleetQuestion,
    ) -> FleetClass {
        let trial = question.trials.iter().find(|one| one.class == name).cloned();
        let own: Vec<&Foreseen> =
            self.drives.iter().filter(|one| one.wear.class == index).collect();
        let in_service = |one: &&&Foreseen| one.left > 0.0;
        let first = own
            .iter()
            .filter(in_service)
            .filter_map(|one| one.time_of(0.5, self))
            .min_by(f64::total_cmp);
        let (waf, waf_drives) = waf_of(&own);
        let writes: Vec<f64> = own.iter().filter_map(|one| one.writes_per_day()).collect();
        let habit = &self.habits[index];
        let mut class = FleetClass {
            name: name.to_owned(),
            drives: own.len(),
            with_history: own.iter().filter(|one| one.history.span.is_some()).count(),
            past_service: own.iter().filter(|one| one.left <= 0.0).count(),
            worn_already: own.iter().filter(in_service).filter(|one| one.wear.worn >= 1.0).count(),
            worn_out,
            first: first.map(date),
            waf,
            waf_drives,
            writes_per_day: (!writes.is_empty())
                .then(|| writes.iter().sum::<f64>() / writes.len() as f64),
            trend_per_year: habit.trend.exp_m1(),
            why: Vec::new(),
            mends: trial
                .as_ref()
                .map_or_else(Vec::new, |trial| self.mends(index, trial, question.price)),
            trial,
        };
        class.why = why(&class, habit);
        class
    }

    /// The options of `trial`, with the drives of the class that they save.
    fn mends(&self, class: usize, trial: &ClassTrial, price: Option<f64>) -> Vec<FleetMend> {
        let own = self.drives.iter().filter(|one| one.wear.class == class);
        let own: Vec<Runner> = own.map(|one| Runner { class: 0, ..one.runner() }).collect();
        let with = |factor: f64| range(&draw(&own, &self.roles, &[factor], 1).by_class[0]);
        let without = with(1.0);
        let mend = |tried: &TriedMend| {
            let worn_out = tried.factor.map(|factor| with(factor.likely.max(1e-3)));
            let saved = worn_out.map(|worn_out| without.likely - worn_out.likely);
            FleetMend {
                option: tried.option.clone(),
                factor: tried.factor,
                worn_out,
                saves: saved.zip(price).map(|(saved, price)| saved * price),
                reason: tried.reason.clone(),
            }
        };
        let mut all: Vec<FleetMend> = trial.options.iter().map(mend).collect();
        let worn_out =
            |one: &FleetMend| one.worn_out.map_or(f64::INFINITY, |worn_out| worn_out.likely);
        all.sort_by(|one, other| worn_out(one).total_cmp(&worn_out(other)));
        all
    }

    fn assumptions(&self, service_years: f64) -> Vec<String> {
        let mut all = vec![
            "a drive is worn out when its counter of used endurance reaches 100 %: that is its rating, no failure"
                .to_owned(),
            format!("a service ends after {service_years} years of power-on hours, or at service_end of a row"),
            "half of a class's trend goes on; one deviation reaches from none to all of it".to_owned(),
        ];
        if !self.is_classed {
            all.push("rows have no class: drives of a model are a class".to_owned());
        }
        if self.habits.iter().all(|habit| habit.compared == 0) {
            all.push(format!(
                "no drive has a history: the intervals rest on an assumed deviation of {:.0} % of the rate of wear in \
                 a year",
                100.0 * habits::ASSUMED[0].sqrt()
            ));
        }
        all
    }
}

impl Foreseen {
    fn runner(&self) -> Runner {
        let rest = 1.0 - self.wear.worn;
        Runner { class: self.wear.class, future: self.future, rest, left: self.left }
    }

    /// When it is worn out with probability `share`, in seconds since 1970; `None`: not within a hundred years.
    fn time_of(&self, share: f64, fleet: &Fleet) -> Option<f64> {
        let habit = &fleet.habits[self.wear.class];
        // The further away an end is, the less is known of it.
        let worn_by = |years: f64| {
            let future =
                Future::of(&self.wear, habit, years.clamp(HORIZON, 10.0)).unwrap_or(self.future);
            future.probability(1.0 - self.wear.worn, years, &fleet.roles)
        };
        let years = reaches(share, 100.0, worn_by)?;
        Some(self.history.last.time + years * self.history.calendar * YEAR)
    }

    /// Endurance used at the end of its service, in percent: of the share `share` of futures below.
    fn at_end(&self, share: f64, roles: &Roles) -> f64 {
        let below = |gain: f64| 1.0 - self.future.probability(gain, self.left, roles);
        let gain = if self.left > 0.0 { reaches(share, 20.0, below).unwrap_or(20.0) } else { 0.0 };
        100.0 * (self.wear.worn + gain)
    }

    /// Bytes of hosts and media in its history or, without one, in its life; and the years of that.
    fn written(&self) -> (Option<[f64; 2]>, f64) {
        let span = self.history.span.as_ref().filter(|span| span.both[0] > 0.0);
        if let Some(span) = span {
            return (Some(span.both), span.years);
        }
        let last = &self.history.last;
        let whole = self.history.life_bytes.and(last.host_bytes.zip(last.media_bytes));
        (whole.filter(|both| both.0 > 0.0).map(|(host, media)| [host, media]), self.wear.age)
    }

    fn writes_per_day(&self) -> Option<f64> {
        let host = match self.written() {
            (Some([host, _]), years) => host / years,
            _ => match (self.history.counted, &self.history.span, self.history.life_bytes) {
                (Counted::Host, Some(span), _) => span.bytes / span.years,
                (Counted::Host, None, Some(bytes)) => bytes / self.wear.age,
                _ => return None,
            },
        };
        Some(host / 365.25 / self.history.last.capacity_bytes?)
    }

    fn drive(&self, fleet: &Fleet) -> FleetDrive {
        let Foreseen { history, wear, future, left } = self;
        let [low, likely, high] = future.rates();
        let rest = 1.0 - wear.worn;
        let last = &history.last;
        FleetDrive {
            serial: last.serial.clone(),
            host: last.host.clone(),
            model: last.model.clone(),
            class: fleet.classes[wear.class].clone(),
            used_percent: last.used_percent.unwrap_or(100.0 * wear.worn),
            age_years: wear.age,
            service_left_years: *left,
            history_days: wear.span * 365.25,
            percent_per_year: FleetRange {
                low: 100.0 * low,
                likely: 100.0 * likely,
                high: 100.0 * high,
            },
            used_at_end_percent: FleetRange {
                low: self.at_end(0.05, &fleet.roles),
                likely: self.at_end(0.5, &fleet.roles),
                high: self.at_end(0.95, &fleet.roles),
            },
            worn_out: FleetDates {
                early: self.time_of(0.05, fleet).map(date),
                likely: self.time_of(0.5, fleet).map(date),
                late: self.time_of(0.95, fleet).map(date),
            },
            probability: if *left > 0.0 {
                future.probability(rest, *left, &fleet.roles)
            } else {
                0.0
            },
            waf: self.written().0.map(|[host, media]| media / host),
            writes_per_day: self.writes_per_day(),
        }
    }
}

fn unsaid_drive(history: &History, reason: String) -> UnsaidDrive {
    let FleetRow { serial, host, .. } = &history.last;
    UnsaidDrive { serial: serial.clone(), host: host.clone(), reason }
}

fn service_left(history: &History, service_years: f64) -> f64 {
    let last = &history.last;
    let left = match (last.service_end, history.age) {
        (Some(end), _) => (end - last.time) / YEAR / history.calendar,
        (None, age) => service_years - age.unwrap_or(0.0),
    };
    left.max(0.0)
}

/// Mean, and the ends of the inner 90 %.
fn range(counts: &[u32]) -> FleetRange {
    let mut sorted = counts.to_vec();
    sorted.sort_unstable();
    let at = |share: f64| f64::from(sorted[((sorted.len() - 1) as f64 * share).round() as usize]);
    let mean = counts.iter().map(|count| f64::from(*count)).sum::<f64>() / counts.len() as f64;
    FleetRange { low: at(0.05), likely: mean, high: at(0.95) }
}

/// Bytes of the media over bytes of hosts of drives with both, with the interval of a ratio of sums; and the number of
/// those drives.
fn waf_of(drives: &[&Foreseen]) -> (Option<FleetRange>, usize) {
    let with_history =
        drives.iter().any(|one| one.history.span.as_ref().is_some_and(|s| s.both[0] > 0.0));
    let is_used = |one: &&&Foreseen| !with_history || one.history.span.is_some();
    let all: Vec<[f64; 2]> =
        drives.iter().filter(is_used).filter_map(|one| one.written().0).collect();
    let count = all.len() as f64;
    let [host, media] = all.iter().fold([0.0, 0.0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    if host <= 0.0 {
        return (None, 0);
    }
    let likely = media / host;
    let squares: f64 = all.iter().map(|[host, media]| (media - likely * host).powi(2)).sum();
    // Of a single drive, nothing is known about the others.
    let error =
        if all.len() < 2 { likely } else { (squares * count / (count - 1.0)).sqrt() / host };
    let low = (likely - forecast::ENDS * error).max(0.0);
    (Some(FleetRange { low, likely, high: likely + forecast::ENDS * error }), all.len())
}

fn why(class: &FleetClass, habit: &Habit) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(writes) = class.writes_per_day {
        all.push(format!("hosts write {writes:.2} capacities a day"));
    }
    all.push(match &class.waf {
        Some(FleetRange { low, likely, high }) => format!(
            "the drives write {likely:.2} ({low:.2} to {high:.2}) bytes for each, by the counters of {} drives",
            class.waf_drives
        ),
        None => "its drives do not count media bytes: their WAF is unknown, and is part of the wear of a host's byte"
            .to_owned(),
    });
    all.push(match habit.compared {
        0 => "no history says whether its load grows".to_owned(),
        compared => format!(
            "its wear changes by {:+.0} % a year, by {compared} histories",
            100.0 * class.trend_per_year
        ),
    });
    all.extend(class.trial.as_ref().map_or_else(without_trace, of_trial));
    all.extend(class.trial.as_ref().and(best(class)));
    all
}

fn without_trace() -> Vec<String> {
    vec!["what would mend it cannot be said without a trace of its hosts".to_owned()]
}

/// What simulations of its traces say of a class.
fn of_trial(trial: &ClassTrial) -> Vec<String> {
    let ClassTrial {
        device, waf: FleetRange { low, likely, high }, causes, traces, is_narrow, ..
    } = trial;
    let causes: Vec<String> =
        causes.iter().map(|(cause, part)| format!("{part:.2} of {cause}")).collect();
    let causes = if causes.is_empty() {
        "nothing beyond the hosts' bytes".to_owned()
    } else {
        causes.join(", ")
    };
    let [done, given] = traces;
    let enough = match (is_narrow, done) {
        (true, _) => {
            format!("the interval is within {:.0} % after {done} of {given} traces", 100.0 * NARROW)
        }
        (false, 1) => "of one trace, so nothing is known of other hosts".to_owned(),
        (false, _) => {
            format!(
                "all {given} traces were simulated, and the interval is wider than {:.0} %",
                100.0 * NARROW
            )
        }
    };
    vec![format!(
        "on a simulated {device}, its traces have a WAF of {likely:.2} ({low:.2} to {high:.2}): {causes}; {enough}"
    )]
}

/// The option that saves most drives, in a sentence.
fn best(class: &FleetClass) -> Option<String> {
    let known = class.mends.iter().find_map(|one| Some((one, one.factor?, one.worn_out?)));
    let (mend, factor, worn_out) = known?;
    if factor.likely > 0.98 {
        return Some("no option lowers its wear".to_owned());
    }
    let saved = mend.saves.map_or_else(String::new, |saves| format!(", which saves {saves:.0}"));
    Some(format!(
        "of the options, {} helps most: {:.0} % of the wear, and {:.0} ({:.0} to {:.0}) drives wear out{saved}",
        mend.option,
        100.0 * factor.likely,
        worn_out.likely,
        worn_out.low,
        worn_out.high
    ))
}

fn headline(
    worn_out: &FleetRange,
    at_risk: usize,
    classes: &[FleetClass],
    drives: &[FleetDrive],
) -> String {
    let FleetRange { low, likely, high } = worn_out;
    if at_risk == 0 {
        return "No drive is in service: nothing can wear out before its service ends.".to_owned();
    }
    let mut text = format!(
        "{likely:.0} of {at_risk} drives in service ({low:.0} to {high:.0}) will wear out before their service ends"
    );
    if *likely < 0.5 {
        return text + ".";
    }
    if let Some(class) = classes.first().filter(|_| classes.len() > 1) {
        text += &format!(", {:.0} of them of class {}", class.worn_out.likely, class.name);
    }
    let already: usize = classes.iter().map(|class| class.worn_already).sum();
    if already > 0 {
        text += &format!("; {already} are worn out already");
    }
    let next = drives.iter().find(|drive| drive.used_percent < 100.0 && drive.probability > 0.5);
    if let Some((drive, date)) =
        next.and_then(|drive| Some((drive, drive.worn_out.likely.as_ref()?)))
    {
        text += &format!(
            "; the most certain of the others is {} on {}, about {date}",
            drive.serial, drive.host
        );
    }
    text + "."
}

#[cfg(test)]
mod tests;
