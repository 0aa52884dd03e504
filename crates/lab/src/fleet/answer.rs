//! What is said of a fleet. Its JSON has the schema `thermocline.fleet/1`.

use serde::Serialize;

use super::mend::ClassTrial;
use super::rows::RefusedRow;

/// The middle of what is expected, and the ends of its inner 90 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FleetRange {
    /// 5 % is below.
    pub low: f64,
    /// What is expected.
    pub likely: f64,
    /// 5 % is above.
    pub high: f64,
}

/// Dates, or nothing where they are further away than a hundred years.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FleetDates {
    /// 5 % is earlier.
    pub early: Option<String>,
    /// As late as early.
    pub likely: Option<String>,
    /// 5 % is later.
    pub late: Option<String>,
}

/// A drive of which something can be said.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetDrive {
    /// Its serial number.
    pub serial: String,
    /// Its host, model and class.
    pub host: String,
    /// Its model.
    pub model: String,
    /// Its class.
    pub class: String,
    /// The counter of used endurance at its last row.
    pub used_percent: f64,
    /// Hours with power, in years.
    pub age_years: f64,
    /// Years with power until its service ends; 0 if it has ended.
    pub service_left_years: f64,
    /// Days of its rows, from first to last; 0: no rate is from them.
    pub history_days: f64,
    /// Endurance that it will use a year, in percent.
    pub percent_per_year: FleetRange,
    /// Endurance used when its service ends, in percent.
    pub used_at_end_percent: FleetRange,
    /// When it is worn out.
    pub worn_out: FleetDates,
    /// Probability to be worn out before its service ends.
    pub probability: f64,
    /// Media bytes over bytes of hosts, in its history or else in its life.
    pub waf: Option<f64>,
    /// Capacities that hosts write a day, likewise.
    pub writes_per_day: Option<f64>,
}

/// A drive of which nothing can be said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnsaidDrive {
    /// Its serial number.
    pub serial: String,
    /// Its host.
    pub host: String,
    /// Why not.
    pub reason: String,
}

/// An option for a class, tried on its traces.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetMend {
    /// Its name, as in `lab whatif`.
    pub option: String,
    /// Wear under it, as a share of that without it; `None`: no trace can show it.
    pub factor: Option<FleetRange>,
    /// Drives worn out before their service ends, with it from now on.
    pub worn_out: Option<FleetRange>,
    /// What the drives cost that do not wear out, if their price is known.
    pub saves: Option<f64>,
    /// Why a trace cannot show it.
    pub reason: Option<String>,
}

/// A class of drives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetClass {
    /// Its name.
    pub name: String,
    /// Drives of which something can be said.
    pub drives: usize,
    /// Those with rows over three weeks or more.
    pub with_history: usize,
    /// Those whose service has ended.
    pub past_service: usize,
    /// Those that are worn out and in service.
    pub worn_already: usize,
    /// Drives that are worn out before their service ends, those that are already among them.
    pub worn_out: FleetRange,
    /// When the first is likely to be worn out.
    pub first: Option<String>,
    /// Media bytes over bytes of hosts; `None`: its drives do not count media bytes.
    pub waf: Option<FleetRange>,
    /// Drives from which the WAF is.
    pub waf_drives: usize,
    /// Capacities that hosts write a day, the mean of its drives.
    pub writes_per_day: Option<f64>,
    /// Change of the rate of wear a year, 0.1 is 10 % more; from histories.
    pub trend_per_year: f64,
    /// Why its drives wear as they do, and what cannot be said, a sentence each.
    pub why: Vec<String>,
    /// Simulations of its traces; `None`: it has none.
    pub trial: Option<ClassTrial>,
    /// Options on these traces, those that save most drives first.
    pub mends: Vec<FleetMend>,
}

/// Drives worn out by a date.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetPoint {
    /// Years from the last row on.
    pub years: f64,
    /// The date.
    pub date: String,
    /// Drives worn out in service by then.
    pub worn_out: FleetRange,
}

/// All that is said.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetAnswer {
    /// Version of the form.
    pub schema: &'static str,
    /// The answer in a sentence.
    pub answer: String,
    /// Date of the last row.
    pub date: String,
    /// Length of a service, where no row has its end.
    pub service_years: f64,
    /// Drives worn out before their service ends.
    pub worn_out: FleetRange,
    /// The same over time.
    pub curve: Vec<FleetPoint>,
    /// The most concerned first.
    pub classes: Vec<FleetClass>,
    /// The most probable to be worn out in service first.
    pub drives: Vec<FleetDrive>,
    /// Drives of which nothing can be said.
    pub unsaid: Vec<UnsaidDrive>,
    /// Rows that were not read.
    pub refused: Vec<RefusedRow>,
    /// Facts about the rows, a sentence each.
    pub notes: Vec<String>,
    /// What the forecast assumes, a sentence each.
    pub assumptions: Vec<String>,
}

impl FleetAnswer {
    /// The drives as CSV, in their order.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let mut put = |row: &[String]| writer.write_record(row).expect("memory takes all");
        put(&CSV_HEADS.map(str::to_owned));
        for drive in &self.drives {
            let FleetRange { low, likely, high } = drive.used_at_end_percent;
            let date = |date: &Option<String>| date.clone().unwrap_or_default();
            let optional =
                |value: Option<f64>| value.map_or_else(String::new, |x| format!("{x:.4}"));
            let mut row = vec![
                drive.serial.clone(),
                drive.host.clone(),
                drive.model.clone(),
                drive.class.clone(),
                drive.used_percent.to_string(),
            ];
            let numbers = [drive.age_years, drive.service_left_years, drive.history_days];
            row.extend(numbers.map(|x| format!("{x:.4}")));
            let FleetRange { low: slow, likely: rate, high: fast } = drive.percent_per_year;
            row.extend([slow, rate, fast, low, likely, high].map(|x| format!("{x:.4}")));
            let dates = &drive.worn_out;
            row.extend([&dates.early, &dates.likely, &dates.late].map(date));
            row.push(format!("{:.4}", drive.probability));
            row.extend([drive.waf, drive.writes_per_day].map(optional));
            put(&row);
        }
        let bytes = writer.into_inner().expect("memory takes all");
        String::from_utf8(bytes).expect("it is made of text")
    }
}

/// Columns of [`FleetAnswer::csv`].
const CSV_HEADS: [&str; 20] = [
    "serial",
    "host",
    "model",
    "class",
    "used_percent",
    "age_years",
    "service_left_years",
    "history_days",
    "percent_per_year_low",
    "percent_per_year",
    "percent_per_year_high",
    "used_at_end_percent_low",
    "used_at_end_percent",
    "used_at_end_percent_high",
    "worn_out_early",
    "worn_out",
    "worn_out_late",
    "probability",
    "waf",
    "writes_per_day",
];
