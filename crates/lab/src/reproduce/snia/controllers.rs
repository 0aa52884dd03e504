//! Three controllers by transfer size and mix: read/erase/modify/write, read/modify/write, garbage-collecting.

use thermocline_record::RunRecord;
use thermocline_record::plot::{Plot, PlotAxis, PlotLine};
use thermocline_types::Bytes;
use thermocline_workload::synthetic::Limit;

use super::super::{Figure, FiguresDrawn, Options, part};
use super::{
    FOR_BANDWIDTH, FOR_IOPS, PatternJob, SIZES, mb_per_s, mix, per_second, root_mean_square,
};
use crate::Error;
use crate::theory::bandwidth::READ_SHARES;

/// A name, a stack and settings of the device.
const CONTROLLERS: [(&str, &str, &[&str]); 3] = [
    ("read/erase/modify/write", "raw:sata-a", &["device.rewrite.order=in-place"]),
    ("read/modify/write", "raw:sata-a", &["device.rewrite.order=elsewhere"]),
    ("garbage collecting", "raw:sata-b", &[]),
];

/// Capacity of the drives here. Times do not depend on it.
const CAPACITY: Bytes = Bytes::mib(64);

/// Operations and write amplification by size, bandwidth by mix, and the tutorial's two scores.
pub fn controllers(
    options: &Options,
    progress: &mut dyn FnMut(f64),
) -> Result<FiguresDrawn, Error> {
    let (mut figures, mut iops, mut waf) = (Vec::new(), Vec::new(), Vec::new());
    let runs = SIZES.len() + 2 * READ_SHARES.len();
    let steps = CONTROLLERS.len() * runs;
    for (index, controller) in CONTROLLERS.into_iter().enumerate() {
        let name = controller.0;
        let (mut by_size, mut amplification) = (Vec::new(), Vec::new());
        for (step, size) in SIZES.into_iter().enumerate() {
            let mut progress = part(progress, index * runs + step, steps);
            let record = simulate(controller, size, 0.0, options.seed, &mut progress)?;
            by_size.push([size as f64, per_second(&record)]);
            amplification.push([size as f64, record.waf.unwrap_or(f64::NAN)]);
            let figure = |what: &str, ours| {
                let what = format!("{name}, random writes of {}: {what}", Bytes(size));
                Figure::beside(what, None, ours)
            };
            figures.push(figure("per second", per_second(&record)));
            figures.push(figure("WAF", record.waf.unwrap_or(f64::NAN)));
        }
        iops.push(PlotLine::ours(name, by_size));
        waf.push(PlotLine::ours(name, amplification));
        for (score, size) in [FOR_IOPS, FOR_BANDWIDTH].into_iter().enumerate() {
            let mut values = Vec::new();
            for (step, read) in READ_SHARES.into_iter().enumerate() {
                let step = index * runs + SIZES.len() + score * READ_SHARES.len() + step;
                let mut progress = part(progress, step, steps);
                let record = simulate(controller, size, read, options.seed, &mut progress)?;
                let (unit, value) = match size {
                    FOR_IOPS => ("per second", per_second(&record)),
                    _ => ("MB/s", mb_per_s(&record)),
                };
                values.push(value);
                let what = format!("{name}, {} at reads/writes {}: {unit}", Bytes(size), mix(read));
                figures.push(Figure::beside(what, None, value));
            }
            let what = format!("{name}, {}: root of the mean square of the five", Bytes(size));
            figures.push(Figure::beside(what, None, root_mean_square(&values)));
        }
    }
    let size = || PlotAxis::logarithmic("transfer, bytes");
    let plot = |title: &str, y: &str, lines| Plot {
        title: title.to_owned(),
        caption: "Random writes, 64 in flight, on a drive that was filled before.".into(),
        x: size(),
        y: PlotAxis::logarithmic(y),
        lines,
    };
    let plots = vec![
        plot("Writes per second by size", "writes per second", iops),
        plot("Write amplification by size", "WAF", waf),
    ];
    Ok((figures, plots))
}

fn simulate(
    (_, stack, settings): (&str, &str, &[&str]),
    size: u64,
    read: f64,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<RunRecord, Error> {
    let overrides: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
    // Rewriting is steady at once; garbage collection when the spare is used up.
    let limit = match stack {
        "raw:sata-a" => Limit::Requests(2048),
        _ if read < 1.0 => Limit::BytesWritten(Bytes(3 * CAPACITY.0)),
        _ => Limit::Requests(16_384),
    };
    let job = PatternJob {
        overrides: &overrides,
        read_share: read,
        seed,
        ..PatternJob::new(stack, CAPACITY, Bytes(size), limit)
    };
    job.run(progress)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4 KiB in erase blocks of 256 KiB: 64 times as much is written. Whole blocks cost nothing more, in any of the
    /// three; and erasing later is faster than erasing first.
    #[test]
    fn small_writes_cost_a_block_each_and_whole_blocks_nothing() {
        let run =
            |index: usize, size| simulate(CONTROLLERS[index], size, 0.0, 1, &mut |_| {}).unwrap();
        for index in [0, 1] {
            assert_eq!(run(index, 4096).waf, Some(64.0));
            assert_eq!(run(index, 1 << 18).waf, Some(1.0));
        }
        let [first, later] = [0, 1].map(|index| per_second(&run(index, 4096)));
        assert!(later >= first, "{later} and {first}");
        assert!(run(2, 4096).waf.unwrap() < 4.0, "garbage collection with a quarter of spare");
        assert!(per_second(&run(2, 4096)) > 5.0 * later);
    }
}
