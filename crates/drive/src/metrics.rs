//! Readings as Prometheus reads them (text format 0.0.4). Names are stable.

use std::fmt::Write as _;
use std::path::Path;

use crate::counter::{Counter, DriveFigure, LogPage};
use crate::reading::HealthReading;
use crate::wear::Wear;

/// Figure, name, type and help of each metric. Percent become ratios.
const METRICS: [(DriveFigure, &str, &str, &str); 17] = [
    (DriveFigure::HostWritten, "host_written_bytes_total", "counter", "Written by hosts"),
    (DriveFigure::HostRead, "host_read_bytes_total", "counter", "Read by hosts"),
    (DriveFigure::MediaWritten, "media_written_bytes_total", "counter", "Written to the media"),
    (DriveFigure::MediaErased, "media_erased_bytes_total", "counter", "Erased bytes of the media"),
    (DriveFigure::Used, "used_ratio", "gauge", "Used share of the endurance"),
    (DriveFigure::Spare, "spare_ratio", "gauge", "Spare blocks that are left"),
    (DriveFigure::SpareThreshold, "spare_threshold_ratio", "gauge", "Spare at which a drive warns"),
    (DriveFigure::CriticalWarning, "critical_warning", "gauge", "Bits of the warning; 0: none"),
    (DriveFigure::Temperature, "temperature_celsius", "gauge", "Temperature"),
    (DriveFigure::PowerOnHours, "power_on_hours_total", "counter", "Hours with power"),
    (DriveFigure::UnsafeShutdowns, "unsafe_shutdowns_total", "counter", "Sudden losses of power"),
    (DriveFigure::MediaErrors, "media_errors_total", "counter", "Reads that were not corrected"),
    (DriveFigure::MinErases, "erases_min", "gauge", "Erases of the least erased block"),
    (DriveFigure::MeanErases, "erases_mean", "gauge", "Mean erases of a block"),
    (DriveFigure::MaxErases, "erases_max", "gauge", "Erases of the most erased block"),
    (DriveFigure::Endurance, "endurance_bytes", "gauge", "Host bytes of a life, estimated"),
    (DriveFigure::Capacity, "capacity_bytes", "gauge", "Capacity"),
];

/// A figure of the wear with the page that it is from.
type Derived = fn(&Wear, &HealthReading) -> Option<(f64, LogPage)>;

/// Name, help and value of figures of the whole life. Years are told where the drive counts at least a percent as used.
const DERIVED: [(&str, &str, Derived); 5] = [
    ("waf_ratio", "Media over host bytes of the whole life", |wear, _| {
        wear.waf.as_ref().map(|waf| (waf.value, waf.media.clone()))
    }),
    ("writes_per_day", "Capacities that hosts wrote a day", |wear, reading| {
        wear.drive_writes_per_day.zip(page(reading, DriveFigure::HostWritten))
    }),
    ("years_left", "Years until the endurance is used up, as it was so far", |wear, reading| {
        wear.years.map(|years| years.likely).zip(page(reading, DriveFigure::Used))
    }),
    ("years_left_low", "The same if the used share is a percent more", |wear, reading| {
        wear.years.map(|years| years.range[0]).zip(page(reading, DriveFigure::Used))
    }),
    ("years_left_high", "The same if the used share is a percent less", |wear, reading| {
        wear.years.map(|years| years.range[1]).zip(page(reading, DriveFigure::Used))
    }),
];

fn page(reading: &HealthReading, figure: DriveFigure) -> Option<LogPage> {
    reading.counter(figure).map(|counter| counter.page.clone())
}

/// Metrics of drives; `None`: the drive could not be read.
#[must_use]
pub fn metrics(drives: &[(&Path, Option<&HealthReading>)]) -> String {
    let mut page = String::new();
    let mut line = |text: std::fmt::Arguments<'_>| {
        page.write_fmt(text).expect("a string takes all");
        page.push('\n');
    };
    let head = |name: &str, kind: &str, help: &str| {
        format!("# HELP thermocline_drive_{name} {help}\n# TYPE thermocline_drive_{name} {kind}")
    };
    let told = || drives.iter().filter_map(|(path, reading)| Some((*path, (*reading)?)));
    for (figure, name, kind, help) in METRICS {
        let is_of = |one: &&Counter| one.figure == figure;
        let some = |reading: &HealthReading| reading.counters.iter().any(|one| is_of(&one));
        if !told().any(|(_, reading)| some(reading)) {
            continue;
        }
        line(format_args!("{}", head(name, kind, help)));
        for (path, reading) in told() {
            for one in reading.counters.iter().filter(is_of) {
                let labels = labels(path, reading, &one.page.to_string());
                let scale = if figure.is_percent() { 100.0 } else { 1.0 };
                let value = one.value as f64 / scale;
                line(format_args!("thermocline_drive_{name}{{{labels}}} {value}"));
            }
        }
    }
    for (name, help, of) in DERIVED {
        line(format_args!("{}", head(name, "gauge", help)));
        for (path, reading) in told() {
            if let Some((value, page)) = of(&Wear::of(None, reading), reading) {
                let labels = labels(path, reading, &page.to_string());
                line(format_args!("thermocline_drive_{name}{{{labels}}} {value}"));
            }
        }
    }
    line(format_args!("{}", head("readable", "gauge", "1 if the log pages could be read")));
    for (path, reading) in drives {
        let value = u8::from(reading.is_some());
        let device = escaped(&path.to_string_lossy());
        line(format_args!("thermocline_drive_readable{{device=\"{device}\"}} {value}"));
    }
    page
}

fn labels(device: &Path, reading: &HealthReading, page: &str) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let all = [
        ("device", device.to_string_lossy().into_owned()),
        ("model", text(&reading.model)),
        ("serial", text(&reading.serial)),
        ("page", page.to_owned()),
    ];
    let label = |(name, value): &(&str, String)| format!("{name}=\"{}\"", escaped(value));
    all.iter().map(label).collect::<Vec<_>>().join(",")
}

/// The value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
