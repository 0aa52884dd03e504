//! An LSM store of the document's size: what the write amplification of a drive without overprovisioning depends on.

use thermocline_types::Bytes;
use thermocline_workload::synthetic::{self, Generator, Limit, Spec};

use super::micron_zones::ZONED;
use super::{Figure, Options, part};
use crate::{Error, Input, Prefill, Prepared, Settings, Stack, run};

/// Published: cassandra-stress on the conventional drive and on zones. YCSB had 2.68 and 1.13.
const THEIRS: f64 = 3.09;
const THEIR_ZONES: f64 = 1.13;

/// Host bytes of their job.
const HOST: u64 = 300_000_000_000;
/// Superblocks of 16 dies with two planes of 9 MiB (profile micron2300).
const UNIT: u64 = Bytes::mib(288).0;
/// Zones of theirs have some 400 MB.
const ZONE: u64 = Bytes::mib(400).0;
/// Units beyond the capacity: open for host and survivors, reserve, some to spare.
const EXTRA_UNITS: u64 = 6;
/// Granule of all requests, and of the drive's map: smaller ones give the same figures in more time.
const BLOCK: u64 = Bytes::kib(16).0;
/// By how much `--quick` divides all sizes.
const QUICK: u64 = 16;

/// A store and a drive. Chosen, not measured, so that both are of the document's order: 70 GiB of records, of which 60
/// are loaded, on a volume of 144 GiB.
#[derive(Clone, Debug)]
struct Case {
    strategy: &'static str,
    /// Size of the volume, which is all of the drive.
    volume: u64,
    allocator: &'static str,
    extent: u64,
    /// Share of the bytes written, in per cent.
    metadata: u32,
    discard: bool,
    /// Whether survivors have an open unit of their own.
    apart: bool,
    extra_units: u64,
    prefill: Prefill,
    slc: SlcKnob,
}

/// The SLC cache of a drive with three bits a cell, sized as a part of the volume or of the free space.
#[derive(Clone, Copy, Debug)]
enum SlcKnob {
    None,
    /// A static cache in dedicated units.
    Static {
        part: u64,
    },
    /// The static cache, plus half of the free space.
    Dynamic {
        part: u64,
    },
}

/// Static part of the cache: 2 % of the volume. Chosen: client drives have 1 to 3 %.
const CACHE_PART: u64 = 50;

const BASE: Case = Case {
    strategy: "tiers",
    volume: Bytes::gib(144).0,
    allocator: "next",
    extent: Bytes::mib(32).0,
    metadata: 2,
    discard: false,
    apart: true,
    extra_units: EXTRA_UNITS,
    prefill: Prefill::Sequential,
    slc: SlcKnob::None,
};

/// Every combination of what the document leaves open. Where discards are obeyed, the drive begins empty, since making
/// a file system discards its volume.
fn grid() -> Vec<Case> {
    let mut cases = Vec::new();
    for (discard, prefill) in [(false, Prefill::Sequential), (true, Prefill::None)] {
        for apart in [true, false] {
            for metadata in [0, 2] {
                for extent in [Bytes::mib(1).0, Bytes::mib(32).0] {
                    for allocator in ["first", "next", "roam"] {
                        let choice = Case { allocator, extent, metadata, discard, apart, ..BASE };
                        cases.push(Case { prefill, ..choice });
                    }
                }
            }
        }
    }
    cases
}

/// Further terms of the figure, varied one at a time.
fn others() -> Vec<(&'static str, Case)> {
    let volume = Bytes::gib(168).0;
    let (slc, obeyed) = (SlcKnob::Static { part: CACHE_PART }, (true, Prefill::None));
    let (discard, prefill) = obeyed;
    vec![
        (
            "by the rule: metadata twice, an SLC cache of 2 % that is folded",
            Case { metadata: 4, slc, ..BASE },
        ),
        ("drive and volume of 168 GiB", Case { volume, ..BASE }),
        ("spare of four units", Case { extra_units: 4, ..BASE }),
        ("spare of twelve units", Case { extra_units: 12, ..BASE }),
        ("drive new", Case { prefill: Prefill::None, ..BASE }),
        ("deletions discarded, the volume not", Case { discard: true, ..BASE }),
        ("the same, first fit", Case { discard: true, allocator: "first", ..BASE }),
        ("levels", Case { strategy: "levels", ..BASE }),
        ("time windows", Case { strategy: "windows", ..BASE }),
        ("an SLC cache of 2 % that is folded", Case { slc, ..BASE }),
        ("the same, discards obeyed", Case { slc, discard, prefill, ..BASE }),
        (
            "the same, and half of what is not filled as cache",
            Case { slc: SlcKnob::Dynamic { part: CACHE_PART }, discard, prefill, ..BASE },
        ),
    ]
}

/// How much smaller than the document everything is.
#[derive(Clone, Copy)]
struct Scale {
    divisor: u64,
    seed: u64,
}

impl Scale {
    fn bytes(self, bytes: u64) -> String {
        (bytes / self.divisor).to_string()
    }

    /// The store of `case` on blocks of `block` bytes, and how much it writes.
    fn input(self, case: &Case, block: u64) -> Result<Input, Error> {
        let records = match case.strategy {
            "windows" => vec![("ttl", Bytes::gib(70).0), ("window", Bytes::gib(4).0)],
            _ => vec![("keys", Bytes::gib(70).0), ("load", Bytes::gib(60).0)],
        };
        let loaded = if case.strategy == "windows" { 0 } else { Bytes::gib(60).0 };
        let sizes = [
            ("memtable", Bytes::mib(256).0),
            ("log.segment", Bytes::mib(32).0),
            ("tier.small", Bytes::mib(50).0),
            ("level.base", Bytes::mib(1024).0),
            ("level.table", Bytes::mib(160).0),
            ("fs.extent", case.extent),
            ("fs.turn", Bytes::mib(4).0),
        ];
        let sizes = records.into_iter().chain(sizes);
        let sizes = sizes.map(|(key, bytes)| format!("{key}={}", self.bytes(bytes)));
        let Case { strategy, allocator, metadata, .. } = case;
        let discard = if case.discard { "on" } else { "off" };
        let text = format!(
            "lsm:strategy={strategy},fs.block={block},fs.node={BLOCK},fs.allocator={allocator},fs.metadata=0.{metadata:02},\
             fs.discard={discard},{}",
            sizes.collect::<Vec<_>>().join(",")
        );
        let limit = Limit::BytesWritten(Bytes((HOST + loaded) / self.divisor / block * block));
        let span = Bytes(case.volume / self.divisor);
        let options =
            synthetic::Options { seed: self.seed, ..synthetic::Options::new(span, limit) };
        Ok(Input::Synthetic { spec: text.parse::<Spec>()?, options })
    }

    /// WAF of the whole job on a conventional drive.
    fn conventional(self, case: &Case, progress: &mut dyn FnMut(f64)) -> Result<f64, Error> {
        let op = (case.extra_units * UNIT) as f64 / case.volume as f64;
        let mut overrides = vec![
            format!("device.op={op}"),
            format!("device.unit={}", UNIT / self.divisor),
            format!("device.mapping_unit={BLOCK}"),
            format!("device.gc.separate={}", case.apart),
        ];
        overrides.extend(self.cache(case));
        let stack = Stack::parse("raw:ideal", &overrides)?;
        self.waf(&stack, case, BLOCK, progress)
    }

    /// Settings of the cache of `case`.
    fn cache(self, case: &Case) -> Vec<String> {
        let (part, dynamic) = match case.slc {
            SlcKnob::None => return Vec::new(),
            SlcKnob::Static { part } => (part, 0.0),
            SlcKnob::Dynamic { part } => (part, 0.5),
        };
        // The cache is cut as the capacity is, so that the product has to be as large as the volume.
        vec![
            format!("device.capacity={}", case.volume / self.divisor),
            format!("device.slc.capacity={}", case.volume / self.divisor / part),
            format!("device.slc.dynamic={dynamic}"),
            "device.slc.bits=3".to_owned(),
        ]
    }

    /// The same on zones under the log, which has the drive's spare units as well.
    fn zones(self, case: &Case, progress: &mut dyn FnMut(f64)) -> Result<f64, Error> {
        let op = (case.extra_units * UNIT) as f64 / case.volume as f64;
        let overrides = [
            format!("device.op={op}"),
            format!("device.unit={}", ZONE / self.divisor),
            "pool.placement=sepgc".to_owned(),
            "pool.victim=cost-benefit".to_owned(),
        ];
        let stack = Stack::parse("log:ideal", &overrides)?;
        self.waf(&stack, case, Bytes::BLOCK.0, progress)
    }

    fn waf(
        self,
        stack: &Stack,
        case: &Case,
        block: u64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<f64, Error> {
        let input = self.input(case, block)?;
        let mut prepared = Prepared::new(input, Some(case.prefill), Bytes(block), None)?;
        let capacity = Some(Bytes(case.volume / self.divisor));
        let settings = Settings { capacity, seed: self.seed, ..Settings::default() };
        let record = run(&mut prepared, stack, &settings, progress)?;
        record.waf.ok_or_else(|| Error::Settings("nothing was written".into()))
    }

    /// What the store itself does, without a drive: write amplification, and how much of the volume it has at most.
    fn store(self, case: &Case) -> Result<(f64, f64), Error> {
        let Input::Synthetic { spec, options } = self.input(case, BLOCK)? else {
            unreachable!("it is generated")
        };
        let mut generator = Generator::new(&spec, &options)?;
        let mut batch = Vec::new();
        loop {
            thermocline_workload::Source::fill(&mut generator, &mut batch)?;
            if batch.is_empty() {
                break;
            }
        }
        let facts = generator.lsm_facts().unwrap_or_default();
        let peak = generator.room().map_or(0.0, |room| room.peak.as_f64());
        Ok((facts.write_amplification(), peak / options.span.as_f64()))
    }
}

/// The range of figures over what the document leaves open.
pub fn range(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error> {
    let scale = Scale { divisor: if options.quick { QUICK } else { 1 }, seed: options.seed };
    let (mut grid, mut others) = (grid(), others());
    // The document decides none of the combinations: the result is their range, and none is a point.
    let few = options.points || options.quick;
    if few {
        grid.retain(|case| options.quick && is_compared(case));
        others.clear();
    }
    // The log takes as long as a dozen of the others.
    let steps = grid.len() + others.len() + 12;
    let mut figures = if few { Vec::new() } else { store(scale)? };
    let mut all = Vec::new();
    for (step, case) in grid.iter().enumerate() {
        let ours = scale.conventional(case, &mut part(progress, step, steps))?;
        all.push((case.discard, ours));
        figures.push(Figure::beside(described(case, scale), Some(THEIRS), ours));
    }
    for (step, (what, case)) in others.iter().enumerate() {
        let ours = scale.conventional(case, &mut part(progress, grid.len() + step, steps))?;
        let what = format!("300 GB, as marked *, but {what}: WAF");
        figures.push(Figure::beside(what, Some(THEIRS), ours));
    }
    let ends = [(false, "ignored"), (true, "obeyed")];
    for (discard, name) in ends.into_iter().filter(|_| !few) {
        let some = all.iter().filter(|(obeyed, _)| *obeyed == discard).map(|(_, waf)| *waf);
        let least = some.clone().fold(f64::INFINITY, f64::min);
        let most = some.fold(0.0, f64::max);
        for (what, ours) in [("least", least), ("most", most)] {
            let what = format!("300 GB, the result, discards {name}, {what} of 24: WAF");
            figures.push(Figure::beside(what, Some(THEIRS), ours));
        }
    }
    let zoned = Case { discard: true, prefill: Prefill::None, ..BASE };
    let last = (steps - 12) as f64 / steps as f64;
    let mut progress = |share| progress(last + share * (1.0 - last));
    let ours = scale.zones(&zoned, &mut progress)?;
    let what = "300 GB, as marked *, zones of 400 MiB under the log, discards obeyed: WAF";
    figures.push(Figure::new(what, THEIR_ZONES, ours, ZONED));
    Ok(figures)
}

fn store(scale: Scale) -> Result<Vec<Figure>, Error> {
    let (amplification, peak) = scale.store(&BASE)?;
    let what = |what: &str| format!("300 GB, the store marked * itself: {what}");
    Ok(vec![
        Figure::ours(what("bytes to files for each byte written to it"), amplification),
        Figure::ours(what("share of the volume in use, at most"), peak),
    ])
}

/// Whether `case` is the base case of the comparisons, with or without discards.
fn is_compared(case: &Case) -> bool {
    let Case { allocator, extent, metadata, apart, .. } = *case;
    let base = (BASE.allocator, BASE.extent, BASE.metadata, BASE.apart);
    (allocator, extent, metadata, apart) == base
}

/// A case in words; `*` marks the base case of all comparisons.
fn described(case: &Case, scale: Scale) -> String {
    format!(
        "300 GB{}, discards {}, survivors {}, metadata {} %, extents of {}, {} fit: WAF",
        if is_compared(case) && !case.discard { " *" } else { "" },
        if case.discard { "obeyed" } else { "ignored" },
        if case.apart { "apart" } else { "with host writes" },
        case.metadata,
        Bytes(case.extent / scale.divisor),
        case.allocator,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Scale = Scale { divisor: 64, seed: 1 };

    fn waf(case: &Case) -> f64 {
        SMALL.conventional(case, &mut |_| {}).unwrap()
    }

    #[test]
    fn one_case_is_marked_and_all_differ() {
        let mut what: Vec<String> = grid().iter().map(|case| described(case, SMALL)).collect();
        assert_eq!(what.iter().filter(|what| what.contains('*')).count(), 1);
        what.sort();
        what.dedup();
        assert_eq!(what.len(), 48);
    }

    #[test]
    fn folding_is_a_write_more_less_what_dies_in_the_cache() {
        let slc = SlcKnob::Static { part: CACHE_PART };
        let bare = waf(&Case { discard: true, prefill: Prefill::None, ..BASE });
        let cached = waf(&Case { discard: true, prefill: Prefill::None, slc, ..BASE });
        assert!(cached - bare > 0.5 && cached - bare < 1.05, "{bare} and {cached}");
    }

    #[test]
    fn discards_are_worth_more_than_anything_else_and_a_full_drive_costs() {
        let ignored = waf(&BASE);
        let obeyed = waf(&Case { discard: true, ..BASE });
        assert!(obeyed < 1.2 && ignored > 1.5, "{ignored} and {obeyed}");
        assert!(waf(&Case { prefill: Prefill::None, ..BASE }) < ignored);
        assert!(waf(&Case { apart: false, ..BASE }) > ignored);
    }

    /// All requests are whole granules, so a finer map changes nothing.
    #[test]
    fn the_granule_of_the_map_makes_no_difference() {
        let case = Case { metadata: 2, ..BASE };
        let op = (case.extra_units * UNIT) as f64 / case.volume as f64;
        let overrides = |mapping: u64| {
            [
                format!("device.op={op}"),
                format!("device.unit={}", UNIT / SMALL.divisor),
                format!("device.mapping_unit={mapping}"),
                "device.gc.separate=true".to_owned(),
            ]
        };
        let by = |mapping| {
            let stack = Stack::parse("raw:ideal", &overrides(mapping)).unwrap();
            SMALL.waf(&stack, &case, BLOCK, &mut |_| {}).unwrap()
        };
        let (coarse, fine) = (by(BLOCK), by(4096));
        assert!((coarse / fine - 1.0).abs() < 0.01, "{coarse} and {fine}");
    }
}
