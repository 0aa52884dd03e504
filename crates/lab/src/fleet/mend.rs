//! What would mend a class: the options of [`WhatIf`] on traces of its hosts.
//!
//! Invariant: nothing is said of an option that no trace could run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use statrs::distribution::{ContinuousCDF as _, StudentsT};
use thermocline_record::RunRecord;

use super::answer::FleetRange;
use crate::Error;
use crate::whatif::{AS_IT_IS, Tried, WhatIf};

/// Width of the WAF's interval, to either side and as a share of it, at which no more traces are simulated. Chosen.
pub const NARROW: f64 = 0.1;

/// A class whose traces were simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassTrial {
    /// The class.
    pub class: String,
    /// The simulated drive.
    pub device: String,
    /// WAF of the drive as it is, mean of the traces with its interval; of one trace, without width.
    pub waf: FleetRange,
    /// Parts of the WAF beyond the bytes of hosts, the largest first.
    pub causes: Vec<(String, f64)>,
    /// Number of simulated traces, and of given traces.
    pub traces: [usize; 2],
    /// Whether the interval became narrow.
    pub is_narrow: bool,
    /// The options.
    pub options: Vec<TriedMend>,
}

/// An option, tried on traces.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TriedMend {
    /// Its name.
    pub option: String,
    /// Its WAF as a share of that of the drive as it is; `None`: no trace could run it.
    pub factor: Option<FleetRange>,
    /// Why traces could not run it.
    pub reason: Option<String>,
}

/// Simulates the traces of `class` in turn, until the WAF of the drive as it is has a narrow interval. `progress` hears
/// the number of the trace, the option and the share done.
///
/// # Errors
/// [`Error`] of the first trace that cannot be used.
pub fn trial(
    class: &str,
    traces: &[WhatIf],
    stop: &Arc<AtomicBool>,
    progress: &(dyn Fn(usize, &'static str, f64) + Sync),
) -> Result<ClassTrial, Error> {
    let mut done: Vec<Vec<Tried>> = Vec::new();
    let mut waf = FleetRange::default();
    let mut is_narrow = false;
    for (number, trace) in traces.iter().enumerate() {
        done.push(trace.run_with(stop, &|option, share| progress(number, option, share))?);
        let all: Vec<f64> = done.iter().filter_map(|tried| lasting(&tried[0])).collect();
        waf = mean(&all);
        is_narrow = all.len() > 1 && waf.high - waf.likely <= NARROW * waf.likely;
        if is_narrow {
            break;
        }
    }
    let mut options: Vec<TriedMend> = Vec::new();
    for tried in done.iter().flatten().filter(|one| one.option != AS_IT_IS) {
        if !options.iter().any(|one| one.option == tried.option) {
            options.push(option(tried.option, &done));
        }
    }
    Ok(ClassTrial {
        class: class.to_owned(),
        device: traces.first().map_or_else(String::new, |trace| trace.device.clone()),
        waf,
        causes: causes(&done),
        traces: [done.len(), traces.len()],
        is_narrow,
        options,
    })
}

fn lasting(tried: &Tried) -> Option<f64> {
    tried.run.as_ref().ok()?.lasting.waf.filter(|waf| *waf > 0.0)
}

fn option(name: &str, done: &[Vec<Tried>]) -> TriedMend {
    let of = |tried: &Vec<Tried>| {
        let own = tried.iter().find(|one| one.option == name)?;
        Some(lasting(own)? / lasting(&tried[0])?)
    };
    let factors: Vec<f64> = done.iter().filter_map(of).collect();
    let reason = done.iter().flatten().find(|one| one.option == name && one.run.is_err());
    TriedMend {
        option: name.to_owned(),
        factor: (!factors.is_empty()).then(|| mean(&factors)),
        reason: reason.and_then(|one| one.run.as_ref().err().cloned()),
    }
}

/// Parts of the WAF of the drive as it is, beyond what hosts wrote: the means of all traces.
fn causes(done: &[Vec<Tried>]) -> Vec<(String, f64)> {
    let records: Vec<&RunRecord> =
        done.iter().filter_map(|tried| tried[0].run.as_ref().ok()).collect();
    let mut parts: BTreeMap<&str, f64> = BTreeMap::new();
    for record in &records {
        let host = record.host_bytes_written.max(1) as f64 * records.len() as f64;
        for (cause, bytes) in &record.media_bytes_written.by_cause {
            *parts.entry(cause).or_default() += *bytes as f64 / host;
        }
    }
    let told = |(cause, part): (&str, f64)| (cause.replace('_', "-"), part);
    let beyond = parts.into_iter().filter(|(cause, part)| *cause != "host" && *part >= 0.005);
    let mut all: Vec<(String, f64)> = beyond.map(told).collect();
    all.sort_by(|one, other| other.1.total_cmp(&one.1));
    all
}

/// The mean, and the interval of Student's distribution that holds it with 90 %; of one value, without width.
fn mean(values: &[f64]) -> FleetRange {
    let count = values.len() as f64;
    let likely = values.iter().sum::<f64>() / count.max(1.0);
    let squares: f64 = values.iter().map(|value| (value - likely).powi(2)).sum();
    let half = StudentsT::new(0.0, 1.0, count - 1.0).map_or(0.0, |distribution| {
        distribution.inverse_cdf(0.95) * (squares / (count - 1.0) / count).sqrt()
    });
    FleetRange { low: (likely - half).max(0.0), likely, high: likely + half }
}

#[cfg(test)]
mod tests {
    use thermocline_record::WorkloadSpec;

    use super::*;

    #[test]
    fn the_interval_of_a_mean_is_students() {
        // t of 0.95 with two degrees of freedom is 2.920.
        let FleetRange { low, likely, high } = mean(&[1.0, 2.0, 3.0]);
        let half = 2.919_986 / 3.0_f64.sqrt();
        assert!((likely - 2.0).abs() < 1e-12 && (high - likely - half).abs() < 1e-4, "{high}");
        assert!((likely - low - half).abs() < 1e-4);
        assert_eq!(mean(&[1.5]), FleetRange { low: 1.5, likely: 1.5, high: 1.5 });
    }

    #[test]
    fn traces_are_simulated_until_the_interval_is_narrow() {
        let mut workload = WorkloadSpec::generator("zipf:1.1");
        if let WorkloadSpec::Generator { span_bytes, writes, .. } = &mut workload {
            (*span_bytes, *writes) = (Some(16 << 20), Some(20_000));
        }
        let traces: Vec<WhatIf> =
            (1..9).map(|seed| WhatIf { seed, ..WhatIf::new("ideal", workload.clone()) }).collect();
        let trial = trial("db", &traces, &Arc::default(), &|_, _, _| ()).unwrap();
        assert!(
            trial.is_narrow && trial.traces[0] < 8 && trial.traces[1] == 8,
            "{:?}",
            trial.traces
        );
        assert!(trial.waf.likely > 1.1 && trial.causes[0].0 == "relocation", "{trial:?}");
        let of = |name: &str| trial.options.iter().find(|one| one.option == name).unwrap();
        assert!(of("a log on the host").factor.is_some());
        let discards = of("discards");
        assert!(discards.factor.is_none() && discards.reason.is_some());
    }
}
