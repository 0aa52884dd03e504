//! The counters of one drive over time.
//!
//! Invariant: an interval in which a counter fell adds nothing to any rate, and is told.

use super::day::{YEAR, date};
use super::rows::FleetRow;

/// Hours of a year.
const YEAR_HOURS: f64 = 365.25 * 24.0;
/// Shortest history with a rate of its own, in years. Chosen: below, a counter of whole percent tells nothing.
const SHORTEST: f64 = 21.0 / 365.25;
/// Length of a step whose rates are compared, in years. Chosen: longer than the rhythm of a week.
const STEP: f64 = 28.0 / 365.25;
/// Percent of endurance by which a counter may fall without a new drive. Chosen: firmware may round anew.
const ROUNDED: f64 = 1.0;

/// The counter of bytes by which wear is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Counted {
    /// Bytes written to the media.
    Media,
    /// Bytes of hosts; their WAF is part of the wear of a byte.
    Host,
    /// Percent only.
    Nothing,
}

/// What was counted between the first and the last row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Span {
    /// Years with power.
    pub years: f64,
    /// Bytes of [`History::counted`].
    pub bytes: f64,
    /// Percent of the endurance.
    pub used: f64,
    /// Bytes of hosts and of the media, where both were counted.
    pub both: [f64; 2],
    /// Bytes a year in steps of a month.
    pub steps: Vec<f64>,
}

/// A drive, by its rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct History {
    /// The latest row.
    pub last: FleetRow,
    pub counted: Counted,
    /// Bytes of the whole life; `None`: not counted, or counted anew since.
    pub life_bytes: Option<f64>,
    /// Years with power.
    pub age: Option<f64>,
    /// Calendar years per year with power.
    pub calendar: f64,
    /// Rows from which rates are.
    pub rows: usize,
    /// `None`: too short.
    pub span: Option<Span>,
    /// What happened to its counters, a sentence each.
    pub notes: Vec<String>,
}

impl History {
    /// Of all rows of one serial number, in any order, at least one.
    pub(crate) fn of(mut rows: Vec<FleetRow>) -> History {
        rows.sort_by(|one, other| one.time.total_cmp(&other.time));
        rows.dedup_by(|later, row| (later.time - row.time).abs() < 1.0);
        let mut notes = Vec::new();
        let rows = since_replaced(rows, &mut notes);
        let last = rows.last().expect("a drive has a row").clone();
        let counted = match (last.media_bytes, last.host_bytes) {
            (Some(_), _) => Counted::Media,
            (None, Some(_)) => Counted::Host,
            _ => Counted::Nothing,
        };
        let (span, fell) = span(&rows, counted, &mut notes);
        let age = last.power_on_hours.map(|hours| hours / YEAR_HOURS);
        let calendar =
            rows[0].power_on_hours.zip(last.power_on_hours).map_or(1.0, |(first, hours)| {
                let powered = (hours - first) / YEAR_HOURS;
                let passed = (last.time - rows[0].time) / YEAR;
                if powered > SHORTEST { (passed / powered).clamp(1.0, 20.0) } else { 1.0 }
            });
        let life_bytes = bytes(&last, counted).filter(|_| !fell);
        let span = (span.years >= SHORTEST).then_some(span);
        History { counted, life_bytes, age, calendar, rows: rows.len(), span, notes, last }
    }
}

fn bytes(row: &FleetRow, counted: Counted) -> Option<f64> {
    match counted {
        Counted::Media => row.media_bytes,
        Counted::Host => row.host_bytes,
        Counted::Nothing => None,
    }
}

/// Rows since hours or wear last fell: those before are of another drive.
fn since_replaced(mut rows: Vec<FleetRow>, notes: &mut Vec<String>) -> Vec<FleetRow> {
    let fell = |pair: &[FleetRow]| {
        let less = |of: fn(&FleetRow) -> Option<f64>, by: f64| {
            of(&pair[0]).zip(of(&pair[1])).is_some_and(|(before, after)| after < before - by)
        };
        less(|row| row.power_on_hours, 1.0) || less(|row| row.used_percent, ROUNDED)
    };
    let Some(at) = rows.windows(2).rposition(fell) else { return rows };
    let row = &rows[at + 1];
    notes.push(format!(
        "{}: hours or used endurance fell before {}: the {} earlier rows are of a drive that was replaced, and are \
         left out",
        row.serial,
        date(row.time),
        at + 1
    ));
    rows.split_off(at + 1)
}

/// What was counted, and whether the counter of bytes fell.
fn span(rows: &[FleetRow], counted: Counted, notes: &mut Vec<String>) -> (Span, bool) {
    let (mut all, mut fell) = (Span::default(), false);
    let (mut step_years, mut step_bytes) = (0.0, 0.0);
    for pair in rows.windows(2) {
        let (row, next) = (&pair[0], &pair[1]);
        let grown =
            |of: &dyn Fn(&FleetRow) -> Option<f64>| of(row).zip(of(next)).map(|(a, b)| b - a);
        let hours = grown(&|row| row.power_on_hours).map(|hours| hours / YEAR_HOURS);
        let years = hours.unwrap_or((next.time - row.time) / YEAR);
        let more = grown(&|row| bytes(row, counted));
        if more.is_some_and(|more| more < 0.0) {
            fell = true;
            notes.push(format!(
                "{}: its counter of bytes fell before {}: that interval is left out",
                next.serial,
                date(next.time)
            ));
            continue;
        }
        if counted != Counted::Nothing && more.is_none() {
            continue;
        }
        let more = more.unwrap_or(0.0);
        all.years += years;
        all.bytes += more;
        all.used += grown(&|row| row.used_percent).unwrap_or(0.0);
        let [host, media] = [grown(&|row| row.host_bytes), grown(&|row| row.media_bytes)];
        if let Some((host, media)) = host.zip(media).filter(|(host, _)| *host >= 0.0) {
            all.both = [all.both[0] + host, all.both[1] + media];
        }
        (step_years, step_bytes) = (step_years + years, step_bytes + more);
        if step_years >= STEP {
            all.steps.push(step_bytes / step_years);
            (step_years, step_bytes) = (0.0, 0.0);
        }
    }
    (all, fell)
}

#[cfg(test)]
mod tests {
    use super::super::day::DAY;
    use super::*;

    fn years(days: f64) -> f64 {
        days * DAY / YEAR
    }

    fn row(day: u32, host: f64, used: f64) -> FleetRow {
        FleetRow {
            serial: "S".to_owned(),
            model: "M".to_owned(),
            time: f64::from(day) * DAY,
            host_bytes: Some(host),
            used_percent: Some(used),
            power_on_hours: Some(f64::from(day) * 24.0),
            ..FleetRow::default()
        }
    }

    #[test]
    fn rates_are_of_the_time_between_rows_in_any_order() {
        let days = [80, 0, 40, 40, 120];
        let drive = History::of(days.map(|day| row(day, f64::from(day) * 10.0, 1.0)).to_vec());
        let span = drive.span.unwrap();
        assert!((span.years - years(120.0)).abs() < 1e-9 && (span.bytes - 1200.0).abs() < 1e-9);
        assert_eq!((drive.rows, span.steps.len(), drive.counted), (4, 3, Counted::Host));
        assert_eq!(drive.life_bytes, Some(1200.0));
    }

    #[test]
    fn a_counter_of_bytes_that_falls_loses_its_interval_only() {
        let rows = vec![
            row(0, 900.0, 5.0),
            row(40, 1000.0, 5.0),
            row(80, 10.0, 6.0),
            row(120, 110.0, 6.0),
        ];
        let drive = History::of(rows);
        let span = drive.span.unwrap();
        assert!((span.years - years(80.0)).abs() < 1e-9 && (span.bytes - 200.0).abs() < 1e-9);
        assert_eq!((drive.life_bytes, drive.notes.len()), (None, 1), "{:?}", drive.notes);
    }

    #[test]
    fn rows_before_a_replacement_are_left_out() {
        let mut rows = vec![row(900, 9e5, 80.0), row(940, 9.5e5, 84.0)];
        for day in [0, 40, 80] {
            let fresh = row(day, f64::from(day), 0.0);
            rows.push(FleetRow { time: f64::from(day + 980) * DAY, ..fresh });
        }
        let drive = History::of(rows);
        assert_eq!((drive.rows, drive.life_bytes), (3, Some(80.0)));
        assert!(drive.notes[0].contains("2 earlier rows"), "{:?}", drive.notes);
    }
}
