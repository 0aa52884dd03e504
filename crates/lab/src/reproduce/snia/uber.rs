//! Lost bits (UBER) where every unit has an age and wear of its own, beside the closed form for the whole drive.

use thermocline_record::RunRecord;
use thermocline_record::plot::{Plot, PlotAxis, PlotLine};
use thermocline_types::Bytes;
use thermocline_workload::synthetic::Limit;

use super::super::{Figure, FiguresDrawn, Options, part};
use super::PatternJob;
use crate::theory::integrity::{Use, outlook};
use crate::{Error, Stack};

const STACK: &str = "raw:p5316";
/// Capacity of the drive; `--quick` uses half.
const CAPACITY: Bytes = Bytes::mib(128);
/// Size of requests, the drive's mapping unit; and the share of reads.
const REQUEST: Bytes = Bytes::kib(64);
const READS: f64 = 0.5;
/// Share of resting data, and capacities written by the host per day: the rating of the P5316.
const RESTING: f64 = 0.5;
const DRIVE_WRITES: f64 = 0.41;
/// Length of a run in days.
const DAYS: f64 = 365.0;
/// Days until resting data is refreshed, and days of a patrol. Chosen: the age for which JESD218 states retention, and
/// a tenth.
const REFRESH_DAYS: f64 = 90.0;
const PATROL_DAYS: f64 = 9.0;
/// Shares of the rated cycles used up before the year.
const WEAR: [f64; 3] = [0.0, 0.5, 1.0];
/// Seconds of a day, and JESD218's temperature for resting data.
const DAY: f64 = 86_400.0;
const CELSIUS: f64 = 40.0;

/// Mechanisms that move resting data.
#[derive(Clone, Copy, PartialEq)]
enum Moved {
    /// Nothing.
    Never,
    /// Static wear levelling, with the spread of the profile.
    Levelled,
    /// Static wear levelling and refresh.
    Refreshed,
}

impl Moved {
    const ALL: [Moved; 3] = [Moved::Never, Moved::Levelled, Moved::Refreshed];

    fn name(self) -> &'static str {
        match self {
            Moved::Never => "rest never moved",
            Moved::Levelled => "wear levelled, never refreshed",
            Moved::Refreshed => "wear levelled, refreshed after 90 days",
        }
    }
}

/// A year of the drive.
#[derive(Clone, Copy)]
struct Case {
    capacity: Bytes,
    wear: f64,
    moved: Moved,
    days: f64,
    seed: u64,
}

impl Case {
    fn run(self, progress: &mut dyn FnMut(f64)) -> Result<RunRecord, Error> {
        let mut overrides = vec![
            format!("device.aged.wear={}", self.wear),
            format!("device.aged.celsius={CELSIUS}"),
            "device.aged.days=0".to_owned(),
            "device.aged.own_ages=true".to_owned(),
            "device.buffer.size=1MiB".to_owned(),
        ];
        if self.moved == Moved::Never {
            overrides.push(format!("device.wear.levelling_spread={}", u32::MAX));
        }
        if self.moved == Moved::Refreshed {
            overrides.extend([
                format!("device.refresh.after_days={REFRESH_DAYS}"),
                format!("device.refresh.patrol_days={PATROL_DAYS}"),
                "device.refresh.after_reads=1e12".to_owned(),
            ]);
        }
        let span = Bytes((self.capacity.as_f64() * (1.0 - RESTING)) as u64 / REQUEST.0 * REQUEST.0);
        let daily = DRIVE_WRITES / (1.0 - READS) * self.capacity.as_f64() / REQUEST.as_f64();
        PatternJob {
            overrides: &overrides,
            span,
            read_share: READS,
            at_rest: RESTING,
            rate: Some(daily / DAY),
            seed: self.seed,
            ..PatternJob::new(
                STACK,
                self.capacity,
                REQUEST,
                Limit::Requests((daily * self.days) as u64),
            )
        }
        .run(progress)
    }

    /// The closed form: all data read at ages spread evenly up to the oldest.
    fn closed_form(self) -> Result<f64, Error> {
        let days = if self.moved == Moved::Refreshed { REFRESH_DAYS } else { self.days };
        let mut profile = Stack::parse(STACK, &[])?.profile;
        if let Some(integrity) = &mut profile.integrity {
            integrity.upkeep.refresh_at = 0.0;
        }
        let usage = Use {
            celsius: CELSIUS,
            drive_reads_per_day: 0.0,
            drive_writes_per_day: DRIVE_WRITES,
            resting: RESTING,
            service_years: days / 365.0,
            ..Use::default()
        };
        Ok(outlook(&profile, &usage, self.wear).map_or(f64::NAN, |outlook| outlook.uber.assumed))
    }

    /// What the record of a run says, beside the power of ten of the closed form.
    fn figures(self, record: &RunRecord, form: f64) -> Vec<Figure> {
        let Some(reads) = record.read_attempts else { return Vec::new() };
        let (used, moved) = (100.0 * self.wear, self.moved.name());
        let what = |of: &str| format!("{used:.0} % of the cycles used up, {moved}: {of}");
        let of_data = format!("log10 UBER of all data after a year (closed form {form:.0})");
        let mut figures = Vec::new();
        if let Some(data) = reads.data {
            figures.extend([
                Figure::ours(what(&of_data), data.uber.log10()),
                Figure::ours(what("mean age of the data, days"), data.mean_days),
                Figure::ours(what("oldest data, days"), data.oldest_days),
            ]);
        }
        figures.extend(
            reads
                .uber
                .map(|uber| Figure::ours(what("log10 UBER of the host's reads"), uber.log10())),
        );
        figures
    }
}

/// UBER of the data at the end of a year, by what moves data at rest, at three points of the life.
pub fn uber(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<FiguresDrawn, Error> {
    let capacity = Bytes(CAPACITY.0 / if options.quick { 2 } else { 1 });
    let wears = if options.quick { &WEAR[1..2] } else { &WEAR };
    let (mut figures, mut lines) = (Vec::new(), Vec::new());
    for (index, moved) in Moved::ALL.into_iter().enumerate() {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for (step, &wear) in wears.iter().enumerate() {
            let case = Case { capacity, wear, moved, days: DAYS, seed: options.seed };
            let steps = wears.len() * Moved::ALL.len();
            let record = case.run(&mut part(progress, index * wears.len() + step, steps))?;
            let Some(data) = record.read_attempts.and_then(|reads| reads.data) else { continue };
            let form = case.closed_form()?.log10();
            figures.extend(case.figures(&record, form));
            ours.push([100.0 * wear, data.uber.log10()]);
            theirs.push([100.0 * wear, form]);
        }
        if moved != Moved::Levelled {
            lines.push(PlotLine::reference(&format!("closed form, {}", moved.name()), theirs));
        }
        lines.push(PlotLine::ours(moved.name(), ours));
    }
    Ok((figures, vec![drawn(lines)]))
}

/// The chart.
fn drawn(lines: Vec<PlotLine>) -> Plot {
    Plot {
        title: "Lost codewords for each bit read (UBER), after a year".into(),
        caption: "P5316, half of the data at rest, data at 40 °C; JESD218 asks for 10^-16 of drives of data centres. \
                  Bit error rates are assumed."
            .into(),
        x: PlotAxis::linear("rated cycles used up before, %"),
        y: PlotAxis::linear("UBER, power of ten"),
        lines,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn year(moved: Moved) -> (f64, thermocline_record::DataAges) {
        let case = Case { capacity: Bytes::mib(64), wear: 1.0, moved, days: DAYS, seed: 1 };
        let reads = case.run(&mut |_| {}).unwrap().read_attempts.unwrap();
        (reads.uber.unwrap(), reads.data.unwrap())
    }

    /// The half that rests is as old as the run, the other half as the time between two writes of it; the host reads
    /// the latter alone.
    #[test]
    fn data_at_rest_decides_what_is_lost_and_what_moves_it_keeps_it_young() {
        let (of_reads, left) = year(Moved::Never);
        assert!((left.oldest_days - DAYS).abs() < 1.0, "{left:?}");
        assert!((left.mean_days - 0.5 * DAYS).abs() < 0.03 * DAYS, "{left:?}");
        // Half of what the closed form has for data of that age, as half of it is as old.
        let integrity = Stack::parse(STACK, &[]).unwrap().profile.integrity.unwrap();
        let condition = thermocline_nand::integrity::Condition {
            wear: 1.0,
            age_days: DAYS,
            celsius: CELSIUS,
            reads: 0.0,
        };
        let half = 0.5 * integrity.outcome(&condition, 1.0).uber;
        assert!((left.uber / half - 1.0).abs() < 0.1, "{left:?}, not {half:e}");
        assert!(of_reads < 1e-3 * left.uber, "what is read is young: {of_reads:e}");

        let (_, levelled) = year(Moved::Levelled);
        assert!(levelled.oldest_days < 0.5 * DAYS, "{levelled:?}");
        assert!(levelled.uber < 0.1 * left.uber, "{levelled:?} and {left:?}");
        let (_, refreshed) = year(Moved::Refreshed);
        assert!(refreshed.oldest_days <= REFRESH_DAYS + PATROL_DAYS + 1.0, "{refreshed:?}");
        assert!(refreshed.uber < levelled.uber, "{refreshed:?} and {levelled:?}");
    }
}
