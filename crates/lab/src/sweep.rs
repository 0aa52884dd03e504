//! One run for each value of a key, or of several keys against each other.

mod axis;
mod keys;

use std::sync::atomic::AtomicBool;

use thermocline_record::{RunRecord, RunSpec};

use crate::{Error, each, spec};

pub use axis::{Axis, Spacing};
pub use keys::{KEYS, set};

/// One combination of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Combination {
    /// Which value of each axis.
    pub at: Vec<usize>,
    /// The run with these values.
    pub spec: RunSpec,
}

/// Every combination of values; the last axis varies fastest.
///
/// # Errors
/// [`Error`] for a key that the run does not have, and for a file that cannot be read.
pub fn combinations(base: &RunSpec, axes: &[Axis]) -> Result<Vec<Combination>, Error> {
    let mut all = vec![Combination { at: Vec::new(), spec: base.clone() }];
    for axis in axes {
        let mut next = Vec::new();
        for Combination { at, spec } in &all {
            for (index, value) in axis.values.iter().enumerate() {
                let mut spec = spec.clone();
                set(&mut spec, &axis.key, value)?;
                spec::input(&spec.workload, spec.seed)?;
                RunSpec::VERSION.clone_into(&mut spec.version);
                // A swept file has another hash.
                spec.files = spec::files(&spec.stack, &spec.workload)?;
                let at = at.iter().copied().chain([index]).collect();
                next.push(Combination { at, spec });
            }
        }
        all = next;
    }
    Ok(all)
}

/// Runs every combination, as many at a time as there are processors. A run that cannot be made is an error in its
/// place.
///
/// # Errors
/// As [`combinations`].
#[expect(clippy::type_complexity, reason = "each combination with its result")]
pub fn sweep(
    base: &RunSpec,
    axes: &[Axis],
) -> Result<Vec<(Combination, Result<RunRecord, Error>)>, Error> {
    let all = combinations(base, axes)?;
    let records = each(&all, None, &AtomicBool::new(false), |_, one| spec::run(&one.spec));
    let records = records.into_iter().map(|record| record.unwrap_or(Err(Error::Interrupted)));
    Ok(all.into_iter().zip(records).collect())
}

#[cfg(test)]
mod tests {
    use thermocline_record::WorkloadSpec;

    use super::*;

    #[test]
    fn more_overprovisioning_writes_less() {
        let mut base = RunSpec::new("raw:ideal", WorkloadSpec::generator("uniform"));
        set(&mut base, "span", "16MiB").unwrap();
        set(&mut base, "writes", "20000").unwrap();
        let axes = ["device.op=0.1,0.5".parse().unwrap(), "seed=1,2".parse().unwrap()];
        let cells = sweep(&base, &axes).unwrap();
        let at: Vec<&[usize]> = cells.iter().map(|(one, _)| &one.at[..]).collect();
        assert_eq!(at, [[0, 0], [0, 1], [1, 0], [1, 1]]);
        let waf: Vec<f64> =
            cells.iter().map(|(_, record)| record.as_ref().unwrap().waf.unwrap()).collect();
        assert!(waf[0] > waf[2] && waf[1] > waf[3], "{waf:?}");
    }

    #[test]
    fn a_value_that_cannot_be_run_is_an_error_in_its_place() {
        let base = RunSpec::new("raw:ideal", WorkloadSpec::generator("uniform"));
        let axes = ["device.unit=7KiB,9KiB".parse().unwrap()];
        assert!(sweep(&base, &axes).unwrap().iter().all(|(_, record)| record.is_err()));
        let unknown = ["colour=1,2".parse().unwrap()];
        assert!(sweep(&base, &unknown).is_err());
    }
}
