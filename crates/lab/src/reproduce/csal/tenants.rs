//! Four tenants at once, each with a load and a depth of its own: on zones under the log, on a conventional drive.

use thermocline_types::{Bytes, Op};
use thermocline_workload::synthetic::Pattern;

use super::bed::{Bed, DEPTH, UNUSED_BY_CSAL, capacity};
use super::rows::job;
use super::{Figure, part};
use crate::jobs::{JobSpan, JobSpec, Length, Share};
use crate::{Error, Stack};

/// The document's tenants, 128 requests of each in flight.
const TENANTS: [(&str, JobSpec); 4] = [
    ("4 KiB sequential", job(Pattern::Sequential, 4, 0.0)),
    ("4 KiB random", job(Pattern::Uniform, 4, 0.0)),
    ("4 KiB Zipf 0.8", job(Pattern::Zipf { theta: 0.8 }, 4, 0.0)),
    ("4 KiB Zipf 1.2", job(Pattern::Zipf { theta: 1.2 }, 4, 0.0)),
];

/// The drives' capacities in bytes: 3,616 zones of 1077 MiB, and 7.68 TB.
const CAPACITIES: [f64; 2] = [4_083_607_928_832.0, 7.68e12];
/// What of the conventional drive a volume leaves that leaves [`UNUSED_BY_CSAL`] of the zoned one.
const UNUSED_OF_LARGER: f64 = (1.0 + UNUSED_BY_CSAL) * CAPACITIES[1] / CAPACITIES[0] - 1.0;

/// Alone, without the merging in its buffer: that is the product's and would absorb more of a volume this small.
const CONVENTIONAL: &str = "raw:sn640-8tb,buffer.merge=false";

/// What they run on.
struct Side {
    name: &'static str,
    /// How much of it is unused.
    unused: f64,
    stack: &'static str,
    /// Requests of the sequential tenant in flight.
    sequential: u32,
}

const fn side(name: &'static str, unused: f64, stack: &'static str) -> Side {
    Side { name, unused, stack, sequential: DEPTH }
}

const NO_CACHE: &str = "log:zn540-4tb,pool.write_cache=off";

/// The last two show why the sequential tenant is slow on zones without a write cache: classes take turns there.
const SIDES: [Side; 8] = [
    side(
        "ZN540 4 TB behind the tier",
        UNUSED_BY_CSAL,
        "tier:p5800x+zn540-4tb,pool.write_cache=off",
    ),
    side("ZN540 4 TB under the log", UNUSED_BY_CSAL, "log:zn540-4tb"),
    side("ZN540 4 TB, no write cache", UNUSED_BY_CSAL, NO_CACHE),
    side("SN640 7.68 TB, a volume of the same size", UNUSED_OF_LARGER, CONVENTIONAL),
    side("SN640 7.68 TB, as full", UNUSED_BY_CSAL, CONVENTIONAL),
    side("SN640 7.68 TB, full", 0.0, CONVENTIONAL),
    side(
        "ZN540 4 TB, no write cache, one class for all that hosts write",
        UNUSED_BY_CSAL,
        "log:zn540-4tb,pool.write_cache=off,pool.placement=sepgc",
    ),
    Side {
        sequential: 160,
        ..side(
            "ZN540 4 TB, no write cache, 160 of the sequential in flight",
            UNUSED_BY_CSAL,
            NO_CACHE,
        )
    },
];

/// WAF, speed and latency of each tenant on each side. The document's own figures of this are not in what we hold.
pub fn figures(bed: &Bed, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    for (step, side) in SIDES.iter().enumerate() {
        let share = share(bed, side, &mut part(progress, step, SIDES.len()))?;
        let name = |who: &str, what: &str| format!("four tenants, {}: {who}, {what}", side.name);
        for (job, (who, _)) in TENANTS.iter().enumerate() {
            let latency = share.latency(job, Op::Write).and_then(|latency| latency.p99);
            let all = [
                ("WAF", share.waf_of(job)),
                ("MB/s", Some(share.written_per_second[job] / 1e6)),
                ("p99 of its writes, ms", latency.map(|ns| ns as f64 / 1e6)),
            ];
            let known = all.into_iter().filter_map(|(what, ours)| Some((what, ours?)));
            figures.extend(known.map(|(what, ours)| Figure::ours(name(who, what), ours)));
        }
        figures.push(Figure::ours(name("all", "WAF"), share.waf()));
        let written = share.written_per_second.iter().sum::<f64>();
        figures.push(Figure::ours(name("all", "MB/s"), written / 1e6));
        let nobodys = share.nobodys().filter(|&bytes| bytes > 0.0);
        figures.extend(
            nobodys.map(|bytes| {
                Figure::ours(name("nobody", "media bytes per byte of the host"), bytes)
            }),
        );
    }
    Ok(figures)
}

fn share(bed: &Bed, side: &Side, progress: &mut dyn FnMut(f64)) -> Result<Share, Error> {
    let mut jobs = TENANTS.map(|(_, job)| job);
    jobs[0].depth = side.sequential;
    let written = |times: f64| JobSpan::Written(Bytes((bed.volume.as_f64() * times) as u64));
    let length = Length { before: written(2.0), ..Length::of(written(0.5)) };
    let capacity = capacity(bed.volume, side.unused);
    bed.run_for(&Stack::parse(side.stack, &[])?, capacity, &jobs, length, progress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_tenants_sum_to_the_whole_and_the_log_keeps_what_is_in_order_apart() {
        let bed = Bed::of(Bytes::mib(512), 1);
        let run = |side: &Side| share(&bed, side, &mut |_| {}).unwrap();
        let [zones, full] = [run(&SIDES[1]), run(&SIDES[5])];
        for share in [&zones, &full] {
            let bytes = |job: usize| share.waf_of(job).unwrap() * share.each[job].written as f64;
            let all: f64 = (0..4).map(bytes).sum();
            let host = share.counts.host_written as f64;
            let nobodys = share.nobodys().unwrap_or(0.0) * host;
            let media = share.counts.drive.media_total as f64;
            assert!(((all + nobodys) / media - 1.0).abs() < 1e-9, "{all} and {nobodys} of {media}");
        }
        // Sequentially written data is invalidated sequentially: only blocks mixed with other tenants' blocks are
        // relocated.
        let [on_zones, on_full] = [&zones, &full].map(|share| share.waf_of(0).unwrap());
        assert!(on_zones + 0.3 < on_full, "{on_zones} on zones, {on_full} on the drive");
        let random = zones.waf_of(1).unwrap();
        assert!(random > on_zones + 0.2, "{random} and {on_zones}");
    }
}
