//! Wear of the units: spread of erases, and failures.

use thermocline_ftl::UnitState;
use thermocline_nand::UnitView;
use thermocline_record::{ErasePercentiles, Wear};

use super::{CELLS, Outcome};

/// Spread of erase counts over units; `None` without units.
fn erase_percentiles(mut erases: Vec<u32>, mean: f64) -> Option<ErasePercentiles> {
    let last = erases.len().checked_sub(1)?;
    erases.sort_unstable();
    let of = |percent: usize| u64::from(erases[((last + 1) * percent).div_ceil(100).max(1) - 1]);
    let square = |&erases: &u32| (f64::from(erases) - mean).powi(2);
    let variance = erases.iter().map(square).sum::<f64>() / (last + 1) as f64;
    Some(ErasePercentiles {
        p10: of(10),
        p50: of(50),
        p90: of(90),
        p99: of(99),
        deviation: variance.sqrt(),
    })
}

/// Wear of the units at the end of the run.
pub fn wear(outcome: &Outcome) -> Wear {
    let (retired, spare_left) = outcome.drive.retired_and_spare();
    let all = &outcome.units;
    let in_service = || all.iter().filter(|unit| unit.state != UnitState::Retired);
    let count = in_service().count().max(1) as f64;
    let per_cell = all.len().div_ceil(CELLS).max(1);
    let mean = |cell: &[UnitView]| {
        cell.iter().map(|unit| unit.erases as f32).sum::<f32>() / cell.len() as f32
    };
    let average = in_service().map(|unit| f64::from(unit.erases)).sum::<f64>() / count;
    let profile = &outcome.stack.profile.wear;
    let (early, programs) = (profile.infant_share > 0.0, profile.program_failures > 0.0);
    Wear {
        percentiles: erase_percentiles(in_service().map(|unit| unit.erases).collect(), average),
        first_worn_out_host_bytes: outcome.drive.first_worn_out().map(|bytes| bytes.0),
        failed_programs: programs.then(|| outcome.drive.failed_programs()),
        failed_early: early.then(|| outcome.drive.failed_early()),
        erase_counts: all.chunks(per_cell).map(mean).collect(),
        min: in_service().map(|unit| u64::from(unit.erases)).min().unwrap_or(0),
        mean: average,
        max: in_service().map(|unit| u64::from(unit.erases)).max().unwrap_or(0),
        retired,
        spare_left,
        end_of_life: outcome.worn_out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_counts_of_units() {
        let erases: Vec<u32> = (1..=200).rev().collect();
        let of = erase_percentiles(erases, 100.5).unwrap();
        assert_eq!((of.p10, of.p50, of.p90, of.p99), (20, 100, 180, 198));
        assert!((of.deviation - ((200.0_f64.powi(2) - 1.0) / 12.0).sqrt()).abs() < 1e-9);
        assert_eq!(erase_percentiles(vec![7], 7.0).map(|of| of.p10), Some(7));
        assert!(erase_percentiles(Vec::new(), 0.0).is_none());
    }
}
