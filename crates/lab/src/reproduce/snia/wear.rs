//! Wear levelling, worn-out blocks and early failures: the spread of erases, the cost of levelling, and the life of the
//! drive.

use thermocline_nand::Cut;
use thermocline_nand::integrity::levelling::{Spread, wear_out};
use thermocline_record::RunRecord;
use thermocline_record::plot::{Plot, PlotAxis, PlotLine};
use thermocline_types::Bytes;
use thermocline_workload::synthetic::Limit;

use super::super::{Figure, FiguresDrawn, Options, part};
use super::PatternJob;
use crate::{Error, Stack};

const STACK: &str = "raw:pci-c";
/// Erases that a unit takes in the mean, in place of 100,000, so that a run reaches the end of life.
const CYCLES: f64 = 1000.0;
/// What a unit may lag behind before its data is moved, over the cycles. Chosen: the profile's 1 % is less than what
/// greedy cleaning makes of so few cycles without any data at rest.
const SPREAD: f64 = 0.02;
/// Drives, each with units of other endurance, of which the mean is taken.
const SEEDS: u64 = 4;
/// Share of units that fail early, the share of the cycles by which they fail, and spares. Chosen high enough to see
/// failures.
const INFANTS: f64 = 0.02;
const INFANT_CYCLES: f64 = 0.05;
const SPARES: f64 = 0.04;

/// Chance that a program fails, and spares for failed blocks. Chosen high enough to see failures.
const PROGRAM_FAILURES: f64 = 1e-5;
const SPARES_FOR_PROGRAMS: f64 = 0.2;

/// Where blocks are written.
#[derive(Clone, Copy)]
struct Place {
    name: &'static str,
    pattern: &'static str,
    at_rest: f64,
}

const PLACES: [Place; 4] = [
    Place { name: "uniform", pattern: "uniform", at_rest: 0.0 },
    Place { name: "Zipf 0.99", pattern: "zipf:0.99", at_rest: 0.0 },
    Place { name: "uniform, half at rest", pattern: "uniform", at_rest: 0.5 },
    Place { name: "80 % to 20 %, half at rest", pattern: "hotcold:20:80", at_rest: 0.5 },
];

/// Which levelling.
const LEVELLINGS: [(&str, bool); 2] = [("dynamic alone", false), ("dynamic and static", true)];

/// The drive, and how much smaller than the product's everything is.
#[derive(Clone, Copy)]
struct Scale {
    capacity: Bytes,
    cycles: f64,
    seeds: u64,
    seed: u64,
}

impl Scale {
    fn of(options: &Options) -> Scale {
        let (mib, cycles, seeds) =
            if options.quick { (16, 0.3 * CYCLES, 2) } else { (64, CYCLES, SEEDS) };
        Scale { capacity: Bytes::mib(mib), cycles, seeds, seed: options.seed }
    }

    /// Settings of a drive with or without static levelling.
    fn overrides(self, fixed: bool) -> Vec<String> {
        let spread = if fixed { (SPREAD * self.cycles).round() } else { f64::from(u32::MAX) };
        vec![
            format!("device.wear.pe_cycles={}", self.cycles),
            format!("device.wear.levelling_spread={spread}"),
        ]
    }

    /// Writes of 4 KiB until the drive is at the end of its life, or so many times its capacity.
    fn run(
        self,
        place: Place,
        overrides: &[String],
        drive_writes: f64,
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<RunRecord, Error> {
        let span = (self.capacity.as_f64() * (1.0 - place.at_rest)) as u64 / 4096 * 4096;
        let writes = (drive_writes * self.capacity.as_f64() / 4096.0) as u64;
        PatternJob {
            overrides,
            span: Bytes(span),
            pattern: place.pattern,
            at_rest: place.at_rest,
            seed: self.seed + seed,
            ..PatternJob::new(STACK, self.capacity, Bytes::kib(4), Limit::Writes(writes))
        }
        .run(progress)
    }

    /// As long as it lives, which is less than its cycles at a WAF of 1.
    fn to_the_end(
        self,
        place: Place,
        overrides: &[String],
        seed: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<RunRecord, Error> {
        self.run(place, overrides, 2.0 * self.cycles, seed, progress)
    }
}

/// Results of a drive's whole life; times are in capacities written by the host.
#[derive(Clone, Copy, Debug, Default)]
struct Lived {
    first_worn_out: f64,
    end: f64,
    waf: f64,
    /// Blocks for levelling for each of the host's.
    levelling: f64,
    /// MB/s written by the host, early and at last.
    rates: [f64; 2],
}

impl Lived {
    fn of(record: &RunRecord) -> Lived {
        let host = record.host_bytes_written as f64;
        let drive_writes = |bytes: f64| bytes / record.device.capacity_bytes as f64;
        let first = record.wear.first_worn_out_host_bytes.map_or(f64::NAN, |bytes| bytes as f64);
        Lived {
            first_worn_out: drive_writes(first - record.prefill_bytes_written as f64),
            end: drive_writes(host),
            waf: record.waf.unwrap_or(f64::NAN),
            levelling: by_cause(record, "wear_levelling"),
            rates: rates(record),
        }
    }

    fn mean(lives: &[Lived]) -> Lived {
        let of =
            |value: fn(&Lived) -> f64| lives.iter().map(value).sum::<f64>() / lives.len() as f64;
        Lived {
            first_worn_out: of(|life| life.first_worn_out),
            end: of(|life| life.end),
            waf: of(|life| life.waf),
            levelling: of(|life| life.levelling),
            rates: [of(|life| life.rates[0]), of(|life| life.rates[1])],
        }
    }
}

/// Blocks programmed for `cause` for each of the host's.
fn by_cause(record: &RunRecord, cause: &str) -> f64 {
    let bytes = record.media_bytes_written.by_cause.get(cause).copied().unwrap_or(0);
    bytes as f64 / record.host_bytes_written as f64
}

/// MB/s written by the host in the second tenth of a life, when nothing is worn out, and in the last twentieth.
fn rates(record: &RunRecord) -> [f64; 2] {
    let series = &record.series;
    let between = |from: f64, to: f64| {
        let [from, to] = [from, to].map(|share| (share * (series.len() - 1) as f64) as usize);
        let bytes: u64 = series[from + 1..=to].iter().map(|point| point.host_bytes_written).sum();
        bytes as f64 / 1e6 / (series[to].seconds - series[from].seconds)
    };
    if series.len() < 40 { [f64::NAN; 2] } else { [between(0.1, 0.2), between(0.95, 1.0)] }
}

/// Capacities that the host writes until the first unit is worn out by the closed form, at the write amplification
/// `waf`.
fn closed_form(scale: Scale, place: Place, fixed: bool, waf: f64) -> Result<f64, Error> {
    let profile = Stack::parse(STACK, &scale.overrides(fixed))?.profile;
    let media = 1.0 + profile.overprovisioning();
    let spread = if fixed {
        Spread::static_levelling(SPREAD * scale.cycles)
    } else {
        Spread::dynamic_only(place.at_rest / media)
    };
    let units = f64::from(Cut::new(&profile, Some(scale.capacity))?.shape.units());
    let out = wear_out(&profile.wear, units, spread).map_or(f64::NAN, |out| out.first_block);
    Ok(out * scale.cycles * media / waf)
}

/// How erases are spread under each levelling, what it costs, when the first unit is worn out, and when the drive is;
/// units that fail early.
pub fn wear(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<FiguresDrawn, Error> {
    let scale = Scale::of(options);
    let steps = PLACES.len() + 3;
    let (mut figures, mut plots) = (Vec::new(), Vec::new());
    let mut firsts = [Vec::new(), Vec::new()];
    for (index, place) in PLACES.into_iter().enumerate() {
        let mut progress = part(progress, index, steps);
        let mut lines = Vec::new();
        for (half, (name, fixed)) in LEVELLINGS.into_iter().enumerate() {
            let case = Case { scale, place, name, fixed };
            let mut progress = part(&mut progress, half, LEVELLINGS.len());
            let (life, line) = case.figures(&mut figures, &mut progress)?;
            firsts[half].push([index as f64 + 1.0, life.first_worn_out]);
            lines.push(line);
        }
        plots.push(distribution(place, lines));
    }
    plots.push(Plot {
        title: "Capacities written until the first unit is worn out".into(),
        caption: PLACES.map(|place| place.name).join("; ") + ", in this order.",
        x: PlotAxis::linear("workload"),
        y: PlotAxis::linear("capacities written by the host"),
        lines: LEVELLINGS
            .iter()
            .zip(firsts)
            .map(|((name, _), points)| PlotLine::ours(name, points))
            .collect(),
    });
    figures.extend(without_spread(scale, &mut part(progress, PLACES.len(), steps))?);
    figures.extend(infants(scale, &mut part(progress, PLACES.len() + 1, steps))?);
    figures.extend(failed_programs(scale, &mut part(progress, PLACES.len() + 2, steps))?);
    Ok((figures, plots))
}

/// Where erases lie under both levellings.
fn distribution(place: Place, lines: Vec<PlotLine>) -> Plot {
    Plot {
        title: format!("Erases of the units: {}", place.name),
        caption: "Percent of the units that have at most so many erases, over the mean, before any is worn out.".into(),
        x: PlotAxis::linear("percent of the units"),
        y: PlotAxis::linear("erases over the mean"),
        lines,
    }
}

/// A workload under a levelling.
#[derive(Clone, Copy)]
struct Case {
    scale: Scale,
    place: Place,
    name: &'static str,
    fixed: bool,
}

impl Case {
    /// Runs it: a stretch without end of life for the distribution and the cost, and whole lives.
    fn figures(
        self,
        figures: &mut Vec<Figure>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<(Lived, PlotLine), Error> {
        let Case { scale, place, name, fixed } = self;
        let steps = scale.seeds as usize + 1;
        let mut endless = scale.overrides(fixed);
        endless.push("device.wear.pe_cycles=1e8".into());
        // A tenth of what the cycles would allow at a WAF of 1: about a quarter of a life.
        let written = 0.1 * scale.cycles;
        let record = scale.run(place, &endless, written, 0, &mut part(progress, 0, steps))?;
        let what = |of: &str| format!("{}, {name}: {of}", place.name);
        let points = spread(&record);
        for (percent, over_mean) in &points {
            let what = what(&format!("erases of the unit at {percent} % of all, over the mean"));
            figures.push(Figure::ours(what, *over_mean));
        }
        for (of, cause) in [("relocation", "relocation"), ("levelling", "wear_levelling")] {
            let what = what(&format!("blocks for {of} for each of the host's"));
            figures.push(Figure::ours(what, by_cause(&record, cause)));
        }
        let overrides = scale.overrides(fixed);
        let mut lives = Vec::new();
        for seed in 0..scale.seeds {
            let mut progress = part(progress, seed as usize + 1, steps);
            lives.push(Lived::of(&scale.to_the_end(place, &overrides, seed, &mut progress)?));
        }
        let life = Lived::mean(&lives);
        let theirs = closed_form(scale, place, fixed, life.waf)?;
        let first = what("capacities written when the first unit is worn out");
        figures.push(Figure::beside(first, Some(theirs), life.first_worn_out));
        figures.push(Figure::ours(what("capacities written at the end of life"), life.end));
        figures.push(Figure::ours(what("WAF over the life"), life.waf));
        figures.push(Figure::ours(what("MB/s early in life"), life.rates[0]));
        figures.push(Figure::ours(what("MB/s at the end of life"), life.rates[1]));
        let line = points.into_iter().map(|(percent, over)| [percent, over]).collect();
        Ok((life, PlotLine::ours(name, line)))
    }
}

/// Erases over their mean by percent of the units.
fn spread(record: &RunRecord) -> Vec<(f64, f64)> {
    let wear = &record.wear;
    let Some(of) = wear.percentiles else { return Vec::new() };
    let counts = [
        (0.0, wear.min),
        (10.0, of.p10),
        (50.0, of.p50),
        (90.0, of.p90),
        (99.0, of.p99),
        (100.0, wear.max),
    ];
    counts.map(|(percent, erases)| (percent, erases as f64 / wear.mean)).to_vec()
}

/// The same half at rest where all units endure the same, so that the weakest does not decide.
fn without_spread(scale: Scale, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let media = 1.0 + Stack::parse(STACK, &[])?.profile.overprovisioning();
    let mut figures = Vec::new();
    for (half, (name, fixed)) in LEVELLINGS.into_iter().enumerate() {
        let mut overrides = scale.overrides(fixed);
        overrides.push("device.wear.pe_spread=0".into());
        let mut progress = part(progress, half, LEVELLINGS.len());
        let life = Lived::of(&scale.to_the_end(PLACES[2], &overrides, 0, &mut progress)?);
        let what = format!(
            "{}, {name}, units of equal endurance: capacities written when the first is worn out",
            PLACES[2].name
        );
        let all = scale.cycles * media / life.waf;
        figures.push(Figure::ours(what.clone(), life.first_worn_out));
        figures.push(Figure::ours(
            what + ", over what all cycles would allow",
            life.first_worn_out / all,
        ));
    }
    Ok(figures)
}

/// Units that fail early under uniform writes, and spares left.
fn infants(scale: Scale, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let cycles = INFANT_CYCLES * scale.cycles;
    let mut overrides = scale.overrides(true);
    overrides.extend([
        format!("device.wear.infant_share={INFANTS}"),
        format!("device.wear.infant_cycles={cycles}"),
        format!("device.wear.spare={SPARES}"),
    ]);
    let (mut early, mut left, mut units) = (0.0, 0.0, 0.0);
    for seed in 0..scale.seeds {
        let mut progress = part(progress, seed as usize, scale.seeds as usize);
        // Long enough for every unit to pass the cycles in which it may fail early, and short of wearing out.
        let written = 0.1 * scale.cycles;
        let record = scale.run(PLACES[0], &overrides, written, seed, &mut progress)?;
        early += record.wear.failed_early.unwrap_or(0) as f64 / scale.seeds as f64;
        left += record.wear.spare_left as f64 / scale.seeds as f64;
        units = record.device.units as f64;
    }
    Ok(vec![
        Figure::beside(
            "early failures: units replaced",
            Some(units * INFANTS * (1.0 + INFANTS)),
            early,
        ),
        Figure::beside("early failures: spares left", Some((SPARES * units).round() - early), left),
    ])
}

/// Units with a failed program under uniform writes, and the cost of emptying these units.
fn failed_programs(scale: Scale, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let mut overrides = scale.overrides(true);
    overrides.extend([
        format!("device.wear.program_failures={PROGRAM_FAILURES}"),
        format!("device.wear.spare={SPARES_FOR_PROGRAMS}"),
    ]);
    let geometry = Stack::parse(STACK, &[])?.profile.geometry;
    let page = geometry.map_or(4096.0, |geometry| geometry.program_unit().as_f64());
    let (mut failed, mut expected, mut moved, mut host) = (0.0, 0.0, 0.0, 0.0);
    for seed in 0..scale.seeds {
        let mut progress = part(progress, seed as usize, scale.seeds as usize);
        let record = scale.run(PLACES[0], &overrides, 0.1 * scale.cycles, seed, &mut progress)?;
        let written = &record.media_bytes_written;
        // Filling the drive took programs as well.
        let programs = (written.total + record.prefill_bytes_written) as f64 / page;
        failed += record.wear.failed_programs.unwrap_or(0) as f64 / scale.seeds as f64;
        expected += programs * PROGRAM_FAILURES / scale.seeds as f64;
        moved += by_cause(&record, "program_failure") * record.host_bytes_written as f64;
        host += record.host_bytes_written as f64;
    }
    Ok(vec![
        Figure::beside("failed programs: units replaced", Some(expected), failed),
        Figure::ours("failed programs: blocks moved for each of the host's", moved / host),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Scale = Scale { capacity: Bytes::mib(16), cycles: 300.0, seeds: 1, seed: 1 };

    fn life(place: Place, fixed: bool) -> Lived {
        Lived::of(&SMALL.to_the_end(place, &SMALL.overrides(fixed), 0, &mut |_| {}).unwrap())
    }

    #[test]
    fn static_levelling_lengthens_the_life_of_a_drive_with_data_at_rest_and_costs_little_otherwise()
    {
        let [alone, both] = [false, true].map(|fixed| life(PLACES[2], fixed));
        assert!(both.first_worn_out > 1.2 * alone.first_worn_out, "{alone:?} {both:?}");
        assert!(both.end > 1.3 * alone.end, "{alone:?} {both:?}");
        // Resting data stays apart from changing data, so cleaning costs no more.
        assert!(both.waf - both.levelling < 1.05 * alone.waf, "{alone:?} {both:?}");
        let [alone, both] = [false, true].map(|fixed| life(PLACES[0], fixed));
        assert!(both.levelling < 0.02 && both.end > 0.97 * alone.end, "{alone:?} {both:?}");
    }

    #[test]
    fn as_many_units_fail_as_programs_are_expected_to() {
        let figures = failed_programs(SMALL, &mut |_| {}).unwrap();
        let [units, moved] = [&figures[0], &figures[1]];
        let theirs = units.theirs.unwrap();
        assert!(theirs > 3.0 && (units.ours - theirs).abs() < 4.0 * theirs.sqrt(), "{figures:?}");
        assert!(moved.ours > 0.0 && moved.ours < 0.01, "{figures:?}");
    }

    #[test]
    fn early_failures_are_replaced_by_spares_and_counted() {
        let figures = infants(SMALL, &mut |_| {}).unwrap();
        let [early, left] = [&figures[0], &figures[1]];
        // 204 units of which one in fifty fails early: four in the mean.
        assert!((1.0..12.0).contains(&early.ours), "{figures:?}");
        assert!((left.ours - left.theirs.unwrap()).abs() < 1e-9, "{figures:?}");
    }
}
