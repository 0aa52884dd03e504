//! A client drive that lives by its SLC cache.

use thermocline_record::RunRecord;
use thermocline_types::Bytes;
use thermocline_workload::synthetic::Limit;

use super::job::PatternJob;
use super::point::{REVIEWS, Reference};
use super::{Figure, Options, part};
use crate::{Error, Prefill, Stack};

const STACK: &str = "raw:intel660p";
/// By how much the drive is smaller than the product; `--quick` four times more.
const DIVISOR: u64 = 128;
/// Published: MB/s in the cache, and once it is full; GB of the cache of an empty drive.
const BURST: f64 = 1800.0;
const AFTER: f64 = 100.0;
const LARGEST: f64 = 140.0;

/// What is left once the cache is full.
const FULL: Reference =
    Reference::new(REVIEWS, "Intel SSD 660p, in order, SLC cache full: written", "MB/s");

/// What becomes of writes when the cache is full, and how much of the drive is written in order: where they go past it,
/// only as far as nothing has to be folded to make room.
const WAYS: [(&str, &str, f64); 2] = [("folded", "fold", 1.0), ("past it", "direct", 0.5)];

/// The drive cut down.
struct Scale {
    capacity: Bytes,
    product: Bytes,
    seed: u64,
}

impl Scale {
    fn new(options: &Options) -> Result<Scale, Error> {
        let product = Stack::parse(STACK, &[])?.profile.capacity;
        let divisor = DIVISOR * if options.quick { 4 } else { 1 };
        let capacity = Bytes(product.0 / divisor / (1 << 20) * (1 << 20));
        Ok(Scale { capacity, product, seed: options.seed })
    }

    /// Writes of 128 KiB in order to a share of an erased drive.
    fn in_order(
        &self,
        full: &str,
        share: f64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<RunRecord, Error> {
        let writes = self.capacity.as_f64() * share / Bytes::kib(128).as_f64();
        let limit = Limit::Writes(writes as u64);
        let overrides = [format!("device.slc.full={full}")];
        let job = PatternJob::new(STACK, self.capacity, Bytes::kib(128), limit);
        PatternJob {
            overrides: &overrides,
            pattern: "seq",
            prefill: Prefill::None,
            queue_depth: 32,
            seed: self.seed,
            ..job
        }
        .run(progress)
    }

    /// 4 KiB at random on a full drive.
    fn random(&self, full: &str, progress: &mut dyn FnMut(f64)) -> Result<RunRecord, Error> {
        let limit = Limit::BytesWritten(Bytes(2 * self.capacity.0));
        let overrides = [format!("device.slc.full={full}"), "device.buffer.size=64KiB".to_owned()];
        let job = PatternJob::new(STACK, self.capacity, Bytes::kib(4), limit);
        PatternJob { overrides: &overrides, queue_depth: 32, seed: self.seed, ..job }.run(progress)
    }

    /// 4 KiB by Zipf over a tenth of the drive, with time in between.
    fn at_a_pace(&self, idle: bool, progress: &mut dyn FnMut(f64)) -> Result<RunRecord, Error> {
        let span = Bytes(self.capacity.0 / 10 / 4096 * 4096);
        let limit = Limit::BytesWritten(Bytes(4 * span.0));
        let mut overrides = vec!["device.buffer.size=64KiB".to_owned()];
        if idle {
            overrides.extend(
                ["fold_idle_ms=10", "fold_mb_per_s=100"].map(|key| format!("device.slc.{key}")),
            );
        }
        let job = PatternJob::new(STACK, self.capacity, Bytes::kib(4), limit);
        let (pattern, rate) = ("zipf:0.99", Some(20.0));
        PatternJob { overrides: &overrides, span, pattern, rate, seed: self.seed, ..job }
            .run(progress)
    }

    /// Bytes of the cut drive as GB of the product.
    fn gb(&self, bytes: u64) -> f64 {
        bytes as f64 * self.product.as_f64() / self.capacity.as_f64() / 1e9
    }
}

/// The rate between two shares of the run, MB/s.
fn rate(record: &RunRecord, from: f64, to: f64) -> f64 {
    let all = &record.series;
    let at = |share: f64| {
        let place = (share * all.len() as f64) as usize;
        place.checked_sub(1).map_or((0, 0.0), |at| (all[at].host_bytes, all[at].seconds))
    };
    let ((begun, since), (done, until)) = (at(from), at(to));
    (done - begun) as f64 / (until - since) / 1e6
}

/// A drive whose cache fills up, is full, or has time to empty.
pub fn cache(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let scale = Scale::new(options)?;
    let mut figures = Vec::new();
    let steps = if options.points { 1 } else { 6 };
    for (step, (name, full, share)) in WAYS.into_iter().enumerate().take(steps) {
        let record = scale.in_order(full, share, &mut part(progress, step, steps))?;
        let what = |what: &str| format!("in order, erased before, {name} when full: {what}");
        let after = rate(&record, 0.5, 1.0);
        figures.push(Figure::beside(what("MB/s at first"), Some(BURST), rate(&record, 0.0, 0.05)));
        figures.push(match full {
            "fold" => Figure::new(what("MB/s later"), AFTER, after, FULL),
            _ => Figure::beside(what("MB/s later"), Some(AFTER), after),
        });
        figures.push(Figure::ours(what("WAF"), record.waf.unwrap_or(f64::NAN)));
        if full == "direct" {
            let gb = scale.gb(record.media_bytes_written.in_slc_mode.unwrap_or(0));
            figures.push(Figure::beside(what("GB that the cache took"), Some(LARGEST), gb));
        }
    }
    if options.points {
        return Ok(figures);
    }
    for (step, (name, full, _)) in WAYS.into_iter().enumerate() {
        let record = scale.random(full, &mut part(progress, 2 + step, steps))?;
        let what = |what: &str| format!("random 4 KiB, full drive, {name} when full: {what}");
        figures.push(Figure::ours(what("MB/s"), rate(&record, 0.5, 1.0)));
        figures.push(Figure::ours(what("WAF"), record.waf_steady.unwrap_or(f64::NAN)));
    }
    for (step, (name, idle)) in
        [("folded when full", false), ("folded when idle", true)].into_iter().enumerate()
    {
        let record = scale.at_a_pace(idle, &mut part(progress, 4 + step, steps))?;
        let what = format!("Zipf 4 KiB at a pace, {name}: WAF");
        figures.push(Figure::ours(what, record.waf_steady.unwrap_or(f64::NAN)));
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_is_a_cliff_and_folding_is_a_write_more() {
        let options = Options { seed: 1, traces: None, quick: true, points: false };
        let figures = cache(&options, &mut |_| {}).unwrap();
        let of = |what: &str| {
            let found = figures.iter().find(|figure| figure.what == what);
            found.unwrap_or_else(|| panic!("{what}: {figures:?}")).ours
        };
        let order = |what: &str| of(&format!("in order, erased before, folded when full: {what}"));
        assert!(order("MB/s at first") > 10.0 * order("MB/s later"));
        // Only what the cache still holds in the end is not folded.
        assert!((1.85..2.0).contains(&order("WAF")), "{}", order("WAF"));
        let past = of("in order, erased before, past it when full: MB/s later");
        assert!(past > 1.1 * order("MB/s later"), "{past}");
        // x = 12 + (768 - x) 0.667 / 4 GB.
        let took = of("in order, erased before, past it when full: GB that the cache took");
        assert!((took / 120.0 - 1.0).abs() < 0.05, "{took}");
        let paced = |when: &str| of(&format!("Zipf 4 KiB at a pace, folded when {when}: WAF"));
        assert!(paced("idle") > 1.1 * paced("full"), "{} {}", paced("idle"), paced("full"));
    }
}
