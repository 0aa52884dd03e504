//! A database on a capacity drive, and on tiers: the tiering half of Micron's document.

mod clocked;
mod sizes;

use thermocline_record::RunRecord;
use thermocline_types::Bytes;
use thermocline_workload::synthetic::{self, Limit, Spec};

use super::point::{MICRON, Reference, Standing};
use super::{Figure, FiguresDrawn, Options, part};
use crate::{Error, Input, Pacing, Prefill, Prepared, Settings, Stack};
use clocked::Clock;

/// The database, by the bytes of its parts.
const DATABASE: &str = include_str!("tpcc.toml");
/// Redo log as a share of the database's bytes: the application's own changes.
const APPLICATION: f64 = 0.35;
/// Tenants of the database that write pages.
const PAGES: [&str; 2] = ["double write buffer", "tables"];
/// The document: the hot tier had 150 to 200 of 800 GB.
const HOT: f64 = 0.2;
/// How full the capacity drive is; how full theirs was is not published.
const FILLED: f64 = 0.85;

/// What the application of the document writes for each byte of its own: 11.1 / 2.2.
const THEIR_APPLICATION: f64 = 11.1 / 2.2;

/// A set-up, with the document's write amplification of the capacity drive and of the whole, from the application's
/// bytes, after five hours.
struct SetUp {
    what: &'static str,
    stack: &'static str,
    device: f64,
    total: f64,
}

const SET_UPS: [SetUp; 3] = [
    SetUp { what: "capacity drive alone", stack: "raw:micron2300", device: 2.2, total: 11.1 },
    SetUp { what: "tiered", stack: "tier:micron9100+micron2300", device: 1.9, total: 10.0 },
    SetUp { what: "tiered, on zones", stack: "tier:micron9100+zn540", device: 1.1, total: 6.7 },
];

const DEVICE: Reference =
    Reference::new(MICRON, "MongoDB, TPC-C, five hours: WA of the capacity drive", "ratio");
const TOTAL: Reference = Reference::new(
    MICRON,
    "MongoDB, TPC-C, five hours: media bytes for each of the application",
    "ratio",
);
const HOT_SHARE: Reference =
    Reference::new(MICRON, "share of all writes that the hot tier takes", "share");

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
    let steps = if long { 5 } else { 3 };
    let (mut figures, records) = set_ups(options, &mut part(progress, 0, steps))?;
    figures.extend(sizes::sweep(options, &mut part(progress, 1, steps))?);
    let clock = Clock::after(&records[0], volume(options));
    let (rates, plots) = clocked::rates(options, clock, &mut part(progress, 2, steps))?;
    figures.extend(rates);
    if long {
        figures.extend(others(options, &mut part(progress, 3, steps))?);
        figures.extend(all_over_time(options, &mut part(progress, 4, steps))?);
    }
    Ok((figures, plots))
}

/// The document's three set-ups, each as fast as it can, and their records.
fn set_ups(
    options: &Options,
    progress: &mut dyn FnMut(f64),
) -> Result<(Vec<Figure>, Vec<RunRecord>), Error> {
    let (mut figures, mut records) = (Vec::new(), Vec::new());
    let mut alone = None;
    for (step, set_up) in SET_UPS.iter().enumerate() {
        let mut progress = part(progress, step, SET_UPS.len());
        let record = measure(options, Run::new(set_up.stack), &mut progress)?;
        let these = of(set_up.what, &record, Some(set_up));
        let total = these[1].ours;
        figures.extend(these);
        let alone = *alone.get_or_insert(total);
        if step > 0 {
            let theirs = set_up.total / SET_UPS[0].total;
            let what = format!("{}: the same against the capacity drive alone", set_up.what);
            figures.push(Figure::beside(what, Some(theirs), total / alone));
        }
        figures.extend(sizes::used(set_up.what, &record, volume(options)));
        records.push(record);
    }
    Ok((figures, records))
}

fn others(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    for (step, (what, stack)) in OTHERS.iter().enumerate() {
        let mut progress = part(progress, step, OTHERS.len());
        figures.extend(of(what, &measure(options, Run::new(stack), &mut progress)?, None));
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

/// The figures of one set-up, with published figures where the document has any.
fn of(what: &str, record: &RunRecord, set_up: Option<&SetUp>) -> Vec<Figure> {
    let host = record.host_bytes_written as f64;
    let application = host * APPLICATION;
    let capacity = record.media_bytes_written.total as f64;
    let (hot_given, hot_media) = record.fast.as_ref().map_or((0.0, 0.0), |fast| {
        (fast.device_bytes_written as f64, fast.media_bytes_written.total as f64)
    });
    let mut figures = Vec::new();
    let mut take = |name: &str, theirs: Option<(f64, Reference)>, ours| {
        let name = format!("{what}: {name}");
        let figure = match theirs {
            Some((theirs, reference)) => Figure::new(name, theirs, ours, reference),
            None => Figure::ours(name, ours),
        };
        figures.push(figure);
    };
    let theirs = |value: fn(&SetUp) -> f64, reference: Reference| {
        set_up.map(|set_up| (value(set_up), reference.part(set_up.what)))
    };
    let given = record.device_bytes_written as f64;
    let device = theirs(|set_up| set_up.device, DEVICE);
    take("WA of the capacity drive", device, capacity / given);
    take(
        "media bytes of all drives per byte of the application",
        theirs(|set_up| set_up.total, total_reference(capacity + hot_media, host)),
        (capacity + hot_media) / application,
    );
    for (name, part) in [("first", 0), ("last", 4)] {
        let wa = amplified(record, part, 5);
        take(&format!("media bytes of the capacity drive per host byte, {name} fifth"), None, wa);
    }
    if record.fast.is_some() {
        let log = record.engine_bytes_written.values();
        let destaged: u64 = log.filter_map(|causes| causes.get("destage")).sum();
        take("host bytes that died on the hot drive", None, 1.0 - destaged as f64 / host);
        take(TAKES, set_up.map(|_| (0.8, HOT_SHARE)), hot_given / (hot_given + given));
        take("WA of the hot drive", None, hot_media / hot_given);
    }
    if let Some(bandwidth) = &record.bandwidth {
        take("host MB/s", None, bandwidth.host_write_bytes_per_second / 1e6);
    }
    figures
}

/// The published total, with what ours would be if the application wrote as much as theirs.
fn total_reference(media: f64, host: f64) -> Reference {
    let what = "an application that writes 5.05 (11.1 / 2.2) bytes for each of its own, not 2.86,";
    TOTAL.standing(Standing::Knob { what, ours: media / host * THEIR_APPLICATION })
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
    let hot = record.fast.as_ref().map_or(0, |fast| fast.media_bytes_written.total);
    let total = (record.media_bytes_written.total + hot) as f64;
    let application = record.host_bytes_written as f64 * APPLICATION;
    let mut figures = vec![Figure::ours(
        format!("{what}, ten times as long: media bytes of all drives per byte of the application"),
        total / application,
    )];
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

    /// The shares of requests times their sizes are the shares of bytes that the file and [`APPLICATION`] say.
    #[test]
    fn the_redo_log_has_its_share_of_the_bytes() {
        let Spec::Tenants(tenants) = Spec::from_toml(DATABASE).unwrap() else { panic!("tenants") };
        let bytes = |tenant: &synthetic::Tenant| {
            let writes = tenant.share * (1.0 - tenant.read_share.unwrap_or(0.0));
            writes * tenant.io_size.unwrap().as_f64()
        };
        let all: f64 = tenants.iter().map(bytes).sum();
        assert!((bytes(&tenants[0]) / all - APPLICATION).abs() < 1e-9);
        assert!((bytes(&tenants[1]) / bytes(&tenants[2]) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn zones_below_a_tier_write_less_than_a_drive_and_a_larger_hot_tier_absorbs_more() {
        let options = Options { seed: 1, traces: None, quick: true, points: false };
        let run =
            |stack, hot| measure(&options, Run { hot, ..Run::new(stack) }, &mut |_| {}).unwrap();
        let ours = |record: &RunRecord, name: &str| {
            let figures = of("", record, None);
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
