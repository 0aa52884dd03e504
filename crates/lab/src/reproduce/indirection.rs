//! What mapping units larger than writes cost.

use thermocline_types::Bytes;
use thermocline_workload::synthetic::{self, JESD219_SIZES, Limit};

use super::point::{RAGHAV, Reference, Standing};
use super::{Figure, Options, part};
use crate::theory::indirection::IndirectionUnit;
use crate::{Error, Input, Prefill, Prepared, Settings, Stack, run};

/// Bytes the mix is spread over.
const SPAN: Bytes = Bytes::gib(1);

pub fn jesd219(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let published = [(4, 1.03), (8, 1.56), (16, 2.60), (32, 4.69), (64, 8.87)];
    let mut figures = Vec::new();
    for (index, (kib, theirs)) in published.into_iter().enumerate() {
        let unit = format!("device.mapping_unit=\"{kib}KiB\"");
        let stack = Stack::parse("raw:ideal", &[unit])?;
        let workload = synthetic::Options {
            seed: options.seed,
            ..synthetic::Options::new(SPAN, Limit::Writes(400_000))
        };
        let input = Input::Synthetic { spec: "jesd219".parse()?, options: workload };
        let mut prepared =
            Prepared::new(input, Some(Prefill::Sequential), stack.profile.mapping_unit, None)?;
        let settings = Settings { seed: options.seed, ..Settings::default() };
        let record = run(&mut prepared, &stack, &settings, &mut part(progress, index, 5))?;
        let cause =
            |name: &str| record.media_bytes_written.by_cause.get(name).copied().unwrap_or(0);
        let written = cause("host") + cause("read_modify_write");
        let ours = written as f64 / record.host_bytes_written as f64;
        let what = format!("mapping unit {kib} KiB");
        figures.push(Figure::new(what, theirs, ours, reference(kib)));
    }
    Ok(figures)
}

/// The closed form, which starts every write on 4 KiB; with what is below 4 KiB started on 512 bytes, as in our mix.
fn reference(kib: u64) -> Reference {
    let unit = IndirectionUnit::new(Bytes::kib(kib)).expect("above 0");
    let start = |size: Bytes| if size < Bytes::BLOCK { Bytes::SECTOR } else { Bytes::BLOCK };
    let theirs = unit.mix_waf(&JESD219_SIZES, start);
    let cause = Standing::Cause { what: "small writes start on 512 B", theirs };
    Reference::new(RAGHAV, "JESD219 mix, read-modify-write alone: WAF", "ratio").standing(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_read_modify_write_factors_are_met() {
        let options = Options { seed: 1, traces: None, quick: true, points: false };
        for figure in jesd219(&options, &mut |_| {}).unwrap() {
            assert!(figure.error().unwrap().abs() < 0.02, "{figure:?}");
        }
    }
}
