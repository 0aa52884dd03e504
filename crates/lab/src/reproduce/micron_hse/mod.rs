//! A database on a capacity drive, and on tiers: the tiering half of Micron's document.

mod clocked;
mod sizes;
mod tiers;

use thermocline_record::RunRecord;
use thermocline_types::Bytes;
use thermocline_workload::synthetic::{self, Limit, Spec};

use super::{Figure, FiguresDrawn, Options, part};
use crate::{Error, Input, Pacing, Prefill, Prepared, Settings, Stack};
use clocked::Clock;

/// The database, by the bytes of its parts.
const DATABASE: &str = include_str!("tpcc.toml");
/// Tenants of the database that write pages.
const PAGES: [&str; 2] = ["double write buffer", "tables"];
/// The document: the hot tier had 150 to 200 of 800 GB.
const HOT: f64 = 0.2;
/// How full the capacity drive is; how full theirs was is not published.
const FILLED: f64 = 0.85;

/// A set-up: the stack below a database that knows nothing of tiers, the capacity drive of a store that does, and the
/// document's write amplification of the capacity drive and of the whole, from the application's bytes, after 5 hours.
struct SetUp {
    what: &'static str,
    stack: &'static str,
    own: &'static str,
    device: f64,
    total: f64,
}

const SET_UPS: [SetUp; 3] = [
    SetUp {
        what: "capacity drive alone",
        stack: "raw:micron2300",
        own: "raw:micron2300",
        device: 2.2,
        total: 11.1,
    },
    SetUp {
        what: "tiered",
        stack: "tier:micron9100+micron2300",
        own: "raw:micron2300",
        device: 1.9,
        total: 10.0,
    },
    SetUp {
        what: "tiered, on zones",
        stack: "tier:micron9100+zn540",
        own: "log:zn540",
        device: 1.1,
        total: 6.7,
    },
];

/// The same with another fast device, for which the document has no figure.
const OTHERS: [(&str, &str); 1] = [("tiered, on zones, P5800X", "tier:p5800x+zn540")];

/// Times its size that the database writes, for the figures of five hours and of fifty: a volume an hour is chosen, as
/// the rate of theirs is not published.
const VOLUMES: f64 = 5.0;
const VOLUMES_LONG: f64 = 50.0;
/// Parts of the long run that have a figure each.
const PARTS: u64 = 10;

/// How figures name the share of the hot tier.
const TAKES: &str = "share of all writes to drives that the hot one takes";

/// Settings of the log.
const SETTINGS: [&str; 1] = ["pool.write_cache=off"];

/// The database's volume.
fn volume(options: &Options) -> Bytes {
    Bytes::gib(if options.quick { 1 } else { 4 })
}

/// A run of the database.
#[derive(Clone, Copy)]
struct Run {
    stack: &'static str,
    /// Size of the hot tier, as a share of the volume.
    hot: f64,
    /// Bytes written by the database, in volumes.
    volumes: f64,
    /// The clock of the requests; without a clock, 32 requests are in flight.
    clock: Option<Clock>,
}

impl Run {
    /// As fast as `stack` can.
    fn new(stack: &'static str) -> Run {
        Run { stack, hot: HOT, volumes: VOLUMES, clock: None }
    }
}

/// The figures, and rates over time as charts.
pub fn drawn(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<FiguresDrawn, Error> {
    let long = !(options.points || options.quick);
    let steps = if long { 6 } else { 4 };
    let mut figures = tiers::store(options, &mut part(progress, 3, steps))?;
    let (page_based, records) = set_ups(options, &mut part(progress, 0, steps))?;
    figures.extend(page_based);
    figures.extend(sizes::sweep(options, &mut part(progress, 1, steps))?);
    let clock = Clock::after(&records[0], volume(options));
    let (rates, plots) = clocked::rates(options, clock, &mut part(progress, 2, steps))?;
    figures.extend(rates);
    if long {
        figures.extend(others(options, &mut part(progress, 4, steps))?);
        figures.extend(all_over_time(options, &mut part(progress, 5, steps))?);
    }
    Ok((figures, plots))
}

/// The document's three set-ups, each as fast as it can, and their records.
fn set_ups(
    options: &Options,
    progress: &mut dyn FnMut(f64),
) -> Result<(Vec<Figure>, Vec<RunRecord>), Error> {
    let (mut figures, mut records) = (Vec::new(), Vec::new());
    for (step, set_up) in SET_UPS.iter().enumerate() {
        let mut progress = part(progress, step, SET_UPS.len());
        let record = measure(options, Run::new(set_up.stack), &mut progress)?;
        figures.extend(of(set_up.what, &record));
        figures.extend(sizes::used(set_up.what, &record, volume(options)));
        records.push(record);
    }
    Ok((figures, records))
}

fn others(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    for (step, (what, stack)) in OTHERS.iter().enumerate() {
        let mut progress = part(progress, step, OTHERS.len());
        figures.extend(of(what, &measure(options, Run::new(stack), &mut progress)?));
    }
    Ok(figures)
}

fn all_over_time(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    for (step, set_up) in SET_UPS.iter().enumerate() {
        let run = Run { volumes: VOLUMES_LONG, ..Run::new(set_up.stack) };
        let record = measure(options, run, &mut part(progress, step, SET_UPS.len()))?;
        figures.extend(over_time(set_up.what, &record));
    }
    Ok(figures)
}

/// Carries out a run.
fn measure(options: &Options, run: Run, progress: &mut dyn FnMut(f64)) -> Result<RunRecord, Error> {
    let Run { stack, hot, volumes, clock } = run;
    let mut settings = SETTINGS.map(str::to_owned).to_vec();
    for (drive, setting) in [("micron9100", "fast"), ("micron2300", "device")] {
        let given = stack.contains(drive).then(|| format!("{setting}.buffer.merge=false"));
        settings.extend(given);
    }
    let stack = Stack::parse(stack, &settings)?;
    let volume = volume(options);
    let limit = Limit::drive_writes(volumes, volume)?;
    let workload = synthetic::Options {
        seed: options.seed,
        rate: clock.map(|clock| clock.per_second),
        ..synthetic::Options::new(volume, limit)
    };
    let input = Input::Synthetic { spec: database(clock)?, options: workload };
    let granule = stack.profile.mapping_unit.max(Bytes::BLOCK);
    let mut prepared = Prepared::new(input, Some(Prefill::Sequential), granule, None)?;
    let settings = Settings {
        utilisation: FILLED,
        fast_capacity: Some(Bytes((volume.as_f64() * hot) as u64)),
        pacing: clock.is_none().then_some(Pacing::QueueDepth(32)),
        seed: options.seed,
        ..Settings::default()
    };
    crate::run(&mut prepared, &stack, &settings, progress)
}

/// The database, which by a clock writes its pages at checkpoints.
fn database(clock: Option<Clock>) -> Result<Spec, Error> {
    let mut spec = Spec::from_toml(DATABASE)?;
    if let (Some(clock), Spec::Tenants(tenants)) = (clock, &mut spec) {
        let pages = tenants.iter_mut().filter(|tenant| PAGES.contains(&tenant.name.as_str()));
        pages.for_each(|tenant| tenant.checkpoints = Some(clock.checkpoints));
    }
    Ok(spec)
}

/// The figures of one set-up.
fn of(what: &str, record: &RunRecord) -> Vec<Figure> {
    let host = record.host_bytes_written as f64;
    let capacity = record.media_bytes_written.total as f64;
    let given = record.device_bytes_written as f64;
    let mut figures = Vec::new();
    let mut take = |name: &str, ours| figures.push(Figure::ours(format!("{what}: {name}"), ours));
    take("WA of the capacity drive", capacity / given);
    for (name, part) in [("first", 0), ("last", 4)] {
        let wa = amplified(record, part, 5);
        take(&format!("media bytes of the capacity drive per host byte, {name} fifth"), wa);
    }
    if let Some(fast) = &record.fast {
        let log = record.engine_bytes_written.values();
        let destaged: u64 = log.filter_map(|causes| causes.get("destage")).sum();
        let hot = fast.device_bytes_written as f64;
        take("host bytes that died on the hot drive", 1.0 - destaged as f64 / host);
        take(TAKES, hot / (hot + given));
        take("WA of the hot drive", fast.media_bytes_written.total as f64 / hot);
    }
    if let Some(bandwidth) = &record.bandwidth {
        take("host MB/s", bandwidth.host_write_bytes_per_second / 1e6);
    }
    figures
}

/// Media bytes of the drive for capacity for each byte of the host, in one of `parts` parts of the run.
fn amplified(record: &RunRecord, part: u64, parts: u64) -> f64 {
    let (media, host, _) = within(record, part, parts);
    media as f64 / host.max(1) as f64
}

/// Media bytes of the drive for capacity, bytes of the host and seconds of one of `parts` parts of the run.
fn within(record: &RunRecord, part: u64, parts: u64) -> (u64, u64, f64) {
    let all = record.host_bytes_written;
    let (from, to) = (all * part / parts, all * (part + 1) / parts);
    let (mut media, mut host, mut seconds, mut before) = (0, 0, 0.0, 0.0);
    for point in &record.series {
        if point.host_bytes > from && point.host_bytes <= to {
            media += point.media_bytes_written;
            host += point.host_bytes_written;
            seconds += point.seconds - before;
        }
        before = point.seconds;
    }
    (media, host, seconds)
}

/// The figures of a run that is ten times as long: what the whole adds up to, and each part of it.
fn over_time(what: &str, record: &RunRecord) -> Vec<Figure> {
    let mut figures = Vec::new();
    for part in 0..PARTS {
        let volumes = VOLUMES_LONG * (part + 1) as f64 / PARTS as f64;
        let named = |name: &str| format!("{what}, until {volumes:.0} volumes: {name}");
        let (_, host, seconds) = within(record, part, PARTS);
        figures.push(Figure::ours(
            named("media bytes of the capacity drive per host byte"),
            amplified(record, part, PARTS),
        ));
        figures.push(Figure::ours(named("host MB/s"), host as f64 / seconds.max(1e-9) / 1e6));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_a_clock_pages_wait_for_checkpoints_and_a_record_has_the_rates_of_both_drives() {
        let options = Options { seed: 1, traces: None, quick: true, points: false };
        let volume = volume(&options);
        let every = thermocline_types::Time::seconds(1);
        let checkpoints = synthetic::Checkpoints { every, within: every };
        let clock = Some(Clock { per_second: 10_000.0, checkpoints });
        let run = Run { clock, volumes: 0.5, ..Run::new("tier:micron9100+zn540") };
        let record = measure(&options, run, &mut |_| {}).unwrap();
        let [capacity, hot] = &record.device_series[..] else { panic!("two drives") };
        assert_eq!((capacity.tier.as_str(), hot.tier.as_str()), ("capacity", "fast"));
        for (series, bytes) in [
            (capacity, record.device_bytes_written),
            (hot, record.fast.as_ref().unwrap().device_bytes_written),
        ] {
            assert_eq!(series.bytes_written.iter().sum::<u64>(), bytes, "{}", series.tier);
            assert_eq!(series.bytes_read.len(), series.bytes_written.len());
            assert!(series.valid_bytes.unwrap() <= series.occupied_bytes.unwrap());
        }
        // Every mapped block is valid on exactly one drive; the circular log discards some blocks.
        let valid: u64 = record.device_series.iter().filter_map(|s| s.valid_bytes).sum();
        assert!((0.9..=1.0).contains(&(valid as f64 / volume.as_f64())), "{valid}");
        let first = (1.0 / hot.step_seconds) as usize;
        let [early, later] =
            [0, first].map(|at| hot.bytes_written[at..at + first].iter().sum::<u64>());
        assert!(
            3 * early < 2 * later,
            "{early} {later}: only the log is written before a checkpoint"
        );
    }

    #[test]
    fn zones_below_a_tier_write_less_than_a_drive_and_a_larger_hot_tier_absorbs_more() {
        let options = Options { seed: 1, traces: None, quick: true, points: false };
        let run =
            |stack, hot| measure(&options, Run { hot, ..Run::new(stack) }, &mut |_| {}).unwrap();
        let ours = |record: &RunRecord, name: &str| {
            let figures = of("", record);
            figures.into_iter().find(|figure| figure.what.contains(name)).unwrap().ours
        };
        let zones = run("tier:micron9100+zn540", HOT);
        let drive = run("tier:micron9100+micron2300", HOT);
        assert!(ours(&zones, "WA of the capacity drive") < 1.01);
        assert!(
            ours(&drive, "WA of the capacity drive") > ours(&zones, "WA of the capacity drive")
        );
        // Parts of a run have all of its bytes and all of its time.
        let parts = (0..PARTS).map(|part| within(&zones, part, PARTS));
        let (host, seconds) = parts.fold((0, 0.0), |all, part| (all.0 + part.1, all.1 + part.2));
        assert_eq!(host, zones.host_bytes_written);
        let last = zones.series.last().unwrap().seconds;
        assert!((seconds - last).abs() < 1e-6 * last, "{seconds} {last}");
        let larger = run("tier:micron9100+zn540", 2.0 * HOT);
        // A larger tier holds more prefill data, so more data leaves the tier at first.
        let last = "host byte, last fifth";
        let share = ours(&larger, last) / ours(&zones, last);
        assert!(share < 0.9, "{share}");
    }
}
